"""Every update rule with every distinguisher through one suite, and the mechanism that is made of them.

A new rule or distinguisher adds a line to RULES, MARGINAL_RULES or DISTINGUISHERS in `rules.py`.
"""

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from rules import DISTINGUISHERS, MARGINAL_RULES, RULES, TABLE, ProjectedPerceptron
from scipy import stats
from worlds import BOTH, PEOPLE, SpyEntropy, coded, full_matrix, mixed, private, random_table, table_of, true_answers

from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.inference.histogram import Histogram
from qrelease.inference.hypotheses import Dual
from qrelease.inference.measurement import RECORDS
from qrelease.inference.median_rule import MedianRule
from qrelease.inference.medians import Medians
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.inference.nets import Listed, ProductNet, quantiles, small_databases
from qrelease.inference.update_rules import Hedge, Perceptron, Projection
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.mechanisms.iterative.construction import MAX_ROUNDS, IterativeConstruction, Round, iterate
from qrelease.mechanisms.iterative.distinguishers import PerturbedLeader, Select
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.oracles import ConjunctionOracle, PredicateOracle
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

ASKED = mixed()
TRUTH = true_answers(ASKED, TABLE)
PICK = Select("query")
ELSEWHERE = Workload.marginals(coded(2), 1)

# --- every rule with every distinguisher -------------------------------------------------------------------------

LOADERS = {
    "histogram": Histogram.from_json,
    "dual": Dual.from_json,
    "weighted records": WeightedRecords.from_json,
    "medians": lambda domain, content: Medians(
        Listed(tuple(WeightedRecords.from_json(domain, c["synopsis"]) for c in content["candidates"])), content["total"]
    ),
}


def rounds_of(rule, distinguisher, asked, relation=BOTH[0], seed=0, rounds=12, cost=400.0):
    """The state after some rounds with little noise, the door, and the measurements."""
    door = private(TABLE, PureDP(1e9), relation, Entropy.insecure(seed))
    state = rule.start(PEOPLE, asked.sets, float(len(TABLE)))
    found = []
    plan = [Round(PureDP(cost), PureDP(cost))] * rounds
    return iterate(door, asked, state, rule, distinguisher, plan, found), door, found


class Conformance:
    asked = ASKED

    @pytest.mark.parametrize("relation", BOTH)
    def test_rounds_spend_what_they_were_given_and_learn(self, rule, distinguisher, relation):
        state, door, found = rounds_of(rule, distinguisher, self.asked, relation)
        assert [s.cost for s in door.spends] == [PureDP(400.0)] * 24
        assert sum(m.repeats for m in found) == 12
        truth = true_answers(self.asked, TABLE)
        before = np.abs(rule.start(PEOPLE, self.asked.sets, 400.0).answer(self.asked) - truth)
        after = np.abs(state.answer(self.asked) - truth)
        assert after.max() < before.max()
        assert (after**2).sum() < (before**2).sum()

    def test_what_was_measured_is_near_the_truth(self, rule, distinguisher):
        _, _, found = rounds_of(rule, distinguisher, self.asked)
        for m in found:
            truth = true_answers(Workload(PEOPLE, (m.group,)), TABLE)
            assert np.abs(m.values - truth).max() < 1

    def test_queries_are_of_the_workload_where_that_is_promised(self, rule, distinguisher):
        _, _, found = rounds_of(rule, distinguisher, self.asked, rounds=3)
        rows = full_matrix(self.asked)
        for m in found:
            assert set(m.group.axes) in map(set, self.asked.sets)
            if distinguisher.confined:
                for row in full_matrix(Workload(PEOPLE, (m.group,))):
                    assert (rows == row).all(axis=1).any()

    def test_the_state_is_a_synopsis(self, rule, distinguisher):
        state, _, _ = rounds_of(rule, distinguisher, self.asked, rounds=4)
        assert state.domain == PEOPLE
        assert state.total == 400
        assert state.answer(self.asked).shape == (len(self.asked),)
        other = Workload.predicates(PEOPLE, "sex = F and grade in 1..2 or age in 0..19")
        assert np.isfinite(state.answer(other)).all()
        with pytest.raises(InvalidInput, match="another domain"):
            state.answer(ELSEWHERE)
        if state.has_table:
            assert state.answer(self.asked).min() >= 0
            codes = state.sample(50, np.random.default_rng(0))
            assert [len(c) for c in codes] == [50] * len(PEOPLE)
            assert all(c.min() >= 0 and c.max() < n for c, n in zip(codes, PEOPLE.shape, strict=True))
        else:
            with pytest.raises(InvalidInput, match="no synthetic table"):
                state.sample(50, np.random.default_rng(0))

    def test_its_description_makes_it_again(self, rule, distinguisher):
        state, _, _ = rounds_of(rule, distinguisher, self.asked, rounds=4)
        content = json.loads(json.dumps(state.to_json(), allow_nan=False))
        again = LOADERS[content["type"]](PEOPLE, content)
        np.testing.assert_allclose(again.answer(self.asked), state.answer(self.asked), rtol=1e-9, atol=1e-9)
        assert again.total == state.total

    def test_the_same_noise_gives_the_same_state(self, rule, distinguisher):
        one, two = (rounds_of(rule, distinguisher, self.asked, seed=5, rounds=3, cost=1.0)[0] for _ in range(2))
        np.testing.assert_array_equal(one.answer(self.asked), two.answer(self.asked))

    def test_much_noise_breaks_nothing(self, rule, distinguisher):
        state, _, _ = rounds_of(rule, distinguisher, self.asked, rounds=5, cost=1e-4)
        assert np.isfinite(state.answer(self.asked)).all()
        assert state.total == 400

    @pytest.mark.parametrize("relation", BOTH)
    def test_a_bounded_rule_is_one_of_the_construction(self, rule, distinguisher, relation):
        if not hasattr(rule, "update_bound"):
            with pytest.raises(InvalidInput, match="rule must have a bound on its updates"):
                IterativeConstruction(rule, distinguisher)
            return
        mechanism = IterativeConstruction(rule, distinguisher)
        mechanism.check(self.asked, PureDP(1e4), relation)
        door = private(TABLE, PureDP(1e4), relation, Entropy.insecure(2))
        draft = mechanism.release(door, self.asked, PureDP(1e4))
        bound = rule.update_bound(PEOPLE, self.asked if distinguisher.confined else None)
        assert draft.choices["rounds"] == bound
        drawn = sum(m.repeats for m in draft.measurements if m.group != RECORDS)
        assert 1 <= drawn <= bound
        assert draft.synopsis.total == pytest.approx(400, abs=20)


@pytest.mark.parametrize("distinguisher", DISTINGUISHERS, ids=str)
@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)
class TestConformance(Conformance):
    pass


@pytest.mark.parametrize("distinguisher", [d for d in DISTINGUISHERS if getattr(d, "choice", "") == "group"], ids=str)
@pytest.mark.parametrize("rule", MARGINAL_RULES, ids=lambda r: type(r).__name__)
class TestConformanceOnMarginals(Conformance):
    asked = Workload.marginals(PEOPLE, 1) + Workload.marginals(PEOPLE, 2)


# --- the mechanism -----------------------------------------------------------------------------------------------

COSTS = [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1)]


def released(mechanism, table, asked, cost, relation=BOTH[0], seed=0):
    mechanism.check(asked, cost, relation)
    door = private(table, cost, relation, Entropy.insecure(seed))
    return mechanism.release(door, asked, cost), door


class Endless:
    """A rule that never comes close: all rounds are made."""

    alpha = 1e-3

    def start(self, domain, sets, total):
        return Dual(domain, total, "entropic")

    def update(self, state, measurements):
        return state

    def update_bound(self, domain, workload=None):
        return 7


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1), ApproxDP(1.0, 0.0)], ids=str)
def test_all_rounds_together_cost_what_was_charged(cost, relation):
    draft, door = released(IterativeConstruction(Endless()), TABLE, ASKED, cost, relation)
    counted = relation is Neighbours.ADD_REMOVE
    assert len(door.spends) == 14 + counted
    assert draft.choices["rounds"] == 7
    again = Filter(cost)
    for spend in door.spends:
        again.spend(spend.cost)
    assert not again.admits(PureDP(cost.epsilon / 1000) if not isinstance(cost, ZCDP) else ZCDP(cost.rho / 1000))
    assert len({spend.cost for spend in door.spends[counted:]}) == 1  # ε₀ for each, as in the text


def test_the_split_of_the_text():
    """ε₀ = ε/2T for pure ε; and for (ε, δ) no less than ε/(4√(T ln(1/δ)))."""
    _, door = released(IterativeConstruction(Endless()), TABLE, ASKED, PureDP(1.0), BOTH[1])
    assert Fraction(door.spends[0].cost.epsilon) == pytest.approx(1 / 14)
    for rounds in (1, 7, 100, 5000):
        for delta in (1e-3, 1e-6, 1e-12):

            class Many(Endless):
                def update_bound(self, domain, workload=None, rounds=rounds):
                    return rounds

            _, cost = IterativeConstruction(Many())._shares(ASKED, ApproxDP(1.0, delta), BOTH[1])
            text = 1 / (4 * math.sqrt(rounds * math.log(1 / delta)))
            # Under zCDP a draw at ρ₀ is the exponential mechanism at √(8ρ₀), and Gaussian noise of variance 1/2ρ₀,
            # against 2/ε₀² of Laplace noise.
            each = cost.epsilon / (2 * rounds) if isinstance(cost, PureDP) else math.sqrt(4 * cost.rho / (2 * rounds))
            assert each > text


@pytest.mark.parametrize("relation", BOTH)
def test_it_ends_when_the_worst_query_is_near(relation):
    """|v - q(y)| < 3αn/2, with every bit of it told: less than T(α) rounds are made, and nothing is worse than 2α."""
    for alpha in (0.1, 0.05, 0.02):
        draft, door = released(IterativeConstruction(Projection(alpha)), TABLE, ASKED, PureDP(1e7), relation)
        assert len(door.spends) < 2 * draft.choices["rounds"]
        error = np.abs(draft.synopsis.answer(ASKED) - TRUTH).max() / 400
        assert error < 1.5 * alpha + 1e-3
        last = draft.measurements[-1]
        assert np.abs(last.values - draft.synopsis.answer(Workload(PEOPLE, (last.group,)))).max() < 600 * alpha


@pytest.mark.parametrize("relation", BOTH)
def test_the_number_of_records_is_bought_only_where_it_is_private(relation):
    draft, door = released(IterativeConstruction(Projection(0.2)), TABLE, ASKED, PureDP(1.0), relation)
    bought = relation is Neighbours.ADD_REMOVE
    assert [s.what.startswith("count") for s in door.spends] == [bought, *[False] * (len(door.spends) - 1)]
    assert (draft.measurements[0].group == RECORDS) == bought
    assert draft.choices["records"] == (draft.measurements[0].values[0] if bought else 400)


def test_the_default_rule_is_finer_for_more_records_and_more_budget():
    def alpha(copies, epsilon):
        domain = coded(2, 2)
        table = table_of(domain, [[0, 0]] * copies)
        asked = Workload.marginals(domain, 2)
        return released(IterativeConstruction(), table, asked, PureDP(epsilon), BOTH[1])[0].choices["alpha"]

    assert alpha(100, 1.0) > alpha(10_000, 1.0) > alpha(1_000_000, 1.0)
    assert alpha(10_000, 0.1) > alpha(10_000, 1.0) > alpha(10_000, 10.0)


def test_a_configuration_is_public_and_frozen():
    mechanism = IterativeConstruction(Projection(0.1), Select("query"))
    assert str(mechanism) == (
        "IterativeConstruction(rule=Projection(alpha=0.1), distinguisher=Select(choice='query', rule='exponential'),"
        " beta=0.05)"
    )
    assert mechanism == replace(mechanism)
    with pytest.raises(AttributeError):
        mechanism.rule = None


# --- what it promises --------------------------------------------------------------------------------------------


def concentrated(domain, n):
    """All records the same: as far from uniform as can be."""
    return table_of(domain, np.full((n, len(domain)), 1))


SMALL = coded(4, 4)
CELLS = Workload.marginals(SMALL, 1) + Workload.marginals(SMALL, 2)
SINGLES = Workload.marginals(SMALL, 1)
QUARTERS = ProductNet(SMALL, tuple(quantiles(SMALL.project((axis,)), 1 / 4) for axis in (0, 1)))
"""Within 1/4 of any table, on the columns by themselves."""
N = 20_000
TABLES = {"one record": concentrated(SMALL, N), "skewed": random_table(SMALL, N, 3)}
PROMISES = [
    (IterativeConstruction(beta=0.01), PureDP(2.0)),
    (IterativeConstruction(beta=0.01), ZCDP(0.1)),
    (IterativeConstruction(Projection(0.2)), PureDP(2.0)),
    (IterativeConstruction(Hedge(0.3)), ZCDP(0.1)),
    (IterativeConstruction(Perceptron(0.2)), ZCDP(0.1)),
    (IterativeConstruction(ProjectedPerceptron(0.3)), PureDP(8.0)),
    (IterativeConstruction(Projection(0.2), PerturbedLeader(ConjunctionOracle())), ApproxDP(2.0, 1e-6)),
    (IterativeConstruction(Projection(0.25), PerturbedLeader(PredicateOracle())), ApproxDP(4.0, 1e-6)),
    (IterativeConstruction(MedianRule(QUARTERS, 0.26, 0.25)), PureDP(2.0)),
]


def asked_of(mechanism):
    """A median learns no more than its candidates are close for."""
    return SINGLES if isinstance(mechanism.rule, MedianRule) else CELLS


def worst(state, truth, mechanism):
    """The largest error over the mechanism's class of queries, a fraction of n, where the answers are the truth."""
    gaps = truth - state.answer(asked_of(mechanism))
    if isinstance(mechanism.distinguisher, Select):
        return np.abs(gaps).max() / N
    best, oracle = 0.0, mechanism.distinguisher.oracle
    for group, part in zip(CELLS.groups, np.split(gaps, CELLS.bounds[1:-1]), strict=True):
        for weights in (part, -part):
            best = max(best, oracle.best(SMALL.project(group.axes), weights) @ weights)
    return best / N


def failures(mechanism, cost, table, relation, beta, runs):
    """How many of so many runs broke the promise, and the 1 - β quantile of the errors over what was promised."""
    asked = asked_of(mechanism)
    promised, own = (mechanism.error(asked, N, cost, relation, beta=b) for b in (beta, mechanism.beta))
    assert promised < 1
    truth = true_answers(asked, table)
    drafts = [released(mechanism, table, asked, cost, relation, seed)[0] for seed in range(runs)]
    errors = np.array([worst(draft.synopsis, truth, mechanism) for draft in drafts])
    # What a release says of itself, at its own beta, is hardly more, and no less than what came of it.
    for draft in drafts:
        said = draft.choices["promise"]
        assert said["beta"] == mechanism.beta
        assert said["error"] < 1.02 * own * N
    assert np.mean(errors * N > [draft.choices["promise"]["error"] for draft in drafts]) <= max(beta, 0.1)
    return int((errors > promised).sum()), float(np.quantile(errors, 1 - beta)) / promised


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("mechanism", "cost"), PROMISES, ids=str)
def test_promises_are_kept(mechanism, cost, table, relation):
    """At β = 1 % one failure of 12 is possible, two hardly are (0.6 %); and it is no promise that nothing breaks."""
    failed, tightness = failures(mechanism, cost, TABLES[table], relation, 0.01, 12)
    assert failed <= 1
    assert tightness > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("number", range(len(PROMISES)))
def test_promises_are_kept_over_many_runs(number, table):
    """The failure rate of 200 runs is at most β = 10 %, within its 99 % interval."""
    mechanism, cost = PROMISES[number]
    relation = BOTH[(number + len(table)) % 2]
    failed, tightness = failures(mechanism, cost, TABLES[table], relation, 0.1, 200)
    print(f"{mechanism}, {table}, {relation.value}: {failed} of 200 failed; tightness {tightness:.2f}")
    low = 0.0 if failed == 0 else stats.beta.ppf(0.005, failed, 200 - failed + 1)
    assert low <= 0.1


def test_a_median_promises_nothing_unless_its_candidates_are_proved_to_be_close():
    """Of candidates that are all far from the table, no median is near to it."""
    far, cost = small_databases(SMALL, 1), PureDP(2.0)
    for median in (
        MedianRule(far, 0.2),
        MedianRule(far, 0.2, 0.5),
        MedianRule(QUARTERS, 0.2, 0.25),
        MedianRule(QUARTERS, 0.25, 0.25),
    ):
        mechanism = IterativeConstruction(median)
        assert mechanism.error(SINGLES, 10**9, cost, BOTH[1], beta=0.1) == math.inf
        draft, _ = released(mechanism, TABLES["skewed"], SINGLES, cost, BOTH[1])
        assert draft.choices["promise"]["error"] is None
    # Of queries that it was not proved for, as an oracle asks, nothing is known but by a theorem.
    leader = PerturbedLeader(PredicateOracle())
    ends = quantiles(coded(3), 1 / 8)
    asked = Workload.prefixes(coded(3), "a")
    for rule, confined, unconfined in (
        (MedianRule(ends, 0.2), True, False),
        (MedianRule(ends, 0.2, 1 / 8), True, True),
    ):
        promised = [IterativeConstruction(rule, d).error(asked, 10**9, cost, BOTH[1], beta=0.1) for d in (PICK, leader)]
        assert [math.isfinite(p) for p in promised] == [confined, unconfined]
    assert not MedianRule(ends, 0.2).proved(CELLS)  # over another domain


def test_a_rule_that_does_not_learn_breaks_the_promise():
    """What a promise rests on is seen by the test above."""

    class Lazy(Endless):
        alpha = 0.2

        def update_bound(self, domain, workload=None):
            return Projection(0.2).update_bound(domain)

    mechanism = IterativeConstruction(Lazy())
    promised = mechanism.error(CELLS, N, PureDP(2.0), BOTH[1], beta=0.1)
    draft, _ = released(mechanism, TABLES["one record"], CELLS, PureDP(2.0), BOTH[1])
    assert worst(draft.synopsis, true_answers(CELLS, TABLES["one record"]), mechanism) > promised


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("mechanism", [m for m, _ in PROMISES[2:]], ids=str)
def test_promises_are_better_for_more_records_more_budget_and_more_risk(mechanism, relation):
    def promised(n=40_000, rho=1.0, beta=0.1):
        return mechanism.error(asked_of(mechanism), n, ZCDP(rho), relation, beta=beta)

    alpha = mechanism.rule.alpha
    assert promised() > 1.5 * alpha
    assert promised(n=10**9) == pytest.approx(1.5 * alpha, rel=1e-3)
    assert promised(n=20_000) > promised() > promised(n=80_000)
    assert promised(rho=0.5) > promised() > promised(rho=2.0)
    assert promised(beta=0.05) > promised() > promised(beta=0.2)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("beta", [0.5, 0.02, 1e-6])
@pytest.mark.parametrize("cost", [PureDP, lambda e: ApproxDP(e, 1e-9), ZCDP], ids=["pure", "approximate", "zcdp"])
def test_the_promise_of_the_default_never_rises_with_records_or_budget(cost, beta, relation):
    """A least ε and a least n are looked for by halving, which takes that."""
    mechanism = IterativeConstruction(beta=beta)
    steps = 2 ** np.arange(0, 8, 0.25)
    by_epsilon = [mechanism.error(SINGLES, N, cost(float(0.2 * s)), relation, beta=beta) for s in steps]
    by_records = [mechanism.error(SINGLES, round(1000 * s), cost(2.0), relation, beta=beta) for s in steps]
    for found in (by_epsilon, by_records):
        assert (np.diff([p for p in found if p < math.inf]) <= 0).all()
        assert found == sorted(found, reverse=True)
        assert found[-1] < 0.5


def test_the_default_promises_with_no_more_certainty_than_its_rule_is_chosen_for():
    mechanism = IterativeConstruction(beta=0.01)
    at = [mechanism.error(SINGLES, N, PureDP(2.0), BOTH[0], beta=beta) for beta in (0.01, 0.3)]
    assert at[0] == at[1] < 1
    with pytest.raises(InvalidInput, match=r"the default rule is chosen for beta=0.01, got 0.001: give it that beta"):
        mechanism.error(SINGLES, N, PureDP(2.0), BOTH[0], beta=0.001)
    with pytest.raises(InvalidInput, match="beta must be"):
        IterativeConstruction(beta=1.0)


def test_the_promise_of_the_text():
    """Replace-one, pure ε: 3α/4 + E + F with ε₀ = ε/2T, where the text's α is twice the rule's."""
    n, beta, epsilon, rule = 10**7, 0.06, 1.0, Projection(0.1)
    rounds = rule.update_bound(SMALL)
    each, small = beta / (3 * rounds), epsilon / (2 * rounds)
    noise, loss = math.log(2 / each / (1 + math.exp(-small))) / small, 2 * math.log(len(CELLS) / each) / small
    expected = 0.75 * 0.2 + (noise + loss) / n
    found = IterativeConstruction(rule).error(CELLS, n, PureDP(epsilon), BOTH[1], beta=beta)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("relation", BOTH)
def test_nothing_is_promised_to_an_empty_table(relation):
    draft = IterativeConstruction(Projection(0.2)).release(
        private(table_of(CELLS.domain, []), PureDP(2000.0), relation), CELLS, PureDP(2000.0)
    )
    assert draft.choices["promise"]["error"] is None


def test_candidates_that_are_not_all_there_are_refused():
    few = small_databases(CELLS.domain, 1)

    class Few:
        domain, synopsis, to_json = few.domain, few.synopsis, few.to_json

        def __len__(self):
            return len(few)

        def fractions(self, workload):
            yield next(few.fractions(workload))[:-1]

    with pytest.raises(InvalidInput, match=r"synopses, but .* answered"):
        IterativeConstruction(MedianRule(Few(), 0.3)).check(CELLS, PureDP(1.0), BOTH[0])


def test_where_nothing_is_promised():
    few = IterativeConstruction(Projection(0.05))
    assert few.error(CELLS, 100, PureDP(0.1), BOTH[0], beta=0.1) == math.inf
    groups = IterativeConstruction(Projection(0.2), Select("group"))
    assert groups.error(CELLS, 10**9, PureDP(1.0), BOTH[0], beta=0.1) == math.inf


def test_the_promise_of_the_default_is_that_of_the_rule_it_will_choose():
    mechanism, cost = IterativeConstruction(), PureDP(1.0)
    draft, _ = released(mechanism, TABLES["skewed"], CELLS, cost, BOTH[1])
    chosen = IterativeConstruction(Projection(draft.choices["alpha"]))
    promised = mechanism.error(CELLS, N, cost, BOTH[1], beta=0.05)
    assert promised == chosen.error(CELLS, N, cost, BOTH[1], beta=0.05)
    others = [IterativeConstruction(Projection(a)).error(CELLS, N, cost, BOTH[1], beta=0.05) for a in (0.1, 0.3)]
    assert draft.choices["promise"] == {"error": promised * N, "beta": 0.05}
    assert promised <= min(others) * 1.1


@pytest.mark.parametrize("wrong", [{"beta": 0.0}, {"beta": 1.0}, {"beta": math.nan}, {"records": 0}, {"records": 2.5}])
def test_bad_arguments_of_a_promise(wrong):
    arguments = {"records": 100, "beta": 0.1} | wrong
    with pytest.raises(InvalidInput, match=f"{next(iter(wrong))} must be"):
        IterativeConstruction().error(CELLS, arguments["records"], PureDP(1.0), BOTH[0], beta=arguments["beta"])


# --- bad input ---------------------------------------------------------------------------------------------------


@dataclass
class Answering:
    """A synopsis that answers with what a function makes of the workload."""

    answers: object
    domain: object = PEOPLE
    total: float = 400.0
    has_table: bool = True

    def answer(self, workload):
        return self.answers(workload)

    sample = to_json = NotImplemented


@dataclass(frozen=True)
class Turning:
    """A rule that starts well or not, and turns bad, or stays so, at its first update."""

    first: object
    then: object
    alpha: float = 0.01

    def start(self, domain, sets, total):
        return self.first

    def update(self, state, measurements):
        return self.then

    def update_bound(self, domain, workload=None):
        return 5


def fine(workload):
    return np.full(len(workload), 1.0)


BAD = {
    "NaN": (Answering(lambda w: np.full(len(w), np.nan)), "finite counts, got NaN or infinity"),
    "infinity": (Answering(lambda w: np.full(len(w), np.inf)), "finite counts, got NaN or infinity"),
    "negative mass": (Answering(lambda w: np.full(len(w), -3.0)), "no answer may be negative, got -3"),
    "another domain": (Answering(fine, coded(2)), "another domain"),
    "too few answers": (Answering(lambda w: np.ones(2)), r"must give .* answers, got shape \(2,\)"),
    "nothing": (None, "must be a synopsis, got NoneType"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_rule_that_starts_badly_is_refused_before_the_charge(bad):
    state, message = BAD[bad]
    spy = SpyEntropy(0)
    with Ledger.open(None, PureDP(1.0)) as ledger:
        with pytest.raises(InvalidInput, match=message):
            Curator(TABLE, ledger, spy).release(IterativeConstruction(Turning(state, state)), ASKED, PureDP(1.0))
        assert ledger.spent is None
    assert spy.taken == 0


@pytest.mark.parametrize("bad", BAD)
def test_a_rule_that_turns_bad_is_told_at_once(bad):
    state, message = BAD[bad]
    rule = Turning(Answering(fine), state)
    with pytest.raises(InvalidInput, match=message):
        rounds_of(rule, Select("query"), ASKED, rounds=3)


@dataclass(frozen=True)
class Finding:
    """A distinguisher that finds what it is told to."""

    found: object
    confined = True

    def distinguish(self, private, state, workload, cost, measurement):
        return self.found

    def shortfall(self, workload, cost, neighbours, beta):
        return 0.0


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "a distinguisher must find a workload, got NoneType"),
        (ASKED, r"a distinguisher must find one group of queries, got \d"),
        (ELSEWHERE, "over another domain than the table"),
    ],
    ids=["nothing", "many groups", "foreign queries"],
)
def test_a_distinguisher_that_finds_no_query_is_told_before_a_draw(found, message):
    door = private(TABLE, PureDP(1.0), BOTH[1])
    mechanism = IterativeConstruction(Projection(0.2), Finding(found))
    with pytest.raises(InvalidInput, match=message):
        mechanism.release(door, ASKED, PureDP(1.0))
    assert door.spends == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": Hedge}, r"rule must be an object such as Hedge\(0.1\), got <class"),
        ({"rule": "hedge"}, "rule must have a bound on its updates"),
        ({"distinguisher": Select}, r'distinguisher must be an object such as Select\("query"\), got <class'),
        ({"distinguisher": "query"}, "distinguisher must be an object"),
        ({"distinguisher": None}, "distinguisher must be an object"),
    ],
)
def test_parts_that_are_none(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        IterativeConstruction(**arguments)
    for oracle in (ConjunctionOracle, None, 3):
        with pytest.raises(InvalidInput, match=r"oracle must be an object such as ConjunctionOracle\(\)"):
            PerturbedLeader(oracle)


def test_whole_marginals_that_a_leader_needs_are_tried_before_the_charge():
    """Few queries on many cells: the candidates answer the queries, but not for every cell."""

    def checked(domain, *oracle):
        rule, asked = MedianRule(small_databases(domain, 1), 0.2), Workload.predicates(domain, "a = 1 and b = 2")
        IterativeConstruction(rule, *oracle).check(asked, PureDP(1.0), BOTH[0])

    leader = PerturbedLeader(ConjunctionOracle())
    checked(coded(20, 20), leader)
    checked(coded(80, 80))
    with pytest.raises(TooLarge, match="6,400 answers of 6,400 candidates are too many"):
        checked(coded(80, 80), leader)


def test_negative_mass_is_fine_where_none_was_promised():
    state = Answering(lambda w: np.full(len(w), -3.0), has_table=False)
    last, _, found = rounds_of(Turning(state, state), Select("query"), ASKED, rounds=3)
    assert last is state
    assert sum(m.repeats for m in found) == 3


class Dear(Endless):
    def update_bound(self, domain, workload=None):
        return MAX_ROUNDS + 1


REFUSED = [
    (IterativeConstruction(Dear()), PureDP(1.0), "rounds; at most 100,000 are possible"),
    (IterativeConstruction(Hedge(1e-3)), PureDP(1.0), "rounds; at most 100,000 are possible"),
    (IterativeConstruction(Projection(0.1)), PureDP(1e-15), "noise beyond"),
    (IterativeConstruction(), PureDP(1e-15), "noise beyond"),
    (IterativeConstruction(), ZCDP(1e-30), "noise beyond"),
    (IterativeConstruction(distinguisher=PerturbedLeader(ConjunctionOracle())), PureDP(1e-15), "noise beyond"),
    (IterativeConstruction(), PureDP(1e-45), "smallest float|noise beyond"),
    (IterativeConstruction(), 1.0, "the cost must be"),
    (IterativeConstruction(MedianRule(Listed((WeightedRecords(coded(2), np.array([0]), np.ones(1), 1.0),)), 0.1)),
     PureDP(1.0), "another domain"),
]  # fmt: skip


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(("mechanism", "cost", "message"), REFUSED)
def test_what_cannot_work_is_refused_before_the_charge(mechanism, cost, message, relation):
    spy = SpyEntropy(0)
    with Ledger.open(None, PureDP(1.0), neighbours=relation) as ledger:
        with pytest.raises(QReleaseError, match=message) as found:
            Curator(TABLE, ledger, spy).release(mechanism, ASKED, cost)
        assert "\n" not in str(found.value)
        assert ledger.spent is None
    assert spy.taken == 0


def test_a_universe_too_large_is_refused_before_the_charge():
    domain = coded(*[100] * 6)
    with pytest.raises(TooLarge):
        IterativeConstruction().check(Workload.marginals(domain, 1), PureDP(1.0), BOTH[0])


@pytest.mark.parametrize("alpha", [0.0, 1.0, math.nan, None])
def test_a_rule_of_ones_own_needs_an_alpha_that_is_one(alpha):
    with pytest.raises(InvalidInput, match="alpha of the rule must be"):
        IterativeConstruction(Turning(None, None, alpha))


def test_a_rule_without_a_bound_is_refused():
    with pytest.raises(InvalidInput, match=r"alpha and update_bound, as Hedge has, got MultiplicativeWeights\("):
        IterativeConstruction(MultiplicativeWeights())


@pytest.mark.parametrize("bound", [-1, 2.5, None, math.inf])
def test_a_bound_that_is_no_number_is_refused(bound):
    class Odd(Endless):
        def update_bound(self, domain, workload=None):
            return bound

    with pytest.raises(InvalidInput, match="the rule's bound must be"):
        IterativeConstruction(Odd()).check(ASKED, PureDP(1.0), BOTH[0])


def test_a_bound_of_no_updates_makes_one_round():
    net = Listed((WeightedRecords(PEOPLE, np.arange(24), np.full(24, 1 / 24), 1.0),))
    draft, door = released(IterativeConstruction(MedianRule(net, 0.2)), TABLE, ASKED, PureDP(1.0), BOTH[1])
    assert draft.choices["rounds"] == 1
    assert len(door.spends) == 2
