"""Pictures of what the statistics show: drawn from the sections of the benchmark, which run first.

    python -m benchmarks.statistics.pictures --out docs [--quick] [--only regions,means]

`regions.svg`: which form of the median has the least rank error, by n and ε. `means.svg`: the mean square error of the
means of d signs against n and d, beside its rate and its lower bound.
"""

import argparse
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks.statistics import quantiles, vectors
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


PICTURES = {"regions": regions, "means": means}


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
