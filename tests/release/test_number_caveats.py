"""What is said of answers about numbers whose intervals say nothing, in Python; `test_answer` has the terminal's."""

from functools import cache

import pytest
from worlds import random_table

import qrelease as qr
from qrelease.data.domain import Attribute, Domain
from qrelease.noise.entropy import Entropy

GROUPS = Attribute("carrier", "category", categories=("AA", "UA", "B6")), Attribute("late", "coded", codes=2)
BINNED = Domain((Attribute("delay", "number", edges=(0, 5, 10, 20, 30, 60), integer=True), *GROUPS))
POINTS = Domain((Attribute("delay", "coded", codes=60, ordered=True), *GROUPS))


@cache
def alone(domain):
    """A release whose columns were each counted by themselves."""
    asked, cost = qr.Workload.marginals(domain, 1), qr.PureDP(2.0)
    curator = qr.Curator(random_table(domain, 900, 0), qr.Ledger.open(None, cost), Entropy.insecure(3))
    return curator.release(qr.MaxEnt(), asked, cost)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda r: r.mean("delay", "carrier"), "mean:delay by carrier"),
        (lambda r: r.sum("delay", "carrier", frame="arrow"), "sum:delay by carrier"),
        (lambda r: r.median("delay", "carrier", frame="polars"), "quantile(0.5):delay by carrier"),
        (lambda r: r.quantile("delay", [0.1, 0.9], "carrier"), "quantile(0.1,0.9):delay by carrier"),
        (lambda r: r.variance("delay", "carrier"), "variance:delay by carrier"),
        (lambda r: r.ratio("delay >= 20", "carrier"), "ratio:delay in 20..59 by carrier"),
        (lambda r: r.table("mean:delay by carrier", top=2), "mean:delay by carrier"),
        (lambda r: r.difference("mean:delay by carrier", "AA", "UA"), "mean:delay by carrier"),
    ],
)
def test_an_answer_by_columns_that_are_independent_in_the_model_is_warned_of(ask, text):
    """Once a call, with these columns; so that who makes errors of warnings gets no such answer."""
    release = alone(POINTS)
    with pytest.warns(qr.ModelAloneWarning) as warned:
        ask(release)
    (told,) = [str(one.message) for one in warned]
    assert told.startswith(
        "no interval: the model alone says this, and it may be far off (delay; carrier: not counted together, and so"
        " independent of each other in the model); measure it: numbers=["
    )
    assert told.endswith(f"numbers=['{text}'] of a qr.Synthesizer, or qrelease release --numbers '{text}'")


def test_answers_that_are_measured_or_that_there_are_not_are_not_warned_of():
    release = alone(POINTS)
    release.mean("delay")
    assert set(release.count(["carrier", "late"]).source) == {"model"}  # which has an interval
    assert release.table("mean:delay by carrier", suppress=1e9).value.isna().all()
    assert release.table("mean:delay by carrier", above=0).empty


def test_answers_by_bins_are_measured_by_a_marginal():
    release = alone(BINNED)
    with pytest.warns(qr.ModelAloneWarning) as warned:
        release.mean("delay", "carrier")
    (told,) = [str(one.message) for one in warned]
    assert told.endswith(
        "measure it: workload=qr.Workload.marginals(domain, [['delay', 'carrier']]) of a qr.Synthesizer,"
        " or qrelease release --workload 'marginals:delay*carrier'"
    )
