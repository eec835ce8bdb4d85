"""CSV files in other dialects have the codes of the same records in UTF-8 with commas, once their dialect is said."""

import codecs
import csv
import io
import random
from functools import partial
from itertools import product

import pytest

from qrelease.data.domain import Attribute, Domain
from qrelease.data.schema_draft import draft
from qrelease.data.sources.csv import CsvReader
from qrelease.data.sources.csv_blocks import BlockCsvReader
from qrelease.data.sources.dialect import Dialect
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

DOMAIN = Domain(
    (
        Attribute("name", "category", categories=("é;,|\t'", 'a"b', "", "line\nbreak")),
        Attribute("price", "number", edges=(-10, 0, 1.25, 5, 1e6), missing=("", "-9.5", "n.a.")),
        Attribute("count", "number", edges=(0, 2, 4), integer=True),
    )
)
ROWS = [
    [name, price, str(count % 4)]
    for count, (name, price) in enumerate(
        product(("é;,|\t'", 'a"b', "", "line\nbreak"), ("1.5", "-0.25", "1.25", "12345.678", "", "-9.5", "n.a.", "7"))
    )
]


def numeral(text, decimal):
    return text.replace(".", decimal) if text[-1:].isdigit() else text


def written(path, dialect, rows, end="\n"):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=dialect.separator, quotechar=dialect.quote, lineterminator=end)
    writer.writerow(DOMAIN.names)
    writer.writerows([name, numeral(price, dialect.decimal), count] for name, price, count in rows)
    path.write_bytes(out.getvalue().encode(dialect.encoding))


def read(make, path):
    return [column.tolist() for column in Table.of_reader(make(path), DOMAIN).columns]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-be"])
def test_the_codes_are_those_of_the_same_records(separator, quote, decimal, encoding, tmp_path):
    expected = [[attribute.encode(row[axis]) for row in ROWS] for axis, attribute in enumerate(DOMAIN)]
    dialect = Dialect(separator, quote, decimal, encoding)
    for end in ("\n", "\r\n"):
        written(tmp_path / "t.csv", dialect, ROWS, end)
        for size in (16, 1 << 18):
            assert read(partial(BlockCsvReader, dialect=dialect, block=size), tmp_path / "t.csv") == expected
        assert read(partial(CsvReader, dialect=dialect), tmp_path / "t.csv") == expected
        table = Table.read(tmp_path / "t.csv", DOMAIN, dialect=dialect)
        assert [column.tolist() for column in table.columns] == expected


NUMERALS = ("1,5", "-0,25", "1,25", "7", "-9,5", "", "n.a.", " 1,5 ", "+1,5", "1,5e0", ",5", "5,", "007", f"{1:017}")


def test_both_readers_agree_on_numbers_with_commas(tmp_path):
    rng, dialect = random.Random(0), Dialect(";", decimal=",")
    for odd in ("1.5", "1,234.5", "1.234,5", "1,2,3", "x", "1.000", "inf", "-9.5"):
        for _ in range(5):
            texts = rng.choices(NUMERALS, k=20)
            texts.insert(rng.randrange(20), odd)
            (tmp_path / "t.csv").write_text("price\n" + "".join(f"{text}\n" for text in texts))
            found = []
            for make in (CsvReader, BlockCsvReader, partial(BlockCsvReader, block=8)):
                try:
                    table = Table.of_reader(make(tmp_path / "t.csv", dialect=dialect), Domain(DOMAIN.attributes[1:2]))
                    found.append(table.columns[0].tolist())
                except InvalidInput as error:
                    found.append(str(error))
            assert found[0] == found[1] == found[2], texts
            assert isinstance(found[0], str) == (odd != "-9.5"), (odd, found[0])


def test_a_number_with_a_point_is_refused_beside_decimal_commas(tmp_path):
    """It may be one with thousands."""
    (tmp_path / "t.csv").write_text("price\n1,5\n1.000\n")
    for make in (CsvReader, BlockCsvReader):
        with pytest.raises(InvalidInput, match=r"line 3: column 'price': value '1\.000' has a point"):
            Table.of_reader(make(tmp_path / "t.csv", dialect=Dialect(";", decimal=",")), Domain(DOMAIN.attributes[1:2]))


def test_nothing_quotes_where_the_holder_says_so(tmp_path):
    (tmp_path / "t.csv").write_text('name|n\n"a|1\nb"|2\n')
    domain = Domain((Attribute("name", "category", categories=('"a', 'b"')),))
    for make in (CsvReader, BlockCsvReader):
        table = Table.of_reader(make(tmp_path / "t.csv", dialect=Dialect("|", "")), domain)
        assert table.columns[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"separator": ";;"}, "--separator"),
        ({"separator": "a"}, "--separator"),
        ({"separator": '"'}, "--separator"),
        ({"quote": ","}, "--quote"),
        ({"quote": "\n"}, "--quote"),
        ({"decimal": ";"}, "--decimal"),
        ({"encoding": "base64"}, "--encoding"),
        ({"encoding": "nonsense"}, "--encoding"),
    ],
)
def test_what_is_no_dialect_is_refused_by_the_name_of_its_option(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        Dialect(**wrong)


@pytest.mark.parametrize(
    ("content", "said", "message"),
    [
        (b"a;b\n1;2\n", {}, "separated by ';'; say --separator ';'"),
        (b"a,b\n1,2\n", {"separator": ";"}, "separated by ','; say --separator ','"),
        (b"a\n\xe9\n", {}, "say its --encoding: cp1252, perhaps"),
        (codecs.BOM_UTF16_LE + "a\n1\n".encode("utf-16-le"), {}, "say its --encoding: utf-16, perhaps"),
        (b"a\n\xe9\n1\n", {"encoding": "utf-16"}, "is not utf-16; say its --encoding"),
    ],
)
def test_what_is_not_said_is_not_guessed(content, said, message, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    domain = Domain((Attribute("b", "category", categories=("2",)),))
    for make in (CsvReader, BlockCsvReader):
        with pytest.raises(InvalidInput, match=message):
            Table.of_reader(make(tmp_path / "t.csv", dialect=Dialect(**said)), domain)


def test_a_dialect_is_of_csv_files_alone(tmp_path):
    for name in ("t.parquet", "t.jsonl", "t.arrow", "t.duckdb"):
        with pytest.raises(InvalidInput, match="for CSV files"):
            Table.read(tmp_path / name, DOMAIN, dialect=Dialect(";"))


def test_a_draft_sees_numbers_with_commas_as_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("price;count\n" + "".join(f"{k},5;{k % 3}\n" for k in range(200)))
    assert 'kind = "number"' in draft(tmp_path / "t.csv", dialect=Dialect(";", decimal=",")).split("count")[0]


def readers(**said):
    """All ways to read a file of a dialect."""
    for size in (8, 16, 1 << 18):
        yield partial(BlockCsvReader, dialect=Dialect(**said), block=size)
    yield partial(CsvReader, dialect=Dialect(**said))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_without_a_header_has_the_codes_of_one_with_it(encoding, end, tmp_path):
    file = tmp_path / "t.csv"
    expected = [[attribute.encode(row[axis]) for row in ROWS] for axis, attribute in enumerate(DOMAIN)]
    written(file, Dialect(encoding=encoding), ROWS, end)
    with_header = file.read_bytes().decode(encoding)
    bare = with_header.removeprefix(",".join(DOMAIN.names) + end)
    assert bare.startswith(ROWS[0][0][0]) or bare[0] == '"'
    file.write_bytes(bare.encode(encoding))
    for make in readers(encoding=encoding, header=DOMAIN.names):
        assert read(make, file) == expected
    # In another order, with a column that the schema does not have, and with blank lines between.
    file.write_bytes((end + end.join(f"{count},x,{price}" for _, price, count in ROWS) + end + end).encode(encoding))
    some = Domain(DOMAIN.attributes[1:])
    for make in readers(encoding=encoding, header=(" count", "other", "price ")):
        table = Table.of_reader(make(file), some)
        assert [column.tolist() for column in table.columns] == expected[1:]


def test_a_blank_line_of_a_file_of_one_column_without_a_header_is_a_record(tmp_path):
    (tmp_path / "t.csv").write_text("\n1.5\n\n-9.5\n")
    for make in readers(header=("price",)):
        assert len(Table.of_reader(make(tmp_path / "t.csv"), Domain(DOMAIN.attributes[1:2]))) == 4


def test_errors_of_a_file_without_a_header_name_its_lines(tmp_path):
    file, some = tmp_path / "t.csv", Domain(DOMAIN.attributes[1:])
    header = ("price", "count")
    for text, message in [
        ("1.5,1\n1.5,9\n", "line 2: column 'count'"),
        ("1.5,x\n1.5,1\n", "line 1: column 'count'"),
        ("1.5,1\n1.5\n", "line 2: 1 values, --header names 2 columns"),
        ("1.5,1,0\n", "line 1: 3 values, --header names 2 columns"),
        ("price, count\n1.5,1\n", "line 1 is a header itself: leave out --header"),
    ]:
        file.write_text(text)
        for make in readers(header=header):
            with pytest.raises(InvalidInput, match=message):
                Table.of_reader(make(file), some)
    file.write_text("")
    for make in readers(header=header):
        assert len(Table.of_reader(make(file), some)) == 0


def test_a_header_that_is_a_record_is_said_to_be_one(tmp_path):
    """Without its values, which are a person's."""
    (tmp_path / "t.csv").write_text("1.5,177\n1.5,2\n")
    told = r"line 1: none of its 2 fields names a column of the schema \('price', 'count'\); .* --header$"
    with pytest.raises(InvalidInput, match=told) as refused:
        Table.read(tmp_path / "t.csv", Domain(DOMAIN.attributes[1:]))
    assert "177" not in str(refused.value).replace(str(tmp_path), "")
    (tmp_path / "t.csv").write_text("177,1.5,177\n1,1.5,2\n")
    with pytest.raises(InvalidInput, match=r"column 1 appears twice, as column 3 too; .* --header$") as refused:
        Table.read(tmp_path / "t.csv", Domain(DOMAIN.attributes[1:]))
    assert "177" not in str(refused.value).replace(str(tmp_path), "")
    (tmp_path / "t.csv").write_text("1.5,1\n1.5,2\n")
    found = Table.read(tmp_path / "t.csv", Domain(DOMAIN.attributes[1:]), dialect=Dialect(header=("price", "count")))
    assert len(found) == 2


@pytest.mark.parametrize("header", [("a", "a"), ("a", " a "), ("a", ""), (" ",)])
def test_a_header_names_every_column_once(header):
    with pytest.raises(InvalidInput, match="--header must name every column once"):
        Dialect(header=header)


def test_a_parent_table_has_a_header_of_its_own(tmp_path):
    from qrelease.data.person import Person

    (tmp_path / "visits.csv").write_text("p1;1,5\np2;-0,25\np1;1,25\n")
    (tmp_path / "people.csv").write_text("who;count\np1;1\np2;3\n")
    domain = Domain(DOMAIN.attributes[1:], person=Person("who", 2))
    dialect = Dialect(";", decimal=",", header=("who", "price"))
    table = Table.read(tmp_path / "visits.csv", domain, parent=tmp_path / "people.csv", dialect=dialect)
    assert sorted(zip(*(c.tolist() for c in table.columns), strict=True)) == sorted(
        (DOMAIN.attributes[1].encode(p), DOMAIN.attributes[2].encode(c))
        for p, c in (("1.5", "1"), ("-0.25", "3"), ("1.25", "1"))
    )


WRITTEN = [
    (r'"a\"b"', 'a"b'),
    (r'"a\\"', "a\\"),
    (r'"a,\"b"', 'a,"b'),
    (r"a\,b", "a,b"),
    (r"a\"b", 'a"b'),
    (r'"a""b"', 'a"b'),
    ('"a\nb"', "a\nb"),
    ("a\\\nb", "a\nb"),
    (r'"\\N"', "\\N"),
]
"""Fields with escapes, and what they say."""


@pytest.mark.parametrize("header", [(), ("x", "y")])
def test_a_backslash_takes_the_next_mark_into_the_text(header, tmp_path):
    first = "" if header else "x,y\n"
    (tmp_path / "t.csv").write_text(first + "".join(f"{field},F\n" for field, _ in WRITTEN * 3))
    labels = tuple(dict.fromkeys(text for _, text in WRITTEN))
    domain = Domain((Attribute("x", "category", categories=labels), Attribute("y", "category", categories=("F",))))
    for make in readers(escape="\\", header=header):
        found = Table.of_reader(make(tmp_path / "t.csv"), domain)
        assert [labels[code] for code in found.columns[0].tolist()] == [text for _, text in WRITTEN * 3]
    assert len(Table.read(tmp_path / "t.csv", domain, dialect=Dialect(escape="\\", header=header))) == 3 * len(WRITTEN)


@pytest.mark.parametrize("field", [r"\N", r"C:\dir", r'"\t"', r'"a\\\N"', r"\'"])
def test_an_escape_of_anything_else_is_refused_with_its_line(field, tmp_path):
    """It would be read as N, and a missing value be a category."""
    (tmp_path / "t.csv").write_text(f"x\nN\n{field}\nN\n")
    for make in readers(escape="\\"):
        with pytest.raises(InvalidInput, match=r"t\.csv line 3: .* escapes no quote, separator or line break"):
            Table.of_reader(make(tmp_path / "t.csv"), Domain((Attribute("x", "category", categories=("N",)),)))


@pytest.mark.parametrize("escape", ["/", "\\\\", '"'])
def test_only_a_backslash_escapes(escape):
    with pytest.raises(InvalidInput, match="--escape must be"):
        Dialect(escape=escape)
