"""Weighted counts by group: the definition, record by record, where what was measured is exact; else nothing."""

import numpy as np
import pytest
from worlds import PEOPLE, random_table, true_answers

from qrelease.queries.functionals import MAX_FUNCTIONALS, NORMAL, between_groups, weighted_counts
from qrelease.queries.numeric import NumericQuestion

TABLE = random_table(PEOPLE, 700, 3)
SEX, AGE, GRADE = (column.astype(int) for column in TABLE.columns)
SIZES = {"age": 3, "grade": 3}


def exact(workload):
    """As if everything had been measured without noise, and error bars were those of a deviation of 2."""
    answers = true_answers(workload, TABLE)
    return answers, np.full(len(answers), 2 * NORMAL)


@pytest.mark.parametrize(
    ("text", "kept", "by"),
    [
        ("sum:age", np.ones(700, bool), np.zeros(700, int)),
        ("sum:age by sex", np.ones(700, bool), SEX),
        ("sum:grade by sex*age", np.ones(700, bool), 4 * SEX + AGE),
        ("sum:grade by age*sex", np.ones(700, bool), 2 * AGE + SEX),
        ("sum:age by sex where grade = 1", GRADE == 1, SEX),
        ("sum:age where age < 40", AGE < 2, np.zeros(700, int)),
        ("sum:age by sex where grade = 1 or age < 20", (GRADE == 1) | (AGE == 0), SEX),  # no product
        ("sum:age by grade where sex = F and age is not missing", (SEX == 0) & (AGE < 3), GRADE),
    ],
)
def test_weighted_counts_are_sums_over_records(text, kept, by):
    question = NumericQuestion.parse(PEOPLE, text)
    name = question.column
    column, cells = (AGE if name == "age" else GRADE), SIZES[name]
    weights = np.array([[1.0] * cells, [0.5, -2.0, 3.0], [0.0] * cells])
    wide = np.concatenate([weights, np.zeros((3, 1))], axis=1)  # what is missing has no weight
    member = kept[None, :] & (by[None, :] == np.arange(question.groups)[:, None])
    expected = np.einsum("gn,fn->gf", member.astype(float), wide[:, column])
    found = weighted_counts(question, weights, exact)
    np.testing.assert_allclose(found.values, expected, atol=1e-2 * 700 / 2**10)
    np.testing.assert_allclose(found.deviations[:, :2], np.broadcast_to([2.0, 6.0], (question.groups, 2)))


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("ratio:grade = 1 by sex", GRADE == 1),
        ("ratio:sex = F by sex", SEX == 0),
        ("ratio:grade = 1 or age < 20 by sex", (GRADE == 1) | (AGE == 0)),
        ("ratio:grade = 1 by sex where age < 40", GRADE == 1),
    ],
)
def test_a_share_is_of_where_its_condition_holds_and_where_it_does_not(text, met):
    kept = AGE < 2 if "where" in text else np.ones(700, bool)
    found = weighted_counts(NumericQuestion.parse(PEOPLE, text), np.eye(2), exact).values
    expected = [[np.sum(kept & (g == SEX) & (met == holds)) for holds in (True, False)] for g in (0, 1)]
    np.testing.assert_allclose(found, expected)


def test_counts_and_running_ones():
    ones = np.ones((1, 1))
    counts = np.bincount(GRADE, minlength=3)
    question = NumericQuestion.parse(PEOPLE, "count by grade")
    assert weighted_counts(question, ones, exact).values[:, 0].tolist() == counts.tolist()
    assert weighted_counts(question, ones, exact, running=True).values[:, 0].tolist() == np.cumsum(counts).tolist()
    some = NumericQuestion.parse(PEOPLE, "count by grade where sex = F or age < 20")
    kept = np.bincount(GRADE[(SEX == 0) | (AGE == 0)], minlength=3)
    assert weighted_counts(some, ones, exact, running=True).values[:, 0].tolist() == np.cumsum(kept).tolist()


def test_several_groups_are_weighted_at_once():
    question = NumericQuestion.parse(PEOPLE, "sum:grade by sex")
    weights = np.array([[[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]]])
    expected = np.sum((GRADE + 1) * np.where(SEX == 0, 1, -1))
    found = between_groups(question, weights, [0, 1], exact)
    assert found.values.shape == (1, 1)
    assert found.values[0, 0] == pytest.approx(expected, abs=1.0)
    assert found.deviations[0, 0] == pytest.approx(6.0)


def test_what_was_not_measured_or_is_too_much_is_no_number():
    def nothing(workload):
        return np.zeros(len(workload)), np.full(len(workload), np.nan)

    question = NumericQuestion.parse(PEOPLE, "sum:age by sex")
    found = weighted_counts(question, np.ones((1, 3)), nothing)
    assert np.isnan(found.values).all()
    assert np.isnan(found.deviations).all()

    def unasked(workload):
        raise AssertionError(workload)

    many = weighted_counts(question, np.broadcast_to(np.ones(3), (MAX_FUNCTIONALS // 2 + 1, 3)), unasked)
    assert many.values.shape == (2, MAX_FUNCTIONALS // 2 + 1)
    assert np.isnan(many.values).all()
