"""The file of `qrelease serve FILE`: the options of the command, in TOML, once for the server and for each dataset."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from qrelease._util.texts import meant
from qrelease.data.sources.files import SQLITE_SUFFIXES, files_of, is_database, is_remote
from qrelease.data.sources.row_queries import tables_read
from qrelease.data.sources.sqlite_queries import tables_named
from qrelease.data.sources.stores import places_at, public_name
from qrelease.errors import InvalidInput
from qrelease.privacy.ledger_url import LedgerUrl

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

AddOptions = Callable[[argparse.ArgumentParser], None]


def read_serve_file(
    path: Path, server: AddOptions, dataset: AddOptions
) -> tuple[argparse.Namespace, dict[str, argparse.Namespace]]:
    """What a file says of the server, and of each dataset, as the command line would have parsed it.

    Parameters
    ----------
    path
        A TOML file with a table `[server]`, which may be left out, and tables `[datasets.NAME]`. Names in it are those
        of options; other files are named relative to its folder.
    server, dataset
        Declare the options of the one and of the other.

    Raises
    ------
    InvalidInput
        With the file and the table, for what cannot be read or is not known.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # of TOML, of lists in lists without end, and of UTF-8
        raise InvalidInput(f"{path}: {error}") from None
    datasets = found.get("datasets")
    if unknown := sorted(found.keys() - {"server", "datasets"}):
        raise InvalidInput(f"{path} may have [server] and [datasets.NAME] only, got {unknown[0]!r}")
    if not isinstance(datasets, dict) or not datasets:
        raise InvalidInput(f"{path} has no [datasets.NAME]")
    parsed = {}
    for name, table in datasets.items():
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                f"{path}: [datasets.{name}] becomes part of addresses: its name may have letters, digits and -_. only"
            )
        parsed[name] = _parsed(table, dataset, f"{path}: [datasets.{name}]")
        for option in ("data", "schema", "parent", "ledger"):
            if isinstance(place := getattr(parsed[name], option), Path):
                setattr(parsed[name], option, path.parent / place)
    _check_apart(path, parsed)
    return _parsed(found.get("server", {}), server, f"{path}: [server]"), parsed


def _parsed(table: object, options: AddOptions, where: str) -> argparse.Namespace:
    """A table as options that were given."""
    if not isinstance(table, dict):
        raise InvalidInput(f"{where} must be a table")
    parser = _TableParser(where)
    options(parser)
    return parser.parse_args([_given(where, name, value) for name, value in table.items()])


def _given(where: str, name: str, value: object) -> str:
    if value is True:
        return f"--{name}"
    if isinstance(value, list) and all(isinstance(item, str) and "," not in item for item in value):
        return f"--{name}={','.join(value)}"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInput(f"{where}: {name} takes a text, a number, true, or a list of texts")
    return f"--{name}={value}"


class _TableParser(argparse.ArgumentParser):
    """Argparse, but what is wrong is raised, and no name is short for another."""

    def __init__(self, where: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._where = where

    def error(self, message: str) -> NoReturn:
        _, unknown, given = message.partition("unrecognized arguments: --")
        near = meant(re.split("[= ]", given)[0], self._names()) if unknown else ""
        raise InvalidInput(f"{self._where}: {message.replace('--', '')}{near}")

    def _names(self) -> list[str]:
        return [option.removeprefix("--") for option in self._option_string_actions]


def _check_apart(path: Path, datasets: Mapping[str, argparse.Namespace]) -> None:
    """`InvalidInput` for a table or a ledger that two datasets have: its people would be charged twice, or once.

    A file is a table of its own, be it one of many of a pattern, with a query or without, or the parents of another
    one; so is each table that a query of a database reads, be it a partition of another one. Two datasets may share
    their parents.
    """
    for option in ("ledger", "data"):
        seen: dict[object, str] = {}
        for name, given in datasets.items():
            places = {_place(given.ledger)} if option == "ledger" else _tables(given)
            for place in places:
                other = seen.setdefault(place, name)
                if other != name:
                    raise InvalidInput(f"{path}: datasets {other} and {name} have the same {option}")
    for name, given in datasets.items():
        parent = None if given.parent is None else _place(given.parent)
        child = next((c for c, other in datasets.items() if c != name and parent in _tables(other)), None)
        if parent is not None and child is not None:
            raise InvalidInput(f"{path}: the parents of dataset {name} are the data of {child}, under another ledger")


def _tables(given: argparse.Namespace) -> set[object]:
    """The places of the records of a dataset: a file, all files of a pattern, or all tables of a database it reads."""
    if is_remote(given.data):
        return {*places_at(given.data)}
    if isinstance(given.data, str):
        return set(_on_server(given.data, _TABLES, given.query)) or {(given.data, given.query)}
    files = [_place(file) for file in files_of(given.data) or [given.data]]
    if given.query is None or not is_database(given.data):
        return set(files)
    of_sqlite = given.data.suffix.lower() in SQLITE_SUFFIXES
    tables = (tables_named if of_sqlite else tables_read)(given.query) or [given.query]
    return {(file, table) for file in files for table in tables}


def _place(named: Path | str | LedgerUrl) -> object:
    """What tells places apart: of a file, itself, however it is named; of an address, what the server says of it."""
    if isinstance(named, LedgerUrl):
        return next(_on_server(named.conninfo, _DATABASE), str(named)), named.schema
    if isinstance(named, str):
        return public_name(named)
    try:
        found = named.stat()
    except OSError:
        return named.resolve()
    return found.st_dev, found.st_ino


def _on_server(address: str, question: str, *values: str | None) -> Iterator[object]:
    """What a server answers: by any spelling of its address the same, and the same as its stand-ins.

    Nothing where it cannot be asked: who opens it then says why.
    """
    if find_spec("psycopg") is None:
        return
    import psycopg

    with suppress(psycopg.Error), psycopg.connect(address, connect_timeout=10, autocommit=True) as connection:
        yield from connection.execute(question, values).fetchall()


_DATABASE: Final = """
select (select system_identifier from pg_catalog.pg_control_system()), oid
from pg_catalog.pg_database where datname = pg_catalog.current_database()
"""

_TABLES: Final = """
with recursive read (id) as (
    select pg_catalog.to_regclass(%s)::oid
    union select i.inhrelid from pg_catalog.pg_inherits i join read on i.inhparent = read.id
)
select (select system_identifier from pg_catalog.pg_control_system()), d.oid, read.id
from read, pg_catalog.pg_database d where d.datname = pg_catalog.current_database() and read.id is not null
"""
"""The numbers of a table and of all that stand under it, whose rows are its own too."""
