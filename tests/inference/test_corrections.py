"""Where a model misses its measurements the answers follow these, consistently; else they stay as they are."""

from itertools import combinations

import numpy as np
import pytest
from worlds import coded, private, random_table, true_answers

from qrelease.inference.residuals import ResidualPlan
from qrelease.inference.sampling import systematic
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP
from qrelease.queries.workload import Workload

TABLE = random_table(coded(5, 4, 6), 20_000, 3)
PAIRS = [*combinations(range(3), 2)]


def synopsis(codes, rho):
    plan = ResidualPlan.choose(TABLE.domain, PAIRS)
    measured = private(TABLE, ZCDP(rho), entropy=Entropy.insecure(0)).measure(plan.workload, ZCDP(rho))
    count = codes.shape[1]
    return WeightedCodes(TABLE.domain, codes, np.full(count, 1 / count), 20_000.0, tuple(measured))


def test_records_that_miss_what_was_measured_are_corrected_to_it():
    few = synopsis(np.stack(TABLE.columns).astype(np.uint16)[:, :200], 1.0)
    workload = Workload.marginals(TABLE.domain, 2)
    true = true_answers(workload, TABLE)
    noisy = np.abs(few.error_bars(workload)[0] - true).mean()
    records = WeightedCodes(few.domain, few.codes, few.weights, few.total)  # what they say by themselves
    said = np.abs(records.answer(workload) - true).mean()
    assert said > 10 * noisy
    assert np.abs(few.answer(workload) - true).mean() < 1.1 * noisy
    assert few.misfit > 10
    # A marginal of a marginal is the same from either.
    pair, single = (few.answer(Workload.marginals(TABLE.domain, k)) for k in (2, 1))
    assert pair[:20].reshape(5, 4).sum(axis=1) == pytest.approx(single[:5])


def test_records_that_are_as_near_as_noise_stay_as_they_are():
    whole = synopsis(np.stack(TABLE.columns).astype(np.uint16), 0.01)
    assert not whole.corrections.tables
    assert whole.misfit == pytest.approx(1, abs=0.3)


def test_nothing_is_corrected_without_measurements():
    codes = np.stack(TABLE.columns).astype(np.uint16)
    bare = WeightedCodes(TABLE.domain, codes, np.full(20_000, 1 / 20_000), 20_000.0)
    assert not bare.corrections.tables
    assert bare.misfit == 0


def test_rows_have_nearer_marginals_than_systematic_ones():
    rng = np.random.default_rng(0)
    codes = np.stack(TABLE.columns).astype(np.uint16)[:, :5_000]
    weights = rng.dirichlet(np.ones(5_000))
    made = WeightedCodes(TABLE.domain, codes, weights, 1.0)
    workload = Workload.marginals(TABLE.domain, 2)
    expected = made.answer(workload)

    def off(rows):
        found = WeightedCodes(TABLE.domain, rows.astype(np.uint16), np.full(500, 1 / 500), 1.0)
        return np.abs(found.answer(workload) - expected).sum()

    assert off(np.stack(made.sample(500, rng))) < 0.6 * off(codes[:, systematic(weights, 500, rng)])
