"""What an evaluation found, as text, JSON and pictures, each under the notice that it is not private."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import numpy as np

from qrelease._util.owner_only import write_for_owner
from qrelease._util.texts import aligned
from qrelease.errors import InvalidInput

NOTICE = "NOT PRIVATE: compares with the true table; do not publish"

BASELINES = ("laplace", "gaussian")
"""The names of what every mechanism is compared with."""

_UNITS = (
    "errors are parts of the table, 0.01 one record in a hundred; avg L1: summed over the cells of a marginal, or the"
    " queries about it, and the mean over these"
)

_HEADER = (
    "epsilon",
    "mechanism",
    "avg L1",
    "max",
    "RMSE",
    *(f"/{name}" for name in BASELINES),
    "seconds",
    "MiB so far",
)


@final
@dataclass(frozen=True)
class Errors:
    """Distances between true and released answers, as fractions of the table: 0.01 is one record in a hundred.

    A marginal is divided by its own sum, the true and the released one alike; answers to other queries by the true
    number of records.

    avg_l1   the mean over the workload's groups (its marginals) of Σ|p - q|: for a marginal from 0 to 2, twice its
             total variation distance
    max_abs  the largest |p - q| of all answers
    rmse     the root of the mean of (p - q)² over all answers
    """

    avg_l1: float
    max_abs: float
    rmse: float


@final
@dataclass(frozen=True)
class Run:
    """One release by one mechanism, measured. Not private.

    delta    0 under pure ε
    trial    0, 1, … of the same mechanism and ε
    seconds  wall-clock time from the charge to the answers
    peak_mb  the most memory the process has held so far, in MiB, so of this run only in a process of its own; NaN
             where the system does not tell
    """

    mechanism: str
    epsilon: float
    delta: float
    trial: int
    errors: Errors
    seconds: float
    peak_mb: float


@final
@dataclass(frozen=True, repr=False)
class Evaluation:
    """Runs of several mechanisms on one table, the baselines among them. Not private; its text is a table.

    subject  what was compared, in a line
    floor    the errors of as many rows drawn again from the true table, where they were computed: below them privacy
             costs less than the size of the table does
    bounds   by ε, the average L1 error of unbiased answers whose noise is Gaussian and as small as it can be, where
             only marginals are asked for; not where some mechanism, whose model draws answers together, did better
    skipped  by name, why a mechanism could not be run
    """

    dataset: str
    subject: str
    rows: tuple[Run, ...]
    floor: Errors | None = None
    bounds: Mapping[float, float] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    def runs(self, mechanism: str, epsilon: float) -> list[Run]:
        """The trials of a mechanism at an ε."""
        return [r for r in self.rows if (r.mechanism, r.epsilon) == (mechanism, epsilon)]

    def error(self, mechanism: str, epsilon: float) -> float:
        """The average L1 error of a mechanism at an ε, the mean over trials; NaN where it was not run."""
        return _mean([r.errors.avg_l1 for r in self.runs(mechanism, epsilon)])

    def ratio(self, mechanism: str, baseline: str, epsilon: float) -> float:
        """The average L1 error of a mechanism over that of a baseline, below 1 if it is better; NaN without either."""
        error, other = self.error(mechanism, epsilon), self.error(baseline, epsilon)
        return error / other if other else float("nan")

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The ε of the runs, in their order."""
        return tuple(dict.fromkeys(r.epsilon for r in self.rows))

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of the mechanisms, in their order."""
        return tuple(dict.fromkeys(r.mechanism for r in self.rows))

    def __str__(self) -> str:
        """Means over trials, and how the average L1 error compares with the baselines': below 1 is better."""
        body = [self._cells(m, e) for e in self.epsilons for m in self.mechanisms if self.runs(m, e)]
        trials = len({r.trial for r in self.rows})
        subject = self.subject + (f"; means of {trials} trials" if trials > 1 else "")
        lines = [NOTICE, subject, _UNITS, *aligned([_HEADER, *body], names=1)]
        lines += [f"skipped: {name}: {why}" for name, why in self.skipped.items()]
        if self.bounds:
            bounds = ", ".join(f"{bound:.4f} at epsilon={e:g}" for e, bound in self.bounds.items())
            lines.append(f"unbiased answers at the lower bound of their noise: avg L1 {bounds}")
        if self.floor:
            lines.append(f"as many rows drawn again from the table itself: avg L1 {self.floor.avg_l1:.4f}")
        return "\n".join(lines)

    __repr__ = __str__

    def _cells(self, mechanism: str, epsilon: float) -> tuple[str, ...]:
        runs = self.runs(mechanism, epsilon)
        means = Errors(*(_mean(values) for values in zip(*(astuple(r.errors) for r in runs), strict=True)))
        ratios = (self.ratio(mechanism, baseline, epsilon) for baseline in BASELINES)
        return (
            f"{epsilon:g}",
            mechanism,
            *_digits(means),
            *(_number(r, 3) for r in ratios),
            _number(_mean([r.seconds for r in runs]), 2),
            _number(max(r.peak_mb for r in runs), 0),
        )

    def to_json_lines(self, name: str = "evaluate") -> str:
        """One JSON object a line for each run and metric; `name` says what measured it."""
        return "\n".join(json.dumps(record) for run in self.rows for record in self._records(run, name))

    def _records(self, run: Run, name: str) -> Iterator[dict[str, Any]]:
        for metric, value in asdict(run.errors).items():
            yield {
                "name": name,
                "dataset": self.dataset,
                "epsilon": run.epsilon,
                "delta": run.delta,
                "mechanism": run.mechanism,
                "metric": metric,
                "value": value,
                "seconds": run.seconds,
                "peak_mb": None if math.isnan(run.peak_mb) else run.peak_mb,
                "trial": run.trial,
                "notice": NOTICE,
            }

    def plot(self, path: str | Path) -> None:
        """Draw the average L1 error against ε, both on log scales, into an SVG or PNG file; bars span the trials.

        Raises `InvalidInput` where `check_picture` does, and for a file that cannot be written.
        """
        file = check_picture(path)
        from qrelease.evaluation.figure import draw_figure  # matplotlib is an extra

        content = draw_figure(self, file.suffix[1:], NOTICE)
        try:
            write_for_owner(file, content)
        except OSError as error:
            raise InvalidInput(f"{file} cannot be written: {error.strerror}") from None


@final
@dataclass(frozen=True, repr=False)
class ReleaseScore:
    """The errors of one release's answers, and of synthetic records made from it. Not private."""

    answers: Errors
    synthetic: Errors | None = None

    def __str__(self) -> str:
        """A line for the answers, and one for the synthetic records."""
        rows = [("", *_HEADER[2:5]), ("answers", *_digits(self.answers))]
        if self.synthetic:
            rows.append(("synthetic records", *_digits(self.synthetic)))
        return "\n".join([NOTICE, _UNITS, *aligned(rows, names=0)])

    __repr__ = __str__


def check_picture(path: str | Path) -> Path:
    """A path that a picture may be drawn to.

    Raises `InvalidInput` for another suffix than .svg or .png, a missing folder, inside a folder that holds a release,
    and without a matplotlib that loads.
    """
    file = Path(path)
    if file.suffix not in (".svg", ".png"):
        raise InvalidInput(f"a picture is written as .svg or .png, got {file.name!r}")
    check_place(file)
    if find_spec("matplotlib") is None:
        raise InvalidInput("a picture needs matplotlib: pip install matplotlib")
    try:
        import matplotlib.figure  # noqa: F401
    except Exception as error:  # an installation may be broken in any way
        raise InvalidInput(f"matplotlib is installed and does not load: {' '.join(str(error).split())}") from None
    return file


def check_place(file: Path) -> None:
    """Raise `InvalidInput` for a picture in a folder that is not there, or inside one that holds a release."""
    if not file.parent.is_dir():
        raise InvalidInput(f"there is no folder {file.parent} for the picture {file.name}")
    for folder in file.resolve().parents:
        if (folder / "release.json").exists():
            raise InvalidInput(f"{folder} holds a release, and this picture is not private; choose another folder")


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _digits(errors: Errors) -> tuple[str, ...]:
    return _number(errors.avg_l1, 4), _number(errors.max_abs, 4), _number(errors.rmse, 6)


def _number(value: float, places: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{places}f}"
