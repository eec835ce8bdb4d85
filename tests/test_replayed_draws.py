"""No draw of any mechanism tells more of a record, or a person, than is spent for it, whatever was drawn before.

Releases are replayed on neighbouring tables, as `replayed` says. Then broken twins are.
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, product
from random import Random

import broken
import numpy as np
import pandas as pd
import pytest
from instead import Instead
from replayed import ROUNDING, Differs, Replayable, recorded_draws

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded
from qrelease.inference.update_rules import Perceptron
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.base import OfParts
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.distinguishers import PerturbedLeader, Select
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP, split
from qrelease.queries.oracles import PredicateOracle
from qrelease.queries.workload import Workload

BOTH = ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE

ATTRIBUTES = (
    Attribute("kind", "category", categories=("x", "y", "z"), ordered=True),
    Attribute("size", "number", within=(-3, 11), step=2, edges=(-3, 1, 7, 13), missing=("",)),
    Attribute("flag", "category", categories=("u", "v"), missing=("?",)),
)
DOMAIN = Domain(ATTRIBUTES)
VALUES = (("x", "y", "z"), ("", *(str(size) for size in range(-3, 13, 2))), ("u", "v", "?"))


@pytest.fixture
def _recorded(monkeypatch):
    recorded_draws(monkeypatch)


def counts(domain):
    """Workloads of counts, by name."""
    rng = np.random.default_rng(3)
    return {
        "marginals": Workload.marginals(domain, 2),
        "ranges": Workload.ranges(domain, "size"),
        "mixed": Workload.marginals(domain, 1)
        + Workload.prefixes(domain, "size")
        + Workload.predicates(domain, "kind = x and flag = u", "size >= 1 or flag = v"),
        "vectors": Workload.vectors(domain, np.array([[0.3, 0.7, 1], [0, 0.1, 0.9]]), ["kind"])
        + Workload.vectors(domain, rng.random((3, 12)), ["flag", "size"]),
    }


def numbers(domain):
    """Workloads of questions about numbers, by name."""
    return {
        **means(domain),
        **quantiles(domain),
        "where": Workload.numbers(
            domain,
            "mean:size by kind where flag = u",
            "sum:size where kind = x",
            "count by kind where flag != u",
            "ratio:size >= 5 by flag where kind != z",
            "variance:size",
        ),
        "with counts": Workload.marginals(domain, 2) + Workload.means(domain, "size", "kind"),
    }


def quantiles(domain):
    """Quantiles, which can be chosen."""
    return {"quantiles": Workload.quantiles(domain, "size", [0.25, 0.5], "flag")}


def means(domain):
    """Means, whose bounds can be learned."""
    return {"means": Workload.means(domain, "size", "kind")}


def pairs(domain):
    """Marginals alone: for what takes long with other queries."""
    return {"marginals": Workload.marginals(domain, 2)}


PURE, CONCENTRATED, APPROX, ZERO_DELTA = COSTS = [PureDP(1.0), ZCDP(0.3), ApproxDP(1.0, 1e-6), ApproxDP(1.0, 0.0)]
FLIPPING = Select("query", "permute-and-flip")
LEADER = PerturbedLeader(PredicateOracle())
MECHANISMS = [
    pytest.param(Laplace(), counts, [PURE, APPROX, ZERO_DELTA], id="laplace"),
    pytest.param(Gaussian(), counts, [APPROX, CONCENTRATED], id="gaussian"),
    pytest.param(Matrix(), counts, [APPROX, CONCENTRATED], id="matrix"),
    pytest.param(MaxEnt(), counts, COSTS, id="maxent"),
    pytest.param(FittedRecords(weighted_records=60), counts, COSTS, id="records"),
    pytest.param(FittedRecords(weighted_records=60, at_once=False), counts, COSTS, id="records in rounds"),
    pytest.param(MWEM(rounds=3, rule="permute-and-flip"), counts, COSTS, id="mwem"),
    pytest.param(MWEM(rounds=2, choice="query", rule="exponential"), counts, COSTS, id="mwem by query"),
    pytest.param(IterativeConstruction(distinguisher=FLIPPING), counts, COSTS, id="iterative"),
    pytest.param(IterativeConstruction(Perceptron(0.4), LEADER), pairs, COSTS, id="iterative by a leader"),
    pytest.param(SmallDB(size=2), counts, COSTS, id="smalldb"),
    pytest.param(Auto(), pairs, COSTS, id="auto"),
    pytest.param(NumberSums(), numbers, COSTS, id="sums"),
    pytest.param(NumberSums(quantiles="exponential"), quantiles, COSTS, id="sums with choices"),
    pytest.param(NumberSums(learn=["size"]), means, COSTS, id="sums with learned bounds"),
    pytest.param(Auto(), numbers, COSTS, id="auto with numbers"),
]


def table_of(domain, records):
    """Records of texts, after the person's key where a person is the unit."""
    names = [*([domain.person.column] if domain.person else []), *domain.names]
    return Table.from_frame(pd.DataFrame(records, columns=names, dtype=object), domain)


LOW, HIGH = ("x", "-3", "u"), ("z", "11", "v")
"""Records that differ in all columns: one in the place of the other moves most."""


def some(rng, number):
    """Records."""
    return [tuple(rng.choice(values) for values in VALUES) for _ in range(number)]


def neighbours(rng, relation, rest, low, high, other):
    """A table with a `low` one, and two neighbours, in any order of their records."""
    first = [*rest, *low]
    found = [[*rest, *high], [*rest, *other]] if relation is SWAP else [rest, [*first, *other]]
    return first, [rng.sample(records, len(records)) for records in found]


def shares(domain, release, first, others, seed=1):
    """The largest share of what was spent for it that a draw uses, for each neighbour of a table."""
    recording = release.recorded(table_of(domain, first), seed)
    return [release.share_used(recording, table_of(domain, other)) for other in others]


def check_shares(found):
    """No draw uses more than was spent for it. One uses a good part of it: else nothing was compared."""
    assert 0.45 < max(found) <= 1 + ROUNDING


def of_a_record(rng, release, size):
    """The shares that draws of neighbouring tables use."""
    return shares(DOMAIN, release, *neighbours(rng, release.relation, some(rng, size), [LOW], [HIGH], some(rng, 1)))


@pytest.mark.usefixtures("_recorded")
@pytest.mark.parametrize("relation", BOTH, ids=lambda relation: relation.value)
@pytest.mark.parametrize(("mechanism", "asked", "costs"), MECHANISMS)
def test_no_draw_tells_more_of_a_record_than_was_spent_for_it(mechanism, asked, costs, relation):
    rng, found = Random(2), []
    for cost, workload in zip(costs, cycle(asked(DOMAIN).values()), strict=False):
        found += of_a_record(rng, Replayable(mechanism, workload, cost, relation), 6)
    check_shares(found)


@pytest.mark.slow
@pytest.mark.usefixtures("_recorded")
@pytest.mark.parametrize("relation", BOTH, ids=lambda relation: relation.value)
@pytest.mark.parametrize(("mechanism", "asked", "costs"), MECHANISMS)
def test_no_draw_tells_more_of_any_record_whatever_is_asked(mechanism, asked, costs, relation):
    rng, found = Random(3), []
    for number, (workload, cost) in enumerate(product(asked(DOMAIN).values(), costs)):
        if number % 5 in {1, 3}:  # others are above
            found += of_a_record(rng, Replayable(mechanism, workload, cost, relation), rng.choice([0, 1, 12]))
    check_shares(found)


# --- persons, of whom each has some records


UNITS = [
    Person("id", 1),
    Person("id", 3),
    Person("id", 2, distinct=("kind",)),
    Person("id", 3, weights="persons"),
]


def records_of(person, records):
    return [(person, *record) for record in records]


@pytest.mark.usefixtures("_recorded")
@pytest.mark.parametrize("relation", BOTH, ids=lambda relation: relation.value)
@pytest.mark.parametrize(("mechanism", "asked", "costs"), MECHANISMS)
def test_no_draw_tells_more_of_a_person_than_was_spent_for_it(mechanism, asked, costs, relation):
    """Also of one with more records than are kept, or with equal ones."""
    rng, found = Random(4), []
    for unit, cost in zip(UNITS, cycle(costs), strict=False):
        if unit.counts_once and not (isinstance(mechanism, OfParts) and asked in (counts, pairs)):
            continue  # refused
        domain = Domain(ATTRIBUTES, person=unit)
        release = Replayable(mechanism, rng.choice(list(asked(domain).values())), cost, relation)
        rest = [record for person in "ABC" for record in records_of(person, some(rng, rng.choice([1, 2, 4])))]
        low, high, other = records_of("Z", [LOW] * 4), records_of("Y", [HIGH] * 4), records_of("X", some(rng, 6))
        found += shares(domain, release, *neighbours(rng, relation, rest, low, high, other))
    check_shares(found)


# --- broken twins


@dataclass(frozen=True)
class Twin:
    """Laplace's releases, with measurements of another kind: `measured(private, workload, cost)`."""

    measured: object
    name: str = "laplace"

    def check(self, workload, cost, neighbours):
        Laplace().check(workload, cost, neighbours)

    def release(self, private, workload, cost):
        return Laplace().release(Instead(private, measure=partial(self.measured, private)), workload, cost)


def odd(private):
    """Whether the number of records is odd, which every record changes."""
    return int(private.exact(Workload.marginals(private.domain, [["kind"]]))[0].sum()) % 2


def unpaid(private, workload, cost):
    """Measured for a cost that nobody is told of."""
    return replace(private, filter=Filter(cost), spends=[]).measure(workload, cost)


def of_half_the_sensitivity(private, workload, cost):
    private.spend("measure", cost)
    return unpaid(private, workload, PureDP(2 * cost.epsilon))


def of_noise_by_the_data(private, workload, cost):
    private.spend("measure", cost)
    return unpaid(private, workload, PureDP(cost.epsilon / (1 + odd(private))))


def of_a_cost_by_the_data(private, workload, cost):
    return private.measure(workload, split(cost, [1, 1 + odd(private)])[0])


def of_a_number_of_draws_by_the_data(private, workload, cost):
    found = [private.measure(workload, share) for share in split(cost, 2)[odd(private) :]]
    return found[0]


def of_an_order_by_the_data(private, workload, cost):
    order = -1 if odd(private) else 1
    share, *_ = split(cost, len(workload.groups))
    found = [private.measure(Workload(workload.domain, (g,)), share)[0] for g in workload.groups[::order]]
    return found[::order]


def with_a_private_number_added(private, workload, cost):
    return [replace(m, values=m.values + odd(private)) for m in private.measure(workload, cost)]


def of_noise_of_its_own(private, workload, cost):
    private.entropy.words(1)
    return private.measure(workload, cost)


TWINS = {
    of_noise_by_the_data: (Differs, "draw 0 has another public part: asked"),
    of_a_cost_by_the_data: (Differs, "draw 0 has another public part: asked"),
    of_a_number_of_draws_by_the_data: (Differs, "there is a draw (more|less)"),
    of_an_order_by_the_data: (Differs, "draw 0 has another public part: asked"),
    with_a_private_number_added: (Differs, "another release is made of the same draws"),
    unpaid: (Differs, "draw 0 is paid for by 0 parts"),
    of_noise_of_its_own: (AttributeError, "words"),
}


def replayed_twin(mechanism, relation=ADD):
    """The largest share that a draw of it uses."""
    return max(of_a_record(Random(5), Replayable(mechanism, Workload.marginals(DOMAIN, 1), PURE, relation), 6))


@pytest.mark.usefixtures("_recorded")
@pytest.mark.parametrize("measured", TWINS, ids=lambda measured: measured.__name__)
def test_a_twin_whose_public_part_is_private_is_convicted(measured):
    kind, message = TWINS[measured]
    with pytest.raises(kind, match=message):
        replayed_twin(Twin(measured))


@pytest.mark.usefixtures("_recorded")
def test_a_twin_that_takes_half_the_sensitivity_uses_twice_what_is_spent():
    chosen = IterativeConstruction(Perceptron(0.4), broken.HalfTheSensitivity(Select("query")))
    assert replayed_twin(Twin(of_half_the_sensitivity)) == pytest.approx(2)
    assert replayed_twin(broken.ChoiceAtHalfTheSensitivity(SmallDB(size=2)), SWAP) == pytest.approx(2)
    assert replayed_twin(chosen, SWAP) == pytest.approx(2)


@pytest.mark.usefixtures("_recorded")
def test_a_twin_that_spends_more_than_it_was_charged_is_convicted():
    with pytest.raises(BudgetExceeded):
        replayed_twin(broken.Overspending(Laplace()))


@pytest.mark.usefixtures("_recorded")
def test_a_twin_that_keeps_private_records_is_convicted():
    with pytest.raises(Differs, match="another release"):
        replayed_twin(broken.PrivateSupport(FittedRecords(weighted_records=60)))
