"""Numbers that are set apart from the manifest are put back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import released

from qrelease.errors import InvalidInput
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.release import reader
from qrelease.release.manifest import LISTED, put_back, set_apart
from qrelease.release.manifest import manifest as described


def test_long_lists_of_numbers_are_beside_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qrelease.release.manifest.LISTED", 10)
    release = released(FittedRecords(weighted_records=3000))
    release.save(tmp_path / "out")
    files = sorted(f.name for f in (tmp_path / "out").iterdir())
    assert files == ["SHA256SUMS", "answers.csv", "release.json", "report.html", "synopsis.npz", "synthetic.csv"]
    assert "array" in json.loads((tmp_path / "out" / "release.json").read_text())["synopsis"]["weights"]
    loaded = reader.load(tmp_path / "out")
    np.testing.assert_allclose(loaded.answers(), release.answers(), rtol=1e-12)
    assert described(loaded, None)["synopsis"] == described(release, None)["synopsis"]
    numbers = tmp_path / "out" / "synopsis.npz"
    whole = numbers.read_bytes()
    for damage in (whole[:-1], b"", whole[:100] + b"x" + whole[101:]):
        numbers.write_bytes(damage)
        with pytest.raises(InvalidInput, match="does not hold the numbers of the synopsis"):
            reader.load(tmp_path / "out")
    numbers.unlink()
    with pytest.raises(InvalidInput, match=r"synopsis\.npz cannot be read"):
        reader.load(tmp_path / "out")


@pytest.mark.parametrize(
    "content",
    [
        {"records": [[0, 300], [1, 2]] * LISTED, "weights": [0.5] * 2 * LISTED},
        {"widths": [None, 1.5] * LISTED, "inner": [{"logs": [-1.0] * 2 * LISTED}, {"logs": [1]}]},
        {"texts": ["a"] * 2 * LISTED, "queries": [{"columns": ["a"]}] * 2 * LISTED, "negative": [-5, 2] * LISTED},
    ],
    ids=["records", "widths", "texts"],
)
def test_numbers_that_are_set_apart_are_put_back(content: Any) -> None:
    arrays: dict[str, Any] = {}
    left = set_apart(content, arrays)
    assert arrays
    assert len(json.dumps(left)) < len(json.dumps(content))
    assert put_back(json.loads(json.dumps(left)), arrays) == content
