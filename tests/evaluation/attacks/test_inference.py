"""A copy of the records gives their bits away; a release tells of its people what it tells of everybody."""

import numpy as np
import pytest

import qrelease as qr
from qrelease.data import adult
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.inference import Guesser, infer
from qrelease.noise.entropy import Entropy

TABLE = adult(["age", "education", "marital-status", "occupation", "sex", "hours-per-week", "income"])
SHAPE = TABLE.domain.shape[:-1]


def side(first, last, seed=0):
    """Some people: all columns but the last, and whether they earn much."""
    chosen = np.random.default_rng(seed).permutation(len(TABLE))[first:last]
    return tuple(c[chosen] for c in TABLE.columns[:-1]), TABLE.columns[-1][chosen] == 1


MEMBERS, OTHERS, THIRD = side(0, 4000), side(4000, 8000), side(8000, 12000)


def test_the_records_themselves_give_their_bits_away():
    found = infer("the records", Guesser.of(*MEMBERS, SHAPE), MEMBERS, OTHERS)
    assert found.members > 0.93
    assert found.leak > 10 * found.deviation


def test_other_people_tell_of_both_alike_and_more_than_the_base_rate():
    found = infer("other people", Guesser.of(*THIRD, SHAPE), MEMBERS, OTHERS)
    assert abs(found.leak) < 4 * found.deviation
    assert found.members > found.base_rate + 0.03


def test_a_release_tells_of_its_people_what_it_tells_of_others():
    table = qr.Table(TABLE.domain, (*MEMBERS[0], MEMBERS[1].astype(np.uint8)))
    workload = qr.Workload.marginals(table.domain, 2)
    cost = qr.ApproxDP(1.0, 1e-9)
    with qr.Ledger.open(None, cost, dataset="adult") as ledger:
        release = qr.Curator(table, ledger, Entropy.insecure(0)).release(qr.MWEM(rounds=10), workload, cost)
    *columns, income = release.codes(None, np.random.default_rng(0))
    found = infer("release", Guesser.of(columns, income == 1, SHAPE), MEMBERS, OTHERS)
    assert abs(found.leak) < 4 * found.deviation


def test_weights_stand_for_records():
    columns, bits = (np.array([0, 0, 1]),), np.array([True, False, True])
    heavy = Guesser.of(columns, bits, [2], np.array([1.0, 9.0, 1.0])).chances(columns)
    assert heavy[0] < 0.5 < Guesser.of(columns, bits, [2], np.array([9.0, 1.0, 1.0])).chances(columns)[0]
    with pytest.raises(InvalidInput, match="no records"):
        Guesser.of((np.array([], int),), np.array([], bool), [2])
