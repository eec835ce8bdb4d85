"""Private multiplicative weights, online: an adaptive stream of linear queries, answered at one price.

Hardt & Rothblum 2010; Dwork & Roth 2014, Algorithm 6, in counts and with discrete noise.

Let y be a hypothesis, a function of earlier answers. A query q is asked of `NumericSparse` as q(x) - q(y) and then as
q(y) - q(x), against a threshold T. If both are below, q(y) is the answer and costs nothing. Else the answer is
q(y) ± E, where E is the noisy number that came with the comparison, and y learns from it (`Hedge`). After
c = 4 ln|X| / α² such updates the session halts. One record moves q(x) by at most 1 under either neighbouring relation;
the two questions of a query move in opposite directions, so they are not monotone.

**Privacy.** y and all answers are functions of the sparse vector's, whose cost is charged for c positive answers in
all; under add-remove a noisy number of records ñ is bought first, and the rest is at fixed ñ.

**Accuracy.** With probability 1 - β all answers are within 3α of the records: `pmw_accuracy` has the proof, and the
terms of a session that follow from it.

**Crashes.** Every answer is in the ledger's journal before it is shown. A session that is opened again replays them: it
has the same answers to what was asked, the same hypothesis and the same counts. The secret noise of the threshold is
stored nowhere. It is drawn anew, which ends one of the c runs of AboveThreshold that the price is for, without a ⊤. So
**resuming a session takes one of its updates**, written down before the first draw. What was drawn but not written
down was never seen, but for the fact that there was a ⊤, which a patient eye may tell from the time it took and kill
the process: that run is over too, and paid for. No seed is kept, so no noise can serve twice, not even if somebody goes
on with a session from two copies of a ledger. That spends the budget twice, as copies of a ledger do.
"""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, NoReturn, Self, final

import numpy as np

from qrelease._util import memory
from qrelease._util.validate import positive_probability, whole
from qrelease.data.domain import Domain
from qrelease.data.schema import column_digests
from qrelease.errors import InvalidInput, LedgerError, StreamHalted
from qrelease.inference.histogram import check_size
from qrelease.inference.hypotheses import Dual
from qrelease.inference.measurement import Measurement
from qrelease.inference.update_rules import Hedge
from qrelease.mechanisms.base import OnlineAnswer
from qrelease.mechanisms.iterative.pmw_accuracy import STEPS, PMWSetting, PMWTerms, pmw_costs
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import is_insecure
from qrelease.noise.sparse_vector import NumericSparse
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.journals import Journal
from qrelease.privacy.ledger_guard import SessionLock
from qrelease.queries.canonical import canonical
from qrelease.queries.workload import Group, Workload, single

CELL_BYTES: Final = 40
"""Bytes that a session takes for a cell of the universe: the table's counts, the hypothesis twice, and temporaries."""


@final
@dataclass(frozen=True)
class PrivateMultiplicativeWeights:
    """Sessions of adaptive linear queries; with probability 1 - β all answers are within 3α of the records.

    Costs are ε or (ε, δ). Raises `InvalidInput` for parameters out of range.

    Parameters
    ----------
    alpha
        A third of the error bound, as a fraction of the records; by default the least for which the bound holds.
    beta
        The probability that any answer of a session breaks the error bound.
    queries
        The most different queries that a session answers; the error bound grows with its logarithm.

    References
    ----------
    Hardt & Rothblum 2010, *A multiplicative weights mechanism for privacy-preserving data analysis*; Dwork & Roth 2014,
    Algorithm 6.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> table = qr.Table(qr.Domain.coded({"sex": 2, "age": 10}), (np.arange(50_000) % 2, np.arange(50_000) % 10))
    >>> cost = qr.PureDP(10)
    >>> curator = qr.Curator(table, qr.Ledger.open(None, cost), qr.Entropy.insecure(1))  # no seed for real records
    >>> with curator.open(qr.PrivateMultiplicativeWeights(queries=100), cost) as session:
    ...     answer = session.answer("sex = 1 and age <= 4")
    >>> answer.source
    'hypothesis'
    """

    alpha: float | None = None
    beta: float = 0.05
    queries: int = 10_000

    @property
    def name(self) -> str:
        """`pmw`."""
        return "pmw"

    def __post_init__(self) -> None:
        if self.alpha is not None:
            object.__setattr__(self, "alpha", positive_probability("alpha", self.alpha))
        object.__setattr__(self, "beta", positive_probability("beta", self.beta))
        object.__setattr__(self, "queries", whole("queries", self.queries, least=1))

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours, records: int | None) -> None:
        """Raise `TooLarge` for a universe without a histogram; `InvalidInput` for ρ, or an α that is out of reach.

        Under add-remove the number of records is private, so whether α is within reach turns out after the charge.
        """
        check_size(domain)
        memory.check(
            CELL_BYTES * domain.size, f"a session over {domain.size:,} cells", "use fewer columns or coarser bins"
        )
        pmw_costs(cost, neighbours)
        if records is not None:
            self._setting(domain, cost, neighbours, records).terms(self.alpha)

    def open(self, private: Private, cost: Cost, journal: Journal) -> PMWSession:
        """A session, new or resumed; see `Curator.open`.

        Under add-remove the number of records is bought first. If α turns out to be out of reach then, it is an
        `InvalidInput`, and the charge stands: opened again under its key, with an α that is not, the session has the
        same number of records and the whole rest of its budget.
        """
        domain, entries = private.domain, [json.loads(e) for e in journal.entries]
        if not entries:
            counting, _ = pmw_costs(cost, private.neighbours)
            records, insecure = max(1, round(private.count(counting)[0])), is_insecure(private.entropy)
            entries.append({"columns": column_digests(domain), "records": records, "insecure": insecure})
            journal.append(_line(entries[0]))
        if entries[0]["columns"] != column_digests(domain):
            raise LedgerError(
                f"the session with key {journal.charge.key!r} is over other columns, labels or bins; go on with what it"
                " was opened with, or use another key"
            )
        try:
            terms = self._setting(domain, cost, private.neighbours, entries[0]["records"]).terms(self.alpha)
        except InvalidInput as error:
            raise InvalidInput(f"{error}; the charge stands, open it under its key {journal.charge.key!r}") from None
        opened = {"alpha": terms.alpha, "beta": self.beta, "queries": self.queries}
        resumed = len(entries) > 1
        if not resumed:
            journal.append(_line(opened))
        elif entries[1] != opened:
            was = ", ".join(f"{name}={value:g}" for name, value in entries[1].items())
            raise LedgerError(f"the session with key {journal.charge.key!r} was opened with {was}")
        return PMWSession(private, terms, journal, entries[2:], resumed=resumed, insecure=entries[0]["insecure"])

    def error(self, workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """With probability 1 - β no answer to a session of these queries is off by more than this fraction of n.

        3α, for the least α that can be promised to as many queries as the workload has, whatever `queries` is; infinite
        where none below 1 can. Above 1 it says nothing. (Dwork & Roth 2014, Theorems 4.14 and 4.15.)
        """
        n, beta = whole("records", records, least=1), positive_probability("beta", beta)
        setting = PMWSetting.of(workload.domain, len(workload), beta, cost, neighbours, n)
        # The promise is made for a noisy number of records, which may be so much too low.
        least = replace(setting, records=max(n - setting.miss, 1)).least()
        return math.inf if least is None else 3 * least

    def _setting(self, domain: Domain, cost: Cost, neighbours: Neighbours, records: int) -> PMWSetting:
        return PMWSetting.of(domain, self.queries, self.beta, cost, neighbours, records)


@final
class PMWSession:
    """A session of private multiplicative weights; made by `Curator.open`. Threads may share it.

    Attributes
    ----------
    alpha
        α, a fraction: all answers are within 3α of the number of records.
    records
        The number of records, noisy under add-remove.
    updates
        c, how many answers it may measure in all; each updates the hypothesis.
    insecure
        Whether any of its noise, drawn here or before, came from anything but the system's entropy: then it protects
        nobody.
    """

    def __init__(
        self,
        private: Private,
        terms: PMWTerms,
        journal: Journal,
        entries: list[dict[str, Any]],
        *,
        resumed: bool,
        insecure: bool = False,
    ) -> None:
        self.key = journal.charge.key
        self.cost = journal.charge.cost
        self.alpha, self.records, self.updates = terms.alpha, terms.records, terms.updates
        self.terms, self._private, self._journal = terms, private, journal
        self._domain = private.domain
        self._rule = Hedge(terms.alpha)
        self._state = self._rule.start(self._domain, (), float(terms.records))
        self._answers: dict[Group, OnlineAnswer] = {}
        self._used = 0
        self._stream: NumericSparse | None = None
        (self._exact,) = private.exact(Workload.marginals(self._domain, [self._domain.names]))
        self._resumed = resumed
        self._closed = False
        self._session_lock = SessionLock(self.key)
        self.insecure = insecure or is_insecure(private.entropy)
        for entry in entries:
            self._replay(entry)

    @property
    def _lock(self) -> AbstractContextManager[object]:
        """One thread at a time."""
        return self._session_lock.lock

    @property
    def synopsis(self) -> Dual:
        """The hypothesis: public, and free to ask anything, without a promise. Later answers change it."""
        return self._state

    @property
    def updates_left(self) -> int:
        """How many more answers may be measured."""
        return self.updates - self._used

    @property
    def queries_left(self) -> int:
        """How many more queries may be answered that were not asked before."""
        return self.terms.queries - len(self._answers)

    def answer(self, query: str | Workload) -> OnlineAnswer:
        """The answer to a condition such as `age in 30..39 and income = '>50K'`, or to a workload of one query.

        A query that was asked before, in whatever words, has the answer it had. Each answer is durable before it is
        returned. Raises `StreamHalted` when all updates or queries are spent or the session is closed, `LedgerError`
        when another process went on with it, and `InvalidInput`, with nothing drawn, for what is no query.
        """
        asked = self._query(query)
        name = canonical(self._domain, asked)
        with self._lock:
            if self._closed:
                raise StreamHalted(f"the session is closed; open it again under its key {self.key!r}")
            known = self._answers.get(name)
            if known is not None:
                return known
            self._refuse_halted()
            guess, truth = self._guess(asked), self._truth(asked)
            if self._stream is None:
                self._stream = self._begin()
            try:
                entry = {"query": Workload(self._domain, (asked,)).to_json(), **self._ask(self._stream, guess, truth)}
                self._journal.append(_line(entry))
                return self._learn(asked, entry)
            except BaseException:
                # Something may have been drawn that is written nowhere, or learned by half: what is on disk counts.
                self._closed = True
                raise

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

    def _query(self, query: str | Workload) -> Group:
        workload = Workload.predicates(self._domain, query) if isinstance(query, str) else query
        if not isinstance(workload, Workload):
            raise InvalidInput(f"a query is a condition or a workload, got {type(query).__name__}")
        if workload.domain != self._domain:
            raise InvalidInput("the query is over another domain than the table")
        if len(workload) != 1:
            raise InvalidInput(f"a session answers one query at a time, got a workload of {len(workload):,}")
        workload.check_bounded()
        return single(workload.groups[0], 0)

    def _refuse_halted(self) -> None:
        if self.queries_left <= 0:
            raise StreamHalted(f"all {self.terms.queries:,} queries of the session are asked; a new one costs anew")
        if self.updates_left <= 0:
            raise StreamHalted(f"all {self.updates:,} updates of the session are spent; a new one costs anew")

    def _ask(self, stream: NumericSparse, guess: int, truth: int) -> dict[str, Any]:
        """Ask q(x) - q(y) and q(y) - q(x): the answer and, if one of them is above the threshold, its side."""
        above = stream.ask_many([truth - guess, guess - truth], self.terms.threshold)
        if above is None:
            return {"value": guess / STEPS}
        sign = (1, -1)[above[0]]
        return {"value": (guess + sign * above[1]) / STEPS, "sign": sign}

    def _begin(self) -> NumericSparse:
        """The sparse vector, at the first query of this process."""
        if self._resumed:
            self._journal.append(_line({"resumed": True, "insecure": is_insecure(self._private.entropy)}))
            self._used += 1
            self._refuse_halted()
        self._private.spend("compare by sparse vector", self.terms.cost)
        return self.terms.stream(self._private.entropy, self._used)

    def _truth(self, asked: Group) -> int:
        """q(x), in steps. Private."""
        cube = self._exact.reshape(self._domain.shape)
        marginal = cube.sum(axis=tuple(a for a in range(len(self._domain)) if a not in asked.axes)).reshape(-1)
        return int(asked.queries.apply(marginal)[0]) * round(asked.queries.unit * STEPS)

    def _guess(self, asked: Group) -> int:
        """What the hypothesis answers, q(y), in steps."""
        return round(float(self._state.answer(Workload(self._domain, (asked,)))[0]) * STEPS)

    def _replay(self, entry: dict[str, Any]) -> None:
        if "resumed" in entry:
            self._used += 1
            self.insecure |= entry["insecure"]
        else:
            self._learn(Workload.from_json(self._domain, entry["query"]).groups[0], entry)

    def _learn(self, asked: Group, entry: dict[str, Any]) -> OnlineAnswer:
        """Count an answer and learn from it, when it is given and when it is replayed."""
        sign = entry.get("sign")
        if sign is None:
            answer = OnlineAnswer(entry["value"], self.terms.hypothesis_error, "hypothesis")
        else:
            answer = OnlineAnswer(entry["value"], self.terms.measured_error, "measured")
            self._used += 1
            # The comparison decides the side, not the number, whose noise is its own.
            value = (self._guess(asked) + sign * self.terms.threshold) / STEPS
            self._rule.update(self._state, [Measurement(asked, np.array([value]), self.terms.noise)])
        self._answers[canonical(self._domain, asked)] = answer
        return answer

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be copied or pickled: a copy would not see what the other draws")

    def __repr__(self) -> str:
        seed = self._private.entropy.insecure_seed
        mark = ", INSECURE" if self.insecure else ""
        return (
            f"<PMWSession {self.cost}, alpha={self.alpha:.3g}, {self.updates_left:,} of {self.updates:,} updates and"
            f" {self.queries_left:,} queries left{mark}{'' if seed is None else f' seed {seed}'}>"
        )


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode()
