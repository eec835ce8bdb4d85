"""What tests of private figures share: a door that sees what is drawn, neighbours, and intervals."""

from dataclasses import dataclass, field

import numpy as np

import qrelease as qr
from qrelease.data.table import Table
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Neighbours
from qrelease.statistics.private_columns import PrivateColumns
from tests.statistics.doors import door

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


@dataclass
class Seen(PrivateColumns):
    """A door that writes down what each draw is of, and answers the same, whatever the records are.

    So what a draw is of may differ between neighbours for the same answers of those before, as privacy has it.
    """

    seen: list = field(default_factory=list)

    def measure(self, what, exact, sensitivity, cost):
        self.spend(what, cost)
        self.seen.append((what, np.array(exact, np.int64), sensitivity, cost))
        return np.full(len(exact), 6, np.int64), Noise("discrete Laplace", 1.0)

    def choose(self, what, scores, sensitivity, cost, *, monotone=False):
        assert not monotone
        self.spend(what, cost)
        self.seen.append((what, scores, sensitivity, "choice"))
        return 0


def draws(scores, private, cost, neighbours):
    made = door(private, cost, neighbours, kind=Seen)
    scores.estimate(made, cost)
    return made.seen


def moved(scores, groups, cost, neighbours):
    """For each draw, the largest move from a table to neighbours as a multiple of what its noise is calibrated to."""
    found = {}
    for private, others in groups:
        here = draws(scores, private, cost, neighbours)
        for other in others:
            for (what, a, sensitivity, paid), (_, b, *_) in zip(
                here, draws(scores, other, cost, neighbours), strict=True
            ):
                gap = np.abs(a - b)
                far = gap.max() if paid == "choice" else gap.sum() if isinstance(paid, qr.PureDP) else (gap**2).sum()
                found[what] = max(found.get(what, 0), far / sensitivity)
    return found


def changed(before, record, relation):
    """A neighbour: with a record more, or with one in the place of the first."""
    kept = slice(0 if relation is ADD else 1, None)
    columns = (np.append(c[kept], v) for c, v in zip(before.columns, record, strict=True))
    return Table(before.domain, tuple(c.astype(np.uint8) for c in columns))


def figures(scores):
    return {figure.name: figure for figure in scores.figures}


def holds(interval, exact, value, width=1.0):
    """Whether an interval, or one that is narrower about its value by a factor, holds what is exact."""
    low, high = (value + width * (end - value) for end in interval)
    return low - 1e-12 <= exact <= high + 1e-12
