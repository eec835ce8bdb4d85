"""Scores that are learned from outputs: each is what it says it is, and is large where the first input is likelier."""

import re

import numpy as np
import pytest

from qrelease.evaluation.audit.cells import BinnedColumn, log_ratio
from qrelease.evaluation.audit.features import Reading
from qrelease.evaluation.audit.scores import learned_scores

INF = float("inf")


def learned(first, second):
    """The scores by what they say of a range, the columns of both inputs, and how they are read."""
    reading = Reading.of(first, second)
    columns = reading.columns(first), reading.columns(second)
    return {score.describe(0.5, 0.75): score for score in learned_scores(reading, *columns)}, columns, reading


def one(scores, words):
    (found,) = (score for said, score in scores.items() if words in said)
    return found


def test_a_number_is_a_score_and_so_is_its_negative():
    scores, (first, _), _ = learned(np.arange(5.0), np.arange(5.0) + 1)
    assert one(scores, "the output is at least 0.5 and at most 0.75").of(first).tolist() == [0, 1, 2, 3, 4]
    assert one(scores, "the output is at least -0.75 and at most -0.5").of(first).tolist() == [0, -1, -2, -3, -4]


def test_words_have_no_order():
    scores, _, _ = learned(["yes", "no", "no"] * 10, ["no", "yes", "yes"] * 10)
    assert not [said for said in scores if "at least" in said]
    (found,) = scores.values()
    assert found.describe(0.1, INF) == "the output is 'no'"


def test_the_linear_score_is_fishers_of_two_normal_laws():
    rng = np.random.default_rng(0)
    covariance, step = np.array([[4.0, 1.5], [1.5, 1.0]]), np.array([0.5, -0.25])
    noise = rng.multivariate_normal([0, 0], covariance, size=(2, 40_000))
    scores, (first, second), _ = learned(noise[0] + step, noise[1])
    linear = one(scores, "standardised")
    best = np.linalg.solve(covariance, step)  # the likelihood ratio is a function of this product
    both = np.concatenate([first, second])
    assert np.corrcoef(linear.of(both), both[:, :2] @ best)[0, 1] > 0.999
    assert linear.of(first).mean() > linear.of(second).mean()
    said = linear.describe(-INF, 0.0)
    shown = {int(i): float(weight) for weight, i in re.findall(r"([+-][\d.]+) \* \(number (\d) of the output\)", said)}
    assert [shown[0], shown[1]] == pytest.approx(best, rel=0.05)
    assert said.endswith(", standardised, is at most 0")


def test_a_number_that_never_changes_or_is_infinite_does_no_harm():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 500, 3))
    first[:, 1] = second[:, 1] = 7.0
    first[::5, 2], second[::7, 2] = np.inf, np.nan
    scores, columns, _ = learned(first, second)
    linear = one(scores, "standardised")
    assert all(np.isfinite(linear.of(side)).all() for side in columns)
    assert "number 1 of" not in linear.describe(0, 1)


def test_the_product_adds_the_ratios_of_all_numbers():
    rng = np.random.default_rng(2)
    first, second = rng.integers(0, 3, (200, 2)), rng.integers(0, 4, (200, 2))
    scores, columns, reading = learned(first, second)
    cells = [BinnedColumn.of(i, name, columns[0][:, i], columns[1][:, i], {}) for i, name in enumerate(reading.names)]
    expected = sum(column.ratio[column.codes(columns[1])] for column in cells)
    assert one(scores, "sum of log likelihood ratios").of(columns[1]) == pytest.approx(expected)


def test_whole_outputs_count_where_they_were_seen_twice():
    first = np.array([[1, 2]] * 30 + [[0.0, 5]] * 2 + [[9, 9]])
    second = np.array([[1, 2]] * 4 + [[-0.0, 5]] * 20 + [[2, 1]] * 11)
    scores, _, reading = learned(first, second)
    outputs = one(scores, "the output is new")
    asked = reading.columns(np.array([[1.0, 2], [0, 5], [2, 1], [9, 9], [3, 3]]))
    ratios = log_ratio(np.array([30, 2, 0]), np.array([4, 20, 11]))
    assert outputs.of(asked) == pytest.approx([*ratios, 0, 0])
    assert outputs.describe(0.1, INF) == "the output is (1, 2)"
    assert outputs.describe(-INF, -0.1) == "the output is (2, 1) or (0, 5)"


def test_outputs_that_are_all_new_have_no_ratio():
    rng = np.random.default_rng(3)
    scores, columns, _ = learned(*rng.normal(size=(2, 50, 2)))
    assert not one(scores, "the output is new").of(columns[0]).any()
