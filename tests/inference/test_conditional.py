"""Records under a condition: drawn from the model's conditional distribution, and from no other."""

import numpy as np
import pytest
from scipy import stats
from worlds import coded

from qrelease.data.domain import Domain
from qrelease.data.predicates import parse
from qrelease.errors import InvalidInput
from qrelease.inference.conditional import conditional
from qrelease.inference.histogram import Histogram
from qrelease.inference.hypotheses import Dual
from qrelease.inference.measurement import Measurement
from qrelease.inference.noisy_answers import Answers
from qrelease.inference.synopsis import Scaled
from qrelease.inference.weighted_records import WeightedCodes, WeightedRecords
from qrelease.noise.distributions import Noise
from qrelease.queries.workload import Workload

DOMAIN = coded(3, 4, 5)
CONDITIONS = ["a = 1", "b in 1..2 and c >= 3", "a = 0 or c = 4", "not (a = 0 and b = 0)", "c in {0, 2} and a != 1"]


def histogram():
    made = Histogram(DOMAIN, [(0, 1, 2)], 1000.0)
    made.multiply(np.random.default_rng(5).normal(0, 1.5, 60))
    return made


def synopses():
    """One of each kind, and its weights over the universe."""
    rng = np.random.default_rng(3)
    whole = histogram()
    dual = Dual(DOMAIN, 500.0, "entropic")
    dual.move(Workload.predicates(DOMAIN, "a = 1 and c < 3").groups[0], 1.5)
    cells, weights = rng.integers(0, 60, 200), rng.dirichlet(np.ones(200))
    codes = np.array(np.unravel_index(cells, DOMAIN.shape), np.uint16)
    of_records = np.bincount(cells, weights, 60)
    workload = Workload.marginals(DOMAIN, 2)
    values = rng.random(len(workload)) * 50
    parts = np.split(values, workload.bounds[1:-1])
    noise = Noise("discrete Laplace", 1.0)
    measured = tuple(Measurement(g, v, noise) for g, v in zip(workload.groups, parts, strict=True))
    answers = Answers(workload, values, 600.0, measured)
    return [
        (whole, whole.values),
        (Scaled(whole, 50.0), whole.values),
        (dual, dual.values),
        (WeightedRecords(DOMAIN, cells, weights, 90.0), of_records),
        (WeightedCodes(DOMAIN, codes, weights, 90.0), of_records),
        (answers, answers.histogram.values),
    ]


def p_value(drawn, weights):
    """Of a χ² test of records against weights over the universe."""
    cells = np.ravel_multi_index(tuple(drawn), DOMAIN.shape)
    counts = np.bincount(cells, minlength=len(weights))
    assert not counts[weights == 0].any()
    expected = weights[weights > 0] / weights.sum() * len(cells)
    order = np.argsort(expected)
    found, expected = counts[weights > 0][order], expected[order]
    few = np.searchsorted(np.cumsum(expected), 5.0) + 1  # cells of few are one
    found = np.array([found[:few].sum(), *found[few:]])
    expected = np.array([expected[:few].sum(), *expected[few:]])
    return stats.chisquare(found, expected).pvalue if len(found) > 1 else 1.0


@pytest.mark.parametrize("text", CONDITIONS)
def test_records_are_of_the_conditional_distribution(text):
    predicate = parse(text, DOMAIN)
    mask = np.broadcast_to(
        predicate.mask().reshape([n if a in predicate.axes else 1 for a, n in enumerate(DOMAIN.shape)]), DOMAIN.shape
    ).reshape(-1)
    rng = np.random.default_rng(8)
    for synopsis, weights in synopses():
        found = conditional(synopsis, predicate)
        kept = np.where(mask, weights, 0.0)
        share = kept.sum() / weights.sum()
        whole = synopsis.synopsis.total if isinstance(synopsis, Scaled) else synopsis.total
        assert np.isclose(found.total, share * whole)
        drawn = found.sample(20_000, rng)
        assert p_value(drawn, kept) > 1e-3
        # With a third of the probability of one column moved, the same test is certain.
        tilted = kept.reshape(DOMAIN.shape) * np.array([0.7, 1.0, 1.3, 1.0, 0.7])
        tilted = np.where(kept > 0, tilted.reshape(-1) + 0.3 * kept.mean(), 0.0)
        assert p_value(drawn, tilted) < 1e-6


def test_a_cell_of_a_millionth_takes_no_more_than_its_records():
    domain = Domain.coded({chr(ord("a") + i): 4 for i in range(10)})  # 2^20 cells
    wide = Histogram(domain, [(0,), (1,)], 1e6)
    wide.multiply(np.array([-6.0, 0, 0, 0, -6.0, 0, 0, 0]))
    predicate = parse("a = 0 and b = 0 and c = 1", domain)
    found = conditional(wide, predicate)
    assert found.total / wide.total < 1e-6
    assert len(found.weights) == 4**7
    drawn = found.sample(10_000, np.random.default_rng(1))
    assert {int(column[0]) for column in drawn[:3]} == {0, 1}
    assert (np.stack(drawn[:3]) == np.array([[0], [0], [1]])).all()
    assert all(stats.chisquare(np.bincount(column, minlength=4)).pvalue > 1e-4 for column in drawn[3:])


def test_what_cannot_be_conditioned_is_refused_by_name():
    whole = histogram()
    with pytest.raises(InvalidInput, match="no records with"):
        conditional(whole, parse("a in {}", DOMAIN))
    records = WeightedRecords.equal(DOMAIN, np.array([0, 1]), 5.0)
    with pytest.raises(InvalidInput, match="no records with a = 2"):
        conditional(records, parse("a = 2", DOMAIN))
    signed = Dual(DOMAIN, 5.0, "euclidean")
    with pytest.raises(InvalidInput, match="no table"):
        conditional(signed, parse("a = 2", DOMAIN))

    class Mixture:
        domain, total, has_table = DOMAIN, 5.0, True

    with pytest.raises(InvalidInput, match="cannot be drawn from mixture"):
        conditional(Mixture(), parse("a = 2", DOMAIN))
