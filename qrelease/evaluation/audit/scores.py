"""Scores: functions of outputs that are large where the first of two inputs is the more likely one.

Single numbers of the output; the likelihood ratio, cell by cell, of a number; the product of those over all numbers;
linear discriminant analysis; a small decision tree; and the likelihood ratio of whole outputs that occur repeatedly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats
from qrelease.evaluation.audit.cells import BinnedColumn, log_ratio
from qrelease.evaluation.audit.features import Reading, in_range, spell
from qrelease.evaluation.audit.tree import grow

_RIDGE: Final = 1e-9
_MAX_TERMS: Final = 256
_SHOWN_TERMS: Final = 3
_SHOWN_WIDTH: Final = 12
"""Numbers of an output that are listed whole: more would name none of them."""


@dataclass(frozen=True, eq=False)
class Score:
    """A function of outputs, (n, m) columns to (n,), and the words for its being between two numbers."""

    of: Callable[[Floats], Floats]
    describe: Callable[[float, float], str]


@np.errstate(over="ignore", invalid="ignore")
def learned_scores(reading: Reading, first: Floats, second: Floats) -> list[Score]:
    """Scores to choose from, learned from outputs on both inputs, (n, m) columns each."""
    columns = list(enumerate(zip(reading.names, first.T, second.T, strict=True)))
    # What says the same as another column shows the same: of releases many numbers are told more than once.
    first_of = {(p.tobytes(), q.tobytes()): i for i, (_, p, q) in reversed(columns)}
    kept = [(i, name, p, q) for i, (name, p, q) in columns if first_of[p.tobytes(), q.tobytes()] == i]
    cells = [BinnedColumn.of(i, name, p, q, reading.words) for i, name, p, q in kept]
    scores = [
        score
        for i, name, p, q in kept
        if not (reading.unordered(p) or reading.unordered(q))
        for score in _tails(i, name)
    ]
    scores += [Score(table.ratios, table.describe_ratios) for table in cells]
    if reading.width > 1:
        scores += [_outputs(reading, cells, first, second), _linear(reading, first, second)]
    if len(cells) > 1:
        scores.append(_product(cells))
        tree = grow(cells, first, second)
        scores.append(Score(tree.ratios, tree.describe))
    return scores


def _tails(column: int, name: str) -> list[Score]:
    """A number itself, and its negative."""
    return [
        Score(lambda columns: columns[:, column], lambda low, high: f"{name} is {in_range(low, high)}"),
        Score(lambda columns: -columns[:, column], lambda low, high: f"{name} is {in_range(-high, -low)}"),
    ]


def _product(cells: Sequence[BinnedColumn]) -> Score:
    """The likelihood ratio if the numbers were independent."""

    def of(columns: Floats) -> Floats:
        total: Floats = np.sum([table.ratios(columns) for table in cells], axis=0)
        return total

    def describe(low: float, high: float) -> str:
        return f"the sum of log likelihood ratios of all numbers is {in_range(low, high)}; {most_apart(cells)}"

    return Score(of, describe)


def most_apart(cells: Sequence[BinnedColumn]) -> str:
    """A sentence: which numbers are distributed most differently on the two inputs, and by how much."""
    most = sorted(cells, key=lambda cell: -cell.apart)[:_SHOWN_TERMS]
    return f"most apart by themselves: {', '.join(f'{cell.name} ({cell.apart:.2f})' for cell in most)}"


def _outputs(reading: Reading, cells: Sequence[BinnedColumn], first: Floats, second: Floats) -> Score:
    """The likelihood ratio of each whole output; 0 for those that were not seen twice."""
    keys = [_fingerprints(columns) for columns in (first, second)]
    found, where, places = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
    counts = [np.bincount(part, minlength=found.size) for part in np.split(places, [len(first)])]
    often = counts[0] + counts[1] > 1
    found, ratio = found[often], log_ratio(counts[0], counts[1])[often]
    examples = np.concatenate([first, second])[where[often]][:, : reading.width]

    def of(columns: Floats) -> Floats:
        if not found.size:
            return np.zeros(len(columns))
        key = _fingerprints(columns)
        at = np.minimum(np.searchsorted(found, key), found.size - 1)
        return np.where(found[at] == key, ratio[at], 0.0)

    def describe(low: float, high: float) -> str:
        held = np.flatnonzero((ratio >= low) & (ratio <= high))
        held = held[np.argsort(-np.abs(ratio[held]), kind="stable")]
        if reading.width > _SHOWN_WIDTH and held.size:
            return f"the output is one of {held.size} that were learned; {most_apart(cells)}"
        shown = " or ".join(f"({', '.join(spell(v, reading.words) for v in examples[i])})" for i in held[:_SHOWN_TERMS])
        more = f" or one of {held.size - _SHOWN_TERMS} others that were learned" if held.size > _SHOWN_TERMS else ""
        return f"the output is {shown or 'new'}{more}"

    return Score(of, describe)


def _fingerprints(columns: Floats) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each row, (n,)."""
    words = np.ascontiguousarray(columns + 0.0).view(np.uint64)  # adding 0 makes -0 and 0 the same
    total = np.zeros(len(columns), np.uint64)
    for column in words.T:
        total = (total ^ column) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def _linear(reading: Reading, first: Floats, second: Floats) -> Score:
    """Fisher's linear discriminant of the numbers: the best score if both are Gaussian with the same covariance."""
    first, second = first[:, : reading.width], second[:, : reading.width]
    both = np.concatenate([first, second])
    known = np.isfinite(both)
    centre = np.where(known, both, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    scale = np.sqrt(np.where(known, (both - centre) ** 2, 0).mean(axis=0))
    used = np.flatnonzero(scale > 0)

    def standard(columns: Floats) -> Floats:
        part = columns[:, used]
        return np.where(np.isfinite(part), (part - centre[used]) / scale[used], 0.0)

    p, q = standard(first), standard(second)
    step = p.mean(axis=0) - q.mean(axis=0)
    top = np.sort(np.argsort(-np.abs(step), kind="stable")[:_MAX_TERMS])
    step, used = step[top], used[top]
    rest = np.concatenate([part[:, top] - part[:, top].mean(axis=0) for part in (p, q)])
    within = rest.T @ rest / len(rest) + _RIDGE * np.eye(used.size)
    weights = np.linalg.solve(within, step) if used.size else step

    def describe(low: float, high: float) -> str:
        largest = np.argsort(-np.abs(weights), kind="stable")[:_SHOWN_TERMS]
        terms = [f"{weights[i] / scale[used[i]]:+.3g} * ({reading.names[used[i]]})" for i in largest]
        more = f" and {used.size - _SHOWN_TERMS} more terms" if used.size > _SHOWN_TERMS else ""
        return f"{' '.join(terms)}{more}, standardised, is {in_range(low, high)}"

    return Score(lambda columns: standard(columns) @ weights, describe)
