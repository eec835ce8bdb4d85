"""The columns that the rules of `derivation` make of the records of each person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qrelease.data import predicates
from qrelease.data.attribute import Attribute
from qrelease.data.derivation import values_of
from qrelease.data.domain import Domain
from qrelease.data.person import Derived

if TYPE_CHECKING:
    from qrelease.data.table import Table


def derived(table: Table, domain: Domain) -> list[npt.NDArray[Any]]:
    """The columns of one record a person, by the rules of a domain, of the records of persons.

    table  the records, with whose they are, over the domain that the rules are about
    """
    assert table.persons is not None
    assert domain.person is not None
    by_name = {rule.name: rule for rule in domain.person.derive}
    whose, persons = table.persons.codes, len(table.persons.digests)
    return [_column(table, by_name[a.name], a, whose, persons, np.zeros(persons, np.int64)) for a in domain]


def _column(
    table: Table,
    rule: Derived,
    attribute: Attribute,
    whose: npt.NDArray[np.int64],
    persons: int,
    found: npt.NDArray[np.int64],
) -> npt.NDArray[Any]:
    """The codes of one derived column, (persons,)."""
    rows = _rows(table, rule)
    if rule.take == "any":
        found[whose[rows]] = 1
        return found
    if rule.take == "count":
        return _binned(attribute, np.bincount(whose[rows], minlength=persons))
    of = table.domain.axis(str(rule.of))
    source, codes = table.domain.attributes[of], table.columns[of].astype(np.int64)
    rows = rows[codes[rows] < source.values]  # what is missing says nothing
    if rule.take == "sum":
        numbers = np.array(values_of(source), np.int64)[codes[rows]]
        sums = np.zeros(persons, np.int64)
        np.add.at(sums, whose[rows], numbers)
        return _binned(attribute, sums)
    found[:] = source.values  # missing
    ranks = -_frequencies(whose[rows], codes[rows], source.size) if rule.take == "most frequent" else codes[rows]
    if rule.by is not None:
        by = table.domain.axis(rule.by)
        ranks = table.columns[by].astype(np.int64)[rows]
        known = ranks < table.domain.attributes[by].values
        rows, ranks = rows[known], ranks[known]
    order = np.lexsort((codes[rows], ranks))
    chosen = order if rule.take in ("max", "last") else order[::-1]  # the last that is written stays
    found[whose[rows[chosen]]] = codes[rows[chosen]]
    return found


def _rows(table: Table, rule: Derived) -> npt.NDArray[np.intp]:
    """The records that a rule is about."""
    if rule.where is None:
        return np.arange(len(table))
    condition = predicates.parse(rule.where, table.domain)
    if not condition.axes:
        return np.arange(len(table)) if condition.mask().all() else np.arange(0)
    shape = [table.domain.shape[a] for a in condition.axes]
    cells = np.ravel_multi_index([table.columns[a] for a in condition.axes], shape)
    return np.flatnonzero(condition.mask()[cells])


def _frequencies(whose: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """How often each record's person has its code, (n,)."""
    _, places, counts = np.unique(whose * size + codes, return_inverse=True, return_counts=True)
    times: npt.NDArray[np.int64] = counts[places]
    return times


def _binned(attribute: Attribute, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The codes of whole numbers, those outside in the nearest bin."""
    places = np.searchsorted(attribute.edges, numbers, side="right") - 1
    return np.clip(places, 0, attribute.values - 1)
