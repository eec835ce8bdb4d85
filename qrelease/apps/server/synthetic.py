"""Synthetic records for a response, made in a thread so that other requests are hardly delayed: it holds the
interpreter for some milliseconds at a time, and not at all while kernels run.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from qrelease.data.decoding import decode
from qrelease.data.domain import Domain
from qrelease.data.dummy import dummy_codes
from qrelease.data.sources.csv import write_rows
from qrelease.inference import controlled_rounding
from qrelease.inference.histogram import Histogram

MAX_ROUNDED_WORK: Final = 1 << 23
"""Records times marginals up to which the marginals of the records are settled, as a release's are: a second's work.

Of more, which are thousands, each cell of a marginal is off by chance: by 1 / (2 √rows) of them at most, as a standard
deviation, which is below a hundredth.
"""

_ROWS: Final = 250  # that are written at a time


def synthetic_records(synopsis: Histogram, rows: int, format: str, rng: np.random.Generator) -> bytes:
    """Records drawn from a hypothesis, in `csv`, or in `json` by columns' names and rows."""
    return _written(synopsis.domain, _drawn(synopsis, rows, rng), format, rng)


def dummy_records(domain: Domain, rows: int, format: str) -> bytes:
    """Records of the schema alone, the same ones for all who ask for so many; written as `synthetic_records`."""
    rng = np.random.default_rng(0)
    return _written(domain, dummy_codes(domain, rows, rng), format, rng)


def _written(domain: Domain, codes: list[npt.NDArray[Any]], format: str, rng: np.random.Generator) -> bytes:
    out, parts = io.BytesIO(), _parts(domain, codes, rng)
    if format == "csv":
        text = io.TextIOWrapper(out, encoding="utf-8", newline="")
        write_rows(text, domain.names, parts)
        text.flush()
    else:
        out.write(b'{"columns": %b, "rows": ' % json.dumps(domain.names).encode())
        for i, part in enumerate(parts):
            out.write((", " if i else "[").encode() + json.dumps(part)[1:-1].encode())
        out.write(b"]}")
    return out.getvalue()


def _drawn(synopsis: Histogram, rows: int, rng: np.random.Generator) -> list[npt.NDArray[Any]]:
    """Codes, one array (rows,) a column, in random order.

    Many are drawn each by itself from its own part of the running sum, all parts alike: so a cell, and any set of them,
    has what it expects on average, and varies no more than if all were drawn from the whole. (Marks at equal distances
    would vary less; but in a product of columns, whose last one comes round and round, they may all fall on one value.)
    """
    shape = synopsis.domain.shape
    if rows * len(controlled_rounding.marginals(shape, rows)) <= MAX_ROUNDED_WORK:
        return [*synopsis.sample(rows, rng)]
    ends = np.cumsum(synopsis.values, dtype=np.float64)
    marks = (np.arange(rows) + rng.random(rows)) * (ends[-1] / rows)
    last = np.searchsorted(ends, ends[-1])  # of those that weigh anything: rounding may put a mark behind it
    cells = np.minimum(np.searchsorted(ends, marks, side="right"), last)
    rng.shuffle(cells)
    return [*np.unravel_index(cells, shape)]


def _parts(
    domain: Domain, codes: list[npt.NDArray[Any]], rng: np.random.Generator
) -> Iterator[list[tuple[object, ...]]]:
    rows, columns = len(codes[0]), [decode(a, c, rng) for a, c in zip(domain, codes, strict=True)]
    for low, high in pairwise([*range(0, rows, _ROWS), rows]):
        yield [*zip(*(column[low:high].tolist() for column in columns), strict=True)]
