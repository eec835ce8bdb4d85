"""The report: a page that is whole, safe, the same each time, and says what the release holds."""

import math
import re
import time
from dataclasses import replace

import numpy as np
import pytest
from pages import Page
from reports import mwem, released
from worlds import PEOPLE, coded, mixed

from qrelease.data.domain import Attribute, Domain
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
from qrelease.queries.families import Residuals
from qrelease.queries.oracles import PredicateOracle
from qrelease.queries.vc import small_database_error
from qrelease.queries.workload import Workload
from qrelease.release.reader import load
from qrelease.release.report.page import html
from qrelease.release.report.svg import count, text

EVIL = """<script>alert('1')</script> & "co"\x00\x1b"""
HOSTILE = Domain(
    (
        Attribute(EVIL, "category", categories=(EVIL, "</svg>", "plain")),
        Attribute("day", "date", edges=tuple(range(1000)), missing=("<b>?</b>",)),
        Attribute("'x", "category", categories=tuple(f"{i} {EVIL}" for i in range(30))),
        Attribute("n", "coded", codes=1),
    )
)


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


def test_a_release_that_is_loaded_has_the_same_page(tmp_path):
    """Its error bars are stored to four digits: here the others decide how the median is printed, 6.4 or 6.5."""
    made = released(MaxEnt(), Workload.marginals(PEOPLE, 2), ApproxDP(1.0, 1e-9))
    bars = np.full(len(made.workload), 6.44996)
    made = replace(made, synopsis=replace(made.synopsis, widths=bars))
    made.save(tmp_path / "release")
    assert "± 6.5" in html(made)
    assert html(load(tmp_path / "release")) == html(made)


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
    assert all(spend.what in found and spend.cost.rounded() in found for spend in release.spends)
    with pytest.raises(BudgetExceeded):
        html(replace(release, spends=(*release.spends, Spend("one more", ZCDP(1.0)))))


def test_the_page_shows_no_rounding_dust_and_no_tenths_of_large_numbers():
    rho = ZCDP(0.009999999999999998)
    release = replace(mwem(), spends=(Spend("count everybody", rho),))
    found = Page(html(release)).text
    assert "count everybody 1 rho=0.01 " in found
    (first, *_) = release.measurements
    wide = replace(first, noise=replace(first.noise, scale=1.25e7))
    found = Page(html(replace(release, measurements=(wide,)))).text
    assert f"± {wide.noise.half_width(wide.repeats) / wide.repeats:,.0f}" in found
    assert not re.search(r"± [\d,]{5,}\.\d", found)


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


def test_residuals_are_listed_in_records():
    release = released(MaxEnt(), Workload.marginals(PEOPLE, 2), ZCDP(0.5))
    residuals = [m for m in release.measurements if isinstance(m.group.queries, Residuals)]
    assert residuals
    found = Page(html(release)).text
    said = "Residuals are what counts of some columns say beyond those of fewer"
    assert found.count(said) == 1
    assert said not in Page(html(released(Laplace(), Workload.marginals(PEOPLE, 2), PureDP(0.5)))).text
    for m in residuals:
        drawn = m.noise.half_width(m.repeats) / m.repeats
        assert f"± {drawn / m.group.queries.multiple:,.1f}" in found
        # By itself a residual says no more of a cell than its marginal does, whose interval is of this width.
        asked = Workload(PEOPLE, tuple(g for g in release.workload.groups if set(m.group.axes) <= set(g.axes)))
        assert drawn / m.group.queries.multiple < 2 * release.error_bars(asked)[1].max() < drawn


def test_long_tables_are_cut_and_say_so():
    domain = coded(*[2] * 9)
    release = released(Laplace(), Workload.marginals(domain, 4) + Workload.marginals(domain, 5), PureDP(1.0))
    found = Page(html(release))
    assert "these are the first 200 of 252 rows: the manifest, release.json, has all" in found.text
    assert found.tags["details"] == 2


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
