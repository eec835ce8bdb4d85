"""`Synthesizer`: a release as a scikit-learn estimator, with `fit` and `sample`, for notebooks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, cast, final

from qrelease.data.domain import Domain
from qrelease.data.schema import load
from qrelease.data.table import NO_SCHEMA, Table
from qrelease.errors import InvalidInput, LedgerError
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.base import MeasuresNumbers, Mechanism, check_table
from qrelease.mechanisms.private_data import workload_digest
from qrelease.noise.entropy import WordSource, is_insecure
from qrelease.privacy.costs import Cost, cost_of
from qrelease.privacy.ledger import Ledger
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.workload import Workload
from qrelease.release import checksums, writer
from qrelease.release.curator import Curator
from qrelease.release.frames import Frame
from qrelease.release.reader import load as load_release
from qrelease.release.release import Release

_NO_LEDGER = (
    "{}: what all releases about the same people cost adds up, so there has to be one budget that outlives this"
    " notebook: ledger=qr.Ledger.open({!r}, {}), with a larger total for more than one fit; or the path of a ledger"
    " that there is"
)

_PARAMETERS = ("epsilon", "delta", "ledger", "schema", "mechanism", "workload", "numbers", "folder")


@final
class Synthesizer:
    """Synthetic records of a data frame: `fit` makes a release for one charge, and `sample` draws from it for free.

    It is `Curator.release` and `Release.synthetic` under names that notebooks know, and asks for the two things that
    these need and other synthesizers guess or forget: a schema and a ledger.

    Parameters
    ----------
    epsilon : float
        What each `fit` may cost.
    ledger : Ledger or path
        The budget of these people. A ledger that is named by its path has to exist.
    schema : Domain, path or str
        The public universe of the records: a domain, a schema file, or the text of one, as `qr.draft` proposes it.
    delta : float, optional
        With ε; none, pure ε, by default. Where there are many columns, one far below 1 / the number of people makes the
        noise much smaller (`qr.plan` says what it gains). Means by group of a few thousand records may be all alike
        even so: look at their intervals, and at their `source`, which is `bounds` where the noise leaves nothing.
    mechanism : Mechanism, optional
        By default `Auto`, of those that give synthetic records.
    workload : int, Workload or NumberWorkload
        What the records should answer well: all marginals on so many columns, at most as many as there are; or queries.
    numbers : str or sequence of str
        Questions that are measured too, for half of the cost, such as `mean:pay by town`: `release_.mean("pay",
        by="town")` then has an interval of the exact values. See `NumericQuestion`.
    folder : path, optional
        Where the release is kept, as `Release.save` writes it. Where it is there already, `fit` takes it from there and
        charges nothing, so that a notebook that is run again, or whose kernel died, does not pay again. One folder is
        one release: for a new one, of next month's records, say, name another.

    Attributes
    ----------
    release_ : Release
        After `fit`: public, with error bars, answers and `save`.

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
        epsilon: float,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        schema: Domain | str | os.PathLike[str] | None = None,
        delta: float | None = None,
        mechanism: Mechanism | None = None,
        workload: int | Workload | NumberWorkload = 2,
        numbers: str | Sequence[str] = (),
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.ledger, self.schema = ledger, schema
        self.mechanism, self.workload, self.numbers = mechanism, workload, numbers
        self.folder = folder

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
            Without a schema or a ledger, for a folder with another release, and for whatever else can be known to be
            wrong. Nothing is charged then.
        BudgetExceeded
            If the ledger does not cover the cost. Nothing is charged then.
        LedgerError
            For a ledger that is not there.
        """
        if self.schema is None:
            raise InvalidInput(NO_SCHEMA)
        cost = cost_of(self.epsilon, self.delta)
        if self.ledger is None or not (isinstance(self.ledger, Ledger) or Ledger.exists(self.ledger)):
            domain = frame.domain if isinstance(frame, Table) else _domain(self.schema)
            person = "" if domain.person is None else f", person={domain.person.column!r}"
            given = f"qr.{cost!r}{person}"
            if self.ledger is None:
                raise InvalidInput(_NO_LEDGER.format("a Synthesizer needs a ledger", "people.ledger", given))
            raise LedgerError(_NO_LEDGER.format(f"there is no ledger {self.ledger}", os.fspath(self.ledger), given))
        if self.folder is not None and _taken(self.folder):
            self.release_: Release = self._kept(
                Path(self.folder), frame, cost, entropy is not None and is_insecure(entropy)
            )
            self._kind = _kind(frame)
            warnings.warn(
                f"{os.fspath(self.folder)} has this release already, of {self.release_.date or 'an insecure seed'}: it"
                " was taken from there and nothing was charged; records that have changed since are not in it, name"
                " another folder for a new one",
                stacklevel=2,
            )
            return self
        table = self._table(frame, self.schema)
        workload = self._workload(table.domain)
        mechanism = Auto(table=True) if self.mechanism is None else self.mechanism
        if not isinstance(workload, NumberWorkload):
            if isinstance(mechanism, Mechanism):
                check_table(mechanism, workload)
        elif isinstance(mechanism, MeasuresNumbers):
            check_table(*mechanism.measuring(workload))
        with ExitStack() as closing:
            curator = Curator(table, self._opened(closing), entropy)
            if self.folder is None:
                self.release_ = curator.release(mechanism, workload, cost)
            else:  # it counts as made once it is on the disk: until then the same call goes on with it, for free
                with writer.new_folder(self.folder) as part:
                    paid = curator.pay(mechanism, workload, cost)
                    release = paid.release()
                    writer.save(release, part)
                paid.finish(release, checksums.read_hashes(Path(self.folder)))
                self.release_ = release
        self._kind = _kind(frame)
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
            With typed columns, as `Release.synthetic` has them.

        Raises
        ------
        InvalidInput
            Before `fit`, and for what `Release.synthetic` refuses.
        """
        if not hasattr(self, "release_"):
            raise InvalidInput("this Synthesizer has no release yet: call fit first, which is a charge")
        return self.release_.synthetic(n, seed=seed, frame=self._kind if frame is None else frame)

    def _table(self, frame: Any, schema: Domain | str | os.PathLike[str]) -> Table:
        if isinstance(frame, Table):
            return frame
        if isinstance(frame, str | os.PathLike):
            return Table.read(frame, schema)
        return Table.from_frame(frame, schema)

    def _workload(self, domain: Domain) -> Workload | NumberWorkload:
        """What is asked, of counts and of numbers."""
        asked = self.workload
        if not isinstance(asked, Workload | NumberWorkload):
            if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
                raise InvalidInput(f"workload must be a number of columns or a Workload, got {asked!r}")
            asked = Workload.marginals(domain, min(asked, len(domain)))
        texts = [self.numbers] if isinstance(self.numbers, str) else list(self.numbers)
        return asked + Workload.numbers(domain, *texts) if texts else asked

    def _opened(self, closing: ExitStack) -> Ledger:
        """The ledger, which is closed with the stack where its path was given."""
        assert self.ledger is not None
        return self.ledger if isinstance(self.ledger, Ledger) else closing.enter_context(Ledger.open(self.ledger))

    def _kept(self, folder: Path, frame: Any, cost: Cost, insecure: bool) -> Release:
        """The release that the folder has, which has to be the one that `fit` would make."""
        assert self.schema is not None
        release = load_release(folder)
        with ExitStack() as closing:
            dataset = self._opened(closing).dataset
        domain = frame.domain if isinstance(frame, Table) else _domain(self.schema)
        same = {
            "cost": release.cost == cost,
            "dataset": release.dataset == dataset,
            "source of noise": release.insecure == insecure,
            "schema": _like(release.domain, domain),
        }
        if same["schema"]:
            mechanism: Any = Auto(table=True) if self.mechanism is None else self.mechanism
            asked = self._workload(release.domain)
            texts: tuple[str, ...] = ()
            if isinstance(asked, NumberWorkload):
                texts = asked.texts
                mechanism, asked = mechanism.measuring(asked)
            same["mechanism"] = release.mechanism == mechanism.name
            measured = release.parameters.get("questions", ())
            same["workload"] = workload_digest(release.workload) == workload_digest(asked) and set(texts) <= set(
                measured
            )
        others = [what for what, alike in same.items() if not alike]
        if others:
            raise InvalidInput(
                f"{folder} has another release, {release!r}: it differs in {', '.join(others)}; name another folder"
            )
        return release

    def __repr__(self) -> str:
        fitted = f", fitted: {self.release_!r}" if hasattr(self, "release_") else ""
        return f"Synthesizer(epsilon={self.epsilon!r}, delta={self.delta!r}{fitted})"


def _domain(schema: Domain | str | os.PathLike[str]) -> Domain:
    return schema if isinstance(schema, Domain) else load(schema, undecided=True)


def _taken(folder: str | os.PathLike[str]) -> bool:
    """Whether there is a release in a folder, or anything else where it would be."""
    path = Path(folder)
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


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
