"""Plans: the first choice is the best one in truth, too."""

import math

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.local import Coin, plan, serve
from qrelease.local.crowd import insecure_reports
from qrelease.local.planning import mean_inverse


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 2), (1.0, 200), (4.0, 50)])
def test_deviations_of_shares_are_those_that_reports_show(epsilon, k):
    n, rng, choices = 1_000, np.random.default_rng(3), plan(epsilon, n=1_000, k=k)
    assert [c.deviation for c in choices] == sorted(c.deviation for c in choices)
    assert len(choices) == 5
    for choice in choices:
        if choice.client.name in ("k-ary", "local hashing"):
            server = serve(choice.client)
            values = [
                server.estimate(server.from_codes(insecure_reports(choice.client, np.zeros(n, np.int64), rng))).value[
                    1:
                ]
                for _ in range(max(300 // (k - 1), 100))  # of k - 1 shares each
            ]
            assert np.std(values) == pytest.approx(choice.deviation, rel=0.1)


def test_the_choice_is_the_known_one():
    assert plan(0.5, n=100, k=2)[0].client.name == "k-ary"
    assert plan(1.0, n=100, k=1000)[0].client.name in ("optimised unary", "local hashing")
    assert plan(9.0, n=100, k=20)[0].client.name == "k-ary"
    assert plan(0.3, n=100)[0].client.name in ("coin", "hybrid")
    assert plan(4.0, n=100)[0].client.name == "hybrid"
    # Many questions at a small ε: one of them each; few at a large ε: all.
    assert plan(0.5, n=10_000, m=36)[0].sampled
    assert not plan(24.0, n=10_000, m=3)[0].sampled
    assert plan(1.0, n=100, m=4)[0].of_all(4).epsilon == 1
    assert len(plan(24.0, n=100, m=3)[0].of_all(3)) == 3


def test_the_mean_of_one_over_the_number_of_answers_is_exact():
    n, m = 12, 3
    chances = [math.comb(n, j) * (1 / m) ** j * (1 - 1 / m) ** (n - j) for j in range(n + 1)]
    expected = sum(p / j for j, p in enumerate(chances) if j) / (1 - chances[0])
    assert mean_inverse(n, m) == pytest.approx(expected)
    assert mean_inverse(n, 1) == 1 / n
    rng = np.random.default_rng(1)
    assert mean_inverse(800, 4) == pytest.approx(np.mean(1 / rng.binomial(800, 1 / 4, 100_000)), rel=1e-3)


def test_the_deviation_of_a_mean_is_the_largest_over_values():
    choice = next(c for c in plan(1.0, n=500) if c.client.name == "coin")
    assert choice.deviation == pytest.approx(math.sqrt(max(serve(Coin(1.0)).variance(v) for v in (0, 0.5, 1)) / 500))


def test_bad_plans_are_refused():
    for bad in ({"n": 0}, {"n": 10, "m": 0}, {"n": 10, "k": 1}):
        with pytest.raises(InvalidInput):
            plan(1.0, **bad)
    for epsilon in (math.nan, math.inf, "x", None, 0):
        with pytest.raises(InvalidInput, match="epsilon"):
            plan(epsilon, n=10)


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"n": 10, "m": 4097}, "at most 4,096 questions, got 4,097"), ({"n": (1 << 40) + 1, "m": 2}, r"at most 2\^40")],
)
def test_plans_that_would_fill_the_memory_are_refused(asked, message):
    with pytest.raises(InvalidInput, match=message):
        plan(1.0, **asked)
    with pytest.raises(InvalidInput, match="m must be at most"):
        plan(1.0, n=10, m=10**12)


def test_as_many_people_as_there_may_be_are_planned_for():
    assert plan(1.0, n=1 << 40, m=2)[0].deviation == pytest.approx(plan(1.0, n=1 << 30, m=2)[0].deviation / 32)
