"""What measurements say of columns by themselves, where the noise is about as loud as the counts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.inference import single_columns
from qrelease.inference.residuals import Estimates, Residual

RECORDS = 1000.0


def measured(*columns, deviation, seed=0):
    """Estimates of columns with these shares (n,), measured with noise of this deviation, counts."""
    rng = np.random.default_rng(seed)
    residuals = {(): Residual((), np.array(RECORDS), 0.0)}
    for axis, shares in enumerate(columns):
        noise = deviation * rng.normal(size=len(shares))
        residuals[axis,] = Residual((axis,), RECORDS * (shares - 1 / len(shares)) + noise - noise.mean(), deviation**2)
    return Estimates(Domain.coded({f"c{axis}": len(shares) for axis, shares in enumerate(columns)}), residuals)


def skewed(cells):
    shares = np.exp(-np.arange(cells))
    return np.random.default_rng(1).permutation(shares / shares.sum())


def bell(cells):
    shares = np.exp(-0.5 * ((np.arange(cells) - cells / 3) / (cells / 8)) ** 2)
    return shares / shares.sum()


def l1(found, shares):
    return float(np.abs(found - shares).sum())


def clipped(estimates, axis=0):
    counts = np.maximum(estimates.residuals[axis,].values + RECORDS / len(estimates.residuals[axis,].values), 0)
    return counts / counts.sum()


def of_numbers(estimates):
    """The same, of bins of numbers."""
    attributes = tuple(Attribute(a.name, "number", edges=tuple(range(a.size + 1))) for a in estimates.domain)
    return replace(estimates, domain=Domain(attributes))


def test_hardly_a_record_is_put_into_far_bins_of_numbers():
    shares = np.append(np.full(8, 1 / 8), np.zeros(12))
    deviation = 0.1 * RECORDS / 20
    named, numbers = 0.0, 0.0
    for seed in range(20):
        estimates = measured(shares, deviation=deviation, seed=seed)
        (lifted,) = single_columns.singles(estimates)
        (found,) = single_columns.singles(of_numbers(estimates))
        assert found.min() > 0
        assert found.sum() == pytest.approx(1)
        named, numbers = named + lifted[8:].sum() / 20, numbers + found[8:].sum() / 20
    noise = 12 * deviation / RECORDS
    assert named > 0.9 * noise
    assert 0.09 * noise < numbers < 0.5 * noise  # half of them have noise above 0, whose mean is .8 of the deviation


@pytest.mark.parametrize("seed", range(5))
def test_quiet_bins_of_numbers_are_the_nearest_distribution(seed):
    shares = np.random.default_rng(seed).dirichlet(np.full(15, 0.5))
    estimates = measured(shares, deviation=0.2 * RECORDS / 15, seed=seed)
    y = estimates.residuals[0,].values / RECORDS + 1 / 15
    (found,) = single_columns.singles(of_numbers(estimates))
    least = minimize(
        lambda p: ((p - y) ** 2).sum(),
        np.full(15, 1 / 15),
        bounds=[(0, 1)] * 15,
        tol=1e-12,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
    ).x
    lifted = np.maximum(least, 0.1 * 0.2 / 15)
    assert np.allclose(found, lifted / lifted.sum(), atol=1e-5)


def test_bins_of_numbers_are_loud_from_more_noise_on():
    shares = np.append(np.full(9, 0.11), 0.01)
    for deviation, alike in ((0.3, False), (0.4, True)):
        estimates = measured(shares, deviation=deviation * RECORDS / 10)
        (one,), (other,) = single_columns.singles(estimates), single_columns.singles(of_numbers(estimates))
        assert np.array_equal(one, other) == alike


def test_the_posterior_is_that_of_an_integral_over_a_grid():
    # Two cells: θ₁ - θ₂ is normal of variance 2ω, and ω log-uniform.
    share, deviation = 0.8, 0.4
    (found,) = single_columns.singles(measured(np.array([share, 1 - share]), deviation=deviation * RECORDS))
    noise = np.random.default_rng(0).normal(size=2) * deviation
    seen = share - 0.5 + (noise[0] - noise[1]) / 2
    low, high = np.log(single_columns.VARIANCES)
    omega = np.exp(np.linspace(low, high, 801)[1::2])[:, None]  # the middles of 400 parts
    theta = np.linspace(-25, 25, 4001)
    prior = (np.exp(-(theta**2) / (4 * omega)) / np.sqrt(omega)).sum(axis=0)
    chance = 1 / (1 + np.exp(-theta))
    scale = RECORDS / 2 ** (159 / 16)  # the records are rounded to a sixteenth of an octave; two cells of this variance
    weights = prior * np.exp(-((seen * scale - (chance - 0.5)) ** 2) / (deviation * scale) ** 2)
    assert found[0] == pytest.approx((weights * chance).sum() / weights.sum(), abs=1e-5)
    assert found.sum() == pytest.approx(1)
    # The variance that a fit is told is the mean one of the cells, in counts.
    followed = single_columns.with_likely_columns(measured(np.array([share, 1 - share]), deviation=deviation * RECORDS))
    fitted = followed.residuals[0,]
    assert fitted.variance == pytest.approx(
        2 * RECORDS**2 * ((weights * chance**2).sum() / weights.sum() - found[0] ** 2), rel=1e-3
    )
    assert abs(found[0] - (0.5 + seen)) > 0.03  # the measurement itself is another


@pytest.mark.parametrize(("deviation", "least"), [(0.15, 0.01), (0.4, 0.06)])
def test_the_particles_of_three_cells_are_those_of_an_integral_over_a_grid(deviation, least):
    shares = np.array([0.7, 0.2, 0.1])
    estimates = measured(shares, deviation=deviation * RECORDS)
    (found,) = single_columns.singles(estimates)
    seen = estimates.residuals[0,].values / RECORDS + 1 / 3
    low, high = np.log(single_columns.VARIANCES)
    one, two = np.meshgrid(np.linspace(-30, 30, 241), np.linspace(-30, 30, 241))  # θ₁ - θ₃ and θ₂ - θ₃
    squares = (one**2 - one * two + two**2) / 1.5  # over ω, of the inverse of the covariance [[2, 1], [1, 2]]
    prior = sum(np.exp(-squares / (2 * omega)) / omega for omega in np.exp(np.linspace(low, high, 81)[1::2]))
    grown = np.stack([np.exp(one), np.exp(two), np.ones_like(one)])
    chances = grown / grown.sum(axis=0)
    off = ((seen[:, None, None] - chances) ** 2).sum(axis=0)
    weights = prior * np.exp(-off / (2 * deviation**2))
    assert found == pytest.approx((weights * chances).sum(axis=(1, 2)) / weights.sum(), abs=0.03)
    assert np.abs(found - seen).max() > least


@pytest.mark.parametrize(("shares", "deviation", "most"), [(skewed(12), 80.0, 0.9), (bell(40), 30.0, 0.75)])
def test_loud_columns_are_nearer_than_what_was_measured(shares, deviation, most):
    ratios = []
    for seed in range(6):
        estimates = measured(shares, deviation=deviation, seed=seed)
        ratios.append(l1(single_columns.singles(estimates)[0], shares) / l1(clipped(estimates), shares))
    assert np.mean(ratios) < most


def test_drowned_columns_are_not_what_the_noise_says():
    shares, off = skewed(60), []
    for seed in range(4):
        estimates = measured(shares, deviation=2 * RECORDS, seed=seed)
        off.append(l1(single_columns.singles(estimates)[0], np.full(60, 1 / 60)) / l1(clipped(estimates), shares))
    assert np.mean(off) < 0.4


def test_quiet_columns_are_as_they_were_measured():
    estimates = measured(skewed(6), bell(30), deviation=2.0)
    assert single_columns.with_likely_columns(estimates).residuals[1,] is estimates.residuals[1,]
    for axis, found in enumerate(single_columns.singles(estimates)):
        assert l1(found, clipped(estimates, axis)) < 0.05


def test_a_fit_follows_loud_columns_and_leaves_the_others():
    loud, quiet = measured(bell(40), skewed(4), deviation=60.0), measured(bell(40), skewed(4), deviation=1.0)
    found = single_columns.with_likely_columns(loud)
    for axis, p in enumerate(single_columns.singles(loud)):
        residual = found.residuals[axis,]
        changed = residual is not loud.residuals[axis,]
        assert changed == (axis == 0)  # 60 of 1 000 are more than a quarter of a cell's count where there are 40
        if changed:
            assert residual.values == pytest.approx(RECORDS * (p - 1 / len(p)))
            assert residual.variance < loud.residuals[axis,].variance
    assert found.residuals[()] is loud.residuals[()]
    same = single_columns.with_likely_columns(quiet).residuals
    assert all(same[s] is quiet.residuals[s] for s in quiet.residuals)


def test_the_variance_is_that_of_the_error():
    # The mean of (found - shares)² over columns drawn from the prior is the variance that is told.
    rng, told, squares = np.random.default_rng(3), [], []
    for seed in range(40):
        theta = np.sqrt(rng.choice([1.0, 4.0, 16.0])) * rng.normal(size=8)
        shares = np.exp(theta - theta.max()) / np.exp(theta - theta.max()).sum()
        estimates = measured(shares, deviation=0.1 * RECORDS, seed=seed)
        residual = single_columns.with_likely_columns(estimates).residuals[0,]
        told.append(residual.variance)
        squares.append(((residual.values - RECORDS * (shares - 1 / 8)) ** 2).sum() / 7)
    assert 0.7 < np.mean(squares) / np.mean(told) < 1.4
