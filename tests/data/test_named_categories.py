"""Votes of persons for categories: a person moves them by one vote, in any order, beside anybody."""

from hashlib import blake2b
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import pytest

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.named_categories import MAX_NAMED, WEIGHT, votes, weight
from qrelease.data.person import Person
from qrelease.data.persons import Persons
from qrelease.data.table import Table

TEXTS = ("x", "y", "z")
TYPES = [records for r in (1, 2, 3) for records in combinations_with_replacement(TEXTS, r)]
KEY = b"k" * 16
MOST = 2


def digests(people):
    return np.frombuffer(b"".join(blake2b(p.encode(), digest_size=16).digest() for p in people), "<u8").reshape(-1, 2)


def read(table, how):
    """The sums by text, of records as they come; texts and persons are numbered by when they first do."""
    rows = [(person, text) for person, texts in table for text in texts]
    people, seen = ([*dict.fromkeys(column)] for column in zip(*rows, strict=True))
    whose = np.array([people.index(p) for p, _ in rows])
    codes = np.array([seen.index(t) for _, t in rows])
    found = how(Persons(whose, digests(people)), codes, seen, KEY, "town", MOST)
    return np.array([found[seen.index(t)] if t in seen else 0 for t in TEXTS])


def by_number(persons, codes, texts, *rest):
    """A broken twin: of too many, a person names those that came first in the file."""
    found = np.zeros(len(texts), np.int64)
    for person in np.unique(persons.codes):
        chosen = np.unique(codes[persons.codes == person])[:MOST]
        found[chosen] += weight(len(chosen))
    return found


def by_records(persons, codes, texts, *rest):
    """A broken twin: each record votes."""
    return np.bincount(codes, minlength=len(texts)) * WEIGHT


def whole_votes(persons, codes, texts, *rest):
    """A broken twin: each category of a person has a vote of its own."""
    pairs = np.unique(np.stack([persons.codes, codes]), axis=1)
    return np.bincount(pairs[1], minlength=len(texts)) * WEIGHT


def moved(how):
    """The most by which a person more, who comes first, moves the sums: in L2, in votes."""
    most = 0.0
    for a, b in combinations_with_replacement(TYPES, 2):
        without = [("a", a), ("b", b)]
        before = read(without, how)
        for c in TYPES:
            most = max(most, float(np.linalg.norm(read([("c", c), *without], how) - before)))
    return most / WEIGHT


def test_records_that_say_the_same_again_move_no_vote():
    """Of few records for so many persons and texts pairs are sorted, and of many they have flags."""
    rng = np.random.default_rng(4)
    whose, codes = np.repeat(np.arange(40), 3), rng.integers(0, 200, 120)
    persons, texts = digests([f"p{k}" for k in range(40)]), [f"t{k}" for k in range(200)]
    once = votes(Persons(whose, persons), codes, texts, KEY, "town", MOST)
    again = votes(Persons(np.tile(whose, 50), persons), np.tile(codes, 50), texts, KEY, "town", MOST)
    assert 0 < once.sum() <= 40 * MOST * weight(MOST)
    assert again.tolist() == once.tolist()


def test_a_person_moves_sums_by_one_vote():
    assert 0.999 < moved(votes) <= 1


@pytest.mark.parametrize("how", [by_number, by_records, whole_votes])
def test_broken_twins_are_convicted(how):
    assert moved(how) > 1.1


def test_the_choice_is_fair_over_keys_and_whole_over_records():
    whose, codes = np.array([0, 0, 0, 0, 1]), np.array([0, 1, 1, 2, 2])
    many = [votes(Persons(whose, digests("ab")), codes, TEXTS, bytes([i] * 16), "town", MOST) for i in range(200)]
    assert all(sorted(v - np.array([0, 0, WEIGHT])) == [0, weight(2), weight(2)] for v in many)
    left_out = np.bincount([int(np.argmin(v - np.array([0, 0, WEIGHT]))) for v in many], minlength=3)
    assert left_out.min() > 40  # 67 each on average
    order = np.array([4, 2, 3, 0, 1])
    for i, v in enumerate(many[:20]):
        again = votes(Persons(whose[order], digests("ab")), codes[order], TEXTS, bytes([i] * 16), "town", MOST)
        assert again.tolist() == v.tolist()


def test_weights_are_whole_and_not_too_large():
    for d in range(1, MAX_NAMED + 1):
        assert d * weight(d) ** 2 <= WEIGHT**2 < d * (weight(d) + 1) ** 2


def test_a_bounded_table_has_votes_of_all_records_of_a_person():
    rows = [("p", t) for t in ("x", "x", "y", "z", "z")] + [("q", "x"), ("r", ""), ("", "y")]
    domain = Domain((Attribute("town", "category", learn=5, missing=("",)),), person=Person("who", 1, missing=("",)))
    table = Table.from_frame(pd.DataFrame(rows, columns=["who", "town"]), domain)
    kept = table.bounded(KEY)
    assert len(kept) == 3
    sums = dict(zip(table.texts["town"], kept.votes["town"].tolist(), strict=True))
    assert sums == {"x": weight(3) + WEIGHT, "y": weight(3), "z": weight(3)}
    assert table.votes == {}
