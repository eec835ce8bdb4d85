"""What an evaluation says: its text and JSON, means over trials, and which pictures it refuses to draw."""

import json

import pytest

from qrelease.errors import InvalidInput
from qrelease.evaluation.results import NOTICE, Errors, Evaluation, Run
from tests.evaluation.comparisons import small


def test_the_text_is_a_table_under_the_notice():
    notice, subject, units, header, *lines, floor = str(small()).splitlines()
    assert notice == NOTICE
    assert units.startswith("errors are parts of the table")
    assert subject == (
        "small: 500 records, 71 queries on 6 marginals of 4 columns; add-remove, delta=1e-06; means of 2 trials"
    )
    assert header.split("  ")[0] == "epsilon"
    lines = [line for line in lines if not line.startswith("unbiased")]
    assert len(lines) == 6
    assert len({len(line) for line in [header, *lines]}) == 1
    assert lines[1].split()[:2] == ["0.5", "laplace"]
    assert lines[1].split()[5] == "1.000"
    assert floor.startswith("as many rows drawn again from the table itself: avg L1 0.")
    assert repr(small(trials=1)).startswith(NOTICE)


def test_means_are_over_trials_and_what_is_unknown_is_a_dash():
    rows = [
        Run("a", 1.0, 0.0, i, Errors(value, value, value), seconds=value, peak_mb=float("nan"))
        for i, value in enumerate((0.25, 0.75))
    ]
    text = str(Evaluation("t", "subject", tuple(rows)))
    assert text.splitlines()[-1].split() == ["1", "a", "0.5000", "0.5000", "0.500000", "-", "-", "0.50", "-"]


def test_json_lines_have_the_fields_of_a_benchmark_and_the_notice():
    found = small()
    lines = [json.loads(line) for line in found.to_json_lines("error").splitlines()]
    assert len(lines) == 3 * len(found.rows)
    assert lines[0] == {
        "name": "error",
        "dataset": "small",
        "epsilon": 0.5,
        "delta": 1e-6,
        "mechanism": "mwem",
        "metric": "avg_l1",
        "value": found.rows[0].errors.avg_l1,
        "seconds": found.rows[0].seconds,
        "peak_mb": found.rows[0].peak_mb,
        "trial": 0,
        "notice": NOTICE,
    }


def test_unknown_memory_is_null_in_json():
    found = Evaluation("t", "s", (Run("a", 1.0, 0.0, 0, Errors(0.1, 0.1, 0.1), 1.0, float("nan")),))
    assert json.loads(found.to_json_lines().splitlines()[0])["peak_mb"] is None


def test_no_picture_goes_near_a_release(tmp_path):
    folder = tmp_path / "out"
    (folder / "deep").mkdir(parents=True)
    (folder / "release.json").write_text("{}")
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    for path in (folder / "e.svg", folder / "deep" / "e.svg", tmp_path / "link" / "e.svg"):
        with pytest.raises(InvalidInput, match="holds a release, and this picture is not private"):
            small(trials=1).plot(path)
    assert sorted(p.name for p in folder.rglob("*")) == ["deep", "release.json"]


def test_a_picture_needs_a_suffix_and_a_folder(tmp_path):
    found = small(trials=1)
    with pytest.raises(InvalidInput, match=r"a picture is written as .svg or .png, got 'e.pdf'"):
        found.plot(tmp_path / "e.pdf")
    with pytest.raises(InvalidInput, match="there is no folder"):
        found.plot(tmp_path / "absent" / "e.svg")
    (tmp_path / "e.svg").mkdir()
    with pytest.raises(InvalidInput, match=r"e.svg cannot be written: Is a directory"):
        found.plot(tmp_path / "e.svg")
