"""A parent table and its children, as two tables whose neighbours differ by a parent with all children."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.person import CHILDREN
from qrelease.data.persons import Persons
from qrelease.data.sources.batches import frame_reader
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.encoding import Reader, Schema, selected_columns
from qrelease.data.sources.files import open_reader
from qrelease.data.structural_zeros import narrowed
from qrelease.data.table import Table
from qrelease.errors import InvalidInput


@final
@dataclass(frozen=True, eq=False, repr=False)
class TwoTables:
    """Parents, each with its number of children, and children, each with the columns of its parent. Private.

    The unit is a parent with all children: one record of `parents`, and at most m of `children`, by the same key. What
    it says in both follows from its own row and its own children alone: children whose key no parent has are left out,
    a parent without children has none, and the number of children is cut at m. So neighbouring pairs of tables differ
    by one record of `parents`, and by one person's records of `children`.

    Attributes
    ----------
    parents
        One record a parent: its columns, and `CHILDREN` from 0 to m.
    children
        One record a child: its own columns, and those of its parent.
    own
        The columns of the children that are their own.

    Examples
    --------
    >>> from qrelease.data.person import Person
    >>> person = Person("plane", 2)
    >>> seats = Domain((Attribute("seats", "coded", codes=3),), person=person)
    >>> late = Domain((Attribute("late", "coded", codes=2),), person=person)
    >>> planes = Table.of_persons(seats, [np.array([2, 1, 0])], ["N1", "N2", "N4"])
    >>> flights = Table.of_persons(late, [np.array([0, 1, 1, 1, 0])], ["N2", "N1", "N1", "N1", "N3"])
    >>> both = TwoTables.of(planes, flights)
    >>> [column.tolist() for column in both.parents.columns], len(both.children)
    ([[2, 1, 0], [2, 1, 0]], 4)
    """

    parents: Table
    children: Table
    own: tuple[str, ...]

    @classmethod
    def of(cls, parents: Table, children: Table) -> TwoTables:
        """Make it from two tables that have the same person column.

        Parameters
        ----------
        parents : Table
            One record for each person.
        children : Table
            Any number of records for each person.

        Returns
        -------
        TwoTables
            The pair.

        Raises
        ------
        InvalidInput
            Where the person columns differ, for a child without a parent, and for a column that both tables have.
        """
        person = children.domain.person
        if person is None or person.derive or children.persons is None or parents.persons is None:
            raise InvalidInput("two tables need a [person] in the schema, whose column is the key of both")
        if parents.person_column != children.person_column:
            raise InvalidInput("both tables must have the same person column")
        if CHILDREN in (*parents.domain.names, *children.domain.names):
            raise InvalidInput(f"the parents get a column {CHILDREN!r} of their own: rename that column of the schema")
        known = children.persons.rows_of(parents.persons) >= 0
        whole = Table(
            children.domain,
            tuple(column[known] for column in children.columns),
            Persons(children.persons.codes[known], children.persons.digests),
            tuple(None if p is None else p[known] for p in children.points),
            children.texts,
        )
        joined = whole.joined(parents)
        assert whole.persons is not None
        rows = whole.persons.rows_of(parents.persons)
        number = np.minimum(np.bincount(rows, minlength=len(parents)), person.at_most)
        counted = Attribute(CHILDREN, "coded", codes=person.at_most + 1, ordered=True)
        once = replace(person, at_most=1, weights="records", distinct=())
        domain = replace(parents.domain, attributes=(*parents.domain.attributes, counted), person=once)
        points = (*parents.points, None) if parents.points else ()
        with_number = Table(domain, (*parents.columns, number), parents.persons, points, parents.texts)
        return cls(with_number, joined, children.domain.names)

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        parent: str | os.PathLike[str],
        schema: Schema,
        query: str | None = None,
        dialect: Dialect | None = None,
    ) -> TwoTables:
        """Read a parent table and its children from two files with one schema, as `Table.read` does with a parent.

        Parameters
        ----------
        path : path
            The children.
        parent : path
            The parents.
        schema : Schema
            Of the columns of both.
        query : str, optional
            The SQL that gives the children, as `Table.read` takes it.

        Returns
        -------
        TwoTables
            The pair.

        Raises
        ------
        InvalidInput
            As `Table.read` does, and for a schema that leaves something to be learned.
        """
        reader = open_reader(path, query, dialect)
        of_parents, own = _divided(reader, schema)
        children = Table.of_reader(reader, own)
        dialect = None if dialect is None else dialect.of_parent
        return cls.of(Table.read(parent, of_parents, dialect=dialect), children)

    @classmethod
    def from_frames(cls, frame: Any, parent: Any, schema: Schema) -> TwoTables:
        """Take a parent table and its children from two data frames with one schema, as `Table.from_frame` does.

        Parameters
        ----------
        frame : data frame
            The children: of pandas or polars, or a pyarrow table.
        parent : data frame
            The parents; it may be of another kind.
        schema : Schema
            Of the columns of both.

        Returns
        -------
        TwoTables
            The pair.

        Raises
        ------
        InvalidInput
            As `Table.from_frame` does, and for a schema that leaves something to be learned.

        Examples
        --------
        >>> import pandas as pd
        >>> from qrelease.data.person import Person
        >>> columns = Attribute("late", "coded", codes=2), Attribute("seats", "coded", codes=3)
        >>> schema = Domain(columns, person=Person("plane", 2))
        >>> planes = pd.DataFrame({"plane": ["N1", "N2"], "seats": [2, 1]})
        >>> flights = pd.DataFrame({"plane": ["N2", "N1", "N1"], "late": [0, 1, 1]})
        >>> len(TwoTables.from_frames(flights, planes, schema).children)
        3
        """
        reader = frame_reader(frame)
        of_parents, own = _divided(reader, schema)
        children = Table.of_reader(reader, own)
        return cls.of(Table.of_reader(frame_reader(parent), of_parents), children)

    def __repr__(self) -> str:
        return f"TwoTables({self.parents.domain}, {self.children.domain}; the records are private)"


def _divided(reader: Reader, schema: Schema) -> tuple[Domain, Domain]:
    """The columns of a schema that children do not have, and those that they have."""
    domain = selected_columns(schema, None, reader)
    domain.check_decided()
    if reader.keyed or domain.person is None or domain.person.derive:
        raise InvalidInput(
            f"{reader.path}: two tables need named columns, and a key of both: a [person] without derive"
        )
    header = [known.strip() for known in reader.header]
    own = [name for name in domain.names if name.strip() in header]
    others = [name for name in domain.names if name not in own]
    if not own or not others:
        raise InvalidInput(f"{reader.path} has {'none' if others else 'all'} of the columns: a parent has some of them")
    return narrowed(domain, others), narrowed(domain, own)
