"""The private scores: what each draw is of, by every neighbour; their noise, errors, charge, and what is left out."""

import itertools
from importlib.util import find_spec

import numpy as np
import pytest
from scipy import stats

import qrelease as qr
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.quality.associations import covariance_gap, dependence_gap
from qrelease.evaluation.quality.copies import part
from qrelease.evaluation.quality.marginals import distances, marginal_score, sets_of
from qrelease.evaluation.quality.models import foreteller, prediction_scores
from qrelease.evaluation.quality.private_score import COUNTING, LEFT_OUT, QualityScores
from qrelease.evaluation.quality.quality import associated_pairs, quality
from qrelease.privacy.costs import MOST_SPENT, Neighbours
from tests.evaluation.quality.figures import ADD, SWAP, changed, figures, holds, moved
from tests.evaluation.quality.tables import DOMAIN as PEOPLE
from tests.evaluation.quality.tables import INDEPENDENT, OTHER, REAL

DOMAIN = Domain.coded({"a": 2, "b": 2, "c": 3})

RECORDS = list(itertools.product(range(2), range(2), range(3)))


def table(rows):
    return Table(DOMAIN, tuple(np.array([r[i] for r in rows], np.uint8) for i in range(3)))


PUBLIC = table([RECORDS[i] for i in np.random.default_rng(1).choice(12, 40, p=np.arange(1, 13) / 78)])


@pytest.fixture(scope="module")
def small():
    """Scores of few cells, with a model where it can be had; trained once."""
    return QualityScores(PUBLIC, "b")


# --- what each draw is of, and how far off the figures are


@pytest.mark.parametrize("cost", [qr.PureDP(1.0), qr.ZCDP(0.2)], ids=str)
@pytest.mark.parametrize("relation", Neighbours, ids=lambda n: n.value)
def test_no_neighbour_moves_a_draw_further_than_its_noise_is_for_and_some_move_it_so_far(small, cost, relation):
    """A draw with half of the sensitivity would be 2 here, and one with half of its square 4."""
    rng = np.random.default_rng(2)
    sizes = (0, 1, 4, 7) if relation is ADD else (1, 4, 12, 30)
    tables = [table([RECORDS[j] for j in rng.integers(0, 12, n)]) for n in sizes]
    found = moved(small, [(t, [changed(t, r, relation) for r in RECORDS]) for t in tables], cost, relation)
    assert max(found.values()) <= 1
    tight = {far for what, far in found.items() if not what.startswith("the gap of")}  # of these see below
    assert tight == {1}
    assert len(found) == (11 if find_spec("sklearn") else 9) + (relation is ADD)


TRUTH = QualityScores(OTHER, "sex")


def truth(private, scores):
    """The figures of two tables, by the functions of the quality report and by scikit-learn."""
    public, columns = scores.public, len(private.domain)
    every = {k: distances(private, [public], sets_of(columns, k, 100))[0] for k in range(1, columns + 1)}
    pairs = associated_pairs(private.domain)
    found = {
        **{f"{k}-marginal": marginal_score(gaps) for k, gaps in every.items()},
        "worst column": every[1].max(),
        "worst pair": every[2].max(),
        "gap of dependence": dependence_gap(private, public, pairs),
        "gap of covariances": covariance_gap(private, public, pairs),
    }
    area = figures(scores).get("AUC for sex")
    if area is not None:
        from sklearn.metrics import roc_auc_score

        used, axis = area.model.public, private.domain.axis("sex")
        found["accuracy for sex"] = prediction_scores(used, private, axis)[1]
        raw = foreteller(used, axis).decision_function(np.delete(np.column_stack(private.columns), axis, axis=1))
        found["AUC for sex"] = roc_auc_score(private.columns[axis], np.searchsorted(area.model.cutpoints, raw, "right"))
    return found


def estimated(scores, private, cost, neighbours, seed=None):
    entropy = None if seed is None else qr.Entropy.insecure(seed)
    with qr.Ledger.open(None, cost, neighbours=neighbours, person=private.person_column) as ledger:
        curator = qr.Curator(private, ledger, entropy)
        found = curator.estimate(scores, cost)
        assert ledger.remaining is None
        with pytest.raises(qr.BudgetExceeded):
            curator.estimate(scores, cost)
    return found


@pytest.mark.parametrize(
    ("cost", "neighbours"),
    [(qr.PureDP(2.0), ADD), (qr.PureDP(2.0), SWAP), (qr.ZCDP(0.4), SWAP), (qr.ApproxDP(2.0, 1e-6), ADD)],
    ids=str,
)
def test_all_errors_that_are_told_hold_at_once_nearly_always_and_a_third_of_them_does_not(cost, neighbours):
    exact = truth(REAL, TRUTH)
    missed = {1.0: 0, 0.3: 0}
    beyond = 0
    for seed in range(40):
        found = estimated(TRUTH, REAL, cost, neighbours, seed)
        told = dict(zip(found.value, found.interval, strict=True))
        assert {*exact} == {*told} - {"equivalent subsample"}
        for width in missed:
            missed[width] += not all(holds(told[n], exact[n], found.value[n], width) for n in exact)
        beyond += max(abs(found.value[f"{k}-marginal"] - exact[f"{k}-marginal"]) for k in range(1, 5)) > found.promise
        assert found.insecure
    allowed = stats.binom.ppf(1 - 1e-6, 40, 0.05)
    assert max(missed[1.0], beyond) <= allowed < missed[0.3]
    assert not estimated(TRUTH, REAL, cost, neighbours).insecure


@pytest.mark.parametrize("share", [0.03, 0.15, 0.4])
def test_a_sample_of_the_private_table_is_worth_its_share_though_nobody_sees_the_table(share):
    """At a cost that leaves next to no noise; within the factor that the report, which sees it, is tested for."""
    kept = np.random.default_rng(3).permutation(len(REAL))[: int(share * len(REAL))]
    scores = QualityScores(part(REAL, kept))
    (low, high), value = (
        estimated(scores, REAL, qr.PureDP(500.0), SWAP, 1).interval[-1],
        estimated(scores, REAL, qr.PureDP(500.0), SWAP, 1).value["equivalent subsample"],
    )
    assert share / 1.6 < low <= value <= high < share * 1.6


# --- models


def test_a_column_of_more_cells_has_its_accuracy_alone():
    pytest.importorskip("sklearn")
    found = estimated(QualityScores(OTHER, "pay"), REAL, qr.PureDP(50.0), SWAP, 1)
    expected = prediction_scores(OTHER, REAL, PEOPLE.axis("pay"))[1]
    assert found.value["accuracy for pay"] == pytest.approx(expected, abs=0.01)
    assert "AUC for pay" not in found.value
    assert "6 cells" in found.choices["left out"]["AUC for pay"]


@pytest.mark.parametrize(
    ("public", "why"),
    [
        (part(OTHER, slice(0, 19)), "they take 20 records"),
        (
            part(OTHER, np.flatnonzero(OTHER.columns[1] == 1)),
            "all synthetic records that a model is trained on have one value of sex",
        ),
    ],
    ids=["few", "one value"],
)
def test_where_no_model_can_be_trained_the_reason_is_told_and_the_cost_goes_to_the_other_figures(public, why):
    pytest.importorskip("sklearn")
    found = estimated(QualityScores(public), REAL, qr.PureDP(1.0), ADD, 1)
    assert not [name for name in found.value if "for sex" in name]
    assert found.choices["left out"]["what models learn from synthetic records"] == why
    assert {*LEFT_OUT} < {*found.choices["left out"]}


@pytest.mark.parametrize("cells", [2, 3])
def test_a_label_that_none_of_the_records_has_that_a_model_is_trained_on_is_no_label(cells):
    """A model is trained on some of many records: the one with the rare label is not among these."""
    pytest.importorskip("sklearn")
    rare = np.zeros(60_000, np.uint8)
    rare[7] = 1
    public = Table(Domain.coded({"a": cells, "b": 5}), (rare, np.arange(60_000, dtype=np.uint8) % 5))
    scores = QualityScores(public, "a")
    assert not any(name.startswith(("accuracy", "AUC")) for name in figures(scores))
    found = estimated(scores, public, qr.PureDP(1.0), ADD, 1)
    assert "have one value of a" in found.choices["left out"]["what models learn from synthetic records"]


def test_of_no_records_at_hardly_any_noise_nothing_is_known(small):
    """The least noise that there is has a bound, too; and of nobody there is no figure."""
    found = estimated(small, table([]), qr.PureDP(MOST_SPENT), ADD, 1)
    for name, (low, high) in zip(found.value, found.interval, strict=True):
        if name.endswith("-marginal"):
            assert low <= 500
            assert high >= 1000


def test_without_scikit_learn_the_rest_is_scored(not_installed):
    not_installed("sklearn")
    found = estimated(QualityScores(OTHER), REAL, qr.PureDP(1.0), ADD, 1)
    assert [*found.value][-2:] == ["gap of covariances", "equivalent subsample"]
    assert "scikit-learn is not installed" in found.choices["left out"]["what models learn from synthetic records"]


# --- what it is given


def test_a_bad_table_is_worse_in_every_figure():
    cost = qr.PureDP(5.0)
    good, bad = (estimated(QualityScores(t, "sex"), REAL, cost, ADD, 1).value for t in (OTHER, INDEPENDENT))
    for name in good:
        if name in ("1-marginal", "worst column", "accuracy for sex"):  # columns alone are as good
            continue
        better = bad[name] - good[name] if name.startswith(("worst", "gap")) else good[name] - bad[name]
        assert better > 0, name
    assert good["equivalent subsample"] > 0.3 > 0.1 > bad["equivalent subsample"]
    worst = estimated(QualityScores(INDEPENDENT), REAL, qr.PureDP(50.0), SWAP, 1).choices["worst pair"]
    assert worst == quality(REAL, INDEPENDENT, targets=[]).worst[2][0].columns


def test_what_cannot_be_scored_is_charged_nothing():
    private = table(RECORDS)
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        curator = qr.Curator(private, ledger)
        other = Table(Domain.coded({"a": 2}), (np.zeros(3, np.uint8),))
        for scores in (QualityScores(table([])), QualityScores(other), QualityScores(PUBLIC, "nobody")):
            with pytest.raises(InvalidInput):
                curator.estimate(scores, qr.PureDP(1.0))
        assert ledger.spent is None


def test_marginals_of_more_cells_than_are_counted_are_scored_by_those_that_occur():
    wide, rng = Domain.coded({"a": 1200, "b": 1200, "c": 1200}), np.random.default_rng(8)
    columns = rng.integers(0, 1200, (3, 800))
    private, public = (Table(wide, tuple(columns[:, rows])) for rows in (slice(0, 500), slice(300, 800)))
    found = estimated(QualityScores(public), private, qr.PureDP(1000.0), SWAP, 1)
    exact = marginal_score(distances(private, [public], [(0, 1, 2)])[0])
    assert exact == pytest.approx(400, abs=5)
    assert found.value["3-marginal"] == pytest.approx(exact, abs=3)


def test_marginals_of_more_cells_than_can_be_numbered_are_refused_before_the_charge():
    wide = Domain.coded({f"c{i}": 1 << 16 for i in range(4)})
    private = Table(wide, tuple(np.zeros(5, np.uint16) for _ in range(4)))
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        with pytest.raises(InvalidInput, match="too many cells to number"):
            qr.Curator(private, ledger).estimate(QualityScores(private), qr.PureDP(1.0))
        assert ledger.spent is None


def test_one_column_has_its_own_figures():
    one = Table(Domain.coded({"a": 3}), (np.arange(60, dtype=np.uint8) % 3,))
    found = estimated(QualityScores(one), one, qr.PureDP(1.0), ADD, 1)
    assert [*found.value] == ["1-marginal", "worst column", "equivalent subsample"]


def test_a_cost_that_buys_next_to_nothing_has_intervals_that_say_so():
    found = estimated(TRUTH, REAL, qr.PureDP(1e-8), ADD, 1)
    told = dict(zip(found.value, found.interval, strict=True))
    assert all(ends == (0.0, 1000.0) for name, ends in told.items() if name.endswith("-marginal"))
    assert {told[name] for name in ("worst pair", "equivalent subsample")} == {(0.0, 2.0), (0.0, 1.0)}
    assert found.promise is None


def test_the_public_records_are_not_stored(small):
    found = estimated(small, table(RECORDS), qr.PureDP(1.0), ADD, 1)
    assert found.parameters == {"public": {"records": 40}, "target": "b"}


@pytest.mark.parametrize(("neighbours", "persons"), [("add-remove", 1), ("replace-one", 2)])
def test_of_persons_it_is_of_the_records_that_are_kept_and_noised_for_all_that_one_has(small, neighbours, persons):
    """Each has three records and two are kept; the noise is that of so many records of one."""
    who = [i // 3 for i in range(600)]
    domain = Domain(DOMAIN.attributes, person=Person("who", 2))
    private = Table.of_persons(domain, table([RECORDS[i % 12] for i in range(600)]).columns, who)
    cost = qr.PureDP(8.0)
    found = estimated(small, private, cost, neighbours, 1)
    records, *scores = found.measured
    assert abs(records.value - 400) < 100
    share = cost.epsilon * (1 - COUNTING) / len(figures(small))
    for measured, sets in zip(scores[:3], (3, 3, 1), strict=True):
        scale = float(measured.law.removeprefix("discrete Laplace, scale "))
        assert scale == pytest.approx(sets * 2 * persons / share, rel=1e-4)
    assert found.at_most == 2


def test_records_that_are_no_table_and_no_frame_are_refused():
    with pytest.raises(InvalidInput, match="a pandas, polars or pyarrow table is needed, got int"):
        QualityScores(3)


def test_a_frame_is_scored_as_the_table_that_it_is_under_the_private_schema():
    """With the same noise, in the schema's order of columns; a frame of other columns is refused before the charge."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({name: PUBLIC.columns[PUBLIC.domain.axis(name)] for name in ("c", "a", "b")})
    private, cost = table(RECORDS * 20), qr.PureDP(5.0)
    scores = QualityScores(frame, "b")
    assert repr(scores) == "QualityScores(a data frame)"
    found, same = (estimated(each, private, cost, SWAP, 3) for each in (scores, QualityScores(PUBLIC, "b")))
    assert found.to_json() == same.to_json()
    assert repr(scores) == "QualityScores(40 public records)"
    with qr.Ledger.open(None, qr.PureDP(9.0)) as ledger:
        with pytest.raises(InvalidInput, match="no column 'c'"):
            qr.Curator(private, ledger).estimate(QualityScores(frame[["a", "b"]]), cost)
        assert ledger.spent is None
    wider = Table(Domain.coded({"a": 2, "b": 2, "c": 4}), private.columns)
    assert (
        estimated(scores, wider, cost, SWAP, 3).value
        == estimated(QualityScores(frame, "b"), wider, cost, SWAP, 3).value
    )


def test_a_tenth_of_the_cost_counts_the_records_and_the_rest_is_divided_equally():
    for neighbours, left in ((ADD, 2 * (1 - COUNTING)), (SWAP, 2.0)):
        found = estimated(TRUTH, REAL, qr.PureDP(2.0), neighbours)
        shares = [spend.cost.epsilon for spend in found.spends]
        parts = [2 if "worst" in spend.what else 1 for spend in found.spends]
        each = [s * p for s, p, spend in zip(shares, parts, found.spends, strict=True) if "count" not in spend.what]
        assert each == pytest.approx([left / len(TRUTH.figures)] * len(each))


@pytest.mark.parametrize("cost", [qr.PureDP(2.0), qr.ZCDP(0.05), qr.PureDP(0.05)], ids=str)
@pytest.mark.parametrize("relation", Neighbours, ids=lambda n: n.value)
def test_how_wide_intervals_will_be_is_foretold(cost, relation):
    """Of private records that are like the public ones; what says nothing is told of as such."""
    found = estimated(TRUTH, REAL, cost, relation, 2)
    told = TRUTH.half_widths(REAL.domain, len(REAL), cost, relation)
    figures = [name for name in found.value if name != "equivalent subsample"]
    assert [*told] == figures
    for (low, high), name in zip(found.interval, figures, strict=False):
        half, most = told[name]
        if half >= most / 2:
            assert high - low > 0.45 * most, name
        elif low > 0 and high < most:  # else the interval is cut at what is possible
            assert (high - low) / 2 == pytest.approx(half, rel=0.35), name
        else:
            assert (high - low) / 2 < 1.35 * half, name
    assert TRUTH.half_widths(REAL.domain, None, cost, relation) == TRUTH.half_widths(
        REAL.domain, len(OTHER), cost, relation
    )
