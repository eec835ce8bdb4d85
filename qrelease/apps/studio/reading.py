"""Reading private records, with error messages that contain none of their values.

The command line shows the data holder the value that a schema does not list. A page is seen by whoever looks over a
shoulder or gets a screenshot, so it names the line and the column, and the rest is made of texts of this module alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from qrelease.errors import InvalidInput, OutOfMemory, QReleaseError

REASONS: Final = (
    ("categories", "holds a value that is none of the schema's categories"),
    ("is not within", "holds a value beyond the schema's limits"),
    ("values, the header has", "has another number of values than the header"),
    ("needs a header row", "is empty; it needs a header row"),
    ("appears twice", "has a column twice"),
    ("a column of the schema (", "has no column of the schema in its first line"),
    (
        "looks like a record",
        "has a first line that looks like a record: write the names of the columns above it; or, where it has these,"
        " draft with `qrelease schema draft --named`, review that, and choose it as the schema",
    ),
    ("columns seem to be separated by", "separates its columns by another mark than a comma; save it with commas"),
    ("is not UTF-8", "is not UTF-8 text; save it as UTF-8"),
    ("needs pyarrow", "needs pyarrow: pip install 'qrelease[parquet]'"),
    ("no records to draft a schema from", "has no records that a schema can be drafted from"),
    ("no column to draft a schema from", "has no column that a schema can be drafted from"),
    ("has no column", "lacks a column that the schema has"),
    ("has no person column", "lacks the column that says whose records they are"),
    ("Permission denied", "may not be read"),
)
"""What a message of a reader has in it, and what is said instead."""

_OTHERWISE: Final = "cannot be read as the schema says"


@contextmanager
def without_values(data: Path, columns: Sequence[str]) -> Iterator[None]:
    """Turn what is raised while records are read into an `InvalidInput` that shows none of their values.

    columns  names that may be told: those of the schema, or of the header
    """
    try:
        yield
    except OutOfMemory:
        raise InvalidInput(f"{data.name} does not fit in the memory that is free") from None
    except (QReleaseError, OSError) as error:
        raise InvalidInput(_told(str(error), data, columns)) from None


def _told(message: str, data: Path, columns: Sequence[str]) -> str:
    """One line of fixed texts, with the line, the row and the column that a message names."""
    place = re.match(re.escape(str(data)) + r" line (\d+):|row (\d+) \(from 0\):", message)
    line = "" if place is None else f" line {place[1]}" if place[1] else f" row {place[2]} (from 0)"
    rest = message if place is None else message[place.end() :]
    # Only at the beginning of what follows: further on it may be a value that is spelled like a column.
    column = next((c for c in columns if rest.lstrip().startswith((f"column {c!r}", f"person column {c!r}"))), None)
    reason = next((said for found, said in REASONS if found in rest), _OTHERWISE)
    where = f"{data.name}{line}" + ("" if column is None else f": column {column!r}")
    hint = "; the review says where such values go" if line and column is not None else ""
    return f"{where} {reason} (values are not shown here){hint}"
