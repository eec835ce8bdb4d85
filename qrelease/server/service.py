"""What the desk does for analysts: quotes, answers that are paid for and written down, synthetic records.

How long a request takes depends on what is public: on the request, on what was answered before, and on where its answer
comes from, which the answer says. Noise is drawn in the middle of it and takes the same path whatever its value: the
same statements are executed and the same rows written, in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from qrelease.analysts import Analysts
from qrelease.domain import Domain
from qrelease.errors import BudgetExceeded, QReleaseError, TooLarge
from qrelease.ledger import Ledger
from qrelease.mechanisms.online import Online, PayingSession, Quote
from qrelease.predicate import cell_text, parse
from qrelease.privacy import Cost
from qrelease.workload import Workload

MAX_CELLS: Final = 1 << 16
"""Cells of the marginal that one condition is about."""

MAX_ANSWERS: Final = 1000
"""Answers to one request."""


class KeyReused(QReleaseError):  # noqa: N818  it reads as the message does
    """The key was used before, for another request."""


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


def asked(domain: Domain, query: Mapping[str, Any]) -> str | Workload:
    """What a query of the API means: a condition, in its one fixed spelling, or all cells of a marginal.

    `InvalidInput` for one that means nothing, `TooLarge` for one about too many cells, before anything large is made.
    """
    if "marginal" in query:
        cells = domain.cells(domain.axes(query["marginal"]))
        if cells > MAX_ANSWERS:
            raise TooLarge(f"the marginal has {cells:,} cells; at most {MAX_ANSWERS:,} are allowed")
        return Workload.marginals(domain, [query["marginal"]])
    predicate = parse(query["where"] if "where" in query else _range_text(**query["range"]), domain)
    cells = domain.cells(predicate.axes)
    if cells > MAX_CELLS:
        raise TooLarge(f"the columns of the condition span {cells:,} cells; at most {MAX_CELLS:,} are allowed")
    return str(predicate)


def _range_text(column: str, low: str, high: str) -> str:
    name = '"' + column.replace('"', '""') + '"'
    low, high = ("'" + text.replace("'", "''") + "'" for text in (low, high))
    return f"{name} in {low}..{high}"


class Service:
    """A session and those who may ask in it; for the thread of the desk alone."""

    def __init__(self, session: PayingSession, analysts: Analysts) -> None:
        self._session, self._analysts = session, analysts

    def catch_up(self) -> None:
        """Take in what other workers wrote."""
        self._session.catch_up()

    def quote(self, analyst: str, queries: Sequence[str | Workload]) -> list[dict[str, Any]]:
        """What each query would cost the analyst now, at most."""
        return [self._quote(analyst, query) for query in queries]

    def _quote(self, analyst: str, query: str | Workload) -> dict[str, Any]:
        try:
            quote = self._affordable(analyst, query)
        except BudgetExceeded:
            return {"source": None, "cost": None, "affordable": False}
        return {"source": quote.source, "cost": costs(quote.cost), "affordable": True}

    def _affordable(self, analyst: str, query: str | Workload) -> Quote:
        """`BudgetExceeded` if the analyst, the session or the ledger has not enough left for a query."""
        quote = self._session.quote(query)
        if quote.cost is not None:
            self._analysts.admits(analyst, quote.cost)
        return quote

    def ask(self, analyst: str, key: str, request: str, queries: Sequence[str | Workload]) -> bytes:
        """The answers, as the bytes that are sent, and sent again for the same key.

        `BudgetExceeded` if the budget ends before all are answered; what was paid for until then is the analyst's
        charge, and cached. `KeyReused` if the key was another request's.
        """
        known = self._analysts.request(analyst, key)
        if known is not None:
            if known.request != request:
                raise KeyReused("this key names another request of yours; give each request a key of its own")
            return known.response
        answers = [answer for query in queries for answer in self._answers(analyst, query)]
        response = json.dumps({"answers": answers}).encode()
        self._analysts.record(analyst, key, request, response)
        return response

    def _answers(self, analyst: str, query: str | Workload) -> Iterator[dict[str, Any]]:
        self._affordable(analyst, query)
        if isinstance(query, str):
            found = [(query, self._session.answer(query))]
        else:
            found = [*zip(query.texts(), self._session.answers(query), strict=True)]
        for text, a in found:
            if a.cost is not None:
                self._spend(analyst, a.cost)
            yield {"query": text, "value": a.value, "error": a.error, "source": a.source, "cost": costs(a.cost)}

    def _spend(self, analyst: str, cost: Cost) -> None:
        try:
            self._analysts.spend(analyst, cost)
        except BudgetExceeded as error:  # no refusal of the request: it undoes what was bought
            raise AssertionError("an answer cost more than its quote") from error

    def budget(self, analyst: str) -> dict[str, Any]:
        """What the analyst and the session may spend, and have spent."""
        own, session = self._analysts.named(analyst), self._session
        return {
            "name": own.name,
            "requests": own.requests,
            "analyst": {"total": costs(own.budget), "spent": costs(own.spent)},
            "server": {"total": costs(session.cost), "spent": costs(session.spent)},
        }

    def sample(self, rows: int) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Codes of synthetic records from the hypothesis."""
        return self._session.synopsis.sample(rows, np.random.default_rng())


def costs(cost: Cost | None) -> dict[str, float] | None:
    """A cost as JSON; null is none."""
    return None if cost is None else cost.to_json()
