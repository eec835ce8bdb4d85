"""The picture of an evaluation: error against ε, drawn with matplotlib, which is an extra and loads on first need."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from qrelease.evaluation.results import Evaluation

# Okabe & Ito 2008: told apart with any of the common colour blindnesses, and by their markers in black and white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vP*"

_STYLE: Any = {
    "svg.hashsalt": "qrelease",  # the same names for the same shapes in each run
    "svg.fonttype": "none",  # text stays text, to be searched and read aloud
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw_figure(evaluation: Evaluation, suffix: str, notice: str) -> bytes:
    """An SVG or PNG file, the same bytes for the same evaluation under one version of matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 4.4), layout="constrained", facecolor="white")
        axes = figure.subplots()
        for i, mechanism in enumerate(evaluation.mechanisms):
            _line(axes, evaluation, mechanism, _COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)])
        _frame(axes, evaluation)
        figure.suptitle(notice, color="#B00020", fontweight="bold", fontsize=11)
        file = BytesIO()
        figure.savefig(file, format=suffix, dpi=150, metadata={"Date": None} if suffix == "svg" else None)
    return file.getvalue()


def _line(axes: Axes, evaluation: Evaluation, mechanism: str, colour: str, marker: str) -> None:
    """The mean error of one mechanism at each ε, and the span of its trials."""
    trials = {e: [r.errors.avg_l1 for r in evaluation.runs(mechanism, e)] for e in sorted(evaluation.epsilons)}
    ran = [e for e, errors in trials.items() if errors]
    means = [evaluation.error(mechanism, e) for e in ran]
    below = [mean - min(trials[e]) for e, mean in zip(ran, means, strict=True)]
    above = [max(trials[e]) - mean for e, mean in zip(ran, means, strict=True)]
    axes.errorbar(ran, means, [below, above], label=mechanism, color=colour, marker=marker, capsize=3)


def _frame(axes: Axes, evaluation: Evaluation) -> None:
    """Scales, labels, the lower bound, and the floor."""
    from matplotlib.ticker import LogLocator, NullLocator

    if evaluation.floor:
        label = "as many rows drawn again"
        axes.axhline(evaluation.floor.avg_l1, color="#666666", linestyle=":", label=label)
    if evaluation.bounds:
        epsilons = sorted(evaluation.bounds)
        bounds = [evaluation.bounds[e] for e in epsilons]
        axes.plot(epsilons, bounds, color="#000000", linestyle="--", label="unbiased answers at the lower bound")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(evaluation.epsilons, [f"{e:g}" for e in evaluation.epsilons])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("epsilon: less is more private")
    axes.set_ylabel("average L1 error: less is better")
    axes.set_title(evaluation.subject, fontsize=8, wrap=True)
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
