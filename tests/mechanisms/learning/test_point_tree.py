"""The tree of noisy counts: ε-DP by exact enumeration, one part of a level a record, and near the truth."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

from qrelease.evaluation.audit.enumeration import compare, enumerated, laplace_distribution
from qrelease.mechanisms.learning.bins import cuts_of
from qrelease.mechanisms.learning.point_tree import branches, changed, counted, levels, measured_leaves, merged
from qrelease.mechanisms.learning.round_points import RoundPoints
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_gaussian, discrete_laplace
from qrelease.privacy import PureDP

DECIMAL = (1, 5, 10, 50, 100)


def tree(points, counts, size, scale, parts=4, draw=None, seed=1, periods=DECIMAL):
    entropy, rounds = Entropy.insecure(seed), RoundPoints(0, size, tuple(p for p in periods if p < size))
    draw = draw or (lambda times, count: discrete_laplace(times * Fraction(scale), count, entropy))
    return measured_leaves(np.array(points), np.array(counts), Fraction(scale), parts, draw, rounds, laplace=True)


def pieces_of(counts, scale):
    noise = laplace_distribution(scale, missing=1e-9)

    def run(counts, choices):
        def draw(_, count):
            return np.array([choices.draw(noise) for _ in range(count)])

        found = measured_leaves(np.arange(3), np.array(counts), scale, 4, draw, RoundPoints(-1, 3), laplace=True)
        return tuple(np.round(found.masses, 6).tolist())

    return enumerated(run, counts, least=1e-12)


@pytest.mark.parametrize("counts", [(0, 0, 0), (1, 0, 2)])
def test_neighbours_are_as_near_as_is_claimed(counts):
    epsilon, more = 3.0, (counts[0] + 1, *counts[1:])
    for scale, convicted in ((Fraction(1, 3), False), (Fraction(1, 4), True)):
        found = compare(pieces_of(counts, scale), pieces_of(more, scale), PureDP(epsilon))
        assert found.convicted is convicted


def counts_of(counts, scale, point):
    """The noisy counts that a record at a point is in, as they are published; the others' noise is independent."""
    rounds = RoundPoints(0, 20, (1, 5, 10))
    laws = {times: laplace_distribution(times * scale, missing=1e-5) for times in (1, 2)}
    spans = {20: point // 5, 5: point % 5}  # branches of five: the part that it is in, of the two levels

    def run(counts, choices):
        sizes = iter((4, 5))

        def draw(times, count):
            noise = np.zeros(count, np.int64)
            if times == 1:
                assert count == next(sizes)
                noise[spans[20 if count == 4 else 5]] = choices.draw(laws[1])
            else:
                noise[rounds.classes(np.array([point]))] = choices.draw(laws[2])
            return noise

        root, classes = counted(np.arange(20), np.array(counts), scale, 4, draw, rounds)
        below = [part.noisy for child in root.children for part in child.children]
        return (*(part.noisy for part in root.children), *below, *classes.tolist())

    return enumerated(run, counts, least=1e-7)


@pytest.mark.parametrize("point", [0, 10])
def test_neighbours_are_as_near_with_classes_of_round_points(point):
    """A record is in a part of each of two levels, and in one class, with twice the noise: 2.5 in units of 1/scale.

    Without the class in that sum the scale is smaller, and is convicted.
    """
    epsilon, counts = 4.0, np.where(np.arange(20) // 5 == point // 5, 40, 0)
    more = counts + (np.arange(20) == point)
    assert changed(RoundPoints(0, 20, (1, 5, 10)), squares=False) == Fraction(5, 2)
    for moved, convicted in ((Fraction(5, 2), False), (Fraction(2), True)):
        scale = moved / Fraction(epsilon)
        found = compare(counts_of(tuple(counts), scale, point), counts_of(tuple(more), scale, point), PureDP(epsilon))
        assert found.convicted is convicted


@pytest.mark.parametrize(("size", "squared"), [(16, 1), (17, 2.25), (4096, 3.25)])
def test_squares_that_a_record_moves_are_those_of_its_counts_over_their_variances(size, squared):
    drawn, rounds = [], RoundPoints(0, size, tuple(p for p in DECIMAL if p < size))

    def draw(times, count):
        drawn.append(times)
        return np.zeros(count, np.int64)

    at, many = np.array([3]), np.array([10**6])
    before, after = (counted(at, many + more, Fraction(1), 4, draw, rounds) for more in (0, 1))
    moved = [abs(a.noisy - b.noisy) for a, b in zip(every(before[0]), every(after[0]), strict=True)]
    if size > 16:
        moved += (np.abs(before[1] - after[1]) / 2).tolist()
        assert drawn[len(drawn) // 2 - 1] == 2
    assert sum(np.square(moved)) == changed(rounds, squares=True) == squared


def every(part):
    return [below for child in part.children for below in (child, *every(child))]


def test_heaps_that_no_count_shows_are_found_together():
    """Of incomes in cents most are at tens, of which none has twice the noise."""
    rng = np.random.default_rng(1)
    values = np.minimum(rng.gamma(4, 100, 20_000), 3999).astype(int)
    values = np.where(rng.random(20_000) < 0.9, 10 * (values // 10), values)
    seen = np.unique(values, return_counts=True)
    heaped, even = (
        np.mean([off_at_ends(tree(*seen, 4001, 220, parts=32, seed=s, periods=p), values) for s in range(5)])
        for p in (DECIMAL, (1,))
    )
    assert heaped < 0.5 * even


def off_at_ends(pieces, values):
    """By how large a part of the records the number up to one of them is off, on average: evenly within pieces."""
    true = np.bincount(values, minlength=int(pieces.stops[-1]))
    lengths = pieces.stops - pieces.starts
    parts = np.add.reduceat(true, pieces.starts)  # as if each piece were a bin
    shape = np.repeat(parts / lengths, lengths)
    return np.abs(np.cumsum(shape - true)[values]).mean() / len(values)


def off_by_classes(wrong):
    """Of 40 runs over even records: in how many the noise of classes, so many times what is said, moves a tenth."""
    moved = 0
    for seed in range(40):
        found = []
        for times_more in (0, wrong):
            entropy = Entropy.insecure(seed)

            def draw(times, count, entropy=entropy, times_more=times_more):
                noise = discrete_laplace(times * Fraction(30), count, entropy)
                return noise if times == 1 else times_more * noise

            pieces = tree(range(400), [6] * 400, 400, 30, parts=4, draw=draw)
            lengths = pieces.stops - pieces.starts
            found.append(np.repeat(pieces.masses / lengths, lengths))
        moved += np.abs(found[1] - found[0]).sum() > 0.1 * 400 * 6
    return moved


def test_classes_that_the_noise_does_not_tell_apart_have_one_weight():
    assert off_by_classes(1) <= 8
    assert off_by_classes(2) > 12


@pytest.mark.parametrize("size", [5, 8, 9, 64, 100, 1501, 2**40])
def test_a_record_is_in_one_part_of_each_level(monkeypatch, size):
    """Each level looks at parts that do not overlap, and there are at most L of them: so scale L/ε costs ε."""
    looks = []
    search = np.searchsorted

    def looked(points, bounds, *rest, **more):
        if np.ndim(bounds) == 2:
            looks.append(np.array(bounds))
        return search(points, bounds, *rest, **more)

    monkeypatch.setattr(np, "searchsorted", looked)
    pieces = tree([0, size // 3, size - 1], [500, 3000, 200], size, 2)
    assert 0 < len(looks) <= levels(size)
    for bounds in looks:
        ordered = bounds[np.argsort(bounds[:, 0])]
        assert (ordered[:, 0] < ordered[:, 1]).all()
        assert (ordered[1:, 0] >= ordered[:-1, 1]).all()
    assert pieces.starts[0] == 0
    assert pieces.stops[-1] == size
    assert (pieces.starts[1:] == pieces.stops[:-1]).all()


def test_heaps_are_found_and_records_are_where_they_are():
    rng = np.random.default_rng(1)
    values = np.concatenate([np.full(4000, 40), np.full(3000, 0), rng.integers(0, 100, 3000)])
    points, counts = np.unique(values, return_counts=True)
    pieces = tree(points, counts, 1000, 20)
    assert (pieces.masses >= 0).all()
    assert abs(pieces.masses.sum() - 10_000) < 500
    heaps = {int(s): m for s, e, m in zip(pieces.starts, pieces.stops, pieces.masses, strict=True) if e - s == 1}
    assert abs(heaps[40] - 4030) < 150
    assert abs(heaps[0] - 3030) < 150
    assert pieces.masses[pieces.starts >= 128].sum() < 300


def off_within_bins(pieces, values, most=32):
    """The mean distance that records must go from where the bins and the pieces put them, in points."""
    true = np.bincount(values, minlength=int(pieces.stops[-1]))
    cuts = np.array(cuts_of(pieces, most, RoundPoints(-1, int(pieces.stops[-1]))))
    lengths = pieces.stops - pieces.starts
    dense = np.repeat(pieces.masses / lengths, lengths) + 1e-9
    bins = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    put = dense * (np.add.reduceat(true, cuts[:-1]) / np.add.reduceat(dense, cuts[:-1]))[bins]
    return np.abs(np.cumsum(put - true)).sum() / len(values)


def test_where_noise_is_small_the_pieces_are_finer_than_the_bins():
    """Times of day as hours and minutes, to five minutes: within a bin records lie where the pieces say."""
    rng = np.random.default_rng(1)
    values = 100 * rng.integers(5, 24, 100_000) + 5 * rng.integers(0, 12, 100_000)
    seen = np.unique(values, return_counts=True)
    assert off_within_bins(tree(*seen, 2400, 10, parts=32), values) < 0.5
    assert off_within_bins(tree(*seen, 2400, 10, parts=8), values) > 2  # as if a bin were worth two pieces


def test_nobody_is_no_trouble():
    pieces = tree([], [], 10**6, 5)
    assert (pieces.masses >= 0).all()
    assert pieces.stops[-1] == 10**6


def cost_of(densities, runs, counts, lengths, variances):
    """What `merged` minimises, for these runs: each costs ln k, and as much again where its density is not 0."""
    price = np.log(len(counts))
    squares = ((counts - densities * lengths) ** 2 / variances).sum()
    return squares + price * sum(1 + (densities[start] != 0) for start, _ in runs)


def test_merging_is_the_best_of_all_ways_to_merge():
    rng = np.random.default_rng(1)
    for _ in range(40):
        k = int(rng.integers(2, 7))
        lengths, variances = rng.integers(1, 9, k), rng.uniform(1, 50, k)
        counts = rng.choice([0, 0, 20, 60], k) + rng.normal(size=k) * np.sqrt(variances)
        best = np.inf
        for cuts in (c for r in range(k) for c in combinations(range(1, k), r)):
            runs = list(pairwise([0, *cuts, k]))
            densities = np.zeros(k)
            for start, stop in runs:
                w, y, v = lengths[start:stop], counts[start:stop], variances[start:stop]
                fitted = max((w * y / v).sum() / (w**2 / v).sum(), 0)
                costs = [((y - level * w) ** 2 / v).sum() + np.log(k) * (level != 0) for level in (0, fitted)]
                densities[start:stop] = (0, fitted)[int(np.argmin(costs))]
            best = min(best, cost_of(densities, runs, counts, lengths, variances))
        found = merged(counts, lengths, variances)
        ends = [0, *(np.flatnonzero(np.diff(found)) + 1).tolist(), k]
        assert cost_of(found, list(pairwise(ends)), counts, lengths, variances) == pytest.approx(best)


def merged_like_and_heaped(wrong):
    """Of 300 draws of noise that is so many times what is said: how often all is one run, and a heap is found."""
    rng, alike, heaps = np.random.default_rng(1), 0, 0
    for _ in range(300):
        noise = wrong * rng.laplace(scale=10, size=16)
        alike += len(set(merged(100 + noise, np.full(16, 5), np.full(16, 200.0)))) == 1
        heap = merged(np.where(np.arange(16) == 5, 150, 0) + noise, np.full(16, 5), np.full(16, 200.0))
        heaps += heap[5] > 20 and (heap[[4, 6]] < 10).all()
    return alike, heaps


def test_noise_alone_is_no_difference_and_a_heap_is_one():
    alike, heaps = merged_like_and_heaped(1.0)
    assert alike > 210
    assert heaps > 270
    assert merged_like_and_heaped(1.3)[0] < 170  # so noise that is wrong by 30 % shows


def test_flat_records_under_much_noise_make_even_pieces():
    """Where noise tells parts apart by chance, none may get all of the records."""
    largest = []
    for seed in range(20):
        pieces = tree(range(256), [40] * 256, 256, 600, parts=32, seed=seed)
        largest.append((pieces.masses / (pieces.stops - pieces.starts)).max() / 40)
    assert np.median(largest) < 2


@pytest.mark.parametrize("law", ["Laplace", "Gaussian"])
@pytest.mark.parametrize("size", [16, 4096, 2**20])
def test_noise_alone_cuts_hardly_any_part(law, size):
    """Where nobody is, of all parts of the first level: a tenth of one. A threshold of two thirds would cut .4."""
    scale, runs, cut = Fraction(40), 300, 0
    for seed in range(runs):
        entropy, drawn = Entropy.insecure(seed), []

        def draw(times, count, entropy=entropy, drawn=drawn):
            drawn += [count] if times == 1 else []
            if law == "Laplace":
                return discrete_laplace(times * scale, count, entropy)
            return discrete_gaussian(2 * (times * scale) ** 2, count, entropy)

        tree([], [], size, scale, parts=10**6, draw=draw)
        cut += drawn[1] / branches(size) if len(drawn) > 1 else 0
    most = {16: 0.0, 4096: 0.15, 2**20: 0.15}[size]
    assert cut / runs <= most
    assert (cut > 0) == (most > 0)


def test_noise_of_parts_of_one_density_adds_up_in_squares():
    """How many records an empty stretch may have: with all its parts' noise added, bins went to where nobody is."""
    found = []
    for seed in range(20):
        pieces = tree(range(256), [40] * 256, 4096, 60, parts=32, seed=seed)
        found.append(np.broadcast_to(pieces.errors, pieces.starts.shape)[pieces.starts >= 256].sum())
    noise = 60 * 2**0.5  # of each of the 15 parts
    assert np.median(found) == pytest.approx(15**0.5 * noise, rel=0.1)


@pytest.mark.parametrize("laplace", [True, False])
def test_an_even_column_gets_no_heaps(laplace: bool):
    """Noise stands out somewhere of hundreds of counts; what a part was given there, its neighbours lost."""
    size, records, scale, densest = 100_000, 100_000, Fraction(60), []
    points, counts = np.unique(np.random.default_rng(1).integers(0, size, records), return_counts=True)
    for seed in range(12):
        entropy = Entropy.insecure(seed)

        def draw(times, count, entropy=entropy):
            if laplace:
                return discrete_laplace(times * scale, count, entropy)
            return discrete_gaussian(2 * (times * scale) ** 2, count, entropy)

        found = measured_leaves(points, counts, scale, 32, draw, RoundPoints(0, size, DECIMAL), laplace=laplace)
        densest.append((found.masses / (found.stops - found.starts)).max())
    assert np.median(densest) < 3  # and 8 and 4 where the price does not grow with all counts of the tree
