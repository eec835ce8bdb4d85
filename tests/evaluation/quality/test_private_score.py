"""The private scores: their sensitivity by every neighbour, of records and persons, their noise, error and charge."""

import itertools

import numpy as np
import pytest
from scipy import stats

import qrelease as qr
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.quality import private_score
from qrelease.evaluation.quality.marginals import distances, marginal_score, sets_of
from qrelease.evaluation.quality.private_score import MarginalScores
from qrelease.privacy.costs import Neighbours
from tests.statistics.doors import door

DOMAIN = Domain.coded({"a": 2, "b": 2, "c": 3})

PAIRS = sets_of(3, 2, 100)


def table(rows):
    return Table(DOMAIN, tuple(np.array([r[i] for r in rows], np.uint8) for i in range(3)))


RECORDS = list(itertools.product(range(2), range(2), range(3)))

PUBLIC = table([RECORDS[i] for i in (0, 0, 3, 5, 7, 11)])


SCORES = MarginalScores(PUBLIC)


def distance(private):
    return private_score.marginal_distance(door(private, qr.PureDP(1.0)), PUBLIC, 5, PAIRS)


def test_no_neighbour_moves_the_distance_further_than_its_sensitivity_and_some_move_it_so_far():
    rng = np.random.default_rng(2)
    added, replaced = set(), set()
    for _ in range(30):
        rows = [RECORDS[i] for i in rng.integers(0, 12, 5)]
        here = distance(table(rows))
        for other in RECORDS:
            added.add(abs(distance(table([*rows, other])) - here))
            replaced.add(abs(distance(table([*rows[1:], other])) - here))
    assert max(added) == private_score.sensitivity(PUBLIC, PAIRS, Neighbours.ADD_REMOVE) == 18
    assert max(replaced) == private_score.sensitivity(PUBLIC, PAIRS, Neighbours.REPLACE_ONE) == 36


def scored(private, cost, neighbours, seed=None):
    entropy = None if seed is None else qr.Entropy.insecure(seed)
    with qr.Ledger.open(None, cost, neighbours=neighbours, person=private.person_column) as ledger:
        curator = qr.Curator(private, ledger, entropy)
        found = curator.estimate(SCORES, cost)
        assert ledger.remaining is None
        with pytest.raises(qr.BudgetExceeded):
            curator.estimate(SCORES, cost)
    return found


PRIVATE = table([RECORDS[i] for i in np.random.default_rng(3).integers(0, 12, 400)])

EXACT = [marginal_score(distances(PRIVATE, [PUBLIC], sets_of(3, k, 200))[0]) for k in (1, 2, 3)]


@pytest.mark.parametrize("cost", [qr.PureDP(1.0), qr.ZCDP(0.2), qr.ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize("neighbours", qr.Neighbours, ids=lambda n: n.value)
def test_the_error_that_is_told_holds_nearly_always(cost, neighbours):
    missed = broken = 0
    for seed in range(60):
        found = scored(PRIVATE, cost, neighbours, seed)
        assert [*found.value] == ["1-marginal", "2-marginal", "3-marginal"]
        within = [low <= exact <= high for (low, high), exact in zip(found.interval, EXACT, strict=True)]
        missed += not all(within)
        assert found.insecure
        errors = [abs(v - exact) for v, exact in zip(found.value.values(), EXACT, strict=True)]
        broken += max(errors) > found.promise
    assert max(missed, broken) <= stats.binom.ppf(1 - 1e-6, 60, 0.05)
    assert not scored(PRIVATE, cost, neighbours).insecure


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.7, False)])
def test_the_noise_has_the_scale_that_the_cost_buys(factor, right):
    """Of pure epsilon, under replace-one, where nothing is spent on counting: of scale 1000 / (n epsilon / 3)."""
    drawn = []
    for seed in range(400):
        found = scored(PRIVATE, qr.PureDP(3.0), "replace-one", seed)
        drawn += [v - exact for v, exact in zip(found.value.values(), EXACT, strict=True)]
    scale = factor * 1000 / (len(PRIVATE) * 1.0)
    assert bool(stats.kstest(drawn, stats.laplace(scale=scale).cdf).pvalue > 1e-4) is right


def test_what_cannot_be_scored_is_charged_nothing():
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        curator = qr.Curator(PRIVATE, ledger)
        for other in (table([]), Table(Domain.coded({"a": 2}), (np.zeros(3, np.uint8),))):
            with pytest.raises(InvalidInput):
                curator.estimate(MarginalScores(other), qr.PureDP(1.0))
        assert ledger.spent is None


def test_marginals_of_too_many_cells_are_refused_before_the_charge():
    wide = Domain.coded({"a": 1200, "b": 1200, "c": 1200})
    private = Table(wide, tuple(np.zeros(5, np.uint16) for _ in range(3)))
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        with pytest.raises(qr.TooLarge, match="cells"):
            qr.Curator(private, ledger).estimate(MarginalScores(private), qr.PureDP(1.0))
        assert ledger.spent is None


def test_a_cost_that_buys_next_to_nothing_has_an_interval_that_says_so():
    found = scored(PRIVATE, qr.PureDP(1e-9), "add-remove", 1)
    assert min(high - low for low, high in found.interval) > 1000
    assert found.promise is None


def test_the_public_records_are_not_stored():
    found = scored(PRIVATE, qr.PureDP(1.0), "add-remove", 1)
    assert found.parameters == {"public": {"records": 6}}


@pytest.mark.parametrize(("neighbours", "persons"), [("add-remove", 1), ("replace-one", 2)])
def test_of_persons_it_is_of_the_records_that_are_kept_and_noised_for_all_that_one_has(neighbours, persons):
    """Each has three records and two are kept; the noise is that of so many records of one."""
    who = [i // 3 for i in range(600)]
    domain = Domain(DOMAIN.attributes, person=Person("who", 2))
    private = Table.of_persons(domain, table([RECORDS[i % 12] for i in range(600)]).columns, who)
    cost = qr.PureDP(4.0)
    found = scored(private, cost, neighbours, 1)
    records, *scores = found.measured
    assert abs(records.value - 400) < 100
    share = cost.epsilon * (1 - private_score.COUNTING) / 3
    for measured, sets in zip(scores, (3, 3, 1), strict=True):
        scale = float(measured.law.removeprefix("discrete Laplace, scale "))
        assert scale == pytest.approx(len(PUBLIC) * sets * 2 * persons / share, rel=1e-4)
    assert found.at_most == 2


def test_records_that_are_no_table_are_refused():
    with pytest.raises(InvalidInput, match=r"must be a table, as of Table\.from_frame"):
        MarginalScores({"a": [1]})
