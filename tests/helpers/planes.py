"""Planes and their flights: a parent table and its children, as tables and as files."""

import numpy as np

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.schema import to_toml
from qrelease.data.table import Table
from qrelease.data.two_tables import TwoTables

M = 4
PERSON = Person("plane", M)
KIND, AGE = Attribute("kind", "category", categories=("jet", "prop")), Attribute("age", "coded", codes=5, ordered=True)
FAR, LATE = Attribute("far", "coded", codes=3, ordered=True), Attribute("late", "category", categories=("no", "yes"))
PLANES, FLIGHTS = Domain((KIND, AGE), person=PERSON), Domain((FAR, LATE), person=PERSON)


def made(planes=3000, seed=0, orphans=0):
    """Jets fly far and often, props near and seldom, some of them never; old ones are late."""
    rng = np.random.default_rng(seed)
    kind, age = rng.integers(2, size=planes), rng.integers(5, size=planes)
    flights = np.where(kind == 0, rng.integers(2, 7, size=planes), rng.integers(0, 3, size=planes))
    of = np.repeat(np.arange(planes), flights)
    far = np.where(rng.random(len(of)) < 0.9, np.where(kind[of] == 0, 2, 0), 1)
    late = (rng.random(len(of)) < 0.1 + 0.2 * age[of]).astype(int)
    lost = [f"lost {i}" for i in range(orphans)]
    parents = Table.of_persons(PLANES, [kind, age], [f"N{i}" for i in range(planes)])
    extra = np.ones(orphans, int)
    children = Table.of_persons(
        FLIGHTS, [np.append(far, extra), np.append(late, extra)], [*(f"N{i}" for i in of), *lost]
    )
    return TwoTables.of(parents, children), kind, age, flights, of, far, late


def files(folder):
    _, kind, age, _, of, far, late = made(400)
    kinds, lates = KIND.categories, LATE.categories
    (folder / "planes.csv").write_text(
        "plane,kind,age\n" + "".join(f"N{i},{kinds[k]},{a}\n" for i, (k, a) in enumerate(zip(kind, age, strict=True)))
    )
    lines = (f"N{o},{f},{lates[i]}\n" for o, f, i in zip(of, far, late, strict=True))
    (folder / "flights.csv").write_text("plane,far,late\n" + "".join(lines) + "N-none,1,no\n")
    (folder / "flights.toml").write_text(to_toml(Domain((FAR, LATE, KIND, AGE), person=PERSON)))
    return [str(folder / "flights.csv"), "--schema", str(folder / "flights.toml"), "--epsilon", "2", "--delta", "1e-6"]
