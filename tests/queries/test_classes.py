"""Classes of queries against lists of them."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from sessions import DOMAIN, box, mask, subsets
from worlds import coded

from qrelease.data.domain import Attribute, Domain
from qrelease.queries.canonical import canonical_name
from qrelease.queries.classes import Conjunctions, Parities, class_from_json, maximal_sets

BOXES = [box(sets) for sets in itertools.product(*(subsets(n) for n in DOMAIN.shape))]


@pytest.mark.parametrize("ranges", [False, True])
def test_a_class_has_the_conjunctions_that_there_are(ranges):
    domain = coded(2, 3, 4)
    whole = {canonical_name(domain, query.groups[0])[0] for query, _ in BOXES}
    for order in (1, 2, 3):
        chosen = Conjunctions(order, ranges)
        members = [a for a in whole if chosen.contains(domain, a)]
        counts = chosen.cells(domain, (0, 1, 2))
        assert sum(counts.values()) == len(members)
        shapes = Counter(int(a.entries(domain).sum()) * 24 // domain.cells(a.axes) for a in members)
        assert counts == shapes
    assert not Conjunctions(3).contains(
        domain, canonical_name(domain, mask(np.eye(24)[0] + np.eye(24)[23]).groups[0])[0]
    )


def test_a_class_of_simple_conditions_has_the_queries_that_there_are():
    domain = Domain(
        (
            Attribute("a", "category", categories=("x", "y", "z")),
            Attribute("b", "number", edges=(0, 1, 2, 3, 4, 5), integer=True),
            Attribute("c", "category", categories=("u", "v")),
        )
    )
    boxes = [
        np.einsum("i,j,k->ijk", *(np.isin(np.arange(n), s) for n, s in zip(domain.shape, sides, strict=True)))
        for sides in itertools.product(*(subsets(n) for n in domain.shape))
    ]
    whole = {canonical_name(domain, mask(row, domain).groups[0])[0] for row in np.array(boxes, float).reshape(-1, 30)}
    simple = Conjunctions(2, simple=True, among=((0, 1), (1, 2)))
    members = [a for a in whole if simple.contains(domain, a)]
    # A range of five values or all but a range, not empty and not all: 5 * 4; one of three values, and of two.
    assert len(members) == 1 + 3 + 20 + 2 + 3 * 20 + 20 * 2
    assert {a.axes for a in members} == {(), (0,), (1,), (2,), (0, 1), (1, 2)} == {*simple.subsets((0, 1, 2))}
    ways = {a: sum(simple.ways(domain.attributes[a])) for a in range(3)}
    assert ways == {0: 3, 1: 20, 2: 2}
    assert class_from_json(json.loads(json.dumps(simple.to_json()))) == simple


def test_maximal_sets_are_those_in_no_other():
    rng = np.random.default_rng(0)
    for _ in range(500):
        columns = int(rng.integers(1, 9))
        drawn = [tuple(np.flatnonzero(rng.random(columns) < 0.4).tolist()) for _ in range(rng.integers(0, 40))]
        kept = [s for s in dict.fromkeys(drawn) if not any({*s} < {*other} for other in drawn)]
        assert maximal_sets(drawn) == kept
        assert sorted(maximal_sets(reversed(drawn))) == sorted(kept)


def test_parities_are_a_class_too():
    domain = coded(2, 2, 3)
    rows = np.array(list(itertools.product([0, 1], repeat=12)), float)
    members = Counter()
    for row in rows[rows.any(axis=1)]:
        asked = canonical_name(domain, mask(row, domain).groups[0])[0]
        members[int(row.sum())] += Parities().contains(domain, asked)
    ways = {tuple(r) for r in _parity_rows(domain.shape)}
    assert sum(members.values()) == len(ways)
    counts = Parities().cells(domain, (0, 1, 2))
    assert all(counts[m] >= n for m, n in members.items())
    assert sum(counts.values()) < 1.5 * len(ways)


def _parity_rows(shape):
    """Every conjunction and every parity of one condition a column, as rows; not the empty one."""
    conditions = [np.array(list(itertools.product([False, True], repeat=n))) for n in shape]
    for chosen in itertools.product(*conditions):
        parts = np.meshgrid(*chosen, indexing="ij")
        for join in (np.logical_and, np.logical_xor):
            row = join.reduce(parts).reshape(-1)
            if row.any():
                yield row
