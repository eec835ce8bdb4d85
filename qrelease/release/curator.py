"""`Curator`: where the private data, the budget and the mechanisms meet."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Final, NoReturn, final

from qrelease._util import callers
from qrelease._util.compiling import tell_of_compiling
from qrelease._util.elapsed import elapsed
from qrelease._util.progress import showing
from qrelease._util.texts import for_python
from qrelease._util.validate import check_arguments, lacking
from qrelease.data.attribute import OTHER, Attribute
from qrelease.data.domain import Domain
from qrelease.data.schema import domain_from_json, domain_to_json
from qrelease.data.source import Source
from qrelease.errors import (
    BudgetExceeded,
    InvalidInput,
    LedgerError,
    RowsChangedWarning,
    TooLarge,
    WeakCostWarning,
)
from qrelease.mechanisms.base import (
    MeasuresNumbers,
    Mechanism,
    OfValues,
    OnlineMechanism,
    Opened,
    PayingMechanism,
    check_parts,
    check_result,
    parameters,
    sets_counted,
)
from qrelease.mechanisms.learning import schema as learning
from qrelease.mechanisms.measured_values import check_values
from qrelease.mechanisms.private_data import Private, workload_digest
from qrelease.noise.entropy import Entropy, WordSource, is_insecure
from qrelease.privacy.conversions import epsilon_told
from qrelease.privacy.costs import WEAK_EPSILON, Cost, Neighbours, Spend, check_spendable
from qrelease.privacy.filters import Filter
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_entries import Charge, TableDigests
from qrelease.privacy.resuming import (
    Draws,
    finish_complete,
    finished,
    is_of_release,
    key_of,
    learned_label,
    learned_schemas,
)
from qrelease.privacy.unit import Unit
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.workload import Workload
from qrelease.release.forecasts import Files, foretold
from qrelease.release.learned_schema import Learned, Left
from qrelease.release.manifest import is_released_to, with_id
from qrelease.release.promise import chosen
from qrelease.release.release import Release
from qrelease.release.schema_cost import SchemaCost
from qrelease.statistics.base import Statistic, check_statistic
from qrelease.statistics.estimate import Estimate
from qrelease.statistics.estimator import Estimator

_SCHEMA: Final = "a schema"
"""What the first draw is called where a schema is learned; what the parts of its cost bought follows."""

IN_RHO: Final = ("auto", "gaussian", "maxent", "mwem", "records")
"""The names of the mechanisms of `releases_in_rho`."""


@final
@dataclass(frozen=True)
class Paid:
    """A release that was charged and is not made yet. Made by `Curator.pay`.

    charge     what pays for it; not `fresh` where an earlier run paid
    cost       what of it the mechanism may cost the unit: all, or what learning the schema left
    described  the mechanism's parameters, as the manifest has them
    learned    what charges of their own paid for the schema, where they did
    """

    charge: Charge
    cost: Cost
    mechanism: Mechanism
    described: Mapping[str, Any]
    workload: Workload
    private: Private
    ledger: Ledger
    unit: Unit
    learned: tuple[SchemaCost, ...] = ()
    process: int = field(default_factory=os.getpid)

    def release(self) -> Release:
        """Draw, or take what was drawn already, and make the release: once, in the process that paid.

        Raises
        ------
        LedgerError
            In another process, as a fork would draw under the same charge, and inside a transaction of the ledger,
            which could undo what is kept of the draws.
        """
        further = "the same call goes on from what was drawn, for free" if self.resumes else "it stays spent"
        with _saying_that_it_was_charged(self.charge.cost, self.ledger, further):
            return self.rehearse()

    def rehearse(self) -> Release:
        """As `release`, for a ledger that is made for this release alone and forgotten: a refusal names no charge.

        Raises
        ------
        LedgerError
            As `release` does.
        """
        if os.getpid() != self.process or self.private.in_transaction:
            raise LedgerError("a release is made by the process that paid for it, outside of transactions")
        private, workload, cost = self.private, self.workload, self.charge.cost
        draft = self.mechanism.release(private, workload, self.unit.of_a_record(self.cost))
        check_result(draft, self.mechanism.name)
        rules = {"impossible": "kept" if draft.constrained else "not kept"} if workload.domain.impossible else {}
        insecure = is_insecure(private.entropy)
        release = Release(
            draft.synopsis,
            workload,
            cost,
            self.unit.neighbours,
            self.ledger.dataset,
            self.mechanism.name,
            {**self.described, **draft.choices, **rules},
            tuple(draft.measurements),
            tuple(private.spends),
            insecure,
            private.entropy.insecure_seed,
            date=None if insecure else datetime.now(UTC).date().isoformat(),
            measured_sums=draft.measured_sums,
            learned=self.learned,
        )
        return with_id(release)

    @property
    def resumes(self) -> bool:
        """Whether a run that is cut off now can be resumed."""
        return self.private.draws is not None

    def finish(self, release: Release, files: Mapping[str, str] | None = None) -> None:
        """The release is stored where it belongs: from now on the same arguments are a new charge.

        The ledger's entry names it.

        files  the SHA-256 of each of its files, by name, where it was written
        """
        record = self._record(release, files)
        if self.private.draws is not None:
            self.private.draws.finish(record)
        elif not release.insecure:
            self.ledger.store_answer(self.charge, record)

    def complete(self, release: Release, place: str | os.PathLike[str], files: Mapping[str, str] | None) -> None:
        """The release is written, and only to be moved to its place.

        A run that is cut off between that and `finish` is finished by the next one that would go on with its charge,
        if it finds the release there.

        place  the folder that it will be in
        files  as for `finish`
        """
        if self.private.draws is not None:
            self.private.draws.complete(os.path.abspath(place), self._record(release, files))

    def _record(self, release: Release, files: Mapping[str, str] | None) -> bytes:
        return finished(release.id, release.date, files, self.unit.at_most)


@final
class Curator:
    """Holds the private table, its budget and the source of noise: all releases, estimates and sessions are made by it.

    The neighbouring relation is the ledger's. `release` charges the ledger, durably, before the first bit of noise is
    drawn; what can be known to be wrong is raised before the charge.

    Where the table's unit is a person, costs and the ledger are those of persons. Only the curator converts them to the
    cost that a mechanism may spend on one record (`privacy.unit`). It also chooses which records of each person are
    kept, anew for each charge, by a key that the ledger derives from its own secret and the charge's name. So an
    interrupted release, or a session in another process, goes on with the same records, and no choice is stored.

    Parameters
    ----------
    table : Source
        The private records, a `Table`; or exact counts of them.
    ledger : Ledger
        The budget of these records, or of the persons whose records they are.
    entropy : Entropy, optional
        Where the noise comes from: the operating system, by default.
    place : str
        Where the records are, by a public name such as the path of their file, where several tables share a ledger: a
        release that was cut off is gone on with for records of the same place alone.

    Raises
    ------
    InvalidInput
        For a data frame or a path, which are no table and no ledger yet; and for a table whose unit is a person and
        that does not say whose records it has.
    LedgerError
        Where the ledger protects another unit than the table: persons and not records, the reverse, or others.

    Examples
    --------
    >>> import qrelease as qr
    >>> table = qr.data.adult(["age", "sex"])
    >>> with qr.Ledger.open(None, qr.PureDP(1.0), dataset="adult") as ledger:
    ...     curator = qr.Curator(table, ledger)
    ...     release = curator.release(qr.Laplace(), qr.Workload.marginals(table.domain, 2), qr.PureDP(0.5))
    ...     print(ledger.spent)
    epsilon=0.5
    """

    def __init__(self, table: Source, ledger: Ledger, entropy: WordSource | None = None, *, place: str = "") -> None:
        _check_given(table, ledger)
        self._table = table
        self.place = place
        self._ledger = ledger
        self._entropy = Entropy() if entropy is None else entropy
        self._rows: TableDigests | None = None
        if table.domain.at_most is not None and not table.knows_persons:
            raise InvalidInput("the unit is a person, and the table does not say whose records it has")
        ledger.check_unit(table.person_column)
        self._unit = Unit.of(ledger.neighbours, table.domain)
        check_relation(table, ledger.neighbours)

    def _check_records(self, what: str) -> None:
        """Raise `InvalidInput` where what is asked for needs single records, or counts that nobody foresaw."""
        if not self._table.keeps_records:
            raise InvalidInput(f"{what} needs single records, and this source has only counts of them")

    def _private(self, name: str, cost: Cost, draws: Draws | None = None) -> Private:
        """The table behind a charge of that name, for what a mechanism may cost one record."""
        return self._private_of(self._kept(name), cost, draws)

    def _private_of(self, kept: Source, cost: Cost, draws: Draws | None = None) -> Private:
        unit = self._unit
        return Private(kept, unit.relation, Filter(unit.of_a_record(cost)), self._entropy, draws=draws, unit=unit)

    def _kept(self, name: str) -> Source:
        """The records that a charge of that name is for: those that are kept of each person."""
        return self._table if self._table.domain.at_most is None else self._table.bounded(self._key(name))

    def _key(self, name: str) -> bytes:
        """The key by which the records of persons are chosen for a charge of that name."""
        seed = self._entropy.insecure_seed if is_insecure(self._entropy) else None
        if seed is not None:
            return sha256(f"qrelease insecure persons {seed}".encode()).digest()
        return self._ledger.key_for(f"persons of {name}")

    @property
    def ledger(self) -> Ledger:
        """The budget."""
        return self._ledger

    @property
    def domain(self) -> Domain:
        """The public universe of the records."""
        return self._table.domain

    @property
    def notice(self) -> str | None:
        """What the data holder, and nobody else, should know: that the records have changed.

        None where they are those of the ledger's last charge under the same schema, or where this will be the first.
        """
        return self._ledger.notice(self._fingerprint()) if self._ledger.names_tables else None

    def _fingerprint(self) -> TableDigests:
        if self._rows is None:
            self._rows = self._ledger.rows_of(self._table.fingerprint)
        return self._rows

    def _warn(self, cost: Cost, key: str | None = None, *, changed_rows: bool = False, fits: bool = True) -> None:
        """Give the warnings that belong before a charge: who turns warnings into errors is then charged nothing.

        Raises `BudgetExceeded` before any of them where the cost does not fit.

        key           of the charge; one that was made already costs nothing, and nothing is said of its cost
        changed_rows  that nothing is said of the records
        fits          whether the ledger must hold all of the cost now
        """
        known = self._ledger.knows(key)
        if not known:
            with nullcontext() if fits else suppress(BudgetExceeded):
                self._ledger.check(cost)
        notice = None if changed_rows else self.notice
        if notice:
            warnings.warn(notice, RowsChangedWarning, stacklevel=callers.level())
        epsilon = epsilon_told(cost)
        if epsilon > WEAK_EPSILON and not known and self._ledger.store.place and not is_insecure(self._entropy):
            warnings.warn(
                f"epsilon {epsilon:.6g} is above {WEAK_EPSILON:g} and promises next to nothing to anybody; it is about"
                " to be charged",
                WeakCostWarning,
                stacklevel=callers.level(),
            )

    def _warn_if_released_before(self, key: str, cost: Cost) -> None:
        """Warn of the charge of a release that was finished before, as a cell of a notebook is soon run twice.

        Not of one that was cut off and goes on, nor where the records are others, of which `_warn` tells.
        """
        if not key.endswith(" 1") and not self._ledger.knows(key) and self.notice is None:
            warnings.warn(
                f"the ledger has a release with these arguments already: {cost} is charged once more. If that was from"
                " the same records, use it for free where it was kept: by release.save(folder) and qr.load(folder), or"
                " by qr.Synthesizer(..., folder=folder)",
                stacklevel=callers.level(),
            )

    def warn_if_released_before(self, mechanism: Mechanism, workload: Workload | NumberWorkload, cost: Cost) -> None:
        """Warn, before the charge, that a release with these arguments was made already: it is charged once more.

        Not where the records are known to be others.

        `release` and `pay` do this by themselves, before their charge.

        Parameters
        ----------
        mechanism, workload, cost
            As in `release`.
        """
        mechanism, workload = measured_by(mechanism, workload)
        if self._resumable(mechanism):
            self._warn_if_released_before(self._release_key(mechanism, workload, cost), cost)

    def learn(self, cost: Cost, *, again: bool = False, changed_rows: bool = False) -> Learned:
        """Complete a schema that leaves bins or categories open, for one charge.

        Parameters
        ----------
        cost : PureDP or ApproxDP
            What it may cost: of ε four times as much for each column of categories as for one of numbers. Categories
            need a δ, of which half is for those of a single person where the unit is a person.
        again : bool
            A new charge in any case. By default the same schema at the same cost is what was learned before, for free,
            of these records or of what they were then: that it was charged again would tell that some record changed.
        changed_rows : bool
            As in `release`.

        Returns
        -------
        Learned
            Public. `table.viewed(learned.domain)` is the table that can be released from.

        Raises
        ------
        BudgetExceeded
            If the ledger does not cover the cost. Nothing is charged then.
        InvalidInput
            Where nothing is to be learned, and for categories without a δ. Nothing is charged then.

        Examples
        --------
        >>> import qrelease as qr
        >>> hours = qr.Attribute("hours", "number", within=(0, 99), step=1, learn=4, missing=("",))
        >>> records = [40] * 700 + list(range(100))
        >>> table = qr.Table(qr.Domain((hours,)), (records,))
        >>> curator = qr.Curator(table, qr.Ledger.open(None, qr.PureDP(1.0)), qr.Entropy.insecure(1))
        >>> learned = curator.learn(qr.PureDP(0.5))
        >>> {40.0, 41.0} <= set(learned.domain["hours"].edges)
        True
        """
        self._check_records("a learned schema")
        learning.check_learning(self.domain, cost)
        return self._learn(cost, again=again, changed_rows=changed_rows)

    def learn_for(
        self, mechanism: Mechanism, cost: Cost, *, again: bool = False, changed_rows: bool = False
    ) -> Learned:
        """Complete a schema, and leave the rest of one charge for one release over it, by `pay(..., learned=...)`.

        Both are spent in one account of ρ: for one (ε, δ) each has less noise than for two parts of it. What each part
        costs is in the release that comes of it.

        Parameters
        ----------
        mechanism : Mechanism
            How the release will be made, see `releases_in_rho`; another one of that name may be taken in the end.
        cost : ApproxDP
            What both may cost together, with a δ.
        again : bool
            A new charge in any case. By default one for the same schema, cost and name of a mechanism is gone on with
            whose release was not finished: the schema is then what was learned, for free.
        changed_rows : bool
            As in `release`.

        Returns
        -------
        Learned
            Public, but for what is `left`. A curator of `table.viewed(learned.domain)`, with the same ledger, pays for
            the release.

        Raises
        ------
        BudgetExceeded
            If the ledger does not cover the cost. Nothing is charged then.
        InvalidInput
            Where nothing is to be learned, without a δ, and for a mechanism that is not made for ρ. Nothing is charged
            then.

        Examples
        --------
        >>> import qrelease as qr
        >>> hours = qr.Attribute("hours", "number", within=(0, 99), step=1, learn=4, missing=("",))
        >>> table = qr.Table(qr.Domain((hours,)), ([40] * 700 + list(range(100)),))
        >>> cost = qr.ApproxDP(1.0, 1e-9)
        >>> ledger, entropy = qr.Ledger.open(None, cost), qr.Entropy.insecure(1)  # no seed for real records
        >>> learned = qr.Curator(table, ledger, entropy).learn_for(qr.MaxEnt(), cost)
        >>> viewed = qr.Curator(table.viewed(learned.domain), ledger, entropy)
        >>> asked = qr.Workload.marginals(learned.domain, 1)
        >>> release = viewed.pay(qr.MaxEnt(), asked, learned.left.cost, learned=learned).release()
        >>> print(release.cost, ledger.spent)
        epsilon=1, delta=1e-09 epsilon=1, delta=1e-09
        """
        self._check_records("a learned schema")
        _check_made(mechanism)
        check_parts(mechanism, self.domain)
        check_spendable(cost)
        account = learning.one_account(self.domain, cost, self._unit.of_records)
        if account is None or not releases_in_rho(mechanism):
            raise InvalidInput(
                "a schema and a release are charged as one where there is a delta, and a mechanism of the package that"
                f" spends rho, got {cost} and {mechanism!r}: learn first, and release for what is left"
            )
        return self._learn(account, mechanism.name, again=again, changed_rows=changed_rows)

    def _learn(
        self,
        cost: learning.LearningCost,
        mechanism: str | None = None,
        *,
        again: bool,
        changed_rows: bool,
    ) -> Learned:
        """What `learn` and `learn_for` do after their own checks; the latter with the name of a mechanism."""
        for attribute in self.domain:
            if attribute.undecided and attribute.kind == "category" and attribute.name not in self._table.texts:
                raise InvalidInput(f"column {attribute.name!r}: the table does not have the texts of its codes")
        if self._ledger.store.in_writing:
            raise LedgerError("a schema is not learned inside a transaction, which could undo its charge")
        unit = self._unit.of_records  # also where a person counts once: what is learned is learned of whole records
        with unit.explained():
            learning.check_noise(self.domain, cost, unit)
        keeps = self._ledger.store.place is not None and not is_insecure(self._entropy)
        key = self._learning_key(cost, mechanism, again=again) if keeps else None
        whole: Cost = cost.whole if isinstance(cost, learning.OneAccount) else cost
        self._warn(whole, key, changed_rows=changed_rows)
        if key is not None and mechanism is not None and not (again or changed_rows):
            self._warn_if_released_before(key, whole)
        self._table.check_bounded()
        rows = self._fingerprint()
        parts = learning.column_costs(self.domain, cost)
        label = learned_label(parts, mechanism)
        left: Left | None = None
        if isinstance(cost, learning.OneAccount):
            assert mechanism is not None
            left = Left.of(cost.release, mechanism, self._ledger)
        charge = self._ledger.charge(whole, label, key, rows=rows, changed_rows=True)  # it was said
        private = Private(
            self._kept(charge.key), unit.relation, Filter(learning.purse(self.domain, cost)), self._entropy, unit=unit
        )

        def draw() -> bytes:
            return json.dumps(domain_to_json(learning.learn(private, cost))).encode()

        spends = learning.spends(self.domain, cost)
        draws = self._draws(charge) if keeps else None
        found = draw() if draws is None else draws.take(_schema_asked(spends), draw)
        learned = replace(domain_from_json(json.loads(found)), review=self.domain.review)
        return Learned(learned, charge, spends, left)

    def _draws(self, charge: Charge) -> Draws:
        """What was drawn under a charge, from the first draw on."""
        return Draws(self._ledger, charge, f"qrelease {version('qrelease')}")

    def has_learned(self, cost: Cost) -> bool:
        """Whether `learn` at this cost was paid for before, and is free.

        Parameters
        ----------
        cost : PureDP or ApproxDP
            What `learn` would be given.

        Returns
        -------
        bool
            Always False with an insecure seed, and for a ledger in memory.
        """
        if self._ledger.store.place is None or is_insecure(self._entropy):
            return False
        return self._ledger.knows(self._learning_key(cost))

    def has_learned_for(self, mechanism: Mechanism, cost: Cost) -> bool:
        """Whether `learn_for` was paid for before, and its release is not finished, so that both go on for free.

        Parameters
        ----------
        mechanism, cost
            What `learn_for` would be given.

        Returns
        -------
        bool
            Always False with an insecure seed, and for a ledger in memory.
        """
        if self._ledger.store.place is None or is_insecure(self._entropy):
            return False
        account = learning.one_account(self.domain, cost, self._unit.of_records)
        return account is not None and self._ledger.knows(self._learning_key(account, mechanism.name))

    def _learning_key(self, cost: learning.LearningCost, mechanism: str | None = None, *, again: bool = False) -> str:
        """The name of the charge for a schema, which is never finished, or for one and a release by a mechanism."""
        if isinstance(cost, learning.OneAccount):
            return self._key_of_work([domain_to_json(self.domain), cost.whole.to_json(), mechanism], again=again)
        asked = [domain_to_json(self.domain), cost.to_json()]
        return key_of(self._ledger, sha256(json.dumps(asked).encode()).hexdigest(), again=again, kind="schema")

    def release(
        self,
        mechanism: Mechanism,
        workload: Workload | NumberWorkload,
        cost: Cost,
        *,
        again: bool = False,
        changed_rows: bool = False,
        progress: bool | None = None,
    ) -> Release:
        """Run a mechanism once, for one charge. What was paid for by a run that was cut off is not paid for again.

        Parameters
        ----------
        mechanism : Mechanism
            How the release is made, such as `MWEM()`.
        workload : Workload or NumberWorkload
            The k queries to answer. Numbers, as `Workload.means` makes them, need `NumberSums`, or `Auto`, which spends
            half of the cost on them. Without counts beside them, those of their groups are answered.
        cost : PureDP, ApproxDP or ZCDP
            What it may cost; all of it is charged.
        again : bool
            A new charge in any case. By default one with the same arguments that was cut off after its charge is
            resumed, also where records have changed since, for a second charge would tell that some did: what was drawn
            by then is of the records as they were. Where the same arguments were released from the same records, as
            when a cell of a notebook is run twice, a warning says so before the charge; not with `again`.
        changed_rows : bool
            That the records may be others than those of earlier charges; else it is a `RowsChangedWarning`, before the
            charge. Then nothing is said of an equal charge either.
        progress : bool, optional
            Whether lines on stderr say, before the charge, what `Auto` would take and about how long the release takes,
            then how far it is, and at last what was taken and how far off its answers are. What is said before the
            charge, and of the choice, follows from public facts. Progress and times do not: they are for whoever may
            see the records. By default where stderr is a terminal, and in a notebook.

        Returns
        -------
        Release
            Public: it can be given away.

        Raises
        ------
        BudgetExceeded
            If the ledger does not cover the cost. Nothing is charged then.
        InvalidInput, TooLarge, OutOfMemory
            Whatever the mechanism's own check finds. Nothing is charged then.
        LedgerError
            If what was drawn in a run that was cut off answers other questions than this one asks.
        """
        with showing(progress) as shown:
            if shown:
                tell_of_compiling()
            told = Files(written=False) if shown else None
            paid = self.pay(mechanism, workload, cost, again=again, changed_rows=changed_rows, foretell=told)
            with elapsed("releasing"):
                release = paid.release()
            paid.finish(release)
            if shown:
                tell(chosen(release))
        return release

    def pay(
        self,
        mechanism: Mechanism,
        workload: Workload | NumberWorkload,
        cost: Cost,
        *,
        again: bool = False,
        changed_rows: bool = False,
        learned: Learned | None = None,
        foretell: Files | None = None,
    ) -> Paid:
        """The first half of `release`: check and charge.

        It is for callers who store the release themselves before it counts as made: `Paid.release` draws it, and
        `Paid.finish` says that it is stored.

        Parameters
        ----------
        mechanism, workload, cost, again, changed_rows
            As in `release`.
        learned : Learned, optional
            What `learn_for` made, of a mechanism of that name: its charge pays, once, with what is left of it, which is
            the cost to be given. Or what `learn` made: the release says what it cost, as it does by itself where the
            ledger has kept what was learned.
        foretell : Files, optional
            What is written beside the release, where it is to be said on stderr, before the charge, what the release
            will be like and how long it will take; by default nothing is said.

        Returns
        -------
        Paid
            The charge, from which the release is made.

        Raises
        ------
        BudgetExceeded, InvalidInput, TooLarge, OutOfMemory, LedgerError
            As `release` does, before the charge.
        """
        mechanism, workload = measured_by(mechanism, workload)
        if learned is not None and learned.left is not None:
            return self._pay_with(learned, mechanism, workload, cost, foretell)
        if learned is not None:
            self._check_learned(learned)
        charged, paid = self.payment(
            mechanism, workload, cost, again=again, changed_rows=changed_rows, foretell=foretell
        )
        found = paid(charged())
        if learned is None:
            return found
        known = {part.entry: part for part in (*found.learned, learned.paid_for)}
        return replace(found, learned=tuple(known[entry] for entry in sorted(known)))

    def _check_learned(self, learned: Learned) -> None:
        """Raise `InvalidInput` where a schema is not that of the table, or was not charged to this ledger."""
        if learned.domain != self.domain:
            raise InvalidInput("the table is not over the schema that was learned: take table.viewed(learned.domain)")
        if not self._ledger.holds(learned.charge):
            raise InvalidInput("the schema was charged to another ledger: learn here")

    def _learned_before(self) -> tuple[SchemaCost, ...]:
        """What was paid for the bins and categories of this schema, where the ledger has kept what was learned.

        Where one charge paid for them and for another release, that is what is told: what is over them is about the
        same records, and no smaller cost is one in (ε, δ) that covers them. Bins and categories are as they were
        learned, or fewer of them, merged by hand; whatever else an entry says by now: of missing values, or of how its
        numbers are written. Who lists from public knowledge what was learned as well is told too large a cost.
        """
        found = []
        for entry, cost, names, drawn in learned_schemas(self._ledger):
            kept = domain_from_json(json.loads(drawn))
            known = {a.name: a for a in kept}
            there = [a.name for a in self.domain if a.name in known and _is_made_of(known[a.name], a)]
            columns = [name for name in there if f", {name}, " in f", {names}, "]
            found += [SchemaCost(tuple(columns), cost, entry)] if columns else []
        return tuple(found)

    def _pay_with(
        self, learned: Learned, mechanism: Mechanism, workload: Workload, cost: Cost, foretell: Files | None
    ) -> Paid:
        """A release for what is left of the charge that a schema was learned for."""
        left = learned.left
        if left is None or left.cost != cost or learned.domain != self.domain:
            raise InvalidInput("a release is paid with what `learn_for` left, at that cost, over the schema it learned")
        if left.ledger is not self._ledger:
            raise InvalidInput("the schema was charged to another ledger, or before this one was opened: learn here")
        self._check(mechanism, workload, cost)
        if mechanism.name != left.mechanism or not releases_in_rho(mechanism):
            raise InvalidInput(f"the charge was for a release by {left.mechanism}, got {mechanism!r}")
        described = parameters(mechanism)
        self._table.check_bounded()
        if foretell is not None:
            self._foretell(mechanism, workload, cost, foretell)
        left.spend()
        charge, draws = learned.charge, None
        if self._ledger.store.place is not None and not is_insecure(self._entropy):
            draws = self._draws(charge)
            draws.take(_schema_asked(learned.spends), _not_drawn, stays=True)  # the release begins after it
        private = self._private(charge.key, cost, draws)
        private.spends += [Spend(spend.what, self._unit.of_a_record(spend.cost)) for spend in learned.spends]
        return Paid(charge, cost, mechanism, described, workload, private, self._ledger, self._unit)

    def payment(
        self,
        mechanism: Mechanism,
        workload: Workload | NumberWorkload,
        cost: Cost,
        *,
        again: bool = False,
        changed_rows: bool = False,
        foretell: Files | None = None,
    ) -> tuple[Callable[[], Charge], Callable[[Charge], Paid]]:
        """What `pay` does after its checks, in two steps: for several that are charged in one transaction.

        Parameters
        ----------
        mechanism, workload, cost, again, changed_rows, foretell
            As in `pay`.

        Returns
        -------
        tuple of callable
            The first makes the charge; the second makes of it what is paid, outside of transactions.

        Raises
        ------
        InvalidInput, TooLarge, OutOfMemory, LedgerError
            As `pay` does, before the charge.
        """
        mechanism, workload = measured_by(mechanism, workload)
        self._check(mechanism, workload, cost)
        described = parameters(mechanism)  # by now, as a user's own object may fail at it
        resumable = self._resumable(mechanism)
        key = self._release_key(mechanism, workload, cost, again=again) if resumable else None
        self._warn(cost, key, changed_rows=changed_rows)
        if key is not None and not (again or changed_rows):
            self._warn_if_released_before(key, cost)
        self._table.check_bounded()
        rows = self._fingerprint()
        learned = self._learned_before()  # by now, as a ledger may be damaged
        label = f"{mechanism.name}: {len(workload):,} queries"
        if foretell is not None and not self._ledger.knows(key):
            self._foretell(mechanism, workload, cost, foretell)

        def charged() -> Charge:
            return self._ledger.charge(cost, label, key, rows=rows, changed_rows=True)  # it was said

        def paid(charge: Charge) -> Paid:
            private = self._private(charge.key, cost, self._draws(charge) if resumable else None)
            return Paid(charge, cost, mechanism, described, workload, private, self._ledger, self._unit, learned)

        return charged, paid

    def _foretell(self, mechanism: Mechanism, workload: Workload, cost: Cost, files: Files) -> None:
        """Say what a release will be like: of how many records there are only what is public."""
        # Where a person counts once it is their number that is public, and not that of the records.
        is_public = self._unit.public_records and self._unit.at_most is None
        records = len(self._table) if is_public else getattr(mechanism, "records", None)
        known = records if isinstance(records, int) else None
        told = foretold(mechanism, workload, cost, self._unit, known, files)
        tell(for_python(line) for line in (*told.choice, *told.times))

    def _release_key(self, mechanism: Mechanism, workload: Workload, cost: Cost, *, again: bool = False) -> str:
        """The name of the charge for a release of these arguments under this schema.

        Not of these records, which may have changed since a run was cut off: a ledger that is given away has the same
        entries whether or not somebody's record has. Each draw is of the records of one time, and costs who is in them
        its part of the charge; so all draws cost a person no more than the charge, whatever she was at each time.
        """
        schema = self._fingerprint().schema
        asked: list[Any] = [mechanism.name, parameters(mechanism), workload_digest(workload), cost.to_json(), schema]
        asked += [] if self.domain.person is None else [self.domain.person.to_json()]
        return self._key_of_work(asked, again=again)

    def _key_of_work(self, asked: Sequence[Any], *, again: bool) -> str:
        """The key of the charge for a release that is not finished, or of a new one.

        One whose release is found where it was to be was cut off before the ledger heard of that, and is finished here.
        """
        work = sha256(json.dumps([*asked, *([self.place] if self.place else [])]).encode()).hexdigest()
        key = key_of(self._ledger, work, again=again)
        if not self._ledger.store.in_writing and finish_complete(self._ledger, key, is_released_to):
            key = key_of(self._ledger, work, again=again)
        return key

    def has_paid(self, mechanism: Mechanism, workload: Workload | NumberWorkload, cost: Cost) -> bool:
        """Whether a release of these arguments was paid for and not finished, so that `pay` goes on with it for free.

        Parameters
        ----------
        mechanism, workload, cost
            As in `release`.

        Returns
        -------
        bool
            Always False with an insecure seed, for a ledger in memory, and for a mechanism from outside the package.
        """
        mechanism, workload = measured_by(mechanism, workload)
        return self._resumable(mechanism) and self._ledger.knows(self._release_key(mechanism, workload, cost))

    def check(self, mechanism: Mechanism, workload: Workload | NumberWorkload, cost: Cost) -> None:
        """Raise what `release` would raise of these arguments before its charge; nothing is charged or drawn.

        Parameters
        ----------
        mechanism, workload, cost
            As in `release`.

        Raises
        ------
        InvalidInput, TooLarge, OutOfMemory, LedgerError
            As `release` does.
        """
        self._check(*measured_by(mechanism, workload), cost)
        self._table.check_bounded()

    def _resumable(self, mechanism: Mechanism) -> bool:
        """Whether a run can be resumed: its noise is secret, its ledger outlives it, its mechanism is described.

        An object of a user's own may be another in the next run although its description is the same, and a mechanism
        of a user's own may draw by itself, which is not kept.
        """
        if is_insecure(self._entropy) or self._ledger.store.place is None:
            return False
        return _described(mechanism)

    def _check(self, mechanism: Mechanism, workload: Workload, cost: Cost) -> None:
        """Whatever can be known to be wrong before the charge."""
        _check_mechanism(mechanism)
        if not isinstance(workload, Workload):
            raise InvalidInput(f"a release takes a Workload, such as Workload.marginals(domain, 2), got {workload!r}")
        self.domain.check_decided()
        if workload.domain != self._table.domain:
            raise InvalidInput("the workload is over another domain than the table")
        if not type(mechanism).__module__.startswith("qrelease."):  # which may ask for other counts, when it has paid
            self._check_records("a mechanism of one's own")
        workload.check_bounded()
        check_spendable(cost)
        self._table.check_counts(workload.sets)
        if isinstance(mechanism, OfValues):
            check_values(self._table, mechanism.measures(workload))
        if self._ledger.store.in_writing:
            raise LedgerError("a release is not made inside a transaction, which could undo its charge")
        check_parts(mechanism, self.domain)
        with self._unit.explained():
            mechanism.check(workload, self._unit.of_a_record(cost), self._unit.relation)
        self._table.check_counts(sets_counted(mechanism, workload))

    def estimate(self, statistic: Statistic, cost: Cost, *, changed_rows: bool = False) -> Estimate:
        """Run a statistic once, for one charge, which is made before the first draw.

        Parameters
        ----------
        statistic : Statistic
            What is estimated, such as `Mean("age")` or `Quantile("age", 0.5)`.
        cost : PureDP, ApproxDP or ZCDP
            What it may cost; all of it is charged.
        changed_rows : bool
            As for `release`.

        Returns
        -------
        Estimate
            Public: it can be given away.

        Raises
        ------
        BudgetExceeded
            If the ledger does not cover the cost. Nothing is charged then.
        InvalidInput, TooLarge
            Whatever the statistic's own check finds, and where n is public and its theorem promises nothing for it.
            Nothing is charged then.

        Examples
        --------
        >>> import numpy as np
        >>> import qrelease as qr
        >>> table = qr.Table(qr.Domain.coded({"age": 100}), (np.arange(2000) % 80,))
        >>> with qr.Ledger.open(None, qr.PureDP(1.0), dataset="people") as ledger:
        ...     curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
        ...     found = curator.estimate(qr.Mean("age"), qr.PureDP(1.0))
        >>> round(found.value), found.interval[0] < 39.5 < found.interval[1]
        (40, True)
        """
        _check_made(statistic, "statistic")
        check_statistic(statistic)
        check_spendable(cost)
        self._check_records("an estimate")
        check_parts("an estimate", self.domain)
        if self._ledger.store.in_writing:
            raise LedgerError("an estimate is not made inside a transaction, which could undo its charge")
        estimator = self._estimator(self._table)
        estimator.check(statistic, cost)
        self._table.check_bounded()
        described = statistic.to_json() if hasattr(statistic, "to_json") else parameters(statistic)
        self._warn(cost, changed_rows=changed_rows)
        estimator.check_records(statistic, cost)  # not before that was told
        charge = self._ledger.charge(cost, f"{statistic.name}: an estimate", rows=self._fingerprint())
        with _saying_that_it_was_charged(cost, self._ledger, "it stays spent"):
            return self._estimator(self._kept(charge.key)).draw(statistic, described, cost)

    def _estimator(self, table: Source) -> Estimator:
        return Estimator(table, self._unit, self._ledger.dataset, self._entropy)

    def open(
        self,
        mechanism: OnlineMechanism[Opened] | PayingMechanism[Opened],
        cost: Cost,
        *,
        key: str | None = None,
        changed_rows: bool = False,
    ) -> Opened:
        """Open a session of an online mechanism; or go on with one.

        It is for one charge, before the first bit of noise, or, if the mechanism pays as it goes, for a charge before
        each draw, of which all together are at most the cost.

        Parameters
        ----------
        mechanism : OnlineMechanism or PayingMechanism
            Such as `PrivateMultiplicativeWeights()` or `Online(0.02, 0.001)`.
        cost : PureDP, ApproxDP or ZCDP
            What the session may cost.
        key : str, optional
            Names the session: one that was opened under it before goes on where it ended, for no further charge, with
            the same mechanism and cost. Without a key it is a new one.
        changed_rows : bool
            That the records may be others than before: else to go on with a session on other records is a
            `LedgerError`, and to open one where others were charged for a `RowsChangedWarning`, before the charge.

        Returns
        -------
        Session
            It answers a stream of queries; close it, or use it in a `with`.

        Raises
        ------
        BudgetExceeded
            If the ledger does not cover the cost. Nothing is charged then.
        InvalidInput, LedgerError
            Whatever the mechanism's own check finds, and a key that another session has. Nothing is charged then.
        """
        _check_made(mechanism)
        if isinstance(key, str) and is_of_release(key):
            raise InvalidInput(f"the key {key!r} looks like a key of a release: give the session another one")
        if not isinstance(mechanism, OnlineMechanism | PayingMechanism):
            raise InvalidInput(
                f"a session takes an online mechanism such as PrivateMultiplicativeWeights(), got {mechanism!r}"
            )
        check_spendable(cost)
        self._check_records("a session")
        check_parts("a session", self.domain)
        self.domain.check_decided()
        if self._ledger.store.in_writing:
            raise LedgerError("a session is not opened inside a transaction, which could undo its charges")
        self.check_session(key, changed_rows=changed_rows)
        if not self._ledger.knows(key):  # a session that pays as it goes may have a cost that is above what is left
            self._warn(cost, changed_rows=changed_rows, fits=not isinstance(mechanism, PayingMechanism))
        self._table.check_bounded()
        unit = self._unit
        records = len(self._table) if unit.public_records else None  # not before the rows were looked at
        with unit.explained():
            mechanism.check(self._table.domain, unit.of_a_record(cost), unit.relation, records)
        rows, label = self._fingerprint(), f"{mechanism.name}: a session"
        if isinstance(mechanism, PayingMechanism):
            journal = self._ledger.session(cost, label, key, rows=rows, changed_rows=changed_rows)
            kept = self._kept(journal.key)
            private = replace(self._private_of(kept, cost), estimator=self._estimator(kept))
            return mechanism.join(private, journal)
        charge = self._ledger.charge(cost, label, key, rows=rows, changed_rows=changed_rows)
        private = self._private(charge.key, cost)
        return mechanism.open(private, unit.of_a_record(cost), self._ledger.journal(charge))

    def check_session(self, key: str | None, *, changed_rows: bool = False) -> None:
        """Raise where a session was opened on other records; nothing is charged.

        Parameters
        ----------
        key : str or None
            The session's name in the ledger; None is a new session, of which nothing is wrong.
        changed_rows : bool
            That the records may be others: then nothing is raised.

        Raises
        ------
        LedgerError
            Where the session of that key was opened on other records.
        """
        if self._ledger.names_tables:
            self._ledger.check_session(key, self._fingerprint(), changed_rows=changed_rows)

    def __repr__(self) -> str:
        return f"Curator({self._ledger!r}; the records are private)"


def tell(lines: Iterable[str]) -> None:
    """Print lines for whoever waits for a release, as the command line does.

    Parameters
    ----------
    lines : iterable of str
        Public ones.
    """
    for line in lines:
        print(f"qrelease: {line}", file=sys.stderr)


def _check_given(table: object, ledger: object) -> None:
    """Raise `InvalidInput` for what stands where a table and a ledger belong, with what makes them of it."""
    if not hasattr(table, "keeps_records"):
        made = (
            "qr.Table.read(path, schema)"
            if isinstance(table, str | os.PathLike)
            else "qr.Table.from_frame(frame, schema)"
        )
        raise InvalidInput(f"a curator takes a table, got {type(table).__name__}: make one by {made}")
    if not isinstance(ledger, Ledger):
        made = f"qr.Ledger.open({str(ledger)!r})" if isinstance(ledger, str | os.PathLike) else "qr.Ledger.open(path)"
        raise InvalidInput(f"a curator takes an opened ledger, got {type(ledger).__name__}: open one by {made}")


def check_relation(table: Source, neighbours: Neighbours) -> None:
    """Raise `InvalidInput` where the number of records would be public under a relation, and is not.

    Parameters
    ----------
    table : Source
        The private records.
    neighbours : Neighbours
        The relation that they are to be released under.
    """
    unit = Unit.of(neighbours, table.domain)
    if table.private_size and unit.public_records:
        otherwise = ', or weights = "records" in [person]' if unit.counts_once else ""
        raise InvalidInput(
            f"replace-one makes the number of records public, but {table.private_size}: take add-remove{otherwise}"
        )


def releases_in_rho(mechanism: Mechanism) -> bool:
    """Whether a mechanism is one of the package that makes of a ρ about what it makes of the (ε, δ) that it comes to.

    Parameters
    ----------
    mechanism : Mechanism
        `Laplace`, for one, makes nothing of it; and one from outside may draw by itself, which is not kept.
    """
    return mechanism.name in IN_RHO and _described(mechanism)


def _described(mechanism: Mechanism) -> bool:
    """Whether a mechanism is one of the package, and its parameters tell everything about it."""
    if not type(mechanism).__module__.startswith("qrelease."):
        return False
    return all(_written_out(getattr(mechanism, f.name)) for f in fields(mechanism))  # type: ignore[arg-type]


def _schema_asked(spends: Sequence[Spend]) -> str:
    """What the draw of a schema answers. One that was drawn for other parts of its cost is not taken for it: the
    completed schema would say a noise of each column that it does not have, and a release might spend what is not left.
    """
    return f"{_SCHEMA}: {json.dumps([spend.to_json() for spend in spends])}"


def _not_drawn() -> NoReturn:
    raise LedgerError("the ledger does not hold the schema that was learned for this charge")


def measured_by(mechanism: Mechanism, workload: Workload | NumberWorkload) -> tuple[Mechanism, Workload]:
    """What measures numbers and counts, and the counts.

    Parameters
    ----------
    mechanism, workload
        As `Curator.release` takes them.

    Returns
    -------
    tuple of Mechanism and Workload
        The same two, where the workload is of counts.

    Raises
    ------
    InvalidInput
        Of numbers, for a mechanism of counts alone, and for what is none.
    """
    if not isinstance(workload, NumberWorkload):
        return mechanism, workload
    _check_mechanism(mechanism)
    if not isinstance(mechanism, MeasuresNumbers):
        raise InvalidInput(
            f"{mechanism.name} answers counts alone, and {workload.texts[0]!r} is asked: take Auto(), or"
            f" NumberSums(mechanism=…) around it"
        )
    return mechanism.measuring(workload)


def _check_mechanism(mechanism: object) -> None:
    """Raise `InvalidInput` for what is no mechanism."""
    _check_made(mechanism)
    if isinstance(mechanism, OnlineMechanism | PayingMechanism):
        raise InvalidInput(f"a release takes a mechanism such as MWEM(), not an online one, got {mechanism!r}")
    if not isinstance(mechanism, Mechanism):
        raise InvalidInput(
            f"a release takes a mechanism such as MWEM(), which has name, check(workload, cost, neighbours) and"
            f" release(private, workload, cost): {lacking(mechanism, ('name', 'check', 'release'))}"
        )
    check_arguments(mechanism, mechanism.check, "workload", "cost", "neighbours")
    check_arguments(mechanism, mechanism.release, "private", "workload", "cost")


@contextmanager
def _saying_that_it_was_charged(cost: Cost, ledger: Ledger, further: str) -> Iterator[None]:
    """Add to what is refused after a charge, such as what a mechanism of one's own returns, that it was charged; and to
    any other exception, such as one in its code, a note that says where as well.

    further  what that means
    """
    try:
        yield
    except (InvalidInput, TooLarge, BudgetExceeded) as error:
        error.args = (f"{error}; {cost} was charged", *error.args[1:])
        raise
    except BaseException as error:
        error.add_note(f"qrelease: {cost} was charged to {ledger.store.place or 'the ledger in memory'}: {further}")
        raise


def _check_made(made: object, kind: str = "mechanism") -> None:
    """Raise `InvalidInput` for a class, which has the methods of what it makes, too."""
    if isinstance(made, type):
        name = made.__name__
        raise InvalidInput(f"pass an object, {name}(), as the {kind}, not the class {name} itself")


def _written_out(value: object) -> bool:
    """Whether the description of a parameter tells everything: of plain values, and of dataclasses of these."""
    if value is None or isinstance(value, str | int | float):
        return True
    if isinstance(value, list | tuple):
        return all(map(_written_out, value))
    if isinstance(value, type) or not is_dataclass(value) or not type(value).__module__.startswith("qrelease."):
        return False
    return all(_written_out(getattr(value, f.name)) for f in fields(value))


def _is_made_of(learned: Attribute, attribute: Attribute) -> bool:
    """Whether bins or categories are the learned ones, or some of these: where a bin begins, and which text is one."""
    if (attribute.edges, attribute.categories) == (learned.edges, learned.categories):
        return True
    begins, texts = set(attribute.edges[1:-1]), set(attribute.categories) - {OTHER}
    return bool(begins or texts) and begins <= set(learned.edges) and texts <= set(learned.categories)
