"""Words of 64 bits, mixed as SplitMix64 does (Steele, Lea and Flood, 2014)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

MIX_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each word mixed as SplitMix64 does, (n,): equal words alone give equal ones, and any bit changes all of them."""
    for shift, factor in zip((30, 27), MIX_FACTORS, strict=True):
        words = words ^ (words >> np.uint64(shift))
        words *= np.uint64(factor)
    return words ^ (words >> np.uint64(31))
