"""What is said of synthetic records that they are not made from."""

from releases import PAIRS, released
from worlds import PEOPLE

from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.queries.workload import Workload
from qrelease.release.report.page import html
from qrelease.release.unmeasured import what_records_lack


def test_columns_that_were_measured_with_no_other_are_said_to_be_independent():
    pairs, alone = Workload.marginals(PEOPLE, [["sex", "age"], ["grade"]]), Workload.marginals(PEOPLE, 1)
    (said,) = what_records_lack(released(Laplace(), asked=pairs))
    assert said == "in synthetic records grade is independent of all others: measured with no other column"
    (said,) = what_records_lack(released(Laplace(), asked=alone))
    assert said == "in synthetic records all columns are independent of each other: measured with no other column"
    assert what_records_lack(released(Laplace(), asked=PAIRS)) == ()
    assert not any("independent" in told for told in what_records_lack(released(MaxEnt(), asked=PAIRS)))


def test_that_records_do_not_follow_measured_sums_is_said():
    found = released(NumberSums(["mean:grade by sex"], mechanism=MaxEnt()), asked=PAIRS)
    (said,) = what_records_lack(found)
    assert said.startswith("synthetic records follow counts, in bins, and not the sums")
    assert f"<p>S{said[1:]}.</p>" in html(found)
    assert "in bins, and not the sums" not in html(released(MaxEnt(), asked=PAIRS))
