"""Nets: finite lists of synopses such that every table is within α of one of them (Dwork & Roth 2014, §5.1).

A net is any `Candidates`: its synopses answer queries with fractions, and the mechanism gives the one it draws the
number of records. `Averages`, which `small_databases`, `quantiles` and `grid` make, and `ProductNet` are nets of
distributions on a few cells each; `Listed` makes a net of any synopses, `thin` one of a part of another.
`net_radius.radius` finds the α of a net for a workload.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, islice, pairwise
from typing import Any, ClassVar, Final, Protocol, final, runtime_checkable

import numpy as np

from qrelease._util.multisets import multiset, range_size
from qrelease._util.texts import readable
from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import positive_probability, whole
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.synopsis import Scaled, Synopsis
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.queries.dense import dense
from qrelease.queries.workload import Workload

MAX_SYNOPSES: Final = 1 << 22
"""Synopses in a net: as many as `mechanisms.net` has scores."""

MAX_ANSWERS: Final = 1 << 25
"""Synopses times queries, where all answers are held at once."""

BLOCK_ANSWERS: Final = 1 << 20
"""Answers in a block of `Candidates.fractions`, about."""


@runtime_checkable
class Candidates(Protocol):
    """A net: a finite list of synopses over one domain, each read as a distribution."""

    @property
    def domain(self) -> Domain:
        """The universe of the queries they answer."""

    def __len__(self) -> int:
        """How many there are."""

    def __hash__(self) -> int:
        """The hash, which equal nets share: what was proved of a net is remembered."""

    def fractions(self, workload: Workload) -> Iterator[Floats]:
        """What each synopsis answers.

        Parameters
        ----------
        workload : Workload
            k queries over the domain.

        Returns
        -------
        iterator of ndarray of float, each of shape (c, k)
            Fractions of the records: blocks of some synopses, in the order of the list.
        """

    def synopsis(self, index: int, total: float) -> Synopsis:
        """One of the synopses.

        Parameters
        ----------
        index : int
            Its place in the list.
        total : float
            The number of records that it stands for.

        Returns
        -------
        Synopsis
            It answers in counts.
        """

    def to_json(self) -> dict[str, Any]:
        """A description for the manifest."""


def check_candidates(what: str, net: Candidates) -> None:
    """Raise `InvalidInput` for what is no net, or an empty one."""
    if not isinstance(net, Candidates):
        raise InvalidInput(f"{what} must be as qrelease.inference.nets makes them, got {type(net).__name__}")
    if not len(net):
        raise InvalidInput(f"{what} must hold at least one synopsis, got none")


def answers_of(net: Candidates, workload: Workload) -> Iterator[Floats]:
    """The `fractions` of a net; `InvalidInput` unless each of its synopses answers every query with a finite number."""
    found = 0
    for block in net.fractions(workload):
        if block.shape[1:] != (len(workload),) or not np.isfinite(block).all():
            raise InvalidInput(f"a synopsis of a net must answer {len(workload):,} queries with finite numbers")
        yield block
        found += len(block)
    if found != len(net):
        raise InvalidInput(f"the net has {len(net):,} synopses, but {found:,} answered")


class Distributions(Candidates, Protocol):
    """A net of distributions on a few cells each, such as a `ProductNet` can be made of."""

    def distribution(self, index: int) -> tuple[Ints, Floats]:
        """The cells (r,) in C order and their weights (r,), which sum to 1."""


@final
@dataclass(frozen=True, repr=False)
class Averages:
    """All averages of `records` of the given parts, with repetition; a part is even on its cells.

    There are C(parts + records - 1, records) of them, listed in lexicographic order.

    Parameters
    ----------
    domain
        The universe.
    parts
        The cells of each part, numbered in C order.
    records
        How many parts are averaged.

    Raises
    ------
    TooLarge
        For more than 2^22 averages.
    InvalidInput
        For no part, a part without a cell, or cells beyond the universe.

    Examples
    --------
    >>> net = Averages(Domain.coded({"age": 3}), ((0,), (1, 2)), 2)
    >>> len(net)
    3
    """

    domain: Domain
    parts: tuple[tuple[int, ...], ...]
    records: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", whole("records", self.records, least=1))
        if not self.parts or not all(self.parts):
            raise InvalidInput(f"a net needs at least one part, and each part a cell, got {self.parts}")
        if not all(0 <= cell < self.domain.size for part in self.parts for cell in part):
            raise InvalidInput(f"parts must have cells 0..{self.domain.size - 1}, got {self.parts}")
        size = range_size(len(self.parts), self.records)
        if size > MAX_SYNOPSES:
            raise TooLarge(
                f"a net of {readable(size)} averages of {self.records} of {len(self.parts):,} parts is too large; at"
                f" most {MAX_SYNOPSES:,} fit: take fewer records or parts, or the smalldb mechanism, which lists none"
            )

    def __repr__(self) -> str:
        columns = ", ".join(self.domain.names)
        return f"Averages({len(self):,} of {self.records} of {len(self.parts):,} parts, over {columns})"

    def __len__(self) -> int:
        return range_size(len(self.parts), self.records)

    def fractions(self, workload: Workload) -> Iterator[Floats]:
        """See `Candidates`."""
        rows, unit = dense(workload)
        answers = np.stack([rows[:, list(part)].mean(axis=1) for part in self.parts]) * unit
        chosen = combinations_with_replacement(range(len(self.parts)), self.records)
        step = max(1, BLOCK_ANSWERS // (self.records * len(workload)))
        while block := list(islice(chosen, step)):
            yield answers[np.array(block)].mean(axis=1)

    def distribution(self, index: int) -> tuple[Ints, Floats]:
        """See `Distributions`."""
        chosen = [self.parts[i] for i in multiset(index, len(self.parts), self.records)]
        weights = [1 / (len(part) * self.records) for part in chosen for _ in part]
        return np.array([cell for part in chosen for cell in part], np.int64), np.array(weights)

    def synopsis(self, index: int, total: float) -> WeightedRecords:
        """See `Candidates`."""
        return WeightedRecords(self.domain, *self.distribution(index), total)

    def to_json(self) -> dict[str, Any]:
        """See `Candidates`."""
        parts = [list(part) for part in self.parts]
        return {"type": "averages", "columns": list(self.domain.names), "parts": parts, "records": self.records}


def small_databases(domain: Domain, records: int) -> Averages:
    """All databases of so many records: for k linear queries an α-net from `vc.small_database_size` records on.

    Raises `TooLarge` for more than 2^22 databases.

    References
    ----------
    Dwork & Roth 2014, Theorem 4.2.

    Examples
    --------
    >>> len(small_databases(Domain.coded({"age": 10}), 2))
    55
    """
    return Averages(domain, tuple((cell,) for cell in range(domain.size)), records)


def quantiles(domain: Domain, alpha: float) -> Averages:
    """All databases of m = ⌈1/α⌉ records on one ordered column: an α-net for its ranges, α/2 for its prefixes.

    *Proof.* Take the (i - 1/2)/m quantiles of x, i = 1..m. Of these, round(m F(j)) are at most j, if F(j) is the
    fraction of x that is, so a prefix is off by at most 1/(2m), and a range, the difference of two, by at most 1/m. A
    missing cell counts as the last, and lies in no range.

    Parameters
    ----------
    domain
        One ordered column.
    alpha
        α, a fraction of the records.

    Raises
    ------
    InvalidInput
        For another domain, or an α out of range.
    TooLarge
        For more than 2^22 databases.

    Examples
    --------
    >>> len(quantiles(Domain.coded({"age": 10}), 0.5))
    55
    """
    _ordered(domain)
    # A float near to 1/m means m.
    return small_databases(domain, math.ceil((1 - 2.0**-50) / positive_probability("alpha", alpha)))


def grid(domain: Domain, bins: int, alpha: float) -> Averages:
    """A net like that of `quantiles`, whose records are even over one of so many bins: of fewer parts, and so smaller.

    Parameters
    ----------
    domain
        One ordered column.
    bins
        How many bins.
    alpha
        α, a fraction of the records.

    Notes
    -----
    An α-net for ranges that begin and end where bins do, by the same proof; within a bin it knows nothing. Bins are as
    equal as can be; a missing cell is one more.
    """
    attribute = _ordered(domain)
    if whole("bins", bins, least=1) > attribute.values:
        raise InvalidInput(f"bins must be at most the {attribute.values} values of {attribute.name!r}, got {bins}")
    edges = [i * attribute.values // bins for i in range(bins + 1)]
    parts = [tuple(range(low, high)) for low, high in pairwise(edges)]
    missing = [(cell,) for cell in range(attribute.values, attribute.size)]
    return Averages(domain, (*parts, *missing), quantiles(domain, alpha).records)


@final
@dataclass(frozen=True, repr=False)
class ProductNet:
    """Every combination of a distribution from each net, as independent of one another; the last varies fastest.

    If each net is an α-net for the queries on its own columns, this one is, for all of them. For queries across nets it
    may be 1/4 worse and more, as a table is no product: `net_radius` has a bound.

    Parameters
    ----------
    domain
        The universe.
    nets
        Nets over some of its columns each, which together have every column once.

    Raises
    ------
    InvalidInput
        For nets over other columns.
    TooLarge
        For more than 2^22 combinations.
    """

    domain: Domain
    nets: tuple[Distributions, ...]
    stored_name: ClassVar[str] = "Product"

    def __post_init__(self) -> None:
        columns = [name for net in self.nets for name in net.domain.names]
        if sorted(columns) != sorted(self.domain.names):
            raise InvalidInput(
                f"a product of nets needs each of the columns {', '.join(self.domain.names)} once, got {columns}"
            )
        if any(net.domain != self.domain.project(self._axes(net)) for net in self.nets):
            raise InvalidInput("a net is over columns of the same names but with other cells")
        size = math.prod(len(net) for net in self.nets)
        if size > MAX_SYNOPSES:
            raise TooLarge(
                f"a product of {readable(size)} synopses is too large; at most {MAX_SYNOPSES:,} fit: thin a net"
            )

    def _axes(self, net: Distributions) -> tuple[int, ...]:
        return tuple(self.domain.axis(name) for name in net.domain.names)

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.nets))})"

    def __len__(self) -> int:
        return math.prod(len(net) for net in self.nets)

    def fractions(self, workload: Workload) -> Iterator[Floats]:
        """See `Candidates`."""
        rows, unit = dense(workload)
        k = len(rows)
        order = [a for net in self.nets for a in self._axes(net)]
        cube = (rows * unit).astype(np.float64).reshape(k, *self.domain.shape).transpose(0, *(1 + a for a in order))
        found: Floats = cube.reshape(k, *(net.domain.size for net in self.nets))
        for i in reversed(range(1, len(self.nets))):
            found = np.moveaxis(np.tensordot(found, _matrix(self.nets[i]), axes=(1 + i, 1)), -1, 1 + i)
        rest = found.reshape(k, self.nets[0].domain.size, -1)
        first = _matrix(self.nets[0])
        step = max(1, BLOCK_ANSWERS // (k * rest.shape[2]))
        for start in range(0, len(first), step):
            block = np.tensordot(first[start : start + step], rest, axes=(1, 1))  # (c, k, others)
            yield block.transpose(0, 2, 1).reshape(-1, k)

    def distribution(self, index: int) -> tuple[Ints, Floats]:
        """See `Distributions`."""
        places = np.unravel_index(index, [len(net) for net in self.nets])
        found = [net.distribution(int(i)) for net, i in zip(self.nets, places, strict=True)]
        chosen = np.indices([len(cells) for cells, _ in found]).reshape(len(found), -1)
        codes = np.zeros((len(self.domain), chosen.shape[1]), np.int64)
        weights = np.ones(chosen.shape[1])
        for net, (cells, parts), which in zip(self.nets, found, chosen, strict=True):
            weights *= parts[which]
            codes[list(self._axes(net))] = np.array(np.unravel_index(cells[which], net.domain.shape))
        return np.asarray(np.ravel_multi_index(tuple(codes), self.domain.shape), np.int64), weights

    def synopsis(self, index: int, total: float) -> WeightedRecords:
        """See `Candidates`."""
        return WeightedRecords(self.domain, *self.distribution(index), total)

    def to_json(self) -> dict[str, Any]:
        """See `Candidates`."""
        return {"type": "product", "nets": [net.to_json() for net in self.nets]}


@final
@dataclass(frozen=True, repr=False)
class Listed:
    """A net of any synopses over one domain; what each answers is divided by its `total`.

    Raises
    ------
    InvalidInput
        For an empty list, for synopses over different domains, or of a total that is not positive.
    """

    synopses: tuple[Synopsis, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "synopses", tuple(self.synopses))
        if not self.synopses:
            raise InvalidInput("a net needs at least one synopsis, got none")
        if any(y.domain != self.domain for y in self.synopses):
            raise InvalidInput("the synopses of a net must be over one domain, got different ones")
        wrong = [y.total for y in self.synopses if not 0 < y.total < math.inf]
        if wrong:
            raise InvalidInput(f"a synopsis in a net must stand for a positive number of records, got {wrong[0]}")

    @property
    def domain(self) -> Domain:
        """See `Candidates`."""
        return self.synopses[0].domain

    def __repr__(self) -> str:
        return f"Listed({len(self):,} synopses over {', '.join(self.domain.names)})"

    def __len__(self) -> int:
        return len(self.synopses)

    def fractions(self, workload: Workload) -> Iterator[Floats]:
        """See `Candidates`. `InvalidInput` for a synopsis that answers with something else than (k,) finite counts."""
        for i, y in enumerate(self.synopses):
            answers = np.asarray(y.answer(workload), np.float64) / y.total
            if answers.shape != (len(workload),) or not np.isfinite(answers).all():
                raise InvalidInput(f"synopsis {i} of the net must answer ({len(workload)},) finite counts")
            yield answers[None, :]

    def synopsis(self, index: int, total: float) -> Scaled:
        """See `Candidates`."""
        return Scaled(self.synopses[index], total)

    def to_json(self) -> dict[str, Any]:
        """See `Candidates`."""
        return {"type": "listed", "synopses": [y.to_json() for y in self.synopses]}


@final
@dataclass(frozen=True, repr=False)
class Thinned:
    """Some of the synopses of another net.

    Parameters
    ----------
    net
        The other net.
    kept
        The numbers of those that are kept, ascending.
    """

    net: Candidates
    kept: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.kept:
            raise InvalidInput("a net needs at least one synopsis, got none")
        if not all(0 <= i < j for i, j in pairwise((*self.kept, len(self.net)))):
            raise InvalidInput(f"kept must be ascending numbers below {len(self.net)}, got {self.kept}")

    @property
    def domain(self) -> Domain:
        """See `Candidates`."""
        return self.net.domain

    def __repr__(self) -> str:
        return f"Thinned({len(self):,} of {self.net!r})"

    def __len__(self) -> int:
        return len(self.kept)

    def fractions(self, workload: Workload) -> Iterator[Floats]:
        """See `Candidates`."""
        kept = np.array(self.kept)
        start = 0
        for block in self.net.fractions(workload):
            low, high = np.searchsorted(kept, [start, start + len(block)])
            yield block[kept[low:high] - start]
            start += len(block)

    def synopsis(self, index: int, total: float) -> Synopsis:
        """See `Candidates`."""
        return self.net.synopsis(self.kept[index], total)

    def to_json(self) -> dict[str, Any]:
        """See `Candidates`."""
        return {"type": "thinned", "net": self.net.to_json(), "kept": list(self.kept)}


def thin(net: Candidates, workload: Workload, slack: float) -> Thinned:
    """A part of a net, such that every synopsis left out answers within `slack`, as fractions, like one that was kept.

    Of an α-net it leaves an (α + slack)-net; a tiny slack drops what answers alike. Greedy, farthest first: what is
    kept is more than `slack` apart, so no part within slack/2 of all is smaller. Takes a pass over all answers for each
    one that is kept.

    Parameters
    ----------
    net
        The net.
    workload
        The queries that it is thinned for.
    slack
        How far the answers may be apart, a fraction of the records.

    Raises
    ------
    InvalidInput
        For a net over another domain, or a slack out of range.
    TooLarge
        For a net whose answers do not fit in memory.

    References
    ----------
    Gonzalez 1985, *Clustering to minimize the maximum intercluster distance*.
    """
    slack = positive_probability("slack", slack)
    if net.domain != workload.domain:
        raise InvalidInput("the net is over another domain than the workload")
    if len(net) * len(workload) > MAX_ANSWERS:
        raise TooLarge(
            f"{len(net) * len(workload):,} answers of a net are too many to thin it; at most {MAX_ANSWERS:,}"
        )
    answers = np.concatenate(list(answers_of(net, workload)))
    kept = [0]
    distance = np.abs(answers - answers[0]).max(axis=1)
    while distance.max() > slack:
        kept.append(int(distance.argmax()))
        distance = np.minimum(distance, np.abs(answers - answers[kept[-1]]).max(axis=1))
    return Thinned(net, tuple(sorted(kept)))


def _matrix(net: Distributions) -> Floats:
    """All distributions of a net, (N, cells)."""
    found = np.zeros((len(net), net.domain.size))
    for i in range(len(net)):
        cells, weights = net.distribution(i)
        np.add.at(found[i], cells, weights)
    return found


def _ordered(domain: Domain) -> Attribute:
    if len(domain) != 1 or not domain.attributes[0].ordered:
        raise InvalidInput(f"a net for intervals is over one ordered column, got {domain}")
    return domain.attributes[0]
