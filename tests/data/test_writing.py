"""Numbers and dates as data write them: each text by itself, read as one number or as none."""

import csv
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qrelease as qr
from qrelease.data.counts import Counts
from qrelease.data.domain import Attribute, Domain
from qrelease.data.dummy import dummy_table
from qrelease.data.schema import domain_from_json, domain_to_json, load, to_toml
from qrelease.data.schema_check import check
from qrelease.data.sources.dialect import Dialect
from qrelease.data.table import Table
from qrelease.data.writing import Writing
from qrelease.errors import InvalidInput

GERMAN = Writing(decimal=",", thousands=".", unit="€")
AMERICAN = Writing(thousands=",", unit="$")
FRENCH = Writing(decimal=",", thousands=" ")


@pytest.mark.parametrize(
    ("writing", "text", "plain"),
    [
        (GERMAN, "1.234,50", "1234.50"),
        (GERMAN, "1234,5", "1234.5"),
        (GERMAN, "1.234.567", "1234567"),
        (GERMAN, "€ 12", "12"),
        (GERMAN, "12€", "12"),
        (GERMAN, "-€ 12", "-12"),
        (GERMAN, "€ -12", "-12"),
        (GERMAN, "−12,5 €", "-12.5"),
        (GERMAN, "+3", "3"),
        (GERMAN, ",5", "0.5"),
        (GERMAN, "1,5E3", "1.5E3"),
        (GERMAN, "007", "007"),
        *(
            (GERMAN, text, None)
            for text in ("1234.5", "1.23", "1.2345", "12.345.67", "1.234.5", "12 €€", "€", "", "--5")
        ),
        *((GERMAN, text, None) for text in ("5,", "- 5", "€€ 5", "1,234.5", "nan", "inf", "1_000", "12 $", "١٢")),
        (AMERICAN, "$1,234.50", "1234.50"),
        (AMERICAN, "1.5", "1.5"),
        (AMERICAN, "1,23", None),
        (FRENCH, "1 234,5", "1234.5"),
        (FRENCH, "1\u202f234\u00a0567", "1234567"),
        (Writing(thousands="'"), "1’234.5", "1234.5"),
        (Writing(unit="%"), "12 %", "12"),
        (Writing(format="%d.%m.%Y"), "31.12.2024", "2024-12-31"),
        (Writing(format="%d.%m.%Y"), "1.2.2024", "2024-02-01"),
        (Writing(format="%m/%d/%Y"), "12/31/2024", "2024-12-31"),
        (Writing(format="%d.%m.%Y %H:%M"), "31.12.2024 6:30", "2024-12-31T06:30:00"),
        *(
            (Writing(format="%d.%m.%Y"), text, None)
            for text in ("2024-12-31", "31.12.24", "31.12.2024 06:30", "31/12/2024")
        ),
        (Writing(), "anything", "anything"),
    ],
)
def test_a_text_is_one_number_or_date_or_none(writing, text, plain):
    assert writing.plain(text) == plain


WAYS = [
    Writing(decimal, thousands, unit)
    for decimal in ".,"
    for thousands in ("", ".", ",", " ", "'")
    for unit in ("", "€", "kg")
    if thousands != decimal
]


@given(st.sampled_from(WAYS), st.decimals(-(10**9), 10**9, places=3))
def test_what_is_written_is_read_as_the_same_number(writing, number):
    again = writing.plain(writing.written(str(number)))
    assert Decimal(again) == number


@given(st.sampled_from(["%d.%m.%Y", "%m/%d/%Y", "%Y/%d/%m %H:%M", "%d.%m.%Y, %H:%M:%S"]), st.dates())
def test_what_is_written_is_read_as_the_same_day(form, day):
    writing = Writing(format=form)
    assert writing.plain(writing.written(day.isoformat()))[:10] == day.isoformat()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"decimal": ";"}, "decimal must be"),
        ({"decimal": 1}, "decimal must be"),
        ({"decimal": ",", "thousands": ","}, "another mark than decimal"),
        ({"thousands": "."}, "another mark than decimal"),
        ({"thousands": [","]}, "thousands must be"),
        ({"unit": "1st"}, "unit must be"),
        ({"unit": " €"}, "unit must be"),
        ({"unit": 7}, "unit must be"),
        *(
            ({"format": form}, "format must have")
            for form in ("%d.%m", "%d%m%Y", "%d.%m.%y", "%d.%m.%Y %M", "%d %b %Y", 1)
        ),
    ],
)
def test_marks_that_could_be_read_in_two_ways_are_refused(wrong, said):
    with pytest.raises(InvalidInput, match=said):
        Writing(**wrong)


SCHEMA = """
[[attribute]]
name = "pay"
kind = "number"
within = [0, 5000]
step = 0.01
bins = 5
missing = ["k.A."]
decimal = ","
thousands = "."
unit = "€"

[[attribute]]
name = "born"
kind = "date"
bins = { start = 1950-01-01, stop = 2010-01-01, years = 10 }
format = "%d.%m.%Y"
"""

PEOPLE = "pay;born\n1.234,50 €;31.12.1951\nk.A.;01.02.1999\n€ 17;3.4.1999\n4.999,99;01.01.2009\n"


@pytest.fixture
def people(tmp_path):
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "s.toml").write_text(SCHEMA)
    return tmp_path


def test_a_schema_says_how_and_says_it_again(people):
    domain = load(people / "s.toml")
    assert [a.writing for a in domain] == [GERMAN, Writing(format="%d.%m.%Y")]
    (people / "again.toml").write_text(to_toml(domain))
    assert load(people / "again.toml") == domain_from_json(domain_to_json(domain)) == domain
    plain = Domain((Attribute("pay", "number", edges=(0, 1)),))
    assert set(domain_to_json(plain)["attribute"][0]) == {"name", "kind", "bins"}, (
        "what is stored of others is as it was"
    )
    for line, said in (('decimal = "."', "another mark than decimal"), ('format = "%d.%m.%Y"', "unknown key 'format'")):
        (people / "s.toml").write_text(SCHEMA.replace('decimal = ","', line))
        with pytest.raises(InvalidInput, match=f"attribute 'pay': .*{said}"):
            load(people / "s.toml")
    with pytest.raises(InvalidInput, match="are for numbers and format is for dates, not for 'category'"):
        Attribute("x", "category", categories=("a",), writing=GERMAN)


def test_a_table_is_read_checked_and_counted_by_it(people):
    dialect = Dialect(";")
    table = Table.read(people / "people.csv", people / "s.toml", dialect=dialect)
    assert table.grid("pay").tolist() == [123_450, -1, 1700, 499_999]
    assert table.columns[1].tolist() == [0, 4, 4, 5]
    assert check(people / "people.csv", people / "s.toml", dialect=dialect).holds
    halves = []
    header, *records = PEOPLE.splitlines(keepends=True)
    for number in range(2):
        (people / f"{number}.csv").write_text(header + "".join(records[2 * number :][:2]))
        halves.append(Counts.of(Table.read(people / f"{number}.csv", people / "s.toml", dialect=dialect), [(0, 1)]))
    (both,), (whole,) = (halves[0] + halves[1]).counts([(0, 1)]), Counts.of(table, [(0, 1)]).counts([(0, 1)])
    assert np.array_equal(both, whole)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("1234.5;01.01.2000", "line 6: column 'pay': value '1234.5' is not a number written as 1.234,5 €"),
        ("12 $;01.01.2000", "line 6: column 'pay': value '12 $' is not a number written as 1.234,5 €"),
        ("6.000;01.01.2000", "line 6: column 'pay': value '6.000' is not within 0..5000"),
        (
            "1;2000-01-01",
            "line 6: column 'born': value '2000-01-01' is not a date as 31.12.2024, by the format %d.%m.%Y",
        ),
        ("1;31.02.2000", "line 6: column 'born': value '31.02.2000' is not a date as"),
    ],
)
def test_errors_name_file_line_column_value_and_how_it_would_be_written(people, record, said):
    (people / "people.csv").write_text(PEOPLE + record + "\n")
    for name in ("s.toml",):
        with pytest.raises(InvalidInput, match=re.escape(f"people.csv {said}")):
            Table.read(people / "people.csv", people / name, dialect=Dialect(";"))
    assert not check(people / "people.csv", people / "s.toml", dialect=Dialect(";")).holds


def test_two_ways_to_write_numbers_are_refused(people):
    for read in (Table.read, check):
        with pytest.raises(InvalidInput, match="column 'pay': the schema says how its numbers are written; leave out"):
            read(people / "people.csv", people / "s.toml", dialect=Dialect(";", decimal=","))


def test_what_is_released_is_written_plainly_and_read_so(people):
    table = Table.read(people / "people.csv", people / "s.toml", dialect=Dialect(";"))
    with qr.Ledger.open(None, qr.PureDP(50.0)) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(0))
        made = curator.release(qr.MaxEnt(), qr.Workload.marginals(table.domain, 1), qr.PureDP(50.0))
    made.save(people / "out")
    with (people / "out" / "synthetic.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert rows
    assert all(re.fullmatch(r"\d+(\.\d+)?|k\.A\.", row["pay"]) for row in rows)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row["born"]) for row in rows)
    assert len(Table.read(people / "out" / "synthetic.csv", table.domain.of_rows)) == len(rows)
    again = qr.load(people / "out")
    assert again.domain == table.domain
    assert again.answer("pay in 1000..2000 and born >= 1950-01-01") is not None
    assert [c.holds for c in qr.verify(people / "out").checks if c.name == "synthetic records"] == [True]


def test_a_dummy_table_is_written_as_the_data_are(people):
    domain = load(people / "s.toml")
    made = dummy_table(domain, 300, seed=1)
    assert {"k.A."} < {*made["pay"]}
    lines = [";".join(row) for row in zip(*(map(str, column) for column in made.values()), strict=True)]
    (people / "dummy.csv").write_text("\n".join(["pay;born", *lines, ""]))
    assert len(Table.read(people / "dummy.csv", domain, dialect=Dialect(";"))) == 300
