"""The part of the page about numbers: what its lines say, as text, and nothing where none was asked."""

import numpy as np
from number_releases import ASKED, with_numbers
from pages import Page
from releases import released

import qrelease as qr
from qrelease.mechanisms.maxent import MaxEnt
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


def test_counts_that_are_in_the_answers_too_are_the_same_here():
    release = with_numbers(asked=("count by carrier", "count by late"), mechanism=MaxEnt())
    page = number_tables(release)
    for answer in release.marginal("carrier")["answer"]:
        assert f"<td class=n>{answer:.6g}</td>" in page


def test_it_is_said_where_the_rest_of_a_long_table_is():
    """Up to a thousand groups are on the page."""
    domain = qr.Domain.coded({"hours": 9, "place": 1003})
    asked, cost = qr.Workload.marginals(domain, [["hours"]]), qr.ZCDP(1.0)
    with qr.Ledger.open(None, cost) as ledger:
        curator = qr.Curator(qr.Table(domain, (np.arange(1003) % 9, np.arange(1003))), ledger, qr.Entropy.insecure(1))
        page = number_tables(curator.release(qr.NumberSums(["mean:hours by place"], mechanism=MaxEnt()), asked, cost))
    assert page.count("<tr>") == 1001
    assert "these are the first 1,000 of 1,003 rows: all are in the file <em>numbers</em>" in page
