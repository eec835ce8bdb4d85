"""What a user brings to sample and aggregate, in a file that imports little, as it is run in processes of its own."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def slope(frame: Mapping[str, Any]) -> float:
    """The coefficient of y by x."""
    return float(np.polyfit(frame["x"], frame["y"], 1)[0])
