"""Separate noisy answers: which of them answers a query, and the histogram that records are drawn from."""

import json

import numpy as np
import pytest
from worlds import (
    PEOPLE,
    coded,
    random_table,
    true_answers,
)

from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.inference.noisy_answers import Answers
from qrelease.noise.distributions import Noise
from qrelease.queries.workload import Group, Workload


def test_answers_are_read_from_the_narrowest_marginal_that_holds_them():
    asked = Workload.marginals(PEOPLE, [["sex", "age"], ["age"], ["sex", "grade"]])
    values = np.concatenate([np.arange(8.0), np.full(4, 100.0), np.arange(6.0)])
    held = Answers(asked, values, 28.0, ())
    assert held.answer(Workload.marginals(PEOPLE, [["age"]])).tolist() == [100.0] * 4
    assert held.answer(Workload.predicates(PEOPLE, "age in 0..39")).tolist() == [200.0]
    assert held.answer(Workload.marginals(PEOPLE, [["grade"]])).tolist() == [3.0, 5.0, 7.0]
    assert held.answer(Workload.predicates(PEOPLE, "sex = M and age is missing")).tolist() == [7.0]
    for wrong in (
        Workload.marginals(PEOPLE, [["age", "grade"]]),
        Workload.predicates(PEOPLE, "age in 0..19 or grade = 1"),
    ):
        with pytest.raises(InvalidInput, match="no released marginal contains the columns age, grade"):
            held.answer(wrong)


def test_answers_of_another_domain_are_refused():
    """Codes of equal sizes but other meanings: the number would be right, and the answer wrong."""
    held = Answers(Workload.marginals(coded(2, 3), 1), np.arange(5.0), 10.0, ())
    with pytest.raises(InvalidInput, match="another domain"):
        held.answer(Workload.marginals(PEOPLE, [["sex"]]))


def test_a_group_need_not_be_in_the_order_of_the_workload():
    asked = Workload.marginals(PEOPLE, 1)
    held = Answers(asked, np.arange(9.0), 10.0, ())
    turned = Workload(PEOPLE, tuple(Group(g.axes, g.queries) for g in reversed(asked.groups)))
    assert held.answer(turned).tolist() == [6, 7, 8, 2, 3, 4, 5, 0, 1]


def measured(workload, values):
    parts = np.split(np.asarray(values, float), workload.bounds[1:-1])
    return tuple(Measurement(g, v, Noise("discrete Laplace", 0.1)) for g, v in zip(workload.groups, parts, strict=True))


def test_records_are_drawn_from_a_histogram_with_the_measured_marginals():
    """Drawing them changes no answer, consistent or not."""
    table = random_table(PEOPLE, 3_000, 1)
    asked = Workload.marginals(PEOPLE, 2)
    truth = true_answers(asked, table)
    values = truth + np.random.default_rng(0).normal(0, 1, len(truth))
    held = Answers(asked, values, 3_000.0, measured(asked, values))
    drawn = Table(PEOPLE, tuple(held.sample(3_000, np.random.default_rng(2))))
    assert np.abs(held.histogram.answer(asked) - truth).max() < 10
    assert np.abs(true_answers(asked, drawn) - truth).sum() / 3_000 < 0.1 * len(asked.groups)
    assert held.answer(asked).tolist() == values.tolist()


def test_of_no_records_at_all_there_is_a_histogram_still():
    """A noisy number of records may be negative."""
    asked = Workload.marginals(PEOPLE, 1)
    held = Answers(asked, np.full(9, -3.0), -6.0, measured(asked, np.full(9, -3.0)))
    assert [len(column) for column in held.sample(4, np.random.default_rng(0))] == [4, 4, 4]
    assert held.histogram.total == 1.0


def test_saved_ones_come_back_with_the_last_measurement_of_each_of_their_groups():
    asked = Workload.marginals(PEOPLE, [["sex"], ["grade"]])
    first, last = measured(asked, [1, 2, 3, 4, 5]), measured(asked, [6, 7, 8, 9, 10])
    records = Measurement(RECORDS, np.array([15.0]), Noise("discrete Laplace", 3.0))
    held = Answers(asked, np.arange(6.0, 11.0), 15.5, last)
    again = Answers.from_json(asked, json.loads(json.dumps(held.to_json())), (records, first[0], *last))
    assert again.total == 15.5
    assert again.values.tolist() == held.values.tolist()
    assert again.measurements == last
