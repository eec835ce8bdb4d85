"""Who the unit is: which column of the data says whose record it is, and how many records of each are kept.

A schema file says it in one entry; without it each record is a unit of its own:

    [person]
    column = "patient_id"      # a column of the data that is not released
    at_most = 5                # records of a person that are kept
    missing = ["", "NA"]       # marks of "nobody": such records are left out; by default they are an error
    weights = "persons"        # each person counts once, and her records in equal parts; by default records count
    distinct = ["month"]       # a person's records differ in these columns together; of those that do not one is kept

All of it is public, and comes before the data. Two keys are two persons where their texts differ, and an error where
they differ in their spelling alone, as `7` and ` 7.0` do (`data.spelling`): it could not be told whether they are one.
A mark is every text that means the same: `-9` is also -9.0, and `true` is 1, for one odd record may change how a data
frame spells all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from qrelease.errors import InvalidInput

MAX_RECORDS: Final = 1 << 20
"""The largest `at_most`: more records of one person is surely a slip, since the noise grows with their number."""

MAX_FRACTIONAL_RECORDS: Final = 1 << 10
"""The largest `at_most` where each person counts once: her records count in multiples of 2^-bits, and sums must fit."""

WEIGHTS: Final = ("records", "persons")

CHILDREN: Final = "children"
"""The column of a parent table that says how many children each has, where both are released (`two_tables`)."""

_KEYS: Final = ("column", "at_most", "missing", "weights", "distinct", "derive")


_SPARE_BITS: Final = 6
_HALVES: Final = 2


def grid_bits(at_most: int) -> int:
    """b, where the parts in which a person counts are whole numbers of 2^-b.

    At least 64 of them for each record, so that equal parts differ by less than 2 %; up to two records, where halves
    are exact, no more than it takes.

    Examples
    --------
    >>> grid_bits(1), grid_bits(2), grid_bits(5)
    (0, 1, 9)
    """
    return (at_most - 1).bit_length() + (_SPARE_BITS if at_most > _HALVES else 0)


@dataclass(frozen=True)
class Derived:
    """A column that is made of a person's records: see `derivation`.

    take    count, any, sum, min, max, first, last or most frequent
    of, by  the attribute whose value is taken, and the one that says which record comes first
    where   a condition on the records
    edges   the bins of a count or sum
    always  whether the schema says that every person has a value, so that there is no cell for a missing one
    """

    name: str
    take: str
    of: str | None = None
    by: str | None = None
    where: str | None = None
    edges: tuple[float, ...] = ()
    always: bool = False

    def to_json(self) -> dict[str, Any]:
        """The rule as the entry of a schema has it, without its name."""
        texts = {key: value for key in ("of", "by", "where") if (value := getattr(self, key)) is not None}
        bins = {"bins": [int(e) if e.is_integer() else e for e in self.edges]} if self.edges else {}
        return {"take": self.take, **texts, **bins, **({"missing": False} if self.always else {})}


@dataclass(frozen=True)
class Person:
    """A person as the unit of privacy: the column of the data that says whose records they are, and how they count.

    Parameters
    ----------
    column
        The column of the data that says whose record it is. It is not a column of the domain.
    at_most
        m, the most records that are kept of each person, at least 1.
    missing
        Marks in the column that mean that a record belongs to nobody, in any spelling: such records are left out. If
        there are none, a missing key is an error.
    weights
        `records`: each record counts 1. `persons`: each person counts 1, and each of her k kept records about 1/k.
    distinct
        Attributes in which a person's records differ: of records that are equal in all of them, one is kept.
    derive, records
        Rules that make one record of all records of a person, and the attributes of the records that they are about;
        made by a schema, see `derivation`.

    Raises
    ------
    InvalidInput
        For what is out of range, and for an `at_most` of 0.

    Examples
    --------
    >>> Person("patient_id", 5).to_json()
    {'column': 'patient_id', 'at_most': 5}
    """

    column: str
    at_most: int
    missing: tuple[str, ...] = ()
    weights: str = "records"
    distinct: tuple[str, ...] = ()
    derive: tuple[Derived, ...] = ()
    records: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column.strip():
            raise InvalidInput(f"person: column must be a text that is not empty, got {self.column!r}")
        object.__setattr__(self, "column", self.column.strip())  # as readers do with the names of a header
        if type(self.at_most) is not int or not 1 <= self.at_most <= MAX_RECORDS:
            raise InvalidInput(f"person: at_most must be a whole number in 1..{MAX_RECORDS:,}, got {self.at_most!r}")
        given: Any = self.missing
        if not isinstance(given, list | tuple) or not all(isinstance(text, str) for text in given):
            raise InvalidInput(f"person: missing must be a list of texts in quotes, got {given!r}")
        object.__setattr__(self, "missing", tuple(given))
        if self.weights not in WEIGHTS:
            raise InvalidInput(f"person: weights must be 'records' or 'persons', got {self.weights!r}")
        if self.counts_once and self.at_most > MAX_FRACTIONAL_RECORDS:
            raise InvalidInput(
                f"person: at_most must be at most {MAX_FRACTIONAL_RECORDS:,} where each person counts once, "
                f"got {self.at_most:,}"
            )
        if self.counts_once and self.derive:
            raise InvalidInput("person: weights cannot be used with derive, by which each person has one record")

        named: Any = self.distinct
        if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
            raise InvalidInput(f"person: distinct must be a list of columns in quotes, got {named!r}")
        object.__setattr__(self, "distinct", tuple(named))
        if len(set(self.distinct)) < len(self.distinct):
            raise InvalidInput(f"person: distinct names a column twice: {', '.join(self.distinct)}")
        if self.distinct and (self.counts_once or self.derive):
            raise InvalidInput(
                "person: distinct cannot be used with weights = 'persons' or derive: it gains nothing there"
            )

    @property
    def counts_once(self) -> bool:
        """Whether each person counts once, however many of their records are kept."""
        return self.weights == "persons"

    @classmethod
    def from_json(cls, entry: object) -> Person:
        """The person of a schema's entry.

        Parameters
        ----------
        entry : dict
            The table `[person]` of the schema.

        Returns
        -------
        Person
            Checked.

        Raises
        ------
        InvalidInput
            For an entry that is not whole, or has a key or a value that is unknown; the message names it.
        """
        if not isinstance(entry, Mapping):
            raise InvalidInput('person must be a table, [person] with column = "…" and at_most = …')
        unknown = [key for key in entry if key not in _KEYS]
        if unknown:
            raise InvalidInput(f"person: unknown key {unknown[0]!r}; the keys are {', '.join(_KEYS)}")
        needed = ("column",) if "derive" in entry else ("column", "at_most")
        absent = [key for key in needed if key not in entry]
        if absent:
            raise InvalidInput(f"person needs {absent[0]}")
        missing = entry.get("missing", [])
        if not isinstance(missing, list):
            raise InvalidInput(f"person: missing must be a list of texts in quotes, got {missing!r}")
        distinct = entry.get("distinct", [])
        if not isinstance(distinct, list):
            raise InvalidInput(f"person: distinct must be a list of columns in quotes, got {distinct!r}")
        weights = entry.get("weights", "records")
        if distinct and "derive" in entry:
            raise InvalidInput("person: distinct cannot be used with derive, by which each person has one record")
        return cls(entry["column"], entry.get("at_most", 1), tuple(missing), weights, tuple(distinct))

    def to_json(self) -> dict[str, Any]:
        """The entry of a schema, without the keys that hold the default."""
        entry: dict[str, Any] = {"column": self.column, "at_most": self.at_most}
        entry |= {"missing": list(self.missing)} if self.missing else {}
        entry |= {"weights": self.weights} if self.counts_once else {}
        entry |= {"distinct": list(self.distinct)} if self.distinct else {}
        return entry | ({"derive": {rule.name: rule.to_json() for rule in self.derive}} if self.derive else {})
