"""Tables of SQLite files and PostgreSQL servers: what is read, what is refused, and what errors say."""

import contextlib
import sqlite3
import subprocess
import sys

import pytest
from sources import DERIVED, RECORDS, ROWS, VISITS_SCHEMA

from qrelease.apps.cli import main
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.schema import load
from qrelease.data.sources.databases import postgres_reader, sqlite_reader
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

WARDS = Domain((Attribute("ward", "category", categories=("north", "south"), missing=("",)),))


@pytest.fixture
def file(tmp_path):
    """A SQLite file with a table of odd names, a view, a virtual table, and a generated column."""
    path = tmp_path / "people.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            """
            create table visits (id, ward, age integer, old as (age > 60));
            create table "odd ""t"" table" ("a ""name"" x", "select");
            insert into "odd ""t"" table" values (1, 2);
            create view few as select * from visits limit 1;
            create virtual table found using fts5(words);
            """
        )
        connection.executemany("insert into visits values (:id, :ward, :age)", ROWS)
    return path


def test_a_table_of_a_file_is_read_whole_with_generated_columns_and_odd_names(file):
    reader = sqlite_reader(file, "visits")
    assert reader.header == ("id", "ward", "age", "old")
    table = Table.read(file, Domain((*RECORDS, Attribute("old", "coded", codes=2, missing=("",)))), query="visits")
    assert len(table) == len(ROWS)
    ages = [row["age"] for row in ROWS]
    assert table.columns[2].tolist() == [2 if age is None else int(age > 60) for age in ages]
    odd = Domain.coded({'a "name" x': 3, "select": 3})
    assert [c.tolist() for c in Table.read(file, odd, query='odd "t" table').columns] == [[1], [2]]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (None, "say which table holds the records with --query; its tables are "),
        ("few", "few is a view, in which one record may change others"),
        ("found", "found is a virtual table, in which one record may change others"),
        ("found_content", "found_content is a shadow table, in which one record may change others"),
        ("visits; drop table visits", "--query takes a select here, or the name of a table"),
        ("sqlite_master", "--query takes a select here, or the name of a table"),
    ],
)
def test_what_is_no_table_of_a_file_is_refused(file, query, said):
    with pytest.raises(InvalidInput, match=said.replace("*", "[*]")):
        sqlite_reader(file, query)


def test_errors_name_file_row_column_and_value(file, tmp_path):
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("update visits set ward = 'east' where rowid = 151")
        connection.execute("update visits set ward = x'ff' where rowid = 153")
    with pytest.raises(InvalidInput, match=r"people\.sqlite row 150 \(from 0\): column 'ward': value 'east'"):
        Table.read(file, WARDS, query="visits")
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("update visits set ward = cast(x'ff' as text) where rowid = 151")
    with pytest.raises(InvalidInput, match=r"row 150 \(from 0\): column 'ward': bytes b'\\xff' are not UTF-8 text"):
        Table.read(file, WARDS, query="visits")
    with pytest.raises(InvalidInput, match="there is no such file"):
        sqlite_reader(tmp_path / "nothing.sqlite", "t")
    (tmp_path / "text.db").write_text("sex\n1\n" * 1000)
    with pytest.raises(InvalidInput, match="file is not a database"):
        sqlite_reader(tmp_path / "text.db", "t")
    with pytest.raises(InvalidInput, match="has no column 'height'"):
        Table.read(file, Domain.coded({"height": 3}), query="visits")


def test_a_file_is_not_written(file):
    """Nor its name made, where there is a release from it."""
    file.chmod(0o400)
    before = file.read_bytes()
    Table.read(file, WARDS, query="visits")
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def with_log(path):
    """The file with a write-ahead log from now on, and a connection to it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    return connection


def test_a_file_with_an_empty_log_is_read_and_nothing_is_made_beside_it(file):
    with_log(file).close()
    before = file.read_bytes()
    table = Table.read(file, WARDS, query="visits")
    assert len(table) == len(ROWS)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_records_in_the_log_of_a_file_that_is_open_elsewhere_are_read(file):
    with contextlib.closing(with_log(file)) as connection:
        connection.execute("insert into visits (id, ward) values ('new', 'north')")
        there = sorted(path.name for path in file.parent.iterdir())
        assert len(there) == 3
        assert len(Table.read(file, WARDS, query="visits")) == len(ROWS) + 1
        assert sorted(path.name for path in file.parent.iterdir()) == there


def test_records_in_a_log_that_nobody_has_opened_are_not_left_out_without_a_word(file, tmp_path):
    (tmp_path / "copy").mkdir()
    with contextlib.closing(with_log(file)) as connection:
        connection.execute("insert into visits (id, ward) values ('new', 'north')")
        for name in (file.name, f"{file.name}-wal"):
            (tmp_path / "copy" / name).write_bytes((tmp_path / name).read_bytes())
    with pytest.raises(InvalidInput, match=r"has records in a write-ahead log, people\.sqlite-wal"):
        Table.read(tmp_path / "copy" / file.name, WARDS, query="visits")
    assert len([*(tmp_path / "copy").iterdir()]) == 2


def test_a_file_that_is_written_while_it_is_read_without_its_log_is_refused(file):
    with_log(file).close()
    rows = sqlite_reader(file, "visits").pieces(["ward"])
    next(rows)
    with contextlib.closing(with_log(file)) as connection:
        connection.execute("insert into visits (id, ward) values ('new', 'north')")
        with pytest.raises(InvalidInput, match="was written while it was read"):
            list(rows)


@pytest.mark.parametrize("spelled", ["create virtual", "create/**/virtual", "CREATE  VIRTUAL"])
def test_a_virtual_table_whose_text_was_edited_is_no_table(file, spelled):
    """What SQLite makes of the text counts, not how the text begins."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("pragma writable_schema = on")
        connection.execute(
            "update sqlite_master set sql = ? || substr(sql, length('create virtual') + 1) where name = 'found'",
            (spelled,),
        )
    with contextlib.closing(sqlite3.connect(file)) as connection:  # it is one still
        connection.execute("insert into found values ('word')")
        connection.commit()
    with pytest.raises(InvalidInput, match="found is a virtual table"):
        sqlite_reader(file, "found")


def test_a_table_that_becomes_a_view_before_it_is_read_is_refused(file):
    reader = sqlite_reader(file, "visits")
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("alter table visits rename to v; create view visits as select * from v limit 1")
    with pytest.raises(InvalidInput, match="visits is a view"):
        [*reader.texts()]


def test_rows_are_read_and_not_the_copies_of_an_index(file):
    """A damaged or edited index has other values than the rows."""
    ages = [rows[2] for rows in sqlite_reader(file, "visits").texts()]
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            """
            create index ages on visits (age);
            create table other (x);
            insert into other values (1), (2), (3);
            create index others on other (x);
            pragma writable_schema = on;
            update sqlite_master set rootpage = (select rootpage from sqlite_master where name = 'others')
                where name = 'ages';
            """
        )
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert len(connection.execute("select age from visits").fetchall()) == 3
    pieces = sqlite_reader(file, "visits").pieces(["age"])
    assert [len(piece.rows) for piece in pieces] == [len(ROWS)]
    assert [rows[2] for rows in sqlite_reader(file, "visits").texts()] == ages


def test_a_release_from_a_file_has_its_ledger_beside_it(file, in_folder):
    (file.parent / "people.toml").write_text(DERIVED)
    arguments = ["release", str(file), "--query", "visits", "--schema", "people.toml", "--epsilon", "1"]
    assert main([*arguments, "--workload", "marginals:1", "--mechanism", "laplace"]) == 0
    assert (file.parent / "people.ledger").exists()


LEARNED = """
[[attribute]]
name = "ward"
kind = "category"
categories = { learn = true, at_most = 4 }
missing = [""]
"""


def test_every_command_that_reads_a_table_takes_a_query(file, in_folder, capsys):
    (file.parent / "learned.toml").write_text(LEARNED)
    (file.parent / "wards.toml").write_text(VISITS_SCHEMA)
    data = [str(file), "--query", "visits"]
    budget = ["--epsilon", "1", "--delta", "1e-9", "--ledger", "people.ledger", "--insecure-seed", "1"]
    total = ["--total-epsilon", "10", "--total-delta", "1e-6"]
    commands = [
        ["schema", "draft", *data, "--out", "draft.toml"],
        ["schema", "learn", *data, "--schema", "learned.toml", "--out", "found.toml", *budget, *total],
        ["release", *data, "--schema", "wards.toml", *budget, *total, "--mechanism", "laplace", "--out", "released"],
        ["estimate", *data, "most-common:ward,k=1", "--schema", "wards.toml", *budget, *total],
        ["score", *data, "released/synthetic.csv", "--schema", "wards.toml", *budget],
        ["attack", *data, "--release", "released", "--secret", "ward", "--value", "north", "--people", "2"],
    ]
    for command in commands:
        assert main(command) == 0, (command, capsys.readouterr().err)
    assert 'name = "ward"' in (file.parent / "draft.toml").read_text()
    assert "categories" in (file.parent / "found.toml").read_text()
    assert main(["schema", "draft", str(file)]) == 2
    assert "--query" in capsys.readouterr().err


@pytest.fixture(scope="module")
def server(postgres_or_none):
    """A PostgreSQL server with the visits, and with what is no table."""
    found = postgres_or_none
    if found is None:
        pytest.skip("there is no PostgreSQL server, or no psycopg")
    values = ", ".join(
        "({})".format(", ".join("null" if v is None else f"'{v}'" for v in (r["id"], r["ward"], r["age"])))
        for r in ROWS
    )
    found.do("create schema clinic")
    found.do("create table visits (id text, ward varchar(20), age integer)", "clinic")
    found.do(f"insert into visits values {values}", "clinic")
    found.do("create view few as select * from visits limit 1", "clinic")
    found.do("create materialized view kept as select * from visits", "clinic")
    found.do("create table doubled (age integer, twice integer generated always as (2 * age) stored)", "clinic")
    found.do("create table hidden (age integer)", "clinic")
    found.do("alter table hidden enable row level security", "clinic")
    found.do("create role reader login password 'read:me'")
    found.do("grant usage on schema clinic to reader")
    found.do("grant select on all tables in schema clinic to reader")
    return found


def address(server, user="reader", password="read%3Ame"):
    return f"postgresql://{user}:{password}@127.0.0.1:{server.port}/postgres"


def test_a_server_gives_the_codes_that_a_file_gives(server, file, tmp_path):
    (tmp_path / "derived.toml").write_text(DERIVED)
    learned = Domain((Attribute("ward", "category", learn=2, missing=("",)),))
    for schema in (Domain(RECORDS), Domain(RECORDS, person=Person("id", 3)), load(tmp_path / "derived.toml"), learned):
        ours = Table.read(address(server), schema, query="clinic.visits")
        theirs = Table.read(file, schema, query="visits")
        assert ours.fingerprint(b"k" * 32) == theirs.fingerprint(b"k" * 32)
        assert [c.tolist() for c in ours.columns] == [c.tolist() for c in theirs.columns]


TYPED = (
    ("date", "2020-01-31", "2020-01-31"),
    ("timestamp", "2020-01-31 06:30:00", "2020-01-31T06:30:00"),
    ("timestamptz", "2020-01-31 06:30:00+02", "2020-01-31T04:30:00+00:00"),
    ("time", "06:30", "06:30:00"),
    ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("boolean", "yes", "true"),
    ("numeric(9, 2)", "2.5", "2.5"),
    ("double precision", "0.1", "0.1"),
    ("real", "0.1", "0.1"),
    ("bigint", "9007199254740992", "9007199254740992"),
    ("char(9)", "north", "north"),
    ("date", "infinity", "infinity"),
    ("date", "0044-03-15 BC", "0044-03-15 BC"),
)


@pytest.mark.parametrize(("kind", "value", "text"), TYPED)
def test_a_typed_value_of_a_server_is_the_text_that_it_has_in_a_file(server, kind, value, text):
    server.do("drop table if exists typed", "clinic")
    server.do(f"create table typed (v {kind})", "clinic")
    server.do(f"insert into typed values ('{value}'), (null)", "clinic")
    domain = Domain((Attribute("v", "category", categories=("other", text), missing=("",), outside="other"),))
    owner = server.url("x").partition("?")[0]
    assert Table.read(owner, domain, query="clinic.typed").columns[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (None, "say which table holds the records with --query"),
        ("clinic.few", "clinic.few is a view, in which one record may change others"),
        ("clinic.kept", "clinic.kept is a materialised view"),
        ("clinic.doubled", "column twice of clinic.doubled is generated"),
        ("clinic.hidden", "would be affected by row-level security policy"),
        ("visits", "there is no 'visits'"),
        ("select 1", "--query takes only the name of a table here"),
        ("clinic.visits where true", "--query takes only the name of a table here"),
    ],
)
def test_what_is_no_plain_table_of_a_server_is_refused(server, query, said):
    with pytest.raises(InvalidInput, match=said):
        for _ in postgres_reader(address(server), query).texts():
            pass


def test_a_table_of_a_server_that_becomes_a_view_before_it_is_read_is_refused(server):
    """It is looked up again in the transaction that reads, once the table is locked."""
    server.do("drop table if exists turned", "clinic")
    server.do("create table turned (ward text)", "clinic")
    server.do("insert into turned values ('north'), ('south')", "clinic")
    owner = server.url("x").partition("?")[0]
    reader = postgres_reader(owner, "clinic.turned")
    assert [*reader.texts()] == [[["north", "south"]]]
    server.do("alter table turned rename to turned_too", "clinic")
    server.do("create view turned as select ward from turned_too limit 1", "clinic")
    with pytest.raises(InvalidInput, match=r"clinic\.turned is a view"):
        [*reader.texts()]
    server.do("drop view turned", "clinic")
    server.do("create table turned (ward text, twice text generated always as (ward || ward) stored)", "clinic")
    with pytest.raises(InvalidInput, match=r"column twice of clinic\.turned is generated"):
        [*reader.texts()]


def test_no_message_has_a_password(server, tmp_path):
    wrong = (address(server, password="hunter2"), address(server).replace("reader:read%3Ame", "nobody:hunter2"))
    broken = ("postgresql://a:hunter2/x@h/d", "postgresql:/a:hunter2@h/d", "postgres://a:hunter2@127.0.0.1:1/d")
    for place in (*wrong, *broken):
        with pytest.raises(InvalidInput) as refused:
            Table.read(place, WARDS, query="clinic.visits")
        assert "hunter2" not in str(refused.value)


def test_a_release_from_a_server_names_its_dataset_and_its_ledger(server, tmp_path):
    """In a process of its own, as people start it."""
    (tmp_path / "people.toml").write_text(DERIVED)
    command = [sys.executable, "-m", "qrelease", "release", address(server), "--query", "clinic.visits"]
    command += ["--schema", "people.toml", "--epsilon", "1", "--workload", "marginals:1", "--mechanism", "laplace"]

    def run(*more):
        return subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "give their dataset a name, by --dataset" in run("--ledger", "people.ledger").stderr
    assert "say with --ledger where it is" in run("--dataset", "people").stderr
    done = run("--dataset", "people", "--ledger", "people.ledger")
    assert done.returncode == 0, done.stderr
    assert "read%3Ame" not in done.stdout + done.stderr
    assert (tmp_path / "people-release").is_dir()
    assert not any(b"read:me" in path.read_bytes() for path in (tmp_path / "people-release").iterdir())


def test_a_server_is_drafted_from_and_estimated_from(server, in_folder, tmp_path, capsys):
    (tmp_path / "wards.toml").write_text(VISITS_SCHEMA)
    data = [address(server), "--query", "clinic.visits"]
    assert main(["schema", "draft", *data]) == 0
    drafted = capsys.readouterr().out
    assert 'name = "ward"' in drafted
    assert "read" not in drafted.splitlines()[0].replace("Drafted from", "")
    named = ["--dataset", "people", "--ledger", "people.ledger"]
    command = ["estimate", *data, "most-common:ward,k=1", "--schema", "wards.toml", "--epsilon", "1"]
    assert main([*command, *named]) == 0
    assert main(command) == 2
    assert "--ledger" in capsys.readouterr().err
