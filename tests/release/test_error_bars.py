"""Error bars of a release cover 95 %, and there is none where nothing was measured."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from releases import COST, PAIRS, TABLE, released
from worlds import (
    BOTH,
    PEOPLE,
    mixed,
    random_table,
    true_answers,
)

import qrelease as qr
from qrelease.data.domain import Attribute, Domain
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.inference.noisy_answers import Answers
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.distributions import CONFIDENCE, Noise
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.error_bars import published
from qrelease.release.release import Release

REPEATS = 250
ASKED_LATER = (
    Workload.marginals(PEOPLE, [["sex", "age"], ["sex"], ["age"], ["grade"]])
    + Workload.ranges(PEOPLE, "grade")
    + Workload.predicates(PEOPLE, "sex = F and age in 0..39", "sex = F or grade = 2", "age is missing")
    + Workload.vectors(PEOPLE, [[0.5, 0.25, 1.0]], ["grade"])
)


@pytest.mark.parametrize(
    ("mechanism", "asked", "cost"),
    [
        (Laplace(), PAIRS, PureDP(0.5)),
        (Gaussian(), PAIRS, COST),
        (Laplace(), mixed(), PureDP(0.5)),
        (Gaussian(), mixed(), COST),
        (MWEM(rounds=6, sweeps=1), PAIRS, PureDP(0.5)),
        (MWEM(rounds=6, sweeps=1), PAIRS, COST),
    ],
    ids=str,
)
def test_error_bars_cover_95_per_cent(mechanism, asked, cost):
    """Of what was measured, and of sums over what was measured; whatever the mechanism then made of it."""
    covered, tight, number = 0, 0, 0
    truths = [(later, true_answers(later, TABLE)) for later in (asked, ASKED_LATER)]
    for seed in range(REPEATS):
        found = released(mechanism, asked=asked, cost=cost, seed=seed)
        for later, truth in truths:
            noisy, half = found.error_bars(later)
            known = ~np.isnan(half)
            assert (known == ~np.isnan(noisy)).all()
            covered += int((np.abs(noisy - truth)[known] <= half[known]).sum())
            tight += int((np.abs(noisy - truth)[known] <= half[known] / 1.3).sum())
            number += int(known.sum())
    # Queries of one release share noise: the cautious sample size is the number of releases, not of answers.
    assert CONFIDENCE - 3 * math.sqrt(0.05 * 0.95 / REPEATS) < covered / number < CONFIDENCE + 0.025
    assert tight / number < CONFIDENCE - 0.015


def test_what_was_not_measured_has_no_error_bar():
    found = released(Laplace(), asked=Workload.marginals(PEOPLE, [["sex", "age"]]), cost=PureDP(1.0))
    noisy, half = found.error_bars(Workload.marginals(PEOPLE, [["grade"], ["sex"]]))
    assert np.isnan(noisy[:3]).all()
    assert np.isnan(half[:3]).all()
    assert np.isfinite(noisy[3:]).all()
    assert (half[3:] > 0).all()


def by_hand(*measurements, total=100.0):
    """A release of measurements that were never drawn."""
    asked = Workload(PEOPLE, tuple(m.group for m in measurements))
    answers = Answers(asked, np.concatenate([m.values for m in measurements]), total, measurements)
    return Release(answers, asked, COST, BOTH[0], "none", "hand", {}, measurements, ())


def marginal(columns, values, scale, law="discrete Gaussian", repeats=1):
    (group,) = Workload.marginals(PEOPLE, [columns]).groups
    return Measurement(group, np.asarray(values, float), Noise(law, scale), repeats)


def test_the_best_measurement_is_taken():
    wide = marginal(["sex", "age"], np.arange(8), 1.0)
    rough, fine = marginal(["sex"], [7, 20], 3.0), marginal(["sex"], [7, 20], 1.5)
    half = 1.959963984540054
    noisy, bars = by_hand(wide, rough).error_bars(Workload.marginals(PEOPLE, [["sex"]]))
    assert noisy.tolist() == [6, 22]  # four cells of variance 1, against 9
    np.testing.assert_allclose(bars, 2 * half + 0.5)
    noisy, bars = by_hand(wide, fine).error_bars(Workload.marginals(PEOPLE, [["sex"]]))
    assert noisy.tolist() == [7, 20]  # variance 2.25
    np.testing.assert_allclose(bars, 1.5 * half + 0.5)


def test_repeats_narrow_an_error_bar():
    one, four = (marginal(["sex"], [7, 20], 3.0, repeats=r) for r in (1, 4))
    asked = Workload.marginals(PEOPLE, [["sex"]])
    wide, narrow = (by_hand(m).error_bars(asked)[1] for m in (one, four))
    np.testing.assert_allclose(wide, 3 * 1.959963984540054 + 0.5)
    np.testing.assert_allclose(narrow, (2 * 3 * 1.959963984540054 + 0.5) / 4)


def test_a_sum_over_cells_has_the_bar_of_the_sum():
    found = by_hand(marginal(["age"], [10, 20, 30, 40], 2.0, "discrete Laplace"))
    (noisy,), (half,) = found.error_bars(Workload.predicates(PEOPLE, "age in 0..59"))
    assert noisy == 60
    assert half == pytest.approx(Noise("discrete Laplace", 2.0).half_width(3))
    answer = found.answer("age in 20..59")
    assert (answer.value, answer.noisy) == (50.0, 50.0)
    assert answer.error == pytest.approx(Noise("discrete Laplace", 2.0).half_width(2))
    (noisy,), (half,) = found.error_bars(Workload.predicates(PEOPLE, "age in {}"))
    assert (noisy, half) == (0.0, 0.5)


def test_the_number_of_records_is_measured_and_has_an_error_bar():
    """Where a query weighs all records alike, and no other measurement tells it better."""
    records = Measurement(RECORDS, np.array([90.0]), Noise("discrete Laplace", 5.0))
    found = by_hand(records, marginal(["age"], [10, 20, 30, 40], 100.0))
    everyone = Workload.predicates(PEOPLE, "sex in {F, M}", "age >= 0 or age is missing", "age >= 0")
    half = Noise("discrete Laplace", 5.0).half_width()
    noisy, bars = found.error_bars(everyone)
    assert noisy.tolist() == [90, 90, 60]  # the second as a sum over the ages would be 100, with four times the noise
    assert bars[:2].tolist() == [half, half]
    assert bars[2] > 100
    quarters = Workload.vectors(PEOPLE, [[0.25, 0.25], [0.25, 0.5]], ["sex"]) + Workload.prefixes(PEOPLE, "grade")
    noisy, bars = found.error_bars(quarters)
    np.testing.assert_array_equal(noisy, [22.5, np.nan, np.nan, np.nan, 90])
    assert bars[0] == pytest.approx(Noise("discrete Laplace", 5.0).half_width(1 / 16))
    assert bars[4] == half


@dataclass(frozen=True)
class Tree:
    """A mechanism of a user's: nodes of a tree over one column in one draw, and no count of the records besides."""

    root: bool
    name = "tree"

    def check(self, workload, cost, neighbours):
        """Anything goes."""

    def release(self, private, workload, cost):
        nodes = [[1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4).tolist(), *([[1, 1, 1, 1]] if self.root else [])]
        measured = private.measure(Workload.vectors(private.domain, nodes, ["code"]), cost)
        values = np.maximum(measured[0].values[2:6], 0.0)
        synopsis = WeightedRecords(private.domain, np.arange(4), values / values.sum(), float(values.sum()))
        return MechanismResult(synopsis, tuple(measured), {})


@pytest.mark.parametrize("root", [True, False])
def test_a_tree_of_ones_own_without_a_count_is_released_and_shown(root, tmp_path):
    """Its root is the number of records; without one nothing is said of what was not measured, but all is saved."""
    domain = Domain((Attribute("code", "coded", codes=4),))
    table, asked = random_table(domain, 300, 0), Workload.marginals(domain, 1)
    with Ledger.open(None, PureDP(1.0)) as ledger:
        made = Curator(table, ledger, Entropy.insecure(1)).release(Tree(root), asked, PureDP(1.0))
    made.save(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("not even the number of records was measured" in page) != root
    for bars in (made.model_bars(), qr.load(tmp_path / "out").model_bars()):
        assert np.isfinite(bars).all() if root else np.isnan(bars).all()
    later = made.answer("code in {0, 1, 2}")
    everyone = made.answer("code in {0, 1, 2, 3}")
    assert math.isfinite(everyone.error) == math.isfinite(later.model_error) == root
    if root:
        noisy, width = made.error_bars(Workload(domain, (RECORDS,)))
        assert (noisy, width) == (everyone.noisy, everyone.error)
        assert noisy == made.measurements[0].values[-1]
        assert np.abs(made.answers() - true_answers(asked, table)).max() <= made.model_bars().max()


@pytest.mark.parametrize("mechanism", [MWEM(), MWEM(rounds=4)], ids=str)
def test_the_noisy_count_is_among_the_measurements(mechanism):
    (count,) = [m for m in released(mechanism).measurements if m.group == RECORDS]
    assert (count.noise.law, count.noise.scale) == ("discrete Laplace", pytest.approx(100))  # 1/100 of epsilon = 1
    assert count.values.shape == (1,)
    assert not [m for m in released(mechanism, relation=Neighbours.REPLACE_ONE).measurements if m.group == RECORDS]


TYPED = Domain(
    (
        Attribute("sex", "category", categories=("F", "M"), missing=("",)),
        Attribute("age", "number", edges=(18, 30, 40, 70), integer=True, missing=("-1",)),
        Attribute("born", "date", edges=(0, 100, 365), missing=("?",)),
        Attribute("height", "number", edges=(1.0, 1.5, 2.0)),
        Attribute("code", "coded", codes=4),
    )
)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    "mechanism", [MWEM(rounds=2), MWEM(rounds=4, choice="query"), FittedRecords(order=2, weighted_records=200)]
)
def test_every_answer_has_an_error_bar_that_holds(mechanism, neighbours):
    """Measured or not: 19 times out of 20 the truth lies within; those that nothing measured are bounded by margins."""
    within, unmeasured = [], 0
    table = random_table(TYPED, 400, 0)
    asked = Workload.marginals(TYPED, 3) + Workload.predicates(
        TYPED, "age in 18..29 and sex = F", "code = 1 or code = 2"
    )
    truth = true_answers(asked, table)
    for seed in range(8):
        with Ledger.open(None, ApproxDP(1.0, 1e-6), neighbours=neighbours) as ledger:
            made = Curator(table, ledger, Entropy.insecure(seed)).release(mechanism, asked, ApproxDP(1.0, 1e-6))
        bars = made.model_bars()
        assert np.isfinite(bars).all()
        unmeasured += np.isnan(made.error_bars()[1]).sum()
        within.append(np.mean(np.abs(made.answers() - truth) <= bars))
    assert np.mean(within) > 0.95
    assert unmeasured


def test_a_bar_that_is_cut_off_at_0_holds_whenever_that_of_the_noisy_count_does():
    """For every answer, truth and noise of a grid; and it is never wider than by the triangle inequality."""
    domain, nothing = Domain.coded({"a": 1}), np.full(1, np.nan)
    asked, width, narrower = Workload.marginals(domain, [["a"]]), 3.0, 0
    for noisy in np.arange(-8.0, 9.0):
        for answer in np.arange(-2.0, 9.0):
            (bar,) = published(asked, np.array([answer]), nothing, np.array([noisy]), np.array([width]), None, np.inf)
            truths = np.arange(max(noisy - width, 0), noisy + width + 1)
            assert (np.abs(truths - answer) <= bar).all()
            assert bar <= abs(answer - noisy) + width
            narrower += bar < abs(answer - noisy) + width
    assert narrower > 20


def test_no_bar_reaches_beyond_all_records():
    """A count is at least 0 and at most that of all records, whatever noise a condition on many columns has."""
    domain = Domain.coded({"a": 2, "b": 2})
    asked = Workload.marginals(domain, [["a", "b"]])
    answers, wide, nothing = np.array([50.0, 20.0, 20.0, 110.0]), np.full(4, 900.0), np.full(4, np.nan)

    def bars(other):  # 100 records, within 10
        assert other.groups[0].axes == ()
        return np.full(len(other), 100.0), np.full(len(other), 10.0)

    assert published(asked, answers, wide, nothing, nothing, bars, 100.0).tolist() == [60.0, 90.0, 90.0, 110.0]
    narrow = np.array([5.0, 90.0, 95.0, 900.0])
    assert published(asked, answers, narrow, nothing, nothing, bars, 100.0).tolist() == [5.0, 90.0, 90.0, 110.0]
