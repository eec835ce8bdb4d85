"""What a card and a page say of a mechanism's parameters is in words."""

import qrelease as qr
from qrelease.release.parameter_words import shown, worded
from qrelease.release.report.page import html


def test_names_and_values_are_as_a_reader_would_write_them():
    assert worded("to_choose") == "to choose the mechanism"
    assert worded("weighted_records") == "weighted records"
    assert [shown(v) for v in (True, False, None, 1 / 3, {"table": False}, [])] == [
        "yes", "no", "by its rule", 0.3333, "a synthetic table was asked for: no", "none"
    ]  # fmt: skip


def test_a_page_has_no_names_of_the_code():
    cost, table = qr.PureDP(1.0), qr.data.adult(["sex", "income"])
    with qr.Ledger.open(None, cost) as ledger:
        made = qr.Curator(table, ledger, qr.Entropy.insecure(2)).release(
            qr.Auto(table=False), qr.Workload.marginals(table.domain, 1), cost
        )
    page = html(made)
    assert {"table", "to_choose"} <= made.parameters.keys()
    assert "<th scope=row>a synthetic table was asked for</th><td>no</td>" in page
    assert "to_choose" not in page
