"""`release.json`, the manifest: everything a third party needs to check the promise and to answer further queries.

Names that stand in it are stored names: they never change with those of classes.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qrelease._util.validate import kind_of
from qrelease.data import schema
from qrelease.errors import InvalidInput
from qrelease.release.checksums import release_id

if TYPE_CHECKING:
    from qrelease.inference.number_tables import MeasuredSums
    from qrelease.inference.synopsis import Synopsis
    from qrelease.release.release import Release

FORMAT = 3

READABLE = (2, 3)
"""Formats that are read; in format 2 all numbers of the synopsis are in the manifest."""

MANIFEST = "release.json"

VALUES = "measurements.npy"
"""Noisy answers."""

ARRAYS = "synopsis.npz"
"""Long lists of numbers in the description of the synopsis, by name."""

LISTED = 1 << 10
"""MeasuredSums in one list of the synopsis' description; a longer one is in the file of these."""

LISTED_ANSWERS = 1 << 12
"""Noisy answers that a manifest lists; where there are more, all are in a file of their own."""

NUMBERS = np.dtype("<f8")

SYNOPSES = (
    "histogram",
    "answers",
    "maximum entropy",
    "residuals",
    "least squares",
    "weighted codes",
    "weighted records",
    "scaled",
    "dual",
    "medians",
)
"""The stored types of synopsis, which `stored_synopses` reads again."""

_INSECURE = "INSECURE: the noise did not come from the system's entropy and protects nobody"


def versions() -> dict[str, str]:
    """What a third party needs to run the same code."""
    return {"python": platform.python_version(), **_packages()}


@cache
def _packages() -> Mapping[str, str]:
    """Versions as they are imported: what is installed meanwhile does not run here."""
    return {name: version(name) for name in ("qrelease", "numpy", "numba", "cryptography")}


def why_unreadable(synopsis: Synopsis) -> str:
    """Why nothing could read a synopsis of one's own again, from its description; empty where it can be read.

    Those of the package can be, and are not described a second time.
    """
    if type(synopsis).__module__.startswith("qrelease."):
        return ""
    try:
        described: object = synopsis.to_json()
        json.dumps(described, allow_nan=False)
        kind = described.get("type") if isinstance(described, Mapping) else None
        why = f"this version knows no synopsis of type {kind!r}"
    except (TypeError, ValueError) as error:
        kind, why = None, f"what its to_json gives is no JSON: {error}"
    return "" if kind in SYNOPSES else why


def check_stored(synopsis: Synopsis) -> None:
    """Raise `InvalidInput` for a synopsis of one's own that nothing could read again."""
    why = why_unreadable(synopsis)
    if why:
        raise InvalidInput(
            f"a release whose synopsis is {kind_of(synopsis)} cannot be saved, as nothing could read it again: {why};"
            " let the mechanism return what qr.fitted or qr.WeightedRecords makes, or do not save the release"
        )


def manifest(release: Release, digest: str | None) -> dict[str, Any]:
    """All but the id, see `with_date`.

    digest  of the file that the noisy answers are in, where the manifest does not list them
    """
    return {**manifest_of(release, digest), "synopsis": release.synopsis.to_json()}


def with_id(release: Release) -> Release:
    """The same release with its id."""
    content = {**manifest_of(release, ""), "date": release.date}
    return replace(release, id=release_id(content, (m.values for m in release.measurements)))


def is_released_to(place: str, release: str) -> bool:
    """Whether a folder has the release of an id, by what its manifest says."""
    try:
        with open(Path(place) / MANIFEST, encoding="utf-8") as file:
            return bool(json.load(file).get("id") == release)
    except (OSError, ValueError, AttributeError):  # there is none, or something else
        return False


def with_date(release: Release, digest: str | None) -> dict[str, Any]:
    """The manifest of a folder: with the id of what it says, and the date."""
    content = {**manifest(release, digest), "date": release.date}
    return {"id": release_id(content, (m.values for m in release.measurements)), **content}


def manifest_of(release: Release, digest: str | None) -> dict[str, Any]:
    """The manifest of a release, without its synopsis."""
    names, review = release.domain.names, release.domain.review
    return {
        "format": FORMAT,
        "dataset": release.dataset,
        "insecure": _INSECURE if release.insecure else None,
        "insecure_seed": release.insecure_seed,
        "cost": release.cost.to_json(),
        "neighbours": release.neighbours.value,
        **_person(release),
        "mechanism": release.mechanism,
        "parameters": dict(release.parameters),
        "spends": [s.to_json() for s in release.spends],
        "versions": dict(release.versions),
        "domain": schema.domain_to_json(release.domain) | (review.to_json() if review is not None else {}),
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
        **({} if release.measured_sums is None else {"numbers": _sums_of(release.measured_sums)}),
        **({"learned": [part.to_json() for part in release.learned]} if release.learned else {}),
    }


def _sums_of(numbers: MeasuredSums) -> dict[str, Any]:
    """What was measured for questions about numbers: values are whole numbers, of what the measure adds."""
    names = numbers.domain.names
    return {
        "questions": list(numbers.questions),
        "clip": {name: list(bounds) for name, bounds in numbers.clips.items()},
        "records": numbers.records,
        "tables": [
            {
                "measure": part.measure.to_json(),
                "columns": [names[a] for a in m.group.axes],
                **m.group.queries.to_json(),
                "share": part.share,
                "noise": {"law": m.noise.law, "scale": m.noise.scale, "unit": m.noise.unit},
                "values": m.values.tolist(),
            }
            for part, m in zip(numbers.parts, numbers.measured, strict=True)
        ],
        **({"chosen": [choices.to_json() for choices in numbers.chosen]} if numbers.chosen else {}),
    }


def _person(release: Release) -> dict[str, Any]:
    """Where the unit is a person: how many records of each were kept, and what the parts of the cost are in terms of.

    What share of the records that is, is private, and not told. Nothing reads this: it follows from the domain.
    """
    unit = release.unit
    if release.workload.domain.person is None:
        return {}
    if unit.at_most is None:
        return {"unit": {"of": "a person", "records": "one, made of all records of that person"}}
    said: dict[str, Any] = {
        "at_most": unit.at_most,
        "share_kept": None,
        "spends_are_of": unit.of_a_record(release.cost).to_json(),
    }
    said |= {"counts": "once, in as many equal parts as records were kept"} if unit.counts_once else {}
    return {"unit": {"of": "a person", **said}}


def set_apart(content: Any, arrays: dict[str, npt.NDArray[Any]]) -> Any:
    """A description with a reference in place of each list of more than `LISTED` numbers, which goes to `arrays`."""
    if isinstance(content, dict):
        return {key: set_apart(part, arrays) for key, part in content.items()}
    if not isinstance(content, list):
        return content
    if _numbers(content) > LISTED:
        name = f"array_{len(arrays)}"
        arrays[name] = _array(content)
        return {"array": name}
    return [set_apart(part, arrays) for part in content]


def put_back(content: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """What `set_apart` was given: each reference is the list again."""
    if isinstance(content, list):
        return [put_back(part, arrays) for part in content]
    if not isinstance(content, dict):
        return content
    if content.keys() == {"array"}:
        array = arrays[content["array"]]
        numbers = array.tolist()
        return [None if n != n else n for n in numbers] if array.ndim == 1 and array.dtype.kind == "f" else numbers
    return {key: put_back(part, arrays) for key, part in content.items()}


def _numbers(content: list[Any]) -> int:
    """How many numbers there are in a list of them, or of rows of one length; 0 for other lists."""
    first = content[0] if content else None
    if isinstance(first, list):
        alike = all(type(row) is list and len(row) == len(first) for row in content)
        return len(content) * len(first) if alike and first and isinstance(first[0], int) else 0
    return len(content) if all(n is None or isinstance(n, int | float) for n in content) else 0


def _array(content: list[Any]) -> npt.NDArray[Any]:
    """MeasuredSums in the least type that holds them; None is NaN."""
    array = np.array(content)
    if array.dtype.kind != "i":
        return array.astype(NUMBERS)
    return array.astype(np.promote_types(np.min_scalar_type(int(array.min())), np.min_scalar_type(int(array.max()))))
