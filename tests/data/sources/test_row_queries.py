"""Which queries of a DuckDB file are accepted."""

from pathlib import Path

import pytest

from qrelease.apps.cli import main
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.schema import to_toml
from qrelease.data.sources.batches import query_reader
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

REFUSED = [
    ("select count(*) as n from visits", "one record may change others"),
    ("select ward, count(*) as n from visits group by ward", "one record may change others"),
    ("select *, avg(age) over () as mean from visits", "one record may change others"),
    ("select distinct ward from visits", "one record may change others"),
    ("select * from visits limit 10", "one record may change others"),
    ("select * from visits using sample 5", "one record may change others"),
    ("select * from visits where age = (select max(age) from visits)", "one record may change others"),
    ("select ward from visits except select 'north'", "one record may change others"),
    ("select * from wards", "not a table of the file"),
    ("select * from visits; select count(*) from visits", "takes one select"),
    ("delete from visits", "takes one select"),
    ("select * from read_csv('t.csv')", "a table function"),
    ("select * from 't.csv'", "not a table of the file"),
    # Steps of the plan do not show these: they are by rows, of functions that look at a block, or at the whole table.
    ("select case when stats(age)::varchar like '%9%' then 1 else 0 end as ward from visits", "the function stats"),
    ("select vector_type(age) as ward from visits", "the function vector_type"),
    ("select random() as ward from visits", "the function random"),
    ("select ward from visits where rowid < 2", "has rowid"),
    ('select "RowID" as ward from visits', "has rowid"),
    ("select ward from visits where 30 in (select age from visits)", "a subquery in an expression"),
    ("select a.ward from visits a, visits b where b.age = 30", "visits joined with itself"),
    ("select a.ward from visits a join (select * from visits) b on b.age = 30", "visits joined with itself"),
    ("select a.ward from visits a left join places b using (ward)", "a join of the kind left"),
    ("select a.ward from visits a anti join places b using (ward)", "a join of the kind anti"),
    ("select a.ward from visits a asof join places b on a.age >= b.floor", "a join of the kind"),
    ("select ward from visits qualify row_number() over () = 1", "may change others"),
    ("with v as (select * from visits) select ward from v", "a common table expression"),
    ("select twice(age) as ward from visits", "the function twice"),
    ("select lower(ward) as ward from visits", "lower is a macro"),
    ("select next from ages", "generated columns"),
    ("select next from early.steps", "generated columns"),
    ("select ward from visits union all select ward from visits", "visits in a union with itself"),
    ("select ward from places union all select ward from visits union all select ward from visits", "with itself"),
    ("select unnest([1, 2]) as ward from visits", "the function unnest"),
    ("select columns(c -> c = 'ward') from visits", "may change others"),
    ("select ward from visits group by all", "may change others"),
    ("select list_sort([ward]) as ward from visits", "the function list_sort"),
    ("select sum(age) filter (where age > 1) as ward from visits", "the function sum"),
    ("select * form visits", "yntax"),
    ("select nothing from visits", "nothing"),
]


@pytest.fixture
def database(in_folder, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute("create table visits (id varchar, ward varchar, age int)")
        connection.execute("insert into visits values ('a', 'north', 20), ('b', 'south', 30), ('b', 'east', null)")
        connection.execute("create table places as select * from (values ('north', 1), ('south', 2)) as v(ward, floor)")
        connection.execute("create view wards as select ward, count(*) as n from visits group by ward")
        connection.execute("create macro twice(x) as 2 * x")
        connection.execute("create macro lower(x) as vector_type(x)")
        connection.execute("create table ages (age int, next int generated always as (age + 1))")
        for schema, kind in (("early", "generated always as (vector_type(age))"), ("late", "varchar")):  # of one name
            connection.execute(f"create schema {schema}")
            connection.execute(f"create table {schema}.steps (age int, next {kind})")
    return tmp_path / "t.duckdb"


@pytest.mark.parametrize(("query", "said"), REFUSED)
def test_a_query_in_which_records_change_others_is_refused(query, said, database):
    with pytest.raises(InvalidInput, match=said) as error:
        query_reader(database, query)
    assert "\n" not in str(error.value)


def test_a_query_selects_filters_and_joins(database):
    floors = Domain((Attribute("floor", "coded", codes=3), Attribute("age", "coded", codes=99, missing=("",))))
    query = "select floor, age from visits join places using (ward) where age > 20 or age is null"
    table = Table.read(database, floors, query=query)
    assert [c.tolist() for c in table.columns] == [[2], [30]]
    query = (
        "select case when upper(ward) like 'N%' then 1 else 2 end as floor, cast(coalesce(age, 98) as int) + 0 as age"
        " from (select * from visits) v where ward in ('north', 'east') and not (age between 21 and 30)"
        " union all select floor, null from places where year(date '2020-01-01') = 2020 order by floor"
    )
    table = Table.read(database, floors, query=query)
    assert sorted(zip(*(c.tolist() for c in table.columns), strict=True)) == [(1, 20), (1, 99), (2, 99)]


def test_an_error_names_the_row_and_a_database_needs_a_query(database):
    domain = Domain((Attribute("ward", "category", categories=("north", "south")),))
    with pytest.raises(InvalidInput, match=r"t\.duckdb row 2 \(from 0\): column 'ward': value 'east'"):
        Table.read(database, domain, query="select ward from visits")
    with pytest.raises(InvalidInput, match="--query"):
        Table.read(database, domain)
    with pytest.raises(InvalidInput, match="no such file"):
        Table.read("nowhere.duckdb", domain, query="select 1")


FILTERED = [
    "select id, ward from visits where age > 20",
    "select id, ward from (select * from visits where age > 20) v",
    "select id, ward from visits union all select 'c', ward from places where floor > 1",
    "select id, ward from visits join places using (ward)",
    "select id, ward from visits, (select floor from places) p",
]
PERSONS = [None, Person("id", 2, weights="persons")]


@pytest.mark.parametrize("person", PERSONS)
@pytest.mark.parametrize("query", FILTERED)
def test_how_many_rows_a_filter_or_a_join_gives_is_not_made_public(query, person, database, capsys):
    """One row that is replaced, so that it passes or does not, changes their number, which replace-one publishes."""
    wards = Domain((Attribute("ward", "category", categories=("north", "south", "east")),), person=person)
    table, whole = (Table.read(database, wards, query=asked) for asked in (query, "select id, ward from visits"))
    unit = {"person": None if person is None else "id"}
    with Ledger.open(None, PureDP(1.0), **unit) as ledger:
        Curator(table, ledger)
    with Ledger.open(None, PureDP(1.0), neighbours="replace-one", **unit) as ledger:
        Curator(whole, ledger)
        for viewed in (table, table.viewed(wards), table.ordered(wards)):
            with pytest.raises(InvalidInput, match="a query that filters or joins gives is private"):
                Curator(viewed, ledger)
    Path("wards.toml").write_text(to_toml(wards))
    command = ["--query", query, "--schema", "wards.toml", "--epsilon", "1", "--neighbours", "replace-one"]
    assert main(["release", str(database), *command, "--mechanism", "laplace"]) == 2
    assert "filters or joins" in capsys.readouterr().err
    assert not list(Path().glob("*.ledger"))


def test_columns_derived_from_a_filtered_query_are_not_replaced(database):
    Path("derived.toml").write_text(
        '[[attribute]]\nname = "ward"\nkind = "category"\ncategories = ["north", "south", "east"]\n'
        '[person]\ncolumn = "id"\n[person.derive]\nvisits = { take = "count", bins = [0, 1, 9] }\n'
    )
    table = Table.read(database, "derived.toml", query=FILTERED[0])
    with (
        Ledger.open(None, PureDP(1.0), neighbours="replace-one", person="id") as ledger,
        pytest.raises(InvalidInput, match="a query that filters or joins gives is private"),
    ):
        Curator(table, ledger)
