"""`benchmarks.synthesizers` and its page: what others are stopped at is told, and so is where they are better.

The adapter runs with a package that stands in for dpmm, whose mechanism takes too long, too much, or neither.
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import page

for needed in ("pandas", "sklearn"):
    pytest.importorskip(needed)
synthesizers = pytest.importorskip("benchmarks.synthesizers")

STAND_IN = """
class AIMPipeline:
    def __init__(self, **options):
        pass

    def fit(self, frame, domain, random_state):
        self.frame = frame
        {body}

    def generate(self, n_records, random_state):
        return self.frame
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of 400 records, and the stand-in's place."""
    rng = np.random.default_rng(0)
    lines = [",".join(map(str, row)) for row in rng.integers(3, size=(400, 3))]
    with gzip.open(tmp_path / "small.csv.gz", "wt") as file:
        file.write("\n".join(["a,b,c", *lines]) + "\n")
    (tmp_path / "small-domain.json").write_text(json.dumps({"a": 3, "b": 3, "c": 3}))
    (tmp_path / "dpmm").mkdir()
    (tmp_path / "dpmm" / "__init__.py").write_text("")
    (tmp_path / "dpmm-0.dist-info").mkdir()
    (tmp_path / "dpmm-0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: dpmm\nVersion: 0\n")
    python = tmp_path / "python"  # of the environment of others
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return tmp_path


def line_of(folder: Path, body: str, limit: int = 60) -> page.Line:
    (folder / "dpmm" / "pipelines.py").write_text(STAND_IN.format(body=body))
    job = synthesizers.Job(folder, "small", "aim", 1.0, 0, str(folder / "python"), limit, memory=4)
    found: page.Line = synthesizers.measure(job)
    return found


def test_a_table_of_others_is_judged_as_ours(folder: Path) -> None:
    line = line_of(folder, "pass")
    assert line["l1"] == 0.0  # the very table
    assert {"cpu_seconds", "peak_mib", "real_auc", "options"} <= {*line}
    assert "failed" not in line
    assert line["version"] == "dpmm 0"
    assert line["command"].endswith("--only small --epsilon 1 --methods aim --seed 0 --limit 60 --memory 4")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of a process, as Linux has them")
def test_what_is_stopped_says_why_and_what_it_used(folder: Path) -> None:
    line = line_of(folder, "while True: pass", limit=6)
    assert line["failed"] == f"not done after {line['cpu_seconds']:.0f} CPU seconds"
    assert line["version"] == "dpmm 0"
    assert line["cpu_seconds"] >= 4
    assert line["peak_mib"] > 0
    assert page.row_of(line).startswith(f"| 1 | AIM | {line['failed']} | – | – | ")
    line = line_of(folder, "bytearray(5 * 2**30)")
    assert line["failed"] == "out of memory, at a limit of 4 GiB"
    assert "l1" not in line
    line = line_of(folder, "raise ValueError('a | b')")
    assert line["failed"] == "ValueError: a | b"
    assert "| ValueError: a \\| b | – | – |" in page.row_of(line)


def test_a_line_that_is_measured_anew_takes_its_old_place() -> None:
    lines = [
        json.dumps({"table": "t", "method": method, "epsilon": 1.0, "seed": 0, "l1": 1.0}) for method in ("aim", "mst")
    ]
    anew = json.dumps({"table": "t", "method": "aim", "epsilon": 1.0, "seed": 0, "l1": 2.0})
    other = json.dumps({"table": "t", "method": "aim", "epsilon": 10.0, "seed": 0, "l1": 2.0})
    assert synthesizers.with_line(lines, anew) == [anew, lines[1]]
    assert synthesizers.with_line(lines, other) == [*lines, other]


def row(method: str, **figures: object) -> page.Line:
    return {"table": "t", "method": method, "epsilon": 1.0, "cpu_seconds": 2.0, "peak_mib": 2.0} | figures


def test_the_page_tells_where_others_are_better() -> None:
    lines = [
        row("qrelease", l1=0.5, tstr_auc=0.7, real_auc=0.6),
        row("aim", l1=0.4, tstr_auc=0.8, real_auc=0.7, cpu_seconds=1.0),
        row("mst", l1=0.495, tstr_auc=0.705, real_auc=0.5, peak_mib=1.0),
        row("gaussian", l1=0.3),
        row("privbayes", failed="not done after 9 CPU seconds"),
        row("floor", l1=0.1, tstr_auc=0.9, real_auc=0.5),
    ]
    assert [(key, theirs["method"]) for key, theirs, _ in page.better(lines)] == [
        ("l1", "aim"),
        ("l1", "gaussian"),
        ("tstr_auc", "aim"),
        ("real_auc", "mst"),
    ]
    text = "\n".join(page.where_others_are_better(lines))
    assert "| L1 | t | 1 | AIM | 0.400 | 0.500 |" in text
    assert "Of 2 rows" in text
    assert "1 took less memory than `auto` and 1 fewer CPU seconds" in text


def test_a_row_that_was_stopped_is_no_row_that_was_not_run() -> None:
    lines = [row("qrelease", l1=0.5, epsilon=e) for e in page.EPSILONS]
    lines += [row("aim", failed="not done after 9 CPU seconds", epsilon=e) for e in page.EPSILONS[:2]]
    left = page.not_run(lines)
    assert "AIM on t (at ε = 10)" in left
    assert "MST on t" in left
    assert "qrelease" not in left
