"""Privacy costs as inert frozen values, the neighbouring relations, and exact shares of a cost.

A cost says what a mechanism promises; it computes nothing. Its numbers are plain floats and mean exactly
the binary fractions they hold. Sums are taken over those fractions, so no rounding hides a spend: ten times
0.1 is a little more than 1, and `split` gives ten shares that are not.
"""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from numbers import Integral, Real
from typing import TypeVar

from qrelease.errors import InvalidInput


class Neighbours(enum.Enum):
    """Which two databases count as neighbours (Dwork & Roth 2014, §2.3)."""

    ADD_REMOVE = "add-remove"
    """One record added or removed; the number of records is private."""
    REPLACE_ONE = "replace-one"
    """One record changed; the number of records is public."""

    @classmethod
    def parse(cls, value: "str | Neighbours") -> "Neighbours":
        """The relation of that name, or the relation itself; `InvalidInput` for anything else."""
        try:
            return cls(value)
        except ValueError:
            allowed = " or ".join(repr(n.value) for n in cls)
            raise InvalidInput(f"neighbours must be {allowed}, got {value!r}") from None


def real(name: str, value: object) -> float:
    """A finite number as the float that equals it, else `InvalidInput`.

    NumPy's real scalars are numbers like any other. Booleans, text, NaN, infinities, and fractions that no
    float equals are not.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInput(f"{name} must be finite, got {number}")
    if number != value:
        raise InvalidInput(f"{name} must be a float or equal to one, got {value}")
    return number


def positive(name: str, value: object) -> float:
    """A finite number above 0 as a float, else `InvalidInput`."""
    number = real(name, value)
    if number <= 0:
        raise InvalidInput(f"{name} must be positive, got {value}")
    return number


def probability(name: str, value: object) -> float:
    """A number in [0, 1) as a float, else `InvalidInput`."""
    number = real(name, value)
    if not 0 <= number < 1:
        raise InvalidInput(f"{name} must be in [0, 1), got {value}")
    return abs(number)  # -0.0 becomes 0.0


def positive_probability(name: str, value: object) -> float:
    """A number in (0, 1) as a float, else `InvalidInput`."""
    number = real(name, value)
    if not 0 < number < 1:
        raise InvalidInput(f"{name} must be in (0, 1), got {value}")
    return number


def accuracy(name: str, value: object) -> float:
    """A number from 1e-100 to below 1 as a float, whose square has an inverse in the floats' range; `InvalidInput`."""
    number = positive_probability(name, value)
    if number < 1e-100:
        raise InvalidInput(f"{name} must be at least 1e-100, got {value}")
    return number


def count(name: str, value: object) -> int:
    """A whole number from 1 to 2^53, Python's or NumPy's, else `InvalidInput`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInput(f"{name} must be a whole number, got {value!r}")
    number = int(value)
    if not 1 <= number <= 2**53:
        raise InvalidInput(f"{name} must be from 1 to 2^53, got {number}")
    return number


class _Readable:
    """Text and JSON of a cost, with every digit of its floats; and a shorter text for what is only read."""

    __slots__: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True)
class PureDP(_Readable):
    """ε-differential privacy, ε > 0 (Dwork, McSherry, Nissim & Smith 2006)."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))


@dataclass(frozen=True, slots=True)
class ApproxDP(_Readable):
    """(ε, δ)-differential privacy, ε > 0 and 0 ≤ δ < 1 (Dwork et al. 2006)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability("delta", self.delta))


@dataclass(frozen=True, slots=True)
class ZCDP(_Readable):
    """ρ-zero-concentrated DP, ρ > 0: Rényi divergence ≤ ρα at every order α > 1 (Bun & Steinke 2016)."""

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive("rho", self.rho))


Cost = PureDP | ApproxDP | ZCDP

_Kind = TypeVar("_Kind", bound=Cost)


def check_cost(value: object, *kinds: type[PureDP] | type[ApproxDP] | type[ZCDP]) -> None:
    """`InvalidInput` unless a value is a cost of one of the kinds; of any kind where none is named."""
    allowed = kinds or (PureDP, ApproxDP, ZCDP)
    if not isinstance(value, allowed):
        names = " or ".join(kind.__name__ for kind in allowed)
        raise InvalidInput(f"the cost must be {names}, got {value!r}")


def cost_from_json(data: object) -> Cost:
    """The cost that `to_json` wrote; `InvalidInput` for anything else."""
    if isinstance(data, dict):
        for kind in (PureDP, ApproxDP, ZCDP):
            if data.keys() == {field.name for field in fields(kind)}:
                return kind(**data)
    raise InvalidInput(f"a cost must have epsilon, or epsilon and delta, or rho, got {data!r}")


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


def split(cost: _Kind, weights: Sequence[float]) -> tuple[_Kind, ...]:
    """Shares of a cost in proportion to positive weights, whose exact sum never exceeds the whole.

    Every share is rounded down to a float, so where the whole can be spent, all its shares can, to the last
    one. Both parts of an `ApproxDP` are split. `InvalidInput` if there is no weight, a weight is not
    positive, or a share would be below the smallest float.
    """
    check_cost(cost)
    parts = [Fraction(positive("a weight", w)) for w in weights]
    if not parts:
        raise InvalidInput("split needs at least one weight, got none")
    whole = sum(parts)
    return tuple(_share(cost, part / whole) for part in parts)


def _share(cost: _Kind, part: Fraction) -> _Kind:
    whole = cost.to_json()
    share = {name: round_down(Fraction(value) * part) for name, value in whole.items()}
    if any(share[name] == 0 < whole[name] for name in whole):
        raise InvalidInput(f"a share of {cost} must not be below the smallest float, got weight {float(part):g}")
    return type(cost)(**share)
