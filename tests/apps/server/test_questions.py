"""Questions of the API: what each means, cell by cell, which are too large, and what is public of the columns."""

from itertools import product

import numpy as np
import pytest
from msgspec import convert, to_builtins
from serving import TABLE
from worlds import PEOPLE, coded

from qrelease.apps.server.questions import (
    MAX_ANSWERS,
    MAX_CONDITION_CELLS,
    PublicFacts,
    read_estimate,
    read_question,
)
from qrelease.apps.server.shapes import EstimateQuery, Query
from qrelease.data.domain import Attribute, Domain
from qrelease.data.predicates import parse
from qrelease.errors import InvalidInput, TooLarge
from qrelease.mechanisms.online import hypothesis
from qrelease.mechanisms.online.session import Online
from qrelease.privacy import Neighbours, PureDP
from qrelease.privacy.ledger import Ledger


def facts(domain, mechanism=None):
    with Ledger.open(None, PureDP(1.0), dataset="people", neighbours=Neighbours.REPLACE_ONE) as ledger:
        return PublicFacts.of(domain, ledger, mechanism or Online(alpha=0.1, beta=0.01))


def asked_of(domain, query):
    """What a query means, as a request's body has it."""
    return read_question(domain, convert(query, Query))


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ({"where": "sex = 'F' and grade < 2"}, lambda sex, age, grade: sex == 0 and grade < 2),
        ({"where": "not sex = 'M'"}, lambda sex, age, grade: sex == 0),
        ({"range": {"column": "age", "low": "20", "high": "59"}}, lambda sex, age, grade: age in (1, 2)),
    ],
)
def test_a_condition_is_of_the_records_that_it_says(query, holds):
    asked = asked_of(PEOPLE, query)
    assert asked.answers == 1
    wanted = sum(holds(*record) for record in zip(*(column.tolist() for column in TABLE.columns), strict=True))
    mask = asked.meant.mask().reshape([PEOPLE.shape[axis] for axis in asked.meant.axes])
    assert mask[tuple(TABLE.columns[axis] for axis in asked.meant.axes)].sum() == wanted
    assert parse(asked.texts[0], PEOPLE).mask().tolist() == asked.meant.mask().tolist()


@pytest.mark.parametrize(
    ("statistic", "told"),
    [
        ("median:age", "got 'median' (did you mean quantile:age,q=.5?)"),
        ("median:age by sex", "(did you mean quantile:age,q=.5,by=sex?)"),
        ("quantile(.9):age", "got 'quantile(.9)' (did you mean quantile:age,q=.9?)"),
        (
            "mean:age by sex",
            'no column \'age by sex\'; mean takes no groups here: ask {"numbers": "mean:age by sex"} at /v1/query;'
            " groups of quantile are given as by=COLUMN",
        ),
    ],
)
def test_a_question_about_numbers_that_is_no_statistic_is_told_how_it_is_asked(statistic, told):
    with pytest.raises(InvalidInput) as refused:
        read_estimate(PEOPLE, convert({"statistic": statistic, "epsilon": 0.1}, EstimateQuery))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_spellings_of_one_meaning_are_one_question():
    """So the second one is free, whoever asks it."""
    (first, *others) = (
        asked_of(PEOPLE, query).group.queries
        for query in (
            {"where": "age in 0..39"},
            {"range": {"column": "age", "low": "0", "high": "39"}},
            {"where": "age in 20..39 or age in 0..19"},
        )
    )
    assert all(other == first for other in others)
    assert asked_of(PEOPLE, {"where": "age in 0..19"}).group.queries != first


def test_a_marginal_has_an_answer_for_each_cell_in_order():
    asked = asked_of(PEOPLE, {"marginal": ["grade", "sex"]})
    texts = [f"sex = '{sex}' and grade = {grade}" for sex, grade in product("FM", range(3))]
    assert [parse(text, PEOPLE).mask().tolist() for text in asked.texts] == [
        parse(text, PEOPLE).mask().tolist() for text in texts
    ]
    assert asked.answers == asked.cells == 6


@pytest.mark.parametrize(("text", "answers"), [("mean:age by sex", 2), ("quantile(.25, .5, .75):grade by sex", 6)])
def test_numbers_have_an_answer_for_each_group_and_probability(text, answers):
    asked = asked_of(PEOPLE, {"numbers": text})
    assert asked.answers == answers
    assert asked.cells == (8 if "age" in text else 6)


def test_a_share_through_bins_has_an_answer_for_each_group():
    delay = Attribute("delay", "number", edges=(0, 20, 60), integer=True, within=(0, 59), step=1)
    domain = Domain((delay, Attribute("carrier", "coded", codes=3)))
    asked = read_question(domain, Query(numbers="ratio:delay > 15 by carrier"))
    assert asked.answers == 3
    assert asked.asked.through_bins
    with pytest.raises(InvalidInput, match="cuts through"):
        read_question(domain, Query(where="delay > 15"))


def test_no_text_of_a_range_ends_its_own_quotes():
    """A column and bounds with both kinds of quotes are that column and those bounds, and no further condition."""
    labels = ("it's", 'a "b"', "c' or 1 = 1")
    column = Attribute('we"ird or x', "category", categories=labels, ordered=True)
    domain = Domain((column, Attribute("x", "coded", codes=2)))
    asked = asked_of(domain, {"range": {"column": column.name, "low": labels[1], "high": labels[2]}})
    assert asked.meant.axes == (0,)
    assert asked.meant.mask().tolist() == [False, True, True]
    with pytest.raises(InvalidInput):
        asked_of(domain, {"range": {"column": column.name, "low": labels[1], "high": "c' or x = 1 or '"}})


def test_what_is_too_large_is_refused_and_what_just_fits_is_not():
    assert asked_of(coded(MAX_ANSWERS, 2), {"marginal": ["a"]}).answers == MAX_ANSWERS
    wide = coded(256, MAX_CONDITION_CELLS // 256, 2)
    assert asked_of(wide, {"marginal": ["a", "c"]}).answers == 512
    assert asked_of(wide, {"where": "a = 0 and b = 0"}).cells == MAX_CONDITION_CELLS
    assert asked_of(coded(16, 256, 2), {"numbers": "mean:a by b"}).answers == 256
    assert asked_of(coded(26, 4, 40), {"numbers": "mean:a by b*c"}).answers == 160
    for domain, query, said in (
        (wide, {"marginal": ["a", "b"]}, "the marginal has 65,536 cells; at most 1,000"),
        (wide, {"where": "a = 0 and b = 0 and c = 1"}, "span 131,072 cells; at most 65,536"),
        (
            coded(17, 256),
            {"numbers": "mean:a by b"},
            "256 groups has a query over all 4,352 cells .* 1,114,112 weights; at most 1,048,576 .* fewer groups",
        ),
    ):
        with pytest.raises(TooLarge, match=said):
            asked_of(domain, query)


def test_every_condition_of_the_schema_is_one_cell():
    said = to_builtins(facts(PEOPLE).description)
    assert (said["dataset"], said["neighbours"], said["alpha"], said["beta"]) == ("people", "replace-one", 0.1, 0.01)
    assert said["cells"] == 2 * 4 * 3
    for axis, (attribute, column) in enumerate(zip(PEOPLE, said["columns"], strict=True)):
        assert (column["name"], column["cells"]) == (attribute.name, attribute.size)
        cells = [asked_of(PEOPLE, {"where": text}) for text in column["conditions"]]
        assert {asked.meant.axes for asked in cells} == {(axis,)}
        assert np.array_equal([asked.meant.mask() for asked in cells], np.eye(attribute.size, dtype=bool))


def test_of_many_cells_the_schema_lists_some_and_a_universe_too_large_has_no_synthetic_records():
    (column,) = facts(coded(MAX_ANSWERS + 1)).description.columns
    assert (column.cells, len(column.conditions)) == (MAX_ANSWERS + 1, MAX_ANSWERS)
    most = hypothesis.MAX_HYPOTHESIS_CELLS
    assert facts(coded(most >> 10, 1 << 10)).has_synthetic_records
    assert not facts(coded((most >> 10) + 1, 1 << 10)).has_synthetic_records
