"""`Counts`: exact counts of records that are elsewhere, of one shard or of many, in files that are as private as these.

Counts of disjoint shards add up, and so do their digests, which are sums over records. So shards can be counted
wherever they are, and released from where their counts are brought together. A file of counts is never released: it
holds the exact numbers, and says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final, final
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from qrelease._util.owner_only import new_for_owner
from qrelease._util.typing import Axes, Codes, Ints
from qrelease.data.domain import Domain
from qrelease.data.fingerprint import digest_of, record_sums, schema_digest
from qrelease.data.schema import domain_from_json, domain_to_json
from qrelease.data.sources.stores import is_url
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

SUFFIX: Final = ".counts"

_FORMAT: Final = "qrelease counts 1"
_WARNING: Final = "PRIVATE: exact counts of records, not to be released"
_KEY: Final = b"qrelease counts"  # the sums are in the file of exact counts, which is as private as what they are of


@final
@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Exact counts of records over a public domain, as a source to release from. Private.

    Attributes
    ----------
    domain
        The public universe.
    tables
        By the ascending positions of columns, the exact marginal, flat in C order.
    records
        Their number.
    sums
        Two sums of hashes of the records, for the digest.
    parts
        The sums of each shard, for telling one that is added twice.
    origins
        A digest of where each shard was read from, or nothing where that is not known. Two shards of equal records are
        one that was counted twice, unless they are known to come from two places. Private, and never released.
    private_size
        Why the number of records is private under every relation; empty where the relation decides.

    Raises
    ------
    InvalidInput
        For a person as the unit, as a person may have records in several shards, and for a schema to be learned.

    Examples
    --------
    >>> domain = Domain.coded({"a": 2, "b": 3})
    >>> shards = [Table(domain, (np.array(a), np.array(b))) for a, b in (([0, 1], [2, 0]), ([1], [1]))]
    >>> whole = Counts.of(shards[0], [(0, 1)]) + Counts.of(shards[1], [(0, 1)])
    >>> len(whole), whole.counts([(1,)])[0].tolist()
    (3, [1, 1, 1])
    >>> whole
    Counts(a[2] x b[3] (6 cells); the records are private)
    """

    keeps_records: ClassVar[bool] = False
    """Whether there are codes of single records: no."""
    texts: ClassVar[Mapping[str, Sequence[str]]] = MappingProxyType({})
    """Of columns whose categories are to be learned: there are none."""
    votes: ClassVar[Mapping[str, Ints]] = MappingProxyType({})
    """What these texts count of persons: there are none."""
    points: ClassVar[tuple[Codes | None, ...]] = ()
    """Of the records on their grids: there are none."""

    domain: Domain
    tables: Mapping[Axes, Ints]
    records: int
    sums: tuple[int, int]
    parts: tuple[tuple[int, int], ...]
    origins: tuple[str, ...]
    private_size: str = ""

    def __post_init__(self) -> None:
        check_countable(self.domain)

    @classmethod
    def of(cls, table: Table, sets: Sequence[Axes], origin: str | os.PathLike[str] | None = None) -> Counts:
        """The counts of a table on some sets of columns, and on each single column.

        origin  the file that it was read from, under any of its names, or a URL without credentials
        """
        check_countable(table.domain)
        asked = list(
            dict.fromkeys([*(tuple(sorted(axes)) for axes in sets), *((a,) for a in range(len(table.domain)))])
        )
        sums = record_sums(table.columns, _KEY)
        place = "" if origin is None else digest_of(_KEY, origin if is_url(origin) else os.path.realpath(origin))
        tables = dict(zip(asked, table.counts(asked), strict=True))
        return cls(table.domain, tables, len(table), sums, (sums,), (place,), table.private_size)

    def __add__(self, other: Counts) -> Counts:
        """Those of two disjoint sets of records.

        Raises `InvalidInput` for counts of other columns or sets, and where a shard is in both.
        """
        if other.domain != self.domain:
            raise InvalidInput("counts of shards under different schemas do not add up")
        if set(other.tables) != set(self.tables):
            raise InvalidInput("counts of shards on different sets of columns do not add up")
        if self._shares_a_shard(other):
            raise InvalidInput("a shard is counted twice: two files have counts of the same records")
        first, second = ((mine + theirs) % 2**64 for mine, theirs in zip(self.sums, other.sums, strict=True))
        tables = {axes: table + other.tables[axes] for axes, table in self.tables.items()}
        parts, origins = self.parts + other.parts, self.origins + other.origins
        why = self.private_size or other.private_size
        return Counts(self.domain, tables, self.records + other.records, (first, second), parts, origins, why)

    @property
    def equal_shards(self) -> int:
        """How many shards have the records of one before them: right for few records each, else a copy. Private."""
        held = [part for part in self.parts if any(part)]
        return len(held) - len(set(held))

    def _shares_a_shard(self, other: Counts) -> bool:
        """Whether a shard is in both: equal records, which are not known to come from two places."""
        mine: dict[tuple[int, int], set[str]] = {}
        for part, origin in zip(self.parts, self.origins, strict=True):
            mine.setdefault(part, set()).add(origin)
        return any(
            origin in mine[part] or not origin or "" in mine[part]
            for part, origin in zip(other.parts, other.origins, strict=True)
            if any(part) and part in mine  # of no records it is (0, 0)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them to a file that only its owner may read."""
        axes = list(self.tables)
        head = {
            "format": _FORMAT,
            "warning": _WARNING,
            "schema": domain_to_json(self.domain),
            "sets": axes,
            "records": self.records,
            "shards": self.parts,
            "origins": self.origins,
            "private_size": self.private_size,
        }
        try:
            with os.fdopen(new_for_owner(path), "wb") as file:
                np.savez_compressed(
                    file, head=np.array(json.dumps(head)), counts=np.concatenate([*self.tables.values()])
                )
        except FileExistsError:
            raise InvalidInput(f"{path} exists already: counts are not overwritten") from None
        except OSError as error:
            raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Counts:
        """All counts in a folder, or those in one file, added up.

        Raises `InvalidInput` for what is not a file of counts, and as the sum does.
        """
        place = Path(folder)
        files = sorted(place.glob(f"*{SUFFIX}")) if place.is_dir() else [place]
        if not files:
            raise InvalidInput(f"{folder} has no {SUFFIX} files")
        return reduce(cls.__add__, map(_loaded, files))

    @property
    def weight_bits(self) -> int:
        """The bits of a fraction in a record's count: 0, as each counts one."""
        return 0

    @property
    def knows_persons(self) -> bool:
        """Whether it is known whose records they are: it is not."""
        return False

    @property
    def person_column(self) -> None:
        """The column that says whose records they are: there is none."""

    def __len__(self) -> int:
        return self.records

    def __repr__(self) -> str:
        return f"Counts({self.domain}; the records are private)"

    def counts(self, sets: Sequence[Axes]) -> list[npt.NDArray[np.int64]]:
        """The exact marginal on each set of columns, from one that was counted and has these. Private."""
        return [self._marginal(axes, of) for axes, of in zip(sets, self._counted(sets), strict=True)]

    def check_counts(self, sets: Sequence[Axes]) -> None:
        """Raise `InvalidInput` for a set of columns that was not counted, nor any that includes it."""
        self._counted(sets)

    def _counted(self, sets: Sequence[Axes]) -> list[Axes]:
        """For each set, the smallest table that was counted and includes it."""
        found = []
        for axes in sets:
            among = [table for table in self.tables if set(axes) <= set(table)]
            if not among:
                raise InvalidInput(
                    f"{self.domain.named(axes)} was not counted: count the shards with a --workload that has it"
                )
            found.append(min(among, key=self.domain.cells))
        return found

    def _marginal(self, axes: Axes, of: Axes) -> Ints:
        cube = self.tables[of].reshape([self.domain.shape[a] for a in of])
        kept = [a for a in of if a in axes]
        summed = cube.sum(axis=tuple(i for i, a in enumerate(of) if a not in axes))
        found: Ints = np.asarray(summed).transpose([kept.index(a) for a in axes]).reshape(-1)
        return found

    def check_bounded(self) -> None:
        """Nothing is bounded: each record is a unit."""

    def bounded(self, key: bytes) -> Counts:
        """The counts themselves."""
        return self

    def codes(self, axis: int) -> Codes:
        """`InvalidInput`: there are counts alone."""
        raise InvalidInput(f"column {self.domain.names[axis]!r}: this source has exact counts, and no single records")

    def fingerprint(self, key: bytes) -> tuple[str, str]:
        """Keyed digests of the schema and of the records in any order and in any shards."""
        return schema_digest(self.domain, key, "counts"), digest_of(key, self.records, *self.sums)


def check_countable(domain: Domain) -> None:
    """Raise `InvalidInput` for a domain whose shards cannot be counted one by one."""
    domain.check_decided()
    if domain.person is not None:
        raise InvalidInput(
            "counts of shards are counts of records, and here the unit is a person, who may have records in several"
            " shards: release from the records themselves"
        )


def _loaded(path: Path) -> Counts:
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            head, flat = json.loads(str(file["head"])), file["counts"]
        if head["format"] != _FORMAT:
            raise InvalidInput(f"{path} was written by another version of qrelease: count again")
        domain = domain_from_json(head["schema"])
        axes = [tuple(map(int, s)) for s in head["sets"]]
        ends = np.cumsum([0, *map(domain.cells, axes)]).tolist()
        if flat.dtype != np.int64 or flat.shape != (ends[-1],):
            raise InvalidInput(f"{path} has counts of another number of cells than its columns")
        tables = {s: flat[a:b] for s, (a, b) in zip(axes, pairwise(ends), strict=True)}
        records, parts = int(head["records"]), tuple((int(one), int(two)) for one, two in head["shards"])
        origins = tuple(map(str, head.get("origins", [""] * len(parts))))  # earlier versions did not write them
        private_size = str(head.get("private_size", ""))
        if len(origins) != len(parts):
            raise ValueError
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError, BadZipFile) as error:
        raise InvalidInput(f"{path} is not a file of counts: {type(error).__name__}") from None
    if any(int(table.sum()) != records or (table < 0).any() for table in tables.values()):
        raise InvalidInput(f"{path} has counts that do not sum to its number of records")
    first, second = (sum(lane) % 2**64 for lane in zip(*parts, strict=True))
    return Counts(domain, tables, records, (first, second), parts, origins, private_size)
