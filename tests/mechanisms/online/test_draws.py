"""The draws of a session: each within what was paid for it, and guesses confirmed where they are right."""

import numpy as np
import pytest
from sessions import ADD, DOMAIN, EXACT, SWAP, TABLE
from worlds import private

from qrelease.errors import BudgetExceeded
from qrelease.mechanisms.online.draws import PrivateDraws
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, PureDP
from qrelease.queries.workload import Workload


def draws(seed=0, neighbours=ADD):
    return PrivateDraws(private(TABLE, PureDP(1e-9), neighbours, Entropy.insecure(seed)))


def test_counts_and_answers_have_the_noise_that_was_paid_for_and_leave_the_door_as_it_was():
    """The door's own budget is a billionth: a purchase of the session pays, not that."""
    counts = np.array([draws(seed).count(PureDP(0.1)) for seed in range(400)])
    assert counts.dtype == int
    q = np.exp(-0.1)
    assert counts.mean() == pytest.approx(4_000, abs=3)
    assert counts.var() == pytest.approx(2 * q / (1 - q) ** 2, rel=0.25)
    door = private(TABLE, PureDP(1e-9), ADD)
    asked = Workload.marginals(DOMAIN, [["a"], ["a", "b"]])
    first, second = PrivateDraws(door).measure(asked, ZCDP(0.5))
    assert np.abs(first.values - EXACT.sum(axis=(1, 2))).max() < 10
    assert first.variance == second.variance == pytest.approx(2, rel=1e-3)  # one record is in both: 2 / 2ρ
    assert door.spends == []
    with pytest.raises(BudgetExceeded):
        door.measure(asked, PureDP(1.0))


@pytest.mark.parametrize("text", ["a = 0", "b in {0, 2} and c = 1", "a = 0 or c = 3"])
def test_guesses_within_the_threshold_are_confirmed_and_no_others(text):
    """At noise of a hundredth of a count: the exact answer is of the table, on any columns."""
    (query,) = Workload.predicates(DOMAIN, text).groups
    exact = int(TABLE.histogram() @ mask(text))
    made = draws()
    for off, confirmed in ((0, True), (9, True), (-9, True), (11, False), (-11, False), (0, True)):
        made.open_vector(PureDP(1e3), 1, 10)
        assert made.listening
        assert made.confirms(query, exact + off) == confirmed
        assert made.listening == confirmed


def mask(text):
    a, b, c = np.indices(DOMAIN.shape).reshape(3, -1)
    return {
        "a = 0": a == 0,
        "b in {0, 2} and c = 1": (b != 1) & (c == 1),
        "a = 0 or c = 3": (a == 0) | (c == 3),
    }[text]


def test_a_vector_halts_after_as_many_wrong_guesses_as_were_paid_for():
    (query,) = Workload.predicates(DOMAIN, "a = 0").groups
    made = draws(neighbours=SWAP)
    assert not made.listening
    made.open_vector(ZCDP(1e6), 3, 5)
    for _ in range(3):
        assert made.listening
        assert not made.confirms(query, -1_000)
    assert not made.listening


def test_noise_that_is_not_of_the_system_is_told():
    assert draws().insecure
    assert not PrivateDraws(private(TABLE, entropy=Entropy())).insecure
