"""The state of a session, made from its journal by event sourcing: each entry is an event, replayed in order.

The journal is all that lasts. Processes on one journal have the same state, since it depends on the entries and on the
terms of the session alone; nothing in it is private. `session` appends entries, `SessionState.replay` reads them:

    {"buy": "count", "cost", "epsilon"}                                a noisy count of the records was charged for
    {"buy": "answers", "cost", "order", "axes", "asked"}               answers to a group of queries were
    {"buy": "synopsis", "cost", "axes", "class", "workload"}           a synopsis was
    {"buy": "sparse", "cost", "order", "axes", "positives", "threshold"}   a sparse vector was
    {"of": number, "values", ["steps"], ["right"]}                     what was drawn for the purchase of that number,
                                                                       from 0; the steps that the hypothesis takes by
                                                                       it, and whether it had been right
    {"buy": "estimate", "cost", "asked"}                               a statistic was
    {"of": number, "estimate"}                                         and what came of it
    {"free": query, "value", "order"}                                  a sparse vector said that the hypothesis is right

An entry has "insecure" where its noise was not drawn from the system's entropy.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, Literal, final

import numpy as np

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, LedgerError
from qrelease.inference.measurement import Measurement, noise_for
from qrelease.mechanisms.online import hypothesis as hypotheses
from qrelease.mechanisms.online.canonical_group import CanonicalGroup, queries_from_json
from qrelease.mechanisms.online.hypothesis import Hypothesis
from qrelease.mechanisms.online.prices import ALONE, Offer, Prices
from qrelease.mechanisms.online.purchased import PurchasedSynopsis
from qrelease.mechanisms.online.purchasing import POLICY, Purchase, PurchasePolicy
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, cost_from_json, round_up
from qrelease.privacy.filters import Tally, after
from qrelease.queries.canonical import CanonicalQuery
from qrelease.queries.classes import Conjunctions, class_from_json
from qrelease.queries.workload import Workload

Source = Literal["cached", "hypothesis", "measured", "synopsis"]

MAX_REMEMBERED_ANSWERS: Final = 1 << 18
"""Answers of synopses that are looked up instead of being worked out."""


@final
@dataclass(frozen=True)
class CountSettings:
    """How a session counts its records, where their number is private: ε doubles until the count is precise enough."""

    first_epsilon: float = 2.0**-20
    """The ε of the first noisy count."""

    rough: float = 8
    """ε times a noisy count from which on the count says how much the last one takes."""

    reserve: float = 0.8
    """The last count is bought as if there were this part of the records that the rough one says: else it might not be
    precise enough."""

    coarsest: float = 1 / 12
    """For a larger α the count is as precise as for this one: else, as it is looked at again and again until it is
    precise enough, it would too often be one that only seems to be."""

    largest_share: float = 1 / 6
    """The share of the cap that one count may take. Beyond it a count could not help, since an answer costs some four
    times as much, and what is left of the ledger is better kept."""

    largest_epsilon: float = 2.0
    """The ε that one count may take, whatever the cap."""


COUNTING: Final = CountSettings()
"""The settings of all sessions."""


@lru_cache(POLICY.cached_prices)
def _cost(*fields: tuple[str, float]) -> Cost:
    return cost_from_json(dict(fields))


@final
class SessionState:
    """What a session has bought, answered and learned: a function of its terms and of the journal's entries.

    Parameters
    ----------
    domain, neighbours
        Those of the table.
    cap
        What the session may spend in all.
    alpha, beta, declared
        Those of `Online`.
    records
        n, where it is public; else None.

    Attributes
    ----------
    records : int
        r, the number that answers are within α of; 0 while it is not known.
    tally : Tally
        The exact sums of what was spent.
    purchases : list of Purchase
        All of them, in order.
    owed : dict of int to Purchase
        By number, what was bought and is not drawn yet; but for sparse vectors, whose noise is in no journal.
    policy : PurchasePolicy
        What it would buy next.
    hypothesis : Hypothesis or None
        What it learned, for a universe of at most `MAX_HYPOTHESIS_CELLS`, from when the records are counted.
    insecure : bool
        Whether any of its noise came from anything but the system's entropy.
    """

    def __init__(
        self,
        domain: Domain,
        neighbours: Neighbours,
        cap: Cost,
        alpha: float,
        beta: float,
        declared: Conjunctions | None,
        records: int | None,
    ) -> None:
        self.domain, self.neighbours, self.cap = domain, neighbours, cap
        self.tally = Tally()
        self.purchases: list[Purchase] = []
        self.owed: dict[int, Purchase] = {}
        self.records = 0
        self.insecure = False
        self.hypothesis: Hypothesis | None = None
        prices = Prices(domain, neighbours, 0.0, beta / 2 if declared else beta, gaussian=not isinstance(cap, PureDP))
        self._keeps_hypothesis = domain.size <= hypotheses.MAX_HYPOTHESIS_CELLS
        self.policy = PurchasePolicy(prices, cap, declared, has_hypothesis=self._keeps_hypothesis)
        self._alpha = alpha
        self._answers: dict[CanonicalQuery, tuple[float, Source]] = {}
        self._synopses: list[PurchasedSynopsis] = []
        self._estimates: dict[str, list[tuple[Cost, dict[str, Any]]]] = {}
        self._next_epsilon = COUNTING.first_epsilon
        if records is not None:
            self._set_records(records)

    def __len__(self) -> int:
        """How many answers are known."""
        return len(self._answers)

    @property
    def prices(self) -> Prices:
        """What answers cost now."""
        return self.policy.prices

    # Replaying the journal

    def replay(self, entries: Sequence[bytes]) -> None:
        """Take in entries that follow those that were taken in before."""
        if not entries:
            return
        collecting = gc.isenabled()
        gc.disable()  # a long journal is all kept: to look through it for garbage, again and again, takes longer
        try:
            self._replay(json.loads(b"[" + b",".join(entries) + b"]"))
        finally:
            if collecting:
                gc.enable()
        if self.hypothesis:
            self.hypothesis.settle()

    def _replay(self, parsed: list[dict[str, Any]]) -> None:
        # One sum for a run of purchases at one price: a long journal is mostly that.
        for cost, run in groupby(_cost(*entry["cost"].items()) for entry in parsed if "buy" in entry):
            self.tally = after(self.cap, self.tally, cost, len(list(run)))
        for entry in parsed:
            self.insecure |= "insecure" in entry
            if "buy" in entry:
                self._apply_purchase(entry)
            elif "of" in entry:
                self._apply_delivery(entry)
            else:
                self._answers[CanonicalQuery.from_text(entry["free"])] = (entry["value"], "hypothesis")
                self.policy.record_free_answer(entry["order"])

    def _apply_purchase(self, entry: dict[str, Any]) -> None:
        kind, cost, offer = entry["buy"], _cost(*entry["cost"].items()), None
        queries: tuple[CanonicalQuery, ...] = ()
        if kind != "count" and not self.records:
            raise LedgerError(
                f"the session was opened by an earlier version, whose count of the records is not precise enough for"
                f" answers within alpha={self._alpha:g}: open another one, under another key"
            )
        if kind == "synopsis":
            workload = Workload.from_json(self.domain, entry["workload"])
            offer = Offer(cost, workload, tuple(entry["axes"]), class_from_json(entry["class"]))
        elif kind == "answers":
            queries = queries_from_json(self.domain, entry["asked"])
        if kind != "estimate":  # which answers no query
            self.policy.record_purchase(kind, cost, entry, queries)
        purchase = Purchase(kind, cost, entry, offer, queries)
        if kind != "sparse":
            self.owed[len(self.purchases)] = purchase
        self.purchases.append(purchase)

    def _apply_delivery(self, entry: dict[str, Any]) -> None:
        purchase = self.owed.pop(entry["of"])
        if purchase.kind == "estimate":
            self._estimates.setdefault(purchase.entry["asked"], []).append((purchase.cost, entry["estimate"]))
            return
        values = entry["values"]
        if purchase.kind == "count":
            self._apply_count(values[0], purchase.entry["epsilon"])
        elif purchase.offer is not None:
            self._add_synopsis(purchase.offer, values)
        else:
            self._add_answers(entry["of"], purchase, values[0])
            if self.hypothesis:
                self.hypothesis.add_steps(entry["steps"])
            if "right" in entry:
                self.policy.record_hypothesis(purchase.entry["order"], right=entry["right"])

    def _apply_count(self, records: int, epsilon: float) -> None:
        self._next_epsilon = 2 * epsilon
        if records * epsilon >= self.precise_count:
            if self._alpha * records >= 2:
                self._set_records(records)
        elif records * epsilon >= COUNTING.rough:
            self._next_epsilon = self.precise_count / (COUNTING.reserve * records)

    def _set_records(self, records: int) -> None:
        self.records = records
        self.policy.reprice(replace(self.prices, error=self._alpha * records))
        if self._keeps_hypothesis:
            self.hypothesis = Hypothesis(self.domain, float(records), self.prices.deviation)

    def _add_synopsis(self, offer: Offer, values: list[list[int]]) -> None:
        law, _ = noise_for(offer.workload, offer.cost, self.neighbours)
        found = [
            Measurement(g, np.array(v, np.float64) * law.unit, law)
            for g, v in zip(offer.workload.groups, values, strict=True)
        ]
        records = float(self.records) if self.neighbours is Neighbours.REPLACE_ONE else None
        self._synopses.append(PurchasedSynopsis(self.domain, offer, found, records))
        if self.hypothesis:
            self.hypothesis.add_marginals(self._synopses[-1].marginals())

    def _add_answers(self, number: int, purchase: Purchase, steps: list[int]) -> None:
        values = np.array(steps, np.float64) * purchase.queries[0].unit
        for query, value in zip(purchase.queries, values.tolist(), strict=True):
            # Where another process bought a synopsis meanwhile, that one came first for everybody.
            self._answers[query] = self.known(query) or (max(value, 0.0), "measured")
        if self.hypothesis:
            self.hypothesis.add_answers(number, purchase.learned_queries(self.domain), values)

    # The number of records

    @property
    def precise_count(self) -> float:
        """ε times the noisy count from which on the count is precise enough: see `mechanisms.online.session`."""
        return max(-math.log(ALONE * self.prices.beta) / (4 * min(self._alpha, COUNTING.coarsest)), COUNTING.rough)

    @property
    def _largest_count(self) -> float:
        """The largest ε of a noisy count that could help."""
        whole = math.sqrt(2 * self.cap.rho) if isinstance(self.cap, ZCDP) else self.cap.epsilon
        return min(whole * COUNTING.largest_share, COUNTING.largest_epsilon)

    def countable(self, records: int) -> bool:
        """Whether so many records may be counted precisely enough, if their number is not public."""
        return self.neighbours is Neighbours.REPLACE_ONE or records * self._largest_count >= self.precise_count

    def count(self) -> Purchase:
        """The next noisy count of the records. `InvalidInput` when there are too few for any answer.

        The ε doubles until the count is a rough one, from which the last is worked out.
        """
        epsilon = self._next_epsilon
        if epsilon > self._largest_count:
            raise InvalidInput(
                f"there are too few records for answers within alpha={self._alpha:g} of them at {self.cap:.6g}: "
                f"take a larger alpha"
            )
        in_rho = self.prices.gaussian and self.policy.outright_delta(self.tally) is None
        cost = ZCDP(round_up(Fraction(epsilon) ** 2 / 2)) if in_rho else PureDP(epsilon)
        return Purchase("count", cost, {"buy": "count", "cost": cost.to_json(), "epsilon": epsilon})

    # Answers

    def error(self, query: CanonicalQuery) -> float:
        """How far off the answer to a query may be, a count."""
        return 0.0 if self._constant(query) else self.prices.error

    def known(self, query: CanonicalQuery) -> tuple[float, Source] | None:
        """The answer that a query has, a count, and where it came from; None if it has none. It never changes."""
        found = self._answers.get(query)
        if found is None:
            found = self._constant(query) or self._read(query)
            if found is not None and len(self._answers) < MAX_REMEMBERED_ANSWERS:
                self._answers[query] = found
        return found

    def _constant(self, query: CanonicalQuery) -> tuple[float, Source] | None:
        """The answer to a query that weighs all records alike, where their number is public or the weight is 0."""
        if query.axes:
            return None
        weight = float(query.entries(self.domain)[0]) * query.unit
        exact = weight == 0 or self.neighbours is Neighbours.REPLACE_ONE
        return (weight * self.records, "hypothesis") if exact else None

    def _read(self, query: CanonicalQuery) -> tuple[float, Source] | None:
        """The answer of the first synopsis that may give it: a later one does not change what was said."""
        for synopsis in self._synopses:
            if synopsis.answers(query):
                return max(synopsis.answer(query), 0.0), "synopsis"
        return None

    def missing(self, group: CanonicalGroup) -> bool:
        """Whether the answer to some query of a group is not known."""
        return any(self.known(query) is None for query in group.queries)

    def waiting(self, group: CanonicalGroup) -> int | None:
        """The number of a purchase that would answer a group as soon as it is drawn; None if there is none."""
        for number, purchase in self.owed.items():
            if purchase.queries == group.queries:
                return number
            if purchase.offer is not None and all(purchase.offer.answers(query) for query in group.queries):
                return number
        return None

    # Estimates

    def estimate(self, asked: str, cost: Cost) -> dict[str, Any] | None:
        """The first estimate of a statistic that cost one record at least so much, as JSON; None if there is none."""
        return next((found for paid, found in self._estimates.get(asked, ()) if _covers(paid, cost)), None)

    def owed_estimate(self, asked: str, cost: Cost) -> int | None:
        """The number of a purchase that would be such an estimate as soon as it is drawn; None if there is none."""
        for number, purchase in self.owed.items():
            if purchase.kind == "estimate" and purchase.entry["asked"] == asked and _covers(purchase.cost, cost):
                return number
        return None


def _covers(paid: Cost, cost: Cost) -> bool:
    """Whether a cost is of another's kind, and no part of it is less."""
    parts = paid.to_json()
    return type(paid) is type(cost) and all(parts[name] >= part for name, part in cost.to_json().items())
