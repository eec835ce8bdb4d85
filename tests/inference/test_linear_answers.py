"""Answers that follow linearly from measured queries, against a dense matrix and against draws of their noise."""

import numpy as np
import pytest
from worlds import PEOPLE, coded, full_matrix, random_table, true_answers

from qrelease.inference.linear_answers import linear_answers, measured_place, measured_places
from qrelease.inference.measurement import Measurement
from qrelease.noise.distributions import Noise, half_widths
from qrelease.queries.families import Intervals
from qrelease.queries.workload import Workload

LINE = coded(6, 2)


def measured(workload, values, scale=2.0, law="discrete Gaussian"):
    parts = np.split(np.asarray(values, float), workload.bounds[1:-1])
    return [Measurement(g, v, Noise(law, scale)) for g, v in zip(workload.groups, parts, strict=True)]


def test_a_query_is_found_among_those_of_a_family():
    ranges = Intervals(5, 6, prefixes=False)
    for k, (low, high) in enumerate(zip(*ranges.ends, strict=True)):
        row = np.zeros(6)
        row[low : high + 1] = 1
        assert measured_place(ranges, row) == k
    for none in ([1, 0, 1, 0, 0, 0], [0] * 6, [0, 0.5, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]):
        assert measured_place(ranges, np.array(none, float)) is None


def test_a_query_on_fewer_columns_is_found_among_boxes():
    boxes = Workload.boxes(LINE, ["a", "b"])
    (asked,) = Workload.predicates(LINE, "a in 1..3").groups
    ((group, place),) = measured_places(asked, boxes.groups, LINE).tolist()
    assert (group, list(boxes.texts())[place]) == (0, "a in 1..3 and b in {0, 1}")


@pytest.mark.parametrize("law", ["discrete Gaussian", "discrete Laplace"])
def test_what_is_combined_is_the_best_linear_unbiased_answer(law):
    workload = Workload.prefixes(LINE, "a") + Workload.predicates(LINE, "a in 2..3", "b = 0")
    values = true_answers(workload, random_table(LINE, 300, 0)) + np.random.default_rng(1).integers(-3, 4, 8)
    asked = Workload.predicates(LINE, "a in 2..3 or a = 5", "a in 1..4", "a in 0..2", "not a in 0..4")
    rows, wanted = full_matrix(workload), full_matrix(asked)
    weights = rows @ np.linalg.pinv(rows.T @ rows) @ wanted.T
    variance = Noise(law, 2.0).variance
    for k, group in enumerate(asked.groups):
        (value,), (width,) = linear_answers(group, measured(workload, values, law=law), LINE)
        if k == 2:  # measured itself: as it was measured
            assert (value, width) == (values[2], Noise(law, 2.0).half_width())
            continue
        np.testing.assert_allclose(rows.T @ weights[:, k], wanted[k], atol=1e-9)
        assert value == pytest.approx(weights[:, k] @ values)
        order = 1 if law == "discrete Laplace" else 2
        expected = half_widths(np.array([variance * (weights[:, k] ** 2).sum()]), order)
        assert width == pytest.approx(expected[0] + 0.5)  # half a unit for the grid


def test_what_does_not_follow_has_no_answer():
    workload = Workload.ranges(PEOPLE, "age")  # the records without an age lie in no range
    found = measured(workload, np.arange(6))
    for text in ("age is missing", "age in 0..19 or age is missing", "grade = 1", "age in 0..19 and sex = F"):
        (group,) = Workload.predicates(PEOPLE, text).groups
        assert np.isnan(linear_answers(group, found, PEOPLE)).all()
    (group,) = Workload.marginals(PEOPLE, [["age"]]).groups
    values, widths = linear_answers(group, found, PEOPLE)
    assert values.tolist()[:3] == [0, 3, 5]
    assert (np.isnan(values) == np.isnan(widths)).tolist() == [True] * 4
    assert np.isnan(values[3])


def test_the_bars_of_combinations_hold_nineteen_times_out_of_twenty():
    """And those that are 30 % narrower do not."""
    workload, rng = Workload.ranges(LINE, "a"), np.random.default_rng(2)
    table = random_table(LINE, 500, 3)
    truth = true_answers(workload, table)
    asked = Workload.predicates(LINE, "a in 0..1 or a in 3..4")
    wanted, repeats = true_answers(asked, table)[0], 2_000
    off = []
    for _ in range(repeats):
        noisy = measured(workload, truth + np.rint(rng.normal(0, 5, len(truth))), 5.0)
        (value,), (width,) = linear_answers(asked.groups[0], noisy, LINE)
        off.append(abs(value - wanted) / width)
    assert 0.935 < np.mean(np.array(off) <= 1) < 0.965
    assert np.mean(np.array(off) <= 0.7) < 0.9
