"""Tables of the report: rows that are shown and counted, and texts that cannot become markup."""

import re

import pytest

from qrelease.release.report.tables import LISTED, OPEN, folded, html_table, pairs


@pytest.mark.parametrize(
    ("rows", "whole", "more"),
    [(3, None, None), (LISTED, None, None), (LISTED + 7, None, LISTED + 7), (5, LISTED + 1_000, LISTED + 1_000)],
)
def test_what_is_left_out_is_counted(rows, whole, more):
    page = html_table({"query": False, "count": True}, [[f"q{i}", str(i)] for i in range(rows)], whole)
    assert page.count("<tr>") == 1 + min(rows, LISTED)
    assert re.findall(rf"the first {LISTED} of ([\d,]+) rows: the manifest", page) == (
        [] if more is None else [f"{more:,}"]
    )
    assert page.count("<td class=n>") == min(rows, LISTED)


def test_names_are_texts_and_no_markup():
    for page in (html_table({"<b>&": True}, []), pairs({"<b>&": "<i>&"})):
        assert "<b>" not in page
        assert "&lt;b&gt;&amp;" in page
    assert "<i>" not in pairs({"a": "<i>"})


def test_long_blocks_are_folded():
    assert folded("s", OPEN) == "<details open><summary>s</summary>"
    assert folded("s", OPEN + 1) == "<details><summary>s</summary>"
