"""Error against the truth: the metrics by a second route, the notice on every output, nothing near a release."""

import math
import time
from dataclasses import astuple

import numpy as np
import pytest
from worlds import coded, mixed, private, random_table, records_of, table_of, true_answers

from qrelease._util.progress import log_lines
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.evaluation.evaluate import Truth, evaluate, score, unbiased
from qrelease.evaluation.results import NOTICE
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.costs import cost_of
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from tests.evaluation.comparisons import DOMAIN, PAIRS, TABLE, small


def marginal_distances(table, other, workload):
    """|p - q| of each marginal, counted from the records, each divided by its own total."""
    distances = []
    for group in workload.groups:
        shape = [workload.domain.shape[a] for a in group.axes]
        tables = []
        for rows in (records_of(table), records_of(other)):
            cells = np.ravel_multi_index(tuple(rows[:, a] for a in group.axes), shape)
            tables.append(np.bincount(cells, minlength=math.prod(shape)) / len(rows))
        distances.append(np.abs(tables[0] - tables[1]))
    return distances


def test_the_metrics_are_those_of_a_count_from_the_records():
    other = random_table(DOMAIN, 321, seed=4)
    found = Truth.of(TABLE, PAIRS).errors(true_answers(PAIRS, other))
    distances = marginal_distances(TABLE, other, PAIRS)
    every = np.concatenate(distances)
    assert found.avg_l1 == pytest.approx(np.mean([d.sum() for d in distances]))
    assert found.max_abs == pytest.approx(every.max())
    assert found.rmse == pytest.approx(math.sqrt((every**2).mean()))
    assert found.avg_l1 > 0.1


def test_queries_that_are_no_marginals_are_fractions_of_the_records():
    workload = Workload.ranges(DOMAIN, "d") + Workload.predicates(DOMAIN, "a = 0 and b in 1..2")
    answers = true_answers(workload, TABLE)
    answers[0] += 5
    answers[-1] -= 20
    found = Truth.of(TABLE, workload).errors(answers)
    expected = (5 / 500 + 20 / 500) / 2, 20 / 500, math.hypot(5, 20) / 500 / math.sqrt(16)
    assert astuple(found) == pytest.approx(expected)


def test_the_truth_has_no_error_whatever_the_queries():
    workload = mixed()
    table = random_table(workload.domain, 80, seed=1)
    assert astuple(Truth.of(table, workload).errors(true_answers(workload, table))) == pytest.approx(
        (0, 0, 0), abs=1e-9
    )


def test_a_release_of_nothing_at_all_is_as_far_as_can_be():
    assert Truth.of(TABLE, PAIRS).errors(np.zeros(len(PAIRS))).avg_l1 == pytest.approx(1)


def test_the_floor_is_near_what_sampling_theory_says():
    one = Workload.marginals(DOMAIN, 1)
    # E|p - q| of a cell is about sqrt(2 p (1 - p) / (pi n)); one draw lies well within a factor of two.
    expected = np.mean([np.sqrt(2 * p * (1 - p) / (math.pi * 500)).sum() for p in Truth.of(TABLE, one).parts])
    assert expected / 2 < Truth.of(TABLE, one).floor().avg_l1 < expected * 2


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_bound_is_the_error_of_the_optimal_measurement(neighbours):
    cost, exact, found = ApproxDP(1.0, 1e-6), true_answers(PAIRS, TABLE), []
    plan = ResidualPlan.choose(DOMAIN, PAIRS.sets, neighbours=neighbours)
    public = 500.0 if neighbours is Neighbours.REPLACE_ONE else None
    for seed in range(200):
        door = private(TABLE, cost, neighbours, Entropy.insecure(seed))
        answers = Estimates.of(DOMAIN, door.measure(plan.workload, cost), public).answer(PAIRS)[0]
        found.append(np.abs(answers - exact).sum() / len(PAIRS.groups) / 500)
    assert np.mean(found) == pytest.approx(unbiased(PAIRS, cost, neighbours, 500), rel=0.03)
    assert unbiased(PAIRS, PureDP(1.0), neighbours, 500) is None
    wide = coded(*[2] * 26)
    assert unbiased(Workload.marginals(wide, [wide.names]), cost, neighbours, 500) is None
    assert unbiased(Workload.predicates(DOMAIN, "a = 0"), cost, neighbours, 500) is None


def test_every_mechanism_runs_at_every_epsilon_and_the_baselines_with_them():
    found = small()
    assert [(r.mechanism, r.epsilon, r.trial) for r in found.rows] == [
        (name, epsilon, trial) for epsilon in (0.5, 5.0) for name in ("mwem", "laplace", "gaussian") for trial in (0, 1)
    ]
    assert all(r.delta == 1e-6 and r.seconds > 0 and (r.peak_mb > 1 or math.isnan(r.peak_mb)) for r in found.rows)
    assert found.error("laplace", 5) < found.error("laplace", 0.5) / 2
    assert found.ratio("laplace", "laplace", 5) == 1
    assert found.ratio("mwem", "gaussian", 5) == found.error("mwem", 5) / found.error("gaussian", 5)
    assert found.floor == Truth.of(TABLE, PAIRS).floor()


def test_the_error_is_that_of_the_release_with_the_same_noise():
    found = evaluate(TABLE, PAIRS, {}, [1.0], entropy=Entropy.insecure(9), neighbours="replace-one")
    with Ledger.open(None, PureDP(1.0), neighbours="replace-one") as ledger:
        release = Curator(TABLE, ledger, Entropy.insecure(9)).release(Laplace(), PAIRS, PureDP(1.0))
    (run,) = found.rows
    assert run.errors == Truth.of(TABLE, PAIRS).errors(release.answers())


@pytest.mark.parametrize("delta", [None, 0, 0.0])
def test_without_delta_there_is_no_gaussian(delta):
    found = small(delta=delta, trials=1)
    assert found.mechanisms == ("mwem", "laplace")
    assert {r.delta for r in found.rows} == {0.0}
    assert math.isnan(found.ratio("mwem", "gaussian", 5))
    assert "pure epsilon" in str(found)


def test_baselines_given_by_name_are_not_run_twice_and_their_names_are_taken():
    found = small(trials=1)
    again = evaluate(TABLE, PAIRS, {"gaussian": Gaussian(), "mwem": MWEM(rounds=2)}, [0.5, 5], delta=1e-6)
    assert again.mechanisms == found.mechanisms
    with pytest.raises(InvalidInput, match=r"'laplace' is the name of a baseline; give MWEM.* another"):
        evaluate(TABLE, PAIRS, {"laplace": MWEM()}, [1])


def test_the_same_seed_gives_the_same_errors_and_a_secret_stream_others():
    first, second, third = small(), small(), small(entropy=None)
    assert [r.errors for r in first.rows] == [r.errors for r in second.rows]
    assert [r.errors for r in first.rows] != [r.errors for r in third.rows]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilons": []}, "evaluate needs at least one epsilon, got none"),
        ({"epsilons": [1, -1]}, "epsilon must be positive, got -1"),
        ({"epsilons": [float("nan")]}, "epsilon must be finite, got nan"),
        ({"delta": float("nan")}, "delta must be finite, got nan"),
        ({"delta": 1.5}, r"delta must be in \[0, 1\), got 1.5"),
        ({"neighbours": "swap"}, "neighbours must be 'add-remove' or 'replace-one', got 'swap'"),
        ({"trials": 0}, "trials must be a positive whole number, got 0"),
        ({"trials": True}, "trials must be a positive whole number, got True"),
        ({"trials": 1.5}, "trials must be a positive whole number, got 1.5"),
        ({"workload": Workload.marginals(coded(2, 2), 1)}, "another domain than the table"),
        ({"table": table_of(DOMAIN, [])}, "the table has no records to compare with"),
    ],
)
def test_bad_arguments_are_one_clear_error(changes, message):
    arguments = {"table": TABLE, "workload": PAIRS, "mechanisms": {}, "epsilons": [1], **changes}
    with pytest.raises(InvalidInput, match=message):
        evaluate(**arguments)


def test_what_a_mechanism_refuses_is_found_before_the_first_run():
    wide = coded(*[2] * 30)
    table = Table(wide, tuple(np.zeros(5, np.int64) for _ in range(30)))
    with pytest.raises(TooLarge, match="cells"):
        evaluate(table, Workload.marginals(wide, 1), {"mwem": MWEM()}, [1])


def test_the_bound_is_shown_where_nothing_is_below_it_and_only_there():
    found = small(trials=1)
    best = {e: min(found.error(m, e) for m in found.mechanisms) for e in found.epsilons}
    every = {e: unbiased(PAIRS, ApproxDP(e, 1e-6), Neighbours.ADD_REMOVE, 500) for e in found.epsilons}
    assert found.bounds == {e: bound for e, bound in every.items() if bound <= best[e]}
    assert len(found.bounds) < len(every), "Laplace's noise is less where few answers are asked for"
    assert ("unbiased answers at the lower bound of their noise: avg L1 " in str(found)) == bool(found.bounds)


def test_a_mechanism_that_cannot_be_run_is_left_out_by_name():
    domain = Domain.coded(dict.fromkeys("abcdef", 2))
    table = random_table(domain, 50, seed=1)
    given = {"mwem": MWEM(rounds=1), "smalldb": SmallDB(size=10**6)}
    found = evaluate(table, Workload.marginals(domain, 1), given, [1], entropy=Entropy.insecure(1))
    assert found.mechanisms == ("mwem", "laplace")
    assert list(found.skipped) == ["smalldb"]
    assert f"skipped: smalldb: {found.skipped['smalldb']}" in str(found)
    with pytest.raises(QReleaseError):
        evaluate(table, Workload.marginals(domain, 1), {"smalldb": SmallDB(size=10**6)}, [1])


def test_a_baseline_that_was_asked_for_by_name_is_left_out_by_name():
    domain = Domain.coded(dict.fromkeys("abc", 2))
    workload, table = Workload.marginals(domain, 1), random_table(domain, 50, seed=1)
    found = evaluate(table, workload, {"gaussian": Gaussian(), "mwem": MWEM(rounds=1)}, [1])
    assert found.mechanisms == ("mwem", "laplace")
    assert "skipped: gaussian: " in str(found)
    assert not evaluate(table, workload, {"mwem": MWEM(rounds=1)}, [1]).skipped
    with pytest.raises(QReleaseError, match="delta"):
        evaluate(table, workload, {"gaussian": Gaussian()}, [1])


def test_a_release_and_its_synthetic_records_are_scored():
    with Ledger.open(None, PureDP(50.0)) as ledger:
        release = Curator(TABLE, ledger, Entropy.insecure(2)).release(MWEM(rounds=6), PAIRS, PureDP(50.0))
    rows = Table(DOMAIN, tuple(release.synopsis.sample(4000, np.random.default_rng(0))))
    found = score(TABLE, release, rows)
    assert found.answers == Truth.of(TABLE, PAIRS).errors(release.answers())
    assert found.synthetic == Truth.of(TABLE, PAIRS).errors(true_answers(PAIRS, rows) * (500 / 4000))
    assert found.synthetic.avg_l1 == pytest.approx(found.answers.avg_l1, abs=0.02)
    assert score(TABLE, release).synthetic is None
    assert str(found).splitlines()[0] == NOTICE
    assert [line.split()[0] for line in repr(found).splitlines()[3:]] == ["answers", "synthetic"]
    with pytest.raises(InvalidInput, match="another domain"):
        score(TABLE, release, random_table(coded(2, 2), 5, seed=0))


def test_the_truth_keeps_the_records_out_of_its_text():
    assert repr(Truth.of(TABLE, PAIRS)) == f"Truth({PAIRS!r}; the records are private)"


def test_a_cost_is_pure_without_delta():
    assert cost_of(1, None) == cost_of(1, 0.0) == PureDP(1.0)
    assert cost_of(np.float64(1), 1e-9) == ApproxDP(1.0, 1e-9)
    run = Truth.of(TABLE, PAIRS).run("l", Laplace(), PureDP(1.0), Neighbours.ADD_REMOVE, Entropy.insecure(0))
    assert (run.delta, run.trial) == (0.0, 0)


class Compiling(Laplace):
    """Its first release takes two seconds more than the others, as one that compiles does."""

    made = 0

    def release(self, *asked):
        type(self).made += 1
        if type(self).made == 1:
            time.sleep(2)
        return super().release(*asked)


def test_no_time_that_is_told_counts_what_a_first_release_compiles():
    found = evaluate(TABLE, PAIRS, {"mine": Compiling()}, epsilons=[1.0], trials=2, entropy=Entropy.insecure(3))
    times = [run.seconds for run in found.rows if run.mechanism == "mine"]
    assert len(times) == 2
    assert max(times) < 2
    # What is drawn is what would have been drawn: the release that is made for its time has a source of its own.
    errors = [run.errors for run in found.rows if run.mechanism == "mine"]
    plain = evaluate(TABLE, PAIRS, {"mine": Compiling()}, epsilons=[1.0], trials=2, entropy=Entropy.insecure(3))
    assert errors == [run.errors for run in plain.rows if run.mechanism == "mine"]


def test_the_line_of_how_far_it_is_names_mechanism_and_epsilon_with_one_colon(capsys):
    with log_lines(0.0):
        evaluate(TABLE, PAIRS, {"laplace": Laplace()}, [1.0], trials=2, entropy=Entropy.insecure(1))
    lines = [line for line in capsys.readouterr().err.splitlines() if "at epsilon" in line]
    assert lines
    assert all(line.startswith("qrelease: laplace at epsilon=1: ") and ": :" not in line for line in lines)
