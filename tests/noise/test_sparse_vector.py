"""Sparse vector: laws and privacy losses by exact enumeration, halting, accuracy, one stream once, refusals."""

import copy
import itertools
import math
import os
import pickle
import signal
import threading
import time
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from streams import Law, mass, survival, worst

from qrelease.errors import InvalidInput, QReleaseError, StreamHalted
from qrelease.noise.entropy import Entropy
from qrelease.noise.sparse_vector import AboveThreshold, Calibration, NumericSparse, Sparse, SparseVector, Stream
from qrelease.privacy import ZCDP, ApproxDP, PureDP, optimal_delta

CALIBRATIONS = {
    "above threshold": AboveThreshold.calibrate(PureDP(1), 1),
    "sparse": Sparse.calibrate(PureDP(2), 2, 1),
    "sparse with delta": Sparse.calibrate(ApproxDP(1, 0.5), 2, 1),
    "default": SparseVector.calibrate(PureDP(1), 2, 1),
    "default, monotone": SparseVector.calibrate(PureDP(1), 2, 1, monotone=True),
    "default, zCDP": SparseVector.calibrate(ZCDP(0.5), 2, 1),
    "default, zCDP, monotone": SparseVector.calibrate(ZCDP(0.5), 2, 1, monotone=True),
}
EVERY = pytest.mark.parametrize("calibration", CALIBRATIONS.values(), ids=CALIBRATIONS)


class Counting:
    """A source that counts the words taken."""

    def __init__(self, seed=0):
        self.entropy, self.taken, self.insecure_seed = Entropy.insecure(seed), 0, seed

    def words(self, n):
        self.taken += n
        return self.entropy.words(n)


# --- the laws, by enumeration ------------------------------------------------------------------------------------


def p_value(observed, law):
    """Chi-square; outcomes too rare for it are taken together with the rarest of the others."""
    order = np.argsort(law)
    rare = np.searchsorted((law[order] * observed.sum()).cumsum(), 8)
    groups = np.maximum(np.arange(law.size) - rare, 0)
    observed, law = (np.bincount(groups, weights=values[order]) for values in (observed, law))
    return stats.chisquare(observed, law / law.sum() * observed.sum()).pvalue


def answers_of(calibration, values, entropy):
    stream, answers = Stream(calibration, entropy), []
    for value in values:
        if stream.halted:
            break
        answers.append(True if stream.ask(value, 0) else None)
    return tuple(answers)


OFF = [{"threshold": 1.3}, {"threshold": 1 / 1.3}, {"query": 1.3}, {"query": 1 / 1.3}]


@EVERY
def test_decisions_have_the_law_and_any_noise_off_by_thirty_per_cent_or_a_forgotten_redraw_would_show(calibration):
    values = [round(v * float(calibration.query)) for v in (-1, 0.5, -2, 1, 0, -1)]
    law = Law(calibration).transcripts(values)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    entropy, index = Entropy.insecure(51), {t: i for i, t in enumerate(law)}
    seen = np.bincount([index[answers_of(calibration, values, entropy)] for _ in range(10_000)], minlength=len(law))
    assert p_value(seen, np.array(list(law.values()))) > 1e-3
    wrong = OFF + ([{"redraw": not calibration.redraw}] if calibration.positives > 1 else [])
    for change in wrong:
        assert p_value(seen, np.array(list(Law(calibration, **change).transcripts(values).values()))) < 1e-6


@EVERY
def test_gaps_have_the_law_and_noise_off_by_thirty_per_cent_would_show(calibration):
    value, size = round(float(calibration.query)), max(1, round(float(calibration.query) / 2))

    def law(**change):
        """P(⊥), then of gaps in twelve cells."""
        model = Law(calibration, **change)
        level = model.z + model.offset - value
        tails = [(model.start * survival(model.scale, model.two_sided, level + size * i)).sum() for i in range(12)]
        return np.array([1 - tails[0], *-np.diff(tails), tails[-1]])

    entropy = Entropy.insecure(52)
    gaps = [Stream(calibration, entropy).ask_gap(value, 0) for _ in range(30_000)]
    seen = np.bincount([0 if g is None else min(g // size, 11) + 1 for g in gaps], minlength=13)
    assert p_value(seen, law()) > 1e-3
    for change in OFF:
        assert p_value(seen, law(**change)) < 1e-6


def test_a_value_at_its_noisy_threshold_is_above():
    tiny = Calibration(PureDP(1), 1, Fraction(1, 1000), Fraction(1, 1000))
    assert [Stream(tiny, Entropy()).ask(v, 7) for v in (6, 7, 8)] == [False, True, True]
    assert [Stream(tiny, Entropy()).ask_gap(v, 7) for v in (6, 7, 9)] == [None, 0, 2]
    assert [Stream(tiny, Entropy()).ask_many([v], 7) for v in (6, 7, 9)] == [None, (0, 0), (0, 2)]


@EVERY
def test_noise_is_centred_and_has_the_variance_of_its_scales(calibration):
    stream = Stream(replace(calibration, positives=20_000, redraw=True), Entropy.insecure(53))
    gaps = np.array([stream.ask_gap(10**6, 0) for _ in range(20_000)]) - 10**6
    factor = 2 if calibration.two_sided else 1
    rates = [1 / float(b) for b in (calibration.threshold, calibration.query)]
    variance = factor * sum(math.exp(-r) / math.expm1(-r) ** 2 for r in rates)
    assert abs(gaps.mean()) <= (0 if calibration.two_sided else 0.5) + 4 * math.sqrt(variance / gaps.size)
    assert gaps.var() == pytest.approx(variance, rel=0.06)


def test_numbers_are_the_value_plus_fresh_noise_of_their_own_scale():
    calibration = NumericSparse.calibrate(PureDP(9), 1, 1)
    assert calibration.numeric == 1
    q = math.exp(-1)
    cells = np.arange(-6, 7)

    def cell_law(scale):
        law = mass(scale, True, cells)
        law[[0, -1]] = survival(scale, True, 6)
        return law

    # First where any value is above, then where only a rare large noise brings one there: its excess is no part of it.
    for seed, threshold in [(54, -1000), (55, 2)]:
        entropy, noise = Entropy.insecure(seed), []
        while len(noise) < 4000:
            found = NumericSparse(PureDP(9), 1, 1, entropy).ask_many(np.zeros(64, dtype=np.int64), threshold)
            noise += [] if found is None else [found[1]]
        seen = np.bincount(np.clip(noise, -6, 6) + 6, minlength=13)
        assert p_value(seen, cell_law(1)) > 1e-3
        assert p_value(seen, cell_law(1.3)) < 1e-6
        assert p_value(seen, cell_law(1 / 1.3)) < 1e-6
    assert survival(1, True, 1) == pytest.approx(q / (1 + q))


# --- privacy, by enumeration -------------------------------------------------------------------------------------


def neighbours(m, step, *, monotone):
    """How the m values of a stream move between neighbours."""
    if not monotone:
        return list(itertools.product((-step, 0, step), repeat=m))
    up = list(itertools.product((0, step), repeat=m))
    return up + [tuple(-d for d in move) for move in up]


def losses(calibration, values, move, answers=(None, True), **off):
    """The privacy loss of every transcript, ln P(x) / P(x'), and the probabilities P(x')."""
    here = Law(calibration, **off).transcripts(values, answers)
    there = Law(calibration, **off).transcripts([v + d for v, d in zip(values, move, strict=True)], answers)
    p, q = (np.array(list(law.values())) for law in (here, there))
    return np.log(p / q), q


PURE = [
    (AboveThreshold.calibrate(PureDP(0.8), 1), 1, False),
    (AboveThreshold.calibrate(PureDP(0.8), 3), 3, False),
    (Sparse.calibrate(PureDP(0.8), 2, 1), 1, False),
    (SparseVector.calibrate(PureDP(0.8), 2, 1), 1, False),
    (SparseVector.calibrate(PureDP(0.8), 2, 3), 3, False),
    (SparseVector.calibrate(PureDP(0.8), 2, 1, monotone=True), 1, True),
    (SparseVector.calibrate(PureDP(0.8), 1, 2, monotone=True), 2, True),
]


@pytest.mark.parametrize(("calibration", "step", "monotone"), PURE)
def test_no_transcript_with_gaps_loses_more_than_epsilon_for_any_neighbours(calibration, step, monotone):
    answers = (None, 0, 1, 2, 5, 20)
    for values in [(0, 0, 0), (-9, 4, 0), (15, 15, -20)]:
        for move in neighbours(3, step, monotone=monotone):
            assert losses(calibration, values, move, answers)[0].max() <= 0.8 * (1 + 1e-9)


@pytest.mark.parametrize(("calibration", "step", "monotone"), PURE)
def test_the_whole_of_epsilon_can_be_lost_and_no_noise_may_be_thirty_per_cent_less(calibration, step, monotone):
    assert 0.99 * 0.8 <= worst(calibration, step, monotone=monotone) <= 0.8 * (1 + 1e-9)
    assert worst(calibration, step, monotone=monotone, threshold=1 / 1.3) > 1.05 * 0.8
    assert worst(calibration, step, monotone=monotone, query=1 / 1.3) > 1.05 * 0.8


def test_queries_that_are_not_monotone_may_not_be_called_so():
    assert worst(SparseVector.calibrate(PureDP(0.8), 2, 1, monotone=True), 1, monotone=False) > 1.2 * 0.8


def test_the_noisy_value_itself_would_not_be_free():
    law = Law(SparseVector.calibrate(PureDP(0.8), 1, 1))

    def probability(value, seen):
        """P(⊥ for this value, then ⊤ for the value 0 with f + ν = `seen`)."""
        weights = law.step(law.start, value, None)
        return weights[law.z + law.offset <= seen].sum() * mass(law.scale, False, np.array(seen))

    # A low one that is ⊤ bounds ρ from above, where the ⊥ before it bounds ρ from below.
    assert probability(law.offset - 1, law.offset) > 0
    assert probability(law.offset, law.offset) == 0


ZERO_CONCENTRATED = [(SparseVector.calibrate(ZCDP(0.3), c, 1, monotone=m), c, m) for c in (1, 2) for m in (False, True)]


@pytest.mark.parametrize(("calibration", "c", "monotone"), ZERO_CONCENTRATED)
def test_renyi_divergences_of_a_zcdp_stream_stay_within_rho(calibration, c, monotone):
    orders = np.array([1.001, 1.1, 1.5, 2, 4, 10, 60])
    for values in [(0, 0, 0, 0, 0), (-6, 9, 9, -20, -20), (12, 12, 12, -15, 0)]:
        for move in neighbours(5, 1, monotone=monotone)[:: 1 if monotone else 7]:
            loss, q = losses(calibration, values, move)
            moments = (q * np.exp(orders[:, None] * loss)).sum(axis=1)
            assert (np.log(moments) / (orders - 1) <= 0.3 * orders * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize(("calibration", "c", "monotone"), ZERO_CONCENTRATED)
def test_each_part_of_a_zcdp_stream_loses_what_its_share_of_rho_allows(calibration, c, monotone):
    one = replace(calibration, positives=1)
    if not monotone:  # ε²/2 each
        limit = math.sqrt(2 * 0.3 / c)
        assert 0.99 * limit <= worst(one, 1, monotone=False) <= limit
        assert worst(one, 1, monotone=False, threshold=1 / 1.3) > 1.05 * limit
        assert worst(one, 1, monotone=False, query=1 / 1.3) > 1.05 * limit
        return

    def spread(**off):
        """From the least to the greatest loss between one pair of neighbours, over all streams."""
        law, far = Law(one, **off), math.ceil(30 * float(one.query))
        greatest = math.log(law.probability([1 - far], [True]) / law.probability([-far], [True]))
        return greatest + worst(one, 1, monotone=True, **off)

    limit = math.sqrt(8 * 0.3 / c)  # range²/8 each
    assert 0.99 * limit <= spread() <= limit
    assert spread(threshold=1 / 1.3) > 1.05 * limit
    assert spread(query=1 / 1.3) > 1.05 * limit


# --- scales ------------------------------------------------------------------------------------------------------


def exact(formula):
    """A positive real to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction(formula())


def barely_above(scale, value):
    return value <= scale <= value * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("sensitivity", [1, 5])
@pytest.mark.parametrize("c", [1, 7, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_textbook_scales_are_those_of_the_text(epsilon, c, sensitivity):
    e = Fraction(epsilon) / sensitivity
    one = AboveThreshold.calibrate(PureDP(epsilon), sensitivity)
    assert (one.threshold, one.query, one.positives) == (2 / e, 4 / e, 1)
    many = Sparse.calibrate(PureDP(epsilon), c, sensitivity)
    assert (many.threshold, many.query, many.numeric) == (2 * c / e, 4 * c / e, None)
    assert many == replace(Sparse.calibrate(ApproxDP(epsilon, 0), c, sensitivity), cost=PureDP(epsilon))
    numeric = NumericSparse.calibrate(PureDP(epsilon), c, sensitivity)
    first, second = 8 * e / 9, 2 * e / 9
    assert (numeric.threshold, numeric.query, numeric.numeric) == (2 * c / first, 4 * c / first, 2 * c / second)
    assert all(k.redraw and k.two_sided for k in (one, many, numeric))


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.3])
@pytest.mark.parametrize("c", [1, 7, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_irrational_textbook_scales_are_rounded_up_and_the_composition_holds(epsilon, c, delta):
    cost, e, d = ApproxDP(epsilon, delta), Decimal(epsilon), Decimal(delta)
    sparse = Sparse.calibrate(cost, c, 3)
    assert barely_above(sparse.threshold, exact(lambda: 3 * (32 * c * (1 / d).ln()).sqrt() / e))
    assert sparse.query == 2 * sparse.threshold
    assert optimal_delta(PureDP(float(6 / sparse.threshold)), c, epsilon) <= delta

    numeric = NumericSparse.calibrate(cost, c, 3)
    first = exact(lambda: 3 * (32 * c * (2 / d).ln()).sqrt() * (Decimal(512).sqrt() + 1) / (e * Decimal(512).sqrt()))
    second = exact(lambda: 3 * (32 * c * (2 / d).ln()).sqrt() * (Decimal(512).sqrt() + 1) / (2 * e))
    assert barely_above(numeric.threshold, first)
    assert numeric.query == 2 * numeric.threshold
    assert barely_above(numeric.numeric, second)


def test_a_textbook_rule_is_refused_where_its_composition_is_not_proved():
    for rule in (Sparse, NumericSparse):
        with pytest.raises(InvalidInput, match=r"epsilon must be small enough for the textbook's rule .* epsilon=40,"):
            rule.calibrate(ApproxDP(40, 0.1), 10, 1)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("sensitivity", [1, 4])
@pytest.mark.parametrize("c", [1, 2, 50, 100_000])
def test_the_default_spends_its_cost_to_the_last_and_splits_it_for_the_least_variance(c, sensitivity, monotone):
    pure = SparseVector.calibrate(PureDP(0.3), c, sensitivity, monotone=monotone)
    first, second = sensitivity / pure.threshold, (1 if monotone else 2) * c * sensitivity / pure.query
    assert first + second == Fraction(0.3)
    assert float(second / first) == pytest.approx(((1 if monotone else 2) * c) ** (2 / 3), rel=1e-4)
    assert not pure.redraw

    zcdp = SparseVector.calibrate(ZCDP(0.3), c, sensitivity, monotone=monotone)
    first, second = sensitivity / zcdp.threshold, (1 if monotone else 2) * sensitivity / zcdp.query
    each = (first + 2 * second) ** 2 / 8 if monotone else (first + second) ** 2 / 2
    assert Fraction(0.3) * (1 - Fraction(1, 10**9)) <= c * each <= Fraction(0.3)
    assert zcdp.redraw

    def variance(calibration):
        return (2 if calibration.two_sided else 1) * (calibration.threshold**2 + calibration.query**2)

    assert variance(pure) < variance(Sparse.calibrate(PureDP(0.3), c, sensitivity)) / 2
    once = SparseVector.calibrate(PureDP(math.sqrt(0.6)), c, sensitivity, monotone=monotone)
    assert variance(zcdp) <= variance(once) * (1 + Fraction(1, 10**6))


@given(
    size=st.floats(1e-6, 1e3),
    c=st.integers(1, 10**6),
    sensitivity=st.integers(1, 1000),
    monotone=st.booleans(),
)
def test_no_calibration_spends_more_than_its_cost(size, c, sensitivity, monotone):
    def parts(calibration):
        return Fraction(sensitivity) / calibration.threshold, Fraction(sensitivity) / calibration.query

    first, second = parts(SparseVector.calibrate(PureDP(size), c, sensitivity, monotone=monotone))
    assert first + (1 if monotone else 2) * c * second <= Fraction(size)
    first, second = parts(SparseVector.calibrate(ZCDP(size), c, sensitivity, monotone=monotone))
    each = (first + 2 * second) ** 2 / (8 if monotone else 2)
    assert c * each <= Fraction(size)
    for rule in (Sparse, NumericSparse):
        calibration = rule.calibrate(PureDP(size), c, sensitivity)
        first, second = parts(calibration)
        numbers = sensitivity / calibration.numeric if calibration.numeric else 0
        assert c * (first + 2 * second + numbers) == Fraction(size)


# --- accuracy ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.3, 1e-6])
@pytest.mark.parametrize("k", [1, 30, 10**6])
@pytest.mark.parametrize("epsilon", [0.01, 0.5])
@pytest.mark.parametrize("c", [1, 20])
def test_alpha_is_below_the_theorems_of_the_text_and_far_below_for_the_default(c, epsilon, k, beta):
    one = AboveThreshold.calibrate(PureDP(epsilon), 1).alpha(k, beta)
    assert max(one) <= 8 * (math.log(k) + math.log(2 / beta)) / epsilon
    many = Sparse.calibrate(PureDP(epsilon), c, 1).alpha(k, beta)
    assert max(many) <= 8 * c * (math.log(k) + math.log(2 * c / beta)) / epsilon
    numeric = NumericSparse.calibrate(PureDP(epsilon), c, 1)
    theorem = 9 * c * (math.log(k) + math.log(4 * c / beta)) / epsilon
    assert max(*numeric.alpha(k, beta / 2), numeric.numeric_alpha(beta / 2)) <= theorem
    assert sum(SparseVector.calibrate(PureDP(epsilon), c, 1).alpha(k, beta)) <= 0.7 * sum(many)


def wrong(calibration, value, k, entropy):
    """Whether a stream of k times this value against 0 errs: ⊤ for a negative value or ⊥ for a positive one."""
    stream = Stream(calibration, entropy)
    if value < 0:
        return stream.ask_many(np.full(k, value), 0) is not None
    return not all(stream.ask(value, 0) for _ in range(min(k, calibration.positives)))


@pytest.mark.parametrize(
    "calibration",
    [*CALIBRATIONS.values(), SparseVector.calibrate(PureDP(1), 40, 1)],
    ids=[*CALIBRATIONS, "default, many positives"],
)
def test_alpha_holds_with_its_probability_and_two_thirds_of_it_would_not(calibration):
    k, beta, runs = 40, 0.2, 3000
    allowed = runs * beta + 4 * math.sqrt(runs * beta)
    above, below = calibration.alpha(k, beta)
    entropy = Entropy.insecure(56)
    counts = [sum(wrong(calibration, v, k, entropy) for _ in range(runs)) for v in (-above - 1, below + 1)]
    assert max(counts) <= allowed
    spread = (above + below) // 3
    assert sum(wrong(calibration, -above - 1 + spread, k, entropy) for _ in range(runs)) > allowed


def test_numeric_alpha_holds_with_its_probability_and_two_thirds_of_it_would_not():
    beta, runs, c = 0.2, 1000, 5
    alpha = NumericSparse.calibrate(PureDP(1), c, 1).numeric_alpha(beta)
    entropy, worst_noise = Entropy.insecure(57), []
    for _ in range(runs):
        stream = NumericSparse(PureDP(1), c, 1, entropy)
        worst_noise.append(max(abs(stream.ask(0, -(10**6))) for _ in range(c)))
    allowed = runs * beta + 4 * math.sqrt(runs * beta)
    assert (np.array(worst_noise) > alpha).sum() <= allowed < (np.array(worst_noise) > 2 * alpha / 3).sum()


def test_alpha_of_a_stream_with_hardly_any_noise_is_nothing():
    assert SparseVector.calibrate(PureDP(1e300), 3, 1).alpha(1000, 1e-9) == (0, 0)
    # k = 10^400 costs twice as much as 10^200.
    far, near = (sum(SparseVector.calibrate(PureDP(1), 1, 1).alpha(10**n, 0.1)) for n in (400, 200))
    assert far == pytest.approx(2 * near, rel=0.02)
    assert NumericSparse.calibrate(PureDP(1e300), 3, 1).numeric_alpha(1e-9) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.1), "queries must be an integer of at least 1, got 0"),
        ((1.5, 0.1), "queries must be an integer of at least 1, got 1.5"),
        ((True, 0.1), "queries must be an integer of at least 1, got True"),
        ((5, 0), r"beta must be in \(0, 1\), got 0"),
        ((5, 1), r"beta must be in \(0, 1\), got 1"),
        ((5, math.nan), "beta must be finite, got nan"),
    ],
)
def test_alpha_refuses_bad_arguments(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        CALIBRATIONS["default"].alpha(*arguments)


def test_numeric_alpha_is_for_streams_with_numbers():
    with pytest.raises(InvalidInput, match="without numbers"):
        CALIBRATIONS["sparse"].numeric_alpha(0.1)
    with pytest.raises(InvalidInput, match=r"beta must be in \(0, 1\), got 2"):
        NumericSparse.calibrate(PureDP(1), 1, 1).numeric_alpha(2)


# --- halting, and one stream once --------------------------------------------------------------------------------

STREAMS = {
    "above threshold": lambda e: AboveThreshold(PureDP(1), 1, e),
    "sparse": lambda e: Sparse(PureDP(1), 3, 1, e),
    "numeric": lambda e: NumericSparse(ApproxDP(1, 1e-6), 3, 1, e),
    "default": lambda e: SparseVector(PureDP(1), 3, 1, e),
    "default, zCDP": lambda e: SparseVector(ZCDP(0.5), 3, 1, e, monotone=True),
}
EVERY_STREAM = pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)


@EVERY_STREAM
def test_a_stream_halts_after_its_last_positive_and_says_so(make):
    stream = make(Entropy.insecure(58))
    c = stream.left
    assert stream.calibration.positives == c
    for left in range(c, 0, -1):
        assert (stream.left, stream.halted) == (left, False)
        assert stream.ask(-(10**9), 0) in (False, None)
        assert stream.ask(10**9, 0) not in (False, None)
    assert (stream.left, stream.halted) == (0, True)
    calls = [lambda: stream.ask(10**9, 0), lambda: stream.ask_many([5], 0), lambda: stream.ask_many(np.arange(0), 0)]
    for call in calls:
        with pytest.raises(StreamHalted, match=f"all {c} positive answers are given; a new stream costs anew"):
            call()
    assert issubclass(StreamHalted, QReleaseError)


@given(
    seed=st.integers(0, 2**32),
    make=st.sampled_from(list(STREAMS.values())),
    batches=st.lists(st.tuples(st.lists(st.integers(-60, 60), max_size=90), st.integers(-20, 20)), max_size=8),
)
def test_batches_answer_as_single_queries_do_draw_for_draw(seed, make, batches):
    single, batched = make(Entropy.insecure(seed)), make(Entropy.insecure(seed))
    ask = single.ask if isinstance(single, NumericSparse) else single.ask_gap
    positives = 0
    for values, threshold in batches:
        values = np.array(values, dtype=np.int64)
        if batched.halted:
            break
        while values.size:
            answers = ((i, ask(v, threshold)) for i, v in enumerate(values.tolist()))
            expected = next(((i, a) for i, a in answers if a is not None), None)
            assert batched.ask_many(values, threshold) == expected
            assert single.left == batched.left
            positives += expected is not None
            values = values[len(values) if expected is None or batched.halted else expected[0] + 1 :]
    assert positives == batched.calibration.positives - batched.left
    assert positives <= batched.calibration.positives


def test_long_batches_cross_blocks_of_prefetched_noise():
    values = np.full(20_000, -40)
    for seed in range(5):
        single, batched = (SparseVector(PureDP(1), 2, 1, Entropy.insecure(seed)) for _ in range(2))
        expected = next(((i, g) for i in range(20_000) if (g := single.ask_gap(-40, 0)) is not None), None)
        assert batched.ask_many(values, 0) == expected
        assert batched.ask_gap(0, -300) == single.ask_gap(0, -300)


def test_the_words_taken_depend_on_the_number_of_queries_and_the_answers_only():
    sources = [Counting(), Counting()]
    for source, value in zip(sources, (0, -(10**6)), strict=True):
        stream = Sparse(PureDP(1), 5, 1, source)
        assert source.taken == 0
        for _ in range(3):
            assert stream.ask_many(np.full(500, value), 10**7) is None
            assert stream.ask(10**8, 10**7)
    assert sources[0].taken == sources[1].taken


def test_integers_beyond_64_bits_are_compared_exactly():
    far = 10**40
    stream = Sparse(PureDP(1), 10, 1, Entropy.insecure(59))
    assert stream.ask(far, 0)
    assert not stream.ask(-far, 0)
    assert not stream.ask(0, far)
    extremes = np.array([-(2**63), 2**63 - 1])
    assert stream.ask_many(extremes, far) is None
    assert stream.ask_many(extremes[:1], -far)[0] == 0
    assert stream.ask_many(extremes, 0)[0] == 1
    assert stream.ask_many(extremes, 2**63 - 10**6)[0] == 1
    assert stream.ask_many(extremes, -(2**63) + 10**6)[0] == 1
    assert stream.ask_many(extremes, -(2**63) - 10**6)[0] == 0


class Slow(Counting):
    """A source that lets other threads go first."""

    def words(self, n):
        time.sleep(0.01)
        return super().words(n)


def in_threads(work):
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("many", [False, True])
def test_threads_share_a_stream_and_get_no_more_than_its_positives(many):
    stream, answers = Sparse(PureDP(1), 2, 1, Slow()), []

    def work():
        for _ in range(5):
            try:
                answers.append(stream.ask_many([10**9], 0) if many else stream.ask(10**9, 0))
            except StreamHalted:
                answers.append("halted")

    in_threads(work)
    assert (len(answers), answers.count("halted"), stream.left) == (20, 18, 0)


def test_threads_never_share_a_draw():
    # Every comparison is ⊤ and no threshold noise is redrawn: gaps are the query noise but for a constant.
    quiet = Calibration(PureDP(1), 40_000, Fraction(1), Fraction(2**50), redraw=False)
    stream, gaps = Stream(quiet, Entropy.insecure(61)), []
    in_threads(lambda: gaps.extend([stream.ask_gap(2**62, 0) for _ in range(10_000)]))
    assert len(set(gaps)) == len(gaps) == 40_000


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@EVERY_STREAM
def test_a_forked_child_cannot_go_on_with_a_stream_even_if_it_was_locked(make):
    stream = make(Entropy())
    stream.ask(-(10**9), 0)
    with stream._lock:
        if not (pid := os.fork()):
            signal.alarm(20)  # ends a child that waits for the lock
            code = 1
            try:
                stream.ask(0, 0)
            except StreamHalted as error:
                code = 0 if "process that opened it" in str(error) and stream.halted and stream.left == 0 else 2
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert not stream.halted
    assert stream.ask(-(10**9), 0) in (False, None)


@EVERY_STREAM
def test_a_stream_cannot_be_copied_or_pickled(make):
    stream = make(Entropy())
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InvalidInput, match="cannot be pickled or copied"):
            duplicate(stream)


def test_a_repr_shows_the_public_side_only():
    stream = SparseVector(PureDP(0.5), 7, 1, Entropy.insecure(62))
    stream.ask(123_456_789, 0)
    assert repr(stream) == "<SparseVector epsilon=0.5, 6 of 7 positives left>"
    assert stream.cost == PureDP(0.5)
    assert not hasattr(stream, "__dict__")


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [1.0, math.nan, math.inf, True, np.True_, np.float64(2), "1", None, Fraction(3)])
@EVERY_STREAM
def test_values_and_thresholds_that_are_not_integers_are_refused_and_nothing_is_drawn(make, bad):
    source = Counting()
    stream = make(source)
    with pytest.raises(InvalidInput, match=f"^value must be an integer, got {type(bad).__name__}$"):
        stream.ask(bad, 0)
    for call in (lambda: stream.ask(0, bad), lambda: stream.ask_many([0], bad)):
        with pytest.raises(InvalidInput, match=f"^threshold must be an integer, got {type(bad).__name__}$"):
            call()
    assert source.taken == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0], r"got float64 of shape \(1,\)"),
        ([True], r"got bool of shape \(1,\)"),
        ([[1]], r"got int64 of shape \(1, 1\)"),
        (5, r"got int64 of shape \(\)"),
        ([2**70], r"got object of shape \(1,\)"),
        (np.array([1], dtype=np.uint64), r"got uint64 of shape \(1,\)"),
    ],
)
@EVERY_STREAM
def test_batches_that_are_not_rows_of_signed_integers_are_refused_and_nothing_is_drawn(make, values, message):
    source = Counting()
    with pytest.raises(InvalidInput, match=f"values must be one row of signed integers, {message}"):
        make(source).ask_many(values, 0)
    assert source.taken == 0


def test_no_message_holds_a_private_value():
    stream = SparseVector(PureDP(1), 1, 1, Entropy())
    for call in (lambda: stream.ask(1234.5, 0), lambda: stream.ask_many([1234.5], 0)):
        with pytest.raises(InvalidInput) as error:
            call()
        assert "1234" not in str(error.value)


def test_numpy_integers_are_integers_and_an_empty_batch_asks_nothing():
    stream = SparseVector(PureDP(np.float64(1)), np.int64(2), np.int32(1), Entropy.insecure(63))
    assert stream.ask(np.int64(10**6), np.int16(3)) is True
    assert stream.ask_many(np.array([5, 3], dtype=np.int8), np.int64(10**6)) is None
    assert stream.ask_many(np.arange(0), 0) is None
    assert stream.left == 1


BAD_COUNTS = [0, -1, True, 1.0, np.float64(2), math.nan, "1", None]


@pytest.mark.parametrize("bad", BAD_COUNTS, ids=repr)
@pytest.mark.parametrize("rule", [Sparse, NumericSparse, SparseVector])
def test_bad_counts_are_one_clear_error_and_nothing_is_drawn(rule, bad):
    source = Counting()
    with pytest.raises(InvalidInput, match=r"^positives must be an integer of at least 1, got "):
        rule(PureDP(1), bad, 1, source)
    with pytest.raises(InvalidInput, match=r"^sensitivity must be an integer of at least 1, got "):
        rule(PureDP(1), 1, bad, source)
    with pytest.raises(InvalidInput, match=r"^sensitivity must be an integer of at least 1, got "):
        AboveThreshold(PureDP(1), bad, source)
    assert source.taken == 0


@pytest.mark.parametrize("bad", [1.0, None, "epsilon=1", ZCDP(1), ApproxDP(1, 1e-9)], ids=repr)
def test_a_cost_of_another_kind_is_refused(bad):
    rules = [lambda: AboveThreshold.calibrate(bad, 1)]
    if not isinstance(bad, ApproxDP):
        rules += [lambda: Sparse.calibrate(bad, 1, 1), lambda: NumericSparse.calibrate(bad, 1, 1)]
    if not isinstance(bad, ZCDP):
        rules += [lambda: SparseVector.calibrate(bad, 1, 1)]
    for rule in rules:
        with pytest.raises(InvalidInput, match=r"^the cost must be PureDP"):
            rule()


def test_noise_beyond_what_can_be_drawn_is_refused():
    with pytest.raises(
        InvalidInput, match=r"the scale of the threshold noise must be at most 2\^50, got 2\^61 or more"
    ):
        Sparse.calibrate(PureDP(2.0**-60), 1, 1)
    with pytest.raises(InvalidInput, match="the scale of the query noise"):
        SparseVector.calibrate(PureDP(1), 2**50, 1)
    for cost in (PureDP(1), ZCDP(1)):
        with pytest.raises(InvalidInput, match=r"noise must be at most 2\^50, got 2\^\d+ or more"):
            SparseVector.calibrate(cost, 10**400, 1)
    for bad in (0, -1, math.nan, math.inf, True, "1"):
        with pytest.raises(InvalidInput, match="the query scale must be"):
            Calibration(PureDP(1), 1, Fraction(1), bad)
    with pytest.raises(InvalidInput, match="positives must be an integer of at least 1, got 0"):
        Calibration(PureDP(1), 0, Fraction(1), Fraction(1))
