"""Quantiles by group that were chosen by the exponential mechanism, or permute-and-flip: `ChosenQuantiles`. Public.

**Candidates.** Each bin of the column is cut evenly into at most `PARTS` cells, runs of points of its grid, or is one
cell where the table or the schema has no points. Bins are narrow where whoever wrote the schema expects many records:
so few cells tell the quantile apart from its neighbours where records are dense, and a wide tail that is mostly empty,
such as delays of a day, has few of them. The choice errs by ln K ranks or so for K cells.

**Losses.** A cell's loss is that of `statistics.quantile` for the column in which every record has its cell's number:
how far it fails to be a q-quantile of these numbers, in b-ths of a rank for q = a/b. Which cell a value is in goes up
with the value, so a cell is a q-quantile of the cells' numbers where it has a q-quantile of the values in it, and the
proofs there (the sensitivities, of groups too, and the interval by two more choices at shifted ranks) are about
records with these numbers: they hold here as they stand. The interval is from the first point of the cell chosen for
the lower end to the last one of that for the upper end, at 95 % in every group.

**Small groups.** Where a group is too small for its choice to mean anything, by the noisy number of its records, the
answer to publish is what all groups say together: their choices' median, weighted by their noisy numbers, each times
the chance that its choice is not lost. So it is where a choice is far from those of the others and more likely one of
the many empty cells than a group that is like no other: an empty cell below a group's records has a loss of pn ranks
and is chosen e^(-pn/s) times as often as one of loss 0, where choices are off by s ranks or so; other groups' choices
are taken to be as Student's t of three degrees of freedom about their median.

**Several quantiles** of a group are chosen apart, and the larger may come out below the smaller. What is published is
sorted: of two ascending lists no pairing has a smaller sum of squared distances (the rearrangement of Chernozhukov,
Fernández-Val & Galichon 2010, *Quantile and probability curves without crossing*), so that no list is worse by it.

The interval is that of the group's own two ends. It holds whatever the choice is, so an answer outside of it is not
published but its nearer end. The choice itself is the unbiased answer, with the interval stretched to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import natural
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.points import has_points
from qrelease.errors import InvalidInput
from qrelease.queries.numeric import NumericQuestion, cell_values

PARTS: Final = 16
"""Cells that a bin is cut into, at most."""

CHOICES: Final = 3
"""For each quantile: of its value, and of each end of its interval."""

_TINY: Final = 1e-12

_TEN_THOUSANDTHS: Final = 10_000
"""A probability is a whole number of these parts of 1: losses are whole numbers."""


def exact_probability(q: float) -> Fraction | None:
    """A quantile as an exact fraction; None for one that has no losses in whole numbers, and for 0 and 1."""
    found = Fraction(round(q * _TEN_THOUSANDTHS), _TEN_THOUSANDTHS)
    return found if 0 < found < 1 and float(found) == q else None


def counted(question: NumericQuestion) -> NumericQuestion:
    """The question of how many records each group of another one has: of all that meet its condition."""
    return NumericQuestion(question.domain, "count", by=question.by, where=question.where)


@final
@dataclass(frozen=True, eq=False)
class QuantileCells:
    """The candidates of a column, ascending, each array (K,).

    first      the first point of the grid in each, where cells are of points; else the first bin, which is the cell
    low, high  the least and the largest number that a record in it may have
    """

    first: Ints
    low: Floats
    high: Floats

    @classmethod
    def of(cls, attribute: Attribute, parts: int) -> QuantileCells:
        """The cells of a column of numbers, with so many to a bin at most.

        Examples
        --------
        >>> age = Attribute("age", "number", edges=(0, 20, 100), within=(0, 99), step=1)
        >>> QuantileCells.of(age, 4).low.tolist()
        [0.0, 5.0, 10.0, 15.0, 20.0, 40.0, 60.0, 80.0]
        """
        if parts == 1 or not has_points(attribute) or attribute.grid is None:
            values = cell_values(attribute)
            return cls(np.arange(len(values.low)), values.low, values.high)
        cuts, first = attribute.cuts, list[int]()
        for start, end in pairwise(cuts):
            count = min(parts, end - start)
            first += [start + (end - start) * i // count for i in range(count)]
        found = np.array(first, np.int64)
        last = np.append(found[1:], cuts[-1]) - 1
        return cls(found, attribute.grid.values(found), attribute.grid.values(last))

    @cached_property
    def middle(self) -> Floats:
        """What a chosen cell says."""
        found: Floats = (self.low + self.high) / 2
        return found

    def __len__(self) -> int:
        return len(self.first)


@final
@dataclass(frozen=True, eq=False)
class ChosenQuantiles:
    """The choices for one question: which cell each group's quantile is in, and the two ends of its interval.

    Parameters
    ----------
    question
        Of quantiles.
    parts
        Cells that a bin was cut into, at most.
    rule
        `exponential` or `permute-and-flip`.
    value, low, high
        Places among the cells, (groups, p) each.
    reach
        For each quantile, how many ranks its choice is typically off by at the most, (p,): public.
    """

    question: NumericQuestion
    parts: int
    rule: str
    value: Ints
    low: Ints
    high: Ints
    reach: tuple[float, ...]

    @cached_property
    def cells(self) -> QuantileCells:
        """The candidates."""
        return QuantileCells.of(self.question.attribute, self.parts)

    @property
    def way(self) -> str:
        """How the quantiles were answered, in words."""
        drawn = "the exponential mechanism" if self.rule == "exponential" else "permute-and-flip"
        return f"each chosen among {len(self.cells):,} cells by {drawn}"

    def places(self, asked: NumericQuestion) -> list[int] | None:
        """Which of the quantiles answer another question; None where not all that it asks for are here."""
        own = self.question
        if (asked.column, asked.by, asked.where) != (own.column, own.by, own.where):
            return None
        if not set(asked.probabilities) <= set(own.probabilities):
            return None
        return [own.probabilities.index(p) for p in asked.probabilities]

    def answer(
        self, places: list[int], counts: Floats, fewest: Floats
    ) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
        """The unbiased answers and their ends, and those to publish: three arrays (groups, p) each.

        counts  noisy numbers of records by group, (groups,)
        fewest  the lower ends of their error bars, (groups,)
        """
        cells = self.cells
        value, low, high = cells.middle[self.value], cells.low[self.low], cells.high[self.high]
        pooled = np.stack([self._pooled(at, counts, fewest) for at in range(len(self.reach))], axis=1)
        # A group's two ends hold whatever its choice is: what is outside of them is far off, and is not published.
        low, high = np.minimum(low, high), np.maximum(low, high)  # of a group that is lost the first may be above
        model = np.clip(cells.middle[pooled], low, high)
        ascending = np.argsort(self.question.probabilities)
        model[:, ascending] = np.sort(model, axis=1)
        unbiased = value, np.minimum(low, value), np.maximum(high, value)
        published = model, np.minimum(low, model), np.maximum(high, model)
        return tuple(part[:, places] for part in unbiased), tuple(part[:, places] for part in published)

    def _pooled(self, at: int, counts: Floats, fewest: Floats) -> Ints:
        """The cells (groups,) of one of the quantiles: of groups that are lost that of all together."""
        value, p, reach, cells = self.value[:, at], self.question.probabilities[at], self.reach[at], len(self.cells)
        small = counts * min(p, 1 - p) <= reach
        scale = max(reach / math.log(2 * cells), _TINY)  # ranks
        with np.errstate(under="ignore"):
            empty = np.exp(-p * np.maximum(fewest, 0.0) / scale) + np.exp(-(1 - p) * np.maximum(fewest, 0.0) / scale)
        part = scale / np.maximum(counts, 1.0)  # of the group's records, which are in half of the cells
        lost = empty / (empty + np.minimum(4 * part, 2.0))
        weights = np.maximum(counts, _TINY) * (1 - lost)
        together = _weighted_median(value, weights)
        apart = 1 + np.hypot(_weighted_median(np.abs(value - together), weights), cells / 2 * part)
        like_others = 2 / (math.pi * math.sqrt(3) * apart) / (1 + ((value - together) / apart) ** 2 / 3) ** 2
        return np.where(small | (lost / cells > (1 - lost) * like_others), together, value)

    def to_json(self) -> dict[str, Any]:
        """A plain description."""
        return {
            "question": str(self.question),
            "parts": self.parts,
            "rule": self.rule,
            "reach": list(self.reach),
            **{name: getattr(self, name).tolist() for name in ("value", "low", "high")},
        }

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any]) -> ChosenQuantiles:
        """What `to_json` described; `InvalidInput` for choices among cells that are none."""
        question = NumericQuestion.parse(domain, str(content["question"]))
        parts, rule = natural("parts", content["parts"]), str(content["rule"])
        if question.kind != "quantile" or rule not in ("exponential", "permute-and-flip"):
            raise InvalidInput(f"quantiles are chosen by exponential or permute-and-flip, got {rule!r} for {question}")
        shape, cells = (question.groups, len(question.probabilities)), len(QuantileCells.of(question.attribute, parts))
        found = []
        for name in ("value", "low", "high"):
            places = np.array(content[name])
            if places.shape != shape or places.dtype.kind != "i" or not ((places >= 0) & (places < cells)).all():
                raise InvalidInput(f"{name} of {question} must be {shape} places among {cells:,} cells")
            found.append(places.astype(np.int64))
        reach = tuple(float(r) for r in content["reach"])
        if len(reach) != shape[1] or not all(math.isfinite(r) and r >= 0 for r in reach):
            raise InvalidInput(f"reach of {question} must be {shape[1]} numbers of ranks")
        return cls(question, parts, rule, found[0], found[1], found[2], reach)


def _weighted_median(values: Ints, weights: Floats) -> int:
    """The least value up to which half of the weights are."""
    order = np.argsort(values, kind="stable")
    running = weights[order].cumsum()
    return int(values[order[np.searchsorted(running, running[-1] / 2)]])
