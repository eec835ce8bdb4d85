"""The file of `qrelease serve`: what it may say, and what is wrong with others, in one line each."""

from urllib.parse import urlsplit

import pytest
from commands import SERVED


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[server]", "[server", "serve.toml: Expected"),
        ("[server]", "[servers]", "serve.toml may have [server] and [datasets.NAME] only, got 'servers'"),
        ("datasets.", "data.", "only, got 'data'"),
        ("[datasets.staff]", '[datasets."st/aff"]', "[datasets.st/aff] becomes part of addresses"),
        ("[datasets.staff]", '[datasets.".."]', "[datasets...] becomes part of addresses"),
        ("port = 0", "ports = 0", "[server]: unrecognized arguments: ports=0 (did you mean 'port'?)"),
        ("port = 0", "por = 0", "[server]: unrecognized arguments: por=0"),
        ("port = 0", "port = 0\nmetrics_port = 1", "arguments: metrics_port=1 (did you mean 'metrics-port'?)"),
        ("port = 0", "port = 'x'", "[server]: argument port: invalid int value: 'x'"),
        ("port = 0", "port = 8765\nmetrics-port = 8765", "metrics-port is also the server's port"),
        ("port = 0", "port = 0\nworkers = 0", "workers must be at least 1, got 0"),
        ("port = 0", "port = 0\nrate = nan", "rate must be in 0.001..1e+09, got nan"),
        ("epsilon = 1\n\n", "epsilon = true\n\n", "[datasets.people]: argument epsilon: expected one argument"),
        ("epsilon = 1\n\n", "epsilon = 1\nweak = false\n\n", "weak takes a text, a number, true, or a list of texts"),
        ("epsilon = 1\n\n", "epsilon = 1979-05-27\n\n", "[datasets.people]: epsilon takes a text, a number, true"),
        ("epsilon = 1\n\n", "epsilon = 50\n\n", "epsilon 50 is above 20"),
        ("epsilon = 1\n\n", "\n", "[datasets.people]: the following arguments are required: epsilon"),
        ("epsilon = 1\n\n", "epsilon = 1\nport = 1\n\n", "[datasets.people]: unrecognized arguments: port=1"),
        ('"staff.ledger"', '"./people.ledger"', "datasets people and staff have the same ledger"),
        ('"staff.csv"', '"../{folder}/people.csv"', "datasets people and staff have the same data"),
        ('"staff.ledger"', '"postgresql://a:secret/x@h/d"', "[datasets.staff]: argument ledger: "),
    ],
)
def test_a_wrong_file_is_refused_before_there_is_a_ledger(served, tmp_path, old, new, said):
    text = SERVED.replace(old, new.format(folder=tmp_path.name) if "{folder}" in new else new)
    assert text != SERVED
    line = served(text)
    assert said in line
    assert "secret" not in line


def test_a_copy_by_another_name_is_the_same_data(served, tmp_path):
    (tmp_path / "linked.csv").symlink_to(tmp_path / "people.csv")
    assert "datasets people and staff have the same data" in served(SERVED.replace('"staff.csv"', '"linked.csv"'))


@pytest.mark.parametrize(
    ("people", "staff", "said"),
    [
        ('"part-*.csv"', '"part-1.csv"', "datasets people and staff have the same data"),
        ('"part-*.csv"', '"part-?.csv"', "datasets people and staff have the same data"),
        ('"part-*.csv"\nquery = "from part_1"', '"part-1.csv"', "datasets people and staff have the same data"),
        (
            '"part-*.csv"\nquery = "from part_1"',
            '"part-2.csv"\nquery = "select sex from part_2"',
            "datasets people and staff have the same data",
        ),
        ('"part-1.csv"\nparent = "staff.csv"', '"staff.csv"', "the parents of dataset people are the data of staff"),
        (
            '"people.csv"',
            '"part-1.csv"\nparent = "./people.csv"',
            "the parents of dataset staff are the data of people",
        ),
        ('"part-1.csv"\nparent = "x.csv"', '"part-2.csv"\nparent = "x.csv"', "workers must be at least 1"),
    ],
)
def test_a_file_of_two_datasets_is_found_among_many_and_as_parents(served, tmp_path, people, staff, said):
    """Else its records have two budgets. Parents that both have are gone on with, to the next thing that is wrong."""
    for number in (1, 2):
        (tmp_path / f"part-{number}.csv").write_text("sex\n1\n")
    text = SERVED.replace('"people.csv"', f'{people}\ndataset = "p"').replace('"staff.csv"', staff)
    assert said in served(text.replace("port = 0", "port = 0\nworkers = 0"))


@pytest.mark.parametrize(
    ("option", "first", "second"),
    [
        ("ledger", "postgresql://{owner}@127.0.0.1:{port}/postgres", "postgres://{owner}@LOCALHOST:{port}/postgres"),
        (
            "ledger",
            "postgresql://{owner}@127.0.0.1:{port}/postgres",
            "postgresql://{owner}@/postgres?host=127.0.0.1&port={port}",
        ),
        ("data", "postgresql://{owner}@127.0.0.1:{port}/postgres", "postgresql://{owner}@localhost:{port}/postgres"),
        ("data", "postgresql://someone:else@127.0.0.1:{port}/postgres", "postgresql://{owner}@localhost:{port}"),
    ],
)
def test_two_spellings_of_one_address_are_one_place(served, postgres, option, first, second):
    """Of a ledger, and of a table, whose name has two spellings too."""
    owner = urlsplit(postgres.url("x")).netloc.rpartition("@")[0]
    postgres.do("create table if not exists public.spelled (sex integer)")
    postgres.do("drop role if exists someone")
    postgres.do("create role someone login password 'else'")
    text = SERVED
    for name, place, table in (("people", first, "spelled"), ("staff", second, "public.Spelled")):
        written = place.format(port=postgres.port, owner=owner)
        suffix = "ledger" if option == "ledger" else "csv"
        query = f'\nquery = "{table}"' if option == "data" else ""
        text = text.replace(f'"{name}.{suffix}"', f'"{written}"{query}')
    assert f"datasets people and staff have the same {option}" in served(text)


def test_other_schemas_and_tables_of_one_server_are_other_places(served, postgres):
    """They are gone on with, to the next thing that is wrong."""
    place = postgres.url("x").partition("?")[0]
    text = SERVED.replace("port = 0", "port = 0\nworkers = 0")
    for name in ("people", "staff"):
        text = text.replace(f'"{name}.ledger"', f'"{place}?schema={name}"')
        text = text.replace(f'"{name}.csv"', f'"{place}"\nquery = "{name}"')
    assert "workers must be at least 1" in served(text)


@pytest.mark.parametrize(
    ("people", "staff", "same"),
    [
        ("select sex, age from visits", "select age, sex from Visits where age > 3", True),
        ("select v.sex from visits v, wards w where v.ward = w.ward", "select sex from visits", True),
        ("select sex from staff union all select sex from visits", "select sex from visits", True),
        ("select sex from staff", "select sex from visits", False),
    ],
)
def test_queries_of_one_table_are_the_same_data(served, tmp_path, people, staff, same):
    """However they are written: its people would have two budgets."""
    (tmp_path / "people.duckdb").touch()
    text = SERVED.replace("port = 0", "port = 0\nworkers = 0")
    for name, query in (("people", people), ("staff", staff)):
        text = text.replace(f'"{name}.csv"', f'"people.duckdb"\nquery = "{query}"')
    said = "datasets people and staff have the same data" if same else "workers must be at least 1"
    assert said in served(text)


def test_partitions_are_data_of_the_whole_table(served, postgres):
    """A partition and its table have rows in common, at any depth; two partitions have none."""
    for statement in (
        "create table if not exists stays (sex integer) partition by list (sex)",
        "create table if not exists stays_1 partition of stays for values in (1) partition by list (sex)",
        "create table if not exists stays_1_1 partition of stays_1 for values in (1)",
        "create table if not exists stays_2 partition of stays for values in (2)",
    ):
        postgres.do(statement)
    text = SERVED.replace("port = 0", "port = 0\nworkers = 0")
    for first, second, said in (
        ("stays", "public.stays_1_1", "datasets people and staff have the same data"),
        ("stays_1_1", "stays_1", "datasets people and staff have the same data"),
        ("stays_1", "stays_2", "workers must be at least 1"),
    ):
        given = text
        for name, table in (("people", first), ("staff", second)):
            given = given.replace(f'"{name}.csv"', f'"{postgres.url("x").partition("?")[0]}"\nquery = "{table}"')
        assert said in served(given)
