"""Quantiles chosen by the exponential mechanism beside planned sums: what they cost, where they are taken, and how
right their intervals are. Exact laws on small tables, and broken twins that are convicted."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from worlds import BOTH, neighbouring, table_of

import qrelease as qr
from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.evaluation.audit import Distribution, compare, enumerated
from qrelease.inference.chosen_quantiles import PARTS, ChosenQuantiles
from qrelease.inference.sums_plan import unit_error
from qrelease.mechanisms.number_sums import NumberSums, by_counts, divided, division_plan
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.quantile_choices import (
    Foretold,
    can_choose,
    choose_quantiles,
    group_sizes,
    losses,
    of_counts,
)
from qrelease.noise.calibration import currency, selection_epsilon
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Filter, PureDP
from qrelease.privacy.costs import split
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.statistics import quantile
from qrelease.statistics.grid import Numbers

ADD, SWAP = BOTH
DOMAIN = Domain(
    (
        Attribute("g", "coded", codes=2, ordered=True),
        Attribute("x", "number", edges=(0, 1, 2, 3, 4), integer=True, missing=("",)),
    )
)
TABLES = [
    table_of(DOMAIN, rows)
    for rows in ([], [[0, 3]], [[1, 0], [0, 2], [1, 4]], [[1, 3], [1, 3], [0, 0], [0, 1]], [[0, 1]] * 6)
]
COSTS = [ZCDP(0.5), PureDP(1.0)]


def law_of(scores, epsilon, sensitivity, rule):
    """The chances of each candidate, exactly as both rules have them."""
    weights = np.exp(float(epsilon) / (2 * sensitivity) * (scores - scores.max()).astype(float))
    if rule == "exponential":
        return weights / weights.sum()
    found = np.zeros(len(weights))
    for i, weight in enumerate(weights):
        coins = np.array([1.0])  # of how many others have heads: one of those with heads is drawn evenly
        for other in np.delete(weights, i):
            coins = np.convolve(coins, [1 - other, other])
        found[i] = weight * (coins / np.arange(1, len(coins) + 1)).sum()
    return found


class Listed:
    """Stands for `Private`, and keeps the exact law of each choice in place of drawing it."""

    moved = staticmethod(lambda sensitivity: sensitivity)

    def __init__(self, table, neighbours, choices=None):
        self.private = Private(table, neighbours, Filter(ZCDP(1e6)), Entropy.insecure(1))
        self.neighbours, self.choices, self.laws = neighbours, choices, []

    def has_points(self, name):
        return self.private.has_points(name)

    def values_by_group(self, *asked):
        return self.private.values_by_group(*asked)

    def select_apart(self, what, scores, sensitivity, cost, rule):
        epsilon = selection_epsilon(cost, rule)
        found = [law_of(part, epsilon, self.moved(sensitivity), rule) for part in scores]
        self.laws += found
        if self.choices is None:
            return np.zeros(len(scores), np.int64)
        return np.array([self.choices.draw(Distribution(dict(enumerate(law.tolist())))) for law in found])


class AsOfTheMedian(Listed):
    """The mistake: the losses of any quantile taken to move as a median's do."""

    moved = staticmethod(lambda sensitivity: 1)


class EachGroupAlone(Listed):
    """The mistake: the whole cost for each of the two groups that a replaced record may be in."""

    moved = staticmethod(lambda sensitivity: max(sensitivity // 2, 1))


class AsCounts(Listed):
    """The mistake: twice the rate, which is for scores that all move the same way."""

    moved = staticmethod(lambda sensitivity: sensitivity / 2)


def told_apart(question, first, second, cost, relation, kind=Listed, weights=(1,), *, each=False):
    """By how much of their cost all choices tell two tables apart: the worst outcome's ε, or the largest of the
    divergences of ZCDP at some orders. The choices are independent, so the parts of their laws add up.

    question  one, or several with a semicolon between them
    each      the mistake: every one of several for all of the cost
    """
    parsed, sides = [NumericQuestion.parse(first.domain, text) for text in question.split("; ")], []
    for table in (first, second):
        private = kind(table, relation)
        for asked in [[one] for one in parsed] if each else [parsed]:
            choose_quantiles(private, asked, cost, [1] if each else weights)
        sides.append(private.laws)
    if isinstance(cost, PureDP):
        return max(sum(np.log(a / b).max() for a, b in zip(*order, strict=True)) for order in (sides, sides[::-1])) / (
            cost.epsilon
        )
    worst = 0.0
    for alpha in (1.01, 1.5, 2.0, 4.0, 16.0):
        logs = (alpha * np.log(a) + (1 - alpha) * np.log(b) for a, b in zip(*sides, strict=True))
        divergence = sum(np.logaddexp.reduce(part) for part in logs) / (alpha - 1)
        worst = max(worst, divergence / alpha / cost.rho)
    return worst


def worst(question, cost, relation, kind=Listed):
    pairs = [(t, other) for t in TABLES for other in neighbouring(t, relation)]
    return max(told_apart(question, a, b, cost, relation, kind) for a, b in pairs)


ASKED = ["quantile(.5):x by g", "quantile(.1,.75):x by g where g = 1", "quantile(.9):x"]


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("question", ASKED)
def test_no_neighbour_is_told_apart_by_more_than_was_paid(question, cost, relation):
    found = worst(question, cost, relation)
    assert 0.02 < found <= 1 + 1e-9


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_questions_of_unequal_shares_cost_together_what_was_paid(cost, relation):
    """And not where each of them has all of it."""
    both, pairs = "quantile(.5):x by g; quantile(.9):x", [(t, o) for t in TABLES for o in neighbouring(t, relation)]
    found = [told_apart(both, a, b, cost, relation, weights=(1, 5)) for a, b in pairs]
    assert 0.02 < max(found) <= 1 + 1e-9
    if isinstance(cost, PureDP):  # whose bound is nearly reached
        assert max(told_apart(both, a, b, cost, relation, each=True) for a, b in pairs) > 1.02


EIGHT = Domain((Attribute("g", "coded", codes=2, ordered=True), Attribute("x", "coded", codes=8, ordered=True)))
CONVICTING = [
    (AsOfTheMedian, "quantile(.9):x", PureDP(1.0), [(0, 0), (0, 1), (0, 6), *[(1, 0)] * 4, (1, 1)], (1, 7), None),
    (AsOfTheMedian, "quantile(.9):x", ZCDP(0.5), [*[(0, 1)] * 4, (0, 6), (0, 6), (1, 0), (1, 0)], (0, 7), None),
    (
        EachGroupAlone,
        "quantile(.75):x by g",
        PureDP(1.0),
        [(0, 6), (0, 6), *[(0, 7)] * 3, (1, 1), (1, 1), (1, 6)],
        (0, 7),
        (1, 7),
    ),
    (AsCounts, "quantile(.5):x", PureDP(1.0), [(0, 1), (0, 1), (0, 7)], (0, 0), (0, 7)),
    (AsCounts, "quantile(.5):x", ZCDP(0.5), [(1, 6)], (0, 7), (1, 0)),
]


@pytest.mark.parametrize(("twin", "question", "cost", "rows", "one", "other"), CONVICTING)
def test_broken_twins_are_convicted(twin, question, cost, rows, one, other):
    """One record more, or one in the place of another; the choices as they are pass with the same tables."""
    relation = ADD if other is None else SWAP
    first, second = table_of(EIGHT, [*rows, one]), table_of(EIGHT, rows if other is None else [*rows, other])
    assert told_apart(question, first, second, cost, relation) < 0.8
    assert told_apart(question, first, second, cost, relation, twin) > 1.02


def test_the_output_listed_in_full():
    """The joint law of a quantile and its interval in two groups, enumerated, and its twin."""
    question, cost = NumericQuestion.parse(DOMAIN, "quantile(.9):x"), PureDP(1.5)

    def run(kind):
        def mechanism(table, choices):
            (found,) = choose_quantiles(kind(table, ADD, choices), [question], cost, [1])
            return tuple(np.concatenate([found.value, found.low, found.high]).reshape(-1).tolist())

        return mechanism

    tables = [table_of(DOMAIN, [[0, 0]] * 9 + more) for more in ([], [[1, 3]])]
    right, wrong = (
        compare(*(enumerated(run(kind), t, least=1e-9) for t in tables), cost) for kind in (Listed, AsOfTheMedian)
    )
    assert not right.convicted
    assert wrong.convicted


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_a_person_moves_at_most_m_records(relation, cost):
    most = 3
    unit = Unit(relation, most)
    start = [[0, 0]] * 4 + [[1, 2]]
    first = table_of(DOMAIN, [*start, *[[0, 3]] * most])
    second = table_of(DOMAIN, start if relation is ADD else [*start, *[[1, 0]] * most])
    of_person = most if isinstance(cost, PureDP) else most**2
    mine = told_apart("quantile(.9):x by g", first, second, unit.of_a_record(cost), unit.relation) / of_person
    careless = told_apart("quantile(.9):x by g", first, second, cost, unit.relation)
    assert mine <= 1 + 1e-9
    assert careless > 1.05


def test_the_law_that_is_listed_is_the_one_that_is_drawn():
    scores, cost = np.array([[0, -1, -3], [-2, 0, -2]]), PureDP(2.0)
    for spent, rule in ((cost, "permute-and-flip"), (ZCDP(0.5), "exponential")):
        private = Private(
            TABLES[2], ADD, Filter(ZCDP(1e9) if rule == "exponential" else PureDP(1e6)), Entropy.insecure(3)
        )
        drawn = np.array([private.select_apart("quantile", scores, 1, spent, rule) for _ in range(3000)])
        for group in range(2):
            law = law_of(scores[group], selection_epsilon(spent, rule), 1, rule)
            seen = np.bincount(drawn[:, group], minlength=3) / len(drawn)
            assert np.abs(seen - law).max() < 0.04
            assert np.abs(seen - law_of(scores[group], 3 * selection_epsilon(spent, rule), 1, rule)).max() > 0.05


def test_nothing_is_drawn_beyond_the_charge():
    private = Private(TABLES[2], ADD, Filter(PureDP(0.5)), Entropy.insecure(1))
    with pytest.raises(BudgetExceeded):
        private.select_apart("quantile", np.zeros((2, 3), np.int64), 1, PureDP(1.0), "permute-and-flip")
    assert not private.spends


def test_losses_are_those_of_the_statistic_by_which_they_are_proved():
    rng = np.random.default_rng(0)
    for q in (Fraction(1, 2), Fraction(9, 10), Fraction(1, 4)):
        table = rng.poisson(1.5, (6, 7))
        for side, offset in ((0, 0), (-1, 13), (1, 13)):
            found = losses(table, q, side, offset)
            for row, line in zip(found, table, strict=True):
                numbers = Numbers.counted(line)
                wanted = (
                    quantile.end_losses(numbers, q, 7, side, offset)
                    if side
                    else quantile.losses(numbers, q, np.arange(7))
                )
                assert row.tolist() == wanted.tolist()


WIDE = Domain(
    (
        Attribute("x", "number", edges=(0, 10, 20, 40, 100), within=(0, 99), step=1, missing=("NA",)),
        Attribute("g", "category", categories=("a", "b", "c")),
        Attribute("h", "coded", codes=2, ordered=True),
    )
)


def people(rows=20_000, seed=0, parts=(0.6, 0.39, 0.01)):
    rng = np.random.default_rng(seed)
    g, h = rng.choice(3, rows, p=parts), rng.integers(0, 2, rows)
    x = np.clip(np.round(rng.normal(22 + 6 * g, 9)), 0, 99).astype(np.int64)
    gone = rng.random(rows) < 0.05
    bins = np.where(gone, 4, np.searchsorted([10, 20, 40], x, side="right"))
    return Table(WIDE, (bins, g, h), None, (np.where(gone, 100, x), None, None)), np.where(gone, -1, x), g, h


def released(questions, cost, relation=ADD, seed=7, table=None, **options):
    table = people()[0] if table is None else table
    with Ledger.open(None, cost, neighbours=relation) as ledger:
        curator = Curator(table, ledger, Entropy.insecure(seed))
        return curator.release(NumberSums(questions, **options), Workload.marginals(WIDE, [["g"]]), cost)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("cost", [ZCDP(0.2), PureDP(2.0), ApproxDP(2.0, 1e-6)], ids=str)
def test_answers_and_intervals_of_a_release(cost, relation):
    question = "quantile(.5,.9):x by g where h = 1"
    release = released([question, "mean:x by g"], cost, relation, quantiles="exponential")
    (choices,) = release.measured_sums.chosen
    assert choices.rule == ("exponential" if isinstance(cost, ZCDP) else choices.rule)
    found = release.measured_sums.answer(question, release.measurements)
    assert f"among {len(choices.cells)} cells" in found.way
    _, x, g, h = people()
    for line, (group, p) in enumerate((group, p) for group in range(3) for p in (0.5, 0.9)):
        exact = np.quantile(x[(g == group) & (h == 1) & (x >= 0)], p, method="inverted_cdf")
        assert found.low[line] <= exact <= found.high[line]
        if group < 2:
            assert abs(found.value[line] - exact) <= 2
            assert relation is SWAP or p > 0.5 or found.high[line] - found.low[line] < 30
    assert np.array_equal(release.table("quantile(.9):x by g where h = 1").value, found.model[1::2])
    assert sum(s.what.startswith("select quantile") for s in release.spends) == 6


@pytest.mark.parametrize("cost", [ZCDP(0.002), PureDP(0.2)], ids=str)
def test_intervals_cover(cost):
    """The quantile, in nineteen of twenty draws at least, also of groups in which nothing can be told."""
    table, x, g, _ = people(2_000, 3, (0.8, 0.18, 0.02))
    question = NumericQuestion.parse(WIDE, "quantile(.25):x by g")
    missed, drawn, widths, counts = np.zeros((2, 3)), 300, [], np.array([1600.0, 360.0, 40.0])
    exact = [np.quantile(x[(g == k) & (x >= 0)], 0.25, method="inverted_cdf") for k in range(3)]
    for seed in range(drawn):
        private = Private(table, ADD, Filter(cost), Entropy.insecure(seed))
        (choices,) = choose_quantiles(private, [question], cost, [1])
        (value, low, high), (model, least, most) = choices.answer([0], counts, counts - 10)
        for k, (a, b) in enumerate([(low, high), (least, most)]):
            missed[k] += (exact < a[:, 0]) | (b[:, 0] < exact)
        widths.append((high - low)[:, 0])
        assert (least <= model).all()
        assert (model <= most).all()
        assert (value <= high).all()
    assert (missed / drawn <= 0.05).all()
    width = np.mean(widths, axis=0)
    assert width[0] < 35 < width[2]


def chosen_by_hand(value, low, high, reach=50.0):
    question = NumericQuestion.parse(WIDE, "quantile(.5):x by g")
    places = [np.array(part)[:, None] for part in (value, low, high)]
    return ChosenQuantiles(question, PARTS, "exponential", *places, (reach,))


def published(choices, counts, off=10.0):
    """The unbiased answers, those to publish, and the ends of these: (groups,) each."""
    counts = np.array(counts)
    (value, *_), model = choices.answer([0], counts, counts - off)
    return value[:, 0], *(part[:, 0] for part in model)


def test_small_groups_are_pooled_and_large_ones_are_not():
    choices = chosen_by_hand([3, 9, 40], [0, 0, 0], [45, 45, 45])
    value, model, low, high = published(choices, [1000.0, 5000.0, 20.0])
    assert model[:2].tolist() == value[:2].tolist()
    assert model[2] == value[1] != value[2]
    assert low[2] <= model[2] <= value[2] <= high[2]
    value, same, low, high = published(choices, [1.0, 2.0, 3.0])  # all are lost: what they say together
    assert same.tolist() == [value[1]] * 3
    assert (low <= same).all()
    assert (same <= high).all()


def test_quantiles_of_a_group_are_published_in_ascending_order():
    """In the order of their probabilities, whatever order they were asked in."""
    question = NumericQuestion.parse(WIDE, "quantile(.25,.5,.75):x by g")
    groups, rng = question.groups, np.random.default_rng(1)
    value = np.sort(rng.integers(10, 40, (groups, 3)), axis=1)
    ends = np.zeros((groups, 3), np.int64), np.full((groups, 3), 50)
    counts = np.full(groups, 9e9)
    for order in ([0, 1, 2], [2, 0, 1]):
        asked = replace(question, probabilities=[question.probabilities[i] for i in order])
        choices = ChosenQuantiles(asked, PARTS, "exponential", rng.permuted(value, axis=1), *ends, (50.0,) * 3)
        (unbiased, *_), (model, low, high) = choices.answer([0, 1, 2], counts, counts)
        np.testing.assert_array_equal(model, choices.cells.middle[value][:, order])
        assert ((low <= model) & (model <= high)).all()
        assert (unbiased != model).any()  # which is as it was drawn


def test_a_choice_beyond_its_own_ends_is_not_published():
    choices = chosen_by_hand([3, 50, 9], [1, 2, 3], [8, 12, 11])
    value, model, low, high = published(choices, [9000.0, 9000.0, 9000.0])
    cells = choices.cells
    assert model.tolist() == [value[0], cells.high[12], value[2]]
    assert (low.tolist(), high.tolist()) == (cells.low[[1, 2, 3]].tolist(), cells.high[[8, 12, 11]].tolist())
    crossed = chosen_by_hand([3, 50, 9], [1, 12, 3], [8, 2, 11])  # what is between them, then
    value, model, low, high = published(crossed, [9000.0, 9000.0, 9000.0])
    assert (low[1], model[1], high[1]) == (cells.high[2], cells.low[12], cells.low[12])


@pytest.mark.parametrize(("far", "records", "lost"), [(50, 150.0, True), (50, 3_000.0, False), (11, 150.0, False)])
def test_a_far_choice_of_few_records_is_taken_to_be_lost(far, records, lost):
    """As choices are off by ten ranks or so, there are hardly any empty cells among those of 3 000 records."""
    reach = 10 * np.log(2 * len(chosen_by_hand([0] * 3, [0] * 3, [0] * 3).cells))
    choices = chosen_by_hand([8, 10, far], [0] * 3, [51] * 3, reach)
    value, model, _, _ = published(choices, [9_000.0, 10_000.0, records])
    assert model[2] == (value[1] if lost else value[2])


def chosen(questions, cost, relation=ADD, **options):
    return divided(NumberSums(questions, **options), Workload.marginals(WIDE, [["g"]]), cost, relation).chosen


FEW, MANY = "quantile(.5):x by g", "quantile(.1,.2,.3,.4,.5,.6,.7,.8,.9):x by g*h"


def test_few_quantiles_of_large_groups_are_chosen_and_many_of_small_ones_are_not():
    assert chosen([FEW], PureDP(1.0), records=60_000) == (FEW,)
    assert chosen([FEW], ZCDP(0.5), records=60_000) == (FEW,)
    assert chosen([FEW], ApproxDP(1.0, 1e-6), SWAP, records=600_000) == (FEW,)
    assert not chosen([MANY], PureDP(1.0), records=6_000)
    assert not chosen([FEW], PureDP(0.01), records=600)
    assert not chosen(["mean:x by g", "quantile(0):x", "quantile(.12345):x by g"], PureDP(1.0))
    assert not chosen([FEW], PureDP(1.0), records=60_000, quantiles="counts")
    assert not chosen([FEW], PureDP(1.0))  # it may be about few records
    assert chosen([MANY, "mean:x"], PureDP(1.0), records=600, quantiles="exponential") == (MANY,)
    assert chosen(["mean:x", " " + FEW], ZCDP(0.5), records=60_000) == (" " + FEW,)


def test_choices_have_no_less_than_their_share_where_that_is_good():
    """A smaller one would do for groups of the same size, and there may be others."""
    workload, cost = Workload.marginals(WIDE, [["g"]]), PureDP(1.0)
    found = divided(NumberSums([FEW], records=600_000), workload, cost, ADD)
    assert found.chosen == (FEW,)
    assert found.choosing == split(cost, [0.5, 0.5])[0]
    paid = Filter(cost)
    paid.spend(found.choosing)
    paid.spend(found.sums)


def test_what_is_chosen_follows_from_public_facts_alone():
    """Two tables that are as different as can be have their quantiles answered in one way, at the same noise."""
    empty = Table(WIDE, tuple(np.zeros(0, np.int64) for _ in range(3)), None, (np.zeros(0, np.int64), None, None))
    asked = [FEW, "mean:x by g"]
    full, none = (released(asked, PureDP(1.0), table=t, records=60_000) for t in (people()[0], empty))
    assert full.measured_sums.chosen
    assert [s.what for s in full.spends] == [s.what for s in none.spends]
    assert [s.cost for s in full.spends] == [s.cost for s in none.spends]


def test_counts_are_predicted_to_tell_little_inside_a_bin_that_is_much_wider_than_most():
    """A ninth decile in a last bin of 300 to 800, say, but not a median in the middle; up to half of a bin."""
    found = []
    for last in (360, 800, 10_000):
        edges = (0, 60, 120, 180, 240, 300, last)
        domain = Domain((Attribute("g", "coded", codes=4), Attribute("x", "number", edges=edges, integer=True)))
        spread = [np.zeros((1, 6))]
        ninth, middle = (NumericQuestion.parse(domain, f"quantile({p}):x by g") for p in (0.9, 0.4))
        found.append([np.sqrt(of_counts(q, spread, 6_000.0)) for q in (ninth, middle)])
    (even, other), (wide, same), (widest, last_of_all) = found
    assert (even, other) == pytest.approx((100.0, 100.0))
    assert same == last_of_all == pytest.approx(other)
    assert wide == widest == pytest.approx(500.0)


def test_a_larger_share_is_predicted_to_be_no_worse():
    question = NumericQuestion.parse(WIDE, FEW)
    foretold = Foretold.of(question, [np.full((1, 4), 8.0)], ADD, 30_000)
    costs = [PureDP(e) for e in (1e-3, 3e-3, 0.01, 0.1, 1.0)]
    found = [foretold.by_choice(cost) for cost in costs]
    assert found == sorted(found, reverse=True)
    assert found[0] > foretold.by_counts() > found[-1]
    assert all(
        foretold.by_choice(cost, value_alone=True) < chosen for cost, chosen in zip(costs[1:], found[1:], strict=True)
    )
    assert foretold.by_counts() < foretold.by_counts(100.0)


def test_a_choice_is_predicted_to_be_off_by_what_it_is_on_average_over_where_the_quantile_is():
    """Of records that are even over half of the cells, whose median is anywhere in its cell."""
    domain = Domain.coded({"x": 40})
    question, epsilon, size = NumericQuestion.parse(domain, "quantile(.5):x"), 0.3, 200
    squares, cells = [], np.arange(40)
    for shift in range(10):  # records that lie before the others move the median inside its cell
        table = np.where((cells >= 10) & (cells < 30), size // 20, 0)[None].copy()
        table[0, 10] += 2 * shift
        scores = -losses(table, Fraction(1, 2))[0]
        likely = np.exp(epsilon * 4 / 6 * scores / 2)
        true = np.searchsorted(table[0].cumsum(), table.sum() / 2)
        squares.append(likely @ (cells - true) ** 2 / likely.sum() / 20**2)
    foretold = Foretold.of(question, [np.ones((1, 40))], ADD, size)
    assert foretold.by_choice(PureDP(epsilon)) == pytest.approx(np.mean(squares), rel=0.25)


@pytest.mark.parametrize("cost", [ZCDP(0.5), PureDP(1.0), ApproxDP(1.0, 1e-9)], ids=str)
def test_no_question_is_predicted_to_be_a_twentieth_worse_than_by_counts_nor_than_one_at_a_time(cost):
    """Whichever of the two is more; a marginal, which is asked for itself, than by counts."""
    workload = Workload.marginals(WIDE, [["g"]])
    sums = NumberSums([FEW, "mean:x by g", "sum:x"], records=60_000)
    counts, choices = by_counts(sums, workload, cost, ADD), divided(sums, workload, cost, ADD)
    assert choices.chosen == (FEW,)
    plans = [division_plan(sums, workload, {}, d, ADD) for d in (counts, choices)]
    before, after = (plan.errors(d.sums) for plan, d in zip(plans, (counts, choices), strict=True))
    whole = currency(counts.sums)
    one = np.array(plans[0].alone) * [*[unit_error(split(whole, 3)[0])] * 3, unit_error(split(whole, 2)[0])]
    assert (after[1:3] <= np.maximum(before[1:3] * 1.05**2, one[1:3])).all()
    assert (after[3:] <= before[3:] * 1.05**2).all()
    paid = Filter(cost)
    paid.spend(choices.choosing)
    paid.spend(choices.sums)


@pytest.mark.parametrize("cost", [ZCDP(0.5), PureDP(1.0)], ids=str)
def test_a_quantile_of_everybody_is_chosen_beside_others_for_a_small_share(cost):
    """Its bins are in the tables of the other questions, which lose nothing but the share."""
    median, workload = "quantile(.5):x", Workload.marginals(WIDE, [["g"]])
    sums = NumberSums([median, "histogram:x by g*h", "mean:x"], records=60_000)
    found = divided(sums, workload, cost, ADD)
    assert found.chosen == (median,)
    beside = division_plan(sums, workload, {}, found, ADD).errors(found.sums)
    alone = division_plan(sums, workload, {}, replace(found, chosen=()), ADD).errors(found.sums)
    assert (beside[1:] <= alone[1:] * (1 + 1e-9)).all()


def test_groups_are_taken_to_be_of_many_sizes():
    """A large share of a cost loses the small groups, before it loses groups of one size."""
    assert group_sizes(1, 500).tolist() == [500.0]
    sizes = group_sizes(5, 600)
    np.testing.assert_allclose(sizes.sum(), 600)
    np.testing.assert_allclose(sizes[0] / sizes, [1, 2, 3, 4, 5])
    many = group_sizes(1_000, 10_000)
    assert len(many) == 9
    assert (np.diff(many) < 0).all()
    assert many[-1] == pytest.approx(many[0] / 1_000)
    assert group_sizes(10, 3).min() == 1.0


@pytest.mark.parametrize("options", [{"quantiles": "best of all"}, {"records": -1}, {"records": 2.5}])
def test_parameters_that_are_none(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        NumberSums([FEW], **options)


def test_a_table_of_bins_has_its_bins_for_cells():
    _, x, g, h = people()
    bins = np.where(x < 0, 4, np.searchsorted([10, 20, 40], x, side="right"))
    release = released([FEW], ZCDP(0.5), table=Table(WIDE, (bins, g, h)), quantiles="exponential")
    found = release.measured_sums.answer(FEW, release.measurements)
    assert "among 4 cells" in found.way
    assert (found.low[:2].tolist(), found.high[:2].tolist()) == ([20, 20], [39, 39])


def test_a_grid_that_is_too_fine_for_its_groups_is_counted():
    domain = Domain.coded({"x": 1 << 20, "g": 8})
    assert not can_choose(NumericQuestion.parse(domain, "quantile(.5):x by g"))
    assert can_choose(NumericQuestion.parse(domain, "quantile(.5):x"))


def test_a_saved_release_gives_the_same_and_is_verified(tmp_path):
    release = released([FEW, "mean:x by g"], ZCDP(0.5), records=20_000)
    assert release.measured_sums.chosen
    release.save(tmp_path / "out")
    loaded = qr.load(tmp_path / "out")
    one, other = (made.table(FEW, intervals=True) for made in (release, loaded))
    assert one.equals(other)
    checks = {c.name: c for c in qr.verify(tmp_path / "out").checks}
    assert all(checks[name].holds for name in ("files", "id", "cost", "mechanism", "noise", "numbers", "answers"))
    lines = (tmp_path / "out" / "numbers.csv").read_text().splitlines()
    assert sum("each chosen among" in line for line in lines) == 3
    content = json.loads((tmp_path / "out" / "release.json").read_text())
    assert (
        content["mechanism"]["parameters"]["chosen"]["questions"] == [FEW]
        if "parameters" in content["mechanism"]
        else True
    )
    counts = released([FEW], ZCDP(0.5), quantiles="counts")
    counts.save(tmp_path / "counts")
    assert "chosen" not in json.loads((tmp_path / "counts" / "release.json").read_text())["numbers"]  # as before
    assert not qr.load(tmp_path / "counts").measured_sums.chosen


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"value": [[0], [1], [99]]}, "places among"),
        ({"rule": "argmax"}, "permute-and-flip"),
        ({"reach": [-1.0]}, "reach"),
        ({"low": [[0.5], [1], [1]]}, "places among"),
        ({"parts": 0}, "parts"),
        ({"question": "mean:x by g"}, "chosen by"),
    ],
)
def test_forged_choices_are_refused(tmp_path, change, said):
    release = released([FEW], ZCDP(0.5), records=20_000)
    release.save(tmp_path / "out")
    file = tmp_path / "out" / "release.json"
    content = json.loads(file.read_text())
    content["numbers"]["chosen"][0].update(change)
    file.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=said):
        qr.load(tmp_path / "out")


@pytest.mark.parametrize(
    ("told", "why"), [(False, "do not say of which questions and for which cost"), (True, "are not the 3 that rho=")]
)
def test_choices_that_nobody_paid_for_do_not_hold(tmp_path, told, why):
    release, other = released([FEW], ZCDP(0.5), quantiles="counts"), released([FEW], ZCDP(0.5), records=20_000)
    said = {name: value for name, value in other.parameters.items() if name == "chosen_quantiles" and told}
    forged = replace(
        release,
        measured_sums=replace(release.measured_sums, chosen=other.measured_sums.chosen),
        parameters={**release.parameters, **said},
    )
    forged.save(tmp_path / "out")
    found = {c.name: c for c in qr.verify(tmp_path / "out").checks}
    assert found["noise"].holds is False
    assert why in found["noise"].found


@pytest.mark.parametrize(
    ("quantiles", "cost"),
    [
        *(("best", cost) for cost in (PureDP(1e-45), ZCDP(1e-30))),
        *(("exponential", cost) for cost in (PureDP(1e-45), PureDP(1e-13), ZCDP(1e-30))),
    ],
)
def test_a_cost_that_is_too_small_is_refused_before_the_charge(cost, quantiles):
    with Ledger.open(None, PureDP(1.0) if isinstance(cost, PureDP) else ZCDP(1.0)) as ledger:
        curator = Curator(people(100)[0], ledger, Entropy.insecure(1))
        with pytest.raises(InvalidInput, match=r"too small|beyond"):
            curator.release(NumberSums([FEW], quantiles=quantiles), Workload.marginals(WIDE, [["g"]]), cost)
        assert ledger.spent is None
