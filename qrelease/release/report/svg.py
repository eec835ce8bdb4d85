"""Small pictures for the report: plain numbers and labels in, one self-contained `<svg>` out.

They use the classes of `report.css` for colour, so that they follow a dark page and print. Labels are untrusted text:
everything that is not a number passes through `text`.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qrelease._util.typing import Floats

_WIDTH = 460
_ROW = 21
_LABELS = 150  # room for labels on the left of bars
_VALUES = 64  # and for values on the right
_LETTER = 6.4  # the mean width of a letter of 12 pixels, to cut labels by
_DIGIT = 7.2  # the width of a digit of 12 pixels
_HEIGHT = 130  # of a histogram
_SHADES = ("#4a7fb5", "#c9803a", "#5d9153", "#9a6fb0", "#8a8a8a")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def text(value: object) -> str:
    """Any value as text for HTML, inside or outside quotes; what no page can hold shows as U+FFFD."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(value)))


def count(value: float) -> str:
    """A count as people read it: `12,345`, and `3.4` where a tenth is visible."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:,.1f}"


@dataclass(frozen=True)
class Series:
    """One column's counts by cell: what the model says, and what was measured.

    labels    one a cell
    values    (k,) the model's counts
    measured  (k,) noisy answers, NaN where none
    widths    (k,) the half-widths of their error bars, NaN where none
    edges     (k + 1,) where the cells begin and end, if they are bins; of unequal ones the density is drawn
    """

    labels: tuple[str, ...]
    values: Floats
    measured: Floats
    widths: Floats
    edges: Floats | None = None

    @property
    def limit(self) -> float:
        """The upper end of the axis: all values, and error bars up to twice the largest of them."""
        values = np.fmax(self.values, np.nan_to_num(self.measured))
        bars = np.fmax(values, np.nan_to_num(self.measured + self.widths))
        return max(float(min(bars.max(), 2 * values.max())), 1e-9)

    @property
    def density(self) -> Series:
        """The heights per bin of the mean width."""
        if self.edges is None:
            return self
        sizes = np.diff(self.edges)
        share = sizes.mean() / sizes
        return Series(self.labels, self.values * share, self.measured * share, self.widths * share, self.edges)


def bar(shares: Mapping[str, float]) -> str:
    """Parts of a whole side by side, with a key; the shares sum to 1."""
    shades = {name: _SHADES[i % len(_SHADES)] for i, name in enumerate(shares)}
    parts = (f'<span style="width:{s:.2%};background:{shades[n]}"></span>' for n, s in shares.items())
    keys = (
        f'<li><span class="key" style="background:{shades[n]}"></span>{text(n)} {s:.0%}</li>' for n, s in shares.items()
    )
    return f'<div class="parts" aria-hidden="true">{"".join(parts)}</div><ul class="keys">{"".join(keys)}</ul>'


def bars(title: str, series: Series) -> str:
    """Horizontal bars, one a cell, labelled on the left, with the count on the right."""
    room = _WIDTH - _LABELS - max(_VALUES, 10 + _DIGIT * max(len(count(v)) for v in series.values.tolist()))
    scale = room / series.limit
    rows = []
    for i, label in enumerate(series.labels):
        y = i * _ROW
        value = max(float(series.values[i]), 0.0)
        rows.append(
            f'<text x="{_LABELS - 6}" y="{y + 15}" text-anchor="end">{_cut(label, _LABELS - 6)}</text>'
            f'<rect class="bar" x="{_LABELS}" y="{y + 3}" width="{value * scale:.1f}" height="{_ROW - 6}">'
            f"<title>{text(label)}: {count(value)}</title></rect>"
            f'<text class="value" x="{_WIDTH}" y="{y + 15}" text-anchor="end">{count(series.values[i])}</text>'
        )
        if not math.isnan(series.measured[i]):
            rows.append(_whisker(series.measured[i], series.widths[i], scale, room, y + _ROW / 2))
    return _svg(_summary(title, series), len(series.labels) * _ROW, "".join(rows))


def _whisker(measured: float, width: float, scale: float, room: float, y: float) -> str:
    """A dot at a noisy answer and a line along its error bar, as far as the axis goes."""
    dot, low, high = (_LABELS + min(max(v * scale, 0), room) for v in (measured, measured - width, measured + width))
    return (
        f'<path class="error" d="M{low:.1f} {y}H{high:.1f}"/><circle class="dot" cx="{dot:.1f}" cy="{y}" r="2.5">'
        f"<title>measured {count(measured)} ± {count(width)}</title></circle>"
    )


def histogram(title: str, series: Series) -> str:
    """A stepped area over cells in their order, with the error bars of the measured answers as a band.

    The area of a bin is in proportion to its count, and its width to that of the bin.
    """
    k = len(series.labels)
    edges = np.linspace(0.0, 1.0, k + 1) if series.edges is None else series.edges
    x = _WIDTH * (edges - edges[0]) / (edges[-1] - edges[0])
    drawn = series.density

    def level(values: Floats) -> Floats:
        return _HEIGHT * (1 - np.clip(values / drawn.limit, 0, 1))

    shapes = [f'<path class="bar" d="{_steps(x, level(drawn.values), _HEIGHT)}"/>']
    if not np.isnan(series.measured).any():
        low, high = (level(drawn.measured + sign * drawn.widths) for sign in (-1, 1))
        shapes.append(f'<path class="band" d="{_steps(x, high, low)}"/>')
    center = min(max(int(np.searchsorted(x, _WIDTH / 2, "right")) - 1, 0), k - 1)
    places = {
        k - 1: (_WIDTH, "end"),
        0: (0.0, "start"),
    }  # each cell once, also where a wide one reaches over the middle
    places.setdefault(center, (_WIDTH / 2, "middle"))
    shapes += [
        f'<text x="{at}" y="{_HEIGHT + 16}" text-anchor="{anchor}">{_cut(series.labels[i], _WIDTH / 3)}</text>'
        for i, (at, anchor) in places.items()
    ]
    return _svg(_summary(title, series), _HEIGHT + 22, "".join(shapes))


def _steps(x: Floats, top: Floats, bottom: Floats | float) -> str:
    """The outline of an area: along the tops of the cells, and back along the bottoms. x (k + 1,), top (k,)."""
    floor = np.broadcast_to(bottom, top.shape)
    there = "".join(f"L{a:.1f} {y:.1f}L{b:.1f} {y:.1f}" for a, b, y in zip(x, x[1:], top, strict=False))
    back = "".join(
        f"L{b:.1f} {y:.1f}L{a:.1f} {y:.1f}" for a, b, y in zip(x[-2::-1], x[:0:-1], floor[::-1], strict=True)
    )
    return f"M{there[1:]}{back}Z"


def heat(title: str, rows: Sequence[str], columns: Sequence[str], shares: Floats) -> str:
    """Shares (r, c) within each row as shades, darker for more; the number stands in the cell where it has room.

    A row of NaN is left blank.
    """
    r, c = shares.shape
    wide = (_WIDTH - _LABELS) / c
    cells = []
    for i, j in np.argwhere(~np.isnan(shares)).tolist():
        share = float(shares[i, j])
        cells.append(
            f'<rect class="heat" x="{_LABELS + j * wide:.1f}" y="{_ROW * i}" width="{wide - 1:.1f}"'
            f' height="{_ROW - 1}" fill-opacity="{0.04 + 0.9 * share:.2f}">'
            f"<title>{text(rows[i])} → {text(columns[j])}: {share:.0%}</title></rect>"
        )
        if wide > 30 and share >= 0.005:
            cells.append(
                f'<text x="{_LABELS + (j + 0.5) * wide:.1f}"'
                f' y="{_ROW * i + 15}" text-anchor="middle">{share:.0%}</text>'
            )
    names = [
        f'<text x="{_LABELS - 6}" y="{_ROW * i + 15}" text-anchor="end">{_cut(name, _LABELS - 6)}</text>'
        for i, name in enumerate(rows)
    ]
    flat = wide > 60
    turn, anchor, room = ("", "middle", wide - 6) if flat else (" rotate(-55)", "end", 90)
    names += [
        f'<text transform="translate({_LABELS + (j + 0.5) * wide:.1f} {_ROW * r + (16 if flat else 8)}){turn}"'
        f' text-anchor="{anchor}">{_cut(name, room)}</text>'
        for j, name in enumerate(columns)
    ]
    return _svg(title, _ROW * r + (22 if flat else 84), "".join(cells + names))


def _summary(title: str, series: Series) -> str:
    """What a listener should know of a picture: the largest cells."""
    largest = np.argsort(-series.values, kind="stable")[:3]
    return f"{title}: " + ", ".join(f"{series.labels[i]} {count(series.values[i])}" for i in largest)


def _cut(label: str, room: float) -> str:
    """A label that fits, in pixels; the whole of it shows when pointed at."""
    most = max(int(room / _LETTER), 2)
    if len(label) <= most:
        return text(label)
    return f"{text(label[: most - 1])}…<title>{text(label)}</title>"


def _svg(description: str, height: float, content: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}" role="img"'
        f' aria-label="{text(description)}">{content}</svg>'
    )
