"""The contract of `statistics.base`, for every statistic of the list."""

from itertools import pairwise

import pytest

from qrelease.errors import BudgetExceeded, QReleaseError
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import Neighbours, split
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.base import Statistic
from tests.statistics.conformance import CASES, contained, estimated, parameter_names, people
from tests.statistics.doors import door
from tests.statistics.more_cases import MORE

cases = pytest.mark.parametrize("case", [*CASES, *MORE], ids=str)


@cases
def test_it_is_a_statistic_of_public_parameters(case):
    assert isinstance(case.statistic, Statistic)
    hash(case.statistic)
    found, _ = estimated(case, people(max(300, case.least)))
    assert list(found.parameters) == parameter_names(case.statistic)
    assert found.statistic == case.statistic.name


@cases
def test_what_is_wrong_is_said_before_a_charge(case):
    with Ledger.open(None, case.cost, dataset="people", neighbours=case.relations[0]) as ledger:
        curator = Curator(people(max(50, case.least)), ledger, Entropy.insecure(1))
        for refused in (*case.refusals, type(case.statistic), object()):
            with pytest.raises(QReleaseError) as caught:
                curator.estimate(refused, case.cost)
            assert "\n" not in str(caught.value)
        with pytest.raises(BudgetExceeded):
            curator.estimate(case.statistic, type(case.cost)(**{k: 2 * v for k, v in case.cost.to_json().items()}))
        assert ledger.spent is None


@cases
@pytest.mark.parametrize("neighbours", Neighbours)
def test_it_spends_at_most_its_cost(case, neighbours):
    if neighbours not in case.relations:
        with pytest.raises(QReleaseError):
            estimated(case, people(max(4000, case.least)), neighbours=neighbours)
        return
    found, spent = estimated(case, people(max(4000, case.least)), neighbours=neighbours)
    assert spent == case.cost == found.cost
    total = Filter(case.cost)
    for spend in found.spends:
        total.spend(spend.cost)
    assert found.spends


@cases
def test_less_than_its_cost_stops_it(case):
    """The filter of the door refuses the draw, so no statistic spends more than its charge unseen."""
    (less, _) = split(case.cost, [9, 1])
    with pytest.raises(BudgetExceeded):
        case.statistic.estimate(door(people(max(300, case.least)), less, case.relations[0]), case.cost)


@cases
def test_a_seed_gives_one_estimate(case):
    assert (
        estimated(case, people(max(300, case.least)), seed=7)[0]
        == estimated(case, people(max(300, case.least)), seed=7)[0]
    )
    assert (
        len(
            {str(estimated(case, people(max(40, case.least)), seed=s)[0].to_json()) for s in range(min(case.seeds, 12))}
        )
        > 1
    )


@cases
@pytest.mark.parametrize("records", [0, 1, 2])
def test_a_table_of_none_or_one_is_a_table(case, records):
    if case.least:
        with pytest.raises(QReleaseError, match="promises nothing"):
            estimated(case, people(records))
        return
    for seed in range(min(case.seeds, 10)):
        found, _ = estimated(case, people(records), seed=seed)
        assert contained(found.value, found.interval)


@cases
def test_the_interval_contains_the_value(case):
    for seed in range(case.seeds):
        found, _ = estimated(case, people(max(500, case.least)), seed=seed)
        assert contained(found.value, found.interval), found
        assert found.method
        assert found.covers


@cases
def test_the_promise_falls_with_the_number_of_records(case):
    domain = people(0).domain
    bounds = [
        case.statistic.error_bound(domain, n, case.cost, case.relations[0], beta=0.05) for n in (1, 10**3, 10**6, 10**9)
    ]
    if None in bounds:  # no theorem is about all tables
        assert bounds == [None] * len(bounds)
        return
    assert all(a >= b for a, b in pairwise(bounds))
    stricter = case.statistic.error_bound(domain, 10**6, case.cost, case.relations[0], beta=0.001)
    assert stricter >= bounds[2]
