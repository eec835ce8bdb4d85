"""What a card and a page say of a mechanism's parameters is in words."""

import numpy as np
import pytest

import qrelease as qr
from qrelease.release.parameter_words import in_words, shown
from qrelease.release.report.page import html


def test_names_and_values_are_as_a_reader_would_write_them():
    assert in_words({"to_choose": 0.5, "weighted_records": 9}) == {
        "to choose the mechanism": 0.5,
        "weighted records": 9,
    }
    assert [shown(v) for v in (True, False, None, 1 / 3, {"table": False}, [])] == [
        "yes", "no", "by its rule", 0.3333,
        "only mechanisms that give a synthetic table were taken into account: no", "none"
    ]  # fmt: skip


@pytest.mark.parametrize("cost", [qr.ZCDP(0.002), qr.PureDP(0.1)], ids=str)
def test_errors_are_told_in_the_unit_that_they_have(cost):
    """In records where the plan has no bound, as of Laplace noise; else in units of sigma, which is 15.8 records."""
    domain = qr.Domain.coded({"a": 3, "b": 2})
    workload, sigma = qr.Workload.marginals(domain, 2), (2 * 0.002) ** -0.5
    table = qr.Table(domain, (np.arange(600) % 3, np.arange(600) % 2))
    with qr.Ledger.open(None, cost) as ledger:
        made = qr.Curator(table, ledger, qr.Entropy.insecure(2)).release(qr.MaxEnt(), workload, cost)
    told = {name: value for name, value in in_words(made.parameters).items() if name.startswith("error of unbiased")}
    ((name, error),) = told.items()
    deviation = made.error_bars()[1][0] / 1.96
    if cost == qr.ZCDP(0.002):
        assert name.endswith("in units of the σ that one count needs")
        assert error * sigma == pytest.approx(deviation, rel=0.02)
    else:
        assert name.endswith("records (root mean square)")
        assert error == pytest.approx(deviation, rel=0.1)


def test_a_page_has_no_names_of_the_code():
    cost, table = qr.PureDP(1.0), qr.data.adult(["sex", "income"])
    with qr.Ledger.open(None, cost) as ledger:
        made = qr.Curator(table, ledger, qr.Entropy.insecure(2)).release(
            qr.Auto(table=False), qr.Workload.marginals(table.domain, 1), cost
        )
    page = html(made)
    assert {"table", "to_choose"} <= made.parameters.keys()
    assert "<th scope=row>only mechanisms that give a synthetic table were taken into account</th><td>no</td>" in page
    assert "to_choose" not in page
