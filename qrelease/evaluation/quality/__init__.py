"""Measures of the quality of a synthetic table; not private, except `private_score`."""
