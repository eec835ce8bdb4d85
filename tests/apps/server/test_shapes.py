"""Shapes of requests: what is read as which type, and what is refused, in one line that says where."""

import json
from itertools import combinations

import pytest
from msgspec import UNSET, to_builtins

from qrelease.apps.server.shapes import (
    EXAMPLES,
    MAX_BATCH,
    MAX_TEXT,
    Drawn,
    Limit,
    Page,
    Queries,
    Query,
    read_json,
    read_texts,
)
from qrelease.errors import InvalidInput

WAYS = {
    "where": "sex = 'F'",
    "marginal": ["sex", "age"],
    "range": {"column": "age", "low": "0", "high": "39"},
    "numbers": "mean:age by sex",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_query_asks_in_one_way_and_is_written_as_it_came(way):
    given = {way: WAYS[way]}
    found = read_json(json.dumps(given).encode(), Query)
    assert to_builtins(found) == given
    assert [name for name in WAYS if getattr(found, name) is not UNSET] == [way]


def test_only_numbers_have_a_top():
    assert read_json(b'{"numbers": "count by a", "top": 2}', Query).top == 2
    with pytest.raises(InvalidInput, match="top beside numbers alone"):
        read_json(b'{"where": "a = 1", "top": 2}', Query)


@pytest.mark.parametrize("ways", [[], *combinations(WAYS, 2), [*WAYS]])
def test_a_query_that_asks_in_no_way_or_in_several_is_refused(ways):
    with pytest.raises(InvalidInput, match=r"one of where, marginal, range, numbers\b.* - at `\$\.queries\[1\]`"):
        read_json(json.dumps({"queries": [{"where": "a"}, {way: WAYS[way] for way in ways}]}).encode(), Queries)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "Expected `object`, got `array`"),
        ({}, "missing required field `queries`"),
        ({"queries": []}, "length >= 1"),
        ({"queries": [{"where": "a"}] * (MAX_BATCH + 1)}, f"length <= {MAX_BATCH}"),
        ({"queries": [{"where": ""}]}, r"length >= 1 - at `\$\.queries\[0\]\.where`"),
        ({"queries": [{"where": "ü" * (MAX_TEXT + 1)}]}, f"length <= {MAX_TEXT}"),
        ({"queries": [{"where": None}]}, "Expected `str`, got `null`"),
        ({"queries": [{"where": 1}]}, "Expected `str`, got `int`"),
        ({"queries": [{"marginal": ["x"] * 17}]}, "length <= 16"),
        ({"queries": [{"range": {"column": "a", "low": "1"}}]}, "missing required field `high`"),
        ({"queries": [{"where": "a", "so\nwhat": 1}]}, "unknown field `so what`"),
        ({"queries": [{"where": "a"}], "most": 1}, "unknown field `most`; it may have queries; it is like"),
        (
            {"queries": [{"wher": "a"}]},
            r"`wher` - at `\$\.queries\[0\]` \(did you mean 'where'\?\); it may have where, marginal, range, numbers",
        ),
        (
            {"queries": [{"range": {"column": "a", "low": "1", "height": "2"}}]},
            r"`height` - at `\$\.queries\[0\]\.range` \(did you mean 'high'\?\); it may have column, low, high",
        ),
        ({"queries": [{"a`b - at `$.x": 1}]}, "it may have where, marginal, range, numbers, top, synopsis; it is like"),
        ({"a` - at `$.x": 1}, r"unknown field `a` - at `\$\.x`"),
    ],
)
def test_another_shape_is_refused_in_one_line(given, told):
    with pytest.raises(InvalidInput, match=told) as refused:
        read_json(json.dumps(given).encode(), Queries)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "given", "example"),
    [
        (Queries, {"where": "age >= 50"}, '; it is like {"queries": [{"where": "COLUMN = VALUE"} or '),
        (Queries, {"queries": ["age >= 50"]}, '; it is like {"queries": [{"where": "COLUMN = VALUE"} or '),
        (Query, "age >= 50", '; it is like {"where": "COLUMN = VALUE"} or {"numbers": "mean:COLUMN by COLUMN"}'),
        (Query, {"queries": [{"where": "age >= 50"}]}, "; this address takes one query: several go to /v1/batch, and"),
        (Query, [{"where": "age >= 50"}], "; this address takes one query: several go to /v1/batch, and to /v1/quote"),
        (
            Query,
            {"numbers": "mean:age by sex", "where": "age > 5"},
            "one of where, marginal, range, numbers: write the condition into the text, `mean:COLUMN by COLUMN where",
        ),
        (Query, {"marginal": "female"}, '; a query is like {"marginal": ["COLUMN", "COLUMN"]}'),
        (Query, {"range": {"column": "age", "low": 40}}, '"low": "40", "high": "49"}}'),
        (Queries, {"queries": [{"numbers": ["mean:age"]}]}, '; a query is like {"numbers": "mean:COLUMN by COLUMN"}'),
        (
            Queries,
            {"queries": [{"where": "a"}] * 101},
            "; a request has 100 queries at most: divide them among several",
        ),
    ],
)
def test_another_shape_is_told_what_it_should_be_like(kind, given, example):
    with pytest.raises(InvalidInput) as refused:
        read_json(json.dumps(given).encode(), kind)
    assert example in str(refused.value)


def test_examples_are_queries():
    assert [*EXAMPLES] == [*WAYS]
    for way, text in EXAMPLES.items():
        assert [*to_builtins(read_json(text.encode(), Query))] == [way]


def test_limits_themselves_are_allowed():
    longest = [{"where": "ü" * MAX_TEXT}] * MAX_BATCH
    assert len(read_json(json.dumps({"queries": longest}).encode(), Queries).queries) == MAX_BATCH


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({}, Page(1, 100)),
        ({"first": "7", "count": "1", "other": "x"}, Page(7, 1)),
        ({"first": f"{2**53}"}, Page(2**53, 100)),
        ({}, Limit(UNSET)),
        ({"most": "1.5e-3"}, Limit(0.0015)),
        ({"rows": "5", "format": "csv"}, Drawn(5, "csv")),
    ],
)
def test_parameters_are_read_from_texts_and_others_are_ignored(texts, found):
    assert read_texts(texts, type(found)) == found


@pytest.mark.parametrize(
    ("kind", "name", "texts"),
    [
        (Page, "first", ["0", "-1", "", " 1", "1_0", "1.5", "true", "null", "٣", f"{2**53 + 1}", "1" * 400]),
        (Limit, "most", ["-1", "nan", "inf", "-inf", "Infinity", "1e999", "null", "", "one", "0x1p3"]),
        (Drawn, "format", ["JSON", "", "csv "]),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(kind, name, texts):
    for text in texts:
        with pytest.raises(InvalidInput, match=name):
            read_texts({name: text}, kind)
