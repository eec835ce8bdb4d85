"""What is said of synthetic records that they are not made from."""

from releases import PAIRS, released
from worlds import PEOPLE

from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.queries.workload import Workload
from qrelease.release.report.page import html
from qrelease.release.unmeasured import what_records_lack


def test_columns_that_were_counted_apart_are_said_to_be_independent():
    pairs, alone = Workload.marginals(PEOPLE, [["sex", "age"], ["grade"]]), Workload.marginals(PEOPLE, 1)
    said = "not counted together, and so independent of each other in synthetic records: "
    assert what_records_lack(released(Laplace(), asked=pairs)) == (f"{said}sex, age; grade",)
    assert what_records_lack(released(Laplace(), asked=alone)) == (f"{said}sex; age; grade",)
    linked = Workload.marginals(PEOPLE, [["sex", "age"], ["age", "grade"]])
    assert what_records_lack(released(Laplace(), asked=linked)) == ()
    assert what_records_lack(released(Laplace(), asked=PAIRS)) == ()
    assert not any("independent" in told for told in what_records_lack(released(MaxEnt(), asked=PAIRS)))


def test_columns_that_nobody_asked_about_are_said_to_follow_the_schema():
    (said,) = what_records_lack(released(Laplace(), asked=Workload.marginals(PEOPLE, [["sex", "age"]])))
    assert said == "nothing was measured of grade: synthetic values there follow the schema alone"


def test_of_small_databases_that_measure_answers_nothing_is_said():
    assert what_records_lack(released(SmallDB(size=4), asked=PAIRS)) == ()


def test_that_records_do_not_follow_measured_sums_is_said():
    found = released(NumberSums(["mean:grade by sex"], mechanism=MaxEnt()), asked=PAIRS)
    (said,) = what_records_lack(found)
    assert said.startswith("synthetic records follow counts, in bins, and not the sums")
    assert f"<p>S{said[1:]}.</p>" in html(found)
    assert "in bins, and not the sums" not in html(released(MaxEnt(), asked=PAIRS))
