"""The picture of `benchmarks.large`: error against seconds, from rows that are made up."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not (ROOT / "benchmarks" / "large.py").exists():
        pytest.skip("no benchmarks here")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import large

    return large


def rows(large: ModuleType, dataset: str, records: int, *errors: float) -> tuple[tuple, list]:
    made = [
        large.Row(dataset, 1.0, "records", seed, records, error, error / 10, records / 1000, 100.0)
        for seed, error in enumerate(errors)
    ]
    return (dataset, 1.0, "records", records), made


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_picture(suffix: str, large: ModuleType, tmp_path: Path) -> None:
    adult = [rows(large, "adult", 65_536, 0.13, 0.14), rows(large, "adult", 16_384, 0.2, 0.22)]
    file = tmp_path / f"picture.{suffix}"
    large.draw(dict([*adult, rows(large, "titanic", 16_384, 0.5)]), file)
    once = file.read_bytes()
    large.draw(dict([*adult, rows(large, "titanic", 16_384, 0.5)]), file)
    assert file.read_bytes() == once
    if suffix == "svg":
        text = once.decode()
        for said in ("adult, epsilon 1: records", "adult, epsilon 1: AIM, 0.132", "AIM, 0.0171", "65,536", "16,384"):
            assert said in text
        assert "titanic, epsilon 1: AIM" not in text  # nothing is known of it
        large.draw(dict([rows(large, "adult", 65_536, 0.13, 0.2)]), file)
        assert file.read_bytes() != once


def test_what_is_drawn(large: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points in the order of their records, at the mean of the seeds, with their span."""
    from matplotlib.axes import Axes

    calls = []
    plain = Axes.errorbar
    monkeypatch.setattr(Axes, "errorbar", lambda axes, *a, **k: calls.append(a) or plain(axes, *a, **k))
    found = dict([rows(large, "adult", 65_536, 0.13, 0.15), rows(large, "adult", 16_384, 0.2)])
    large.draw(found, tmp_path / "picture.png")
    for factor, (seconds, means, spans) in zip((1, 0.1), calls, strict=True):
        assert seconds == pytest.approx([16.384, 65.536])
        assert means == pytest.approx([0.2 * factor, 0.14 * factor])
        np.testing.assert_allclose(spans, [[0, 0.01 * factor], [0, 0.01 * factor]], atol=1e-12)


def test_one_epsilon_and_a_picture_that_cannot_be(
    large: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "adult.csv.gz").touch()
    asked = []
    monkeypatch.setattr(large, "run", lambda todo, *rest: asked.append((todo, *rest)) or 0)
    command = ["--data", str(tmp_path), "--only", "adult", "--seeds", "1", "--records", "10,20"]
    assert large.main([*command, "--epsilon", "1", "--picture", str(tmp_path / "a.svg")]) == 0
    assert large.main(command) == 0
    (one, _, picture), (all_three, _, none) = asked
    assert [(j.epsilon, j.records) for j in one] == [(1.0, 10), (1.0, 20)]
    assert (len(all_three), picture, none) == (6, tmp_path / "a.svg", None)
    with pytest.raises(SystemExit):
        large.main([*command, "--picture", "a.pdf"])
    assert "a picture is written as .svg or .png" in capsys.readouterr().err
