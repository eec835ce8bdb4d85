"""Queries of CSV, JSON lines, Parquet and Arrow files: the same codes, the names of tables, and what is refused."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sources import CODES, PEOPLE, TEXT
from stores import web_server

from qrelease.apps.cli import main
from qrelease.data.domain import Attribute, Domain
from qrelease.data.schema import to_toml
from qrelease.data.schema_draft import draft
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.file_queries import NamedColumns, file_query_reader, table_called
from qrelease.data.sources.files import open_reader
from qrelease.data.sources.row_queries import FILTERED, parsed
from qrelease.data.table import Table
from qrelease.data.writing import Writing
from qrelease.errors import InvalidInput

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

AGES = Domain((Attribute("age", "coded", codes=100, missing=("",)),))
WARDS = Domain((*AGES.attributes, Attribute("ward", "category", categories=("north", "south"), missing=("",))))
ROWS = [{"id": "a", "age": 20, "ward": "north"}, {"id": "b", "age": 30, "ward": "south"}, {"id": "c", "age": 40}]


@pytest.fixture
def files(in_folder):
    """The same three records in every kind of file, and a table of wards beside them."""
    table = pa.Table.from_pylist(ROWS, pa.schema({"id": pa.string(), "age": pa.int64(), "ward": pa.string()}))
    Path("people.csv").write_text("id,age,ward\na,20,north\nb,30,south\nc,40,\n")
    Path("wards.csv").write_text("ward,floor\nnorth,1\nsouth,2\n")
    Path("lines.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    parquet.write_table(table, "typed.parquet")
    with pa.ipc.new_file("arrows.arrow", table.schema) as file:
        file.write_table(table)
    return in_folder


def codes(path, query, domain=WARDS, dialect=None):
    return [column.tolist() for column in Table.read(path, domain, query=query, dialect=dialect).columns]


EVERY = ["people.csv", "lines.jsonl", "typed.parquet", "arrows.arrow"]


@pytest.mark.parametrize("path", EVERY)
def test_a_query_selects_filters_and_takes_functions_of_one_row(path, files):
    name = Path(path).stem
    assert codes(path, f"select * from {name}") == codes(path, None) == [[20, 30, 40], [0, 1, 2]]
    assert codes(path, f"select * from {name.upper()} where ward = 'south'") == [[30], [1]]
    assert codes(path, f"select cast(age as int) + 1 as age, lower(ward) as ward from {name} where id <> 'b'") == [
        [21, 41],
        [0, 2],
    ]
    root = "cast(round(sqrt(cast(age as int) ** 2) + ln(1) * log10(exp(2))) as int)"
    assert codes(path, f"select {root} as age from {name}", AGES) == [[20, 30, 40]]
    query = f"select v.age from (select age, ward from {name} where cast(age as int) > 20) v where ward is null or true"
    assert codes(path, query, AGES) == [[30, 40]]
    assert Table.read(path, WARDS, query=f"from {name}").private_size == ""
    assert Table.read(path, WARDS, query=f"select age, ward from {name} where id = 'a'").private_size == FILTERED
    assert open_reader(path, f"from {name}").files == (Path(path),)


DIALECTS = [
    (Dialect(";"), {}),
    (Dialect("\t", encoding="utf-16"), {"encoding": "utf-16"}),
    (Dialect("|", quote="'"), {}),
    (Dialect(";", quote=""), {"bare": True}),
    (Dialect(escape="\\"), {"escape": True}),
    (Dialect("|", encoding="latin-1", header=("sex", "note", "age", "day")), {"encoding": "latin-1", "header": False}),
]


def written(dialect, *, encoding="utf-8", bare=False, escape=False, header=True):
    """Records with the marks of a dialect in their texts, where they can be."""
    note = "plain" if bare else f"a{dialect.separator} 'b' é"
    if not bare:
        note = note.replace("'", "''") if dialect.quote == "'" else note
        note = f'{note} \\"c\\"' if escape else note
        note = f"{dialect.quote}{note}{dialect.quote}"
    rows = [["sex", "note", "age", "day"]] if header else []
    rows += [["F", note, "19", "2020-01-31"], ["M", note, "?", ""], [" F ", "x", " 40 ", "2020-02-01"]]
    return "".join(dialect.separator.join(row) + "\n" for row in rows).encode(encoding)


@pytest.mark.parametrize(("dialect", "how"), DIALECTS)
@pytest.mark.parametrize("copies", [1, 40_000])
def test_every_dialect_of_csv_gives_the_codes_that_it_gives_without_a_query(dialect, how, copies, in_folder):
    """By lines, and in large files by blocks."""
    raw = written(dialect, **how)
    if copies > 1:
        dialect = Dialect(dialect.separator, dialect.quote, ".", "utf-8", dialect.escape, ("sex", "note", "age", "day"))
        raw = b"".join([written(dialect, **{**how, "encoding": "utf-8", "header": False})] * copies)
    Path("t.csv.gz").write_bytes(gzip.compress(raw, 1))
    for query in ("select * from t", "select age, day, sex from t"):
        found = codes("t.csv.gz", query, PEOPLE, dialect)
        assert found == codes("t.csv.gz", None, PEOPLE, dialect) == [column * copies for column in CODES]
    notes = [open_reader("t.csv.gz", query, dialect).texts() for query in (None, "select sex, note, age, day from t")]
    first, second = ([t for chunk in texts for t in list(map(list, chunk))[1]] for texts in notes)
    assert first == second


def test_line_breaks_and_doubled_quotes_are_texts_in_a_query_too(in_folder):
    Path("t.csv").write_text(TEXT + 'M,"say ""x""",1,\n')
    assert codes("t.csv", "select * from t", PEOPLE) == codes("t.csv", None, PEOPLE)
    (texts,) = open_reader("t.csv", "select note from t").texts()
    assert texts == [["a, b", "two\nlines", "x", 'say "x"']]


def test_decimal_commas_are_read_as_without_a_query(in_folder):
    prices = Domain((Attribute("price", "number", edges=(0, 2, 50), within=(0, 50), step=0.5, missing=("",)),))
    dialect = Dialect(";", decimal=",")
    Path("t.csv").write_text("n;price\n1;1,5\n2;\n3;20\n")
    assert codes("t.csv", "select * from t", prices, dialect) == codes("t.csv", None, prices, dialect) == [[0, 2, 1]]
    as_number = "select try_cast(replace(price, ',', '.') as double) * 2 as price from t"
    assert codes("t.csv", as_number, prices, dialect) == [[1, 2, 1]]
    assert 'kind = "number"' in draft("t.csv", query="select price from t", dialect=dialect)
    Path("t.csv").write_text("n;price\n1;1,5\n2;2.5\n")
    with pytest.raises(
        InvalidInput, match=r"t\.csv, the query's row 1 \(from 0\): column 'price': .* has a point, but"
    ):
        codes("t.csv", "select * from t", prices, dialect)


UNREADABLE = {
    "ragged.csv": b"id,age,ward\na,1,north\nb,1\n",
    "quotes.csv": b'id,age,ward\na,1,"north\n',
    "latin.csv": b"id,age,ward\na,1,\xe9\n",
    "twice.csv": b"id,age,age\n",
    "empty.csv": b"",
    "absent.csv": None,
    "cut.csv.gz": gzip.compress(b"id,age,ward\na,1,north\n")[:-9],
    "cut.parquet": b"PAR1",
    "cut.arrow": b"ARROW1",
    "words.jsonl": b'{"age": 1}\nno\n',
    "list.jsonl": b"[1]\n",
    "half.jsonl": b'{"age": "\\ud800"}\n',
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_record_that_cannot_be_read_is_the_same_error_as_without_a_query(name, in_folder):
    if UNREADABLE[name] is not None:
        Path(name).write_bytes(UNREADABLE[name])
    said = []
    for query in (None, f"select age, ward from {name.split('.')[0]}"):
        with pytest.raises(InvalidInput) as error:
            Table.read(name, WARDS, query=query)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert name in said[0]
    assert "\n" not in said[0]


def test_a_record_that_cannot_be_read_ends_a_large_file_too(in_folder):
    Path("t.csv").write_text("age,ward\n" + "20,north\n" * 300_000 + "20\n")
    with pytest.raises(InvalidInput, match=r"^t\.csv line 300002: 1 values, the header has 2$"):
        codes("t.csv", "select * from t")


def test_an_error_names_what_is_missing(files):
    for path, query, said in [
        ("people.csv", "select * from peeple", r"people\.csv: the query names a table 'peeple'; the table is people"),
        ("*.csv", "select * from lines", r"\*\.csv: .* 'lines'; the tables are people, wards, files"),
        ("people.csv", "select agee from people", r"\"agee\" not found .*; people has id, age, ward"),
        ("people.csv", "select 1 as age from people where x = 1", "people has id, age, ward"),
        ("typed.parquet", "select floor from typed", "typed has id, age, ward"),
        ("people.csv", "select age + 1 as age from people", "people has id, age, ward"),
        ("people.csv", "select age, ward from people where cast(ward as int) = 1", "Could not convert string 'north'"),
        ("people.csv", "select age from people", r"people\.csv has no column 'ward'; it has age"),
        ("people.csv", "select age, age, ward from people", "two columns of the query are called 'age'"),
        ("none-*.csv", "select * from none", "no file has a name like none"),
        (
            "people.csv",
            "select id as age, ward from people",
            r"people\.csv, the query's row 0 \(from 0\): column 'age'",
        ),
    ]:
        with pytest.raises(InvalidInput, match=said) as error:
            codes(path, query)
        assert "\n" not in str(error.value)


def test_a_header_that_is_none_is_told_as_without_a_query(in_folder):
    Path("t.csv").write_text("age;ward\n20;north\n")
    with pytest.raises(InvalidInput, match="columns seem to be separated by ';'; say --separator"):
        codes("t.csv", "select age, ward from t")
    with pytest.raises(InvalidInput, match="columns seem to be separated by ';'; say --separator"):
        codes("t.csv", "from t")
    Path("t.csv").write_text("20,north\n30,south\n")
    with pytest.raises(InvalidInput, match=r"name all columns by --header"):
        codes("t.csv", "from t")
    assert codes("t.csv", "select age, ward from t", dialect=Dialect(header=("age", "ward"))) == [[20, 30], [0, 1]]


@pytest.mark.parametrize(
    ("file", "table"),
    [
        ("people", "people"),
        ("people 2024-01", "people_2024_01"),
        ("2024", "_2024"),
        ("größe", "größe"),
        ("", "_"),
        ('a"b', "a_b"),
    ],
)
def test_a_table_is_called_as_its_file(file, table, in_folder):
    assert table_called(file) == table
    if file:
        Path(f"{file}.csv.gz").write_bytes(gzip.compress(b"age\n20\n"))
        assert codes(f"{file}.csv.gz", f"select age from {table}", AGES) == [[20]]


def test_a_table_may_be_called_as_a_word_of_sql_or_as_its_column(in_folder):
    for name in ("order", "age"):
        Path(f"{name}.csv").write_text("age,n\n20,1\n")
        Path(f"{name}.jsonl").write_text('{"age": 20, "n": 1}\n')
        for suffix in ("csv", "jsonl"):
            assert codes(f"{name}.{suffix}", f'select age from "{name}" where n = 1', AGES) == [[20]]


def test_of_a_pattern_each_file_is_a_table_and_all_are_one(files):
    query = "select cast(floor as int) + 7 as age, ward from people join wards using (ward)"
    assert codes("*.csv", query) == [[8, 9], [0, 1]]
    assert codes("*.csv", "select age, ward from people union all select floor, ward from wards") == [
        [20, 30, 40, 1, 2],
        [0, 1, 2, 0, 1],
    ]
    for part in range(12):
        Path(f"part-{part:02}.csv").write_text(f"age,ward\n{part},north\n")
    assert codes("part-*.csv", "select * from files where age <> '7'")[0] == [n for n in range(12) if n != 7]
    assert codes("part-*.csv", "select * from part_07")[0] == [7]
    with pytest.raises(InvalidInput, match=r"the tables are part_03, .*part_11, files and others$"):
        codes("part-*.csv", "select * from part")
    for query in ("select a.age from files a, part_01 b", "select age from part_02 union all select age from files"):
        with pytest.raises(InvalidInput, match="table files has the records of all others"):
            codes("part-*.csv", query)


def test_names_that_two_files_have_are_no_table(in_folder):
    for name in ("a b.csv", "a-b.csv", "files.csv", "c.csv"):
        Path(name).write_text("age\n20\n")
    for name in ("a_b", "files"):
        with pytest.raises(InvalidInput, match=f"2 tables would be called {name}: rename a file"):
            codes("*.csv", f"select age from {name}", AGES)
    assert codes("*.csv", "select age from c", AGES) == [[20]]
    assert codes("files.csv", "select age from files", AGES) == [[20]]


def test_two_names_of_one_file_are_not_brought_together(in_folder):
    Path("a.csv").write_text("age\n20\n")
    Path("b.csv").symlink_to("a.csv")
    os.link("a.csv", "c.csv")
    for query in ("select a.age from a, b", "select age from a union all select age from c"):
        with pytest.raises(InvalidInput, match="are one file, each of whose records would count twice"):
            codes("*.csv", query, AGES)


HOSTILE = [
    ("select * from read_csv('other.csv')", "a table function"),
    ("select * from read_text('/etc/passwd')", "a table function"),
    ("select * from glob('*')", "a table function"),
    ("select * from 'other.csv'", "names a table 'other.csv'"),
    ('select * from "other.csv"', "names a table 'other.csv'"),
    ("select * from other", "names a table 'other'"),
    ("select * from people, 'other.csv'", "names a table 'other.csv'"),
    ("select * from main.people", "name table people alone"),
    ("select * from memory.main.people", "name table people alone"),
    ("select * from temp.people", "name table people alone"),
    ("select * from information_schema.tables", "name table tables alone"),
    ("select * from duckdb_settings()", "a table function"),
    ("select * from duckdb_tables", "names a table 'duckdb_tables'"),
    ("select * from secret_frame", "names a table 'secret_frame'"),
    ("select getenv('HOME') as age from people", "the function getenv"),
    ("select current_setting('memory_limit') as age from people", "the function current_setting"),
    ("select random() as age from people", "the function random"),
    ("select nextval('s') as age from people", "the function nextval"),
    ("copy people to 'out.csv'", "takes one select"),
    ("copy (select * from people) to 'out.csv'", "takes one select"),
    ("export database 'out'", "takes one select"),
    ("attach 'out.duckdb' as o", "takes one select"),
    ("install httpfs", "takes one select"),
    ("load httpfs", "takes one select"),
    ("set enable_external_access = true", "takes one select"),
    ("reset lock_configuration", "takes one select"),
    ("pragma enable_external_access = true", "takes one select"),
    ("create table out as select * from people", "takes one select"),
    ("create macro upper(x) as 1", "takes one select"),
    ("insert into people values (1)", "takes one select"),
    ("call pragma_version()", "takes one select"),
    ("select * from people; copy people to 'out.csv'", "takes one select"),
    ("select * from people; select * from people", "takes one select"),
    ("prepare p as select 1", "takes one select"),
    ("explain analyze select * from people", "takes one select"),
    ("", "takes one select"),
    ("select 1 as age", "the query has"),
    ("describe people", "the query has"),
    ("summarize people", "the query has"),
    ("select count(*) as age from people", "one record may change others"),
    ("select max(age) as age from people", "one record may change others"),
    ("select age, count(*) over () as n from people", "one record may change others"),
    ("select distinct age from people", "one record may change others"),
    ("select age from people limit 1", "one record may change others"),
    ("select age from people using sample 1", "one record may change others"),
    ("select age from people where age = (select max(age) from people)", "one record may change others"),
    ("select a.age from people a, people b", "people joined with itself"),
    ("select age from people union all select age from people", "people in a union with itself"),
    ("select age from people union select age from people", "a set operation"),
    ("with p as (select * from people) select age from p", "a common table expression"),
    ("select rowid as age from people", "has rowid"),
    ("select x as age from people p(x)", "rename the columns of people by `as`"),
    ("select columns('a.*') from people", "COLUMNS"),
    ("select unnest([1, 2]) as age from people", "the function unnest"),
    ("pivot people on age", "takes one select"),
]


@pytest.mark.parametrize("path", ["people.csv", "typed.parquet"])
@pytest.mark.parametrize(("query", "said"), HOSTILE)
def test_a_hostile_query_is_refused_and_reaches_no_other_file(path, query, said, files):
    secret_frame = pa.table({"age": [1]})  # noqa: F841  which DuckDB would find by its name
    parquet.write_table(pa.table({"age": ["1"]}), "people.parquet")
    path = "people.parquet" if path == "typed.parquet" else path
    Path("other.csv").write_text("age\n1\n")
    before = sorted(os.listdir())
    with pytest.raises(InvalidInput, match=said) as error:
        Table.read(path, AGES, query=query)
    assert "\n" not in str(error.value)
    assert sorted(os.listdir()) == before


def test_records_of_json_lines_do_not_decide_which_columns_there_are(in_folder):
    first, other = '{"id": 1, "age": 20}\n', '{"id": 2, "age": 30, "w": "x", "aa": 5, "AGE": 6, "years": 7}\n'
    for query in (
        "select * from t",
        "select age from t",
        "select age, age as w from t where w is null or w = 'x' or w = '20'",
        "select nothing as age from t",
    ):
        found = []
        for text in (first, first + other):
            Path("t.jsonl").write_text(text)
            found.append(codes("t.jsonl", query, AGES)[0][0])
        assert found[0] == found[1] == (100 if "nothing" in query else 20)
    Path("u.jsonl").write_text('{"age": 1, "floor": 2}\n')
    for query in (
        "select *, age as years from t",
        "select * from (select * from t) v",
        "select t.*, u.floor from t join u using (age)",
        "select * from t union all select * from u",
        "select * exclude (w) from t",
        "select * replace (1 as age) from t",
    ):
        with pytest.raises(InvalidInput, match="a query of JSON lines names its columns"):
            codes("*.jsonl", query, AGES)
    for text in (first, first + other):  # by a rule that no record changes: both tables have the column that is named
        Path("t.jsonl").write_text(text)
        with pytest.raises(InvalidInput, match="mbiguous"):
            codes("*.jsonl", "select floor as age from t join u using (age)", AGES)


def test_a_value_of_json_lines_without_a_text_matters_where_it_is_asked_for(in_folder):
    Path("t.jsonl").write_text('{"age": 20, "x": [1]}\n{"age": true}\n{"age": 1e400}\n{"age": "\\u0000"}\n')
    words = Domain((Attribute("age", "category", categories=("20", "true", "inf", "\0")),))
    assert codes("t.jsonl", "select * from t", words) == codes("t.jsonl", None, words) == [[0, 1, 2, 3]]
    with pytest.raises(InvalidInput, match=r"t\.jsonl line 1: column 'x': values of type list cannot be categories"):
        codes("t.jsonl", "select x as age from t", words)


def test_how_texts_are_written_is_not_told_from_numbers_in_a_query_of_json_lines(in_folder):
    """The number 1.234 would be 1234 there."""
    written = Attribute("age", "number", edges=(0, 2, 2000), writing=Writing(decimal=",", thousands="."))
    Path("t.jsonl").write_text('{"age": 1.234}\n')
    with pytest.raises(InvalidInput, match="is no text"):
        codes("t.jsonl", None, Domain((written,)))
    with pytest.raises(InvalidInput, match="has numbers of JSON lines as texts, too"):
        codes("t.jsonl", "select * from t", Domain((written,)))
    Path("t.csv").write_text("age\n1.234\n")
    assert codes("t.csv", "select * from t", Domain((written,))) == [[1]]


def test_types_that_a_query_does_not_take_are_left_out_and_named(in_folder):
    table = pa.table({"age": [20], "where": [[1]], "clock": pa.array([1], pa.time64("ns"))})
    parquet.write_table(table, "t.parquet")
    assert codes("t.parquet", "select * from t", AGES) == [[20]]
    with pytest.raises(InvalidInput, match=r"for their types: where \(list<.*>\), clock \(time64\[ns\]\)"):
        codes("t.parquet", 'select "where" from t', AGES)
    parquet.write_table(pa.table({"age": ["20"], "where": [[1]], "clock": ["x"]}), "u.parquet")
    with pytest.raises(InvalidInput, match=r"age \(int64, string\)"):
        codes("*.parquet", "select age from files", AGES)
    parquet.write_table(pa.table({"age": pa.array([None]), "where": [[1]], "clock": ["x"]}), "u.parquet")
    assert codes("*.parquet", "select age from files", AGES) == [[20, 100]]


def test_names_that_differ_in_case_alone_are_refused_where_they_are_asked_for(in_folder):
    Path("t.csv").write_text("age,Ward,ward\n20,x,y\n")
    assert codes("t.csv", "select age from t", AGES) == [[20]]
    for query in ("select age, ward from t", "select * from t"):
        with pytest.raises(InvalidInput, match="columns 'Ward' and 'ward' differ in case alone"):
            codes("t.csv", query, AGES)


def test_a_row_as_a_whole_is_no_value_and_has_all_of_its_columns(files):
    query = "select case when people::varchar like '%north%' then 1 else 2 end as age from people"
    assert codes("people.csv", query, AGES) == [[1, 2, 2]]


def test_a_query_of_a_url_reads_its_object(files):
    with web_server(files) as server:
        assert codes(f"{server.url}people.csv", "select age, ward from people where id > 'a'") == [[30, 40], [1, 2]]
        with pytest.raises(InvalidInput, match="the table is people"):
            codes(f"{server.url}people.csv", "select * from wards")


def test_the_command_line_releases_the_rows_of_a_query(files, capsys):
    Path("s.toml").write_text(to_toml(WARDS))
    query = "select age, ward from people where ward <> ''"
    command = ["release", "people.csv", "--query", query, "--schema", "s.toml", "--epsilon", "1"]
    assert main(["release", "people.csv", "--query", "from nobody", *command[4:]]) == 2
    assert "the table is people" in capsys.readouterr().err
    assert not Path("people.ledger").exists()
    assert main([*command, "--mechanism", "laplace", "--out", "out"]) == 0
    assert Path("people.ledger").exists()
    assert Path("out").is_dir()


def test_which_columns_a_query_names():
    def named(query):
        with duckdb.connect() as connection:
            return NamedColumns.of(parsed(connection, query, "t"))

    assert named("select * from t where a = 1") == NamedColumns(("a",), star=True, row=False, bare=True)
    assert named("select t.* from t") == NamedColumns((), star=True, row=False, bare=True)
    for query in (
        "select *, a from t",
        "select * from t, u",
        "select * from (from t) v",
        "select * exclude (a) from t",
    ):
        assert not named(query).bare
    assert named("select x.A as b from t x join u using (c)").names == ("x", "A", "c")
    assert named("select x from t x").row


class Failing:
    """A reader that is interrupted at its second piece."""

    path, files, header, keyed, private_size = Path("t.csv"), (), ("age",), False, ""

    def __init__(self, error):
        self.error = error

    def arrow_types(self):
        return {"age": [pa.string()]}

    def pieces(self, columns):
        yield self
        raise self.error

    def arrow(self, column):
        return pa.array(["20"] * (1 << 15))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), InvalidInput("t.csv line 3: x"), OSError("y")])
def test_what_a_reader_raises_is_what_is_raised(error):
    rows = file_query_reader(Path("t.csv"), [("t", lambda: Failing(error))], "select age from t", Dialect())
    with pytest.raises(type(error)) as raised:
        list(rows.pieces(["age"]))
    assert raised.value is error


def printed(script, *arguments, **environment):
    """What a process of its own prints."""
    command, variables = [sys.executable, "-c", script, *arguments], {**os.environ, **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout


WITHOUT = """
import sys
sys.modules["duckdb"] = None
from qrelease.data.sources.files import open_reader
from qrelease.errors import InvalidInput

try:
    open_reader("people.csv", "select * from people")
except InvalidInput as error:
    print(error)
"""


def test_without_duckdb_a_query_says_what_it_needs(files):
    assert printed(WITHOUT) == "people.csv: a query needs duckdb: pip install 'qrelease[duckdb]'\n"


MEASURED = """
import resource, sys
from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table

domain, before = Domain((Attribute("age", "coded", codes=100),)), 0
for name in ("small", "large"):
    Table.read(f"{name}.csv", domain, query=f"select * from {name} where note <> 'x'")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(after - before)
    before = after
"""


def test_memory_does_not_grow_with_the_file(in_folder):
    """A query of 200 MB of text takes hardly more than one of 3 MB; the codes themselves are 2 MB."""
    line = "n" * 93 + ",20\n"
    for name, count in (("small", 1 << 15), ("large", 1 << 21)):
        Path(f"{name}.csv").write_text("note,age\n" + line * count)
    _, grown = map(int, printed(MEASURED).split())
    assert grown < 100


JOINED = """
import sys
from pathlib import Path
from tempfile import gettempdir
from qrelease.data.sources.files import open_reader

def size():
    return sum(file.stat().st_size for file in Path(gettempdir()).rglob("*") if file.is_file())

reader = open_reader("*.parquet", "select age, a.note || b.note as note from a join b using (id)")
found = max(size() for _ in reader.pieces(["age", "note"]))
if not found:  # one that is soon read again
    pieces = reader.pieces(["age", "note"])
    next(pieces)
    pieces.close()
print(f"found:{found}", f"left:{len([*Path(gettempdir()).iterdir()])}")
"""


@pytest.mark.parametrize(("records", "spilled"), [(1 << 18, True), (1 << 10, False)])
def test_what_a_join_cannot_hold_goes_to_files_that_are_gone_afterwards(records, spilled, in_folder):
    """Each side of the large one is more than a query may hold; and who stops reading leaves nothing either."""
    rows = pa.table({"id": range(records), "note": ["n" * 2_500] * records, "age": [20] * records})
    parquet.write_table(rows, "a.parquet")
    parquet.write_table(rows.select(["id", "note"]), "b.parquet")
    Path("temporary").mkdir()
    found = dict(word.split(":") for word in printed(JOINED, TMPDIR=os.path.abspath("temporary")).split())
    assert (int(found["found"]) > 0) == spilled
    assert found["left"] == "0"


NUMBERS = Domain((Attribute("age", "number", edges=(0, 50, 100)),))


def test_a_number_of_json_lines_that_would_be_rounded_is_refused_where_a_query_reads_it(in_folder):
    """Else two persons were one, under one bound, and a join brought their records together."""
    Path("t.jsonl").write_text('{"id": 9007199254740993, "age": 20}\n{"id": "9007199254740993", "age": 30}\n')
    for query in ("select id as age from t", "select age from t where id = 'x'"):
        with pytest.raises(InvalidInput, match=r"t\.jsonl line 1: column 'id': a query takes numbers below 2\^53"):
            codes("t.jsonl", query, NUMBERS)
    assert codes("t.jsonl", "select age from t", NUMBERS) == [[0, 0]]


def test_keys_and_columns_of_a_type_are_not_mixed(in_folder):
    """Whether a key occurs would decide whether a number of the other file is compared as one."""
    parquet.write_table(pa.table({"age": [5, 34]}), "x.parquet")
    Path("y.jsonl").write_text('{"sex": "m"}\n')
    with pytest.raises(InvalidInput, match="JSON lines have no columns of a type"):
        codes("*.*", "select age from files", NUMBERS)
    assert codes("*.*", "select age from x", NUMBERS) == [[0, 0]]


@pytest.mark.parametrize("link", [os.link, os.symlink])
@pytest.mark.parametrize("query", [None, "select * from files", "select * from a"])
def test_one_file_by_two_names_is_refused(link, query, in_folder):
    Path("a.csv").write_text("age\n20\n")
    link("a.csv", "b.csv")
    with pytest.raises(InvalidInput, match=r"a\.csv and b\.csv are one file, each of whose records would count twice"):
        codes("*.csv", query, NUMBERS)


def test_the_case_of_a_key_that_nobody_asks_for_changes_nothing(in_folder):
    Path("t.jsonl").write_text('{"age": 20}\n{"age": 60, "Age": 1}\n')
    assert codes("t.jsonl", "select * from t where age <> '1'", NUMBERS) == [[0, 1]]


@pytest.mark.parametrize("name", ["user", "current_date", "CURRENT_TIMESTAMP"])
def test_the_clock_and_the_session_are_no_columns(name, in_folder):
    Path("t.csv").write_text("age,user\n20,x\n")
    with pytest.raises(InvalidInput, match=f"{name} is that of the session, or the clock, .*: write table.{name}"):
        codes("t.csv", f"select age from t where {name} is not null", NUMBERS)
    assert codes("t.csv", "select age from t where t.user = 'x'", NUMBERS) == [[0]]


@pytest.mark.parametrize("where", ["age >= '9'", "'9' < age", "age between '9' and '50'", "t.age < '1e1'"])
def test_a_column_in_the_order_of_texts_is_not_compared_with_a_number_in_quotes(where, in_folder):
    Path("t.csv").write_text("age,day\n20,2020-01-31\n60,2020-02-01\n")
    with pytest.raises(InvalidInput, match=r"age is compared with the text '.*', after which '10' comes before '9'"):
        codes("t.csv", f"select age from t where {where}", NUMBERS)
    assert codes("t.csv", "select age from t where cast(age as double) >= 9", NUMBERS) == [[0, 1]]
    assert codes("t.csv", "select age from t where age = '20' or day >= '2020-02-01'", NUMBERS) == [[0, 1]]


def test_an_error_says_how_numbers_are_compared_and_holds_little_of_a_record(in_folder):
    Path("t.csv").write_text(f"age,note\n20,{'x' * 10_000}\n30,\x1b[31m\n")
    with pytest.raises(InvalidInput, match=r"texts: write cast\(age as double\) .*; t has age, note"):
        codes("t.csv", "select age from t where age >= 18", NUMBERS)
    with pytest.raises(InvalidInput) as found:
        codes("t.csv", "select cast(note as int) as age from t", NUMBERS)
    assert len(str(found.value)) < 400
    with pytest.raises(InvalidInput, match=r"\\u001b\[31m"):
        codes("t.csv", "select cast(note as int) as age from t where age = '30'", NUMBERS)
