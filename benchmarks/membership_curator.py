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
from qrelease.privacy import ApproxDP, Cost, Filter, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.statistics.catalogue import parse
from qrelease.statistics.noise_source import ExactNoise
from qrelease.statistics.private_columns import PrivateColumns

WIDTH = 64
"""Numbers of what came out that are looked at."""

STATISTICS = (
    "sum:hours",
    "mean:hours",
    "textbook-mean:hours",
    "clipped-mean:hours",
    "tree-quantiles:hours,qs=0.5/0.9",
    "independence-test:sex,second=income",
)
"""As the command line has them: those whose twin these games catch. The twins of `quantile`, `recursive-quantiles`,
`most-common`, `above-thresholds`, `functional-mechanism` and `noisy-descent` were not caught by such a classifier, so
that an honest row of theirs would say nothing, and `vector-mean` needs a δ or ρ: they are not played."""

Publisher = Callable[[bool, Cost], Any]
"""What comes out of a table with the person, or without, within a cost."""


@dataclass(frozen=True)
class Game:
    """What is published about somebody, at a claimed cost, and how many runs there is time for, and quickly."""

    name: str
    claim: PureDP | ApproxDP
    publish: Publisher
    runs: int = 400
    quickly: int = 0


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


def estimates(entropy: Entropy) -> Iterator[Game]:
    """Statistics of forty people, and of one more with the largest number; quantiles of two, which one more moves."""
    domain, rng = Domain.coded({"hours": 100, "sex": 2, "income": 2}), np.random.default_rng(0)
    columns = np.append(rng.integers(20, 60, 40), 99), *(np.append(rng.integers(0, 2, 40), 1) for _ in range(2))
    many = [Table(domain, tuple(c[:n] for c in columns)) for n in (40, 41)]
    few = [Table(domain, tuple(np.append(c[:2], c[-1])[:n] for c in columns)) for n in (2, 3)]
    for text in STATISTICS:
        statistic = parse(text)
        tables = few if "quantile" in text else many

        def publish(member: bool, cost: Cost, statistic: Any = statistic, tables: list[Table] = tables) -> Any:
            near = Neighbours.ADD_REMOVE
            found = statistic.estimate(PrivateColumns(tables[member], near, Filter(cost), ExactNoise(entropy)), cost)
            return [found.value, [m.value for m in found.measured]]

        yield Game(text, PureDP(1.0), publish, 1600, 400)


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

        yield Game(f"persons, weights={weights}", PureDP(1.0), publish, 400, 120)


def curator_games(rng: np.random.Generator, entropy: Entropy, quick: bool) -> list[Membership]:
    """All of them, and a twin of each; quickly, those that take little time."""
    rows: list[Membership] = []
    domain = Domain.coded({"in": 2})
    tables = [Table(domain, (np.zeros(1, np.int64),)) for _ in range(2)]
    asked, case = Workload.marginals(domain, 1), Case(tables[0], tables[1], np.zeros(1, np.int64))
    for game in (*estimates(entropy), *schemas(entropy), *persons(entropy)):
        runs = game.quickly if quick else game.runs
        for times, twin in ((1, ""), (8, ", 8 times")) if runs else ():
            cost = replace(game.claim, epsilon=times * game.claim.epsilon)

            def publish(table: Table, game: Game = game, cost: Cost = cost) -> Published:
                return Published(asked, padded(game.publish(table is case.within, cost)))

            name = f"{game.name}{twin}, {game.claim:.6g}"
            rows += play(name, lambda _: case, publish, [Shadow()], game.claim, runs=runs, rng=rng)
    return rows
