"""Clients for several questions to one person under one ε: she answers one of them, chosen at random. No numpy.

Which one says nothing of her values, so that the report is as private as that one answer. For numbers and `Coin` this
is Harmony (Nguyên et al. 2016) and RCP for many attributes; they differ in what the server divides by (`OneOfServer`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Final, final

from qrelease._util.validate import whole
from qrelease.errors import InvalidInput
from qrelease.local.categories import CategoryClient, KAry, LocalHashing
from qrelease.local.client import Client, checked_place
from qrelease.local.draws import DeviceDraws, checked_epsilon
from qrelease.local.numeric import NumberClient

MAX_QUESTIONS: Final = 1 << 12


@dataclass(frozen=True)
class Several(Client):
    """One of several questions, each with a client of its own."""

    @property
    def questions(self) -> tuple[Client, ...]:
        """The client of each question, at ε at most."""
        raise NotImplementedError

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where the numbers of the reports to each question begin; the last is `size`."""
        return tuple(accumulate((q.size for q in self.questions), initial=0))

    @property
    def size(self) -> int:
        """The sizes of all questions."""
        return self.offsets[-1]

    @cached_property
    def unused(self) -> tuple[tuple[int, int], ...]:
        """Those of each question."""
        parts = zip(self.offsets, self.questions, strict=False)
        return tuple((begin + first, begin + end) for begin, q in parts for first, end in q.unused)

    def answer(self, places: Sequence[int], draws: DeviceDraws) -> int:
        """A question, uniformly, and its report for the place that it has."""
        chosen = draws.below(len(self.questions))
        return self.offsets[chosen] + self.questions[chosen].draw(places[chosen], draws)


@final
@dataclass(frozen=True)
class OneOf(Several):
    """One of several questions about values of a person's own.

    Parameters
    ----------
    epsilon
        As of every `Client`.
    clients
        One a question, none of a larger ε.

    Examples
    --------
    >>> from qrelease.local import Coin, DeviceEntropy, KAry, OneOf
    >>> client = OneOf(1.0, (Coin(1.0, 0, 100), KAry(1.0, 4)))
    >>> client.report((37.5, 2), DeviceEntropy()).code < 2 + 4
    True
    """

    name: ClassVar[str] = "one of"
    clients: tuple[Client, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        single = CategoryClient | NumberClient
        if not isinstance(self.clients, tuple) or not all(isinstance(c, single) for c in self.clients):
            raise InvalidInput("clients must be a tuple of clients for categories and numbers, one for each question")
        if not 1 <= len(self.clients) <= MAX_QUESTIONS:
            raise InvalidInput(f"there must be from 1 to {MAX_QUESTIONS:,} questions, got {len(self.clients)}")
        largest = max(checked_epsilon(c.epsilon) for c in self.clients)
        if largest > checked_epsilon(self.epsilon):
            raise InvalidInput(f"a question has an epsilon of {float(largest):g}, above {float(self.epsilon):g}")

    @property
    def questions(self) -> tuple[Client, ...]:
        """The clients."""
        return self.clients

    @property
    def inputs(self) -> int:
        """All combinations of places."""
        return math.prod(c.inputs for c in self.clients)

    def place(self, value: Sequence[object]) -> int:
        """The places of the values, one a question, as one number."""
        if not hasattr(value, "__len__") or len(value) != len(self.clients):
            raise InvalidInput(f"there must be {len(self.clients)} values, one for each question")
        total = 0
        for client, own in zip(self.clients, value, strict=True):
            total = total * client.inputs + client.place(own)
        return total

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """The report of a question chosen uniformly."""
        places = []
        for client in reversed(self.clients):
            place, own = divmod(place, client.inputs)
            places.append(own)
        return self.answer(places[::-1], draws)


@final
@dataclass(frozen=True)
class Marginals(Several):
    """One of several sets of columns of a person's own record: she reports which cell of their marginal she is in.

    Parameters
    ----------
    epsilon
        As of every `Client`.
    shape
        How many values each column of a record has.
    sets
        The sets of columns, each by their indices, ascending.
    """

    name: ClassVar[str] = "marginals"
    shape: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("shape", tuple(whole("the size of a column", size, least=1) for size in self.shape))
        self._set("sets", tuple(tuple(whole("a column", a, least=0) for a in axes) for axes in self.sets))
        if not 1 <= len(self.sets) <= MAX_QUESTIONS or len(set(self.sets)) < len(self.sets):
            raise InvalidInput(f"there must be from 1 to {MAX_QUESTIONS:,} different sets of columns")
        for axes in self.sets:
            if not axes or list(axes) != sorted(set(axes)) or not set(axes) <= set(range(len(self.shape))):
                raise InvalidInput(f"a set must be of different columns in ascending order, got {axes}")
            if self._cells(axes) < 2:
                raise InvalidInput(f"a marginal needs two cells, and that on the columns {axes} has one")

    def _cells(self, axes: tuple[int, ...]) -> int:
        return math.prod(self.shape[a] for a in axes)

    @cached_property
    def questions(self) -> tuple[Client, ...]:
        """For each set `KAry` where it has few cells, below 3e^ε + 2, else `LocalHashing` (Wang et al. 2017)."""
        few = 3 * self.odds + 2
        sizes = [self._cells(axes) for axes in self.sets]
        return tuple(KAry(self.epsilon, k) if k < few else LocalHashing(self.epsilon, k) for k in sizes)

    @property
    def inputs(self) -> int:
        """The cells of the universe."""
        return math.prod(self.shape)

    def place(self, value: Sequence[object]) -> int:
        """The cell of the universe that a record, one code a column, is in."""
        if not hasattr(value, "__len__") or len(value) != len(self.shape):
            raise InvalidInput(f"a record must have {len(self.shape)} codes, one for each column")
        total = 0
        for size, code in zip(self.shape, value, strict=True):
            total = total * size + checked_place("a code", code, size)
        return total

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """The report on the cell of a set chosen uniformly."""
        record = []
        for size in reversed(self.shape):
            place, code = divmod(place, size)
            record.append(code)
        record.reverse()
        return self.answer([self.cell(record, axes) for axes in self.sets], draws)

    def cell(self, record: Sequence[int], axes: tuple[int, ...]) -> int:
        """The cell of the marginal on some columns that a record is in."""
        found = 0
        for a in axes:
            found = found * self.shape[a] + record[a]
        return found


def even_share(epsilon: float | Fraction, questions: int) -> Fraction:
    """ε/m, exactly: what each of m questions may take where all are answered."""
    return checked_epsilon(epsilon) / whole("questions", questions, least=1)
