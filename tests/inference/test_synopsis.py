"""A synopsis made to another scale, and what each kind of synopsis can do besides answering."""

import numpy as np
import pytest
from worlds import PEOPLE, coded, mixed, private, random_table

from qrelease.errors import InvalidInput
from qrelease.inference.histogram import Histogram
from qrelease.inference.residual_synopses import Linear, Modelled
from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.inference.synopsis import Estimator, Scaled, SelfAssessed, Synopsis, Tabulated, Weighted
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.privacy import ZCDP
from qrelease.queries.workload import Workload


def records(seed, count=5, total=30.0):
    rng = np.random.default_rng(seed)
    return WeightedRecords(PEOPLE, rng.integers(0, 24, count), rng.dirichlet(np.ones(count)), total)


def test_a_scaled_one_stands_for_more_records():
    made = records(1)
    scaled = Scaled(made, 90.0)
    np.testing.assert_allclose(scaled.answer(mixed()), 3 * made.answer(mixed()))
    assert (scaled.total, scaled.domain, scaled.has_table) == (90.0, PEOPLE, True)
    drawn = (s.sample(7, np.random.default_rng(0)) for s in (scaled, made))
    assert all((a == b).all() for a, b in zip(*drawn, strict=True))


def test_a_scaled_one_says_what_it_is_made_of():
    made = records(2)
    assert Scaled(made, 90.0).to_json() == {"type": "scaled", "total": 90.0, "synopsis": made.to_json()}
    with pytest.raises(InvalidInput, match="another domain"):
        Scaled(made, 90.0).answer(Workload.marginals(coded(2, 4, 3), 1))


def test_what_a_synopsis_can_do_is_seen_by_what_it_has():
    """Error bars, bars of a model, a table, records: releases ask for them by these kinds."""
    table = random_table(PEOPLE, 100, 0)
    whole = Histogram(PEOPLE, [(0, 1, 2)], 10.0)
    cost = ZCDP(0.5)
    plan = ResidualPlan.choose(PEOPLE, [(0, 1)])
    estimates = Estimates.of(PEOPLE, private(table, cost).measure(plan.workload, cost))
    fit = Modelled.of(estimates, Workload.marginals(PEOPLE, [["sex", "age"]]))
    kinds = (Estimator, SelfAssessed, Tabulated, Weighted)
    for made, expected in (
        (whole, ()),
        (records(0), (Weighted,)),
        (Scaled(whole, 5.0), ()),
        (Linear(estimates), (Estimator,)),
        (fit, (Estimator, SelfAssessed, Tabulated)),
    ):
        assert isinstance(made, Synopsis)
        assert tuple(kind for kind in kinds if isinstance(made, kind)) == expected, type(made)
    assert not isinstance(object(), Synopsis)
