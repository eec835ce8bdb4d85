"""Ways to answer "how many of these people have the secret bit?", from the exact count to a private release.

A publisher holds the secret bits of n people and answers questions about subsets of them. An attack sees the answers
and how far each may be off, which publishers announce; it never sees the bits.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Mask
from qrelease._util.validate import natural, positive
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, StreamHalted
from qrelease.evaluation.attacks.answered import Answered, exact_counts
from qrelease.mechanisms.base import Mechanism, OnlineMechanism, PayingMechanism, Session
from qrelease.noise.entropy import Entropy, WordSource
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.ledger import Ledger
from qrelease.queries.families import Vectors
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator
from qrelease.release.release import Release

_NORMAL_95 = 1.96
"""Standard deviations in the half-width of a 95 % error bar."""


@final
@dataclass(frozen=True, eq=False)
class Exact:
    """Answers every question with the exact count."""

    secret: Mask = field(repr=False)
    name: str = "exact"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        return Answered(exact_counts(self.secret, subsets), 0.0)


@final
@dataclass(frozen=True, eq=False)
class Rounded:
    """Rounds every count to the nearest multiple of `base`: an answer is off by at most half of it."""

    secret: Mask = field(repr=False)
    base: int = 5

    @property
    def name(self) -> str:
        """`rounded to 5`."""
        return f"rounded to {self.base}"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        base = natural("base", self.base)
        return Answered(np.rint(exact_counts(self.secret, subsets) / base) * base, base / math.sqrt(12))


@final
@dataclass(frozen=True, eq=False)
class Percentages:
    """Says which share of a group has the bit, in whole per cent.

    Examples
    --------
    >>> secret = np.array([True, False, False])
    >>> Percentages(secret).ask(np.array([[True, True, True]])).values.round(2)
    array([0.99])
    """

    secret: Mask = field(repr=False)
    name: str = "in whole per cent"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`: the counts that the shares stand for."""
        sizes = np.maximum(subsets.sum(axis=1), 1)
        shares = np.rint(100 * exact_counts(self.secret, subsets) / sizes) / 100
        return Answered(shares * sizes, float(np.sqrt(np.mean(sizes**2.0))) / 100 / math.sqrt(12))


@final
@dataclass(frozen=True, eq=False)
class Suppressed:
    """Gives exact counts, but none that is below `least`."""

    secret: Mask = field(repr=False)
    least: int = 10

    @property
    def name(self) -> str:
        """`hidden below 10`."""
        return f"hidden below {self.least}"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        counts = exact_counts(self.secret, subsets)
        return Answered(np.where(counts < self.least, np.nan, counts), 0.0)


@final
@dataclass(frozen=True, eq=False)
class Swapped:
    """Exchanges the bits of some people, in pairs drawn at random, and answers exactly about the result.

    share  the fraction of the people who take part in an exchange
    """

    secret: Mask = field(repr=False)
    share: float = 0.1
    seed: int = 0

    @property
    def name(self) -> str:
        """`10% swapped`."""
        return f"{self.share:.0%} swapped"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        chosen = np.random.default_rng(self.seed).permutation(len(self.secret))
        pairs = chosen[: 2 * round(self.share * len(self.secret) / 2)].reshape(-1, 2)
        bits = self.secret.copy()
        bits[pairs] = bits[pairs[:, ::-1]]
        return Answered(exact_counts(bits, subsets), 0.0)


@final
@dataclass(frozen=True, eq=False)
class Sticky:
    """Normal noise that is a function of the question, so that asking again gives the same; small counts are hidden.

    The noise of systems such as Diffix (Francis, Probst Eide & Munz 2017), in one layer: a question about the same
    people always gets the same noise, whatever its words, and no budget limits how many questions there are.

    deviation  of the noise, a count
    least      smaller noisy counts are not given
    """

    secret: Mask = field(repr=False)
    deviation: float = 2.0
    least: int = 4
    salt: bytes = b"salt"

    @property
    def name(self) -> str:
        """`sticky noise of 2`."""
        return f"sticky noise of {self.deviation:g}"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        positive("deviation", self.deviation)
        noise = np.array([self._noise(row) for row in np.packbits(subsets, axis=1)])
        noisy = np.rint(exact_counts(self.secret, subsets) + noise)
        return Answered(np.where(noisy < self.least, np.nan, noisy), math.hypot(self.deviation, 1 / math.sqrt(12)))

    def _noise(self, question: npt.NDArray[np.uint8]) -> float:
        digest = hashlib.blake2b(question.tobytes(), digest_size=16, key=self.salt).digest()
        return float(np.random.default_rng(int.from_bytes(digest)).normal(0.0, self.deviation))


@final
@dataclass(frozen=True, eq=False)
class FreshNoise:
    """Laplace noise of one scale on each answer, drawn anew each time, and no budget: each answer alone is private."""

    secret: Mask = field(repr=False)
    scale: float = 1.0
    seed: int = 0
    _rng: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rng", np.random.default_rng(self.seed))

    @property
    def name(self) -> str:
        """`fresh noise of 1`."""
        return f"fresh noise of {self.scale:g}"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        noise = self._rng.laplace(0.0, self.scale, len(subsets))
        return Answered(exact_counts(self.secret, subsets) + noise, self.scale * math.sqrt(2))


def people(secret: Mask) -> Table:
    """The table that private publishers answer from: who each person is, and the bit. The people are public."""
    domain = Domain.coded({"person": len(secret), "secret": 2})
    return Table(domain, (np.arange(len(secret), dtype=np.uint64), secret.astype(np.uint8)))


def subset_workload(domain: Domain, subsets: Mask) -> Workload:
    """Questions about subsets (k, n) as counting queries over `people`."""
    rows = np.zeros((*subsets.shape, 2), np.int64)
    rows[:, :, 1] = subsets
    return Workload(domain, (Group((0, 1), Vectors(rows.reshape(len(subsets), -1), 1.0)),))


@final
@dataclass(frozen=True, eq=False)
class Released:
    """Answers all questions of a call from one release of the package, which protects the replacement of one record.

    The questions themselves are what is released.
    """

    secret: Mask = field(repr=False)
    mechanism: Mechanism
    cost: Cost
    entropy: WordSource = field(default_factory=Entropy, repr=False)

    @property
    def name(self) -> str:
        """`laplace, epsilon=1`."""
        return f"{self.mechanism.name}, {self.cost:.6g}"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        table = people(self.secret)
        questions = subset_workload(table.domain, subsets)
        release = _release(table, self.mechanism, questions, self.cost, self.entropy)
        for measured in release.measurements:
            if measured.group == questions.groups[0]:
                return Answered(measured.values, math.sqrt(measured.variance))
        return Answered(release.synopsis.answer(questions), math.sqrt(len(self.secret)))


@final
@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """Releases the table of people by bit, and answers all questions from that: the most that a release says of one.

    Of each person there are two noisy counts, with the bit and without, of which one is 1 and the other 0.
    """

    secret: Mask = field(repr=False)
    mechanism: Mechanism
    cost: Cost
    entropy: WordSource = field(default_factory=Entropy, repr=False)

    @property
    def name(self) -> str:
        """`maxent of each person, epsilon=1`."""
        return f"{self.mechanism.name} of each person, {self.cost:.6g}"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        table = people(self.secret)
        release = _release(table, self.mechanism, Workload.marginals(table.domain, 2), self.cost, self.entropy)
        noisy, widths = release.error_bars()
        cells = noisy.reshape(-1, 2)
        bits = (cells[:, 1] - cells[:, 0] + 1) / 2
        deviation = float(np.sqrt(np.mean(widths**2) / 2)) / _NORMAL_95
        # The errors of all answers come from those of n bits: so much noise of their own would leave as much in doubt.
        return Answered(subsets @ bits, deviation * math.sqrt(len(subsets)) / 2)


@final
@dataclass(frozen=True, eq=False)
class InSession:
    """Asks an online session of the package one question after the other, until it gives no more answers."""

    secret: Mask = field(repr=False)
    mechanism: OnlineMechanism[Any] | PayingMechanism[Any]
    cost: Cost
    entropy: WordSource = field(default_factory=Entropy, repr=False)

    @property
    def name(self) -> str:
        """`online, epsilon=1`."""
        return f"{self.mechanism.name}, {self.cost:.6g}"

    def ask(self, subsets: Mask) -> Answered:
        """See `Publisher`."""
        table = people(self.secret)
        with _ledger(self.cost) as ledger, Curator(table, ledger, self.entropy).open(self.mechanism, self.cost) as s:
            return _stream(s, table.domain, subsets)


def _stream(session: Session, domain: Domain, subsets: Mask) -> Answered:
    values, errors = np.full(len(subsets), np.nan), []
    with suppress(BudgetExceeded, StreamHalted):
        for i, subset in enumerate(subsets):
            answer = session.answer(subset_workload(domain, subset[None, :]))
            values[i] = answer.value
            errors.append(answer.error)
    return Answered(values, float(np.mean(errors)) / _NORMAL_95 if errors else 0.0)


def _release(table: Table, mechanism: Mechanism, workload: Workload, cost: Cost, entropy: WordSource) -> Release:
    with _ledger(cost) as ledger:
        return Curator(table, ledger, entropy).pay(mechanism, workload, cost).rehearse()


def _ledger(cost: Cost) -> Ledger:
    return Ledger.open(None, cost, dataset="people", neighbours=Neighbours.REPLACE_ONE)
