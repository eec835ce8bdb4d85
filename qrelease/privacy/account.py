"""What several mechanisms cost together, by every rule that applies; and what one person loses to several ledgers.

Here all numbers are fixed in advance: how many mechanisms there are and what each costs. The mechanisms themselves may
be chosen adaptively. Where the costs are chosen adaptively too, a `Filter` is the rule.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, Self, cast, get_args

import numpy as np

from qrelease._util.validate import natural, positive, positive_probability, probability
from qrelease.errors import InvalidInput, LedgerError
from qrelease.privacy.composition import advanced_share, compose, group_privacy, optimal_composition
from qrelease.privacy.conversions import gaussian_delta, zcdp_epsilon, zcdp_of, zcdp_offset
from qrelease.privacy.costs import (
    ZCDP,
    ApproxDP,
    Cost,
    Neighbours,
    PureDP,
    amount_from_json,
    check_cost,
    cost_from_json,
    round_down,
    round_up,
)
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_url import LedgerUrl
from qrelease.privacy.pld import PrivacyLoss

Kind = Literal["epsilon", "rho", "gaussian", "laplace", "selection"]

_ORDERS: Final = tuple(1 + 2.0 ** (i / 8) for i in range(-64, 97))  # α − 1 from 1/256 to 4096
_MARGIN: Final = 2.0**-36  # above the roundings of a few hundred float operations, as a share of their sizes
_MAX_SUMS: Final = 1 << 21  # privacy losses that the optimal composition lists
_MIN_EPSILON: Final = 2.0**-1000  # of an ε that is searched for
_MAX_EPSILON: Final = 700.0  # e^ε is a float up to there


@dataclass(frozen=True, slots=True)
class Part:
    """Some mechanisms of one kind, each of the same size.

    Parameters
    ----------
    kind
        `epsilon`: any ε-DP or (ε, δ)-DP mechanism. `rho`: any ρ-zCDP one. `gaussian`: the continuous Gaussian, or its
        rounding, with σ as a multiple of the L2 sensitivity. `laplace`: the continuous Laplace, with its scale as a
        multiple of the sensitivity of *one* number. `selection`: the exponential mechanism at ε, or anything else
        whose privacy loss varies by at most ε over the outputs.
    size
        ε, ρ, σ, the scale, or ε.
    delta
        δ of each, of the kind `epsilon` only.
    times
        How many of them there are.

    Raises
    ------
    InvalidInput
        For an unknown kind, and for numbers out of range.

    Notes
    -----
    Discrete Laplace noise on a count has the losses ±ε only, for |y| − |y − 1| is ±1: it composes as randomised
    response does, which is the worst of all ε-DP mechanisms. So it is of the kind `epsilon`; only on a grid much finer
    than the sensitivity is it as good as the kind `laplace`.

    Examples
    --------
    >>> Part.parse("100 * epsilon=0.1, delta=1e-9")
    Part(kind='epsilon', size=0.1, delta=1e-09, times=100)
    """

    kind: Kind
    size: float
    delta: float = 0.0
    times: int = 1

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"a part must be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        object.__setattr__(self, "size", positive(self.kind, self.size))
        object.__setattr__(self, "delta", probability("delta", self.delta))
        object.__setattr__(self, "times", natural("how many times", self.times))
        if self.delta and self.kind != "epsilon":
            raise InvalidInput(f"only epsilon has a delta beside it, got {self.kind}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """`epsilon=0.1`, `20*rho=0.01`, `100 * epsilon=0.1, delta=1e-9`; `InvalidInput` for anything else."""
        times, star, rest = text.rpartition("*")
        try:
            fields = {name.strip(): float(value) for name, value in (item.split("=") for item in rest.split(","))}
            number = int(times) if star else 1
            (kind,) = (name for name in fields if name != "delta")
        except ValueError:
            raise InvalidInput(f"a part reads like 100*epsilon=0.1,delta=1e-9, got {text!r}") from None
        if kind not in get_args(Kind):
            raise InvalidInput(f"a part must be one of {', '.join(get_args(Kind))}, got {kind!r}")
        return cls(kind, fields[kind], fields.get("delta", 0.0), number)  # type: ignore[arg-type]  # checked above

    def __str__(self) -> str:
        """The part as `parse` reads it."""
        delta = f",delta={self.delta:g}" if self.delta else ""
        return f"{self.times}*{self.kind}={self.size:g}{delta}"

    @property
    def epsilon(self) -> Fraction | None:
        """ε of each, None where there is no finite one."""
        if self.kind in ("epsilon", "selection"):
            return Fraction(self.size)
        return 1 / Fraction(self.size) if self.kind == "laplace" else None

    @property
    def rho(self) -> Fraction | None:
        """ρ of each, None where δ > 0."""
        size = Fraction(self.size)
        match self.kind:
            case "rho":
                return size
            case "gaussian":
                return 1 / size**2 / 2
            case "laplace":
                return 1 / size**2 / 2
            case "selection":
                return size**2 / 8
            case "epsilon":
                return None if self.delta else size**2 / 2

    def divergence(self, order: float) -> float:
        """The Rényi divergence of each at an order α > 1, at most; infinite where δ > 0.

        Of randomised response for ε-DP, the worst of its kind; Mironov 2017, Table II, for it and for Laplace.
        """
        if self.delta:
            return math.inf
        linear = order * float(self.rho or 0)
        match self.kind:
            case "epsilon":
                weights = (0.0, -self.size)  # of the losses ε and −ε, before they are made to sum to 1
                whole = math.log1p(math.exp(-self.size))
                return min(linear, _cumulant(order, weights, (self.size, -self.size), whole))
            case "laplace":
                e = 1 / self.size
                shares = math.log(order / (2 * order - 1)), math.log1p(-order / (2 * order - 1))
                return min(linear, _log_sum(shares[0] + (order - 1) * e, shares[1] - order * e) / (order - 1))
        return linear

    def loss(self) -> PrivacyLoss | None:
        """The distribution of the privacy loss of one, by the extra `pld`; None for ρ, which fixes none."""
        match self.kind:
            case "rho":
                return None
            case "gaussian":
                return PrivacyLoss.gaussian(1.0, self.size)
            case "laplace":
                return PrivacyLoss.laplace(1.0, self.size)
        return PrivacyLoss.of(ApproxDP(self.size, self.delta) if self.delta else PureDP(self.size))


def _cumulant(order: float, weights: tuple[float, float], losses: tuple[float, float], whole: float) -> float:
    """ln E exp((α − 1) loss)/(α − 1) of two losses with these logarithms of weights, which sum to e^whole."""
    tilted = (weight + (order - 1) * loss for weight, loss in zip(weights, losses, strict=True))
    return (_log_sum(*tilted) - whole) / (order - 1)


def _log_sum(a: float, b: float) -> float:
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@dataclass(frozen=True, slots=True)
class Total:
    """What all parts cost by one rule, or why the rule has nothing to say.

    Attributes
    ----------
    rule
        Its name.
    cost
        Proved, rounded up; None where the rule does not apply.
    why
        Why it does not; else whose rule it is.
    """

    rule: str
    cost: Cost | None
    why: str

    def of_group(self, size: int) -> Self:
        """What it means for a group of so many people, as `group_privacy` has it."""
        try:
            return replace(self, cost=self.cost and group_privacy(self.cost, size))
        except InvalidInput as reason:
            return replace(self, cost=None, why=str(reason))


def account(parts: Sequence[Part], delta: float) -> list[Total]:
    """What mechanisms of fixed costs cost together at δ, by every rule.

    Parameters
    ----------
    parts
        At least one.
    delta
        δ of the whole, 0 < δ < 1.

    Returns
    -------
    list of Total
        Basic, advanced, optimal, zCDP, Rényi, exact Gaussian, and numerical composition, in this order.

    Raises
    ------
    InvalidInput
        Without parts, and for a δ out of range.

    Notes
    -----
    Lecture notes have advanced composition as ε' = 2ε√(2k ln(1/δ')). That holds only while
    √k(e^ε − 1) ≤ √(2 ln(1/δ')), and is not offered: for k = 100 mechanisms at ε = 1 and δ' = 0.01 it says 60.7, where
    the real δ of randomised responses is 0.039; for 1 000 of them and δ' = 1e-6 it says 332, where it is
    0.999996.

    Examples
    --------
    >>> for total in account([Part("epsilon", 0.01, times=1000)], 1e-6)[:4]:
    ...     print(total.rule, format(total.cost, ".4g"))
    basic epsilon=10
    advanced epsilon=1.763, delta=1e-06
    optimal epsilon=1.365, delta=1e-06
    zCDP epsilon=1.472, delta=1e-06
    """
    delta = positive_probability("delta", delta)
    if not parts:
        raise InvalidInput("account needs at least one part, got none")
    rules: list[tuple[str, str, Callable[[Sequence[Part], float], Cost]]] = [
        ("basic", "Dwork & Roth 2014, Theorem 3.16", _basic),
        ("advanced", "Dwork, Rothblum & Vadhan 2010", _advanced),
        ("optimal", "Kairouz, Oh & Viswanath 2015; Murtagh & Vadhan 2016", _optimal),
        ("zCDP", "Bun & Steinke 2016", _concentrated),
        ("Renyi", "Mironov 2017", _renyi),
        ("Gaussian", "Balle & Wang 2018; Dong, Roth & Su 2022", _gaussian),
        ("numerical", "Doroshenko et al. 2022, by dp-accounting", _numerical),
    ]
    return [_total(name, whose, rule, parts, delta) for name, whose, rule in rules]


def best(totals: Sequence[Total]) -> Total:
    """The rule with the least ε; `InvalidInput` where none applies."""
    found = [total for total in totals if isinstance(total.cost, PureDP | ApproxDP)]
    if not found:
        raise InvalidInput("no rule adds these costs up at that delta: give a larger one")
    return min(found, key=lambda total: total.cost.epsilon if isinstance(total.cost, PureDP | ApproxDP) else math.inf)


class _NotApplicableError(Exception):
    """A rule has nothing to say about the parts: its text says why."""


def _total(
    name: str, whose: str, rule: Callable[[Sequence[Part], float], Cost], parts: Sequence[Part], delta: float
) -> Total:
    try:
        return Total(name, rule(parts, delta), whose)
    except _NotApplicableError as reason:
        return Total(name, None, str(reason))
    except InvalidInput as reason:
        return Total(name, None, str(reason))


def _pure(parts: Sequence[Part]) -> list[tuple[Fraction, Fraction, int]]:
    """(ε, δ, k) of each part."""
    found = [(part.epsilon, Fraction(part.delta), part.times) for part in parts]
    if any(epsilon is None for epsilon, _, _ in found):
        raise _NotApplicableError("some of the parts have no epsilon of their own")
    return [(epsilon, delta, k) for epsilon, delta, k in found if epsilon is not None]


def _slack(parts: Sequence[tuple[Fraction, Fraction, int]], delta: float) -> Fraction:
    """What is left of δ beside those of the mechanisms."""
    left = Fraction(delta) - sum(d * k for _, d, k in parts)
    if left <= 0:
        raise _NotApplicableError("the deltas of the mechanisms use up the whole one")
    return left


def _basic(parts: Sequence[Part], delta: float) -> Cost:
    known = _pure(parts)
    nothing = Fraction(0)
    epsilon, failure = sum((e * k for e, _, k in known), nothing), sum((d * k for _, d, k in known), nothing)
    if failure > Fraction(delta):
        raise _NotApplicableError(f"the deltas of the mechanisms sum to {float(failure):.3g}")
    return ApproxDP(round_up(epsilon), round_up(failure)) if failure else PureDP(round_up(epsilon))


def _advanced(parts: Sequence[Part], delta: float) -> Cost:
    """√(2 ln(1/δ') Σε²) + Σε(e^ε − 1): the same proof, by Azuma's inequality, for unequal ε."""
    known = _pure(parts)
    slack = round_down(_slack(known, delta))
    epsilons = [(float(e), k) for e, _, k in known]
    if max(e for e, _ in epsilons) > _MAX_EPSILON:
        raise _NotApplicableError(f"an epsilon is above {_MAX_EPSILON:g}")
    spread = math.sqrt(-2 * math.log(slack) * math.fsum(k * e * e for e, k in epsilons))
    drift = math.fsum(k * e * math.expm1(e) for e, k in epsilons)
    return ApproxDP((spread + drift) * (1 + _MARGIN), delta)


def _optimal(parts: Sequence[Part], delta: float) -> Cost:
    """The least (ε, δ) that holds for all mechanisms of these ε and δ, and is attained by randomised responses.

    One sure failure of probability 1 − Π(1 − δᵢ), else k randomised responses: P(loss = Σ ±εᵢ) is listed over the
    distinct ε, one binomial each. Failures of different mechanisms are counted apart here, Σδᵢ, as they may be.
    """
    known = _pure(parts)
    slack = round_down(_slack(known, delta))
    sizes: dict[Fraction, int] = {}
    for epsilon, _, k in known:
        sizes[epsilon] = sizes.get(epsilon, 0) + k
    if len(sizes) == 1:
        ((epsilon, k),) = sizes.items()
        return ApproxDP(optimal_composition(PureDP(round_up(epsilon)), k, slack).epsilon, delta)
    if math.prod(k + 1 for k in sizes.values()) > _MAX_SUMS:
        raise _NotApplicableError("too many different epsilons for an exact sum")
    losses, probabilities = np.zeros(1), np.ones(1)
    for epsilon, k in sizes.items():
        i, e = np.arange(k + 1), round_up(epsilon)
        every = math.lgamma(k + 1) - k * math.log1p(math.exp(-e))
        logs = every - np.array([math.lgamma(j + 1) + math.lgamma(k - j + 1) + j * e for j in range(k + 1)])
        losses = np.add.outer(losses, (k - 2 * i) * e).reshape(-1)
        probabilities = np.multiply.outer(probabilities, np.exp(logs)).reshape(-1)
    order = np.argsort(losses)
    losses, probabilities = losses[order], probabilities[order]
    mechanisms = sum(sizes.values())
    reach = float(sum(e * k for e, k in sizes.items()))
    size = 1 + mechanisms * (2 * math.log(mechanisms + 1)) + reach  # of the exponents that are rounded
    low, high = 0.0, reach * (1 + _MARGIN)
    while high - low > 2.0**-40 * high and high > _MIN_EPSILON:
        middle = (low + high) / 2
        first = int(np.searchsorted(losses, middle, side="right"))
        gains = -np.expm1(middle - losses[first:])
        found = float(probabilities[first:] @ gains) * (1 + size * 2.0**-46) + float(
            probabilities[first:].sum() * reach * 2.0**-46
        )
        low, high = (low, middle) if found <= slack else (middle, high)
    return ApproxDP(high, delta)


def _concentrated(parts: Sequence[Part], delta: float) -> Cost:
    if any(part.rho is None for part in parts):
        raise _NotApplicableError("some of the parts have a delta of their own")
    rho = sum((part.rho * part.times for part in parts if part.rho is not None), Fraction(0))
    return ApproxDP(max(zcdp_epsilon(round_up(rho), delta), _MIN_EPSILON), delta)


def _renyi(parts: Sequence[Part], delta: float) -> Cost:
    if any(part.delta for part in parts):
        raise _NotApplicableError("some of the parts have a delta of their own")

    def epsilon(order: float) -> float:
        divergences = math.fsum(part.times * part.divergence(order) for part in parts)
        return divergences * (1 + _MARGIN) + float(zcdp_offset(Fraction(order), delta))

    found = min(map(epsilon, _ORDERS))
    return ApproxDP(max(found * (1 + _MARGIN), _MIN_EPSILON), delta)


def _gaussian(parts: Sequence[Part], delta: float) -> Cost:
    if any(part.kind != "gaussian" for part in parts):
        raise _NotApplicableError("it is for Gaussians alone")
    ratio = math.sqrt(float(sum(part.times / Fraction(part.size) ** 2 for part in parts))) * (1 + _MARGIN)
    low, high = 0.0, 1.0
    while gaussian_delta(ratio, 1.0, high) > delta:
        low, high = high, 2 * high
        if high > 1e9:
            raise _NotApplicableError("so little noise promises nothing")
    while high - low > 2.0**-40 * high and high > _MIN_EPSILON:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(ratio, 1.0, middle) <= delta else (middle, high)
    return ApproxDP(high, delta)


def _numerical(parts: Sequence[Part], delta: float) -> Cost:
    if find_spec("dp_accounting") is None:
        raise _NotApplicableError("dp-accounting is not installed: pip install dp-accounting")
    losses = [part.loss() for part in parts]
    if any(loss is None for loss in losses):
        raise _NotApplicableError("a rho fixes no distribution of losses")
    whole: PrivacyLoss | None = None
    for loss, part in zip(losses, parts, strict=True):
        if loss is not None:
            times = loss * part.times if part.times > 1 else loss
            whole = times if whole is None else whole + times
    if whole is None:
        raise InvalidInput("account needs at least one part, got none")
    return ApproxDP(max(whole.epsilon(delta), _MIN_EPSILON), delta)


def shares(total: ApproxDP, k: int) -> list[Total]:
    """What each of k mechanisms may cost so that all of them cost at most (ε, δ), by every rule.

    The rule of thumb is Dwork & Roth 2014, Corollary 3.21, for ε ≤ 1. What is offered as ρ buys Gaussian noise of
    variance Δ²/(2ρ).

    Parameters
    ----------
    total
        (ε, δ) with δ > 0.
    k
        How many mechanisms.

    Returns
    -------
    list of Total
        A pure ε or a ρ each, rounded down.

    Examples
    --------
    >>> for share in shares(ApproxDP(1.0, 1e-6), 100):
    ...     print(share.rule, format(share.cost, ".4g"))
    basic epsilon=0.01
    rule of thumb epsilon=0.009512
    advanced epsilon=0.01838
    optimal epsilon=0.02401
    zCDP rho=0.0002436
    """
    check_cost(total, ApproxDP)
    k, slack = natural("k", k), positive_probability("delta", total.delta)
    thumb: Cost | None = None
    if total.epsilon <= 1:
        thumb = PureDP(total.epsilon / (2 * math.sqrt(-2 * k * math.log(slack))) * (1 - _MARGIN))
    low, high = 0.0, total.epsilon
    while high - low > 2.0**-30 * high and high > _MIN_EPSILON:
        middle = (low + high) / 2
        fits = optimal_composition(PureDP(middle), k, slack).epsilon <= total.epsilon
        low, high = (middle, high) if fits else (low, middle)
    return [
        Total("basic", PureDP(round_down(Fraction(total.epsilon) / k)), "Dwork & Roth 2014, Theorem 3.16"),
        Total("rule of thumb", thumb, "Dwork & Roth 2014, Corollary 3.21, for epsilon up to 1"),
        Total("advanced", advanced_share(total, k), "Dwork, Rothblum & Vadhan 2010, inverted"),
        Total("optimal", PureDP(low), "Kairouz, Oh & Viswanath 2015, inverted"),
        Total("zCDP", ZCDP(round_down(Fraction(zcdp_of(total).rho) / k)), "Bun & Steinke 2016"),
    ]


_MAX_PUBLISHED: Final = 1 << 26
"""Bytes of the published part of a ledger, at most."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """What a person in the data of several ledgers is promised.

    Attributes
    ----------
    neighbours
        The relation that the sums hold under: replace-one where ledgers differ.
    ledgers
        (file, dataset, total, spent) of each, under that relation. `spent` is None where nothing was.
    total
        The cost of all totals together: what holds whatever will be spent.
    spent
        How much was used so far, as `Ledger.spent` says it: no promise, since charges may have been chosen in view of
        answers. None where nothing was.
    """

    neighbours: Neighbours
    ledgers: tuple[tuple[str, str, Cost, Cost | None], ...]
    total: Cost
    spent: Cost | None


def lifetime(
    paths: Sequence[str | os.PathLike[str] | LedgerUrl], *, delta: float | None = None, group: int = 1
) -> Lifetime:
    """Add up several ledgers, for a person whose records are in the data of all of them.

    Basic composition, which holds however the analysts go back and forth between the ledgers: for ε and (ε, δ) by
    Vadhan & Wang 2021, for ρ by Haney et al. 2023. Totals are fixed numbers, so their sum is a promise. What was spent
    is not fixed: how far the charges went, and so by which order a ρ is converted, may depend on answers (`filters`).

    Parameters
    ----------
    paths
        The files, or addresses on servers, each once; or files of what `qrelease ledger show --json` publishes.
    delta
        At which a ρ becomes an ε where ledgers in ρ and in (ε, δ) meet; where all are in ρ, the sum is a ρ.
    group
        So many people in the data of each ledger are protected together.

    Returns
    -------
    Lifetime

    Raises
    ------
    InvalidInput
        Without files, for one file given twice, and where a δ is needed or sums reach 1.
    LedgerError
        For a file that is no ledger.

    Notes
    -----
    Where one ledger counts under add-remove and another under replace-one, each add-remove cost is taken for a group
    of two: replacing a record is removing one and adding one.
    """
    files = [LedgerUrl.of(path) or Path(cast("str | os.PathLike[str]", path)) for path in paths]
    if not files:
        raise InvalidInput("give at least one ledger, got none")
    if len({file.resolve() if isinstance(file, Path) else file for file in files}) < len(files):
        raise InvalidInput("each ledger must be given once, got one twice")
    for file in files:
        if not Ledger.exists(file):
            raise LedgerError(f"there is no ledger {file}")
    with ExitStack() as stack:  # all at one moment
        found = [_published(file) or _stated(stack.enter_context(Ledger.open(file))) for file in files]
    mixed = len({neighbours for _, neighbours, _, _ in found}) > 1
    relation = Neighbours.REPLACE_ONE if mixed else found[0][1]
    each = []
    for file, (dataset, neighbours, total, spent) in zip(files, found, strict=True):
        people = natural("a group's size", group) * (2 if mixed and neighbours is Neighbours.ADD_REMOVE else 1)
        each.append((str(file), dataset, group_privacy(total, people), spent and group_privacy(spent, people)))
    spends = [spent for _, _, _, spent in each if spent is not None]
    whole = _added([total for _, _, total, _ in each], delta)
    return Lifetime(relation, tuple(each), whole, _added(spends, delta) if spends else None)


_Stated = tuple[str, Neighbours, Cost, Cost | None]
"""A dataset, its neighbouring relation, what is promised in all, and what was spent."""


def _stated(ledger: Ledger) -> _Stated:
    return ledger.dataset, ledger.neighbours, ledger.promised, ledger.spent


def _published(file: Path | LedgerUrl) -> _Stated | None:
    """What the published part of a ledger says, as `public_part` gives it; None where a file is no JSON object."""
    if not isinstance(file, Path) or not file.is_file() or file.stat().st_size > _MAX_PUBLISHED:
        return None
    content = file.read_bytes()
    if not content.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(content)
        total = cost_from_json(found.get("promised", found["total"]))
        return (
            str(found["dataset"]),
            Neighbours.parse(found["neighbours"]),
            total,
            amount_from_json(found["spent"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidInput) as error:
        raise LedgerError(
            f"{file} is neither a ledger nor what `qrelease ledger show --json` publishes of one: {error!r}"
        ) from None


def _added(costs: Sequence[Cost], delta: float | None) -> Cost:
    """The sum of costs; ρ is one ε at δ first where an approximate cost meets it."""
    concentrated = [cost for cost in costs if isinstance(cost, ZCDP)]
    others = [cost for cost in costs if not isinstance(cost, ZCDP)]
    if not concentrated or not any(isinstance(cost, ApproxDP) for cost in others):
        return compose(costs)
    if delta is None:
        raise InvalidInput("ledgers in rho and in (epsilon, delta) add up at a delta only: give one")
    rho = compose(concentrated)
    return compose([*others, *_converted(rho, delta)])


def _converted(cost: Cost, delta: float) -> Iterator[ApproxDP]:
    if isinstance(cost, ZCDP):
        yield ApproxDP(max(zcdp_epsilon(cost.rho, delta), _MIN_EPSILON), delta)
