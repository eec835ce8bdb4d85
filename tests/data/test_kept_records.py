"""Which records are kept: the rule by hand, and the same ones however they are held and in however many parts."""

from collections import Counter, defaultdict
from hashlib import blake2b

import numpy as np
import polars as pl
import pytest

from qrelease.data.derivation import derived_domain
from qrelease.data.domain import Attribute, Domain
from qrelease.data.fractional_records import FractionalRecords
from qrelease.data.kept_records import Hashes
from qrelease.data.mixing import mixed
from qrelease.data.person import Derived, Person
from qrelease.data.person_digests import digests_of
from qrelease.data.persons import Persons, person_identity
from qrelease.data.table import Table
from qrelease.errors import OutOfMemory

KEYS = [bytes([k]) * 32 for k in range(3)]
GRID = Attribute("x", "number", edges=(0, 50, 101), within=(0, 100), step=1, missing=("",))
COLUMNS = (
    Attribute("color", "category", categories=("red", "green", "blue")),
    Attribute("size", "coded", codes=3),
    Attribute("far", "coded", codes=300),
    GRID,
)


def of(**person):
    return Domain(COLUMNS, person=Person("who", person.pop("at_most", 3), **person))


def frame_of(n=4000, persons=500, seed=0, text=False):
    """Many records of some persons are equal."""
    rng = np.random.default_rng(seed)
    who = rng.zipf(1.3, n) % persons * 7 - 900
    equal = rng.integers(9, size=n)
    return pl.DataFrame(
        {
            "who": [f"p{key}" for key in who] if text else who,
            "color": np.array(["red", "green", "blue"])[equal % 3],
            "size": equal // 3,
            "far": np.where(equal > 3, 0, rng.integers(300, size=n)),
            "x": np.where(equal > 2, 7, rng.integers(101, size=n)),
        }
    )


def word(key, what):
    return int.from_bytes(blake2b(what.encode(), key=key, digest_size=8).digest(), "little")


def mixed_word(value):
    return int(mixed(np.array([value % 2**64], np.uint64))[0])


def by_hand(frame, key, at_most):
    """The counts of the records that are kept, by the rule itself."""
    factors = {name: word(key, f"column {name}") | 1 for name in ("color", "size", "far", "x")}
    drawn = defaultdict(list)
    ranks = Counter()
    for row in frame.iter_rows(named=True):
        one, two = digests_of([person_identity(str(row["who"]))])[0].tolist()
        codes = {**row, "color": ["red", "green", "blue"].index(row["color"])}
        value = mixed_word(mixed_word(one ^ word(key, "person")) ^ two)
        value = mixed_word(value + sum(factors[name] * codes[name] for name in factors))
        ranked = mixed_word(value + ranks[row["who"], value] * (word(key, "rank") | 1))
        ranks[row["who"], value] += 1
        drawn[row["who"]].append((ranked, codes["color"], codes["size"], codes["far"], int(codes["x"] >= 50)))
    return Counter(cells[1:] for own in drawn.values() for cells in sorted(own)[:at_most])


def rows_of(kept):
    counted = kept.parts.tolist() if isinstance(kept, FractionalRecords) else [1] * len(kept)
    found = Counter()
    for *cells, count in zip(*(column.tolist() for column in kept.columns), counted, strict=True):
        found[tuple(cells)] += count
    return found


HELD = ["in memory", "in parts", "in files", "in files by parts", "numbers in parts"]
"""Whether records are in files, and whether all persons are looked at together or a few hundred records at a time."""

ENOUGH = 1 << 40
LITTLE = 100 * (4 << 10)  # bytes, for parts of 100 records


@pytest.fixture(params=HELD)
def held(request, free_memory):
    """A table of a frame, as it may be held."""

    def table(frame, domain):
        free_memory(0 if "files" in request.param else ENOUGH)
        found = Table.from_frame(frame, domain)
        free_memory(LITTLE if "parts" in request.param else ENOUGH)
        assert found.persons.in_runs == ("files" in request.param)
        assert (len(list(found.persons.parts())) > 3) == ("parts" in request.param)
        if "numbers" in request.param:
            persons = Persons(found.persons.codes, found.persons.digests)
            found = Table(domain, found.columns, persons, found.points, found.texts)
        return found

    return table


def in_memory(frame, domain, free_memory):
    free_memory(ENOUGH)
    return Table.from_frame(frame, domain)


@pytest.mark.parametrize("text", [False, True])
def test_they_are_those_of_the_rule(held, text):
    frame = frame_of(text=text)
    for key in KEYS:
        for at_most in (1, 4):
            assert rows_of(held(frame, of(at_most=at_most)).bounded(key)) == by_hand(frame, key, at_most)


@pytest.mark.parametrize(
    "person", [{}, {"distinct": ("size",)}, {"distinct": ("color", "size")}, {"weights": "persons"}], ids=str
)
def test_they_are_the_same_however_they_are_held(held, person, free_memory):
    frame, domain = frame_of(), of(**person)
    plain = in_memory(frame, domain, free_memory)
    table = held(frame, domain)
    assert table.fingerprint(KEYS[0]) == plain.fingerprint(KEYS[0])
    for key in KEYS:
        assert rows_of(table.bounded(key)) == rows_of(plain.bounded(key))
    if not person.get("weights"):
        assert Counter(table.bounded(KEYS[0]).grid("x").tolist()) == Counter(plain.bounded(KEYS[0]).grid("x").tolist())


def test_texts_that_are_learned_are_hashed_by_what_they_say(held, free_memory):
    domain = Domain((Attribute("color", "category", learn=3), GRID), person=Person("who", 2))
    frame = frame_of()

    def said(table, key):
        kept = table.bounded(key)
        return Counter(kept.texts["color"][code] for code in kept.columns[0].tolist())

    plain = in_memory(frame.reverse(), domain, free_memory)
    for key in KEYS:
        assert said(held(frame, domain), key) == said(plain, key)


def test_what_is_derived_is_the_same_however_it_is_held(held, free_memory):
    rules = Person(
        "who",
        1,
        derive=(Derived("records", "count", edges=(0, 1, 3, 9, 90)), Derived("most", "most frequent", of="far")),
    )
    domain, frame = of(), frame_of()
    derived = derived_domain(domain, rules)
    plain = Table.of_derived(in_memory(frame, domain, free_memory), derived)
    assert rows_of(Table.of_derived(held(frame, domain), derived)) == rows_of(plain)


def test_what_is_kept_of_files_is_in_files_where_it_is_much(free_memory):
    for free in (0, ENOUGH):
        free_memory(0)
        table = Table.from_frame(frame_of(), of())
        free_memory(free)
        found = table.bounded(KEYS[0])
        assert isinstance(found.columns[0], np.memmap) == (free == 0)
        assert rows_of(found) == by_hand(frame_of(), KEYS[0], 3)
        assert found.counts([(0, 1)])[0].sum() == len(found)


def test_a_part_has_few_records_and_all_of_its_persons(free_memory):
    for free in (0, ENOUGH):
        free_memory(free)
        persons = Table.from_frame(frame_of(persons=4000), of()).persons
        free_memory(3 * LITTLE)
        parts = list(persons.parts())
        words = [set(part.of(persons.words).tolist()) for part in parts]
        assert sum(map(len, words)) == len(set(persons.words.tolist()))
        assert sum(len(part.persons) for part in parts) == len(persons)
        assert sum(len(part.persons) <= 300 for part in parts) >= len(parts) - 2
        assert len(parts) > 4


def test_what_would_not_fit_is_refused(free_memory):
    free_memory(0)
    table = Table.from_frame(frame_of(), of())
    with pytest.raises(OutOfMemory, match="do not fit in memory"):
        table.check_bounded()
    free_memory(len(table) * 20)  # of those in files, by the part that is in memory
    table.check_bounded()
    persons = Persons(table.persons.codes, table.persons.digests)
    with pytest.raises(OutOfMemory, match="do not fit in memory"):
        Table(table.domain, table.columns, persons, table.points).check_bounded()


def test_places_and_the_first_of_them_are_of_one_order():
    """Groups of all sizes, of which those of more than 64 are sorted in another way."""
    rng = np.random.default_rng(1)
    whose = np.sort(rng.integers(40, size=3000) ** 2 % 37)
    rng.shuffle(whose)
    for highest in (3, 2**63):
        values = rng.integers(highest, size=len(whose), dtype=np.uint64)
        hashes = Hashes(whose, rng.integers(2**63, size=37, dtype=np.uint64), values, np.uint64(77))
        for at_most in (1, 5, 70):
            assert np.array_equal(hashes.first(at_most), hashes.places() < at_most)
