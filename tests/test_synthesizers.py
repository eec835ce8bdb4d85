"""`benchmarks.synthesizers` and its page: what others are stopped at is told, and so is where they are better.

The adapters run with packages that stand in for dpmm, whose mechanism takes too long, too much, or neither, and for
OpenDP; and with OpenDP where it is installed with its extra.
"""

import gzip
import json
import re
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

OPENDP = """
from types import SimpleNamespace as c_or_m

import polars


def enable_features(name): assert name == "contrib"
def atom_domain(**kind): return "domain"
def absolute_distance(**kind): return "metric"
def unit_of(contributions): return contributions
def loss_of(rho): return rho
def binary_search_param(make, d_in, d_out, T): return 5.0 if make(2.0) == (2.0, d_out[1]) and d_out[0] == 1.0 else 0.0


c = c_or_m(make_zCDP_to_approxDP=lambda scale: scale, make_fix_delta=lambda scale, delta: (scale, delta))
m = c_or_m(make_gaussian=lambda domain, metric, scale: scale)
mbi = c_or_m(AIM=lambda **options: ("AIM", options), MST=lambda **options: ("MST", options))


class OpenDPException(Exception): pass


class Context:
    losses = []

    @staticmethod
    def compositor(data, privacy_unit, privacy_loss, split_evenly_over):
        assert (privacy_unit, split_evenly_over) == (1, 1)
        Context.losses.append(privacy_loss)
        found = Context()
        found.frame = data.collect()
        return found

    def query(self): return self

    def release(self):
        first, *later = Context.losses
        assert first == 0.5 / 5.0**2
        if not later:
            raise OpenDPException("insufficient budget for query")
        assert len(later) == 1 and 0.99999 * first < later[0] < first
        return self

    def select(self, *columns):
        assert columns == ("a", "b", "c")
        return self

    def contingency_table(self, cuts, algorithm):
        assert cuts == {"a": [0, 1], "b": [0, 1], "c": [0, 1]}
        assert algorithm in (("AIM", {"queries": 3, "max_size": 4.0}), ("MST", {}))
        return self

    def synthesize(self, rows, method):
        assert (rows, method) == (400, "sample")
        return self.frame.select("c", "b", "a")
"""


def stands_in(folder: Path, name: str, **files: str) -> None:
    """Put a package, with its version, where the Python of others finds it."""
    (folder / name).mkdir()
    for file, text in ({"__init__": ""} | files).items():
        (folder / name / f"{file}.py").write_text(text)
    (folder / f"{name}-0.dist-info").mkdir()
    (folder / f"{name}-0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of 400 records, and the place of what stands in."""
    rng = np.random.default_rng(0)
    lines = [",".join(map(str, row)) for row in rng.integers(3, size=(400, 3))]
    with gzip.open(tmp_path / "small.csv.gz", "wt") as file:
        file.write("\n".join(["a,b,c", *lines]) + "\n")
    (tmp_path / "small-domain.json").write_text(json.dumps({"a": 3, "b": 3, "c": 3}))
    stands_in(tmp_path, "dpmm")
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
    told = re.fullmatch(r"not done after ([\d,]+) CPU seconds", line["failed"])
    assert told is not None
    assert abs(int(told[1].replace(",", "")) - line["cpu_seconds"]) < 1  # both are rounded
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
    assert line_of(folder, """raise ValueError('told\\n")')""")["failed"] == "ValueError: told"


@pytest.mark.parametrize("method", ["aim-opendp", "mst-opendp"])
def test_a_table_of_opendp_has_the_codes_of_the_columns_by_name(folder: Path, method: str) -> None:
    pytest.importorskip("polars")
    stands_in(folder, "opendp", prelude=OPENDP)
    stands_in(folder, "jax", monitoring="register_event_duration_secs_listener = print")
    stands_in(folder, "mbi")
    (folder / "jax" / "__init__.py").write_text("from jax import monitoring")
    line = synthesizers.measure(synthesizers.Job(folder, "small", method, 1.0, 0, str(folder / "python"), 60, memory=4))
    assert "failed" not in line
    assert line["l1"] == 0.0  # the very table, whose columns came in another order
    assert line["version"] == "OpenDP 0, mbi 0"
    assert line["tries"] == 2  # the first one's budget was too small by a rounding
    assert {"cpu_seconds", "compile_seconds", "peak_mib"} <= {*line}
    assert f"--methods {method} " in line["command"]


def test_opendp_keeps_what_a_table_shows_where_noise_is_small(folder: Path) -> None:
    pytest.importorskip("mbi")
    pytest.importorskip("opendp.extras.mbi")
    job = synthesizers.Job(folder, "small", "mst-opendp", 100.0, 0, sys.executable, 600)
    line = synthesizers.measure(job)
    assert "failed" not in line
    # Codes that were shifted or cut wrongly, or noise of another budget, would move tens of records.
    assert line["l1"] < 0.3


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
