"""The α of a net: the bounds hold against brute force, the witness is one, and known values are found."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import PEOPLE, coded, full_matrix, repeated

from qrelease import covering
from qrelease.covering import radius
from qrelease.errors import InvalidInput, TooLarge
from qrelease.nets import Listed, Thinned, quantiles, small_databases
from qrelease.synopses import WeightedRecords
from qrelease.workload import Workload


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
    mixture, rows, weights = covering._game(payoffs)
    value = (payoffs @ mixture).min()
    assert (weights @ payoffs[rows]).max() == pytest.approx(value, abs=1e-7)
    assert len(rows) < 500


def test_what_cannot_be_checked_is_refused(monkeypatch):
    net, asked = small_databases(coded(2, 2), 2), Workload.marginals(coded(2, 2), 1)
    with pytest.raises(InvalidInput, match="another domain"):
        radius(net, Workload.marginals(PEOPLE, 1))
    for wrong in ({"alpha": 0.0}, {"alpha": 1.0}, {"alpha": math.nan}, {"gap": 0.0}, {"programs": 0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            radius(net, asked, **wrong)
    monkeypatch.setattr(covering, "MAX_DISTANCES", 100)
    with pytest.raises(TooLarge, match="too large to be checked"):
        radius(net, asked)
