"""Densities inside bins that follow measured means."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from qrelease.data import predicates
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.inference.tilted_bins import GroupMeans, TiltedBins

DELAY = Attribute(
    "delay",
    "number",
    edges=(0, 1, 10, 20, 50, 1000),
    integer=True,
    within=(Fraction(0), Fraction(999)),
    step=Fraction(1),
    missing=("?",),
)
CARRIER = Attribute("carrier", "category", categories=("A", "B", "C"))
DOMAIN = Domain([DELAY, CARRIER])
ALL = (0, 999)
N = 60_000


@pytest.fixture(scope="module")
def flights():
    """Delays with a long tail, each carrier's by itself, and their codes; some are missing."""
    rng = np.random.default_rng(1)
    carriers = rng.integers(0, 3, N)
    delays = np.minimum(np.floor(rng.lognormal(2.2, 1.2, N) * (1 + carriers) / 2), 999).astype(np.int64)
    bins = DELAY.bins_of(delays)
    bins[:500] = DELAY.values
    return delays, [bins, carriers]


def mean_of(delays, codes, clip=ALL, kept=None):
    """The exact means by carrier, as if they had been measured."""
    valued = codes[0] < DELAY.values
    if kept is not None:
        valued &= kept
    means = [np.clip(delays[valued & (codes[1] == k)], *clip).mean() for k in range(3)]
    return GroupMeans((1,), (3,), None, np.array(means), np.full(3, 0.05))


def fitted(codes, *tables, clip=ALL, domain=DOMAIN):
    return TiltedBins.fitted(domain, 0, clip, tables, codes, np.ones(len(codes[0])))


def test_records_have_the_means_that_were_measured_and_stay_in_their_bins(flights):
    delays, codes = flights
    means = mean_of(delays, codes)
    points = fitted(codes, means).points(codes, np.random.default_rng(2))
    valued = codes[0] < DELAY.values
    assert (DELAY.bins_of(points)[valued] == codes[0][valued]).all()
    for k, mean in enumerate(means.means):
        own = points[valued & (codes[1] == k)]
        assert abs(own.mean() - mean) < 4 * own.std() / np.sqrt(len(own))
        even = fitted(codes).points(codes, np.random.default_rng(2))[valued & (codes[1] == k)]
        assert even.mean() > 1.5 * mean  # the last bin ends at 999


def test_drawn_points_have_the_means_that_are_said(flights):
    _, codes = flights
    tilted = TiltedBins(DOMAIN, 0, ALL, (mean_of(*flights),), (np.array([-30.0, 0.0, 15.0]),))
    points, (said, variances) = tilted.points(codes, np.random.default_rng(3)), tilted.moments(codes)
    assert np.isnan(said[:500]).all()
    assert np.isnan(variances[:500]).all()
    for k in range(3):
        for cell in range(5):
            own = (codes[1] == k) & (codes[0] == cell)
            drawn = points[own]
            assert abs(drawn.mean() - said[own][0]) <= 4.5 * drawn.std() / np.sqrt(len(drawn)) + 1e-9
            assert said[own].min() == said[own].max()
            assert 0.9 * drawn.var() - 0.1 <= variances[own][0] <= 1.1 * drawn.var()


def test_the_density_is_exponential_inside_a_bin(flights):
    """The ratio of neighbouring points is e^(λ/999), but for the slices, inside which it is even."""
    codes = [np.full(400_000, 4), np.zeros(400_000, np.int64)]
    tilted = TiltedBins(DOMAIN, 0, ALL, (mean_of(*flights),), (np.array([-10.0, 0.0, 0.0]),))
    points = tilted.points(codes, np.random.default_rng(4))
    edges = np.array([50, 150, 300, 500, 750, 1000])
    exact = np.diff(np.exp(-10 * edges / 999))
    found = np.histogram(points, edges)[0] / len(points)
    assert np.allclose(found, exact / exact.sum(), atol=0.012)


def test_values_are_moved_towards_the_truth(flights):
    delays, codes = flights
    valued = codes[0] < DELAY.values
    rng = np.random.default_rng(5)
    tilted = fitted(codes, mean_of(delays, codes)).points(codes, rng)[valued]
    even = fitted(codes).points(codes, rng)[valued]
    far = [np.abs(np.sort(points) - np.sort(delays[valued])).mean() for points in (tilted, even)]
    assert far[0] < far[1] / 3


def test_a_mean_that_noise_drowns_moves_nothing(flights):
    delays, codes = flights
    noisy = replace(mean_of(delays, codes), deviations=np.full(3, 1e5))
    assert np.abs(fitted(codes, noisy).tilts[0]).max() < 0.01
    unknown = replace(noisy, means=np.full(3, np.nan))
    assert fitted(codes, unknown).tilts[0].tolist() == [0.0, 0.0, 0.0]


def test_a_mean_that_the_bins_rule_out_is_met_as_nearly_as_they_allow(flights):
    delays, codes = flights
    low = replace(mean_of(delays, codes), means=np.full(3, 0.5))
    points = fitted(codes, low).points(codes, np.random.default_rng(6))
    last = (codes[0] == 4) & (codes[1] == 1)
    assert np.quantile(points[last], 0.9) < 60
    assert points[codes[0] == 4].min() >= 50


def test_tables_of_larger_and_of_smaller_groups_hold_together(flights):
    delays, codes = flights
    valued = codes[0] < DELAY.values
    whole = GroupMeans((), (), None, np.array([delays[valued].mean()]), np.array([0.01]))
    one = replace(mean_of(delays, codes), means=np.array([mean_of(delays, codes).means[0], np.nan, np.nan]))
    said = fitted(codes, whole, one).moments(codes)[0]
    assert abs(said[valued].mean() - delays[valued].mean()) < 0.1
    first = valued & (codes[1] == 0)
    assert abs(said[first].mean() - delays[first].mean()) < 0.2


def test_means_of_clipped_values_hold_for_clipped_values(flights):
    delays, codes = flights
    clip = (5, 120)
    means = mean_of(delays, codes, clip)
    points = fitted(codes, means, clip=clip).points(codes, np.random.default_rng(7))
    valued = codes[0] < DELAY.values
    for k, mean in enumerate(means.means):
        own = np.clip(points[valued & (codes[1] == k)], *clip)
        assert abs(own.mean() - mean) < 4 * own.std() / np.sqrt(len(own))


def test_a_condition_moves_the_records_that_meet_it(flights):
    delays, codes = flights
    valued = codes[0] < DELAY.values
    meets = predicates.parse("carrier = 'B'", DOMAIN)
    table = GroupMeans((), (), meets, np.array([delays[valued & (codes[1] == 1)].mean()]), np.array([0.01]))
    tilted = fitted(codes, table)
    assert table.groups(codes).tolist() == np.where(codes[1] == 1, 0, -1).tolist()
    said, even = tilted.moments(codes)[0], fitted(codes).moments(codes)[0]
    assert np.allclose(said[valued & (codes[1] != 1)], even[valued & (codes[1] != 1)])
    own = valued & (codes[1] == 1)
    assert abs(said[own].mean() - delays[own].mean()) < 0.1 < even[own].mean() - delays[own].mean()


def test_no_record_is_where_a_shape_has_none(flights):
    _, codes = flights
    shaped = replace(DELAY, shape=((0, 10), (50, 5), (100, 0), (600, 5)))
    domain = Domain([shaped, CARRIER])
    tilted = TiltedBins(domain, 0, ALL, (mean_of(*flights),), (np.array([-3.0, 0.0, 3.0]),))
    points, said = tilted.points(codes, np.random.default_rng(8)), tilted.moments(codes)[0]
    last = codes[0] == 4
    assert not ((points[last] >= 100) & (points[last] < 600)).any()
    for k in range(3):
        own = points[last & (codes[1] == k)]
        assert abs(own.mean() - said[last & (codes[1] == k)][0]) < 4.5 * own.std() / np.sqrt(len(own))
    even = points[last & (codes[1] == 1)]
    assert abs((even < 100).mean() - 0.5) < 4 * 0.5 / np.sqrt(len(even))


def test_nobody_has_no_means(flights):
    nobody = [np.zeros(0, np.int64)] * 2
    tilted = fitted(nobody, mean_of(*flights))
    assert tilted.tilts[0].shape == (3,)
    assert tilted.points(nobody, np.random.default_rng(9)).shape == (0,)
