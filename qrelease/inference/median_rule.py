"""The update rule of the median mechanism: halve a list of candidates (Roth & Roughgarden 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, final

from qrelease._util.typing import Axes
from qrelease._util.validate import accuracy, positive_probability
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, QReleaseError
from qrelease.inference.measurement import Measurement
from qrelease.inference.medians import Medians
from qrelease.inference.net_radius import radius
from qrelease.inference.nets import Candidates, check_candidates
from qrelease.inference.update_rules import furthest_off
from qrelease.queries.workload import Workload

RADIUS_PROGRAMS: Final = 64
"""Linear programs for the radius of candidates: a second's work or so."""


@final
@dataclass(frozen=True)
class MedianRule:
    """Halving: of finitely many candidates, keep those on the same side of their median as the noisy answer.

    The hypothesis answers every query with the median of the candidates that are left. The bound T(α) holds only where
    one candidate answers every query within less than α of the table, whatever the table: see `proved`. If no candidate
    is on the side of the noisy answer, which then cannot happen, all stay.

    Parameters
    ----------
    candidates
        A net; `nets.Listed` makes one of synopses of any kind.
    alpha
        The least gap between hypothesis and table, a fraction of the records, that an update is made for.
    radius
        How far the nearest candidate is from any table at most, a fraction, on the queries that are asked: where a
        theorem gives it, as for `nets.quantiles` or by `vc.small_database_error`. By default what `net_radius.radius`
        proves for the workload.

    Raises
    ------
    InvalidInput
        For an empty net, or parameters out of range.

    References
    ----------
    Roth & Roughgarden 2010, *Interactive privacy via the median mechanism*.
    """

    candidates: Candidates
    alpha: float
    radius: float | None = None
    stored_name: ClassVar[str] = "Median"

    def __post_init__(self) -> None:
        check_candidates("the candidates", self.candidates)
        object.__setattr__(self, "alpha", accuracy("alpha", self.alpha))
        if self.radius is not None:
            object.__setattr__(self, "radius", positive_probability("radius", self.radius))

    def update_bound(self, domain: Domain, workload: Workload | None = None) -> int:
        """T(α) = log2 of the number of candidates, rounded down.

        *Proof.* At most half of the candidates answer with strictly more than their median, or with strictly less; so
        each update at least halves their number. The close candidate answers within less than α of q(x), which is at
        least α away from the median: so it is on the same side as q(x), and as v, and stays. Once it is the only one,
        there is no query with such a gap.
        """
        return len(self.candidates).bit_length() - 1

    def proved(self, workload: Workload | None) -> bool:
        """Whether some candidate is proved to be closer than α to any table; takes seconds where no radius is given."""
        if self.radius is not None:
            return self.radius < self.alpha
        return workload is not None and _proved(self.candidates, workload, self.alpha)

    def start(self, domain: Domain, sets: Sequence[Axes], total: float) -> Medians:
        """All candidates. `InvalidInput` if they are over another domain."""
        if self.candidates.domain != domain:
            raise InvalidInput("the candidates are over another domain than the workload")
        return Medians(self.candidates, total)

    def update(self, state: Medians, measurements: Sequence[Measurement]) -> Medians:
        """One halving by the newest measurement."""
        query, gap = furthest_off(state, measurements[-1])
        return state.halved(query, above=gap > 0)


@lru_cache(maxsize=16)
def _proved(candidates: Candidates, workload: Workload, alpha: float) -> bool:
    """Whether the radius of candidates is proved to be below α; a radius that cannot be found is not."""
    try:
        return radius(candidates, workload, alpha=alpha, programs=RADIUS_PROGRAMS).upper < alpha
    except QReleaseError:
        return False
