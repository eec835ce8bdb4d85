"""A release as a folder of four files, or five, and back.

`synthetic.csv`  synthetic records, under the input's header and labels (where the universe fits); a weighted table has
                 a further column `weight`, the number of records that a row stands for
`answers.csv`    every query of the workload: the answer; the unbiased noisy answer and its error bar, where it was
                 measured; and the error bar of the answer itself, where a model says it. More than `MOST_ANSWERS` are
                 written only if that is asked for: a loaded release gives every one of them
`release.json`   the manifest: everything a third party needs to check the promise and to answer further queries
`report.html`    one page for people

`measurements.npy`  the noisy answers, where they are too many for the manifest: those of all measurements that it
                    lists, one after another, float64, by whose SHA-256 it knows the file. It is mapped into memory, and
                    read where a query needs it

The tables of an insecure release have a last column `INSECURE`: a mark that stays with the rows wherever they go, that
is seen whatever opens them, and that leaves names, headers and numbers to whoever reads the columns by name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from qrelease import schema
from qrelease.domain import Domain
from qrelease.encoding import write_csv
from qrelease.errors import InvalidInput, TooLarge
from qrelease.histogram import Histogram
from qrelease.hypotheses import Dual, Medians
from qrelease.measure import Measurement, Noise, Spend
from qrelease.mechanisms.direct import Answers
from qrelease.mechanisms.matrix import LeastSquares
from qrelease.mechanisms.maxent import Linear, Modelled
from qrelease.nets import Listed
from qrelease.privacy import Filter, Neighbours, cost_from_json
from qrelease.records import WeightedCodes
from qrelease.release import Release, Synopsis, generator
from qrelease.report import html
from qrelease.synopses import Scaled, WeightedRecords
from qrelease.workload import Workload

Floats = npt.NDArray[np.float64]

FORMAT = 1

MANIFEST = "release.json"

_MARK = "INSECURE"
"""The column that marks the tables of an insecure release, 1 in each row."""

WEIGHT = "weight"
"""The column of a weighted table that says how many records a row stands for."""

VALUES = "measurements.npy"

_VALUES = np.dtype("<f8")

MOST_ANSWERS = 1 << 24
"""Answers that are written by default: a gigabyte, in the better part of a minute."""

_LISTED = 1 << 20  # noisy answers that a manifest lists

_PART = 1 << 22  # answers that are put together at a time
_LINES = 1 << 16  # and written

_INSECURE = "INSECURE: the noise did not come from the system's entropy and protects nobody"


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill that appears under its name only when complete; nothing is left behind on an exception.

    Raises `InvalidInput` before the block when it cannot be made, or when the name is taken by anything but an empty
    folder. Enter it before the budget is charged, so that a wrong path costs nothing. Until it is complete it is
    `.NAME.part`, which keeps a second run out, and which only a kill or a power cut leaves behind.
    """
    target = Path(path)
    part = target.parent / f".{target.name}.part"
    with contextlib.ExitStack() as cleanup:
        try:
            part.mkdir()
        except FileExistsError:
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
            part.replace(target)
        except OSError as error:
            raise InvalidInput(f"{target} cannot be written: {error.strerror or error}") from None
        cleanup.pop_all()  # the name may belong to another run by now


def check_weighted(domain: Domain) -> None:
    """`InvalidInput` for a domain that has a column of the name that the weights take."""
    if WEIGHT in domain.names:
        raise InvalidInput(f"a weighted table has a column {WEIGHT!r} of its own: rename that of the schema")


def save(
    release: Release, folder: Path, rows: int | None = None, *, weighted: bool = False, answers: bool | None = None
) -> dict[str, str]:
    """Write the files of a release into an existing folder, with `rows` synthetic records (see `Release.synthetic`).

    weighted  whether the table is that of `Release.weighted`
    answers   whether the answers are written, by default where they are at most `MOST_ANSWERS`

    Returns which files there are not, and why: a table that is too large takes nothing else with it.
    """
    left_out = {}
    why_none = _write_records(release, folder / "synthetic.csv", rows, weighted)
    if why_none is not None:
        left_out["synthetic.csv"] = why_none
    asked = len(release.workload)
    if asked <= MOST_ANSWERS if answers is None else answers:
        _write_answers(release, folder / "answers.csv")
    else:
        left_out["answers.csv"] = f"it would have {asked:,} lines; the release gives each answer that is asked for"
    listed = sum(len(m.values) for m in release.measurements) <= _LISTED
    digest = None if listed else _write_values(release.measurements, folder / VALUES)
    with _new(folder / MANIFEST) as out:
        # A parameter that is no plain value, such as a net, describes itself.
        print(json.dumps(_manifest(release, digest), allow_nan=False, default=_plain), file=out)
    (folder / "report.html").write_text(html(release), encoding="utf-8")
    return left_out


def load(path: str | os.PathLike[str]) -> Release:
    """A saved release, from its folder or its `release.json`. It answers further queries at no cost.

    Where there are very many noisy answers they stay in their file, which has to stay where it is.

    Raises `InvalidInput` for a file that is none, or whose parts cost more than it claims in all.
    """
    file = Path(path)
    file = file / MANIFEST if file.is_dir() else file
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise InvalidInput(f"{file} has format {content.get('format')!r}; this version reads {FORMAT}")
        return _release(content, _values(content.get("values"), file.parent / VALUES))
    except OSError as error:
        raise InvalidInput(f"{error.filename or file} cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, EOFError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{file} is not the manifest of a release: {type(error).__name__}: {error}") from None


def _new(file: Path) -> TextIO:
    return file.open("w", encoding="utf-8", newline="")


def _write_records(release: Release, file: Path, rows: int | None, weighted: bool) -> str | None:
    if not release.has_table:
        why = release.parameters.get("table")  # `maxent` says why it fitted none
        return f"{release.mechanism} has no table" if why is None else str(why).removeprefix("none: ")
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
    if release.insecure:
        further[_MARK] = np.ones(len(codes[0]), np.uint8)
    with _new(file) as out:
        write_csv(out, release.domain, codes, rng, further)
    return None


def _write_answers(release: Release, file: Path) -> None:
    """By one format a row, some rows at a time: a million take about two seconds."""
    header, mark = (f",{_MARK}", ",1") if release.insecure else ("", "")
    formats = [
        "%s,%.6g" + "".join(",%.0s" if n else f",%.{d}g" for n, d in zip(none, (6, 4, 4), strict=True)) + f"{mark}\n"
        for none in product([False, True], repeat=3)
    ]  # %.0s is nothing, for NaN
    texts = release.workload.texts()
    with _new(file) as out:
        out.write(f"query,answer,noisy,error_95,model_95{header}\n")
        for part in release.workload.parts(_PART):
            noisy, error = release.error_bars(part)
            noisy = np.where(np.isnan(error), np.nan, noisy)
            numbers = [release.synopsis.answer(part), noisy, error, release.model_bars(part)]
            for first in range(0, len(error), _LINES):
                some = [n[first : first + _LINES] for n in numbers]
                which = np.isnan(some[1:]).T @ (4, 2, 1)
                rows = zip(map(_field, islice(texts, len(which))), *(n.tolist() for n in some), strict=True)
                out.writelines([formats[f] % row for f, row in zip(which.tolist(), rows, strict=True)])


def _values(digest: str | None, file: Path) -> Floats | None:
    """The noisy answers, where the manifest names a file of them: mapped, lest a query for some reads a gigabyte."""
    if digest is None:
        return None
    with file.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != digest:
            raise InvalidInput(f"{file} does not hold the noisy answers of this release")
    found: Floats = np.load(file, "r", allow_pickle=False)
    return found


def _write_values(measurements: Iterable[Measurement], file: Path) -> str:
    """As `numpy.save` would, without a copy of them all; the file's SHA-256."""
    count = sum(len(m.values) for m in measurements)
    with file.open("wb") as out:
        header = {"descr": _VALUES.str, "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(out, header)
        for m in measurements:
            out.write(m.values.astype(_VALUES, copy=False).tobytes())
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _field(text: str) -> str:
    """A text in a row of CSV, in quotes where it needs them (RFC 4180)."""
    if "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


def _plain(value: object) -> object:
    """A parameter of a mechanism that JSON does not know: a rule, a distinguisher, a net, a user's own object."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {"type": type(value).__name__, **{f.name: getattr(value, f.name) for f in fields(value)}}
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if type(value).__repr__ is object.__repr__:  # an address; and what such an object holds may be private by now
        return f"{type(value).__module__}.{type(value).__qualname__}"
    return repr(value)


def _manifest(release: Release, digest: str | None) -> dict[str, Any]:
    """`digest`: of the file that the noisy answers are in, where the manifest does not list them."""
    names = release.domain.names
    return {
        "format": FORMAT,
        "dataset": release.dataset,
        "insecure": _INSECURE if release.insecure else None,
        "insecure_seed": release.insecure_seed,
        "cost": release.cost.to_json(),
        "neighbours": release.neighbours.value,
        "mechanism": release.mechanism,
        "parameters": dict(release.parameters),
        "spends": [s.to_json() for s in release.spends],
        "versions": dict(release.versions),
        "domain": schema.domain_to_json(release.domain),
        "workload": release.workload.to_json(),
        "measurements": [
            {
                "columns": [names[a] for a in m.group.axes],
                **m.group.queries.to_json(),
                "law": m.noise.law,
                "scale": m.noise.scale,
                "unit": m.noise.unit,
                "repeats": m.repeats,
                **({"values": m.values.tolist()} if digest is None else {}),
            }
            for m in release.measurements
        ],
        **({} if digest is None else {"values": digest}),
        "synopsis": release.synopsis.to_json(),
    }


def _release(content: Mapping[str, Any], values: Floats | None) -> Release:
    """`values`: of all measurements, where the manifest does not list them."""
    domain = schema.domain_from_json(content["domain"])
    workload = Workload.from_json(domain, content["workload"])
    cost = cost_from_json(content["cost"])
    measurements = _measurements(domain, content["measurements"], values)
    spends = tuple(
        Spend(s["what"], cost_from_json({k: v for k, v in s.items() if k != "what"})) for s in content["spends"]
    )
    claimed = Filter(cost)
    for spend in spends:
        claimed.spend(spend.cost)
    return Release(
        _synopsis(domain, workload, content["synopsis"], measurements),
        workload,
        cost,
        Neighbours.parse(content["neighbours"]),
        content["dataset"],
        content["mechanism"],
        content["parameters"],
        measurements,
        spends,
        content["insecure"] is not None,
        content["insecure_seed"],
        content["versions"],
    )


def _measurements(
    domain: Domain, content: Sequence[Mapping[str, Any]], values: Floats | None
) -> tuple[Measurement, ...]:
    groups = [Workload.from_json(domain, [m]).groups[0] for m in content]
    laws = {key: Noise(*key) for key in {(m["law"], float(m["scale"]), float(m["unit"])) for m in content}}
    if values is None:
        parts = [np.array(m["values"], np.float64) for m in content]
    else:
        bounds = np.cumsum([0, *(g.queries.count for g in groups)])
        if values.dtype != _VALUES or values.shape != (bounds[-1],):
            raise InvalidInput(f"{VALUES} does not hold the {bounds[-1]:,} noisy answers of this release")
        parts = np.split(values.view(np.ndarray), bounds[1:-1])
    return tuple(
        Measurement(group, part, laws[m["law"], float(m["scale"]), float(m["unit"])], int(m["repeats"]))
        for m, group, part in zip(content, groups, parts, strict=True)
    )


def _synopsis(
    domain: Domain, workload: Workload, content: Mapping[str, Any], measurements: tuple[Measurement, ...]
) -> Synopsis:
    match content["type"]:
        case "histogram":
            return Histogram.from_json(domain, content)
        case "answers":
            return Answers.from_json(workload, content, measurements)
        case "maximum entropy":
            return Modelled.from_json(workload, content, measurements)
        case "residuals":
            return Linear.from_json(domain, content, measurements)
        case "least squares":
            return LeastSquares.from_json(domain, content, measurements)
        case "weighted codes":
            return WeightedCodes.from_json(domain, content, measurements)
        case "weighted records":
            return WeightedRecords.from_json(domain, content)
        case "scaled":
            return Scaled(_synopsis(domain, workload, content["synopsis"], measurements), float(content["total"]))
        case "dual":
            return Dual.from_json(domain, content)
        case "medians":
            candidates = [_synopsis(domain, workload, c, measurements) for c in content["candidates"]]
            return Medians(Listed(tuple(candidates)), float(content["total"]))
    raise InvalidInput(f"this version knows no synopsis of type {content['type']!r}")
