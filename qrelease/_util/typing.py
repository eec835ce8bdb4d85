"""The array types that the package's signatures are written in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.floating[Any]]
"""Of either precision."""
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
"""Random bits, 64 of them an entry."""
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.unsignedinteger[Any]]
"""Cells of one column, counted from 0, in the narrowest type that holds them."""
CodeColumns = Sequence[npt.NDArray[np.integer[Any]]]
"""The cells of every record, one array (n,) a column."""
Axes = tuple[int, ...]
"""Columns of a domain, by number, ascending."""
