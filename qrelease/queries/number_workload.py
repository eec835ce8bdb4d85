"""`NumberWorkload`: questions about numbers that a release is to answer, and the counts that it is to answer too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.data.domain import Domain
    from qrelease.queries.numeric import NumericQuestion
    from qrelease.queries.workload import Workload


@final
@dataclass(frozen=True)
class NumberWorkload:
    """Questions about numbers over a domain, and perhaps a workload of counts; `Workload.means` and its like make it.

    `a + b` asks both, be they of numbers or of counts. `Curator.release` measures it in one charge, by `NumberSums` or
    `Auto`.

    Attributes
    ----------
    domain
        The universe.
    questions
        At least one, and none twice.
    counts
        The linear queries, where there are any.

    Raises
    ------
    InvalidInput
        Without questions, for one that is asked twice, and for questions over another domain.

    Examples
    --------
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"hours": 100, "sex": 2})
    >>> asked = qr.Workload.marginals(domain, 1) + qr.Workload.means(domain, "hours", by="sex")
    >>> asked
    NumberWorkload(mean:hours by sex; 102 queries on 2 marginals)
    """

    domain: Domain
    questions: tuple[NumericQuestion, ...]
    counts: Workload | None = None

    def __post_init__(self) -> None:
        if not self.questions:
            raise InvalidInput("there is no question about numbers, such as 'mean:age by sex'")
        counted = () if self.counts is None else (self.counts.domain,)
        if any(domain != self.domain for domain in (*(q.domain for q in self.questions), *counted)):
            raise InvalidInput("workloads over two different domains cannot be joined")
        for place, question in enumerate(self.questions):
            if question in self.questions[:place]:
                raise InvalidInput(f"the workload asks {str(question)!r} twice")

    @property
    def texts(self) -> tuple[str, ...]:
        """Each question in its one spelling, of which `Workload.numbers` makes the same."""
        return tuple(map(str, self.questions))

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The columns that the questions are grouped by, each set of them once, in the order of the domain."""
        found = (tuple(self.domain.names[a] for a in sorted(q.by_axes)) for q in self.questions)
        return tuple(dict.fromkeys(found))

    @property
    def single(self) -> NumericQuestion:
        """The question, where it is one alone; else `InvalidInput`."""
        if len(self) > 1 or self.counts is not None:
            raise InvalidInput(f"one question about numbers is asked at a time, got {self!r}")
        return self.questions[0]

    def __iter__(self) -> Iterator[NumericQuestion]:
        return iter(self.questions)

    def __len__(self) -> int:
        return len(self.questions)

    def __add__(self, other: Workload | NumberWorkload) -> NumberWorkload:
        further, counts = (other.questions, other.counts) if isinstance(other, NumberWorkload) else ((), other)
        both = [part for part in (self.counts, counts) if part is not None]
        joined = None if not both else both[0] if len(both) == 1 else both[0] + both[1]
        return NumberWorkload(self.domain, (*self.questions, *further), joined)

    def __repr__(self) -> str:
        counted = ""
        if self.counts is not None:
            counted = f"; {len(self.counts):,} queries on {len(self.counts.sets):,} marginals"
        return f"NumberWorkload({', '.join(self.texts)}{counted})"
