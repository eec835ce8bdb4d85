"""The picture of a study: what share of a secret was recovered from each kind of answers, as one SVG file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from qrelease.errors import InvalidInput
from qrelease.evaluation.results import check_place
from qrelease.release.report.svg import text

_WIDTH: Final = 860
_LABELS: Final = 340
_LETTER: Final = 7.5
"""About what a letter of a label takes; of the title it is `_LARGE_LETTER`."""

_LARGE_LETTER: Final = 9.2
_VALUES: Final = 64
_ROW: Final = 30
_TOP: Final = 70
_DASHES: Final = ("6 4", "2 3", "10 3 2 3")

_STYLE: Final = (
    "text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1d2126}"
    ".notice{fill:#b00020;font-weight:bold}.title{font-size:16px;font-weight:600}.open{fill:#b5533c}.safe{fill:#4a7fb5}.mark{stroke:#1d2126;stroke-width:1.5}"
)


@final
@dataclass(frozen=True)
class Bar:
    """One kind of answers: its name, the fraction recovered, and whether it is the private one."""

    label: str
    share: float
    safe: bool = False


def draw_picture(title: str, bars: Sequence[Bar], marks: Mapping[str, float], notice: str) -> str:
    """An SVG file: a bar for each kind of answers, and a dashed line for each share that may be had without them."""
    labels = max([_LABELS, *(math.ceil(20 + _LETTER * len(bar.label)) for bar in bars)])
    room = _WIDTH - _LABELS - _VALUES
    width = max(labels + room + _VALUES, math.ceil(24 + _LARGE_LETTER * len(title)))
    bottom = _TOP + _ROW * len(bars)
    height = bottom + 16 + 22 * len(marks)
    parts = [
        f'<text class="notice" x="12" y="24">{text(notice)}</text>',
        f'<text class="title" x="12" y="50">{text(title)}</text>',
    ]
    for i, bar in enumerate(bars):
        y, long = _TOP + _ROW * i, room * bar.share
        parts.append(
            f'<text x="{labels - 8}" y="{y + 20}" text-anchor="end">{text(bar.label)}</text>'
            f'<rect class="{"safe" if bar.safe else "open"}" x="{labels}" y="{y + 4}" width="{long:.1f}"'
            f' height="{_ROW - 8}"/><text x="{labels + long + 6:.1f}" y="{y + 20}">{bar.share:.1%}</text>'
        )
    for i, (name, share) in enumerate(marks.items()):
        x, y = labels + room * share, bottom + 24 + 22 * i
        line = f'class="mark" stroke-dasharray="{_DASHES[i % len(_DASHES)]}"'
        parts.append(
            f'<path {line} d="M{x:.1f} {_TOP}V{bottom}"/><path {line} d="M12 {y - 5}H60"/>'
            f'<text x="70" y="{y}">{text(name)}: {share:.1%}</text>'
        )
    said = "; ".join(f"{bar.label} {bar.share:.1%}" for bar in bars)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{text(f"{notice}. {title}: {said}")}"><style>{_STYLE}</style>'
        f'<rect width="{width}" height="{height}" fill="#fdfdfb"/>{"".join(parts)}</svg>\n'
    )


def check_svg(path: str | Path) -> Path:
    """A path that a picture of a study may be drawn to.

    Raises `InvalidInput` for another suffix than .svg, a missing folder, and inside a folder that holds a release.
    """
    file = Path(path)
    if file.suffix != ".svg":
        raise InvalidInput(f"this picture is written as .svg, got {file.name!r}")
    check_place(file)
    return file
