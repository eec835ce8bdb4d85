"""The universe X as a product of finite attributes: names, sizes, mixed-radix cell numbers, projections.

A `Domain` is public. It comes from a schema that a person reviewed, never from the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, final

from qrelease._util.texts import meant
from qrelease._util.texts import readable as readable
from qrelease.data.attribute import Attribute as Attribute
from qrelease.data.person import Person, grid_bits
from qrelease.data.writing import Writing
from qrelease.errors import InvalidInput


@final
@dataclass(frozen=True)
class Review:
    """Who reviewed a schema, and on which day, as far as they say so.

    by  a name or an office, in one line; None where it is not said
    on  an ISO date; None where it is not said
    """

    by: str | None = None
    on: str | None = None

    def __post_init__(self) -> None:
        if self.by is not None and not (isinstance(self.by, str) and self.by.strip() and self.by.isprintable()):
            raise InvalidInput(f"reviewed_by must be a text of one line, got {self.by!r}")
        if self.on is not None and not _is_day(self.on):
            raise InvalidInput(f"reviewed_on must be a date such as 2026-01-31, got {self.on!r}")

    def to_json(self) -> dict[str, str]:
        """As a schema has it: what is said."""
        return {
            name: value for name, value in (("reviewed_by", self.by), ("reviewed_on", self.on)) if value is not None
        }

    def __str__(self) -> str:
        said = [f"{word} {value}" for word, value in (("by", self.by), ("on", self.on)) if value is not None]
        return ", ".join(said)


def _is_day(text: object) -> bool:
    """Whether a value is an ISO date as a text, in its long form."""
    with suppress(ValueError):
        return isinstance(text, str) and date.fromisoformat(text).isoformat() == text
    return False


@dataclass(frozen=True)
class Domain:
    """The universe: the product of its attributes, in the order of the columns.

    Cells are numbered in C order: the last attribute varies fastest. `shape` is (n_1, …, n_d), `size` is |X| as a
    Python integer, so that a universe of 2^110 cells has a size although it has no histogram.

    Attributes
    ----------
    attributes
        The columns, at least one.
    impossible
        Conditions that are publicly known to hold for no record, such as `["age < 16 and income = '>50K'"]`: see
        `structural_zeros`. A release says whether its mechanism respects them.
    code_lists
        The files that a schema file took categories from: `Table.read` refuses to read private records from one of
        them. Domains are compared and stored without them.
    person
        The unit of privacy, where a person may have several records; None where it is one record.
    review
        Who says to have reviewed the schema, and when; domains are compared without it.

    Raises
    ------
    InvalidInput
        Without attributes, for two of one name, for rules that are not texts, and where the column of the persons is
        one of the attributes, which are released.

    Examples
    --------
    >>> domain = Domain.coded({"age": 4, "sex": 2})
    >>> print(domain)
    age[4] x sex[2] (8 cells)
    >>> domain.axes(["sex"]), domain.project([1]).shape
    ((1,), (2,))
    """

    attributes: tuple[Attribute, ...]
    impossible: tuple[str, ...] = ()
    code_lists: tuple[Path, ...] = field(default=(), repr=False, compare=False)
    person: Person | None = None
    review: Review | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))  # a list would make it unhashable
        object.__setattr__(self, "impossible", _rules(self.impossible))
        if not self.attributes:
            raise InvalidInput("a domain needs at least one attribute")
        names = self.names
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise InvalidInput(f"attribute {twice!r} is listed twice")
        if self.person is not None and self.person.column in [name.strip() for name in names]:
            raise InvalidInput(
                f"the person column {self.person.column!r} is also an attribute: it says who somebody is, so it"
                " cannot be released"
            )

    @classmethod
    def coded(cls, sizes: dict[str, int]) -> Domain:
        """A domain of columns whose values are the whole numbers 0 to n - 1, in their order.

        Parameters
        ----------
        sizes : dict of str to int
            n by the name of the column, as private-pgm writes a domain.

        Returns
        -------
        Domain
            With columns of kind `coded`, in the order of the dict.
        """
        return cls(tuple(Attribute(name, "coded", codes=n, ordered=True) for name, n in sizes.items()))

    @property
    def at_most(self) -> int | None:
        """m, the most records kept of a person; None where the unit is a record, or each person has one record."""
        return None if self.person is None or self.person.derive else self.person.at_most

    @property
    def weight_bits(self) -> int:
        """The bits b: each record counts a multiple of 2^-b. 0, except where each person counts once, in fractions."""
        return 0 if self.person is None or not self.person.counts_once else grid_bits(self.person.at_most)

    @property
    def counts_once(self) -> bool:
        """Whether each person counts once, however many of their records are kept."""
        return self.person is not None and self.person.counts_once

    @property
    def distinct(self) -> tuple[int, ...]:
        """The columns of `Person.distinct`, in which a person's records differ; empty where one is not here."""
        named = () if self.person is None else self.person.distinct
        return self.axes(named) if set(named) <= set(self.names) else ()

    @property
    def of_rows(self) -> Domain:
        """The same columns without a person, and without rules, which not all mechanisms keep: of synthetic records.

        These are written plainly, however the data were.
        """
        plain = all(a.writing.is_plain for a in self)
        if plain and self.person is None and not self.impossible:
            return self
        attributes = self.attributes if plain else tuple(replace(a, writing=Writing()) for a in self)
        return replace(self, attributes=attributes, person=None, impossible=())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The column names."""
        return tuple(a.name for a in self.attributes)

    @cached_property
    def _axes_by_name(self) -> dict[str, int]:
        return {name: axis for axis, name in enumerate(self.names)}

    @cached_property
    def undecided(self) -> tuple[str, ...]:
        """The columns whose bins or categories are not known yet."""
        return tuple(a.name for a in self.attributes if a.undecided)

    def check_decided(self) -> None:
        """Raise where bins or categories of a column are still to be learned.

        Raises
        ------
        InvalidInput
            It names the columns, and how they are learned.
        """
        if self.undecided:
            raise InvalidInput(
                f"{', '.join(self.undecided)}: must be learned first, by `qrelease schema learn` or Curator.learn"
            )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells of each attribute, (d,)."""
        return tuple(a.size for a in self.attributes)

    @cached_property
    def size(self) -> int:
        """|X|, exact."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        columns = " x ".join(f"{a.name}[{'?' if a.undecided else a.size}]" for a in self.attributes)
        if self.undecided:
            return columns
        return f"{columns} ({readable(self.size)} cells)"

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.axis(name)]

    def axis(self, name: str) -> int:
        """The position of a column.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        int
            From 0, in the order of the schema.

        Raises
        ------
        InvalidInput
            For an unknown name; the message lists those there are.
        """
        try:
            return self._axes_by_name[name]
        except (KeyError, TypeError):  # a name of a request may be anything, a list too
            near = meant(name, self.names) if isinstance(name, str) else ""
            raise InvalidInput(f"no attribute {name!r}{near}; the domain has {', '.join(self.names)}") from None

    def axes(self, names: Iterable[str]) -> tuple[int, ...]:
        """The positions of several columns, ascending.

        Parameters
        ----------
        names : iterable of str
            Their names, in any order.

        Returns
        -------
        tuple of int
            One for each name.

        Raises
        ------
        InvalidInput
            For an unknown name, and for one that is given twice.
        """
        found = [self.axis(n) for n in names]
        if len(set(found)) != len(found):
            raise InvalidInput(f"an attribute is named twice in {[self.names[a] for a in found]}")
        return tuple(sorted(found))

    def positions(self, columns: str | Iterable[str | int]) -> tuple[int, ...]:
        """The positions of columns that are given by name or by position, in the order in which they are given.

        Parameters
        ----------
        columns : str or iterable of str or int
            Names or positions, or one name.

        Returns
        -------
        tuple of int
            One for each column.

        Raises
        ------
        InvalidInput
            For an unknown name, and for what is neither a name nor a position.
        """
        given: Any = columns
        if isinstance(given, str) or not isinstance(given, Iterable):
            given = [given]
        return tuple(c if type(c) is int else self._position(c) for c in given)  # of very many sets: the usual first

    def _position(self, column: Any) -> int:
        """That of a column by its name, or of another kind of whole number, as numpy has them."""
        is_truth = type(column) is bool
        return int(column) if isinstance(column, Integral) and not is_truth else self.axis(column)

    def named(self, axes: Iterable[int]) -> str:
        """Some columns, as texts for people name a marginal on them.

        Parameters
        ----------
        axes : iterable of int
            Positions of columns.

        Returns
        -------
        str
            Their names with ` * ` between; `all records` for no column, whose marginal is the number of records.

        Examples
        --------
        >>> domain = Domain.coded({"age": 4, "sex": 2})
        >>> domain.named([0, 1]), domain.named([])
        ('age * sex', 'all records')
        """
        return " * ".join(self.names[a] for a in axes) or "all records"

    def project(self, axes: Iterable[int]) -> Domain:
        """The domain of some of the columns, without the rules about impossible cells.

        Parameters
        ----------
        axes : iterable of int
            The columns by position.

        Returns
        -------
        Domain
            With these columns, in the order given.
        """
        attributes = tuple(self.attributes[a] for a in axes)
        person = self.person
        if person is not None and person.derive:
            rules = {rule.name: rule for rule in person.derive}
            person = replace(person, derive=tuple(rules[a.name] for a in attributes if a.name in rules))
        return Domain(attributes, code_lists=self.code_lists, person=person, review=self.review)

    def cells(self, axes: Iterable[int]) -> int:
        """The number of cells of a marginal.

        Parameters
        ----------
        axes : iterable of int
            Its columns, by position; of none it is the total, one cell.

        Returns
        -------
        int
            The product of the columns' sizes.
        """
        return math.prod([self.shape[a] for a in axes])


def _rules(given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInput(f'impossible must be a list of conditions, as ["age < 16"], got {given!r}')
    found = tuple(given)
    for rule in found:
        if not isinstance(rule, str):
            raise InvalidInput(f"impossible must be a list of conditions, each of them text, got {rule!r}")
    return found


def check_domain(given: object) -> None:
    """Raise `InvalidInput` for what stands where the domain of a workload belongs, with what makes one of it.

    Parameters
    ----------
    given : object
        A `Domain`; or a data frame or a table, which have columns as well.
    """
    if isinstance(given, Domain):
        return
    made = "take table.domain"
    if not isinstance(getattr(given, "domain", None), Domain):
        made = "make a table by qr.Table.from_frame(frame, schema), and take table.domain"
    raise InvalidInput(f"a workload takes a domain, got {type(given).__name__}: {made}")
