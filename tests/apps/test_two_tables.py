"""Two tables in one release: what it costs, no child without a parent, and a structure that is that of the data."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from planes import FLIGHTS, PLANES, M, made

from qrelease.apps.two_tables import release_linked
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.data.two_tables import TwoTables
from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator


def test_nothing_is_charged_unless_both_are_covered_and_fit():
    both = made(200)[0]
    with Ledger.open(None, PureDP(1.0), person="plane") as ledger:
        Curator(both.parents, ledger).release(Laplace(), _pairs(both.parents), PureDP(0.5))
        with pytest.raises(BudgetExceeded):
            release_linked(both, ledger, Laplace(), PureDP(1.0), changed_rows=True)
        for wrong, said in ((Matrix(), "a synthetic table is wanted"), (MaxEnt(objective="largest"), "give --delta")):
            cost = ApproxDP(0.5, 1e-6) if isinstance(wrong, Matrix) else PureDP(0.5)
            with pytest.raises(InvalidInput, match=said):
                release_linked(both, ledger, wrong, cost, changed_rows=True)
        with pytest.raises(InvalidInput, match="share must be between 0 and 1"):
            release_linked(both, ledger, Laplace(), PureDP(0.5), share=1.0)
        assert ledger.spent == PureDP(0.5)


@dataclass(frozen=True)
class Overtaken:
    """Laplace, but when it is looked at for the sixth time, which is the last, somebody else charges the ledger."""

    ledger: Ledger
    looked: list[int] = field(default_factory=list)
    name: ClassVar[str] = "overtaken"

    def check(self, workload, cost, neighbours):
        self.looked.append(len(workload))
        if len(self.looked) == 6:
            self.ledger.charge(PureDP(0.5), "another process")
        Laplace().check(workload, cost, neighbours)

    def release(self, private, workload, cost):
        return Laplace().release(private, workload, cost)


def test_both_are_charged_or_none_whatever_others_charge_meanwhile():
    both = made(200)[0]
    with Ledger.open(None, PureDP(1.0), person="plane") as ledger:
        overtaken = Overtaken(ledger)
        with pytest.raises(BudgetExceeded):
            release_linked(both, ledger, overtaken, PureDP(1.0))
        assert len(overtaken.looked) == 6
        assert [entry.label for entry in ledger.history() if entry.kind == "charge"] == ["another process"]


def test_a_run_that_is_cut_off_at_its_end_pays_for_neither_table_anew(tmp_path):
    both = made(200)[0]

    def never_finished(found):
        object.__setattr__(found.children, "id", object())  # which cannot be written down, when the parents were

    with Ledger.open(tmp_path / "planes.ledger", PureDP(2.0), dataset="planes", person="plane") as ledger:
        with pytest.raises(TypeError):
            release_linked(both, ledger, Laplace(), PureDP(1.0), store=never_finished)
        release_linked(both, ledger, Laplace(), PureDP(1.0))
        assert ledger.spent == PureDP(1.0)
        with pytest.warns(UserWarning, match=r"epsilon=0\.5 is charged once more"):
            release_linked(both, ledger, Laplace(), PureDP(1.0))
        assert ledger.spent == PureDP(2.0)


@pytest.mark.parametrize("mechanism", [Laplace(), MaxEnt()], ids=lambda mechanism: mechanism.name)
def test_how_many_parents_have_children_is_not_told(mechanism):
    """Where a parent counts once, and parents are replaced, their sum would be exact: of those with children alone."""
    domains = [Domain(domain.attributes, person=Person("plane", M, weights="persons")) for domain in (PLANES, FLIGHTS)]
    parents = Table.of_persons(domains[0], [np.zeros(9, int), np.zeros(9, int)], range(9))
    children = Table.of_persons(domains[1], [np.zeros(8, int), np.zeros(8, int)], range(8))
    both = TwoTables.of(parents, children)
    with Ledger.open(None, PureDP(1.0), neighbours=Neighbours.REPLACE_ONE, person="plane") as ledger:
        with pytest.raises(InvalidInput, match="how many parents have children is private"):
            release_linked(both, ledger, mechanism, PureDP(1.0))
        assert ledger.spent is None or ledger.spent == PureDP(0.0)
    with Ledger.open(None, PureDP(1.0), person="plane") as ledger:
        found = release_linked(both, ledger, mechanism, PureDP(1.0), entropy=Entropy.insecure(1))
        assert found.children.synopsis.total != 8  # of which the noise is that of one record


def _pairs(table):
    from qrelease.queries.workload import Workload

    return Workload.marginals(table.domain, 2)


def test_a_run_that_is_cut_off_is_gone_on_with_for_free(tmp_path):
    both, drawn = made(200)[0], []

    def fails(found):
        drawn.append(found.children.answers())
        raise OSError("the disk is full")

    with Ledger.open(tmp_path / "x.ledger", PureDP(1.0), person="plane") as ledger:
        with pytest.raises(OSError, match="the disk is full"):
            release_linked(both, ledger, Laplace(), PureDP(1.0), store=fails)
        assert ledger.spent.epsilon == pytest.approx(1.0)
        again = release_linked(both, ledger, Laplace(), PureDP(1.0), changed_rows=True)
        assert np.array_equal(again.children.answers(), drawn[0])
        with pytest.raises(BudgetExceeded):
            release_linked(both, ledger, Laplace(), PureDP(1.0), changed_rows=True)
