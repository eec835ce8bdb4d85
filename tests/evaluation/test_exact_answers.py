"""Exact counts, of records and of persons who count once."""

from collections import Counter

import numpy as np

import qrelease as qr
from qrelease.data.person import Person
from qrelease.evaluation.exact_answers import exact_answers, record_parts

DOMAIN = qr.Domain.coded({"a": 3, "b": 2})


def test_counts_are_those_of_the_records():
    rng = np.random.default_rng(2)
    columns = rng.integers(0, 3, 500), rng.integers(0, 2, 500)
    table, workload = qr.Table(DOMAIN, columns), qr.Workload.marginals(DOMAIN, 2)
    counted = Counter(zip(*(c.tolist() for c in columns), strict=True))
    assert record_parts(table) is None
    assert exact_answers(table, workload).tolist() == [counted[a, b] for a in range(3) for b in range(2)]


def test_a_person_who_counts_once_counts_in_equal_parts():
    person = Person("whose", 3, weights="persons")
    domain = qr.Domain(DOMAIN.attributes, person=person)
    columns = np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1])
    table = qr.Table.of_persons(domain, columns, ["ada", "ada", "ada", "bob"])
    found = exact_answers(table, qr.Workload.marginals(domain, 1))
    np.testing.assert_allclose(found, [1 / 3, 2 / 3, 1, 2 / 3, 4 / 3])
    parts = record_parts(table)
    assert parts is not None
    np.testing.assert_allclose(parts, [1 / 3, 1 / 3, 1 / 3, 1])
