"""Online sessions that pay as they go: promises, prices, one journal for many processes, and what a crash leaves."""

import contextlib
import math
import multiprocessing
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sessions import (
    ADD,
    BOXES,
    CAPS,
    DOMAIN,
    EXACT,
    ONLINE,
    SWAP,
    TABLE,
    ledger_of,
    mask,
    opened,
    spent,
    state_of,
)
from worlds import BOTH, PEOPLE, coded, private, random_table, universe

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError, TooLarge
from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.online.canonical_group import QueryReader
from qrelease.mechanisms.online.prices import ALONE, Prices
from qrelease.mechanisms.online.session import Online
from qrelease.mechanisms.online.state import SessionState
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.classes import Conjunctions
from qrelease.queries.families import Cells
from qrelease.queries.products import IntegerRows
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator


def test_what_weighs_all_records_alike_is_free_where_it_is_known():
    with opened() as session:
        everybody, nobody = session.answer("a in {0, 1}"), session.answer("a = 0 and a = 1")
        assert (everybody.value, everybody.error, everybody.cost) == (4_000, 0, None)
        assert (nobody.value, nobody.error, nobody.cost) == (0, 0, None)
        assert session.spent is None
    with opened(neighbours=ADD) as session:
        assert session.answer("a = 0 and a = 1").value == 0
        assert session.answer("a in {0, 1}").source == "measured"


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("neighbours", BOTH)
def test_a_stream_is_within_its_errors_and_the_ledger_says_what_it_cost(cap, neighbours):
    with opened(Online(0.1, 1e-4), cap, neighbours) as session:
        counts, costs = spent(session), []
        for query, row in BOXES:
            answer = session.answer(query)
            assert abs(answer.value - row @ EXACT.reshape(-1)) <= answer.error <= 0.1 * session.records
            costs += [answer.cost] if answer.cost else []
        sources = Counter(session.answer(q).source for q, _ in BOXES)
        assert sources["synopsis"] > 200
        assert sources["cached"] > 2
        total = sum(c.rho if isinstance(c, ZCDP) else c.epsilon for c in costs)
        assert isinstance(cap, ApproxDP) or total + counts == pytest.approx(spent(session))
        history = [e for e in ledger_of(session).history() if e.kind == "charge"]
        # Under pure ε first one of tables, for simple conditions.
        assert sum(e.label == "online: synopsis" for e in history) == (2 if isinstance(cap, PureDP) else 1)
        assert (counts > 0) == (neighbours is ADD)
        assert abs(session.records - 4_000) < 400
        assert session.synopsis.answer(Workload.predicates(DOMAIN, "a = 0"))[0] == pytest.approx(
            EXACT[0].sum(), abs=400
        )


def test_a_family_costs_what_one_of_its_cells_does():
    with opened() as session:
        marginal = Workload.marginals(DOMAIN, [["a", "b"]])
        one = session.quote("a = 0").cost
        quote = session.quote(marginal)
        answers = session.answers(marginal)
        assert quote.cost == session.spent
        assert quote.cost.epsilon == pytest.approx(2 * one.epsilon)  # a replacement moves two cells
        assert [a.cost for a in answers] == [quote.cost] + [None] * 5
        assert all(abs(a.value - x) <= a.error for a, x in zip(answers, EXACT.sum(axis=2).reshape(-1), strict=True))
        assert session.answer("a = 1 and b = 2").value == answers[5].value
        assert [a.source for a in session.answers(marginal)] == ["cached"] * 6


def test_real_valued_queries_are_measured_to_the_same_error():
    rng = np.random.default_rng(0)
    with opened(neighbours=ADD) as session:
        for _ in range(5):
            row = rng.random(24)
            answer = session.answer(mask(row))
            assert answer.source == "measured"
            assert abs(answer.value - row @ EXACT.reshape(-1)) <= answer.error


# --- promises


@pytest.mark.parametrize("gaussian", [False, True])
def test_an_answer_is_off_by_more_than_its_error_as_often_as_it_may_be(gaussian):
    """20 000 answers: a scale 30 % too large or too small is told."""
    domain, beta = coded(1000), 0.1
    prices = Prices(domain, ADD, 500.0, beta, gaussian)
    door = private(Table(domain, (np.zeros(7, np.int64),)), ZCDP(1e3) if gaussian else PureDP(1e6))
    workload = Workload.marginals(domain, 1)
    cost = prices.cost(prices.price(Cells(1000)))
    noise = np.concatenate([door.measure(workload, cost)[0].values[1:] for _ in range(20)])
    rate = np.mean(np.abs(noise) > 500)
    assert 0.9 * ALONE * beta < rate < 1.07 * ALONE * beta
    assert np.mean(np.abs(noise) > 500 / 1.3) > 1.5 * ALONE * beta > 2 * np.mean(np.abs(noise) > 500 * 1.3)


def test_an_error_that_rounding_may_reach_has_no_residuals():
    prices = Prices(DOMAIN, ADD, 1.0, 0.001, True)
    with pytest.raises(TooLarge, match="no room for the rounding"):
        prices.residuals(0, (0, 1), Conjunctions(2))


def test_a_sparse_vector_does_not_say_right_where_it_is_wrong():
    """Guesses that are off by E, in the direction that it is told least well: its part of β for a whole instance."""
    prices = Prices(DOMAIN, ADD, 500.0, 0.9, False)
    from qrelease.noise.sparse_vector import SparseVector

    price, threshold = prices.sparse(0, 4)
    entropy, wrong, far = Entropy.insecure(2), 0, 0
    for _ in range(2_000):
        wrong += SparseVector(PureDP(price), 4, 1, entropy).ask_many([501, -501], threshold) is None
        far += SparseVector(PureDP(price), 4, 1, entropy).ask_many([350, -350], threshold) is None
    assert wrong / 2_000 <= prices.share(0) * 1.2
    assert far / 2_000 > 2 * prices.share(0)


# --- money


@pytest.mark.parametrize("cap", [PureDP(0.2), ZCDP(1e-3), ApproxDP(0.2, 1e-6)])
@pytest.mark.parametrize("where", ["cap", "ledger"])
def test_the_budget_is_never_exceeded_and_free_answers_go_on(cap, where):
    large = type(cap)(**{name: v * (10 if name != "delta" else 1) for name, v in cap.to_json().items()})
    total, limit = (large, cap) if where == "cap" else (cap, large)
    ledger = Ledger.open(None, total, neighbours=SWAP)
    session = Curator(TABLE, ledger, Entropy.insecure(1)).open(ONLINE, limit)
    state_of(session).policy.synopsis_share = math.inf
    known = []
    with pytest.raises(BudgetExceeded, match="requested"):
        for query, _ in BOXES:
            if not session.quote(query).cost or session.answer(query):
                known.append(query)
    before = ledger.history()
    with pytest.raises(BudgetExceeded):
        session.quote(BOXES[len(known)][0])
    assert known
    assert ledger.history() == before
    assert all(session.answer(q).source in ("cached", "hypothesis") for q in known)
    size = [c.rho if isinstance(c, ZCDP) else c.epsilon for c in (ledger.spent, cap)]
    assert size[0] <= size[1]


# --- journals


class Crash(Entropy):
    """Dies at a draw."""

    def __new__(cls, after=0):
        made = object.__new__(cls)
        made.inner, made._after = Entropy.insecure(9), after
        return made

    def __init__(self, after=0):
        pass

    @property
    def insecure_seed(self):
        return 9

    def words(self, n):
        self._after -= 1
        if self._after < 0:
            raise KeyboardInterrupt
        return self.inner.words(n)


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("neighbours", BOTH)
def test_a_session_goes_on_where_it_ended_with_the_same_answers(tmp_path, cap, neighbours):
    path = tmp_path / "l"
    with opened(cap=cap, neighbours=neighbours, path=path, key="s") as session:
        first = {i: session.answer(q) for i, (q, _) in enumerate(BOXES[::2])}
        family = session.answers(Workload.marginals(DOMAIN, [["a", "c"]]))
        total, records = session.spent, session.records
        fit = session.synopsis.values
        ledger_of(session).close()
    with opened(cap=cap, neighbours=neighbours, path=path, key="s", seed=77) as session:
        assert (session.spent, session.records) == (total, records)
        again = {i: session.answer(q) for i, (q, _) in enumerate(BOXES[::2])}
        assert all((a.value, a.error) == (first[i].value, first[i].error) for i, a in again.items())
        assert all(a.cost is None for a in again.values())
        assert [a.value for a in session.answers(Workload.marginals(DOMAIN, [["a", "c"]]))] == [a.value for a in family]
        assert session.spent == total
        np.testing.assert_array_equal(session.synopsis.values, fit)
    ledger = Ledger.open(path)
    with pytest.raises(LedgerError, match="was opened with"):
        Curator(TABLE, ledger, Entropy.insecure(1)).open(Online(0.05, 0.01), cap, key="s")
    with pytest.raises(LedgerError, match="use another key"):
        Curator(TABLE, ledger, Entropy.insecure(1)).open(ONLINE, type(cap)(*[0.02] * len(cap.to_json())), key="s")


@pytest.mark.parametrize(
    "mechanism", [ONLINE, PrivateMultiplicativeWeights(alpha=0.3, queries=9)], ids=lambda m: m.name
)
def test_a_session_is_not_gone_on_with_where_codes_mean_something_else(mechanism):
    """What was answered is kept by columns and codes: other labels of them would have the answers of these."""
    cap, (sex, age, grade) = PureDP(50.0), PEOPLE
    with Ledger.open(None, cap, neighbours=SWAP) as ledger:

        def session(domain):
            return Curator(random_table(domain, 4_000, 1), ledger, Entropy.insecure(1)).open(mechanism, cap, key="s")

        first = session(PEOPLE)
        first.answer("sex = F")
        first.close()
        for other in (
            (replace(sex, categories=("M", "F")), age, grade),
            (sex, replace(age, edges=(0, 20, 41, 60)), grade),
            (sex, replace(age, outside="clip"), grade),
            (sex, age, replace(grade, name="class")),
            (grade, age, sex),
        ):
            with pytest.raises(LedgerError, match="is over other columns, labels or bins; go on with what it was"):
                session(Domain(other))
        assert session(Domain(tuple(replace(a) for a in PEOPLE))).answer("sex = F").source != "measured"


@pytest.mark.parametrize("declared", [None, Conjunctions(3)])
def test_what_was_charged_before_a_crash_is_delivered_after_it(tmp_path, declared):
    path, mechanism = tmp_path / "l", Online(0.1, 0.01, declared)
    ledger = Ledger.open(path, CAPS[0], neighbours=SWAP)
    session = Curator(TABLE, ledger, Crash()).open(mechanism, CAPS[0], key="s")
    with pytest.raises(KeyboardInterrupt):
        session.answer("a = 0 and c = 1")
    total = session.spent
    assert total is not None
    assert total == ledger.spent
    other = Curator(TABLE, Ledger.open(path), Entropy.insecure(5)).open(mechanism, CAPS[0], key="s")
    assert other.quote("a = 0 and c = 1").cost is None
    answer = other.answer("c = 1 and a = 0")
    assert (answer.cost, other.spent) == (None, total)
    session.catch_up()
    assert session.answer("a = 0 and c = 1").value == answer.value
    assert ledger.spent == total


def test_a_crash_while_the_records_are_counted_costs_no_more(tmp_path):
    path = tmp_path / "l"
    ledger = Ledger.open(path, CAPS[0])
    with pytest.raises(KeyboardInterrupt):
        Curator(TABLE, ledger, Crash(after=3)).open(ONLINE, CAPS[0], key="s")
    charges = len(ledger.history())
    session = opened(neighbours=ADD, path=path, key="s")
    epsilons = [e.cost.epsilon for e in ledger.history() if e.kind == "charge"]
    assert len(ledger.history()) > charges
    assert epsilons == sorted(set(epsilons))
    assert abs(session.records - 4_000) < 400


def test_two_sessions_on_one_journal_share_everything(tmp_path):
    path = tmp_path / "l"
    sessions = [opened(neighbours=ADD, path=path, key="s", seed=s) for s in (1, 2)]
    values = {}
    for i, (query, _) in enumerate(BOXES):
        value = sessions[i % 2].answer(query).value
        values[i] = value
        assert sessions[1 - i % 2].answer(query).value == value
    for session in sessions:
        session.catch_up()
    assert sessions[0].spent == sessions[1].spent == Ledger.open(path).spent
    labels = Counter(e.label for e in Ledger.open(path).history())
    assert labels["online: synopsis"] == 1


def test_whoever_writes_an_answer_down_first_gives_it(tmp_path):
    """Both bought or found the same purchase, and both drew: one answer, one charge."""
    path = tmp_path / "l"
    one, two = (opened(path=path, key="s", seed=s) for s in (1, 2))
    (unit,) = QueryReader(DOMAIN).read("b = 1")
    number, bought = one._find_or_buy(unit, None)
    assert bought
    second = two.answer("b = 1")
    one._deliver(number, unit)
    assert one.answer("b = 1").value == second.value
    assert sum(e.kind == "charge" for e in Ledger.open(path).history()) == 1


def test_a_shared_journal_gives_everybody_the_same_entries(tmp_path):
    first = Ledger.open(tmp_path / "l", PureDP(1.0)).session(PureDP(0.5), "work", "k")
    second, third = (Ledger.open(tmp_path / "l").session(PureDP(0.5), "work", "k") for _ in range(2))
    with first.writing() as news:
        assert news == []
        first.buy(PureDP(0.25), "a part")
        first.append(b"one")
    with pytest.raises(ZeroDivisionError), second.writing() as news:
        assert news == [b"one"]
        second.buy(PureDP(0.25), "undone")
        second.append(b"undone")
        raise ZeroDivisionError
    with second.writing() as news:
        assert news == []
        second.append(b"two")
    assert (first.read(), second.read(), first.read()) == ([b"two"], [], [])
    assert third.read() == [b"one", b"two"]
    history = Ledger.open(tmp_path / "l").history()
    assert [(e.kind, e.cost, e.answered) for e in history[1:]] == [
        ("session", PureDP(0.5), True),
        ("charge", PureDP(0.25), False),
    ]
    assert Ledger.open(tmp_path / "l").spent == PureDP(0.25)
    with pytest.raises(BudgetExceeded):
        first.check(PureDP(0.8))
    with pytest.raises(LedgerError, match="another key"):
        Ledger.open(tmp_path / "l").charge(PureDP(0.5), "work", "k")


def _worker(path, seed, queue):
    session = opened(neighbours=ADD, path=path, key="s", seed=seed)
    order = np.random.default_rng(seed).permutation(60)
    answers = {}
    for i in order:
        for text in (f"a = {i % 2} and b in {{{i % 3}}} and c = {i % 4}", f"c in 0..{i % 3} and b = {i % 3}"):
            answers[text] = session.answer(text).value
    queue.put(answers)


def test_two_processes_pay_once_for_each_query(tmp_path):
    path = tmp_path / "l"
    Ledger.open(path, CAPS[0], neighbours=ADD).close()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=_worker, args=(path, seed, queue)) for seed in (1, 2)]
    for worker in workers:
        worker.start()
    found = [queue.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join()
    assert found[0] == found[1]
    with opened(neighbours=ADD, path=path, key="s") as session:
        asked = [p.entry["asked"] for p in state_of(session).purchases if p.kind == "answers"]
        assert len(asked) == len(set(asked))
        assert session.spent == Ledger.open(path).spent
        assert not state_of(session).owed


def test_inside_a_transaction_all_is_one(tmp_path):
    ledger = Ledger.open(tmp_path / "l", CAPS[0], neighbours=SWAP)
    source = Curator(TABLE, ledger, Entropy.insecure(1))
    session = source.open(ONLINE, CAPS[0], key="s")
    with session.together():
        first = session.answer("a = 0")
        assert session.answer("a = 0").value == first.value
    with pytest.raises(ZeroDivisionError), session.together():
        session.answer("b = 0")
        raise ZeroDivisionError
    # What was drawn and undone was paid for by nobody: the session that saw it says no more.
    for use in (lambda: session.answer("b = 0"), lambda: session.quote("a = 0"), lambda: session.synopsis):
        with pytest.raises(LedgerError, match="was undone; open it again"):
            use()
    again = source.open(ONLINE, CAPS[0], key="s")
    assert (again.spent, again.answer("a = 0").value) == (first.cost, first.value)
    assert again.quote("b = 0").cost is not None
    with pytest.raises(LedgerError, match="inside a transaction"), ledger.transaction():
        source.release(Laplace(), Workload.marginals(TABLE.domain, 1), PureDP(0.01))
    again.answer("a = 0")


def test_nothing_is_answered_in_a_transaction_of_the_callers(tmp_path):
    """Who shows an answer and undoes its charge then has shown it for nothing: so it is not given at all."""
    ledger = Ledger.open(tmp_path / "l", CAPS[0], neighbours=ADD)
    source = Curator(TABLE, ledger, Entropy.insecure(1))
    session = source.open(ONLINE, CAPS[0], key="s")
    spent = ledger.spent
    for use in (
        lambda: session.answer("a = 0"),
        lambda: session.answers(Workload.marginals(TABLE.domain, 1)),
        lambda: session.together().__enter__(),
        lambda: source.open(ONLINE, CAPS[0], key="other"),
        lambda: source.open(PrivateMultiplicativeWeights(), CAPS[0]),
    ):
        with pytest.raises(LedgerError, match="inside a"), ledger.transaction():
            use()
    with session.together():
        pass
    with pytest.raises(LedgerError, match="inside a"), ledger.transaction():  # no more than before
        session.answer("a = 0")
    assert ledger.spent == spent
    assert session.answer("a = 0").cost is not None


@contextlib.contextmanager
def commits_fail(store):
    """Each transaction that writes to a journal breaks a rule that SQLite looks at when it is committed."""
    store.execute("PRAGMA foreign_keys = ON")
    store.execute("CREATE TEMP TABLE few (number INTEGER PRIMARY KEY)")
    store.execute("CREATE TEMP TABLE many (number REFERENCES few DEFERRABLE INITIALLY DEFERRED)")
    store.execute("CREATE TEMP TRIGGER fails AFTER INSERT ON main.journal BEGIN INSERT INTO many VALUES (1); END")
    try:
        yield
    finally:
        for what in ("TRIGGER fails", "TABLE many", "TABLE few"):
            store.execute(f"DROP {what}")


def test_what_could_not_be_committed_was_not_bought(tmp_path):
    ledger = Ledger.open(tmp_path / "l", CAPS[0], neighbours=SWAP)
    source = Curator(TABLE, ledger, Entropy.insecure(1))
    session = source.open(ONLINE, CAPS[0], key="s")
    first = session.answer("a = 0")
    with commits_fail(ledger.store), pytest.raises(LedgerError):
        session.answer("b = 0")
    assert (session.spent, session.answer("a = 0").value) == (first.cost, first.value)
    assert session.answer("b = 0").cost == first.cost
    with commits_fail(ledger.store), pytest.raises(LedgerError), session.together():
        session.answer("c = 0")
    with pytest.raises(LedgerError, match="was undone; open it again"):
        session.answer("a = 0")
    again = source.open(ONLINE, CAPS[0], key="s")
    assert again.spent == ledger.spent
    assert again.spent.epsilon == pytest.approx(2 * first.cost.epsilon)
    assert again.answer("c = 0").cost == first.cost


def test_who_was_interrupted_while_reading_answers_no_more(tmp_path, monkeypatch):
    """Else the next purchase would take the number of one that the state has missed, and with it its answer."""
    session, read = opened(path=tmp_path / "l", key="s"), SessionState.replay

    def interrupted(state, entries):
        if any(b'"buy"' in entry for entry in entries):
            raise KeyboardInterrupt
        read(state, entries)

    monkeypatch.setattr(SessionState, "replay", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.answer("a = 0")
    monkeypatch.undo()
    for use in (session.answer, session.quote):
        with pytest.raises(LedgerError, match="was interrupted while it read; open it again"):
            use("b = 0")
    with pytest.raises(LedgerError, match="was interrupted"):
        session.catch_up()
    again = opened(path=tmp_path / "l", key="s")
    again.answer("b = 0")
    with Ledger.open(tmp_path / "l") as ledger:
        assert again.spent == ledger.spent


def test_a_session_with_insecure_noise_stays_marked(tmp_path):
    session = opened(path=tmp_path / "l", key="s")
    session.answer("a = 0")
    assert session.insecure
    session.close()
    with Ledger.open(tmp_path / "l") as ledger:
        again = Curator(TABLE, ledger, Entropy()).open(ONLINE, CAPS[0], key="s")
        assert again.insecure
        assert "INSECURE" in repr(again)
    fresh = Curator(TABLE, Ledger.open(None, CAPS[0], neighbours=SWAP), Entropy()).open(ONLINE, CAPS[0])
    fresh.answer("a = 0")
    assert not fresh.insecure
    assert "INSECURE" not in repr(fresh)


def test_a_refused_purchase_undoes_nothing_of_the_session(tmp_path):
    session = opened(cap=PureDP(0.02), path=tmp_path / "l")
    first = session.answer("a = 0")
    with pytest.raises(BudgetExceeded):
        for query, _ in BOXES:
            session.answer(query)
    assert session.answer("a = 0").value == first.value


def test_what_a_session_may_not_cost_is_told_beside_what_the_ledger_has_left(tmp_path):
    """The cap is the session's, and no raise of the ledger's total changes it."""
    with Ledger.open(tmp_path / "l", ApproxDP(10.0, 1e-6), neighbours=SWAP) as ledger:
        session = Curator(TABLE, ledger).open(ONLINE, PureDP(0.02), key="s")
        for ask in (
            lambda: [session.answer(query) for query, _ in BOXES],
            lambda: session.check_covered([PureDP(0.01), PureDP(0.5)]),
        ):
            with pytest.raises(BudgetExceeded) as refused:
                ask()
            told = str(refused.value)
            assert told.startswith("the session's budget exceeded: total epsilon=0.02; spent epsilon=0.0"), told
            assert "what a session may cost cannot grow under its key: open another session by key=NAME" in told
            assert told.endswith(f"the ledger has {ledger.balance['left']} left)")
            assert "raise" not in told
            assert refused.value.facts.startswith("budget exceeded: total epsilon=0.02; ")  # of which analysts hear


def test_unbounded_queries_are_refused():
    rows = Workload(DOMAIN, (Group((0,), IntegerRows(np.array([[-1, 9] + [0] * (DOMAIN.shape[0] - 2)]), 1.0)),))
    with pytest.raises(InvalidInput, match=r"\[0, 1\]"):
        opened().answer(rows)


# --- what is refused


@pytest.mark.parametrize(
    "bad", [{"alpha": 0}, {"alpha": 1}, {"alpha": "x"}, {"beta": 0.0}, {"beta": 2}, {"declared": 3}]
)
def test_bad_parameters(bad):
    with pytest.raises(InvalidInput):
        Online(**bad)


def test_bad_queries_and_too_few_records():
    with pytest.raises(InvalidInput, match="order"):
        Conjunctions(0)
    with opened(cap=CAPS[0]) as session:
        for bad in (
            3,
            None,
            "no such column = 1",
            Workload.predicates(PEOPLE, "sex = F"),
            Workload.marginals(DOMAIN, 1),
        ):
            with pytest.raises(InvalidInput):
                session.answer(bad)
        assert session.spent is None
    few = random_table(DOMAIN, 15, seed=1)
    with pytest.raises(InvalidInput, match="at least 2 counts"):
        opened(table=few)
    with pytest.raises(InvalidInput, match="too few records"):
        opened(Online(0.01, 0.01), table=random_table(DOMAIN, 1, seed=1), neighbours=ADD)
    with pytest.raises(InvalidInput, match="cannot hold"):
        Curator(TABLE, Ledger.open(None, PureDP(1.0)), Entropy.insecure(1)).open(ONLINE, ZCDP(0.1))


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("neighbours", BOTH)
def test_a_column_of_one_value_is_no_trouble(cap, neighbours):
    domain = coded(1, 3, 4)
    table = random_table(domain, 4_000, seed=2)
    with opened(Online(0.1, 0.01, Conjunctions(2)), cap, neighbours, table) as session:
        answers = session.answers(Workload.marginals(domain, 2))
        exact = [table.counts([s])[0] for s in ((0, 1), (0, 2), (1, 2))]
        assert all(abs(a.value - x) <= a.error for a, x in zip(answers, np.concatenate(exact), strict=True))
        assert session.answer("a = 0 and b = 1 and c = 2").source == "synopsis"


def test_universes_too_large_for_a_hypothesis_have_sessions_without_one():
    domain = coded(*[8] * 9)
    table = Table(domain, tuple(np.random.default_rng(0).integers(0, 8, (9, 3_000))))
    with opened(table=table) as session:
        answer = session.answer("a = 1 and b = 2 and i > 3")
        assert answer.source == "measured"
        with pytest.raises(TooLarge, match="hypothesis"):
            session.synopsis  # noqa: B018
    assert universe(DOMAIN).shape == (24, 3)


def test_a_coarse_alpha_takes_a_count_that_is_no_mere_chance():
    """The first count that seems precise enough is taken: at α = .4 one of 20 draws of noise alone would seem so.

    Of 120 sessions an eighth had a number of records of more than twice the true one, when the count was as precise as
    α alone asks.
    """
    table = Table(coded(2, 3), (np.arange(150) % 2, np.arange(150) % 3))
    found = []
    for seed in range(120):
        with Ledger.open(None, PureDP(2.0)) as ledger, contextlib.suppress(InvalidInput):
            curator = Curator(table, ledger, Entropy.insecure(seed))
            found.append(curator.open(Online(0.4, 1e-3), PureDP(2.0)).records)
    assert len(found) > 100
    assert max(found) < 300


def test_a_session_of_an_earlier_version_with_a_coarse_count_is_not_gone_on_with():
    """It counted 60 records at ε = .1, for α = .3: that was enough, and then it answered."""
    state = SessionState(DOMAIN, ADD, PureDP(1.0), 0.3, 0.05, None, None)
    state.replay([b'{"buy":"count","cost":{"epsilon":0.1},"epsilon":0.1}', b'{"of":0,"values":[60]}'])
    with pytest.raises(LedgerError, match="count of the records is not precise enough"):
        state.replay([b'{"buy":"answers","cost":{"epsilon":0.1},"asked":[]}'])
