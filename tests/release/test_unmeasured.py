"""What is said of synthetic records that they are not made from."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from releases import PAIRS, released
from worlds import PEOPLE, coded

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.inference.synopsis import MISSED
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import ZCDP, ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.few_records import few_records
from qrelease.release.numbers import uncertain_number
from qrelease.release.report.page import html
from qrelease.release.unmeasured import unlinked_columns, unmeasured_sets, what_records_lack


def test_columns_that_were_counted_apart_are_said_to_be_independent():
    pairs, alone = Workload.marginals(PEOPLE, [["sex", "age"], ["grade"]]), Workload.marginals(PEOPLE, 1)
    said = "not counted together, and so independent of each other in synthetic records: "
    assert what_records_lack(released(Laplace(), asked=pairs)) == (f"{said}sex, age; grade",)
    assert what_records_lack(released(Laplace(), asked=alone)) == (f"{said}sex; age; grade",)
    linked = Workload.marginals(PEOPLE, [["sex", "age"], ["age", "grade"]])
    assert what_records_lack(released(Laplace(), asked=linked)) == ()
    assert what_records_lack(released(Laplace(), asked=PAIRS)) == ()
    assert not any("independent" in told for told in what_records_lack(released(MaxEnt(), asked=PAIRS)))


def test_some_columns_are_independent_in_a_model_where_nothing_links_them():
    pairs = released(Laplace(), asked=Workload.marginals(PEOPLE, [["sex", "age"], ["grade"]]))
    apart = ": not counted together, and so independent of each other in the model"
    assert unlinked_columns(pairs, (0, 1)) == ""
    assert unlinked_columns(pairs, (0, 2)) == f"sex; grade{apart}"
    assert unlinked_columns(pairs, (0, 1, 2)) == f"sex, age; grade{apart}"
    linked = released(Laplace(), asked=Workload.marginals(PEOPLE, [["sex", "age"], ["age", "grade"]]))
    assert unlinked_columns(linked, (0, 2)) == ""
    assert (
        unlinked_columns(released(Laplace(), asked=Workload.marginals(PEOPLE, [["sex"]])), (0, 2))
        == f"sex; grade{apart}"
    )


def test_columns_that_nobody_asked_about_are_said_to_follow_the_schema():
    (said,) = what_records_lack(released(Laplace(), asked=Workload.marginals(PEOPLE, [["sex", "age"]])))
    assert said == "nothing was measured of grade: synthetic values there follow the schema alone"


def test_of_small_databases_that_measure_answers_nothing_is_said():
    assert what_records_lack(released(SmallDB(size=4), asked=PAIRS)) == ()


def test_a_release_has_in_python_what_the_terminal_says_of_it():
    apart = released(Laplace(), asked=Workload.marginals(PEOPLE, [["sex", "age"]]))
    assert apart.notes[:1] == what_records_lack(apart)
    few = released(Laplace(), asked=PAIRS, cost=PureDP(1e-3))
    assert few.notes == (few_records(few), uncertain_number(few))
    assert few.notes[0].startswith("Half of the answers were measured no better than")
    assert released(Laplace(), asked=PAIRS, cost=PureDP(10.0)).notes == ()


def test_records_that_miss_their_measurements_are_not_to_be_used():
    fitted = released(FittedRecords(weighted_records=4), asked=PAIRS, cost=ApproxDP(50.0, 1e-6))
    assert fitted.synopsis.misfit > MISSED  # four records cannot follow what was measured so closely
    assert f"by {fitted.synopsis.misfit:.3g} times its noise: use the answers" in fitted.notes[-1]
    near = released(FittedRecords(), asked=PAIRS, cost=ApproxDP(1.0, 1e-6))
    assert not any("times its noise" in note for note in near.notes)


def test_that_records_do_not_follow_the_counts_of_questions_is_said():
    asked = ["mean:grade by sex"]
    start = "synthetic records follow the counts of the workload, and not those that were measured for the questions"
    found = released(NumberSums(asked, mechanism=Laplace()), asked=PAIRS)
    (said,) = what_records_lack(found)
    assert said.startswith(start)
    assert f"<p>S{said[1:]}.</p>" in html(found)
    assert what_records_lack(released(NumberSums(asked, mechanism=MaxEnt()), asked=PAIRS)) == ()


def selected(columns, values, records, order, epsilon):
    """A release of marginals that `records` selects, and for which of them it has no noisy answer at all."""
    domain = coded(*[values] * columns)
    table = Table(domain, tuple(np.random.default_rng(0).integers(0, values, (columns, records))))
    asked, cost = Workload.marginals(domain, order), ApproxDP(epsilon, 1e-6)
    with Ledger.open(None, cost) as ledger:
        found = Curator(table, ledger, Entropy.insecure(1)).release(FittedRecords(at_once=False), asked, cost)
    return found, np.isnan(found.published(asked).widths).reshape(len(asked.groups), -1).all(axis=1)


def test_bars_of_marginals_that_were_not_measured_are_said_to_go_down_to_zero():
    found, unmeasured = selected(columns=6, values=3, records=500, order=3, epsilon=0.1)
    assert unmeasured.sum() > 10
    said = unmeasured_sets(found)
    assert said.startswith(f"{unmeasured.sum()} of the 20 marginals were not measured, nor any on more columns")
    assert said in found.notes
    assert f"<p>{said}.</p>" in html(found)
    published = found.published(found.workload)
    low = published.answers - published.bars
    assert (low.reshape(20, -1)[unmeasured] <= 1e-9).mean() > 0.5
    assert unmeasured_sets(released(Laplace(), asked=PAIRS)) == ""
    assert unmeasured_sets(released(MaxEnt(), asked=PAIRS)) == ""


def test_marginals_of_which_a_single_number_was_measured_are_not_taken_for_measured():
    found, unmeasured = selected(columns=8, values=12, records=800, order=2, epsilon=0.3)
    single = {m.group.axes: m for m in found.measurements if len(m.group.axes) == 2 and len(m.values) == 1}
    assert len(single) > unmeasured.sum() > 10
    (half,) = {float(f"{m.noise.half_width(1.0):.3g}") for m in single.values()}
    said = unmeasured_sets(found)
    assert said.startswith(f"{unmeasured.sum()} of the 28 marginals were not measured, nor any on more columns")
    assert f"; of {unmeasured.sum()} of them a single number was measured, to ± {half:.0f} records: how" in said
    known = [{*m.group.axes} for m in found.measurements if m.group.axes and m.group.axes not in single]
    pair = next(axes for axes in single if not any({axes[0]} < axes_of for axes_of in known))
    names = found.domain.names
    assert unlinked_columns(found, pair) == (
        f"{names[pair[0]]}; {names[pair[1]]}: of how they depend on each other a single number was measured"
    )


def test_a_cost_that_promises_hardly_anything_is_said_to():
    few = released(Laplace(), asked=PAIRS, cost=PureDP(21.0))
    assert few.notes == ("epsilon 21 is above 20, and promises next to nothing to anybody",)
    (said,) = released(Laplace(), asked=PAIRS, cost=ApproxDP(10.0, 2e-4)).notes
    assert said.startswith("delta 0.0002 is above 0.0001: the promise may fail with this probability")
    assert "is above 20" in released(Gaussian(), asked=PAIRS, cost=ZCDP(7.0)).notes[0]
    assert not released(Gaussian(), asked=PAIRS, cost=ZCDP(1.0)).notes


@pytest.mark.parametrize("outside", ["clip", "missing"])
def test_that_values_beyond_the_limits_count_as_the_nearest_is_said(outside):
    within, edges = (Fraction(0), Fraction(9)), (0.0, 5.0, 10.0)
    wage = Attribute("wage", "number", edges=edges, within=within, step=Fraction(1), missing=("",), outside=outside)
    domain = Domain((wage, Attribute("sex", "category", categories=("f", "m"))))
    table = Table.from_frame(pd.DataFrame({"wage": [4, 90] * 20, "sex": list("fm") * 20}), domain)
    for asked, told in (("mean:wage by sex", outside == "clip"), ("count by sex", False)):
        workload = Workload.marginals(domain, 1) + Workload.numbers(domain, asked)
        with Ledger.open(None, PureDP(1.0)) as ledger:
            found = Curator(table, ledger, Entropy.insecure(0)).release(NumberSums(), workload, PureDP(1.0))
        said = "values of wage outside of 0 to 9 count as the nearest of these, by the schema: its means and sums"
        assert any(note.startswith(said) for note in found.notes) == told
