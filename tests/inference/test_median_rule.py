"""Halving of candidates: they are left whose side the answer is on, and in the end the one that is close."""

import math

import numpy as np
import pytest
from rules import (
    ADVERSARIES,
    EXACT,
    NET,
    distribution,
    measured,
    updates_made,
)
from worlds import PEOPLE, coded, random_table

from qrelease.errors import InvalidInput
from qrelease.inference.median_rule import MedianRule
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.inference.nets import Listed, quantiles
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.queries.workload import Workload


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [1, 2, 3, 8, 31, 200])
def test_halving_ends_with_the_candidate_that_is_close(size, seed):
    rng = np.random.default_rng(seed)
    cells = np.arange(PEOPLE.size)
    others = [WeightedRecords(PEOPLE, cells, rng.dirichlet(np.full(24, 0.3)), 7.0) for _ in range(size - 1)]
    near = distribution(random_table(PEOPLE, 100, seed))
    net = Listed((*others[: size // 2], near, *others[size // 2 :]))
    found = [updates_made(MedianRule(net, 0.1), near, adversary, seed) for adversary in ADVERSARIES]
    assert {bound for _, bound in found} == {math.floor(math.log2(size))}
    assert all(made <= bound for made, bound in found)
    assert any(made >= 2 for made, _ in found) or size < 8


def test_halving_keeps_those_on_the_side_of_the_answer():
    asked = Workload.predicates(PEOPLE, "sex = F")
    shares = NET.synopses
    answers = np.array([y.answer(asked)[0] / y.total for y in shares])
    rule = MedianRule(NET, 0.1)
    state = rule.start(PEOPLE, [], 60.0)
    assert state.answer(asked)[0] == pytest.approx(60 * np.median(answers))
    above = rule.update(state, measured(asked, [60.0], EXACT))
    below = rule.update(state, measured(asked, [0.0], EXACT))
    np.testing.assert_array_equal(above.kept, np.flatnonzero(answers > np.median(answers)))
    np.testing.assert_array_equal(below.kept, np.flatnonzero(answers < np.median(answers)))


def test_if_no_candidate_agrees_all_stay():
    asked = Workload.predicates(PEOPLE, "sex = F")
    rule = MedianRule(Listed(NET.synopses[:1] * 3), 0.1)
    state = rule.update(rule.start(PEOPLE, [], 60.0), measured(asked, [1e6], EXACT))
    assert len(state.kept) == 3


def test_a_median_needs_candidates_over_the_same_domain():
    with pytest.raises(InvalidInput, match="another domain"):
        MedianRule(NET, 0.1).start(coded(4), [], 10.0)

    class Nothing:
        domain = fractions = synopsis = to_json = NotImplemented

        def __len__(self):
            return 0

    with pytest.raises(InvalidInput, match="candidates must hold at least one synopsis"):
        MedianRule(Nothing(), 0.1)
    for wrong in (None, [1, 2], MultiplicativeWeights()):
        with pytest.raises(InvalidInput, match="candidates must be as qrelease"):
            MedianRule(wrong, 0.1)


@pytest.mark.parametrize("radius", [0.0, 1.0, -0.1, math.nan, math.inf, True, "0.1"])
def test_a_radius_that_is_none_is_refused(radius):
    with pytest.raises(InvalidInput, match="radius must be"):
        MedianRule(NET, 0.1, radius)


def test_an_update_is_promised_where_a_candidate_is_proved_to_be_closer_than_alpha():
    """Of one column of three cells every table has a grid point within 1/8 on each prefix: by theorem, or found."""
    domain = coded(3)
    net, asked = quantiles(domain, 1 / 8), Workload.prefixes(domain, "a")
    assert MedianRule(net, 0.2, 1 / 8).proved(None)
    assert not MedianRule(net, 1 / 8, 1 / 8).proved(asked)
    assert MedianRule(net, 0.2).proved(asked)
    assert not MedianRule(net, 1e-3).proved(asked)
    assert not MedianRule(net, 0.2).proved(None)  # of queries that are not known there is no radius
    assert not MedianRule(net, 0.2).proved(Workload.prefixes(coded(4), "a"))
