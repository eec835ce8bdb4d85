"""A release as a folder of four files, and back.

`synthetic.csv`  synthetic records, under the input's header and labels (only where the synopsis has a table)
`answers.csv`    every query of the workload: the answer, the noisy answer and its error bar where it was measured
`release.json`   the manifest: everything a third party needs to check the promise and to answer further queries
`report.html`    one page for people
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from qrelease import schema
from qrelease.domain import Domain
from qrelease.encoding import write_csv
from qrelease.errors import InvalidInput
from qrelease.histogram import Histogram
from qrelease.measure import Measurement, Noise, Spend
from qrelease.mechanisms.direct import Answers
from qrelease.privacy import Filter, Neighbours, cost_from_json
from qrelease.release import Release, Synopsis, generator
from qrelease.report import html
from qrelease.workload import Workload

FORMAT = 1

MANIFEST = "release.json"

_INSECURE = "INSECURE: the noise did not come from the system's entropy and protects nobody"


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill that appears under its name only when complete; nothing is left behind on an exception.

    Raises `InvalidInput` before the block when it cannot be made, or when the name is taken by anything but an empty
    folder. Enter it before the budget is charged, so that a wrong path costs nothing.
    """
    target = Path(path)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(f"{target} exists already; choose another folder, releases are not overwritten")
    part = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    try:
        part.mkdir()
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written: {error.strerror}") from None
    try:
        yield part
        part.replace(target)
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def save(release: Release, folder: Path, rows: int | None = None) -> None:
    """Write the files of a release into an existing folder, with `rows` synthetic records (see `Release.synthetic`)."""
    rng = generator(release.insecure_seed)
    if release.has_table:
        write_csv(folder / "synthetic.csv", release.domain, release.codes(rows, rng), rng)
    _write_answers(release, folder / "answers.csv")
    (folder / MANIFEST).write_text(json.dumps(_manifest(release), allow_nan=False) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(html(release), encoding="utf-8")


def load(path: str | os.PathLike[str]) -> Release:
    """A saved release, from its folder or its `release.json`. It answers further queries at no cost.

    Raises `InvalidInput` for a file that is none, or whose parts cost more than it claims in all.
    """
    file = Path(path)
    file = file / MANIFEST if file.is_dir() else file
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise InvalidInput(f"{file} has format {content.get('format')!r}; this version reads {FORMAT}")
        return _release(content)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{file} is not the manifest of a release: {type(error).__name__}: {error}") from None


def _write_answers(release: Release, file: Path) -> None:
    noisy, half = release.error_bars()
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["query", "answer", "noisy", "error_95"])
        columns = (release.answers().tolist(), noisy.tolist(), half.tolist())
        for text, answer, value, bar in zip(release.workload.texts(), *columns, strict=True):
            measured = not math.isnan(bar)
            writer.writerow(
                [text, f"{answer:.6g}", f"{value:.6g}" if measured else "", f"{bar:.4g}" if measured else ""]
            )


def _manifest(release: Release) -> dict[str, Any]:
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
                "values": m.values.tolist(),
            }
            for m in release.measurements
        ],
        "synopsis": release.synopsis.to_json(),
    }


def _release(content: Mapping[str, Any]) -> Release:
    domain = schema.domain_from_json(content["domain"])
    workload = Workload.from_json(domain, content["workload"])
    cost = cost_from_json(content["cost"])
    spends = tuple(
        Spend(s["what"], cost_from_json({k: v for k, v in s.items() if k != "what"})) for s in content["spends"]
    )
    claimed = Filter(cost)
    for spend in spends:
        claimed.spend(spend.cost)
    return Release(
        _synopsis(domain, workload, content["synopsis"]),
        workload,
        cost,
        Neighbours.parse(content["neighbours"]),
        content["dataset"],
        content["mechanism"],
        content["parameters"],
        tuple(_measurement(domain, m) for m in content["measurements"]),
        spends,
        content["insecure"] is not None,
        content["insecure_seed"],
        content["versions"],
    )


def _measurement(domain: Domain, content: Mapping[str, Any]) -> Measurement:
    (group,) = Workload.from_json(domain, [content]).groups
    noise = Noise(content["law"], float(content["scale"]), float(content["unit"]))
    return Measurement(group, np.array(content["values"], np.float64), noise, int(content["repeats"]))


def _synopsis(domain: Domain, workload: Workload, content: Mapping[str, Any]) -> Synopsis:
    match content["type"]:
        case "histogram":
            return Histogram.from_json(domain, content)
        case "answers":
            return Answers.from_json(workload, content)
    raise InvalidInput(f"this version knows no synopsis of type {content['type']!r}")
