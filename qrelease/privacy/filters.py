"""Privacy filters: totals for costs that are chosen adaptively, from the answers already seen.

All sums are exact fractions: rounding never hides an overrun and never refuses the last exact share, and a
spend takes the same time whatever came before. `after` is the rule itself, without state, so that the
ledger can apply it to sums which it keeps on disk.

**The rule.** With fixed limits, adaptively chosen costs may be summed as if they had been fixed in advance:
Σε ≤ ε and Σδ ≤ δ by the basic filter (Rogers, Roth, Ullman & Vadhan 2016), Σρ ≤ ρ by the zCDP filter
(Whitehouse, Ramdas, Rogers & Wu 2023, *Fully Adaptive Composition in Differential Privacy*), also where
interactive mechanisms are interleaved (Haney et al. 2023). An (ε, δ) total spent partly as (εᵢ, δᵢ) and
partly as ρᵢ has no fixed limits by itself. To ask only that Σε + zcdp_epsilon(Σρ, δ − Σδ) ≤ ε in the end
would let the adversary choose the Rényi order, and how δ is shared, after seeing the losses so far. That is
not private: two Gaussians and one failure of probability δ − Σδ reach 1.2 times the promised δ. So the
limits are fixed, from public costs alone, at the first zCDP spend:

1. Until then the basic filter holds.
2. The first zCDP spend opens an account with all that is left, ε₀ = ε − Σε and δ₀ = δ − Σδ. Its order α is
   the one at which all of (ε₀, δ₀) buys most zCDP. δ₀ backs the account, so no δ is left for later spends.
3. From then on α·Σρ + Σε (of the later spends) must stay within the account's room, ε₀ − ln(1 − 1/α) −
   ln(1/(αδ₀))/(α − 1).

With zCDP spends alone the limit is exactly `zcdp_of(total)`. Where the mix is known beforehand, it is
better to spend an `ApproxDP` share and run the zCDP part under a filter of its own.

**Why it holds.** Let L be the privacy loss since the account was opened, R and E the sums of ρ and ε since
then. exp((α−1)(L − αR − E)) is a supermartingale, since the conditional Rényi divergence of order α of a
step is at most αρᵢ or εᵢ. So E exp((α−1)L) ≤ exp((α−1)·room) at any stopping time, and at this one fixed
order that makes the account (ε₀, δ₀)-DP (Canonne, Kamath & Steinke 2020, §2.3): it is one spend of the
basic filter of step 1.
"""

import math
import threading
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.privacy.conversions import zcdp_account, zcdp_epsilon
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP, check_cost, round_down, round_up

_ZERO, _SMALLEST = Fraction(0), Fraction(math.ulp(0.0))


@dataclass(frozen=True, slots=True)
class Account:
    """The zCDP account of an (ε, δ) total, opened by the first zCDP spend; exact, see the rule above.

    before   Σε of the spends until then.
    delta    δ₀, the delta that backs the account: all that was left then.
    """

    before: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class Tally:
    """Exact sums of what was spent against one total.

    epsilon  Σε of the pure and approximate spends; 0 under a zCDP total, where a pure ε is ε²/2 of `rho`.
    delta    Σδ, with the δ₀ of the account once it is open.
    rho      Σρ.
    account  the zCDP account of an (ε, δ) total, None until the first zCDP spend.
    """

    epsilon: Fraction = _ZERO
    delta: Fraction = _ZERO
    rho: Fraction = _ZERO
    account: Account | None = None


def after(total: Cost, tally: Tally, cost: Cost, times: int = 1) -> Tally:
    """The sums after one more spend, or after so many of the same cost; O(1).

    Raises `InvalidInput` if a total of this kind never holds such a cost (a pure total holds `PureDP`; a
    zCDP total `ZCDP`, and `PureDP` as ε²/2; an (ε, δ) total all three), `BudgetExceeded` if the cost does
    not fit in what is left.
    """
    check_cost(cost)
    return _after(total, tally, cost, times)


@lru_cache(64)  # who buys asks whether it fits first, and each of several purses is asked
def _after(total: Cost, tally: Tally, cost: Cost, times: int) -> Tally:
    new = _sum(total, tally, cost, times)
    if min(_left(total, new)) < 0:
        raise BudgetExceeded(_refusal(total, tally, cost))
    return new


def _sum(total: Cost, tally: Tally, cost: Cost, times: int = 1) -> Tally:
    match total, cost:
        case ZCDP(), ZCDP(rho):
            return replace(tally, rho=tally.rho + _exact(rho, times))
        case ZCDP(), PureDP(epsilon) | ApproxDP(epsilon, 0.0):
            return replace(tally, rho=tally.rho + _exact(epsilon) ** 2 / 2 * times)
        case ApproxDP(), ZCDP(rho):
            opened = tally if tally.account else _open_account(total, tally)
            return replace(opened, rho=tally.rho + _exact(rho, times))
        case (PureDP() | ApproxDP(), PureDP(epsilon) | ApproxDP(epsilon, 0.0)):
            return replace(tally, epsilon=tally.epsilon + _exact(epsilon, times))
        case ApproxDP(), ApproxDP(epsilon, delta):
            sums = tally.epsilon + _exact(epsilon, times), tally.delta + _exact(delta, times)
            return replace(tally, epsilon=sums[0], delta=sums[1])
    raise InvalidInput(f"a total of {total} cannot hold a cost of {cost}")


@lru_cache(256)  # prices and totals are few
def _exact(value: float, times: int = 1) -> Fraction:
    return times * Fraction(value)


def _open_account(total: ApproxDP, tally: Tally) -> Tally:
    backing = _exact(total.delta) - tally.delta
    return replace(tally, delta=_exact(total.delta), account=Account(tally.epsilon, backing))


def _left(total: Cost, tally: Tally) -> tuple[Fraction, ...]:
    """What is left, exact and in the units of the total: (ρ,), (ε,) or (ε, δ); below 0 where overrun."""
    match total:
        case ZCDP(rho):
            return (_exact(rho) - tally.rho,)
        case PureDP(epsilon):
            return (_exact(epsilon) - tally.epsilon,)
        case ApproxDP(epsilon, delta):
            left = _exact(epsilon) - tally.epsilon
            if tally.account:
                alpha, room = _order(epsilon, tally.account)
                left = room - (tally.epsilon - tally.account.before) - alpha * tally.rho
            return left, _exact(delta) - tally.delta


@lru_cache(maxsize=256)
def _order(epsilon: float, account: Account) -> tuple[Fraction, Fraction]:
    """The order α of an account and its room; no room where nothing was left to open it with."""
    most, backing = round_down(Fraction(epsilon) - account.before), round_down(account.delta)
    return zcdp_account(most, backing) if most > 0 and backing > 0 else (Fraction(1), _ZERO)


def spent(total: Cost, tally: Tally) -> Cost | None:
    """What the spends so far come to, as a cost of the total's kind rounded up; None if nothing was spent.

    With zCDP spends under an (ε, δ) total it is the (ε, δ) of the same spends fixed in advance, at the
    total's δ.
    """
    if tally == Tally():
        return None
    match total:
        case ZCDP():
            return ZCDP(round_up(tally.rho))
        case PureDP():
            return PureDP(round_up(tally.epsilon))
        case ApproxDP(epsilon):
            return ApproxDP(min(round_up(max(_epsilon(tally), _SMALLEST)), epsilon), round_up(tally.delta))


def _epsilon(tally: Tally) -> Fraction:
    """Of all spends, fixed in advance."""
    if tally.account is None:
        return tally.epsilon
    return tally.epsilon + Fraction(zcdp_epsilon(round_up(tally.rho), round_down(tally.account.delta)))


def increase(total: Cost, tally: Tally, cost: Cost) -> dict[str, float] | None:
    """By how much one more spend raises what `spent` says, in the total's terms; also beyond the total. O(1).

    The same ρ raises an (ε, δ) the less, the more of it was spent before; None where no δ is left to convert it with.
    Raises `InvalidInput` as `after` does.
    """
    new = _sum(total, tally, cost)
    if new.account and round_down(new.account.delta) <= 0:
        return None
    match total:
        case ZCDP():
            return {"rho": round_up(new.rho - tally.rho)}
        case PureDP():
            return {"epsilon": round_up(new.epsilon - tally.epsilon)}
        case ApproxDP():
            raised = max(_epsilon(new) - _epsilon(tally), _ZERO)
            return {"epsilon": round_up(raised), "delta": round_up(new.delta - tally.delta)}


def remaining(total: Cost, tally: Tally) -> Cost | None:
    """The largest cost of the total's kind that still fits, rounded down; None if nothing does."""
    left = [round_down(max(part, _ZERO)) for part in _left(total, tally)]
    if left[0] == 0:
        return None
    match total:
        case ZCDP():
            return ZCDP(left[0])
        case PureDP():
            return PureDP(left[0])
        case ApproxDP():
            return ApproxDP(left[0], left[1])


def _refusal(total: Cost, tally: Tally, cost: Cost) -> str:
    nothing = ", ".join(f"{name}=0" for name in total.to_json())
    left = remaining(total, tally)
    advice = f"ask for at most the {left} that is left, or raise" if left else "nothing is left unless you raise"
    requested = str(cost)
    if isinstance(cost, ZCDP) and isinstance(total, ApproxDP):  # two numbers of other kinds tell nobody which is more
        raised = increase(total, tally, cost)
        here = ", ".join(f"{name}={value:.6g}" for name, value in raised.items()) if raised else "a delta, none is left"
        requested = f"{cost:.6g}, which takes {here}"
    return (
        f"budget exceeded: total {total}; spent {spent(total, tally) or nothing}; requested {requested} ({advice} the"
        " total)"
    )


class Filter:
    """A total that adaptively chosen costs never exceed together; safe for threads, O(1) a spend."""

    def __init__(self, total: Cost) -> None:
        check_cost(total)
        self._total = total
        self._tally = Tally()
        self._lock = threading.Lock()

    def spend(self, cost: Cost) -> None:
        """Take a cost from what is left; `BudgetExceeded` if it does not fit, and then nothing is taken."""
        with self._lock:
            self._tally = after(self._total, self._tally, cost)

    def admits(self, cost: Cost) -> bool:
        """Whether `spend` would succeed now."""
        try:
            after(self._total, self._tally, cost)
        except (BudgetExceeded, InvalidInput):
            return False
        return True

    @property
    def total(self) -> Cost:
        """The total it was made with."""
        return self._total

    @property
    def spent(self) -> Cost | None:
        """What was spent, in the total's kind and rounded up; None if nothing was."""
        return spent(self._total, self._tally)

    @property
    def remaining(self) -> Cost | None:
        """The largest cost of the total's kind that `spend` would take now; None if it takes none."""
        return remaining(self._total, self._tally)

    def __repr__(self) -> str:
        return f"Filter(total {self._total}; spent {self.spent or 'nothing'})"
