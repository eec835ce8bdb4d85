import re
from dataclasses import replace

import numpy as np
import pytest

from qrelease.data.attribute import Attribute
from qrelease.errors import InvalidInput

AGE = Attribute("age", "number", edges=(17, 20, 30, 31), integer=True, missing=("?", ""))
SHARE = Attribute("share", "number", edges=(0, 0.25, 1))
DAY = Attribute("day", "date", edges=(0, 31, 59))
SEX = Attribute("sex", "category", categories=("F", "M"), missing=("?",))

YEARS = Attribute("years", "number", within=(0, 100), step=1, edges=(0, 50, 101))


def test_labels():
    assert AGE.labels == ("17..19", "20..29", "30", "?")
    assert SHARE.labels == ("[0, 0.25)", "[0.25, 1]")
    assert DAY.labels == ("1970-01-01..1970-01-31", "1970-02-01..1970-02-28")
    assert SEX.labels == ("F", "M", "?")
    assert Attribute("c", "coded", codes=3).labels == ("0", "1", "2")


@pytest.mark.parametrize(
    ("attribute", "text", "code"),
    [
        (AGE, "17", 0),
        (AGE, " 20 ", 1),
        (AGE, "2.9e1", 1),
        (AGE, "30.0", 2),
        (AGE, " ?", 3),
        (AGE, "", 3),
        (AGE, "nan", 3),
        (SHARE, "0.25", 1),
        (SHARE, "1", 1),
        (SHARE, "-0.0", 0),
        (DAY, "1970-02-28", 1),
        (DAY, "1970-01-31T23:59:00", 0),
        (SEX, "M ", 1),
        (Attribute("c", "coded", codes=3), "2.0", 2),
    ],
)
def test_encode(attribute, text, code):
    assert attribute.encode(text) == code


@pytest.mark.parametrize(
    ("attribute", "text", "expected"),
    [
        (AGE, "31", "within the bins 17..30"),
        (AGE, "16", "within the bins 17..30"),
        (AGE, "20.5", "a whole number"),
        (
            AGE,
            "NAN",
            "a whole number; if it stands for a missing value, the schema's entry of the column needs"
            ' missing = ["?", "", "NAN"]',
        ),
        (AGE, "inf", "a whole number"),
        (AGE, "2_0", "a whole number"),
        (YEARS, "20.5", "a whole number, as `within` and `step` are; give a finer step, such as 0.01"),
        (YEARS, "many", "a whole number"),
        (YEARS, "inf", "a whole number"),
        (SHARE, "1e400", "a number"),
        (SHARE, "1.01", "within the bins [0, 1]"),
        (DAY, "1970-03-01", "within the bins 1970-01-01..1970-02-28"),
        (
            DAY,
            "01/02/1970",
            "an ISO date (YYYY-MM-DD); if all are written so, the schema's entry says it by format, as in format ="
            ' "%d/%m/%Y"',
        ),
        (DAY, "soon", "an ISO date (YYYY-MM-DD)"),
        (
            SHARE,
            "$64,550.67",
            "a number; if all are written so, the schema's entry says it by decimal, thousands and unit",
        ),
        (SEX, "m", "one of the 2 categories 'F', 'M'"),
        (Attribute("c", "coded", codes=3), "3", "within the codes 0..2"),
        (Attribute("c", "coded", codes=3), "-1", "within the codes 0..2"),
    ],
)
def test_encode_refuses(attribute, text, expected):
    with pytest.raises(InvalidInput) as caught:
        attribute.encode(text)
    assert str(caught.value) == f"column {attribute.name!r}: value {text!r} is not {expected}"


def test_outside_has_its_declared_place():
    clip = Attribute("age", "number", edges=(10, 20, 30), integer=True, outside="clip")
    assert [clip.encode(t) for t in ("-5", "10", "29", "30", "1e9")] == [0, 0, 1, 1, 1]
    with pytest.raises(InvalidInput, match="'abc' is not a whole number"):
        clip.encode("abc")
    away = Attribute("age", "number", edges=(10, 20, 30), missing=("?",), outside="missing")
    assert [away.encode(t) for t in ("-5", "abc", "nan", "15")] == [2, 2, 2, 0]
    other = Attribute("town", "category", categories=("Bern", "other"), outside="other")
    assert [other.encode(t) for t in ("Bern", "Genf", "")] == [0, 1, 1]


def test_a_missing_mark_wins_over_the_number_it_spells():
    grade = Attribute("grade", "coded", codes=100, missing=("99",))
    assert grade.encode("99") == 100
    assert grade.encode("98") == 98


@pytest.mark.parametrize("text", ["-9", "-9.0", " -9.00 ", "-9e0"])
@pytest.mark.parametrize("mark", ["-9", "-9.0", "-09"])
def test_a_missing_mark_is_compared_by_value(mark, text):
    for attribute in (
        Attribute("x", "number", edges=(-20, 20), missing=("?", mark), outside="clip"),
        Attribute("x", "number", edges=(-20, 20), integer=True, missing=(mark,)),
        Attribute("x", "coded", codes=3, missing=(mark, "")),
    ):
        assert attribute.encode(text) == attribute.values


def test_a_missing_day_is_compared_by_value():
    day = Attribute("day", "date", edges=(0, 31), missing=("1970-01-05", "-9.0"))
    assert [day.encode(t) for t in ("1970-01-05", "19700105", "1970-01-05 00:00:00", "-9", "1970-01-06")] == [1] * 4 + [
        0
    ]


@pytest.mark.parametrize(
    ("categories", "text", "expected"),
    [
        (("1", "2"), "2.0", "2"),
        (("1.0", "-2.0"), " -2 ", "-2.0"),
        (("1", "1.0"), "1", "1"),
        (("1", "1.0"), "1.0", "1.0"),
        (("1.0", "1"), "1 ", "1"),
        (("007",), "007.0", "007"),
        (("007",), "7e0", "007"),
        (("7", "007"), "007", "007"),
        (("0", "TRUE"), "true", "TRUE"),
        (("0", "1"), "True", "1"),
        (("false", "true"), "1.0", "true"),
        (("2020-01-31", "?"), "2020-01-31 00:00", "2020-01-31"),
        (("2020-01-30T23:00:00Z", "?"), "2020-01-31T00:00:00+01:00", "2020-01-30T23:00:00Z"),
        (("a", "nan"), "nan", "nan"),
        (("a", "nan"), "NaN", "nan"),
    ],
)
def test_a_text_stands_for_what_it_means(categories, text, expected):
    assert Attribute("x", "category", categories=categories).encode(text) == categories.index(expected)


def test_words_are_numbers_only_where_the_schema_does_not_list_them():
    marked = Attribute("x", "number", edges=(0, 1, 2), integer=True, missing=("", "False"))
    assert [marked.encode(t) for t in ("0", "0.0", "False", "false", "True", "1")] == [0, 0, 2, 2, 1, 1]
    coded = Attribute("x", "coded", codes=2, missing=("0",))
    assert [coded.encode(t) for t in ("FALSE", "true", "0e0")] == [2, 1, 2]


def test_what_the_schema_tells_apart_must_be_spelled_as_there():
    with pytest.raises(
        InvalidInput, match=r"value '1\.00' may be one of several spellings that the schema tells apart"
    ):
        Attribute("x", "category", categories=("1", "1.0")).encode("1.00")


@pytest.mark.parametrize("text", ["1970-01-31T00:30:00+01:00", "19700131T003000Z"])
def test_a_day_of_a_time_zone_is_no_day(text):
    with pytest.raises(InvalidInput, match="has an offset, and its day depends on the time zone"):
        Attribute("day", "date", edges=(0, 31), missing=("",), outside="missing").encode(text)


@pytest.mark.parametrize("text", ["8", "v1", "1.0.0", "1_0", "", "7 7"])
def test_other_spellings_are_other_categories(text):
    with pytest.raises(InvalidInput, match="is not one of the 4 categories"):
        Attribute("x", "category", categories=("007", "v1.0", "1.0.0.0", "10")).encode(text)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "text"}, "kind must be one of coded, category, number, date, got 'text'"),
        ({"kind": "coded"}, "at least one cell"),
        ({"kind": "coded", "codes": True}, "codes must be whole"),
        ({"kind": "coded", "codes": 2.5}, "codes must be whole"),
        ({"kind": "coded", "codes": 3, "edges": (0, 1)}, "takes codes, not bins"),
        ({"kind": "category", "categories": "abc"}, "categories must be a list of texts"),
        ({"kind": "category", "categories": ["a", "a"]}, "category 'a' is listed twice"),
        ({"kind": "category", "categories": ["a"], "missing": ["a"]}, "both a category and a missing mark"),
        (
            {"kind": "category", "categories": ["a"], "missing": ["b", "b"]},
            "missing mark 'b' is listed twice",
        ),
        ({"kind": "category", "categories": ["a"], "outside": "clip"}, "outside must be one of 'a', 'error'"),
        ({"kind": "category", "categories": ["a"], "integer": True}, "only a 'number' can be integer"),
        ({"kind": "number", "edges": (0,)}, "at least one cell"),
        ({"kind": "number", "edges": (0, 2, 1)}, "must increase strictly, got 2 before 1"),
        ({"kind": "number", "edges": (0, float("nan"))}, "must be finite"),
        ({"kind": "number", "edges": (0, True)}, "edges must be a list of numbers"),
        ({"kind": "number", "edges": (0, 1.5), "integer": True}, "must be whole, got 1.5"),
        ({"kind": "date", "edges": (0, 1e7)}, "dates must lie in"),
    ],
)
def test_attribute_refuses(fields, message):
    with pytest.raises(InvalidInput) as caught:
        Attribute("a", **fields)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_equal_attributes_are_equal():
    assert Attribute("a", "number", edges=[0, 1]) == Attribute("a", "number", edges=(0.0, np.float64(1)))
    assert Attribute("a", "number", edges=(0, 1)).ordered
    assert type(Attribute("a", "coded", codes=np.int64(3)).codes) is int


@pytest.mark.parametrize("mark", ["", "NA", "null", "nan", "?"])
def test_what_often_means_missing_is_told_where_the_schema_lists_it(mark):
    told = re.escape(f'if it stands for a missing value, the schema\'s entry of the column needs missing = ["{mark}"]')
    for attribute in (
        Attribute("age", "number", edges=(0, 20, 40), integer=True),
        Attribute("sex", "category", categories=("F", "M")),
        Attribute("day", "date", edges=(18262, 18293)),
    ):
        with pytest.raises(InvalidInput, match=told):
            attribute.encode(mark)
        with pytest.raises(InvalidInput) as refused:
            attribute.encode("old")
        assert "missing" not in str(refused.value)
        assert replace(attribute, missing=(mark,)).encode(mark) == attribute.values
    listed = Attribute("age", "number", edges=(0, 20), integer=True, missing=("-9",))
    with pytest.raises(InvalidInput, match=re.escape('needs missing = ["-9", "-"]')):
        listed.encode("-")
