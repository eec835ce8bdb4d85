"""diffprivlib as a rival: here where it imports, or in another Python that has it, as it needs an older scikit-learn.

    python -m venv dpl && dpl/bin/pip install diffprivlib "scikit-learn<1.6" "numpy<2.2"
    python -m benchmarks.statistics --data DIR --diffprivlib dpl/bin/python

Run as a file it is the other side: it reads a path of an .npz a line, and prints a line of JSON for each.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

VARIABLE = "QRELEASE_DIFFPRIVLIB"
"""The environment variable that names a Python with diffprivlib."""


def missing() -> str | None:
    """Why diffprivlib cannot be run; None where it can."""
    return (
        None
        if _worker()
        else f"diffprivlib does not import in {_python()}: give one where it does, --diffprivlib PYTHON"
    )


def means(codes: Any, cells: int, epsilon: float, runs: int) -> list[float]:
    """Its `mean`, which takes n as public."""
    return _asked(kind="mean", codes=codes, cells=cells, epsilon=epsilon, runs=runs)


def logistic_scores(rows: Any, yes: Any, test: Any, norm: float, epsilon: float) -> list[float]:
    """Decisions of its logistic regression (objective perturbation, pure ε) on rows of at most that length."""
    return _asked(kind="logistic", rows=rows, yes=yes, test=test, norm=norm, epsilon=epsilon)


def _python() -> str:
    return os.environ.get(VARIABLE, sys.executable)


@cache
def _worker() -> "subprocess.Popen[str] | None":
    process = subprocess.Popen(
        [_python(), __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    return process if process.stdout.readline() == "ready\n" else None


def _asked(**job: Any) -> list[float]:
    worker = _worker()
    assert worker is not None
    assert worker.stdin is not None
    assert worker.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.npz"
        np.savez(path, **job)
        worker.stdin.write(f"{path}\n")
        worker.stdin.flush()
        found: list[float] = json.loads(worker.stdout.readline())
    return found


def _answered(job: Any) -> list[float]:
    """On the other side."""
    import warnings

    warnings.simplefilter("ignore")
    epsilon = float(job["epsilon"])
    if job["kind"] == "mean":
        from diffprivlib.tools import mean

        bounds = (0, int(job["cells"]) - 1)
        codes = job["codes"]
        return [float(mean(codes, epsilon=epsilon, bounds=bounds, random_state=s)) for s in range(int(job["runs"]))]
    from diffprivlib.models import LogisticRegression

    model = LogisticRegression(epsilon=epsilon, data_norm=float(job["norm"]), fit_intercept=False, random_state=0)
    model.fit(job["rows"], job["yes"])
    return list(map(float, model.decision_function(job["test"])))


if __name__ == "__main__":
    import diffprivlib  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_answered(np.load(line.strip()))), flush=True)
