"""Privacy costs as inert frozen values, the neighbouring relations, and exact shares of a cost.

A cost says what a mechanism promises; it computes nothing. Its numbers are plain floats and mean exactly
the binary fractions they hold. Sums are taken over those fractions, so no rounding hides a spend: ten times
0.1 is a little more than 1, and `split` gives ten shares that are not.
"""

import enum
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeGuard, TypeVar

from qrelease._util.validate import natural, positive, probability
from qrelease.errors import InvalidInput

MOST_SPENT = 1e50
"""The largest ε and ρ that a release, an estimate or a session may cost, and one over the smallest.

Noise has a variance of about 2/ε² or 1/(2ρ). Fits weigh by one over it; bounds and forecasts take its square, and
multiply it by numbers of cells, records and draws. With ε from 1e-50 to 1e50 the squares are from 1e-200 to 1e200,
which leaves 10^100 for such numbers at either end of the floats, 1e-308 and 1.8e308. From about 1e77 on the square of a
variance is no float any more, and from 1e154 on the variance itself is not: it becomes 0, and a fit divides by it.
"""

WEAK_EPSILON = 20.0
WEAK_DELTA = 1e-4
"""Costs beyond these promise hardly anything to anybody: a command refuses them unless they are meant, or warns."""


class Neighbours(enum.Enum):
    """Which two databases count as neighbours (Dwork & Roth 2014, §2.3).

    Examples
    --------
    >>> Neighbours.parse("add-remove")
    <Neighbours.ADD_REMOVE: 'add-remove'>
    """

    ADD_REMOVE = "add-remove"
    """One record added or removed; the number of records is private."""
    REPLACE_ONE = "replace-one"
    """One record changed; the number of records is public."""

    @classmethod
    def parse(cls, value: "str | Neighbours") -> "Neighbours":
        """The relation of a name.

        Parameters
        ----------
        value : str or Neighbours
            `add-remove` or `replace-one`, or the relation itself.

        Returns
        -------
        Neighbours
            The relation.

        Raises
        ------
        InvalidInput
            For anything else.
        """
        try:
            return cls(value)
        except ValueError:
            allowed = " or ".join(repr(n.value) for n in cls)
            raise InvalidInput(f"neighbours must be {allowed}, got {value!r}") from None


class _Parameters:
    """The checks of a cost's numbers; its text and JSON, with every digit of its floats; and a shorter text to read."""

    __slots__: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.__slots__:
            check = probability if name == "delta" else positive
            object.__setattr__(self, name, check(name, getattr(self, name)))

    def to_json(self) -> dict[str, float]:
        """The fields by name; `cost_from_json` makes the same cost of them, bit for bit."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        """`epsilon=1, delta=1e-09`."""
        return ", ".join(f"{name}={repr(value).removesuffix('.0')}" for name, value in self.to_json().items())

    def __format__(self, spec: str) -> str:
        """Each number as the float format says, so `.6g` leaves out what rounding added; all digits without one.

        A rounded cost may be more than the cost is: what somebody should ask for, or compare, takes all digits.
        """
        if not spec:
            return str(self)
        return ", ".join(f"{name}={value:{spec}}" for name, value in self.to_json().items())

    def rounded(self, *, up: bool = True) -> str:
        """Each number to six digits, not below it, or with `up=False` not above it: see `six_digits`."""
        return ", ".join(f"{name}={six_digits(value, up=up)}" for name, value in self.to_json().items())


@dataclass(frozen=True, slots=True)
class PureDP(_Parameters):
    """ε-differential privacy, ε > 0 (Dwork, McSherry, Nissim & Smith 2006).

    Parameters
    ----------
    epsilon
        ε, a positive finite number.

    Raises
    ------
    InvalidInput
        For an ε that is not positive and finite.

    Examples
    --------
    >>> PureDP(1)
    PureDP(epsilon=1.0)
    """

    epsilon: float


@dataclass(frozen=True, slots=True)
class ApproxDP(_Parameters):
    """(ε, δ)-differential privacy, ε > 0 and 0 ≤ δ < 1 (Dwork et al. 2006).

    Parameters
    ----------
    epsilon
        ε, a positive finite number.
    delta
        δ, from 0 to below 1. It should be far below one over the number of people.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Examples
    --------
    >>> print(ApproxDP(1.0, 1e-9))
    epsilon=1, delta=1e-09
    """

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class ZCDP(_Parameters):
    """ρ-zero-concentrated DP, ρ > 0: the Rényi divergence is at most ρα at every order α > 1.

    The costs of Gaussian draws add up in it without loss, and at each δ > 0 it implies an (ε, δ): see
    `conversions.zcdp_epsilon`.

    Parameters
    ----------
    rho
        ρ, a positive finite number.

    Raises
    ------
    InvalidInput
        For a ρ that is not positive and finite.

    References
    ----------
    Bun & Steinke 2016, *Concentrated differential privacy*.

    Examples
    --------
    >>> ZCDP(0.5)
    ZCDP(rho=0.5)
    """

    rho: float


Cost = PureDP | ApproxDP | ZCDP

_Kind = TypeVar("_Kind", bound=Cost)


def check_cost(value: object, *kinds: type[PureDP] | type[ApproxDP] | type[ZCDP]) -> None:
    """Raise `InvalidInput` unless a value is a cost of one of the kinds; of any kind where none is named."""
    allowed = kinds or (PureDP, ApproxDP, ZCDP)
    if not isinstance(value, allowed):
        names = " or ".join(kind.__name__ for kind in allowed)
        raise InvalidInput(f"the cost must be {names}, got {value!r}")


def check_spendable(cost: object) -> None:
    """Raise `InvalidInput` unless a value is a cost whose noise arithmetic can hold, before anything is charged for it.

    Its ε or ρ is from 1 / `MOST_SPENT` to `MOST_SPENT`. Totals, sums and conversions, which are exact, hold any cost.
    """
    check_cost(cost)
    assert isinstance(cost, Cost)
    name, value = next(iter(cost.to_json().items()))
    if not 1 / MOST_SPENT <= value <= MOST_SPENT:
        raise InvalidInput(f"{name} must be from {1 / MOST_SPENT:g} to {MOST_SPENT:g} to be spent, got {value:g}")


def is_pure(cost: Cost) -> TypeGuard[PureDP | ApproxDP]:
    """Whether a cost has ε alone, written as `PureDP` or with a δ of 0: no Gaussian noise can be had for it."""
    return isinstance(cost, PureDP) or (isinstance(cost, ApproxDP) and cost.delta == 0)


def check_gaussian(cost: Cost, instead: str) -> None:
    """Raise `InvalidInput` for a cost for which no Gaussian noise can be had, which names what to use instead."""
    if is_pure(cost):
        raise InvalidInput(f"Gaussian noise needs a delta above 0, got {cost}; give --delta, or use {instead}")


def cost_from_json(data: object) -> Cost:
    """The cost that `to_json` wrote; `InvalidInput` for anything else."""
    if isinstance(data, dict):
        for kind in (PureDP, ApproxDP, ZCDP):
            if data.keys() == {field.name for field in fields(kind)}:
                return kind(**data)
    raise InvalidInput(f"a cost must have epsilon, or epsilon and delta, or rho, got {data!r}")


def amount_to_json(cost: Cost | None, total: Cost) -> dict[str, float]:
    """How much was spent of a total, or is left of it, in the terms of the total: zeros where that is nothing.

    Examples
    --------
    >>> amount_to_json(None, ApproxDP(2.0, 1e-9)), amount_to_json(PureDP(1.0), ApproxDP(2.0, 1e-9))
    ({'epsilon': 0.0, 'delta': 0.0}, {'epsilon': 1.0, 'delta': 0.0})
    """
    return dict.fromkeys(total.to_json(), 0.0) | ({} if cost is None else cost.to_json())


def amount_from_json(data: object) -> Cost | None:
    """What `amount_to_json` wrote; None for nothing, which earlier versions wrote as null."""
    if data is None or (isinstance(data, dict) and data and not any(data.values())):
        return None
    return cost_from_json(data)


def cost_of(epsilon: float, delta: float | None = None) -> PureDP | ApproxDP:
    """The cost that a pair of numbers means: pure ε where δ is None or 0, else (ε, δ).

    Raises `InvalidInput` for numbers that are no cost.

    Examples
    --------
    >>> cost_of(1.0), cost_of(1.0, 1e-9)
    (PureDP(epsilon=1.0), ApproxDP(epsilon=1.0, delta=1e-09))
    """
    if delta is None:
        return PureDP(epsilon)
    cost = ApproxDP(epsilon, delta)
    return cost if cost.delta else PureDP(epsilon)


def six_digits(value: float, *, up: bool = True) -> str:
    """A number that is not negative to six digits, not below it; with `up=False` not above it.

    What is spent or asked for is told no smaller than it is, and what is left no larger. A number that is above a short
    one by less than 10^-12 of it is told as that one: so much the sums of floats are off.

    Examples
    --------
    >>> six_digits(0.03485930012), six_digits(0.1 + 0.2), six_digits(0.09999999999999995, up=False)
    ('0.0348594', '0.3', '0.0999999')
    """
    near = f"{value:.6g}"
    if (float(near) >= value * (1 - 1e-12)) if up else (float(near) <= value):
        return near
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return f"{float(Context(prec=6, rounding=rounding).create_decimal(Decimal(value))):.6g}"


def round_down(exact: Fraction) -> float:
    """The largest float that is not above a fraction of the floats' range."""
    near = float(exact)
    return math.nextafter(near, -math.inf) if Fraction(near) > exact else near


def round_up(exact: Fraction) -> float:
    """The smallest float that is not below a fraction; infinity above the largest float."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf
    return math.nextafter(near, math.inf) if Fraction(near) < exact else near


def split(cost: _Kind, weights: Sequence[float] | int) -> tuple[_Kind, ...]:
    """Shares of a cost in proportion to positive weights, or equal ones, whose exact sum never exceeds the whole.

    Every share is rounded down to a float, so where the whole can be spent, all its shares can, to the last one.

    Parameters
    ----------
    cost
        What is split; of an `ApproxDP` both parts are.
    weights
        Positive numbers, (k,); or k, for equal shares.

    Returns
    -------
    tuple
        The k shares, costs of the same kind.

    Raises
    ------
    InvalidInput
        Without weights, for one that is not positive, for k below 1, and for a share below the smallest float.

    Examples
    --------
    >>> split(PureDP(1.0), [1, 3])
    (PureDP(epsilon=0.25), PureDP(epsilon=0.75))
    >>> split(PureDP(1.0), 4)[0]
    PureDP(epsilon=0.25)
    """
    check_cost(cost)
    if isinstance(weights, int | float):
        weights = [1.0] * natural("the number of shares", weights)
    parts = tuple(positive("a weight", w) for w in weights)
    if not parts:
        raise InvalidInput("split needs at least one weight, got none")
    return _shares(cost, parts)


@lru_cache(maxsize=64)
def _shares(cost: _Kind, weights: tuple[float, ...]) -> tuple[_Kind, ...]:
    """Exact arithmetic takes a while, and rounds, plans and audits split the same cost again and again."""
    parts = [Fraction(weight) for weight in weights]
    whole = sum(parts)
    return tuple(_share(cost, part / whole) for part in parts)


def _share(cost: _Kind, part: Fraction) -> _Kind:
    whole = cost.to_json()
    share = {name: round_down(Fraction(value) * part) for name, value in whole.items()}
    if any(share[name] == 0 < whole[name] for name in whole):
        raise InvalidInput(f"a share of {cost} must not be below the smallest float, got weight {float(part):g}")
    return type(cost)(**share)


@dataclass(frozen=True)
class Spend:
    """One entry of the manifest: what was drawn, and its part of the cost."""

    what: str
    cost: Cost

    @property
    def delta_beside(self) -> float:
        """The δ that it costs beside a ρ (`beside`), in three digits; 0 where there is none."""
        found = re.fullmatch(r"learn categories \(and delta=([0-9.e+-]+)\) of .*", self.what, re.DOTALL)
        return float(found[1]) if found else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {"what": self.what, **self.cost.to_json()}


def beside(what: str, delta: float) -> str:
    """What was drawn, with a δ that it costs beside its ρ: categories that were learned are approximately zCDP."""
    return what.replace(" of ", f" (and delta={delta:.3g}) of ", 1)
