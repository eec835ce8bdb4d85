"""Which queries of a SQLite file are accepted, and that what is run is what was asked."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from qrelease.apps.cli import main
from qrelease.data.domain import Attribute, Domain
from qrelease.data.schema import to_toml
from qrelease.data.sources.databases import sqlite_reader
from qrelease.data.sources.sqlite_queries import SelectedRows, is_select, lowered, quoted, tables_named
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

MIXED = "one record may change others"

REFUSED = [
    ("select count(*) as n from visits", MIXED),
    ("select max(age) as n from visits", "the function max of 1 value,"),
    ("select min(age) as n from visits", MIXED),
    ("select sum(age) as n from visits", "the function sum"),
    ("select total(age) as n from visits", MIXED),
    ("select group_concat(ward) as n from visits", MIXED),
    ("select ward from visits group by ward", "the query has GROUP"),
    ("select ward from visits having ward = 1", "the query has HAVING"),
    ("select distinct ward from visits", "the query has DISTINCT"),
    ("select all ward from visits", "'all' where a value is expected"),
    ("select ward from visits limit 10", "the query has LIMIT"),
    ("select ward from visits order by age", "the query has ORDER"),
    ("select ward, row_number() over () as n from visits", "the function row_number"),
    ("select ward, max(age, 1) over () as n from visits", "the query has OVER"),
    ("select ward, max(age, 1) filter (where age > 1) as n from visits", "the query has FILTER"),
    ("select lower(distinct ward) as ward from visits", "the function lower"),
    ("select * from visits where age = (select max(age) from visits)", "a select in an expression"),
    ("select * from visits where age in (select age from visits)", "a select in an expression"),
    ("select * from visits where exists (select 1 from visits)", "the query has EXISTS"),
    ("select * from visits where age in visits", "'visits' where"),
    ("select * from (select * from visits) v", "a select in a select"),
    ("with v as (select * from visits) select ward from v", "the query has WITH"),
    ("values (1)", "the query has VALUES"),
    ("select ward from visits union select ward from places", "a union that is not `union all`"),
    ("select ward from visits except select ward from places", "the query has EXCEPT"),
    ("select ward from visits intersect select ward from places", "the query has INTERSECT"),
    ("select ward from visits union all select ward from visits", "visits joined or put together with itself"),
    ("select a.ward from visits a join VISITS b on b.age = 30", "visits joined or put together with itself"),
    ('select a.ward from visits a, "Visits" b', "visits joined or put together with itself"),
    ("select ward from visits union all select a.ward from places a, visits b", "together with itself"),
    ("select visits.ward from visits left join places using (ward)", "the query has LEFT"),
    ("select visits.ward from visits natural join places", "the query has NATURAL"),
    ("select visits.ward from visits full outer join places using (ward)", "the query has FULL"),
    ("select ward from visits where rowid < 2", "have no column 'rowid'"),
    ("select _rowid_ as ward from visits", "have no column '_rowid_'"),
    ("select oid as ward from visits", "have no column 'oid'"),
    ("select random() as ward from visits", "the function random"),
    ("select changes() as ward from visits", "the function changes"),
    ("select date('now') as ward from visits", "the function date"),
    ("select current_date as ward from visits", "the query has CURRENT_DATE"),
    ("select load_extension('x') as ward from visits", "the function load_extension"),
    ("select * from few", "few is not a table of the file"),
    ("select * from found", "found is not a table of the file"),
    ("select * from found_content", "found_content is not a table of the file"),
    ("select * from sqlite_master", "sqlite_master is not a table of the file"),
    ("select * from main.visits", "a table of another file"),
    ("select * from pragma_table_info('visits')", "a function instead of a table"),
    ("select * from generate_series(1, 3)", "a function instead of a table"),
    ("select * from visits; delete from visits", "after its end"),
    ("select ward collate nocase as ward from visits", "the query has COLLATE"),
    ("select ward from visits where ward glob 'n*'", "the query has GLOB"),
    ("select ward from visits where ward match 'n*'", "the query has MATCH"),
    ("select ward from visits indexed by x", "the query has INDEXED"),
    ("select ward from visits where age = ?", "is not known here"),
    ("select ward from visits where age = :a", "is not known here"),
    ("select ward from visits where age = x'00'", "the query has "),
    ("select ward from visits where age & 1", "is not known here"),
    ("select ward from visits where ward = 'a\0b'", "is not known here"),
    ("select age + 1 from visits", "an expression of the query has no name"),
    ("select age, age from visits", "two columns of the query are called 'age'"),
    ("select * from visits, places", "two columns of the query are called 'ward'"),
    ("select ward from visits, places", "have more than one column 'ward'"),
    ("select nothing from visits", "have no column 'nothing'"),
    ('select ward from visits where "nothing" = 1', "have no column 'nothing'"),
    ("select visits.nothing from visits", "visits has no column 'nothing'"),
    ("select v.ward from visits", "no table that is called v"),
    ("select v.* from visits", "no table that is called v"),
    ("select a.ward from visits a, places a", "two tables of the query are called a"),
    ("select ward from visits join places using (age)", "places has no column 'age'"),
    ("select ward from visits union all select ward, floor from places", "different numbers of columns"),
    ("select cast(age as blob) as ward from visits", "a cast to blob"),
    ("select from visits", "'from' where a value is expected"),
    ("select ward", "'its end' where 'from' is expected"),
    ("select ward from", "where a name is expected"),
    ("select (age as n from visits", r"where '\)' is expected"),
    (f"select {'(' * 50}age{')' * 50} as n from visits", "too many expressions in one another"),
    (f"select age{' + 1' * 400} as n from visits", "more than 300 operators"),
]


@pytest.fixture
def database(in_folder, tmp_path):
    path = tmp_path / "people.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            """
            create table visits (id text, ward text, age int, "odd ""x"" name" real);
            create table places (ward text unique, floor int);
            create table later (ward, floor);
            create view few as select * from visits limit 1;
            create virtual table found using fts5(words);
            insert into places values ('north', 1), ('south', 2), ('east', 3);
            insert into later values ('north', 7), ('west', 8);
            """
        )
        rows = [
            ("a", "north", 20, 1.5),
            ("b", "south", 30, -2.0),
            ("b", "east", None, None),
            ("c", "North ", -7, 0.25),
            ("d", "it's", "x", 1e9),
            ("e", "10%", 5, 10.0),
            ("f", None, 9, 3.0),
        ]
        connection.executemany("insert into visits values (?, ?, ?, ?)", rows)
    return path


@pytest.mark.parametrize(("query", "said"), REFUSED)
def test_a_query_in_which_records_change_others_is_refused(query, said, database):
    with pytest.raises(InvalidInput, match=said) as error:
        sqlite_reader(database, query)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{database}: ")


ACCEPTED = [
    "select * from visits",
    "select v.* from visits as v",
    "SELECT Ward, AGE FROM Visits",
    'select visits.ward as w, [age] years, `id` from "visits"; -- with a comment',
    'select "odd ""x"" name" as odd, age /* of whom? */ from visits where "odd ""x"" name" between -2 and 2',
    "select floor, age from visits join places using (ward)",
    "select * from visits join places using (ward) where floor > 1 or age is null",
    "select v.age, p.floor from visits v, places p where v.ward = p.ward and not p.floor = 2",
    "select v.age, p.floor, l.floor as also from visits v inner join places p on v.ward = p.ward cross join later l",
    "select age from visits where age % 2 = 1",
    "select ward, floor from places union all select ward, floor + 1 from later where floor > 7",
    "select ward from places union all select ward from later union all select ward from visits where 1 = 2",
    "select id from visits where ward in ('north', 'it''s', 'east') and age not in (1, 2)",
    "select id from visits where ward like 'n%' or ward like '10\\%' escape '\\' or ward not like '%t%'",
    "select id from visits where age not between 5 and 20 or age isnull or ward notnull",
    "select id from visits where not age = 20 and not not ward = 'south'",
    "select id from visits where age is not null and ward is not 'east' and ward not null",
    "select id from visits where age > '9' and id || ward <> 'bsouth'",
]
EXPRESSIONS = [
    *("1 + 2 * 3 - 4 / 3 % 2", "-age + + 2", "- - age", "age * -1", "2 - 3 - 4", "'a' || 'b' || age", "age || 1 + 1"),
    *("1 = 1 = 2", "1 < 2 = 1", "1 = 1 < 0", "age = 20 or ward = 'east' and age > 1", "not age = 20", "not 1 + 1"),
    *("age is 20", "age is not 20", "age is null", "null = null", ".5 + 1. + 2e1 + 1.5E-3", "9223372036854775807 + 1"),
    "case when age > 9 then 'old' when age is null then '' else ward end",
    "case age when 20 then 1 when 30 then 2 end",
    *("lower(ward)", "upper(trim(ward))", "ltrim(ward, 'n')", "rtrim(ward)", "substr(ward, 2)", "substr(ward, 1, 2)"),
    *("substring(ward, -2, 2)", "length(ward)", "replace(ward, 'o', '0')", "instr(ward, 'o')", "abs(age)"),
    *("round(1.256, 2)", "round(2.5)", "coalesce(age, 0)", "ifnull(ward, 'none')", "nullif(age, 20)", "max(age, 9, 1)"),
    *("min(age, 9)", "iif(age > 9, 'a', 'b')", "cast(age as text)", "cast('12x' as integer)", "cast(1.9 as int)"),
    *("age in (20, 30)", "age in ()", "ward like '_orth%'", "age between 1 and 2 + 20", "1 between 0 and 1 = 1"),
    *("'it''s'", "null", "age / 0", "age % 0", "(1 + 2) * 3", "not (age = 20 or age = 30)", "age <> 20", "age != 20"),
    *("age == 20", "age <= '20'", "'10' < 9", "age > 9 and ward < 'p'", "1 or 0 and 0", "abs(-age) || '-' || ward"),
]


@pytest.mark.parametrize("query", [*ACCEPTED, *(f"select id, {text} as x from visits" for text in EXPRESSIONS)])
def test_what_is_run_is_what_sqlite_makes_of_the_query_itself(query, database):
    """Names, values and their types; whatever the order."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        cursor = connection.execute(query)
        names, rows = [name for name, *_ in cursor.description], cursor.fetchall()
    reader = sqlite_reader(database, query)
    assert list(map(lowered, reader.header)) == list(map(lowered, names))
    for wanted in (list(reader.header), [reader.header[-1]]):
        places = [reader.header.index(name) for name in wanted]
        found = [row for piece in reader.pieces(wanted) for row in piece.rows]
        assert sorted(map(repr, found)) == sorted(repr(tuple(row[place] for place in places)) for row in rows)
    assert sum(len(piece.rows) for piece in reader.pieces([])) == len(rows)
    assert bool(reader.private_size) == (" where " in query or " join " in query or ", places" in query)


WARDS = Domain((Attribute("ward", "category", categories=("north", "south", "east"), outside="error", missing=("",)),))


def test_an_error_names_the_row_and_a_long_condition_is_read(database):
    with pytest.raises(InvalidInput, match=r"people\.sqlite row 1 \(from 0\): column 'ward': value \"it's\""):
        Table.read(database, WARDS, query="select ward from visits where age = 20 or ward = 'it''s'")
    many = " or ".join(f"ward = 'w{i}'" for i in range(290))
    assert len(Table.read(database, WARDS, query=f"select ward from visits where ward = 'north' or {many}")) == 1
    with pytest.raises(InvalidInput, match="cannot be read: integer overflow"):
        Table.read(database, Domain.coded({"x": 2}), query="select abs(-9223372036854775807 - 1) as x from visits")


def test_an_index_whose_values_are_others_than_those_of_the_rows_is_no_way_to_join(database):
    """One that a damaged file has, by which a join would find the rows."""
    query = "select age from visits join places using (ward)"
    ages = Domain.coded({"age": 99})
    assert len(Table.read(database, Domain((Attribute("age", "coded", codes=99, missing=("",)),)), query=query)) == 3
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
        (page,) = connection.execute(
            "select rootpage from sqlite_master where name = 'sqlite_autoindex_places_1'"
        ).fetchone()
        (size,) = connection.execute("pragma page_size").fetchone()
    raw = bytearray(database.read_bytes())
    at = raw.index(b"south", (page - 1) * size)
    assert at < page * size
    raw[at : at + 5] = b"sooth"
    database.write_bytes(raw)
    with pytest.raises(InvalidInput, match="is damaged: SQLite's integrity_check of table places fails"):
        Table.read(database, ages, query=query)


def test_a_table_that_becomes_a_view_before_it_is_read_is_refused(database):
    reader = sqlite_reader(database, "select ward from places")
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript("drop table places; create view places as select max(ward) as ward from visits")
    with pytest.raises(InvalidInput, match="places is not a table of the file"):
        next(reader.pieces(["ward"]))


@pytest.mark.parametrize("query", ["select ward from visits where age = 20", "select p.ward from places p, later"])
def test_how_many_rows_a_filter_or_a_join_gives_is_not_made_public(query, database, capsys):
    table = Table.read(database, WARDS, query=query)
    with Ledger.open(None, PureDP(1.0)) as ledger:
        Curator(table, ledger)
    with (
        Ledger.open(None, PureDP(1.0), neighbours="replace-one") as ledger,
        pytest.raises(InvalidInput, match="a query that filters or joins gives is private"),
    ):
        Curator(table, ledger)


def test_a_release_of_a_query_is_that_of_a_table_of_the_same_rows(database, capsys):
    domain = Domain((*WARDS.attributes, Attribute("floor", "coded", codes=9)))
    query = "select places.ward, floor from visits join places using (ward)"
    Path("wards.toml").write_text(to_toml(domain))
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"create table made as {query}")
    command = ["release", str(database), "--schema", "wards.toml", "--epsilon", "1", "--insecure-seed", "1"]
    for asked in (query, "made"):
        assert main([*command, "--query", asked, "--ledger", f"{asked[:4]}.ledger", "--out", asked[:4]]) == 0
    for name in ("answers.csv", "synthetic.csv"):
        assert Path("sele", name).read_bytes() == Path("made", name).read_bytes()
    capsys.readouterr()
    assert main([*command, "--query", "select max(floor) as floor from places", "--ledger", "x.ledger"]) == 2
    assert MIXED in capsys.readouterr().err
    assert not Path("x.ledger").exists()


def test_names_and_statements_are_told_apart():
    assert is_select(" SELECT 1")
    assert is_select("with x")
    assert not is_select("selected")
    assert not is_select("visits")
    assert quoted('a "b"') == '"a ""b"""'
    assert lowered("Ward É") == "ward É"
    assert tables_named("select * from Visits v, places") == {"visits", "places"}
    assert tables_named("Visits") == {"visits"}
    assert tables_named("select nonsense") == {"select nonsense"}


def test_a_statement_has_every_name_in_full():
    rows = SelectedRows("select a, t.B as c from t where a > 1", {"T": ["A", "b"]})
    assert (rows.header, rows.tables, rows.filtered, rows.joined) == (("A", "c"), ("T",), True, False)
    assert rows.statement(["c"]) == 'select t0."b" from main."T" as t0 not indexed where ((t0."A" > 1))'
    assert rows.statement([]).startswith("select null from")
