"""`Audit`: an event that tells two inputs apart, and what it proves about ε, δ or ρ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from qrelease._util.typing import Floats
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP

_RENYI_ORDERS: Final = 1 + np.logspace(-2, 4, 121)
"""Rényi orders α at which zCDP is tested; any of them gives a valid bound."""

_ROUNDING: Final = 1e-9
"""How far beyond its claim, relatively, a mechanism must be seen: more than the floats here can be off."""


_MAX_LEARNING_RUNS: Final = 1 << 17
_MAX_CHOOSING_RUNS: Final = 1 << 19
"""Runs that scores are learned from, and runs that choose the event: at most, on each input."""

_THRESHOLDS: Final = 500
_MOST_FACTOR: Final = 1e4
"""Noise that is so many times too small is none."""


@dataclass(frozen=True)
class Audit:
    """What was found against a claim: a set of outputs whose probability the two inputs do not share.

    Attributes
    ----------
    claim
        The cost that the mechanism says it has.
    event
        The set of outputs, in words.
    favours
        The input on which it is more likely.
    low
        A lower bound on its probability there.
    high
        An upper bound on its probability on the other input.
    confidence
        The chance, over the runs, that both bounds hold whatever the mechanism; 1 for an exact method.
    samples
        Runs made on each input; 0 for an exact method.
    inputs
        The two inputs, and how they were found, in words; empty where whoever asked chose them.

    Examples
    --------
    >>> from qrelease.privacy import PureDP
    >>> found = Audit(PureDP(1.0), "an output above 3", "first", 0.8, 0.1, 0.99, 1000)
    >>> round(found.epsilon, 3), found.convicted
    (2.079, True)
    """

    claim: Cost
    event: str
    favours: Literal["first", "second"]
    low: float
    high: float
    confidence: float
    samples: int
    inputs: str = ""

    @property
    def epsilon(self) -> float:
        """The mechanism is not (ε, δ)-DP for any ε below ln((low - δ)/high), at the claim's δ (0 if it has none)."""
        delta = self.claim.delta if isinstance(self.claim, ApproxDP) else 0.0
        return float(_epsilon(np.array(self.low), np.array(self.high), delta))

    @property
    def delta(self) -> float:
        """The mechanism is not (ε, δ)-DP for any δ below low - e^ε high, at the claim's ε (0 if it has none)."""
        if self.high == 0:
            return self.low
        epsilon = 0.0 if isinstance(self.claim, ZCDP) else self.claim.epsilon
        return max(0.0, self.low - math.exp(min(epsilon + math.log(self.high), 0.0)))

    @property
    def rho(self) -> float:
        """The mechanism is not ρ-zCDP for any ρ below this.

        By data processing: D_α(Bernoulli(low) ‖ Bernoulli(high)) ≤ ρα, and the same the other way round, for all α.
        """
        return float(_rho(np.array(self.low), np.array(self.high)))

    @property
    def bound(self) -> float:
        """The lower bound in the currency of the claim: ε, or ρ for zCDP."""
        return self.rho if isinstance(self.claim, ZCDP) else self.epsilon

    @property
    def convicted(self) -> bool:
        """Whether the event contradicts the claim."""
        limit = _limit(self.claim)
        return self.bound > limit + _ROUNDING * limit + 1e-12

    def __str__(self) -> str:
        other = "second" if self.favours == "first" else "first"
        how = "exact" if not self.samples else f"confidence {self.confidence:g}, {self.samples:,} runs on each input"
        name = "rho" if isinstance(self.claim, ZCDP) else "epsilon"
        at = f" at delta={self.claim.delta:g}" if isinstance(self.claim, ApproxDP) and self.claim.delta else ""
        return (
            f"{'CONVICTED' if self.convicted else 'acquitted'} of claiming {self.claim}: {name} is at least"
            f" {self.bound:.4g}{at} ({how})\n"
            f"  event: {self.event}\n"
            f"  its probability: at least {self.low:.4g} on the {self.favours} input,"
            f" at most {self.high:.4g} on the {other}"
            + (f"\n  inputs: {self.inputs}" if self.inputs else "")
            + (
                ""
                if self.convicted
                else f"\n  this holds for these two inputs only: another pair may show a violation{self._power()}"
            )
        )

    def _power(self) -> str:
        """What so many runs could have found, where the audit was of runs: a line for people."""
        if not self.samples:
            return ""
        found = power(self.claim, self.samples, self.confidence)
        name, noise = ("rho" if isinstance(self.claim, ZCDP) else "epsilon"), noise_of(self.claim)
        least = (
            "and however small its noise were, they would not convict it"
            if found.factor is None
            else f"and the noise would have to be about {found.factor:.2g} times too small for a conviction"
        )
        return (
            f"\n  what these runs could show: of one query with {noise} noise of exactly this cost, {name} of about"
            f" {found.exact:.3g}, {least}, as a rule; of a mechanism that divides its cost among several draws, less"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain types; an infinite bound is the text `inf`."""
        return {
            "convicted": self.convicted,
            "bound": self.bound if math.isfinite(self.bound) else "inf",
            "claim": self.claim.to_json(),
            "event": self.event,
            "favours": self.favours,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "samples": self.samples,
            **({"inputs": self.inputs} if self.inputs else {}),
        }


def bounds(claim: Cost, low: Floats, high: Floats) -> Floats:
    """`Audit.bound` for many events at once: (k,) probabilities each, (k,) lower bounds."""
    if isinstance(claim, ZCDP):
        return _rho(low, high)
    return _epsilon(low, high, claim.delta if isinstance(claim, ApproxDP) else 0.0)


class Power(NamedTuple):
    """What an audit of so many runs shows, as a rule, of one query with noise.

    exact   the bound on the cost where the noise is that of the claim
    factor  how many times too small the noise has to be for a conviction; None where no noise is too small
    """

    exact: float
    factor: float | None


def power(claim: Cost, samples: int, confidence: float) -> Power:
    """What an audit shows of one query with the noise of a claim, by public arithmetic alone.

    Its event is the best one of those that the noise is above a threshold, seen as often as is expected in the runs
    that it is tested on; the bound is that of the auditor. For (ε, δ) and ρ the noise is Gaussian, for ε Laplace.

    Parameters
    ----------
    claim
        The cost.
    samples
        Runs on each input.
    confidence
        Of the bounds.
    """
    *_, runs = parts(samples)
    miss, limit = (1 - confidence) / 2, _limit(claim)

    def shown(factor: float) -> float:
        likely, unlikely = _tails(claim, factor)
        low, _ = clopper_pearson(runs * likely, runs, miss)
        _, high = clopper_pearson(runs * unlikely, runs, miss)
        return float(bounds(claim, low, high).max())

    if shown(_MOST_FACTOR) <= limit:
        return Power(shown(1.0), None)
    enough, less = _MOST_FACTOR, 1.0
    while enough > less * 1.01:
        middle = math.sqrt(enough * less)
        enough, less = (middle, less) if shown(middle) > limit else (enough, middle)
    return Power(shown(1.0), enough)


def noise_of(claim: Cost) -> str:
    """The law of noise that `power` is about, in a word."""
    return "Laplace" if _is_pure(claim) else "Gaussian"


def _is_pure(claim: Cost) -> bool:
    return isinstance(claim, PureDP) or (isinstance(claim, ApproxDP) and not claim.delta)


def _tails(claim: Cost, factor: float) -> tuple[Floats, Floats]:
    """With which probability noise that is so many times too small is above each of some thresholds, and is where the
    answer is less by one."""
    from scipy.special import ndtr

    if isinstance(claim, ZCDP):
        scale = math.sqrt(0.5 / claim.rho) / factor
    elif isinstance(claim, ApproxDP) and claim.delta:
        scale = analytic_gaussian_sigma(1.0, claim.epsilon, claim.delta) / factor
    else:
        scale = 1 / (claim.epsilon * factor)
    places = np.linspace(-8.0, 8.0 + 1 / scale, _THRESHOLDS)  # in units of the scale
    further = places - 1 / scale
    if not _is_pure(claim):
        return ndtr(-further), ndtr(-places)
    one, other = (np.where(x > 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2) for x in (further, places))
    return one, other


def parts(samples: int) -> tuple[int, int, int]:
    """The runs that scores are learned from, those that choose the event, and those that it is tested on."""
    learning, choosing = min(samples // 4, _MAX_LEARNING_RUNS), min(samples // 4, _MAX_CHOOSING_RUNS)
    return learning, choosing, samples - learning - choosing


def clopper_pearson(count: Floats, runs: int, miss: float) -> tuple[Floats, Floats]:
    """Lower and upper bounds on a probability, each wrong with chance at most `miss` (Clopper & Pearson 1934).

    count   how often the event was seen in `runs` independent runs, (k,)
    """
    from scipy.special import betainccinv, betaincinv

    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(count > 0, betaincinv(count, runs - count + 1, miss), 0.0)
        high = np.where(count < runs, betainccinv(count + 1, runs - count, miss), 1.0)
    return low, high


def _limit(claim: Cost) -> float:
    return claim.rho if isinstance(claim, ZCDP) else claim.epsilon


def _epsilon(low: Floats, high: Floats, delta: float) -> Floats:
    """ln((low - δ)/high), not below 0, and infinite where only `high` is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.log(np.maximum(low - delta, 0)) - np.log(high)
    return np.where(low - delta > high, excess, 0.0)


def _rho(low: Floats, high: Floats) -> Floats:
    """sup_α D_α / α over both directions, 0 unless low > high."""
    best = np.zeros(np.shape(low))
    with np.errstate(divide="ignore", invalid="ignore"):
        p, not_p, q, not_q = (np.log(v) for v in (low, 1 - low, high, 1 - high))
        for order in _RENYI_ORDERS:
            for divergence in (_divergence(order, p, q, not_p, not_q), _divergence(order, q, p, not_q, not_p)):
                best = np.fmax(best, divergence / order)
    return np.where(low > high, best, 0.0)


def _divergence(order: float, p: Floats, q: Floats, not_p: Floats, not_q: Floats) -> Floats:
    """D_α of two coins, from the logarithms of their chances; infinite where one of q is 0 and its p is not."""
    terms = [np.where(a == -np.inf, -np.inf, order * a + (1 - order) * b) for a, b in ((p, q), (not_p, not_q))]
    divergence: Floats = np.logaddexp(terms[0], terms[1]) / (order - 1)
    return divergence
