"""Separate noisy answers: tables that are nearest to them, and how groups share a cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import (
    BOTH,
    PEOPLE,
    PROPERTY,
    coded,
    random_table,
    run,
)

from qrelease.errors import TooLarge
from qrelease.mechanisms.additive_noise import project
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.queries.workload import Workload

PURE, APPROX, CONCENTRATED = PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1)
TABLE = random_table(PEOPLE, 200, 0)


def test_too_many_separate_answers_are_refused():
    asked = Workload.ranges(coded(12_000), "a")
    with pytest.raises(TooLarge, match="separate answers are too many"):
        Laplace().check(asked, PURE, BOTH[0])


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    st.floats(1e-3, 1e6),
    st.integers(0, 2**32 - 1),
)
@PROPERTY
def test_project_gives_the_nearest_table(values, total, seed):
    values = np.array(values)
    found = project(values, total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, rel=1e-6, abs=1e-6)
    for other in np.random.default_rng(seed).dirichlet(np.full(len(values), 0.3), 20) * total:
        assert np.linalg.norm(values - found) <= np.linalg.norm(values - other) * (1 + 1e-9) + 1e-6


@pytest.mark.parametrize("values", [[1e17, 0.0], [1e17, 1e17], [-1e17, -1e17], [3e15, 1.0, -3e15]])
def test_project_survives_noise_beyond_all_records(values):
    found = project(np.array(values), 1.0)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("cost", "kind"), [(ApproxDP(1.0, 1e-9), PureDP), (ApproxDP(1.0, 0.0), PureDP)])
def test_few_groups_are_bought_in_pure_epsilon(cost, kind):
    _, door = run(MWEM(rounds=3), TABLE, Workload.marginals(PEOPLE, 2), cost, BOTH[0])
    assert {type(s.cost) for s in door.spends} == {kind}


def test_many_groups_are_bought_in_zcdp():
    domain = coded(*[2] * 7)
    _, door = run(
        MWEM(rounds=3), random_table(domain, 40, 0), Workload.marginals(domain, 3), ApproxDP(1.0, 1e-9), BOTH[0]
    )
    assert {type(s.cost) for s in door.spends} == {ZCDP}
