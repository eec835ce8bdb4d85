"""Membership scores find people in what is exact."""

from dataclasses import replace

import numpy as np

import qrelease as qr
from qrelease.data import adult
from qrelease.evaluation.attacks.membership import (
    drawn,
    play,
    published_exactly,
)
from qrelease.evaluation.attacks.scores import Tracing
from qrelease.privacy import Neighbours
from tests.evaluation.attacks.members import PAIRS, game


def test_tracing_finds_people_drawn_anew_in_exact_marginals():
    """Many columns, few people: as with genomes. And of many people in few columns next to nothing."""
    population = adult(["age", "education", "occupation", "race", "sex", "hours-per-week"])
    for people, least, most in ((50, 0.5, 1.0), (5000, -0.5, 0.3)):
        publish = published_exactly(qr.Workload.marginals(population.domain, 3))
        world = drawn(population, people, Neighbours.REPLACE_ONE)
        (found,) = play("exact", world, publish, [Tracing(population)], None, runs=200, rng=np.random.default_rng(4))
        assert least <= found.advantage.value <= most


def test_a_copy_of_the_records_is_found_by_the_nearest():
    class Copy:
        """A synopsis that gives the records away."""

        def __init__(self, table):
            self.table, self.domain, self.total, self.has_table = table, table.domain, float(len(table)), True

        def sample(self, rows, rng):
            return self.table.columns

        def answer(self, workload):
            return workload.answers(np.concatenate(self.table.counts(workload.sets)) * 1.0)

    exactly = published_exactly(PAIRS)
    found = game(lambda table: replace(exactly(table), synopsis=Copy(table)), None, runs=80)
    assert found["nearest"].value == found["likelihood"].value == 1.0
