"""What the desk does for analysts: quotes, answers that are paid for and written down, the hypothesis.

How long a request takes depends on what is public: on the request, on what was answered before, and on where its answer
comes from, which the answer says. Noise is drawn in the middle of it and takes the same path whatever its value: the
same statements are executed and the same rows written, in one transaction.

Analysts share what was bought: that a query is free for one of them tells that it, or what it follows from, was asked
before, and the server's total tells what others spent. That is public, as the answers are; names are not told.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import numpy as np

from qrelease.analysts import ROOM, Account, Analysts
from qrelease.books import Unit
from qrelease.canonical import Asked
from qrelease.domain import Domain
from qrelease.errors import BudgetExceeded, QReleaseError, TooLarge
from qrelease.histogram import Histogram
from qrelease.ledger import Ledger
from qrelease.mechanisms.online import Online, PayingSession, Purse
from qrelease.predicate import Predicate, cell_text, parse
from qrelease.privacy import Cost
from qrelease.queries import Vectors
from qrelease.workload import Group, Workload

MAX_CELLS: Final = 1 << 16
"""Cells of the marginal that one condition is about."""

MAX_ANSWERS: Final = 1000
"""Answers to one request."""


class KeyReused(QReleaseError):  # noqa: N818  it reads as the message does
    """The key was used before, for another request."""


class NoRoom(QReleaseError):  # noqa: N818
    """The analyst's requests take all the room that they have in the ledger."""


@dataclass(frozen=True)
class Public:
    """What anybody with a token may know from the start: the universe, and the description of it that is sent."""

    domain: Domain
    description: Mapping[str, Any]

    @classmethod
    def of(cls, domain: Domain, ledger: Ledger, mechanism: Online) -> Public:
        """The universe of a ledger's dataset, and what is promised of answers."""
        columns = [
            {
                "name": a.name,
                "kind": a.kind,
                "ordered": a.ordered,
                "cells": a.size,
                "conditions": [cell_text(a, code) for code in range(min(a.size, MAX_ANSWERS))],
            }
            for a in domain
        ]
        named = {"dataset": ledger.dataset, "neighbours": ledger.neighbours.value}
        promised = {"alpha": mechanism.alpha, "beta": mechanism.beta}
        return cls(domain, {**named, **promised, "cells": domain.size, "columns": columns})


@dataclass(frozen=True)
class Question:
    """What a query of the API means: a condition, or all cells of a marginal. Nothing large is made before `unit`."""

    domain: Domain
    meant: Predicate | Workload

    @property
    def cells(self) -> int:
        """Of the marginal that it is about."""
        return self.domain.cells(self.meant.axes if isinstance(self.meant, Predicate) else self.meant.sets[0])

    @property
    def answers(self) -> int:
        """How many it has."""
        return 1 if isinstance(self.meant, Predicate) else self.cells

    @cached_property
    def unit(self) -> Unit:
        """As a session takes it."""
        if isinstance(self.meant, Predicate):
            row = self.meant.mask().astype(np.int64)
            return Unit.of(self.domain, Group(self.meant.axes, Vectors(row[None, :], 1.0, self.texts)))
        return Unit.of(self.domain, self.meant.groups[0])

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The condition of each answer, in its one fixed spelling."""
        return (str(self.meant),) if isinstance(self.meant, Predicate) else tuple(self.meant.texts())


def asked(domain: Domain, query: Mapping[str, Any]) -> Question:
    """What a query of the API means.

    `InvalidInput` for one that means nothing, `TooLarge` for one about too many cells.
    """
    if "marginal" in query:
        cells = domain.cells(domain.axes(query["marginal"]))
        if cells > MAX_ANSWERS:
            raise TooLarge(f"the marginal has {cells:,} cells; at most {MAX_ANSWERS:,} are allowed")
        return Question(domain, Workload.marginals(domain, [query["marginal"]]))
    found = Question(domain, parse(query["where"] if "where" in query else _range_text(**query["range"]), domain))
    if found.cells > MAX_CELLS:
        raise TooLarge(f"the columns of the condition span {found.cells:,} cells; at most {MAX_CELLS:,} are allowed")
    return found


def _range_text(column: str, low: str, high: str) -> str:
    name = '"' + column.replace('"', '""') + '"'
    low, high = ("'" + text.replace("'", "''") + "'" for text in (low, high))
    return f"{name} in {low}..{high}"


class _Capped:
    """An account of which one request takes at most so much, in the first number of the budget's kind."""

    def __init__(self, account: Account, most: float) -> None:
        self._account, self._most = account, most
        self._left = most * (1 + 1e-9)  # a quote's sum and the sum of its parts are rounded apart

    def admits(self, cost: Cost) -> None:
        self._account.admits(cost)
        takes = self._takes(cost)
        if takes > self._left:
            told = f"it would take {takes:.6g} of your budget by now, and at most {self._most:.6g} may be taken"
            raise BudgetExceeded(f"{told}; ask for a new quote")

    def spend(self, cost: Cost) -> None:
        self._left -= self._takes(cost)
        self._account.spend(cost)

    def _takes(self, cost: Cost) -> float:
        taken = self._account.takes(cost)
        return next(iter(taken.values())) if taken else math.inf


class Service:
    """A session and those who may ask in it; for the thread of the desk alone."""

    def __init__(self, session: PayingSession, analysts: Analysts) -> None:
        self._session, self._analysts = session, analysts

    def catch_up(self) -> None:
        """Take in what other workers wrote."""
        self._session.catch_up()

    def learn(self) -> bool:
        """Learn one thing that was put off; whether there was any."""
        return self._session.learn()

    def quote(self, analyst: str, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """What each query would cost the analyst now, at most; also if that is more than is left."""
        quoted: dict[tuple[Asked, ...], dict[str, Any]] = {}  # many are alike, and most of the others cost the same
        with self._analysts.account(analyst) as account, self._session.paid_by(account):
            takes = cache(account.takes)
            for question in questions:
                if question.unit.asked not in quoted:
                    quoted[question.unit.asked] = self._quote(question.unit, takes)
        return [quoted[question.unit.asked] for question in questions]

    def _quote(self, unit: Unit, takes: Callable[[Cost], dict[str, float] | None]) -> dict[str, Any]:
        try:
            quote = self._session.quote(unit)
            source, cost, affordable = quote.source, quote.cost, True
        except BudgetExceeded:
            source, cost, affordable = "measured", self._session.price(unit), False
        raised = None if cost is None else takes(cost)
        return {"source": source, "cost": costs(cost), "takes": raised, "affordable": affordable}

    def ask(
        self, analyst: str, key: str, request: str, questions: Sequence[Question], most: float | None = None
    ) -> bytes:
        """The answers, as the bytes that are sent, and sent again for the same key.

        most  of the analyst's budget that they may take together, in its first number; None for all that is left

        `BudgetExceeded` if the budget, or that part of it, ends before all are answered; what was paid for until then
        is the analyst's charge, and cached. `KeyReused` if the key was another request's. Of an analyst whose room is
        used up nothing more is written down: answers that are known are given, for they never change; others are
        `NoRoom`.
        """
        with self._analysts.account(analyst) as account:
            known = account.request(key)
            if known is not None:
                if known.request != request:
                    raise KeyReused("this key names another request of yours; give each request a key of its own")
                return known.response
            full = account.full
            if full and not all(self._known(question) for question in questions):
                raise NoRoom(f"your requests fill the {ROOM:,} bytes that are kept; only what is known is answered")
            purse = account if most is None else _Capped(account, most)
            answers = [answer for question in questions for answer in self._answers(purse, question)]
            response = json.dumps({"answers": answers}).encode()
            if not full:
                account.record(key, request, response)
            return response

    def _known(self, question: Question) -> bool:
        quote = self._session.quote(question.unit)
        return quote.cost is None and quote.source != "measured"

    def _answers(self, purse: Purse, question: Question) -> Iterator[dict[str, Any]]:
        with self._session.paid_by(purse):
            if self._session.listening:  # refused before a sparse vector is asked, which has few answers to give
                self._session.quote(question.unit)
            found = self._session.answers(question.unit)
        for text, a in zip(question.texts, found, strict=True):
            yield {"query": text, "value": a.value, "error": a.error, "source": a.source, "cost": costs(a.cost)}

    def budget(self, analyst: str) -> dict[str, Any]:
        """What the analyst and the session may spend, and have spent."""
        own, session = self._analysts.named(analyst), self._session
        return {
            "name": own.name,
            "requests": own.requests,
            "analyst": {"total": costs(own.budget), "spent": costs(own.spent)},
            "server": {"total": costs(session.cost), "spent": costs(session.spent)},
        }

    @property
    def synopsis(self) -> Histogram:
        """The hypothesis: what is made of it needs no desk, since later answers do not change it."""
        return self._session.synopsis


def costs(cost: Cost | None) -> dict[str, float] | None:
    """A cost as JSON; null is none."""
    return None if cost is None else cost.to_json()
