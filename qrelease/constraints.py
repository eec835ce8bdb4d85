"""Structural zeros: public rules about cells that no record can be in, `age < 16 and income = '>50K'`.

A schema file may hold them after its attributes, one entry a rule:

    [[impossible]]
    where = "age < 16 and income = '>50K'"

They come from public knowledge alone, as the rest of the schema does: a rule that was read off the private records
would tell of them.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qrelease import predicate
from qrelease.cover import Axes
from qrelease.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.schema import load

Mask = npt.NDArray[np.bool_]


def impossible(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> tuple[str, ...]:
    """The rules of a schema file, as conditions in their order; none of a JSON schema.

    columns  of a table that has but some of the schema's: only rules about these

    Raises `InvalidInput`, one line, for whatever `schema.load` refuses, for an entry that is no rule, and for rules
    that `masks` refuses; `TooLarge` for one on too many cells.
    """
    path, domain = Path(path), load(path)
    if path.suffix == ".json":
        return ()
    entries = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("impossible", [])
    found: list[str] = []
    for number, entry in enumerate(entries, start=1):
        where = entry.get("where") if isinstance(entry, dict) and set(entry) == {"where"} else None
        if not isinstance(where, str):
            raise InvalidInput(f'schema {path}: impossible {number} must be where = "a condition", got {entry!r}')
        found.append(where)
    try:
        masks(domain, found)
    except InvalidInput as error:
        raise InvalidInput(f"schema {path}: {error}") from None
    kept = domain.names if columns is None else columns
    return tuple(text for text in found if {domain.names[a] for a in predicate.parse(text, domain).axes} <= set(kept))


def conditions(rules: Iterable[str]) -> tuple[str, ...]:
    """A list of conditions as a tuple; `InvalidInput` for whatever else, one condition by itself too."""
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise InvalidInput(f'impossible must be a list of conditions, as ["age < 16"], got {rules!r}')
    found = tuple(rules)
    for rule in found:
        if not isinstance(rule, str):
            raise InvalidInput(f"impossible must be a list of conditions, each of them text, got {rule!r}")
    return found


def masks(domain: Domain, rules: Sequence[str]) -> dict[Axes, Mask]:
    """The cells (cells,) that rules forbid, by the columns that they are about.

    Raises `InvalidInput` that names the rule: for a condition that is none, for one that no record satisfies, and where
    the rules on the same columns leave no cell of them.
    """
    found: dict[Axes, Mask] = {}
    for number, text in enumerate(rules, start=1):
        try:
            condition = predicate.parse(text, domain)
        except InvalidInput as error:
            raise InvalidInput(f"impossible {number}: {error}") from None
        axes, mask = condition.axes, condition.mask()
        if not mask.any():
            raise InvalidInput(f"impossible {number}: no record satisfies {text!r}, so it rules nothing out")
        found[axes] = found.get(axes, np.zeros_like(mask)) | mask
        if found[axes].all():
            raise InvalidInput(f"impossible {number}: {text!r} leaves no record that is possible, with what is above")
    return found
