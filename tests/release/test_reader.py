"""A damaged folder is one clear error, or says what it said."""

import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import COST, DOMAIN, many, released
from stored_kinds import LARGE, STORED

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, QReleaseError
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.entropy import Entropy
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release import reader
from qrelease.release.curator import Curator
from qrelease.release.manifest import manifest as described


def test_a_file_of_noisy_answers_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    many(Gaussian()).save(tmp_path / "out")
    shutil.copy(tmp_path / "out" / "synopsis.npz", tmp_path)
    file = tmp_path / "out" / "measurements.npy"
    values, manifest = np.load(file), tmp_path / "out" / "release.json"
    ours = hashlib.sha256(file.read_bytes()).hexdigest()
    for others in (values[1:], values + 1, values.astype(np.float32)):
        np.save(file, others)
        with pytest.raises(InvalidInput, match="does not hold the noisy answers of this release"):
            reader.load(tmp_path / "out")
    # Nor does one that the manifest itself names.
    for others, message in [
        (values[1:], r"hold the [\d,]+ noisy answers"),
        (np.array([{}]), "values: ValueError: Array can't be memory-mapped"),
        (np.where(np.arange(len(values)) == 3, np.nan, values), "must hold finite numbers"),
    ]:
        np.save(file, others)
        named = manifest.read_text().replace(ours, hashlib.sha256(file.read_bytes()).hexdigest())
        (tmp_path / "named.json").write_text(named)
        shutil.copy(file, tmp_path / file.name)
        with pytest.raises(InvalidInput, match=message):
            reader.load(tmp_path / "named.json")
    file.write_bytes(b"")
    with pytest.raises(InvalidInput, match="does not hold"):
        reader.load(tmp_path / "out")
    file.unlink()
    with pytest.raises(InvalidInput, match=r"measurements\.npy cannot be read"):
        reader.load(tmp_path / "out")


def test_a_manifest_whose_parts_cost_more_than_it_claims_is_refused(tmp_path: Path) -> None:
    released().save(tmp_path / "out")
    file = tmp_path / "out" / "release.json"
    content = json.loads(file.read_text())
    content["cost"]["epsilon"] = 0.5
    file.write_text(json.dumps(content))
    with pytest.raises(Exception, match="budget exceeded"):
        reader.load(tmp_path / "out")


def test_grids_of_queries_and_of_their_noise_are_two_things(tmp_path: Path) -> None:
    """Noise is on the finest grid of a workload, whatever the grid of a query."""
    domain = Domain.coded({"a": 3, "b": 2})
    asked = Workload.vectors(domain, [[0, 1, 1]], ["a"]) + Workload.vectors(domain, [[0.3, 0.5]], ["b"])
    table = Table(domain, (np.array([0, 1, 2, 2], np.uint8), np.array([0, 1, 1, 1], np.uint8)))
    with Ledger.open(None, PureDP(1.0)) as ledger:
        release = Curator(table, ledger, Entropy.insecure(1)).release(Laplace(), asked, PureDP(1.0))
    release.save(tmp_path / "out")
    loaded = reader.load(tmp_path / "out")
    assert [m.group for m in loaded.measurements] == [m.group for m in release.measurements]
    np.testing.assert_array_equal(loaded.error_bars(), release.error_bars())


CONTRADICTED = {
    "cost": ["spends"],
    "domain": ["workload", "measurements", "synopsis"],
    "workload": ["synopsis"],
    "measurements": ["synopsis"],
}
"""The parts that contradict another one which is possible by itself."""


def stored(kind: str) -> dict[str, Any]:
    domain, mechanism = STORED[kind]
    rng = np.random.default_rng(0)
    table = Table(domain, tuple(rng.integers(0, size, 300).astype(np.uint8) for size in domain.shape))
    workload = Workload.marginals(domain, 1)
    if domain is not LARGE:
        workload += Workload.ranges(domain, domain.names[-1])
    if mechanism.name != "records" and domain is DOMAIN:
        workload += Workload.vectors(DOMAIN, [[0.25, 0.5, 1]], ["sex"])
    with Ledger.open(None, COST, dataset="made up") as ledger:
        release = Curator(table, ledger, Entropy.insecure(0)).release(mechanism, workload, COST)
    text = json.dumps(described(release, None))
    content: dict[str, Any] = json.loads(text)
    assert content["synopsis"]["type"] == kind
    return content


def damages(content: Any) -> Iterator[tuple[list[Any], Any]]:
    """What each part of a manifest might be instead, and the path to it; of a list, the first and the last entry."""
    wrong = [None, -1, 0.5, 10**400, math.nan, math.inf, 1e5, True, "text", [], {}]
    if isinstance(content, list) and content:
        wrong += [content[:-1], [*content, content[-1]]]
    for other in wrong:
        if type(other) is not type(content) or other != content:
            yield [], other
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, part in inner:
        if isinstance(content, list) and 0 < key < len(content) - 1:
            continue
        if isinstance(content, dict):
            yield [], {k: v for k, v in content.items() if k != key}
        for path, other in damages(part):
            yield [key, *path], other


def edited(content: Any, path: list[Any], other: Any) -> Any:
    if not path:
        return other
    copy = content.copy()
    copy[path[0]] = edited(content[path[0]], path[1:], other)
    return copy


def settled(content: Any) -> Any:
    """What a manifest says: a constant in a factor means nothing, nor a scale of 1, nor the totals of candidates."""
    if isinstance(content, dict):
        content = dict(content)
        if content.get("type") == "scaled" and content["total"] == content["synopsis"].get("total"):
            return settled(content["synopsis"])
        if content.get("type") == "medians":
            inner = (c["synopsis"] if c["type"] == "scaled" else c for c in content["candidates"])
            content["candidates"] = [settled(c) | {"total": 1.0} for c in inner]
        if "logs" in content:
            content["logs"] = (np.array(content["logs"]) - np.mean(content["logs"])).tolist()
        return {key: settled(part) for key, part in content.items()}
    if isinstance(content, list):
        return [settled(part) for part in content]
    return content


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return isinstance(other, int | float) and math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == other)


@pytest.mark.parametrize("kind", STORED)
def test_a_damaged_manifest_is_one_clear_error_or_says_what_it_says(kind: str, tmp_path: Path) -> None:
    """Each field in turn. Parameters and the names of things are free text: they may be any, and decide nothing."""
    content, file = stored(kind), tmp_path / "release.json"
    file.write_text(json.dumps(content))
    assert described(reader.load(file), None)["synopsis"].keys() == content["synopsis"].keys()
    refused = tried = 0
    for path, other in damages(content):
        if path[:1] == ["parameters"] and path[1:]:
            continue
        tried += 1
        manifest = edited(content, path, other)
        file.write_text(json.dumps(manifest))
        where = f"{path} = {str(other)[:80]}"
        message = ""
        try:
            found = reader.load(file)
        except QReleaseError as error:
            message = str(error)
        if message:
            assert message.startswith(f"{file}: "), where
            named = [path[0], *CONTRADICTED.get(path[0], [])] if path else [""]
            assert any(name in message.removeprefix(str(file)) for name in named), f"{where}: {message}"
            refused += 1
            continue
        again = json.loads(json.dumps(described(found, None)))
        assert again.keys() == manifest.keys(), where
        for key in again:
            if key != "insecure":  # a text, which says what it says by being there
                assert same(settled(again[key]), settled(manifest[key])), where
        assert np.isfinite(found.answers()).all(), where
        for bars in (found.error_bars()[1], found.model_bars()):
            assert not (bars < 0).any(), where
    assert refused > 0.9 * tried > 500


@pytest.mark.parametrize(
    ("kind", "path", "other", "words"),
    [
        ("answers", ["measurements", 0, "noise", "scale"], -1, "measurements: entry 0: scale must be positive, got -1"),
        ("answers", ["synopsis", "total"], math.nan, "synopsis: total must be finite"),
        ("answers", ["spends", 0, "epsilon"], 2.0, "spends: budget exceeded"),
        ("maximum entropy", ["synopsis", "widths"], [1.0], "synopsis: widths: must be"),
        ("histogram", ["synopsis", "factors", 0, "logs"], [1e5, 1e5, 0.0], "synopsis: factors: their product is out"),
        ("residuals", ["synopsis", "total"], 5.0, "synopsis: total: 5.0 is not that of the measurements"),
        ("weighted codes", ["synopsis", "records", 0], [0.5, 0, 0], "synopsis: records: must be rows of 3 codes"),
    ],
)
def test_an_error_names_the_field(kind: str, path: list[Any], other: Any, words: str, tmp_path: Path) -> None:
    (tmp_path / "release.json").write_text(json.dumps(edited(stored(kind), path, other)))
    with pytest.raises(QReleaseError, match=re.escape(f"{tmp_path / 'release.json'}: {words}")):
        reader.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 99}', "[" * 100_000])
def test_what_is_no_manifest_is_one_clear_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "release.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"release\.json"):
        reader.load(tmp_path)
