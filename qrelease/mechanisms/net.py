"""The Net mechanism: one synopsis of any finite net, by the exponential mechanism (Dwork & Roth 2014, Algorithm 7)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease import memory
from qrelease.contracts import Draft
from qrelease.covering import radius
from qrelease.errors import InvalidInput, TooLarge
from qrelease.exact import whole
from qrelease.measure import Private
from qrelease.mechanisms import choosing
from qrelease.nets import MAX_SYNOPSES, Candidates, answers_of, check_candidates
from qrelease.privacy import Cost, Neighbours
from qrelease.privacy.costs import positive_probability
from qrelease.promise import BETA, promise
from qrelease.workload import Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_ANSWERS: Final = 1 << 32
"""Synopses times queries: some minutes."""

_PROGRAMS: Final = 64  # for the α of a net

_PLACES: Final = 8
"""Answers of synopses, which are public, are rounded to multiples of 2^-8 of a unit, so that scores are integers."""

_ROUNDING: Final = 2.0**-_PLACES
"""What that adds to an error, a count: half a step for the best score, and half for the drawn one."""


@final
@dataclass(frozen=True)
class Net:
    """A synopsis y of a net, drawn with probability ∝ e^(ε u(y) / 2), exactly: pure ε-DP.

    u(y) = -max_q |q(x) - n q(y)|, in counts, rounded to integers of a finer grid. As long as n does not change with it,
    one record moves u by at most 1; under add-remove a noisy n is bought first, for an eighth of the budget. Of an
    (ε, δ) it spends ε and leaves δ; zCDP is spent as the ε with ε²/8 = ρ (bounded range, Cesar & Rogers 2021).

    net     any `nets.Candidates` that was made without a look at the table: the release shows it. `nets.Listed` makes
            one of synopses of one's own
    radius  where a theorem gives it, as for `nets.quantiles` or by `vc.cover_radius`: how far the nearest synopsis is
            from any table at most, a fraction, on the queries that are asked

    Raises `InvalidInput` for an empty net, `TooLarge` for one of more than `nets.MAX_SYNOPSES`.
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
        """`InvalidInput` for a net over another domain, of synopses that do not answer, or a cost too small.

        `TooLarge` for too many answers.
        """
        choosing.shares(cost, neighbours)
        self._check_domain(workload)
        if len(self.net) * len(workload) > MAX_ANSWERS:
            raise TooLarge(
                f"{len(self.net):,} synopses with {len(workload):,} answers each are too many; at most {MAX_ANSWERS:,}"
                " answers fit: thin the net, or ask less"
            )
        memory.check(choosing.CANDIDATE * len(self.net), f"a choice among {len(self.net):,} synopses", "thin the net")
        deque(answers_of(self.net, workload), maxlen=0)

    def release(self, private: Private, workload: Workload, cost: Cost) -> Draft:
        """Count the records if their number is private, then draw one synopsis."""
        counting, choice = choosing.shares(cost, private.neighbours)
        counted, measured = choosing.count(private, counting)
        n = max(counted, 1)
        answers, unit = choosing.exact_answers(private, workload)
        grid = (1 << _PLACES) * int(1 / unit)
        scores = np.concatenate(
            [-np.abs((answers << _PLACES) - _rounded(block * n, grid)).max(1) for block in self.net.fractions(workload)]
        )
        number = private.select(scores, grid, choice, "exponential")
        choices = {"chosen": number, "records": n, **self._promise(counted, cost, private.neighbours)}
        return Draft(self.net.synopsis(number, float(n)), measured, choices)

    def _promise(self, n: int, cost: Cost, neighbours: Neighbours) -> dict[str, Any]:
        """What is promised of the error; without a radius, of how much it exceeds that of the best synopsis."""
        alpha = self.radius
        if alpha is None:
            excess = choosing.excess(len(self.net), cost, neighbours, BETA) + _ROUNDING
            return {"promise": {"excess": excess, "beta": BETA}}
        miss = choosing.count_error(cost, neighbours, BETA)
        return promise(lambda records: self._error(alpha, records, cost, neighbours, BETA), n, miss, BETA)

    def error(self, workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """With probability 1 - β no answer is off by more than this fraction of a table of n `records`.

        α + 2 (ln N + ln(1/β)) / (εn) for an α-net of N (Dwork & Roth 2014, Proposition 5.2), and what
        `choosing.promised_error` adds under add-remove. Above 1 it says nothing. α is the `radius`; by default the
        upper bound that `covering.radius` proves of it, in seconds. `InvalidInput` for a net over another domain.
        """
        beta, n = positive_probability("beta", beta), whole("records", records, least=1)
        self._check_domain(workload)
        alpha = self.radius
        if alpha is None:
            alpha = radius(self.net, workload, programs=_PROGRAMS).upper
        return self._error(alpha, n, cost, neighbours, beta)

    def _error(self, alpha: float, n: float, cost: Cost, neighbours: Neighbours, beta: float) -> float:
        # The synopsis that is near answers with no more than 1 + α, as fractions.
        promised = choosing.promised_error(alpha, len(self.net), n, cost, neighbours, beta, largest=1 + alpha)
        return promised + _ROUNDING / n

    def _check_domain(self, workload: Workload) -> None:
        if self.net.domain != workload.domain:
            raise InvalidInput("the net is over another domain than the workload")


def _rounded(counts: Floats, grid: int) -> Ints:
    """Counts on the grid; those beyond any table are clipped, so that they fit."""
    return np.rint(np.clip(counts, -2 * choosing.MAX_COUNT, 2 * choosing.MAX_COUNT) * grid).astype(np.int64)
