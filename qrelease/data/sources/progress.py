"""The progress bar that readers of files show on a terminal."""

from typing import Any


def reading_bar() -> Any:
    """A bar that counts the records read so far; it shows only on a terminal, and goes when it is done."""
    from tqdm import tqdm  # on first need: whoever reads a public schema does not load it

    return tqdm(desc="reading", unit=" rows", unit_scale=True, disable=None, leave=False)
