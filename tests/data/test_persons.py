"""Persons are read by their keys, and their records are kept by a hash of what they say: of each person alone."""

import csv
import io
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from qrelease.data import schema
from qrelease.data.derivation import derived_domain
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Derived, Person
from qrelease.data.persons import PersonReader, Persons, bucket
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

COLUMNS = (
    Attribute("color", "category", categories=("red", "green", "blue")),
    Attribute("size", "coded", codes=4),
)
KEYS = [bytes([k]) * 32 for k in range(40)]


def of(at_most, missing=()):
    return Domain(COLUMNS, person=Person("who", at_most, missing))


def random_persons(n, persons, seed=0, at_most=3):
    rng = np.random.default_rng(seed)
    who = [f"p{i}" for i in rng.integers(persons, size=n)]
    return Table.of_persons(of(at_most), [rng.integers(3, size=n), rng.integers(4, size=n)], who), who


def rows_of(table):
    return Counter(zip(*(column.tolist() for column in table.columns), strict=True))


def test_of_each_person_at_most_so_many_records_are_kept_and_of_few_all():
    n = 3_000
    for at_most in (1, 3, 1000):
        table, who = random_persons(n, 400, at_most=at_most)
        many = Counter(who)
        assert len(table.bounded(KEYS[0])) == sum(min(count, at_most) for count in many.values())
    assert rows_of(table.bounded(KEYS[0])) == rows_of(table)


def test_the_order_of_records_and_columns_does_not_count_and_other_persons_do_not():
    table, who = random_persons(500, 60)
    rng = np.random.default_rng(1)
    whole = rows_of(table.bounded(KEYS[0]))
    for _ in range(5):
        order = rng.permutation(len(table))
        again = Table.of_persons(table.domain, [c[order] for c in table.columns], [who[i] for i in order])
        assert rows_of(again.bounded(KEYS[0])) == whole
    swapped = Domain(COLUMNS[::-1], person=table.domain.person)
    other = rows_of(Table.of_persons(swapped, table.columns[::-1], who).bounded(KEYS[0]))
    assert Counter({(a, b): count for (b, a), count in other.items()}) == whole
    together = Counter()
    for person in set(who):
        mine = np.array([w == person for w in who])
        alone = Table.of_persons(table.domain, [c[mine] for c in table.columns], [person] * mine.sum())
        together += rows_of(alone.bounded(KEYS[0]))
    assert together == whole


def test_each_record_of_a_person_is_kept_as_often_as_any_other():
    """Also where some are equal; records that are kept by their position would fail it."""
    says = [0, 0, 0, 1, 2]
    kept = Counter()
    runs = 4_000
    table = Table.of_persons(of(2), [np.array(says), np.zeros(5, int)], ["x"] * 5)
    for k in range(runs):
        kept += rows_of(table.bounded(k.to_bytes(8, "little")))
    for value, equal in Counter(says).items():
        expected = runs * 2 * equal / 5
        assert abs(kept[value, 0] - expected) < 5 * np.sqrt(runs * equal / 5 * 2), (value, kept)
    assert abs(kept[1, 0] - 1.3 * runs * 2 / 5) > 5 * np.sqrt(runs * 2 / 5)  # it would be seen


def test_two_persons_with_equal_records_are_chosen_from_independently():
    """One hash for all persons would keep the same records of each, and favour a cell in the sum."""
    n, persons = 4, 300
    values = np.tile(np.arange(n), persons)
    who = np.repeat([f"p{i}" for i in range(persons)], n)
    domain = Domain((Attribute("value", "coded", codes=n),), person=Person("who", 1))
    (counts,) = Table.of_persons(domain, [values], who).bounded(KEYS[3]).counts([(0,)])
    assert counts.sum() == persons
    assert np.abs(counts - persons / n).max() < 5 * np.sqrt(persons / n)


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(5)
    n = 3_000
    frame = pd.DataFrame(
        {
            "size": rng.integers(4, size=n),
            "who": rng.integers(10_000, 10_700, size=n),
            "color": np.array(["red", "green", "blue"])[rng.integers(3, size=n)],
        }
    )
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    return frame, tmp_path


def test_all_sources_keep_the_same_records(rows):
    frame, folder = rows
    domain = of(2)
    floats = frame.assign(who=frame["who"].astype(float))
    texts = frame.assign(who=frame["who"].astype(str))
    tables = [
        Table.read(folder / "rows.csv", domain),
        Table.read(folder / "rows.parquet", domain),
        *(Table.from_frame(f, domain) for f in (frame, floats, texts, pl.from_pandas(frame))),
        Table.of_persons(domain, Table.from_frame(frame, domain).columns, frame["who"].tolist()),
    ]
    for key in KEYS[:3]:
        first, *others = (rows_of(table.bounded(key)) for table in tables)
        assert all(other == first for other in others)
    assert len({table.fingerprint(KEYS[0]) for table in tables}) == 1


def test_another_owner_of_a_record_is_another_table(rows):
    frame, _ = rows
    other = frame.assign(who=frame["who"].where(frame.index != 7, 3))
    digests = [Table.from_frame(f, of(2)).fingerprint(KEYS[0]) for f in (frame, other)]
    assert digests[0][0] == digests[1][0]
    assert digests[0][1] != digests[1][1]
    assert Table.from_frame(frame, of(9)).fingerprint(KEYS[0]) == digests[0]  # the same records


def written(path, who):
    with path.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([["who", "color", "size"], *([key, "red", 0] for key in who)])
    return path


@pytest.mark.parametrize(
    ("who", "told"),
    [
        (["a", "", "b"], r"line 3: person column 'who': '' looks like a missing key; list it in missing = \[''\]"),
        (["a", "NA", "b"], "line 3: person column 'who': 'NA' looks like a missing key"),
        (["a", "  nan"], "line 3: person column 'who': '  nan' looks like a missing key"),
        (["7", "8", " 7"], "line 4: person column 'who': '7' and ' 7' may be two spellings of one key"),
        (["7", "7.0"], "'7' and '7.0' may be two spellings of one key"),
        (["1e2", "100"], "may be two spellings of one key"),
        (["True", "true"], "may be two spellings of one key"),
        (["true", "1"], "may be two spellings of one key"),
        (["0.0", "FALSE"], "may be two spellings of one key"),
        (["2024-01-31", "2024-01-31 00:00"], "may be two spellings of one key"),
        (["9007199254740993", "9007199254740993.0"], "may be two spellings of one key"),
        (["9007199254740992", "9007199254740993.0"], "may be two spellings of one key"),
        (["0.1", "0.10000000000000001"], "may be two spellings of one key"),
        (["0.10000000000000001", "0.1"], "may be two spellings of one key"),
        (["2024-01-31T01:00:00.1234567", "2024-01-31T01:00:00.1234568"], "may be two spellings of one key"),
        (["1e999999999", "2e999999999"], "may be two spellings of one key"),
        (["Zo\u00eb", "a", "Zoe\u0308"], r"line 4: .*'Zo\\xeb' and 'Zoe\\u0308' may be two spellings of one key"),
        (
            ["1" * 5000, "1" * 5000 + ".0"],
            "line 3: person column 'who': '1{40}…' and '1{40}…' may be two spellings",
        ),
    ],
)
def test_a_missing_key_and_two_spellings_of_one_are_refused_with_their_line(tmp_path, who, told):
    with pytest.raises(InvalidInput, match=told):
        Table.read(written(tmp_path / "rows.csv", who), of(2))


def test_keys_that_are_others_are_other_persons(tmp_path):
    who = ["a7", "A7", "9007199254740993", "9007199254740992", "2", "true", "x y", "x  y"]
    who += ["1" * 5000, "1" * 4999 + "2", "1e999999999", f"1e-{'9' * 30}"]
    assert len(Table.read(written(tmp_path / "rows.csv", who * 3), of(1)).bounded(KEYS[0])) == len(who)


def test_keys_have_digests_that_nobody_finds_two_of():
    """Of 64 bits, 2^32 tries find two keys that are one person to a join: a record could be made to be another's."""
    persons, _ = Persons.of(Person("who", 1), map(str, range(50)))
    assert persons.digests.shape == (50, 2)
    assert all(len(set(half.tolist())) == 50 for half in persons.digests.T)
    assert persons.digests.itemsize * 8 * 2 == 128


def test_records_of_nobody_are_left_out_where_the_schema_says_how_nobody_is_spelled(tmp_path):
    path = written(tmp_path / "rows.csv", ["a", "NA", "b", "NA", "NA", ""])
    table = Table.read(path, of(1, ("NA", "")))
    assert len(table) == 2
    frame = pd.DataFrame({"who": ["a", None, "b"], "color": ["red"] * 3, "size": [0, 1, 2]})
    assert rows_of(Table.from_frame(frame, of(1, ("",)))) == Counter({(0, 0): 1, (0, 2): 1})
    numbers = pd.DataFrame({"who": [1.0, np.nan, 2.0], "color": ["red"] * 3, "size": [0, 1, 2]})
    assert len(Table.from_frame(numbers, of(1, ("",)))) == 2
    with pytest.raises(InvalidInput, match=r"row 1 \(from 0\): person column 'who': '' looks like a missing key"):
        Table.from_frame(numbers, of(1))


def test_numbers_past_what_floats_hold_are_asked_for_as_text():
    frame = pd.DataFrame({"who": [1, 2**53 + 1], "color": ["red"] * 2, "size": [0, 1]})
    with pytest.raises(InvalidInput, match=r"row 1 \(from 0\): person column 'who': give keys past 2\^53, or finer"):
        Table.from_frame(frame, of(1))


def test_no_person_column_is_one_line(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("color,size\nred,0\n")
    with pytest.raises(InvalidInput, match=r"rows.csv has no person column 'who'; it has color, size"):
        Table.read(path, of(2))


def test_a_table_of_nobody_is_a_table(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("who,color,size\n")
    assert len(Table.read(path, of(2)).bounded(KEYS[0])) == 0


def test_a_schema_with_a_person_comes_back_from_its_text(tmp_path):
    for domain in (of(3), of(1, ("NA", ""))):
        path = tmp_path / "schema.toml"
        path.write_text(schema.to_toml(domain))
        assert schema.load(path) == domain
        assert schema.domain_from_json(schema.domain_to_json(domain)) == domain


def test_persons_do_not_fit_a_domain_without_them():
    table, _ = random_persons(10, 3)
    plain = Domain(COLUMNS)
    with pytest.raises(InvalidInput, match="the domain has no person"):
        Table(plain, table.columns, table.persons)
    with pytest.raises(InvalidInput, match="the domain has no person"):
        Table.of_persons(plain, table.columns, ["a"] * 10)
    with pytest.raises(InvalidInput, match="another number of them"):
        Table.of_persons(of(1), table.columns, ["a"] * 9)
    with pytest.raises(InvalidInput, match="persons of 10"):
        Table(of(1), tuple(c[:9] for c in table.columns), table.persons)
    with pytest.raises(InvalidInput, match="does not say whose"):
        Table(of(1), table.columns).bounded(KEYS[0])
    assert repr(table.persons) == "Persons(private)"
    assert isinstance(table.persons, Persons)


@pytest.mark.parametrize("missing", [(), ("-1",)])
def test_whole_numbers_are_the_persons_that_their_texts_are(missing):
    """All at once, beside keys of other types and after them, and with a mark that is a number."""
    person, rng = Person("who", 1, missing=missing), np.random.default_rng(0)
    whole = [rng.integers(-300, 300, 500), np.array([0, 10, -100, 2**53 - 1, 1 - 2**53, 7])]
    for others in ([], ["a", "2.5"]):
        read, plain = PersonReader(person), PersonReader(person)
        found = [read.whole_codes(whole[0], str), read.whole_codes(whole[1], str), read.text_codes(others, str)]
        found.append(read.whole_codes(whole[0] + 100, str))
        texts = [*map(str, whole[0]), *map(str, whole[1]), *others, *map(str, whole[0] + 100)]
        assert np.concatenate(found).tolist() == plain.text_codes(texts, str).tolist()
        assert np.array_equal(read.digests(), plain.digests())
        assert read.texts() == plain.texts()
        assert np.array_equal(read.digests(), plain.digests())


def test_a_whole_number_spelled_otherwise_is_refused_in_either_order():
    for first in (0, 1):
        reader = PersonReader(Person("who", 1))
        reads = [lambda r: r.whole_codes(np.array([3, 7]), "row {}".format), lambda r: r.text_codes(["7.0"], str)]
        reads[first](reader)
        with pytest.raises(InvalidInput, match="two spellings"):
            reads[1 - first](reader)


GRID = Attribute("x", "number", edges=(0, 50, 101), within=(0, 100), step=1, missing=("",))


def test_a_column_of_bins_alone_keeps_its_bins():
    domain = Domain((GRID, *COLUMNS[:1]), person=Person("who", 1))
    table = Table.of_persons(domain, [[0, 1, 1, 2], [0, 1, 2, 0]], ["a", "b", "c", "d"])
    assert table.bounded(b"k").columns[0].tolist() == [0, 1, 1, 2]
    assert table.viewed(domain).columns[0].tolist() == [0, 1, 1, 2]
    turned = Domain(domain.attributes[::-1], person=domain.person)
    assert table.ordered(turned).columns[1].tolist() == [0, 1, 1, 2]
    seats = Domain((Attribute("seats", "coded", codes=3, missing=("",)),), person=domain.person)
    other = Table.of_persons(seats, [[2, 1]], ["a", "b"])
    assert [c.tolist() for c in other.joined(table).columns] == [[2, 1], [0, 1], [0, 1]]
    assert [c.tolist() for c in table.joined(other).columns][2] == [2, 1, 3, 3]


def test_points_go_with_their_records(tmp_path):
    domain = Domain((GRID,), person=Person("who", 1))
    frame = pd.DataFrame({"x": [7, 99, None, 50], "who": ["a", "a", "b", "c"]})
    table = Table.from_frame(frame, domain)
    found = table.bounded(KEYS[0])
    assert len(found) == 3
    assert set(found.grid("x").tolist()) in ({7, -1, 50}, {99, -1, 50})


def test_a_domain_of_one_record_a_person_takes_no_records_of_persons():
    """Else a person's many records would pass for one each."""
    rules = Person("who", 1, derive=(Derived("records", "count", edges=(0, 1, 9)),))
    once = derived_domain(of(1), rules)
    with pytest.raises(InvalidInput, match="one record a person"):
        Table.of_persons(once, [np.zeros(50, int)], ["x"] * 50)
    table, _ = random_persons(40, 5)
    with pytest.raises(InvalidInput, match="another person"):
        table.viewed(Domain(COLUMNS, person=Person("household", 3)))
    with pytest.raises(InvalidInput, match="another person"):
        table.ordered(Domain(COLUMNS, person=Person("who", 4)))


@pytest.mark.parametrize(
    "keys",
    [
        [Decimal(2**53), Decimal(2**53 + 1)],
        [Decimal("0.10000000000000000001"), Decimal("0.10000000000000000002")],
        [10**400, 10**400 + 1],
        [pd.Timestamp(1), pd.Timestamp(2)],
        [Fraction(2**53), Fraction(2**53 + 1)],
        [np.longdouble(1), np.longdouble(1) + np.longdouble(2) ** -60],
        pl.Series([1, 2]).cast(pl.Datetime("ns")).to_numpy(),
    ],
    ids=["long decimals", "fine decimals", "huge integers", "nanoseconds", "fractions", "long doubles", "numpy's"],
)
def test_keys_that_a_text_would_round_are_refused(keys):
    """Two persons that become one would have the room of one, and none of the promise."""
    with pytest.raises(InvalidInput, match="person column 'who'"):
        Table.of_persons(of(2), [np.zeros(2, int), np.zeros(2, int)], list(keys))


def test_honest_keys_of_these_types_are_read():
    for keys in (
        [Decimal("12.34"), Decimal("0.1")],
        [pd.Timestamp("2020-01-01"), pd.NaT],
        [Decimal(17), Decimal("12.5")],
    ):
        table = Table.of_persons(of(2, ("",)), [np.zeros(2, int), np.zeros(2, int)], keys)
        assert len(table) == 2 - (keys[1] is pd.NaT)


@pytest.mark.parametrize("kind", [pl.Datetime("ns"), pl.Datetime("ns", "UTC"), pl.Time()])
def test_nanoseconds_of_polars_are_refused(kind):
    frame = pl.DataFrame({"color": ["red"] * 2, "size": [0, 1], "who": pl.Series([1, 2]).cast(kind)})
    with pytest.raises(InvalidInput, match="nanoseconds"):
        Table.from_frame(frame, of(2))


def pandas_of_csv(keys):
    """As pandas reads a file of them, where one odd record makes all of them texts, spelled as in the file."""
    return pd.read_csv(io.StringIO("who\n" + "".join(f"{key}\n" for key in keys)))["who"]


def loose_polars(keys):
    return pl.Series("who", keys, strict=False)


@pytest.mark.parametrize(
    ("marks", "keys", "newcomer", "kept"),
    [
        ([f"-{k}" for k in range(1, 10)], [-float(k) for k in range(1, 10)] * 2 + [1.5], "x", 1),
        (["True"], [True, False, True], "x", 1),
        (["True"], [True, False, True], 7, 1),
        (["1"], [True, False, True], 7, 1),
        (["007"], [7, 8, 8], "x", 2),
        (["-9"], [-9.0, 8.5, -9.0], None, 1),
        (["0.10000000000000001"], [0.1, 0.2], "x", 1),
    ],
)
@pytest.mark.parametrize("make", [pandas_of_csv, loose_polars])
def test_another_person_does_not_turn_records_of_nobody_into_somebodys(make, marks, keys, newcomer, kept):
    domain = of(50, (*marks, ""))
    found = []
    for records in (keys, [*keys, newcomer]):
        n = len(records)
        library = pd.DataFrame if make is pandas_of_csv else pl.DataFrame
        frame = library({"who": make(records), "color": ["red"] * n, "size": [i % 4 for i in range(n)]})
        found.append(rows_of(Table.from_frame(frame, domain).bounded(KEYS[0])))
    assert found[0].total() == kept
    assert sum((found[1] - found[0]).values()) == (newcomer is not None)
    assert found[0] <= found[1]


def test_a_mark_is_every_text_of_its_meaning():
    keys = ["-9", "-9.0", " -9", "TRUE", "1.0", "2020-01-31 00:00", "a7", "A7"]
    codes, _ = Persons.of(Person("who", 1, ("-9.00", "true", "2020-01-31", "A7")), keys)
    assert len(codes) == 1


def test_a_record_finds_its_parent_whatever_its_column_became():
    parents = Domain((Attribute("seats", "coded", codes=3, missing=("",)),), person=Person("who", 5))
    of_parents = Table.of_persons(parents, [[0, 1]], [True, False])
    for keys in ([True, True, False], [True, True, False, 7]):
        frame = pl.DataFrame({"who": pl.Series(keys, strict=False), "color": ["red"] * len(keys)})
        table = Table.from_frame(frame, Domain(COLUMNS[:1], person=Person("who", 5)))
        assert table.joined(of_parents).columns[1].tolist() == [0, 0, 1, 3][: len(keys)]


def test_columns_derived_of_persons_leave_out_nobody_whatever_the_column_became():
    marked = Person("who", 1, ("-9",), derive=(Derived("records", "count", edges=(0, 1, 3, 9)),))
    domain = derived_domain(of(1), marked)
    for keys, counts in (([-9, -9, 1, 1], [0, 1, 0]), ([-9.0, -9.0, 1.0, 1.0, "x"], [0, 2, 0])):
        who = pl.Series(map(str, keys)) if "x" in keys else pl.Series(keys)
        frame = pl.DataFrame({"who": who, "color": ["red"] * len(keys), "size": [0] * len(keys)})
        assert Table.from_frame(frame, domain).histogram().tolist() == counts


def test_keys_that_are_compared_are_in_one_bucket():
    like = [
        ["7", " 7.0", "7e0", "+7", "7.00000000000000000001"],
        ["true", "1", "1.0"],
        ["0", "-0", "-0.0", "false"],
        ["1000000000000000000001", "1000000000000000000001.0", "+1e21"],
        ["9" * 400, "+" + "9" * 400, "9" * 400 + ".0"],
        ["2024-01-31", "2024-01-31 00:00:00", "2024-01-31T00:00:00.0000001"],
        ["N1", " N1 "],
    ]
    for keys in like:
        assert len({bucket(key, 1 << 40) for key in keys}) == 1, keys
    assert len({bucket(keys[0], 1 << 40) for keys in like[:3] + like[5:]}) == 5


@pytest.mark.parametrize("kind", ["int64", "int8", "uint64", "Int64", "object"])
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_keys_that_are_whole_numbers_are_the_persons_of_their_texts(library, kind):
    keys = np.random.default_rng(0).integers(0 if kind == "uint64" else -60, 60, size=500).tolist()
    keys += [] if "8" in kind else [2**53 - 1, 0 if kind == "uint64" else 1 - 2**53]
    color = ["red"] * len(keys)
    frame = pd.DataFrame({"who": pd.Series(keys, dtype=kind), "color": color, "size": 0})
    if library == "polars":
        given = keys if kind in ("object", "Int64") else np.array(keys, kind)
        frame = pl.DataFrame({"who": given, "color": color, "size": [0] * len(keys)})
    elif library == "pyarrow":
        frame = pa.Table.from_pandas(frame)
    found = Table.from_frame(frame, of(2)).persons
    texts = Table.of_persons(of(2), [np.zeros(len(keys), int)] * 2, [str(key) for key in keys]).persons
    assert np.array_equal(found.codes, texts.codes)
    assert np.array_equal(found.digests, texts.digests)


def test_whole_numbers_that_are_nobodys_are_left_out_and_too_large_ones_told_with_their_row():
    def table(keys):
        return pa.table({"who": keys, "color": ["red"] * len(keys), "size": [0] * len(keys)})

    assert Table.from_frame(table([1, 7, -9, 7, -9]), of(2, ("-9.0",))).persons.codes.tolist() == [0, 1, 1]
    with pytest.raises(InvalidInput, match=r"row 1 \(from 0\): person column 'who': give keys past 2\^53"):
        Table.from_frame(table([1, 2**53, 1]), of(2))
