"""MWEM: rounds that share a cost exactly, what is measured again, and what it learns."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import (
    BOTH,
    PEOPLE,
    PROPERTY,
    coded,
    full_matrix,
    mixed,
    private,
    random_table,
    run,
    table_of,
    true_answers,
)

from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import Measurement
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.mechanisms.base import parameters
from qrelease.mechanisms.iterative.construction import Round, iterate
from qrelease.mechanisms.iterative.mwem import MWEM, rounds_for
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.distributions import Noise
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.queries.workload import Workload

PURE, APPROX, CONCENTRATED = PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1)
TABLE = random_table(PEOPLE, 200, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("rounds", v) for v in (0, -1, True, np.True_, 2.5, math.nan, math.inf, "3", [3])],
        *[("sweeps", v) for v in (0, -1, True, np.True_, 2.5, math.nan, math.inf, "3", None)],
        *[("selection", v) for v in (0, 1, -0.1, math.nan, True, "0.5", None)],
        *[("singles", v) for v in (-0.1, 0.99, 1, math.nan, True, "0.5", None)],
        *[("choice", v) for v in ("marginal", None, 1)],
        *[("rule", v) for v in ("gumbel", 1)],
    ],
)
def test_bad_parameters_of_mwem(name, value):
    with pytest.raises(InvalidInput, match=name):
        MWEM(**{name: value})


def test_numpy_parameters_of_mwem():
    found = MWEM(rounds=np.int64(3), selection=np.float64(0.5), singles=np.float64(0.25), sweeps=np.int32(2))
    assert found == MWEM(rounds=3, selection=0.5, singles=0.25, sweeps=2)
    json.dumps(parameters(found))


def test_a_universe_too_large_is_refused_by_mwem_and_not_by_the_baselines():
    domain = coded(*[2] * 55)
    asked = Workload.marginals(domain, 1)
    with pytest.raises(TooLarge, match=r"2\^55"):
        MWEM().check(asked, PURE, BOTH[0])
    result, _ = run(Laplace(), random_table(domain, 50, 0), asked, PURE)
    assert result.synopsis.answer(asked).shape == (110,)


def test_answers_that_do_not_fit_are_refused_by_mwem():
    """Of a million cells there are half a million million ranges: 4 TB for each copy of their answers."""
    with pytest.raises(TooLarge):
        MWEM().check(Workload.ranges(coded(1_000_000), "a"), PURE, BOTH[0])


def test_rounds_beyond_counting_are_refused():
    with pytest.raises(QReleaseError):
        MWEM(rounds=10**30).check(mixed(), PURE, BOTH[0])


class Always:
    """A distinguisher that chooses the same group, for nothing."""

    def __init__(self, number):
        self.number = number

    def distinguish(self, private, state, workload, cost, measurement):
        return Workload(workload.domain, (workload.groups[self.number],))


def test_a_group_that_is_measured_again_is_averaged():
    asked = Workload.marginals(PEOPLE, 1)
    door = private(TABLE, PureDP(10.0))
    rule = MultiplicativeWeights()
    state = rule.start(PEOPLE, asked.sets, 200.0)
    kept = []
    rounds = Round.equal(PureDP(10.0), 5, 0.2)
    state = iterate(door, asked, state, rule, Always(1), rounds, kept)
    (m,) = kept
    assert (m.repeats, m.group) == (5, asked.groups[1])
    assert [s.cost for s in door.spends] == [r.measurement for r in rounds]
    again = [private(TABLE, PureDP(10.0)).measure(asked, rounds[0].measurement)[1] for _ in range(1)]
    assert m.noise.scale == pytest.approx(again[0].noise.scale / 3)  # one group, not three
    assert isinstance(state, Histogram)


def test_a_measurement_under_other_noise_is_kept_apart():
    asked = Workload.marginals(PEOPLE, 1)
    rule = MultiplicativeWeights()
    earlier = Measurement(asked.groups[1], np.full(4, 50.0), Noise("discrete Laplace", 77.0))
    kept = [earlier]
    iterate(private(TABLE), asked, rule.start(PEOPLE, asked.sets, 200.0), rule, Always(1),
            Round.equal(PureDP(1.0), 2, 0.5), kept)  # fmt: skip
    assert kept[0] is earlier
    assert [m.repeats for m in kept] == [1, 2]


@given(st.floats(1e-6, 1e6), st.integers(1, 300), st.floats(0.001, 0.999), st.sampled_from([PureDP, ZCDP]))
@PROPERTY
def test_rounds_share_a_cost_exactly(amount, number, selection, kind):
    cost = kind(amount)
    rounds = Round.equal(cost, number, selection)
    assert len(rounds) == number
    parts = [Fraction(*next(iter(c.to_json().values())).as_integer_ratio()) for r in rounds
             for c in (r.selection, r.measurement)]  # fmt: skip
    assert Fraction(amount) * (1 - Fraction(1, 10**12)) <= sum(parts) <= Fraction(amount)
    assert rounds[0] == rounds[-1]
    assert float(parts[0] / (parts[0] + parts[1])) == pytest.approx(selection)


@pytest.mark.parametrize("choice", ["group", "query"])
@pytest.mark.parametrize("cost", [PURE, CONCENTRATED])
def test_the_number_of_rounds_grows_with_records_and_budget(cost, choice):
    asked = Workload.marginals(PEOPLE, 2)
    more = type(cost)(10 * next(iter(cost.to_json().values())))
    few, many, richer = (rounds_for(asked, c, BOTH[0], n, choice) for c, n in ((cost, 1e3), (cost, 1e5), (more, 1e3)))
    assert 1 <= few < many
    assert few < richer
    assert rounds_for(asked, type(cost)(1e-9), BOTH[0], 1.0, choice) == 1
    assert isinstance(few, int)


@pytest.mark.parametrize("cost", [PURE, APPROX])
def test_mwem_learns_what_the_columns_alone_do_not_tell(cost):
    domain = coded(4, 4, 4)
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 20_000)
    table = table_of(domain, np.stack([first, (first + rng.integers(0, 2, 20_000)) % 4, first], axis=1))
    asked = Workload.marginals(domain, 2)
    truth = full_matrix(asked) @ table.histogram()
    result, _ = run(MWEM(), table, asked, cost)
    alone = Histogram(domain, [(0,), (1,), (2,)], 20_000.0).answer(asked)
    assert np.abs(result.synopsis.answer(asked) - truth).sum() < 0.15 * np.abs(alone - truth).sum()


def test_a_small_workload_is_measured_at_once_and_comes_close_to_the_baseline():
    """Where nothing need be selected, the fit to everything loses little to plain noise, and gives a table too."""
    domain = coded(4, 3, 5)
    table = random_table(domain, 5_000, 1)
    asked = Workload.marginals(domain, 2)
    truth = true_answers(asked, table)

    def error(mechanism):
        drafts = [run(mechanism, table, asked, PureDP(1.0), BOTH[0], seed=s)[0] for s in range(10)]
        return np.mean([np.abs(d.synopsis.answer(asked) - truth).sum() for d in drafts])

    assert error(MWEM()) < 1.3 * error(Laplace())
