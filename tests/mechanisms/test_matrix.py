"""Optimal strategies and the mechanism that measures them: known errors, dense algebra, draws, files, refusals."""

import numpy as np
import pytest
from worlds import BOTH, PEOPLE, coded, full_matrix, mixed, private, random_table, true_answers

from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit import audit_mechanism, audit_sensitivity, table_pairs
from qrelease.inference.measurement import noise_for
from qrelease.inference.strategies import gram, lower_bound
from qrelease.mechanisms.matrix import Matrix, best_strategy
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release import reader
from qrelease.release.curator import Curator

ADD, SWAP = BOTH
COST = ApproxDP(1.0, 1e-6)
WORKLOADS = {
    "mixed": mixed(),
    "missing": Workload.ranges(PEOPLE, "age"),
    "few": Workload.predicates(coded(40), "a in 3..7", "a in 5..20", "a = 2 or a = 17"),
    "one": Workload.predicates(coded(9), "a in 3..7"),
    "boxes": Workload.boxes(coded(6, 5), ["a", "b"]),
    "joined": Workload.boxes(coded(6, 5), ["a", "b"]) + Workload.ranges(coded(6, 5), "a"),
    "marginals": Workload.marginals(coded(2, 3, 4), 2),
}


# --- the mechanism -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("name", ["mixed", "boxes", "few"])
def test_drawn_errors_are_as_large_as_predicted(name, relation):
    workload, cost = WORKLOADS[name], ApproxDP(2.0, 1e-6)
    table = random_table(workload.domain, 300, 1)
    truth, entropy = true_answers(workload, table), Entropy.insecure(7)
    runs = [Matrix().release(private(table, cost, relation, entropy), workload, cost).synopsis for _ in range(1500)]
    errors = np.array([synopsis.answer(workload) for synopsis in runs]) - truth
    widths = runs[0].error_bars(workload)[1]
    inside = np.abs(errors) <= widths
    predicted = (widths / 1.959964) ** 2
    by_query = np.mean(errors**2, axis=0)
    assert np.sqrt(by_query.mean() / predicted.mean()) == pytest.approx(1, abs=0.02)
    assert by_query / predicted == pytest.approx(1, abs=0.2)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)
    if relation is ADD:
        sigma = analytic_gaussian_sigma(1, cost.epsilon, cost.delta)
        assert np.sqrt(predicted.mean()) == pytest.approx(best_strategy(workload).error * sigma, rel=1e-5)


def test_it_beats_noise_on_every_answer():
    workload = Workload.ranges(coded(64), "a")
    apart = float(noise_for(workload, COST, ADD)[1]) ** 0.5
    ours = best_strategy(workload).error * analytic_gaussian_sigma(1, COST.epsilon, COST.delta)
    assert ours < 0.15 * apart


@pytest.mark.parametrize("name", ["boxes", "joined"])
def test_other_queries_on_its_columns_have_answers_and_bars(name):
    workload, domain = WORKLOADS[name], coded(6, 5)
    table, cost = random_table(domain, 2000, 3), ApproxDP(100.0, 1e-3)
    synopsis = Matrix().release(private(table, cost), workload, cost).synopsis
    asked = (
        Workload.marginals(domain, [[], ["a"], ["a", "b"]])
        + Workload.prefixes(domain, "b")
        + Workload.predicates(domain, "a in 1..3 and b != 2")
    )
    values, widths = synopsis.error_bars(asked)
    np.testing.assert_allclose(values, synopsis.answer(asked))
    assert (np.abs(values - true_answers(asked, table)) <= 2.5 * widths).all()
    table = synopsis.answer(Workload.marginals(domain, 2))
    full = np.ones((1, 1))
    for c in synopsis._covariances:
        full = np.kron(full, c)
    w = full_matrix(asked)
    np.testing.assert_allclose(values, w @ table, atol=1e-6)
    expected = 1.959964 * np.sqrt(((w @ full) * w).sum(axis=1) * synopsis.measurement.variance)
    np.testing.assert_allclose(widths, expected, rtol=1e-6)


def test_a_release_comes_back_from_its_files(tmp_path):
    domain = coded(6, 5, 3)
    for i, workload in enumerate([Workload.boxes(domain, ["a", "b"]), Workload.ranges(domain, "a")]):
        curator = Curator(random_table(domain, 200, 1), Ledger.open(None, ZCDP(1.0)), Entropy.insecure(1))
        release = curator.release(Matrix(), workload, ZCDP(0.5))
        assert release.parameters["bound"] <= release.parameters["error"]
        assert release.parameters["gap"] == release.parameters["error"] / release.parameters["bound"] - 1 < 1e-3
        release.save(tmp_path / str(i))
        again = reader.load(tmp_path / str(i))
        for asked in (workload, Workload.predicates(domain, "a in 2..4", "c = 1") if i else workload):
            for one, two in zip(release.error_bars(asked), again.error_bars(asked), strict=True):
                np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(again.answers(), release.answers())
        assert again.synopsis.total == release.synopsis.total
        assert again.parameters == release.parameters
        factors = workload.groups[0].queries.factors if i == 0 else [workload.groups[0].queries]
        certificate = map(np.array, again.parameters["certificate"])
        bound = np.prod([lower_bound(gram(f), c) for f, c in zip(factors, certificate, strict=True)])
        assert np.sqrt(bound / len(workload)) == pytest.approx(again.parameters["bound"])
        assert not (tmp_path / str(i) / "synthetic.csv").exists()
        answer = release.answer("a in 2..4")
        assert answer.value == answer.noisy
        assert np.isnan(release.error_bars(Workload.predicates(domain, "c = 1"))).all()
        with pytest.raises(InvalidInput, match="contains the columns c"):
            release.answer("c = 1")
        with pytest.raises(InvalidInput, match="no table"):
            release.synthetic(10)


def test_the_number_of_records_is_public_under_replace_one():
    table = random_table(coded(6), 123, 1)
    draft = Matrix().release(private(table, COST, SWAP), Workload.ranges(coded(6), "a"), COST)
    assert draft.synopsis.total == 123


@pytest.mark.parametrize("sets", [[()], [(), ("a",)]], ids=["alone", "beside others"])
def test_the_number_of_records_can_be_asked(sets):
    table = random_table(coded(6, 2), 123, 1)
    workload = Workload.marginals(table.domain, sets)
    draft = Matrix().release(private(table, ZCDP(50.0), ADD, Entropy.insecure(3)), workload, ZCDP(50.0))
    assert abs(draft.synopsis.answer(workload)[0] - 123) < 2


@pytest.mark.parametrize(
    ("workload", "cost", "error", "message"),
    [
        (Workload.ranges(coded(9), "a"), PureDP(1.0), InvalidInput, "needs a delta above 0"),
        (Workload.ranges(coded(9), "a"), ApproxDP(1.0, 0.0), InvalidInput, "needs a delta above 0"),
        (Workload.ranges(coded(9), "a"), "cheap", InvalidInput, "the cost must be"),
        (Workload.ranges(coded(9), "a"), ZCDP(1e-30), InvalidInput, "under noise beyond"),
        (
            Workload.ranges(coded(1025), "a"),
            COST,
            TooLarge,
            "at most 1,024 combinations of values, or.*boxes.*are 1,025",
        ),
        (Workload.boxes(coded(2, 1025), ["a", "b"]), COST, TooLarge, "here are 1,025"),
        (Workload.marginals(coded(*(2,) * 11), 2), COST, TooLarge, "here are 2,048"),
        (Workload.predicates(coded(3), "a in {}"), COST, InvalidInput, "the queries are all zero"),
    ],
)
def test_what_is_refused_before_any_charge(workload, cost, error, message):
    with pytest.raises(error, match=message):
        Matrix().check(workload, cost, ADD)


def test_ten_columns_of_two_still_fit():
    assert best_strategy(Workload.marginals(coded(*(2,) * 6), 2)).error > 1


# --- privacy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("name", ["small boxes", "mixed"])
def test_the_measured_rows_move_as_far_as_their_noise_is_made_for(name, relation):
    workload = WORKLOADS["mixed"] if name == "mixed" else Workload.boxes(coded(3, 4), ["a", "b"])
    table = random_table(workload.domain, 3, 1)

    def run(records, entropy):
        return Matrix().release(private(records, COST, relation, entropy), workload, COST).measurements[0].values

    _, variance = noise_for(best_strategy(workload).measured, COST, relation)
    unit = best_strategy(workload).measured.groups[0].queries.unit
    sigma = analytic_gaussian_sigma(1, COST.epsilon, COST.delta)
    declared = float(variance) ** 0.5 * unit / sigma
    found = audit_sensitivity(run, table_pairs(table, relation), declared, order=2)
    assert not found.convicted
    assert found.found > 0.8 * found.declared
    assert audit_sensitivity(run, table_pairs(table, relation), 0.999 * found.found, order=2).convicted


@pytest.mark.parametrize("relation", BOTH)
def test_the_mechanism_is_acquitted_as_a_whole(relation):
    found = audit_mechanism(Matrix(), ApproxDP(4.0, 1e-3), relation, samples=1_000, entropy=Entropy.insecure(9))
    assert not found.convicted
