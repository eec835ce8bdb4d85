"""Pictures: bars, areas and shades as large as what they show."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from pages import Page
from worlds import coded

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.entropy import Entropy
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.report.page import html
from qrelease.release.report.svg import Series, bars, count, heat, histogram


def series(values, measured=None, widths=None, labels=None):
    values = np.asarray(values, float)
    nothing = np.full(len(values), np.nan)
    return Series(
        tuple(map(str, labels or range(len(values)))),
        values,
        nothing if measured is None else np.asarray(measured, float),
        nothing if widths is None else np.asarray(widths, float),
    )


def widths_of(svg):
    return [float(w) for w in re.findall(r'class="bar" x="150" y="\d+" width="([\d.]+)"', svg)]


def test_bars_are_as_long_as_their_counts():
    drawn = widths_of(bars("t", series([10, 0, 2.5])))
    assert drawn == [246.0, 0.0, 61.5]


def test_error_bars_end_where_they_should_and_stay_in_the_picture():
    svg = bars("t", series([100, 50], measured=[100, -20], widths=[100, 1000]))
    assert widths_of(svg) == [123.0, 61.5]  # the axis goes to 200, twice the largest value
    lines = [(float(a), float(b)) for a, b in re.findall(r'class="error" d="M([\d.]+) [\d.]+H([\d.]+)"', svg)]
    assert lines == [(150.0, 396.0), (150.0, 396.0)]
    assert re.findall(r'class="dot" cx="([\d.]+)"', svg) == ["273.0", "150.0"]
    assert "measured -20 ± 1,000" in svg


@pytest.mark.parametrize("values", [[0.0], [0, 0, 0], [-3, -1], [1e-300, 0]])
def test_nothing_at_all_can_be_drawn(values):
    for svg in (bars("t", series(values)), histogram("t", series(values, values, [1.0] * len(values)))):
        Page(svg)
        assert "nan" not in svg
        assert "inf" not in svg


def outline(svg, kind):
    path = re.search(rf'class="{kind}" d="M(.*?)Z"', svg).group(1)
    return [tuple(map(float, point.split())) for point in path.split("L")]


def test_a_histogram_is_a_closed_area_of_the_right_height():
    svg = histogram("t", series([1, 4, 2], measured=[2, 2, 2], widths=[1, 1, 1], labels=["first", "mid", "last"]))
    points = outline(svg, "bar")
    assert points[:6] == [(0.0, 97.5), (153.3, 97.5), (153.3, 0.0), (306.7, 0.0), (306.7, 65.0), (460.0, 65.0)]
    assert {y for _, y in points[6:]} == {130.0}
    assert [x for x, _ in points[6:]] == [x for x, _ in points[:6]][::-1]
    assert {y for _, y in outline(svg, "band")} == {32.5, 97.5}
    assert all(label in svg for label in (">first<", ">mid<", ">last<"))


@pytest.mark.parametrize(
    ("edges", "labels"),
    [
        ([0, 10, 20, 50, 100], ["0..9", "50..99"]),  # the last reaches over the middle, and is named once
        ([0, 50, 80, 90, 100], ["0..49", "50..79", "90..99"]),
        ([0, 60, 80, 90, 100], ["0..59", "90..99"]),
        ([0, 100], ["0..99"]),
    ],
)
def test_each_cell_is_named_once_under_a_histogram(edges, labels):
    names = [f"{a}..{b - 1}" for a, b in pairwise(edges)]
    drawn = replace(series([1] * len(names), labels=names), edges=np.array(edges))
    found = re.findall(r'<text x="[\d.]+" y="[\d.]+" text-anchor="\w+">([^<]*)</text>', histogram("t", drawn))
    assert sorted(found) == sorted(labels)


def test_a_histogram_of_too_many_cells_sums_neighbours():
    domain = Domain((Attribute("long", "number", edges=tuple(range(1002)), integer=True, missing=("?",)),))
    records = np.repeat([500, 501, 1001], [70, 30, 40])
    table = Table(domain, (records,))
    with Ledger.open(None, PureDP(1e6)) as ledger:
        curator = Curator(table, ledger, Entropy.insecure(0))
        release = curator.release(Laplace(), Workload.marginals(domain, 1), PureDP(1e6))
    page = html(release)
    assert "missing: 40" in page
    assert 'aria-label="long: 498 70, 501 30' in page  # 498..500, then 501..503
    assert 'class="band"' not in page
    assert len(outline(page, "bar")) == 4 * 334


def test_pure_noise_is_not_drawn_as_a_relation():
    """Independent columns under much noise, and columns that are one and the same under little."""
    domain, rng = coded(4, 6, 5), np.random.default_rng(0)
    records = Table(domain, tuple(rng.integers(0, n, 500) for n in domain.shape))
    twins = coded(4, 4)
    equal = Table(twins, (records.columns[0],) * 2)
    for seed in range(5):
        for mechanism in (Laplace(), MWEM()):
            pages = []
            for table, cost in ((records, PureDP(0.1)), (equal, PureDP(1.0))):
                with Ledger.open(None, cost) as ledger:
                    curator = Curator(table, ledger, Entropy.insecure(seed))
                    pages.append(html(curator.release(mechanism, Workload.marginals(table.domain, 2), cost)))
            assert 'class="heat"' not in pages[0]
            assert "No pair of columns that were measured together depends on each other more" in pages[0]
            assert 'class="heat"' in pages[1]


def test_a_row_of_a_heat_map_with_fewer_records_than_its_noise_is_blank():
    domain = coded(3, 2)
    records = Table(domain, (np.repeat([0, 1], [500, 500]), np.repeat([0, 1], [500, 500])))  # none in row 2
    with Ledger.open(None, PureDP(1.0)) as ledger:
        curator = Curator(records, ledger, Entropy.insecure(1))
        page = html(curator.release(Laplace(), Workload.marginals(domain, 2), PureDP(1.0)))
    assert page.count('class="heat"') == 4


def test_a_heat_map_shades_by_share():
    svg = heat("t", ["r<", "s"], ["c", "d"], np.array([[1.0, 0.0], [0.25, 0.75]]))
    assert re.findall(r'fill-opacity="([\d.]+)"', svg) == ["0.94", "0.04", "0.27", "0.72"]
    assert re.findall(r">(\d+%)<", svg) == ["100%", "25%", "75%"]
    assert "r&lt; → c: 100%" in svg
    blank = heat("t", ["r", "s"], ["c", "d"], np.array([[np.nan, np.nan], [0.25, 0.75]]))
    assert re.findall(r">(\d+%)<", blank) == ["25%", "75%"]


def test_long_labels_are_cut_and_shown_whole_when_pointed_at():
    svg = bars("t", series([1], labels=["a" * 100]))
    assert f"<title>{'a' * 100}</title>" in svg
    assert f">{'a' * 21}…<" in svg


def test_counts_read_as_people_write_them():
    assert [count(v) for v in (0, 3, 3.14, 9.96, 12345.6, -1234.5, -0.25)] == [
        "0", "3", "3.1", "10.0", "12,346", "-1,234", "-0.2",
    ]  # fmt: skip
