"""The α of a net: the bounds hold against brute force, the witness is one, and known values are found."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import PEOPLE, coded, full_matrix, repeated

from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference import net_radius
from qrelease.inference.net_radius import radius
from qrelease.inference.nets import Listed, ProductNet, Thinned, quantiles, small_databases
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.queries.families import Residuals
from qrelease.queries.workload import Group, Workload


def distance(net, workload, tables):
    """How far each distribution (p, |X|) is from the nearest synopsis, (p,)."""
    answers = np.concatenate(list(net.fractions(workload)))
    truth = tables @ full_matrix(workload).T
    return np.abs(truth[:, None, :] - answers[None]).max(axis=2).min(axis=1)


@st.composite
def cases(draw):
    """A few distributions on three or four cells, and explicit queries on them, some real-valued."""
    s, k, n = draw(st.integers(2, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = rng.integers(0, 2, (k, s)) if draw(st.booleans()) else rng.random((k, s))
    domain = coded(s)
    made = [WeightedRecords(domain, np.arange(s), rng.dirichlet(np.full(s, 0.5)), 5.0) for _ in range(n)]
    return Listed(tuple(made)), repeated(domain, rows), rng


@given(cases())
@settings(max_examples=40)
def test_the_bounds_hold_and_the_witness_shows_the_lower(case):
    net, asked, rng = case
    found = radius(net, asked, programs=60)
    s = asked.domain.size
    tables = np.vstack([np.eye(s), rng.dirichlet(np.full(s, 0.7), 500)])
    assert distance(net, asked, tables).max() <= found.upper
    assert found.witness.min() >= 0
    assert found.witness.sum() == pytest.approx(1)
    assert distance(net, asked, found.witness[None, :])[0] >= found.lower
    assert found.lower <= found.upper


@given(cases())
@settings(max_examples=15)
def test_with_time_the_bounds_meet(case):
    net, asked, _ = case
    found = radius(net, asked, gap=0.01)
    assert found.upper - found.lower <= 0.01


KNOWN = [
    (quantiles(coded(4), 1 / 2), Workload.prefixes(coded(4), "a"), 1 / 4),
    (small_databases(coded(2, 2), 2), Workload.marginals(coded(2, 2), 1), 1 / 4),
    (small_databases(coded(2), 5), Workload.marginals(coded(2), 1), 1 / 10),
    (small_databases(coded(3), 1), Workload.marginals(coded(3), 1), 2 / 3),
]


@pytest.mark.parametrize(("net", "asked", "known"), KNOWN, ids=str)
def test_known_values(net, asked, known):
    """On prefixes and single columns a database of m records rounds to 1/m; the centre of three corners is 2/3 away."""
    found = radius(net, asked, gap=0.02, programs=3000)
    assert found.lower <= known + 1e-9
    assert known <= found.upper <= known + 0.021


def test_an_alpha_is_certified_or_refuted():
    net, asked = small_databases(coded(2, 2), 2), Workload.marginals(coded(2, 2), 2)
    yes, no = (radius(net, asked, alpha=alpha) for alpha in (0.4, 0.35))  # it is 3/8
    assert yes.certifies(0.4)
    assert not yes.refutes(0.4)
    assert no.refutes(0.35)
    assert not no.certifies(0.35)
    assert distance(net, asked, no.witness[None, :])[0] > 0.35
    assert max(yes.programs, no.programs) < 60
    assert "between" in str(yes)


def test_a_net_with_a_hole_is_refuted_at_the_hole():
    """All databases of four records on one column but those near to half and half."""
    domain = coded(2)
    whole, asked = small_databases(domain, 4), Workload.marginals(domain, 1)
    holed = Thinned(whole, (0, 1, 3, 4))
    assert radius(whole, asked).upper == pytest.approx(1 / 8, abs=1e-3)
    found = radius(holed, asked, alpha=0.2)
    assert found.refutes(0.2)
    np.testing.assert_allclose(found.witness, [0.5, 0.5], atol=0.05)


def test_cells_that_no_query_tells_apart_are_as_one():
    asked = Workload.marginals(PEOPLE, [["sex"]])
    found = radius(small_databases(PEOPLE.project((0,)), 3), Workload.marginals(PEOPLE.project((0,)), 1))
    wide = Listed(tuple(WeightedRecords.equal(PEOPLE, np.array([0] * i + [23] * (3 - i)), 3.0) for i in range(4)))
    again = radius(wide, asked)
    assert (again.lower, again.upper) == (found.lower, found.upper)
    assert again.witness.shape == (24,)


def test_rows_of_a_game_come_in_as_they_are_needed():
    rng = np.random.default_rng(0)
    payoffs = rng.random((3000, 6))
    mixture, rows, weights = net_radius._game(payoffs)
    value = (payoffs @ mixture).min()
    assert (weights @ payoffs[rows]).max() == pytest.approx(value, abs=1e-7)
    assert len(rows) < 500


def small_product(records, sizes):
    domain = coded(*sizes)
    return ProductNet(domain, tuple(small_databases(domain.project((i,)), records) for i in range(len(sizes))))


def test_a_product_asked_net_by_net_is_as_far_as_the_worst_of_its_nets():
    domain = coded(3, 2, 4)
    columns = [domain.project((i,)) for i in range(3)]
    net = ProductNet(
        domain, (small_databases(columns[0], 2), quantiles(columns[2], 1 / 3), small_databases(columns[1], 4))
    )
    asked = Workload.marginals(domain, [["a"]]) + Workload.marginals(domain, [["b"]]) + Workload.prefixes(domain, "c")
    own = [Workload.marginals(columns[i], 1) for i in range(2)] + [Workload.prefixes(columns[2], "c")]
    factors = net.nets[0], net.nets[2], net.nets[1]
    found = radius(net, asked, programs=30)
    assert found.upper == max(radius(f, part, programs=30).upper for f, part in zip(factors, own, strict=True))
    assert found.witness.sum() == pytest.approx(1)
    assert distance(net, asked, found.witness[None, :])[0] == pytest.approx(found.lower)
    tables = np.random.default_rng(0).dirichlet(np.full(24, 0.1), 300)
    assert distance(net, asked, tables).max() <= found.upper
    assert net_radius._searched(net, asked, net_radius._Limits(None, 1e-3, 3)).upper > 1.3 * found.upper


def test_a_product_too_large_to_be_checked_as_one_is_checked_net_by_net():
    net = small_product(20, (2, 2, 2, 2, 2))
    asked = Workload.marginals(net.domain, 1)
    assert len(net) * len(asked) * net.domain.size > net_radius.MAX_DISTANCES
    assert radius(net, asked).upper == pytest.approx(1 / 40, abs=1e-3)
    with pytest.raises(TooLarge, match="distances"):
        radius(net, Workload.marginals(net.domain, 3))


@st.composite
def across(draw):
    """A product of nets of bits and trits, and cells, conditions or counts of its columns."""
    sizes = draw(st.lists(st.integers(2, 3), min_size=2, max_size=3))
    net = small_product(draw(st.integers(2, 3)), sizes)
    order = draw(st.integers(1, len(sizes)))
    asked = Workload.marginals(net.domain, order)
    if draw(st.booleans()):
        asked += Workload.predicates(net.domain, "a = 0 and b in 0..1")
    return net, asked, np.random.default_rng(draw(st.integers(0, 2**32)))


@given(across())
@settings(max_examples=12)
def test_across_nets_no_table_is_further_than_the_bound(case):
    net, asked, rng = case
    bound = net_radius.across_nets(net, asked, 16)[0]
    s = net.domain.size
    sparse = rng.dirichlet(np.full(s, 0.05), 50)
    even = np.array([x / x.sum() for x in rng.integers(0, 2, (50, s)) if x.any()])
    assert distance(net, asked, np.vstack([np.eye(s), sparse, even])).max() <= bound


@pytest.mark.parametrize("r", [0.0, 0.05, 0.2, 1 / 3, 0.5])
def test_the_bound_across_nets_is_that_of_all_marginals_there_can_be(r):
    """Of all a_i, and b_i within r of them: a grid comes near to it for two factors, and not beyond it for three."""
    for p, steps in ((2, 121), (3, 31)):
        grid = np.linspace(0, 1, steps)
        a = np.stack(np.meshgrid(*[grid] * p)).reshape(p, -1)
        low = np.prod(np.maximum(a - r, 0), axis=0)
        high = np.prod(np.minimum(a + r, 1), axis=0)
        attained = max((a.min(0) - low).max(), (high - np.maximum(a.sum(0) - p + 1, 0)).max())
        assert attained <= net_radius.farthest_of_products(r, p)
        assert p > 2 or attained > net_radius.farthest_of_products(r, p) - 0.01
    assert net_radius.farthest_of_products(r, 1) == r


def test_the_bound_across_nets_is_near_to_what_is_attained():
    """Half of each of two opposite cells is as far as any table from products of bits: 1/4 and more."""
    net = small_product(3, (2, 2))
    pairs = Workload.marginals(net.domain, 2)
    assert net_radius.across_nets(net, pairs, 64)[0] == pytest.approx((1 / 2 + 1 / 6) ** 2, abs=2e-3)
    assert radius(net, pairs).lower == pytest.approx(7 / 18, abs=1e-3)
    fine = small_product(9, (2, 2))
    assert 1 / 4 < radius(fine, pairs, programs=100).lower < net_radius.across_nets(fine, pairs, 64)[0] < 0.31
    three = small_product(5, (2, 2, 2))
    cells = Workload.marginals(three.domain, 3)
    assert radius(three, cells, programs=20).upper <= max(0.1 + 3**-0.5 * 2 / 3, (2 / 3 + 0.1) ** 3) + 1e-2


def test_across_nets_nothing_is_said_of_other_queries():
    net = small_product(3, (2, 2))
    corner, parity, weighted = [1, 1, 1, 0], [1, 0, 0, 1], [1, 0.5, 0, 0]
    for row in (corner, parity, weighted):
        assert net_radius.across_nets(net, Workload.vectors(net.domain, [row]), 8)[0] == math.inf
    assert net_radius.across_nets(net, Workload.vectors(net.domain, [[0, 0, 0.5, 0]]), 64)[0] < 0.5
    assert (
        net_radius.across_nets(small_product(1, (3, 3)), Workload.marginals(coded(3, 3), 2), 64)[0] == math.inf
    )  # 2/3 > 1/2


def test_queries_with_negative_entries_have_no_radius():
    domain = coded(2, 2)
    with pytest.raises(InvalidInput, match="outside"):
        radius(small_databases(domain, 2), Workload(domain, (Group((0, 1), Residuals((2, 2), 1)),)))


def test_what_cannot_be_checked_is_refused():
    net, asked = small_databases(coded(2, 2), 2), Workload.marginals(coded(2, 2), 1)
    with pytest.raises(InvalidInput, match="another domain"):
        radius(net, Workload.marginals(PEOPLE, 1))
    for wrong in ({"alpha": 0.0}, {"alpha": 1.0}, {"alpha": math.nan}, {"gap": 0.0}, {"programs": 0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            radius(net, asked, **wrong)
    wide = coded(8, 8)
    with pytest.raises(TooLarge, match="too large to be checked"):
        radius(small_databases(wide, 3), Workload.marginals(wide, 1))
