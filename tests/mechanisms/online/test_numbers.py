"""Numbers by group in a session: within what is promised, for no more than the quote, remembered and shared."""

import itertools

import numpy as np
import pytest
from sessions import ADD, CAPS, SWAP, opened, spent
from worlds import PEOPLE, table_of

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, TooLarge
from qrelease.mechanisms.base import OnlineAnswer
from qrelease.mechanisms.online import numbers
from qrelease.mechanisms.online.numbers import (
    CUT,
    EQUAL_GROUPS,
    MAX_ONLINE_GROUPS,
    NONE_MISSING,
    ONE_END,
    PRIVATE_SIZE,
    UP_TO,
    foretold_error,
    forewarning,
)
from qrelease.mechanisms.online.purchasing import POLICY
from qrelease.mechanisms.online.quotes import Quote
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.canonical import canonical_name
from qrelease.queries.classes import Conjunctions
from qrelease.queries.families import Vectors
from qrelease.queries.numeric import ONLY_BOUNDS, NumericQuestion
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator

DOMAIN = Domain(
    (
        Attribute("delay", "number", edges=tuple(range(-10, 31)), integer=True, missing=("NA",)),
        Attribute("carrier", "category", categories=("AA", "UA", "none")),
        Attribute("late", "category", categories=("no", "yes")),
    )
)
WIDE = Domain((Attribute("delay", "number", edges=(-10, 0, 10, 30), integer=True), *DOMAIN.attributes[1:]))
MECHANISM = Online(alpha=0.02, beta=0.01)
QUESTIONS = [
    "count",
    "count by carrier",
    "sum:delay by carrier",
    "mean:delay by carrier",
    "mean:delay by late where carrier = AA or delay > 3",
    "variance:delay by late",
    "ratio:delay >= 10 by carrier",
    "ratio:delay >= 10 and late = yes by carrier",
    "quantile(.1,.5,.9):delay by late",
]


def data(seed=0, n=6_000):
    rng = np.random.default_rng(seed)
    carrier = rng.choice(2, n, p=[0.7, 0.3])
    delay = np.clip(np.rint(rng.normal(2 + 5 * carrier, 8)), -10, 29).astype(int)
    late = (delay + rng.normal(0, 5, n) > 5).astype(int)
    return delay, carrier, late


def table():
    delay, carrier, late = data()
    return table_of(DOMAIN, np.stack([delay + 10, carrier, late], axis=1))


def truth(question):
    """By the definition: a number for each group, and quantile."""
    delay, carrier, late = data()
    by = {"carrier": carrier, "late": late}.get(question.by[0] if question.by else "", np.zeros(len(delay), int))
    kept = (carrier == 0) | (delay > 3) if question.where else np.ones(len(delay), bool)
    found = []
    for group in range(question.groups):
        v = delay[kept & (by == group)].astype(float)
        if question.kind == "quantile":
            found += [np.quantile(v, p, method="inverted_cdf") for p in question.probabilities]
        elif question.kind in ("count", "sum"):
            found.append(len(v) if question.kind == "count" else v.sum())
        elif not len(v):
            found.append(np.nan)
        elif question.kind == "ratio":
            met = (v >= 10) & (late[kept & (by == group)] == 1) if "late" in question.threshold else v >= 10
            found.append(met.mean())
        else:
            found.append(v.mean() if question.kind == "mean" else v.var())
    return np.array(found)


@pytest.mark.parametrize("cap", CAPS, ids=str)
@pytest.mark.parametrize("neighbours", [SWAP, ADD])
def test_answers_are_within_their_ends_and_their_quotes(cap, neighbours):
    for seed in range(3):
        with opened(MECHANISM, cap, neighbours, table(), seed=seed) as session:
            for text in QUESTIONS:
                question = NumericQuestion.parse(DOMAIN, text)
                quote = session.quote_numbers(text).cost
                answers = session.numbers(text)
                paid = answers[0].cost
                assert (paid is None) <= (quote is None) or question.kind == "quantile"
                assert paid is None or max(paid.to_json().values()) <= max(quote.to_json().values()) * 1.001
                true = truth(question)
                assert len(answers) == len(true)
                known = [(a, t) for a, t in zip(answers, true, strict=True) if not np.isnan(t)]
                assert all(a.low - 1e-6 <= t <= a.high + 1e-6 for a, t in known), text
                assert all(a.low <= a.value <= a.high for a in answers)
                again = session.numbers(text)
                assert [a.value for a in again] == [a.value for a in answers]
                assert all(a.cost is None for a in again)
                assert session.quote_numbers(text).cost is None


@pytest.mark.parametrize("neighbours", [SWAP, ADD])
def test_a_quote_says_how_far_off_answers_may_be(neighbours):
    """Before anything is paid, and what the answers say afterwards: exactly of counts, about of other numbers."""
    texts = ["count", "count by carrier", "sum:delay", "mean:delay", "ratio:delay >= 10"]
    texts += ["ratio:delay >= 10 and late = yes", "sum:delay by carrier"]
    with opened(MECHANISM, neighbours=neighbours, table=table()) as session:
        told = {text: session.quote_numbers(text).error for text in texts}
        of_count = session.quote("carrier = AA").error
        assert of_count == session.answer("carrier = AA").error
        for text, error in told.items():
            found = max(a.high - a.low for a in session.numbers(text)) / 2
            public = text == "count" and neighbours is SWAP  # which is no news
            assert 0.45 * error * (not public) <= found <= 1.05 * error, text
        assert told["count"] == of_count
        assert session.quote_numbers("mean:delay by late").error == pytest.approx(2 * told["mean:delay"], rel=0.05)
        assert session.quote_numbers("mean:delay by late").error <= 39
        unknown = [
            "quantile:delay",
            "variance:delay",
            "mean:delay where late = yes",
            "ratio:delay >= 10 where late = yes",
        ]
        assert [session.quote_numbers(text).error for text in unknown] == [None] * 4  # of how many records, is private


@pytest.mark.parametrize("bins", [[0, 10, 20, 30, 40], [0, 1, 2, 40]])
def test_a_quote_of_numbers_in_wide_bins_holds_what_a_record_may_differ_from_its_bin(bins):
    domain = Domain([Attribute("pay", "number", edges=tuple(bins), integer=True)])
    codes = np.random.default_rng(0).integers(0, len(bins) - 1, 5_000)
    with opened(MECHANISM, table=table_of(domain, codes[:, None])) as session:
        for text in ("mean:pay", "sum:pay"):
            error = session.quote_numbers(text).error
            (answer,) = session.numbers(text)
            assert (answer.high - answer.low) / 2 <= 1.02 * error, text


@pytest.mark.parametrize("cells", [16, 18])
def test_a_quantile_that_a_near_count_was_decided_by_has_two_sides_or_says_that_it_has_one(cells):
    """Half of all are up to a cell that the halving asks about: it goes on above, with nothing known of what is below.

    Of eighteen cells a step is left of the quote, which rules the lowest ones out.
    """
    domain, half = Domain.coded({"age": cells}), 4 if cells == 16 else 5
    codes = np.concatenate([np.arange(3_000) % half, half + np.arange(3_000) % (cells - half)])
    above = 0
    for seed in range(6):
        with opened(MECHANISM, neighbours=SWAP, table=table_of(domain, codes[:, None]), seed=seed) as session:
            quote = session.quote_numbers("median:age").cost
            (found,) = session.numbers("median:age")
            assert found.low <= np.quantile(codes, 0.5, method="inverted_cdf") <= found.high
            assert found.cost.epsilon <= quote.epsilon * 1.001
            assert (found.low == 0) == (found.note == ONE_END) == (cells == 16 and found.value == half)
            above += found.value == half
            assert session.quote_numbers("median:age").cost is None
            (again,) = session.numbers("median:age")
            assert (again.value, again.low, again.high, again.cost) == (found.value, found.low, found.high, None)
    assert 0 < above < 6


class Watched:
    """A session; `unpaid` has the families that it is asked for and that nobody can pay for."""

    def __init__(self, session):
        self.session, self.unpaid = session, []

    def __getattr__(self, name):
        return getattr(self.session, name)

    def answers(self, family, purse=None):
        try:
            return self.session.answers(family, purse)
        except BudgetExceeded:
            self.unpaid.append(family)
            raise


def test_no_more_is_asked_for_the_ends_of_a_quantile_than_can_be_paid():
    """A sparse vector, which others paid for, would be asked before the purse says that it does not hold the cost."""
    domain, notes = Domain.coded({"age": 16}), []
    codes = np.concatenate([np.arange(3_000) % 4, 4 + np.arange(3_000) % 12])
    question = NumericQuestion.parse(domain, "median:age")
    for seed in range(6):
        with opened(MECHANISM, neighbours=SWAP, table=table_of(domain, codes[:, None]), seed=seed) as session:
            watched = Watched(session)
            notes += [numbers.answer(watched, question)[0].note for _ in range(2)]
            assert not watched.unpaid
    assert ONE_END in notes  # so that there was more to be asked for


@pytest.mark.parametrize("neighbours", [SWAP, ADD])
@pytest.mark.parametrize("edges", [(0, 10, 5_000, 100_000), (-100_000, -5_000, 0, 10)])
def test_no_sum_is_beyond_what_its_columns_bounds_allow(edges, neighbours):
    """Bins so wide that an interval reached far below 0, of values of which none is; and a note says why it ends."""
    domain = Domain([Attribute("gain", "number", edges=edges, integer=True), DOMAIN["carrier"]])
    rng = np.random.default_rng(0)
    codes = np.stack([rng.choice(3, 3_000, p=[0.9, 0.05, 0.05]), rng.choice(2, 3_000, p=[0.98, 0.02])], axis=1)
    with opened(MECHANISM, neighbours=neighbours, table=table_of(domain, codes)) as session:
        session.numbers("count by carrier")
        counts = session.numbers("count by carrier")
        sums = session.numbers("sum:gain by carrier")
        values = NumericQuestion.parse(domain, "sum:gain").values
        for group, (count, found) in enumerate(zip(counts, sums, strict=True)):
            least, most = float(values.low.min()), float(values.high.max())
            assert found.low >= (least * count.high if least < 0 else 0.0)
            assert found.high <= most * count.high
            assert found.low <= found.value <= found.high
            own = codes[codes[:, 1] == group, 0]
            assert found.low <= values.high[own].sum()
            assert found.high >= values.low[own].sum()
        assert CUT in {found.note for found in sums}
        assert session.numbers("count by carrier")[2].value >= 0  # of nobody, whatever the noise


def test_sums_and_means_of_everybody_are_within_alpha_of_the_range():
    delay, _, _ = data()
    with opened(MECHANISM, table=table()) as session:
        (mean,), (total,) = session.numbers("mean:delay"), session.numbers("sum:delay")
        assert mean.error <= 1.05 * 0.02 * 39
        assert total.error <= 1.001 * 0.02 * 39 * len(delay)
        assert abs(mean.value - delay.mean()) <= mean.error
        (share,) = session.numbers("ratio:delay >= 10")
        assert share.error <= 1.05 * 0.02


WORST = {
    "mean:delay": (-10, 29),
    "quantile(.5):delay": (-10, 29),
    "ratio:delay >= 10": (0, 1),
    "variance:delay": (0, 39**2 / 4),
}
"""What answers lie between, whatever the records are."""


def test_groups_that_alpha_tells_nothing_of_are_forewarned_and_noted():
    """From public facts before, and afterwards of each answer whose ends are no news; not of those that tell much."""
    with opened(Online(alpha=0.15, beta=0.01), table=table()) as session:
        for kind in WORST:
            few, many = session.quote_numbers(kind), session.quote_numbers(f"{kind} by carrier*late")
            told = {"quantile": UP_TO, "mean": NONE_MISSING}  # delays may be missing
            assert few.note == next((note for name, note in told.items() if kind.startswith(name)), "")
            assert "6 groups at alpha=0.15: a count may be off by 90%" in many.note
            assert "so that the intervals of most groups will be nearly the whole range that is possible" in many.note
            (all_,), groups = session.numbers(kind), session.numbers(f"{kind} by carrier*late")
            assert not all_.note
            assert ONLY_BOUNDS in [a.note for a in groups]
            told = [a for a in groups if a.low > WORST[kind][0] or a.high < WORST[kind][1]]
            assert {a.note for a in told} <= ({"", ONE_END} if kind.startswith("quantile") else {""})
        assert "the answers may tell little" in session.quote_numbers("count by carrier*late").note
        assert "the answers may tell little" in session.quote_numbers("mean:delay by late").note  # 30 %
        assert not any(a.note for a in session.numbers("count by carrier*late"))


def test_quantiles_have_the_rank_that_they_say():
    delay, _, late = data()
    for cap in CAPS:
        with opened(MECHANISM, cap, table=table()) as session:
            for answer, (group, p) in zip(
                session.numbers("quantile(.1,.5,.9):delay by late"),
                [(g, p) for g in range(2) for p in (0.1, 0.5, 0.9)],
                strict=True,
            ):
                v = delay[late == group]
                upto, below = (v <= answer.value).sum(), (v < answer.value).sum()
                assert upto >= p * len(v) - answer.rank_error
                assert below <= p * len(v) + answer.rank_error
                assert answer.rank_error <= 0.02 * 6_000 * (1 + p) * 1.001


CELLS, GROUPS = 3, 54
BINNED = Domain(
    (
        Attribute("delay", "number", edges=(0, 10, 20, 90), integer=True),
        Attribute("world", "coded", codes=GROUPS, ordered=True),
    )
)
DEFINITIONS = (
    "inverted_cdf", "closest_observation", "linear", "weibull", "median_unbiased", "lower", "higher", "midpoint"
)  # fmt: skip


class OffBy:
    """A session in whose table each group is a world of its own, and whose answers are off by what is said of each.

    Parameters
    ----------
    counts
        (groups, cells), the records of each world.
    off
        (groups, cells), how far off the number of records up to each cell is, that is told.
    of_all, of_some
        What is told of how far off the numbers of all records are, and of those up to a cell before the last.
    known
        Whether all of them are known before anything is asked.
    """

    domain, cost = BINNED, PureDP(1.0)

    def __init__(self, counts, off, known, of_all=1.0, of_some=1.0):
        self.told, self.known = np.cumsum(counts, axis=1) + off, known
        self.errors = np.array([of_some] * (CELLS - 1) + [of_all])
        self.seen = set()

    def answers(self, family, purse=None):
        self.seen.add(family.queries)
        upto = np.asarray(family.group.queries.rows).reshape(GROUPS, CELLS, GROUPS)
        cells = upto[np.arange(GROUPS), :, np.arange(GROUPS)].sum(axis=1)
        told = self.told[np.arange(GROUPS), cells - 1].tolist(), self.errors[cells - 1].tolist()
        return [OnlineAnswer(value, error, "measured") for value, error in zip(*told, strict=True)]

    def quotes(self, groups, purse=None):
        return [Quote(None, "cached") for _ in groups]

    def price(self, group):
        return PureDP(1.0)

    def missing(self, group):
        return not self.known and group.queries not in self.seen


TABLES = [c for c in itertools.product(range(5), repeat=CELLS) if 1 <= sum(c) <= 4]
WORLDS = [*itertools.product(TABLES, itertools.product((-1, 0, 1), repeat=CELLS))]
"""All tables of 1 to 4 records in 3 bins, and all counts off by 0 or by the error, 1, on either side."""


@pytest.mark.parametrize("p", [0.0, 0.5, 0.9, 1.0])
def test_the_ends_of_a_quantile_hold_in_every_world_that_the_counts_leave(p):
    """And so do not those of its bin alone, nor those of who takes the number of all, or of some, for exact."""
    assert not len(WORLDS) % GROUPS
    low, high = quantiles_by_every_definition(p)
    for known in (True, False):
        said = ends_of_quantiles(p, known=known)
        assert not outside(said[:, :2], low, high)
        assert (said[:, 1] - said[:, 0] < 89).mean() > 0.03
    edges = np.array(BINNED["delay"].edges)
    found = np.searchsorted(edges, said[:, 2], side="right") - 1
    assert outside(np.stack([edges[found], edges[found + 1] - 1], axis=1), low, high)
    assert outside(ends_of_quantiles(p, known=True, of_all=0.0), low, high)
    assert outside(ends_of_quantiles(p, known=True, of_some=0.0), low, high)


def ends_of_quantiles(p, **told):
    """What a session says that the quantile of each world lies between, and where it is: (worlds, 3)."""
    question = NumericQuestion.parse(BINNED, f"quantile({p}):delay by world")
    counts, off = (np.array(x).reshape(-1, GROUPS, CELLS) for x in zip(*WORLDS, strict=True))
    found = [numbers.answer(OffBy(c, o, **told), question) for c, o in zip(counts, off, strict=True)]
    return np.array([[a.low, a.high, a.value] for answers in found for a in answers])


def outside(said, low, high):
    """In how many worlds a quantile is not where it was said to be."""
    return int(((said[:, 0] > low) | (said[:, 1] < high)).sum())


def quantiles_by_every_definition(p):
    """The least and the largest quantile, (worlds,), whatever definition is taken, wherever in its bin a record is."""
    ends, found = np.array(BINNED["delay"].edges), []
    for row in TABLES:
        first, last = np.repeat(ends[:-1], row), np.repeat(ends[1:] - 1, row)
        each = [[np.quantile(v, p, method=m) for m in DEFINITIONS] for v in (first, last)]
        found.append((min(each[0]), max(each[1])))
    return np.repeat(found, len(WORLDS) // len(TABLES), axis=0).T


def test_the_ends_of_a_quantile_are_as_near_as_the_counts_allow():
    """Where a synopsis knows all counts, the next bin on either side is surely beyond the rank error."""
    delay, _, late = data()
    with opened(Online(alpha=0.02, beta=0.01, declared=Conjunctions(2)), table=table()) as session:
        for answer, group in zip(session.numbers("quantile(.5):delay by late"), range(2), strict=True):
            v = np.sort(delay[late == group])
            slack = 2 * answer.rank_error + 2
            first = v[max(int(0.5 * len(v) - slack), 0)]
            last = v[min(int(0.5 * len(v) + slack), len(v) - 1)]
            assert first - 1 <= answer.low <= answer.high <= last + 1
            assert answer.high - answer.low < 39 / 2


def test_a_family_costs_what_one_answer_costs():
    with opened(MECHANISM, neighbours=ADD, table=table()) as session:
        one = session.quote("carrier = AA").cost
        assert session.quote_numbers("sum:delay by carrier").cost.epsilon == pytest.approx(2 * one.epsilon, rel=1e-2)
        for parts in ("mean:delay by carrier", "ratio:delay >= 10 by carrier"):  # what a record gives to both is 1
            assert session.quote_numbers(parts).cost.epsilon == pytest.approx(one.epsilon, rel=1e-2)
        assert session.quote_numbers("variance:delay").cost.epsilon == pytest.approx(1.25 * one.epsilon, rel=1e-2)
        steps = session.quote_numbers("quantile:delay by carrier").cost
        assert steps.epsilon == pytest.approx(7 * one.epsilon, rel=1e-2)  # the records, and 6 halvings of 40 cells


def test_a_quote_is_refused_where_the_budget_holds_its_parts_but_not_all():
    with opened(MECHANISM, neighbours=ADD, table=table()) as session:
        one, steps = session.quote("carrier = AA").cost.epsilon, session.quote_numbers("quantile:delay by carrier").cost
    for epsilon in (steps.epsilon / 2, steps.epsilon * 1.1 + one):
        with opened(MECHANISM, PureDP(epsilon), neighbours=ADD, table=table()) as session:
            session.quote("carrier = AA")
            if epsilon < steps.epsilon:
                with pytest.raises(BudgetExceeded):
                    session.quote_numbers("quantile:delay by carrier")
            else:
                assert session.quote_numbers("quantile:delay by carrier").cost == steps


@pytest.mark.parametrize("replace", [False, True])
def test_parts_that_are_asked_together_move_no_more_than_a_count_does(replace):
    """By enumeration of all pairs of neighbours: what one record gives to all queries, or two give that swap."""
    for text in ("mean:delay by carrier", "ratio:delay >= 10 by carrier", "mean:delay where late = yes"):
        families = numbers.Families(DOMAIN, NumericQuestion.parse(DOMAIN, text))
        rows = families.fixed()[0].group.queries
        gives = np.concatenate([rows.rows.T, np.zeros((1, len(rows.rows)), np.int64)]) * rows.unit
        pairs = gives[:-1, None] - (gives[None, :-1] if replace else gives[None, -1:])
        for order in (1, 2):
            moved = (np.abs(pairs) ** order).sum(axis=2).max()
            assert moved == rows.sensitivity(order, replace=replace) * rows.unit**order
            assert moved <= 1 + replace


def test_a_synopsis_is_quoted_once_for_all_numbers_that_it_gives():
    with opened(Online(alpha=0.02, beta=0.01, declared=Conjunctions(2)), table=table()) as session:
        quoted = session.quote_numbers("variance:delay by carrier")
        assert quoted.cost == session.quote("delay > 3").cost
        assert session.numbers("variance:delay by carrier")[0].cost == quoted.cost


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
def test_numbers_of_which_some_are_bought_in_rho_and_some_in_epsilon_cost_no_more_than_quoted(neighbours):
    mechanism = Online(alpha=0.05, beta=0.01, declared=Conjunctions(2))
    with opened(mechanism, ApproxDP(50.0, 1e-6), neighbours, table()) as session:
        text = "ratio:delay > 3 or carrier = AA"  # of which the met ones alone are no conjunction, bought in rho
        quoted = session.quote_numbers(text).cost
        assert session.numbers(text)[0].cost == quoted


def test_a_synopsis_of_conjunctions_gives_numbers_for_nothing():
    declared = Online(alpha=0.02, beta=0.01, declared=Conjunctions(2))
    for cap in CAPS:
        with opened(declared, cap, table=table()) as session:
            session.answer("delay > 3 and carrier = AA")
            before = spent(session)
            for text in ("mean:delay by carrier", "sum:delay by late", "quantile:delay by late", "variance:delay"):
                assert session.quote_numbers(text).cost is None
                answers = session.numbers(text)
                assert {a.source for a in answers} == {"synopsis"}
                true = truth(NumericQuestion.parse(DOMAIN, text))
                known = [(a, t) for a, t in zip(answers, true, strict=True) if not np.isnan(t)]
                assert all(a.low <= t <= a.high for a, t in known)
            assert spent(session) == before
            assert session.quote("late = yes and carrier = AA and delay > 3").cost is not None  # not of the class
            assert session.quote_numbers("mean:delay by carrier*late").cost is not None


def test_bins_of_several_numbers_are_counted_in_the_ends():
    delay, carrier, late = data()
    bins = np.searchsorted((-10, 0, 10, 30), delay, side="right") - 1
    rows = table_of(WIDE, np.stack([bins, carrier, late], axis=1))
    with opened(MECHANISM, table=rows) as session:
        for text, true in (("mean:delay", delay.mean()), ("sum:delay", delay.sum()), ("variance:delay", delay.var())):
            quote, before = session.quote_numbers(text).cost, spent(session)
            (answer,) = session.numbers(text)
            assert answer.low <= true <= answer.high
            assert spent(session) - before <= quote.epsilon * 1.001
        assert session.numbers("mean:delay")[0].error >= np.array([4.5, 4.5, 9.5])[bins].mean()


def test_numbers_teach_the_hypothesis():
    with opened(MECHANISM, table=table()) as session:
        session.numbers("mean:delay by late")
        learned = session.synopsis.answer(Workload.marginals(DOMAIN, [["delay", "late"]])).reshape(41, 2)[:40]
        even = np.arange(-10, 30).mean()
        means = (np.arange(-10, 30)[:, None] * learned).sum(axis=0) / learned.sum(axis=0)
        assert means[0] < even - 4  # of a uniform one
        assert means[1] > means[0] + 2


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("mean:delayy", InvalidInput, "no column 'delayy'"),
        ("mean:carrier", InvalidInput, "holds texts"),
        ("quantile(1.2):delay", InvalidInput, "from 0 to 1"),
        ("histogram:delay", InvalidInput, "ask for the marginal"),
        ("quantile(" + ",".join(["0.5"] * 100) + "):late by delay", InvalidInput, "holds texts"),
        ("quantile(" + ",".join(["0.5"] * 100) + "):delay by carrier*late", None, ""),
    ],
)
def test_what_means_nothing_costs_nothing(text, error, told):
    with opened(MECHANISM, table=table()) as session:
        before = spent(session)
        if error is None:
            assert session.quote_numbers(text).cost is not None
        else:
            with pytest.raises(error, match=told):
                session.numbers(text)
        assert spent(session) == before


def test_too_many_groups_are_refused():
    wide = Domain.coded({"a": 40, "b": 40, "c": 3})
    rows = table_of(wide, np.zeros((3_000, 3)))
    with (
        opened(MECHANISM, table=rows) as session,
        pytest.raises(TooLarge, match=f"1,600 answers; a session takes {MAX_ONLINE_GROUPS:,}"),
    ):
        session.numbers("mean:c by a*b")


def test_a_budget_that_ends_keeps_what_was_bought():
    small = PureDP(1.0)
    with opened(MECHANISM, small, table=table()) as session:
        with pytest.raises(BudgetExceeded):
            for p in range(1, 100):
                session.numbers(f"quantile({p / 100!r}):delay by carrier")
        assert session.spent.epsilon <= small.epsilon
        assert session.numbers("quantile(0.01):delay by carrier")[0].cost is None


@pytest.mark.parametrize(
    ("row", "weighted"),
    [
        (np.linspace(0, 1, 40)[:, None] * np.array([1.0, 0]), True),
        (np.linspace(0, 1, 40)[:, None] * np.array([1.0, 0.5]), False),
        (np.abs(np.linspace(-1, 1, 40)), True),
        (np.minimum(np.linspace(0, 1, 40)[:, None], np.array([0.3, 0.9])), False),
    ],
)
def test_weighted_conjunctions_are_averages_of_conjunctions(row, weighted):
    """And their super-level sets are in the class where they are said to be: w = Σ Δ 1{w >= t}."""
    domain = Domain.coded({"a": 40, "b": 2})
    axes = (0, 1)[: row.ndim]
    query, simple = canonical_name(domain, Group(axes, Vectors.rounded(row.reshape(1, -1), row.size)))
    assert simple is weighted
    assert Conjunctions(2, weighted=True).contains(domain, query) is weighted
    assert not Conjunctions(2).contains(domain, query)
    if not weighted:
        return
    entries = query.entries(domain)
    levels = np.unique(entries[entries > 0])
    parts = [(entries >= t).astype(np.int64) for t in levels]
    assert (sum(d * part for d, part in zip(np.diff(levels, prepend=0), parts, strict=True)) == entries).all()
    sets = [canonical_name(domain, Group(query.axes, Vectors(part[None, :], 1.0))) for part in parts]
    assert all(Conjunctions(2).contains(domain, one) for one, _ in sets)
    monotone = bool((np.diff(row.reshape(40, -1)[:, 0]) >= 0).all())
    assert Conjunctions(2, ranges=True, weighted=True).contains(domain, query) is monotone


def test_what_was_asked_of_one_column_is_bought_for_its_like():
    """Under pure ε tables of few columns at a time, for a price that the answers before have all but paid."""
    numbers = [Attribute(name, "number", edges=tuple(range(9)), integer=True) for name in ("depart", "arrive", "fly")]
    domain = Domain((*numbers, Attribute("carrier", "category", categories=tuple("ABCD"))))
    rng = np.random.default_rng(5)
    sizes = np.array([8, 8, 8, 4])
    known = table_of(domain, rng.integers(sizes, size=(20_000, 4)))
    with opened(MECHANISM, PureDP(100.0), neighbours=ADD, table=known) as session:
        rent, bought = 0.0, None
        for least, kind in itertools.product(range(1, 8), ("variance:{}", "ratio:{} >= 3", "ratio:{} >= 5", "sum:{}")):
            for of, other in (("depart", "arrive"), ("fly", "depart")):
                text = f"{kind.format(of)} by carrier where {other} >= {least}"
                quote, before = session.quote_numbers(text), spent(session)
                found = session.numbers(text)
                assert spent(session) - before <= (quote.cost.epsilon if quote.cost else 0) * (1 + 1e-9)
                if found[0].source == "synopsis":
                    bought = bought or found[0].cost.epsilon
                elif bought is None and found[0].cost:
                    rent += found[0].cost.epsilon
        assert bought is not None
        assert POLICY.synopsis_share * bought <= rent * (1 + 1e-9)
        after = spent(session)
        for text in ("variance:arrive by carrier where fly >= 3", "quantile(.5):fly by carrier where arrive >= 2"):
            assert session.quote_numbers(text).cost is None
            assert {a.source for a in session.numbers(text)} == {"synopsis"}
        assert spent(session) == after


EDGES = (*range(0, 100_001, 10_000), 400_000)
INCOMES = Domain(
    (
        Attribute("income", "number", edges=EDGES, integer=True),
        Attribute("group", "category", categories=("a", "b", "nobody")),
    )
)


def incomes(place, seed=0, n=8_000):
    """Incomes of which few are in the widest bin: all at the first number of their bins, at the last, or in between."""
    rng = np.random.default_rng(seed)
    of, group = np.minimum(rng.lognormal(10.4, 0.6, n), 399_999), rng.choice(2, n, p=[0.7, 0.3])
    bins = np.searchsorted(EDGES, of, side="right") - 1
    first, last = np.array(EDGES)[bins], np.array(EDGES)[bins + 1] - 1
    pay = np.rint(first + place * (last - first)) if place is not None else of.astype(int)
    return table_of(INCOMES, np.stack([bins, group], axis=1)), pay, group


@pytest.mark.parametrize("cap", CAPS, ids=str)
@pytest.mark.parametrize("neighbours", [SWAP, ADD])
def test_few_records_in_a_wide_bin_put_the_ends_hardly_further_apart(cap, neighbours):
    """The last bin is thirty times as wide as the others, and has 3 % of the records."""
    for seed, place in enumerate((None, 0.0, 1.0) * 3):
        rows, pay, group = incomes(place, seed)
        with opened(Online(alpha=0.01, beta=0.01), cap, neighbours, rows, seed=seed) as session:
            one = session.quote("group = a").cost.to_json()
            for text, dear in (("sum:income", 2), ("mean:income", 2), ("variance:income", 2.25)):
                quoted = session.quote_numbers(text).cost.to_json()
                assert all(quoted[name] <= 1.01 * dear * one[name] * (1 + (neighbours is SWAP)) for name in quoted)
            (total,), (mean,), (variance,) = (session.numbers(f"{kind}:income") for kind in ("sum", "mean", "variance"))
            assert total.low <= pay.sum() <= total.high
            assert mean.low <= pay.mean() <= mean.high
            assert variance.low <= pay.var() <= variance.high
            assert mean.error < 20_000 < 150_000 / 5
            assert total.error < 25_000 * len(pay)
            assert np.sqrt(variance.high) < 150_000
            by_group = session.numbers("mean:income by group")
            assert all(a.low <= pay[group == i].mean() <= a.high for i, a in enumerate(by_group[:2]))
            assert by_group[0].error < 25_000
            assert (by_group[2].low, by_group[2].high) == (0.0, 399_999.0)


def test_a_wide_bin_that_may_hold_everybody_is_as_wide_as_it_is():
    rows = table_of(INCOMES, np.tile([len(EDGES) - 2, 0], (4_000, 1)))
    with opened(Online(alpha=0.01, beta=0.01), table=rows) as session:
        (mean,) = session.numbers("mean:income")
        assert mean.low <= 100_000 < 399_999 <= mean.high


def test_a_quote_says_by_how_much_the_bins_put_the_ends_apart_at_most_and_what_to_write_in_the_schema():
    """From the schema and the session's number of records alone: the same for whatever records there are."""
    said = set()
    for place in (0.0, 1.0):
        rows, _, _ = incomes(place, seed=int(place))
        with opened(Online(alpha=0.01, beta=0.01), neighbours=SWAP, table=rows) as session:
            notes = [session.quote_numbers(f"{kind}:income").note for kind in ("mean", "sum", "variance")]
            said.add(tuple(notes))
            for note, far in zip(
                notes, ("a mean are up to 150,000", "a sum are up to 1.2e+09", "150,000"), strict=True
            ):
                assert far in note
                assert "income in 100000..399999" in note
                assert "within, step" in note
            assert not session.quote_numbers("ratio:group = a").note
    assert len(said) == 1


def test_a_share_through_bins_is_between_those_of_the_bins_beside():
    """The delays are kept to the minute, and counted in bins of ten and more."""
    delay, carrier, late = data()
    wide = Attribute("delay", "number", edges=(-10, 0, 10, 30), integer=True, within=(-10, 29), step=1)
    domain = Domain((wide, *DOMAIN.attributes[1:]))
    binned = Table(domain, (wide.bins_of(delay + 10), carrier, late), points=(delay + 10, None, None))
    with Ledger.open(None, PureDP(9.0)) as ledger:
        session = Curator(binned, ledger, Entropy.insecure(4)).open(MECHANISM, PureDP(9.0))
        quote = session.quote_numbers("ratio:delay > 3 by carrier")
        found = session.numbers("ratio:delay > 3 by carrier")[:2]
        assert found[0].cost.epsilon <= quote.cost.epsilon * (1 + 1e-9)
        assert [a.cost for a in session.numbers("ratio:delay > 3 by carrier")] == [None] * 3
        along = session.numbers("ratio:delay >= 10 by carrier")[:2]
    for group, (answer, other) in enumerate(zip(found, along, strict=True)):
        of_group = delay[carrier == group]
        assert answer.low <= (of_group >= 10).mean() <= (of_group > 3).mean() <= (of_group >= 0).mean() <= answer.high
        assert answer.high - answer.low > (of_group >= 0).mean() - (of_group >= 10).mean()
        assert answer.low <= answer.value <= answer.high
        assert abs(other.value - (of_group >= 10).mean()) < 0.1


def test_a_quantile_takes_at_most_what_is_quoted_and_says_so():
    """Which is the price of all steps that a search may take."""
    with opened(MECHANISM, table=table()) as session:
        quoted = session.quote_numbers("quantile(.5):delay by carrier")
        answers = session.numbers("quantile(.5):delay by carrier")
        paid = [a.cost.to_json() for a in answers if a.cost is not None]
        for name, most in quoted.cost.to_json().items():
            assert 0 < sum(cost[name] for cost in paid) <= most
        assert UP_TO in quoted.note
        assert session.quote_numbers("mean:delay by carrier").note == f"{EQUAL_GROUPS}; {NONE_MISSING}"
        for text in ("mean:delay", "sum:delay by carrier", "mean:delay by carrier where late = yes", "count by late"):
            assert EQUAL_GROUPS not in session.quote_numbers(text).note


@pytest.mark.parametrize(
    ("text", "told", "quoted"),
    [
        ("mean:pay by sex", f"{EQUAL_GROUPS}; {NONE_MISSING}", True),
        ("mean:pay", NONE_MISSING, True),
        ("mean:pay by sex where grade = 1", PRIVATE_SIZE, False),
        ("ratio:pay >= 1 where sex = 'F'", PRIVATE_SIZE, False),
        ("mean:grade by sex", EQUAL_GROUPS, True),
        ("sum:pay by sex", "", True),
    ],
)
def test_it_is_told_what_a_quoted_error_leaves_out_or_why_there_is_none(text, told, quoted):
    pay = Attribute("pay", "number", edges=(0, 1, 2, 3), integer=True, missing=("?",))
    question = NumericQuestion.parse(Domain((PEOPLE["sex"], pay, PEOPLE["grade"])), text)
    assert forewarning(question, 0.02, 10_000) == told
    assert (foretold_error(question, 200.0, 10_000) is not None) == quoted
