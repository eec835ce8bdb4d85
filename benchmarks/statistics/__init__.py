"""Errors, refusals and speed of the statistics: `python -m benchmarks.statistics`."""

import os

# Matrices here are small: threads of BLAS and OpenMP would wait for each other for most of the time. Before numpy.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
