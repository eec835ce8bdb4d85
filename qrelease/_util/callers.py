"""`level`: where a warning belongs, at the line of the user's own that led to it."""

import sys
from types import FrameType


def level() -> int:
    """The `stacklevel` for a warning of the function that calls this: the first caller outside of the package."""
    frame: FrameType | None = sys._getframe(1)
    found = 1
    while frame is not None and frame.f_back is not None and _inside(frame):
        frame, found = frame.f_back, found + 1
    return found


def _inside(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "qrelease"
