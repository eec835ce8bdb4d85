"""Sparse vector: which queries of a long stream are above their thresholds, at a price that counts only those.

A query is a private integer f and a public integer threshold T. It is answered ⊤ (above) when f + ν >= T + ρ + o, else
⊥, with fresh query noise ν, threshold noise ρ that is kept for many queries, and a public constant o. Each ⊥ is free;
after c times ⊤ the stream halts. `SparseVector` is the one to use; `AboveThreshold`, `Sparse` and `NumericSparse` are
the algorithms of Dwork & Roth 2014, §3.6, with their constants.

**Adaptivity.** Whoever asks may choose f, T, and whether to go on, by all answers so far. T may not depend on the data
in any other way, and no f may move by more than Δ, the `sensitivity`, between neighbours. Queries are *monotone* if,
for any two neighbours, all of them move the same way: counts under add-remove, but not f - y beside y - f.

**Theorem.** Let ρ and ν have the mass functions p₁, p₂ on the integers with, for every integer y and d >= 0,

    (*)  p₁(y + d) >= e^(-d/b₁) p₁(y),   p₂(y + d) >= e^(-d/b₂) p₂(y).

The discrete Laplace law of scale b has this, and so has the geometric law on 0, 1, 2, … (for y < 0 the right side is
0). Take what is answered between two draws of ρ, at most m times ⊤, each with its *gap* g = f + ν - (T + ρ + o) >= 0.
For neighbours x, x' its probabilities satisfy P <= e^(Δ/b₁ + 2mΔ/b₂) P', and P <= e^(Δ/b₁ + mΔ/b₂) P' if the queries
are monotone, where moreover P <= e^(mΔ/b₂) P' if no f is smaller on x than on x'.

*Proof.* The asker's own chances depend on earlier answers only and cancel. For fixed answers, the sum over z = ρ is
P = Σ_z p₁(z) Π_⊥ P(ν < T + o + z - f(x)) Π_⊤ p₂(g + T + o + z - f(x)). Compare the term of z with that of z + Δ for x'.
The first factor falls by e^(-Δ/b₁) at most, by (*). A factor of ⊥ does not fall: z - f(x) <= z + Δ - f(x'). In a factor
of ⊤ the argument grows by d = Δ + f(x) - f(x'), from 0 to 2Δ, so it falls by e^(-2Δ/b₂) at most; by e^(-Δ/b₂) if
f(x) <= f(x'). If f(x) >= f(x') throughout, compare equal z: d = f(x) - f(x') is from 0 to Δ, and no ⊥ falls. ∎

Everything is an integer and Δ a whole number of steps, so this is exact. Ties count as ⊤, which is the g = 0 of the
proof. Answers without gaps are post-processing: **the gap is free**, but only this one, against the noisy threshold.
f + ν itself is not, nor is the gap to T: there ⊤ says f + ν >= T + ρ + o, and the comparison of z with z + Δ fails.
(Laplace noise: Lyu, Su & Li 2017; the gap: Wang, Ding, Wang, Kifer & Zhang 2019, Ding, Wang, Zhang & Kifer 2019;
exponential noise: Liu, Wang, Liu, Li & Chen 2024. The proof here stands by itself.)

**Cost.** With ε₁ = Δ/b₁ and ε₂ = 2mΔ/b₂ (mΔ/b₂ if monotone), ρ drawn once (m = c) costs ε₁ + ε₂. Drawn anew after
each ⊤ (m = 1) it is a composition of c such mechanisms: (ε₁ + ε₂)²/2 zCDP each (Bun & Steinke 2016) or, for monotone
queries, (ε₁ + 2ε₂)²/8, for then the privacy loss lies between -(ε₁ + ε₂) and ε₂, or between -ε₂ and ε₁ + ε₂, hence in
an interval of that length known to the pair (bounded range: Cesar & Rogers 2021).

**Accuracy.** Let β₁ + β₂ = β. Of r draws of ρ none exceeds s in size, but with probability β₁, and of the noises of k
queries none exceeds t, in the one direction that could make its answer wrong, but with β₂. With one-sided noise a ⊤
then has f >= T + o - t and a ⊥ f <= T + o + s; with two-sided noise it is T ∓ (s + t). See `Calibration.alpha`.

**Noise is drawn ahead**, in blocks. Draws are independent of the data and of each other, and the i-th query gets the
i-th draw, whenever that was made: the joint law is that of drawing one at a time. Draws left over serve no one else. A
stream cannot be copied, pickled, or carried into a forked process, where ρ, ν and c would serve twice.
"""

import math
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NoReturn, final

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import positive_probability, rational, whole
from qrelease.errors import InvalidInput, StreamHalted
from qrelease.noise.distributions import MAX_SCALE
from qrelease.noise.entropy import WordSource
from qrelease.noise.samplers import Integers, draw, laplace_sampler
from qrelease.privacy.composition import advanced_composition
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP, check_cost, round_down, round_up

_FIRST_BLOCK: Final = 32
_LARGEST_BLOCK: Final = 4096
_WEIGHT_BITS: Final = 16
_SCALE_BITS: Final = 40
_SAFE_BOUND: Final = 1 << 62


@final
@dataclass(frozen=True)
class Calibration:
    """The public side of a stream: its cost and its noise. Made by `calibrate`; one made by hand promises nothing.

    cost       of the whole stream, all its answers together: charge it before the first query
    positives  c, the number of ⊤ after which it halts
    threshold  the scale b₁ of ρ
    query      the scale b₂ of ν
    numeric    the scale of the noise on a number given with each ⊤, or None
    redraw     whether ρ is drawn anew after each ⊤
    two_sided  whether ρ and ν are discrete Laplace (and o = 0), or geometric

    Scales are exact fractions in units of the integer grid. Raises `InvalidInput` for a scale that is not positive and
    at most 2^50, and for positives that are not an integer of at least 1.
    """

    cost: Cost
    positives: int
    threshold: Fraction
    query: Fraction
    numeric: Fraction | None = None
    redraw: bool = True
    two_sided: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "positives", whole("positives", self.positives, least=1))
        for name in ("threshold", "query") if self.numeric is None else ("threshold", "query", "numeric"):
            scale = rational(f"the {name} scale", getattr(self, name))
            if scale > MAX_SCALE:
                size = math.floor(scale).bit_length() - 1
                raise InvalidInput(f"the scale of the {name} noise must be at most 2^50, got 2^{size} or more")
            object.__setattr__(self, name, scale)

    @property
    def offset(self) -> int:
        """o, which centres one-sided noise: ν - ρ - o has a mean of at most a half; 0 for two-sided noise."""
        return 0 if self.two_sided else round(_geometric_mean(self.query) - _geometric_mean(self.threshold))

    def alpha(self, queries: int, beta: float) -> tuple[int, int]:
        """(α_⊤, α_⊥): how far wrong the answers to at most `queries` queries may be, in units of the values.

        With probability 1 - β all queries answered ⊤ have f >= T - α_⊤, and all answered ⊥ have f <= T + α_⊥, however
        they were chosen. So with fewer than c queries within α_⊤ of their thresholds or above, it does not halt. β is
        split as b₁ : b₂, which makes the sum least; whoever wants α_⊤ = α_⊥ may shift the thresholds. Proof above; the
        bounds of Dwork & Roth 2014, Theorems 3.24 and 3.26, are weaker. Raises `InvalidInput` for queries that are not
        an integer of at least 1, or β outside (0, 1).
        """
        k, beta = whole("queries", queries, least=1), positive_probability("beta", beta)
        draws = min(self.positives, k) if self.redraw else 1
        both = self.threshold + self.query
        s = self._beyond(self.threshold, draws * (2 if self.two_sided else 1) * both / self.threshold, beta)
        t = self._beyond(self.query, k * both / self.query, beta)
        if self.two_sided:
            return s + t, s + t
        return max(t - self.offset, 0), max(s + self.offset, 0)

    def numeric_alpha(self, beta: float) -> int:
        """α such that with probability 1 - β all numbers given with a ⊤ are within α of their values.

        Raises `InvalidInput` for β outside (0, 1), and where no numbers are given.
        """
        beta = positive_probability("beta", beta)
        if self.numeric is None:
            raise InvalidInput("this stream answers above or below, without numbers")
        return self._beyond(self.numeric, Fraction(2 * self.positives), beta)

    def _beyond(self, scale: Fraction, n: Fraction, beta: float) -> int:
        """The least t >= 0 with n P(Y > t) <= β: with q = e^(-1/b), P(Y > t) is q^(t+1), over 1 + q if two-sided."""
        rate = _rate(scale)
        log_n = math.log(n.numerator) - math.log(n.denominator)  # n may be beyond all floats
        surplus = log_n - math.log(beta) - (math.log1p(math.exp(-rate)) if self.two_sided else 0)
        return max(math.ceil(surplus / rate) - 1, 0)


def _rate(scale: Fraction) -> float:
    """1/b, or 1000, beyond which the noise is 0 for all that a float can tell."""
    return float(min(1 / scale, Fraction(1000)))


def _geometric_mean(scale: Fraction) -> float:
    """1 / (e^(1/b) - 1)."""
    return math.exp(-_rate(scale)) / -math.expm1(-_rate(scale))


_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # absent on Windows, which does not fork
    os.register_at_fork(after_in_child=_count_fork)


class _Stream:
    """What all streams share: the comparison, the count, and that there is only one of each."""

    __slots__ = ("_at", "_block", "_calibration", "_entropy", "_fork", "_left", "_lock", "_offset", "_query", "_rho")

    def __init__(self, calibration: Calibration, entropy: WordSource) -> None:
        self._calibration = calibration
        self._entropy = entropy
        self._query = laplace_sampler(calibration.query, signed=calibration.two_sided)
        self._offset = calibration.offset
        self._left = calibration.positives
        self._rho: int | None = None
        self._block: Integers = np.empty(0, dtype=np.int64)
        self._at = 0
        self._lock = threading.Lock()
        self._fork = _forks

    @property
    def calibration(self) -> Calibration:
        """The public side: cost and noise."""
        return self._calibration

    @property
    def cost(self) -> Cost:
        """The cost of the whole stream, with all its answers: the caller charges it before the first query."""
        return self._calibration.cost

    @property
    def left(self) -> int:
        """How many more times it can answer ⊤; 0 in a process that did not open it."""
        return self._left if self._fork == _forks else 0

    @property
    def halted(self) -> bool:
        """Whether the next query will raise `StreamHalted`."""
        return self.left == 0

    def _compare(self, value: int, threshold: int) -> int | None:
        """The gap, or None for ⊥."""
        self._refuse_fork()
        with self._lock:
            level = self._level(threshold)
            if self._at == self._block.size:
                self._refill()
            # Advanced first: an interrupt loses a draw and the answer, but no draw serves two answers.
            at, self._at = self._at, self._at + 1
            gap: int = value + self._block.item(at) - level
            if gap < 0:
                return None
            self._count()
            return gap

    def _compare_many(self, values: Ints, threshold: int) -> tuple[int, int] | None:
        """Index and gap of the first ⊤, None if there is none: `_compare` on one after the other, draw for draw."""
        self._refuse_fork()
        with self._lock:
            level, done = self._level(threshold), 0
            while done < values.size:
                if self._at == self._block.size:
                    self._refill()
                at = self._at
                noise = self._block[at : at + values.size - done]
                self._at = at + noise.size
                above = values[done : done + noise.size] >= _difference(level, noise)
                first = int(above.argmax())
                if above[first]:
                    self._at = at + first + 1
                    self._count()
                    return done + first, values.item(done + first) + noise.item(first) - level
                done += noise.size
            return None

    def _level(self, threshold: int) -> int:
        """T + ρ + o; ρ is drawn when it is first needed."""
        if self._left == 0:
            raise StreamHalted(f"all {self._calibration.positives} positive answers are given; a new stream costs anew")
        if self._rho is None:
            sampler = laplace_sampler(self._calibration.threshold, signed=self._calibration.two_sided)
            self._rho = draw(sampler, 1, self._entropy).item()
        return threshold + self._rho + self._offset

    def _refill(self) -> None:
        size = min(max(2 * self._block.size, _FIRST_BLOCK), _LARGEST_BLOCK)
        # In this order: an interrupt in between skips draws, where the other would repeat them.
        self._block = draw(self._query, size, self._entropy)
        self._at = 0

    def _count(self) -> None:
        self._left -= 1
        if self._calibration.redraw:
            self._rho = None

    def _refuse_fork(self) -> None:
        # Before the lock, which another thread of the parent may have held.
        if self._fork != _forks:
            raise StreamHalted("a stream stays with the process that opened it; a forked one must open its own")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise InvalidInput("a sparse vector stream cannot be pickled or copied: its noise would be used twice")

    def __repr__(self) -> str:
        calibration = self._calibration
        return f"<{type(self).__name__} {calibration.cost}, {self.left} of {calibration.positives} positives left>"


class Stream(_Stream):
    """A stream of decisions under any calibration; the classes below choose it, and the auditor's tests a wrong one.

    One object is one stream. Its `cost` is to be charged before the first query. Threads may share it: queries are
    answered one after the other, each exactly once.

    Every method raises `StreamHalted` once all positives are spent (or in a forked process), and `InvalidInput`, with
    nothing drawn or counted, for values or thresholds that are not integers; no message holds a private value. The
    time of an answer depends on the number of queries and on the answers given, not on values or noise.
    """

    __slots__ = ()

    def ask(self, value: int, threshold: int) -> bool:
        """Whether a private `value` is at or above a public `threshold`, both plus noise."""
        return self.ask_gap(value, threshold) is not None

    def ask_gap(self, value: int, threshold: int) -> int | None:
        """None if below, else how far above, >= 0: `value` - `threshold` plus the noise ν - ρ - o of that comparison.

        The same query at the same cost as `ask`; the proof is above. Over ⊤ and ⊥ together the noise has a mean of at
        most a half, but a ⊤ is more likely where it is large. Gaps under one ρ share that part of their noise.
        """
        return self._compare(_integer("value", value), _integer("threshold", threshold))

    def ask_many(self, values: Ints | Sequence[int], threshold: int) -> tuple[int, int] | None:
        """Index and gap of the first of `values`, (k,) signed integers, that is above; None if all k are below.

        Exactly `ask_gap` on one after the other up to the first ⊤; the values after it are not asked.
        """
        return self._compare_many(_integers(values), _integer("threshold", threshold))


@final
class SparseVector(Stream):
    """The default: one-sided noise, and a budget split so that the variance of a comparison is least.

    Under pure ε the threshold noise is drawn once and ε is split as 1 : (2c)^(2/3) between threshold and queries, or
    1 : c^(2/3) if the queries are monotone (Lyu, Su & Li 2017). Under zCDP a new draw after each ⊤, split 1 : 2^(2/3),
    needs less: the noise grows with √c, and monotone queries halve it, by their bounded range. The noise is geometric
    instead of Laplace: half the variance by the same proof (Liu et al. 2024).

    Parameters
    ----------
    cost
        Of the whole stream, all its answers together, to be charged by the caller before the first query.
    positives
        c, the number of answers "above" after which it halts, at least 1.
    sensitivity
        Δ, how far one query moves between neighbours at most, a positive integer.
    entropy
        The source of random words.
    monotone
        Whether between any two neighbours all queries move the same way.

    Raises
    ------
    InvalidInput
        For another kind of cost, and for numbers out of range.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> stream = SparseVector(PureDP(1.0), 2, 1, Entropy.insecure(0))
    >>> stream.ask(0, 1000), stream.ask(5000, 1000), stream.left
    (False, True, 1)
    """

    __slots__ = ()

    def __init__(
        self,
        cost: PureDP | ZCDP,
        positives: int,
        sensitivity: int,
        entropy: WordSource,
        *,
        monotone: bool = False,
    ) -> None:
        super().__init__(self.calibrate(cost, positives, sensitivity, monotone=monotone), entropy)

    @staticmethod
    def calibrate(cost: PureDP | ZCDP, positives: int, sensitivity: int, *, monotone: bool = False) -> Calibration:
        """The noise of a stream; `InvalidInput` for another cost, or counts that are not integers of at least 1.

        With e = ε, or e = √(2ρ/c) under zCDP (√(8ρ/c) if monotone), rounded down: ε₁ = e/(1 + w), and the rest pays n
        times for Δ at scale b₂. w is a fraction near n^(2/3); the promise holds whatever it is.
        """
        check_cost(cost, PureDP, ZCDP)
        c, sensitivity = whole("positives", positives, least=1), whole("sensitivity", sensitivity, least=1)
        if isinstance(cost, PureDP):
            inverse, n = 1 / Fraction(cost.epsilon), c if monotone else 2 * c
        else:
            # Monotone: e = ε₁ + 2ε₂ where ε₂ pays once for Δ. Otherwise e = ε₁ + ε₂ where ε₂ pays twice.
            inverse, n = _root_above(Fraction(c, 8 if monotone else 2) / Fraction(cost.rho)), 2
        w = Fraction(round(min(n, _SAFE_BOUND) ** (2 / 3) * (1 << _WEIGHT_BITS)), 1 << _WEIGHT_BITS)
        threshold = sensitivity * inverse * (1 + w)
        return Calibration(cost, c, threshold, threshold * n / w, redraw=isinstance(cost, ZCDP), two_sided=False)


@final
class AboveThreshold(Stream):
    """Dwork & Roth 2014, Algorithm 1, ε-DP (Theorem 3.23): Lap(2Δ/ε) on the threshold, Lap(4Δ/ε) on queries, one ⊤.

    Parameters
    ----------
    cost, sensitivity, entropy
        As in `SparseVector`; the cost is a `PureDP`.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> stream = AboveThreshold(PureDP(1.0), 1, Entropy.insecure(0))
    >>> stream.ask(0, 1000), stream.ask(5000, 1000), stream.halted
    (False, True, True)
    """

    __slots__ = ()

    def __init__(self, cost: PureDP, sensitivity: int, entropy: WordSource) -> None:
        super().__init__(self.calibrate(cost, sensitivity), entropy)

    @staticmethod
    def calibrate(cost: PureDP, sensitivity: int) -> Calibration:
        """The noise of a stream; `InvalidInput` for another cost, or a sensitivity that is no integer of at least 1."""
        check_cost(cost, PureDP)
        return Sparse.calibrate(cost, 1, sensitivity)


@final
class Sparse(Stream):
    """Dwork & Roth 2014, Algorithm 2, (ε, δ)-DP (Theorem 3.25): Lap(σ) on each new threshold, Lap(2σ) on queries.

    Parameters
    ----------
    cost, positives, sensitivity, entropy
        As in `SparseVector`; the cost is a `PureDP` or an `ApproxDP`.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> stream = Sparse(ApproxDP(1.0, 1e-9), 2, 1, Entropy.insecure(0))
    >>> stream.ask(0, 10_000), stream.ask(50_000, 10_000), stream.left
    (False, True, 1)
    """

    __slots__ = ()

    def __init__(self, cost: PureDP | ApproxDP, positives: int, sensitivity: int, entropy: WordSource) -> None:
        super().__init__(self.calibrate(cost, positives, sensitivity), entropy)

    @staticmethod
    def calibrate(cost: PureDP | ApproxDP, positives: int, sensitivity: int) -> Calibration:
        """σ = 2cΔ/ε, or √(32c ln(1/δ)) Δ/ε, rounded up, if δ > 0.

        By the theorem above each of the c parts is 2Δ/σ-DP; advanced composition (their Theorem 3.20) is checked to
        give (ε, δ), as it does unless ε is large or δ near 1. Raises `InvalidInput` where it does not, for another
        cost, and for counts that are not integers of at least 1.
        """
        check_cost(cost, PureDP, ApproxDP)
        c, sensitivity = whole("positives", positives, least=1), whole("sensitivity", sensitivity, least=1)
        slack = _delta(cost)
        scale = _textbook_scale(c, slack) / Fraction(cost.epsilon)
        _certify(cost, c, slack, 2 / scale)
        return Calibration(cost, c, sensitivity * scale, 2 * sensitivity * scale)


@final
class NumericSparse(_Stream):
    """Dwork & Roth 2014, Algorithm 3, (ε, δ)-DP (Theorem 3.27): `Sparse` with a noisy number for each ⊤.

    The number is the value plus Laplace noise that is drawn for it alone: not that of the comparison, which was chosen
    by its result. Its errors and promises are those of `Stream`.

    Parameters
    ----------
    cost, positives, sensitivity, entropy
        As in `Sparse`.
    used
        How many of the c runs of AboveThreshold that the cost is for are over: each ended with a ⊤ in a stream that
        this one continues, or was given up with that stream. This one answers ⊤ so many times less.

    Examples
    --------
    >>> from qrelease.noise.entropy import Entropy
    >>> stream = NumericSparse(PureDP(1.0), 1, 1, Entropy.insecure(0))
    >>> stream.ask(0, 10_000), abs(stream.ask(50_000, 10_000) - 50_000) < 100
    (None, True)
    """

    __slots__ = ("_numeric",)

    def __init__(
        self, cost: PureDP | ApproxDP, positives: int, sensitivity: int, entropy: WordSource, *, used: int = 0
    ) -> None:
        super().__init__(self.calibrate(cost, positives, sensitivity), entropy)
        self._left -= min(whole("used", used, least=0), positives)
        self._numeric = laplace_sampler(rational("the numeric scale", self.calibration.numeric), signed=True)

    @staticmethod
    def calibrate(cost: PureDP | ApproxDP, positives: int, sensitivity: int) -> Calibration:
        """The scales of noise that a cost buys: `Sparse` has σ(ε₁), the numbers σ(ε₂).

        σ(e) = 2cΔ/e, or √(32c ln(2/δ)) Δ/e if δ > 0, rounded up.

        ε₁ = 8ε/9 and ε₂ = 2ε/9, or √512 ε/(√512 + 1) and 2ε/(√512 + 1). Each number is Δ/σ(ε₂)-DP, so all of them cost
        ε₂/2, and both parts together ε. (Advanced composition bounds the losses of each part but for δ/2, and its
        martingale does not mind the other part in between.) Raises `InvalidInput` as `Sparse.calibrate` does.
        """
        check_cost(cost, PureDP, ApproxDP)
        c, sensitivity = whole("positives", positives, least=1), whole("sensitivity", sensitivity, least=1)
        slack = round_down(Fraction(_delta(cost)) / 2)
        root, inverse = (_root_above(Fraction(512)), _root_above(Fraction(1, 512))) if slack else (8, Fraction(1, 8))
        scale = _textbook_scale(c, slack) / Fraction(cost.epsilon)
        decisions, numbers = scale * (1 + inverse), scale * (1 + root) / 2
        _certify(cost, c, slack, 2 / decisions, 1 / numbers)
        return Calibration(cost, c, sensitivity * decisions, 2 * sensitivity * decisions, sensitivity * numbers)

    def ask(self, value: int, threshold: int) -> int | None:
        """The private `value` plus fresh noise if it is at or above the public `threshold`, else None."""
        value = _integer("value", value)
        return None if self._compare(value, _integer("threshold", threshold)) is None else self._noisy(value)

    def ask_many(self, values: Ints | Sequence[int], threshold: int) -> tuple[int, int] | None:
        """Index and noisy number of the first of `values`, (k,), that is above; None if all k are below.

        Exactly `ask` on one after the other up to the first that is above; the values after it are not asked.
        """
        values = _integers(values)
        found = self._compare_many(values, _integer("threshold", threshold))
        return None if found is None else (found[0], self._noisy(values.item(found[0])))

    def _noisy(self, value: int) -> int:
        noise: int = draw(self._numeric, 1, self._entropy).item()
        return value + noise


def _delta(cost: PureDP | ApproxDP) -> float:
    return cost.delta if isinstance(cost, ApproxDP) else 0.0


def _textbook_scale(positives: int, slack: float) -> Fraction:
    """2c, or √(32 c ln(1/slack)) rounded up."""
    if not slack:
        return Fraction(2 * positives)
    # The logarithm's rounding is below 2^-51 of it.
    return _root_above(32 * positives * Fraction(-math.log(slack)) * (1 + Fraction(1, 1 << 47)))


def _certify(cost: PureDP | ApproxDP, positives: int, slack: float, *losses: Fraction) -> None:
    """Raise `InvalidInput` unless c mechanisms of each of these ε, each group at δ = slack, are within ε in all."""
    if not slack:
        return
    total = sum(Fraction(advanced_composition(PureDP(round_up(loss)), positives, slack).epsilon) for loss in losses)
    if total > Fraction(cost.epsilon):
        raise InvalidInput(
            f"epsilon must be small enough for the textbook's rule to be proved at this delta, got {cost}"
        )


def _root_above(square: Fraction) -> Fraction:
    """A fraction just above the square root."""
    return Fraction(math.isqrt((square.numerator << 2 * _SCALE_BITS) // square.denominator) + 1, 1 << _SCALE_BITS)


def _difference(level: int, noise: Integers) -> Integers:
    """`level` - `noise`, exactly."""
    wide = noise.dtype == object or max(abs(level), int(noise.max()), -int(noise.min())) >= _SAFE_BOUND
    difference: Integers = level - (noise.astype(object) if wide else noise)
    return difference


def _integer(name: str, value: int) -> int:
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        # Its type only: the value may be private.
        raise InvalidInput(f"{name} must be an integer, got {type(value).__name__}")
    return int(value)


def _integers(values: Ints | Sequence[int]) -> Ints:
    row = np.asarray(values)
    if row.ndim != 1 or row.dtype.kind != "i":
        raise InvalidInput(f"values must be one row of signed integers, got {row.dtype} of shape {row.shape}")
    return row.astype(np.int64, copy=False)
