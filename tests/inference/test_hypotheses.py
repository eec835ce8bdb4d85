"""States of the update rules: what they answer, against the dense vectors, and their descriptions."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules import NET
from worlds import PEOPLE, PROPERTY, coded, full_matrix, mixed

from qrelease._util import memory
from qrelease.errors import InvalidInput, OutOfMemory, TooLarge
from qrelease.inference.hypotheses import Dual
from qrelease.inference.medians import Medians
from qrelease.queries.workload import Group, Workload, single

KINDS = ["entropic", "euclidean"]


def moved(kind, seed, moves=6, total=60.0):
    """A hypothesis after some moves, and its dual vector by the dense matrix."""
    rng = np.random.default_rng(seed)
    asked, state = mixed(), Dual(PEOPLE, total, kind)
    rows, dual = full_matrix(asked), np.zeros(PEOPLE.size)
    for i in rng.integers(len(asked), size=moves):
        step = rng.normal() * (1.0 if kind == "entropic" else 0.01)
        number = int(np.searchsorted(asked.bounds, i, side="right")) - 1
        state.move(single(asked.groups[number], int(i - asked.bounds[number])), step)
        dual += step * rows[i]
    return state, dual


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1))
@PROPERTY
def test_a_hypothesis_is_the_image_of_its_dual_vector(kind, seed):
    state, dual = moved(kind, seed)
    weights = np.exp(dual) / np.exp(dual).sum() if kind == "entropic" else 1 / 24 + dual - dual.mean()
    np.testing.assert_allclose(state.values, 60 * weights, atol=1e-9)
    np.testing.assert_allclose(state.answer(mixed()), full_matrix(mixed()) @ (60 * weights), atol=1e-9)
    assert state.values.sum() == pytest.approx(60)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1), moves=st.integers(0, 5))
@PROPERTY
def test_a_description_makes_it_again(kind, seed, moves):
    state, _ = moved(kind, seed, moves)
    content = json.loads(json.dumps(state.to_json(), allow_nan=False))
    again = Dual.from_json(PEOPLE, content)
    np.testing.assert_allclose(again.values, state.values, atol=1e-12)
    assert (again.total, again.has_table) == (state.total, kind == "entropic")
    query = Workload.predicates(PEOPLE, "sex = F").groups[0]
    for one in (state, again):
        one.move(query, 0.1)
    np.testing.assert_allclose(again.values, state.values, atol=1e-12)


def test_repeated_moves_by_one_query_are_one_entry():
    state = Dual(PEOPLE, 60.0, "entropic")
    for text in ("sex = F", "grade = 1", "sex = F"):
        state.move(Workload.predicates(PEOPLE, text).groups[0], 0.5)
    assert state.to_json()["coefficients"] == [1.0, 0.5]


def test_large_steps_do_not_overflow_and_can_be_undone():
    state = Dual(PEOPLE, 60.0, "entropic")
    query = Workload.predicates(PEOPLE, "sex = F").groups[0]
    state.move(query, 5000.0)
    assert state.answer(Workload.predicates(PEOPLE, "sex = F"))[0] == 60
    state.move(query, -5000.0)
    np.testing.assert_allclose(state.values, 2.5)


def test_records_of_a_distribution_follow_it():
    state, _ = moved("entropic", 3)
    codes = state.sample(5000, np.random.default_rng(0))
    counts = np.bincount(np.ravel_multi_index(codes, PEOPLE.shape), minlength=24)
    assert np.abs(counts - 5000 * state.values / 60).max() < 1


@pytest.mark.parametrize("state", [moved("euclidean", 0)[0], Medians(NET, 60.0)], ids=["signed", "medians"])
def test_what_is_no_distribution_has_no_table(state):
    assert not state.has_table
    with pytest.raises(InvalidInput, match="no synthetic table"):
        state.sample(5, np.random.default_rng(0))


@pytest.mark.parametrize("state", [Dual(PEOPLE, 9.0, "entropic"), Dual(PEOPLE, 9.0, "euclidean"), Medians(NET, 9.0)])
def test_queries_over_another_domain_are_refused(state):
    with pytest.raises(InvalidInput, match="another domain"):
        state.answer(Workload.marginals(coded(2), 1))


def test_bad_moves():
    with pytest.raises(InvalidInput, match="kind must be"):
        Dual(PEOPLE, 60.0, "dual")
    with pytest.raises(InvalidInput, match="one query at a time, got 3"):
        Dual(PEOPLE, 60.0, "entropic").move(Workload.marginals(PEOPLE, [["grade"]]).groups[0], 0.1)
    with pytest.raises(TooLarge):
        Dual(coded(*[100] * 8), 60.0, "entropic")


@pytest.mark.parametrize("group", mixed().groups, ids=str)
def test_single_queries_of_a_group(group):
    rows = full_matrix(Workload(PEOPLE, (group,)))
    for i, row in enumerate(rows):
        one = single(group, i)
        assert isinstance(one, Group)
        np.testing.assert_array_equal(full_matrix(Workload(PEOPLE, (one,))), row[None, :])


def test_both_vectors_of_a_hypothesis_must_fit(free_memory):
    domain = coded(*[2] * 20)
    free_memory(memory.LATER_BYTES + (15 << 20))
    with pytest.raises(OutOfMemory, match=rf"1,048,576 cells: about {16 + (memory.LATER_BYTES >> 20)} MiB are needed"):
        Dual(domain, 1.0, "entropic")
    free_memory(memory.LATER_BYTES + (16 << 20))
    state = Dual(domain, 1.0, "entropic")
    assert state.values.size == domain.size
    free_memory((8 << 20) - 1)
    with pytest.raises(OutOfMemory, match="a copy of 1,048,576 cells"):
        _ = state.values
