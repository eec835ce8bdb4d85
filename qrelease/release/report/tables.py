"""Tables of the report, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qrelease.release.report.svg import text

LISTED = 200
"""Rows of a table that are shown; the manifest has them all."""

OPEN = 12
"""A table of more rows is folded away."""


def folded(summary: str, rows: int) -> str:
    """The opening of a block that can be folded away, and is where it is long."""
    return f"<details{' open' if rows <= OPEN else ''}><summary>{summary}</summary>"


def pairs(content: Mapping[str, object]) -> str:
    """Names and values as a table of two columns."""
    rows = "".join(f"<tr><th scope=row>{text(k)}</th><td>{text(v)}</td></tr>" for k, v in content.items())
    return f"<table>{rows}</table>"


def html_table(
    header: Mapping[str, bool],
    rows: Sequence[Sequence[str]],
    whole: int | None = None,
    *,
    most: int = LISTED,
    rest: str = "the manifest, release.json, has all",
) -> str:
    """A table of cells that are HTML already; the header says which columns hold numbers.

    whole  how many rows there are, if these are only as many as are shown
    most   how many are shown
    rest   where all rows are, HTML
    """
    whole = len(rows) if whole is None else whole
    kinds = [" class=n" if number else "" for number in header.values()]
    head = "".join(f"<th scope=col{kind}>{text(name)}</th>" for name, kind in zip(header, kinds, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>"
        for row in rows[:most]
    )
    more = f"<p class=note>these are the first {most:,} of {whole:,} rows: {rest}</p>" if whole > most else ""
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"
