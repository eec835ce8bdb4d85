"""The unit of a cost, one record or a person with at most m records; converts each of these costs to the other.

Every mechanism is proved for tables that differ by one record. Where a person is the unit (`data.persons`), at most m
records of each are kept, chosen by a function of that person's own records. So tables that differ by a person differ
by at most m kept records after that, and tables in which a person is replaced by another by at most 2m, which are
taken out or put in one by one. The number of *records* is private in both cases: under replace-one it is the number of
persons that is public. So a mechanism runs under add-remove, at the cost c of one record for which `size` = m or 2m
records cost no more than what was charged:

- **ε-DP** is mε-DP for m records (Dwork & Roth 2014, Theorem 2.2), so c has ε/m. It is exact for Laplace noise on a
  count, and for selection by scores that each record moves by one.
- **ρ-zCDP** is m²ρ-zCDP for m records (Bun & Steinke 2016, Proposition 1.9), so c has ρ/m². It is exact for Gaussian
  noise.
- **(ε, δ)-DP** is (mε, δ(1 + e^ε + … + e^((m-1)ε)))-DP for m records: in P(S) ≤ e^ε P'(S) + δ put what the next step
  says of P'(S), m - 1 times. So c has ε/m, and δ divided by that sum. It holds of any mechanism, also of those that
  spend an (ε, δ) partly in ρ, or ε alone, and it keeps the kind of the cost, by which a mechanism chooses its noise.
  (The other way, to hand on the ρ of an (ε, δ) divided by m², has 5 to 9 % more noise than the analytic Gaussian gets
  here at ε ≤ 1, and up to 4 % less at ε = 10; of what is spent in ρ, it has as much at ε ≤ 1 and 4 to 9 % less at 10.)

**Where a person counts once** (`weights = "persons"`), each of her k <= m kept records counts 1/k, rounded to multiples
of 2^-b that sum to 1 exactly (`data.fractional_records`). So her records come to a distribution p over the cells of the
universe, Σ_x p_x e_x with p >= 0 and Σ p = 1, where one record is one e_x. Linear answers A x move by A p, or, where
she is replaced, by A (p - p') = Σ_{x,y} c(x, y) A (e_x - e_y), for any joint distribution c of p and p'. A norm of an
average is at most the largest norm, so ‖A p‖ <= max_x ‖A e_x‖ and ‖A (p - p')‖ <= max_{x,y} ‖A (e_x - e_y)‖, in L1 and
in L2: a person moves answers no further than one record can, under both relations. The same holds of a score that
changes by no more than the answers do. So c is what was charged; under replace-one the sum of all counts, the number of
persons, is public. It does not hold of what takes records one by one, or exact counts for whole numbers: such
mechanisms refuse it by name (`mechanisms.base.OfParts`).

There a person of a table has at least one record in it: for one without, p would be 0 and the sum of all counts no
public number. So where a table is part of what is promised, and another one may name persons who have no record in it,
replace-one is refused: where both tables are released (`apps.two_tables`), and where records have the columns of their
parents (`release.curator`). So it is where columns are derived from such records (`data.derivation`): each person with
children has one record then, and their number would be public. And so it is for a query that filters or joins: how
many records, or persons with some, it gives depends on what the rows say.

That the records are chosen by a key that is drawn at random changes nothing: the claim holds for each key, and the key
does not depend on the table, so it holds for the mixture, of which no divergence here is larger than the largest.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol, Self

from qrelease.errors import InvalidInput
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_cost, round_down, round_up

_ROUNDING: Final = 1 + Fraction(1, 1 << 40)
"""More than what a sum of exponentials loses in floats, as a factor."""

_MAX_EXPONENT: Final = 700.0
"""e to this power is a float."""

_KEPT_BITS: Final = 32
"""Bits of a delta that was divided: other libraries of elementary functions would make the same of it."""


class HasPerson(Protocol):
    """What says who the unit is, as a domain does."""

    @property
    def at_most(self) -> int | None:
        """m; None where the unit is one record."""

    @property
    def counts_once(self) -> bool:
        """Whether a person counts once."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Whose promise the costs of a ledger are.

    Attributes
    ----------
    neighbours
        Which tables are compared: those that differ by one of it more, or by another one of it.
    at_most
        m, how many records of a person are kept; None where the unit is one record.
    counts_once
        Whether a person counts once, in as many parts as records of hers are kept.

    Examples
    --------
    >>> person = Unit(Neighbours.ADD_REMOVE, 4)
    >>> person.of_a_record(PureDP(1.0)), person.of_a_record(ZCDP(1.0))
    (PureDP(epsilon=0.25), ZCDP(rho=0.0625))
    """

    neighbours: Neighbours
    at_most: int | None = None
    counts_once: bool = False

    @classmethod
    def of(cls, neighbours: Neighbours, domain: "HasPerson") -> Self:
        """The unit of a table over a domain."""
        return cls(neighbours, domain.at_most, domain.counts_once)

    @property
    def of_records(self) -> "Unit":
        """The unit where each kept record of a person counts one."""
        return Unit(self.neighbours, self.at_most)

    @property
    def relation(self) -> Neighbours:
        """The relation of records that a mechanism is run under."""
        return self.neighbours if self.at_most is None or self.counts_once else Neighbours.ADD_REMOVE

    @property
    def size(self) -> int:
        """By how many records neighbouring tables differ at most; 1 where they count as one."""
        if self.at_most is None or self.counts_once:
            return 1
        return 2 * self.at_most if self.neighbours is Neighbours.REPLACE_ONE else self.at_most

    @property
    def public_records(self) -> bool:
        """Whether the number of records is public."""
        return self.relation is Neighbours.REPLACE_ONE

    def of_a_record(self, cost: Cost) -> Cost:
        """What a mechanism may cost one record, so that this is what it costs the unit at most; rounded down.

        Raises `InvalidInput` where that is below the smallest float.
        """
        check_cost(cost)
        if self.size == 1:
            return cost
        match cost:
            case PureDP(epsilon):
                parts = [round_down(Fraction(epsilon) / self.size)]
            case ZCDP(rho):
                parts = [round_down(Fraction(rho) / self.size**2)]
            case ApproxDP(epsilon, delta):
                share = round_down(Fraction(epsilon) / self.size)
                parts = [share, _cut(Fraction(delta) / _growth(share, self.size))]
        if any(part == 0 < whole for part, whole in zip(parts, cost.to_json().values(), strict=True)):
            raise InvalidInput(
                f"{cost} is too little to be divided among {self.size:,} records: take a smaller at_most"
            )
        return type(cost)(*parts)

    def of_the_unit(self, cost: Cost) -> Cost:
        """What something that costs one record this much costs the unit; rounded up.

        Raises `InvalidInput` where that is no cost: beyond all floats, or a delta of 1.
        """
        check_cost(cost)
        if self.size == 1:
            return cost
        match cost:
            case PureDP(epsilon):
                return PureDP(round_up(Fraction(epsilon) * self.size))
            case ZCDP(rho):
                return ZCDP(round_up(Fraction(rho) * self.size**2))
            case ApproxDP(epsilon, delta):
                grown = round_up(Fraction(delta) * _growth(epsilon, self.size))
                return ApproxDP(round_up(Fraction(epsilon) * self.size), grown)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Within it a refusal that names a cost says whose that is, where it is not what was asked for."""
        try:
            yield
        except InvalidInput as error:
            if self.size == 1 or not any(f"{name}=" in str(error) for name in ("epsilon", "rho")):
                raise
            raise type(error)(f"{error} (of each of {self.size:,} records of a person)") from None

    def __str__(self) -> str:
        if self.at_most is None:
            return self.neighbours.value
        once = " who counts once," if self.counts_once else ""
        return f"{self.neighbours.value} of a person{once} with at most {self.at_most:,} records"


def _growth(epsilon: float, size: int) -> Fraction:
    """Σ e^(iε) for i < size, rounded up."""
    if epsilon * size > _MAX_EXPONENT:
        raise InvalidInput(f"a delta does not hold for {size:,} records at an epsilon of {epsilon:g} each")
    # (e^(kε) - 1)/(e^ε - 1), in the form that keeps its digits where ε is small.
    total = math.expm1(epsilon * size) / math.expm1(epsilon)
    return Fraction(total) * _ROUNDING


def _cut(exact: Fraction) -> float:
    """A float of few bits that is not above a fraction."""
    near = round_down(exact)
    if near == 0:
        return 0.0
    fraction, exponent = math.frexp(near)
    return math.ldexp(math.floor(math.ldexp(fraction, _KEPT_BITS)), exponent - _KEPT_BITS)
