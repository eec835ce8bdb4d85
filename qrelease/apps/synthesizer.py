"""`Synthesizer`: a release as a scikit-learn estimator, with `fit` and `sample`, for notebooks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast, final

from qrelease._util import callers, memory
from qrelease._util.compiling import tell_of_compiling
from qrelease._util.elapsed import elapsed
from qrelease._util.progress import showing
from qrelease.data.domain import Domain
from qrelease.data.schema import load
from qrelease.data.table import NO_SCHEMA, Table
from qrelease.errors import InvalidInput, LedgerError
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.base import Mechanism, check_table, parameters
from qrelease.mechanisms.learning import schema as learning
from qrelease.mechanisms.private_data import workload_digest
from qrelease.noise.entropy import WordSource, is_insecure
from qrelease.privacy.costs import ZCDP, Cost, cost_of, is_pure
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.resuming import check_room, releases, unfinished
from qrelease.privacy.unit import Unit
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Workload
from qrelease.release import checksums, writer
from qrelease.release.curator import Curator, Paid, measured_by, releases_in_rho, tell
from qrelease.release.forecasts import Files
from qrelease.release.frames import Frame
from qrelease.release.manifest import check_stored, with_id
from qrelease.release.promise import chosen
from qrelease.release.reader import load as load_release
from qrelease.release.release import Release

_NO_LEDGER = (
    "{}: what all releases about the same people cost adds up, so there has to be one budget that outlives this"
    " notebook: ledger=qr.Ledger.open({!r}, {}), with a larger total for more than one fit; or the path of a ledger"
    " that there is"
)

_PARAMETERS = (
    *("epsilon", "delta", "rho", "ledger", "schema", "mechanism", "workload", "numbers", "folder"),
    "progress",
)


@final
class Synthesizer:
    """Synthetic records of a data frame: `fit` makes a release for one charge, and `sample` draws from it for free.

    It is `Curator.release` and `Release.synthetic` under names that notebooks know, and asks for the two things that
    these need and other synthesizers guess or forget: a schema and a ledger.

    Parameters
    ----------
    epsilon : float, optional
        What each `fit` may cost; either this or `rho`.
    ledger : Ledger or path
        The budget of these people. A ledger that is named by its path has to exist.
    schema : Domain, path or str
        The public universe of the records: a domain, a schema file, or the text of one, as `qr.draft` proposes it. What
        it leaves open is learned first, for a part of the cost: see `Curator.learn_for`, and `Curator.learn` where
        there is no δ, or numbers are asked.
    delta : float, optional
        With ε; none, pure ε, by default. Where there are many columns, one far below 1 / the number of people makes the
        noise much smaller (`qr.plan` says what it gains). Means by group of a few thousand records may be all alike
        even so: look at their intervals, and at their `source`, which is `bounds` where the noise leaves nothing.
    rho : float, optional
        What each `fit` may cost, as a ρ of zCDP, instead of an ε and a δ: for a ledger whose total can hold one.
    mechanism : Mechanism, optional
        By default `Auto`, of those that give synthetic records.
    workload : int, Workload or NumberWorkload
        What the records should answer well: all marginals on so many columns, at most as many as there are; or queries.
    numbers : str or sequence of str
        Questions that are measured too, for half of the cost, such as `mean:pay by town`: `release_.mean("pay",
        by="town")` then has an interval of the exact values. See `NumericQuestion`. For another share, as a small one
        that only brings a long tail to its mean, `mechanism=qr.NumberSums(mechanism=qr.Auto(table=True), share=0.02)`.
    folder : path, optional
        Where the release is kept, as `Release.save` writes it. Where it is there already, `fit` takes it from there and
        charges nothing, so that a notebook that is run again, or whose kernel died, does not pay again. One folder is
        one release, which this ledger paid for with these arguments: for a new one, of next month's records, say, name
        another.
    progress : bool, optional
        Whether `fit` says on stderr what it will take, about how long that takes, how far it is, and how far off
        answers are, see `Curator.release`. By default where stderr is a terminal, and in a notebook.

    Attributes
    ----------
    release_ : Release
        After `fit`: public, with error bars, answers and `save`.
    notes_ : tuple of str
        After `fit`: what to know before the records are used, a sentence each (`Release.notes`).

    Examples
    --------
    >>> import pandas as pd
    >>> import qrelease as qr
    >>> frame = pd.DataFrame({"sex": ["F", "M"] * 300, "works": ["no", "no", "yes"] * 200})
    >>> cells = {"sex": ("F", "M"), "works": ("no", "yes")}
    >>> schema = qr.Domain(tuple(qr.Attribute(name, "category", categories=c) for name, c in cells.items()))
    >>> with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
    ...     model = qr.Synthesizer(epsilon=1.0, ledger=ledger, schema=schema).fit(frame)
    >>> model.sample(100).shape
    (100, 2)
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        schema: Domain | str | os.PathLike[str] | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mechanism: Mechanism | None = None,
        workload: int | Workload | NumberWorkload = 2,
        numbers: str | Sequence[str] = (),
        folder: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> None:
        self.epsilon, self.delta, self.rho = epsilon, delta, rho
        self.ledger, self.schema = ledger, schema
        self.mechanism, self.workload, self.numbers = mechanism, workload, numbers
        self.folder, self.progress = folder, progress
        if (epsilon is None) != (rho is None):  # else `fit` asks for one of them, which may be set until then
            self._cost()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn asks for them.

        Parameters
        ----------
        deep : bool
            Not used; scikit-learn hands it on.

        Returns
        -------
        dict
            The value of each parameter.
        """
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **parameters: Any) -> Self:
        """Set some of the parameters.

        Parameters
        ----------
        **parameters
            Their new values, by name.

        Returns
        -------
        Synthesizer
            The same object.

        Raises
        ------
        InvalidInput
            For a name that is no parameter.
        """
        for name, value in parameters.items():
            if name not in _PARAMETERS:
                raise InvalidInput(f"a Synthesizer has no parameter {name!r}; it has {', '.join(_PARAMETERS)}")
            setattr(self, name, value)
        return self

    def fit(self, frame: Any, y: None = None, *, entropy: WordSource | None = None) -> Self:
        """Charge the ledger and make the release. Every call is a charge of its own, unless there is a `folder`.

        A release that is in the folder already is taken from there, with a warning, whatever the records are by now.

        Parameters
        ----------
        frame : data frame, Table or path
            The private records: of pandas, polars or pyarrow, or a CSV or Parquet file.
        y : None
            Not used; scikit-learn hands it on.
        entropy : Entropy, optional
            Where the noise comes from: the operating system, by default.

        Returns
        -------
        Synthesizer
            The same object, with the release as `release_`.

        Raises
        ------
        InvalidInput
            Without a schema or a ledger, for a folder with another release or one that another ledger paid for, and for
            whatever else can be known to be wrong. Nothing is charged then.
        BudgetExceeded
            If the ledger does not cover the cost. Nothing is charged then.
        LedgerError
            For a ledger that is not there.
        """
        if self.schema is None:
            raise InvalidInput(NO_SCHEMA)
        cost = self._cost()
        with showing(self.progress) as shown:
            if shown:
                tell_of_compiling()
            return self._fitted(frame, cost, entropy, shown=shown)

    def _fitted(self, frame: Any, cost: Cost, entropy: WordSource | None, *, shown: bool) -> Self:
        """What `fit` does; `shown`: lines on stderr say what the release will be like, and was."""
        assert self.schema is not None
        if self.ledger is None or not (isinstance(self.ledger, Ledger) or Ledger.exists(self.ledger)):
            domain = frame.domain if isinstance(frame, Table) else _domain(self.schema)
            person = "" if domain.person is None else f", person={domain.person.column!r}"
            given = f"qr.{cost!r}{person}"
            if self.ledger is None:
                raise InvalidInput(_NO_LEDGER.format("a Synthesizer needs a ledger", "people.ledger", given))
            raise LedgerError(_NO_LEDGER.format(f"there is no ledger {self.ledger}", os.fspath(self.ledger), given))
        if self.folder is not None and _taken(self.folder):
            self.release_: Release = self._kept(Path(self.folder), frame, cost, entropy)
            self._kind = _kind(frame)
            self.notes_ = self.release_.notes
            warnings.warn(
                f"{os.fspath(self.folder)} has this release already, of {self.release_.date or 'an insecure seed'}: it"
                " was taken from there and nothing was charged; records that have changed since are not in it, name"
                " another folder for a new one",
                stacklevel=callers.level(),
            )
            return self
        mechanism = Auto(table=True) if self.mechanism is None else self.mechanism
        with ExitStack() as closing:
            ledger = self._opened(closing)
            if not isinstance(frame, Table):  # before a file is read, or a frame is gone through
                check_room(ledger, cost, in_parts=bool(_domain(self.schema).undecided))
            table = self._table(frame, self.schema)
            curator = Curator(table, ledger, entropy, place=_place(frame))
            if table.domain.undecided:
                self._check_open(curator, mechanism, cost)
            else:
                _check_records(mechanism, self._workload(table.domain))
            told = Files(written=self.folder is not None) if shown else None
            if self.folder is None:
                paid = self._paid(curator, table, mechanism, cost, entropy, foretell=told)
                with elapsed("fitting"):
                    self.release_ = paid.release()
                paid.finish(self.release_)
            else:  # it counts as made once it is on the disk: until then the same call goes on with it, for free
                with writer.new_folder(self.folder) as part:
                    paid = self._paid(curator, table, mechanism, cost, entropy, foretell=told)
                    with elapsed("fitting"):
                        release = self.release_ = paid.release()
                    check_stored(release.synopsis)
                    writer.save(release, part)
                    hashes = checksums.read_hashes(part)
                    paid.complete(release, self.folder, hashes)
                paid.finish(release, hashes)
        if shown:
            tell(chosen(self.release_))
        self._kind = _kind(frame)
        self.notes_ = self.release_.notes
        return self

    def sample(self, n: int | None = None, *, seed: int | None = None, frame: Frame | None = None) -> Any:
        """Synthetic records, at no further cost.

        Parameters
        ----------
        n : int, optional
            How many; by default about as many as there are.
        seed : int, optional
            Of ordinary randomness.
        frame : {"pandas", "polars", "arrow"}, optional
            The kind of data frame; by default that which was fitted, or pandas.

        Returns
        -------
        data frame of n rows
            With typed columns, as `Release.synthetic` has them. The types are the schema's, not the frame's, which
            would tell of its records: dates have no time zone, categories are texts, or an ordered categorical where
            the schema says `ordered`, and whole numbers are nullable where the schema says that they may be missing.
            Give both tables one type before you compare them.

        Raises
        ------
        InvalidInput
            Before `fit`, and for what `Release.synthetic` refuses.
        """
        if not hasattr(self, "release_"):
            raise InvalidInput("this Synthesizer has no release yet: call fit first, which is a charge")
        return self.release_.synthetic(n, seed=seed, frame=self._kind if frame is None else frame)

    def _cost(self) -> Cost:
        """What each `fit` costs; `InvalidInput` unless exactly one of ε and ρ says so."""
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidInput(
                f"a Synthesizer takes either epsilon or rho, got epsilon={self.epsilon!r} and rho={self.rho!r}"
            )
        if self.epsilon is not None:
            return cost_of(self.epsilon, self.delta)
        if self.delta is not None:
            raise InvalidInput("rho cannot be used with delta: a rho holds at every delta")
        return ZCDP(cast(float, self.rho))

    def _table(self, frame: Any, schema: Domain | str | os.PathLike[str]) -> Table:
        if isinstance(frame, Table):
            return frame
        if isinstance(frame, str | os.PathLike):
            return Table.read(frame, schema)
        return Table.from_frame(frame, schema)

    def _workload(self, domain: Domain) -> Workload | NumberWorkload:
        """What is asked, of counts and of numbers."""
        asked = self.workload if isinstance(self.workload, Workload | NumberWorkload) else self._counts(domain)
        texts = self._texts()
        return asked + Workload.numbers(domain, *texts) if texts else asked

    def _counts(self, domain: Domain) -> Workload:
        """All marginals on so many columns."""
        columns = self.workload
        if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
            raise InvalidInput(f"workload must be a number of columns or a Workload, got {columns!r}")
        return Workload.marginals(domain, min(columns, len(domain)))

    def _texts(self) -> list[str]:
        return [self.numbers] if isinstance(self.numbers, str) else list(self.numbers)

    def _check_open(self, curator: Curator, mechanism: Mechanism, cost: Cost) -> None:
        """Raise what a release would raise whatever is learned, and where the ledger does not cover both."""
        domain = curator.domain
        if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
            raise InvalidInput(f"a release takes a mechanism, an object such as Auto(), got {mechanism!r}")
        if isinstance(self.workload, Workload | NumberWorkload):
            raise InvalidInput(
                f"{', '.join(domain.undecided)}: to be learned, so there are no queries of them yet: let workload be a"
                " number of columns, and numbers the questions as texts"
            )
        unit = Unit.of(curator.ledger.neighbours, domain).of_records
        together = self._together(mechanism, cost)
        first, left = learning.divided(domain, cost)
        with unit.explained():
            account = learning.one_account(domain, cost, unit) if together else None
            learning.check_noise(domain, first if account is None else account, unit)
        if account is not None:
            left = account.release
        for most in (False, True):
            stand_in = learning.learnable_domain(domain, most=most)
            questions = [NumericQuestion.before_learning(stand_in, text, domain.undecided) for text in self._texts()]
            counts = self._counts(stand_in)
            asked = NumberWorkload(stand_in, tuple(dict.fromkeys(questions)), counts) if questions else counts
            by, measured = _check_records(mechanism, asked)
            whole = Unit.of(curator.ledger.neighbours, stand_in)
            with whole.explained(), memory.unused():  # what the records take of the memory is private
                by.check(measured, whole.of_a_record(left), whole.relation)
        known = curator.has_learned_for(mechanism, cost) if together else curator.has_learned(first)
        if not known:
            curator.ledger.check(cost)

    def _together(self, mechanism: Mechanism, cost: Cost) -> bool:
        """Whether a schema is learned in one account of ρ with its release."""
        return not self.numbers and releases_in_rho(mechanism) and not is_pure(cost)

    def _paid(
        self,
        curator: Curator,
        table: Table,
        mechanism: Mechanism,
        cost: Cost,
        entropy: WordSource | None,
        *,
        changed_rows: bool = False,
        foretell: Files | None = None,
    ) -> Paid:
        """The charge, after what the schema leaves open was learned for a part of it."""
        if not table.domain.undecided:
            asked = self._workload(table.domain)
            return curator.pay(mechanism, asked, cost, changed_rows=changed_rows, foretell=foretell)
        if self._together(mechanism, cost):
            learned = curator.learn_for(mechanism, cost, changed_rows=changed_rows)
            assert learned.left is not None
            left: Cost = learned.left.cost
        else:
            first, left = learning.divided(table.domain, cost)
            learned = curator.learn(first, changed_rows=changed_rows)
        if learned.unnamed:
            warnings.warn(
                f"{', '.join(learned.unnamed)}: no text is of enough records, or persons, to be named at this cost, so"
                " that all are 'other'; list the categories in the schema, from public knowledge",
                stacklevel=callers.level(),
            )
        viewed = Curator(table.viewed(learned.domain), curator.ledger, entropy, place=curator.place)
        # Of changed records it was told before the schema was learned, and of an equal charge where one paid for both.
        asked = self._workload(learned.domain)
        if learned.left is None and not changed_rows:
            viewed.warn_if_released_before(mechanism, asked, left)
        return viewed.pay(mechanism, asked, left, changed_rows=True, learned=learned, foretell=foretell)

    def _opened(self, closing: ExitStack) -> Ledger:
        """The ledger, which is closed with the stack where its path was given."""
        assert self.ledger is not None
        return self.ledger if isinstance(self.ledger, Ledger) else closing.enter_context(Ledger.open(self.ledger))

    def _kept(self, folder: Path, frame: Any, cost: Cost, entropy: WordSource | None) -> Release:
        """The release that the folder has, which has to be the one that `fit` would make, and be paid for here."""
        release = load_release(folder)
        with ExitStack() as closing:
            ledger = self._opened(closing)
            self._check_same(release, folder, frame, cost, ledger, entropy is not None and is_insecure(entropy))
            if not _names(ledger, release) and not self._finished(release, folder, frame, cost, ledger, entropy):
                raise InvalidInput(
                    f"{folder} has a release that was not paid from {ledger!r}, by what it says: name another folder,"
                    " or the ledger that paid; qr.load reads it as it is"
                )
        return release

    def _finished(
        self, release: Release, folder: Path, frame: Any, cost: Cost, ledger: Ledger, entropy: WordSource | None
    ) -> bool:
        """Whether a charge of the ledger that is not finished paid for a release, which it is then finished by.

        A process may be cut off between the last file of a folder and the ledger's word. What was drawn by then is all
        kept, so that the release is made again of it, for free, and is this one or another.
        """
        assert self.schema is not None
        if not any(unfinished(entry) and entry.cost == release.cost for entry in ledger.history()):
            return False
        table = self._table(frame, self.schema)
        mechanism = Auto(table=True) if self.mechanism is None else self.mechanism
        curator = Curator(table, ledger, entropy, place=_place(frame))
        if not self._goes_on(curator, table, mechanism, cost, entropy):
            return _names(ledger, release)  # by now, where it is at its place
        paid = self._paid(curator, table, mechanism, cost, entropy, changed_rows=True)
        again = with_id(replace(paid.release(), date=release.date, versions=release.versions))
        if again.id != release.id:
            return False
        paid.finish(release, checksums.read_hashes(folder))
        return True

    def _goes_on(
        self, curator: Curator, table: Table, mechanism: Mechanism, cost: Cost, entropy: WordSource | None
    ) -> bool:
        """Whether `_paid` would charge nothing, as an earlier run was charged and not finished."""
        if not table.domain.undecided:
            return curator.has_paid(mechanism, self._workload(table.domain), cost)
        if self._together(mechanism, cost):
            return curator.has_learned_for(mechanism, cost)
        first, left = learning.divided(table.domain, cost)
        if not curator.has_learned(first):
            return False
        domain = curator.learn(first, changed_rows=True).domain
        viewed = Curator(table.viewed(domain), curator.ledger, entropy, place=curator.place)
        return viewed.has_paid(mechanism, self._workload(domain), left)

    def _check_same(
        self, release: Release, folder: Path, frame: Any, cost: Cost, ledger: Ledger, insecure: bool
    ) -> None:
        """Raise `InvalidInput` where a release is another than `fit` would make, by all that it says."""
        assert self.schema is not None
        domain = frame.domain if isinstance(frame, Table) else _domain(self.schema)
        costs: list[Cost] = [cost]
        if domain.undecided:
            costs.append(learning.divided(domain, cost)[1])
        same = {
            "cost": release.cost in costs,
            "dataset": release.dataset == ledger.dataset,
            "neighbours": release.neighbours is ledger.neighbours,
            "source of noise": release.insecure == insecure,
            "schema": _like(release.domain, domain),
        }
        if same["schema"]:
            mechanism = Auto(table=True) if self.mechanism is None else self.mechanism
            asked = self._workload(release.domain)
            texts = asked.texts if isinstance(asked, NumberWorkload) else ()
            mechanism, counts = measured_by(mechanism, asked)
            same["mechanism"] = release.mechanism == mechanism.name
            same["parameters"] = not same["mechanism"] or _has_parameters(release, mechanism)
            measured = release.parameters.get("questions", ())
            same["workload"] = workload_digest(release.workload) == workload_digest(counts) and set(texts) <= set(
                measured
            )
        others = [what for what, alike in same.items() if not alike]
        if others:
            raise InvalidInput(
                f"{folder} has another release, {release!r}: it differs in {', '.join(others)}; name another folder"
            )

    def __repr__(self) -> str:
        fitted = f", fitted: {self.release_!r}" if hasattr(self, "release_") else ""
        if fitted and self.notes_:
            fitted += f"; to know before its records are used, see notes_ ({len(self.notes_)})"
        cost = f"epsilon={self.epsilon!r}, delta={self.delta!r}" if self.rho is None else f"rho={self.rho!r}"
        return f"Synthesizer({cost}{fitted})"


def _domain(schema: Domain | str | os.PathLike[str]) -> Domain:
    return schema if isinstance(schema, Domain) else load(schema, undecided=True)


def _check_records(mechanism: Mechanism, asked: Workload | NumberWorkload) -> tuple[Mechanism, Workload]:
    """What measures what is asked, and the counts; raises where there would be no synthetic records."""
    mechanism, counts = measured_by(mechanism, asked)
    if isinstance(mechanism, Mechanism) and not isinstance(mechanism, type):  # the curator refuses what is none
        check_table(mechanism, counts)
    return mechanism, counts


def _taken(folder: str | os.PathLike[str]) -> bool:
    """Whether there is a release in a folder, or anything else where it would be."""
    path = Path(folder)
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def _place(frame: Any) -> str:
    """Where the records are, if they are in a file."""
    return os.path.abspath(frame) if isinstance(frame, str | os.PathLike) else ""


def _names(ledger: Ledger, release: Release) -> bool:
    """Whether a ledger names a release; of an insecure one, which none names, whether it has such a charge."""
    if not release.insecure:
        return any(made["release"] == release.id for made in releases(ledger).values())
    return any(
        entry.kind == "charge" and entry.cost == release.cost and entry.label.startswith(f"{release.mechanism}: ")
        for entry in ledger.history()
    )


def _has_parameters(release: Release, mechanism: Mechanism) -> bool:
    """Whether a release was made with the parameters of a mechanism, as far as its manifest has them.

    In place of one that is None it has what the mechanism chose, and in that of `records` it may have what was counted.
    Questions are compared with the workload.
    """
    for name, asked in parameters(mechanism).items():
        stored = release.parameters.get(name)
        counted = name == "records" and isinstance(stored, float)
        if asked is not None and name != "questions" and not counted and stored != asked:
            return False
    return True


def _like(released: Domain, domain: Domain) -> bool:
    """Whether a release is over a domain, whatever the order of its columns; as far as it is known before learning."""
    if domain.undecided:
        return set(released.names) == set(domain.names) and released.person == domain.person
    alike = set(released.attributes) == set(domain.attributes) and set(released.impossible) == set(domain.impossible)
    return alike and released.person == domain.person


def _kind(frame: Any) -> Frame:
    """The kind of a data frame; pandas for anything else."""
    package = type(frame).__module__.partition(".")[0]
    return cast(Frame, {"polars": "polars", "pyarrow": "arrow"}.get(package, "pandas"))
