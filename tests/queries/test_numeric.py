"""Questions about numbers: what a text means, what it is refused for, and what its cells stand for."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PROPERTY

from qrelease.data.domain import Attribute, Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.queries.numeric import NumericQuestion, at_a_bound, cell_quantiles, cell_values
from qrelease.queries.workload import Workload

FLIGHTS = Domain(
    (
        Attribute("arr_delay", "number", edges=(-60, -15, 0, 15, 16, 60, 1000), integer=True, missing=("NA",)),
        Attribute("carrier", "category", categories=("AA", "UA")),
        Attribute("dest by", "category", categories=("X", "by", "where 'Z'")),
        Attribute("share", "number", edges=(0, 0.5, 1.0)),
        Attribute("day", "date", edges=(0, 10, 20)),
        Attribute("air_time", "number", within=(Fraction(0), Fraction(500)), step=Fraction(1), learn=10),
    )
)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("mean:arr_delay", {"kind": "mean", "column": "arr_delay"}),
        (" sum : share by carrier ", {"kind": "sum", "column": "share", "by": ("carrier",)}),
        (
            'variance:arr_delay by carrier*"dest by" where share >= .5 or carrier = AA',
            {"by": ("carrier", "dest by"), "where": "carrier = 'AA' or share in 0.5..1.0"},
        ),
        ("mean:share by `dest by` where \"dest by\" = 'by'", {"by": ("dest by",), "where": "\"dest by\" = 'by'"}),
        ("mean:share WHERE \"dest by\" = 'where ''Z'''", {"where": "\"dest by\" = 'where ''Z'''"}),
        ("quantile(.5,.9):share by carrier", {"probabilities": (0.5, 0.9), "by": ("carrier",)}),
        ("quantile:share", {"probabilities": (0.5,)}),
        ("ratio:arr_delay>15 by carrier", {"kind": "ratio", "column": "", "threshold": "arr_delay in 16..999"}),
        ('histogram:"dest by"', {"kind": "histogram", "column": "dest by"}),
        ("histogram:day by carrier", {"kind": "histogram"}),
        ("count by carrier where share < .5", {"kind": "count", "where": "share in 0.0..0.5"}),
        ("count", {"kind": "count", "by": ()}),
    ],
)
def test_a_text_means_what_it_says_and_its_spelling_means_the_same(text, fields):
    question = NumericQuestion.parse(FLIGHTS, text)
    assert {name: getattr(question, name) for name in fields} == fields
    again = NumericQuestion.parse(FLIGHTS, str(question))
    assert again == question
    assert hash(again) == hash(question)
    assert NumericQuestion.spells(text)


def test_of_whole_numbers_that_are_listed_as_categories_a_refusal_says_what_the_schema_needs():
    visits = Domain((Attribute("visits", "category", categories=("0", "1", "17"), ordered=True),))
    told = "column 'visits' is listed as categories and has no mean.*for a mean the schema needs kind = \"number\" with"
    with pytest.raises(InvalidInput, match=told):
        NumericQuestion.parse(visits, "mean:visits")


def test_of_a_quantile_it_is_told_how_wide_the_bins_are_that_it_is_read_off():
    def told(attribute, text):
        return NumericQuestion.parse(Domain((attribute,)), text).bins_told

    pay = Attribute("pay", "number", edges=(0, 10_000, 20_000), integer=True)
    assert "intervals are no narrower than a bin, here 10,000: narrower bins, or an est" in told(pay, "median:pay")
    assert told(pay, "mean:pay") == ""
    assert "here 0.5 to 2.25: " in told(Attribute("pay", "number", edges=(0, 0.5, 2.75)), "median:pay")
    assert told(Attribute("pay", "coded", codes=9, ordered=True), "median:pay") == ""
    assert told(Attribute("pay", "number", within=(0, 9), step=1), "median:pay") == ""


def test_a_median_is_a_quantile_wherever_the_text_is_read():
    asked = NumericQuestion.parse(FLIGHTS, "median:share by carrier where share < .5")
    assert asked == NumericQuestion.parse(FLIGHTS, "quantile(.5):share by carrier where share < .5")
    assert str(asked).startswith("quantile(0.5):share by carrier")
    assert NumericQuestion.spells("median:share")
    assert NumericQuestion.names_kind("median:share")
    assert NumericQuestion.before_learning(FLIGHTS, "median:share", []) == NumericQuestion.parse(
        FLIGHTS, "quantile:share"
    )
    assert Workload.numbers(FLIGHTS, "median:share").single == NumericQuestion.parse(FLIGHTS, "quantile:share")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mean:arrdelay", "no column 'arrdelay' .did you mean 'arr_delay'"),
        ("mean:carrier", "column 'carrier' holds texts and has no mean.*or for a share by ratio:carrier = '"),
        ("quantile(.5):carrier", "holds texts and has no quantile"),
        (
            "sum:day",
            r"holds dates and has no sum; .* release.table\('histogram:day'\), or `qrelease answer FOLDER hist",
        ),
        ("mean:air_time", "has no bins yet"),
        ("histogram:air_time", "must be learned first"),
        ("count by air_time", "must be learned first"),
        ("quantile(1.2):share", "from 0 to 1, got 1.2"),
        ("quantile(nan):share", "from 0 to 1, got nan"),
        ("quantile(a):share", r"got \(a\)"),
        (f"quantile({','.join(['.5'] * 101)}):share", "at most 100 quantiles"),
        ("mean:", "a column is needed"),
        ("mean:share by", "nothing follows 'by'"),
        ("mean:share where ", "nothing follows 'where'"),
        ("mean:share by carrier*", "between asterisks"),
        ("mean:share by carrier*carrier", "grouped by twice"),
        ("mean:share by carrier by carrier", "twice or out of order"),
        ("mean:share where share < .5 by carrier", "twice or out of order"),
        ("mean:share by share", "asked about and grouped by"),
        ("mean:share by origin", "no column 'origin'"),
        ("mean:share by carrier, day", r"no column 'carrier, day': columns are joined by \*, as in by carrier\*day"),
        ("mean:share by carrier,origin", "no column 'carrier,origin'.*; there are"),
        ("mean:share where foo = 1", "no column 'foo'"),
        ("mean:share where share > .7", "cuts through the bin"),
        ("mean(.5):share", "a question is"),
        ("count:share", "a question is"),
        ("average:share", r"^'average:share' is no question about numbers .did you mean mean:share\?\): a question is"),
        ("medians:share by carrier", r"did you mean quantile\(\.5\):share by carrier\?\): a question is"),
        ("median(.9):share", r"did you mean quantile\(\.9\):share\?\): a question is"),
        ("maen:share", r"did you mean mean:share\?"),
        ("frobnicate:share", "^a question is"),
        (
            "sum:share*carrier",
            r"did you mean sum:share by carrier\?\): a question is about one column, got 'share\*carrier'",
        ),
        ("share", "a question is"),
        ("ratio:", "needs a condition"),
        ("ratio: by carrier", "needs a condition"),
        ("ratio:share", r"did you mean ratio:share in 0\.5\.\.1\.0\?\): condition, position 6: expected one of"),
    ],
)
def test_what_means_nothing_is_refused_in_one_line(text, told):
    with pytest.raises(InvalidInput, match=told) as refused:
        NumericQuestion.parse(FLIGHTS, text)
    assert "\n" not in str(refused.value)


def test_a_question_before_learning_is_told_what_was_meant_too():
    with pytest.raises(InvalidInput, match=r"did you mean quantile\(\.5\):share by carrier\?"):
        NumericQuestion.before_learning(FLIGHTS, "quantile:share,q=0.5,by=carrier", {"dest by"})


def test_nothing_is_meant_that_would_be_refused():
    assert NumericQuestion.meant(FLIGHTS, "median(air_time)") == ""  # it has no bins yet
    assert NumericQuestion.meant(FLIGHTS, "mean of carrier") == ""
    assert NumericQuestion.meant(FLIGHTS, "mean(share) where share > .7") == ""  # cuts through a bin


def test_too_many_groups_and_too_wide_a_marginal_are_refused():
    wide = Domain.coded({"a": 1000, "b": 1000, "c": 300, "d": 100})
    with pytest.raises(TooLarge, match=r"by a\*b makes 1,000,000 groups"):
        NumericQuestion(wide, "mean", "c", by=["a", "b"])
    with pytest.raises(TooLarge, match="span 30,000,000 cells"):
        NumericQuestion(wide, "mean", "c", by=["d"], where="a < 5")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "median"},
        {"kind": "mean"},
        {"kind": "mean", "column": "share", "threshold": "share < .5"},
        {"kind": "mean", "column": "share", "probabilities": (0.5,)},
        {"kind": "ratio", "column": "share", "threshold": "share < .5"},
        {"kind": "count", "column": "share"},
        {"kind": "quantile", "column": "share", "probabilities": (True,)},
        {"kind": "mean", "column": "share", "where": 3},
    ],
)
def test_fields_that_do_not_fit_are_refused(fields):
    with pytest.raises(InvalidInput):
        NumericQuestion(FLIGHTS, **fields)


def test_conditions_are_not_taken_for_questions():
    for text in ("age in 30..39", "count in 1..2", "mean > 3", "sex = 'mean:x'", "count = 3 and by = 2", "not a:b"):
        assert not NumericQuestion.spells(text)


def test_a_word_and_a_colon_are_a_question_unless_a_column_is_called_so():
    for text in ("median:x", "avg : x by y", "percentile(.9):x", "count:x"):
        assert NumericQuestion.spells(text)
        assert NumericQuestion.spells(text, ["x", "y"])
    assert not NumericQuestion.spells("median:x > 3", ["median:x"])
    assert NumericQuestion.spells("mean:x > 3", ["mean:x"])  # which has to stand in quotes in a condition


def test_cells_stand_for_their_points():
    values = cell_values(FLIGHTS["arr_delay"])
    assert values.low.tolist() == [-60, -15, 0, 15, 16, 60]
    assert values.high.tolist() == [-16, -1, 14, 15, 59, 999]
    points = [np.arange(a, b) for a, b in [(-60, -15), (-15, 0), (0, 15), (15, 16), (16, 60), (60, 1000)]]
    assert np.allclose(values.mean, [p.mean() for p in points])
    assert np.allclose(values.square, [(p.astype(float) ** 2).mean() for p in points])
    assert not values.exact
    assert cell_values(Domain.coded({"a": 3})["a"]).exact
    share = cell_values(FLIGHTS["share"])
    assert np.allclose(share.square, [1 / 12, (1 - 0.125) / 1.5])


@PROPERTY
@given(st.data())
def test_a_shape_moves_the_mean_of_a_bin(data):
    cuts = sorted(data.draw(st.sets(st.integers(1, 19), min_size=1, max_size=5)))
    pieces = sorted({0, *data.draw(st.sets(st.integers(1, 19), max_size=5))})
    weights = data.draw(st.lists(st.integers(0, 9), min_size=len(pieces), max_size=len(pieces)))
    weights[0] += 1
    attribute = Attribute(
        "x",
        "number",
        edges=(10.0, *(10 + c / 2 for c in cuts), 20.0),
        within=(Fraction(10), Fraction(39, 2)),
        step=Fraction(1, 2),
        shape=tuple(zip(pieces, weights, strict=True)),
    )
    values = cell_values(attribute)
    density = np.zeros(20)
    for start, stop, weight in zip(pieces, [*pieces[1:], 20], weights, strict=True):
        density[start:stop] = weight / (stop - start)
    for i, (start, stop) in enumerate(zip([0, *cuts], [*cuts, 20], strict=True)):
        part = density[start:stop] if density[start:stop].sum() else np.ones(stop - start)
        points = 10 + np.arange(start, stop) / 2
        assert np.isclose(values.mean[i], part @ points / part.sum())
        assert np.isclose(values.square[i], part @ points**2 / part.sum())


def test_a_marginal_is_tabulated_by_group_as_a_loop_over_its_cells_does():
    question = NumericQuestion.parse(FLIGHTS, 'mean:arr_delay by "dest by"*carrier where share < .5 or carrier = AA')
    shape = [FLIGHTS.shape[a] for a in question.axes]
    marginal = np.random.default_rng(1).random(shape)
    found = np.zeros((3, 2, 6))
    for delay, carrier, dest, share in np.ndindex(*shape):
        if delay < 6 and (share == 0 or carrier == 0):
            found[dest, carrier, delay] += marginal[delay, carrier, dest, share]
    assert np.allclose(question.tabulated(marginal.reshape(-1)), found.reshape(6, 6))
    assert list(question.group_codes())[:3] == [(0, 0), (0, 1), (1, 0)]
    ratio = NumericQuestion.parse(FLIGHTS, "ratio:share < .5 by carrier where arr_delay is not missing")
    cube = np.random.default_rng(2).random((7, 2, 2))
    assert np.allclose(ratio.tabulated(cube.reshape(-1)), cube[:6].sum(axis=0))


def test_a_question_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        NumericQuestion.parse(FLIGHTS, "count").kind = "mean"


def test_the_mean_of_truth_values_is_told_to_be_a_share():
    domain = Domain((Attribute("smokes", "category", categories=("false", "true")),))
    with pytest.raises(InvalidInput, match=r"or for a share by ratio:smokes = 'true'$") as refused:
        NumericQuestion.parse(domain, "mean:smokes")
    assert NumericQuestion.parse(domain, str(refused.value).split(" by ")[-1]).kind == "ratio"


# Shares whose condition runs through bins of exact values

MINUTES = Domain(
    (
        Attribute("delay", "number", edges=(-60, 0, 20, 60, 300), integer=True, within=(-60, 299), step=1),
        Attribute("carrier", "coded", codes=2),
    )
)


@pytest.mark.parametrize("text", ["delay > 15", "delay>=16", "not delay <= 15", "delay in 16..299", "delay > 15.0"])
def test_spellings_of_a_condition_through_bins_are_one_question(text):
    found = NumericQuestion.parse(MINUTES, f"ratio:{text} by carrier")
    assert str(found) == "ratio:delay in 16..299 by carrier"
    assert NumericQuestion.parse(MINUTES, str(found)) == found
    assert found.through_bins
    assert found != NumericQuestion.parse(MINUTES, "ratio:delay > 16 by carrier")


def test_the_records_of_the_bins_that_it_runs_through_are_apart():
    found = NumericQuestion.parse(MINUTES, "ratio:delay > 15 by carrier")
    assert found.met_values.mean.tolist() == [1.0, 4 / 20, 0.0]
    assert found.met_values.low.tolist() == [1.0, 0.0, 0.0]
    assert found.met_values.high.tolist() == [1.0, 1.0, 0.0]
    marginal = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]]).reshape(-1)
    assert found.tabulated(marginal).tolist() == [[12, 3, 1], [14, 4, 2]]
    along = NumericQuestion.parse(MINUTES, "ratio:delay >= 20 by carrier")
    assert not along.through_bins
    assert along.tabulated(marginal).tolist() == [[12, 4], [14, 6]]


def test_a_condition_on_the_records_does_not_run_through_bins():
    with pytest.raises(InvalidInput, match=r"cuts through the bin 0\.\.19; the nearest edges are 0 and 20"):
        NumericQuestion.parse(MINUTES, "count where delay > 15")


def test_a_condition_through_bins_may_be_asked_before_others_are_learned():
    learned = ["carrier"]
    found = NumericQuestion.before_learning(MINUTES, "ratio:delay > 15 and carrier = 1", learned)
    assert str(found) == "count"
    assert NumericQuestion.before_learning(MINUTES, "ratio:delay > 15", learned).through_bins


@pytest.mark.parametrize(
    ("value", "low", "high", "told"),
    [
        (0.0, 0.0, 0.3, True),
        (1.0, 0.5, 1.0, True),
        (0.0, 0.0, 0.05, False),  # so near to the bound it is
        (0.2, 0.0, 0.5, False),
        (0.0, 0.0, 1.0, False),  # this is all that the bounds allow
        (0.0, np.nan, np.nan, False),
    ],
)
def test_a_number_that_noise_moved_to_a_bound(value, low, high, told):
    arrays = (np.array([part]) for part in (value, low, high))
    assert at_a_bound(NumericQuestion.parse(FLIGHTS, "mean:share"), *arrays).tolist() == [told]


@pytest.mark.parametrize("text", ["sum:share", "count", "quantile(0):share", "histogram:share"])
def test_what_is_not_moved_to_a_bound(text):
    zero = np.zeros(1)
    assert not at_a_bound(NumericQuestion.parse(FLIGHTS, text), zero, zero, zero + 0.5).any()


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("share >= 0", ""),
        ("carrier in {AA, UA} and day >= 1970-01-01", ""),
        ("share < .5 or share >= .5", ""),
        ("arr_delay >= -60", "arr_delay is not missing"),
        ("carrier = AA or carrier = AA", "carrier = 'AA'"),
    ],
)
def test_a_condition_that_every_record_meets_is_none(condition, kept):
    found = NumericQuestion.parse(FLIGHTS, f"mean:share by carrier where {condition}")
    assert found.where == kept
    assert (found == NumericQuestion.parse(FLIGHTS, "mean:share by carrier")) == (not kept)


def test_quantiles_in_a_wide_last_bin_go_by_the_density_of_the_bins_before_it():
    """Of exponential waiting times, of which the last bin has a tenth, in 70 % of the column's width."""
    waits = np.random.default_rng(0).exponential(30.0, 200_000)
    waits = waits[waits < 240]
    edges = (0, 10, 20, 30, 40, 50, 70, 240)
    column, levels = Attribute("wait", "number", edges=edges), np.array([0.3, 0.92, 0.95, 0.98])
    found = cell_quantiles(column, np.histogram(waits, edges)[0][None].astype(float), levels)[0]
    exact = np.quantile(waits, levels)
    shares = np.cumsum(np.histogram(waits, edges)[0]) / len(waits)
    even = np.interp(levels, np.append(0, shares), edges)
    assert (np.abs(found - exact) < np.abs(even - exact) / 4 + 0.1).all(), (found, exact, even)
    mirrored = Attribute("wait", "number", edges=tuple(-e for e in reversed(edges)))
    counts = np.histogram(-waits, mirrored.edges)[0][None].astype(float)
    np.testing.assert_allclose(cell_quantiles(mirrored, counts, 1 - levels)[0], -found, atol=1e-6)


def test_quantiles_go_evenly_where_nothing_is_known_of_a_density():
    edges, half = (0, 10, 20, 30), np.array([0.5])
    column = Attribute("age", "number", edges=edges)
    peak, rising = (np.array([counts]) for counts in ([1.0, 8.0, 1.0], [1.0, 1.0, 998.0]))
    assert cell_quantiles(column, peak, half).item() == pytest.approx(15)  # up on one side, down on the other
    assert cell_quantiles(column, rising, half).item() > 24.9  # an end that rises outwards is taken to be even
    singles = Attribute("stars", "number", edges=(1, 2, 3, 4), integer=True)
    assert cell_quantiles(singles, rising, half).item() == 3


def test_a_number_that_many_have_says_nothing_of_the_bins_beside_it():
    hours = Attribute("hours", "number", edges=(0, 1, 11, 21, 31), integer=True)
    heap, none = (np.array([[zeros, 10.0, 10.0, 10.0]]) for zeros in (10_000.0, 0.0))
    (upper,) = cell_quantiles(hours, heap, np.array([1 - 25 / heap.sum()]))[0]
    (plain,) = cell_quantiles(hours, none, np.array([1 - 25 / none.sum()]))[0]
    assert upper == pytest.approx(plain, abs=1e-6)


def test_the_density_inside_bins_is_that_of_all_groups_together():
    """A group of a few records has its quantile where the others' density puts it, not where its own noise would."""
    column = Attribute("wait", "number", edges=(0, 10, 20, 40))
    many, few = [1000.0, 100.0, 10.0], [1.0, 0.0, 1.0]
    (value,) = cell_quantiles(column, np.array([many, few]), np.array([0.75]))[1]
    (alone,) = cell_quantiles(column, np.array([few]), np.array([0.75]))[0]
    assert 20 < value < 26
    assert alone == pytest.approx(30)
    assert cell_quantiles(column, np.array([few]), np.array([0.75]), np.array(many)) == pytest.approx(value, rel=0.01)
