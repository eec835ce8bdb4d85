"""Selection: exact laws by enumeration, agreement of kernels with exact arithmetic, ε on neighbours, refusals."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import reference
from scipy import stats

from qrelease.errors import InvalidInput
from qrelease.noise import exact_cdfs
from qrelease.noise.entropy import Entropy
from qrelease.noise.exact_reals import invert
from qrelease.noise.kernels import accept, pick, rate
from qrelease.noise.selection import exponential_mechanism, permute_and_flip, report_noisy_max

SCORES = np.array([0, 3, 5, 5, -40, 4])
EPSILON = Fraction(1, 2)
MECHANISMS = [exponential_mechanism, permute_and_flip, report_noisy_max]
LAPLACE = partial(report_noisy_max, noise="laplace")


class Script:
    """A source that plays given words, and counts those asked for."""

    def __init__(self, *stock):
        self.stock, self.taken = list(stock), 0

    def words(self, n):
        self.taken += n
        played, self.stock = self.stock[:n], self.stock[n:]
        return np.array(played, dtype=np.uint64)


def exponential_law(scores, gamma):
    weights = np.exp(gamma * (np.array(scores, dtype=float) - max(scores)))
    return weights / weights.sum()


def noisy_max_law(scores, mass, reach):
    """P(win) for each candidate under integer noise of mass function `mass`, ties broken uniformly."""
    scores = np.asarray(scores)
    grid = np.arange(scores.min() - reach, scores.max() + reach + 1)
    density = mass(grid[None, :] - scores[:, None])
    cdf = np.cumsum(density, axis=1) - density
    law = np.zeros(len(scores))
    for winners in itertools.product([False, True], repeat=len(scores)):
        if any(winners):
            tied = np.array(winners)
            at = np.where(tied[:, None], density, cdf).prod(axis=0).sum()
            law += tied * at / tied.sum()
    return law


def laplace_mass(gamma):
    return lambda y: np.tanh(gamma / 2) * np.exp(-gamma * np.abs(y))


def counts(mechanism, scores, size, seed, epsilon=EPSILON, sensitivity=1, **options):
    entropy = Entropy.insecure(seed)
    picks = [mechanism(scores, epsilon, sensitivity, entropy, **options) for _ in range(size)]
    return np.bincount(picks, minlength=len(scores))


def p_value(observed, law):
    """Chi-square, with the candidates too rare for it taken together with the rarest of the others."""
    order = np.argsort(law)
    rare = np.searchsorted((law[order] * observed.sum()).cumsum(), 8)
    groups = np.maximum(np.arange(law.size) - rare, 0)
    observed, law = (np.bincount(groups, weights=values[order]) for values in (observed, law))
    return stats.chisquare(observed, law / law.sum() * observed.sum()).pvalue


# --- the laws ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (exponential_mechanism, lambda gamma: exponential_law(SCORES, gamma)),
        (partial(report_noisy_max, noise="gumbel"), lambda gamma: exponential_law(SCORES, gamma)),
        (permute_and_flip, lambda gamma: np.array(reference.permute_and_flip_law(SCORES.tolist(), gamma))),
        (report_noisy_max, lambda gamma: np.array(reference.permute_and_flip_law(SCORES.tolist(), gamma))),
        (LAPLACE, lambda gamma: noisy_max_law(SCORES, laplace_mass(gamma), 400)),
    ],
)
def test_picks_have_the_law_and_a_rate_off_by_thirty_per_cent_would_show(mechanism, law, monotone):
    observed = counts(mechanism, SCORES, 40_000, 31, sensitivity=3, monotone=monotone)
    gamma = 0.5 / (3 if monotone else 6)
    assert p_value(observed, law(gamma)) > 1e-3
    assert p_value(observed, law(gamma * 1.3)) < 1e-4
    assert p_value(observed, law(gamma / 1.3)) < 1e-4


@pytest.mark.parametrize("name", ["exponential_mechanism", "permute_and_flip"])
def test_picks_agree_with_the_reference(name):
    bits = reference.Bits(Entropy.insecure(32))
    oracle = getattr(reference, name)
    slow = np.bincount([oracle(SCORES.tolist(), Fraction(1, 4), bits) for _ in range(8_000)], minlength=6)
    fast = counts(globals()[name], SCORES, 40_000, 33)
    off = counts(globals()[name], SCORES, 40_000, 33, epsilon=EPSILON * Fraction(13, 10))
    seen = fast + slow > 0
    assert stats.chi2_contingency([fast[seen], slow[seen]]).pvalue > 1e-3
    assert stats.chi2_contingency([off[seen], slow[seen]]).pvalue < 1e-6


@pytest.mark.parametrize("mechanism", [*MECHANISMS, LAPLACE])
def test_equal_scores_are_picked_uniformly_and_one_candidate_always(mechanism):
    assert stats.chisquare(counts(mechanism, np.full(7, -5), 20_000, 34)).pvalue > 1e-3
    assert counts(mechanism, np.array([2**62]), 5, 35).tolist() == [5]


EXTREME = np.array([-(2**63), 2**63 - 1, 0, 2**63 - 1, 2**62])


@pytest.mark.parametrize("mechanism", [*MECHANISMS, LAPLACE])
def test_scores_over_the_whole_of_int64_do_not_wrap(mechanism):
    assert counts(mechanism, EXTREME, 50, 36)[[0, 2, 4]].sum() == 0


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [(exponential_mechanism, exponential_law), (permute_and_flip, reference.permute_and_flip_law)],
)
def test_scores_over_the_whole_of_int64_have_the_law_at_a_tiny_rate(mechanism, law):
    observed = counts(mechanism, EXTREME, 8_000, 37, epsilon=Fraction(1, 2**50), sensitivity=2**11)
    assert p_value(observed, np.array(law([-4, 0, -2, 0, -1], 1.0))) > 1e-3
    assert p_value(observed, np.array(law([-4, 0, -2, 0, -1], 1.3))) < 1e-4


def test_laplace_noise_on_scores_near_the_ends_of_int64_is_added_in_python_integers():
    flat = counts(LAPLACE, np.array([2**63 - 1, 2**63 - 2, -(2**63)]), 2_000, 38, epsilon=Fraction(1))
    assert flat[1] > 300
    assert flat[2] == 0


# --- exactness ---------------------------------------------------------------------------------------------------


def random_problems(count):
    rng = np.random.default_rng(39)
    for i in range(count):
        k = int(rng.integers(1, 60))
        scores = rng.integers(-(2 ** int(rng.integers(1, 63))), 2 ** int(rng.integers(1, 63)), k)
        span = int(scores.max()) - int(scores.min()) + 1
        yield i, scores, Fraction(int(rng.integers(1, 10**6)), span * int(rng.integers(1, 10**6)))


def test_the_kernel_of_the_exponential_mechanism_agrees_with_exact_arithmetic():
    sure = 0
    for i, scores, gamma in random_problems(300):
        word = int(Entropy.insecure(i).words(1)[0])
        index, decided = pick(scores, int(scores.max()), rate(gamma), np.uint64(word))
        law = partial(exact_cdfs.selection, tuple(int(scores.max()) - s for s in scores.tolist()), gamma)
        assert not decided or index == invert(law, word, 64, Script())
        sure += decided
    assert sure == 300


def test_the_kernel_of_permute_and_flip_agrees_with_exact_arithmetic():
    for i, scores, gamma in random_problems(60):
        words = Entropy.insecure(i).words(scores.size)
        verdict = accept(scores, int(scores.max()), rate(gamma), words)
        for r in range(scores.size):
            law = partial(exact_cdfs.coin, gamma * (int(scores.max()) - int(scores[r])))
            assert verdict[r] == 1 - invert(law, int(words[r]) >> 1, 63, Script())


def test_a_word_at_a_boundary_is_undecided_and_the_next_bits_decide():
    scores, gamma = np.array([7, 9, 0, 9]), Fraction(1, 8)
    law = partial(exact_cdfs.selection, (2, 0, 9, 0), gamma)
    for r, (lo, _) in enumerate(law(128)):
        first, second = divmod(lo, 2**64)
        assert not pick(scores, 9, rate(gamma), np.uint64(first))[1]
        below, above = Script(first, second - 1), Script(first, second + 2)
        assert exponential_mechanism(scores, Fraction(1, 4), 1, below) == r
        assert exponential_mechanism(scores, Fraction(1, 4), 1, above) == r + 1
        assert below.taken == above.taken == 2


def test_a_coin_at_its_bias_is_undecided_and_the_next_bits_decide():
    scores, gamma = np.array([3, 9]), Fraction(1, 8)
    first, second = divmod(exact_cdfs.coin(gamma * 6, 127)[0][0], 2**64)
    words = [first << 1, 0]
    assert accept(scores, 9, rate(gamma), np.array(words, dtype=np.uint64)).tolist() == [2, 1]
    # A last word of 0 takes the first of those with heads.
    assert permute_and_flip(scores, Fraction(1, 4), 1, Script(*words, second - 1, 0)) == 0
    assert permute_and_flip(scores, Fraction(1, 4), 1, Script(*words, second + 2, 0)) == 1


def test_exact_arithmetic_alone_has_the_law():
    entropy, law = (
        Entropy.insecure(40),
        partial(exact_cdfs.selection, tuple(5 - s for s in SCORES.tolist()), EPSILON / 2),
    )
    picks = [invert(law, w, 64, entropy) for w in entropy.words(20_000).tolist()]
    assert p_value(np.bincount(picks, minlength=6), exponential_law(SCORES, 0.25)) > 1e-3


def test_many_candidates_take_words_by_their_number_only():
    rng = np.random.default_rng(41)
    for mechanism, words in [(exponential_mechanism, 1), (permute_and_flip, 30_001)]:
        for scores in (rng.integers(0, 1000, 30_000), np.zeros(30_000, dtype=np.int64)):
            source = Script(*Entropy.insecure(42).words(words).tolist())
            assert 0 <= mechanism(scores, Fraction(1, 100), 1, source) < 30_000
            assert source.taken == words


# --- privacy -----------------------------------------------------------------------------------------------------


def worst_loss(law, sensitivity, moves):
    """The largest log-ratio of the law over all neighbours of a few score vectors."""
    worst = 0.0
    for scores in ([0, 0, 0], [3, 0, 1], [2, 2, -4], [0, 1, 30]):
        for move in moves:
            neighbour = [s + sensitivity * m for s, m in zip(scores, move, strict=True)]
            worst = max(worst, float(np.abs(np.log(law(scores) / law(neighbour))).max()))
    return worst


MONOTONE = list(itertools.product([0, 1], repeat=3)) + list(itertools.product([0, -1], repeat=3))
ANY = list(itertools.product([-1, 0, 1], repeat=3))


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize(
    "law",
    [
        lambda scores, gamma: exponential_law(scores, gamma),
        lambda scores, gamma: np.array(reference.permute_and_flip_law(scores, gamma)),
        lambda scores, gamma: noisy_max_law(scores, laplace_mass(gamma), 300),
    ],
)
def test_the_rates_cost_epsilon_and_the_monotone_rate_is_wrong_for_others(law, sensitivity):
    epsilon = 0.8
    half, full = epsilon / (2 * sensitivity), epsilon / sensitivity
    assert worst_loss(lambda s: law(s, half), sensitivity, ANY) <= epsilon * (1 + 1e-9)
    assert worst_loss(lambda s: law(s, full), sensitivity, MONOTONE) <= epsilon * (1 + 1e-9)
    assert worst_loss(lambda s: law(s, full), sensitivity, ANY) > 1.3 * epsilon


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [*MECHANISMS, LAPLACE])
@pytest.mark.parametrize(
    ("scores", "epsilon", "sensitivity", "message"),
    [
        ([], 1, 1, r"scores must be one row of at least one candidate, got shape \(0,\)"),
        ([[1, 2]], 1, 1, "scores must be one row"),
        ([1.0, 2.0], 1, 1, "scores must be signed integers, got float64"),
        ([True], 1, 1, "scores must be signed integers, got bool"),
        (np.array([1], dtype=np.uint64), 1, 1, "scores must be signed integers, got uint64"),
        ([1, 2], 0, 1, "epsilon must be positive, got 0"),
        ([1, 2], -1, 1, "epsilon must be positive, got -1"),
        ([1, 2], math.nan, 1, "epsilon must be finite, got nan"),
        ([1, 2], np.float64("inf"), 1, "epsilon must be finite, got inf"),
        ([1, 2], True, 1, "epsilon must be a number, got True"),
        ([1, 2], "1", 1, "epsilon must be a number, got '1'"),
        ([1, 2], 1, 0, "sensitivity must be an integer of at least 1, got 0"),
        ([1, 2], 1, 1.0, "sensitivity must be an integer of at least 1, got 1.0"),
        ([1, 2], 1, True, "sensitivity must be an integer of at least 1, got True"),
    ],
)
def test_bad_arguments_are_one_clear_error_and_nothing_is_drawn(mechanism, scores, epsilon, sensitivity, message):
    source = Script()
    with pytest.raises(InvalidInput, match=message):
        mechanism(scores, epsilon, sensitivity, source)
    assert source.taken == 0


def test_an_unknown_noise_and_too_wide_a_laplace_noise_are_refused():
    with pytest.raises(InvalidInput, match="noise must be 'laplace', 'exponential' or 'gumbel', got 'normal'"):
        report_noisy_max(SCORES, 1, 1, Script(), noise="normal")
    with pytest.raises(InvalidInput, match="too small for Laplace noise"):
        report_noisy_max(SCORES, Fraction(1, 2**60), 1, Script(), noise="laplace")
