"""The maximum-entropy fit: its coordinates, what it converges to, how accurate it is, and what its error bars cover."""

import math
from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import BOTH, PROPERTY, coded, private, table_of

import qrelease as qr
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, OutOfMemory
from qrelease.inference import maxent
from qrelease.inference.interaction_basis import Interactions
from qrelease.inference.maxent import fit
from qrelease.inference.residual_synopses import Linear, Modelled
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.noise.calibration import calibrated
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release import writer
from qrelease.release.curator import Curator

ADD, SWAP = BOTH


def log_linear(shape, records, seed, strength=1.0):
    """A table drawn from a log-linear model with interactions of one and two columns."""
    rng = np.random.default_rng(seed)
    logs = np.zeros(shape)
    for k in (1, 2):
        for s in combinations(range(len(shape)), k):
            logs = logs + strength * rng.normal(size=[n if a in s else 1 for a, n in enumerate(shape)]) / k
    p = np.exp(logs).reshape(-1)
    cells = rng.choice(p.size, records, p=p / p.sum())
    return Table(coded(*shape), [c.astype(np.uint8) for c in np.unravel_index(cells, shape)])


def estimated(table, order, cost, seed, neighbours=ADD):
    sets = list(combinations(range(len(table.domain)), order))
    plan = ResidualPlan.choose(table.domain, sets, neighbours=neighbours)
    door = private(table, cost, neighbours, Entropy.insecure(seed))
    return Estimates.of(table.domain, door.measure(plan.workload, cost), len(table) if neighbours is SWAP else None)


def truth(table, order):
    asked = Workload.marginals(table.domain, order)
    return asked, np.concatenate([c.reshape(-1) for c in table.counts(asked.sets)]).astype(float)


# --- coordinates


@st.composite
def bases(draw):
    shape = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    every = [s for k in range(1, len(shape) + 1) for s in combinations(range(len(shape)), k)]
    sets = draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    return shape, sets, [rng.dirichlet(np.ones(n)) + 1e-3 for n in shape], rng


@given(bases())
@PROPERTY
def test_coordinates_are_orthonormal_and_of_residuals_only(world):
    shape, sets, singles, rng = world
    basis = Interactions(sets, singles)
    assert len(basis.spectrum) == sum(prod(shape[a] - 1 for a in s) for s in sets)
    x = rng.normal(size=len(basis.spectrum))
    tables = basis.tables(x)
    np.testing.assert_allclose(basis.coordinates(tables), x, atol=1e-12)
    begin = 0
    for s in basis.sets:
        size = prod(shape[a] for a in s)
        table = tables[begin : begin + size].reshape([shape[a] for a in s])
        for axis in range(table.ndim):
            np.testing.assert_allclose(table.sum(axis=axis), 0, atol=1e-12)
        assert np.linalg.norm(table) == pytest.approx(np.linalg.norm(x[basis.places[s]]))
        begin += size


@given(bases())
@PROPERTY
def test_features_are_the_coordinates_of_one_record_and_vary_by_the_spectrum(world):
    shape, sets, singles, _ = world
    singles = [p / p.sum() for p in singles]
    basis = Interactions(sets, singles)
    cells = np.indices(shape).reshape(len(shape), -1)
    features = basis.features(list(cells)).astype(float)
    for record in range(0, cells.shape[1], 5):
        flat = []
        for s in basis.sets:
            table = np.zeros([shape[a] for a in s])
            table[tuple(cells[a, record] for a in s)] = 1
            flat.append(table.reshape(-1))
        np.testing.assert_allclose(basis.coordinates(np.concatenate(flat)), features[record], atol=1e-6)
    weights = prod_of(singles)
    for s in basis.sets:
        if len(s) == 1:
            mine = features[:, basis.places[s]]
            mean = weights @ mine
            covariance = (mine * weights[:, None]).T @ mine - np.outer(mean, mean)
            np.testing.assert_allclose(covariance, np.diag(basis.spectrum[basis.places[s]]), atol=1e-6)


def prod_of(singles):
    found = np.ones(1)
    for p in singles:
        found = np.multiply.outer(found, p).reshape(-1)
    return found


# --- the fit


@pytest.mark.parametrize("dense", [maxent.DENSE, 0])
def test_without_noise_it_has_the_measured_marginals(dense, monkeypatch):
    monkeypatch.setattr(maxent, "DENSE", dense)
    table = log_linear((2, 3, 4, 2), 20_000, 1)
    histogram, _ = fit(estimated(table, 2, ApproxDP(60.0, 1e-2), 0))
    asked, true = truth(table, 2)
    assert np.abs(histogram.answer(asked) - true).max() < 10


@pytest.mark.parametrize("dense", [maxent.DENSE, 0])
def test_where_the_noise_drowns_everything_it_is_nearly_uniform(dense, monkeypatch):
    monkeypatch.setattr(maxent, "DENSE", dense)
    table = log_linear((2, 3, 4, 2), 50, 1)
    histogram, _ = fit(estimated(table, 3, ApproxDP(0.01, 1e-9), 0, SWAP))
    shares = histogram.values / histogram.total
    assert np.abs(shares - 1 / 48).max() < 0.02


@pytest.mark.parametrize("neighbours", BOTH)
def test_it_is_more_accurate_than_the_linear_answers(neighbours):
    table = log_linear((2,) * 8, 5_000, 3)
    asked, true = truth(table, 3)
    for epsilon, gain in ((0.2, 1.6), (1.0, 1.1)):
        errors = []
        for seed in range(3):
            estimates = estimated(table, 3, ApproxDP(epsilon, 1e-9), seed, neighbours)
            histogram, _ = fit(estimates)
            errors.append([np.abs(a - true).mean() for a in (estimates.answer(asked)[0], histogram.answer(asked))])
        linear, model = np.mean(errors, axis=0)
        assert model * gain < linear


@pytest.mark.parametrize("dense", [maxent.DENSE, 0])
@pytest.mark.parametrize(("records", "epsilon", "width"), [(3_000, 0.2, 0.96), (100, 1.0, 0.85), (100, 5.0, 1.05)])
def test_the_models_error_bars_cover_and_are_hardly_longer_than_the_linear_ones(
    dense, records, epsilon, width, monkeypatch
):
    monkeypatch.setattr(maxent, "DENSE", dense)
    cover, widths = [], []
    for seed in range(4):
        table = log_linear((2, 3, 2, 4, 2, 2), records, 5 + seed, strength=0.6)
        asked, true = truth(table, 3)
        estimates = estimated(table, 3, ApproxDP(epsilon, 1e-9), seed)
        made = Modelled.of(estimates, asked)
        bars, linear = made.model_bars(asked), made.error_bars(asked)[1]
        cover.append(np.abs(made.answer(asked) - true) <= bars)
        widths.append(bars.mean() / linear.mean())
    assert 0.95 < np.mean(cover) < 0.9995
    assert np.mean(widths) < width


def test_columns_that_depend_on_each_other_are_fitted_to_the_noise(monkeypatch):
    """There J of independent columns is off by orders of magnitude."""
    monkeypatch.setattr(maxent, "DENSE", 0)
    rng = np.random.default_rng(0)
    first = rng.choice(12, 20_000, p=rng.dirichlet(np.full(12, 0.3)))
    others = [np.where(rng.random(20_000) < 0.03, rng.integers(0, n, 20_000), first * n // 12) for n in (12, 6, 4, 3)]
    table = Table(coded(12, 12, 6, 4, 3), [c.astype(np.uint8) for c in (first, *others)])
    asked, true = truth(table, 3)
    estimates = estimated(table, 3, ApproxDP(10.0, 1e-9), 0)
    histogram, posterior = fit(estimates)
    linear, variances = estimates.answer(asked)
    off = np.abs(histogram.answer(asked) - true)
    assert off.mean() < 0.7 * np.abs(linear - true).mean()
    large = true > 300
    assert off[large].mean() < 2.5 * np.abs(linear - true)[large].mean()
    assert np.mean(off <= 2.4 * np.sqrt(posterior.variances(asked))) > 0.95
    assert (posterior.variances(asked) <= variances).all()


def test_variances_of_other_queries_agree_with_those_of_cells():
    table = log_linear((2, 3, 4), 2_000, 7)
    _, posterior = fit(estimated(table, 2, ApproxDP(1.0, 1e-6), 0))
    cells = Workload.marginals(table.domain, [["a", "b"]])
    alone = Workload.vectors(table.domain, np.eye(6), ["a", "b"])
    np.testing.assert_allclose(posterior.variances(alone), posterior.variances(cells), rtol=1e-9)


def test_the_same_estimates_give_the_same_histogram():
    table = log_linear((2, 3, 4), 500, 2)
    estimates = estimated(table, 2, ApproxDP(1.0, 1e-6), 0)
    first, second = (fit(estimates)[0].values for _ in range(2))
    np.testing.assert_array_equal(first, second)


# --- the mechanism


COST, RHO = ApproxDP(1.0, 1e-9), ZCDP(0.02)


def release(table, workload, neighbours=ADD):
    curator = Curator(table, Ledger.open(None, COST, neighbours=neighbours), Entropy.insecure(0))
    return curator.release(MaxEnt(), workload, COST)


def test_a_release_has_linear_and_modelled_answers_and_comes_back(tmp_path):
    table = log_linear((2, 3, 4, 2), 5_000, 4)
    made = release(table, Workload.marginals(table.domain, 2))
    made.save(tmp_path / "out")
    again = qr.load(tmp_path / "out")
    assert isinstance(again.synopsis, Modelled)
    np.testing.assert_allclose(again.answers(), made.answers(), rtol=1e-9)
    for mine, other in zip(made.error_bars(), again.error_bars(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9)
    widths = made.synopsis.model_bars(made.workload)
    np.testing.assert_allclose(again.synopsis.model_bars(again.workload), widths, rtol=1e-3)
    assert (widths / 2.4 < made.error_bars()[1] / 1.96).mean() > 0.6


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_universe_too_large_for_a_histogram_has_linear_answers_and_says_so(neighbours, tmp_path):
    rng = np.random.default_rng(0)
    domain = coded(*(10,) * 12)
    table = Table(domain, [rng.integers(0, 10, 1000).astype(np.uint8) for _ in range(12)])
    made = release(table, Workload.marginals(domain, 2), neighbours=neighbours)
    assert isinstance(made.synopsis, Linear)
    assert not made.has_table
    assert "histogram holds at most" in made.parameters["no_table"]
    _, true = truth(table, 2)
    noisy, half = made.error_bars()
    np.testing.assert_array_equal(noisy, made.answers())
    assert 0.93 < np.mean(np.abs(noisy - true) <= half) < 0.97
    made.save(tmp_path / "out")
    again = qr.load(tmp_path / "out")
    np.testing.assert_allclose(again.answers(), made.answers(), atol=1e-6)
    with pytest.raises(InvalidInput, match="no table"):
        again.synthetic(10)


WIDE = coded(*(4,) * 40)


def test_all_triples_of_forty_columns_are_released_saved_and_loaded(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = Table(WIDE, [rng.integers(0, 4, 2000).astype(np.uint8) for _ in WIDE])
    asked, true = truth(table, 3)
    made = release(table, asked)
    noisy, half = made.error_bars()
    assert noisy.size == 9880 * 64
    assert 0.945 < np.mean(np.abs(noisy - true) <= half) < 0.955
    monkeypatch.setattr(writer, "LISTED_ANSWERS", 1 << 19)
    monkeypatch.setattr(writer, "MOST_ANSWERS", 1 << 19)
    made.save(tmp_path / "out")
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == [
        "SHA256SUMS",
        "measurements.npy",
        "release.json",
        "report.html",
    ]
    assert sum(f.stat().st_size for f in (tmp_path / "out").iterdir()) < 15 * noisy.size
    again = qr.load(tmp_path / "out")
    for ours, theirs in zip((noisy, half), again.error_bars(), strict=True):
        np.testing.assert_array_equal(theirs, ours)
    query = f"{WIDE.names[1]} = 3 and {WIDE.names[7]} in 1..2"
    one, other = made.answer(query), again.answer(query)
    assert (one.value, one.noisy, one.error) == (other.value, other.noisy, other.error)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "and 10,501 more" in page  # measurements
    assert len(page) < 500_000


def test_what_fits_in_memory_without_a_fit_is_known_beforehand(monkeypatch):
    domain = coded(*(10,) * 30)
    asked = Workload.marginals(domain, 3)
    monkeypatch.setattr("qrelease._util.memory.free", lambda: 250 << 20)  # of 4 million answers; with 122 to come
    MaxEnt().check(asked, ApproxDP(1.0, 1e-9), ADD)
    monkeypatch.setattr("qrelease._util.memory.free", lambda: 200 << 20)
    table = Table(domain, [np.zeros(5, np.uint8)] * 30)
    with Ledger.open(None, ApproxDP(1.0, 1e-9)) as ledger:
        with pytest.raises(OutOfMemory, match="cells of residuals: about"):
            Curator(table, ledger, Entropy.insecure(0)).release(MaxEnt(), asked, ApproxDP(1.0, 1e-9))
        assert ledger.spent is None


def test_what_memory_is_free_decides_no_release(monkeypatch):
    """It is less by the private table: it may refuse before the charge, and what is released goes by the machine's."""
    domain = coded(*(4,) * 10)  # a histogram of 8 MiB
    asked, cost = Workload.marginals(domain, 2), ApproxDP(1.0, 1e-9)
    for mechanism in (MaxEnt(records=1000), Gaussian()):
        with monkeypatch.context() as patch:
            patch.setattr("qrelease._util.memory.free", lambda: 1 << 20)
            assert mechanism.no_table(asked) is None
            patch.setattr("qrelease._util.memory.room", lambda: 1 << 20)
            assert "more than this machine has" in mechanism.no_table(asked)
    monkeypatch.setattr("qrelease._util.memory.free", lambda: 1 << 20)
    for mechanism in (MaxEnt(records=1000), Auto(1000)):
        with pytest.raises(OutOfMemory, match=r"the universe has .* cells: about .* are free"):
            mechanism.check(asked, cost, ADD)


def test_the_privacy_goes_where_residuals_are_expected_to_show():
    """At a small ε triples are drowned, and keep a twentieth of their part; with many records they have theirs."""
    domain = coded(*(2,) * 10)
    asked = Workload.marginals(domain, 3)
    few, many = (MaxEnt()._plan(asked, ApproxDP(0.1, 1e-9), Neighbours.ADD_REMOVE, n).variances for n in (1e3, 1e8))
    assert few[(0, 1, 2)] / few[(0,)] > 10 * many[(0, 1, 2)] / many[(0,)]


def test_triples_of_few_cells_are_measured_at_a_small_epsilon_too():
    """Of 21 574 records of 16 columns of 2 they get a quarter of the privacy; of columns of 8 hardly any."""

    def share(domain):
        asked = Workload.marginals(domain, 3)
        cost = ApproxDP(0.1, 1e-9)
        plan, noise = MaxEnt()._plan(asked, cost, Neighbours.ADD_REMOVE, 21_574), calibrated(1, cost)[0].variance
        return noise * sum(
            prod(1 - 1 / domain.shape[a] for a in s) / v for s, v in plan.variances.items() if len(s) == 3
        )

    assert 0.2 < share(coded(*(2,) * 16)) < 0.3
    assert share(coded(*(8,) * 8)) < 0.1


@pytest.mark.parametrize("cost", [ZCDP(0.02), PureDP(1.0)])
def test_a_marginal_of_more_weight_has_less_error(cost):
    table = log_linear((3, 4, 2), 5_000, 0)
    asked = Workload.marginals(table.domain, 2)
    bars = {}
    for weights in (None, (100.0, 1.0, 1.0)):
        with Ledger.open(None, cost) as ledger:
            release = Curator(table, ledger, Entropy.insecure(0)).release(MaxEnt(weights=weights), asked, cost)
        bars[weights] = np.split(release.error_bars()[1], asked.bounds[1:-1])
    first, *others = zip(*bars.values(), strict=True)
    assert (first[1] < 0.9 * first[0]).all()
    assert all((heavy > light).all() for light, heavy in others)


def test_the_largest_variance_can_be_made_the_least():
    table = log_linear((2, 12, 3), 5_000, 0)
    asked = Workload.marginals(table.domain, 2)
    largest = {}
    for objective in ("total", "largest"):
        with Ledger.open(None, RHO) as ledger:
            mechanism = MaxEnt(records=5_000, objective=objective)
            release = Curator(table, ledger, Entropy.insecure(0)).release(mechanism, asked, RHO)
        largest[objective] = release.error_bars()[1].max()
    assert largest["largest"] < 0.99 * largest["total"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"weights": (1.0, 0.0, 1.0)}, "a weight must be positive"),
        ({"weights": (1.0, math.nan, 1.0)}, "a weight"),
        (
            {"weights": (1e308, 1e-5, 1.0)},
            "weights must be within a factor of 1e.30 of each other, got 1e-05 and 1e.308",
        ),
        ({"weights": 5}, "weights must be numbers, one for each set"),
        ({"weights": (1.0,)}, "3 marginals need as many weights"),
        ({"weights": ()}, "3 marginals need as many weights"),
        ({"objective": "least"}, "the objective must be"),
    ],
)
def test_wrong_weights_and_objectives_cost_nothing(wrong, words):
    table = log_linear((3, 4, 2), 100, 0)
    with Ledger.open(None, COST) as ledger:
        with pytest.raises(InvalidInput, match=words):
            asked = Workload.marginals(table.domain, 2)
            Curator(table, ledger, Entropy.insecure(0)).release(MaxEnt(**wrong), asked, COST)
        assert ledger.spent is None


@pytest.mark.parametrize("cost", [PureDP(1.0), ApproxDP(1.0, 0.0)])
def test_the_least_largest_variance_needs_a_delta(cost):
    table = log_linear((2, 2), 10, 0)
    ledger = Ledger.open(None, cost)
    with pytest.raises(InvalidInput, match="is planned for Gaussian noise: give --delta"):
        asked = Workload.marginals(table.domain, 1)
        Curator(table, ledger, Entropy.insecure(0)).release(MaxEnt(objective="largest"), asked, cost)
    assert not any(e.kind == "charge" for e in ledger.history())


@pytest.mark.parametrize("records", [0, -1, 1.5, "many", True])
def test_a_number_of_records_that_is_none_is_refused(records):
    with pytest.raises(InvalidInput, match="records"):
        MaxEnt(records)


@pytest.mark.parametrize(("records", "epsilon"), [(10_000, 0.1), (1_000, 1.0)])
def test_bars_hold_where_hardly_any_cell_has_records(records, epsilon):
    """Twelve distinct records: what the fit does not come to, its bars do not pretend."""
    domain, workload = coded(*[2] * 8), Workload.marginals(coded(*[2] * 8), 3)
    covered = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        distinct = rng.integers(0, 2, (12, 8))
        table = table_of(domain, distinct[rng.choice(12, records, p=rng.dirichlet(np.ones(12)))])
        truth = np.concatenate([c.reshape(-1) for c in table.counts(workload.sets)])
        cost = ApproxDP(epsilon, 1e-9)
        with Ledger.open(None, cost) as ledger:
            made = Curator(table, ledger, Entropy.insecure(seed)).release(MaxEnt(), workload, cost)
        covered.append(np.mean(np.abs(made.answers() - truth) <= made.model_bars()))
    assert np.mean(covered) > 0.95
