"""A release of a parent table and of its children: synthetic parents, and children given their parent, without orphans.

Two releases under one cost, a part of it each: the parents with how many children each has, and the children with their
parents' columns. All that follows is post-processing. Parents are drawn from the first release, their numbers of
children among their columns; the children of each parent are drawn from the second, given what the parent's columns
say: among many synthetic children, one at random whose parent's columns are the same. Where there is none, columns are
let go of one by one, those of most cells first, until there is one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease.data.person import CHILDREN
from qrelease.data.sources.csv import write_csv
from qrelease.inference.sampling import generator
from qrelease.release import writer
from qrelease.release.release import Release
from qrelease.release.unmeasured import what_records_lack

_POOL: Final = 4
_MIN_POOL, _MAX_POOL = 1 << 16, 1 << 21
"""Synthetic children that those of all parents are taken from, for each that is wanted; at least, and at most."""

Rows = Sequence[npt.NDArray[np.integer[Any]]]


@final
@dataclass(frozen=True)
class LinkedRelease:
    """The releases of two tables, of which parents and children are drawn together. Public.

    Attributes
    ----------
    parents, children
        The two releases; the first has a column `children`, the second those of its parents too.
    own
        The columns of the children that are their own.
    """

    parents: Release
    children: Release
    own: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the rows of the two tables do not follow, a sentence each: the two releases have notes of their own."""
        both = ("parents", self.parents), ("children", self.children)
        said = [f"{name}: {note}" for name, release in both for note in what_records_lack(release)]
        return (*said, "children: those of one parent are independent of each other, given its columns")

    def codes(self, rows: int | None, rng: np.random.Generator) -> tuple[Rows, npt.NDArray[np.int64], Rows]:
        """Codes of parents, one array (n,) a column; for each child the row of its parent, (k,); and its own codes.

        rows  of the parents; by default about as many as there are
        """
        parents = self.parents.codes(rows, rng)
        number = self.parents.domain.axis(CHILDREN)
        of = np.repeat(np.arange(len(parents[0])), parents[number])
        shared = [a.name for a in self.parents.domain if a.name != CHILDREN]
        wanted = int(min(max(_POOL * len(of), _MIN_POOL), _MAX_POOL))
        pool = self.children.codes(wanted, rng) if len(of) else [np.zeros(0, np.int64)] * len(self.children.domain)
        asked = [np.asarray(parents[self.parents.domain.axis(name)]) for name in shared]
        given = [np.asarray(pool[self.children.domain.axis(name)]) for name in shared]
        sizes = [self.parents.domain[name].size for name in shared]
        chosen = _matching(asked, given, sizes, of, rng)
        own = [np.asarray(pool[self.children.domain.axis(name)])[chosen] for name in self.own]
        return parents, of, own

    def _whole(self, parents: Rows, of: npt.NDArray[np.int64], own: Rows) -> Rows:
        """The children with their parents' columns, one array (k,) for each column of theirs."""
        found = dict(zip(self.own, own, strict=True))
        return [
            found[a.name] if a.name in found else np.asarray(parents[self.parents.domain.axis(a.name)])[of]
            for a in self.children.domain
        ]

    def save(self, folder: str | os.PathLike[str], rows: int | None = None) -> None:
        """Write `parents.csv` and `children.csv`, and the two releases in folders of these names, into a new folder.

        The key of a parent is its number, from 1; each child names one of them.
        """
        with writer.new_folder(folder) as part:
            self.write(part, rows)

    def write(self, folder: Path, rows: int | None = None) -> None:
        """The same into a folder that there is."""
        rng = generator(self.parents.insecure_seed)
        parents, of, own = self.codes(rows, rng)
        points = self.parents.points(parents, rng), self.children.points(self._whole(parents, of, own), rng)
        person = self.children.domain.person
        key = "parent" if person is None else person.column
        mark = [np.ones(len(rows), np.uint8) for rows in (parents[0], of)]
        domains = self.parents.domain, self.children.domain.project([self.children.domain.axis(n) for n in self.own])
        keys = np.arange(1, len(parents[0]) + 1), of + 1
        names = "parents", "children"
        for name, domain, codes, number, marked, drawn in zip(
            names, domains, (parents, own), keys, mark, points, strict=True
        ):
            further: dict[str, npt.NDArray[Any]] = {
                key: number,
                **({writer.INSECURE_MARK: marked} if self.parents.insecure else {}),
            }
            with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as out:
                write_csv(out, domain, codes, rng, further, drawn)
        for name, release in zip(names, (self.parents, self.children), strict=True):
            (folder / name).mkdir()
            writer.save(release, folder / name)

    def __str__(self) -> str:
        return f"parents: {self.parents!r}\nchildren: {self.children!r}"


def _matching(
    asked: Rows, given: Rows, sizes: Sequence[int], of: npt.NDArray[np.int64], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """For each child a row of the pool whose parent's columns are those of its parent, (k,), at random.

    asked  codes of the parents; `given`: those of the pool's rows
    of     the parent of each child
    """
    chosen = np.full(len(of), -1, np.int64)
    columns = sorted(range(len(sizes)), key=lambda c: sizes[c])
    draws = rng.random(len(of))
    for most in range(len(columns), -1, -1):
        open_ = np.flatnonzero(chosen < 0)
        if not len(open_):
            break
        kept = columns[:most]
        both = np.stack([np.concatenate([asked[c], given[c]]) for c in kept]) if kept else None
        cells = (
            np.zeros(len(asked[0]) + len(given[0]), np.int64)
            if both is None
            else np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
        )
        mine, theirs = cells[: len(asked[0])][of[open_]], cells[len(asked[0]) :]
        order = np.argsort(theirs, kind="stable")
        low, high = (np.searchsorted(theirs[order], mine, side=side) for side in ("left", "right"))
        found = high > low
        places = low[found] + (draws[open_[found]] * (high - low)[found]).astype(np.int64)
        chosen[open_[found]] = order[places]
    return chosen
