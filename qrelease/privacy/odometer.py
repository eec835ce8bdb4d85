"""A running bound on the privacy loss of adaptively chosen costs, with no total set in advance."""

import math
import os
import threading
from fractions import Fraction
from typing import NoReturn

from qrelease._util.validate import positive_probability
from qrelease.errors import InvalidInput, LedgerError
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP, check_cost, round_up

_ROUNDING = 2.0**-47  # covers a dozen roundings, each below 2^-51 of its result


class Odometer:
    """What adaptively chosen costs have come to, at every moment at once; safe for threads, O(1) a spend.

    Except with probability `slack` over the whole run, the privacy loss never exceeds the ε shown at any moment; so
    whenever one stops, for whatever reason, the ε shown then bounds the loss. Pure costs alone need no slack.

    For zCDP it is the mixture odometer of Whitehouse, Ramdas, Rogers & Wu 2023 (*Fully Adaptive Composition
    in Differential Privacy*). With R = Σρ and Z the loss of the zCDP spends, exp(λ(Z − R) − λ²R) is a
    supermartingale for every λ > 0, so its average over λ ~ |N(0, 1/v)| is one too, and Ville's inequality
    bounds it at all times by 1/slack. v makes the bound tightest where Σρ = `near`, where it is about 5 %
    above ρ + 2√(ρ ln(1/slack)). `slack` and `near` are fixed before the first spend it counts, so nothing in the bound
    is chosen in view of the losses that it bounds.

    Parameters
    ----------
    slack
        The probability, in (0, 1), with which the ε shown may at some moment be too small.
    near
        The Σρ at which the bound is to be tightest.

    Raises
    ------
    InvalidInput
        For a slack outside (0, 1), or a `near` that is no `ZCDP`.

    Examples
    --------
    >>> odometer = Odometer(1e-9, near=ZCDP(0.1))
    >>> odometer.spend(ZCDP(0.1))
    >>> print(f"{odometer.spent:.3g}")
    epsilon=3.1, delta=1e-09
    """

    def __init__(self, slack: float, near: ZCDP) -> None:
        check_cost(near, ZCDP)
        self._slack = positive_probability("slack", slack)
        self._sums = Fraction(0), Fraction(0)  # Σε and Σρ; one object, which is read without the lock
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._v = max(2 * near.rho * _best_ratio(self._slack), 1e-300)

    def spend(self, cost: Cost) -> None:
        """Count a `PureDP` or `ZCDP` cost; `InvalidInput` where δ > 0, whose sum nothing would bound.

        In the child of a fork, whose costs its parent would not count, it is a `LedgerError`.
        """
        check_cost(cost)
        if self._process != os.getpid():  # before the lock, which another thread may have held at the fork
            raise LedgerError("costs are counted by the process that made the odometer: after a fork each misses some")
        with self._lock:
            total, concentrated = self._sums
            match cost:
                case ZCDP(rho):
                    self._sums = total, concentrated + Fraction(rho)
                case PureDP(epsilon) | ApproxDP(epsilon, 0.0):
                    self._sums = total + Fraction(epsilon), concentrated
                case _:
                    raise InvalidInput(f"an odometer counts PureDP and ZCDP costs, got {cost}; use a Filter")

    def __reduce__(self) -> NoReturn:
        raise TypeError("an odometer cannot be copied or pickled: what one counts is not seen by the other")

    @property
    def spent(self) -> Cost | None:
        """What was spent until now, rounded up; None if nothing was."""
        epsilon, rho = self._sums
        if rho:
            return ApproxDP(round_up(epsilon + Fraction(self._zcdp_loss(round_up(rho)))), self._slack)
        return PureDP(round_up(epsilon)) if epsilon else None

    def _zcdp_loss(self, rho: float) -> float:
        """The bound on Z: the s + ρ at which the average over λ reaches 1/slack, rounded up.

        With V = 2ρ the average is 2Φ(z)·√(v/(V + v))·exp(z²/2), z = s/√(V + v). Putting Φ = 1 gives a z
        that is too small, and Φ there is too small in turn, so the z it gives is large enough.
        """
        spread = 2 * rho + self._v
        needed = -2 * math.log(self._slack) + math.log1p(2 * rho / self._v)
        low = math.sqrt(max(needed - 2 * math.log(2), 0.0))
        mass = math.erfc(-low / math.sqrt(2))
        z = math.sqrt(needed - 2 * math.log(mass))
        return (rho + z * math.sqrt(spread)) * (1 + _ROUNDING)


def _best_ratio(slack: float) -> float:
    """The v/V with the smallest bound: x − ln(1 + x) = 2 ln(1/(2 slack)) at x = V/v. Any v is valid."""
    least = 2 * max(math.log(0.5 / slack), 0.05)
    x = least
    for _ in range(60):
        x = least + math.log1p(x)
    return 1 / x
