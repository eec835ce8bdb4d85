"""Texts and days in columns of Arrow: the codes of their texts, one by one."""

import datetime as dt

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from qrelease.data.domain import Attribute, Domain
from qrelease.data.sources.arrow import Distinct, distinct_codes, is_looked_up
from qrelease.data.sources.encoder import Encoder, Misplaced
from qrelease.data.table import Table
from qrelease.errors import InvalidInput


@pytest.mark.parametrize(
    "marks", [(), ("2020-01-05",), ("20200105", "x"), ("2020-01-06T00:00:00", ""), ("2020-01-06T06:30:00+02:00", "nan")]
)
@pytest.mark.parametrize("outside", ["error", "clip", "missing"])
def test_days_of_arrow_have_the_codes_of_their_texts(marks, outside):
    """All at once by a table, but for those that a mark may mean, or that lie outside, which are looked up as texts."""
    outside = "clip" if outside == "missing" and not marks else outside
    attribute = Attribute("d", "date", edges=(18_262, 18_265, 18_270, 18_300), missing=marks, outside=outside)
    inside = [dt.date(2020, 1, 1) + dt.timedelta(k) for k in range(38)]
    for days in (
        inside,
        [*inside, dt.date(2019, 12, 31), dt.date(2020, 2, 8), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    ):
        expected = [refused_or(attribute, str(day)) for day in days]
        if None in expected:
            with pytest.raises(InvalidInput, match=r"row 38 .*2019-12-31"):
                Table.from_frame(pa.table({"d": days}), Domain((attribute,)))
        else:
            for frame in (pa.table({"d": days}), pl.DataFrame({"d": days})):
                assert Table.from_frame(frame, Domain((attribute,))).columns[0].tolist() == expected


def refused_or(attribute, text):
    try:
        return attribute.encode(text)
    except InvalidInput:
        return None


NUMBER = Attribute("a", "number", edges=(0, 1, 10, 1e16), missing=("-9", "?"), outside="missing")
WORDS = Attribute("a", "category", categories=("a", "é", "a longer word", "other"), missing=("",), outside="other")
LEARNED = Attribute("a", "category", learn=5, missing=("", "?"))
TEXTS = ["a", "é", "a longer word", "0", "-9", "-9.0", "9e0", "9.5", "?", "007", "9" * 20, "1e3", " a", "x"]


def columns_of(texts):
    """Texts as each type of Arrow's columns holds them, in one piece or several."""
    plain = pa.array(texts, pa.string())
    yield plain
    yield pa.array(texts, pa.large_string())
    yield pa.chunked_array([plain.slice(0, 3), plain.slice(3, 0), plain.slice(3)])
    yield pa.array(["not there", *texts], pa.string()).slice(1)
    yield plain.dictionary_encode()
    yield pa.concat_arrays([pa.array(["not there"]), plain]).dictionary_encode().slice(1)
    yield pa.chunked_array([plain.slice(0, 3), plain.slice(3)]).dictionary_encode()


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("many", [1, 120])
@pytest.mark.parametrize("attribute", [NUMBER, WORDS, LEARNED], ids=lambda a: a.kind + " learned" * bool(a.learn))
def test_texts_have_the_codes_that_each_has_by_itself(attribute, many, null):
    """Few, or so many that numerals are read all at once; with nulls, and in a dictionary of what no record has."""
    rng = np.random.default_rng(many)
    texts = [str(text) for text in rng.choice([*TEXTS, *(f"{k / 4}" for k in range(many))], 300)]
    if null:
        texts[7::50] = [None] * len(texts[7::50])
    one_by_one = Encoder(attribute)
    expected = [one_by_one.code(text) for text in texts]
    for column in columns_of(texts):
        assert is_looked_up(column.type)
        for _ in range(2):  # what is remembered then is the same
            encoder = Encoder(attribute)
            assert distinct_codes(encoder, column).tolist() == expected
            assert encoder.texts == one_by_one.texts
            assert distinct_codes(encoder, column).tolist() == expected


@pytest.mark.parametrize("many", [1, 120])
def test_the_first_record_without_a_code_is_named_wherever_it_is(many):
    strict = Attribute("a", "number", edges=(0, 10, 1000))
    texts = [str(k % many) for k in range(200)]
    texts[60], texts[130] = "x", "-1"
    for column in columns_of(texts):
        with pytest.raises(Misplaced) as error:
            distinct_codes(Encoder(strict), column)
        assert error.value.position == 60
        assert "'x'" in str(error.value)


def test_distinct_values_are_in_the_order_in_which_they_come():
    listed = pa.DictionaryArray.from_arrays(pa.array([2, None, 0, 2, 0]), pa.array(["b", "no record", "a"]))
    found = Distinct(listed)
    assert found.distinct.to_pylist() == ["a", "b"]
    assert (found.firsts.tolist(), found.places.tolist(), found.first_null) == ([0, 2], [0, 2, 1, 0, 1], 1)
    assert Distinct(pa.array(["b", "a"])).first_null == -1


def test_other_types_are_not_looked_up_as_texts():
    for kind in (pa.int64(), pa.timestamp("us"), pa.binary(), pa.dictionary(pa.int8(), pa.int64()), pa.date64()):
        assert not is_looked_up(kind)
    assert is_looked_up(pa.date32())
