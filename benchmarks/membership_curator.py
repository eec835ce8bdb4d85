"""The games against what is given besides releases of records: statistics, learned categories, persons.

One person is in or not, with all of her records, and what comes out is scored by a classifier that has seen it of both.
Each publisher has a twin that claims ε and spends eight times as much.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from qrelease._util.typing import Floats
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.evaluation.attacks.membership import Case, Membership, play
from qrelease.evaluation.attacks.scores import Published, Shadow
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Cost, Filter, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.statistics.catalogue import parse_statistic
from qrelease.statistics.noise_source import ExactNoise
from qrelease.statistics.private_columns import PrivateColumns

WIDTH = 64
"""Numbers of what came out that are looked at."""

STATISTICS = {
    "sum:hours": "many",
    "mean:hours": "many",
    "textbook-mean:hours": "many",
    "clipped-mean:hours": "many",
    "quantile-mean:hours": "even",
    "sparse-vector-mean:hours": "many",
    "truncated-mean:hours/sex,radius=50": "many",
    "sparse-mean:1,origin=0": "many",
    "quantile:sex,q=0.5,interval=no": "even",
    "recursive-quantiles:sex,qs=0.5": "even",
    "tree-quantiles:hours,qs=0.5/0.9": "few",
    "most-common:sex,k=1": "even",
    "above-thresholds:sex,threshold=200": "alike",
    "independence-test:sex,second=income": "many",
    "fit-test:sex,shares=1/1": "many",
    "lipschitz-tester:sex/income,distance=1": "last",
    "functional-mechanism:income,features=sex": "one",
    "vector-mean:hours/sex": "many",
    "peeling-mean:1,origin=0": "many",
    "adassp:hours,features=sex": "many",
    "noisy-descent:income,features=sex,loss=logistic": "one",
}
"""As the command line has them, with the `worlds` that they are asked in: those in which one person decides the most.

The twins of `propose-test-release`, `uniformity-test`, `gaussian-mean-test`, `efficient-tester`, `smooth-sensitivity`
and `sample-and-aggregate` are not played: their laws are listed or bounded in the tests of each."""

NEEDS_MORE = ("vector-mean", "peeling-mean", "adassp", "noisy-descent")
"""Which of them take no pure ε: they are at a ρ, of which a twin spends 64 times as much."""

QUICKLY = {"adassp": 800, "peeling-mean": 1600, "functional-mechanism": 800, "noisy-descent": 240}
"""Runs in the quick form, where they are not 400: those whose twins show least, and one that takes long."""

Publisher = Callable[[bool, Cost], Any]
"""What comes out of a table with the person, or without, within a cost."""


@dataclass(frozen=True)
class Game:
    """What is published about somebody, at a claimed cost, how many runs there is time for, and for the quick form."""

    name: str
    claim: Cost
    publish: Publisher
    runs: int
    quickly: int


def numbers(found: object) -> Iterator[float]:
    """All numbers of what came out, in order; texts as a number for each."""
    if isinstance(found, dict):
        found = found.values()
    if isinstance(found, str):
        yield float(int.from_bytes(found.encode()[:4], "big"))
    elif isinstance(found, Iterable):
        for each in found:
            yield from numbers(each)
    else:
        yield float(found) if isinstance(found, int | float | np.number) else 0.0


def padded(found: object) -> Floats:
    """The first numbers of what came out, and zeros, (WIDTH,)."""
    each = np.nan_to_num(np.array([*numbers(found)][:WIDTH]), posinf=1e6, neginf=-1e6)
    return np.pad(each, (0, WIDTH - len(each)))


def worlds() -> dict[str, tuple[Neighbours, list[Table]]]:
    """Tables without somebody and with her, columns hours of 0 to 99, sex and income of 0 and 1.

    many   forty people, and one more with the largest number
    few    two people, and one more, who moves their quantiles
    even   2 048 people half of whom have the least number and half the largest; one more has either
    alike  199 people of one kind, and one more, who makes the count reach a threshold
    last   200 people, all alike, or one of them is not
    one    somebody, and somebody else
    """
    domain, rng = Domain.coded({"hours": 100, "sex": 2, "income": 2}), np.random.default_rng(0)

    def pair(*codes: Any) -> list[Table]:
        """Tables of people with a code in the two columns of two values, and 99 times as much in the first."""
        both: list[Any] = [np.asarray(c, np.int64) for c in codes]
        return [Table(domain, (99 * c, c, c)) for c in both]

    columns = np.append(rng.integers(20, 60, 40), 99), *(np.append(rng.integers(0, 2, 40), 1) for _ in range(2))
    few, half, ones = [np.append(c[:2], c[-1]) for c in columns], np.arange(2048) % 2, np.ones(200)
    add, replaced = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
    return {
        "many": (add, [Table(domain, tuple(c[:n] for c in columns)) for n in (40, 41)]),
        "few": (add, [Table(domain, tuple(c[:n] for c in few)) for n in (2, 3)]),
        "even": (replaced, pair(*(np.append(half, b) for b in (0, 1)))),
        "alike": (add, pair(ones[:-1], ones)),
        "last": (replaced, pair(*(np.append(ones[:-1], b) for b in (0, 1)))),
        "one": (add, pair([0], [0, 1])),
    }


def estimates(entropy: Entropy) -> Iterator[Game]:
    """Statistics, each in its world."""
    found = worlds()
    for text, world in STATISTICS.items():
        statistic, (near, tables) = parse_statistic(text), found[world]

        def publish(
            member: bool, cost: Cost, statistic: Any = statistic, near: Neighbours = near, tables: list[Table] = tables
        ) -> Any:
            result = statistic.estimate(PrivateColumns(tables[member], near, Filter(cost), ExactNoise(entropy)), cost)
            return [result.value, [m.value for m in result.measured]]

        claim = ZCDP(0.05) if statistic.name in NEEDS_MORE else PureDP(1.0)
        yield Game(text, claim, publish, 1600, QUICKLY.get(statistic.name, 400))


def eightfold(cost: Cost) -> Cost:
    """8 ε, or the ρ that it is like."""
    return ZCDP(64 * cost.rho) if isinstance(cost, ZCDP) else replace(cost, epsilon=8 * cost.epsilon)


def schemas(entropy: Entropy) -> Iterator[Game]:
    """A category that three have, with the person."""
    domain, values = Domain((Attribute("ward", "category", learn=5, missing=("",)),)), [*["north"] * 20, *["south"] * 3]
    tables = [Table.from_frame(pd.DataFrame({"ward": each}), domain) for each in (values[:-1], values)]

    def publish(member: bool, cost: Cost) -> Any:
        with Ledger.open(None, cost, dataset="people") as ledger:
            (found,) = Curator(tables[member], ledger, entropy).learn(cost).domain
        return [len(found.labels), found.labels]

    yield Game("learned categories", ApproxDP(1.0, 1e-6), publish, 400, 200)


def persons(entropy: Entropy) -> Iterator[Game]:
    """People with two records each, counted by records and by persons; and one more with three in one cell."""
    cells = [np.append(np.arange(60) % 3, [2] * 3), np.append(np.arange(60) % 2, [1] * 3)]
    who = [*(i // 2 for i in range(60)), *[99] * 3]
    for weights in ("records", "persons"):
        domain = Domain(Domain.coded({"a": 3, "b": 2}).attributes, person=Person("who", 3, weights=weights))
        tables = [Table.of_persons(domain, [c[:n] for c in cells], who[:n]) for n in (60, 63)]
        workload = Workload.marginals(domain, [["a", "b"]])

        def publish(member: bool, cost: Cost, tables: list[Table] = tables, workload: Workload = workload) -> Any:
            with Ledger.open(None, cost, person="who") as ledger:
                found = Curator(tables[member], ledger, entropy).release(Laplace(), workload, cost)
            return [m.values for m in found.measurements]

        yield Game(f"persons, weights={weights}", PureDP(1.0), publish, 400, 120 if weights == "records" else 0)


def curator_games(rng: np.random.Generator, entropy: Entropy, quick: bool) -> list[Membership]:
    """All of them, and a twin of each, which needs the more runs of the two."""
    rows: list[Membership] = []
    domain = Domain.coded({"in": 2})
    tables = [Table(domain, (np.zeros(1, np.int64),)) for _ in range(2)]
    asked, case = Workload.marginals(domain, 1), Case(tables[0], tables[1], np.zeros(1, np.int64))
    for game in (*estimates(entropy), *schemas(entropy), *persons(entropy)):
        honest, twin = (min(game.quickly, 200), game.quickly) if quick else (game.runs, game.runs)
        for cost, said, runs in ((game.claim, "", honest), (eightfold(game.claim), ", 8 times", twin)):
            if not runs:
                continue

            def publish(table: Table, game: Game = game, cost: Cost = cost) -> Published:
                return Published(asked, padded(game.publish(table is case.within, cost)))

            name = f"{game.name}{said}, {game.claim:.6g}"
            rows += play(name, lambda _: case, publish, [Shadow()], game.claim, runs=runs, rng=rng)
    return rows
