"""A target, people like those around it, and games of membership with all scores."""

import numpy as np

import qrelease as qr
from qrelease.data import adult
from qrelease.evaluation.attacks.membership import (
    known,
    play,
)
from qrelease.evaluation.attacks.scores import ModelLikelihood, NearestNeighbour, Shadow, Tracing
from qrelease.privacy import Neighbours

POPULATION = adult(["race", "sex", "income"])


DOMAIN = POPULATION.domain


PAIRS = qr.Workload.marginals(DOMAIN, 2)


TARGET = np.array([1, 0, 1])  # nobody else in the table below is like that


PURE, APPROX = qr.PureDP(1.0), qr.ApproxDP(1.0, 1e-6)


def table_of(people, seed=0):
    chosen = np.random.default_rng(seed).choice(len(POPULATION), people, replace=False)
    return qr.Table(DOMAIN, tuple(column[chosen] for column in POPULATION.columns))


OTHERS = table_of(60)


def attacks():
    rng = np.random.default_rng(7)
    return [Tracing(POPULATION, known=True), ModelLikelihood(POPULATION), NearestNeighbour(rng), Shadow()]


def game(publish, claim, *, runs=400, neighbours=Neighbours.ADD_REMOVE):
    world = known(OTHERS, TARGET, neighbours)
    found = play("it", world, publish, attacks(), claim, runs=runs, rng=np.random.default_rng(1))
    return {m.attack: m.advantage for m in found}
