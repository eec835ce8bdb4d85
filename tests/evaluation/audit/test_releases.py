"""Audits of whole releases: what they read, and what they acquit and convict."""

import re
import time
from dataclasses import dataclass, replace

import broken
import numpy as np
import pytest
from audits import DOMAIN, audited, table

from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import (
    audit,
    audit_mechanism,
    released,
)
from qrelease.evaluation.audit.features import leaves
from qrelease.evaluation.audit.sampling import foretell
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.filters import Filter
from qrelease.queries.workload import Workload

ONE = PureDP(1.0)
BOTH = Workload.marginals(DOMAIN, 2)
RELEASES = {
    "laplace": (Laplace(), PureDP(2.0)),
    "gaussian": (Gaussian(), ApproxDP(2.0, 1e-3)),
    "mwem": (MWEM(rounds=1), PureDP(2.0)),
    "mwem in zCDP": (MWEM(rounds=2), ApproxDP(2.0, 1e-3)),
    "mwem by queries": (MWEM(rounds=2, choice="query"), PureDP(2.0)),
    "mwem as in 2012": (MWEM(rounds=2, choice="query", singles=0.0, rule="exponential"), PureDP(2.0)),
}


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_whole_releases_are_acquitted(name):
    mechanism, cost = RELEASES[name]
    found = audit_mechanism(mechanism, cost, Neighbours.ADD_REMOVE, samples=1_000, entropy=Entropy.insecure(9))
    assert not found.convicted


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("name", RELEASES)
def test_whole_releases_are_acquitted_and_overspending_ones_convicted(name, neighbours):
    """Eight times ε: of what is spent in many parts each tells little, and an ε from 1,000 runs is at most some 4."""
    mechanism, cost = RELEASES[name]
    assert not audited(mechanism, cost, neighbours, 1_000).convicted
    assert audited(broken.Overspending(mechanism, 8), cost, neighbours, 1_000).convicted


@pytest.mark.parametrize(
    ("neighbours", "samples"),
    [(Neighbours.ADD_REMOVE, 2_000), pytest.param(Neighbours.REPLACE_ONE, 10_000, marks=pytest.mark.slow)],
)
def test_a_release_that_draws_for_twice_its_cost_is_convicted(neighbours, samples):
    wrong = broken.Overspending(Laplace())
    found = audit_mechanism(wrong, PureDP(1.5), neighbours, samples=samples, entropy=Entropy.insecure(11))
    assert found.convicted


@dataclass(frozen=True)
class Halves:
    """A mechanism for one column: how many records are in its lower half."""

    name = "halves"

    def check(self, workload, cost, neighbours):
        if len(workload.domain) > 1:
            raise InvalidInput(f"halves are of one column, got {len(workload.domain)}")

    def release(self, private, workload, cost):
        halves = np.repeat(np.eye(2), private.domain.size // 2, axis=1)
        measured = private.measure(Workload.vectors(private.domain, halves), cost)
        total = float(max(measured[0].values.sum(), 1.0))
        synopsis = WeightedRecords.equal(private.domain, np.arange(private.domain.size), total)
        return MechanismResult(synopsis, tuple(measured), {})


AGES = Workload.prefixes(Domain.coded({"age": 6}), "age")


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_a_mechanism_for_one_column_is_asked_about_one(neighbours):
    with pytest.raises(InvalidInput, match="halves are of one column, got 3"):
        audit_mechanism(Halves(), ONE, neighbours, samples=1_000)
    effort = {"workload": AGES, "samples": 1_000}
    assert not audit_mechanism(Halves(), ONE, neighbours, entropy=Entropy.insecure(5), **effort).convicted
    wrong = broken.Overspending(Halves(), 4)
    assert audit_mechanism(wrong, ONE, neighbours, entropy=Entropy.insecure(6), **effort).convicted


@pytest.mark.parametrize(
    ("domain", "why"),
    [
        (Domain.coded({"a": 1025}), "at most 1,024 cells, got a"),
        (replace(AGES.domain, person=Person("who", 2)), "single records"),
    ],
)
def test_an_audit_asks_only_what_it_can_list_the_neighbours_of(domain, why):
    with pytest.raises(InvalidInput, match=why):
        audit_mechanism(Laplace(), ONE, Neighbours.ADD_REMOVE, workload=Workload.marginals(domain, 1))


def test_an_audit_of_a_release_needs_enough_runs():
    with pytest.raises(InvalidInput, match="samples must be an integer of at least 1000, got 999"):
        audit_mechanism(Laplace(), ONE, Neighbours.ADD_REMOVE, samples=999)


def test_a_release_is_read_as_all_its_numbers():
    mechanism, cost, people = MWEM(rounds=2, choice="query"), PureDP(4.0), table((0, 0), (1, 1))
    values = released(mechanism, BOTH, cost, Neighbours.ADD_REMOVE)(people, Entropy.insecure(12))
    private = Private(people, Neighbours.ADD_REMOVE, Filter(cost), Entropy.insecure(12))
    same = mechanism.release(private, BOTH, cost)
    told = {f"what was chosen: {path}": value for path, value in leaves(dict(same.choices))}
    assert told
    assert {name: value for name, value in values.items() if name.startswith("what was chosen")} == told
    assert "how it is written what was chosen" in values
    said = {name: value for name, value in values.items() if name not in told}
    assert said["the laws and units of the noise"] == f"{len(same.measurements)} of discrete Laplace in 1.0"
    assert [said[f"what spend {i} is of"] for i in range(1, len(private.spends) + 1)] == [
        f"{spend.what}, {spend.cost!r}" for spend in private.spends
    ]
    described = same.synopsis.to_json()
    assert said["the synopsis: total"] == described["total"]
    assert [said[f"the synopsis: factors 0 logs {i}"] for i in range(2)] == described["factors"][0]["logs"][:2]
    cells = [value for name, value in said.items() if name.startswith("the count of ") and "synopsis" in name]
    assert cells == same.synopsis.answer(Workload.marginals(DOMAIN, [["a", "b"]])).tolist()
    answers = [value for name, value in values.items() if name.startswith("the answer to")]
    assert answers == same.synopsis.answer(BOTH).tolist()
    assert sum(answers) == pytest.approx(values["the number of records"])
    measured = [value for name, value in values.items() if " in the measurement of " in name or " in the count" in name]
    assert sorted(measured) == sorted(value for m in same.measurements for value in m.values.tolist())


@dataclass(frozen=True)
class OneCellExact:
    """Laplace noise on all marginals; and in a choice, exactly, one cell, or whether that has two records."""

    cell: int
    whether_two: bool = False
    name = "one-cell"

    def check(self, workload, cost, neighbours):
        """Everything is taken."""

    def release(self, private, workload, cost):
        drawn = Laplace().release(private, workload, cost)
        (cells,) = private.exact(Workload.marginals(private.domain, [list(private.domain.names)]))
        told = int(cells[self.cell] > 1) if self.whether_two else int(cells[self.cell])
        return replace(drawn, choices={"sizes": {"smallest": told}})


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("cell", range(8))
def test_what_is_told_of_any_one_cell_convicts_and_is_named(cell, neighbours):
    found = audit_mechanism(OneCellExact(cell), ONE, neighbours, samples=1_000, entropy=Entropy.insecure(4))
    assert found.convicted
    assert "what was chosen: sizes.smallest" in found.event
    label = " and ".join(f"{name} = {cell >> place & 1}" for name, place in (("a", 2), ("b", 1), ("c", 0)))
    assert label in found.inputs
    assert found.inputs.endswith("which differ in each of the 8 cells")
    assert found.to_json()["inputs"] == found.inputs


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("cell", [0, 1, 7])
def test_whether_a_cell_has_two_records_convicts(cell, neighbours):
    """Of the tables that are audited some hold a record twice."""
    found = audit_mechanism(
        OneCellExact(cell, whether_two=True), ONE, neighbours, samples=1_000, entropy=Entropy.insecure(4)
    )
    assert found.convicted


def test_a_cell_in_which_no_pair_differs_is_acquitted():
    """Why each cell has a pair: on other neighbours the leak cannot be seen, however many runs there are."""
    cube = Domain.coded({"a": 2, "b": 2, "c": 2})
    run = released(OneCellExact(5), Workload.marginals(cube, 2), ONE, Neighbours.ADD_REMOVE)
    first, second = (Table(cube, (np.zeros(n, np.uint8),) * 3) for n in (3, 4))
    assert not audit(run, first, second, ONE, samples=1_000, entropy=Entropy.insecure(4)).convicted


def test_of_a_large_universe_it_is_said_in_how_many_cells_pairs_differ():
    wide = Workload.marginals(Domain.coded({"a": 40, "b": 5}), 1)
    found = audit_mechanism(
        Laplace(), ONE, Neighbours.ADD_REMOVE, workload=wide, samples=1_000, entropy=Entropy.insecure(7)
    )
    pairs, cells = re.search(r"the worst of (\d+) pairs, which differ in (\d+) of the 200 cells", found.inputs).groups()
    assert 16 <= int(cells) <= int(pairs) <= 24


@dataclass(frozen=True)
class Telling:
    """Laplace noise, and beside it what is exact: as a choice, in a second measurement of a group, or as its noise."""

    where: str
    name = "telling"

    def check(self, workload, cost, neighbours):
        """Everything is taken."""

    def release(self, private, workload, cost):
        drawn = Laplace().release(private, workload, cost)
        exact = float(private.exact(workload)[0].sum())
        first = drawn.measurements[0]
        match self.where:
            case "a choice":
                return replace(drawn, choices={**drawn.choices, "records": [exact]})
            case "a text":
                return replace(drawn, choices={"size": f"{exact:.0f} records"})
            case "an earlier measurement":
                return replace(
                    drawn, measurements=(replace(first, values=first.values * 0 + exact), *drawn.measurements)
                )
            case "a later measurement":
                return replace(
                    drawn, measurements=(*drawn.measurements, replace(first, values=first.values * 0 + exact))
                )
            case "a zero" | "a truth" | "a kind of number":
                pairs = {"a zero": (0.0, -0.0), "a truth": (1, True), "a kind of number": (1, 1.0)}
                return replace(drawn, choices={"size": pairs[self.where][int(exact) % 2]})
            case "whether rules are kept":
                return replace(drawn, constrained=bool(exact % 2))
            case _:
                noise = {
                    "the scale": replace(first.noise, scale=first.noise.scale + exact),
                    "the law": replace(first.noise, law="discrete Gaussian" if exact % 2 else first.noise.law),
                    "the unit": replace(first.noise, unit=1.0 + exact % 2),
                }
                told = replace(first, noise=noise[self.where])
                return replace(drawn, measurements=(told, *drawn.measurements[1:]))


@pytest.mark.parametrize(
    "where",
    [
        *("a choice", "a text", "an earlier measurement", "a later measurement", "the scale", "the law", "the unit"),
        *("a zero", "a truth", "a kind of number", "whether rules are kept"),
    ],
)
def test_what_a_mechanism_tells_beside_its_answers_is_audited_too(where):
    found = audit_mechanism(Telling(where), ONE, Neighbours.ADD_REMOVE, samples=1_000, entropy=Entropy.insecure(3))
    assert found.convicted
    assert found.epsilon > 3


@pytest.mark.parametrize("kind", [broken.PrivateSample, broken.PrivateDescription, broken.PrivateCells])
def test_a_synopsis_that_has_the_records_convicts_though_its_answers_are_noisy(kind):
    """Of SmallDB, whose records are drawn at once: what is no synopsis of the package is sampled in every run."""
    honest, leaking = (broken.PrivateSynopsis(SmallDB(), k) for k in (broken.Wrapped, kind))
    effort = {"samples": 1_000, "entropy": Entropy.insecure(3)}
    assert not audit_mechanism(honest, ONE, Neighbours.ADD_REMOVE, **effort).convicted
    found = audit_mechanism(leaking, ONE, Neighbours.ADD_REMOVE, **effort)
    assert found.convicted
    assert ("synthetic records" if kind is broken.PrivateSample else "the synopsis") in found.event


def test_a_long_list_in_a_description_is_told_by_its_sum_and_a_checksum():
    wide = Workload.marginals(Domain.coded({"a": 5, "b": 20}), 1)
    run = released(broken.PrivateSynopsis(SmallDB(), broken.PrivateDescription), wide, ONE, Neighbours.ADD_REMOVE)
    tables = [Table(wide.domain, (np.zeros(3, np.uint8), np.array(codes))) for codes in ([0, 1, 2], [0, 1, 3])]
    said = [run(records, Entropy.insecure(seed)) for records in tables for seed in (1, 2)]
    assert [told["the synopsis: cells sum"] for told in said] == [3.0] * 4
    one, again, two, _ = (told["the synopsis: cells checksum"] for told in said)
    assert one == again != two


def test_the_text_of_a_spend_convicts():
    leaking = broken.PrivateSpends(Laplace())
    found = audit_mechanism(leaking, ONE, Neighbours.ADD_REMOVE, samples=1_000, entropy=Entropy.insecure(3))
    assert found.convicted
    assert "what spend 1 is of is" in found.event


def test_a_long_audit_of_a_function_says_so_before_it_begins(capsys):
    called = [0]

    def slow(data, entropy):
        called[0] += 1
        if called[0] == 30:
            raise InterruptedError
        time.sleep(0.1)
        return data

    with pytest.raises(InterruptedError):
        audit(slow, 0, 1, ONE, samples=3_000)
    said = (
        "qrelease: 6,000 runs, about (.*) minutes in all, by the first 20 of them; samples=1,000 .* about (.*) minutes,"
        " and find larger.*\n"
    )
    ((told, shorter),) = re.findall(said, capsys.readouterr().err)
    assert 10 <= float(told) < 30
    assert float(shorter) == pytest.approx(float(told) / 3, abs=0.2)
    audit(lambda data, entropy: data, 0, 1, ONE, samples=1_000)
    assert "minutes in all" not in capsys.readouterr().err


def test_a_long_audit_says_how_long_it_takes(capsys):
    domain = Domain.coded({"a": 2})
    run = released(Laplace(), Workload.marginals(domain, 1), ONE, Neighbours.ADD_REMOVE)
    foretell(run, Table(domain, (np.zeros(3, np.uint8),)), 28_000_000, 10_000_000, 0.99)
    (told,) = capsys.readouterr().err.splitlines()
    pattern = r"28,000,000 runs, about (.*) minutes in all, by the first 100 of them; samples=(.*) \(--samples\) .*"
    found = re.fullmatch(
        rf"qrelease: {pattern}\(without any noise they show epsilon (.*), and with some far less\)", told
    )
    minutes, samples, most = (float(number.replace(",", "")) for number in found.groups())
    assert samples * minutes == pytest.approx(10_000_000, rel=0.5)
    # What the auditor makes of an event that tells for sure, on the half of the runs that it is tested on.
    shown = audit(lambda data, _: data, 0, 1, ONE, samples=int(samples), entropy=Entropy.insecure(1)).bound
    assert shown <= most < shown + 0.11


@dataclass(frozen=True)
class LargestGap:
    """Laplace noise, and beside it, without any, which marginal is farthest from uniform, or which cell is largest."""

    what: str
    name = "largest"

    def check(self, workload, cost, neighbours):
        """Everything is taken."""

    def release(self, private, workload, cost):
        drawn = Laplace().release(private, workload, cost)
        exact = [np.ravel(part).astype(float) for part in private.exact(workload)]
        if self.what == "the largest cell":
            scores = np.concatenate(exact)
        else:
            scores = np.array([np.abs(part - part.mean()).sum() for part in exact])
        if self.what == "the last of the farthest":
            scores = np.arange(len(scores)) * 1e-6 + scores
        return replace(drawn, choices={"selected": int(scores.argmax())})


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("what", ["the farthest", "the last of the farthest", "the largest cell"])
def test_a_selection_without_noise_is_convicted_by_a_tie(what, neighbours):
    found = audit_mechanism(LargestGap(what), ONE, neighbours, samples=1_000, entropy=Entropy.insecure(4))
    assert found.convicted
    assert "what was chosen: selected" in found.event


@dataclass(frozen=True)
class AboveTen(Telling):
    """It tells exactly whether there are more than ten records, which none of the small tables has."""

    where: str = "a choice"

    def release(self, private, workload, cost):
        drawn = Laplace().release(private, workload, cost)
        return replace(drawn, choices={"many": bool(private.exact(workload)[0].sum() > 10)})


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_a_table_of_ones_own_is_compared_with_its_neighbours(neighbours):
    effort = {"samples": 1_000, "entropy": Entropy.insecure(4)}
    ages = Table(Domain.coded({"age": 3}), (np.array([0] * 7 + [1, 2, 2]),))
    few = audit_mechanism(AboveTen(), ONE, neighbours, **effort)
    many = audit_mechanism(AboveTen(), ONE, neighbours, table=ages, **effort)
    assert not few.convicted
    assert many.convicted == (neighbours is Neighbours.ADD_REMOVE)  # elsewhere the number of records is public
    assert "of 10 records; the worst of" in many.inputs
    assert "with age = " in many.inputs
    assert "this holds for these two inputs only" in str(few)
    wrong = broken.Overspending(Laplace(), 4)
    assert audit_mechanism(wrong, ONE, neighbours, table=ages, **effort).convicted


def test_a_table_and_a_workload_are_of_the_same_columns():
    ages = Table(Domain.coded({"age": 3}), (np.array([0, 1]),))
    with pytest.raises(InvalidInput, match="the table has other columns than the workload"):
        audit_mechanism(Laplace(), ONE, Neighbours.ADD_REMOVE, workload=BOTH, table=ages)
