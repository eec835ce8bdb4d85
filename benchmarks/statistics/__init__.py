"""Errors, refusals and speed of the statistics: `python -m benchmarks.statistics`."""
