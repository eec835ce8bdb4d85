"""Costs of a person as those of a record: computed another way, rounded to the safe side, refused where none."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import delta_between, gaussian_distribution
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP, gaussian_delta
from qrelease.privacy.unit import Unit

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
COSTS = st.one_of(
    st.builds(PureDP, st.floats(1e-6, 100)),
    st.builds(ZCDP, st.floats(1e-9, 100)),
    st.builds(ApproxDP, st.floats(1e-6, 20), st.floats(1e-15, 0.1)),
)


def test_one_record_is_a_unit_of_its_own_and_changes_nothing():
    for neighbours in Neighbours:
        unit = Unit(neighbours)
        assert (unit.relation, unit.size, unit.public_records) == (neighbours, 1, neighbours is SWAP)
        for cost in (PureDP(0.3), ZCDP(0.3), ApproxDP(0.3, 1e-9)):
            assert unit.of_a_record(cost) is unit.of_the_unit(cost) is cost


def test_a_replaced_person_is_twice_as_many_records_and_their_number_is_private():
    assert (Unit(ADD, 5).size, Unit(SWAP, 5).size) == (5, 10)
    assert {Unit(n, m).relation for n in Neighbours for m in (1, 5)} == {ADD}
    assert not any(Unit(n, m).public_records for n in Neighbours for m in (1, 5))
    assert Unit(SWAP, 1).of_a_record(PureDP(1.0)) == PureDP(0.5)


@given(cost=COSTS, at_most=st.integers(1, 50), neighbours=st.sampled_from(Neighbours))
def test_what_is_handed_on_comes_to_no_more_than_was_charged(cost, at_most, neighbours):
    unit = Unit(neighbours, at_most)
    each = unit.of_a_record(cost)
    k = unit.size
    match each:
        case PureDP(epsilon):
            whole = {"epsilon": Fraction(epsilon) * k}
        case ZCDP(rho):
            whole = {"rho": Fraction(rho) * k * k}
        case ApproxDP(epsilon, delta):  # the sum, term by term
            grown = math.fsum(math.exp(i * epsilon) for i in range(k)) * (1 - 1e-13)
            whole = {"epsilon": Fraction(epsilon) * k, "delta": Fraction(delta) * Fraction(grown)}
    charged = cost.to_json()
    for name, value in whole.items():
        assert value <= Fraction(charged[name])
        assert value >= Fraction(charged[name]) * Fraction(1 - 1e-8)
    back = unit.of_the_unit(each).to_json()
    assert all(abs(back[name] - value) <= 1e-8 * value for name, value in charged.items())
    for name, value in whole.items():  # rounded up
        assert Fraction(back[name]) >= value


@pytest.mark.parametrize("size", [2, 3, 7])
def test_the_delta_of_gaussian_noise_on_a_group_is_within_what_the_group_is_said_to_cost(size):
    """σ bought for one record, and its exact δ on `size` records: below the claim, and not by much at small ε."""
    unit = Unit(ADD, size)
    for claim in (ApproxDP(0.5, 1e-6), ApproxDP(4.0, 1e-3)):
        each = unit.of_a_record(claim)
        sigma = analytic_gaussian_sigma(1, each.epsilon, each.delta)
        assert gaussian_delta(size, sigma, claim.epsilon) <= claim.delta
        assert gaussian_delta(size, sigma / 1.3, claim.epsilon) > claim.delta


def test_zcdp_of_a_group_is_tight_for_gaussian_noise():
    claim = ZCDP(2.0)
    variance = 1 / (2 * Fraction(Unit(ADD, 3).of_a_record(claim).rho))
    first = gaussian_distribution(variance)
    second = first.map(lambda x: x + 3)
    for epsilon in (0.5, 2.0, 5.0):
        low, _ = delta_between(first, second, epsilon)
        assert low <= gaussian_delta(3, math.sqrt(variance), epsilon) * 1.05
    assert variance == pytest.approx(9 / 4)


def test_what_cannot_be_divided_is_refused():
    with pytest.raises(InvalidInput, match="too little to be divided among 1,048,576 records"):
        Unit(ADD, 1 << 20).of_a_record(PureDP(5e-324))
    with pytest.raises(InvalidInput, match="does not hold for 10 records"):
        Unit(ADD, 10).of_the_unit(ApproxDP(100.0, 1e-9))
    with pytest.raises(InvalidInput, match="the cost must be"):
        Unit(ADD, 2).of_a_record(1.0)


def test_a_refusal_says_whose_cost_it_names():
    with (
        pytest.raises(InvalidInput, match=r"got epsilon=0.25 \(of each of 4 records of a person\)"),
        Unit(ADD, 4).explained(),
    ):
        raise InvalidInput("needs a delta, got epsilon=0.25")
    for unit, told in ((Unit(ADD, 4), "no column"), (Unit(ADD), "got epsilon=1")):
        with pytest.raises(InvalidInput, match=f"{told}$"), unit.explained():
            raise InvalidInput(told)


def test_it_says_who_is_compared():
    assert str(Unit(SWAP)) == "replace-one"
    assert str(Unit(ADD, 1500)) == "add-remove of a person with at most 1,500 records"
