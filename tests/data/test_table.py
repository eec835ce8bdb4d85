import bz2
import contextlib
import csv
import datetime as dt
import gzip
import io
import lzma
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from strategies import domains
from worlds import coded, random_table

from qrelease.data.bundled import ADULT_CSV, CATEGORICAL, adult
from qrelease.data.domain import Attribute, Domain
from qrelease.data.marginals import counting
from qrelease.data.marginals.plan import MarginalPlan
from qrelease.data.schema_draft import draft
from qrelease.data.sources import csv as csv_module
from qrelease.data.sources import parquet as parquet_module
from qrelease.data.sources.compression import written
from qrelease.data.sources.csv import write_csv
from qrelease.data.sources.encoder import Encoder
from qrelease.data.sources.frames import encode_series
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge

PEOPLE = Domain(
    (
        Attribute("age", "number", edges=(0, 20, 40, 60), integer=True, missing=("?",)),
        Attribute("sex", "category", categories=("F", "M")),
        Attribute("day", "date", edges=(18262, 18293, 18322), missing=("",)),
    )
)
TEXT = 'sex,note,age,day\nF,"a, b",19,2020-01-31\nM,"two\nlines",?,\n F ,x, 40 ,2020-02-01\n'
CODES = [[0, 3, 2], [0, 1, 0], [0, 2, 1]]


def codes(table):
    return [column.tolist() for column in table.columns]


@pytest.fixture
def file(tmp_path):
    def _file(content, name="people.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return _file


@pytest.mark.parametrize("pack", [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_read_csv(file, pack, mark):
    suffix, compress = pack
    path = file(compress(mark + TEXT.encode()), "people.csv" + suffix)
    found = Table.read_csv(path, PEOPLE)
    assert codes(found) == CODES
    assert found.domain == PEOPLE
    assert len(found) == 3


def test_read_csv_line_ends_blank_lines_and_columns(file):
    path = file(TEXT.replace("\n", "\r\n") + "\r\n\r\n")
    assert codes(Table.read_csv(path, PEOPLE, columns=["sex", "age"])) == [CODES[1], CODES[0]]
    assert Table.read_csv(path, PEOPLE, columns=["sex", "age"]).domain.names == ("sex", "age")
    schema = file('[[attribute]]\nname="sex"\nkind="category"\ncategories=["F", "M"]\n', "s.toml")
    assert codes(Table.read_csv(path, schema)) == [CODES[1]]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("age\n30\n\n10\n", [1, 3, 0]),
        ("age\n30\n\n10", [1, 3, 0]),
        ("age\r\n\r\n10\r\n", [3, 0]),
        ("\n\nage\n10\n\n", [0, 3]),  # one line break ends the last record, here an empty one
        ("age\n\n", [3]),
        ('age\n""', [3]),
        ("age\n  \n?\n", [3, 3]),
    ],
)
def test_a_blank_line_is_a_record_where_there_is_one_column(file, monkeypatch, content, expected):
    domain = Domain((Attribute("age", "number", edges=(0, 20, 40, 60), integer=True, missing=("?", "")),))
    assert codes(Table.read_csv(file(content), domain)) == [expected]
    monkeypatch.setattr(csv_module, "CHUNK", 1)
    assert codes(Table.read_csv(file(content), domain)) == [expected]


def test_a_blank_line_that_the_schema_does_not_know_is_an_error_with_its_line(file):
    with pytest.raises(InvalidInput, match=r"line 4: column 'sex': value '' is not one of the 2 categories"):
        Table.read_csv(file("\nsex\nF\n\nM\n"), PEOPLE.project([1]))


@given(st.lists(st.sampled_from(["F", "M", ""]), min_size=1), st.sampled_from(["\n", "\r\n"]))
def test_no_value_makes_its_record_vanish(tmp_path_factory, values, end):
    path = tmp_path_factory.mktemp("rows") / "plain.csv"
    path.write_bytes("".join(f"{value}{end}" for value in ["sex", *values]).encode())
    domain = Domain((Attribute("sex", "category", categories=("F", "M"), missing=("",)),))
    expected = [("F", "M", "").index(value) for value in values]
    assert codes(Table.read_csv(path, domain)) == [expected]
    write_csv(path, domain, [np.array(expected)], np.random.default_rng(0))
    assert codes(Table.read_csv(path, domain)) == [expected]


def test_an_empty_value_is_written_in_quotes_where_there_is_one_column():
    out = io.StringIO()
    domain = Domain((Attribute("sex", "category", categories=("F",), missing=("",)),))
    write_csv(out, domain, [np.array([1, 0, 1])], np.random.default_rng(0))
    assert out.getvalue() == 'sex\n""\nF\n""\n'


def test_read_csv_spans_chunks(file, monkeypatch):
    monkeypatch.setattr(csv_module, "CHUNK", 2)
    assert codes(Table.read_csv(file(TEXT), PEOPLE)) == CODES


def test_many_distinct_values_are_not_all_remembered(file, monkeypatch):
    monkeypatch.setattr("qrelease.data.sources.encoder._REMEMBERED_VALUES", 3)
    domain = Domain((Attribute("x", "number", edges=(0, 500, 1000)),))
    path = file("x\n" + "".join(f"{i}\n" for i in range(1000)))
    assert np.bincount(Table.read_csv(path, domain).columns[0]).tolist() == [500, 500]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "people.csv is empty; it needs a header row"),
        ("\n\n", "people.csv is empty; it needs a header row"),
        ("age,sex\n1,F\n", "people.csv has no column 'day'; it has age, sex"),
        ("age;sex;day\n1;F;\n", "people.csv line 1: columns are separated by ';'; save it with commas"),
        ("age\tsex\tday\n1\tF\t\n", "people.csv line 1: columns are separated by '\\t'; save it with commas"),
        ("age,sex,age,day\n", "people.csv line 1: column 'age' appears twice"),
        ("age,sex,day\n1,F,\n\n1,F\n", "people.csv line 4: 2 values, the header has 3"),
        ('age,sex,day\n"1\n",F,\n1,F,,\n', "people.csv line 4: 4 values, the header has 3"),
        ('age,sex,day\n"1,F,\n', "people.csv line 2: not CSV, unexpected end of data"),
        ('age,sex,day\n"1"2,F,\n', "people.csv line 2: not CSV, ',' expected after '\"'"),
        (b"age,sex,day\n1,F,\n1,\xe9,\n", "people.csv line 3: byte 0xe9 is not UTF-8; save it as UTF-8"),
        ("age,sex,day\n".encode("utf-16"), "people.csv line 1: byte 0xff is not UTF-8; save it as UTF-8"),
        (
            "age,sex,day\n1,F,\n61,F,\n",
            "people.csv line 3: column 'age': value '61' is not within the bins 0..59",
        ),
        (
            'age,sex,day\n"1\n",F,\n\n1,X,\n',
            "line 5: column 'sex': value 'X' is not one of the 2 categories 'F', 'M'",
        ),
        ("age,sex,day\nold,F,\n", "line 2: column 'age': value 'old' is not a whole number"),
        ("age,sex,day\n1,F,soon\n", "line 2: column 'day': value 'soon' is not an ISO date (YYYY-MM-DD)"),
    ],
)
def test_read_csv_refuses(file, content, message):
    with pytest.raises(InvalidInput) as caught:
        Table.read_csv(file(content), PEOPLE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files(file, tmp_path):
    with pytest.raises(InvalidInput, match=r"absent\.csv cannot be read: No such file"):
        Table.read_csv(tmp_path / "absent.csv", PEOPLE)
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        Table.read_csv(tmp_path, PEOPLE)
    with pytest.raises(InvalidInput, match="cannot be read: Not a gzipped file"):
        Table.read_csv(file(TEXT, "people.csv.gz"), PEOPLE)
    with pytest.raises(InvalidInput, match="cannot be read: Input format not supported"):
        Table.read_csv(file(TEXT, "people.csv.xz"), PEOPLE)
    with pytest.raises(InvalidInput, match="cannot be read: Compressed file ended"):
        Table.read_csv(file(gzip.compress(TEXT.encode() * 50)[:-20], "cut.csv.gz"), PEOPLE)
    with pytest.raises(InvalidInput, match=r"line 1: not CSV, field larger than field limit \(131072\)"):
        Table.read_csv(file("x" * 200_000), PEOPLE)
    with pytest.raises(InvalidInput, match="no attribute 'x'; the domain has age, sex, day"):
        Table.read_csv(file(TEXT), PEOPLE, columns=["x"])


def test_a_table_is_silent_and_fixed(file):
    found = Table.read_csv(file(TEXT), PEOPLE)
    assert repr(found) == str(found) == "Table(age[4] x sex[2] x day[3] (24 cells); the records are private)"
    assert [column.dtype for column in found.columns] == [np.uint8] * 3
    with pytest.raises(ValueError, match="read-only"):
        found.columns[0][0] = 1


@pytest.mark.parametrize(("size", "kind"), [(1, np.uint8), (256, np.uint8), (257, np.uint16), (70_000, np.uint32)])
def test_codes_take_the_smallest_type(size, kind):
    given_codes = np.array([0, size - 1])
    found = Table(Domain.coded({"a": size}), (given_codes,))
    assert found.columns[0].dtype == kind
    given_codes[0] = 99
    assert found.columns[0].tolist() == [0, size - 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "the domain has 2 columns, got 0 arrays"),
        ([[0], [0, 1]], "columns must be 1-d arrays of one length, got shapes (1,), (2,)"),
        ([[[0]], [[1]]], "columns must be 1-d arrays of one length"),
        ([[0], [2]], "column 'b' must hold codes 0..1, got 2..2"),
        ([[0], [-1]], "column 'b' must hold codes 0..1, got -1..-1"),
        ([[0], [0.5]], "column 'b' must hold integer codes, got float64"),
        ([[0], [True]], "column 'b' must hold integer codes, got bool"),
    ],
)
def test_table_refuses(columns, message):
    with pytest.raises(InvalidInput) as caught:
        Table(Domain.coded({"a": 2, "b": 2}), tuple(map(np.array, columns)))
    assert message in str(caught.value)


# ---- data frames

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


@pytest.mark.parametrize(
    ("value", "shown"),
    [(10**400, "inf"), (Fraction(-(10**400)), "-inf"), (2**53 + 1.0, "9007199254740992"), (0.5, "0.5")],
)
def test_numbers_are_shown_as_they_are_read(value, shown):
    frame = pd.DataFrame({"x": pd.Series([value], dtype=object)})
    with pytest.raises(InvalidInput, match=rf"row 0 \(from 0\): column 'x': value '{shown}' is not"):
        Table.from_frame(frame, Domain.coded({"x": 2}))


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
    with pytest.raises(InvalidInput, match="a pandas, polars or pyarrow table is needed, got LazyFrame"):
        Table.from_frame(pl.LazyFrame(FRAME), PEOPLE)
    with pytest.raises(InvalidInput, match="the frame has no column 'day'; it has age, sex"):
        Table.from_frame(pl.DataFrame(FRAME).select("age", "sex"), PEOPLE)


def test_pandas_frames_with_numbered_columns():
    frame = pd.DataFrame(np.array([[0, 1], [1, 1]]))
    assert codes(Table.from_frame(frame, Domain.coded({"1": 2, "0": 2}))) == [[1, 1], [0, 1]]


@pytest.mark.parametrize("library", [pd.DataFrame, lambda rows, columns: pa.table(rows, names=columns)])
def test_frames_with_a_column_twice(library):
    with pytest.raises(InvalidInput, match=r"the frame has a column twice: .*'a' 2 times$"):
        Table.from_frame(library([[0, 1], [1, 1]], columns=["a", "a"]), Domain.coded({"a": 2}))


@pytest.mark.parametrize("name", ["people.csv", "people.pq"])
def test_reading_shows_its_progress_on_a_terminal_only(tmp_path, name):
    termios = pytest.importorskip("termios", reason="a terminal as on Unix")
    (tmp_path / "people.csv").write_text(TEXT, encoding="utf-8")
    parquet.write_table(pa.table(FRAME), tmp_path / "people.pq")
    code = f"from qrelease.data.schema_draft import draft; draft({str(tmp_path / name)!r})"
    silent = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert silent.stderr == silent.stdout == b""
    terminal, end = os.openpty()
    os.set_blocking(terminal, False)
    termios.tcsetwinsize(end, (24, 80))
    subprocess.run([sys.executable, "-c", code], stderr=end, check=True)
    assert b"reading: 0.00 rows" in os.read(terminal, 1000)
    os.close(terminal)
    os.close(end)


def test_read_parquet(tmp_path, monkeypatch):
    path = tmp_path / "people.parquet"
    parquet.write_table(pa.table(FRAME), path)
    assert codes(Table.read_parquet(path, PEOPLE)) == CODES
    monkeypatch.setattr(parquet_module, "BATCH", 2)
    assert codes(Table.read_parquet(path, PEOPLE, columns=["sex"])) == [CODES[1]]
    parquet.write_table(pa.table(FRAME | {"sex": ["F", "M", "X"]}), path)
    with pytest.raises(InvalidInput, match=r"people\.parquet row 2 \(from 0\): column 'sex': value 'X'"):
        Table.read_parquet(path, PEOPLE)
    with pytest.raises(InvalidInput, match=r"people\.parquet has no column 'x'; it has age, sex, day, extra"):
        Table.read_parquet(path, Domain.coded({"x": 2}))
    path.write_text(TEXT)
    with pytest.raises(InvalidInput, match=r"people\.parquet cannot be read"):
        Table.read_parquet(path, PEOPLE)
    with pytest.raises(InvalidInput, match=r"absent\.parquet cannot be read"):
        Table.read_parquet(tmp_path / "absent.parquet", PEOPLE)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match="Parquet needs pyarrow: pip install pyarrow"):
        Table.read_parquet(path, PEOPLE)


# ---- counts


def counts_twin(columns, shape, sets):
    """The marginal counts, record by record."""
    found = []
    for axes in sets:
        counts = np.zeros([shape[a] for a in axes], dtype=np.int64)
        for record in zip(*columns, strict=True):
            counts[tuple(record[a] for a in axes)] += 1
        found.append(counts.ravel())
    return found


@settings(deadline=None)  # the first call compiles
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=5).flatmap(
        lambda shape: st.tuples(
            st.just(tuple(shape)),
            st.lists(st.lists(st.integers(0, len(shape) - 1), unique=True).map(tuple), max_size=5),
            st.integers(0, 40),
            st.integers(0, 2**32 - 1),
        )
    )
)
def test_counts_equal_the_twin(case):
    shape, sets, n, seed = case
    rng = np.random.default_rng(seed)
    domain = Domain.coded({f"c{i}": size for i, size in enumerate(shape)})
    found = Table(domain, tuple(rng.integers(0, size, n) for size in shape))
    counts = found.counts(sets)
    assert len(counts) == len(sets)
    for got, expected in zip(counts, counts_twin(found.columns, shape, sets), strict=True):
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(found.histogram(), counts_twin(found.columns, shape, [tuple(range(len(shape)))])[0])


def test_counts_over_many_steps(monkeypatch):
    monkeypatch.setattr(counting, "SETTINGS", replace(counting.SETTINGS, block_bytes=112))
    rng = np.random.default_rng(3)
    shape = (300, 2, 5)
    found = Table(Domain.coded({"a": 300, "b": 2, "c": 5}), tuple(rng.integers(0, size, 100) for size in shape))
    sets = [(0, 2), (2, 0), (1,), (), (0, 1, 2)]
    for got, expected in zip(found.counts(sets), counts_twin(found.columns, shape, sets), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("axes", [(0, 0), (2,), (-1,)])
def test_counts_refuse_what_is_no_set_of_columns(axes):
    found = Table(Domain.coded({"a": 2, "b": 2}), (np.zeros(1, np.int64),) * 2)
    with pytest.raises(InvalidInput, match=r"must be distinct positions 0\.\.1, got \("):
        found.counts([axes])


def test_too_many_cells_are_refused_before_allocation():
    found = Table(Domain.coded({"a": 2**20, "b": 2**20}), (np.zeros(1, np.int64),) * 2)
    with pytest.raises(TooLarge, match=r"2\^40 cells do not fit; at most 268,435,456 do"):
        found.histogram()


# ---- writing


@pytest.mark.parametrize("name", ["a;b", "a\tb", "|"])
def test_a_single_column_may_be_named_with_a_mark_that_separates_elsewhere(file, name):
    domain = Domain((Attribute(name, "category", categories=("x", "y")),))
    path = file(f'"{name}"\nx\ny\n')
    assert codes(Table.read_csv(path, domain)) == [[0, 1]]
    with pytest.raises(InvalidInput, match="columns are separated by"):
        draft(path)


@settings(deadline=None)  # files
@given(domains(), st.integers(0, 2**32 - 1))
def test_written_rows_read_back_to_their_codes(tmp_path_factory, domain, seed):
    rng = np.random.default_rng(seed)
    records = [rng.integers(0, a.size, 12) for a in domain]
    path = tmp_path_factory.mktemp("rows") / "synthetic.csv"
    write_csv(path, domain, records, rng)
    assert codes(Table.read_csv(path, domain)) == [column.tolist() for column in records]


def test_write_csv_shows_header_labels_and_further_columns():
    out = io.StringIO()
    domain = PEOPLE.project([1, 0])
    write_csv(
        out, domain, [np.array([0, 1]), np.array([3, 3])], np.random.default_rng(0), {"weight": np.array([0.5, 2])}
    )
    assert out.getvalue() == "sex,age,weight\nF,?,0.5\nM,?,2.0\n"
    with pytest.raises(InvalidInput, match="would collide with the attribute 'weight'"):
        write_csv(out, Domain.coded({"weight": 2}), [np.array([0])], np.random.default_rng(0), {"weight": np.ones(1)})


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2"])
def test_write_csv_compresses_by_extension(tmp_path, suffix):
    path = tmp_path / f"s.csv{suffix}"
    records = [np.arange(5000) % 2]
    write_csv(path, PEOPLE.project([1]), records, np.random.default_rng(0))
    assert codes(Table.read_csv(path, PEOPLE.project([1]))) == [records[0].tolist()]
    first = path.read_bytes()
    write_csv(path, PEOPLE.project([1]), records, np.random.default_rng(0))
    assert path.read_bytes() == first
    assert os.listdir(tmp_path) == [path.name]


def test_a_failed_write_leaves_nothing(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("old")

    def interrupted():
        with written(path) as out:
            out.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["s.csv"]
    with pytest.raises(InvalidInput, match=r"s\.csv cannot be written: No such file or directory"):
        write_csv(tmp_path / "absent" / "s.csv", PEOPLE.project([1]), [np.array([0])], np.random.default_rng(0))


# ---- the bundled table


def test_adult():
    found = adult()
    assert len(found) == 48_842
    assert found.domain.names == (
        *("age", "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex"),
        *("capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
    )
    by_name = dict(zip(found.domain.names, found.columns, strict=True))
    # adult.names: 23.93 % of all records earn more than 50K.
    assert np.bincount(by_name["income"]).tolist() == [37_155, 11_687]
    assert np.bincount(by_name["sex"]).tolist() == [16_192, 32_650]
    missing = {name: int((by_name[name] == found.domain[name].values).sum()) for name in CATEGORICAL}
    assert {k: v for k, v in missing.items() if v} == {
        "workclass": 2799,
        "occupation": 2809,
        "native-country": 857,
    }


def test_adult_categorical_universe():
    found = adult(CATEGORICAL)
    assert found.domain.names == CATEGORICAL
    assert found.domain.size == 76_204_800


def test_counts_of_adult_equal_those_of_the_csv_module():
    with lzma.open(ADULT_CSV, "rt") as text:
        records = list(csv.DictReader(text))
    found = adult(["sex", "income", "race"])
    for axes, counts in zip(combinations(range(3), 2), found.counts(list(combinations(range(3), 2))), strict=True):
        a, b = (found.domain.attributes[i] for i in axes)
        expected = [sum(r[a.name] == x and r[b.name] == y for r in records) for x in a.labels for y in b.labels]
        assert counts.tolist() == expected


def test_counts_are_taken_once(monkeypatch):
    """A mechanism of many rounds asks the same things again."""
    found, taken, count = random_table(coded(3, 4, 2), 50, 0), [], MarginalPlan.count
    monkeypatch.setattr(MarginalPlan, "count", lambda cover, *given: taken.append(cover.sets) or count(cover, *given))
    first = found.counts([(0, 1), (2,)])
    second = found.counts([(2,), (1, 2), (1, 0)])
    assert taken == [((0, 1), (2,)), ((1, 2),)]
    np.testing.assert_array_equal(second[2].reshape(4, 3).T.reshape(-1), first[0])
    with pytest.raises(ValueError, match="read-only"):
        first[0][0] = 1
    monkeypatch.setattr("qrelease.data.table._MAX_REMEMBERED_CELLS", 12)
    for _ in range(2):
        found.counts([(0, 2)])
        found.counts([(0, 1, 2)])
    assert taken[2:] == [((0, 2),), ((0, 1, 2),), ((0, 1, 2),)]


def test_threads_share_a_table(monkeypatch):
    """What one of them forgets another has still."""
    monkeypatch.setattr("qrelease.data.table._MAX_REMEMBERED_CELLS", 40)
    found = random_table(coded(3, 4, 2, 5), 200, 0)
    sets = [s for k in (1, 2) for s in combinations(range(4), k)]
    expected = {s: found.counts([s])[0].tolist() for s in sets}

    def ask(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            asked = [sets[i] for i in rng.choice(len(sets), 3, replace=False)]
            assert [c.tolist() for c in found.counts(asked)] == [expected[s] for s in asked]

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, range(6)))


# ---- larger than memory


@pytest.mark.parametrize("wide", [False, True])
def test_what_does_not_fit_in_memory_is_mapped_from_files(file, tmp_path, monkeypatch, wide):
    """Whatever part of it is held, a table is the same."""
    domain = Domain.coded({"a": 3, "b": 300 if wide else 200})
    rng = np.random.default_rng(0)
    data = {"a": rng.integers(0, 3, 5000), "b": rng.integers(0, domain.shape[1], 5000)}
    text = "".join(f"{a},{b}\n" for a, b in zip(data["a"], data["b"], strict=True))
    pd.DataFrame(data).to_parquet(tmp_path / "t.parquet")
    path = file("a,b\n" + text)
    held = Table.read_csv(path, domain)
    assert not any(isinstance(c, np.memmap) for c in held.columns)
    monkeypatch.setattr("qrelease._util.memory.free", lambda: 4000)
    for found in (Table.read_csv(path, domain), Table.read_parquet(tmp_path / "t.parquet", domain)):
        assert all(isinstance(c, np.memmap) and c.mode == "r" for c in found.columns)
        assert codes(found) == codes(held)
        assert [c.dtype for c in found.columns] == [np.uint8, np.uint16 if wide else np.uint8]
        for ours, theirs in zip(found.counts([(0, 1), (1,)]), held.counts([(0, 1), (1,)]), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        with pytest.raises(ValueError, match="read-only"):
            found.columns[0][0] = 1


def test_a_file_that_changes_after_it_was_read_is_named(tmp_path):
    """Its codes index tables: none may lie beyond them, whatever another process has written."""
    domain, rng = Domain.coded({"a": 3, "b": 200}), np.random.default_rng(0)
    paths = [tmp_path / name for name in domain.names]
    for path, size in zip(paths, domain.shape, strict=True):
        rng.integers(0, size, 5000).astype(np.uint8).tofile(path)
    found = Table(domain, tuple(np.memmap(path, np.uint8, "r") for path in paths))
    assert found.counts([(1,)])[0].sum() == 5000
    with paths[1].open("r+b") as file:
        file.seek(4999)
        file.write(b"\xff")
    with pytest.raises(InvalidInput, match="column 'b' has codes that it had not when it was read"):
        found.counts([(0, 1)])
    assert found.counts([(0,)])[0].sum() == 5000


def test_a_large_source_is_read_without_holding_it(file, monkeypatch):
    path, domain = file("a\n" + "1\n" * 400_000), Domain.coded({"a": 2})
    monkeypatch.setattr("qrelease._util.memory.free", lambda: 4 * 50_000)
    Table.read_csv(path, domain)  # what is loaded once does not count
    tracemalloc.start()
    try:
        found = Table.read_csv(path, domain)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 400_000
    assert peak < 350_000


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "pandas", "untyped", "polars", "arrow"])
def test_a_table_without_records_is_a_table(file, tmp_path, suffix):
    """It is the neighbour of a table with one record, under add-remove."""
    empty = pl.DataFrame(FRAME).clear()
    match suffix:
        case "csv":
            table = Table.read_csv(file("age,sex,day\n"), PEOPLE)
        case "csv.gz":
            path = tmp_path / "people.csv.gz"
            path.write_bytes(gzip.compress(b"age,sex,day"))
            table = Table.read_csv(path, PEOPLE)
        case "parquet":
            empty.write_parquet(tmp_path / "people.parquet")
            table = Table.read_parquet(tmp_path / "people.parquet", PEOPLE)
        case "untyped":
            table = Table.from_frame(pd.DataFrame({name: [] for name in FRAME}), PEOPLE)
        case _:
            made = {"pandas": empty.to_pandas, "polars": empty.clone, "arrow": empty.to_arrow}[suffix]()
            table = Table.from_frame(made, PEOPLE)
    assert len(table) == 0
    assert table.histogram().sum() == 0
    assert table.counts([(0,), (1, 2)])[1].tolist() == [0] * PEOPLE.cells((1, 2))
    one = pl.DataFrame(FRAME).head(1)
    assert [c.dtype for c in table.columns] == [c.dtype for c in Table.from_frame(one, PEOPLE).columns]
