"""Which ledger a command charges: found beside the data, or made."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from qrelease.apps.cli.shared import dataset_of, dialect_of, entropy_of
from qrelease.errors import InvalidInput, LedgerError, QReleaseError
from qrelease.privacy.costs import cost_of
from qrelease.privacy.ledger_place import is_mount_point
from qrelease.privacy.ledger_url import LedgerUrl

if TYPE_CHECKING:
    from qrelease.data.source import Source
    from qrelease.privacy import Cost, Neighbours
    from qrelease.privacy.ledger import Ledger
    from qrelease.release.curator import Curator


_MOST_REASONS = 3  # why other ledgers are of these data


def known_ledger(
    arguments: argparse.Namespace, cost: Cost, neighbours: Neighbours, person: str | None = None
) -> Ledger | None:
    """The ledger of this dataset; None where there is none yet, and `new_ledger` will make one that covers the cost.

    person  the column that says whose records they are, where a person is the unit

    A run with an insecure seed and no ledger named is a test: it has a budget of its own, in memory.
    """
    from qrelease.privacy import Filter
    from qrelease.privacy.ledger import Ledger

    total = _total(arguments, cost)
    if arguments.insecure_seed is not None and arguments.ledger is None:
        return Ledger.open(None, total, dataset=dataset_of(arguments), neighbours=neighbours, person=person)
    path = ledger_path(arguments)
    if Ledger.exists(path):
        ledger = Ledger.open(path, dataset=dataset_of(arguments), neighbours=neighbours)
        if arguments.total_epsilon is not None and ledger.total != total:
            has = ledger.total
            ledger.close()
            raise InvalidInput(f"ledger {path} has a total of {has}, not {total}; `qrelease ledger raise` changes it")
        return ledger
    Filter(total).spend(cost)
    if isinstance(path, Path) and not path.parent.is_dir():
        raise LedgerError(f"ledger {path}: there is no folder {path.parent}")
    return None


def check_affordable(
    arguments: argparse.Namespace, cost: Cost, *, resumes: bool = True, in_parts: bool = False
) -> None:
    """Raise `BudgetExceeded` before the data are read, where the ledger has neither room for a charge nor one to go on.

    resumes   whether a charge that was made before may do, as for `release`
    in_parts  whether that may be of a part of the cost: of one of two tables, or for a schema that is learned first
    """
    from qrelease.privacy import Neighbours
    from qrelease.privacy.resuming import check_room

    ledger = known_ledger(arguments, cost, Neighbours.parse(arguments.neighbours))
    if ledger is not None:
        with ledger:
            check_room(ledger, cost, resumes=resumes, in_parts=in_parts)


def new_ledger(arguments: argparse.Namespace, cost: Cost, neighbours: Neighbours, *tables: Source) -> Ledger:
    """A ledger with the asked total, or just this cost: for when nothing is left to refuse, so that none is left.

    tables  what it is for, the one whose records are persons' last
    """
    from qrelease.privacy.ledger import Ledger

    path = ledger_path(arguments)
    warn_of_another(arguments, path, *tables)
    total, person = _total(arguments, cost), tables[-1].person_column
    return Ledger.open(path, total, dataset=dataset_of(arguments), neighbours=neighbours, person=person)


def ledger_of(arguments: argparse.Namespace, cost: Cost, neighbours: Neighbours, *tables: Source) -> Ledger:
    """The ledger of this dataset, which is made where there is none: for when nothing is left to refuse."""
    known = known_ledger(arguments, cost, neighbours, tables[-1].person_column)
    return known or new_ledger(arguments, cost, neighbours, *tables)


def known_curator(
    arguments: argparse.Namespace, table: Source, cost: Cost, neighbours: Neighbours, closing: ExitStack
) -> Curator | None:
    """The table with its known ledger, told whether its records changed; None where there is no ledger yet.

    The number of records is public under one relation alone: so it is not used before this has agreed to that, and
    who reads of it has read that the records are others.
    """
    from qrelease.release.curator import Curator

    ledger = known_ledger(arguments, cost, neighbours, table.person_column)
    if ledger is None:
        return None
    closing.enter_context(ledger)
    return told_of_rows(Curator(table, ledger, entropy_of(arguments), place=place_of(arguments)))


def new_curator(
    arguments: argparse.Namespace, table: Source, cost: Cost, neighbours: Neighbours, closing: ExitStack
) -> Curator:
    """The table with a ledger of its own, see `new_ledger`."""
    from qrelease.release.curator import Curator

    ledger = closing.enter_context(new_ledger(arguments, cost, neighbours, table))
    return Curator(table, ledger, entropy_of(arguments), place=place_of(arguments))


def place_of(arguments: argparse.Namespace) -> str:
    """Where the records are, by public names: of several tables that share a ledger each has a place of its own.

    A file is named without its suffixes, as its dataset is, and seen from the ledger's folder, as both may be moved
    together; an address is named without what may be secret in it. The query and the parent, where there are any, are a
    part of it.
    """
    from qrelease.data.sources.files import dataset_name, is_pattern, is_server
    from qrelease.data.sources.stores import public_name

    if arguments.insecure_seed is not None and arguments.ledger is None:  # in memory, where nothing is resumed
        return ""
    data, ledger = arguments.data, ledger_path(arguments)
    if isinstance(data, Path):
        many = is_pattern(data)
        folder = data.parent.resolve() if many else data.resolve().parent
        if isinstance(ledger, Path):
            folder = Path(os.path.relpath(folder, ledger.resolve().parent))
        place = str(folder / (data.name if many else dataset_name(data)))
    else:
        place = dataset_of(arguments) if is_server(data) else public_name(data)
    parent = public_name(arguments.parent) if isinstance(arguments.parent, str) else arguments.parent
    return " ".join([place, *(repr(str(part)) for part in (arguments.query, parent) if part)])


def told_of_rows(curator: Curator) -> Curator:
    """The curator, after one line for the data holder where the records have changed."""
    notice = curator.notice
    if notice:
        print(f"qrelease: {notice}", file=sys.stderr, flush=True)
    return curator


def _total(arguments: argparse.Namespace, cost: Cost) -> Cost:
    """The total of a new ledger."""
    if arguments.total_epsilon is not None:
        delta = arguments.delta if arguments.total_delta is None else arguments.total_delta
        return cost_of(arguments.total_epsilon, delta)
    if arguments.total_delta is not None:
        raise InvalidInput("--total-delta needs --total-epsilon")
    return cost


def warn_of_another(arguments: argparse.Namespace, path: Path | LedgerUrl, *tables: Source) -> None:
    """Before a ledger is made where the data have one beside them: two budgets are two promises, which add up.

    A ledger is of these data if it says so: by the name of its dataset; by a charge for these very records under the
    same schema; or as one of persons, by a column that these data have. What it does not say cannot be known: other
    records, or another schema, under another name may be of the same people, and of that nothing is said.

    tables  the records, where they are at hand
    """
    if isinstance(arguments.data, str):  # on a server, which has no folder
        return
    reasons = {other: _concerns(other, arguments, tables) for other in _ledgers_beside(arguments, path)}
    others = [other for other, why in reasons.items() if why]
    if not others:
        return
    told = [f"{other} is {reasons[other]}" for other in others[:_MOST_REASONS]]
    if len(others) > len(told):
        told.append(f"there are {len(others) - len(told)} more such ledgers")
    second, both = ("a second", "both") if len(others) == 1 else ("another", "all of them")
    print(
        f"warning: {', '.join(told)}, and {path} is {second} budget: what people whose records are in the data of"
        f" {both} are promised is the sum of {both}",
        file=sys.stderr,
    )


def _ledgers_beside(arguments: argparse.Namespace, path: Path | LedgerUrl) -> list[Path]:
    """Those in the folders of the data, without the one that is charged."""
    own = path.resolve() if isinstance(path, Path) else None
    names, files = _names(arguments), _own_files(arguments)
    # In a folder that may be entered and not listed, those are found whose names are known.
    found = {p for f in files for p in (*f.parent.glob("*.ledger"), *(f.parent / f"{name}.ledger" for name in names))}
    return sorted(p for p in found if p != own and os.path.exists(p))


def _concerns(place: Path, arguments: argparse.Namespace, tables: Sequence[Source]) -> str:
    """Whose ledger that is, where it is one of these data, by what it says; empty where it says no such thing."""
    from qrelease.data.sources.files import open_reader
    from qrelease.privacy.ledger import Ledger

    try:
        with Ledger.open(place) as ledger:
            if ledger.dataset in _names(arguments):
                return f"a ledger of dataset {ledger.dataset!r}, as these data are called"
            if any(ledger.has_charged(table.fingerprint) for table in tables):
                return f"a ledger of dataset {ledger.dataset!r}, and was charged for these very records"
            person = ledger.person
    except QReleaseError:  # it cannot be read by whoever runs this, and has a name all the same
        return (
            "a ledger that cannot be read, and is called as these data are" if place.stem in _names(arguments) else ""
        )
    if person is None:
        return ""
    with suppress(QReleaseError):  # who opens it is told
        if person in open_reader(arguments.data, arguments.query, dialect_of(arguments)).header:
            return f"a ledger of persons by {person!r}, which these data have, too"
    return ""


def _names(arguments: argparse.Namespace) -> set[str]:
    """What the dataset may be called: as it is said to be, and after each file of it, by all names that a file has."""
    from qrelease.data.sources.files import SUFFIXES, dataset_name

    found, mine = {dataset_of(arguments)}, _own_files(arguments)
    for folder in {file.parent for file in mine}:
        with suppress(OSError):
            beside = [f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES and f.exists()]
            found |= {dataset_name(f) for f in beside if any(map(f.samefile, filter(Path.exists, mine)))}
    return found | set(map(dataset_name, mine))


def _own_files(arguments: argparse.Namespace) -> list[Path]:
    """The files that the tables are in, those of the parents too."""
    parent = getattr(arguments, "parent", None)
    parents = [parent] if isinstance(parent, Path) else []
    return [file.resolve() for file in (*_files_of(arguments.data), *parents)]


def ledger_path(arguments: argparse.Namespace) -> Path | LedgerUrl:
    """What was named; else beside the data, where whoever releases from them finds it; else nowhere without being told.

    A place of the user's own would give each user who may read the data the whole budget.
    """
    if arguments.ledger is not None:
        named: Path | LedgerUrl = arguments.ledger
        return named
    if isinstance(arguments.data, str):
        raise InvalidInput(
            "records on a server, or at a URL, have no folder for their ledger: say with --ledger where it is"
        )
    folder: Path = arguments.data.resolve().parent
    dataset = dataset_of(arguments)
    if not dataset or Path(dataset).name != dataset:
        raise InvalidInput(f"dataset {dataset!r} cannot be the name of a ledger: name one by --ledger")
    beside, earlier = folder / f"{dataset}.ledger", _earlier_ledger(folder, dataset)
    if earlier.exists() and beside.exists():
        raise LedgerError(f"two ledgers, {beside} and {earlier}, for one table: say which counts with --ledger")
    if earlier.exists():
        raise LedgerError(
            f"an earlier version charged these data to {earlier}, which other users do not find: go on with it by"
            f" --ledger {earlier}, or move it, with no release at work, to a place that all name"
        )
    doubt = None if beside.exists() else _other_place(arguments, folder)
    if doubt:
        raise LedgerError(
            f"{doubt}: these records may have a ledger elsewhere; say with --ledger which one counts, or --ledger"
            f" {beside} for a new one"
        )
    if not beside.exists() and not os.access(folder, os.W_OK):
        raise LedgerError(
            f"the ledger belongs beside the data, and {folder} cannot be written: say where it is with --ledger; all"
            " who release from these data must name the same one, or each of them spends the whole budget"
        )
    return beside


def _other_place(arguments: argparse.Namespace, folder: Path) -> str | None:
    """Why the records may have another folder than this, which other users find their ledger in; None if not."""
    if getattr(arguments, "counts", None) is not None:
        return f"the records that were counted for {arguments.counts} may be in another folder"
    for file in _files_of(arguments.data):
        if file.resolve().parent != folder:
            return f"{file} is not in the folder {folder}"
        if file.is_file() and file.stat().st_nlink > 1:
            return f"{file} has a second name (a hard link)"
        if is_mount_point(file):
            return f"{file} is mounted as a single file"
    return None


def _files_of(data: Path) -> list[Path]:
    """The files that a table is in: many, if it is a pattern."""
    from qrelease.data.sources.files import files_of

    return files_of(data) or [data]


def _earlier_ledger(folder: Path, dataset: str) -> Path:
    """Where versions up to 0.1 kept the ledger of data in a folder that could not be written."""
    from hashlib import sha256

    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "qrelease" / f"{dataset}-{sha256(str(folder).encode()).hexdigest()[:12]}.ledger"
