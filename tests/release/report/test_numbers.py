"""The part of the page about numbers: what its lines say, as text, and nothing where none was asked."""

from number_releases import ASKED, with_numbers
from pages import Page
from releases import released

from qrelease.release.number_rows import number_rows
from qrelease.release.report.numbers import number_tables


def test_every_question_has_a_table_with_a_line_for_each_group():
    release = with_numbers()
    found = Page(number_tables(release))
    assert found.tags["table"] == found.tags["details"] == len(ASKED)
    rows = list(number_rows(release))
    assert found.tags["tr"] == len(ASKED) + len(rows)  # and a header each
    for row in rows:
        group, value, low, high, unbiased, records = (row[i] for i in (1, 2, 3, 4, 5, 8))
        assert f"{group} {value} {low} to {high} {unbiased} {records}" in found.text


def test_labels_are_text_and_no_markup():
    page = number_tables(with_numbers())
    assert "A &amp; B * no" in page
    assert "A & B" not in page


def test_a_release_without_sums_has_no_such_part():
    assert number_tables(released()) == ""
