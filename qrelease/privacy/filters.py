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

A larger ε, also one that was chosen in view of the answers so far, adds just its increase to the room: α and δ₀
stay those of the opening. To choose α anew for the larger ε would be choosing it after seeing the losses, as in the
check of the end sums above, and fails with more than twice the δ in the same way.

**Why it holds.** Fix two neighbours; P is the law of everything that is seen on the one, Q on the other. All that
was chosen, costs and totals, is a function of what was seen before it. Let ε* and δ* be the totals at the end; they
may depend on the answers. Claim: P(S) ≤ E_Q[e^ε*; S] + E_P[δ*] for every event S. So it is (ε, δ)-DP where the
totals never exceed ε and δ, and where ε alone was raised it holds at the one δ, for whatever ε the run ends with.

*Step 1, the δ of single spends.* For an (εᵢ, δᵢ) spend with densities p and q replace p by min(p, e^εᵢ q). That
takes mass at most δᵢ, and the loss ln p/q is at most εᵢ in what is left. In the whole run it takes at most
E_P[Σδᵢ]. Call the rest P' and let L = ln P'/Q from the opening of the account on: without an account, all losses
sum to at most Σεᵢ ≤ ε*, and the claim holds as Σδᵢ ≤ δ*.

*Step 2, the account.* Let R and E be the sums of ρ and ε since it was opened. Given the past at the opening, α and δ₀
are constants, and M = exp((α−1)(L − αR − E)) begins at 1 and is a supermartingale under P': given what was seen, the
next cost is fixed and its Rényi divergence of order α is at most αρᵢ or εᵢ. So E M ≤ 1 at any stopping time. Write
c = ln(1 − 1/α) + ln(1/(αδ₀))/(α − 1) and e = ε* − before, where `before` is Σε until the opening. The rule says
αR + E ≤ e − c at the end, whatever e has become. As (1 − e^−x)₊ ≤ exp((α−1)x)·(1 − 1/α)^(α−1)/α for all x
(Canonne, Kamath & Steinke 2020, §2.3), E_P'[(1 − exp(e − L))₊] ≤ E[exp((α−1)(L − e))]·(1 − 1/α)^(α−1)/α ≤
E[M]·exp(−(α−1)c)·(1 − 1/α)^(α−1)/α ≤ δ₀. With the at most `before` that was lost until the opening, what P' has
above e^ε* Q is at most δ₀ on average, and Σδᵢ + δ₀ ≤ δ*. ∎

*A raised δ* is one more possible failure: what was added is for later (ε, δ) spends, and never backs an account that
is open. The claim has the average of δ* then, which is at most the largest δ that could have come of it. For each d
fixed beforehand the failures in runs that end with δ* ≤ d have probability at most d together: a run that stops
where δ would be raised beyond d has spent at most d.

*Pure totals.* The loss is at most Σε ≤ ε* for certain, however ε* came about. From ε to (ε, δ), what was spent until
then counts as spends of step 1 with δᵢ = 0.

*zCDP totals.* E exp((α−1)(L − αρ*)) ≤ 1 at each order by itself, with ρ* the total at the end. But ρ-zCDP is used by
choosing the order for the ρ, so it holds for a ρ that is fixed beforehand. A zCDP total is not raised any more once
something was spent (`check_raise`).
"""

import math
import os
import threading
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, NoReturn

from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.privacy.conversions import zcdp_account, zcdp_epsilon, zcdp_offset
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP, check_cost, round_down, round_up, six_digits

_ZERO, _SMALLEST, _ABOVE_ALL_FLOATS = Fraction(0), Fraction(math.ulp(0.0)), Fraction(2) ** 1024


@dataclass(frozen=True, slots=True)
class RhoAccount:
    """The zCDP account of an (ε, δ) total, opened by the first zCDP spend; exact, see the rule above.

    before   Σε of the spends until then.
    delta    δ₀, the delta that backs the account: all that was left then.
    order    α, the order best for what was left then; 1 where nothing was, and then there is no room.
    """

    before: Fraction
    delta: Fraction
    order: Fraction

    @classmethod
    def opened(cls, total: ApproxDP, before: Fraction, delta: Fraction) -> "RhoAccount":
        """The account that is opened under a total: its order is a function of these alone, and stays."""
        most, backing = round_down(Fraction(total.epsilon) - before), round_down(delta)
        order = zcdp_account(most, backing)[0] if most > 0 and backing > 0 else Fraction(1)
        return cls(before, delta, order)


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
    account: RhoAccount | None = None


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
        facts, advice = _refusal(total, tally, cost)
        raise BudgetExceeded(f"{facts} ({advice})", facts)
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
    of_another_kind = {PureDP: "it has no delta, and no rho", ZCDP: "it is in rho, and has no delta"}.get(
        type(total), ""
    )
    raise InvalidInput(f"a total of {total} cannot hold a cost of {cost}{of_another_kind and f': {of_another_kind}'}")


@lru_cache(256)  # prices and totals are few
def _exact(value: float, times: int = 1) -> Fraction:
    return times * Fraction(value)


def _open_account(total: ApproxDP, tally: Tally) -> Tally:
    backing = _exact(total.delta) - tally.delta
    return replace(tally, delta=_exact(total.delta), account=RhoAccount.opened(total, tally.epsilon, backing))


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
                left = _exact(epsilon) - _certified(tally, tally.account)
            return left, _exact(delta) - tally.delta


def _certified(tally: Tally, account: RhoAccount) -> Fraction:
    """Σε of all spends and αΣρ + c: the ε that the proof above gives at the account's δ₀."""
    return tally.epsilon + account.order * tally.rho + _offset(account)


@lru_cache(maxsize=256)
def _offset(account: RhoAccount) -> Fraction:
    """c of the proof above, rounded up; more than any total where nothing was left to open the account with."""
    if account.order == 1:
        return _ABOVE_ALL_FLOATS
    return zcdp_offset(account.order, round_down(account.delta))


def promised(total: Cost, tally: Tally) -> Cost:
    """The total; or a larger ε that holds instead, where more was spent than the order of the account allows.

    That is so only of sums from a version that chose the order anew when a total was raised: what it let be spent
    is certified at the order of the opening, by the proof above, for the ε returned here. Nothing more can be
    spent before the total is raised beyond that.
    """
    if isinstance(total, ApproxDP) and tally.account and _left(total, tally)[0] < 0:
        return ApproxDP(round_up(_certified(tally, tally.account)), total.delta)
    return total


def check_raise(total: Cost, tally: Tally, new: Cost) -> None:
    """`InvalidInput` if a total may not become the new one: it must be larger, of its kind or (ε, δ) in place of ε.

    A zCDP total is raised only while nothing is spent. Why, and what the others promise then, is said above.
    """
    check_cost(new)
    now, then = new.to_json(), total.to_json()
    same = isinstance(new, ZCDP) == isinstance(total, ZCDP)
    if not same or now == then or any(now.get(name, -1.0) < value for name, value in then.items()):
        raise InvalidInput(
            f"a raised total must be larger than {total}, whose place it takes: {larger(total)}; got {new}"
        )
    if isinstance(total, ZCDP) and tally.rho:
        raise InvalidInput(
            f"a zCDP total must be raised before anything is spent, got {new} after {spent(total, tally)}: zCDP holds"
            " for a rho that was fixed before the answers"
        )


def larger(total: Cost) -> str:
    """Which totals are larger than one, in words."""
    match total:
        case ZCDP():
            return "a larger rho"
        case PureDP():
            return "a larger epsilon, or no less of it and a delta"
        case ApproxDP():
            return "a larger epsilon, a larger delta or both, and neither less than now"


def spent(total: Cost, tally: Tally) -> Cost | None:
    """What the spends so far come to, as a cost of the total's kind rounded up; None if nothing was spent.

    With zCDP spends under an (ε, δ) total it is the (ε, δ) of the same spends fixed in advance, at the
    total's δ: a measure of how much was used. It is no promise by itself, since it takes the order that is best for
    what the spends came to; where they were chosen in view of answers, the promise is that of the total.
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
    """The ε of all spends, at the δ that was fixed in advance."""
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


def times_left(total: Cost, tally: Tally, cost: Cost) -> int:
    """How often the same cost still fits, one after another; 0 where the total never holds its kind.

    At most `MOST_TIMES`, so that of a price of next to nothing the answer comes soon.
    """
    check_cost(cost)

    def fits(times: int) -> bool:
        return min(_left(total, _sum(total, tally, cost, times))) >= 0

    try:
        if not fits(1):
            return 0
    except InvalidInput:
        return 0
    some, many = 1, 2  # the first fits
    while many <= MOST_TIMES and fits(many):
        some, many = many, 2 * many
    while many - some > 1:
        middle = (some + many) // 2
        some, many = (middle, many) if fits(middle) else (some, middle)
    return min(some, MOST_TIMES)


MOST_TIMES: Final = 10**9
"""The most that `times_left` counts to."""

FIXED_ORDER: Final = (
    "spent and left come to less than the total: charges in rho are added up at one Rényi order, fixed by the first of"
    " them, while spent is shown at the order that is best now"
)
"""Why what was spent and what is left may come to less than a total: said where they do."""

IN_RHO: Final = (
    "spent and left add up to less than the total: charges are added up in rho, and converted to epsilon one by one"
)
"""The same, short: of a refusal, and for who has no ledger."""

ACCOUNT_NOTE: Final = f"left is what can still be bought; {FIXED_ORDER}"
"""The same beside an account."""


def note_of(total: Cost, gone: Cost | None, left: Cost | None) -> str:
    """`ACCOUNT_NOTE` where spent and left come to less than a total by more than is rounded; else empty."""
    parts = [0.0 if cost is None else _first(cost) for cost in (gone, left)]
    return ACCOUNT_NOTE if math.fsum(parts) < (1 - NEGLIGIBLE_SHARE) * _first(total) else ""


def out_of_reach(total: Cost, tally: Tally) -> float:
    """About how much of the ε of a total will not be used, as it was raised after the order of the account was fixed.

    All that is left buys charges in ρ at that order; what these come to at the best order is less than the total, and
    0 stands for next to nothing.
    """
    if not isinstance(total, ApproxDP) or tally.account is None or tally.account.order == 1:
        return 0.0
    left = max(_left(total, tally)[0], _ZERO)
    used = _epsilon(replace(tally, rho=tally.rho + left / tally.account.order))
    found = float(_exact(total.epsilon) - used)
    return found if found > NOTABLE_SHARE * total.epsilon else 0.0


NOTABLE_SHARE: Final = 1e-3
"""Of a total: a smaller part that cannot be used is not told."""


def remaining_rho(total: Cost, tally: Tally) -> ZCDP | None:
    """The largest cost in ρ that still fits, rounded down; None if none does, or the total never holds one."""
    match total:
        case PureDP():
            return None
        case ZCDP():
            left = _left(total, tally)[0]
        case ApproxDP(_, delta):
            if not tally.account and tally.delta >= _exact(delta):
                return None
            opened = tally if tally.account else _open_account(total, tally)
            order = opened.account.order if opened.account else _ZERO
            left = _left(total, opened)[0] / order if order > 1 else _ZERO
    found = round_down(max(left, _ZERO))
    return ZCDP(found) if found else None


NEGLIGIBLE_SHARE: Final = 1e-9
"""Of a total: so little of it is left by rounding, and is no advice."""


def room_of(total: Cost, left: Cost | None) -> str:
    """What is left as it is told, rounded down so that it fits; empty where it is nothing but rounding."""
    return "" if left is None or _first(left) < NEGLIGIBLE_SHARE * _first(total) else left.rounded(up=False)


def _refusal(total: Cost, tally: Tally, cost: Cost) -> tuple[str, str]:
    """What was spent and asked for, and what can be done."""
    nothing = ", ".join(f"{name}=0" for name in total.to_json())
    gone, less = spent(total, tally), asked_at_most(total, tally, cost)
    advice = f"{less}, or raise" if less else "nothing is left unless you raise"
    requested = cost.rounded()
    left = remaining(total, tally)
    is_less = note_of(total, gone, left)  # what is left is told, as spent and total seem to leave enough
    if is_less and isinstance(cost, ZCDP) and tally.account:
        takes = six_digits(float(tally.account.order * _exact(cost.rho)))
        requested = f"{requested}, which needs epsilon={takes} of what is left"
    elif isinstance(cost, ZCDP) and isinstance(total, ApproxDP):  # numbers of two kinds tell nobody which is more
        raised = increase(total, tally, cost)
        parts = [f"{name}={six_digits(value)}" for name, value in raised.items()] if raised else []
        requested = f"{requested}, which takes {', '.join(parts) or 'a delta, none is left'}"
    known = f"budget exceeded: total {total}; spent {gone.rounded() if gone else nothing}"
    if not is_less:
        return f"{known}; requested {requested}", f"{advice} the total"
    room = room_of(total, left) or nothing
    return f"{known}; left {room}; requested {requested} ({IN_RHO})", f"{advice} the total"


def asked_at_most(total: Cost, tally: Tally, cost: Cost) -> str:
    """What of a total can be asked for instead of a cost that does not fit, in words; empty where nothing is left."""
    left = remaining(total, tally)
    room = room_of(total, left)
    if not room:
        return ""
    other = remaining_rho(total, tally) if isinstance(cost, ApproxDP) and tally.account else None  # it has all delta
    rho = f" or {other.rounded(up=False)}" if other else ""
    if isinstance(cost, ApproxDP) and cost.delta and isinstance(left, ApproxDP) and not left.delta:
        room = PureDP(left.epsilon).rounded(up=False)
        return f"no delta is left: without one, ask for at most the {room}{rho} that is left"
    return f"ask for at most the {room}{rho} that is left"


def _first(cost: Cost) -> float:
    """Its ρ, or its ε."""
    return cost.rho if isinstance(cost, ZCDP) else cost.epsilon


class Filter:
    """A total that adaptively chosen costs never exceed together; safe for threads, O(1) a spend.

    Nothing can be spent in another process than the one that made it, such as the child of a fork: each would have the
    whole total.

    Parameters
    ----------
    total
        What all that is spent may cost together. Under an `ApproxDP` total costs of every kind may be mixed.

    Raises
    ------
    InvalidInput
        For a total that is not a cost.

    References
    ----------
    Rogers, Roth, Ullman & Vadhan 2016; Whitehouse, Ramdas, Rogers & Wu 2023. The rule and its proof are at the top of
    this module.

    Examples
    --------
    >>> budget = Filter(PureDP(1.0))
    >>> budget.spend(PureDP(0.75))
    >>> budget.admits(PureDP(0.5)), budget.remaining
    (False, PureDP(epsilon=0.25))
    """

    def __init__(self, total: Cost) -> None:
        check_cost(total)
        self._total = total
        self._tally = Tally()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def spend(self, cost: Cost) -> None:
        """Take a cost from what is left; `BudgetExceeded` if it does not fit, and then nothing is taken.

        In the child of a fork it is a `LedgerError`.
        """
        if self._process != os.getpid():  # before the lock, which another thread may have held at the fork
            raise LedgerError("a budget is spent by the process that opened it: after a fork each would have all of it")
        with self._lock:
            self._tally = after(self._total, self._tally, cost)

    def spend_part(self, cost: Cost) -> None:
        """`spend` for a mechanism or a statistic, whose total is the cost that it was given: nobody can raise it."""
        try:
            self.spend(cost)
        except BudgetExceeded as error:
            told = "more was asked for than the cost that was given, which qr.split divides among several draws"
            raise BudgetExceeded(f"{error.facts} ({told})", error.facts) from None

    def admits(self, cost: Cost) -> bool:
        """Whether `spend` would succeed now."""
        if self._process != os.getpid():
            return False
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

    def __reduce__(self) -> NoReturn:
        raise TypeError("a filter cannot be copied or pickled: each copy would spend the whole total")

    def __repr__(self) -> str:
        return f"Filter(total {self._total}; spent {self.spent or 'nothing'})"
