"""Online sessions of private multiplicative weights: promises, order of charge, draw and answer, and resumption."""

import contextlib
import json
import math
import threading
from dataclasses import replace

import numpy as np
import pytest
from instead import Instead
from streams import worst
from worlds import BOTH, PEOPLE, SpyEntropy, coded, mixed, neighbouring, private, random_table

from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError, StreamHalted
from qrelease.evaluation.audit import audit
from qrelease.inference.measurement import Measurement
from qrelease.inference.update_rules import Hedge
from qrelease.mechanisms.iterative import pmw_accuracy
from qrelease.mechanisms.iterative.pmw import PMWSession, PrivateMultiplicativeWeights
from qrelease.noise.entropy import Entropy
from qrelease.noise.sparse_vector import NumericSparse
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload, single
from qrelease.release.curator import Curator

ONE, APPROX = PureDP(1.0), ApproxDP(1.0, 1e-9)
SWAP = Neighbours.REPLACE_ONE

DOMAIN = coded(4, 4)
RECORDS = 400_000


def skewed(records=RECORDS, seed=0):
    """A table that no early hypothesis answers well."""
    rng = np.random.default_rng(seed)
    a = np.minimum(rng.geometric(0.7, records) - 1, 3)
    return Table(DOMAIN, (a, np.where(rng.random(records) < 0.8, a, rng.integers(0, 4, records))))


TABLE = skewed()
EXACT = TABLE.histogram()


def curator(cost=ONE, neighbours=SWAP, table=TABLE, entropy=None, path=None):
    ledger = Ledger.open(path, cost, neighbours=neighbours)
    return Curator(table, ledger, Entropy.insecure(1) if entropy is None else entropy)


def opening(ledger, mechanism=PrivateMultiplicativeWeights(), entropy=None, **changed):  # noqa: B008  frozen
    """A session as a curator opens it, with its door to the table; parts of its journal may be changed."""
    journal = ledger.journal(ledger.charge(ledger.total, "session", "k"))
    door = private(TABLE, ledger.total, ledger.neighbours, entropy)
    return mechanism.open(door, ledger.total, Instead(journal, **changed) if changed else journal), door


def query(row, domain=DOMAIN):
    return Workload.vectors(domain, np.asarray(row, float)[None, :])


def subsets(k, seed=0):
    """Queries that count random sets of cells, and their rows."""
    rows = np.unique(np.random.default_rng(seed).integers(0, 2, (2 * k, DOMAIN.size)), axis=0)
    return [(query(row), row) for row in np.random.default_rng(seed).permutation(rows)[:k]]


# --- promises


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("cost", [ONE, APPROX])
def test_answers_are_within_their_errors_and_updates_within_their_bound(cost, neighbours):
    with curator(cost, neighbours).open(PrivateMultiplicativeWeights(queries=100), cost) as session:
        answers = [(session.answer(q), row @ EXACT) for q, row in subsets(100)]
    assert all(abs(a.value - exact) <= a.error for a, exact in answers)
    assert all(a.error <= 3 * session.alpha * RECORDS for a, _ in answers)
    measured = [a for a, _ in answers if a.source == "measured"]
    assert 5 < len(measured) <= 4 * math.log(DOMAIN.size) / session.alpha**2
    assert session.updates_left == session.updates - len(measured)
    assert session.queries_left == 0


def adversary(session, k, seed=0):
    """What somebody asks who knows the table: where the hypothesis is furthest off, and some cells beside."""
    rng = np.random.default_rng(seed)
    for _ in range(k):
        gaps = EXACT - session.synopsis.values * (RECORDS / session.synopsis.total)
        yield (gaps > 0) ^ (rng.random(DOMAIN.size) < 0.1)


@pytest.mark.parametrize("neighbours", BOTH)
def test_an_adaptive_adversary_does_not_break_the_promise(neighbours):
    mechanism = PrivateMultiplicativeWeights(queries=200)
    with curator(neighbours=neighbours).open(mechanism, ONE) as session:
        for row in adversary(session, 200):
            answer = session.answer(query(row))
            assert abs(answer.value - row @ EXACT) <= answer.error
        assert 0 < session.updates - session.updates_left <= 4 * math.log(DOMAIN.size) / session.alpha**2


@pytest.mark.slow
@pytest.mark.parametrize("asker", [adversary, lambda session, k, seed: (row for _, row in subsets(k, seed))])
def test_the_promise_fails_no_more_often_than_it_says(asker):
    parts = []
    for run in range(200):
        mechanism = PrivateMultiplicativeWeights(queries=100)
        with curator(entropy=Entropy.insecure(run)).open(mechanism, ONE) as session:
            off = max(abs(session.answer(query(row)).value - row @ EXACT) for row in asker(session, 100, run))
        parts.append(off / (3 * session.alpha * RECORDS))
    assert np.mean(np.array(parts) > 1) <= 0.05
    assert np.quantile(parts, 0.95) > 0.5  # and it is no empty promise


def test_the_textbooks_constants():
    """T = 18c (ln 2k + ln(4c/β)) / ε in counts, at its fixed point T = 2αn, and the least α is one at which it is."""
    session = curator().open(PrivateMultiplicativeWeights(beta=0.1, queries=50), ONE)
    alpha, c = session.alpha, 4 * math.log(16) / session.alpha**2
    threshold = 18 * c * (math.log(100) + math.log(4 * c / 0.1))
    assert threshold == pytest.approx(2 * alpha * RECORDS, rel=1e-6)
    assert session.updates == math.floor(c)
    assert session.terms.threshold == pytest.approx(threshold * 2**20, rel=1e-6)
    session = curator(APPROX).open(PrivateMultiplicativeWeights(beta=0.1, queries=50), APPROX)
    alpha, c = session.alpha, 4 * math.log(16) / session.alpha**2
    threshold = (2 + 32 * math.sqrt(2)) * math.sqrt(c * math.log(2e9)) * (math.log(100) + math.log(4 * c / 0.1))
    assert threshold == pytest.approx(2 * alpha * RECORDS, rel=1e-6)


def test_error_is_three_times_the_least_alpha():
    workload = Workload.vectors(DOMAIN, np.eye(16))
    promised = PrivateMultiplicativeWeights().error(workload, RECORDS, ONE, SWAP, beta=0.1)
    session = curator().open(PrivateMultiplicativeWeights(beta=0.1, queries=16), ONE)
    assert promised == 3 * session.alpha
    private_number = PrivateMultiplicativeWeights().error(workload, RECORDS, ONE, Neighbours.ADD_REMOVE, beta=0.1)
    assert promised < private_number < 1.1 * promised
    assert PrivateMultiplicativeWeights().error(workload, 100, ONE, SWAP, beta=0.1) == math.inf
    better = PrivateMultiplicativeWeights().error(workload, RECORDS, ApproxDP(1.0, 1e-9), SWAP, beta=0.1)
    assert better < promised  # δ buys a promise here
    few = ApproxDP(50.0, 1e-9)
    assert PrivateMultiplicativeWeights().error(workload, 1000, few, SWAP, beta=0.1) == pytest.approx(
        PrivateMultiplicativeWeights().error(workload, 1000, PureDP(50.0), SWAP, beta=0.1)
    )  # and not here, so it is not used


# --- the order of things


@pytest.mark.parametrize("neighbours", BOTH)
def test_nothing_is_drawn_before_the_charge(neighbours):
    def charged():
        assert ledger.spent == ONE

    spy = SpyEntropy(0, charged)
    ledger = Ledger.open(None, ONE, neighbours=neighbours)
    session = Curator(TABLE, ledger, spy).open(PrivateMultiplicativeWeights(), ONE)
    session.answer("a = 0")
    assert spy.taken > 0
    with pytest.raises(BudgetExceeded):
        Curator(TABLE, ledger, spy).open(PrivateMultiplicativeWeights(), ONE)


def test_a_session_spends_exactly_its_charge():
    session, door = opening(Ledger.open(None, ONE))
    session.answer("a = 0")
    assert [s.what for s in door.spends] == ["count the records", "compare by sparse vector"]
    assert door.filter.remaining is None or door.filter.remaining.epsilon < 1e-15


def test_what_is_not_durable_is_not_shown():
    ledger, full = Ledger.open(None, ONE, neighbours=SWAP), []
    journal = ledger.journal(ledger.charge(ONE, "session", "k"))

    def append(entry):
        if full:
            raise LedgerError("the disk is full")
        journal.append(entry)

    session, _ = opening(ledger, append=append)
    first = session.answer("a = 0")
    full.append(1)
    assert session.answer("a = 0") == first
    with pytest.raises(LedgerError, match="full"):
        session.answer("a = 1")
    with pytest.raises(StreamHalted, match="closed; open it again under its key 'k'"):
        session.answer("a = 0")
    again, _ = opening(ledger)
    assert again.queries_left == 9_999
    assert again.answer("a = 0") == first


def test_every_answer_is_in_the_journal_when_it_is_shown(tmp_path):
    path = tmp_path / "people.ledger"
    source = curator(path=path)
    session = source.open(PrivateMultiplicativeWeights(), ONE, key="k")
    for i, (q, _) in enumerate(subsets(20)):
        session.answer(q)
        with Ledger.open(path) as other:
            assert len(other.journal(other.charge(ONE, "pmw: a session", "k")).entries) == i + 3


# --- resumption


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_session_goes_on_where_it_ended(neighbours, tmp_path):
    path, mechanism = tmp_path / "people.ledger", PrivateMultiplicativeWeights(queries=60)
    asked = subsets(40)
    with curator(neighbours=neighbours, path=path).open(mechanism, ONE, key="stream") as session:
        before = [session.answer(q) for q, _ in asked]
    spy = SpyEntropy(9)
    source = curator(neighbours=neighbours, path=path, entropy=spy)
    again = source.open(mechanism, ONE, key="stream")
    assert (again.alpha, again.records, again.updates) == (session.alpha, session.records, session.updates)
    np.testing.assert_allclose(again.synopsis.values, session.synopsis.values, rtol=1e-12)
    assert [again.answer(q) for q, _ in asked] == before
    assert (again.queries_left, again.updates_left) == (20, session.updates_left)
    assert spy.taken == 0  # nothing was drawn so far, and nothing charged twice
    assert source.ledger.spent == ONE
    for q, row in subsets(60)[40:]:
        answer = again.answer(q)
        assert abs(answer.value - row @ EXACT) <= answer.error


def test_going_on_takes_an_update():
    """The threshold noise is new: one of the c runs of AboveThreshold is over."""
    source, mechanism = curator(), PrivateMultiplicativeWeights()
    c, measured = source.open(mechanism, ONE, key="k").updates, 0
    for resumed in range(3):
        session = source.open(mechanism, ONE, key="k")
        measured += session.answer(f"a = {resumed} and b = 3").source == "measured"
        assert session.updates_left == c - (resumed + 1) - measured
    # A process that only looks takes none.
    assert source.open(mechanism, ONE, key="k").updates_left == session.updates_left


def test_a_sparse_vector_continues_another():
    stream = NumericSparse(ONE, 5, 1, Entropy.insecure(0), used=2)
    assert stream.calibration == NumericSparse(ONE, 5, 1, Entropy.insecure(0)).calibration
    assert [stream.ask(10**9, 0) is None for _ in range(3)] == [False] * 3
    assert stream.halted
    assert NumericSparse(ONE, 5, 1, Entropy.insecure(0), used=7).halted
    with pytest.raises(InvalidInput, match="used must be an integer of at least 0"):
        NumericSparse(ONE, 5, 1, Entropy.insecure(0), used=-1)


def test_updates_run_out():
    source, mechanism = curator(PureDP(20.0)), PrivateMultiplicativeWeights(alpha=0.9)
    c = source.open(mechanism, PureDP(20.0), key="k").updates
    assert c == 13
    cells = [f"a = {i} and b = {j}" for i in range(4) for j in range(4)]
    for cell in cells[: c - 1]:
        assert source.open(mechanism, PureDP(20.0), key="k").answer(cell).source == "hypothesis"
    session = source.open(mechanism, PureDP(20.0), key="k")
    with pytest.raises(StreamHalted, match="all 13 updates of the session are spent; a new one costs anew"):
        session.answer(cells[c])
    assert session.answer(cells[0]).source == "hypothesis"  # what was answered stays answered
    with pytest.raises(StreamHalted, match="updates"):
        session.answer(cells[c])


def test_of_two_processes_the_first_to_ask_goes_on(tmp_path):
    path, mechanism = tmp_path / "people.ledger", PrivateMultiplicativeWeights()
    with curator(path=path).open(mechanism, ONE, key="k") as opened:
        opened.answer("a = 0")
    one, two = (curator(path=path, entropy=Entropy.insecure(i)).open(mechanism, ONE, key="k") for i in (1, 2))
    shown = one.answer("a = 1")
    with pytest.raises(LedgerError, match="key 'k' was taken over by another process"):
        two.answer("a = 2")
    assert one.answer("a = 2").error > 0
    three = curator(path=path).open(mechanism, ONE, key="k")
    assert three.answer("a = 1") == shown


def test_a_first_process_is_fenced_off_too():
    source, mechanism = curator(), PrivateMultiplicativeWeights()
    one = source.open(mechanism, ONE, key="k")
    two = source.open(mechanism, ONE, key="k")
    two.answer("a = 1")
    with pytest.raises(LedgerError, match="taken over"):
        one.answer("a = 1")
    with pytest.raises(StreamHalted, match="closed"):
        one.answer("a = 1")


def test_a_session_is_not_gone_on_with_as_another(tmp_path):
    path, mechanism = tmp_path / "people.ledger", PrivateMultiplicativeWeights(queries=50)
    curator(PureDP(2.0), path=path).open(mechanism, ONE, key="k").close()
    source = curator(PureDP(2.0), path=path)
    with pytest.raises(LedgerError, match=r"was opened with alpha=0\.1\d+, beta=0\.05, queries=50$"):
        source.open(replace(mechanism, queries=51), ONE, key="k")
    with pytest.raises(LedgerError, match="use another key"):
        source.open(mechanism, PureDP(1.5), key="k")
    with pytest.raises(LedgerError, match="use another key"):
        source.ledger.charge(ONE, "marginals of 2024", "k")
    other = Curator(random_table(coded(2, 8), RECORDS, 0), source.ledger)
    with pytest.raises(LedgerError, match="other columns"):
        other.open(mechanism, ONE, key="k")
    assert source.open(mechanism, ONE, key="k").queries_left == 50


def test_an_alpha_out_of_reach_of_a_private_number_costs_nothing_but_the_count():
    spy = SpyEntropy(3)
    source = curator(neighbours=Neighbours.ADD_REMOVE, entropy=spy)
    with pytest.raises(InvalidInput, match=r"alpha=0.01 is out of reach.* the least is 0\.\d+; the charge stands.*'k'"):
        source.open(PrivateMultiplicativeWeights(alpha=0.01), ONE, key="k")
    assert source.ledger.spent == ONE
    drawn = spy.taken
    with source.open(PrivateMultiplicativeWeights(alpha=0.4), ONE, key="k") as session:
        assert spy.taken == drawn  # the count is the same one
        assert session.answer("a = 0").error > 0
    assert source.ledger.spent == ONE
    with pytest.raises(LedgerError, match=r"was opened with alpha=0\.4"):
        source.open(PrivateMultiplicativeWeights(alpha=0.5), ONE, key="k")


# --- queries and bad input


def test_a_query_asked_again_has_its_answer_whatever_its_spelling():
    session = curator().open(PrivateMultiplicativeWeights(), ONE)
    first = session.answer("a = 1 and b in {2, 3}")
    for again in ("b in {3,2} and a = 1", "(a = 1) and b >= 2", "not (not b in 2..3 or a != 1)"):
        assert session.answer(again) is first
    row = np.zeros((4, 4))
    row[1, 2:] = 1
    assert session.answer(Workload.vectors(DOMAIN, row.reshape(1, -1), ["a", "b"])) is first
    assert session.queries_left == 9_999
    wide = session.answer("a = 0")
    assert session.answer("a = 0 and b in 0..3") is wide
    assert session.answer("b in {0, 1, 2, 3} and not a != 0") is wide
    assert session.queries_left == 9_998
    assert str(first) == f"{first.value:.1f} ± {first.error:.1f} ({first.source})"
    assert float(first) == first.value


def test_queries_of_every_kind():
    table = random_table(PEOPLE, 100_000, 1)
    exact = table.histogram().reshape(PEOPLE.shape)
    session = curator(table=table).open(PrivateMultiplicativeWeights(), ONE)
    grades = Workload.vectors(PEOPLE, [[0.0, 0.5, 1.0]], ["grade"])
    for q, true in [
        ("sex = F", exact[0].sum()),
        ("age is missing or grade = 2", exact[:, 3].sum() + exact[:, :3, 2].sum()),
        (grades, exact.sum(axis=(0, 1)) @ [0, 0.5, 1]),
        (Workload.prefixes(coded(1), "a"), None),
    ]:
        if true is None:
            with pytest.raises(InvalidInput, match="another domain"):
                session.answer(q)
        else:
            assert abs(session.answer(q).value - true) <= session.answer(q).error


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("colour = red", "no column 'colour'"),
        (Workload.marginals(DOMAIN, 1), "a session answers one query at a time, got a workload of 8"),
        (7, "a query is a condition or a workload, got int"),
    ],
)
def test_what_is_no_query_is_refused_and_draws_nothing(asked, message):
    spy = SpyEntropy(0)
    session = curator(entropy=spy).open(PrivateMultiplicativeWeights(), ONE)
    with pytest.raises(InvalidInput, match=message):
        session.answer(asked)
    assert spy.taken == 0
    assert session.answer("a = 0").error > 0  # and it goes on


def test_a_closed_session_and_an_exhausted_one():
    session = curator().open(PrivateMultiplicativeWeights(queries=2), ONE, key="k")
    first = session.answer("a = 0")
    session.answer("a = 1")
    with pytest.raises(StreamHalted, match="all 2 queries of the session are asked"):
        session.answer("a = 2")
    assert session.answer("a = 0") is first
    with session:
        pass
    with pytest.raises(StreamHalted, match="closed"):
        session.answer("a = 0")


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("value", [0, 1, -0.1, 2.0, math.nan, "x", True])
def test_alpha_and_beta_are_probabilities(name, value):
    with pytest.raises(InvalidInput, match=name):
        PrivateMultiplicativeWeights(**{name: value})
    with pytest.raises(InvalidInput, match="queries"):
        PrivateMultiplicativeWeights(queries=0)


@pytest.mark.parametrize(
    ("mechanism", "cost", "message"),
    [
        (PrivateMultiplicativeWeights(alpha=0.01), ONE, r"0\.01 is out of reach.*400,000 records.*least is 0\.\d"),
        (PrivateMultiplicativeWeights(), PureDP(1e-4), "epsilon is too small.*no alpha below 1 can be promised"),
        (PrivateMultiplicativeWeights(), ZCDP(0.1), "spends epsilon, or epsilon and delta, got rho=0.1"),
    ],
)
def test_what_can_be_known_is_refused_before_the_charge(mechanism, cost, message):
    source = curator(ApproxDP(10.0, 0.1))
    with pytest.raises(InvalidInput, match=message):
        source.open(mechanism, cost)
    assert source.ledger.spent is None


def test_the_least_alpha_that_a_refusal_names_is_in_reach():
    source = curator(PureDP(2.0))
    with pytest.raises(InvalidInput) as refusal:
        source.open(PrivateMultiplicativeWeights(alpha=0.01), ONE)
    named = float(str(refusal.value).rsplit(" ", 1)[1])
    assert source.open(PrivateMultiplicativeWeights(alpha=named), ONE).alpha == named
    with pytest.raises(InvalidInput):
        source.open(PrivateMultiplicativeWeights(alpha=named * 0.98), ONE)


def test_a_delta_that_the_rule_does_not_hold_at_is_left():
    """Where the textbook's rule is not proved, for a large ε, ε alone is spent."""
    large = ApproxDP(500.0, 1e-3)
    with pytest.raises(InvalidInput, match="epsilon must be small enough"):
        NumericSparse.calibrate(large, 1, 1)
    session = curator(large, Neighbours.ADD_REMOVE).open(PrivateMultiplicativeWeights(), large)
    assert session.terms.cost == PureDP(session.terms.cost.epsilon)
    for c in (2, 10, 1000):
        NumericSparse.calibrate(ApproxDP(20.0, 1e-9), c, 1)


def test_nothing_private_in_a_repr():
    session = curator().open(PrivateMultiplicativeWeights(queries=9), ONE)
    session.answer("a = 0")
    assert repr(session).startswith("<PMWSession epsilon=1, alpha=0.15, 49")
    assert "8 queries left, INSECURE seed 1>" in repr(session)


def test_a_session_that_was_ever_insecure_says_so_for_good():
    secret = Entropy()
    first = curator(entropy=secret)
    for entropy, marked in ((Entropy(), False), (Entropy.insecure(1), True), (Entropy(), True)):
        source = Curator(TABLE, first.ledger, entropy)
        session = source.open(PrivateMultiplicativeWeights(queries=9), ONE, key="k")
        session.answer(f"a = {session.queries_left % 4}")
        assert session.insecure is marked
        assert ("INSECURE" in repr(session)) is marked
    opened = curator(entropy=SpyEntropy(0))  # a source of one's own is no better
    opened.open(PrivateMultiplicativeWeights(), ONE, key="k").close()
    again = Curator(TABLE, opened.ledger, Entropy()).open(PrivateMultiplicativeWeights(), ONE, key="k")
    assert again.insecure
    assert repr(again).endswith("queries left, INSECURE>")


def test_threads_share_a_session():
    session = curator().open(PrivateMultiplicativeWeights(queries=32), ONE)
    asked, found = subsets(32), {}

    def ask(order):
        for i in order:
            found.setdefault(i, []).append(session.answer(asked[i][0]))

    threads = [threading.Thread(target=ask, args=(np.random.default_rng(t).permutation(32),)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.queries_left == 0
    assert all(len(answers) == 4 and len(set(answers)) == 1 for answers in found.values())


# --- what a session loses, exactly, and twins that lose more

PAID = PureDP(20.0)


def streams(cost=PAID, neighbours=SWAP):
    """The sparse vector of a session of thirteen updates, and the share of the cost that is its."""
    session = curator(cost, neighbours).open(PrivateMultiplicativeWeights(alpha=0.9), cost)
    share = 1.0 if neighbours is SWAP else 1 - pmw_accuracy.COUNT_SHARE
    return session.terms.stream(Entropy.insecure(2), 0), PureDP(cost.epsilon * share)


def loss(calibration):
    """The largest privacy loss: of comparisons, whose two questions move in opposite directions, and of the numbers."""
    names = ("threshold", "query", "numeric")
    one = replace(calibration, **{name: getattr(calibration, name) / pmw_accuracy.STEPS for name in names})
    return worst(one, 1, monotone=False) + one.positives / float(one.numeric)


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_session_loses_all_that_it_pays_and_no_more(neighbours):
    stream, share = streams(neighbours=neighbours)
    assert 0.99 * share.epsilon < loss(stream.calibration) <= share.epsilon * (1 + 1e-9)


def half_the_sensitivity(cost, positives, sensitivity):
    return NumericSparse.calibrate(cost, positives, sensitivity // 2)


def twice_the_cost(cost, positives, sensitivity):
    return NumericSparse.calibrate(PureDP(2 * cost.epsilon), positives, sensitivity)


@pytest.mark.parametrize("twin", [half_the_sensitivity, twice_the_cost])
@pytest.mark.parametrize("neighbours", BOTH)
def test_half_the_sensitivity_or_a_forgotten_half_of_epsilon_would_show(twin, neighbours):
    stream, share = streams(neighbours=neighbours)
    assert loss(twin(share, stream.calibration.positives, pmw_accuracy.STEPS)) > 1.9 * share.epsilon


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("cost", [ONE, APPROX, PAID])
def test_the_sparse_vector_is_the_one_that_the_charge_pays_for(cost, neighbours):
    session, door = opening(Ledger.open(None, cost, neighbours=neighbours))
    session.answer("a = 0")
    paid = cost if neighbours is SWAP else replace(cost, epsilon=session.terms.cost.epsilon)
    assert paid.epsilon == pytest.approx(cost.epsilon * (1.0 if neighbours is SWAP else 1 - pmw_accuracy.COUNT_SHARE))
    stream = session.terms.stream(Entropy.insecure(2), 0)
    assert stream.calibration == NumericSparse.calibrate(paid, session.updates, pmw_accuracy.STEPS)
    assert door.spends[-1].cost == paid


@pytest.mark.parametrize("neighbours", BOTH)
def test_one_record_moves_no_asked_value_further_than_the_sensitivity(neighbours):
    """Queries of every kind, on all neighbours of a table; what is public is the same on both."""
    asked, widest, seen = [], 0, []
    for group in mixed().groups:
        asked += [Workload(PEOPLE, (single(group, i),)) for i in range(group.queries.count)]

    def ask_many(values, threshold):
        seen.append((np.array(values), threshold))

    setting = pmw_accuracy.PMWSetting.of(PEOPLE, 100, 0.05, ONE, neighbours, 10**9)
    terms = replace(setting.terms(0.5), records=8)

    def values_on(table):
        seen.clear()
        with Ledger.open(None, ONE, neighbours=neighbours) as ledger:
            journal = ledger.journal(ledger.charge(ONE, "session", "k"))
            asking = Instead(terms, stream=lambda *given: Instead(terms.stream(*given), ask_many=ask_many))
            session = PMWSession(private(table, ONE, neighbours), asking, journal, [], resumed=False)
            measured = Measurement(asked[3].groups[0], np.array([7.0]), terms.noise)
            Hedge(terms.alpha).update(session.synopsis, [measured])
            for q in asked:
                session.answer(q)
        return np.array([values for values, _ in seen]), {threshold for _, threshold in seen}

    table = random_table(PEOPLE, 8, 3)
    here, thresholds = values_on(table)
    assert (here[:, 0] == -here[:, 1]).all()
    for other in neighbouring(table, neighbours):
        there, again = values_on(other)
        assert thresholds == again == {terms.threshold}
        widest = max(widest, np.abs(here - there).max())
    assert widest == pmw_accuracy.STEPS


# --- audits, and a twin that breaks the promise

TWO = coded(2)
CELLS = [query(row, TWO) for row in ([1, 0], [0, 1])]


def transcript(noise, updates):
    """All that a session shows that is asked a question, crashes, and is asked another one.

    At last whether the two answers differ by 4, as they would without noise on four records in the first cell. A few
    records matter, and the threshold is low: privacy does not depend on whether the terms promise anything.
    """
    terms = pmw_accuracy.PMWSetting.of(TWO, 4, 0.05, ONE, SWAP, 10**9).terms(0.3)
    terms = replace(terms, records=4, updates=updates, threshold=1 << 20)

    def run(records, entropy):
        table = Table(TWO, (np.array(records),))
        with Ledger.open(None, ONE, neighbours=SWAP) as ledger:
            charge = ledger.charge(ONE, "session", "k")
            answers = []
            for number, q in enumerate(CELLS):
                journal = ledger.journal(charge)
                source = private(table, ONE, SWAP, noise(entropy, number))
                entries = [json.loads(e) for e in journal.entries]
                session = PMWSession(source, terms, journal, entries, resumed=number > 0)
                with contextlib.suppress(StreamHalted):
                    answers.append(session.answer(q))
            values = [a.value for a in answers]
            return [*values, *(float(a.source == "measured") for a in answers), float(values[0] - values[-1] == 4)]

    return run


def fresh(entropy, number):
    return entropy


class Replayed:
    """Noise that the second process draws again."""

    def __init__(self):
        self.seed = 0

    def __call__(self, entropy, number):
        self.seed += number == 0
        return Entropy.insecure(self.seed)


PAIR = [0, 0, 0, 0], [0, 0, 0, 1]


@pytest.mark.slow
def test_the_auditor_acquits_a_session_and_convicts_one_that_replays_its_noise():
    effort = {"samples": 1500, "entropy": Entropy.insecure(5)}
    assert not audit(transcript(fresh, 3), *PAIR, ONE, **effort).convicted
    assert audit(transcript(Replayed(), 3), *PAIR, ONE, **effort).convicted
