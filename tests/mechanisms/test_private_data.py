"""The door to private counts: every draw has the stated law and is paid for first; error bars cover 95 %."""

import math
import os
from fractions import Fraction

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from laws import below
from pieces import cut_from
from scipy import optimize, special, stats
from worlds import (
    BOTH,
    PEOPLE,
    PROPERTY,
    SpyEntropy,
    coded,
    full_matrix,
    matrix,
    mixed,
    moved,
    private,
    random_table,
    repeated,
    table_of,
    true_answers,
)

from qrelease._util import parallel
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.inference.measurement import RECORDS, noise_for
from qrelease.inference.residuals import ResidualPlan
from qrelease.mechanisms.private_data import SAMPLERS
from qrelease.noise.calibration import selection_epsilon
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP, zcdp_of
from qrelease.queries.families import Residuals
from qrelease.queries.workload import Group, Workload

COSTS = [PureDP(0.5), ZCDP(0.05)]
LAWS = {PureDP: "discrete Laplace", ZCDP: "discrete Gaussian", ApproxDP: "rounded Gaussian"}


def p_value(draws, law, scale):
    """Chi-square of integer draws against the law, over about twenty bins of equal probability."""
    shares = np.linspace(0.05, 0.95, 19)
    continuous = stats.laplace if law == "discrete Laplace" else stats.norm
    edges = np.unique(np.floor(continuous.ppf(shares, scale=scale)))
    law_of_bins = np.diff([0, *below(law, scale, edges), 1])
    found = np.diff([0, *np.searchsorted(np.sort(draws), edges, side="right"), len(draws)])
    return stats.chisquare(found, law_of_bins * len(draws)).pvalue


def assert_law(draws, law, scale):
    """The right scale passes; one off by 30 % either way does not."""
    draws = np.asarray(draws)
    np.testing.assert_array_equal(draws, np.rint(draws))
    assert p_value(draws, law, scale) > 1e-3
    assert p_value(draws, law, scale * 1.3) < 1e-6
    assert p_value(draws, law, scale / 1.3) < 1e-6


RNG = np.random.default_rng(0)
ASKED = {
    "marginals": Workload.marginals(coded(50, 60), 1) + Workload.marginals(coded(50, 60), 2),
    "ranges": Workload.ranges(coded(80), "a"),
    "prefixes": Workload.prefixes(coded(2500), "a"),
    "vectors": Workload.vectors(coded(3), RNG.random((3000, 3))),
    "whole vectors": repeated(coded(3), RNG.integers(0, 2, (3000, 3))),
    "mixture": Workload.ranges(coded(60, 2), "a") + Workload.vectors(coded(60, 2), RNG.random((500, 2)), ["b"]),
}
# How many answers one record moves, by one each: added or removed, replaced. The others are left to brute force.
MOVED = {"marginals": (3, 6), "prefixes": (2500, 2499)}


def expected_scale(name, cost, relation):
    """b or σ in counts."""
    order = 1 if isinstance(cost, PureDP) else 2
    if name in MOVED:
        total = MOVED[name][BOTH.index(relation)]
    else:
        total = sum(moved(matrix(g.queries) * g.queries.unit, order, relation) for g in ASKED[name].groups)
    if isinstance(cost, ApproxDP):
        return math.sqrt(total) * analytic_sigma(cost)
    return total / cost.epsilon if order == 1 else math.sqrt(total / (2 * cost.rho))


def analytic_sigma(cost):
    """Balle & Wang 2018, Theorem 8, at sensitivity 1, solved in floats."""

    def excess(sigma):
        a, b = 0.5 / sigma, cost.epsilon * sigma
        return special.ndtr(a - b) - math.exp(cost.epsilon) * special.ndtr(-a - b) - cost.delta

    return optimize.brentq(excess, 0.01, 1000)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", [*COSTS, ApproxDP(0.5, 1e-4)])
@pytest.mark.parametrize("name", ASKED)
def test_every_measurement_has_the_noise_that_its_sensitivity_asks_for(name, cost, relation):
    asked = ASKED[name]
    door = private(random_table(asked.domain, 100, 0), cost, relation, Entropy.insecure(11))
    scale = expected_scale(name, cost, relation)
    law = LAWS[type(cost)]
    unit = min(g.queries.unit for g in asked.groups)
    found = door.measure(asked, cost)
    assert [m.group for m in found] == list(asked.groups)
    exact = np.concatenate([x * g.queries.unit for g, x in zip(asked.groups, door.exact(asked), strict=True)])
    assert_law((np.concatenate([m.values for m in found]) - exact) / unit, law, scale / unit)
    for m in found:
        assert (m.noise.law, m.noise.unit, m.repeats) == (law, unit, 1)
        assert m.noise.scale == pytest.approx(scale, rel=1e-9)


@pytest.fixture
def in_parts(monkeypatch):
    """So many answers are drawn at a time."""
    return lambda answers: monkeypatch.setattr("qrelease.mechanisms.private_data._DRAWN", answers)


@pytest.mark.parametrize("drawn", [1, 7, 20])
def test_what_is_drawn_in_parts_meets_its_own_answers(drawn, in_parts):
    """At such a cost there is hardly any noise."""
    in_parts(drawn)
    cost = ZCDP(1e30)
    plan = ResidualPlan.choose(PEOPLE, Workload.marginals(PEOPLE, 2).sets)
    for asked in (mixed(), plan.workload):
        table = random_table(PEOPLE, 80, 1)
        assert len(asked.cuts(drawn)) > 1
        found = private(table, cost, entropy=Entropy.insecure(0)).measure(asked, cost)
        assert [m.group for m in found] == list(asked.groups)
        counts = table.counts([g.axes for g in asked.groups])
        exact = [g.queries.apply(c) * g.queries.unit for g, c in zip(asked.groups, counts, strict=True)]
        np.testing.assert_array_equal(np.concatenate([m.values for m in found]), np.concatenate(exact))


def test_parts_have_noise_of_their_own_which_is_the_same_on_however_many_cores(in_parts):
    in_parts(40)
    domain = coded(*[4] * 8)
    asked, table = Workload.marginals(domain, 3), table_of(domain, np.empty((0, 8), np.int64))
    assert len(asked.cuts(40)) > 50

    def noise(entropy):
        return np.concatenate([m.values for m in private(table, ZCDP(0.1), entropy=entropy).measure(asked, ZCDP(0.1))])

    found = {}
    for number in (1, 2, 5):
        with cut_from(parallel.MIN_PARALLEL_CELLS, number):
            found[number] = noise(Entropy.insecure(3))
    np.testing.assert_array_equal(found[1], found[2])
    np.testing.assert_array_equal(found[1], found[5])
    sigma = math.sqrt(asked.moved(2, replace=False) / 0.2)
    assert_law(found[1], "discrete Gaussian", sigma)
    for other in (noise(Entropy.insecure(4)), noise(Entropy()), noise(Entropy()), noise(SpyEntropy(3))):
        # Parts of the same size, compared with each other and with those of other streams: no two are alike.
        parts = np.concatenate([found[1], other]).reshape(-1, 32)
        products = np.abs(np.corrcoef(parts)[np.triu_indices(len(parts), 1)])
        assert products.max() < 0.95
        assert np.mean(products) == pytest.approx(math.sqrt(2 / math.pi / 31), rel=0.05)


def test_a_stream_apart_is_insecure_as_the_one_it_comes_from():
    for entropy in (Entropy(), Entropy.insecure(7)):
        assert entropy.apart().insecure_seed == entropy.insecure_seed
    one, other = Entropy.insecure(7), Entropy.insecure(7)
    first, second = one.apart(), one.apart()
    again = other.apart()
    np.testing.assert_array_equal(first.words(5000), again.words(5000))
    assert not np.isin(second.words(5000), Entropy.insecure(7).apart().words(5000)).any()
    assert not np.isin(one.words(5000), Entropy.insecure(7).words(4)).any()


def test_exact_answers_are_exact():
    table = random_table(PEOPLE, 80, 1)
    asked = mixed()
    found = np.concatenate([x * g.queries.unit for g, x in zip(asked.groups, private(table).exact(asked), strict=True)])
    np.testing.assert_array_equal(found, true_answers(asked, table))


def test_noise_is_fresh_every_time_and_for_every_query():
    asked = Workload.marginals(coded(2000), 1)
    door = private(random_table(asked.domain, 10, 0), PureDP(2.0))
    first, second = (door.measure(asked, PureDP(0.1))[0].values for _ in range(2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.1


@pytest.mark.parametrize("cost", COSTS)
def test_the_number_of_records_has_noise_under_add_remove(cost):
    table = random_table(PEOPLE, 50, 0)
    draws = []
    door = private(table, PureDP(1e9) if isinstance(cost, PureDP) else ZCDP(1e9), entropy=Entropy.insecure(3))
    for _ in range(4000):
        n, measured = door.count(cost)
        draws.append(n - 50)
    law, scale = ("discrete Laplace", 2.0) if isinstance(cost, PureDP) else ("discrete Gaussian", math.sqrt(10))
    assert_law(draws, law, scale)
    assert (measured.group, measured.noise, measured.values.tolist()) == (RECORDS, Noise(law, scale), [n])


def test_the_number_of_records_is_free_where_it_is_public():
    spy = SpyEntropy(0)
    door = private(random_table(PEOPLE, 50, 0), PureDP(1.0), Neighbours.REPLACE_ONE, spy)
    assert door.count(PureDP(0.5)) == door.count(None) == (50.0, None)
    assert (door.spends, spy.taken) == ([], 0)


def test_the_number_of_records_is_never_free_where_it_is_private():
    spy = SpyEntropy(0)
    door = private(random_table(PEOPLE, 50, 0), PureDP(1.0), Neighbours.ADD_REMOVE, spy)
    with pytest.raises(InvalidInput, match="has a cost"):
        door.count(None)
    assert spy.taken == 0


SCORES = np.array([0, 30, 50, 20], np.int64)


def exponential_law(scores, gamma):
    weights = np.exp(gamma * (scores - scores.max()))
    return weights / weights.sum()


def permute_and_flip_law(scores, gamma):
    return np.array(reference.permute_and_flip_law(scores.tolist(), gamma))


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
def test_selection_has_the_law_of_its_cost(rule, cost):
    """Sensitivity 10: P(r) ∝ e^(ε s/20). Under zCDP ε = √8ρ (bounded range) for the one rule, √2ρ for the other."""
    door = private(random_table(PEOPLE, 5, 0), type(cost)(1e9), entropy=Entropy.insecure(21))
    picks = np.bincount([door.select(SCORES, 10, cost, rule) for _ in range(12_000)], minlength=4)
    epsilon = 0.5 if isinstance(cost, PureDP) else math.sqrt((8 if rule == "exponential" else 2) * 0.05)
    law = exponential_law if rule == "exponential" else permute_and_flip_law
    assert stats.chisquare(picks, law(SCORES, epsilon / 20) * 12_000).pvalue > 1e-3
    assert stats.chisquare(picks, law(SCORES, epsilon * 1.3 / 20) * 12_000).pvalue < 1e-6
    assert stats.chisquare(picks, law(SCORES, epsilon / 1.3 / 20) * 12_000).pvalue < 1e-6


@given(st.fractions(Fraction(1, 10**9), 10**6))
@PROPERTY
def test_a_selection_paid_in_zcdp_never_costs_more(rho):
    """The ε that is run satisfies ε² <= 8ρ, in exact arithmetic, and hardly less."""
    cost = ZCDP(float(rho))
    epsilon = selection_epsilon(cost, "exponential")
    exact = 8 * Fraction(cost.rho)
    assert exact * (1 - Fraction(1, 10**9)) < epsilon**2 <= exact


def test_queries_over_another_domain_are_refused_before_a_draw():
    door = private(random_table(coded(4, 3), 9, 0))
    asked = Workload.marginals(coded(3, 4), 2)
    for ask in (door.exact, lambda w: door.measure(w, PureDP(1.0))):
        with pytest.raises(InvalidInput, match="over another domain than the table"):
            ask(asked)
    assert door.spends == []


def test_a_count_is_added_up_as_integers():
    """Noise beyond 2^53 as a float would hide no record at all: n + Z would be rounded by where n is even."""
    cost, table = PureDP(2.0**-50), random_table(coded(2), 3, 0)
    for seed in (15114, 19547, 20951):  # of few thousands one has so much
        drawn = int(SAMPLERS["discrete Laplace"](1 / Fraction(cost.epsilon), 1, Entropy.insecure(seed))[0])
        assert abs(drawn) > 1 << 53
        assert float(drawn) + 3 != float(drawn + 3)
        assert private(table, cost, entropy=Entropy.insecure(seed)).count(cost)[0] == float(drawn + 3)


# --- what it costs -----------------------------------------------------------------------------------------------
DRAWS = {
    "measure": lambda door, cost: door.measure(mixed(), cost),
    "count": lambda door, cost: door.count(cost),
    "select": lambda door, cost: door.select(SCORES, 1, cost, "exponential"),
    "flip": lambda door, cost: door.select(SCORES, 1, cost, "permute-and-flip"),
}


@pytest.mark.parametrize("kind", [PureDP, ZCDP])
@pytest.mark.parametrize("draw", DRAWS)
def test_overspending_is_refused_before_a_word_is_drawn(draw, kind):
    spy = SpyEntropy(0)
    door = private(random_table(PEOPLE, 20, 0), kind(1.0), entropy=spy)
    DRAWS[draw](door, kind(0.75))
    spent, taken = list(door.spends), spy.taken
    assert taken > 0
    with pytest.raises(BudgetExceeded, match=r"total .*=1; spent .*=0\.75; requested .*=0\.5"):
        DRAWS[draw](door, kind(0.5))
    assert (door.spends, spy.taken) == (spent, taken)
    DRAWS[draw](door, kind(0.25))
    assert [s.cost for s in door.spends] == [kind(0.75), kind(0.25)]


@pytest.mark.parametrize("draw", DRAWS)
def test_the_spend_is_written_down_before_the_first_word(draw):
    door = private(random_table(PEOPLE, 20, 0), PureDP(1.0))
    door.entropy = SpyEntropy(0, before=lambda: seen.append((door.filter.spent, len(door.spends))))
    seen = []
    DRAWS[draw](door, PureDP(0.5))
    assert seen == [(PureDP(0.5), 1)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("draw", DRAWS)
def test_a_fork_inside_a_mechanism_draws_nothing(draw):
    """Parent and child would both draw for the whole cost of one charge."""
    door = private(random_table(PEOPLE, 20, 0), PureDP(1.0))
    if not (pid := os.fork()):
        code = 1
        try:
            DRAWS[draw](door, PureDP(1.0))
        except LedgerError:
            code = 0
        os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    DRAWS[draw](door, PureDP(1.0))
    assert door.filter.spent == PureDP(1.0)


def test_spends_say_what_was_drawn():
    door = private(random_table(PEOPLE, 20, 0), ZCDP(1.0))
    door.measure(Workload.marginals(PEOPLE, [["sex", "age"]]), ZCDP(0.25))
    door.measure(mixed(), ZCDP(0.25))
    door.measure(Workload(PEOPLE, (Group((), Residuals(())),)), ZCDP(0.25))
    door.select(SCORES, 1, ZCDP(0.125), "exponential")
    door.count(ZCDP(0.125))
    assert [s.to_json() for s in door.spends] == [
        {"what": "measure cells of sex * age", "rho": 0.25},
        {"what": "measure 6 groups of queries", "rho": 0.25},
        {"what": "measure residuals of all records", "rho": 0.25},
        {"what": "select by exponential", "rho": 0.125},
        {"what": "count the records", "rho": 0.125},
    ]


def test_a_repr_shows_no_record():
    door = private(random_table(PEOPLE, 12_345, 0))
    assert "12345" not in repr(door)
    assert "table" not in repr(door)


def test_measurements_are_unbiased():
    asked = mixed()
    table = random_table(PEOPLE, 40, 2)
    door = private(table)
    runs = np.array([np.concatenate([m.values for m in door.measure(asked, PureDP(20.0))]) for _ in range(2000)])
    deviation = noise_for(asked, PureDP(20.0), Neighbours.ADD_REMOVE)[0].variance ** 0.5
    np.testing.assert_allclose(runs.mean(axis=0), full_matrix(asked) @ table.histogram(), atol=5 * deviation / 44)


def test_a_filter_of_another_kind_refuses():
    door = private(random_table(PEOPLE, 5, 0), PureDP(1.0))
    with pytest.raises(InvalidInput, match="cannot hold"):
        door.measure(mixed(), ZCDP(0.1))
    assert door.filter.spent is None
    assert Filter(PureDP(1.0)).spent is None


@pytest.mark.parametrize("call", ["select", "select_apart"])
def test_a_selection_that_cannot_be_paid_for_names_its_call_and_what_to_do(call):
    """What it tells to spend instead is covered by the charge, all of it."""
    cost = ApproxDP(1.0, 1e-9)
    door = private(random_table(PEOPLE, 5, 0), cost)

    def draw(part):
        if call == "select":
            return door.select(SCORES, 1, part, "exponential")
        return door.select_apart("cells", SCORES[None], 1, part, "exponential")

    with pytest.raises(InvalidInput, match=rf"^private\.{call} takes PureDP or ZCDP, got ApproxDP\(.*zcdp_of\(cost\)$"):
        draw(cost)
    assert not door.spends
    draw(zcdp_of(cost))
    assert [spend.cost for spend in door.spends] == [zcdp_of(cost)]


def test_a_selection_by_no_rule_is_refused():
    with pytest.raises(InvalidInput, match="must be exponential or permute-and-flip, got 'exponentail'"):
        selection_epsilon(PureDP(1.0), "exponentail")


def test_what_is_no_workload_is_refused_before_it_is_paid_for():
    cost = PureDP(1.0)
    door = private(table_of(coded(2, 2, 2), [[0, 0, 0]]), cost)
    with pytest.raises(InvalidInput, match=r"private.measure takes a Workload, such as .*got an object of type tuple"):
        door.measure(((0, 1), (1, 2)), cost)
    assert not door.spends
