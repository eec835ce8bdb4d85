"""The mechanism of maximum entropy: its releases, how it plans, and what it refuses."""

import math
from math import prod

import numpy as np
import pytest
from models import ADD, log_linear, truth
from worlds import BOTH, coded, table_of

import qrelease as qr
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, OutOfMemory
from qrelease.inference.residual_synopses import Linear, Modelled
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.noise.calibration import calibrated
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

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


def test_all_triples_of_forty_columns_are_released_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    table = Table(WIDE, [rng.integers(0, 4, 2000).astype(np.uint8) for _ in WIDE])
    asked, true = truth(table, 3)
    made = release(table, asked)
    noisy, half = made.error_bars()
    assert noisy.size == 9880 * 64
    assert 0.945 < np.mean(np.abs(noisy - true) <= half) < 0.955
    made.save(tmp_path / "out", answers=False)
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
    assert "these are the first 200 of 10,701 rows: the manifest" in page  # measurements
    assert len(page) < 500_000


def test_what_fits_in_memory_without_a_fit_is_known_beforehand(free_memory):
    domain = coded(*(10,) * 30)
    asked = Workload.marginals(domain, 3)
    free_memory(250 << 20)  # of 4 million answers; with 122 to come
    MaxEnt().check(asked, ApproxDP(1.0, 1e-9), ADD)
    free_memory(200 << 20)
    table = Table(domain, [np.zeros(5, np.uint8)] * 30)
    with Ledger.open(None, ApproxDP(1.0, 1e-9)) as ledger:
        with pytest.raises(OutOfMemory, match="cells of residuals: about"):
            Curator(table, ledger, Entropy.insecure(0)).release(MaxEnt(), asked, ApproxDP(1.0, 1e-9))
        assert ledger.spent is None


def test_what_memory_is_free_decides_no_release(free_memory, machine_of):
    """It is less by the private table: it may refuse before the charge, and what is released goes by the machine's."""
    domain = coded(*(4,) * 10)  # a histogram of 8 MiB
    asked, cost = Workload.marginals(domain, 2), ApproxDP(1.0, 1e-9)
    for mechanism in (MaxEnt(records=1000), Gaussian()):
        free_memory(1 << 20)
        assert mechanism.no_table(asked) is None
        with machine_of(1 << 20):
            assert "more than this machine has" in mechanism.no_table(asked)
    free_memory(1 << 20)
    for mechanism in (MaxEnt(records=1000), Auto(1000)):
        with pytest.raises(OutOfMemory, match=r"the universe has .* cells: about .* are free"):
            mechanism.check(asked, cost, ADD)


def test_the_privacy_goes_where_residuals_are_expected_to_show():
    """At a small ε triples are drowned, and keep a twentieth of their part; with many records they have theirs."""
    domain = coded(*(2,) * 10)
    asked = Workload.marginals(domain, 3)
    few, many = (MaxEnt().plan(asked, ApproxDP(0.1, 1e-9), Neighbours.ADD_REMOVE, n).variances for n in (1e3, 1e8))
    assert few[(0, 1, 2)] / few[(0,)] > 10 * many[(0, 1, 2)] / many[(0,)]


def test_triples_of_few_cells_are_measured_at_a_small_epsilon_too():
    """Of 21 574 records of 16 columns of 2 they get a quarter of the privacy; of columns of 8 hardly any."""

    def share(domain):
        asked = Workload.marginals(domain, 3)
        cost = ApproxDP(0.1, 1e-9)
        plan, noise = MaxEnt().plan(asked, cost, Neighbours.ADD_REMOVE, 21_574), calibrated(1, cost)[0].variance
        return noise * sum(
            prod(1 - 1 / domain.shape[a] for a in s) / v for s, v in plan.variances.items() if len(s) == 3
        )

    assert 0.2 < share(coded(*(2,) * 16)) < 0.3
    assert share(coded(*(8,) * 8)) < 0.1


@pytest.mark.parametrize("cost", [ApproxDP(0.3, 1e-9), PureDP(0.3)])
@pytest.mark.parametrize("records", [700.0, 1_000.0, 1_400.0])
def test_pairs_are_measured_where_only_strong_ones_would_stand_out(cost, records):
    """Whatever the noisy number of records is: their noise is far below that of triples, which are drowned."""
    asked = Workload.marginals(coded(*(2,) * 6), 3)
    planned = MaxEnt().plan(asked, cost, Neighbours.ADD_REMOVE, records).variances
    assert planned[(0, 1)] < planned[(0, 1, 2)] / 4


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


def test_rules_are_kept_and_those_that_leave_nothing_are_refused_before_the_charge():
    """Each municipality has one province: what is synthetic has no other."""
    domain = qr.Domain(coded(6, 2).attributes, impossible=["a < 3 and b = 1", "a >= 3 and b = 0"])
    a = np.random.default_rng(0).integers(6, size=3_000)
    made = release(Table(domain, (a, a // 3)), Workload.marginals(domain, [["a"], ["b"]]))
    assert made.parameters["impossible"] == "kept"
    codes = made.codes(1_000, np.random.default_rng(1))
    assert np.array_equal(np.asarray(codes[0]) // 3, np.asarray(codes[1]))
    nothing = qr.Domain(coded(6, 2).attributes, impossible=["a < 3", "a >= 3 and b = 0", "b = 1"])
    with Ledger.open(None, COST) as ledger:
        curator = Curator(Table(nothing, (a, a // 3)), ledger, Entropy.insecure(0))
        with pytest.raises(InvalidInput, match="impossible cells may leave none"):
            curator.release(MaxEnt(), Workload.marginals(nothing, 2), COST)
        assert ledger.spent is None
