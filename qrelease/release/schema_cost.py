"""What learning a schema cost, where a release is over it: both are of the same records, so their costs add up.

A schema that was learned by a charge of its own (`Curator.learn`) is in every release over it: its bins and categories
are drawn from the records as the answers are. What a release was charged is then not all that it tells of somebody.
Where one charge paid for both (`Curator.learn_for`), the release's cost is of both, and its parts say so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, final

from qrelease._util.validate import natural
from qrelease.errors import InvalidInput
from qrelease.privacy.conversions import pure_to_zcdp, zcdp_epsilon
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP, cost_from_json, round_up

if TYPE_CHECKING:
    from qrelease.release.release import Release

DELTA: Final = 1e-9
"""The δ at which a cost in ρ is put into words, or added to one in (ε, δ)."""

_PART: Final = re.compile(r"learn (?:bins|categories)(?: \([^)]*\))? of (.*)", re.DOTALL)


@final
@dataclass(frozen=True)
class SchemaCost:
    """What a charge of its own for a schema paid for.

    columns  whose bins or categories were learned
    cost     of the charge, of the unit
    entry    the number of the charge in the ledger
    """

    columns: tuple[str, ...]
    cost: Cost
    entry: int

    def __str__(self) -> str:
        return f"{', '.join(self.columns)} for {self.cost} (entry {self.entry} of the ledger)"

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {"columns": list(self.columns), "cost": self.cost.to_json(), "entry": self.entry}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> SchemaCost:
        """What `to_json` gave; `InvalidInput` for anything else."""
        columns = entry["columns"]
        if not isinstance(columns, list) or not columns or not all(isinstance(name, str) for name in columns):
            raise InvalidInput(f"columns must be a list of names, got {columns!r}")
        return cls(tuple(columns), cost_from_json(entry["cost"]), natural("entry", entry["entry"]))


def learned_columns(release: Release) -> tuple[str, ...]:
    """The columns whose bins or categories were learned from the records, as far as a release knows."""
    before = [name for part in release.learned for name in part.columns]
    within = [found[1] for spend in release.spends if (found := _PART.fullmatch(spend.what))]
    return tuple(dict.fromkeys([*before, *within]))


def cost_with_schema(release: Release) -> Cost:
    """What the release and the schema that it is over cost together, of the unit."""
    total = release.cost
    for part in release.learned:
        total = added(total, part.cost)
    return total


def added(one: Cost, other: Cost) -> Cost:
    """A cost that two of any kind come to, rounded up: ε to ε and δ to δ, ρ to ρ, and ρ to a δ above 0 at `DELTA`."""
    kinds: Sequence[Cost] = (one, other)
    if any(isinstance(cost, ZCDP) for cost in kinds):
        if not any(isinstance(cost, ApproxDP) and cost.delta for cost in kinds):
            return ZCDP(_sum([_in_rho(cost).rho for cost in kinds]))
        kinds = [ApproxDP(zcdp_epsilon(c.rho, DELTA), DELTA) if isinstance(c, ZCDP) else c for c in kinds]
    numbers = [cost.to_json() for cost in kinds]
    epsilon = _sum([n["epsilon"] for n in numbers])
    deltas = _sum([n.get("delta", 0.0) for n in numbers])
    return ApproxDP(epsilon, min(deltas, math.nextafter(1.0, 0.0))) if deltas else PureDP(epsilon)


def _in_rho(cost: Cost) -> ZCDP:
    return cost if isinstance(cost, ZCDP) else pure_to_zcdp(PureDP(cost.to_json()["epsilon"]))


def _sum(parts: Sequence[float]) -> float:
    return round_up(sum(map(Fraction, parts), Fraction(0)))
