"""Small tables and workloads for the tests of the core, and what they must give, by brute force."""

import itertools
from collections import Counter

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Filter, Neighbours, PureDP
from qrelease.queries.families import Vectors
from qrelease.queries.workload import Group, Workload

PROPERTY = settings(max_examples=60)

BOTH = [Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE]

PEOPLE = Domain(
    (
        Attribute("sex", "category", categories=("F", "M")),
        Attribute("age", "number", edges=(0, 20, 40, 60), integer=True, missing=("?",)),
        Attribute("grade", "coded", codes=3, ordered=True),
    )
)
"""24 cells: a category, bins with a missing cell, ordered codes."""

# Sizes 1 and 2, sizes that are no powers of two, one long axis, many short ones.
SHAPES = st.one_of(
    st.lists(st.sampled_from([1, 2, 3, 5, 6]), min_size=1, max_size=6).map(tuple),
    st.integers(1, 300).map(lambda n: (n,)),
    st.integers(1, 11).map(lambda d: (2,) * d),
    st.permutations([300, 2, 3, 1]).map(tuple),
)


def coded(*sizes):
    """A domain of ordered, integer-coded columns a, b, c, …."""
    return Domain.coded({chr(ord("a") + i): n for i, n in enumerate(sizes)})


def table_of(domain, records):
    """A table of records given as rows of codes, (n, d)."""
    rows = np.asarray(records, np.int64).reshape(-1, len(domain))
    return Table(domain, tuple(rows.T))


def random_table(domain, rows, seed):
    """Records drawn with some structure: the first columns are skewed, each later one leans on the one before."""
    rng = np.random.default_rng(seed)
    columns = [np.zeros(rows, np.int64)]
    for n in domain.shape:
        fresh = (n * rng.random(rows) ** 2).astype(np.int64)
        columns.append(np.where(rng.random(rows) < 0.5, columns[-1] % n, fresh))
    return Table(domain, tuple(columns[1:]))


def universe(domain):
    """Every possible record, (|X|, d), in the order of the cells."""
    return np.array(list(itertools.product(*map(range, domain.shape))), np.int64)


def records_of(table):
    """The records of a table, (n, d)."""
    return np.stack([c.astype(np.int64) for c in table.columns], axis=1)


def neighbouring(table, relation):
    """Every table that differs from this one by one record under the relation; each once or more."""
    records, cells = records_of(table), universe(table.domain)
    kept = [np.delete(records, i, axis=0) for i in np.unique(records, axis=0, return_index=True)[1]]
    bases = [records] if relation is Neighbours.ADD_REMOVE else kept
    changed = [np.vstack([base, cell]) for base in bases for cell in cells]
    return [table_of(table.domain, r) for r in (changed + kept if relation is Neighbours.ADD_REMOVE else changed)]


def matrix(queries):
    """W (k, cells) of a family, int64 in its units, from its answers to one record in each cell."""
    cells = len(queries.adjoint(np.zeros(queries.count)))
    return np.stack([queries.apply(row) for row in np.eye(cells, dtype=np.int64)], axis=1)


def full_matrix(workload):
    """All queries over the universe, (k, |X|), in counts, without the package's projections."""
    cells = universe(workload.domain)
    parts = []
    for g in workload.groups:
        shape = [workload.domain.shape[a] for a in g.axes]
        index = np.ravel_multi_index([cells[:, a] for a in g.axes], shape) if shape else np.zeros(len(cells), int)
        parts.append(matrix(g.queries)[:, index] * g.queries.unit)
    return np.vstack(parts)


def moved(columns, order, relation):
    """The most that one record moves all answers: Σ|Δ|^order over pairs of columns of W (k, cells), or one column."""
    if relation is Neighbours.ADD_REMOVE:
        return (np.abs(columns) ** order).sum(axis=0).max()
    return max((np.abs(columns.T - c) ** order).sum(axis=1).max() for c in columns.T)


def mixed(domain=PEOPLE):
    """Marginals, ranges, prefixes, a predicate and real-valued vectors in one workload."""
    rng = np.random.default_rng(5)
    return (
        Workload.marginals(domain, [["sex", "age"], ["grade"]])
        + Workload.ranges(domain, "grade")
        + Workload.prefixes(domain, "age")
        + Workload.predicates(domain, "sex = F and age in 0..39")
        + Workload.vectors(domain, rng.random((4, 6)), columns=["sex", "grade"])
    )


def repeated(domain, rows):
    """Explicit queries over the universe, of which some may be the same."""
    return Workload(domain, (Group(tuple(range(len(domain))), Vectors.rounded(rows, domain.size)),))


def private(table, cost=None, neighbours=Neighbours.ADD_REMOVE, entropy=None):
    """The door to a table under a budget of its own (a large one by default)."""
    budget = Filter(PureDP(1e9) if cost is None else cost)
    return Private(table, neighbours, budget, Entropy.insecure(0) if entropy is None else entropy)


def run(mechanism, table, workload, cost, relation=Neighbours.ADD_REMOVE, seed=0):
    """What a mechanism returns after its check, and the door that it went through."""
    door = private(table, cost, relation, Entropy.insecure(seed))
    mechanism.check(workload, cost, relation)
    return mechanism.release(door, workload, cost), door


def true_answers(workload, table):
    """(k,) counts, from the dense matrix."""
    cells = Counter(map(tuple, records_of(table).tolist()))
    x = np.array([cells[tuple(r)] for r in universe(table.domain).tolist()], float)
    return full_matrix(workload) @ x


class SpyEntropy:
    """An insecure stream that counts its words and runs a check before the first of them."""

    def __init__(self, seed, before=None):
        self._entropy, self._before, self.taken = Entropy.insecure(seed), before, 0

    @property
    def insecure_seed(self):
        return self._entropy.insecure_seed

    def words(self, n):
        if self._before is not None and self.taken == 0:
            self._before()
        self.taken += n
        return self._entropy.words(n)
