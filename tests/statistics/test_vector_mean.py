"""Means of vectors: what a record moves, what is promised, and the printed noise, which is too little."""

import math

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.conversions import gaussian_delta
from qrelease.statistics.vector_mean import TruncatedMean, VectorMean, shortened
from tests.statistics.doors import door
from tests.statistics.wide import COLUMNS, D, table, vectors


def test_vectors_are_cut_to_the_ball_in_whole_numbers():
    rng = np.random.default_rng(0)
    for radius in (1, 7, 12345, 1 << 20):
        found = shortened(rng.integers(-(1 << 21), 1 << 21, (500, 9)), radius)
        lengths = (found.astype(object) ** 2).sum(axis=1)
        assert max(lengths) <= radius**2
        if radius > 1000:
            assert min(lengths) > (radius - 9) ** 2


def test_the_printed_noise_of_the_truncated_mean_is_convicted():
    """Broken twin: variance 4R²d ln(1/δ)/(nε)², of a mean that moves by 2R√d/n."""
    for epsilon, delta, times in ((1.0, 1e-6, 10), (0.9, 1e-9, 150)):
        printed = math.sqrt(math.log(1 / delta)) / epsilon  # in units of the sensitivity
        assert gaussian_delta(1.0, printed, epsilon) > times * delta
        ours = analytic_gaussian_sigma(1.0, epsilon, delta)
        assert gaussian_delta(1.0, ours, epsilon) <= delta * (1 + 1e-9)


def test_the_noise_of_the_truncated_mean_is_the_analytic_gaussian():
    _, asked = vectors(TruncatedMean(COLUMNS), table(30)[0], ApproxDP(1.0, 1e-6), Neighbours.ADD_REMOVE)
    reach = 199 * math.sqrt(D)
    weight = round(reach / D**0.75)
    sigma = analytic_gaussian_sigma(1.0, 1.0, 1e-6) * math.hypot(reach, weight)
    assert asked == [("rounded Gaussian", pytest.approx(sigma**2), D + 1)]


@pytest.mark.parametrize("statistic", [TruncatedMean(COLUMNS), VectorMean(COLUMNS)])
def test_intervals_hold_and_promises_are_kept(statistic):
    records, truth = table(4000)
    inside, errors = 0, []
    for seed in range(30):
        found = statistic.estimate(door(records, ZCDP(0.1), noise=seed), ZCDP(0.1))
        value = np.array(found.value)
        errors.append(np.abs(value - truth).max())
        inside += all(low - 0.5 <= t <= high + 0.5 for t, (low, high) in zip(truth, found.interval, strict=True))
    bound = statistic.error_bound(records.domain, 4000, ZCDP(0.1), Neighbours.ADD_REMOVE, beta=0.05)
    assert max(errors) <= bound
    assert inside >= 27
    assert found.typical == pytest.approx(np.sqrt(np.mean(np.square(errors))) / 2, rel=0.6)


def test_the_ball_follows_the_spread_of_the_data():
    records, truth = table(4000)

    def error(statistic):
        runs = [statistic.estimate(door(records, ZCDP(0.1), noise=s), ZCDP(0.1)).value for s in range(10)]
        return math.sqrt(np.mean((np.array(runs) - truth) ** 2))

    assert error(VectorMean(COLUMNS)) < 0.4 * error(TruncatedMean(COLUMNS))


def test_the_error_falls_with_the_number_and_grows_with_the_dimension():
    domain = table(1)[0].domain

    def bound(d, n):
        return TruncatedMean(COLUMNS[:d]).error_bound(domain, n, ZCDP(0.1), Neighbours.REPLACE_ONE, beta=0.05)

    assert bound(12, 8000) == pytest.approx(bound(12, 4000) / 2, rel=0.05)
    assert 1.2 < bound(12, 4000) / bound(3, 4000) < 3  # √d, less what the count costs, more the largest of d


def test_pure_epsilon_buys_no_ball():
    with pytest.raises(InvalidInput, match="rho"):
        VectorMean(COLUMNS).check(table(1)[0].domain, PureDP(1.0), Neighbours.ADD_REMOVE)


def test_wide_columns_are_refused_and_long_vectors_are_measured_exactly():
    """A squared length that wraps around would have next to no noise."""
    wide = Domain.coded({"a": (1 << 20) + 1})
    with pytest.raises(InvalidInput, match="more than 1,048,576 values"):
        TruncatedMean(("a",)).check(wide, ZCDP(0.5), Neighbours.ADD_REMOVE)
    names = tuple(f"a{i}" for i in range(40))
    widest = Domain.coded(dict.fromkeys(names, 1 << 20))
    reach = np.full(40, (1 << 20) - 1, np.int64)
    plan = TruncatedMean(names)._plan(reach, ZCDP(0.5), Neighbours.ADD_REMOVE)
    assert plan.length == 40 * ((1 << 20) - 1) ** 2
    TruncatedMean(names).check(widest, ZCDP(0.5), Neighbours.ADD_REMOVE)
