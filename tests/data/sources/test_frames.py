"""Records of data frames: a value has one spelling in whatever type it comes."""

import contextlib
import datetime as dt
from decimal import Decimal
from fractions import Fraction
from itertools import chain

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import CODES, PEOPLE, codes

from qrelease.data.domain import Attribute, Domain
from qrelease.data.sources.encoder import Encoder
from qrelease.data.sources.frames import FrameReader, encode_series
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

FRAME = {
    "age": [19, None, 40],
    "sex": ["F", "M", "F"],
    "day": [dt.date(2020, 1, 31), None, dt.date(2020, 2, 1)],
    "extra": [1.5, 2.5, 3.5],
}


def pandas_nullable(data):
    return pd.DataFrame(data).convert_dtypes()


def pandas_times(data):
    frame = pd.DataFrame(data)
    return frame.assign(day=pd.to_datetime(frame["day"]), sex=frame["sex"].astype("category"))


@pytest.mark.parametrize("make", [pd.DataFrame, pandas_nullable, pandas_times, pl.DataFrame, pa.table])
def test_from_frame(make):
    found = Table.from_frame(make(FRAME), PEOPLE)
    assert codes(found) == CODES
    assert codes(Table.from_frame(make(FRAME), PEOPLE, columns=["day"])) == [CODES[2]]


def test_from_polars_times_nan_and_enums():
    frame = pl.DataFrame(FRAME).with_columns(
        pl.Series("age", [19.0, float("nan"), 40.0]),
        pl.col("day").cast(pl.Datetime("ms")),
        pl.col("sex").cast(pl.Enum(["M", "F"])),
    )
    assert codes(Table.from_frame(frame, PEOPLE)) == CODES


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frame_values_are_read_as_a_file_would_spell_them(make):
    domain = Domain(
        (
            Attribute("grade", "category", categories=("1", "2", "2.5")),
            Attribute("flag", "category", categories=("false", "true")),
            Attribute("code", "coded", codes=3, missing=("9",)),
            Attribute("share", "number", edges=(0, 0.5, 1), outside="clip"),
            Attribute("bit", "coded", codes=2),
            Attribute("town", "category", categories=("", "Bern")),
        )
    )
    frame = make(
        {
            "grade": [1.0, 2.0, 2.5],
            "flag": [True, False, True],
            "code": [2, 9, 0],
            "share": [-3.0, 0.5, 7.0],
            "bit": [True, False, False],
            "town": ["Bern", None, ""],
        }
    )
    assert codes(Table.from_frame(frame, domain)) == [
        [0, 1, 2],
        [1, 0, 1],
        [2, 3, 0],
        [0, 1, 1],
        [1, 0, 0],
        [1, 0, 0],
    ]


DAYS = (dt.date(2020, 1, 31), dt.datetime(2020, 1, 31), dt.datetime(2020, 2, 1, 6, 30), dt.date(1900, 1, 1))
ODD = Domain(  # every column has values and marks that differ only in how they are spelled
    (
        Attribute("clipped", "number", edges=(0, 3, 10), missing=("-9.0", "?"), outside="clip"),
        Attribute("whole", "number", edges=(0, 3, 10), integer=True, missing=("5", "-9"), outside="missing"),
        Attribute("code", "coded", codes=6, missing=("", "-9.0", "2.0"), outside="missing"),
        Attribute("floats", "category", categories=("1.0", "2.0", "2.5"), missing=("-9.0",), outside="missing"),
        Attribute("ints", "category", categories=("1", "2", "rest"), missing=("-9",), outside="rest"),
        Attribute("flags", "category", categories=("true", "0.0", "1e+16", "other"), outside="other"),
        Attribute("day", "date", edges=(18262, 18293, 18322), missing=("-9.0", "1900-01-01"), outside="missing"),
        Attribute("days", "category", categories=("2020-01-31", "2020-02-01 06:30:00", "?"), outside="?"),
    )
)
NUMBERS = (-9, -9.0, 0, -0.0, 1, 1.0, 2, 2.5, 5, 5.0, 1e16, 10**16, 20200131, 20200131.0, 2**53 + 1, 1e300)


def alike(records):
    """A frame with the records in every column of `ODD`, as each library types them together."""
    series = pd.Series(records)
    yield pd.DataFrame(dict.fromkeys(ODD.names, series))
    yield pd.DataFrame(dict.fromkeys(ODD.names, pd.Series(records, dtype=object)))
    yield pd.DataFrame(dict.fromkeys(ODD.names, series)).convert_dtypes()
    yield pl.DataFrame(dict.fromkeys(ODD.names, pl.Series(records, dtype=pl.Object)))


def alike_if_typed(records):
    """The same where one type holds all of them: polars and Arrow. (Among dates they cut times and count days.)"""
    with contextlib.suppress(TypeError, OverflowError, pl.exceptions.PolarsError):
        yield pl.DataFrame(dict.fromkeys(ODD.names, pl.Series(records)))
    with contextlib.suppress(pa.ArrowException, OverflowError):
        column = pa.array(records)
        yield pa.table(dict.fromkeys(ODD.names, column))
        yield pa.table(dict.fromkeys(ODD.names, column)).to_pandas(types_mapper=pd.ArrowDtype)


def code_of(value, columns=ODD.names, make=pd.Series, kind=object):
    frame = nw.from_native(make([value], dtype=kind), series_only=True).alias("x").to_frame()
    frame = frame.select(**dict.fromkeys(columns, nw.col("x"))).to_native()
    return [column[0] for column in codes(Table.from_frame(frame, ODD, columns))]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-9, [2, 2, 6, 3, 3, 3, 2, 2]),
        (None, [2, 2, 6, 3, 3, 3, 2, 2]),
        (5, [1, 2, 5, 3, 2, 3, 2, 2]),
        (2, [0, 0, 6, 1, 1, 3, 2, 2]),
        (1, [0, 0, 1, 0, 0, 0, 2, 2]),
        (2.5, [0, 2, 6, 2, 2, 3, 2, 2]),
        (10**16, [1, 2, 6, 3, 2, 2, 2, 2]),
        (20200131, [1, 2, 6, 3, 2, 3, 0, 2]),
        ("?", [2, 2, 6, 3, 2, 3, 2, 2]),
        (True, [0, 0, 1, 0, 0, 0, 2, 2]),
    ],
)
def test_codes_of_odd_values(value, expected):
    assert code_of(value) == expected


TWINS = [
    (-9, -9.0, np.int8(-9), np.float32(-9), Decimal("-9.00"), Fraction(-9)),
    (2.5, np.float32(2.5), Decimal("2.50"), Fraction(5, 2)),
    (1, 1.0, np.uint64(1), Decimal(1), True, np.True_),
    (2**53, 2**53 + 1, float(2**53), np.int64(2**53 + 1), Decimal(2**53 + 1)),
    (0, -0.0, Decimal("-0.0"), False),
    (None, float("nan"), np.float32("nan"), Decimal("NaN"), np.datetime64("NaT"), pd.NaT, pd.NA),
    (DAYS[0], DAYS[1], pd.Timestamp("2020-01-31"), np.datetime64("2020-01-31"), np.datetime64("2020-01-31", "ns")),
    (DAYS[2], pd.Timestamp(DAYS[2]), np.datetime64("2020-02-01T06:30"), np.datetime64("2020-02-01T06:30", "ns")),
    (DAYS[3], pd.Timestamp(DAYS[3]), np.datetime64("1900-01-01")),
]


@pytest.mark.parametrize("twins", TWINS)
def test_equal_values_have_equal_codes_in_every_type(twins):
    columns = ODD.names[1:] if isinstance(twins[0], dt.date) else ODD.names  # `clip` refuses what is no number
    expected = code_of(twins[0], columns)
    for value in twins:
        assert code_of(value, columns) == expected
        if value is not pd.NaT and value is not pd.NA:  # pandas only
            assert code_of(value, columns, pl.Series, pl.Object) == expected


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from([*NUMBERS, None]), min_size=1, max_size=5))
def test_the_code_of_a_number_does_not_depend_on_the_type_of_its_column(records):
    expected = [code_of(value) for value in records]
    found = 0
    for frame in chain(alike(records), alike_if_typed(records)):
        assert list(map(list, zip(*codes(Table.from_frame(frame, ODD)), strict=True))) == expected
        found += 1
    assert found >= 4


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_replacing_one_record_changes_at_most_one_code(data):
    numbers, days = (*NUMBERS, None), (DAYS[0], DAYS[1], DAYS[3], None)
    mixed = (*numbers, *DAYS, True, False, "?", "1", Decimal("2.50"), np.float32(2.5), float("nan"))
    pool = data.draw(st.sampled_from([numbers, days, (*NUMBERS, Decimal("2.50"), Decimal(5)), mixed]))
    records = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=5))
    place = data.draw(st.integers(0, len(records) - 1))
    neighbour = [*records[:place], data.draw(st.sampled_from(pool)), *records[place + 1 :]]
    rest = np.arange(len(records)) != place
    columns = ODD.names if pool == numbers else ODD.names[1:]  # `clip` refuses what is no number
    every = [
        np.array(codes(Table.from_frame(frame, ODD, columns)))[:, rest]
        for group in (records, neighbour)
        for frame in chain(alike(group), () if pool == mixed else alike_if_typed(group))
    ]
    for found in every[1:]:
        np.testing.assert_array_equal(found, every[0])


@pytest.mark.parametrize(
    ("attribute", "records", "newcomer", "expected"),
    [
        (ODD["clipped"], [5] * 3 + [-9] * 1000, "?", [0, 3, 1001]),
        (ODD["clipped"], [5] * 3 + [-9] * 1000, -9, [0, 3, 1001]),
        (ODD["floats"], [1] * 1000, None, [1000, 0, 0, 1]),
        (ODD["floats"], [1] * 1000, 2, [1000, 1, 0, 0]),
    ],
)
@pytest.mark.parametrize("make", [pd.DataFrame, lambda data: pl.DataFrame(data, strict=False)])
def test_one_newcomer_leaves_the_counts_of_the_others(make, attribute, records, newcomer, expected):
    frame = make({attribute.name: [*records, newcomer]})
    assert Table.from_frame(frame, Domain((attribute,))).histogram().tolist() == expected


def test_what_was_read_before_does_not_decide_how_a_value_is_spelled():
    attribute = Attribute("x", "category", categories=("1", "10000000000000000"), missing=("",), outside="missing")
    for text, value, code in (("True", True, 0), ("1e+16", 1e16, 1)):
        encoder = Encoder(attribute)
        pieces = [nw.from_native(pd.Series([v], dtype=object), series_only=True) for v in (text, value)]
        assert [encode_series(encoder, piece, 0).item() for piece in pieces] == [code, code]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sex": ["F", "X", "M"]}, "the frame row 1 (from 0): column 'sex': value 'X' is not one of"),
        ({"sex": ["F", None, "M"]}, "row 1 (from 0): column 'sex': value '' is not one of"),
        ({"age": [1, 2, 60]}, "row 2 (from 0): column 'age': value '60' is not within the bins 0..59"),
        ({"age": [1.5, 2, 3]}, "row 0 (from 0): column 'age': value '1.5' is not a whole number"),
        ({"age": [1, float("inf"), 3]}, "row 1 (from 0): column 'age': value 'inf' is not a whole number"),
    ],
)
@pytest.mark.parametrize("make", [pd.DataFrame, pa.table])
def test_from_frame_refuses(make, change, message):
    with pytest.raises(InvalidInput) as caught:
        Table.from_frame(make(FRAME | change), PEOPLE)
    assert message in str(caught.value)


def test_from_frame_refuses_what_is_no_frame():
    with pytest.raises(InvalidInput, match="a pandas, polars or pyarrow table is needed, got dict"):
        Table.from_frame(FRAME, PEOPLE)
    with pytest.raises(InvalidInput, match="the frame has no column 'day'; it has age, sex"):
        Table.from_frame(pl.DataFrame(FRAME).select("age", "sex"), PEOPLE)


def test_pandas_frames_with_numbered_columns():
    frame = pd.DataFrame(np.array([[0, 1], [1, 1]]))
    assert codes(Table.from_frame(frame, Domain.coded({"1": 2, "0": 2}))) == [[1, 1], [0, 1]]


@pytest.mark.parametrize("library", [pd.DataFrame, lambda rows, columns: pa.table(rows, names=columns)])
def test_frames_with_a_column_twice(library):
    with pytest.raises(InvalidInput, match=r"the frame has a column twice: .*'a' 2 times$"):
        Table.from_frame(library([[0, 1], [1, 1]], columns=["a", "a"]), Domain.coded({"a": 2}))


@pytest.mark.parametrize("first", [2**53 - 512, 2**60, -(2**60)])
def test_whole_numbers_past_those_that_floats_tell_apart_are_read_as_floats_in_every_type(first):
    column = Attribute("x", "number", edges=(first, first + 256, first + 512), missing=("?",), outside="missing")
    values = [first + 200, first + 255, first + 256, first + 400]
    slow = [column.encode(str(value)) for value in values]
    odd = pd.DataFrame({"x": pd.Series([*values, None], dtype=object)})
    for frame in (pd.DataFrame({"x": values}), pl.DataFrame({"x": values}), pa.table({"x": values}), odd):
        assert Table.from_frame(frame, Domain([column])).codes(0)[: len(values)].tolist() == slow


def test_a_frame_or_file_without_a_schema_is_told_how_to_get_one(tmp_path):
    for read in (lambda: Table.from_frame(pd.DataFrame(FRAME)), lambda: Table.read(tmp_path / "people.csv")):
        with pytest.raises(InvalidInput, match=r"a schema is needed: .*qrelease schema draft.*qr\.draft"):
            read()


def test_texts_come_many_at_a_time_and_are_those_of_the_values():
    frame = pd.DataFrame({"a": np.arange(20_000) % 3000 / 8, "b": [True, 1, 1.5, None, "x"] * 4000})
    blocks = [[*block] for block in FrameReader(frame).texts()]
    assert len(blocks) == 2
    first, second = (list(chain.from_iterable(column)) for column in zip(*blocks, strict=True))
    assert first == [repr(v) if v % 1 else str(int(v)) for v in frame["a"].tolist()]
    assert second[:5] == ["true", "1", "1.5", "", "x"]


@pytest.mark.parametrize("outside", ["clip", "error"])
@pytest.mark.parametrize("step", [2, 3, 20, "0.25", "2.5"])
def test_whole_numbers_on_a_grid_are_read_as_their_texts_are(tmp_path, step, outside):
    """On a coarse grid whatever lay beyond the limits was read as the last point, a missing mark too."""
    schema = (
        f'[[attribute]]\nname = "x"\nkind = "number"\nwithin = [0, 60]\nstep = {step}\noutside = "{outside}"\n'
        'missing = ["-9", "99"]\nreviewed = true\n'
    )
    file = tmp_path / "x.csv"
    for value in [-9, 99, *range(-30, 100, 7)]:
        frame = pd.DataFrame({"x": [value] * 3})
        frame.to_csv(file, index=False)
        found = []
        for read in (lambda: Table.read(file, schema), lambda: Table.from_frame(frame, schema)):  # noqa: B023
            try:
                found.append(read().counts(((0,),))[0].tolist())
            except InvalidInput:
                found.append(None)
        assert found[0] == found[1], value
