"""The private score: its sensitivity by every neighbour, its noise, its error, and its charge."""

import itertools

import numpy as np
import pytest
from scipy import stats

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality import private_score
from qrelease.evaluation.quality.marginals import distances, score, sets_of
from qrelease.evaluation.quality.private_score import private_scores, sensitivity, statistic

DOMAIN = Domain.coded({"a": 2, "b": 2, "c": 3})

PAIRS = sets_of(3, 2, 100)


def table(rows):
    return Table(DOMAIN, tuple(np.array([r[i] for r in rows], np.uint8) for i in range(3)))


RECORDS = list(itertools.product(range(2), range(2), range(3)))

PUBLIC = table([RECORDS[i] for i in (0, 0, 3, 5, 7, 11)])


def test_no_neighbour_moves_the_statistic_further_than_its_sensitivity_and_some_move_it_so_far():
    rng = np.random.default_rng(2)
    added, replaced = set(), set()
    for _ in range(30):
        rows = [RECORDS[i] for i in rng.integers(0, 12, 5)]
        here = statistic(table(rows), PUBLIC, 5, PAIRS)
        for other in RECORDS:
            added.add(abs(statistic(table([*rows, other]), PUBLIC, 5, PAIRS) - here))
            replaced.add(abs(statistic(table([*rows[1:], other]), PUBLIC, 5, PAIRS) - here))
    assert max(added) == sensitivity(PUBLIC, PAIRS, qr.Neighbours.ADD_REMOVE) == 18
    assert max(replaced) == sensitivity(PUBLIC, PAIRS, qr.Neighbours.REPLACE_ONE) == 36


def scored(private, cost, neighbours, seed=None):
    entropy = None if seed is None else qr.Entropy.insecure(seed)
    with qr.Ledger.open(None, cost, neighbours=neighbours) as ledger:
        found = private_scores(private, PUBLIC, ledger, cost, entropy=entropy)
        assert ledger.remaining is None
        with pytest.raises(qr.BudgetExceeded):
            private_scores(private, PUBLIC, ledger, cost)
    return found


PRIVATE = table([RECORDS[i] for i in np.random.default_rng(3).integers(0, 12, 400)])

EXACT = [score(distances(PRIVATE, [PUBLIC], sets_of(3, k, 200))[0]) for k in (1, 2, 3)]


@pytest.mark.parametrize("cost", [qr.PureDP(1.0), qr.ZCDP(0.2), qr.ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize("neighbours", qr.Neighbours, ids=lambda n: n.value)
def test_the_error_that_is_told_holds_nearly_always(cost, neighbours):
    missed = 0
    for seed in range(60):
        found = scored(PRIVATE, cost, neighbours, seed)
        assert [s.columns for s in found.scores] == [1, 2, 3]
        missed += sum(abs(s.score - exact) > s.error for s, exact in zip(found.scores, EXACT, strict=True))
        assert found.insecure
    assert missed <= stats.binom.ppf(1 - 1e-6, 180, 0.05)
    assert not scored(PRIVATE, cost, neighbours).insecure


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.7, False)])
def test_the_noise_has_the_scale_that_the_cost_buys(factor, right):
    """Of pure epsilon, under replace-one, where nothing is spent on counting: of scale 1000 / (n epsilon / 3)."""
    drawn = []
    for seed in range(400):
        found = scored(PRIVATE, qr.PureDP(3.0), "replace-one", seed)
        drawn += [s.score - exact for s, exact in zip(found.scores, EXACT, strict=True)]
    scale = factor * 1000 / (len(PRIVATE) * 1.0)
    assert bool(stats.kstest(drawn, stats.laplace(scale=scale).cdf).pvalue > 1e-4) is right


def test_what_cannot_be_scored_is_charged_nothing():
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        for other in (table([]), Table(Domain.coded({"a": 2}), (np.zeros(3, np.uint8),))):
            with pytest.raises(qr.InvalidInput):
                private_scores(PRIVATE, other, ledger, qr.PureDP(1.0))
        assert ledger.spent is None


def test_a_cost_that_buys_next_to_nothing_has_an_error_that_says_so():
    found = scored(PRIVATE, qr.PureDP(1e-9), "add-remove", 1)
    assert min(s.error for s in found.scores) > 500


def test_the_command_charges_the_ledger_of_the_data(tmp_path, capsys):
    (tmp_path / "people.csv").write_text("a,b,c\n" + "".join(f"{i % 2},{i % 2},{i % 3}\n" for i in range(300)))
    (tmp_path / "fake.csv").write_text("a,b,c\n" + "".join(f"{i % 2},1,{i % 3}\n" for i in range(90)))
    (tmp_path / "schema.json").write_text('{"a": 2, "b": 2, "c": 3}')
    words = [
        "score",
        str(tmp_path / "people.csv"),
        str(tmp_path / "fake.csv"),
        "--schema",
        str(tmp_path / "schema.json"),
    ]
    assert main([*words, "--epsilon", "1"]) == 2
    assert "there is no ledger" in capsys.readouterr().err
    qr.Ledger.open(tmp_path / "people.ledger", qr.PureDP(1.0)).close()
    assert main([*words, "--epsilon", "0.5"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("marginal score") == 3
    assert "charged: epsilon=0.5" in shown
    with qr.Ledger.open(tmp_path / "people.ledger") as ledger:
        assert ledger.spent == qr.PureDP(0.5)
    assert private_score.ORDERS == (1, 2, 3)
