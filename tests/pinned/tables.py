"""Small private tables, and the workloads that are asked of them."""

from dataclasses import replace

import numpy as np

import qrelease as qr

PEOPLE = qr.Domain(
    (
        qr.Attribute("sex", "category", categories=("F", "M")),
        qr.Attribute("age", "number", edges=(0, 20, 40, 60), integer=True, missing=("?",)),
        qr.Attribute("grade", "coded", codes=3, ordered=True),
    )
)
"""24 cells: a category, bins with a missing cell, ordered codes."""

RULED = replace(PEOPLE, impossible=("sex = 'M' and age in 0..19", "grade = 2 and age is missing"))

TINY = qr.Domain.coded({"a": 2, "b": 3})

LONG = qr.Domain.coded({"a": 20})

WIDE = qr.Domain.coded(dict.fromkeys("abcdefg", 3))

MANY = qr.Domain.coded(dict.fromkeys("abcd", 300))
"""Its pairs of columns have 540,000 cells: more answers than are drawn from one stream."""

HUGE = qr.Domain.coded({f"c{i}": 4 for i in range(24)})
"""2^48 cells: no histogram."""


def table(domain, rows, seed=0):
    """Records with some structure: low codes are more frequent, and each column leans on the one before."""
    rng = np.random.default_rng(seed)
    columns = [np.zeros(rows, np.int64)]
    for n in domain.shape:
        fresh = (n * rng.random(rows) ** 2).astype(np.int64)
        columns.append(np.where(rng.random(rows) < 0.5, columns[-1] % n, fresh))
    return qr.Table(domain, tuple(columns[1:]))


def lawful(domain, rows):
    """As `table`, without what is impossible: those records are of cell 0."""
    found = table(domain, rows)
    sex, age, grade = found.columns
    wrong = ((sex == 1) & (age == 0)) | ((grade == 2) & (age == 3))
    return qr.Table(domain, tuple(np.where(wrong, 0, c) for c in (sex, age, grade)))


def mixed(domain):
    """Marginals, ranges, prefixes, predicates and real-valued vectors in one workload."""
    rows = np.random.default_rng(5).random((4, 6))
    return (
        qr.Workload.marginals(domain, [["sex", "age"], ["grade"]])
        + qr.Workload.ranges(domain, "grade")
        + qr.Workload.prefixes(domain, "age")
        + qr.Workload.predicates(domain, "sex = F and age in 0..39")
        + qr.Workload.vectors(domain, rows, columns=["sex", "grade"])
    )


def pairs(domain):
    return qr.Workload.marginals(domain, 2)


def triples(domain):
    return qr.Workload.marginals(domain, 3)


def neighbours_pairs(domain):
    """Marginals of consecutive columns."""
    return qr.Workload.marginals(domain, [list(pair) for pair in zip(domain.names, domain.names[1:], strict=False)])


def ranges(domain):
    return qr.Workload.ranges(domain, domain.names[0])


def boxes(domain):
    return qr.Workload.boxes(domain, ["age", "grade"])


def ones(domain):
    return qr.Workload.marginals(domain, 1)
