"""The nearest distribution to numbers that are not quite one."""

import numpy as np

from qrelease._util.typing import Floats


def nearest_distribution(shares: Floats) -> Floats:
    """The distribution (n,) with the least sum of squared differences from numbers that sum to about 1.

    All of them less the same number, and 0 where that is negative (Duchi, Shalev-Shwartz, Singer & Chandra 2008,
    *Efficient projections onto the l1-ball*, Figure 1).

    Examples
    --------
    >>> nearest_distribution(np.array([0.7, 0.5, -0.2])).round(2).tolist()
    [0.6, 0.4, 0.0]
    """
    falling = np.sort(shares)[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, len(falling) + 1)
    found: Floats = np.maximum(shares - over[np.flatnonzero(falling > over)[-1]], 0.0)
    return found
