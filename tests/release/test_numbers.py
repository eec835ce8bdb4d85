"""Answers about numbers from a release: against the definition, with intervals that hold as often as they say."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from worlds import random_table, table_of

import qrelease as qr
from qrelease.data.domain import Attribute, Domain
from qrelease.data.structural_zeros import children_of
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.noise.entropy import Entropy
from qrelease.queries.functionals import NORMAL
from qrelease.queries.numeric import NumericQuestion
from qrelease.release.numbers import difference, numbers, quotient_ends, uncertain_number

EDGES = (0, 5, 10, 20, 30, 60)
BINNED = Domain(
    (
        Attribute("delay", "number", edges=EDGES, integer=True, missing=("NA",)),
        Attribute("carrier", "category", categories=("AA", "UA", "B6", "none")),
        Attribute("late", "category", categories=("no", "yes")),
    )
)
POINTS = replace(
    BINNED, attributes=(Attribute("delay", "coded", codes=60, ordered=True, missing=("NA",)), *BINNED.attributes[1:])
)


def records(seed=0, sizes=(900, 300, 60, 0)):
    """Delays (n,), -1 where missing, carriers and whether late: groups of many, some, few and no records."""
    rng = np.random.default_rng(seed)
    carrier = np.repeat(np.arange(4), sizes)
    delay = np.minimum(rng.exponential(8 + 5 * carrier), 59).astype(int)
    late = (rng.random(len(delay)) < 0.2 + 0.02 * delay).astype(int)
    return np.where(rng.random(len(delay)) < 0.05, -1, delay), carrier, late


@cache
def released(domain, seed, rho=0.02, mechanism=None, workload=None):
    delay, carrier, late = records()
    bins = np.searchsorted(EDGES, delay, side="right") - 1 if domain is BINNED else delay
    table = table_of(domain, np.stack([np.where(delay < 0, domain.shape[0] - 1, bins), carrier, late], axis=1))
    cost = qr.ZCDP(rho) if mechanism is None else qr.PureDP(rho)
    curator = qr.Curator(table, qr.Ledger.open(None, cost), Entropy.insecure(seed))
    asked = workload or qr.Workload.marginals(domain, [["delay", "carrier"], ["delay", "late"]])
    return curator.release(mechanism or qr.Gaussian(), asked, cost)


def truth(text):
    """By the definition, on the records themselves."""
    delay, carrier, _late = records()
    kept = delay >= 0
    groups = range(4) if "carrier" in text else [slice(None)]
    found = []
    for group in groups:
        member = kept & (carrier == group if isinstance(group, int) else kept)
        v = delay[member].astype(float)
        if text.startswith("count"):
            member = carrier == group if isinstance(group, int) else np.ones(len(carrier), bool)
            found.append([member.sum()])
        elif text.startswith("sum"):
            found.append([v.sum()])
        elif text.startswith("ratio"):
            among = carrier == group if isinstance(group, int) else np.ones(len(carrier), bool)
            found.append([(delay[among] >= 20).mean() if among.any() else np.nan])
        elif not len(v):
            found.append([np.nan] * (3 if text.startswith("quantile") else 1))
        elif text.startswith("mean"):
            found.append([v.mean()])
        elif text.startswith("variance"):
            found.append([v.var()])
        else:
            found.append(np.quantile(v, [0.1, 0.5, 0.9], method="inverted_cdf"))
    return np.array(found, float)


TEXTS = [
    "count",
    "count by carrier",
    "sum:delay by carrier",
    "mean:delay by carrier",
    "ratio:delay >= 20 by carrier",
    "quantile(.1,.5,.9):delay by carrier",
    "variance:delay by carrier",
    "mean:delay",
]


@pytest.fixture(scope="module")
def intervals():
    """Of all questions, the values and intervals over 250 seeds, from points and from bins: (seeds, groups, L) each."""
    found = {}
    for name, domain in (("points", POINTS), ("bins", BINNED)):
        releases = [released(domain, seed) for seed in range(250)]
        for text in TEXTS:
            answers = [numbers(r, NumericQuestion.parse(domain, text)) for r in releases]
            found[name, text] = tuple(
                np.stack([getattr(a, part) for a in answers]) for part in ("value", "low", "high")
            )
    return found


def covered(low, high, true):
    there = ~np.isnan(true)
    inside = (low <= true + 1e-9) & (true - 1e-9 <= high)
    return inside[:, there].mean(axis=0)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["points", "bins"])
def test_intervals_hold_as_often_as_they_say(intervals, name, text):
    _, low, high = intervals[name, text]
    covers = covered(low, high, truth(text))
    # 250 seeds: a share of .95 is within .04 of it with probability .995.
    assert covers.min() >= 0.905
    assert covers.mean() >= 0.93


@pytest.mark.parametrize("text", ["count by carrier", "sum:delay by carrier", "mean:delay by carrier", "mean:delay"])
def test_those_of_points_are_no_wider_than_they_must_be(intervals, text):
    """A width that is 30 % less fails the test above, and one that is 30 % more fails this one."""
    value, low, high = intervals["points", text]
    true = truth(text)
    big = (np.arange(len(true)) < 2)[None, :, None] & ~np.isnan(true)
    assert np.average(covered(low, high, true)[: 2 if len(true) > 1 else 1]) <= 0.985
    narrow = [value + 0.7 * (end - value) for end in (low, high)]
    assert np.average(covered(*narrow, true)[: 2 if len(true) > 1 else 1]) <= 0.905
    assert big.any()


def test_values_of_separate_answers_have_no_bias(intervals):
    for text in ("mean:delay by carrier", "sum:delay by carrier", "count by carrier"):
        value, low, high = (part[:, :2] for part in intervals["points", text])
        spread = (high - low).mean(axis=0) / (2 * NORMAL) / np.sqrt(len(value))
        assert (np.abs(value.mean(axis=0) - truth(text)[:2]) < 4 * spread).all()


@pytest.mark.parametrize("text", [*TEXTS, "histogram:delay by carrier", "ratio:delay >= 20 and carrier = AA by late"])
def test_with_hardly_any_noise_points_give_the_definition(text):
    workload = qr.Workload.marginals(POINTS, 3)
    release = released(POINTS, 0, rho=1e9, workload=workload)
    found = numbers(release, NumericQuestion.parse(POINTS, text))
    delay, carrier, late = records()
    if text.startswith("histogram"):
        true = np.array([[((carrier == g) & (delay == c)).sum() for c in range(60)] for g in range(4)], float)
    elif "late" in text:
        true = np.array([[((delay >= 20) & (carrier == 0))[late == g].mean()] for g in range(2)])
    else:
        true = truth(text)
    known = ~np.isnan(true)
    assert np.allclose(found.value[known], true[known])
    assert (found.low[known] <= true[known] + 1e-6).all()
    assert (true[known] - 1e-6 <= found.high[known]).all()


def test_laplace_intervals_hold_too():
    text, domain = "mean:delay by carrier", POINTS
    answers = [
        numbers(released(domain, seed, 0.3, qr.Laplace()), NumericQuestion.parse(domain, text)) for seed in range(250)
    ]
    low, high = (np.stack([getattr(a, part) for a in answers]) for part in ("low", "high"))
    covers = covered(low, high, truth(text))
    assert covers.min() >= 0.905
    assert covers.mean() <= 0.99


def test_an_answer_that_was_not_measured_is_said_to_be_a_models_alone():
    cost = qr.PureDP(5)
    delay, carrier, late = records()
    table = table_of(POINTS, np.stack([np.where(delay < 0, 60, delay), carrier, late], axis=1))
    release = qr.Curator(table, qr.Ledger.open(None, cost), Entropy.insecure(1)).release(
        qr.MaxEnt(), qr.Workload.marginals(POINTS, [["delay", "carrier"], ["delay", "late"]]), cost
    )
    with pytest.warns(qr.ModelAloneWarning) as warned:
        alone = release.mean("delay", ["carrier", "late"])
    assert [str(one.message) for one in warned] == [
        "no interval: the model alone says this, and it may be far off; measure it:"
        " numbers=['mean:delay by carrier*late'] of a qr.Synthesizer,"
        " or qrelease release --numbers 'mean:delay by carrier*late'"
    ]
    assert warned[0].filename == __file__
    assert set(alone.source) == {"model"}
    assert alone.low_95.isna().all()
    assert alone.unbiased.isna().all()
    assert alone.value.notna().all()
    measured = release.mean("delay", "carrier")
    assert measured.source.tolist() == ["measured"] * 3 + ["bounds"]  # the fourth group has no records
    assert (measured.low_95 <= measured.value).all()


@pytest.mark.parametrize("text", ["mean:delay by carrier", "ratio:delay >= 20 by carrier", "sum:delay by carrier"])
def test_a_difference_that_is_a_models_alone_has_no_interval(text):
    """It had one of no width, and was called measured."""
    release = released(POINTS, 3, 2.0, qr.MaxEnt(), qr.Workload.marginals(POINTS, 1))
    with pytest.warns(qr.ModelAloneWarning):
        (found,) = release.difference(text, ["AA"], ["UA"]).itertuples()
    assert np.isnan([found.low_95, found.high_95]).all()
    assert found.source == "model"


def test_an_interval_that_is_all_that_the_bounds_allow_says_so():
    """Under noise that hides every group, means, shares, quantiles and variances are between the bounds alone."""
    noisy, clear = released(POINTS, 0, rho=1e-7), released(POINTS, 0, rho=10.0)
    for text, least, most in [
        ("mean:delay by carrier", 0, 59),
        ("quantile(.5):delay by carrier", 0, 59),
        ("ratio:delay >= 20 by carrier", 0, 1),
        ("variance:delay by carrier", 0, 59**2 / 4),
    ]:
        table = noisy.table(text)
        assert set(table.source) == {"bounds"}
        assert np.allclose(table[["low_95", "high_95"]], [least, most])
        sources = clear.table(text).source.tolist()
        assert sources[:3] == ["measured"] * 3  # the fourth group has no records
    assert set(noisy.difference("mean:delay by carrier", ["AA"], ["UA"]).source) == {"bounds"}
    assert set(clear.difference("mean:delay by carrier", ["AA"], ["UA"]).source) == {"measured"}
    for text in ("sum:delay by carrier", "count by carrier"):  # which have no bounds
        assert set(noisy.table(text).source) == {"measured"}


def test_no_sum_is_beyond_what_its_columns_bounds_allow():
    """Of values that are not below 0, or not above it, in much noise: the sum, what runs up to it, and its part."""
    below = Domain((Attribute("loss", "number", edges=(-50, -20, -5, 1), integer=True), BINNED["carrier"]))
    codes = np.stack([np.arange(900) % 3, np.repeat([0, 1], [850, 50])], axis=1)
    for seed in range(4):
        release = released(BINNED, seed, rho=0.0005)
        for options in ({}, {"cumulative": True}, {"percent": True}):
            found = release.table("sum:delay by carrier", **options)
            assert (found[["value", "low_95", "high_95"]].fillna(0) >= 0).all(axis=None), options
            assert (found.value <= found.high_95 + 1e-9).all()
            assert (found.high_95 > found.low_95).dropna().all(), options  # also where noise moved it below 0
        found = released(POINTS, seed, rho=0.0005).table("count by carrier", cumulative=True)
        assert (found[["value", "low_95", "high_95"]] >= 0).all(axis=None)
        assert (found.high_95 > found.low_95).all()
        curator = qr.Curator(table_of(below, codes), qr.Ledger.open(None, qr.ZCDP(0.0005)), Entropy.insecure(seed))
        cost, workload = qr.ZCDP(0.0005), qr.Workload.marginals(below, 2)
        found = curator.release(qr.Gaussian(), workload, cost).table("sum:loss by carrier")
        assert (found[["value", "low_95", "high_95"]] <= 0).all(axis=None)


def test_a_mean_that_noise_moved_to_a_bound_says_so():
    found = released(POINTS, 3, rho=0.003).table("mean:delay by carrier")
    assert found.source.tolist() == ["noise", "measured", "measured", "bounds"]
    assert found.value[0] == found.low_95[0] == 0
    assert 5.9 < found.high_95[0] < 59


@pytest.mark.parametrize("mechanism", [qr.Laplace(), qr.MaxEnt()], ids=lambda m: m.name)
@pytest.mark.parametrize("neighbours", qr.Neighbours)
def test_of_thirty_people_it_is_said_that_their_number_is_hardly_known(mechanism, neighbours):
    def released(records):
        with qr.Ledger.open(None, qr.PureDP(1.0), neighbours=neighbours) as ledger:
            curator = qr.Curator(random_table(BINNED, records, 0), ledger, Entropy.insecure(1))
            return curator.release(mechanism, qr.Workload.marginals(BINNED, 2), qr.PureDP(1.0))

    release = released(30)
    number = release.count()
    said = f"How many records there are is hardly known itself: between {number.low_95[0]:,.0f} and"
    hardly = neighbours is qr.Neighbours.ADD_REMOVE
    assert number.high_95[0] - number.low_95[0] > 15 or not hardly
    for whole in (uncertain_number(release), " ".join(release.notes)):
        assert (said in whole) == hardly
    assert not uncertain_number(released(3000))


def test_of_answers_to_conditions_alone_nothing_is_said_of_all_records():
    cost, asked = qr.PureDP(1.0), qr.Workload.predicates(BINNED, "late = yes")
    curator = qr.Curator(random_table(BINNED, 30, 0), qr.Ledger.open(None, cost), Entropy.insecure(1))
    release = curator.release(qr.Laplace(), asked, cost)
    with pytest.raises(InvalidInput, match="no released marginal"):
        release.count()
    assert uncertain_number(release) == ""
    assert "How many records" not in " ".join(release.notes)


def test_a_note_says_that_an_interval_of_a_quantile_is_no_narrower_than_its_bin():
    asked = qr.Workload.numbers(BINNED, "median:delay by carrier", "quantile(.9):delay", "count by carrier")
    measured = released(BINNED, 1, 1.0, qr.Auto(), asked)
    (note,) = [note for note in measured.notes if "no narrower than a bin" in note]
    assert note.startswith("quantiles of delay are read off counts of its bins")
    assert "here 5 to 30: " in note
    ends = measured.quantile("delay", 0.5, by="carrier")
    assert (ends.high_95 - ends.low_95 >= 4).all()
    assert "narrower" not in " ".join(released(BINNED, 1).notes)


def test_groups_have_the_values_of_synthetic_records_so_that_tables_join():
    year = Attribute("year", "number", edges=(2019, 2020, 2021, 2022), integer=True, missing=("",))
    city = Attribute("city", "category", categories=("Ghent", "Bruges"), missing=("?",))
    domain = Domain((year, city, BINNED["delay"]))
    cost = qr.PureDP(5.0)
    curator = qr.Curator(random_table(domain, 4000, 0), qr.Ledger.open(None, cost), Entropy.insecure(0))
    release = curator.release(qr.MaxEnt(), qr.Workload.marginals(domain, 3), cost)
    rows = release.synthetic(500, seed=1, frame="pandas")
    table = release.mean("delay", by=["year", "city"])
    assert table.year[:10:3].tolist() == [2019, 2020, 2021, pd.NA]
    assert table.city[:2].tolist() == ["Ghent", "Bruges"]
    assert table.city.isna().tolist() == [False, False, True] * 4
    for name in ("year", "city"):
        assert table[name].dtype == rows[name].dtype
    assert len(rows.merge(table, on=["year", "city"])) == 500
    cells = release.table("histogram:delay by year", top=None)
    assert cells.delay[:2].tolist() == ["0..4", "5..9"]  # bins are told by their labels
    assert release.table("histogram:year", frame="arrow")["year"].to_pylist() == [2019, 2020, 2021]


def test_where_and_the_other_doors_agree():
    release = released(BINNED, 3, workload=qr.Workload.marginals(BINNED, 3))
    for where in ("late = yes", "carrier in {AA, UA} and late = yes", "late = yes or carrier = AA"):
        table = release.table(f"mean:delay by carrier where {where}")
        assert table.equals(release.mean("delay", "carrier", where))
    assert release.sum("delay").equals(release.table("sum:delay"))
    assert release.variance("delay").equals(release.table("variance:delay"))
    assert release.quantile("delay", 0.9).equals(release.table("quantile(.9):delay"))
    assert release.quantile("delay", (0.1, 0.9), "late").equals(release.table("quantile(.1,.9):delay by late"))
    assert release.ratio("delay >= 20", "late").equals(release.table("ratio:delay >= 20 by late"))


def test_a_condition_that_is_no_product_is_answered_as_one_that_is():
    release = released(BINNED, 3, workload=qr.Workload.marginals(BINNED, 3))
    # The second says the same in a way that is a product only once it is worked out; the third never is.
    one = numbers(release, NumericQuestion.parse(BINNED, "mean:delay by late where carrier = AA or carrier = UA"))
    both = [
        numbers(release, NumericQuestion.parse(BINNED, f"sum:delay by late where {where}"))
        for where in ("carrier = AA and delay < 10", "carrier = UA", "carrier = UA or carrier = AA and delay < 10")
    ]
    assert np.allclose(both[0].unbiased + both[1].unbiased, both[2].unbiased, rtol=1e-5)
    assert one.measured.all()
    assert both[2].measured.all()


def test_the_difference_of_two_groups_counts_noise_that_they_share():
    """Under replace-one the total is public, so two groups of a whole are off in opposite directions."""
    delay, carrier, late = records()
    table = table_of(POINTS, np.stack([np.where(delay < 0, 60, delay), carrier, late], axis=1))
    cost, found = qr.ZCDP(0.02), []
    question = NumericQuestion.parse(POINTS, "count by late")
    for seed in range(100):
        ledger = qr.Ledger.open(None, cost, neighbours=qr.Neighbours.REPLACE_ONE)
        release = qr.Curator(table, ledger, Entropy.insecure(seed)).release(
            qr.MaxEnt(), qr.Workload.marginals(POINTS, [["late"]]), cost
        )
        found.append(difference(release, question, 1, 0))
    true = (late == 1).sum() - (late == 0).sum()
    low, high = (np.array([getattr(f, part)[0, 0] for f in found]) for part in ("low", "high"))
    covers = ((low <= true) & (true <= high)).mean()
    assert 0.88 <= covers <= 0.995
    single = numbers(release, question)
    apart = np.hypot(*((single.high - single.low)[:, 0]))
    assert (high - low)[-1] > 1.3 * apart  # as if they were independent it would be too narrow


@pytest.mark.parametrize("text", ["mean:delay by carrier", "ratio:delay >= 20 by carrier", "sum:delay by carrier"])
@pytest.mark.parametrize("domain", [POINTS, BINNED], ids=["points", "bins"])
def test_differences_hold_as_often_as_they_say(domain, text):
    question, true = NumericQuestion.parse(domain, text), truth(text)
    found = [difference(released(domain, seed), question, 0, 1) for seed in range(150)]
    low, high = (np.array([getattr(f, part)[0, 0] for f in found]) for part in ("low", "high"))
    covers = ((low <= true[0, 0] - true[1, 0]) & (true[0, 0] - true[1, 0] <= high)).mean()
    assert covers >= 0.89
    if domain is POINTS and text.startswith("sum"):
        assert covers <= 0.995


def test_a_difference_of_large_groups_is_no_wider_than_it_must_be():
    question, true = NumericQuestion.parse(POINTS, "mean:delay by carrier"), truth("mean:delay by carrier")
    found = [difference(released(POINTS, seed, 0.3), question, 0, 1) for seed in range(150)]
    low, high, value = (np.array([getattr(f, part)[0, 0] for f in found]) for part in ("low", "high", "value"))
    wanted = true[0, 0] - true[1, 0]
    assert 0.9 <= ((low <= wanted) & (wanted <= high)).mean() <= 0.99
    assert (np.abs(value - wanted) <= 0.7 * (high - low) / 2).mean() < 0.9


def test_a_difference_with_an_empty_group_may_be_anything_that_the_bounds_allow():
    found = difference(released(POINTS, 0), NumericQuestion.parse(POINTS, "mean:delay by carrier"), 0, 3)
    one = numbers(released(POINTS, 0), NumericQuestion.parse(POINTS, "mean:delay by carrier"))
    assert found.low[0, 0] <= one.low[0, 0] - 59 + 3
    assert found.high[0, 0] >= one.high[0, 0]


def test_parts_of_the_total_running_totals_and_the_largest():
    release = released(BINNED, 1, rho=1e9)
    _, carrier, _ = records()
    percent = release.table("count by carrier", percent=True)
    assert np.allclose(percent.value, 100 * np.bincount(carrier, minlength=4) / len(carrier))
    assert (percent.low_95 <= percent.value).all()
    assert (percent.value <= percent.high_95).all()
    running = release.table("count by carrier", cumulative=True)
    assert np.allclose(running.value, np.cumsum(np.bincount(carrier, minlength=4)))
    # Half a record on either side is for the grid of the noise.
    assert (running.high_95 - running.low_95).between(0, 1.01).all()
    assert release.table("sum:delay by carrier", top=2).carrier.tolist() == ["AA", "UA"]
    few = release.table("mean:delay by carrier", suppress=100)
    assert few.value.isna().tolist() == [False, False, True, True]
    assert few.n.isna().tolist() == few.value.isna().tolist()


def test_running_totals_and_parts_hold_as_often_as_they_say():
    _, carrier, _ = records()
    sizes = np.bincount(carrier, minlength=4)
    inside = {"cumulative": [], "percent": []}
    for seed in range(150):
        release = released(BINNED, seed)
        for option, true in (("cumulative", np.cumsum(sizes)), ("percent", 100 * sizes / sizes.sum())):
            found = release.table("count by carrier", **{option: True})
            inside[option].append((found.low_95 - 1e-9 <= true) & (true <= found.high_95 + 1e-9))
    assert np.mean(inside["cumulative"], axis=0).min() >= 0.89
    assert np.mean(inside["cumulative"], axis=0)[:3].max() <= 0.995
    assert np.mean(inside["percent"], axis=0).min() >= 0.89


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("mean:delay by carrier", {"percent": True}, "share of the total"),
        ("mean:delay by carrier", {"cumulative": True}, "running total"),
        ("count by carrier*late", {"cumulative": True}, "running total"),
        ("quantile(.1,.9):delay", {"top": 1}, "one number each"),
        ("count by carrier", {"top": 0}, "top"),
        ("count by carrier", {"percent": True, "cumulative": True}, "one at a time"),
        ("count by carrier", {"suppress": "few"}, "suppress"),
        ("mean:carrier", {}, "holds texts"),
        ("mean:delay by carrier*late", {}, "no released marginal contains"),
        ("count", {"frame": "excel"}, "frame must be"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(text, options, told):
    with pytest.raises(InvalidInput, match=told):
        released(BINNED, 0).table(text, **options)


def test_groups_that_there_are_not_have_no_difference():
    release = released(BINNED, 0)
    with pytest.raises(InvalidInput, match="no cell 'A'"):
        release.difference("mean:delay by carrier", ["A"], ["UA"])
    with pytest.raises(InvalidInput, match="has 1 labels"):
        release.difference("mean:delay by carrier", ["AA", "no"], ["UA", "no"])
    with pytest.raises(InvalidInput, match="not by a quantile"):
        release.difference("quantile:delay by carrier", ["AA"], ["UA"])


@cache
def summed(clip=(), mechanism=None):
    """A release for which sums were measured, of all delays or of clipped ones; another mechanism may count."""
    delay, carrier, late = records()
    table = table_of(POINTS, np.stack([np.where(delay < 0, 60, delay), carrier, late], axis=1))
    mechanism = qr.NumberSums(
        ["sum:delay by carrier", "mean:delay by carrier", "quantile(.5):delay by carrier"],
        clip=dict(clip),
        mechanism=mechanism,
    )
    cost = qr.ZCDP(0.02)
    curator = qr.Curator(table, qr.Ledger.open(None, cost), Entropy.insecure(4))
    return curator.release(mechanism, qr.Workload.marginals(POINTS, [["carrier"]]), cost)


def measured_answer(release, text):
    return release.measured_sums.answer(text, release.measurements)


@pytest.mark.parametrize("text", ["sum:delay by carrier", "mean:delay by carrier", "mean:delay"])
def test_where_sums_were_measured_the_table_is_of_them(text):
    release, found = summed(), summed().table(text, intervals=True)
    answer = measured_answer(release, text)
    parts = (answer.model, answer.model_low, answer.model_high, answer.value, answer.low, answer.high, answer.count)
    names = ("value", "low_95", "high_95", "unbiased", "unbiased_low_95", "unbiased_high_95", "n")
    assert list(found.columns) == [*(["carrier"] if "by" in text else []), *names, "source"]
    for name, part in zip(names, parts, strict=True):
        assert found[name].tolist() == part.tolist()
    bounded = "mean" in text and (found.low_95 <= 0) & (found.high_95 >= 59)  # of the group without records
    assert found.source.tolist() == np.where(np.broadcast_to(bounded, len(found)), "bounds", "measured").tolist()


def test_counts_are_those_of_the_model_that_was_fitted_to_them():
    """Its marginals agree with each other and with synthetic records, which those that are shrunk apart do not."""
    release = summed()
    said = release.synopsis.answer(release.workload).tolist()
    assert release.table("count by carrier").value.tolist() == said
    assert release.marginal("carrier")["answer"].tolist() == pytest.approx(said)
    assert said != measured_answer(release, "count by carrier").model.tolist()


def test_groups_of_one_column_are_named_by_what_stands_in_a_data_frame():
    """By a label without a list, a truth value for the category that spells it, a number for a code."""
    domain = Domain(
        (
            Attribute("visits", "number", edges=(0, 2, 10), integer=True),
            Attribute("female", "category", categories=("false", "true")),
            Attribute("rating", "category", categories=("1", "2")),
        )
    )
    cost, asked = qr.PureDP(5), qr.Workload.marginals(domain, 2)
    curator = qr.Curator(random_table(domain, 400, 0), qr.Ledger.open(None, cost), Entropy.insecure(3))
    release = curator.release(qr.Laplace(), asked, cost)
    wanted = release.difference("mean:visits by female", ["true"], ["false"])
    assert release.difference("mean:visits by female", "true", "false").equals(wanted)
    assert release.difference("mean:visits by female", np.True_, False).equals(wanted)
    assert release.difference("mean:visits by female", 1, 0).equals(wanted)
    wanted = release.difference("mean:visits by rating", ["2"], ["1"])
    assert release.difference("mean:visits by rating", 2.0, np.int64(1)).equals(wanted)
    with pytest.raises(InvalidInput, match="column 'rating' has no cell 3"):
        release.difference("mean:visits by rating", 3, 1)
    with pytest.raises(InvalidInput, match="column 'rating' has no cell None"):
        release.difference("mean:visits by rating", None, 1)


def test_measured_sums_have_parts_running_totals_and_differences():
    release, text = summed(), "sum:delay by carrier"
    answer = measured_answer(release, text)
    made = {"percent": answer.shares(), "cumulative": answer.cumulative()}
    for option, wanted in made.items():
        found = release.table(text, **{option: True})
        assert found.value.tolist() == wanted.value.clip(0).tolist()
        assert found.low_95.tolist() == wanted.low.clip(0).tolist()  # no delay is below 0
        assert found.high_95.tolist() == wanted.high.tolist()
    apart = release.difference(text, ["AA"], ["UA"])
    interval = answer.difference(0, 1)
    assert [*apart.unbiased, *apart.low_95, *apart.high_95] == [interval.value, interval.low, interval.high]
    assert apart.value.item() == answer.model[0] - answer.model[1] != interval.value
    with pytest.raises(InvalidInput, match="no cell 'A'"):
        release.difference(text, ["A"], ["UA"])
    with pytest.raises(InvalidInput, match="has 1 labels"):
        release.difference(text, ["AA", "no"], ["UA", "no"])


@pytest.mark.parametrize("release", [summed, lambda: released(POINTS, 0)], ids=["sums", "counts"])
def test_top_above_and_suppressed(release):
    text = "sum:delay by carrier"
    every, least = release().table(text), 2500.0
    above = release().table(text, above=least)
    assert 0 < len(above) < len(every)
    assert above.carrier.tolist() == every.carrier[every.low_95 > least].tolist()
    top = release().table(text, top=3, above=least)
    assert top.value.tolist() == sorted(above.value, reverse=True)[:3]
    few = release().table(text, suppress=200, intervals=True)
    assert few.value.isna().tolist() == (every.n < 200).tolist()
    assert few.unbiased_low_95.isna().tolist() == (every.n < 200).tolist()
    assert few.n.isna().tolist() == (every.n < 200).tolist()  # a count is its value
    with pytest.raises(InvalidInput, match="above"):
        release().table(text, above="much")


def test_of_clipped_sums_no_interval_is_shown():
    release = summed((("delay", (0, 20)),))
    found = release.table("mean:delay by carrier", intervals=True)
    assert set(found.source) == {"clipped"}
    assert found[["low_95", "high_95", "unbiased_low_95", "unbiased_high_95"]].isna().all(axis=None)
    assert found.value.notna().all()
    assert release.table("mean:delay by carrier", above=0).empty
    assert set(release.table("count by carrier").source) == {"measured"}


@pytest.mark.parametrize("mechanism", [None, qr.MaxEnt(), qr.Gaussian()], ids=str)
def test_quantiles_of_measured_counts_are_answered(mechanism):
    """Of the groups, by counts of each value that were measured for the question, whoever counts the workload."""
    text = "quantile(.5):delay by carrier"
    release = summed(mechanism=mechanism)
    found, true = release.table(text, intervals=True), truth("quantile by carrier")[:, 1]
    assert found.value.tolist() == measured_answer(release, text).model.tolist()
    assert found.source.tolist()[:3] == ["measured"] * 3
    assert (found.unbiased_low_95[3], found.unbiased_high_95[3]) == (0, 59)  # the fourth group has no records
    assert (found.low_95 <= found.value).all()
    assert (found.low_95[:3] <= true[:3]).all()
    assert (true[:3] <= found.high_95[:3]).all()
    assert (found.high_95 - found.low_95)[0] < 10


def test_a_quotient_may_be_all_that_the_bounds_allow_where_there_may_be_nobody():
    parts, spread = np.array([[5.0, 1.0], [5.0, 10.0], [np.nan, 1.0]]), np.full((3, 3), [1.0, 1.0, 0.0])
    low, high = quotient_ends(parts, spread, (0.0, 60.0), NORMAL)
    assert (low[0], high[0]) == (0.0, 60.0)
    assert 0.25 < low[1] < 0.5 < high[1] < 0.8
    assert np.isnan(low[2])
    assert np.isnan(high[2])


def test_a_number_of_a_column_that_nothing_was_asked_of_is_refused():
    """Its synthetic values follow the schema alone: their mean is none of the records'."""
    domain = qr.Domain([qr.Attribute("pay", "number", edges=(0, 50, 100)), qr.Attribute("sex", "coded", codes=2)])
    table = qr.Table(domain, [np.zeros(90, np.uint8), np.arange(90) % 2])
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        workload = qr.Workload.marginals(domain, [["sex"]])
        made = qr.Curator(table, ledger, qr.Entropy.insecure(0)).release(qr.MaxEnt(), workload, qr.PureDP(1.0))
    with pytest.raises(qr.InvalidInput, match="nothing was measured of pay"):
        made.mean("pay", by=["sex"])
    assert len(numbers(made, qr.NumericQuestion.parse(domain, "count by sex")).value) == 2


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["sum:delay by carrier where late = yes"], "only 'sum:delay by carrier where late = .*yes' was measured"),
        (["sum:delay by carrier", "ratio:delay >= 20"], "only other questions were measured, such as 'sum:delay by"),
        (["mean:other"], "nothing was measured of delay"),
    ],
)
def test_nor_is_it_made_up_where_sums_of_other_questions_were_measured(asked, told):
    other = Attribute("other", "coded", codes=3, ordered=True)
    domain = replace(POINTS, attributes=(*POINTS.attributes, other))
    delay, carrier, late = records()
    table = table_of(domain, np.stack([np.where(delay < 0, 60, delay), carrier, late, late], axis=1))
    cost = qr.ZCDP(0.02)
    curator = qr.Curator(table, qr.Ledger.open(None, cost), Entropy.insecure(4))
    workload = qr.Workload.marginals(domain, [["carrier", "late"]])
    release = curator.release(qr.NumberSums(asked, mechanism=qr.MaxEnt()), workload, cost)
    with pytest.raises(InvalidInput, match=told):
        release.table("mean:delay by late")
    assert len(release.table(asked[0])) == (4 if "by" in asked[0] else 1)


# Shares whose condition runs through bins: delays of whole minutes in bins of several

MINUTES = replace(
    BINNED,
    attributes=(
        Attribute("delay", "number", edges=EDGES, integer=True, within=(0, 59), step=1, missing=("NA",)),
        *BINNED.attributes[1:],
    ),
)
THROUGH = "ratio:delay >= 12 by carrier"
PARTS = [["delay", "carrier"]]


@cache
def in_minutes(seed, rho=0.02, mechanism=None, asked=None):
    delay, carrier, late = records()
    points = np.where(delay < 0, 60, delay)
    bins = np.where(delay < 0, len(EDGES) - 1, np.searchsorted(EDGES, delay, side="right") - 1)
    table = qr.Table(MINUTES, (bins, carrier, late), points=(points, None, None))
    curator = qr.Curator(table, qr.Ledger.open(None, qr.ZCDP(rho)), Entropy.insecure(seed))
    workload = qr.Workload.marginals(MINUTES, PARTS) if asked is None else asked
    return curator.release(mechanism or qr.Gaussian(), workload, qr.ZCDP(rho))


def shares_of(low):
    delay, carrier, _ = records()
    return np.array([(delay[carrier == c] >= low).mean() for c in range(3)])


def test_without_noise_a_share_through_bins_is_between_those_of_the_bins_beside():
    table = in_minutes(1, 1e6).table(THROUGH)[:3]
    np.testing.assert_allclose(table["low_95"], shares_of(20), atol=0.01)  # half a record in a small group
    np.testing.assert_allclose(table["high_95"], shares_of(10), atol=0.01)
    part = 8 / 10  # of the values 10 to 19
    np.testing.assert_allclose(table["value"], shares_of(20) + part * (shares_of(10) - shares_of(20)), atol=1e-3)
    along = in_minutes(1, 1e6).table("ratio:delay >= 10 by carrier")[:3]
    np.testing.assert_allclose(along["high_95"], along["low_95"], atol=0.01)


@pytest.mark.parametrize("mechanism", [None, qr.NumberSums([THROUGH])])
def test_shares_through_bins_hold_as_often_as_they_say(mechanism):
    """At 95 % fewer than 182 of 200 have a chance below 1 %, of each of the larger groups by itself."""
    tables = [in_minutes(seed, mechanism=mechanism).table(THROUGH, intervals=True)[:2] for seed in range(200)]
    ends = [np.array([t[name].to_numpy() for t in tables]) for name in ("unbiased_low_95", "unbiased_high_95")]
    held = (ends[0] <= shares_of(12)[:2]) & (shares_of(12)[:2] <= ends[1])
    assert (held.sum(axis=0) >= 182).all()


def test_a_measured_share_through_bins_is_exact():
    exact = in_minutes(2, 1e6, qr.NumberSums([THROUGH]))
    found = exact.table(THROUGH)[:3]
    np.testing.assert_allclose(found["value"], shares_of(12), atol=1e-3)
    assert (found["high_95"] - found["low_95"] < 2e-3).all()
    gap = exact.difference(THROUGH, ["AA"], ["UA"])
    np.testing.assert_allclose(gap["value"], shares_of(12)[0] - shares_of(12)[1], atol=1e-3)


def test_the_difference_of_shares_through_bins_holds_what_the_bins_leave_open():
    (gap,) = in_minutes(1, 1e6).difference(THROUGH, ["AA"], ["UA"]).itertuples()
    least, most = shares_of(20), shares_of(10)
    assert gap.low_95 <= least[0] - most[1] + 1e-3
    assert gap.high_95 >= most[0] - least[1] - 1e-3
    assert gap.low_95 < shares_of(12)[0] - shares_of(12)[1] < gap.high_95


def test_counts_by_group_have_the_intervals_of_the_question():
    release = released(BINNED, 1)
    counts = release.count(by="carrier", where="delay >= 10")
    assert counts.equals(release.table("count by carrier where delay >= 10"))
    assert list(counts.columns[:4]) == ["carrier", "value", "low_95", "high_95"]
    assert release.count().value.to_list() == release.table("count").value.to_list()


TOWNS = {"N": ("a", "b"), "S": ("c", "o'd"), "W": ("e",)}
RULES = [
    f"province = {name} and town in {{{', '.join(repr(t) for n, own in TOWNS.items() if n != name for t in own)}}}"
    for name in TOWNS
]
PLACES = qr.Domain(
    (
        qr.Attribute("town", "category", categories=tuple(town for own in TOWNS.values() for town in own)),
        qr.Attribute("pay", "number", edges=(0, 500, 1000), within=(0, 999), step=1, integer=True),
        qr.Attribute("sex", "category", categories=("F", "M")),
        qr.Attribute("province", "category", categories=tuple(TOWNS)),
    ),
    impossible=tuple(RULES),
)


def of_places(*asked, seed=1):
    """A release of sums by town, of people whose provinces follow from their towns, and their true pay by province."""
    towns, rng = np.arange(4000) % 5, np.random.default_rng(2)
    above = np.array([0, 0, 1, 1, 2])[towns]
    pay = rng.integers(0, 300, 4000) + 200 * above
    frame = pd.DataFrame(
        {
            "town": np.array(PLACES["town"].categories)[towns],
            "pay": pay,
            "sex": np.array(["F", "M"])[rng.integers(0, 2, 4000)],
            "province": np.array([*TOWNS])[above],
        }
    )
    ledger = qr.Ledger.open(None, qr.PureDP(4.0))
    curator = qr.Curator(Table.from_frame(frame, PLACES), ledger, Entropy.insecure(seed))
    asks = qr.Workload.marginals(PLACES, [["town"]])
    return curator.release(qr.NumberSums(asked, mechanism=qr.Laplace()), asks, qr.PureDP(4.0)), frame


def test_numbers_by_a_parent_are_made_of_those_by_its_children():
    """Which the rules of the schema tell; their intervals are those of sums, far narrower than a bin of 500."""
    release, frame = of_places("mean:pay by town*sex", "variance:pay by town")
    for question, true in (
        ("mean:pay by province", frame.groupby("province").pay.mean()),
        ("sum:pay by province*sex", frame.groupby(["province", "sex"]).pay.sum()),
        ("sum:pay by sex*province", frame.groupby(["sex", "province"]).pay.sum()),
        ("variance:pay by province", frame.groupby("province").pay.var(ddof=0)),
        ("mean:pay by province where sex = F", frame[frame.sex == "F"].groupby("province").pay.mean()),
    ):
        found = release.table(question)
        assert (found.source == "measured").all()
        assert (found.low_95 < true.to_numpy()).all(), question
        assert (true.to_numpy() < found.high_95).all(), question
        if question.startswith("mean"):
            assert (found.high_95 - found.low_95 < 100).all()


def test_without_such_rules_children_tell_nothing_of_parents():
    """A town that may lie in two provinces, or be missing."""
    release, _ = of_places("mean:pay by town")
    assert (release.table("mean:pay by province").source == "measured").all()
    for domain in (
        replace(PLACES, impossible=tuple(RULES[1:])),
        replace(PLACES, attributes=(replace(PLACES["town"], missing=("",)), *PLACES.attributes[1:])),
    ):
        assert not [*children_of(domain, "province")]
    assert [*children_of(PLACES, "province")] == [("town", ((0, 1), (2, 3), (4,)))]
    assert not [*children_of(PLACES, "town")]


def test_counts_by_a_parent_have_an_interval_where_only_its_children_were_counted():
    """By sums, with and without a table; a count where there was none is refused as before."""
    release, frame = of_places("mean:pay by town*sex")
    for text, true in (
        ("count by province", frame.groupby("province").size()),
        ("count by province*sex", frame.groupby(["province", "sex"]).size()),
        ("count by sex*province", frame.groupby(["sex", "province"]).size()),
        ("count by province where sex = F", frame[frame.sex == "F"].groupby("province").size()),
    ):
        found = release.table(text)
        assert (found.source == "measured").all()
        assert ((found.low_95 <= true.to_numpy()) & (true.to_numpy() <= found.high_95)).all(), text
        assert (found.high_95 - found.low_95 < 30).all()
    with pytest.raises(InvalidInput, match="no released marginal contains the columns sex"):
        of_places("mean:pay by town")[0].table("count by province*sex")


@pytest.mark.parametrize("mechanism", [qr.MaxEnt(), qr.MWEM(rounds=2)], ids=lambda m: m.name)
def test_a_count_by_group_that_is_a_models_has_the_bar_of_the_releases_answers(mechanism):
    asked = qr.Workload.marginals(BINNED, 1)
    release = released(BINNED, 3, 2.0, mechanism, asked)
    delay, carrier, late = records()
    cells = qr.Workload.marginals(BINNED, [["carrier", "late"]])
    bars = release.model_bars(cells).reshape(4, 2)
    for text, half in (("count by carrier*late", bars), ("count by late*carrier", bars.T)):
        found = release.table(text)
        assert (found.source == "model").all()
        values = found.value.to_numpy()
        assert found.high_95.to_numpy() == pytest.approx(values + half.reshape(-1))
        assert found.low_95.to_numpy() == pytest.approx(np.maximum(values - half.reshape(-1), 0))
    table = np.array([[((carrier == c) & (late == y)).sum() for y in (0, 1)] for c in range(4)]).reshape(-1)
    found = release.table("count by carrier*late")
    assert ((found.low_95 <= table) & (table <= found.high_95)).all()
    limited = release.table("count by carrier where late = 'yes' and delay >= 10")
    true = [((carrier == c) & (late == 1) & (delay >= 10)).sum() for c in range(4)]
    assert ((limited.low_95 <= true) & (true <= limited.high_95)).all()
    with pytest.warns(qr.ModelAloneWarning):
        assert np.isnan(release.table("mean:delay by carrier*late").low_95).all()  # of numbers nothing bounds a model


@pytest.mark.parametrize("seed", range(3))
def test_no_end_of_an_interval_is_beyond_the_bounds_of_a_wide_column(seed):
    wide = Attribute(
        "x", "number", edges=(0, 10**8, 3 * 10**8, 5 * 10**8), integer=True, within=(0, 5 * 10**8 - 1), step=1
    )
    domain = Domain([wide, Attribute("g", "coded", codes=3)])
    x = np.arange(600) * 1000
    table = Table(domain, [wide.bins_of(x), (np.arange(600) % 50).clip(0, 2)], points=(x, None))
    with qr.Ledger.open(None, qr.PureDP(0.5)) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(seed))
        asked = qr.Workload.marginals(domain, 1) + qr.Workload.numbers(domain, "mean:x by g")
        found = curator.release(qr.Auto(), asked, qr.PureDP(0.5)).table("mean:x by g", intervals=True)
    ends = found[["low_95", "high_95", "unbiased_low_95", "unbiased_high_95"]].to_numpy()
    assert ends.min() >= 0
    assert ends.max() <= 5 * 10**8 - 1
