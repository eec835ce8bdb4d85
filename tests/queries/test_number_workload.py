"""Questions about numbers by name: equal to their texts, joined with counts, released in one charge, or refused."""

import numpy as np
import pytest

import qrelease as qr
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.evaluate import Truth
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.numeric import NumericQuestion

Workload = qr.Workload
DOMAIN = qr.Domain(
    (
        qr.Attribute("carrier", "category", categories=("AA", "UA", "WN")),
        qr.Attribute("origin", "category", categories=("EWR", "JFK")),
        qr.Attribute("dep_delay", "number", edges=(-60.0, 0.0, 60.0, 300.0), integer=True),
        qr.Attribute("arr_delay", "number", edges=(-60.0, 0.0, 60.0, 300.0), integer=True, within=(-60, 299), step=1),
        qr.Attribute("month", "coded", codes=12, ordered=True),
    )
)
GROUPS = ["carrier", "origin"]
NAMED = {
    "mean:arr_delay by carrier*origin where dep_delay >= 0": Workload.means(
        DOMAIN, "arr_delay", by=GROUPS, where="dep_delay >= 0"
    ),
    "sum:arr_delay by carrier where month = 6": Workload.sums(DOMAIN, "arr_delay", by="carrier", where="month = 6"),
    "variance:arr_delay": Workload.variances(DOMAIN, "arr_delay"),
    "quantile(.5,.9):arr_delay by origin": Workload.quantiles(DOMAIN, "arr_delay", (0.5, 0.9), by="origin"),
    "quantile(.5):arr_delay": Workload.quantiles(DOMAIN, "arr_delay"),
    "ratio:dep_delay >= 60 by carrier": Workload.ratios(DOMAIN, "dep_delay >= 60", by="carrier"),
}


@pytest.mark.parametrize("text", NAMED)
def test_a_text_and_a_name_are_the_same_question(text):
    named = NAMED[text]
    assert named == Workload.numbers(DOMAIN, text)
    assert Workload.numbers(DOMAIN, *named.texts) == named
    assert named.questions == (NumericQuestion.parse(DOMAIN, text),)


def test_another_condition_group_or_column_is_another_question():
    means = [Workload.means(DOMAIN, "arr_delay", by=by, where=where) for by in GROUPS for where in ("", "month = 6")]
    assert len({*means, *NAMED.values()}) == len(means) + len(NAMED)


def test_several_columns_are_a_question_each():
    both = Workload.sums(DOMAIN, ["dep_delay", "arr_delay"], by="carrier")
    assert both.texts == ("sum:dep_delay by carrier", "sum:arr_delay by carrier")
    assert len(Workload.ratios(DOMAIN, ["month = 1", "month = 2"])) == 2


def test_numbers_are_joined_with_counts_on_either_side():
    counts, more = Workload.marginals(DOMAIN, 1), Workload.prefixes(DOMAIN, "month")
    means, sums = Workload.means(DOMAIN, "arr_delay"), Workload.sums(DOMAIN, "arr_delay", by="month")
    assert means + sums == NumberWorkload(DOMAIN, (*means.questions, *sums.questions))
    assert counts + means == means + counts == NumberWorkload(DOMAIN, means.questions, counts)
    assert (counts + means) + (more + sums) == counts + more + means + sums
    assert (counts + means).counts == counts


def test_what_cannot_be_joined_or_asked_is_refused_in_a_line():
    means = Workload.means(DOMAIN, "arr_delay")
    other = qr.Domain.coded({"arr_delay": 9, "month": 3})
    for wrong in (
        lambda: means + means,
        lambda: means + Workload.means(other, "arr_delay"),
        lambda: means + Workload.marginals(other, 1),
        lambda: Workload.marginals(other, 1) + means,
        lambda: NumberWorkload(DOMAIN, ()),
        lambda: Workload.numbers(DOMAIN),
        lambda: Workload.means(DOMAIN, "carrier"),
        lambda: Workload.means(DOMAIN, "delay"),
        lambda: Workload.means(DOMAIN, []),
        lambda: Workload.quantiles(DOMAIN, "arr_delay", 1.2),
        lambda: Workload.ratios(DOMAIN, "arr_delay"),
        lambda: Workload.numbers(DOMAIN, "avg:arr_delay"),
        lambda: Workload.parse(DOMAIN, "mean:arr_delay by carrier"),
    ):
        with pytest.raises(InvalidInput) as caught:
            wrong()
        assert "\n" not in str(caught.value)
    wide = qr.Domain.coded({"a": 300, "b": 300, "x": 5})
    with pytest.raises(TooLarge):
        Workload.sums(wide, "x", by=["a", "b"])


# In a release

SMALL = qr.Domain.coded({"hours": 60, "sex": 2, "age": 8})
RNG = np.random.default_rng(5)
TABLE = qr.Table(SMALL, (RNG.binomial(59, 0.5, 4000), RNG.integers(0, 2, 4000), RNG.integers(0, 8, 4000)))
HOURS, SEX = TABLE.columns[0], TABLE.columns[1]
COST = qr.ZCDP(0.5)


def released(workload, mechanism=None, cost=COST):
    with qr.Ledger.open(None, COST, dataset="people") as ledger:
        curator = qr.Curator(TABLE, ledger, qr.Entropy.insecure(2))
        return curator.release(mechanism or qr.Auto(), workload, cost), ledger.spent


def test_one_charge_answers_marginals_and_numbers():
    means, medians = Workload.means(SMALL, "hours", by="sex"), Workload.quantiles(SMALL, "hours", by="sex")
    release, spent = released(Workload.marginals(SMALL, 2) + means + medians)
    assert spent == COST
    assert release.workload == Workload.marginals(SMALL, 2)
    truth = [HOURS[s == SEX].mean() for s in (0, 1)]
    found = release.table(means)
    assert found["source"].tolist() == ["measured"] * 2
    assert np.allclose(found["value"], truth, atol=0.5)
    assert (found["low_95"] - 0.1 < truth).all()
    assert (found["high_95"] + 0.1 > truth).all()
    assert abs(release.answer("sex = 0").value - (SEX == 0).sum()) < 100
    assert release.table(medians).equals(release.median("hours", by="sex"))
    assert release.median("hours", by="sex")["value"].between(28, 31).all()


@pytest.mark.parametrize("mechanism", [qr.Auto(), qr.NumberSums(mechanism=qr.MaxEnt()), qr.NumberSums(["mean:age"])])
def test_numbers_alone_have_the_counts_of_their_groups(mechanism):
    sums = Workload.sums(SMALL, "hours", by="sex", where="age >= 4") + Workload.ratios(SMALL, "hours >= 30")
    release, spent = released(sums, mechanism)
    assert spent == COST
    assert release.workload == Workload.marginals(SMALL, [["sex"], []])
    assert set(sums.texts) <= set(release.measured_sums.questions)
    (share,) = release.table("ratio:hours >= 30")["value"]
    assert abs(share - (HOURS >= 30).mean()) < 0.05


def test_who_measures_what():
    means, counts = Workload.means(SMALL, "hours", by="sex"), Workload.marginals(SMALL, 1)
    assert qr.Auto().measuring(counts + means) == (qr.NumberSums(means.texts, mechanism=qr.Auto()), counts)
    given = qr.NumberSums(["sum:age"], clip={"hours": (0, 40)}, share=0.7)
    both, _ = given.measuring(counts + means)
    assert both == qr.NumberSums(["sum:age", *means.texts], clip={"hours": (0, 40)}, share=0.7)
    alone, groups = qr.Auto().measuring(means)
    assert alone.mechanism is None
    assert groups == Workload.marginals(SMALL, [["sex"]])


def test_what_a_release_cannot_measure_is_refused_before_the_charge():
    binned = Workload.means(DOMAIN, "dep_delay")
    table = qr.Table(DOMAIN, tuple(np.zeros(5, np.int64) for _ in DOMAIN))
    with qr.Ledger.open(None, COST, dataset="flights") as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(2))
        for mechanism, workload in (
            (qr.Auto(), binned),
            (qr.Auto(), Workload.means(SMALL, "hours")),
            (qr.Auto, binned),
            (qr.MaxEnt(), Workload.means(DOMAIN, "arr_delay")),
            (qr.NumberSums(), Workload.marginals(DOMAIN, 1)),
            (qr.Online(), binned),
            (qr.NumberSums(["variance:arr_delay"]), Workload.variances(DOMAIN, "arr_delay")),
        ):
            with pytest.raises(InvalidInput):
                curator.release(mechanism, workload, COST)
            with pytest.raises(InvalidInput):
                curator.check(mechanism, workload, COST)
        assert ledger.spent is None or ledger.spent.rho == 0


def test_other_doors_say_where_numbers_are_asked():
    means = Workload.means(SMALL, "hours", by="sex")
    release, _ = released(means)
    two = means + Workload.sums(SMALL, "hours")
    with qr.Ledger.open(None, qr.PureDP(5.0), dataset="people") as ledger:
        curator = qr.Curator(TABLE, ledger, qr.Entropy.insecure(2))
        session = curator.open(qr.Online(alpha=0.1), qr.PureDP(4.0))
        assert [a.value for a in session.numbers(means)] == [a.value for a in session.numbers("mean:hours by sex")]
        for wrong in (
            lambda: session.answers(means),
            lambda: session.numbers(two),
            lambda: session.numbers(3),
            lambda: release.answer(means),
            lambda: release.answers_frame(means),
            lambda: release.error_bars(means),
            lambda: release.table(two),
            lambda: release.table(3),
            lambda: Truth.of(TABLE, means),
        ):
            with pytest.raises(InvalidInput):
                wrong()


def test_a_plan_tells_of_numbers():
    means = Workload.means(SMALL, "hours", by="sex")
    alone = qr.plan(means, 5000, epsilon=1, delta=1e-9, trials=0)
    named = qr.plan(
        Workload.marginals(SMALL, [["sex"]]), 5000, epsilon=1, delta=1e-9, trials=0, numbers=["mean:hours by sex"]
    )
    assert alone.numbers == named.numbers
    assert [forecast.question for forecast in alone.numbers] == ["mean:hours by sex"]
