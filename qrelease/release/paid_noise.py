"""Whether what a release says that it measured has the noise that its cost buys; and a word to whoever made one that
has not, as only a mechanism of one's own can.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from qrelease.errors import InvalidInput
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.noise.calibration import calibrated
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, Spend
from qrelease.privacy.filters import Filter
from qrelease.queries.workload import Group, Workload

if TYPE_CHECKING:
    from qrelease.release.release import Release

_COUNT, _MEASURE = "count the records", "measure "
"""How the parts of a cost are called that buy measurements; see `mechanisms.private_data`."""

SUM: Final = "sum "
"""And those that buy tables of sums."""

CHOOSE: Final = "select quantile"
"""And those that buy choices of quantiles."""

_OTHERS = ("select by ", CHOOSE, SUM, "compare by ", "learn ")
"""And all that buy no measurements of counts: choices, sums, or the schema."""

_MAX_DIGITS = 9  # of a number of groups

SAME: Final = 1e-7
"""A relative difference of scales: the standard deviation for an (ε, δ) is found to ten digits."""


OF_THE_PACKAGE: Final = (
    *("auto", "gaussian", "iterative", "laplace", "matrix", "maxent", "mwem", "net", "records", "smalldb", "sums"),
)
"""The names of the mechanisms whose draws are tested to be paid for."""

_MOST_NAMED = 3
"""Measurements that a note names."""

_LEFT = 1e-6
"""A share of the cost: when less of it is left, that is not told."""


def notes_of_draws(release: Release) -> list[str]:
    """What a mechanism of one's own measured that it did not pay for, and how much of the cost it did not use."""
    if release.mechanism in OF_THE_PACKAGE:
        return []
    told = []
    unpaid = [] if foreign_spends(release) else unpaid_measurements(release, release.measurements)
    if unpaid:
        named = [release.domain.named(m.group.axes) for m in unpaid[:_MOST_NAMED]]
        more = f" and {len(unpaid) - _MOST_NAMED:,} more" if len(unpaid) > _MOST_NAMED else ""
        told.append(
            f"NOT COVERED BY THE COST: no part of it buys the noise of the measurements of {'; '.join(named)}{more}."
            " Unless they were computed from draws of private.measure, which spends first, the promise does not hold"
            " for them"
        )
    whole = release.unit.of_a_record(release.cost)
    used = Filter(whole)
    for spend in release.spends:
        used.spend(spend.cost)
    left = used.remaining
    if left is not None and _first(left) > _LEFT * _first(whole):
        gone = "nothing" if used.spent is None else used.spent.rounded()
        of_what = "" if whole == release.cost else ", of one record"
        told.append(f"the mechanism spent {gone} of {whole.rounded()}{of_what}: all of it was charged")
    return told


def _first(cost: Cost) -> float:
    """Its ρ, or its ε."""
    return cost.rho if isinstance(cost, ZCDP) else cost.epsilon


def foreign_spends(release: Release) -> list[Spend]:
    """The parts of the cost that buy something by other names than the package's: these may buy any measurement."""
    return [s for s in release.spends if not _buys_measurements(s) and not s.what.startswith(_OTHERS)]


def _buys_measurements(spend: Spend) -> bool:
    return spend.what == _COUNT or spend.what.startswith(_MEASURE)


def unpaid_measurements(release: Release, measured: Sequence[Measurement]) -> list[Measurement]:
    """The draws among those measured that no part of the cost pays for.

    A part buys one group by its name, or a number of groups at once, which stand in a row; or, where a release has
    them in another order, some parts buy all that have one noise: then one record moves these together by exactly what
    the parts allow, or by less if some were left out.
    """
    payers = [spend for spend in release.spends if _buys_measurements(spend)]
    left: dict[Noise, list[Measurement]] = defaultdict(list)
    for m in measured:
        left[m.noise] += [m] * min(m.repeats, len(payers) + 1)
    together = []
    for spend in payers:
        groups = _groups(spend)
        if not _bought(release, spend, groups, left) and groups > 1:
            together.append((spend, groups))
    for noise, draws in left.items():
        able = [(s, g, moved) for s, g in together if (moved := _allowed(noise, s.cost)) is not None]
        paid, most = sum(g for _, g, _ in able), sum(moved for *_, moved in able)
        moves = _moves(release, draws)
        exact = math.isclose(moves, most, rel_tol=SAME)
        if draws and (exact if paid == len(draws) else paid > len(draws) and (exact or moves < most)):
            draws.clear()
            together = [(s, g) for s, g in together if all(s is not other for other, *_ in able)]
    return [m for draws in left.values() for m in draws]


def _bought(release: Release, spend: Spend, groups: int, left: Mapping[Noise, list[Measurement]]) -> bool:
    """Take away what a part of the cost bought by itself; False where it is not there."""
    for noise, draws in left.items():
        allowed = _allowed(noise, spend.cost)
        if allowed is None:
            continue
        starts = [0] if groups > 1 else [i for i, m in enumerate(draws) if spend.what in _called(release, m.group)]
        for start in starts:
            some = draws[start : start + groups]
            if len(some) == groups and math.isclose(_moves(release, some), allowed, rel_tol=SAME):
                del draws[start : start + groups]
                return True
    return False


def _groups(spend: Spend) -> int:
    """How many groups a part of a cost measured."""
    number, _, rest = spend.what.removeprefix(_MEASURE).partition(" ")
    return int(number) if rest == "groups of queries" and number.isdecimal() and len(number) <= _MAX_DIGITS else 1


def _called(release: Release, group: Group) -> tuple[str, ...]:
    """What the part of the cost is called that measures a group by itself: the records are counted first, or as the
    group of a plan that has no columns, which had no name once."""
    what = f"{_MEASURE}{group.queries.to_json()['type']} of "
    named = f"{what}{release.domain.named(group.axes)}"
    if group.axes:
        return (named,)
    return (named, what, *[_COUNT] * (group == RECORDS))


def _moves(release: Release, draws: Sequence[Measurement]) -> float:
    """How far one record moves some measurements, in units of their noise's grid; squared, for Gaussian noise."""
    if not draws:
        return 0.0
    noise, once = draws[0].noise, dict.fromkeys(m.group for m in draws)
    workload = Workload(release.domain, tuple(once))
    unit = min(g.queries.unit for g in workload.groups)
    far = float(workload.moved(noise.order, replace=release.unit.relation is Neighbours.REPLACE_ONE) or 1)
    twice = [m for m in draws if once.pop(m.group, m) is not None]  # what is measured once more moves as far again
    return far * (unit / noise.unit) ** noise.order + _moves(release, twice)


def _allowed(noise: Noise, cost: Cost) -> float | None:
    """How far one record may move what is measured with a noise at a cost; None where the cost buys no such noise."""
    try:
        least, _ = calibrated(1, cost, noise.unit)
    except InvalidInput:
        return None
    if least.law != noise.law:
        return None
    return (noise.scale / least.scale) ** noise.order
