"""A quality report as one self-contained page, in the style of a release's report, marked as not private."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from qrelease._util.owner_only import write_for_owner
from qrelease._util.typing import Axes, Floats
from qrelease.data.table import Table
from qrelease.evaluation.quality.marginals import cell_counts
from qrelease.evaluation.quality.quality import Beside, Quality, as_good, sets_looked_at
from qrelease.release.report.page import document
from qrelease.release.report.svg import Series, bars, heat, text
from qrelease.release.report.tables import html_table

_CELLS, _SIDE = 16, 12  # bars of a column, and rows and columns of a heat map
_HEADER = {"": False, "synthetic": True, "sampling floor": True, "independent columns": True}
_SECOND = {"": False, "synthetic": True, "a second real sample": True, "independent columns": True}


def write_page(found: Quality, folder: Path) -> None:
    """`quality.html` and `quality.json`, into an existing folder, for their owner alone."""
    write_for_owner(folder / "quality.html", html(found).encode())
    write_for_owner(folder / "quality.json", f"{found.to_json_text()}\n".encode())


def html(found: Quality) -> str:
    """The page."""
    parts = (_head, _published, _scores, _numbers, _worst, _together, _models, _copies, _left_out)
    return document(f"Quality of “{text(found.name)}”", "".join(part(found) for part in parts))


def _head(found: Quality) -> str:
    three = found.k_marginal[max(k for k in found.k_marginal if k <= 3)]
    facts = {
        "k-marginal score of 1000": f"{three.synthetic:.0f}",
        "sampling floor": f"{three.floor:.0f}",
        "independent columns": f"{three.independent:.0f}",
        "real records": f"{len(found.real):,}",
        "synthetic records": f"{len(found.synthetic):,}",
    }
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    lead = "" if found.subsample is None else f'<p class="lead">It is {as_good(found.subsample)}.</p>'
    return (
        '<p class="alarm" role="alert"><strong>NOT PRIVATE: do not publish this page.</strong><br>It compares with the'
        " true table, without noise. It is for those who may see the table. <code>qrelease score</code> gives its"
        f" main figures with noise, which may be published, for a charge.</p><h1>Quality of “{text(found.name)}”</h1>"
        f'{lead}<dl class="facts">{items}</dl>'
        "<p>Every figure stands beside two others. The sampling floor is that of as many records drawn anew from the"
        " real ones: so far off is another sample, too. Independent columns are those of records of which each"
        " value was drawn by itself from its column, so that nothing goes together: a table that is no better tells"
        " of single columns alone.</p>"
    )


def _published(found: Quality) -> str:
    """What was published of a release, against the real table; nothing of a table alone."""
    if not found.published:
        return ""
    header = {"published": False, "lines": True, "RMSE": True, "median bar": True, "bars that hold": True, "": False}
    rows = [
        (
            text(p.what),
            f"{p.lines:,}",
            _short(p.rmse),
            _short(p.bar),
            f"{p.within:.1%} of {p.bars:,}" if p.bars else "",
            text(p.note),
        )
        for p in found.published
    ]
    return (
        "<h2>How far off what was published is</h2><p>The answers and numbers of the release against those of the real"
        " table, which are not private. RMSE is the root mean square of the errors; a bar is what the release states"
        " around a number for 19 of 20 times, half of its width, and the last column says how many bars hold the real"
        " number. Those of one release share their noise, so that the share may be some percent off 95 %.</p>"
        f"{html_table(header, rows)}"
    )


def _short(value: float) -> str:
    return "" if math.isnan(value) else f"{value:,.4g}"


def _row(name: str, beside: Beside, digits: int) -> tuple[str, ...]:
    return name, *(_number(v, digits) for v in (beside.synthetic, beside.floor, beside.independent))


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:,.{digits}f}"


def _scores(found: Quality) -> str:
    columns, rows = len(found.real.domain), []
    for k, beside in found.k_marginal.items():
        every, looked = math.comb(columns, k), len(sets_looked_at(columns, k))
        sets = f"all {every:,} sets" if looked == every else f"{looked:,} of {every:,} sets, drawn at random"
        rows.append(_row(f"{k} column{'s' * (k > 1)}, {sets}", beside, 1))
    return (
        "<h2>k-marginal scores</h2><p>For sets of k columns, the mean d of the L1 distances between the densities of"
        " the two tables; the score is (2 − d) · 500, as NIST’s Collaborative Research Cycle defines it: 1000 for equal"
        " tables. Where there are too many sets, some are drawn at random, always the same ones; quality.json names"
        " them.</p>"
        f"{html_table(_HEADER, rows)}"
    )


def _numbers(found: Quality) -> str:
    """Means and standard deviations; nothing without a column of numbers."""
    if not found.numbers:
        return ""
    header = {"column": False, "mean, synthetic": True, "mean, real": True, "SD, synthetic": True, "SD, real": True}
    rows = [[text(n.column), *(f"{v:.6g}" for v in (*n.mean[::-1], *n.deviation[::-1]))] for n in found.numbers]
    return f"<h2>Means and standard deviations</h2>{html_table(header, rows)}"


def _worst(found: Quality) -> str:
    """The tables that are furthest off, drawn: bars are the synthetic table, dots the real one."""
    names = found.real.domain.names
    singles = [_column(found, names.index(w.columns[0])) for w in found.worst.get(1, ())]
    pairs = [_pair(found, (names.index(w.columns[0]), names.index(w.columns[1]))) for w in found.worst.get(2, ())[:3]]
    header = {"columns": False, **{k: v for k, v in _HEADER.items() if k}}
    rows = [_row(" × ".join(map(text, w.columns)), w.distance, 4) for k in sorted(found.worst) for w in found.worst[k]]
    return (
        "<h2>Single columns and pairs that are furthest off</h2><p>By the L1 distance of densities, from 0 to 2.</p>"
        f"{html_table(header, rows)}<p>Single columns: bars are synthetic records, dots the real ones, per 1000.</p>"
        f'<div class="cards">{"".join(singles)}</div>'
        "<p>Pairs: how each row of cells is spread over the columns of the picture, real beside synthetic.</p>"
        f'<div class="cards">{"".join(pairs)}</div>'
    )


def _column(found: Quality, axis: int) -> str:
    attribute = found.real.domain.attributes[axis]
    real, synthetic = _per_thousand(found, (axis,))
    order = np.sort(np.argsort(-(real + synthetic), kind="stable")[:_CELLS])
    labels = tuple(attribute.labels[i] or "(missing)" for i in order)
    nothing = np.zeros(len(order))
    series = Series(labels, synthetic[order], real[order], nothing)
    note = (
        f" <span class=note>the {_CELLS} largest of {attribute.size:,} cells</span>" if attribute.size > _CELLS else ""
    )
    return f"<figure><h3>{text(attribute.name)}{note}</h3>{bars(attribute.name, series)}</figure>"


def _per_thousand(found: Quality, axes: Axes) -> list[Floats]:
    """The counts per thousand of both tables, in all cells of a small marginal."""
    tables: Sequence[Table] = (found.real, found.synthetic)
    return [1000 * counts / len(t) for counts, t in zip(cell_counts(tables, axes), tables, strict=True)]


def _pair(found: Quality, axes: Axes) -> str:
    domain = found.real.domain
    if domain.cells(axes) > 1 << 20:
        return ""
    shape = [domain.shape[a] for a in axes]
    both = [t.reshape(shape) for t in _per_thousand(found, axes)]
    if shape[0] < shape[1]:
        axes, both = axes[::-1], [t.T for t in both]
    down, across = (domain.attributes[a] for a in axes)
    rows = np.sort(np.argsort(-both[0].sum(axis=1), kind="stable")[:_SIDE])
    columns = np.sort(np.argsort(-both[0].sum(axis=0), kind="stable")[:_SIDE])
    pictures = []
    for name, counts in zip(("real", "synthetic"), both, strict=True):
        totals = counts.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            shares = np.where(totals > 0, counts / totals, np.nan)[np.ix_(rows, columns)]
        title = f"{across.name} by {down.name}, {name}"
        picture = heat(title, [down.labels[i] for i in rows], [across.labels[i] for i in columns], shares)
        pictures.append(f"<h3>{text(title)}</h3>{picture}")
    return f"<figure>{''.join(pictures)}</figure>"


def _together(found: Quality) -> str:
    gaps = [
        _row("mean gap of correlations (ordered columns, and those of two cells)", found.correlation, 4),
        _row("mean gap of covariances, in the table’s standard deviations", found.covariance, 4),
        _row("mean gap of Cramér’s V (all pairs)", found.association, 4),
        _row("mean gap of dependence: how far pairs are from independent, in total variation", found.dependence, 4),
    ]
    pairs = [(text(a), text(b), f"{real:.3f}", f"{ours:.3f}") for a, b, real, ours in found.associated]
    header = {"first": False, "second": False, "real": True, "synthetic": True}
    parts = [f"<h2>What goes together</h2>{html_table(_HEADER, gaps)}<p>Cramér’s V that is furthest off:</p>"]
    parts.append(html_table(header, pairs))
    for r in found.regressed:
        listed = [(text(n), f"{v:.4g} ± {w:.2g}", f"{o:.4g} ± {x:.2g}") for n, v, w, o, x in r.coefficients]
        parts.append(
            f"<h3>Regression of the codes of {text(r.target)}</h3><p>Least squares with 95 % intervals (HC1)."
            f" {r.within:.0%} of the synthetic coefficients lie within the real table’s intervals; the mean overlap of"
            f" intervals is {r.overlap.synthetic:.3f}, of the sampling floor {r.overlap.floor:.3f}, of independent"
            f" columns {r.overlap.independent:.3f}.</p>"
        )
        parts.append(html_table({"column": False, "real": True, "synthetic": True}, listed))
    return "".join(parts)


def _models(found: Quality) -> str:
    if found.told is None:
        return ""
    told = [
        (
            "AUC of boosted trees that tell them from the real table: 0.5 if they cannot",
            *(f"{each.auc:.3f}" for each in found.told),
        ),
        ("pMSE of a logistic regression on columns and pairs of them", *(f"{each.pmse:.5f}" for each in found.told)),
        ("as a multiple of what chance gives", *(f"{each.pmse_ratio:.2f}" for each in found.told)),
    ]
    trained = {"trained on": False, "real": True, "synthetic": True, "independent columns": True}
    rows = []
    for f in found.learned:
        each = (f.from_real, f.from_synthetic, f.from_independent)
        rows.append((f"{text(f.target)}: AUC", *(f"{auc:.3f}" for auc, _ in each)))
        rows.append((f"{text(f.target)}: accuracy", *(f"{right:.3f}" for _, right in each)))
    foretold = (
        f"<p>Foretelling a column of real records that no model saw:</p>{html_table(trained, rows)}" if rows else ""
    )
    return f"<h2>What models make of it</h2>{html_table(_SECOND, told)}{foretold}"


def _copies(found: Quality) -> str:
    if found.copied is None:
        return ""
    named: Mapping[str, Sequence[float]] = {
        "unique real records that are among them": [each.unique for each in found.copied],
        "5 % of nearest distances are below": [each.nearest_low for each in found.copied],
        "half of nearest distances are below": [each.nearest_median for each in found.copied],
        "nearest distances that are 0": [each.same for each in found.copied],
    }
    rows = [(name, *(f"{value:.4f}" for value in values)) for name, values in named.items()]
    return (
        "<h2>Copies</h2><p>The real table is halved at random; synthetic records are compared with the first half as"
        " the second half is. Where they match more of it than the second half does, they may be copies. These figures"
        " prove nothing about privacy: that is what the release’s guarantee is for.</p>"
        f"{html_table(_SECOND, rows)}"
    )


def _left_out(found: Quality) -> str:
    items = "".join(f"<li>{text(reason)}</li>" for reason in found.skipped)
    skipped = f"<h2>What was skipped</h2><ul>{items}</ul>" if items else ""
    return f"{skipped}<p class=note>Computed in {found.seconds:.0f} s. The same figures are in quality.json.</p>"
