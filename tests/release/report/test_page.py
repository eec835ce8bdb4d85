"""The report: a page that is whole, safe, the same each time, and says what the release holds."""

import math
import re
import time
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from worlds import PEOPLE, coded, mixed, random_table

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded
from qrelease.inference.nets import small_databases
from qrelease.inference.update_rules import Projection
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.distinguishers import PerturbedLeader
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.small_db.net import Net
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.costs import Spend
from qrelease.privacy.ledger import Ledger
from qrelease.queries.oracles import PredicateOracle
from qrelease.queries.vc import small_database_error
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.report.page import html
from qrelease.release.report.svg import Series, bars, count, heat, histogram, text

EVIL = """<script>alert('1')</script> & "co"\x00\x1b"""

HOSTILE = Domain(
    (
        Attribute(EVIL, "category", categories=(EVIL, "</svg>", "plain")),
        Attribute("day", "date", edges=tuple(range(1000)), missing=("<b>?</b>",)),
        Attribute("'x", "category", categories=tuple(f"{i} {EVIL}" for i in range(30))),
        Attribute("n", "coded", codes=1),
    )
)

VOID = {"meta", "br"}


def released(mechanism, workload, cost, neighbours="add-remove", dataset="people", entropy=None, rows=400):
    """A release of random records; without an entropy of its own the same every time, though not marked as insecure."""
    table = random_table(workload.domain, rows, seed=1)
    with Ledger.open(None, cost, dataset=dataset, neighbours=neighbours) as ledger:
        made = Curator(table, ledger, entropy or Entropy.insecure(0)).release(mechanism, workload, cost)
    return made if entropy else replace(made, insecure=False, insecure_seed=None)


def mwem(**options):
    return released(MWEM(rounds=2), Workload.marginals(PEOPLE, 2), ApproxDP(1.0, 1e-6), **options)


class Page(HTMLParser):
    """Collects tags, attributes and text, and checks that every tag is closed where it should be."""

    def __init__(self, content):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], Counter(), [], []
        self.feed(content)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def test_the_page_is_whole_and_loads_and_runs_nothing():
    for page in (html(mwem()), html(mwem(), page=False)):
        found = Page(page)
        assert not found.tags.keys() & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
        names = {name for name, _ in found.attributes}
        assert not names & {"src", "href", "xlink:href", "action", "srcset"}
        assert not any(name.startswith("on") for name in names)
        assert "url(" not in page
        assert "@import" not in page
        assert "http" not in page.replace("http-equiv", "")
    assert html(mwem()).startswith('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">')
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in Page(html(mwem())).attributes


@pytest.mark.parametrize("mechanism", [MWEM(rounds=2), Laplace()])
def test_labels_cannot_break_out_of_the_page(mechanism):
    if isinstance(mechanism, MWEM):
        workload = Workload.marginals(HOSTILE, [[EVIL, "'x"]])
        release = released(mechanism, workload, PureDP(1000.0), dataset=EVIL)
    else:
        workload = Workload.marginals(HOSTILE, 2) + Workload.predicates(HOSTILE, "day is not missing")
        release = released(mechanism, workload, PureDP(1000.0), dataset=EVIL)
    release = replace(release, mechanism=EVIL, parameters={EVIL: EVIL}, versions={EVIL: EVIL})
    release = replace(release, spends=tuple(replace(s, what=EVIL) for s in release.spends))
    page = html(release)
    found = Page(page)
    assert "script" not in found.tags
    assert "b" not in found.tags
    assert found.tags["svg"] == 4 + (1 if isinstance(mechanism, MWEM) else 2)  # columns, and pairs that depend
    assert "<script>alert('1')</script> & \"co\"\ufffd\ufffd" in found.text
    assert not re.search("[\x00-\x08\x0b-\x1f]", page)
    page.encode("utf-8")


def test_text_that_no_page_can_hold_is_replaced():
    assert text("a\ud800b\x00<&>\"'") == "a\ufffdb\ufffd&lt;&amp;&gt;&quot;&#x27;"
    assert text("naïve 名 🙂") == "naïve 名 🙂"


def test_the_same_release_gives_the_same_page():
    release = mwem(entropy=Entropy.insecure(1))
    assert html(release) == html(release)
    assert html(release) == html(mwem(entropy=Entropy.insecure(1)))


def test_a_seed_is_unmissable_and_its_absence_is_not_mentioned():
    for page in (True, False):
        insecure = Page(html(mwem(entropy=Entropy.insecure(77)), page=page))
        assert "INSECURE: this release protects nobody. Do not publish it." in insecure.text
        assert "the seed 77" in insecure.text
        assert ("role", "alert") in insecure.attributes
        assert "INSECURE" not in Page(html(mwem(), page=page)).text
    assert "What was promised" in Page(html(mwem())).text
    assert "What was promised" not in Page(html(mwem(entropy=Entropy.insecure(0)))).text


def test_the_notebook_form_is_short_and_styles_only_itself():
    release = mwem()
    fragment = release._repr_html_()
    assert fragment == html(release, page=False)
    assert len(fragment) < 6000
    assert "<html" not in fragment
    assert "epsilon=1, delta=1e-06" in Page(fragment).text
    style = re.search("<style>(.*)</style>", fragment, re.DOTALL).group(1)
    rules = re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"/\*.*?\*/|@media[^{]*", "", style, flags=re.DOTALL))
    assert all(s.strip().startswith(".qrelease") for rule in rules for s in rule.split(","))


@pytest.mark.parametrize(
    ("cost", "factor", "chance", "weak"),
    [
        (PureDP(math.log(3)), "e ε = 3.0", "75.", False),  # randomised response with two fair coins
        (PureDP(1.0), "e ε = 2.72", "73.2 %", False),
        (ApproxDP(1.0, 1e-9), "e ε = 2.72, give or take δ = 1e-09", "73.2 %", False),
        (ApproxDP(1.0, 0.2), "e ε = 2.72, give or take δ = 0.2", "78.5 %", False),  # (e + 0.2) / (e + 1) = 0.78490
        (PureDP(5.0), "e ε = 149.", "99.4 %", True),
        (PureDP(20.0), "e ε = 10 9", "100.0 %", True),
        (ZCDP(0.02), "give or take 1e-09 (this is zero-concentrated privacy with ρ = 0.02)", "55.0 %", False),
    ],
)
def test_the_promise_is_put_into_numbers_that_are_never_too_small(cost, factor, chance, weak):
    release = replace(mwem(), cost=cost, spends=())
    found = Page(html(release)).text
    assert factor in found
    assert f"with probability at most {chance}" in found
    assert ("weak promise" in found) is weak


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_what_a_theorem_promises_of_the_errors_is_said(neighbours):
    asked, cost = Workload.marginals(PEOPLE, 1), PureDP(50.0)
    net, covered = small_databases(PEOPLE, 2), small_database_error(2, len(asked))
    leader = IterativeConstruction(Projection(0.4), PerturbedLeader(PredicateOracle()))
    for mechanism in (SmallDB(size=3), Net(net, covered), IterativeConstruction(), leader):
        release = released(mechanism, asked, cost, neighbours, rows=5000)
        promised = mechanism.error(asked, 5000, cost, release.neighbours, beta=0.05)
        said = release.parameters["promise"]
        assert said["beta"] == 0.05
        assert said["error"] == pytest.approx(5000 * promised, rel=0.03)
        of = "the queries of the oracle" if mechanism is leader else "what was asked"
        found, most = Page(html(release)).text, f"{math.ceil(said['error']):,} records"
        assert f"with probability 0.95 no answer to {of} is off by more than {most}" in found
        assert "'beta'" not in found  # told in words, not among the parameters
        assert ("Of so few records that says nothing" in found) is (said["error"] >= release.synopsis.total)
    found = Page(html(released(Net(net), asked, cost, neighbours))).text
    assert re.search(r"off by more than \d records more than the best choice would be", found)
    nothing = released(IterativeConstruction(), asked, PureDP(0.01), neighbours)
    assert nothing.parameters["promise"] == {"error": None, "beta": 0.05}
    assert "promises nothing for so few records at this cost" in Page(html(nothing)).text
    assert "By the theorem of this mechanism" not in Page(html(mwem())).text


@pytest.mark.parametrize("mechanism", [MaxEnt(), MWEM(rounds=2), Laplace()], ids=lambda m: m.name)
def test_the_page_says_how_accurate_the_answers_are(mechanism):
    found = released(mechanism, Workload.marginals(PEOPLE, 2) + Workload.ranges(PEOPLE, "grade"), ApproxDP(1.0, 1e-6))
    page = html(found)
    section = page[page.index("<h2>How accurate is this") :].split("<h2>What was promised")[0]
    bars = found.model_bars(Workload.marginals(PEOPLE, 2))
    assert f"<td class=n>± {count(float(np.median(bars)))}</td>" in section
    assert f"<td class=n>± {count(float(np.quantile(bars, 0.95)))}</td>" in section
    assert "lie within the error bar of their measurement" in section
    row = page[page.index("<td>grade = 0</td>") :].split("</tr>")[0]
    assert row.count("±") == 2  # of the answer, and of the unbiased one


def test_a_release_that_misses_its_own_measurements_says_so():
    found = released(Laplace(), Workload.marginals(PEOPLE, 1), PureDP(5.0))
    assert "misses its own measurements" not in html(found)
    wrong = tuple(replace(m, values=m.values + 100) for m in found.measurements)
    assert "<strong>This release misses its own measurements.</strong> Only" in html(replace(found, measurements=wrong))


def test_answers_that_are_not_written_can_be_asked_for(monkeypatch):
    monkeypatch.setattr("qrelease.release.report.page.MOST_ANSWERS", 3)
    assert "unless <code>--answers</code> asks for it" in html(mwem())


def test_bins_of_unequal_width_are_drawn_by_density():
    domain = Domain((Attribute("age", "number", edges=(0, 10, 20, 40), integer=True),))
    release = released(Laplace(), Workload.marginals(domain, 1), PureDP(1e6))
    counts = release.answers()
    page = html(release)
    assert "drawn by density" in page
    steps = re.search('class="bar" d="M([^Z]*)Z', page).group(1)
    corners = [tuple(map(float, corner.split())) for corner in steps.split("L")]
    areas = [(x - before) * (130 - y) for (before, _), (x, y) in zip(corners[:6:2], corners[1:6:2], strict=True)]
    np.testing.assert_allclose(np.array(areas) / sum(areas), counts / counts.sum(), rtol=0.02)


def test_a_choice_is_given_with_its_reasons():
    found = released(Auto(), Workload.marginals(PEOPLE, 2), PureDP(1.0))
    page = html(found)
    assert f"from public facts alone: <strong>{found.parameters['chosen']}</strong>" in page
    assert "<td>gaussian</td><td class=n></td><td>cannot run: Gaussian noise" in page
    assert "&#x27;predictions&#x27;" not in page


def test_what_was_drawn_is_said_to_be_all():
    assert "drawn with noise, and choices as the budget lists them; everything else follows" in Page(html(mwem())).text
    direct = released(Laplace(), Workload.marginals(PEOPLE, 1), PureDP(1.0))
    assert "drawn with noise; everything else follows" in Page(html(direct)).text


def test_the_promise_follows_the_neighbouring_relation():
    added, replaced = (Page(html(mwem(neighbours=n))).text for n in ("add-remove", "replace-one"))
    assert "Had that record not been in the table" in added
    assert re.search("records about [0-9]+ queries", added)
    assert "Had that record said anything else" in replaced
    assert "records 400 queries" in replaced
    assert "their number is public" in replaced


def test_groups_are_told_by_the_kind_of_cost():
    release = mwem()
    assert "ε is g times as large, and δ grows faster still." in Page(html(release)).text
    assert "ε is g times as large." in Page(html(replace(release, cost=PureDP(1.0), spends=()))).text
    assert "ρ is g² times as large." in Page(html(replace(release, cost=ZCDP(1.0), spends=()))).text


def test_the_parts_of_the_cost_are_added_up_again():
    release = mwem()
    found = Page(html(release)).text
    assert f"{len(release.spends)} parts come to epsilon=" in found
    assert "within the promised epsilon=1, delta=1e-06." in found
    assert re.search(r"count 1% measure \d\d% select \d\d%", found)
    assert all(spend.what in found and str(spend.cost) in found for spend in release.spends)
    with pytest.raises(BudgetExceeded):
        html(replace(release, spends=(*release.spends, Spend("one more", ZCDP(1.0)))))


def test_parts_in_two_currencies_are_listed_but_not_drawn_to_one_scale():
    release = replace(mwem(), cost=ApproxDP(4.0, 1e-6), spends=(Spend("a", PureDP(1.0)), Spend("b", ZCDP(0.001))))
    page = html(release)
    assert "2 parts come to" in page
    assert 'class="parts"' not in page


def test_every_measurement_is_listed_with_its_noise():
    release = mwem()
    found = Page(html(release)).text
    for m in release.measurements:
        assert " × ".join(PEOPLE.names[a] for a in m.group.axes) in found
        assert f"± {m.noise.half_width(m.repeats) / m.repeats:,.1f}" in found
        assert m.noise.law in found


def test_long_tables_are_cut_and_say_so():
    domain = coded(*[2] * 9)
    release = released(Laplace(), Workload.marginals(domain, 4) + Workload.marginals(domain, 5), PureDP(1.0))
    found = Page(html(release))
    assert "and 52 more" in found.text
    assert found.tags["details"] == 2


def test_columns_are_drawn_with_what_was_measured():
    release = mwem()
    page = html(release)
    pairs = {m.group.axes for m in release.measurements if len(m.group.axes) == 2}
    assert Page(page).tags["svg"] == 3 + len(pairs)
    assert page.count('class="dot"') == sum(PEOPLE.shape)  # singles are measured by themselves
    for axis, name in enumerate(PEOPLE.names):
        values = release.answer(Workload.marginals(PEOPLE, [[name]]))
        label = PEOPLE.attributes[axis].labels[int(values.argmax())]
        assert f'aria-label="{text(name)}: {text(label)} {count(values.max())}' in page


def test_answers_without_a_table_are_drawn_as_far_as_they_go():
    few = Page(html(released(Laplace(), Workload.marginals(PEOPLE, [["sex", "grade"]]), PureDP(1.0))))
    assert few.tags["svg"] == 2 + 1
    assert "1 further columns are not drawn" in few.text
    none = Page(html(released(Laplace(), Workload.ranges(PEOPLE, "grade"), PureDP(1.0))))
    assert none.tags["svg"] == 0
    assert "The columns" not in none.text


def test_other_queries_are_listed_with_their_answers():
    workload = mixed()
    release = released(Gaussian(), workload, ApproxDP(2.0, 1e-6), rows=200)
    found = Page(html(release)).text
    query = "sex = F and age in 0..39"
    (one,) = (t for t in Workload.predicates(PEOPLE, query).texts())
    answer = release.answer(query)
    assert one in found
    assert f"{count(answer.noisy)} ± {count(answer.error)}" in found
    assert all(kind in found for kind in ("ranges", "prefixes", "conditions", "lists of vectors", "marginals"))
    many = released(Laplace(), Workload.ranges(coded(20), "a"), PureDP(1.0))
    assert "and 186 more" in Page(html(many)).text


def test_a_universe_beyond_writing_out_is_a_power_of_two():
    domain = coded(*[2] * 60)
    release = released(Laplace(), Workload.marginals(domain, [["a", "b"]]), PureDP(1.0), rows=30)
    assert "2^60" in Page(html(release)).text


def test_wide_releases_take_less_than_a_second():
    domain = coded(*[3] * 22)
    release = released(Laplace(), Workload.marginals(domain, 3), PureDP(1.0))
    html(release)
    started = time.process_time()
    page = html(release)
    assert time.process_time() - started < 2  # of this process, since the machine is shared; measured: 0.5
    assert len(page) < 500_000


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
