"""Structural zeros: public rules about cells that no record can be in, `age < 16 and income = '>50K'`.

A schema file may hold them after its attributes, one entry a rule:

    [[impossible]]
    where = "age < 16 and income = '>50K'"

The domain holds them (`Domain.impossible`). They come from public knowledge alone, as the rest of the schema does: a
rule that was read off the private records would tell of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from qrelease._util.typing import Axes, Mask
from qrelease.data import predicates
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput


def narrowed(domain: Domain, columns: Sequence[str]) -> Domain:
    """The domain of some of its columns, in the order given, with the rules that are about these alone.

    Raises what `masks` does, for any of the rules, and `InvalidInput` for an unknown column.
    """
    masks(domain, domain.impossible)
    _check_derived(domain)
    about = [predicates.parse(rule, domain).axes for rule in domain.impossible]
    axes = [domain.axis(name) for name in columns]
    kept = [rule for rule, of in zip(domain.impossible, about, strict=True) if set(of) <= set(axes)]
    return replace(domain.project(axes), impossible=tuple(kept))


def _check_derived(domain: Domain) -> None:
    """Raise `InvalidInput` that names the derived column whose condition cannot be read."""
    if domain.person is None or not domain.person.derive:
        return
    records = Domain(domain.person.records)
    for rule in domain.person.derive:
        try:
            if rule.where is not None:
                predicates.parse(rule.where, records)
        except InvalidInput as error:
            raise InvalidInput(f"derived {rule.name!r}: {error}") from None


def masks(domain: Domain, rules: Sequence[str]) -> dict[Axes, Mask]:
    """The cells (cells,) that rules forbid, by the columns that they are about.

    Raises `InvalidInput` that names the rule: for a text that is no condition, for one that no record satisfies, and
    where the rules on the same columns leave no cell of them.
    """
    found: dict[Axes, Mask] = {}
    for number, text in enumerate(rules, start=1):
        try:
            condition = predicates.parse(text, domain)
        except InvalidInput as error:
            raise InvalidInput(f"impossible {number}: {error}") from None
        axes, mask = condition.axes, condition.mask()
        if not mask.any():
            raise InvalidInput(f"impossible {number}: no record satisfies {text!r}, so it rules nothing out")
        found[axes] = found.get(axes, np.zeros_like(mask)) | mask
        if found[axes].all():
            raise InvalidInput(f"impossible {number}: {text!r} leaves no record that is possible, with what is above")
    return found


def children_of(domain: Domain, parent: str) -> Iterator[tuple[str, tuple[tuple[int, ...], ...]]]:
    """The columns of which each cell is possible with one cell of a parent alone, as towns with their province.

    Each comes with its cells, by cell of the parent. Nothing of columns that may be missing, unless a rule says where.
    """
    above = domain.axis(parent)
    for axes, mask in masks(domain, domain.impossible).items():
        if len(axes) != 2 or above not in axes:
            continue
        other = next(axis for axis in axes if axis != above)
        possible = ~mask.reshape([domain.shape[axis] for axis in axes])
        by_child = possible if axes[1] == above else possible.T
        if (by_child.sum(axis=1) == 1).all():
            own = by_child.argmax(axis=1)
            groups = (tuple(np.flatnonzero(own == cell).tolist()) for cell in range(domain.shape[above]))
            yield domain.names[other], tuple(groups)
