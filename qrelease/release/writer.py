"""Writes a release as a folder of files.

`synthetic.csv`  synthetic records, under the input's header and labels (where the universe fits); a weighted table has
                 a further column `weight`, the number of records that a row stands for
`answers.csv`    every query of the workload as a tidy table, see `answer_table`. More than `MAX_ANSWERS` are written
                 only if that is asked for: a loaded release gives every one of them
`numbers.csv`    the answers to questions about numbers, a line for each group (where any were asked)
`release.json`   the manifest: everything a third party needs to check the promise and to answer further queries
`report.html`    one page for people
`SHA256SUMS`     what these files are, see `sums`

These tables may be Parquet instead, typed; `numbers.parquet` has a column for each attribute. Where a list of numbers
is too long for the manifest it is in a file by whose SHA-256 the manifest knows it:

`measurements.npy`  the noisy answers of all measurements, one after another, float64. It is mapped into memory, and
                    read where a query needs it
`synopsis.npz`      the numbers that the synopsis is described by

The tables of an insecure release have a last column `INSECURE`: a mark that stays with the rows wherever they go, that
is seen whatever opens them, and that leaves names, headers and numbers to whoever reads the columns by name.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast, get_args

import numpy as np
import numpy.typing as npt

from qrelease._util.durable import sync_folder, sync_tree
from qrelease.data.domain import Domain
from qrelease.data.schema import to_toml
from qrelease.data.sources.csv import write_csv, write_rows
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.measurement import Measurement
from qrelease.inference.sampling import generator
from qrelease.release import checksums
from qrelease.release.answer_table import MAX_ANSWERS, answer_parts
from qrelease.release.frames import Column, as_arrow, columns_of
from qrelease.release.manifest import (
    ARRAYS,
    LISTED_ANSWERS,
    MANIFEST,
    NUMBERS,
    VALUES,
    set_apart,
    with_date,
)
from qrelease.release.number_rows import COLUMNS, NUMBERS_FILE, number_columns, number_rows
from qrelease.release.report.page import html
from qrelease.release.schema_cost import learned_columns

if TYPE_CHECKING:
    from qrelease.release.release import Release

INSECURE_MARK = "INSECURE"
"""The column that marks the tables of an insecure release, 1 in each row."""

WEIGHT = "weight"
"""The column of a weighted table that says how many records a row stands for."""

REPORT = "report.html"

SCHEMA = "schema.toml"
"""The completed schema of a release whose bins or categories were learned, for further releases."""
"""The page for people."""

Format = Literal["csv", "parquet"]
"""Of the two tables."""


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill that appears under its name only when complete; nothing is left behind on an exception.

    Raises `InvalidInput` before the block when it cannot be made, or when the name is taken by anything but an empty
    folder. Enter it before the budget is charged, so that a wrong path costs nothing. Until it is complete it is
    `.NAME.part`, whose lock keeps a second run out; what a kill or a power cut leaves of it, the next run removes.
    After the block it is on disk with all its files, and a power cut loses none: the ledger may call it finished.
    """
    target = Path(path)
    part = target.parent / f".{target.name}.part"
    with contextlib.ExitStack() as cleanup:
        try:
            new = _is_made(part)
            lock = _locked(part)
            if lock is not None:
                cleanup.callback(os.close, lock)
            elif not new:  # nothing tells whether who made it is at work
                raise BlockingIOError
            if not new:
                _empty(part)  # what a kill left behind
        except BlockingIOError:
            raise InvalidInput(
                f"{target} is being written by another run; if none is at work, one was killed: remove {part}"
            ) from None
        except OSError as error:
            raise InvalidInput(f"{target} cannot be written: {error.strerror}") from None
        cleanup.callback(shutil.rmtree, part, ignore_errors=True)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InvalidInput(f"{target} exists already; choose another folder, releases are not overwritten")
        try:
            yield part
            sync_tree(part)
            part.replace(target)
            sync_folder(target.parent)
        except OSError as error:
            raise InvalidInput(f"{target} cannot be written: {error.strerror or error}") from None
        cleanup.pop_all()  # the name may belong to another run by now
        if lock is not None:
            os.close(lock)


def _is_made(folder: Path) -> bool:
    """Make a folder; False where it is there already."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _locked(folder: Path) -> int | None:
    """A descriptor of a folder whose lock ends with this process; None where there are no locks.

    Raises `BlockingIOError` where another run has the lock, or had it: also of a folder that this one has just made.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:  # another run took it and was done
        raise BlockingIOError from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not folder.exists() or not os.path.samestat(folder.stat(), os.fstat(descriptor)):  # likewise, after `open`
            raise BlockingIOError
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # a file system without locks
        os.close(descriptor)
        return None
    return descriptor


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def check_weighted(domain: Domain) -> None:
    """Raise `InvalidInput` for a domain that has a column of the name that the weights take."""
    if WEIGHT in domain.names:
        raise InvalidInput(f"a weighted table has a column {WEIGHT!r} of its own: rename that column of the schema")


def check_format(format: str) -> None:
    """Raise `InvalidInput` unless tables can be written in this format here."""
    if format not in get_args(Format):
        raise InvalidInput(f"format must be one of {', '.join(get_args(Format))}, got {format!r}")
    if format == "parquet" and find_spec("pyarrow") is None:
        raise InvalidInput("Parquet needs the package pyarrow: pip install pyarrow")


def save(
    release: Release,
    folder: Path,
    rows: int | None = None,
    *,
    weighted: bool = False,
    answers: bool | None = None,
    format: Format = "csv",
) -> dict[str, str]:
    """Write the files of a release into an existing folder, with `rows` synthetic records (see `Release.synthetic`).

    weighted  whether the table is that of `Release.weighted`
    answers   whether the answers are written, by default where they are at most `MAX_ANSWERS`
    format    of both tables

    Returns which files there are not, and why: a table that is too large takes nothing else with it.
    """
    left_out = {}
    synthetic = folder / f"synthetic.{format}"
    why_none = _write_records(release, synthetic, rows, weighted)
    if why_none is not None:
        left_out[synthetic.name] = why_none
    why_no_answers = answers_left_out(release, answers)
    if why_no_answers is None:
        _write_answers(release, folder / f"answers.{format}")
    else:
        left_out[f"answers.{format}"] = why_no_answers
    if release.measured_sums is not None:
        _write_numbers(release, folder / f"{NUMBERS_FILE}.{format}")
    listed = sum(len(m.values) for m in release.measurements) <= LISTED_ANSWERS
    digest = None if listed else _write_values(release.measurements, folder / VALUES)
    content = with_date(release, digest)
    arrays: dict[str, npt.NDArray[Any]] = {}
    content["synopsis"] = set_apart(content["synopsis"], arrays)
    if arrays:
        np.savez_compressed(folder / ARRAYS, **cast(Any, arrays))
        content["arrays"] = checksums.file_digest(folder / ARRAYS)
    with _new(folder / MANIFEST) as out:
        print(json.dumps(content, allow_nan=False), file=out)
    (folder / REPORT).write_text(html(release), encoding="utf-8")
    if learned_columns(release):
        (folder / SCHEMA).write_text(schema_text(release), encoding="utf-8")
    checksums.write_hashes(folder)
    return left_out


def schema_text(release: Release) -> str:
    """The schema of a release, completed by what was learned, as `schema.load` reads it."""
    names = ", ".join(learned_columns(release))
    return to_toml(release.domain, f"The bins and categories of {names} were learned from records: see {MANIFEST}.")


def answers_left_out(release: Release, answers: bool | None = None) -> str | None:
    """Why the answers are not written, and how to get them; None where they are."""
    if len(release.workload) <= MAX_ANSWERS if answers is None else answers:
        return None
    why = f"it would have {len(release.workload):,} lines; --answers writes it" if answers is None else "not wanted"
    return f"{why}; the release gives each answer that is asked for"


def _new(file: Path) -> TextIO:
    return file.open("w", encoding="utf-8", newline="")


def _write_records(release: Release, file: Path, rows: int | None, weighted: bool) -> str | None:
    if not release.has_table:
        return str(release.parameters.get("no_table", f"{release.mechanism} has no table"))
    rng = generator(release.insecure_seed)
    further: dict[str, npt.NDArray[Any]] = {}
    try:
        if weighted:
            codes, weights = release.weighted_codes(rows, rng)
            digits = 10.0 ** (5 - np.floor(np.log10(weights)))  # six of them
            further[WEIGHT] = np.rint(weights * digits) / digits
        else:
            codes = release.codes(rows, rng)
    except TooLarge as reason:
        return str(reason)
    points = release.points(codes, rng)
    if release.insecure:
        further[INSECURE_MARK] = np.ones(len(codes[0]), np.uint8)
    if file.suffix == ".parquet":
        columns = columns_of(release.domain, codes, rng, points)
        _write_parquet(file, [{**columns, **{name: Column(values) for name, values in further.items()}}])
    else:
        with _new(file) as out:
            write_csv(out, release.domain, codes, rng, further, points)
    return None


def _write_answers(release: Release, file: Path) -> None:
    parts = _marked_parts(release)
    if file.suffix == ".parquet":
        _write_parquet(file, parts)
        return
    first = next(parts)
    with _new(file) as out:
        write_rows(out, list(first), (_lines(part) for part in chain([first], parts)))


def _write_numbers(release: Release, file: Path) -> None:
    if file.suffix == ".parquet":
        columns = number_columns(release)
        _write_parquet(file, [{**columns, **_mark(release, len(columns["value"].values))}])
        return
    mark = (INSECURE_MARK,) if release.insecure else ()
    rows = ((*row, "1") if mark else row for row in number_rows(release))
    with _new(file) as out:
        write_rows(out, [*COLUMNS, *mark], [rows])


def header(file: Path) -> list[str]:
    """The names of the columns of a table that was written, CSV or Parquet."""
    if file.suffix == ".parquet":
        from pyarrow import parquet

        return [str(name) for name in parquet.read_schema(file).names]
    with file.open(encoding="utf-8", newline="") as lines:
        return next(csv.reader(lines), [])


def answer_rows(release: Release) -> Iterator[Sequence[object]]:
    """The header and the lines of `answers.csv`, as texts."""
    parts = _marked_parts(release)
    first = next(parts)
    yield list(first)
    for part in chain([first], parts):
        yield from _lines(part)


def _marked_parts(release: Release) -> Iterator[Mapping[str, Column]]:
    """The answers some lines at a time, with the mark of insecure ones."""
    for part in answer_parts(release, release.workload):
        yield {**part, **_mark(release, len(part["answer"].values))}


def _mark(release: Release, lines: int) -> dict[str, Column]:
    """The column that marks an insecure table."""
    return {INSECURE_MARK: Column(np.ones(lines, np.uint8))} if release.insecure else {}


def _lines(part: Mapping[str, Column]) -> Iterator[tuple[object, ...]]:
    """The lines of a table as texts; answers have six digits, error bars four."""
    return zip(*(_texts(name, column) for name, column in part.items()), strict=True)


def _texts(name: str, column: Column) -> list[object]:
    values: list[object] = column.values.tolist()
    if column.values.dtype.kind != "f":
        return values
    shown = "%.4g" if name.endswith("_95") else "%.6g"
    return ["" if value != value else shown % (value,) for value in values]


def _write_parquet(file: Path, parts: Iterable[Mapping[str, Column]]) -> None:
    from pyarrow import parquet

    tables = (as_arrow(part) for part in parts)
    first = next(tables)
    with parquet.ParquetWriter(file, first.schema) as out:
        for table in chain([first], tables):
            out.write_table(table)


def _write_values(measurements: Iterable[Measurement], file: Path) -> str:
    """Write an array as `numpy.save` would, without a copy of it; the file's SHA-256."""
    count = sum(len(m.values) for m in measurements)
    with file.open("wb") as out:
        header = {"descr": NUMBERS.str, "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(out, header)
        for m in measurements:
            out.write(m.values.astype(NUMBERS, copy=False).tobytes())
    return checksums.file_digest(file)
