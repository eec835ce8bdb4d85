"""Published mistakes are convicted, their twins acquitted at the same number of runs, and false alarms counted."""

import math
from fractions import Fraction
from functools import partial

import broken
import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import (
    Distribution,
    audit,
    audit_gaussian,
    audit_sensitivity,
    compare,
    gaussian_distribution,
    query_pairs,
    table_pairs,
    vectorised,
    worst_pair,
)
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_laplace
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP, gaussian_delta

ONE = PureDP(1.0)


def sampled(mechanism, first, second, claim, samples, seed=1):
    return audit(vectorised(mechanism), first, second, claim, samples=samples, entropy=Entropy.insecure(seed))


def laplace_count(answer, entropy, n, scale=1):
    return answer + discrete_laplace(Fraction(scale), n, entropy)


# --- the published mistakes --------------------------------------------------------------------------------------

OPEN = np.zeros(7), np.append(np.ones(6), 0.0)
CROSSED = np.zeros(8), np.repeat([-1.0, 1.0], 4)
SWAPPED = np.array([0.0, 1.0]), np.array([1.0, 0.0])
ONE_UP = np.zeros(20), np.append(1.0, -np.ones(19))

# name: the mistake, what is right, two neighbours, the claim, runs on each
CONVICTIONS = {
    "sparse vector that releases its comparison": (
        broken.sparse_vector_that_releases_its_comparison(2, 1),
        broken.right_sparse_vector(2, 1),
        OPEN,
        PureDP(2.0),
        100_000,
    ),
    "sparse vector without c": (
        broken.sparse_vector_without_c(1, 4),
        broken.right_sparse_vector(1, 4),
        CROSSED,
        ONE,
        100_000,
    ),
    "sparse vector without query noise": (
        broken.sparse_vector_without_query_noise(1),
        broken.right_sparse_vector(1, 2),
        SWAPPED,
        ONE,
        20_000,
    ),
    "sparse vector without a cut-off": (
        broken.sparse_vector_without_cut_off(1),
        broken.right_sparse_vector(1, 4),
        CROSSED,
        ONE,
        100_000,
    ),
    "noisy max with half the noise": (
        partial(broken.noisy_max, scale=1.0),
        partial(broken.noisy_max, scale=2.0),
        ONE_UP,
        ONE,
        40_000,
    ),
    "propose-test-release of the notes": (
        broken.propose_test_release_of_the_notes(0.5, 1e-5),
        broken.right_propose_test_release(0.5, 1e-5),
        ((0.0, 0), (1000.0, 1)),
        ApproxDP(1.0, 1e-5),
        200_000,
    ),
    "Gaussian noise of a truncated mean": (
        partial(broken.gaussian, sigma=broken.truncated_mean_sigma(4, 1e-3)),
        partial(broken.gaussian, sigma=broken.right_sigma(4, 1e-3)),
        (0.0, 1.0),
        ApproxDP(4.0, 1e-3),
        700_000,
    ),
    # Its δ is 0.48. Smaller claims take more runs, as 5.3 e^8/n must stay below δ.
    "the classic Gaussian beyond its range": (
        partial(broken.gaussian, sigma=broken.classic_sigma(8, 0.2)),
        partial(broken.gaussian, sigma=broken.right_sigma(8, 0.2)),
        (0.0, 1.0),
        ApproxDP(8.0, 0.2),
        600_000,
    ),
    "Laplace noise in floating point": (
        partial(broken.float_laplace, scale=1.0),
        partial(broken.grid_laplace, scale=1.0),
        (0.0, 1.0),
        ONE,
        20_000,
    ),
    "a sum in floating point": (
        partial(broken.float_sum, epsilon=1.0),
        partial(broken.grid_sum, epsilon=1.0),
        broken.one_record_apart(),
        ONE,
        20_000,
    ),
}


@pytest.mark.parametrize("name", CONVICTIONS)
def test_a_published_mistake_is_convicted_and_its_twin_acquitted(name):
    wrong, right, pair, claim, samples = CONVICTIONS[name]
    conviction = sampled(wrong, *pair, claim, samples)
    assert conviction.convicted, conviction
    assert conviction.confidence == 0.99
    assert not sampled(right, *pair, claim, samples).convicted


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVICTIONS)
def test_convictions_do_not_hang_on_a_seed(name):
    wrong, right, pair, claim, samples = CONVICTIONS[name]
    for seed in range(10, 17):
        assert sampled(wrong, *pair, claim, samples, seed).convicted
        assert not sampled(right, *pair, claim, samples, seed).convicted


def coin(chance):
    return Distribution({1: chance, 0: 1 - chance})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_local_rules_are_judged_exactly(epsilon):
    def found(rule):
        return compare(coin(rule(0.0, epsilon)), coin(rule(1.0, epsilon)), PureDP(epsilon))

    right = found(broken.right_local_rule)
    assert not right.convicted
    assert right.epsilon == pytest.approx(epsilon)
    assert found(broken.local_rule_over_too_small_a_number).epsilon == math.inf
    assert found(broken.optimised_interval).epsilon == math.inf
    for delta1 in (0.01, 0.5):
        leak = found(partial(broken.optimised_interval, delta1=delta1))
        assert leak.convicted
        assert leak.event == "the output 0"
    assert not found(partial(broken.optimised_interval, delta1=0.0)).convicted


@pytest.mark.parametrize(
    ("sigma", "epsilon", "delta", "truth"),
    [
        (broken.classic_sigma, 12.0, 1e-5, 5.9e-5),
        (broken.truncated_mean_sigma, 1.0, 1e-5, 4.3e-5),
        (broken.truncated_mean_sigma, 1.0, 1e-6, 10.6e-6),
        (broken.truncated_mean_sigma, 1.0, 1e-9, 193e-9),
    ],
)
def test_gaussian_noise_is_judged_by_its_formula(sigma, epsilon, delta, truth):
    claim, noise = ApproxDP(epsilon, delta), sigma(epsilon, delta)
    wrong = audit_gaussian(1.0, noise, claim)
    assert wrong.convicted
    assert wrong.delta < gaussian_delta(1.0, noise, epsilon) == pytest.approx(truth, rel=0.1)
    assert not audit_gaussian(1.0, broken.right_sigma(epsilon, delta), claim).convicted
    # The same for the noise on a grid, by its law.
    steps = 64
    law = gaussian_distribution((noise * steps) ** 2, missing=1e-30)
    assert compare(law, law.map(lambda y: y + steps), claim).convicted


def test_the_sum_in_floating_point_moves_further_than_declared():
    def moved(rule, pair):
        return audit_sensitivity(lambda v, e: rule(v, e, 1, epsilon=1.0), [pair], 1.0)

    found = moved(broken.float_sum, broken.one_record_apart())
    assert found.convicted
    assert str(found).startswith("CONVICTED of declaring L1 sensitivity 1: under the same noise the output moved by 64")
    assert moved(broken.float_sum, broken.one_record_and_the_order_apart()).found > 500
    for pair in (broken.one_record_apart(), broken.one_record_and_the_order_apart()):
        right = moved(broken.grid_sum, pair)
        assert not right.convicted
        assert right.found == 1.0


# --- searching ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right", "k", "samples"),
    [
        (broken.sparse_vector_without_c(1, 4), broken.right_sparse_vector(1, 4), 8, 100_000),
        (broken.sparse_vector_without_query_noise(1), broken.right_sparse_vector(1, 2), 4, 20_000),
        (partial(broken.noisy_max, scale=1.0), partial(broken.noisy_max, scale=2.0), 12, 40_000),
    ],
)
def test_bad_inputs_are_found(wrong, right, k, samples):
    pair = worst_pair(vectorised(wrong), query_pairs(k), ONE, samples=5_000, entropy=Entropy.insecure(2))
    assert sampled(wrong, *pair, ONE, samples).convicted
    pair = worst_pair(vectorised(right), query_pairs(k), ONE, samples=5_000, entropy=Entropy.insecure(2))
    assert not sampled(right, *pair, ONE, samples).convicted


def test_pairs_of_queries_move_by_at_most_one_and_monotone_ones_all_the_same_way():
    for k in (2, 5):
        moves = [second - first for first, second in query_pairs(k)]
        assert all(np.abs(move).max() == 1 for move in moves)
        assert any(move.min() < 0 < move.max() for move in moves)
        assert all(move.min() >= 0 or move.max() <= 0 for a, b in query_pairs(k, monotone=True) for move in [b - a])
    with pytest.raises(InvalidInput, match="k must be an integer of at least 2"):
        next(query_pairs(1))


@pytest.mark.parametrize(
    ("neighbours", "pairs", "changed"), [(Neighbours.ADD_REMOVE, 8, 1), (Neighbours.REPLACE_ONE, 10, 2)]
)
def test_pairs_of_tables_differ_in_one_record(neighbours, pairs, changed):
    table = Table(Domain.coded({"a": 2, "b": 3}), (np.array([0, 1, 1]), np.array([2, 0, 0])))
    found = list(table_pairs(table, neighbours))
    assert len(found) == pairs
    for one, two in found:
        assert one is table
        assert np.abs(one.histogram() - two.histogram()).sum() == changed


def test_a_search_needs_pairs():
    with pytest.raises(InvalidInput, match="at least one pair of neighbours is needed, got none"):
        worst_pair(vectorised(laplace_count), [], ONE)
    with pytest.raises(InvalidInput, match="at least one pair of neighbours is needed, got none"):
        audit_sensitivity(lambda data, entropy: data, [], 1.0)


# --- what correct mechanisms are told ----------------------------------------------------------------------------


def correct_audit(seed, samples):
    """One audit of a mechanism that spends its whole ε on the pair, the hardest to acquit; they take turns."""
    turn = seed % 4
    if turn == 0:
        return sampled(laplace_count, 0, 1, ONE, samples, seed)
    if turn == 1:
        return sampled(partial(broken.grid_laplace, scale=1.0), 0.0, 1.0, ONE, samples, seed)
    if turn == 2:
        local = broken.right_local_rule
        return sampled(lambda x, e, n: laplace_bits(local(x, 1.0), e, n), 0.0, 1.0, ONE, samples, seed)
    vector = lambda x, e, n: x + discrete_laplace(Fraction(6), 6 * n, e).reshape(n, 6)  # noqa: E731
    return sampled(vector, np.zeros(6, int), np.ones(6, int), ONE, samples, seed)


def laplace_bits(chance, entropy, n):
    return (entropy.words(n) < np.uint64(int(chance * 2**64))).astype(np.int64)


def test_there_are_no_false_alarms():
    found = [correct_audit(seed, 20_000) for seed in range(40)]
    assert sum(a.convicted for a in found) <= 1
    # The bounds are near the truth too: audits have power.
    assert np.median([a.epsilon for a in found]) > 0.85


@pytest.mark.slow
def test_false_alarms_over_two_hundred_audits_are_at_most_four():
    assert sum(correct_audit(seed, 20_000).convicted for seed in range(1000, 1200)) <= 4


@pytest.mark.parametrize("missing", [0.7, 1 / 1.3])
def test_noise_thirty_per_cent_too_small_is_convicted(missing):
    assert sampled(partial(laplace_count, scale=Fraction(missing)), 0, 1, ONE, 40_000).convicted


def test_zcdp_is_judged_from_samples_and_exactly():
    def gaussian(x, e, n):
        return broken.gaussian(x, e, n, sigma=2.0)

    assert not sampled(gaussian, 0.0, 1.0, ZCDP(1 / 8), 100_000).convicted
    assert sampled(gaussian, 0.0, 1.0, ZCDP(1 / 8 / 2.5), 100_000).convicted
    law = gaussian_distribution(4, missing=1e-250)
    exact = compare(law, law.map(lambda y: y + 1), ZCDP(1 / 8))
    assert not exact.convicted
    assert exact.rho == pytest.approx(1 / 8, rel=0.02)
    assert compare(law, law.map(lambda y: y + 1), ZCDP(0.95 / 8)).convicted
