"""The progress bar that readers of files show."""

from typing import Any

from qrelease._util.progress import progress


def reading_bar(total: int | None = None) -> Any:
    """A bar that counts the records read so far; of how many, and the time left, where `total` says it.

    Only of what its holder looks at, such as a draft: in a release the number of records may be private.
    """
    return progress(desc="reading", unit=" rows", unit_scale=True, total=total)
