"""Records of CSV files, read and written: lines, quotes, encodings, and what is refused."""

import bz2
import gzip
import io
import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import CODES, PEOPLE, TEXT, codes
from strategies import domains

from qrelease.data.domain import Attribute, Domain
from qrelease.data.schema_draft import draft
from qrelease.data.sources.csv import CHUNK, PLAIN, CsvReader, write_csv
from qrelease.data.sources.csv_blocks import BlockCsvReader
from qrelease.data.sources.encoder import REMEMBERED_VALUES
from qrelease.data.table import Table
from qrelease.errors import InvalidInput


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
def test_a_blank_line_is_a_record_where_there_is_one_column(file, content, expected):
    domain = Domain((Attribute("age", "number", edges=(0, 20, 40, 60), integer=True, missing=("?", "")),))
    assert codes(Table.read_csv(file(content), domain)) == [expected]
    header, _, records = content.partition("age\n") if "age\n" in content else content.partition("age\r\n")
    later = file(f"{header}age\n" + "10\n" * (CHUNK - 1) + records)  # the blank line may be the first of a chunk
    assert codes(Table.read_csv(later, domain)) == [[0] * (CHUNK - 1) + expected]


def test_a_blank_line_that_the_schema_does_not_know_is_an_error_with_its_line(file):
    told = r"line 4: column 'sex': value '' is not one of the 2 categories .*needs missing = \[\"\"\]"
    with pytest.raises(InvalidInput, match=told):
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


def test_read_csv_spans_chunks(file):
    head, records = TEXT.split("\n", 1)
    found = codes(Table.read_csv(file(f"{head}\n" + records * CHUNK), PEOPLE))
    assert found == [column * CHUNK for column in CODES]


def test_many_distinct_values_are_not_all_remembered(file):
    n = REMEMBERED_VALUES + 1000
    domain = Domain((Attribute("x", "number", edges=(0, n - 500, n)),))
    path = file("x\n" + "".join(f"{i}\n" for i in range(n)))
    assert np.bincount(Table.read_csv(path, domain).columns[0]).tolist() == [n - 500, 500]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "people.csv is empty; it needs a header row"),
        ("\n\n", "people.csv is empty; it needs a header row"),
        ("age,sex\n1,F\n", "people.csv has no column 'day'; it has age, sex"),
        ("age;sex;day\n1;F;\n", "people.csv line 1: columns seem to be separated by ';'; say --separator ';'"),
        ("age\tsex\tday\n1\tF\t\n", "people.csv line 1: columns seem to be separated by '\\t'; say --separator tab"),
        (
            "age,sex,age,day\n",
            "people.csv line 1: the name of column 1 appears twice, as column 3 too; if it is a record",
        ),
        ("age,sex,day\n1,F,\n\n1,F\n", "people.csv line 4: 2 values, the header has 3"),
        ('age,sex,day\n"1\n",F,\n1,F,,\n', "people.csv line 4: 4 values, the header has 3"),
        ('age,sex,day\n"1,F,\n', "people.csv line 2: not CSV, unexpected end of data"),
        ('age,sex,day\n"1"2,F,\n', "people.csv line 2: not CSV, ',' expected after '\"'"),
        (
            b"age,sex,day\n1,F,\n1,\xe9,\n",
            "people.csv line 3: byte 0xe9 is not UTF-8; say its --encoding: cp1252, perhaps",
        ),
        (
            "age,sex,day\n".encode("utf-16"),
            "people.csv line 1: byte 0xff is not UTF-8; say its --encoding: utf-16, perhaps",
        ),
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


@pytest.mark.parametrize("name", ["a;b", "a\tb", "|"])
def test_a_single_column_may_be_named_with_a_mark_that_separates_elsewhere(file, name):
    domain = Domain((Attribute(name, "category", categories=("x", "y")),))
    path = file(f'"{name}"\nx\ny\n')
    assert codes(Table.read_csv(path, domain)) == [[0, 1]]
    with pytest.raises(InvalidInput, match="columns seem to be separated by"):
        draft(path)


@settings(deadline=None)  # files
@given(domains(), st.integers(0, 2**32 - 1))
def test_written_rows_read_back_to_their_codes(tmp_path_factory, domain, seed):
    rng = np.random.default_rng(seed)
    records = [rng.integers(0, a.size, 12) for a in domain]
    path = tmp_path_factory.mktemp("rows") / "synthetic.csv"
    write_csv(path, domain, records, rng)
    assert codes(Table.read_csv(path, domain)) == [column.tolist() for column in records]


@pytest.mark.parametrize("text", ["a\rb", "\r", "a\nb", "a\r\nb", "\x85", "\u2028", 'q"\r"'])
def test_a_text_with_the_end_of_a_line_in_it_is_read_back(text, tmp_path):
    domain = Domain((Attribute("t", "category", categories=(text, "y")), Attribute(f"b{text}", "coded", codes=3)))
    records = [np.array([0, 1, 0]), np.array([0, 1, 2])]
    write_csv(tmp_path / "out.csv", domain, records, np.random.default_rng(0))
    content = (tmp_path / "out.csv").read_bytes().decode()
    assert content.endswith("\n")
    assert not content.endswith("\r\n")
    for reader in (CsvReader, BlockCsvReader):
        found = Table.of_reader(reader(tmp_path / "out.csv", PLAIN), domain)
        assert [column.tolist() for column in found.columns] == [column.tolist() for column in records]


def test_write_csv_shows_header_labels_and_further_columns():
    out = io.StringIO()
    domain = PEOPLE.project([1, 0])
    write_csv(
        out, domain, [np.array([0, 1]), np.array([3, 3])], np.random.default_rng(0), {"weight": np.array([0.5, 2])}
    )
    assert out.getvalue() == "sex,age,weight\nF,?,0.5\nM,?,2.0\n"
    with pytest.raises(InvalidInput, match="would collide with the attribute 'weight'"):
        write_csv(out, Domain.coded({"weight": 2}), [np.array([0])], np.random.default_rng(0), {"weight": np.ones(1)})


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (
            "people.xlsx",
            b"PK\x03\x04\x14\x00\x06\x00\x08\x00\xe9\n",
            r"is no CSV file but a ZIP archive, as workbooks \(\.xlsx",
        ),
        ("people.csv.zst", b"\x28\xb5\x2f\xfd\x04\x00\xc1", "is no CSV file but packed by zstd"),
        ("people.csv", gzip.compress(b"sex\nF\n", mtime=0), r"packed by gzip: let its name end with \.gz"),
        ("people.txt", b"PAR1\x15\x04\n\x15\xf8\n", r"a Parquet file: let its name end with \.parquet"),
        ("people.csv", b"\xff\xff\xff\xff\x10\x00", r"an Arrow stream: let its name end with \.arrows"),
        ("people.csv", b"PARTY\n\xe9\n", "line 2: byte 0xe9 is not UTF-8"),
    ],
)
def test_a_file_of_another_format_is_called_what_it_is(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=told):
        Table.read(tmp_path / name, PEOPLE)
