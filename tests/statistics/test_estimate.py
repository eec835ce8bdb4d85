"""An estimate: saved and read back, and what its page and its lines say."""

import json
from dataclasses import replace

import numpy as np
import pytest

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, QReleaseError
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.costs import Spend
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.base import Measured
from qrelease.statistics.estimate import Estimate
from qrelease.statistics.quantile import Quantile
from tests.statistics.conformance import CASES, estimated, people
from tests.statistics.more_cases import MORE

cases = pytest.mark.parametrize("case", [*CASES, *MORE], ids=str)


@cases
def test_it_is_saved_and_read_back(case, tmp_path):
    found, _ = estimated(case, people(max(400, case.least)))
    found.save(tmp_path / "estimate")
    assert Estimate.load(tmp_path / "estimate") == found
    assert "INSECURE" in (tmp_path / "estimate.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "estimate.json").read_text(encoding="utf-8"))["value"] is not None or not found.value
    with pytest.raises(QReleaseError, match="there already"):
        found.save(tmp_path / "estimate")


HELD = Estimate(
    value=(1.5, 2.25),
    interval=((1.0, 2.0), (2.0, 2.5)),
    method="the reach of the noise",
    covers="<b>the shares</b>",
    confidence=0.95,
    statistic="shares",
    parameters={"column": "a & b", "of": (1, 2)},
    dataset="people",
    neighbours=Neighbours.REPLACE_ONE,
    cost=ApproxDP(0.75, 1e-9),
    spends=(Spend("noise", PureDP(0.5)), Spend("choice", ApproxDP(0.25, 1e-9))),
    measured=(Measured("<script>", (3, 4), "discrete Laplace, scale 2"),),
    choices={"cut": 12.0},
    typical=None,
    promise=0.125,
    unit="ranks",
    at_most=3,
)


def test_its_repr_is_one_short_line():
    assert repr(HELD) == (
        "Estimate(value=(1.5, 2.25), interval=((1, 2), (2, 2.5)), statistic='shares', parameters={column: 'a & b', of:"
        " (1, 2)}, dataset='people', cost=epsilon=0.75, delta=1e-09, promise=0.125, unit='ranks')"
    )
    many = replace(HELD, value=(0.5,) * 99, interval=((0.25, 0.75),) * 99)
    assert len(repr(many)) < len(repr(HELD)) + 99


def test_what_json_says_is_read_back_with_its_types():
    again = Estimate.from_json(json.loads(json.dumps(HELD.to_json(), allow_nan=False)))
    assert again == HELD
    assert (type(again.value), type(again.parameters["of"])) == (tuple, tuple)
    assert again.cost == HELD.cost
    assert again.spends[0].cost == PureDP(0.5)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 0},
        {"neighbours": "cousins"},
        {"cost": {"epsilon": -1}},
        {"measured": [{"what": "x"}]},
        {"more": 1},
        {"spends": [{"epsilon": 1}]},
    ],
    ids=str,
)
def test_a_file_that_is_no_estimate_of_this_version_is_refused(change, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({**HELD.to_json(), **change}))
    with pytest.raises(InvalidInput, match=r"x\.json is no estimate of this version"):
        Estimate.load(tmp_path / "x")
    for text in ("", "[]", "{}", '"text"'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(InvalidInput, match="no estimate of this version"):
            Estimate.load(tmp_path / "x.any")


@pytest.mark.parametrize("there", ["x.json", "x.html"])
def test_neither_file_is_written_where_one_is_there(there, in_folder):
    (in_folder / there).write_text("mine")
    with pytest.raises(InvalidInput, match=f"{there} is there already"):
        HELD.save("x")
    assert [file.name for file in in_folder.iterdir()] == [there]


def test_the_page_and_the_lines_say_the_value_the_promise_and_whose_it_is():
    page, lines = HELD.html(), str(HELD)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "a &amp; b" in page
    assert "INSECURE" not in page + lines
    for said in ("shares  (1.5, 2.25)", "((1, 2), (2, 2.5)), 95%: <b>the shares</b>", "error at most 0.125 ranks"):
        assert said in lines
    assert "epsilon=0.75, delta=1e-09, replace-one of a person with at most 3 records" in lines
    marked = replace(HELD, insecure=True, promise=None, interval=None, least_error=2.0)
    for text in (marked.html(), str(marked)):
        assert "INSECURE" in text
        assert "no bound on the error, though the privacy is as promised" in text
    assert "interval  none" in str(marked)
    assert "least     2: no estimate at this cost has less" in str(marked)


def test_of_groups_each_has_a_line_with_its_label_and_interval():
    domain = Domain(
        (Attribute("age", "coded", codes=10, ordered=True), Attribute("sex", "category", categories=("F", "M")))
    )
    table = Table(domain, (np.arange(400) % 10, np.arange(400) // 10 % 2))
    with Ledger.open(None, PureDP(10.0)) as ledger:
        curator = Curator(table, ledger, Entropy.insecure(1))
        found = curator.estimate(Quantile("age", by=("sex",)), PureDP(5.0))
    _, first, *lines = str(found).splitlines()
    assert first == "quantile  a 0.5-quantile of the values in each cell of sex; with intervals, of all together 95%"
    for line, label, value, (low, high) in zip(lines, ("F", "M"), found.value, found.interval, strict=False):
        assert line.split() == [label, f"{value:g}", f"({low:g},", f"{high:g})"]
