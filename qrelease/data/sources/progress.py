"""The progress bar that readers of files show."""

from typing import Any

from qrelease._util.progress import progress


def reading_bar() -> Any:
    """A bar that counts the records read so far."""
    return progress(desc="reading", unit=" rows", unit_scale=True)
