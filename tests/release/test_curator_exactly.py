"""All tables of three persons with up to three records each, and every neighbour: output laws in full, for each key.

What is promised holds for each key, so it is asked of some of them. A mechanism's output depends on the kept records
by their counts, so each pair of counts that neighbours come to is enumerated once: by each key they are the same.
"""

from functools import cache, partial

import numpy as np
import pytest
from audits import listed
from persons_listed import KEYS, counted, pairs_of, worst_of

from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.private_data import Private
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload

M = 2
DOMAIN = Domain(Domain.coded({"a": 2}).attributes, person=Person("who", M))
CELLS = Workload.marginals(DOMAIN, 1)
ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


@cache
def pairs(bounded, relation):
    """Counts of kept records that neighbouring tables come to."""
    return pairs_of(counted(DOMAIN, bounded), relation)


def worst(run, bounded, relation, claim):
    """The strongest evidence against a claim, over all neighbours."""
    return worst_of(run, pairs(bounded, relation), claim)


def of_counts(counts):
    return Table(DOMAIN, (np.repeat([0, 1], counts).astype(np.uint8),))


def door(counts, relation, claim, choices, unit=None):
    """What the curator hands to a mechanism, and what it may cost."""
    unit = Unit(relation, M) if unit is None else unit
    cost = unit.of_a_record(claim)
    return Private(of_counts(counts), unit.relation, Filter(cost), choices, unit=unit), cost


def measured(mechanism):
    def made(relation, claim, unit=None):
        def run(counts, choices):
            private, cost = door(counts, relation, claim, choices, unit)
            return tuple(v for m in mechanism.release(private, CELLS, cost).measurements for v in m.values.tolist())

        return run

    return made


def count(relation, claim, unit=None):
    def run(counts, choices):
        private, cost = door(counts, relation, claim, choices, unit)
        return private.count(cost)[0]

    return run


def selected(rule):
    """The larger of two counts; or of what their difference is at least, where a record moves both ways."""

    def made(relation, claim, unit=None):
        def run(counts, choices):
            private, cost = door(counts, relation, claim, choices, unit)
            (exact,) = private.exact(CELLS)
            return private.select(np.array([exact[0] - exact[1], exact[1] - exact[0]]), 1, cost, rule)

        return run

    return made


BOUNDED = [partial(Table.bounded, key=key) for key in KEYS]


MECHANISMS = {
    "laplace": (measured(Laplace()), PureDP(6.0), 0.9),
    "gaussian in rho": (measured(Gaussian()), ZCDP(4.0), 0.75),
    "gaussian": (measured(Gaussian()), ApproxDP(6.0, 1e-2), 0.5),
    "count": (count, PureDP(4.0), 0.9),
    "count in rho": (count, ZCDP(2.0), 0.75),
    "exponential": (selected("exponential"), PureDP(4.0), 0.4),
    "permute-and-flip": (selected("permute-and-flip"), PureDP(4.0), 0.4),
    "exponential in rho": (selected("exponential"), ZCDP(2.0), 0.01),
    "permute-and-flip in rho": (selected("permute-and-flip"), ZCDP(2.0), 0.01),
}


QUICK = ("laplace", "count", "exponential", "permute-and-flip")


@pytest.fixture(autouse=True)
def _listed(monkeypatch):
    listed(monkeypatch)


def test_neighbours_are_as_far_apart_as_the_unit_says_and_no_further():
    for relation in Neighbours:
        apart = [sum(abs(x - y) for x, y in zip(*pair, strict=True)) for pair in pairs(BOUNDED[0], relation)]
        assert max(apart) == Unit(relation, M).size


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MECHANISMS]
)
def test_every_mechanism_keeps_what_a_person_is_promised(name):
    made, claim, close = MECHANISMS[name]
    found = worst(made(ADD, claim), BOUNDED[0], ADD, claim)
    assert not found.convicted, found
    assert found.bound > close * next(iter(claim.to_json().values()))


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("bounded", BOUNDED[1:])
def test_by_any_key_neighbours_come_to_the_same_pairs_of_counts(bounded, relation):
    """So of every mechanism, which sees counts alone, what is enumerated for one key holds for all."""
    assert pairs(bounded, relation) == pairs(BOUNDED[0], relation)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_keeps_it_where_a_person_is_replaced(name):
    made, claim, _ = MECHANISMS[name]
    if name in ("laplace", "gaussian", "gaussian in rho"):  # of four times the noise: fewer outcomes are to be listed
        claim = type(claim)(*(4 * value if value > 1 else value for value in claim.to_json().values()))
    found = worst(made(SWAP, claim), BOUNDED[0], SWAP, claim)
    assert not found.convicted, found


# --- broken twins


def everything(table):
    """Without truncation."""
    return Table(DOMAIN, table.columns)


def by_position(table):
    """Of each person those whose position in the table has the smallest hash: one person less moves the others'."""
    rng = np.random.default_rng(2)
    order = np.argsort(rng.permutation(3 * 3)[: len(table)], kind="stable")
    taken, kept = {}, []
    for row in order.tolist():
        who = int(table.persons.codes[row])
        taken[who] = taken.get(who, 0) + 1
        if taken[who] <= M:
            kept.append(row)
    return Table(DOMAIN, (table.columns[0][kept],))


class SquaredOnce(Unit):
    """A unit that believes that the squares of what a person moves come to m, and not to m² in one cell."""

    def of_a_record(self, cost):
        return ZCDP(cost.rho / self.size)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (everything, "laplace"),
        (by_position, "laplace"),
        pytest.param(everything, "count in rho", marks=pytest.mark.slow),
        pytest.param(by_position, "gaussian in rho", marks=pytest.mark.slow),
    ],
)
def test_a_twin_that_keeps_others_is_convicted(wrong, name):
    made, claim, _ = MECHANISMS[name]
    assert worst(made(ADD, claim), wrong, ADD, claim).convicted


@pytest.mark.parametrize("name", [pytest.param("gaussian in rho", marks=pytest.mark.slow), "count in rho"])
def test_a_twin_that_adds_up_squares_as_if_records_differed_is_convicted(name):
    made, claim, _ = MECHANISMS[name]
    assert worst(made(ADD, claim, SquaredOnce(ADD, M)), BOUNDED[0], ADD, claim).convicted


def test_a_twin_that_takes_the_number_of_records_for_public_is_convicted():
    """Under replace-one it is the number of persons that is public."""
    claim = PureDP(1.0)

    def run(counts, choices):
        private, _ = door(counts, SWAP, claim, choices, Unit(SWAP))
        return private.count(None)[0]

    assert worst(run, BOUNDED[0], SWAP, claim).convicted
    private, _ = door((3, 1), SWAP, claim, None)
    assert private.public_records is None
