"""Online answers to an adaptive stream, each within α at the least price: a session that pays as it goes.

A query that was asked before, in whatever words, has the answer that it had, for nothing. One of a class that a
synopsis was bought for is read off that. For another one the session chooses between

- an answer measured by itself, which also trains a hypothesis;
- a synopsis for the class that the stream has shown so far, by the rule of the ski rental: as soon as answers that it
  would have given cost `RENT` times its price. Or at once, for a class that was declared;
- a sparse vector, which answers for nothing while the hypothesis is right: once the hypothesis has been right, of late,
  on so many measured queries of the kind as cost as much.

**Promise.** Let r be the session's number of records: n, where that is public, else a noisy count, bought first. Each
answer that is given to a query for the first time is within `error` = αr of the truth with probability 1 - β, whoever
asks, whatever they know of the records, and however they chose it by earlier answers. *Proof* in `pricing`: a measured
answer has noise of its own; a synopsis, and an instance of sparse vector, keeps within αr on all queries of its class
at once, but for its part of β. (Who asks a query again gets an old answer, of which they may know that it is wrong.)

Under add-remove r = n + W with Laplace noise W of scale at most 4ar/L, L = ln(4/3β) and a the smaller of α and 1/12: so
r is within a few per cent of n, in units of α. Its ε doubles from `FIRST` until the count is a rough one, which says
how much a good one takes. A measured answer is then within αn itself with probability 1 - 3/4 β E e^(LW/n): the
exponent of its tail changes by LW/n. That mean is 1/(1 - (4a)²) for W of just that scale and r near n: at most 9/8,
below the 4/3 that makes 1 - β. (That r is looked at before it is taken adds little, by simulation: with a = 1/12 the
worst of all is .9 β, and with 1/8 it would be 1.06 β.)
(Where a class is declared, half of β is its synopsis's; in all of this β/2 stands for β then.)

**Money.** The session's cost is its cap. A purchase is charged to the ledger and written into the session's journal in
one durable transaction before its noise is drawn, and the result before it is shown. (Where the unit is a person, cap
and prices are divided among the records that are kept of each, `privacy.unit`: inside and in the journal they
are those of one record, and in the ledger, in quotes and beside answers those of a person.) Processes on one ledger
share the journal: each catches up with it before it buys. If one died between charge and answer, the next one that
needs the answer draws it, at no further charge; if two do, the first to write it down is the one whose answer counts,
and nobody sees the other. Noise that is kept secret, that of a sparse vector, is the process's own and dies with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, final

import numpy as np

from qrelease._util.validate import natural, positive_probability
from qrelease.data.domain import Domain
from qrelease.data.schema import column_digests
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError, StreamHalted, TooLarge
from qrelease.inference.histogram import Histogram
from qrelease.mechanisms.base import OnlineAnswer, parameters
from qrelease.mechanisms.online import hypothesis as hypotheses
from qrelease.mechanisms.online import numbers
from qrelease.mechanisms.online.canonical_group import CanonicalGroup, QueryReader
from qrelease.mechanisms.online.draws import PrivateDraws
from qrelease.mechanisms.online.numbers import NumberAnswer
from qrelease.mechanisms.online.prices import Offer
from qrelease.mechanisms.online.purchasing import Purchase
from qrelease.mechanisms.online.quotes import PaidEstimate, Purse, Quote, total_cost
from qrelease.mechanisms.online.state import SessionState
from qrelease.mechanisms.private_data import Private
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_cost, check_spendable
from qrelease.privacy.filters import Tally, after, asked_at_most, remaining, room_of, spent, times_left
from qrelease.privacy.journals import SharedJournal
from qrelease.privacy.ledger_guard import SessionLock
from qrelease.privacy.unit import Unit
from qrelease.queries.classes import Conjunctions
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Workload

if TYPE_CHECKING:
    from qrelease.statistics.base import Statistic

_ANOTHER_KEY: Final = "open another session by key=NAME in Python, or serve --session NAME"

_as_json: Final = json.JSONEncoder(separators=(",", ":")).encode


@final
@dataclass(frozen=True)
class Online:
    """Sessions in which each answer is within a fraction α of the records with probability 1 - β, at the least cost.

    The cost given to `Curator.open` is the most that the session may spend. If it is a pure ε, all noise is Laplace; if
    it is ρ or (ε, δ), noise is Gaussian and charged in ρ. One exception: under (ε, δ), while nothing was charged in ρ,
    the synopsis of a declared class is charged in ε or in (ε, 7δ/8), whichever is less.

    Parameters
    ----------
    alpha
        The largest error of an answer, as a fraction of the number of records.
    beta
        The probability that an answer is off by more, for each answer by itself.
    declared
        The class of all queries that will be asked, if it is known: a synopsis for it is bought at the first of them.
    records
        About how many records there are, if that is public: an α that is out of reach for so many records is refused
        before a noisy count is bought. It is used for nothing else, and a session may be resumed with another one.

    Raises
    ------
    InvalidInput
        For parameters out of range.

    References
    ----------
    Hardt, Ligett & McSherry 2012, *A simple and practical algorithm for differentially private data release*: the rule
    by which the hypothesis learns. Dwork & Roth 2014, §3.6: the sparse vector.

    Examples
    --------
    >>> import qrelease as qr
    >>> mechanism = qr.Online(alpha=0.02, beta=0.01, declared=qr.Conjunctions(2))
    >>> mechanism.name
    'online'
    """

    alpha: float = 0.05
    beta: float = 0.001
    declared: Conjunctions | None = None
    records: int | None = None

    @property
    def name(self) -> str:
        """`online`."""
        return "online"

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive_probability("alpha", self.alpha))
        object.__setattr__(self, "beta", positive_probability("beta", self.beta))
        if self.declared is not None and not isinstance(self.declared, Conjunctions):
            raise InvalidInput(f"the declared class must be Conjunctions, got {type(self.declared).__name__}")
        if self.records is not None:
            object.__setattr__(self, "records", natural("records", self.records))

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours, records: int | None) -> None:
        """`InvalidInput` for too few records, where their number is public, and for an α out of reach, if given it; for
        a cap that can count no records.
        """
        check_cost(cost)
        if records is None:  # a cap that holds not even the first look at them is no session
            SessionState(domain, neighbours, cost, self.alpha, self.beta, self.declared, None).count()
        known = self.records if records is None else records
        if known is None:
            return
        self._check_records(known)
        if self.records is not None:
            self._check_reach(domain, cost, neighbours, known)

    def _check_reach(self, domain: Domain, cost: Cost, neighbours: Neighbours, known: int) -> None:
        """Raise `InvalidInput` where a cap holds no answer within α of so many records, or not their count."""
        state = SessionState(domain, neighbours, cost, self.alpha, self.beta, self.declared, known)
        everybody = CanonicalGroup.of(domain, Workload.marginals(domain, [()]).groups[0])
        price = state.policy.alone(everybody).cost
        beyond = f"alpha={self.alpha:g} of {known:,} records is out of reach at {cost}"
        try:
            after(cost, Tally(), price)
        except BudgetExceeded:
            raise InvalidInput(f"{beyond}: one answer costs {price:.6g}; take a larger alpha") from None
        if not state.countable(known):
            raise InvalidInput(f"{beyond}: to count them takes too much of it; take a larger alpha")

    def _check_records(self, records: int) -> None:
        if self.alpha * records < 2:
            raise InvalidInput(f"alpha * records must be at least 2 counts, got {self.alpha:g} * {records:,}")

    def join(self, private: Private, journal: SharedJournal) -> OnlineSession:
        """A session, new or resumed; see `Curator.open`."""
        terms = {
            "alpha": self.alpha,
            "beta": self.beta,
            "declared": self.declared and [self.declared.order, self.declared.ranges],
            "columns": column_digests(private.domain),
        }
        with journal.writing() as entries:
            if not entries:
                entries = [_as_json({"session": terms}).encode()]
                journal.append(*entries)
        opened = json.loads(entries[0])["session"]
        if opened != terms:
            columns = opened.pop("columns", None) == terms["columns"]
            what = f"was opened with {json.dumps(opened)}" if columns else "is over other columns, labels or bins"
            raise LedgerError(
                f"the session with key {journal.key!r} {what}; go on with what it was opened with, or use another key:"
                f" {_ANOTHER_KEY}"
            )
        return OnlineSession(self, private, journal, entries[1:])


@final
class OnlineSession:
    """A session of `Online`; made by `Curator.open`. Processes may share its journal, and threads the session.

    Inside a transaction of the ledger, which could undo what was shown, it answers nothing, but in one that `together`
    began; while one thread is in that, it alone may use the session.

    Parameters
    ----------
    mechanism
        What it was opened with.
    private
        The door to the table.
    journal
        Where it writes what it buys and draws. Its cap is what the session may cost.
    entries
        What the journal holds so far, after the terms.

    Attributes
    ----------
    mechanism : Online
    key : str
        Its name in the ledger.
    cost : Cost
        Its cap.
    domain : Domain
        The universe of its queries.

    Examples
    --------
    >>> import qrelease as qr
    >>> table = qr.Table.from_frame(people, schema)  # doctest: +SKIP
    >>> curator = qr.Curator(table, qr.Ledger.open("people.ledger", qr.PureDP(1.0)))  # doctest: +SKIP
    >>> with curator.open(qr.Online(alpha=0.02), qr.PureDP(0.5)) as session:  # doctest: +SKIP
    ...     print(session.quote("age in 30..39").cost, session.answer("age in 30..39"))
    """

    def __init__(self, mechanism: Online, private: Private, journal: SharedJournal, entries: Sequence[bytes]) -> None:
        self.mechanism, self.key, self.cost = mechanism, journal.key, journal.cap
        self.domain: Domain = private.domain
        self._unit = private.unit or Unit(private.neighbours)
        self._cap = self._unit.of_a_record(journal.cap)
        self._draws, self._journal = PrivateDraws(private), journal
        terms = mechanism.alpha, mechanism.beta, mechanism.declared, private.public_records
        self._state = SessionState(self.domain, private.neighbours, self._cap, *terms)
        self._reader = QueryReader(self.domain)
        self._closed = self._together = False
        self._buys_synopses = True
        self._session_lock = SessionLock(self.key)
        self._replayed = journal.length - len(entries)
        self._replay(entries)
        self.catch_up()
        self._count_records()

    @property
    def _lock(self) -> AbstractContextManager[object]:
        """One thread at a time."""
        return self._session_lock.lock

    def _count_records(self) -> None:
        """Buy noisy counts until the number of records is known; `InvalidInput` for too few, and what that cost."""
        try:
            while not self._state.records:
                self._deliver(self._find_or_buy(None, None)[0], None)
        except InvalidInput as error:
            paid = "nothing" if self.spent is None else f"{self.spent:.6g}"
            raise InvalidInput(
                f"{error}; to find that out, {paid} was charged, which stays spent, and the session with key"
                f" {self.key!r} keeps its alpha: {_ANOTHER_KEY}. With records=N (--records N), about how many there"
                " are, if that is public, what is out of reach is refused before anything is charged"
            ) from None

    # What it is asked

    def answer(self, query: str | Workload | CanonicalGroup, purse: Purse | None = None) -> OnlineAnswer:
        """The answer to one query. It is durable before it is returned, if it was paid for.

        Parameters
        ----------
        query
            A condition such as ``age in 30..39 and income = '>50K'``, or a workload of one query.
        purse
            Another budget that pays what the answer costs, too, in the same transaction.

        Raises
        ------
        BudgetExceeded
            If the cap, the ledger or the purse does not cover what the answer costs. Nothing is charged.
        StreamHalted
            If the session is closed.
        InvalidInput
            For what is no query, or more than one.
        """
        groups = self._reader.read(query)
        if sum(len(group.queries) for group in groups) != 1:
            raise InvalidInput(f"one query has one answer, got {query!r}; use answers")
        return self._serve(groups[0], purse)[0]

    def answers(self, workload: Workload | CanonicalGroup, purse: Purse | None = None) -> list[OnlineAnswer]:
        """The answers to a workload, (k,). The queries of one group are bought as one family, at its price.

        The cells of a marginal cost together what one of them costs; the cost stands with the first answer that was
        not known. Raises as `answer` does; what was bought for earlier groups is kept then.
        """
        return [a for group in self._reader.read(workload) for a in self._serve(group, purse)]

    def numbers(
        self, question: str | NumericQuestion | NumberWorkload, purse: Purse | None = None
    ) -> list[NumberAnswer]:
        """Sums, means, variances, quantiles or shares by group, one answer a group or quantile: `mean:age by sex`.

        They are made of linear queries, which are priced, remembered and learned from as others are: see
        `mechanisms.online.numbers`. Raises as `answer` does; what was bought before a budget ended is kept.
        """
        return numbers.answer(self, self._question(question), purse)

    def quote_numbers(self, question: str | NumericQuestion | NumberWorkload, purse: Purse | None = None) -> Quote:
        """The most that the answers of `numbers` would cost now, in all, how far off they may be, and what to know."""
        asked = self._question(question)
        found = numbers.quote(self, asked, purse)
        return replace(found, note=self.forewarning(asked), error=self.foretold_error(asked))

    def estimate(self, statistic: Statistic, cost: Cost, purse: Purse | None = None) -> PaidEstimate:
        """A statistic at a cost of one's own choice, as `Curator.estimate` makes it, paid from the session's budget.

        One that was estimated before at this cost, or at more of its kind, is that estimate again, for nothing. The
        session's α and β are not about estimates, and its hypothesis does not learn from them.

        Parameters
        ----------
        statistic
            One of those that look once through the columns of the table: `statistics.catalogue.IN_SESSIONS`.
        cost
            What it may cost, rho, or epsilon alone; all of it is charged, once.
        purse
            As in `answer`.

        Raises
        ------
        BudgetExceeded, StreamHalted
            As `answer` does.
        InvalidInput, TooLarge
            What `Curator.estimate` refuses, other statistics, a test of more than 1,024 cells, and a cost with a delta:
            a few of those could use up the delta that answers to others need. Nothing is charged.
        """
        asked, described, of_a_record = self._statistic_asked(statistic, cost)
        with self._lock:
            self._check_open()
            number, paid = self._find_or_buy_estimate(asked, of_a_record, purse)
            if number is not None:
                bought = self._unit.of_the_unit(self._state.purchases[number].cost)
                drawn = self._draws.estimate(statistic, described, bought)
                self._write_down(number, {"estimate": drawn.to_json()})
            found = self._state.estimate(asked, of_a_record)
            assert found is not None
            return PaidEstimate(self._draws.estimator.read(found), "cached" if number is None else "measured", paid)

    def quote_estimate(self, statistic: Statistic, cost: Cost, purse: Purse | None = None) -> Quote:
        """What `estimate` would cost now; nothing is spent or written. Raises as `estimate` does."""
        asked, _, of_a_record = self._statistic_asked(statistic, cost)
        with self._lock:
            self._check_kept()
            if self._state.estimate(asked, of_a_record) is not None:
                return Quote(None, "cached")
            if self._state.owed_estimate(asked, of_a_record) is not None:
                return Quote(None, "measured")
            self._check_covered(of_a_record, purse)
            return Quote(self._unit.of_the_unit(of_a_record), "measured")

    def promised(self, statistic: Statistic, cost: Cost) -> float | None:
        """What a statistic's theorem promises for as many records as were counted, with probability 0.95; or None."""
        return self._draws.estimator.promised(statistic, cost, self.records)

    def _statistic_asked(self, statistic: Statistic, cost: Cost) -> tuple[str, dict[str, Any], Cost]:
        """What a statistic is remembered by, its parameters, and what it costs one record; checked."""
        check_spendable(cost)
        if isinstance(cost, ApproxDP):
            raise InvalidInput(
                f"take rho, or epsilon alone: an estimate of a session has no delta, which its answers need, got {cost}"
            )
        estimator, described = self._draws.estimator, {} if isinstance(statistic, type) else parameters(statistic)
        asked, of_a_record = estimator.asked(statistic, described), self._unit.of_a_record(cost)
        charged = self._unit.of_the_unit(of_a_record)
        estimator.check(statistic, charged)
        estimator.check_records(statistic, charged)
        with self._lock:
            known = self._state.estimate(asked, of_a_record), self._state.owed_estimate(asked, of_a_record)
        if known == (None, None):  # what was paid for is told, also where it would be refused now
            estimator.check_short(statistic)
        return asked, described, of_a_record

    def forewarning(self, question: NumericQuestion) -> str:
        """Where answers can tell little at this session's α or for the bins, or cost less than quoted: public."""
        return numbers.forewarning(question, self.mechanism.alpha, self.records)

    def foretold_error(self, question: NumericQuestion | None = None) -> float | None:
        """How far off an answer may be, a count, or one to a question about numbers: public, see `Quote.error`."""
        error = self._state.prices.error
        return error if question is None else numbers.foretold_error(question, error, self.records)

    def _question(self, question: str | NumericQuestion | NumberWorkload) -> NumericQuestion:
        return NumericQuestion.of(self.domain, question)

    def quote(self, query: str | Workload | CanonicalGroup, purse: Purse | None = None) -> Quote:
        """The most that answering would cost now, in all. Nothing is spent or written, and no news is read.

        Each group of a workload is priced as if it were asked for alone, but a synopsis once for all that it answers.
        Raises as `answer` does.
        """
        found = self._quotes(self._reader.read(query), purse)
        costs = [q.cost for q in found if q.cost is not None]
        source = next((q.source for q in found if q.cost is not None), found[0].source)
        return Quote(self._total(costs), source, error=self.foretold_error())

    def quotes(self, groups: Sequence[CanonicalGroup], purse: Purse | None = None) -> list[Quote]:
        """The same of several groups, a quote for each: what is bought in ρ and what in ε is told apart."""
        return [
            quote if quote.cost is None else replace(quote, cost=self._unit.of_the_unit(quote.cost))
            for quote in self._quotes(groups, purse)
        ]

    def price(self, group: CanonicalGroup) -> Cost:
        """What answers cost that are measured by themselves, whether or not that is covered."""
        with self._lock:
            return self._unit.of_the_unit(self._state.policy.alone(group).cost)

    def missing(self, group: CanonicalGroup) -> bool:
        """Whether the answer to some query of a group is not known, so that it would have to be bought."""
        with self._lock:
            return self._state.missing(group)

    def check_covered(self, costs: Sequence[Cost], purse: Purse | None = None) -> None:
        """Raise `BudgetExceeded` unless the cap, the ledger and the purse hold some costs of the unit together.

        The ledger and the purse are asked for what is bought in ρ and for what is bought in ε, one after the other.
        """
        with self._lock:
            tally = self._state.tally
            for cost in costs:
                try:
                    tally = after(self._cap, tally, self._unit.of_a_record(cost))
                except BudgetExceeded as error:
                    raise self._beyond_the_cap(cost, error.facts, tally) from None
            for of_a_kind in ([c for c in costs if isinstance(c, ZCDP)], [c for c in costs if not isinstance(c, ZCDP)]):
                together = total_cost(self.cost, of_a_kind)
                if together is not None:
                    self._journal.check(together)
                    if purse:
                        purse.admits(together)

    # What is known of it

    @property
    def records(self) -> int:
        """r: the number of records, noisy under add-remove."""
        return self._state.records

    @property
    def insecure(self) -> bool:
        """Whether any of its noise, drawn here or before, was not the system's entropy: then it protects nobody."""
        return self._state.insecure or self._draws.insecure

    @property
    def spent(self) -> Cost | None:
        """What it spent, in the cap's kind and rounded up; None if nothing."""
        found = spent(self._cap, self._state.tally)
        return None if found is None else self._unit.of_the_unit(found)

    @property
    def remaining(self) -> Cost | None:
        """What is left of the cap; the ledger may have less."""
        left = remaining(self._cap, self._state.tally)
        return None if left is None else self._unit.of_the_unit(left)

    @property
    def answer_price(self) -> Cost:
        """What one more count costs that has to be paid for, by itself; groups and averages may cost more."""
        prices = self._state.prices
        return self._unit.of_the_unit(prices.cost(prices.alone))

    @property
    def answers_left(self) -> int:
        """How many such counts what is left of the cap pays for; the ledger may have less."""
        prices = self._state.prices
        return times_left(self._cap, self._state.tally, prices.cost(prices.alone))

    @property
    def synopsis(self) -> Histogram:
        """The hypothesis that fits everything bought so far: public, and free to ask anything, without a promise.

        `TooLarge` for a universe without one. It is a function of the journal, and later answers do not change it: they
        make another.
        """
        with self._lock:
            self._check_kept()
            if self._state.hypothesis is None:
                most = hypotheses.MAX_HYPOTHESIS_CELLS
                raise TooLarge(f"a hypothesis over {self.domain.size:,} cells is not kept; at most {most:,} are")
            return self._state.hypothesis.histogram

    @property
    def listening(self) -> bool:
        """Whether a sparse vector may give the next answer for nothing, and end with it."""
        return self._draws.listening

    # Its upkeep

    def learn(self) -> bool:
        """Do a part of what is else done when it is needed: of the hypothesis, or a price; whether there was any."""
        with self._lock:
            hypothesis = self._state.hypothesis
            return (hypothesis is not None and hypothesis.learn()) or self._state.policy.foresee()

    def catch_up(self) -> None:
        """Read what other processes wrote into the journal."""
        with self._lock:
            self._check_kept()
            self._replay(self._journal.read())

    @contextmanager
    def together(self) -> Iterator[None]:
        """One durable transaction of the ledger for several answers, of which none may be shown before its end.

        On an exception all of it is undone, and the session has to be opened again. For servers, which put the answers
        of a round on disk at once; `LedgerError` inside another transaction.
        """
        with self._lock:
            if self._journal.inside:
                raise LedgerError("answers come together in a transaction of their own, not inside another")
            with self._journal.transaction():
                self._together = True
                try:
                    yield
                finally:
                    self._together = False

    def close(self) -> None:
        """Give no more answers; it can be opened again, under its key."""
        with self._lock:
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be copied or pickled: a copy would not see what the other draws")

    def __repr__(self) -> str:
        insecure = ", INSECURE" if self.insecure else ""
        return f"<OnlineSession {self.spent or 'nothing'} spent of {self.cost}, {len(self._state):,} answers{insecure}>"

    @contextmanager
    def single_answers(self) -> Iterator[None]:
        """Buy no synopsis in it, and quote none: answers are measured by themselves, unless they are free.

        For who wants just these, although many like them were asked. While one thread is in it, it alone may use the
        session.
        """
        with self._lock:
            before, self._buys_synopses = self._buys_synopses, False
            try:
                yield
            finally:
                self._buys_synopses = before

    # The journal

    def _replay(self, entries: Sequence[bytes]) -> None:
        """Replay what was read from the journal, or appended to it, last."""
        self._state.replay(entries)
        self._replayed += len(entries)

    def _check_kept(self) -> None:
        """Raise `LedgerError` if the ledger does not hold what was replayed, or not all was replayed that was read."""
        self._journal.check_kept()
        if self._replayed != self._journal.length:
            raise LedgerError(f"the session with key {self.key!r} was interrupted while it read; open it again")

    def _append(self, entry: dict[str, Any]) -> bytes:
        """Write an entry down; the line that says it, which is to be replayed once it is certain."""
        line = _as_json(entry).encode()
        self._journal.append(line)
        return line

    @property
    def _mark(self) -> dict[str, bool]:
        """What an entry says of its noise."""
        return {"insecure": True} if self._draws.insecure else {}

    # How it answers

    def _serve(self, group: CanonicalGroup, purse: Purse | None) -> list[OnlineAnswer]:
        with self._lock:
            self._check_open()
            before = [self._state.known(query) for query in group.queries]
            cost = None if all(before) else self._obtain(group, purse)
            answers = []
            for query, old in zip(group.queries, before, strict=True):
                value, source = self._state.known(query) or (math.nan, "measured")
                error = self._state.error(query)
                if old is not None:
                    answers.append(OnlineAnswer(value, error, "cached" if source == "measured" else source))
                else:
                    answers.append(OnlineAnswer(value, error, source, cost))
                    cost = None
            return answers

    def _check_open(self) -> None:
        """Raise what is wrong where the session gives no answers now."""
        if self._closed:
            raise StreamHalted(f"the session is closed; open it again under its key {self.key!r}")
        if self._journal.inside and not self._together:
            raise LedgerError("a session does not answer inside a transaction, which could undo its charges")
        self._check_kept()

    def _obtain(self, group: CanonicalGroup, purse: Purse | None) -> Cost | None:
        """Buy until all answers of a group are known; what this cost."""
        paid: list[Cost] = []
        while self._state.missing(group):
            number, was_bought = self._find_or_buy(group, purse)
            if number is not None:
                paid += [self._state.purchases[number].cost] if was_bought else []
                self._deliver(number, group)
        return self._total(paid)

    def _total(self, costs: Sequence[Cost]) -> Cost | None:
        """What purchases, each at what it costs one record, come to for the unit; None if there are none."""
        total = total_cost(self._cap, costs)
        return None if total is None else self._unit.of_the_unit(total)

    def _find_or_buy(self, group: CanonicalGroup | None, purse: Purse | None) -> tuple[int | None, bool]:
        """One transaction: the number of the purchase that is to be delivered next, and whether it was bought in it.

        None where an answer was found instead. Without a group it is about the number of records.
        """
        state = self._state
        with self._journal.writing() as news:
            self._replay(news)
            if state.records if group is None else not state.missing(group):
                return None, False
            number = state.waiting(group) if group else next(iter(state.owed), None)
            if number is not None:
                return number, False
            was_listening = self.listening
            guess = self._confirmed_guess(group)
            if guess is not None and group:
                entry = {"free": group.queries[0].to_text(), "value": guess, "order": group.order, **self._mark}
            else:
                number = len(state.purchases)
                # An answer that ended a sparse vector does not begin another: its price was quoted without.
                entry = self._buy(group, purse, sparse=not was_listening)
            line = self._append(entry)
        self._replay([line])
        return number, number is not None

    def _find_or_buy_estimate(self, asked: str, cost: Cost, purse: Purse | None) -> tuple[int | None, Cost | None]:
        """One transaction: the number of the purchase that is to be drawn, and what was charged for it now.

        No number where it is known.
        """
        state = self._state
        if state.estimate(asked, cost) is not None:
            return None, None
        with self._journal.writing() as news:
            self._replay(news)
            if state.estimate(asked, cost) is not None:
                return None, None
            number = state.owed_estimate(asked, cost)
            if number is not None:
                return number, None
            self._check_covered(cost, purse)
            number = len(state.purchases)
            entry = {"buy": "estimate", "cost": cost.to_json(), "asked": asked}
            charged = self._charge(Purchase("estimate", cost, entry), purse)
            line = self._append({**entry, **self._mark})
        self._replay([line])
        return number, charged

    def _confirmed_guess(self, group: CanonicalGroup | None) -> float | None:
        """The hypothesis's answer, if a sparse vector is open and says that it is right."""
        hypothesis = self._state.hypothesis
        if group is None or hypothesis is None or not self.listening or not self._state.policy.trusts_hypothesis(group):
            return None
        guess = round(hypothesis.guess(group.group))
        return float(guess) if self._draws.confirms(group.group, guess) else None

    # What it buys

    def _buy(self, group: CanonicalGroup | None, purse: Purse | None, *, sparse: bool) -> dict[str, Any]:
        """Charge for what is chosen; the entry that says so."""
        purchase = self._chosen(group, self._state.tally, purse, sparse=sparse)
        self._charge(purchase, purse)
        return purchase.entry

    def _charge(self, purchase: Purchase, purse: Purse | None) -> Cost:
        """Charge for a purchase that is covered; what it costs the unit."""
        cost = self._unit.of_the_unit(purchase.cost)
        try:
            self._journal.buy(cost, f"{self.mechanism.name}: {purchase.kind}")
            if purse:
                purse.spend(cost)
        except BudgetExceeded as error:  # not a refusal, after which an outer transaction would go on
            raise AssertionError("what was covered a moment ago is not") from error
        return cost

    def _chosen(self, group: CanonicalGroup | None, tally: Tally, purse: Purse | None, *, sparse: bool) -> Purchase:
        """The first that is covered of those that are worth buying; `BudgetExceeded` for the last of them.

        tally  what is spent before it; only what it costs by itself has to be covered now
        """
        *better, last = self._choices(group, tally, sparse=sparse)
        for purchase in better:
            with suppress(BudgetExceeded):
                # A sparse vector may leave the answer to be bought after it.
                costs = [purchase.cost, last.cost] if purchase.kind == "sparse" else [purchase.cost]
                self._check_covered(total_cost(self._cap, costs), purse)
                return purchase
        self._check_covered(last.cost, purse)
        return last

    def _choices(self, group: CanonicalGroup | None, tally: Tally, *, sparse: bool) -> Iterator[Purchase]:
        if group is None:
            yield self._state.count()
            return
        if self._buys_synopses:
            yield from self._state.policy.synopses(group, tally)
        vector = self._state.policy.sparse(group) if sparse and not self.listening else None
        if vector is not None:
            yield vector
        yield self._state.policy.alone(group)

    def _check_covered(self, cost: Cost | None, purse: Purse | None) -> None:
        """Raise `BudgetExceeded` unless the cap, the ledger and the purse hold what something costs one record."""
        assert cost is not None
        charged = self._unit.of_the_unit(cost)
        try:
            after(self._cap, self._state.tally, cost)
        except InvalidInput:
            after(self.cost, Tally(), charged)  # it has the same reason, and the numbers that were asked for
            raise
        except BudgetExceeded as error:
            raise self._beyond_the_cap(charged, error.facts, self._state.tally) from None
        self._journal.check(charged)
        if purse:
            purse.admits(charged)

    def _beyond_the_cap(self, cost: Cost, facts: str, tally: Tally) -> BudgetExceeded:
        """What is said of a cost of the unit that the cap does not hold: it is no matter of the ledger's total.

        facts  of the cap for one record
        tally  what is spent of that
        """
        less = asked_at_most(self._cap, tally, self._unit.of_a_record(cost))
        if self._unit.size > 1:
            gone, left = self.spent, self.remaining
            nothing = ", ".join(f"{name}=0" for name in self.cost.to_json())
            spent_so_far = gone.rounded() if gone else nothing
            facts = f"budget exceeded: total {self.cost}; spent {spent_so_far}; requested {cost.rounded()}"
            room = room_of(self.cost, left)
            less = f"ask for at most the {room} that is left" if room else ""
        advice = (
            f"{less or 'nothing is left'}; what a session may cost cannot grow under its key: {_ANOTHER_KEY}; the"
            f" ledger has {self._journal.left_in_ledger} left"
        )
        return BudgetExceeded(f"the session's {facts} ({advice})", facts)

    def _quotes(self, groups: Sequence[CanonicalGroup], purse: Purse | None) -> list[Quote]:
        """What each group costs one record, when a synopsis is bought once for all that it answers.

        What is bought for one group decides in which currency a declared class is bought for the next.
        """
        offers: list[Offer] = []
        found: list[Quote] = []
        with self._lock:
            self._check_kept()
            tally = self._state.tally
            for group in groups:
                found.append(self._quoted(group, offers, tally, purse))
                tally = self._after(tally, found[-1])
        return found

    def _after(self, tally: Tally, quote: Quote) -> Tally:
        """What would be spent after a purchase; the same where the cap does not hold it, which its turn will show."""
        with suppress(BudgetExceeded, InvalidInput):
            return tally if quote.cost is None else after(self._cap, tally, quote.cost)
        return tally

    def _quoted(self, group: CanonicalGroup, offers: list[Offer], tally: Tally, purse: Purse | None) -> Quote:
        """The price of a group, when these synopses are bought already, and so much is spent; a further synopsis is
        added to them."""
        state = self._state
        if not state.missing(group):
            known = state.known(group.queries[0])
            source = known[1] if known else "measured"
            return Quote(None, "cached" if source == "measured" else source)
        if state.waiting(group) is not None:
            return Quote(None, "measured")
        if any(all(map(offer.answers, group.queries)) for offer in offers):
            return Quote(None, "synopsis")
        purchase, alone = self._chosen(group, tally, purse, sparse=not self.listening), state.policy.alone(group)
        if purchase.offer is not None:
            offers.append(purchase.offer)
        if purchase.kind == "sparse":
            return Quote(total_cost(self._cap, [purchase.cost, alone.cost]), "hypothesis")
        if purchase.kind == "answers" and self.listening and state.policy.trusts_hypothesis(group):
            return Quote(purchase.cost, "hypothesis")
        return Quote(purchase.cost, "synopsis" if purchase.kind == "synopsis" else "measured")

    # What it draws

    def _deliver(self, number: int | None, group: CanonicalGroup | None) -> None:
        """Draw what was bought, for a group, and write it down, unless another process did."""
        if number is None:
            return
        purchase = self._state.purchases[number]
        if purchase.kind == "sparse":
            assert not isinstance(purchase.cost, ApproxDP)
            self._draws.open_vector(purchase.cost, purchase.entry["positives"], purchase.entry["threshold"])
            return
        self._write_down(number, self._drawn(number, purchase, group))

    def _write_down(self, number: int, drawn: dict[str, Any]) -> None:
        """Write down what was drawn for a purchase, unless another process did."""
        entry, lines = {"of": number, **drawn, **self._mark}, []
        with self._journal.writing() as news:
            self._replay(news)
            if number in self._state.owed:
                lines.append(self._append(entry))
        self._replay(lines)

    def _drawn(self, number: int, purchase: Purchase, group: CanonicalGroup | None) -> dict[str, Any]:
        """The result of a purchase, with fresh noise, and what is learned from it; it is charged already."""
        if purchase.kind == "count":
            return {"values": [self._draws.count(PureDP(purchase.entry["epsilon"]))]}
        if group is not None and len(group.queries) == 1 and purchase.queries == group.queries:
            workload = Workload(self.domain, (group.group,))  # made already
        else:
            workload = purchase.workload(self.domain)
        found = self._draws.measure(workload, purchase.cost)
        drawn: dict[str, Any] = {"values": [np.rint(m.values / m.noise.unit).astype(np.int64).tolist() for m in found]}
        hypothesis = self._state.hypothesis
        if purchase.offer or hypothesis is None:
            return drawn
        (values,) = (m.values for m in found)
        guess, drawn["steps"] = hypothesis.lesson(number, purchase.learned_queries(self.domain), values)
        if len(values) == 1:
            drawn["right"] = bool(abs(values[0] - guess[0]) <= self._state.prices.error / 2)
        return drawn
