"""Single figures: their cost listed in full, and a twin that is convicted; their noise; areas; what a model sees."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

import qrelease as qr
from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.evaluation.audit import compare
from qrelease.evaluation.quality.copies import part
from qrelease.evaluation.quality.marginals import distances, marginal_score, sets_of
from qrelease.evaluation.quality.private_figures import Foretelling, Records, area
from qrelease.evaluation.quality.private_score import QualityScores
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Neighbours
from qrelease.statistics.base import EstimateResult
from qrelease.statistics.private_columns import PrivateColumns
from tests.evaluation.quality.figures import ADD, SWAP, changed, figures, holds, moved
from tests.evaluation.quality.tables import OTHER, REAL
from tests.statistics.doors import door, outcome


@dataclass(frozen=True)
class Alone:
    """One figure as a statistic, of a public number of records."""

    figure: object

    def estimate(self, private, cost):
        drawn = self.figure.draw(private, cost, Records(5, 0.0), 0.05)
        return EstimateResult(drawn.value, drawn.interval, "", "", drawn.measured)


class TooQuiet(PrivateColumns):
    """A broken door: noise and choices for a third of the sensitivity, by numbers that are thrice as large."""

    def measure(self, what, exact, sensitivity, cost):
        return super().measure(what, 3 * np.array(exact), sensitivity, cost)

    def choose(self, what, scores, sensitivity, cost, *, monotone=False):
        return super().choose(what, 3 * scores, sensitivity, cost, monotone=monotone)


TWO = Domain.coded({"a": 2, "b": 2})

FULL = Table(TWO, (np.zeros(4000, np.uint8),) * 2)

CORNERS = QualityScores(Table(TWO, (np.arange(40, dtype=np.uint8) % 2, np.arange(40, dtype=np.uint8) // 20)), "a")


def audits(figure, before, relation, cost, kind):
    for record in itertools.product(*map(range, before.domain.shape)):
        laws = [
            outcome(Alone(figure), private, cost, relation, missing=1e-7, least=1e-11, kind=kind)
            for private in (before, changed(before, record, relation))
        ]
        yield compare(*laws, cost)


@pytest.mark.parametrize("cost", [qr.PureDP(1.0), qr.ZCDP(0.2)], ids=str)
@pytest.mark.parametrize("relation", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize(
    "name", ["1-marginal", "2-marginal", "worst column", "worst pair", "gap of dependence", "gap of covariances"]
)
def test_a_figure_costs_what_is_paid_and_one_for_a_third_of_its_sensitivity_is_convicted(name, relation, cost):
    """All records are equal before: one of another row and column moves a gap as far as is proved."""
    figure = figures(CORNERS)[name]
    assert not any(audit.convicted for audit in audits(figure, FULL, relation, cost, PrivateColumns))
    assert any(audit.convicted for audit in audits(figure, FULL, relation, cost, TooQuiet))


@pytest.mark.parametrize("name", ["gap of dependence", "gap of covariances"])
def test_one_record_moves_a_gap_as_far_as_is_proved(name):
    """By 4n/(n + 1) before it is halved, and by the product of the ranges in standard deviations."""
    found = moved(CORNERS, [(FULL, [changed(FULL, (1, 1), ADD)])], qr.PureDP(1.0), ADD)
    assert found[f"the {name}, summed"] == 1


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.7, False)])
def test_the_noise_has_the_scale_that_a_cost_buys(factor, right):
    """Of pure epsilon, under replace-one: of scale 1000 / (n epsilon)."""
    scores, private = figures(QualityScores(OTHER)), part(REAL, slice(0, 400))
    drawn, cost = [], qr.PureDP(1.0)
    exact = [marginal_score(distances(private, [OTHER], sets_of(4, k, 100))[0]) for k in range(1, 5)]
    for seed in range(300):
        made = door(private, cost, SWAP, noise=seed)
        found = [scores[f"{k}-marginal"].draw(made, qr.PureDP(1 / 4), Records(400, 0.0), 0.05) for k in range(1, 5)]
        drawn += [one.value - score for one, score in zip(found, exact, strict=True)]
    assert bool(stats.kstest(drawn, stats.laplace(scale=factor * 1000 / (400 / 4)).cdf).pvalue > 1e-4) is right


@pytest.mark.parametrize("law", [Noise("discrete Laplace", 15.0), Noise("discrete Gaussian", 20.0)], ids=str)
def test_the_interval_of_an_area_holds_it_whatever_the_counts_and_a_quarter_of_it_does_not(law):
    """Also of few records of one label, and where they are all alike."""
    rng, steps = np.random.default_rng(5), np.arange(12)
    tables = [
        (rng.multinomial(n, w / w.sum()), rng.multinomial(m, w[::-1] / w.sum()))
        for n, m in ((4000, 900), (500, 4000), (300, 300))
        for w in (0.7**steps, np.ones(12))
    ]
    missed = {1.0: 0, 0.25: 0}
    for below, above in tables:
        exact = (above @ (np.tri(12, 12, -1) + np.eye(12) / 2) @ below) / (above.sum() * below.sum())
        for _ in range(20):
            if law.law == "discrete Laplace":
                noise = [np.rint(rng.laplace(0, law.scale, 12)).astype(int) for _ in range(2)]
            else:
                noise = [np.rint(rng.normal(0, law.scale, 12)).astype(int) for _ in range(2)]
            value, interval = area(below + noise[0], above + noise[1], law, 0.05)
            assert interval[0] <= value <= interval[1]
            for width in missed:
                missed[width] += not holds(interval, exact, value, width)
    assert missed[1.0] <= stats.binom.ppf(1 - 1e-6, 120, 0.05) < missed[0.25]


def test_no_records_of_a_label_leave_the_area_open():
    nothing, law = np.zeros(5, np.int64), Noise("discrete Laplace", 1.0)
    for below, above in ((nothing, nothing), (nothing - 4, nothing + 4), (nothing + 3, nothing)):
        value, (low, high) = area(below, above, law, 0.05)
        assert (value, low, high) == (0.5, 0.0, 1.0)


def test_a_record_has_its_step_whatever_comes_before_it_and_whether_its_codes_were_seen():
    """Else one record could move another's count: the public records have neither c = 2 nor every age."""
    pytest.importorskip("sklearn")
    names = tuple(map(str, range(30)))
    domain = Domain((*Domain.coded({"a": 40, "b": 2}).attributes, Attribute("c", "category", categories=names)))
    rng = np.random.default_rng(6)
    a, c = rng.integers(0, 20, 3000), rng.integers(3, 30, 3000)
    model = Foretelling(Table(domain, (a, ((a > 9) ^ (rng.random(3000) < 0.2)).astype(int), c)), 1)
    assert not domain["c"].ordered
    private = Table(domain, tuple(rng.integers(0, size, 70_001) for size in domain.shape))
    order = rng.permutation(len(private))
    whole, turned = (model.histogram(door(t, qr.PureDP(1.0))) for t in (private, part(private, order)))
    assert (whole == turned).all()
    pieces = [part(private, slice(i, i + 777)) for i in range(0, len(private), 777)]
    assert (whole == sum(model.histogram(door(piece, qr.PureDP(1.0))) for piece in pieces)).all()
    assert model.right(door(private, qr.PureDP(1.0))) == model.right(door(part(private, order), qr.PureDP(1.0)))
    assert whole.sum() == len(private)
    assert (model.histogram(door(part(private, slice(0, 0)), qr.PureDP(1.0))) == 0).all()
