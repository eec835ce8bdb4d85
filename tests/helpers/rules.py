"""Every update rule and every distinguisher, and an adversary that keeps a rule updating for as long as it can."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from worlds import PEOPLE, random_table, repeated

from qrelease.inference.maximum_entropy_rule import MaximumEntropy
from qrelease.inference.measurement import Measurement
from qrelease.inference.median_rule import MedianRule
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.inference.nets import Listed
from qrelease.inference.update_rules import Hedge, Perceptron, Projection
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.mechanisms.iterative.distinguishers import PerturbedLeader, Select
from qrelease.noise.distributions import Noise
from qrelease.queries.families import Vectors
from qrelease.queries.oracles import ConjunctionOracle, PredicateOracle
from qrelease.queries.workload import Group, Workload

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"

(OWN,) = re.findall(r"```python\n(.*?class \w+Perceptron.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL)


def _contributed():
    """The rule that CONTRIBUTING shows, from its text."""
    names = {"__name__": __name__}
    exec(OWN, names)
    return names["ProjectedPerceptron"]


ProjectedPerceptron = _contributed()

TABLE = random_table(PEOPLE, 400, 0)


def distribution(table):
    """The records as cells of one weight each."""
    cells = np.flatnonzero(table.histogram())
    counts = table.histogram()[cells]
    return WeightedRecords(table.domain, cells, counts / counts.sum(), float(counts.sum()))


NET = Listed((*(distribution(random_table(PEOPLE, 12, seed)) for seed in range(30)), distribution(TABLE)))

RULES = [
    MultiplicativeWeights(),
    Hedge(0.05),
    Projection(0.05),
    Perceptron(0.05),
    MedianRule(NET, 0.05),
    ProjectedPerceptron(0.05),
]

MARGINAL_RULES = [MaximumEntropy()]
"""Those that learn from whole marginals only."""

BOUNDED = [rule for rule in RULES if hasattr(rule, "update_bound")]


@dataclass(frozen=True)
class Heaviest:
    """An oracle of one's own: the one cell of the largest weight."""

    def best(self, marginal, weights):
        return np.arange(marginal.size) == np.argmax(weights)

    def log_count(self, marginal):
        return np.log(marginal.size)


DISTINGUISHERS = [
    Select("group"),
    Select("query"),
    Select("group", "permute-and-flip"),
    Select("query", "permute-and-flip"),
    PerturbedLeader(ConjunctionOracle()),
    PerturbedLeader(PredicateOracle()),
    PerturbedLeader(Heaviest()),
]


EXACT = Noise("discrete Gaussian", 1e-3)


def measured(workload, answers, noise):
    """One measurement a group with the given answers (k,)."""
    parts = np.split(np.asarray(answers, float), workload.bounds[1:-1])
    return [Measurement(g, v, noise) for g, v in zip(workload.groups, parts, strict=True)]


def divergence(truth, state):
    """KL(truth ‖ state) of the two as distributions."""
    p, q = truth / truth.sum(), state.values / state.total
    where = p > 0
    return float((p[where] * np.log(p[where] / q[where])).sum())


# --- adversaries: they see the table x and the hypothesis, (|X|,) fractions ---------------------------------------


def cells_of(state):
    """What a hypothesis answers for each cell of the universe, (|X|,) fractions."""
    return state.answer(Workload.marginals(state.domain, len(state.domain))) / state.total


def largest(x, state, alpha, rng):
    """The query with the largest gap of all, on either side."""
    y = cells_of(state)
    return (x > y if rng.random() < 0.5 else x < y).astype(float)


def barely(x, state, alpha, rng):
    """A query with hardly more than the gap that counts: the largest, shrunk."""
    query = largest(x, state, alpha, rng)
    gap = abs(query @ (x - cells_of(state)))
    return query * (1.001 * alpha / gap if gap > 1.001 * alpha else 1.0)


def fewest(x, state, alpha, rng):
    """A query of as few cells as have the gap."""
    gaps = (x - cells_of(state)) * rng.choice([-1, 1])
    order = np.argsort(-gaps)
    enough = int(np.searchsorted(np.cumsum(gaps[order]), alpha)) + 1
    return np.isin(np.arange(len(x)), order[:enough]).astype(float)


def random_one(x, state, alpha, rng):
    """Of a hundred random predicates, the one with the least gap that is enough."""
    tried = np.maximum(rng.random((100, len(x))) < rng.random((100, 1)), np.eye(100, len(x)))
    gaps = np.abs(tried @ x - state.answer(repeated(state.domain, tried)) / state.total)
    gaps[gaps < alpha] = np.inf
    return tried[np.argmin(gaps)] if np.isfinite(gaps).any() else largest(x, state, alpha, rng)


ADVERSARIES = [largest, barely, fewest, random_one]


def updates_made(rule, x, adversary, seed, *, total=1000.0):
    """How many updates an adversary gets out of a rule: the number, at most one more than T(α); and T(α).

    It asks any query with a gap of at least α, and answers with any number on the right side. x is a synopsis.
    """
    rng, domain = np.random.default_rng(seed), x.domain
    axes = tuple(range(len(domain)))
    state, bound = rule.start(domain, [axes], total), rule.update_bound(domain)
    for made in range(bound + 1):
        query = Group(axes, Vectors.rounded([adversary(cells_of(x), state, rule.alpha, rng)], domain.size))
        asked = Workload(domain, (query,))
        truth, p = x.answer(asked)[0] / x.total, state.answer(asked)[0] / total
        if abs(truth - p) < rule.alpha:
            return made, bound
        answer = p + (truth - p) * rng.choice([0.01, 0.5, 1.0, 2.0])
        state = rule.update(state, [Measurement(query, np.array([answer * total]), Noise("discrete Laplace", 1.0))])
    return bound + 1, bound
