"""Queries as a session names, prices and buys them: families on one marginal, each query with its canonical name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

from qrelease._util.typing import Axes
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.queries.canonical import CanonicalQuery, canonical_name
from qrelease.queries.classes import Parities
from qrelease.queries.families import Cells, Vectors
from qrelease.queries.workload import Group, Workload, single

MAX_NAME_BYTES: Final = 1 << 28
"""Bytes that the names of all queries of one family may take."""

MAX_REMEMBERED_TEXTS: Final = 1 << 12
"""Conditions that are looked up instead of being parsed again."""

MAX_REMEMBERED_CELLS: Final = 1 << 12
"""Cells of the marginal of such a condition, which takes 8 bytes and more for each."""


@final
@dataclass(frozen=True)
class CanonicalGroup:
    """A family of queries on one marginal, which is bought in one go, and the canonical name of each of them.

    Parameters
    ----------
    group
        The family.
    queries
        Its k queries in their canonical form.
    order
        On how many columns at most its queries are conjunctions; one more than the domain has columns if some query is
        a parity, two more if some query is neither.
    """

    group: Group
    queries: tuple[CanonicalQuery, ...]
    order: int

    @classmethod
    def of(cls, domain: Domain, group: Group) -> CanonicalGroup:
        """The same group with names; a single query is put into its canonical form.

        Raises
        ------
        TooLarge
            If the names of the queries would take more than `MAX_NAME_BYTES`.
        """
        family = group.queries
        if family.count * family.cells > 8 * MAX_NAME_BYTES:
            raise TooLarge(f"{family.count:,} queries on {family.cells:,} cells are too many to ask at a time")
        if isinstance(family, Cells) and min((domain.shape[a] for a in group.axes), default=0) > 1:
            width = -(-family.cells // 8)
            rows = ((1 << 8 * width - 1 - i).to_bytes(width, "big") for i in range(family.cells))
            return cls(group, tuple(CanonicalQuery(group.axes, 1.0, row) for row in rows), len(group.axes))
        found = [canonical_name(domain, single(group, i)) for i in range(family.count)]
        queries = tuple(query for query, _ in found)
        if len(queries) == 1 and not (queries[0].axes == group.axes and isinstance(family, Vectors)):
            group = queries[0].group(domain)
        return cls(group, queries, max(_order(domain, *one) for one in found))

    @property
    def is_one_count(self) -> bool:
        """Whether it is one counting query."""
        return len(self.queries) == 1 and self.queries[0].unit == 1

    @cached_property
    def columns(self) -> Axes:
        """The columns that its queries depend on, ascending."""
        return tuple(sorted({a for query in self.queries for a in query.axes}))

    def to_json(self, domain: Domain) -> str | list[dict[str, Any]]:
        """The name of one query, or a description of a family; `queries_from_json` reads it."""
        return self.queries[0].to_text() if len(self.queries) == 1 else Workload(domain, (self.group,)).to_json()


def queries_from_json(domain: Domain, content: str | list[dict[str, Any]]) -> tuple[CanonicalQuery, ...]:
    """The queries of the group that `CanonicalGroup.to_json` described."""
    if isinstance(content, str):
        return (CanonicalQuery.from_text(content),)
    return CanonicalGroup.of(domain, Workload.from_json(domain, content).groups[0]).queries


@final
class QueryReader:
    """Reads what a session is asked over a domain; conditions that come again are not parsed again."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._texts: dict[str, CanonicalGroup] = {}

    def read(self, query: str | Workload | CanonicalGroup) -> list[CanonicalGroup]:
        """The groups of a condition or of a workload. `InvalidInput` for what is no query over the domain."""
        if isinstance(query, CanonicalGroup):
            return [query]
        if isinstance(query, str):
            return [self._condition(query)]
        if not isinstance(query, Workload):
            raise InvalidInput(
                f"a query is a condition or a workload, got {type(query).__name__}; numbers are asked by `numbers`"
            )
        if query.domain != self._domain:
            raise InvalidInput("the query is over another domain than the table")
        query.check_bounded()
        return [CanonicalGroup.of(self._domain, group) for group in query.groups]

    def _condition(self, text: str) -> CanonicalGroup:
        known = self._texts.get(text)
        if known is None:
            known = CanonicalGroup.of(self._domain, Workload.predicates(self._domain, text).groups[0])
            if len(self._texts) >= MAX_REMEMBERED_TEXTS:
                self._texts.clear()
            if known.group.queries.cells <= MAX_REMEMBERED_CELLS:
                self._texts[text] = known
        return known


def _order(domain: Domain, query: CanonicalQuery, conjunction: bool) -> int:
    if conjunction:
        return len(query.axes)
    return len(domain) + (1 if Parities().contains(domain, query) else 2)
