"""Columns that may tell persons apart are found by what their records have in common, and others are not."""

import numpy as np
import pandas as pd
import pytest

import qrelease as qr
from qrelease.data.persons_draft import SharedValues, persons_named
from qrelease.data.schema import load

MISSING = ("", "NA")


def records(people: int, each: int, moved: float = 0.0) -> list[list[str]]:
    """Whose each record is, a sex that is the same in all of a person's but for some who moved, and a number of visits
    that is not, in any order."""
    rng = np.random.default_rng(5)
    whose = rng.permutation(np.repeat(np.arange(people), each))
    sex = rng.integers(0, 2, people)[whose] ^ (rng.random(len(whose)) < moved)
    return [[str(w) for w in whose], ["fm"[s] for s in sex], [str(v) for v in rng.integers(0, 9, len(whose))]]


def found(columns: list[list[str]], parts: int = 1, most: int = 1 << 17) -> list[tuple[int, tuple[int, ...]]]:
    shared, size = SharedValues(len(columns), MISSING, most), -(-len(columns[0]) // parts)
    for start in range(0, len(columns[0]), size):
        shared.see([texts[start : start + size] for texts in columns])
    return shared.found()


@pytest.mark.parametrize("parts", [1, 7])
@pytest.mark.parametrize("moved", [0.0, 0.02])
def test_persons_are_found_by_what_is_the_same_in_all_of_their_records(parts, moved):
    assert found(records(300, 4, moved), parts) == [(0, (1,))]


def test_others_are_not():
    assert found(records(300, 4, moved=0.4)) == []  # it differs by record
    assert found(records(90, 4)) == []  # few
    assert found(records(300, 1)) == []  # a record each
    whose, sex, visits = records(300, 4)
    assert found([whose, ["f"] * len(sex), visits]) == []  # one value is always the same
    rare = ["m" if text == "7" else "f" for text in whose]
    assert found([whose, rare, visits]) == []  # and one that nearly all have nearly always, also by chance


def test_what_is_missing_is_nobodys():
    columns = records(300, 4)
    nobody = np.random.default_rng(6).random(1200) < 0.3
    columns[0] = ["NA" if n else text for text, n in zip(columns[0], nobody, strict=True)]
    assert found(columns) == [(0, (1,))]


def test_only_the_first_records_are_looked_at():
    columns, more = records(300, 4), records(300, 4, moved=0.5)
    assert found([[*a, *b] for a, b in zip(columns, more, strict=True)], parts=5, most=1200) == [(0, (1,))]


def test_a_draft_names_them_where_it_says_what_a_person_is():
    whose, sex, visits = records(300, 4)
    frame = pd.DataFrame(
        {"nr": [int(w) for w in whose], "sex": sex, "visits": visits, "part": [w / 4 for w in range(1200)]}
    )
    line = "# By the records such a column may be: 'nr' ('sex' is nearly the same in all records of a value)."
    assert line in qr.draft(frame).splitlines()
    assert line in qr.draft(frame, learn=True).splitlines()
    assert "By the records" not in qr.draft(frame, person=qr.Person("nr", 4))
    assert "By the records" not in qr.draft(frame.drop(columns="nr"))
    more = frame.assign(born=frame["sex"], lives=frame["sex"], votes=frame["sex"])
    assert "('sex', 'born', 'lives' and 1 more are nearly the same in all records of a value)" in qr.draft(more)


def test_a_panel_with_one_record_a_person_and_year_is_told_what_its_records_differ_in(tmp_path):
    whose, sex, visits = records(300, 4)
    nr = np.array([int(w) for w in whose])
    year = pd.Series(nr).groupby(nr).cumcount().to_numpy() + 1980
    frame = pd.DataFrame({"visits": visits, "year": year, "nr": nr, "sex": sex})
    told = "# no two records of a value of 'nr' have the same 'year', as read off the data: one of each is kept"
    for person in (None, qr.Person("nr", 4)):
        lines = qr.draft(frame, person=person).splitlines()
        (at,) = [at for at, line in enumerate(lines) if line.startswith(told)]
        assert lines[at + 1] == '# distinct = ["year"]'
    drafted = "\n".join(lines).replace("reviewed = false", "reviewed = true")
    assert load(drafted).person == qr.Person("nr", 4), "a comment"
    assert load(drafted.replace("# distinct", "distinct")).person == qr.Person("nr", 4, distinct=("year",))
    for other in (qr.Person("nr", 4, distinct=("year",)), qr.Person("nr", 1), qr.Person("nr", 4, weights="persons")):
        assert "no two records" not in qr.draft(frame, person=other)
    twice = frame.assign(year=np.where(np.arange(1200) == 7, 1980 + (year - 1979) % 4, year))
    assert "no two records" not in qr.draft(twice, person=qr.Person("nr", 4)), "one that has a year twice"
    few = frame[frame["nr"] < 9]
    assert "no two records" not in qr.draft(few, person=qr.Person("nr", 4)), "by chance"


@pytest.mark.parametrize(
    ("names", "once", "repeated"),
    [
        (["id", "Tuna.hid", "hhid", "familyid", "family_id", "Families no", "hh_id", "x.household", "pnr"], True, True),
        (["nr", "person.nr", "reg_nr"], False, True),
        (["family", "kid", "schidkn", "hidden", "county_id", "municipality.id", "GemeindeNr", "nrs", ""], False, False),
    ],
)
def test_columns_of_persons_are_known_by_their_names_or_the_last_parts_of_these(names, once, repeated):
    for name in names:
        assert persons_named(name, repeated=repeated or once) == (repeated or once), name
        assert persons_named(name, repeated=False) == (once or name == "person.nr"), name


def test_a_draft_leaves_out_what_is_named_as_persons_are_and_says_so_of_what_is_found_as_well():
    whose, sex, visits = records(300, 4)
    text = qr.draft(pd.DataFrame({"nr": [*map(int, whose)], "sex": sex, "visits": [*map(int, visits)]}))
    assert "# - 'nr': its name says that it tells people apart: if so, draft with --person nr" in text
    assert "By the records such a column may be: 'nr' ('sex' is nearly the same in all records of a value)." in text
    assert 'name = "nr"' not in text
