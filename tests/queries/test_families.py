"""Families of queries: what they say of themselves against the dense matrix of their answers."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import attributes, domains
from worlds import BOTH, PEOPLE, PROPERTY, coded, matrix, moved, repeated

from qrelease.data import predicates
from qrelease.data.domain import Attribute, Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.privacy import Neighbours
from qrelease.queries.families import GRID, MAX_COMPARED_ROOT, Cells, Intervals, Vectors
from qrelease.queries.workload import Workload

# Grid multiples, whole numbers, and numbers that have to be rounded.
ENTRIES = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1 - GRID]), st.floats(0, 1))


@st.composite
def vectors(draw, whole=False):
    k, cells = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    entries = st.sampled_from([0.0, 1.0]) if whole else ENTRIES
    return np.array(draw(st.lists(st.lists(entries, min_size=cells, max_size=cells), min_size=k, max_size=k)))


FAMILIES = st.one_of(
    st.integers(1, 12).map(Cells),
    st.builds(
        lambda values, missing, prefixes: Intervals(values, values + missing, prefixes),
        st.integers(1, 12),
        st.booleans(),
        st.booleans(),
    ),
    vectors().map(lambda v: Vectors.rounded(v, v.shape[1])),
    vectors(whole=True).map(lambda v: Vectors.rounded(v, v.shape[1])),
)


# --- the matrix --------------------------------------------------------------------------------------------------


def test_cells_are_the_identity():
    np.testing.assert_array_equal(matrix(Cells(5)), np.eye(5))


@pytest.mark.parametrize("missing", [0, 1])
def test_ranges_and_prefixes(missing):
    hole = [0] * missing
    assert matrix(Intervals(3, 3 + missing, prefixes=False)).tolist() == [
        [1, 0, 0, *hole],
        [1, 1, 0, *hole],
        [1, 1, 1, *hole],
        [0, 1, 0, *hole],
        [0, 1, 1, *hole],
        [0, 0, 1, *hole],
    ]
    assert matrix(Intervals(3, 3 + missing, prefixes=True)).tolist() == [
        [1, 0, 0, *hole],
        [1, 1, 0, *hole],
        [1, 1, 1, *hole],
    ]


@given(vectors())
@PROPERTY
def test_vectors_are_rounded_to_their_unit(values):
    family = Vectors.rounded(values, values.shape[1])
    assert family.unit in (1.0, GRID)
    np.testing.assert_array_equal(matrix(family), family.rows)
    assert np.abs(family.rows * family.unit - values).max() <= (GRID / 2 if family.unit == GRID else 0)


@pytest.mark.parametrize(
    "wrong",
    [
        [[0.5, np.nan]],
        [[0.5, np.inf]],
        [[-1e-9, 1]],
        [[1 + 1e-9, 1]],
        [[1, 1, 1]],
        [1],
        [],
        [[]],
        [[[1, 1]]],
        np.zeros((0, 2)),
        "ab",
        [["x", "y"]],
        [[1], [1, 1]],
        None,
        [[1j, 0]],
    ],
    ids=repr,
)
def test_vectors_refuse(wrong):
    with pytest.raises(InvalidInput, match="query vectors must"):
        Vectors.rounded(wrong, 2)


# --- what a family says of itself --------------------------------------------------------------------------------


@given(FAMILIES)
@PROPERTY
def test_count_and_squares(family):
    w = matrix(family)
    assert family.count == len(w)
    np.testing.assert_allclose(family.squares(), ((w * family.unit) ** 2).sum(axis=1), rtol=1e-12)


@given(FAMILIES, st.integers(0, 2**32 - 1))
@PROPERTY
def test_apply_is_exact_on_counts_and_adjoint_is_its_transpose(family, seed):
    w, rng = matrix(family), np.random.default_rng(seed)
    table = rng.integers(0, 10**9, w.shape[1])
    answers = family.apply(table)
    assert answers.dtype == np.int64
    np.testing.assert_array_equal(answers, w @ table)
    weights = rng.integers(-100, 100, family.count).astype(float)
    np.testing.assert_array_equal(family.adjoint(weights), weights @ w)
    np.testing.assert_allclose(family.apply(table / 7), w @ (table / 7), rtol=1e-9)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("order", [1, 2])
@example(family=Cells(1))
@example(family=Intervals(1, 1, prefixes=False))
@example(family=Intervals(1, 2, prefixes=True))
@given(family=FAMILIES)
@PROPERTY
def test_sensitivity_is_what_one_record_moves(order, relation, family):
    exact = moved(matrix(family), order, relation)
    assert family.sensitivity(order, replace=relation is Neighbours.REPLACE_ONE) == exact


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("family", [Intervals(60, 61, False), Intervals(60, 60, False), Intervals(90, 91, True)])
def test_sensitivity_of_long_attributes(family, order, relation):
    assert family.sensitivity(order, replace=relation is Neighbours.REPLACE_ONE) == moved(
        matrix(family), order, relation
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("sparse", [0.05, 0.5, 1.0])
def test_large_families_of_vectors_have_an_upper_bound(order, sparse):
    """So many entries that not all pairs of cells are compared: of sparse vectors, and of ones that span little."""
    count, cells = 40, 400
    rng = np.random.default_rng(0)
    values = 0.3 + 0.4 * rng.random((count, cells)) if sparse == 1 else rng.random((count, cells))
    family = Vectors.rounded(values * (rng.random((count, cells)) < sparse), cells)
    assert count * len(np.unique(family.rows, axis=1).T) ** 2 > MAX_COMPARED_ROOT**2
    bound = family.sensitivity(order, replace=True)
    w = matrix(family)
    exact, single = (moved(w, order, relation) for relation in (Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE))
    assert family.sensitivity(order, replace=False) == single
    assert exact <= bound <= 2**order * single


def test_so_many_vectors_that_sums_could_overflow_are_refused():
    """In squared units of 2^-20, 2^23 ones sum to 2^63, one more than int64 holds."""
    with pytest.raises(TooLarge, match="8,388,608 query vectors"):
        Vectors(np.ones((1 << 23, 1), np.int64), GRID)


@pytest.mark.parametrize("family", [Intervals(4_000, 4_001, False), Intervals(4_000, 4_000, True)])
def test_sensitivity_of_a_long_attribute_takes_little_memory(family):
    """All pairs of cells are no way to it: of 23 000 cells, whose ranges fit, they take 4 GiB a table."""
    tracemalloc.start()
    try:
        most = family.sensitivity(1, replace=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    m = family.values
    assert most == (m - 1 if family.prefixes else (m // 2) * (m // 2 + 1))
    assert peak < 1 << 24


# --- entries that are no queries ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "unit"),
    [
        ([[10, 0]], 1.0),  # the exponential mechanism over single queries takes entries to be at most 1
        ([[-1, 0]], 1.0),
        ([[1, 0]], 0.3),  # units of several groups are combined as powers of two
        ([[1, 0]], 0.0),
        ([[1, 0]], float("nan")),
        ([[1, 0, 1]], 1.0),
        ([], 1.0),
    ],
)
def test_a_description_is_checked_like_the_queries_it_stands_for(rows, unit):
    with pytest.raises(InvalidInput):
        Workload.from_json(coded(2), [{"columns": ["a"], "type": "vectors", "unit": unit, "rows": rows}])


# --- texts and JSON ----------------------------------------------------------------------------------------------


def assert_texts_mean_the_queries(workload):
    for group in workload.groups:
        domain = workload.domain.project(group.axes)
        texts = list(group.queries.texts(domain))
        assert len(set(texts)) == len(texts)
        shape = domain.shape
        for text, row in zip(texts, matrix(group.queries) * group.queries.unit, strict=True):
            parsed = predicates.parse(text, domain)
            sizes = [n if a in parsed.axes else 1 for a, n in enumerate(shape)]
            mask = np.broadcast_to(parsed.mask().reshape(sizes), shape)
            np.testing.assert_array_equal(mask.reshape(-1), row)


@given(domains(most=2))
@PROPERTY
def test_texts_of_marginals_parse_to_the_same_queries(domain):
    assert_texts_mean_the_queries(Workload.marginals(domain, len(domain)))


@given(attributes("x").filter(lambda a: a.ordered))
@PROPERTY
def test_texts_of_ranges_parse_to_the_same_queries(attribute):
    domain = Domain((attribute,))
    assert_texts_mean_the_queries(Workload.ranges(domain, "x"))
    assert_texts_mean_the_queries(Workload.prefixes(domain, "x"))


def test_texts_of_predicates():
    asked = Workload.predicates(PEOPLE, "age in 20..59 or grade = 2", "not sex = F", "age is missing", "grade in {}")
    assert_texts_mean_the_queries(asked)
    assert list(Workload.vectors(PEOPLE, [[1, 0], [0.5, 0]], ["sex"]).texts()) == ["vector 0", "vector 1"]


def test_texts_read_well():
    assert list(Workload.marginals(PEOPLE, [["sex", "grade"]]).texts())[:2] == [
        "sex = 'F' and grade = 0",
        "sex = 'F' and grade = 1",
    ]
    assert list(Workload.prefixes(PEOPLE, "age").texts()) == ["age in 0..19", "age in 0..39", "age is not missing"]


@given(domains(most=2), st.data())
@PROPERTY
def test_json_gives_the_same_family(domain, data):
    asked = Workload.marginals(domain, 1)
    for a in domain:
        if a.ordered:
            asked += Workload.ranges(domain, a.name) + Workload.prefixes(domain, a.name)
    cells = domain.cells(range(len(domain)))
    rows = data.draw(st.lists(st.lists(ENTRIES, min_size=cells, max_size=cells), min_size=1, max_size=3))
    asked += repeated(domain, rows)
    again = Workload.from_json(domain, json.loads(json.dumps(asked.to_json())))
    assert again == asked
    assert hash(again) == hash(asked)


def test_predicates_survive_json():
    asked = Workload.predicates(PEOPLE, "age in 20..59 or grade = 2", "grade in {}")
    again = Workload.from_json(PEOPLE, json.loads(json.dumps(asked.to_json())))
    assert again == asked
    assert list(again.texts()) == list(asked.texts())


def test_equal_conditions_are_equal_families_and_others_are_not():
    texts = ("not age in 0..19", "age in {20..59, '?'}", "age in 20..59")
    a, b, c = (Workload.predicates(PEOPLE, text).groups[0] for text in texts)
    assert (a == b, hash(a) == hash(b), a == c) == (True, True, False)
    whole, real = Vectors.rounded([[1, 0]], 2), Vectors.rounded([[1, 0], [0.5, 1]], 2)
    assert whole != real
    assert whole != "text"
    assert Vectors(whole.rows, 1.0) != Vectors(whole.rows, GRID)


def test_a_single_cell_has_a_text():
    assert list(Workload.marginals(Domain((Attribute("only", "coded", codes=1),)), 1).texts()) == ["only = 0"]
