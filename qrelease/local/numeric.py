"""Clients for one number in a public range: what each reports, and with which whole-number weights. No numpy.

The range is cut into `steps` equal steps, and a value counts as the nearest of the steps + 1 ends of these; values
beyond the range as its ends. With i the place on this grid, G the steps and E the `odds`, just below e^ε:

    coin         1 with weight (E - 1) i + G, 0 with the rest of (E + 1) G: Duchi, Jordan & Wainwright (2018). RCP for
                 one attribute is the same law, written for [0, 1] where they have [-1, 1]
    piecewise    one of G + w numbers, i to i + w - 1 with weight E each, the others with weight 1; w = G e^(-ε/2)
                 (Wang et al. 2019, on a grid)
    square wave  the same with another w, for the whole distribution rather than its mean (Li et al. 2020)
    hybrid       by a coin of its own, piecewise or coin (Wang et al. 2019)
    Laplace      i plus two-sided geometric noise at ε/G a step, cut off far outside (Ghosh, Roughgarden &
                 Sundararajan 2012)
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final, final

from qrelease._util.validate import whole
from qrelease.errors import InvalidInput
from qrelease.local.client import Client
from qrelease.local.draws import DeviceDraws, checked_epsilon, share_of, two_sided_geometric

STEPS: Final = 1 << 16
MAX_STEPS: Final = 1 << 24

_REACH: Final = 64  # ε times the steps, over which Laplace noise is cut off, of the range: beyond it 1 in 10^28
_HYBRID_FROM: Final = Fraction(61, 100)  # below this ε the hybrid is the coin (Wang et al. 2019)
_ONE: Final = 1 << 32


@dataclass(frozen=True)
class NumberClient(Client):
    """One number in a public range.

    Parameters
    ----------
    epsilon
        As of every `Client`.
    low, high
        The range: values outside count as its nearer end.
    steps
        The steps of the grid: a value is moved by at most (high - low)/(2 steps).
    """

    low: float = 0.0
    high: float = 1.0
    steps: int = STEPS

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, end in (("low", self.low), ("high", self.high)):
            if isinstance(end, bool) or not isinstance(end, int | float | Fraction) or not math.isfinite(end):
                raise InvalidInput(f"{name} must be a finite number, got {end!r}")
        if not self.low < self.high:
            raise InvalidInput(f"low must be below high, got {self.low} and {self.high}")
        self._set("steps", whole("steps", self.steps, least=1))
        if self.steps > MAX_STEPS:
            raise InvalidInput(f"steps must be at most 2^24, got {self.steps}")

    @property
    def inputs(self) -> int:
        """The number of places: the ends of the steps."""
        return self.steps + 1

    def place(self, value: Any) -> int:
        """The nearest end of a step; of two equally near ones the even one. `InvalidInput` for NaN and other types."""
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise InvalidInput("the value must be a number, got another type")
        # Integers and fractions may be too large for a float, and are neither NaN nor infinite.
        rational = isinstance(value, numbers.Rational)
        if not rational and math.isnan(value):
            raise InvalidInput("the value must be a number, got NaN")
        if not rational and math.isinf(value):
            return self.steps if float(value) > 0 else 0
        # Compared as fractions: numpy would round the ends of the range to the value's own precision.
        exact = Fraction(int(value)) if isinstance(value, numbers.Integral) else Fraction(*_ratio(value))
        low, high = Fraction(self.low), Fraction(self.high)
        return round((min(max(exact, low), high) - low) * self.steps / (high - low))


def _ratio(value: Any) -> tuple[int, int]:
    """A finite number as numerator and denominator."""
    numerator, denominator = value.as_integer_ratio()
    return int(numerator), int(denominator)


@final
@dataclass(frozen=True)
class Coin(NumberClient):
    """One bit, which is the likelier 1 the larger the value is."""

    name: ClassVar[str] = "coin"

    @property
    def size(self) -> int:
        """The number of reports, 2."""
        return 2

    def weights(self, place: int) -> tuple[int, int]:
        """The weights of the reports 0 and 1; their sum is (E + 1) G for every place, and each is from G to E G."""
        e, one = self.odds.as_integer_ratio()
        return (e - one) * (self.steps - place) + one * self.steps, (e - one) * place + one * self.steps

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """Draw the bit that is reported."""
        return draws.pick(self.weights(place))


@dataclass(frozen=True)
class WindowClient(NumberClient):
    """A number of a line of G + w ones: those of a window of w from the value's place on are E times as likely."""

    @property
    def window(self) -> int:
        """w, how many numbers around the true one are likelier; at least 1."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The number of reports, G + w."""
        return self.steps + self.window

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """A number inside the window with weight E each, or one of the G outside with weight 1 each."""
        if draws.pick(self.weights) == 0:
            return place + draws.below(self.window)
        other = draws.below(self.steps)
        return other + self.window * (other >= place)

    @property
    def weights(self) -> tuple[int, int]:
        """The weights of the window and of the rest."""
        return self.window * self.odds.numerator, self.steps * self.odds.denominator


@final
@dataclass(frozen=True)
class Piecewise(WindowClient):
    """The window that makes the variance of a mean small: w = G e^(-ε/2)."""

    name: ClassVar[str] = "piecewise"

    @cached_property
    def window(self) -> int:
        """w = G e^(-ε/2), rounded, at least 1."""
        return max(1, share_of(self.steps, checked_epsilon(self.epsilon) / 2))


@final
@dataclass(frozen=True)
class SquareWave(WindowClient):
    """The window that tells most of the distribution: w = 2bG, b = (εE - E + 1) / (2E(E - 1 - ε))."""

    name: ClassVar[str] = "square wave"

    @cached_property
    def window(self) -> int:
        """w = 2bG, rounded, at least 1. As ε falls to 0, 2b goes to 1."""
        epsilon, e = checked_epsilon(self.epsilon), self.odds
        if epsilon < Fraction(1, 1000):  # the formula is 0/0 there; its series begins 1 - 2ε/3
            return max(1, round(self.steps * (1 - 2 * epsilon / 3)))
        return max(1, round(self.steps * (epsilon * e - e + 1) / (e * (e - 1 - epsilon))))


@final
@dataclass(frozen=True)
class Hybrid(NumberClient):
    """`Piecewise` with probability 1 - e^(-ε/2) and `Coin` otherwise; always the coin for ε at most 0.61.

    Which of them says nothing of the value, and the report tells: 0 and 1 are the coin's, what follows the window's.
    """

    name: ClassVar[str] = "hybrid"

    @cached_property
    def parts(self) -> tuple[Coin, Piecewise]:
        """The two, with the same range and grid."""
        return Coin(self.epsilon, self.low, self.high, self.steps), Piecewise(
            self.epsilon, self.low, self.high, self.steps
        )

    @cached_property
    def weights(self) -> tuple[int, int]:
        """The weights of the coin and of the window: their sum is 2^32."""
        epsilon = checked_epsilon(self.epsilon)
        coin = _ONE if epsilon <= _HYBRID_FROM else share_of(_ONE, epsilon / 2)
        return coin, _ONE - coin

    @property
    def size(self) -> int:
        """2 + G + w, also where the coin alone is used, so that the wire format is the same for every ε."""
        return 2 + self.parts[1].size

    @property
    def unused(self) -> tuple[tuple[int, int], ...]:
        """The window's numbers, where it is never used."""
        return () if self.weights[1] else ((2, self.size),)

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """The bit, or 2 + the number on the line."""
        coin, window = self.parts
        return coin.draw(place, draws) if draws.pick(self.weights) == 0 else 2 + window.draw(place, draws)


@final
@dataclass(frozen=True)
class LocalLaplace(NumberClient):
    """The value's place plus discrete Laplace noise of ε for the whole range, cut off 64 ranges over ε outside.

    The noise has P(y) ∝ e^(-ε|y|/G) exactly. What falls beyond the cut counts as its end, which is post-processing and
    moves a mean by less than 10^-27 of the range.
    """

    name: ClassVar[str] = "laplace"

    @cached_property
    def margin(self) -> int:
        """Steps that a report may lie outside of the range."""
        return math.ceil(_REACH * self.steps / checked_epsilon(self.epsilon))

    @property
    def size(self) -> int:
        """G + 1 and twice the margin."""
        return self.steps + 1 + 2 * self.margin

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """margin + place + noise, kept from 0 to size - 1."""
        noise = two_sided_geometric(checked_epsilon(self.epsilon) / self.steps, draws)
        return min(max(self.margin + place + noise, 0), self.size - 1)
