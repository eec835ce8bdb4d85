"""Everything that was observed of two neighbouring tables, field by field, and which of it tells them apart."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, final

import numpy as np

from qrelease.data.domain import Domain
from qrelease.data.person import Person
from qrelease.data.table import Table
from qrelease.evaluation.audit.noisy import allowed
from qrelease.evaluation.audit.sampling import counted
from qrelease.privacy.costs import Neighbours
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit

Seen = Mapping[str, object]
"""What was observed, by path."""

Door = Callable[[Table, Neighbours, int], Seen]
"""What is seen of a table, under a neighbouring relation, with an insecure seed."""

SMALLEST_TABLE = 0
"""Records of the smallest table that is attacked: 0 under add-remove, as soon as tables may be empty."""

SEEDS: Final = 3
"""Insecure seeds with which each pair is observed, by default."""

BEYOND_MANIFEST: Final = " beyond the manifest"
"""Ends the path of a file that does not follow from the manifest."""

NUMBER: Final = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
"""A number in a text, with a group, so that a split keeps it."""

SHAPE: Final = {"a": 2, "b": 3}
"""Columns of the tables that are attacked, and their cells."""

_FOREIGN_LOGS: Final = frozenset(["asyncio", "numba"])
"""Packages whose lines are left out, by the name of the logger: of event loops, and of code that is compiled once."""

_ATTACKED_RECORDS: Final = ((0, 0), (1, 2), (1, 1), (0, 2)) * 10

_MAX_OWNED: Final = 4
"""Records of one person at most, where neighbouring tables differ by a whole one."""


@final
@dataclass(frozen=True)
class Difference:
    """Something that tells two neighbouring tables apart, and may not.

    pair           which tables, in words
    path           what was observed
    first, second  on either table; None where it was not there
    why            what is wrong with that
    """

    pair: str
    path: str
    first: object
    second: object
    why: str

    def __str__(self) -> str:
        return f"{self.pair}: {self.path} is {_short(self.first)} and {_short(self.second)}: {self.why}"


@final
@dataclass(frozen=True)
class DoorAudit:
    """What was found at one door.

    door          its name
    mechanism     behind it
    pairs         of neighbouring tables that were compared
    fields        distinct paths that were observed
    differences   that convict
    refused       whether every table was refused, so that only refusals were compared
    """

    door: str
    mechanism: str
    pairs: int
    fields: int
    differences: tuple[Difference, ...]
    refused: bool = False

    @property
    def convicted(self) -> bool:
        """Whether neighbouring tables can be told apart."""
        return bool(self.differences)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        found = [
            {"pair": d.pair, "path": d.path, "first": str(d.first), "second": str(d.second), "why": d.why}
            for d in self.differences
        ]
        counts = {"pairs": self.pairs, "fields": self.fields, "refused": self.refused}
        return {"door": self.door, "mechanism": self.mechanism, **counts, "differences": found}

    def __str__(self) -> str:
        what = f"{self.mechanism} at the door {self.door}: {self.pairs} pairs of tables, {self.fields:,} fields"
        if self.refused and not self.convicted:
            return f"{what}: every table was refused, alike: nothing else was compared, so try another cost"
        if not self.convicted:
            return f"{what}: only what is noisy differs"
        return "\n  ".join([f"{what}: CONVICTED by {len(self.differences)} differences", *map(str, self.differences)])


def domain() -> Domain:
    """The domain of the tables that are attacked: two columns, of two and of three cells."""
    return Domain.coded(SHAPE)


def table_of_records(records: Sequence[Sequence[int]]) -> Table:
    """A table of some records."""
    codes = np.array(records, np.uint8).reshape(-1, len(SHAPE))
    return Table(domain(), tuple(codes[:, i] for i in range(len(SHAPE))))


def neighbouring(neighbours: Neighbours, least: int = SMALLEST_TABLE) -> list[tuple[Table, Table]]:
    """Tables with a neighbour each, one record more, or one replaced: from the least size to 3, and of 39 records."""
    few, many = range(least, 4), len(_ATTACKED_RECORDS) - 1
    if neighbours is Neighbours.ADD_REMOVE:
        tables = [table_of_records(_ATTACKED_RECORDS[:n]) for n in (*few, few[-1] + 1)]
        return [*pairwise(tables), (table_of_records(_ATTACKED_RECORDS[:many]), table_of_records(_ATTACKED_RECORDS))]
    sizes = (*(n for n in few if n), many)
    return [
        (table_of_records(_ATTACKED_RECORDS[:n]), table_of_records([*_ATTACKED_RECORDS[: n - 1], (0, 1)]))
        for n in sizes
    ]


def neighbouring_persons(
    neighbours: Neighbours, at_most: int, weights: str = "records", distinct: tuple[str, ...] = ()
) -> list[tuple[Table, Table]]:
    """Neighbouring tables of persons of one to four records each: with one person more, or one replaced.

    at_most            records of each that are kept
    weights, distinct  how they count, and in what they differ, as of a `Person`
    """
    whose = [f"p{person}" for person in range(len(_ATTACKED_RECORDS)) for _ in range(1 + person % _MAX_OWNED)]
    owned = list(zip(_ATTACKED_RECORDS, whose, strict=False))
    within = Domain(domain().attributes, person=Person("who", at_most, weights=weights, distinct=distinct))

    def table(persons: int, *more: tuple[Sequence[int], str]) -> Table:
        names = {f"p{person}" for person in range(persons)}
        chosen = [*(record for record in owned if record[1] in names), *more]
        codes = np.array([says for says, _ in chosen], np.uint8).reshape(-1, len(SHAPE))
        return Table.of_persons(within, list(codes.T), [who for _, who in chosen])

    sizes = (1, 2, 3, 12)
    if neighbours is Neighbours.ADD_REMOVE:
        return [(table(n), table(n + 1)) for n in (0, *sizes)]
    other = [((0, 1), "other")] * _MAX_OWNED
    return [(table(n), table(n - 1, *other)) for n in sizes]


def differences(
    name: str,
    mechanism: str,
    door: Door,
    neighbours: Neighbours,
    *,
    seeds: int = SEEDS,
    pairs: Sequence[tuple[Table, Table]] | None = None,
    at_most: int | None = None,
) -> DoorAudit:
    """Observe neighbouring tables at a door, with the same noise on both, and list what tells them apart.

    Parameters
    ----------
    name, mechanism
        Of the door, and of what is behind it: whose noisy fields may differ.
    door
        What is seen of a table.
    neighbours
        The relation.
    seeds
        Insecure seeds, from 0; a field that holds no noise is found out from three on.
    pairs
        Neighbouring tables; by default `neighbouring`, or `neighbouring_persons`.
    at_most
        Records of a person that are kept, where the neighbours of the default are whole persons, else records.
    """
    if pairs is None:
        pairs = neighbouring(neighbours) if at_most is None else neighbouring_persons(neighbours, at_most)
    unit = Unit.of(neighbours, pairs[0][0].domain)
    relation = unit.relation  # of records, by which fields are noisy
    tables = dict.fromkeys(table for pair in pairs for table in pair)
    with counted(len(tables) * seeds, f"{name}, {mechanism}") as bar:
        seen: dict[Table, list[Seen]] = {table: [] for table in tables}
        for table, runs in seen.items():
            for seed in range(seeds):
                runs.append(door(table, neighbours, seed))
                bar.update()
    found: list[Difference] = []
    paths: set[str] = set()
    for first, second in pairs:
        label = f"{unit}, {len(first)} and {len(second)} records"
        for one, two in zip(seen[first], seen[second], strict=True):
            paths |= {*one, *two}
            found += _apart(label, one, two, mechanism, relation)
        found += _without_noise(label, seen[first], seen[second], mechanism, relation)
    distinct = {(d.pair, d.path): d for d in reversed(found)}
    refused = all(map(_is_refused, (run for pair in pairs for table in pair for run in seen[table])))
    return DoorAudit(name, mechanism, len(pairs), len(paths), tuple(reversed(distinct.values())), refused)


def _is_refused(run: Seen) -> bool:
    """Whether there was an error, or a command that did not end well."""
    return "error" in run or any(path.endswith("/exit") and value != 0 for path, value in run.items())


def _apart(label: str, one: Seen, two: Seen, mechanism: str, neighbours: Neighbours) -> Iterator[Difference]:
    """What differs under the same noise, and is not noisy."""
    for path in sorted({*one, *two}):
        a, b = one.get(path), two.get(path)
        if path.endswith(BEYOND_MANIFEST):
            yield Difference(label, path, a, b, "it does not follow from what is public in the manifest")
            continue
        if path in one and path in two and a == b:
            continue
        alone = path not in one or path not in two
        if allowed(path, mechanism, neighbours, alone=alone) is None:
            yield Difference(label, path, a, b, "it is no noisy field" + " that may be there for one alone" * alone)


def _without_noise(
    label: str, first: Sequence[Seen], second: Sequence[Seen], mechanism: str, neighbours: Neighbours
) -> Iterator[Difference]:
    """Noisy fields that are a function of the table alone: the same with all noise, and another for a neighbour."""
    if len(first) < SEEDS:
        return
    for path in set.intersection(*map(set, [*first, *second])):
        ones, twos = ([seen[path] for seen in side] for side in (first, second))
        constant = all(v == ones[0] for v in ones) and all(v == twos[0] for v in twos)
        field = allowed(path, mechanism, neighbours)
        if constant and ones[0] != twos[0] and field is not None and not field.coarse:
            yield Difference(label, path, ones[0], twos[0], "it depends on the table and on no noise")


def flat(value: object, path: str) -> Iterator[tuple[str, object]]:
    """The leaves of a JSON value by path, and the length of each list and object."""
    if isinstance(value, Mapping):
        yield f"{path}/names", ", ".join(map(str, value))
        for name, inner in value.items():
            yield from flat(inner, f"{path}/{name}")
    elif isinstance(value, list | tuple):
        yield f"{path}/length", len(value)
        for i, inner in enumerate(value):
            yield from flat(inner, f"{path}/{i}")
    else:
        yield path, value


def lines_of(text: str, path: str) -> Iterator[tuple[str, object]]:
    """Each line: its words, and its numbers one by one; a line of JSON leaf by leaf."""
    lines = text.splitlines()
    yield f"{path}/length", len(lines)
    for i, line in enumerate(lines):
        if line.startswith("{"):
            yield from flat(json.loads(line), f"{path}/{i}/json")
            continue
        parts = NUMBER.split(line)
        yield f"{path}/{i}", "#".join(parts[::2])
        for j, number in enumerate(parts[1::2]):
            yield f"{path}/{i}/numbers/{j}", number


@contextlib.contextmanager
def listening(seen: dict[str, object]) -> Iterator[None]:
    """Note the log lines and warnings of what is done inside."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name.partition(".")[0] not in _FOREIGN_LOGS:
                lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")

    root, handler = logging.getLogger(), Handler()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        lines += [f"warning: {w.message}" for w in warned if w.category.__module__.partition(".")[0] != "numba"]
        seen |= flat(lines, "log")


def ledger_seen(ledger: Ledger) -> Iterator[tuple[str, object]]:
    """What can be seen in the ledger, by name: what was spent, and each charge."""
    yield "ledger/spent", str(ledger.spent)
    yield from flat([(str(entry.cost), entry.label) for entry in ledger.history()], "ledger/charges")


def _short(value: object) -> str:
    text = "not there" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
