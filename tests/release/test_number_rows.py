"""Lines of numbers: one for each group of each question, with the labels and the values of its answer."""

from itertools import groupby

import numpy as np
import pytest
from number_releases import ASKED, with_numbers
from releases import released

import qrelease as qr
from qrelease.release.number_rows import COLUMNS, number_rows


def lines(rows):
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def lines_of(text):
    return [row for row in lines(number_rows(with_numbers())) if row["question"] == text]


def test_questions_come_in_order_each_with_all_of_its_groups():
    together = groupby(number_rows(with_numbers()), lambda row: row[0])
    found = [(text, [row[1] for row in rows]) for text, rows in together]
    assert [len(row) for row in number_rows(with_numbers())] == [len(COLUMNS)] * (4 + 4 + 1)
    questions = [str(question) for question in with_numbers().measured_sums.questions]
    assert [text for text, _ in found] == questions
    groups = dict(zip(ASKED, (groups for _, groups in found), strict=True))
    assert groups["mean:delay by carrier*late"] == ["A & B * no", "A & B * yes", "UA * no", "UA * yes"]
    assert groups["quantile(0.5,0.9):delay by carrier"] == [
        f"{carrier} (quantile {p})" for carrier in ("A & B", "UA") for p in (0.5, 0.9)
    ]
    assert groups["sum:delay"] == ["all"]


@pytest.mark.parametrize("place", range(len(ASKED)))
def test_values_are_those_of_the_answer_to_six_digits(place):
    release = with_numbers()
    question = release.measured_sums.questions[place]
    answer = release.measured_sums.answer(question, release.measurements)
    rows = lines_of(str(question))
    for name, numbers in (
        ("value", answer.model),
        ("low", answer.model_low),
        ("high", answer.model_high),
        ("unbiased", answer.value),
        ("unbiased_low", answer.low),
        ("unbiased_high", answer.high),
    ):
        assert [float(row[name]) for row in rows] == pytest.approx(numbers.tolist(), rel=1e-5, nan_ok=True)
    assert {row["note"] for row in rows} == {answer.way or answer.note}
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows)


def test_a_group_of_missing_values_is_not_named_as_everybody():
    attributes = (
        qr.Attribute("pay", "coded", codes=9, ordered=True),
        qr.Attribute("town", "category", categories=("A", "B"), missing=("",)),
    )
    domain = qr.Domain(attributes)
    table = qr.Table(domain, (np.arange(90) % 9, np.arange(90) % 3))
    with qr.Ledger.open(None, qr.ZCDP(1.0)) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
        sums = qr.NumberSums(["mean:pay by town", "mean:pay"])
        made = curator.release(sums, qr.Workload.marginals(domain, [["town"]]), qr.ZCDP(1.0))
    assert [row[1] for row in number_rows(made)] == ["A", "B", "(missing)", "all"]


def test_a_release_without_sums_has_no_lines():
    assert list(number_rows(released())) == []


def test_a_line_whose_interval_is_all_that_the_bounds_allow_says_so():
    told = {"too much noise for so few records: the interval is all that the column's bounds allow"}
    noisy = lines(number_rows(with_numbers(rho=1e-8)))
    bounded = [row for row in noisy if not row["question"].startswith("sum")]
    assert {row["note"] for row in bounded if (float(row["low"]), float(row["high"])) == (0, 8)} == told
    assert len([row for row in bounded if row["note"]]) >= 2
    assert {row["note"] for row in noisy if row["question"].startswith("sum")} == {""}  # sums have no bounds


def test_a_line_whose_value_noise_moved_to_a_bound_says_so():
    asked = ("mean:delay by carrier*late", "variance:delay by carrier*late", "ratio:delay < 1 by carrier*late")
    shares = lines(number_rows(with_numbers(rho=1e-4, asked=asked)))[-4:]
    told = "noise moved the value to a bound of the column: only the interval says something"
    assert [row["note"] for row in shares] == ["", "", told, ""]
    assert (shares[2]["value"], shares[2]["low"]) == ("0", "0")
    assert 0.1 < float(shares[2]["high"]) < 1


@pytest.mark.parametrize("mechanism", [None, qr.MaxEnt()])
def test_a_histogram_has_a_line_for_each_cell_with_a_value(mechanism, tmp_path):
    """Some records have none, which are counted and are in no line."""
    release = with_numbers(asked=("mean:delay by carrier", "histogram:delay by carrier"), mechanism=mechanism)
    found = [row[1] for row in number_rows(release) if row[0].startswith("histogram")]
    assert found == [f"{carrier} * {cell}" for carrier in ("A & B", "UA") for cell in range(9)]
    release.save(tmp_path / "out")
    # Its noise is of a seed, and nothing else is found.
    assert [c.name for c in qr.verify(tmp_path / "out").checks if c.holds is False] == ["noise source"]
