"""Queries under their canonical names: families, single queries, and what is no query."""

import json
from itertools import product

import numpy as np
import pytest
from sessions import (
    opened,
)
from worlds import coded, random_table

from qrelease.errors import InvalidInput, TooLarge
from qrelease.mechanisms.online.canonical_group import CanonicalGroup, QueryReader, queries_from_json
from qrelease.queries.products import IntegerRows
from qrelease.queries.workload import Group, Workload

DOMAIN = coded(2, 3, 4)


def test_families_of_too_many_long_names_are_refused():
    """The name of a cell is as long as there are cells."""
    domain = coded(2, 25_000)
    with opened(table=random_table(domain, 100, 0)) as session:
        assert session.answers(Workload.marginals(domain, [["a"]]))
        with pytest.raises(TooLarge, match="too many to ask at a time"):
            session.answers(Workload.marginals(domain, 2))


def group_of(workload):
    (group,) = workload.groups
    return CanonicalGroup.of(workload.domain, group)


def test_one_query_has_one_name_whatever_its_spelling_and_is_asked_on_its_columns():
    first = group_of(Workload.predicates(DOMAIN, "a = 0 and c in {1, 2}"))
    for again in ("c in 1..2 and a = 0", "a != 1 and b in 0..2 and c in 1..2", "not (a = 1 or c = 0 or c = 3)"):
        other = group_of(Workload.predicates(DOMAIN, again))
        assert other.queries == first.queries
        assert other.group.axes == (0, 2)
    assert (first.order, first.columns, first.is_one_count) == (2, (0, 2), True)
    assert group_of(Workload.predicates(DOMAIN, "a = 0 and c in {1, 3}")).queries != first.queries


def test_the_cells_of_a_marginal_are_the_conditions_that_they_are():
    """By the short way, and where a column of one cell takes the long one."""
    for domain in (DOMAIN, coded(2, 3, 1)):
        family = group_of(Workload.marginals(domain, [["a", "b", "c"]]))
        for number, cell in enumerate(product(*map(range, domain.shape))):
            text = " and ".join(f"{name} = {code}" for name, code in zip("abc", cell, strict=True))
            (single,) = group_of(Workload.predicates(domain, text)).queries
            assert family.queries[number] == single, text
        assert not family.is_one_count


def test_orders_are_of_conjunctions_then_of_parities_then_of_all_others():
    row = np.random.default_rng(0).random(24)
    for workload, order in (
        (Workload.predicates(DOMAIN, "a = 0"), 1),
        (Workload.predicates(DOMAIN, "a = 0 and b = 1 and c = 2"), 3),
        (Workload.predicates(DOMAIN, "b in {0, 2}"), 1),
        (Workload.predicates(coded(2, 2), "a = 0 and b = 1 or a = 1 and b = 0"), 2 + 1),
        (Workload.predicates(DOMAIN, "a = 0 or b = 1"), 3 + 2),
        (Workload.vectors(DOMAIN, row[None, :]), 3 + 2),
        (Workload.ranges(DOMAIN, "c"), 1),
    ):
        assert group_of(workload).order == order
    assert not group_of(Workload.vectors(DOMAIN, row[None, :])).is_one_count


@pytest.mark.parametrize(
    "workload",
    [
        Workload.predicates(DOMAIN, "a = 0 and c in {1, 2}"),
        Workload.marginals(DOMAIN, [["a", "c"]]),
        Workload.ranges(DOMAIN, "c"),
        Workload.vectors(DOMAIN, np.random.default_rng(0).random((3, 6)), ["a", "b"]),
    ],
    ids=["condition", "marginal", "ranges", "vectors"],
)
def test_what_a_journal_says_of_a_group_names_its_queries(workload):
    made = group_of(workload)
    content = json.loads(json.dumps(made.to_json(DOMAIN)))
    assert isinstance(content, str) == (len(made.queries) == 1)
    assert queries_from_json(DOMAIN, content) == made.queries


def test_a_reader_takes_conditions_workloads_and_what_it_read_before():
    reader = QueryReader(DOMAIN)
    (first,) = reader.read("a = 0")
    assert reader.read("a = 0")[0] is first
    assert reader.read(first) == [first]
    assert [g.group for g in reader.read(Workload.marginals(DOMAIN, 1))] == [*Workload.marginals(DOMAIN, 1).groups]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (3, "a query is a condition or a workload, got int"),
        ("d = 1", "no column 'd'"),
        (Workload.marginals(coded(2, 3), 1), "over another domain than the table"),
        (Workload(DOMAIN, (Group((0,), IntegerRows(np.array([[-1, 9]]), 1.0)),)), r"\[0, 1\]"),
    ],
)
def test_what_is_no_query_is_refused(asked, said):
    with pytest.raises(InvalidInput, match=said):
        QueryReader(DOMAIN).read(asked)
