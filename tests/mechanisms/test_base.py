"""What is handed between mechanisms and curators: names that are stored, answers as texts, and what is refused."""

import json
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from worlds import coded

from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.errors import InvalidInput
from qrelease.mechanisms.base import Answer, OnlineAnswer, check_parts, check_table, parameters, plain, why_no_table
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.queries.workload import Workload


@dataclass(frozen=True)
class RenamedRule:
    stored_name = "Rule of old"
    alpha: float


class RenamedOracle:
    stored_name = "Oracle of old"


def test_a_class_that_is_renamed_keeps_its_name_in_manifests():
    assert plain(RenamedRule(0.5)) == {"type": "Rule of old", "alpha": 0.5}
    assert plain(RenamedOracle()) == plain(RenamedOracle) == "Oracle of old"
    assert plain(MWEM) == "qrelease.mechanisms.iterative.mwem.MWEM"


@dataclass(frozen=True)
class Part:
    alpha: float
    names: tuple = ()
    kept: float = field(default=0.5, metadata={"stored": "share"})


class Described:
    def to_json(self):
        return {"type": "described", "sizes": (1, 2)}


class Private:
    """Whose text would tell what it holds."""

    def __init__(self, held):
        self.held = held


class Shown:
    def __repr__(self):
        return "Shown(3)"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, None),
        ("text", "text"),
        (True, True),
        ((1, 2.5, None), [1, 2.5, None]),
        ({3: (1,), "a": {"b": ()}}, {"3": [1], "a": {"b": []}}),
        (Part(0.25, ("a",)), {"type": "Part", "alpha": 0.25, "names": ["a"], "share": 0.5}),
        ([Part(0.1)], [{"type": "Part", "alpha": 0.1, "names": [], "share": 0.5}]),
        (Described(), {"type": "described", "sizes": [1, 2]}),
        (Shown(), "Shown(3)"),
        (np.int64(3), 3),
        ((np.float32(0.5), np.arange(2000)), [0.5, list(range(2000))]),
    ],
)
def test_public_values_are_described_as_json_has_them(value, said):
    found = plain(value)
    assert found == said
    assert json.loads(json.dumps(found)) == found


def test_of_other_objects_only_their_name_is_told():
    assert plain(Private([1, 2, 3])) == f"{__name__}.Private"


def test_parameters_are_listed_under_the_names_that_they_were_stored_by():
    assert parameters(Part(0.25)) == {"alpha": 0.25, "names": [], "share": 0.5}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(12.34, math.nan, math.nan), "12.3 (no error bar: nobody can tell how far off it is)"),
        (Answer(12.34, math.nan, math.nan, 5.67), "12.3 ± 5.7"),
        (Answer(12.34, 11.0, 3.21), "12.3 (measured 11.0 ± 3.2)"),
        (Answer(12.34, 11.0, 3.21, 2.0), "12.3 ± 2.0 (measured 11.0 ± 3.2)"),
        (OnlineAnswer(12.34, 3.0, "cached"), "12.3 ± 3.0 (cached)"),
    ],
)
def test_answers_are_numbers_and_say_how_far_off_they_may_be(answer, said):
    assert str(answer) == said
    assert float(answer) == 12.34


class Counting:
    name = "counting"

    def __init__(self, **more):
        vars(self).update(more)


def test_where_persons_count_once_a_mechanism_has_to_say_that_it_takes_parts():
    records, once = (
        Domain(coded(2).attributes, person=Person("who", 3, weights=weights)) for weights in ("records", "persons")
    )
    for mechanism in (Counting(), Counting(counts_parts=False)):
        check_parts(mechanism, records)
        check_parts(mechanism, coded(2))
        with pytest.raises(
            InvalidInput, match=r"counting counts records, and here each person counts once: take a release by lap"
        ):
            check_parts(mechanism, once)
    check_parts(Counting(counts_parts=True), once)
    with pytest.raises(InvalidInput, match="a question counts records"):
        check_parts("a question", once)


def test_who_wants_a_table_is_told_before_the_charge_that_there_will_be_none():
    asked = Workload.marginals(coded(2), 1)
    for mechanism in (Counting(), Counting(no_table=lambda workload: None)):
        assert why_no_table(mechanism, asked) is None
        check_table(mechanism, asked)
    untabled = Counting(no_table=lambda workload: f"of {len(workload)} answers")
    assert why_no_table(untabled, asked) == "of 2 answers"
    with pytest.raises(InvalidInput, match="table is wanted, and counting would give none: of 2 answers"):
        check_table(untabled, asked)
