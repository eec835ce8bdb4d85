"""The promise as sentences: the unit, the numbers, and what they are not about."""

import numpy as np
import pytest

import qrelease as qr
from qrelease.inference.update_rules import Hedge


def released(cost, neighbours="add-remove", person=None, seed=None):
    domain = qr.Domain(qr.Domain.coded({"late": 2}).attributes, person=person)
    column = None if person is None else person.column
    late = np.arange(60) % 2
    table = qr.Table(domain, [late]) if person is None else qr.Table.of_persons(domain, [late], np.arange(60) // 3)
    with qr.Ledger.open(None, cost, dataset="trips", neighbours=neighbours, person=column) as ledger:
        entropy = qr.Entropy.insecure(seed) if seed is not None else None
        return qr.Curator(table, ledger, entropy).release(qr.Laplace(), qr.Workload.marginals(domain, 1), cost)


def test_a_record_and_the_odds():
    promise = released(qr.PureDP(1.0)).promise
    assert promise.startswith("Take any one record, and anything that somebody might conclude from this release: had")
    assert "had that record not been in the table" in promise
    assert "within a factor of 2.72, whatever" in promise
    assert "whether that one is there at all, will be right about it with probability at most 73.2 %" in promise
    assert promise.endswith("the ledger of 'trips' adds them up, and its total is what is promised in all.")
    assert "kept" not in promise
    assert "Nothing" not in promise


@pytest.mark.parametrize(
    ("weights", "of"), [("records", "those that were kept, not of all"), ("persons", "persons: each counts once")]
)
def test_a_person_of_whom_some_records_are_kept(weights, of):
    promise = released(qr.PureDP(0.5), person=qr.Person("who", 2, weights=weights)).promise
    assert "any one person" in promise
    assert "all records of the others" in promise
    assert f"Of each person at most 2 records were kept, and all numbers are of {of}." in promise


def test_replaced_records_and_seeds():
    promise = released(qr.PureDP(20.0), "replace-one", seed=1).promise
    assert promise.startswith("Nothing is promised, as the noise came from an insecure seed. ")
    assert "had that record said anything else" in promise
    assert "within a factor of 10^9," in promise  # e^20 = 4.9e8, rounded up
    assert "which of two things that one says" in promise


@pytest.mark.parametrize("neighbours", qr.Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize(("alpha", "promises"), [(0.1, False), (0.5, True)])
def test_a_release_in_rounds_says_after_how_many_it_ended_and_what_it_used(neighbours, alpha, promises, tmp_path):
    table, cost = qr.data.adult(["age", "sex", "income"]), qr.PureDP(1.0)
    workload, rule = qr.Workload.marginals(table.domain, 2), Hedge(alpha)
    with qr.Ledger.open(None, cost, neighbours=neighbours) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
        curator.release(qr.IterativeConstruction(rule), workload, cost).save(tmp_path / "out", 10)
    release = qr.load(tmp_path / "out")
    most = rule.update_bound(table.domain, workload)
    spent = sum(s.cost.epsilon for s in release.spends)
    made = len(release.spends) // 2  # of one selection and one measurement each; and the count is one more
    (note,) = [note for note in release.notes if "it ended after" in note]
    assert note.startswith(f"it ended after {made} of at most {most:,} rounds, ")
    assert f"used {100 * spent / cost.epsilon:.2g} % of its cost" in note
    assert ("no bound on its error holds" in note) != promises


def test_a_release_that_made_all_its_rounds_says_nothing_of_them():
    table, cost = qr.data.adult(["sex", "income"]), qr.PureDP(1.0)
    with qr.Ledger.open(None, cost) as ledger:
        release = qr.Curator(table, ledger, qr.Entropy.insecure(1)).release(
            qr.MWEM(rounds=2), qr.Workload.marginals(table.domain, 1), cost
        )
    assert not [note for note in release.notes if "ended after" in note]
