"""The Net mechanism: one synopsis of any finite net, by the exponential mechanism (Dwork & Roth 2014, Algorithm 7)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from qrelease._util import memory
from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import positive_probability, whole
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.net_radius import radius
from qrelease.inference.nets import MAX_SYNOPSES, Candidates, answers_of, check_candidates
from qrelease.mechanisms.accuracy import BETA, promise
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.small_db import exponential_choice
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.queries.workload import Workload

MAX_ANSWERS: Final = 1 << 32
"""Synopses times queries: some minutes."""

RADIUS_PROGRAMS: Final = 64
"""Linear programs for the α of a net that is given without one."""

SCORE_BITS: Final = 8
"""Answers of synopses, which are public, are rounded to multiples of 2^-8 of a unit, so that scores are integers."""

ROUNDING_ERROR: Final = 2.0**-SCORE_BITS
"""What that adds to an error, a count: half a step for the best score, and half for the drawn one."""


@final
@dataclass(frozen=True)
class Net:
    """A synopsis y of a net, drawn with probability ∝ e^(ε u(y) / 2), exactly: pure ε-DP.

    u(y) = -max_q |q(x) - n q(y)|, in counts, rounded to integers of a finer grid. As long as n does not change with it,
    one record moves u by at most 1; under add-remove a noisy n is bought first, for an eighth of the budget. Of an
    (ε, δ) it spends ε and leaves δ; zCDP is spent as the ε with ε²/8 = ρ (bounded range, Cesar & Rogers 2021).

    Parameters
    ----------
    net
        Any `nets.Candidates` that was made without a look at the table: the release shows it. `nets.Listed` makes one
        of synopses of one's own.
    radius
        Where a theorem gives it, as for `nets.quantiles` or by `vc.small_database_error`: how far the nearest synopsis
        is from any table at most, a fraction, on the queries that are asked.

    Raises
    ------
    InvalidInput
        For an empty net.
    TooLarge
        For one of more than `nets.MAX_SYNOPSES`.

    References
    ----------
    Dwork & Roth 2014, Algorithm 7 and Proposition 5.2; Cesar & Rogers 2021, *Bounding, concentrating, and truncating*.

    Examples
    --------
    >>> import qrelease as qr
    >>> from qrelease.inference.nets import quantiles
    >>> line = qr.Domain.coded({"hour": 24})
    >>> mechanism = qr.Net(quantiles(line, alpha=1 / 4), radius=1 / 4)
    >>> ranges, neighbours = qr.Workload.ranges(line, "hour"), qr.Neighbours.REPLACE_ONE
    >>> round(mechanism.error(ranges, 1_000, qr.PureDP(1), neighbours, beta=0.05), 2)
    0.28
    """

    net: Candidates
    radius: float | None = None

    @property
    def name(self) -> str:
        """`net`."""
        return "net"

    def __post_init__(self) -> None:
        check_candidates("the synopses", self.net)
        if self.radius is not None:
            object.__setattr__(self, "radius", positive_probability("radius", self.radius))
        if len(self.net) > MAX_SYNOPSES:
            raise TooLarge(f"a net of {len(self.net):,} synopses is too large; at most {MAX_SYNOPSES:,} fit: thin it")

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise `InvalidInput` for a net over another domain, of synopses that do not answer, or a cost too small.

        `TooLarge` for too many answers.
        """
        exponential_choice.choice_costs(cost, neighbours)
        self._check_domain(workload)
        if len(self.net) * len(workload) > MAX_ANSWERS:
            raise TooLarge(
                f"{len(self.net):,} synopses with {len(workload):,} answers each are too many; at most {MAX_ANSWERS:,}"
                " answers fit: thin the net, or ask less"
            )
        memory.check(
            exponential_choice.CANDIDATE_BYTES * len(self.net),
            f"a choice among {len(self.net):,} synopses",
            "thin the net",
        )
        deque(answers_of(self.net, workload), maxlen=0)

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Count the records if their number is private, then draw one synopsis."""
        counting, choice = exponential_choice.choice_costs(cost, private.neighbours)
        counted, measured = exponential_choice.count_records(private, counting)
        n = max(counted, 1)
        answers, unit = exponential_choice.exact_answers(private, workload)
        grid = (1 << SCORE_BITS) * int(1 / unit)
        scores = np.concatenate(
            [
                -np.abs((answers << SCORE_BITS) - _rounded(block * n, grid)).max(1)
                for block in self.net.fractions(workload)
            ]
        )
        number = private.select(scores, grid, choice, "exponential")
        choices = {"chosen": number, "records": n, **self._promise(counted, cost, private.neighbours)}
        return MechanismResult(self.net.synopsis(number, float(n)), measured, choices)

    def _promise(self, n: int, cost: Cost, neighbours: Neighbours) -> dict[str, Any]:
        """What is promised of the error; without a radius, of how much it exceeds that of the best synopsis."""
        alpha = self.radius
        if alpha is None:
            excess = exponential_choice.excess(len(self.net), cost, neighbours, BETA) + ROUNDING_ERROR
            return {"promise": {"excess": excess, "beta": BETA}}
        miss = exponential_choice.count_error(cost, neighbours, BETA)
        return promise(lambda records: self._error(alpha, records, cost, neighbours, BETA), n, miss, BETA)

    def error(self, workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """With probability 1 - β no answer is off by more than this fraction of a table of n `records`.

        α + 2 (ln N + ln(1/β)) / (εn) for an α-net of N (Dwork & Roth 2014, Proposition 5.2), and what
        `exponential_choice.promised_choice_error` adds under add-remove. Above 1 it says nothing. α is the `radius`; by
        default the upper bound that `net_radius.radius` proves of it, in seconds. `InvalidInput` for a net over another
        domain.
        """
        beta, n = positive_probability("beta", beta), whole("records", records, least=1)
        self._check_domain(workload)
        alpha = self.radius
        if alpha is None:
            alpha = radius(self.net, workload, programs=RADIUS_PROGRAMS).upper
        return self._error(alpha, n, cost, neighbours, beta)

    def _error(self, alpha: float, n: float, cost: Cost, neighbours: Neighbours, beta: float) -> float:
        # The synopsis that is near answers with no more than 1 + α, as fractions.
        promised = exponential_choice.promised_choice_error(
            alpha, len(self.net), n, cost, neighbours, beta, largest=1 + alpha
        )
        return promised + ROUNDING_ERROR / n

    def _check_domain(self, workload: Workload) -> None:
        if self.net.domain != workload.domain:
            raise InvalidInput("the net is over another domain than the workload")


def _rounded(counts: Floats, grid: int) -> Ints:
    """Counts on the grid; those beyond any table are clipped, so that they fit."""
    return np.rint(np.clip(counts, -2 * exponential_choice.MAX_COUNT, 2 * exponential_choice.MAX_COUNT) * grid).astype(
        np.int64
    )
