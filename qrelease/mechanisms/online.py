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

Under add-remove r = n + W with Laplace noise W of scale at most 4αr/L, L = ln(4/3β): so r is within a few per cent of
n, in units of α. Its ε doubles from `FIRST` until the count is a rough one, which says how much a good one takes. A
measured answer is then within αn itself with probability 1 - 3/4 β E e^(LW/n): the exponent of its tail changes by
LW/n. That mean is 1/(1 - (4α)²) for W of just that scale and r near n: far below the 4/3 that makes 1 - β, up to
α = 1/20. (At α = 1/8 and large β it is not, since r is looked at before it is taken: up to 1.3 β there, by simulation.)
(Where a class is declared, half of β is its synopsis's; in all of this β/2 stands for β then.)

**Money.** The session's cost is its cap. A purchase is charged to the ledger and written into the session's journal in
one durable transaction before its noise is drawn, and the result before it is shown. Processes on one ledger share the
journal: each catches up with it before it buys. If one died between charge and answer, the next one that needs the
answer draws it, at no further charge; if two do, the first to write it down is the one whose answer counts, and nobody
sees the other. Noise that is kept secret, that of a sparse vector, is the process's own and dies with it.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from types import TracebackType
from typing import Any, Final, Protocol, Self, final

import numpy as np
import numpy.typing as npt

from qrelease.books import HYPOTHESIS, Books, Purchase, Source, Unit
from qrelease.conjunctions import Conjunctions
from qrelease.contracts import OnlineAnswer
from qrelease.domain import Domain
from qrelease.entropy import is_insecure
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError, StreamHalted, TooLarge
from qrelease.histogram import Histogram
from qrelease.ledger import SharedJournal
from qrelease.measure import Private
from qrelease.pricing import Offer
from qrelease.privacy import ZCDP, ApproxDP, Cost, Filter, Neighbours, PureDP
from qrelease.privacy.costs import check_cost, positive_probability, round_up
from qrelease.privacy.filters import Account, Tally, after, remaining, spent
from qrelease.schema import digests
from qrelease.sparse_vector import SparseVector
from qrelease.support import Support
from qrelease.workload import Group, Workload

_as_json: Final = json.JSONEncoder(separators=(",", ":")).encode

_REMEMBERED: Final = 1 << 12  # texts that are looked up instead of being parsed
_SMALL: Final = 1 << 12  # cells of the marginal of such a text, at 8 bytes and more


@final
@dataclass(frozen=True)
class Online:
    """Sessions in which each answer is within a fraction α of the records with probability 1 - β, at the least cost.

    alpha     a fraction of the number of records
    beta      the probability with which an answer may be off by more
    declared  the class of queries that will be asked, if it is known: its synopsis is bought with the first of them

    The cost of a session is its cap: under a pure one all noise is Laplace, under ρ or (ε, δ) Gaussian, charged in ρ;
    but under (ε, δ) a declared class's synopsis in ε, or (ε, 7δ/8), whichever is less, while nothing is charged in ρ.
    Raises `InvalidInput` for parameters out of range.
    """

    alpha: float = 0.05
    beta: float = 0.001
    declared: Conjunctions | None = None

    @property
    def name(self) -> str:
        """`online`."""
        return "online"

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive_probability("alpha", self.alpha))
        object.__setattr__(self, "beta", positive_probability("beta", self.beta))
        if self.declared is not None and not isinstance(self.declared, Conjunctions):
            raise InvalidInput(f"the declared class must be Conjunctions, got {type(self.declared).__name__}")

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours, records: int | None) -> None:
        """`InvalidInput` for too few records, where their number is public."""
        check_cost(cost)
        if records is not None:
            self._check_records(records)

    def _check_records(self, records: int) -> None:
        if self.alpha * records < 2:
            raise InvalidInput(f"alpha * records must be at least 2 counts, got {self.alpha:g} * {records:,}")

    def join(self, private: Private, journal: SharedJournal) -> PayingSession:
        """A session, new or gone on with; see `Curator.open`."""
        terms = {
            "alpha": self.alpha,
            "beta": self.beta,
            "declared": self.declared and [self.declared.order, self.declared.ranges],
            "columns": digests(private.table.domain),
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
                f"the session with key {journal.key!r} {what}; go on with what it was opened with, or use another key"
            )
        return PayingSession(self, private, journal, entries[1:])


@final
@dataclass(frozen=True)
class Quote:
    """What an answer would cost now: at most `cost`, None if nothing; and where it would come from."""

    cost: Cost | None
    source: Source


class Purse(Protocol):
    """A budget beside the session's own, such as that of the analyst who asks."""

    def admits(self, cost: Cost) -> None:
        """`BudgetExceeded` if it does not hold a cost."""

    def spend(self, cost: Cost) -> None:
        """Take a cost out of it; `BudgetExceeded` if it does not hold that."""


@final
class PayingSession:
    """A session of `Online`; made by `Curator.open`. Processes may share its journal, and threads the session.

    (But while one thread is inside a transaction of the ledger, it alone may use the session.)
    """

    def __init__(self, mechanism: Online, private: Private, journal: SharedJournal, entries: Sequence[bytes]) -> None:
        self.mechanism, self.key, self.cost = mechanism, journal.key, journal.cap
        self.domain: Domain = private.table.domain
        self._private, self._journal = private, journal
        public = len(private.table) if private.neighbours is Neighbours.REPLACE_ONE else None
        terms = mechanism.alpha, mechanism.beta, mechanism.declared, public
        self._books = Books(self.domain, private.neighbours, journal.cap, *terms)
        self._texts: dict[str, Unit] = {}
        self._sparse: SparseVector | None = None
        self._threshold = 0
        self._exact: npt.NDArray[np.float64] | None = None
        self._closed = False
        self._purse: Purse | None = None
        self._lock = threading.RLock()
        self._taken = journal.length - len(entries)
        self._take_in(entries)
        self.catch_up()
        while not self._books.records:
            self._deliver(self._turn(None)[0], None)

    @property
    def records(self) -> int:
        """r: their number, noisy under add-remove."""
        return self._books.records

    @property
    def insecure(self) -> bool:
        """Whether any of its noise, drawn here or before, was not the system's entropy: then it protects nobody."""
        return self._books.insecure or bool(self._mark)

    @property
    def _mark(self) -> dict[str, bool]:
        """What its entries say of its noise."""
        return {"insecure": True} if is_insecure(self._private.entropy) else {}

    @property
    def spent(self) -> Cost | None:
        """What it spent, in the cap's kind and rounded up; None if nothing."""
        return spent(self.cost, self._books.tally)

    @property
    def remaining(self) -> Cost | None:
        """What is left of the cap; the ledger may have less."""
        return remaining(self.cost, self._books.tally)

    @property
    def synopsis(self) -> Histogram:
        """The hypothesis that fits everything bought so far: public, and free to ask anything, without a promise.

        `TooLarge` for a universe without one. It is a function of the journal, and later answers do not change it: they
        make another.
        """
        with self._lock:
            self._check_kept()
            if self._books.learner is None:
                raise TooLarge(f"a hypothesis over {self.domain.size:,} cells is not kept; at most {HYPOTHESIS:,} are")
            return self._books.learner.state

    def learn(self) -> bool:
        """Do a part of what is else done when it is needed: of the hypothesis, or a price; whether there was any."""
        with self._lock:
            learner = self._books.learner
            return (learner is not None and learner.learn()) or self._books.foresee()

    def answer(self, query: str | Workload | Unit) -> OnlineAnswer:
        """The answer to a condition such as `age in 30..39 and income = '>50K'`, or to a workload of one query.

        Durable before it is returned, if it was paid for. Raises `BudgetExceeded`, with nothing charged, if neither cap
        nor ledger cover what it needs; `StreamHalted` for a closed session; `InvalidInput` for what is no query.
        """
        units = self._units(query)
        if sum(len(unit.asked) for unit in units) != 1:
            raise InvalidInput(f"one query has one answer, got {query!r}; use answers")
        return self._serve(units[0])[0]

    def answers(self, workload: Workload | Unit) -> list[OnlineAnswer]:
        """The answers to a workload, (k,). The queries of one group are bought as one family, at its price.

        The cells of a marginal cost together what one of them costs; it stands with the first that was not known.
        Raises as `answer` does; what was bought for earlier groups is kept then.
        """
        return [a for unit in self._units(workload) for a in self._serve(unit)]

    def quote(self, query: str | Workload | Unit) -> Quote:
        """The most that answering it would cost now, in all. Nothing is spent, written or caught up with.

        Each group of a workload is priced as if it were asked for alone, but a synopsis once for all that it answers.
        Raises as `answer` does.
        """
        offers: list[Offer] = []
        with self._lock:
            self._check_kept()
            found = [self._quoted(unit, offers) for unit in self._units(query)]
        costs = [q.cost for q in found if q.cost is not None]
        return Quote(self._sum(costs), next((q.source for q in found if q.cost is not None), found[0].source))

    def price(self, unit: Unit) -> Cost:
        """What answers cost that are measured by themselves, whether or not that is covered."""
        with self._lock:
            return self._books.alone(unit).cost

    @property
    def listening(self) -> bool:
        """Whether a sparse vector may give the next answer for nothing, and end with it."""
        return self._open is not None

    @contextmanager
    def paid_by(self, purse: Purse) -> Iterator[None]:
        """Quotes and answers inside are of what a purse holds too, and it pays: in the same transactions."""
        with self._lock:
            self._purse = purse
            try:
                yield
            finally:
                self._purse = None

    def catch_up(self) -> None:
        """Take in what other processes wrote down."""
        with self._lock:
            self._check_kept()
            self._take_in(self._journal.read())

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

    def __repr__(self) -> str:
        insecure = ", INSECURE" if self.insecure else ""
        return f"<PayingSession {self.spent or 'nothing'} spent of {self.cost}, {len(self._books):,} answers{insecure}>"

    def _take_in(self, entries: Sequence[bytes]) -> None:
        """Let the books read what the journal has read or appended last."""
        self._books.replay(entries)
        self._taken += len(entries)

    def _check_kept(self) -> None:
        """`LedgerError` if the ledger does not hold what the books say, or the books not what the journal has read."""
        self._journal.check_kept()
        if self._taken != self._journal.length:
            raise LedgerError(f"the session with key {self.key!r} was interrupted while it read; open it again")

    def _units(self, query: str | Workload | Unit) -> list[Unit]:
        if isinstance(query, Unit):
            return [query]
        if isinstance(query, str):
            known = self._texts.get(query)
            if known is None:
                known = Unit.of(self.domain, Workload.predicates(self.domain, query).groups[0])
                if len(self._texts) >= _REMEMBERED:
                    self._texts.clear()
                if known.group.queries.cells <= _SMALL:
                    self._texts[query] = known
            return [known]
        if not isinstance(query, Workload):
            raise InvalidInput(f"a query is a condition or a workload, got {type(query).__name__}")
        if query.domain != self.domain:
            raise InvalidInput("the query is over another domain than the table")
        query.check_bounded()
        return [Unit.of(self.domain, g) for g in query.groups]

    def _serve(self, unit: Unit) -> list[OnlineAnswer]:
        with self._lock:
            if self._closed:
                raise StreamHalted(f"the session is closed; open it again under its key {self.key!r}")
            self._check_kept()
            before = [self._books.known(a) for a in unit.asked]
            cost = None if all(before) else self._obtain(unit)
            found = []
            for asked, old in zip(unit.asked, before, strict=True):
                value, source = self._books.known(asked) or (math.nan, "measured")
                error = self._books.error(asked)
                if old is not None:
                    found.append(OnlineAnswer(value, error, "cached" if source == "measured" else source))
                else:
                    found.append(OnlineAnswer(value, error, source, cost))
                    cost = None
            return found

    def _obtain(self, unit: Unit) -> Cost | None:
        """Buy until all answers of a unit are known; what this took."""
        paid: list[Cost] = []
        while self._books.missing(unit):
            number, bought = self._turn(unit)
            if number is not None:
                paid += [self._books.purchases[number].cost] if bought else []
                self._deliver(number, unit)
        return self._sum(paid)

    def _turn(self, unit: Unit | None) -> tuple[int | None, bool]:
        """One transaction: the number of the purchase that is to be delivered next, and whether it was bought in it.

        None where an answer was found instead. Without a unit it is about the number of records.
        """
        books = self._books
        with self._journal.writing() as news:
            self._take_in(news)
            if books.records if unit is None else not books.missing(unit):
                return None, False
            number = books.waiting(unit) if unit else next(iter(books.owed), None)
            if number is not None:
                return number, False
            was_open = self._open is not None
            guess = self._compared(unit)
            if guess is not None and unit:
                entry = {"free": unit.asked[0].to_text(), "value": guess, "order": unit.order, **self._mark}
            else:
                number = len(books.purchases)
                # An answer that ended a sparse vector does not begin another: its price was quoted without.
                entry = self._buy(unit, sparse=not was_open)
            line = self._append(entry)
        self._take_in([line])
        return number, number is not None

    def _append(self, entry: dict[str, Any]) -> bytes:
        """Write an entry down; the line that says it, for the books, once it is certain."""
        line = _as_json(entry).encode()
        self._journal.append(line)
        return line

    def _buy(self, unit: Unit | None, *, sparse: bool) -> dict[str, Any]:
        """Charge for what is chosen; the entry that says so."""
        purchase = self._chosen(unit, sparse=sparse)
        try:
            self._journal.buy(purchase.cost, f"{self.mechanism.name}: {purchase.kind}")
            if self._purse:
                self._purse.spend(purchase.cost)
        except BudgetExceeded as error:  # not a refusal, after which an outer transaction would go on
            raise AssertionError("what was covered a moment ago is not") from error
        return purchase.entry

    def _chosen(self, unit: Unit | None, *, sparse: bool) -> Purchase:
        """The first that is covered of those that are worth buying; `BudgetExceeded` for the last of them."""
        *better, last = self._choices(unit, sparse=sparse)
        for purchase in better:
            with suppress(BudgetExceeded):
                # A sparse vector may leave the answer to be bought after it.
                self._check(self._sum([purchase.cost, last.cost]) if purchase.kind == "sparse" else purchase.cost)
                return purchase
        self._check(last.cost)
        return last

    def _check(self, cost: Cost | None) -> None:
        assert cost is not None
        after(self.cost, self._books.tally, cost)
        self._journal.check(cost)
        if self._purse:
            self._purse.admits(cost)

    def _choices(self, unit: Unit | None, *, sparse: bool) -> Iterator[Purchase]:
        if unit is None:
            yield self._books.count()
            return
        yield from self._books.synopses(unit)
        vector = self._books.sparse(unit) if sparse and self._open is None else None
        if vector is not None:
            yield vector
        yield self._books.alone(unit)

    def _quoted(self, unit: Unit, offers: list[Offer]) -> Quote:
        """The price of a unit, when these synopses are bought already; a further one is added to them."""
        books = self._books
        if not books.missing(unit):
            found = books.known(unit.asked[0])
            source = found[1] if found else "measured"
            return Quote(None, "cached" if source == "measured" else source)
        if books.waiting(unit) is not None:
            return Quote(None, "measured")
        if any(all(map(offer.answers, unit.asked)) for offer in offers):
            return Quote(None, "synopsis")
        purchase, alone = self._chosen(unit, sparse=self._open is None), books.alone(unit)
        if purchase.offer is not None:
            offers.append(purchase.offer)
        if purchase.kind == "sparse":
            return Quote(self._sum([purchase.cost, alone.cost]), "hypothesis")
        if purchase.kind == "answers" and self._open is not None and books.trusted(unit):
            return Quote(purchase.cost, "hypothesis")
        return Quote(purchase.cost, "synopsis" if purchase.kind == "synopsis" else "measured")

    def _deliver(self, number: int | None, unit: Unit | None) -> None:
        """Draw what was bought, for a unit, and write it down, unless another process did."""
        if number is None:
            return
        purchase = self._books.purchases[number]
        if purchase.kind == "sparse":
            assert not isinstance(purchase.cost, ApproxDP)
            self._sparse = SparseVector(purchase.cost, purchase.entry["positives"], 1, self._private.entropy)
            self._threshold = purchase.entry["threshold"]
            return
        entry = {"of": number, **self._drawn(number, purchase, unit), **self._mark}
        lines = []
        with self._journal.writing() as news:
            self._take_in(news)
            if number in self._books.owed:
                lines.append(self._append(entry))
        self._take_in(lines)

    def _drawn(self, number: int, purchase: Purchase, unit: Unit | None) -> dict[str, Any]:
        """The result of a purchase, with fresh noise, and what is learned from it; it is charged already."""
        if purchase.kind == "count":
            cost = PureDP(purchase.entry["epsilon"])
            return {"values": [round(self._door(cost).count(cost)[0])]}
        if unit is not None and len(unit.asked) == 1 and purchase.asked == unit.asked:
            workload = Workload(self.domain, (unit.group,))  # made already
        else:
            workload = purchase.workload(self.domain)
        found = self._door(purchase.cost).measure(workload, purchase.cost)
        drawn: dict[str, Any] = {"values": [np.rint(m.values / m.noise.unit).astype(np.int64).tolist() for m in found]}
        learner = self._books.learner
        if purchase.offer or learner is None:
            return drawn
        (values,) = (m.values for m in found)
        guess, drawn["steps"] = learner.lesson(number, purchase.learned(self.domain), values)
        if len(values) == 1:
            drawn["right"] = bool(abs(values[0] - guess[0]) <= self._books.tariff.error / 2)
        return drawn

    def _door(self, cost: Cost) -> Private:
        """To the private counts, for one purchase."""
        return replace(self._private, filter=Filter(cost), spends=[])

    def _compared(self, unit: Unit | None) -> float | None:
        """The hypothesis's answer, if the sparse vector is open and says that it is right."""
        learner, vector = self._books.learner, self._open
        if vector is None or learner is None or unit is None or not self._books.trusted(unit):
            return None
        guess = round(learner.guess(unit.group))
        gap = self._truth(unit.group) - guess
        above = vector.ask_many([gap, -gap], self._threshold)
        return float(guess) if above is None else None

    @property
    def _open(self) -> SparseVector | None:
        """The sparse vector, until it halts: in a forked process at once, since it stays with the other."""
        return None if self._sparse is None or self._sparse.halted else self._sparse

    def _sum(self, costs: Sequence[Cost]) -> Cost | None:
        """What purchases come to by themselves, rounded up; None if there were none."""
        if len(costs) < 2:
            return costs[0] if costs else None
        epsilon = sum((Fraction(c.epsilon) for c in costs if not isinstance(c, ZCDP)), Fraction(0))
        rho = sum((Fraction(c.rho) for c in costs if isinstance(c, ZCDP)), Fraction(0))
        if not isinstance(self.cost, ApproxDP) or not epsilon:
            return ZCDP(round_up(rho)) if rho else PureDP(round_up(epsilon))
        delta = sum((Fraction(c.delta) for c in costs if isinstance(c, ApproxDP)), Fraction(0))
        backing = Fraction(self.cost.delta)
        account = Account(epsilon, backing - delta) if rho else None
        return spent(self.cost, Tally(epsilon, backing if rho else delta, rho, account))

    def _truth(self, group: Group) -> int:
        """q(x). Private."""
        if self._exact is None:
            (cells,) = self._private.exact(Workload.marginals(self.domain, [self.domain.names]))
            self._exact = cells.astype(np.float64)  # exact: counts are below 2^53
        return int(Support.of(self.domain.shape, group.axes, group.queries.adjoint(np.ones(1))).sum(self._exact))
