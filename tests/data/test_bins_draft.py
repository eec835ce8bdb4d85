"""What a draft proposes: bins that tell values apart, no names or numbers of people."""

import re
import tomllib
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import qrelease as qr
from qrelease.data.bins_draft import (
    CLOCK_EDGES,
    CLOCK_SHAPE,
    crowding,
    fewer,
    is_clock,
    limit_of_shares,
    number_bins,
    share_bins,
)
from qrelease.data.schema import edges_of, load
from qrelease.errors import InvalidInput


def drafted(frame: pd.DataFrame, path: Path, **options: int) -> tuple[qr.Domain, str]:
    text = qr.draft(frame, **options)
    path.write_text(text.replace("reviewed = false", "reviewed = true"))
    return load(path), text


def test_even_bins_are_replaced_only_where_others_tell_more_apart() -> None:
    rng = np.random.default_rng(0)
    cases = {
        "even": (rng.uniform(0, 100, 5000), True),
        "skewed": (np.exp(rng.normal(3, 2.5, 5000)), False),
        "both signs": (rng.standard_cauchy(5000) * 10, False),
        "a spike": (np.r_[np.full(5000, 3.0), 100.0], True),
    }
    for name, (values, even) in cases.items():
        for step in (Fraction(0), Fraction(1, 20), Fraction(1, 100), Fraction(1)):
            whole = step == 1
            column = np.rint(values / float(step)) * float(step) if step else values
            seen = {float(v): int(c) for v, c in zip(*np.unique(column, return_counts=True), strict=True)}
            bins = number_bins(min(seen), max(seen), seen, step)
            assert isinstance(bins, dict) == even, name
            edges = edges_of(bins, "number")
            assert not step or all(Fraction(repr(e)) % step == 0 for e in edges)
            assert all(a < b for a, b in pairwise(edges))
            assert edges[0] <= min(seen)
            assert edges[-1] > max(seen) or (edges[-1] == max(seen) and not whole)
            if not even:
                assert crowding(edges, seen) < 0.4


@pytest.mark.parametrize("sign", [1, -1])
def test_a_long_tail_is_divided_so_that_values_are_near_the_middle_of_their_bin(sign: int) -> None:
    """A mean is of bins' middles, and so are synthetic values: one wide bin for the tail would be far off both."""
    visits = np.random.default_rng(3).negative_binomial(0.7, 0.18, 20_000)
    visits[:2] = 121, 90  # two who are far out
    seen = {float(sign * v): int(c) for v, c in zip(*np.unique(visits, return_counts=True), strict=True)}
    edges = np.array(number_bins(min(seen), max(seen), seen, Fraction(1)), dtype=float)
    values, counts = np.array([*seen]), np.array([*seen.values()])

    def mean(edges: np.ndarray) -> float:
        middles = (edges[:-1] + edges[1:] - 1) / 2
        return float(np.average(middles[np.searchsorted(edges, values, side="right") - 1], weights=counts))

    truth = float(np.average(values, weights=counts))
    assert mean(edges) == pytest.approx(truth, rel=0.15)
    widths = np.diff(edges) if sign > 0 else np.diff(edges)[::-1]
    assert (widths[1:] <= 4 * widths[:-1]).all()
    whole = [e for e in edges if -14 < sign * e < 14 or e in (edges[0], edges[-1])]
    assert abs(mean(np.array(whole)) / truth) > 1.5, "where the tail is one bin"


@pytest.mark.parametrize(("heaped", "low"), [(0, 0), (7, 7), (0, -3)])
def test_a_number_that_nearly_everybody_has_gets_a_bin_of_its_own(heaped: int, low: int) -> None:
    """Even bins would take the few others for the number's neighbours, and a mean for many times what it is."""
    rng = np.random.default_rng(4)
    values = np.where(rng.random(20_000) < 0.91, heaped, low + rng.geometric(0.6, 20_000))
    values[:2] = low, low + 51
    seen = {float(v): int(c) for v, c in zip(*np.unique(values, return_counts=True), strict=True)}
    edges = np.array(number_bins(min(seen), max(seen), seen, Fraction(1)), dtype=float)
    assert {heaped, heaped + 1} <= {*edges}
    widths = np.diff(edges[edges > heaped])
    assert len(widths) > 2
    assert (widths[1:] <= 4 * widths[:-1]).all()
    middles = (edges[:-1] + edges[1:] - 1) / 2
    drafted = middles[np.searchsorted(edges, values, side="right") - 1]
    assert drafted.mean() == pytest.approx(values.mean(), abs=0.1)


SHARES = {  # values, and what is within limits of shares
    "answered": (lambda rng: rng.integers(0, 101, 3000), [0, 100]),
    "answered_once": (lambda rng: np.round(rng.uniform(0, 1, 3000), 2), [0, 1]),
    "exactly": (lambda rng: np.round(rng.uniform(0, 100, 3000), 1), [0, 100]),
    "Frauenanteil": (lambda rng: rng.integers(35, 66, 3000), [0, 100]),
    "pct full": (lambda rng: np.where(rng.random(3000) < 0.6, 100, rng.integers(40, 100, 3000)), [0, 100]),
    "share": (lambda rng: np.round(rng.beta(1, 30, 3000), 3), [0, 1]),
    "share of rare": (lambda rng: np.r_[np.round(rng.uniform(0, 5, 2999), 1), 60.0], [0, 100]),
}
OTHERS = {
    "age": lambda rng: rng.integers(17, 91, 3000),
    "degrees": lambda rng: rng.integers(-10, 100, 3000),
    "points": lambda rng: rng.integers(0, 104, 3000),
    "shareholders": lambda rng: rng.integers(20, 70, 3000),
    "percent growth": lambda rng: np.round(rng.normal(2, 3, 3000), 1),
}


@pytest.mark.parametrize("learn", [False, True])
def test_shares_have_the_limits_of_shares(tmp_path: Path, learn: bool) -> None:
    rng = np.random.default_rng(0)
    values = {name: make(rng) for name, (make, _) in SHARES.items()} | {n: make(rng) for n, make in OTHERS.items()}
    frame = pd.DataFrame(values)
    text = qr.draft(frame, learn=learn)
    domain = load(text.replace("reviewed = false", "reviewed = true"), undecided=True)
    for name, (_, limits) in SHARES.items():
        assert domain[name].within == tuple(map(float, limits)), name
    for name in OTHERS:
        assert domain[name].within not in ((0, 100), (0, 1)), name
    table = qr.Table.from_frame(frame, domain)  # where no value is beyond the limits, each is kept as it is
    for name in SHARES:
        grid = domain[name].grid
        assert grid is not None
        kept = [float(grid.value(int(point))) for point in table.grid(name)] if not learn else frame[name]
        assert np.allclose(kept, frame[name]), name
    if not learn:
        assert text.count("# limits 0 to 100 are a guess, because its values or its name look like percentages") == 5
        assert text.count("# limits 0 to 1 are a guess, because its values or its name look like shares") == 2
        assert domain["answered"].edges == (*range(0, 100, 10), 101)
        assert domain["exactly"].edges == (*range(0, 100, 10), 100.1)
        assert domain["answered_once"].values == 10
        full = domain["pct full"]
        assert full.edges[-2:] == (100, 101)  # six of ten have it: a bin of its own


@pytest.mark.parametrize(
    ("low", "high", "name", "fractions", "limit"),
    [
        (0, 100, "x", False, 100),
        (0, 89, "x", False, 0),
        (11, 100, "x", False, 0),
        (0, 100.5, "percent", True, 0),
        (-1, 100, "percent", False, 0),
        (0, 0.9, "rate %", True, 0),  # nine tenths of a percent, and not nine tenths
        (0, 9, "percent", False, 0),  # so small ones would all be in one bin
        (0, 11, "percent", False, 100),
        (0.3, 0.6, "share", True, 1),
        (0.3, 0.6, "x", True, 0),
        (0, 1, "x", False, 0),
    ],
)
def test_limits_of_shares_are_those_that_values_or_names_tell(
    low: float, high: float, name: str, fractions: bool, limit: int
) -> None:
    assert limit_of_shares(low, high, name, fractions=fractions) == limit


@pytest.mark.parametrize("learn", [False, True])
def test_what_everybody_knows_of_a_column_of_time_is_named_beside_the_guess(learn: bool) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"hours": np.append(rng.integers(0, 99, 998), [0, 99]), "age": rng.integers(17, 91, 1000)})
    text = qr.draft(frame, learn=learn)
    guess = "# limits 0 to 100 are a guess, because its values or its name look like percentages"
    (said,) = [line for line in text.splitlines() if line.startswith(guess)]
    assert "a day has 24 hours and a week 168, which may be the public limits" in said
    assert "replace by public limits, as by the name: nobody is older than some 120 years" in text
    frame = frame.rename(columns={"hours": "score", "age": "wage"})
    assert "by the name" not in qr.draft(frame, learn=learn)
    runs = pd.DataFrame({"hr": np.append(rng.integers(0, 60, 999), 73), "min_wage": rng.integers(3, 48, 1000)})
    assert "by the name" not in qr.draft(runs, learn=learn), "home runs and a minimum"
    times = pd.DataFrame({"hr": np.arange(1000) % 24, "min": np.arange(1000) % 60})
    assert qr.draft(times, learn=learn).count("as by the name: a") == 2


def test_names_and_numbers_of_people_are_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "name": [f"Ada {i}" for i in range(63)],
            "row": np.roll(np.arange(63), 5),
            "customer_id": rng.integers(0, 10**9, 63),
            "income": rng.integers(0, 10**6, 63),
            "town": rng.choice(["Bonn", "Ulm"], 63),
        }
    )
    domain, text = drafted(frame, tmp_path / "s.toml")
    assert domain.names == ("row", "income", "town"), (
        "few consecutive numbers may be ages, where they do not count the records"
    )
    assert "# - 'name': nearly every text is different" in text
    assert "# - 'customer_id': nearly every number is different" in text
    assert "Ada" not in text
    assert text.count("nearly every value occurs once: delete this if it numbers people") == 2
    many = pd.DataFrame({"row": np.arange(500), "town": ["Bonn", "Ulm"] * 250})
    assert drafted(many, tmp_path / "s.toml")[0].names == ("town",)


def test_the_universe_is_stated_and_what_to_coarsen(tmp_path: Path) -> None:
    frame = pd.DataFrame({f"c{i}": [str(v % (20 + i)) for v in range(400)] for i in range(8)})
    text = qr.draft(frame.map(lambda v: "x" + v))
    size = int(np.prod([float(20 + i) for i in range(8)]))
    assert f"The universe of these 8 columns has {size:,} cells" in text
    assert "what has the most cells: c7 (27), c6 (26), c5 (25), c4 (24), c3 (23)." in text
    assert "coarsen" not in qr.draft(frame[["c0"]])


def test_a_frame_is_drafted_as_its_file_and_some_rows_by_themselves(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": ["x", "y"] * 50, "b": [1, 2] * 49 + [3, 4]})
    frame.write_csv(tmp_path / "f.csv")
    of_file = qr.draft(tmp_path / "f.csv")
    assert qr.draft(frame) == of_file.replace("f.csv", "the frame")
    some = qr.draft(tmp_path / "f.csv", rows=98)
    assert "the first 98 records of f.csv" in some
    assert "stop = 3," in some.partition('name = "b"')[2]
    assert "stop = 5," in of_file
    for wrong in (0, True, 1.5):
        with pytest.raises(InvalidInput, match="rows must be an integer of at least 1"):
            qr.draft(frame, rows=wrong)
    with pytest.raises(InvalidInput, match="a pandas, polars or pyarrow table is needed, got list"):
        qr.draft([1, 2])


def test_a_draft_that_leaves_things_open(tmp_path: Path) -> None:
    rows = (
        f"{i % 700},{i % 40}.25,D{i % 30},{'ab'[i % 2]},2013-{i % 12 + 1:02}-05T{i % 24:02}:30:00Z,"
        f"2013-01-0{i % 9 + 1}T{i % 24:02}:00:00,person {i},{i % 5}"
        for i in range(1500)
    )
    path = tmp_path / "t.csv"
    path.write_text("delay,fare,dest,kind,at,hour,who,year\n" + "\n".join(rows) + "\n")
    text = qr.draft(path, learn=True)
    assert "'who': nearly every text is different" in text
    assert not re.search("D1[0-9]", text)
    (tmp_path / "s.toml").write_text(text.replace("reviewed = false", "reviewed = true"))
    domain = load(tmp_path / "s.toml", undecided=True)
    assert str(domain) == "delay[?] x fare[?] x dest[?] x kind[2] x at[?] x hour[?] x year[5]"
    assert (domain["delay"].learn, domain["dest"].learn) == (32, 1000)
    assert [float(domain[name].step) for name in ("fare", "at", "hour")] == [0.05, 1 / 1440, 1 / 24]
    table = qr.Table.read(path, domain)
    assert len(table) == 1500
    assert table.texts["dest"][:2] == ("D0", "D1")


def test_a_heap_of_a_good_part_gets_a_bin_of_its_own_and_means_are_what_they_were() -> None:
    """40 hours of nearly half the records, at the lower end of a bin, were taken for 45."""
    rng = np.random.default_rng(5)
    values = np.where(rng.random(20_000) < 0.45, 40, rng.integers(5, 80, 20_000))
    seen = {float(v): int(c) for v, c in zip(*np.unique(values, return_counts=True), strict=True)}
    for bins in (number_bins(min(seen), max(seen), seen, Fraction(1)), share_bins(100, seen, Fraction(1))):
        edges = np.array(bins, dtype=float)
        assert {40, 41} <= {*edges}
        middles = (edges[:-1] + edges[1:] - 1) / 2
        assert middles[np.searchsorted(edges, values, side="right") - 1].mean() == pytest.approx(values.mean(), abs=0.3)
    assert isinstance(share_bins(100, {float(n): 20 for n in range(101)}, Fraction(1)), int)


def wages(zeros: float, records: int) -> np.ndarray:
    """In thousands, with as many decimals as there are: none for some, most between 10 and 80, a few far above."""
    rng = np.random.default_rng(6)
    paid = np.round(30 * np.exp(rng.normal(0, 0.6, records)), 3)
    return np.where(rng.random(records) < zeros, 0.0, paid)


@pytest.mark.parametrize("zeros", [0.19, 0.5, 0.9])
def test_a_scale_follows_the_values_that_are_no_heap_and_the_heap_is_a_cell_of_its_own(zeros: float) -> None:
    """Bins by powers of ten had nearly none of the records each, and one had half of those that are not 0."""
    values = wages(zeros, 12_000)
    seen = {float(v): int(c) for v, c in zip(*np.unique(values, return_counts=True), strict=True)}
    edges = np.array(number_bins(min(seen), max(seen), seen, Fraction(1, 1000)), dtype=float)
    assert edges[:2].tolist() == [0, 0.001]
    assert len(edges) >= 7
    shares = np.histogram(values[values > 0], edges[1:])[0] / (values > 0).sum()
    assert shares.max() < 0.3
    assert (shares[:-3] > 0.02).all(), "but for the ends of the tail"


def test_a_draft_of_many_different_values_keeps_their_shares(tmp_path: Path) -> None:
    """Only so many values are kept in mind, of which 0, which stayed where others went, came to be nearly all."""
    values = wages(0.19, 150_000)
    domain, text = drafted(pd.DataFrame({"wage": values}), tmp_path / "schema.toml")
    edges = np.array(domain["wage"].edges)
    assert edges[:2].tolist() == [0, 0.001]
    assert "# uneven: many records have 0\n" in text
    assert np.histogram(values, edges)[0].max() < 0.2 * len(values)
    seen = {float(n): 1 + 98 * (n == 30) for n in range(100)}
    halved = fewer(seen)
    assert (len(halved), sum(halved.values()), halved[0], halved[99]) == (51, sum(seen.values()), 1, 1)
    assert halved[30] == 100, "with the one beside it"
    assert (
        max(abs(sum(c for v, c in halved.items() if v < n) - sum(c for v, c in seen.items() if v < n)) for n in seen)
        < 3
    )


def test_with_learning_and_without_a_column_has_the_same_limits_and_step() -> None:
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(17, 91, 900),
        "score": rng.integers(0, 101, 900),
        "price": rng.integers(1, 400, 900) / 4,
        "pay": rng.lognormal(7, 1, 900).round(2),
        "temperature": rng.normal(10, 8, 900).round(1),
        "share": rng.random(900).round(3),
        "far": rng.normal(size=900) * 1e9,
    }
    frame = pl.DataFrame(columns)
    entries = [
        {e["name"]: e for e in tomllib.loads(qr.draft(frame, learn=learn))["attribute"]} for learn in (False, True)
    ]
    for name in columns:
        listed, learned = (entry[name] for entry in entries)
        assert (listed.get("within"), listed.get("step")) == (learned.get("within"), learned.get("step"))
        assert "within" in listed


TIMES = [100 * hour + minute for hour in (0, 5, 9, 10, 23) for minute in (0, 7, 30, 59)]


@pytest.mark.parametrize(
    ("name", "places", "told"),
    [
        ("sched_dep_time", TIMES, True),
        ("Uhrzeit", [*TIMES, 2400], True),
        ("time", [*TIMES, 1060], False),
        ("time", [*TIMES, -1], False),
        ("time", [*TIMES, 2401], False),
        ("amount", TIMES, False),
        ("timely", TIMES, False),
        ("air_time", range(60), False),  # minutes
        ("time", range(0, 2400, 100), False),  # hundreds
        ("time", [1000, 1015, 1030], False),
        ("time", [], False),
    ],
)
def test_times_of_day_are_told_by_their_name_and_minutes(name, places, told):
    assert is_clock(name, places) == told


def test_no_record_of_the_shape_of_a_clock_has_a_minute_above_59():
    ends = [*(point for point, _ in CLOCK_SHAPE), CLOCK_EDGES[-1]]
    for (first, weight), behind in zip(CLOCK_SHAPE, ends[1:], strict=True):
        assert (weight > 0) == (first % 100 == 0)
        assert behind - first == (60 if weight else 40)


@pytest.mark.parametrize("learn", [False, True])
def test_a_column_of_times_of_day_gets_hours_and_valid_minutes(learn, tmp_path):
    rng = np.random.default_rng(0)
    times = 100 * rng.integers(0, 24, 2000) + rng.integers(0, 60, 2000)
    frame = pd.DataFrame({"sched_dep_time": times, "sex": rng.choice(["F", "M"], 2000)})
    domain, text = drafted(frame, tmp_path / "flights.toml", learn=learn)
    assert "times of day, as 515 for 5:15" in text
    assert domain["sched_dep_time"].size == 24
    table = qr.Table.from_frame(frame, tmp_path / "flights.toml")
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(0))
        made = curator.release(qr.Laplace(), qr.Workload.marginals(domain, 2), qr.PureDP(1.0))
    drawn = np.asarray(made.synthetic(2000, seed=1)["sched_dep_time"])
    assert (drawn % 100 < 60).all()
    assert len(np.unique(drawn % 100)) == 60
    assert drawn.max() <= 2359
