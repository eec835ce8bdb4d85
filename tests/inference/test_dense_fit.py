"""The fit of weighted records with the whole of J."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fits import answers, estimates_of
from worlds import coded, random_table, true_answers

from qrelease.inference import dense_fit, maxent
from qrelease.inference.dense_fit import fit_densely
from qrelease.privacy import ZCDP


@pytest.mark.parametrize("rho", [0.1, 10.0])
def test_the_whole_of_j_gives_what_the_histogram_of_maximum_entropy_says(rho):
    table = random_table(coded(4, 4, 4, 4), 500, 1)
    estimates, workload = estimates_of(table, ZCDP(rho), order=3)
    true = true_answers(workload, table)
    histogram = maxent.fit_histogram(estimates)[0]
    dense = histogram.answer(workload)
    found = answers(fit_densely(estimates, 20_000, rng=np.random.default_rng(1)), table.domain, workload)
    assert np.abs(found - dense).mean() < 0.15 * np.abs(dense - true).mean()


def test_a_round_without_a_solution_leaves_the_last_one_with_its_records(monkeypatch):
    table = random_table(coded(4, 3, 5), 2_000, 1)
    estimates, _ = estimates_of(table, ZCDP(10.0))
    settled = partial(fit_densely, estimates, 8_000)
    with monkeypatch.context() as patch:
        patch.setattr(maxent, "SOLVER", replace(maxent.SOLVER, solved_rounds=1))
        once = settled(rng=np.random.default_rng(1)).chains
    solve, solved = maxent.solve, []

    def lost(model, newton):
        """Solves once, and then leads the records so far away that they are drawn anew."""
        if solved:
            model.move(model.interactions + 3 * np.random.default_rng(0).normal(size=len(model.target)))
            assert model.chains.even < dense_fit.SETTINGS.worn_evenness
            model.fisher(np.random.default_rng(0))
            return np.inf, model.target
        error, z = solve(model, newton)
        if error <= maxent.CLOSE:
            solved.append(error)
        return error, z

    monkeypatch.setattr(maxent, "solve", lost)
    found = settled(rng=np.random.default_rng(1)).chains
    assert (found.codes == once.codes).all()
    np.testing.assert_allclose(found.weights, once.weights, rtol=1e-9)


def test_where_the_whole_of_j_gives_no_solution_the_fit_does_without(monkeypatch):
    table = random_table(coded(4, 3, 5), 2_000, 1)
    estimates, workload = estimates_of(table, ZCDP(0.02))
    monkeypatch.setattr(dense_fit, "by_evidence", lambda *_: None)
    found = answers(fit_densely(estimates, 8_000, rng=np.random.default_rng(1)), table.domain, workload)
    true, noisy = true_answers(workload, table), estimates.answer(workload)[0]
    assert np.abs(found - true).mean() < 1.2 * np.abs(noisy - true).mean()
