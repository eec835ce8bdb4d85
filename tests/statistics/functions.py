"""Functions of a block, for sample-and-aggregate: they run in processes of their own."""

import time

import numpy as np


def average(frame):
    """Of x."""
    return np.nanmean(frame["x"])


def slope(frame):
    """Of y by x, least squares."""
    both = ~np.isnan(frame["x"])
    return np.polyfit(frame["x"][both], frame["y"][both], 1)[0]


def sleeps(frame):
    """Too long."""
    time.sleep(60)
    return 1.0


def grows(frame):
    """Beyond its memory."""
    return float(np.ones(1 << 30).sum())


def fails(frame):
    """Where there is a large x; else it counts how often it was called, which is always the first time."""
    if np.nanmax(frame["x"]) > 15:
        raise ValueError(frame)
    fails.calls = getattr(fails, "calls", 0) + 1
    return fails.calls
