"""Workloads: what is asked, in which order, how far one record moves it, and how it is spelled."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import (
    BOTH,
    PEOPLE,
    PROPERTY,
    coded,
    full_matrix,
    matrix,
    mixed,
    moved,
    neighbouring,
    private,
    random_table,
    true_answers,
)

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import RECORDS
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries import workload as module
from qrelease.queries.families import GRID, Cells, Intervals, Residuals, Vectors
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator


def exact_answers(workload, table):
    """(k,) counts, through the door that mechanisms use."""
    found = zip(workload.groups, private(table).exact(workload), strict=True)
    return np.concatenate([x * g.queries.unit for g, x in found])


@pytest.mark.parametrize(
    "rows", [np.ones((3, 24)), [[0.5] * 24, [0.25] * 24, [0.5 + GRID / 4] * 24]], ids=["the same", "on the grid"]
)
def test_a_query_vector_that_is_there_twice_is_refused(rows):
    with pytest.raises(InvalidInput, match="asks query vector 0 twice"):
        Workload.vectors(PEOPLE, rows)
    assert len(Workload.vectors(PEOPLE, [[0.5] * 24, [0.5 + GRID] * 24])) == 2


def test_queries_with_entries_outside_the_unit_interval_are_never_asked_for():
    residuals = Workload(PEOPLE, (Group((0,), Residuals((2,), 1000)),))
    for asked in (residuals, mixed() + residuals, Workload.from_json(PEOPLE, residuals.to_json())):
        with pytest.raises(InvalidInput, match=r"entries outside \[0, 1\]"):
            asked.check_bounded()
        with pytest.raises(InvalidInput, match=r"entries outside \[0, 1\]"):
            private(random_table(PEOPLE, 5, 0)).exact(asked)
        with Ledger.open(None, PureDP(1.0)) as ledger:
            curator = Curator(random_table(PEOPLE, 5, 0), ledger, Entropy.insecure(0))
            with pytest.raises(InvalidInput, match=r"entries outside \[0, 1\]"):
                curator.release(Laplace(), asked, PureDP(1.0))
            assert ledger.spent is None
    mixed().check_bounded()


@pytest.mark.parametrize("relation", BOTH)
def test_families_that_say_so_have_entries_in_the_unit_interval_and_others_do_not(relation):
    """What scores rest on: one record moves no answer by more than 1."""
    families = [g.queries for g in mixed().groups]
    for family in families:
        assert family.bounded
        assert moved(matrix(family)[[0]], 1, relation) * family.unit <= 1
        for row in matrix(family) * family.unit:
            assert (row >= 0).all()
            assert (row <= 1).all()
    assert not Residuals((2, 3)).bounded
    assert matrix(Residuals((2, 3))).min() < 0


# --- what is asked -----------------------------------------------------------------------------------------------


def test_marginals_of_an_order_and_of_chosen_columns():
    pairs = Workload.marginals(PEOPLE, 2)
    assert pairs.sets == ((0, 1), (0, 2), (1, 2))
    assert len(pairs) == 2 * 4 + 2 * 3 + 4 * 3
    assert Workload.marginals(PEOPLE, np.int64(2)) == pairs
    assert Workload.marginals(PEOPLE, [["age", "sex"], ["sex", "grade"], ["grade", "age"]]) == pairs
    assert Workload.marginals(PEOPLE, 3).sets == ((0, 1, 2),)


def test_the_order_and_the_length_of_answers():
    asked = mixed()
    assert len(asked) == 8 + 3 + 6 + 3 + 1 + 4
    assert asked.bounds.tolist() == [0, 8, 11, 17, 20, 21, 25]
    assert asked.sets == ((0, 1), (2,), (1,), (0, 2))
    assert len(list(asked.texts())) == len(asked)
    assert repr(asked) == "Workload(25 queries on 4 marginals of sex, age, grade)"


def test_sets_of_columns_that_are_asked_about_together():
    asked = Workload.marginals(Domain.coded({"a": 2, "b": 2, "c": 2, "d": 2}), [["a", "b", "c"], ["c", "d"]])
    assert asked.asks_within_one([(0, 1, 2), (0, 2), (3,), ()])
    assert not asked.asks_within_one([(0, 1), (1, 3)])
    assert asked.asks_within_one([])


def test_a_workload_names_the_columns_that_it_asks_about():
    assert repr(Workload.ranges(PEOPLE, "grade")) == "Workload(6 queries on 1 marginal of grade)"
    assert Workload.marginals(PEOPLE, [["grade", "sex"]]).columns == ("sex", "grade")
    assert repr(Workload.predicates(PEOPLE, "sex = F")) == "Workload(1 query on 1 marginal of sex)"
    assert repr(Workload(PEOPLE, (RECORDS,))) == "Workload(1 query on 1 marginal of no column)"


@pytest.mark.parametrize("seed", range(3))
def test_three_ways_to_the_same_answers(seed):
    """From the table, from a histogram, and from the dense matrix."""
    table = random_table(PEOPLE, 60, seed)
    asked = mixed()
    expected = true_answers(asked, table)
    np.testing.assert_allclose(exact_answers(asked, table), expected, rtol=1e-12)
    marginals = np.concatenate([c.astype(float) for c in table.counts(asked.sets)])
    np.testing.assert_allclose(asked.answers(marginals), expected, rtol=1e-12)
    uniform = Histogram(PEOPLE, asked.sets, 24.0)
    np.testing.assert_allclose(uniform.answer(asked), full_matrix(asked).sum(axis=1), rtol=1e-12)


def test_answers_of_marginals_alone_are_not_copied():
    asked = Workload.marginals(PEOPLE, 2)
    marginals = np.arange(float(len(asked)))
    assert asked.answers(marginals) is marginals


def test_real_vectors_keep_their_columns():
    """One row a cell of the columns in the order in which they were named."""
    table = random_table(PEOPLE, 50, 1)
    vectors = np.arange(6.0)[None, :] / 8
    by_domain = Workload.vectors(PEOPLE, vectors, columns=["sex", "grade"])
    turned = vectors.reshape(2, 3).T.reshape(1, 6)
    by_name = Workload.vectors(PEOPLE, turned, columns=["grade", "sex"])
    np.testing.assert_allclose(exact_answers(by_name, table), exact_answers(by_domain, table))


def test_vectors_over_the_whole_universe():
    table = random_table(PEOPLE, 50, 2)
    vectors = np.random.default_rng(0).random((3, 24))
    np.testing.assert_allclose(
        exact_answers(Workload.vectors(PEOPLE, vectors), table), vectors @ table.histogram(), atol=50 * GRID
    )


def test_a_missing_value_lies_in_no_range():
    table = random_table(PEOPLE, 60, 3)
    ages = table.counts([(1,)])[0]
    assert ages[3] > 0
    assert exact_answers(Workload.prefixes(PEOPLE, "age"), table).tolist() == np.cumsum(ages[:3]).tolist()


def test_the_number_of_records_is_the_marginal_on_no_columns():
    asked = Workload.marginals(PEOPLE, [[]])
    assert exact_answers(asked, random_table(PEOPLE, 33, 0)).tolist() == [33]
    assert asked.sensitivity(1, replace=False) == 1
    assert list(asked.texts()) == ["all records"]
    assert Workload.from_json(PEOPLE, asked.to_json()) == asked


# --- sensitivity -------------------------------------------------------------------------------------------------


def assert_bounds_the_matrix(asked, *, exact):
    w = full_matrix(asked)
    for relation in BOTH:
        for order in (1, 2):
            bound = asked.sensitivity(order, replace=relation is Neighbours.REPLACE_ONE)
            truth = moved(w, order, relation)
            assert bound >= truth * (1 - 1e-12)
            if exact:
                assert bound == pytest.approx(truth, rel=1e-12)


@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4), st.data())
@PROPERTY
def test_sensitivity_of_marginals_is_exact(sizes, data):
    domain = coded(*sizes)
    columns = st.sets(st.sampled_from(domain.names), min_size=1).map(sorted).map(tuple)
    sets = data.draw(st.lists(columns, min_size=1, max_size=6, unique=True))
    assert_bounds_the_matrix(Workload.marginals(domain, sets), exact=True)


@pytest.mark.parametrize(
    "asked",
    [
        Workload.ranges(PEOPLE, "age"),
        Workload.prefixes(PEOPLE, "grade"),
        Workload.predicates(PEOPLE, "sex = F or age is missing"),
        Workload.vectors(PEOPLE, np.random.default_rng(1).random((5, 12)), ["age", "grade"]),
    ],
    ids=["ranges", "prefixes", "predicate", "vectors"],
)
def test_sensitivity_of_one_group_is_exact(asked):
    assert_bounds_the_matrix(asked, exact=True)


def test_sensitivity_of_a_mixture_is_a_bound():
    assert_bounds_the_matrix(mixed(), exact=False)


@pytest.mark.parametrize("relation", BOTH)
def test_no_neighbour_moves_the_answers_further(relation):
    """The same promise, through tables and exact counts instead of matrices."""
    table, asked = random_table(PEOPLE, 12, 4), mixed()
    x = exact_answers(asked, table)
    moves = np.array([exact_answers(asked, other) - x for other in neighbouring(table, relation)])
    replace = relation is Neighbours.REPLACE_ONE
    for order in (1, 2):
        most = (np.abs(moves) ** order).sum(axis=1).max()
        assert 0.5 * asked.sensitivity(order, replace=replace) <= most <= asked.sensitivity(order, replace=replace)


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 4, -1, True, np.True_, 1.5, "2x"])
def test_marginals_refuse(k):
    with pytest.raises(InvalidInput):
        Workload.marginals(PEOPLE, k)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Workload.marginals(PEOPLE, []), "at least one query"),
        (lambda: Workload(PEOPLE, ()), "at least one query"),
        (lambda: Workload.marginals(PEOPLE, [["sex", "sex"]]), "named twice"),
        (lambda: Workload.marginals(PEOPLE, [["sex", "height"]]), "no attribute 'height'"),
        (lambda: Workload.marginals(PEOPLE, [["sex", "age"], ["age", "sex"]]), r"on sex \* age twice"),
        (lambda: Workload.marginals(PEOPLE, 1) + Workload.marginals(PEOPLE, [["age"]]), "on age twice"),
        (lambda: Workload.predicates(PEOPLE), "at least one query"),
        (lambda: Workload.predicates(PEOPLE, "age > 3"), "cuts through the bin"),
        (lambda: Workload.ranges(PEOPLE, "sex"), "no order"),
        (lambda: Workload.prefixes(PEOPLE, "height"), "no attribute"),
        (lambda: Workload.vectors(PEOPLE, [[1, 0, 0]], ["sex"]), r"shape \(k, 2\)"),
        (lambda: Workload.marginals(PEOPLE, 1) + Workload.marginals(coded(2), 1), "two different domains"),
        (lambda: Workload.from_json(PEOPLE, [{"columns": ["sex"], "type": "dreams"}]), "type 'dreams'"),
    ],
)
def test_workloads_refuse(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    "group",
    [
        Group((0,), Cells(1)),  # one draw of noise for two cells: their difference would come out exact
        Group((0,), Cells(5)),
        Group((3,), Cells(2)),
        Group((-1,), Cells(3)),
        Group((2, 0), Cells(6)),
        Group((0, 0), Cells(4)),
        Group((1,), Intervals(2, 2, prefixes=True)),
        Group((1,), Intervals(3, 3, prefixes=True)),  # age has a missing cell, from which a record may move
        Group((0,), Vectors(np.ones((1, 3), np.int64), 1.0)),
    ],
    ids=str,
)
def test_groups_made_by_hand_must_fit_their_columns(group):
    """Plug-ins make groups themselves, and the noise is drawn for what a group says of itself."""
    with pytest.raises(InvalidInput):
        Workload(PEOPLE, (group,))


def test_too_many_queries_are_refused_before_anything_is_made():
    wide = Domain(tuple(Attribute(f"x{i}", "coded", codes=1 << 10) for i in range(30)))
    with pytest.raises(TooLarge, match="1,073,741,824 queries"):
        Workload.marginals(wide, [["x0", "x1", "x2"]])
    with pytest.raises(TooLarge, match="marginals are too many"):
        Workload.marginals(coded(*[2] * 26), 13)


def test_too_many_ranges_are_refused():
    with pytest.raises(TooLarge, match=f"at most {module.MAX_QUERIES:,}"):
        Workload.ranges(coded(1 << 15), "a")


# --- spelling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("marginals:2", Workload.marginals(PEOPLE, 2)),
        (" marginals : 2 ", Workload.marginals(PEOPLE, 2)),
        ("marginals:sex*age, grade", Workload.marginals(PEOPLE, [["sex", "age"], ["grade"]])),
        ("ranges:age", Workload.ranges(PEOPLE, "age")),
        ("prefixes: grade", Workload.prefixes(PEOPLE, "grade")),
        ("where:age in 0..19 and sex = F", Workload.predicates(PEOPLE, "age in 0..19 and sex = F")),
    ],
)
def test_command_line_spelling(text, asked):
    assert Workload.parse(PEOPLE, text) == asked


@pytest.mark.parametrize(
    "text",
    ["", "marginals", "marginals:", "ranges:", "where:", "sums:age", "2", "marginals:9", f"marginals:{'1' * 5000}"],
)
def test_command_line_spelling_refuses(text):
    with pytest.raises(InvalidInput):
        Workload.parse(PEOPLE, text)


def test_json_round_trip():
    asked = mixed()
    again = Workload.from_json(PEOPLE, json.loads(json.dumps(asked.to_json())))
    assert again == asked
    assert list(again.texts()) == list(asked.texts())
    np.testing.assert_array_equal(full_matrix(again), full_matrix(asked))


def test_groups_are_equal_by_what_they_ask():
    assert Group((0,), Cells(2)) == Workload.marginals(PEOPLE, [["sex"]]).groups[0]
    assert Workload.marginals(PEOPLE, [["sex"]]) != Workload.marginals(coded(2), 1)


@pytest.mark.parametrize("values", [0, 5])
def test_ranges_need_values_among_their_cells(values):
    with pytest.raises(InvalidInput, match="ranges need 1 to 4 values"):
        Intervals(values, 4, prefixes=False)


@pytest.mark.parametrize("most", [1, 6, 30, 10**6])
def test_the_parts_of_a_workload_are_the_workload(most):
    asked = Workload.marginals(PEOPLE, 2) + Workload.marginals(PEOPLE, 1)
    parts = list(asked.parts(most))
    assert tuple(g for p in parts for g in p.groups) == asked.groups
    assert all(len(p) <= most or len(p.groups) == 1 for p in parts)
    fuller = [len(a) + b.groups[0].queries.count for a, b in pairwise(parts)]
    assert all(size > most for size in fuller)
    assert (parts[0] is asked) == (most >= len(asked))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("meen:age", "mean:age"),
        ("marginal:2", "'marginals'"),
        ("range:age", "'ranges'"),
        ("avg:age by sex", "mean:age by sex"),
        ("wher:sex = F", "'where'"),
    ],
)
def test_a_kind_that_is_misspelt_is_told_with_what_was_meant(text, told):
    kind = text.partition(":")[0]
    with pytest.raises(
        InvalidInput, match=rf"^'{kind}' is no kind of question \(did you mean {told}\?\): a workload is"
    ):
        Workload.parse(PEOPLE, text)


@pytest.mark.parametrize(
    "asked",
    [
        lambda given: Workload.marginals(given, 2),
        lambda given: Workload.ranges(given, "a"),
        lambda given: Workload.prefixes(given, "a"),
        lambda given: Workload.boxes(given, ["a"]),
        lambda given: Workload.predicates(given, "a = 1"),
        lambda given: Workload.vectors(given, [[1.0, 0.0]]),
        lambda given: Workload.means(given, "a"),
        lambda given: Workload.numbers(given, "mean:a"),
    ],
)
def test_a_frame_or_a_table_where_a_domain_belongs_is_refused_with_what_makes_one(asked):
    """Of a frame of 40 000 records 800 million marginals were too many."""
    frame = pd.DataFrame({"a": [0, 1]})
    with pytest.raises(
        InvalidInput, match=r"takes a domain, got DataFrame: make a table by qr.Table.from_frame\(frame"
    ):
        asked(frame)
    with pytest.raises(InvalidInput, match=r"takes a domain, got Table: take table.domain$"):
        asked(Table.from_frame(frame, Domain.coded({"a": 2})))
