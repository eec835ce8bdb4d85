"""A parent table and its children, drawn together: no child without a parent, and the structure of the data."""

import csv

import numpy as np
import pytest
from planes import FLIGHTS, PLANES, M, made

from qrelease.apps.two_tables import release_linked
from qrelease.data.person import CHILDREN
from qrelease.data.table import Table
from qrelease.data.two_tables import TwoTables
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours
from qrelease.privacy.ledger import Ledger
from qrelease.release.reader import load


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_the_structure_is_that_of_the_data(neighbours):
    both, kind, age, flights, of, far, late = made()
    cost = ApproxDP(20.0, 1e-6)
    with Ledger.open(None, cost, neighbours=neighbours, person="plane") as ledger:
        found = release_linked(both, ledger, MaxEnt(), cost, entropy=Entropy.insecure(1))
        assert ledger.spent.epsilon == pytest.approx(cost.epsilon)
        assert sum(entry.kind == "charge" for entry in ledger.history()) == 2
    parents, owner, own = found.codes(None, np.random.default_rng(0))
    assert abs(len(parents[0]) - 3000) < 100
    assert np.array_equal(np.bincount(owner, minlength=len(parents[0])), parents[2])
    assert parents[2].max() <= M
    cut = np.minimum(flights, M)
    for value in (0, 1):
        assert parents[2][parents[0] == value].mean() == pytest.approx(cut[kind == value].mean(), abs=0.15)
        mine, theirs = parents[0][owner] == value, kind[of] == value
        for place in range(3):
            share = np.mean(own[0][mine] == place)
            assert share == pytest.approx(np.mean(far[theirs] == place), abs=0.06)
    for old in range(5):
        assert np.mean(own[1][parents[1][owner] == old]) == pytest.approx(np.mean(late[age[of] == old]), abs=0.08)


def released(both, mechanism, seed=2):
    cost = ApproxDP(20.0, 1e-6)
    with Ledger.open(None, cost, person="plane") as ledger:
        return release_linked(both, ledger, mechanism, cost, entropy=Entropy.insecure(seed))


def test_what_is_written_is_what_is_drawn(tmp_path):
    """The key of a parent is its number from 1, by the name of the person's column; both files are marked."""
    found = released(made(300)[0], MaxEnt())
    found.save(tmp_path / "out", rows=50)
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        *("children", "children.csv", "parents", "parents.csv"),
    ]
    with (tmp_path / "out" / "parents.csv").open() as one, (tmp_path / "out" / "children.csv").open() as other:
        parents, children = list(csv.DictReader(one)), list(csv.DictReader(other))
    assert [row["plane"] for row in parents] == [str(number) for number in range(1, 51)]
    assert {row["INSECURE"] for row in [*parents, *children]} == {"1"}
    whose = [int(row["plane"]) for row in children]
    assert whose == sorted(whose)
    assert [whose.count(number) for number in range(1, 51)] == [int(row[CHILDREN]) for row in parents]
    assert list(children[0]) == ["far", "late", "plane", "INSECURE"]
    for name in ("parents", "children"):
        again = load(tmp_path / "out" / name)
        np.testing.assert_allclose(again.answers(), getattr(found, name).answers(), rtol=1e-6)


def test_the_same_generator_gives_the_same_parents_and_children():
    found = released(made(200)[0], Laplace())
    one, again, other = (found.codes(40, np.random.default_rng(seed)) for seed in (1, 1, 2))
    for a, b in zip((*one[0], one[1], *one[2]), (*again[0], again[1], *again[2]), strict=True):
        assert np.array_equal(a, b)
    assert any(not np.array_equal(a, b) for a, b in zip(one[0], other[0], strict=True))


def test_parents_without_children_are_parents_all_the_same():
    parents = Table.of_persons(PLANES, [np.zeros(40, int), np.zeros(40, int)], range(40))
    nobody = Table.of_persons(FLIGHTS, [np.zeros(0, int), np.zeros(0, int)], [])
    found = released(TwoTables.of(parents, nobody), Laplace())
    drawn, of, own = found.codes(40, np.random.default_rng(0))
    assert [len(column) for column in drawn] == [40] * 3
    assert np.bincount(of, minlength=40).tolist() == drawn[2].tolist()
    assert {len(column) for column in own} == {len(of)}
    assert np.mean(drawn[2] == 0) > 0.9
