"""`qrelease run`: several releases from one table under one budget, each made once."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qrelease.errors import InvalidInput
from qrelease.privacy.costs import cost_of
from qrelease.privacy.ledger_url import is_address

_TABLE = ("data", "schema", "parent", "query", "separator", "quote", "decimal", "encoding", "escape", "header")
_COMMON = (*_TABLE, "ledger", "dataset", "neighbours", "columns", "total", "release")
_PATHS = ("data", "schema", "parent", "ledger", "out", "sign")
_OWN = ("out", "epsilon", "delta", "rho", "mechanism", "workload", "columns", "rounds", "size", "alpha", "records")
_MORE = (
    "weighted_records",
    "order",
    "rows",
    "weighted",
    "answers",
    "out_format",
    "weak",
    "sign",
    "parent",
    "both",
    "schema",
)
_NUMBERS = ("numbers", "clip", "numbers_share")
_REPEATED = ("workload", "numbers", "clip")  # one text, or a list of them


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_run, uncharged="nothing was charged for what is not made")
    parser.add_argument(
        "jobs",
        type=Path,
        help="a TOML file with data, schema, a table [total] with epsilon and delta of a new ledger, and a table"
        f" [[release]] for each release: {', '.join(_OWN + _MORE + _NUMBERS)}, as of `qrelease release`. For all of"
        " them: parent, query, separator, quote, decimal, encoding, escape, header, ledger, dataset, neighbours and"
        " columns. Paths are relative to this file. A release whose folder is there is not made again",
    )


def _run(arguments: argparse.Namespace) -> None:
    from qrelease.apps.cli.release import make
    from qrelease.release.manifest import MANIFEST

    jobs = _read(arguments.jobs)
    missing = [job for job in jobs if not (job.out / MANIFEST).exists()]
    for job in jobs:
        if job not in missing:
            print(f"{job.out} is there already")
    _check_total(missing)
    for job in missing:
        try:
            make(job)
        finally:
            if hasattr(job, "charged"):
                arguments.charged = job.charged


def _check_total(jobs: list[argparse.Namespace]) -> None:
    """Raise `BudgetExceeded` where a new ledger would not hold all of them: before the first is charged.

    `InvalidInput` where no total is given for it; a ledger that is there has one.
    """
    from qrelease.apps.cli.ledgers import ledger_path
    from qrelease.apps.cli.shared import cost_given
    from qrelease.privacy import Filter
    from qrelease.privacy.ledger import Ledger

    if not jobs or Ledger.exists(ledger_path(jobs[0])):
        return
    if jobs[0].total_epsilon is None:
        raise InvalidInput(f"total is missing: {ledger_path(jobs[0])}, a new ledger, takes its epsilon and delta")
    whole = Filter(cost_of(jobs[0].total_epsilon, jobs[0].total_delta))
    for job in jobs:
        whole.spend(cost_given(job))


def _read(file: Path) -> list[argparse.Namespace]:
    """The releases of a job file, each as the arguments of `qrelease release`; all are understood or none is made."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise InvalidInput(f"{file}: {error}") from None
    content = _checked(f"{file}", content, _COMMON)
    for needed in ("data", "release"):
        if needed not in content:
            raise InvalidInput(f"{file}: {needed} is missing")
    releases, total = content.pop("release"), content.pop("total", None)
    total = total if total is None else _checked(f"{file}: total", total, ("epsilon", "delta"))
    if total is not None and "epsilon" not in total:
        raise InvalidInput(f"{file}: total: epsilon is missing")
    if not isinstance(releases, list) or not releases:
        raise InvalidInput(f"{file}: release must be one [[release]] or more")
    totals = {} if total is None else {f"total_{name}": v for name, v in ({"delta": 0} | total).items()}
    jobs = []
    for number, release in enumerate(releases, 1):
        where = f"{file}: release {number}"
        release = _checked(where, release, _OWN + _MORE + _NUMBERS)
        if "out" not in release:
            raise InvalidInput(f"{where}: out is missing")
        if "schema" not in content | release:
            raise InvalidInput(f"{where}: schema is missing, here and for all of {file}")
        jobs.append(_parsed(where, file.parent, content | totals | release))
    if len({job.out for job in jobs}) < len(jobs):
        raise InvalidInput(f"{file}: two releases have the same out")
    return jobs


def _checked(where: str, given: object, known: tuple[str, ...]) -> dict[str, Any]:
    """A table of known names; `out-format`, as the option is spelled, is `out_format`."""
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} must be a table, got {given!r}")
    found: dict[str, Any] = {}
    for spelled, value in given.items():
        name = spelled.replace("-", "_")
        if name not in known:
            raise InvalidInput(f"{where}: unknown {spelled!r}; known are {', '.join(known)}")
        if name in found:
            raise InvalidInput(f"{where}: {name} is given twice")
        found[name] = value
    return found


def _parsed(where: str, folder: Path, given: Mapping[str, Any]) -> argparse.Namespace:
    """The arguments of a release as the command line would read them; an error says which release is wrong."""
    from qrelease.apps.cli.release import parsed
    from qrelease.data.sources.stores import is_url

    words: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        texts = value if name in _REPEATED and isinstance(value, list) else [value]
        if name in _PATHS + _REPEATED and not all(isinstance(text, str) for text in texts):
            takes = "a text, or a list of texts" if name in _REPEATED else "a text"
            raise InvalidInput(f"{where}: {name} takes {takes}, got {value!r}")
        if isinstance(value, bool):
            words += [option if value else f"--no-{option[2:]}"] if value or name == "answers" else []
        elif name in _REPEATED:
            words += [f"{option}={text}" for text in texts]
        else:
            text = (
                ",".join(map(str, value))
                if isinstance(value, list)
                else str(folder / value if name in _PATHS and not (is_address(value) or is_url(value)) else value)
            )
            words += [text] if name == "data" else [f"{option}={text}"]
    try:
        return parsed(words)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None
