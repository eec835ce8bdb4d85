"""Numbers and moments as they are: exact grids, and bins as a view of them."""

import csv
import datetime as dt
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from qrelease.data.decoding import decode
from qrelease.data.domain import Attribute, Domain
from qrelease.data.grids import PointGrid
from qrelease.data.predicates import parse
from qrelease.data.schema import domain_from_json, domain_to_json, load, to_toml
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

MINUTE = Fraction(1, 1440)


def schema_of(tmp_path, text):
    path = tmp_path / "schema.toml"
    path.write_text("\n".join(f"[[attribute]]\n{entry}" for entry in text))
    return path


PRICE = 'name = "x"\nkind = "number"\nwithin = [0, 1000]\nstep = 0.01\nbins = 20'
DELAY = 'name = "y"\nkind = "number"\nwithin = [-60, 1440]\nstep = 1\nbins = [-60, 0, 15, 1441]\noutside = "clip"'
MOMENT = 'name = "t"\nkind = "date"\nwithin = [2013-01-01, 2013-12-31]\nstep = "minute"\nmissing = [""]'
MONTHS = "bins = { start = 2013-01-01, stop = 2014-01-01, months = 1 }"


def test_numbers_count_by_their_decimals():
    grid = PointGrid(Fraction(0), Fraction(1, 100), 100_001)
    for place in (0, 7, 29, 57, 58, 115, 99_999):
        assert grid.place(place / 100) == place
        assert grid.place(float(grid.value(place))) == place
    assert (grid.place(0.004), grid.place(0.005), grid.place(-1), grid.place(1e300) > grid.size) == (0, 1, -100, True)


@pytest.mark.parametrize(("low", "step"), [(0, "1/100"), (-60, "1"), ("-1/10", "1/4"), (10**9, "1/1000"), (3, "7")])
def test_whole_columns_are_placed_as_single_numbers_are(low, step):
    rng = np.random.default_rng(1)
    grid = PointGrid(Fraction(low), Fraction(step), 1000)
    places = rng.integers(-20, 1020, 400)
    numbers = np.array([float(grid.value(int(p)) + grid.step * Fraction(int(o), 8)) for p in places for o in (0, 1, 4)])
    found = grid.places(np.append(numbers, [np.nan, np.inf, 1e300]))
    sure = found >= 0
    assert sure[:-3].mean() > 0.6
    assert not sure[-3:].any()
    assert found[sure].tolist() == [grid.place(float(x)) for x in numbers[sure[:-3]]]
    inside = np.arange(grid.size)
    assert grid.values(inside).tolist() == [float(grid.value(int(p))) for p in inside]


def test_no_place_is_decided_by_floats_that_cannot():
    wide = PointGrid(Fraction(2**52), Fraction(1), 8)
    assert (wide.places(np.array([2.0**52 + 3])) == -1).all()
    assert wide.place(2.0**52 + 3) == 3


def test_a_schema_with_grids_is_written_and_read(tmp_path):
    domain = load(
        schema_of(
            tmp_path,
            [PRICE, DELAY, f"{MOMENT}\n{MONTHS}", 'name = "s"\nkind = "number"\nwithin = [0, 10]\nstep = 0.25'],
        )
    )
    assert [a.grid.size for a in domain] == [100_001, 1501, 525_600, 41]
    assert domain.shape == (20, 3, 13, 41)
    assert domain["y"].labels == ("-60..-1", "0..14", "15..1440")
    assert domain["t"].labels[0] == "2013-01-01T00:00..2013-01-31T23:59"
    again = tmp_path / "again.toml"
    again.write_text(to_toml(domain))
    assert load(again) == domain == domain_from_json(domain_to_json(domain))


RECORDS = {
    "x": ["0.07", "999.999", "12.5", "0"],
    "y": ["5", "99999", "-60", "-1"],
    "t": ["2013-01-01 05:15:00", "", "2013-12-31T23:59:59", "2013-06-01"],
}
POINTS = {
    "x": [7, 100_000, 1250, 0],
    "y": [65, 1500, 0, 59],
    "t": [315, -1, 525_599, 151 * 1440],
}


def test_every_source_keeps_the_points(tmp_path):
    domain = load(schema_of(tmp_path, [PRICE, DELAY, f"{MOMENT}\n{MONTHS}"]))
    path = tmp_path / "t.csv"
    pd.DataFrame(RECORDS).to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    typed = pd.read_csv(path, parse_dates=["t"])
    typed.to_parquet(tmp_path / "t.parquet")
    for table in (
        Table.read(path, domain),
        Table.from_frame(typed, domain),
        Table.read(tmp_path / "t.parquet", domain),
    ):
        assert {name: table.grid(name).tolist() for name in domain.names} == POINTS
        assert [c.tolist() for c in table.columns] == [[0, 19, 0, 0], [1, 2, 0, 0], [0, 12, 11, 5]]


def test_bins_are_a_view_and_rows_differ_by_their_points(tmp_path):
    domain = load(schema_of(tmp_path, [PRICE]))
    tables = [Table.from_frame(pd.DataFrame({"x": [v]}), domain) for v in (1.0, 1.0, 1.01)]
    key = b"k" * 32
    assert [t.columns[0].tolist() for t in tables] == [[0]] * 3
    assert tables[0].fingerprint(key) == tables[1].fingerprint(key) != tables[2].fingerprint(key)


def test_a_table_of_bins_has_no_points(tmp_path):
    domain = load(schema_of(tmp_path, [PRICE]))
    table = Table(domain, (np.array([1, 2]),))
    with pytest.raises(InvalidInput, match="made of bins"):
        table.grid("x")
    with pytest.raises(InvalidInput, match="not the bins of its points"):
        Table(domain, (np.array([1, 2]),), points=(np.array([1, 2]),))
    few = Domain((Attribute("s", "number", within=(0, 3), step=1),))
    assert Table(few, (np.array([0, 3]),)).grid("s").tolist() == [0, 3]
    with pytest.raises(InvalidInput, match="no grid"):
        Table(Domain.coded({"a": 2}), (np.array([0]),)).grid("a")


@pytest.mark.parametrize("shape", [((1, 3),), ((0, 3), (0, 1)), ((0, 0),), ((0, -1), (5, 3)), ((0, 3), (100, 1))])
def test_wrong_shapes_are_told(shape):
    with pytest.raises(InvalidInput, match="shape"):
        Attribute("hours", "number", within=(0, 99), step=1, edges=(0, 50, 100), shape=shape)


@pytest.mark.parametrize("given", [PRICE, DELAY, f"{MOMENT}\n{MONTHS}"])
def test_synthetic_values_lie_on_the_grid_and_in_their_bins(tmp_path, given):
    domain = load(schema_of(tmp_path, [given]))
    (attribute,) = domain
    codes = np.repeat(np.arange(attribute.size), 50)
    values = decode(attribute, codes, np.random.default_rng(1))
    table = Table.from_frame(pd.DataFrame({attribute.name: values.astype(str)}), domain)
    assert table.columns[0].tolist() == codes.tolist()
    assert len(set(table.grid(attribute.name).tolist())) > attribute.size  # not one value a bin
    if attribute.kind == "number":
        assert [float(attribute.grid.value(int(p))) for p in table.grid(attribute.name)] == values.tolist()


def test_conditions_on_moments_follow_the_edges(tmp_path):
    domain = load(schema_of(tmp_path, [f"{MOMENT}\n{MONTHS}"]))
    first = parse("t < 2013-02-01", domain)
    assert first.mask().tolist() == [True] + [False] * 12
    assert parse("t in '2013-01-01T00:00'..'2013-01-31T23:59'", domain) == first
    assert parse(str(first), domain) == first
    with pytest.raises(InvalidInput, match="cuts through the bin"):
        parse("t < '2013-02-01T12:00'", domain)


BAD = {
    "finer than 2^53": 'kind = "number"\nwithin = [0, 1e10]\nstep = 1e-7\nbins = 5',
    "whole steps of 0.3": 'kind = "number"\nwithin = [0, 1]\nstep = 0.3\nbins = 3',
    "bins must go from 0 to": 'kind = "number"\nwithin = [0, 10]\nstep = 1\nbins = [0, 5, 20]',
    "begin on the grid": 'kind = "number"\nwithin = [0, 10]\nstep = 0.5\nbins = [0, 2.3, 10]',
    "give bins = N": 'kind = "number"\nwithin = [0, 100]\nstep = 1',
    "bins must be 1..11": 'kind = "number"\nwithin = [0, 10]\nstep = 1\nbins = 12',
    "no step": 'kind = "number"\nwithin = [0, 10]\nbins = [0, 10]',
    "no within": 'kind = "number"\nstep = 1\nbins = [0, 10]',
    "must be whole": 'kind = "number"\nwithin = [0, 10]\nstep = 0.5\ninteger = true',
    "step must be positive, got 0": 'kind = "number"\nwithin = [0, 10]\nstep = 0',
    "step must be positive, got -1": 'kind = "number"\nwithin = [0, 10]\nstep = -1\nbins = 2',
    "step must hold finite": 'kind = "number"\nwithin = [0, 10]\nstep = "minute"',
    "step must be one of": 'kind = "date"\nwithin = [2013-01-01, 2013-12-31]\nstep = 5',
    "within must hold dates": 'kind = "date"\nwithin = [1, 2]\nstep = "day"',
    "first and a last": 'kind = "number"\nwithin = [0]\nstep = 1',
    "a later last value": 'kind = "number"\nwithin = [5, 5]\nstep = 1',
    "unknown key 'step'": 'kind = "category"\ncategories = ["a"]\nstep = 1',
}


@pytest.mark.parametrize("told", BAD)
def test_wrong_grids_are_told_in_a_line(tmp_path, told):
    with pytest.raises(InvalidInput, match=told.replace("^", r"\^")) as error:
        load(schema_of(tmp_path, [f'name = "x"\n{BAD[told]}']))
    assert "\n" not in str(error.value)


def test_values_beyond_the_ends_go_where_the_schema_says():
    def points(outside, value, **more):
        attribute = Attribute("x", "number", within=(0, 99), step=1, edges=(0, 50, 100), outside=outside, **more)
        return Table.from_frame(pd.DataFrame({"x": [value]}), Domain((attribute,))).grid("x").tolist()

    assert points("clip", -5) == [0]
    assert points("clip", 1e12) == [99]
    assert points("missing", 100, missing=("",)) == [-1]
    with pytest.raises(InvalidInput, match=r"not within 0\.\.99"):
        points("error", 100)


def test_a_moment_is_of_the_minute_it_lies_in():
    attribute = Attribute("t", "date", within=(0, 1 - MINUTE), step=MINUTE, edges=(0, 0.5, 1))
    moments = [dt.datetime(1970, 1, 1, 11, 59, 59, 999_999), dt.datetime(1970, 1, 1, 12)]
    table = Table.from_frame(pd.DataFrame({"t": moments}), Domain((attribute,)))
    assert table.grid("t").tolist() == [719, 720]
    assert table.columns[0].tolist() == [0, 1]


def test_moments_with_offsets_are_taken_in_utc_where_there_is_a_time_of_day(tmp_path):
    domain = load(schema_of(tmp_path, [f"{MOMENT}\n{MONTHS}"]))
    texts = ["2013-01-01T05:00:00Z", "2013-01-01T06:00:00+01:00", "2013-01-01T05:00"]
    (tmp_path / "t.csv").write_text("\n".join(["t", *texts]))
    zoned = pd.DataFrame({"t": pd.to_datetime(texts[:2], utc=True).tz_convert("Europe/Berlin")})
    assert Table.read(tmp_path / "t.csv", domain).grid("t").tolist() == [300] * 3
    assert Table.from_frame(zoned, domain).grid("t").tolist() == [300] * 2
    days = Domain((Attribute("t", "date", edges=(15_000, 16_000)),))
    with pytest.raises(InvalidInput, match="has an offset"):
        Table.read(tmp_path / "t.csv", days)
