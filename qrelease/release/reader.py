"""`load`: a saved release, read again. Each field is checked, and an error names the field."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats
from qrelease._util.validate import count, positive
from qrelease.data import schema
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.measurement import Measurement
from qrelease.noise.distributions import MAX_SCALE, Noise, NoiseLaw
from qrelease.privacy.costs import Neighbours, Spend, cost_from_json
from qrelease.privacy.filters import Filter
from qrelease.privacy.group_privacy import Unit
from qrelease.release.fields import floats, queries, reading, value_of
from qrelease.release.manifest import ARRAYS, MANIFEST, NUMBERS, READABLE, VALUES, put_back
from qrelease.release.release import Release
from qrelease.release.stored_synopses import Context, synopsis_of


def load(path: str | os.PathLike[str]) -> Release:
    """A saved release, from its folder or its `release.json`. It answers further queries at no cost.

    Where there are very many noisy answers they stay in their file, which has to stay where it is.

    Raises `InvalidInput`, which names the field, for a file that is none; `BudgetExceeded` where its parts cost more
    than it claims in all; `TooLarge` for what does not fit in memory.
    """
    file = Path(path)
    file = file / MANIFEST if file.is_dir() else file
    try:
        with reading(str(file)):
            content = json.loads(file.read_text(encoding="utf-8"))
            found = value_of("a manifest", content, dict).get("format")
            if found not in READABLE:
                raise InvalidInput(
                    f"it has format {found!r}, and this version reads {' and '.join(map(str, READABLE))}"
                )
            with reading("arrays"):
                arrays = _arrays(content.get("arrays"), file.parent / ARRAYS)
            if arrays:
                with reading("synopsis"):
                    content["synopsis"] = put_back(content["synopsis"], arrays)
            with reading("values"):
                values = _values(content.get("values"), file.parent / VALUES)
            return _release(content, None if values is None else values.view(np.ndarray))
    except OSError as error:
        raise InvalidInput(f"{error.filename or file} cannot be read: {error.strerror}") from None


def _check_digest(digest: object, file: Path, what: str) -> None:
    """`InvalidInput` for another file than the manifest names."""
    with file.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != digest:
            raise InvalidInput(f"{file} does not hold the {what} of this release")


def _arrays(digest: object, file: Path) -> dict[str, npt.NDArray[Any]]:
    """The numbers of the synopsis that the manifest does not list, where it names a file of them."""
    if digest is None:
        return {}
    _check_digest(digest, file, "numbers of the synopsis")
    try:
        with np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except zipfile.BadZipFile as error:
        raise InvalidInput(f"{file} cannot be read: {error}") from None


def _values(digest: object, file: Path) -> Floats | None:
    """The noisy answers, where the manifest names a file of them: mapped, lest a query for some reads a gigabyte."""
    if digest is None:
        return None
    _check_digest(digest, file, "noisy answers")
    found: Floats = np.load(file, "r", allow_pickle=False)
    if not np.isfinite(found.sum()):  # without a copy
        raise InvalidInput(f"{file} must hold finite numbers")
    return found


def _release(content: Mapping[str, Any], values: Floats | None) -> Release:
    """`values`: of all measurements, where the manifest does not list them."""
    with reading("domain"):
        domain = schema.domain_from_json(content["domain"])
    with reading("workload"):
        workload = queries(domain, content["workload"])
    with reading("cost"):
        cost = cost_from_json(content["cost"])
    with reading("measurements"):
        measurements = _measurements(domain, content["measurements"], values)
    with reading("spends"):
        spends = tuple(_spend(entry) for entry in value_of("they", content["spends"], list))
        neighbours = Neighbours.parse(content["neighbours"])
        claimed = Filter(Unit(neighbours, domain.at_most).of_a_record(cost))
        for spend in spends:
            claimed.spend(spend.cost)
    with reading("synopsis"), np.errstate(all="ignore"):  # what is out of range is found out by what comes of it
        synopsis = synopsis_of(content["synopsis"], Context(domain, workload, measurements))
    mark, seed = value_of("insecure", content["insecure"], str, None), content["insecure_seed"]
    if isinstance(seed, bool) or (value_of("insecure_seed", seed, int, None) is not None and mark is None):
        raise InvalidInput(f"insecure_seed: a seed goes with the mark `insecure`, got {seed!r}")
    return Release(
        synopsis,
        workload,
        cost,
        neighbours,
        value_of("dataset", content["dataset"], str),
        value_of("mechanism", content["mechanism"], str),
        value_of("parameters", content["parameters"], dict),
        measurements,
        spends,
        mark is not None,
        seed,
        {
            name: value_of(f"versions: {name}", v, str)
            for name, v in value_of("versions", content["versions"], dict).items()
        },
    )


def _spend(entry: Mapping[str, Any]) -> Spend:
    return Spend(value_of("what", entry["what"], str), cost_from_json({k: v for k, v in entry.items() if k != "what"}))


def _measurements(
    domain: Domain, content: Sequence[Mapping[str, Any]], values: Floats | None
) -> tuple[Measurement, ...]:
    if values is not None and (values.dtype != NUMBERS or values.ndim != 1):
        raise InvalidInput(f"{VALUES} does not hold noisy answers")
    found: list[Measurement] = []
    noise: Noise | None = None
    said, at = None, 0
    for i, entry in enumerate(value_of("they", content, list)):
        with reading(f"entry {i}"):
            (group,) = queries(domain, [entry]).groups
            size = group.queries.count
            part = floats("values", entry["values"], size) if values is None else values[at : at + size]
            if noise is None or entry["noise"] != said:  # mostly it is that of the one before
                said = entry["noise"]
                noise = _noise(said)
            found.append(Measurement(group, part, noise, count("repeats", entry["repeats"])))
            at += size
    if values is not None and at != len(values):
        raise InvalidInput(f"{VALUES} does not hold the {at:,} noisy answers of this release")
    return tuple(found)


def _noise(entry: Mapping[str, Any]) -> Noise:
    if entry["law"] not in get_args(NoiseLaw):
        raise InvalidInput(f"law: must be one of {', '.join(get_args(NoiseLaw))}, got {entry['law']!r}")
    noise = Noise(entry["law"], positive("scale", entry["scale"]), positive("unit", entry["unit"]))
    if noise.scale > MAX_SCALE or noise.unit > 1:
        raise InvalidInput(f"noise: no noise has a scale of {noise.scale:g} on a grid of {noise.unit:g}")
    return noise
