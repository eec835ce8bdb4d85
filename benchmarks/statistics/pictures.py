"""Pictures of what the statistics show: drawn from the sections of the benchmark, which run first.

    python -m benchmarks.statistics.pictures --out docs [--quick] [--only regions,powers]

- `regions.svg`: which form of the median has the least rank error, by n and ε.
- `means.svg`: the mean square error of the means of d signs against n and d, beside its rate and its lower bound.
- `powers.svg`: how often tests reject what holds, and what does not, along n.
- `refusals.svg`: how often propose-test-release refuses along n, and its error where it does not.
"""

import argparse
import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks.statistics import quantiles, stable, testers, vectors
from benchmarks.statistics.setting import Row, Setting

STYLE: Any = {
    "svg.hashsalt": "qrelease",
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# Okabe & Ito 2008: told apart with any of the common colour blindnesses.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
MARKERS = "osD^v"


def regions(setting: Setting) -> bytes:
    """One cell for each n and ε, in the colour and with the mark of the best form of the median."""
    rows = list(quantiles.regions(setting))
    ns, epsilons = (sorted({row[key] for row in rows}) for key in ("n", "epsilon"))
    figure, axes = _figure(7.2, 3.8)
    for form, colour, mark in zip(quantiles.medians_at(1.0), COLOURS, MARKERS, strict=True):
        won = [row for row in rows if row["best"] == form]
        places = [ns.index(r["n"]) for r in won], [epsilons.index(r["epsilon"]) for r in won]
        axes.scatter(*places, s=420, marker=mark, color=colour, label=f"{form} ({len(won)})")
    for row in rows:
        place = ns.index(row["n"]), epsilons.index(row["epsilon"])
        axes.annotate(f"{row['over exponential']:.2g}", place, ha="center", va="center", color="white", fontsize=7)
    axes.set_xticks(range(len(ns)), [f"{n:,}" for n in ns])
    axes.set_yticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
    axes.margins(0.12)
    axes.set_xlabel("records")
    axes.set_ylabel("epsilon (delta = 1e-6 where one is needed)")
    axes.set_title("The best form of the median; in it, its error over that of the exponential mechanism", fontsize=9)
    axes.legend(frameon=False, bbox_to_anchor=(1.02, 1), loc="upper left", markerscale=0.4, fontsize=8)
    return _file(figure)


def means(setting: Setting) -> bytes:
    """Two panels: against n at d = 20, and against d at n = 1000."""
    rows = [row for row in vectors.section("vector-means")(setting) if "rate" in row]
    figure, (left, right) = _figure(9.6, 3.8, 2)
    for axes, along, fixed in ((left, "n", ("d", 20)), (right, "d", ("n", 1000))):
        kept: Sequence[Row] = sorted((r for r in rows if r[fixed[0]] == fixed[1]), key=lambda r: float(r[along]))
        for name, label, mark in (
            ("box", "TruncatedMean", "o-"),
            ("ball", "VectorMean", "s-"),
            ("rate", "rate, d/n + d²/(n²ρ)", "k:"),
            ("bound", "lower bound", "k--"),
        ):
            axes.plot([r[along] for r in kept], [r[name] for r in kept], mark, markersize=4, label=label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(along)
        axes.set_title(f"{fixed[0]} = {fixed[1]}, rho = 0.01", fontsize=10)
        axes.grid(color="#DDDDDD", linewidth=0.6)
    left.set_ylabel("mean square error of the means of d signs")
    right.legend(frameon=False)
    return _file(figure)


def powers(setting: Setting) -> bytes:
    """Two panels: tests of columns of d = 10, and of two categories."""
    figure, (left, right) = _figure(9.6, 3.8, 2)
    rows = list(testers.powers(setting))
    for test, colour in zip(dict.fromkeys(row["test"] for row in rows), COLOURS, strict=False):
        _levels(left, [r for r in rows if r["test"] == test], ("level", "power"), test, colour)
    rows = [row for row in vectors.section("chi-squared")(setting) if "fit level" in row]
    _levels(right, rows, ("level", "power"), "independence", COLOURS[0])
    _levels(right, rows, ("uncorrected",), "independence, noise ignored", COLOURS[1])
    _levels(right, rows, ("fit level",), "fit", COLOURS[2])
    for axes, title in ((left, "norm 0.5 of 10 means, ε = 1, δ = 1e-6"), (right, "χ², 3 × 2 cells, ε = 0.2")):
        axes.axhline(0.05, color="#888888", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlabel("records")
        axes.set_title(title, fontsize=10)
        axes.legend(frameon=False, fontsize=8)
    left.set_ylabel("share rejected; dotted: where nothing is wrong")
    return _file(figure)


def _levels(axes: Any, rows: Sequence[Row], keys: tuple[str, ...], label: str, colour: str) -> None:
    """Shares of rejections along n: solid where the hypothesis is false, dotted where it holds."""
    for key in keys:
        style, said = ("o-", label) if key == "power" else ("o:", "" if len(keys) > 1 else label)
        axes.plot([r["n"] for r in rows], [r[key] for r in rows], style, color=colour, markersize=4, label=said)


def refusals(setting: Setting) -> bytes:
    """Two panels: how often it refuses, and the error of what it releases."""
    rows = list(stable.refusals(setting))
    figure, (left, right) = _figure(9.6, 3.4, 2)
    for name, colour, mark in zip(("median", "mean"), COLOURS, MARKERS, strict=False):
        for axes, key in ((left, "refused"), (right, "rmse")):
            shown = [r for r in rows if math.isfinite(r[f"{name} {key}"])]
            points = [r["n"] for r in shown], [r[f"{name} {key}"] for r in shown]
            axes.plot(*points, f"{mark}-", color=colour, markersize=4, label=name)
    for axes, what in ((left, "share refused"), (right, "root mean square error, steps")):
        axes.set_xscale("log")
        axes.set_xlabel("records")
        axes.set_ylabel(what)
        axes.grid(color="#DDDDDD", linewidth=0.6)
    right.set_ylim(bottom=0)
    right.legend(frameon=False)
    return _file(figure)


PICTURES = {"regions": regions, "means": means, "powers": powers, "refusals": refusals}


def _figure(width: float, height: float, panels: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    return figure, figure.subplots(1, panels)


def _file(figure: Any) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def main() -> None:
    """Write the pictures."""
    import matplotlib as mpl

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    parser.add_argument("--quick", action="store_true", help="fewer runs and sizes")
    parser.add_argument("--only", default=",".join(PICTURES), help="pictures, as a,b")
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        with mpl.rc_context(STYLE):
            (arguments.out / f"{name}.svg").write_bytes(PICTURES[name](Setting(None, arguments.quick)))
        print(f"wrote {arguments.out / name}.svg")


if __name__ == "__main__":
    main()
