"""What a record adds, and which measures a question needs."""

import pytest

from qrelease.data.domain import Attribute, Domain
from qrelease.data.schema import domain_from_json
from qrelease.errors import InvalidInput
from qrelease.queries.measures import Measure, clip_places, grid_of, measure_from_json, needs_of
from qrelease.queries.numeric import NumericQuestion

DOMAIN = Domain(
    (
        Attribute("price", "number", edges=(0, 5, 10.25), within=(0, 10), step=0.25, missing=("",)),
        Attribute("age", "number", edges=(0, 20, 40), integer=True),
        Attribute("year", "number", edges=(1990, 1991, 1992, 1993), integer=True),
        Attribute("sex", "category", categories=("F", "M")),
        Attribute("large", "number", edges=(0, 1 << 20, 1 << 40), within=(0, (1 << 40) - 1), step=1),
    )
)


def needs(text, **clips):
    return needs_of(NumericQuestion.parse(DOMAIN, text), clips)


def test_a_mean_needs_a_sum_and_who_has_a_value():
    found = needs("mean:price by sex where year >= 1991", price=(1, 9.5))
    assert found.axes == (3,)
    assert found.sums == Measure("price", 1, 4, 38, where="year in 1991..1992")
    assert found.counts == Measure(where="year in 1991..1992")
    assert found.present == Measure(where="year in 1991..1992", met="price is not missing")
    assert found.sums.top == 34
    assert (found.scale.middle, found.scale.half, found.clipped) == (5.25, 4.25, True)


def test_questions_share_what_they_can():
    assert needs("mean:year by sex").counts == needs("count by sex").counts == Measure()
    assert needs("mean:year").sums == needs("sum:year by sex").sums
    assert needs("variance:year").sums == needs("sum:year by sex").sums
    assert needs("histogram:year by sex").axes == (2, 3)
    assert not needs("mean:year").clipped


def test_a_share_is_a_mean_of_signs():
    found = needs("ratio:price >= 5 by sex where year = 1990")
    assert (found.sums.met, found.sums.where) == ("price in 5.0..10.25", "year = 1990")
    assert found.counts == Measure(where="year = 1990")
    assert found.sums.top == 1


def test_too_fine_a_grid_has_strides_that_intervals_count():
    found = needs("mean:large by sex")
    assert found.sums.top == found.sums.width <= 1 << 29
    assert found.sums.stride * found.sums.width >= (1 << 40) - 1
    assert found.scale.off == found.sums.stride // 2
    squares = needs("variance:large").squares
    assert squares.top <= 1 << 30
    assert squares.top == squares.width**2


def test_a_sum_about_zero_weighs_its_count():
    assert dict(needs("sum:year").weights)[Measure()] == pytest.approx((1991 / 1) ** 2)
    assert dict(needs("mean:year").weights)[Measure()] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("text", "clips", "said"),
    [
        ("mean:age by sex", {}, "no exact values"),
        ("mean:price", {"price": (0.1, 3)}, "not on its grid"),
        ("mean:price", {"price": (3, 3)}, "a lower and a higher"),
        ("mean:price", {"price": (-1, 3)}, "not on its grid"),
        ("mean:price", {"price": ("0", 3)}, "must be a number"),
    ],
)
def test_what_sums_do_not_answer(text, clips, said):
    with pytest.raises(InvalidInput, match=said):
        needs(text, **clips)


DERIVED = domain_from_json(
    {
        "attribute": [
            {"name": "ward", "kind": "coded", "codes": 4},
            {"name": "paid", "kind": "number", "within": [0, 99], "step": 1, "bins": [0, 50, 100]},
        ],
        "person": {
            "column": "who",
            "derive": {
                "visits": {"take": "count", "bins": [0, 1, 2, 5, 10]},
                "few": {"take": "count", "bins": [0, 1, 2, 3]},
                "first": {"take": "first", "of": "ward", "by": "paid"},
                "most": {"take": "max", "of": "paid"},
            },
        },
    }
)


@pytest.mark.parametrize("text", ["mean:visits", "sum:most by first", "variance:most", "ratio:most > 60 by first"])
def test_derived_columns_have_no_exact_values_beside_their_bins(text):
    with pytest.raises(InvalidInput, match="derived columns have their bins alone"):
        needs_of(NumericQuestion.parse(DERIVED, text), {})


@pytest.mark.parametrize(
    "text",
    ["mean:few", "sum:first", "ratio:visits >= 2", "ratio:most >= 50", "quantile:most", "histogram:visits", "count"],
)
def test_derived_columns_of_one_number_a_bin_are_exact(text):
    assert needs_of(NumericQuestion.parse(DERIVED, text), {}).measures


def test_grids():
    assert (float(grid_of(DOMAIN["year"]).low), grid_of(DOMAIN["year"]).size) == (1990, 3)
    assert clip_places(DOMAIN["year"], None) == (0, 2)
    with pytest.raises(InvalidInput, match="texts"):
        grid_of(DOMAIN["sex"])


@pytest.mark.parametrize("text", ["mean:price by sex where year = 1990", "variance:large", "ratio:sex = 'F'", "count"])
def test_measures_are_stored(text):
    for measure, _ in needs(text).weights:
        assert measure_from_json(DOMAIN, measure.to_json()) == measure


@pytest.mark.parametrize(
    "content",
    [
        {"column": "price", "power": 1, "low": 0, "high": 99},
        {"column": "nowhere"},
        {"power": 3, "column": "year", "high": 1},
        {"power": 1},
        {"stride": 0},
        {"where": 5},
        {"colour": 1},
    ],
)
def test_stored_measures_that_are_none(content):
    with pytest.raises(InvalidInput):
        measure_from_json(DOMAIN, content)
