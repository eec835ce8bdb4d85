"""Exact integer marginals: the plan by which they are read in few passes, and the kernels that do."""
