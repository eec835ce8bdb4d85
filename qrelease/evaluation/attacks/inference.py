"""Attribute inference: a person's secret bit, from all other columns and a published table.

Much of this is no breach: whoever knows how a population's columns hang together guesses as well of people who are in
no table at all. So each rate stands beside two others: of people whose records were not in the table, and of who
learns from other people's real records. What the table gives away of those in it is the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import CodeColumns, Floats, Mask
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.results import NotPrivate

_RIDGE = 1.0
"""The weight of the squared coefficients in the classifier's loss."""

_MODEL_RECORDS = 0.5
"""Records by which the classifier's guess is weighed against those that agree in every column."""


@final
@dataclass(frozen=True, eq=False)
class Guesser:
    """The chance that a person has the bit, from records with the bit known.

    A logistic regression on all cells of all columns; and where records agree with the person in every column, mostly
    what those say. So it learns the population, and it remembers.
    """

    shape: tuple[int, ...]
    coefficients: Floats = field(repr=False)
    seen: dict[int, tuple[float, float]] = field(repr=False)

    @classmethod
    def of(cls, columns: CodeColumns, secret: Mask, shape: Sequence[int], weights: Floats | None = None) -> Self:
        """Learn from records.

        Parameters
        ----------
        columns : d arrays (n,) of codes
            All columns but the secret one.
        secret : (n,) bool
            The bit of each record.
        shape : d ints
            How many cells each column has.
        weights : (n,) float64, optional
            How many records each stands for.
        """
        sizes = tuple(int(s) for s in shape)
        if not len(secret):
            raise InvalidInput("nothing is learned from no records")
        heavy = np.ones(len(secret)) if weights is None else weights
        keys = _keys(columns, sizes)
        distinct, place = np.unique(keys, return_inverse=True)
        totals, having = (np.bincount(place, w, len(distinct)) for w in (heavy, heavy * secret))
        seen = dict(zip(distinct.tolist(), zip(having.tolist(), totals.tolist(), strict=True), strict=True))
        return cls(sizes, _regression(_one_hot(columns, sizes), secret, heavy), seen)

    def chances(self, columns: CodeColumns) -> Floats:
        """The chance that each of n people, given as codes, has the bit: (n,) in [0, 1]."""
        modelled = _logistic(_one_hot(columns, self.shape) @ self.coefficients)
        found = [self.seen.get(key, (0.0, 0.0)) for key in _keys(columns, self.shape).tolist()]
        having, total = np.array(found).reshape(-1, 2).T
        return np.asarray((having + _MODEL_RECORDS * modelled) / (total + _MODEL_RECORDS))


@final
@dataclass(frozen=True)
class Inference(NotPrivate):
    """How often a secret bit was guessed right from the other columns. Not private.

    Attributes
    ----------
    source : str
        What was learned from.
    members : float
        The fraction guessed right, of people whose records made the table.
    others : float
        The same of people of the same population who are not in it; NaN where there are none.
    base_rate : float
        Of the members, for who guesses the commoner bit for everybody.
    people : int
        How many of each were guessed.
    """

    source: str
    members: float
    others: float
    base_rate: float
    people: int

    @property
    def leak(self) -> float:
        """How much more often it is right about those in the table: what privacy is about."""
        return self.members - self.others

    @property
    def deviation(self) -> float:
        """The standard deviation of `leak` by the luck of who was drawn."""
        rates = np.array([self.members, self.others])
        return float(np.sqrt((rates * (1 - rates)).sum() / self.people))


def infer(
    source: str,
    guesser: Guesser,
    members: tuple[CodeColumns, Mask],
    others: tuple[CodeColumns, Mask] | None = None,
) -> Inference:
    """Guess the bit of people in the table and, where there are some, of as many who are not.

    Parameters
    ----------
    source : str
        What the guesser learned from, as in a table of results.
    guesser : Guesser
        Learned from the published records, or from other people's.
    members, others : columns and bits
        The true bits are only compared with.

    Examples
    --------
    >>> smoker, ill = np.array([0, 0, 1, 1] * 5), np.array([False, False, True, True] * 5)
    >>> infer("the records", Guesser.of([smoker], ill, [2]), ([smoker], ill)).members
    1.0
    """

    def right(side: tuple[CodeColumns, Mask]) -> float:
        return float(((guesser.chances(side[0]) > 0.5) == side[1]).mean())

    secret = members[1]
    share = float(secret.mean())
    away = float("nan") if others is None else right(others)
    return Inference(source, right(members), away, max(share, 1 - share), len(secret))


def _keys(columns: CodeColumns, shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """One number for each record: equal for equal records. Hashed, where there are more records than numbers."""
    keys = np.zeros(len(columns[0]), np.uint64)
    for column, size in zip(columns, shape, strict=True):
        keys = keys * np.uint64(size) + column.astype(np.uint64)  # modulo 2^64, where the universe is larger
    return keys.view(np.int64)


def _one_hot(columns: CodeColumns, shape: Sequence[int]) -> Any:
    """(n, 1 + Σ sizes) of zeros and ones, the first column all ones."""
    from scipy.sparse import csr_array

    records, starts = len(columns[0]), 1 + np.concatenate([[0], np.cumsum(shape)[:-1]]).astype(np.int64)
    places = [np.zeros(records, np.int64), *(s + c.astype(np.int64) for s, c in zip(starts, columns, strict=True))]
    rows = np.tile(np.arange(records), len(places))
    return csr_array((np.ones(len(rows)), (rows, np.concatenate(places))), shape=(records, 1 + int(sum(shape))))


def _regression(features: Any, secret: Mask, weights: Floats) -> Floats:
    """Logistic regression by L-BFGS."""
    from scipy.optimize import minimize

    def loss(w: Floats) -> tuple[float, Floats]:
        scores = features @ w
        value = float(weights @ (np.logaddexp(0.0, scores) - secret * scores)) + _RIDGE / 2 * float(w @ w)
        return value, features.T @ (weights * (_logistic(scores) - secret)) + _RIDGE * w

    found = minimize(loss, np.zeros(features.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return np.asarray(found.x)


def _logistic(scores: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(scores))
