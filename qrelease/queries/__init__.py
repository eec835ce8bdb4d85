"""Linear queries, workloads of them, and their sensitivities."""
