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
from itertools import islice, product
from pathlib import Path
from typing import Any, TextIO, get_args

import numpy as np
import numpy.typing as npt

from qrelease import schema
from qrelease.contracts import Synopsis
from qrelease.domain import Domain
from qrelease.encoding import write_csv
from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.histogram import Histogram
from qrelease.hypotheses import Dual, Medians
from qrelease.measure import Law, Measurement, Noise, Spend
from qrelease.mechanisms.direct import Answers
from qrelease.mechanisms.matrix import LeastSquares
from qrelease.mechanisms.maxent import Linear, Modelled
from qrelease.nets import Listed
from qrelease.noise import MAX_SCALE
from qrelease.privacy import Filter, Neighbours, cost_from_json
from qrelease.privacy.costs import count, positive, real
from qrelease.records import WeightedCodes
from qrelease.release import Release
from qrelease.report import html
from qrelease.sampling import generator
from qrelease.synopses import Scaled, WeightedRecords
from qrelease.workload import Workload

Floats = npt.NDArray[np.float64]

FORMAT = 2

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
                f"{target} is being written by another run; if none is at work, one was killed: remove {part};"
                " what it was charged stays spent"
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
        why = f"it would have {asked:,} lines" if answers is None else "it was not wanted"
        left_out["answers.csv"] = f"{why}; the release gives each answer that is asked for"
    listed = sum(len(m.values) for m in release.measurements) <= _LISTED
    digest = None if listed else _write_values(release.measurements, folder / VALUES)
    with _new(folder / MANIFEST) as out:
        print(json.dumps(_manifest(release, digest), allow_nan=False), file=out)
    (folder / "report.html").write_text(html(release), encoding="utf-8")
    return left_out


def load(path: str | os.PathLike[str]) -> Release:
    """A saved release, from its folder or its `release.json`. It answers further queries at no cost.

    Where there are very many noisy answers they stay in their file, which has to stay where it is.

    Raises `InvalidInput`, which names the field, for a file that is none; `BudgetExceeded` where its parts cost more
    than it claims in all; `TooLarge` for what does not fit in memory.
    """
    file = Path(path)
    file = file / MANIFEST if file.is_dir() else file
    try:
        with _reading(str(file)):
            content = json.loads(file.read_text(encoding="utf-8"))
            found = _kind("a manifest", content, dict).get("format")
            if found != FORMAT:
                raise InvalidInput(f"it has format {found!r}, and this version reads {FORMAT}")
            with _reading("values"):
                values = _values(content.get("values"), file.parent / VALUES)
            return _release(content, None if values is None else values.view(np.ndarray))
    except OSError as error:
        raise InvalidInput(f"{error.filename or file} cannot be read: {error.strerror}") from None


@contextlib.contextmanager
def _reading(field: str) -> Iterator[None]:
    """Whatever is wrong with what is read, as one line that names the field."""
    try:
        yield
    except QReleaseError as error:
        raise type(error)(f"{field}: {error}") from None
    except KeyError as error:
        raise InvalidInput(f"{field}: {error} is missing") from None
    except (TypeError, AttributeError, ValueError, IndexError, ArithmeticError, EOFError, RecursionError) as error:
        raise InvalidInput(f"{field}: {type(error).__name__}: {error}") from None


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
        return reason.public
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


def _values(digest: object, file: Path) -> Floats | None:
    """The noisy answers, where the manifest names a file of them: mapped, lest a query for some reads a gigabyte."""
    if digest is None:
        return None
    with file.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != digest:
            raise InvalidInput(f"{file} does not hold the noisy answers of this release")
    found: Floats = np.load(file, "r", allow_pickle=False)
    if not np.isfinite(found.sum()):  # without a copy
        raise InvalidInput(f"{file} must hold finite numbers")
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
                "noise": {"law": m.noise.law, "scale": m.noise.scale, "unit": m.noise.unit},
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
    with _reading("domain"):
        domain = schema.domain_from_json(content["domain"])
    with _reading("workload"):
        workload = _workload(domain, content["workload"])
    with _reading("cost"):
        cost = cost_from_json(content["cost"])
    with _reading("measurements"):
        measurements = _measurements(domain, content["measurements"], values)
    with _reading("spends"):
        spends = tuple(_spend(entry) for entry in _kind("they", content["spends"], list))
        claimed = Filter(cost)
        for spend in spends:
            claimed.spend(spend.cost)
    with _reading("synopsis"), np.errstate(all="ignore"):  # what is out of range is found out by what comes of it
        synopsis = _synopsis(domain, workload, content["synopsis"], measurements)
    mark, seed = _kind("insecure", content["insecure"], str, None), content["insecure_seed"]
    if isinstance(seed, bool) or (_kind("insecure_seed", seed, int, None) is not None and mark is None):
        raise InvalidInput(f"insecure_seed: a seed goes with the mark `insecure`, got {seed!r}")
    return Release(
        synopsis,
        workload,
        cost,
        Neighbours.parse(content["neighbours"]),
        _kind("dataset", content["dataset"], str),
        _kind("mechanism", content["mechanism"], str),
        _kind("parameters", content["parameters"], dict),
        measurements,
        spends,
        mark is not None,
        seed,
        {name: _kind(f"versions: {name}", v, str) for name, v in _kind("versions", content["versions"], dict).items()},
    )


def _kind(field: str, value: Any, *kinds: type | None) -> Any:
    """A value of one of some kinds; `InvalidInput` for another."""
    if type(value) not in [type(kind) if kind is None else kind for kind in kinds]:
        wanted = " or ".join("null" if kind is None else kind.__name__ for kind in kinds)
        raise InvalidInput(f"{field}: must be {wanted}, got {type(value).__name__}")
    return value


def _spend(entry: Mapping[str, Any]) -> Spend:
    return Spend(_kind("what", entry["what"], str), cost_from_json({k: v for k, v in entry.items() if k != "what"}))


def _workload(domain: Domain, content: Sequence[Mapping[str, Any]]) -> Workload:
    """Entries that describe their queries as these describe themselves: nothing is rounded, sorted or passed over."""
    found = Workload.from_json(domain, _kind("they", content, list))
    for i, (group, entry) in enumerate(zip(found.groups, content, strict=True)):
        said = {"columns": [domain.names[a] for a in group.axes], **group.queries.to_json()}
        for field, value in said.items():
            if entry[field] != value:
                raise InvalidInput(f"entry {i}: {field}: these are not queries as a release describes them")
    return found


def _measurements(
    domain: Domain, content: Sequence[Mapping[str, Any]], values: Floats | None
) -> tuple[Measurement, ...]:
    if values is not None and (values.dtype != _VALUES or values.ndim != 1):
        raise InvalidInput(f"{VALUES} does not hold noisy answers")
    found: list[Measurement] = []
    noise: Noise | None = None
    said, at = None, 0
    for i, entry in enumerate(_kind("they", content, list)):
        with _reading(f"entry {i}"):
            (group,) = _workload(domain, [entry]).groups
            size = group.queries.count
            part = _floats("values", entry["values"], size) if values is None else values[at : at + size]
            if noise is None or entry["noise"] != said:  # mostly it is that of the one before
                said = entry["noise"]
                noise = _noise(said)
            found.append(Measurement(group, part, noise, count("repeats", entry["repeats"])))
            at += size
    if values is not None and at != len(values):
        raise InvalidInput(f"{VALUES} does not hold the {at:,} noisy answers of this release")
    return tuple(found)


def _noise(entry: Mapping[str, Any]) -> Noise:
    if entry["law"] not in get_args(Law):
        raise InvalidInput(f"law: must be one of {', '.join(get_args(Law))}, got {entry['law']!r}")
    noise = Noise(entry["law"], positive("scale", entry["scale"]), positive("unit", entry["unit"]))
    if noise.scale > MAX_SCALE or noise.unit > 1:
        raise InvalidInput(f"noise: no noise has a scale of {noise.scale:g} on a grid of {noise.unit:g}")
    return noise


def _floats(field: str, content: object, length: int) -> Floats:
    """So many finite numbers."""
    found = np.array(content)
    if found.shape != (length,) or (length and found.dtype.kind not in "if") or not np.isfinite(found).all():
        raise InvalidInput(f"{field}: must be {length:,} finite numbers")
    return found.astype(np.float64)


def _check_factors(domain: Domain, content: Mapping[str, Any]) -> None:
    """`InvalidInput` unless there is one number for each cell of some distinct marginals."""
    real("total", content["total"])
    if content["type"] != "histogram":
        raise InvalidInput(f"type: must be 'histogram', got {content['type']!r}")
    seen = set()
    for i, factor in enumerate(_kind("factors", content["factors"], list)):
        with _reading(f"factor {i}"):
            axes = domain.axes(factor["columns"])
            if factor["columns"] != [domain.names[a] for a in axes] or axes in seen:
                raise InvalidInput("columns: must be distinct, in the domain's order")
            seen.add(axes)
            _floats("logs", factor["logs"], domain.cells(axes))


def _check_range(histogram: Histogram) -> None:
    if not np.isfinite(histogram.marginals).all():
        raise InvalidInput("factors: their product is out of range")


def _synopsis(
    domain: Domain, workload: Workload, content: Mapping[str, Any], measurements: tuple[Measurement, ...]
) -> Synopsis:
    """Numbers are checked here, by the names that they have in all kinds of synopsis; what they say, by the kind."""
    kind = content["type"]
    if "total" in content:
        total = real("total", content["total"])
        if total < 0 and kind not in ("residuals", "least squares"):  # whose estimates may have any sign
            raise InvalidInput(f"total: must not be negative, got {total}")
    if "records" in content:
        records = np.array(content["records"])
        if records.dtype.kind != "i" or records.ndim != 2 or records.shape[1] != len(domain):
            raise InvalidInput(f"records: must be rows of {len(domain)} codes")
        _floats("weights", content["weights"], len(records))
    match kind:
        case "histogram":
            _check_factors(domain, content)
            histogram = Histogram.from_json(domain, content)
            _check_range(histogram)
            return histogram
        case "answers":
            _floats("values", content["values"], len(workload))
            return Answers.from_json(workload, content, measurements)
        case "maximum entropy":
            widths = _kind("widths", content["widths"], list)
            known = _floats("widths", [0 if w is None else w for w in widths], len(workload))
            if known.min() < 0:
                raise InvalidInput("widths: must not be negative")
            with _reading("histogram"):
                _check_factors(domain, content["histogram"])
            modelled = Modelled.from_json(workload, content, measurements)
            _check_range(modelled.histogram)
            return modelled
        case "residuals":
            linear = Linear.from_json(domain, content, measurements)
            if not all(linear.estimates.gives(g.axes) for g in workload.groups):
                raise InvalidInput("the measurements do not give all answers")
            return linear
        case "least squares":
            return LeastSquares.from_json(domain, content, measurements)
        case "weighted codes":
            return WeightedCodes.from_json(domain, content, measurements)
        case "weighted records":
            return WeightedRecords.from_json(domain, content)
        case "scaled":
            with _reading("synopsis"):
                other = _synopsis(domain, workload, content["synopsis"], measurements)
                if not other.total > 0:
                    raise InvalidInput("total: must be positive")
            return Scaled(other, float(content["total"]))
        case "dual":
            if _kind("queries", content["queries"], list):
                _workload(domain, content["queries"])
            _floats("coefficients", content["coefficients"], len(content["queries"]))
            return Dual.from_json(domain, content)
        case "medians":
            candidates = [_synopsis(domain, workload, c, measurements) for c in content["candidates"]]
            return Medians(Listed(tuple(candidates)), float(content["total"]))
    raise InvalidInput(f"this version knows no synopsis of type {kind!r}")
