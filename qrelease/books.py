"""`Books`: what a session has bought and learned, as its journal says, and what it would buy next. All public."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, Final, Literal, final

import numpy as np

from qrelease.bought import Bought
from qrelease.canonical import Asked, named
from qrelease.conjunctions import Conjunctions, Everything, Parities, QueryClass, class_from_json
from qrelease.cover import Axes
from qrelease.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.hypotheses import single
from qrelease.learner import Learner
from qrelease.measure import Measurement, noise_for
from qrelease.pricing import ALONE, Offer, Tariff
from qrelease.privacy import ZCDP, ApproxDP, Cost, Neighbours, PureDP
from qrelease.privacy.costs import cost_from_json, round_up
from qrelease.privacy.filters import Tally, after
from qrelease.queries import Cells, Vectors
from qrelease.workload import Group, Workload

Source = Literal["cached", "hypothesis", "measured", "synopsis"]
Kind = Literal["count", "answers", "synopsis", "sparse"]

FIRST: Final = 2.0**-20
"""The ε of the first noisy count of the records."""

_ROUGH: Final = 8
"""ε times a noisy count from which on it says how much the last one takes."""

_SPARE: Final = 0.8
"""The last is bought as if the records were so many times what the rough count says: else it may not be enough."""

RENT: Final = 0.85
"""A synopsis is bought when answers that it would have given cost so much of its price. Whoever stops asking just then
has paid 1 + 1/RENT = 2.18 times what they cost; the longer they ask, the nearer to 1 + RENT times its price."""

RENT_ROOT: Final = 0.3
"""The same in ρ where the total is (ε, δ): ε grows with √ρ, and √(1 + 1/RENT_ROOT) = 2.08."""

HYPOTHESIS: Final = 1 << 22
"""Cells of a universe that a hypothesis is kept over."""

_HARDLY: Final = 0.98
"""Of the price of a synopsis, what one for more columns and queries costs at least. It would do for fewer too, but the
scales of residuals are not quite the best: of 58 000 pairs at random 7 are the other way round, by 0.4 % at most."""

_REMEMBERED: Final = 1 << 18  # answers of synopses that are looked up instead of being worked out
_NAMES: Final = 1 << 28  # bytes of the names of a family
_PRICES: Final = 256  # that are kept until the next synopsis or sparse vector


@final
@dataclass(frozen=True)
class Unit:
    """What is bought in one go: a family of queries on one marginal, and each of them by its name.

    order  on how many columns at most its queries are conjunctions; one more than the domain has for parities, two more
           for other queries
    """

    group: Group
    asked: tuple[Asked, ...]
    order: int

    @classmethod
    def of(cls, domain: Domain, group: Group) -> Unit:
        """A group as a unit; one query in its canonical form. `TooLarge` for a family of too many long names."""
        queries = group.queries
        if queries.count * queries.cells > 8 * _NAMES:
            raise TooLarge(f"{queries.count:,} queries on {queries.cells:,} cells are too many to ask at a time")
        if isinstance(queries, Cells) and min((domain.shape[a] for a in group.axes), default=0) > 1:
            width = -(-queries.cells // 8)
            names = ((1 << 8 * width - 1 - i).to_bytes(width, "big") for i in range(queries.cells))
            return cls(group, tuple(Asked(group.axes, 1.0, name) for name in names), len(group.axes))
        found = [named(domain, single(group, i)) for i in range(queries.count)]
        asked = tuple(one for one, _ in found)
        if len(asked) == 1 and not (asked[0].axes == group.axes and isinstance(queries, Vectors)):
            group = asked[0].group(domain)
        return cls(group, asked, max(_order(domain, *one) for one in found))

    @property
    def counts(self) -> bool:
        """Whether it is one counting query."""
        return len(self.asked) == 1 and self.asked[0].unit == 1

    @cached_property
    def columns(self) -> Axes:
        """Those that its queries depend on."""
        return tuple(sorted({a for asked in self.asked for a in asked.axes}))

    def to_json(self, domain: Domain) -> str | list[dict[str, Any]]:
        """The name of one query, or a description of a family."""
        return self.asked[0].to_text() if len(self.asked) == 1 else Workload(domain, (self.group,)).to_json()


def _order(domain: Domain, asked: Asked, conjunction: bool) -> int:
    if conjunction:
        return len(asked.axes)
    return len(domain) + (1 if Parities().contains(domain, asked) else 2)


@final
@dataclass(frozen=True)
class Purchase:
    """A charge of the session, and what for: the entry of the journal says it."""

    kind: Kind
    cost: PureDP | ApproxDP | ZCDP
    entry: dict[str, Any]
    offer: Offer | None = None
    asked: tuple[Asked, ...] = ()

    def workload(self, domain: Domain) -> Workload:
        """What is to be measured, of a purchase of answers or of a synopsis."""
        if self.offer is not None:
            return self.offer.workload
        one = isinstance(self.entry["asked"], str)
        group = self.asked[0].group(domain) if one else None
        return Workload(domain, (group,)) if group else Workload.from_json(domain, self.entry["asked"])

    def learned(self, domain: Domain) -> Asked | Group:
        """What a hypothesis learns from, of a purchase of answers: the name of one query, or a family."""
        return self.asked[0] if len(self.asked) == 1 else self.workload(domain).groups[0]


@lru_cache(_PRICES)
def _cost(*fields: tuple[str, float]) -> Cost:
    return cost_from_json(dict(fields))


@final
class Books:
    """Made from a session's journal, and kept up with it.

    records   r, 0 while it is not known
    tally     exact sums of what was spent
    owed      by number: what was bought and is not delivered
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
        self.gaussian = not isinstance(cap, PureDP)
        self.tally = Tally()
        self.purchases: list[Purchase] = []
        self.owed: dict[int, Purchase] = {}
        self.records = 0
        self.insecure = False  # whether any of its noise came from anything but the system's entropy
        self.learner: Learner | None = None
        self.tariff = Tariff(domain, neighbours, 0.0, beta / 2 if declared else beta, self.gaussian)
        self._alpha, self._declared = alpha, declared
        self._rent = RENT_ROOT if isinstance(cap, ApproxDP) else RENT
        self._answers: dict[Asked, tuple[float, Source]] = {}
        self._synopses: list[Bought] = []
        self._number = 0  # of synopses and sparse vectors
        self._next = FIRST  # ε of the next noisy count
        self._dues: dict[tuple[Axes, int], float] = {}  # by columns and order, the rents at which they are bought
        self._offer = lru_cache(_PRICES)(self._offered)
        self._vector = lru_cache(_PRICES)(self._sparse_terms)
        self._right: dict[int, int] = {}  # by the order of a unit: how often of late the hypothesis was
        self._patience = 1  # doubled by each sparse vector that is not worth its price
        # Under pure ε each positive costs less the more there are, under ρ the same.
        self._fewest, self._most = (1, 1) if self.gaussian else (4, 64)
        self._positives = 0  # of the last sparse vector
        self._worth, self._last = 0.0, 1.0  # what its answers would have cost, over its price; and that
        self._paid: dict[
            int, tuple[float, frozenset[int]]
        ] = {}  # by order, since the last synopsis, and on which columns
        if records is not None:
            self._know(records)

    def __len__(self) -> int:
        return len(self._answers)

    # Reading the journal

    def replay(self, entries: Sequence[bytes]) -> None:
        """Take in what was written down."""
        if not entries:
            return
        collecting = gc.isenabled()
        gc.disable()  # a long journal is all kept: to look through it for garbage, again and again, takes longer
        try:
            self._replay(json.loads(b"[" + b",".join(entries) + b"]"))
        finally:
            if collecting:
                gc.enable()
        if self.learner:
            self.learner.settle()

    def _replay(self, parsed: list[dict[str, Any]]) -> None:
        # One sum for a run of purchases at one price: a long journal is mostly that.
        for cost, run in groupby(_cost(*entry["cost"].items()) for entry in parsed if "buy" in entry):
            self.tally = after(self.cap, self.tally, cost, len(list(run)))
        for entry in parsed:
            self.insecure |= "insecure" in entry
            if "buy" in entry:
                self._bought(entry)
            elif "of" in entry:
                self._delivered(entry)
            else:
                self._answers[Asked.from_text(entry["free"])] = (entry["value"], "hypothesis")
                self._judge(entry["order"], right=True)
                self._worth += self.tariff.alone / self._last

    def _bought(self, entry: dict[str, Any]) -> None:
        kind, cost, offer = entry["buy"], _cost(*entry["cost"].items()), None
        asked: tuple[Asked, ...] = ()
        if kind == "synopsis":
            workload = Workload.from_json(self.domain, entry["workload"])
            offer = Offer(cost, workload, tuple(entry["axes"]), class_from_json(entry["class"]))
            self._paid = {}
        elif kind == "answers":
            asked = self._named(entry["asked"])
        if kind in ("synopsis", "sparse"):
            self._number += 1
            self._price_anew()
        if kind == "sparse":
            self._patience = 1 if self._bargain else 2 * self._patience
            self._positives, self._worth, self._last = entry["positives"], 0.0, self.price(cost)
        if kind in ("answers", "sparse"):
            paid, columns = self._paid.get(entry["order"], (0.0, frozenset()))
            self._paid[entry["order"]] = paid + self.price(cost), columns.union(entry["axes"])
        purchase = Purchase(kind, cost, entry, offer, asked)
        if kind != "sparse":
            self.owed[len(self.purchases)] = purchase
        self.purchases.append(purchase)

    def _delivered(self, entry: dict[str, Any]) -> None:
        purchase = self.owed.pop(entry["of"])
        values = entry["values"]
        if purchase.kind == "count":
            self._counted(values[0], purchase.entry["epsilon"])
        elif purchase.offer is not None:
            self._add_synopsis(purchase.offer, values)
        else:
            self._add_answers(entry["of"], purchase, values[0])
            if self.learner:
                self.learner.moved(entry["steps"])
            if "right" in entry:
                self._judge(purchase.entry["order"], right=entry["right"])

    def _judge(self, order: int, *, right: bool) -> None:
        """Once wrong takes away most of its credit."""
        credit = self._right.get(order, 0)
        self._right[order] = credit + 1 if right else credit // 4

    def _add_synopsis(self, offer: Offer, values: list[list[int]]) -> None:
        law, _ = noise_for(offer.workload, offer.cost, self.neighbours)
        found = [
            Measurement(g, np.array(v, np.float64) * law.unit, law)
            for g, v in zip(offer.workload.groups, values, strict=True)
        ]
        records = float(self.records) if self.neighbours is Neighbours.REPLACE_ONE else None
        self._synopses.append(Bought(self.domain, offer, found, records))
        if self.learner:
            self.learner.bought(self._synopses[-1].tables())

    def _add_answers(self, number: int, purchase: Purchase, steps: list[int]) -> None:
        values = np.array(steps, np.float64) * purchase.asked[0].unit
        for asked, value in zip(purchase.asked, values.tolist(), strict=True):
            # Where another process bought a synopsis meanwhile, that one came first for everybody.
            self._answers[asked] = self.known(asked) or (max(value, 0.0), "measured")
        if self.learner:
            self.learner.measured(number, purchase.learned(self.domain), values)

    def _named(self, content: str | list[dict[str, Any]]) -> tuple[Asked, ...]:
        """The queries of a unit, which `Unit.to_json` described."""
        if isinstance(content, str):
            return (Asked.from_text(content),)
        return Unit.of(self.domain, Workload.from_json(self.domain, content).groups[0]).asked

    # The number of records

    @property
    def _enough(self) -> float:
        """ε times the noisy count from which on it is precise enough: see `mechanisms.online`."""
        return -math.log(ALONE * self.tariff.beta) / (4 * self._alpha)

    def _counted(self, records: int, epsilon: float) -> None:
        self._next = 2 * epsilon
        if records * epsilon >= self._enough:
            if self._alpha * records >= 2:
                self._know(records)
        elif records * epsilon >= _ROUGH:
            self._next = self._enough / (_SPARE * records)

    def _know(self, records: int) -> None:
        self.records = records
        self.tariff = Tariff(self.domain, self.neighbours, self._alpha * records, self.tariff.beta, self.gaussian)
        self._price_anew()
        if self.domain.size <= HYPOTHESIS:
            self.learner = Learner(self.domain, float(records), self.tariff.deviation)

    def count(self) -> Purchase:
        """The next noisy count of the records. `InvalidInput` when there are too few for any answer.

        The ε doubles until the count is a rough one, from which the last is worked out. Beyond a sixth of the cap the
        last that could help is past, since an answer costs some four times as much, and what is left of the ledger is
        better kept.
        """
        epsilon = self._next
        most = math.sqrt(2 * self.cap.rho) if isinstance(self.cap, ZCDP) else self.cap.epsilon
        if epsilon > min(most / 6, 2):
            raise InvalidInput(
                f"there are too few records for answers within alpha={self._alpha:g} of them at {self.cap}: "
                f"take a larger alpha"
            )
        in_rho = self.gaussian and self._backing is None
        cost = ZCDP(round_up(Fraction(epsilon) ** 2 / 2)) if in_rho else PureDP(epsilon)
        return Purchase("count", cost, {"buy": "count", "cost": cost.to_json(), "epsilon": epsilon})

    # Answers

    def error(self, asked: Asked) -> float:
        """How far off the answer to a query may be, a count."""
        return 0.0 if self._constant(asked) else self.tariff.error

    def known(self, asked: Asked) -> tuple[float, Source] | None:
        """The answer that a query has, if it has one; it never changes."""
        found = self._answers.get(asked)
        if found is None:
            found = self._constant(asked) or self._read(asked)
            if found is not None and len(self._answers) < _REMEMBERED:
                self._answers[asked] = found
        return found

    def _constant(self, asked: Asked) -> tuple[float, Source] | None:
        """A query that weighs all records alike."""
        if asked.axes:
            return None
        weight = float(asked.entries(self.domain)[0]) * asked.unit
        exact = weight == 0 or self.neighbours is Neighbours.REPLACE_ONE
        return (weight * self.records, "hypothesis") if exact else None

    def _read(self, asked: Asked) -> tuple[float, Source] | None:
        """Off the first synopsis that may answer it: a later one does not change what was said."""
        for synopsis in self._synopses:
            if synopsis.answers(asked):
                return max(synopsis.answer(asked), 0.0), "synopsis"
        return None

    def missing(self, unit: Unit) -> bool:
        """Whether an answer is not known."""
        return any(self.known(a) is None for a in unit.asked)

    def waiting(self, unit: Unit) -> int | None:
        """The number of a purchase that would answer a unit as soon as it is delivered."""
        for number, purchase in self.owed.items():
            if purchase.asked == unit.asked:
                return number
            if purchase.offer is not None and all(purchase.offer.answers(a) for a in unit.asked):
                return number
        return None

    # What to buy

    def price(self, cost: PureDP | ApproxDP | ZCDP) -> float:
        """A cost as a price: ε or ρ."""
        return cost.rho if isinstance(cost, ZCDP) else cost.epsilon

    def alone(self, unit: Unit) -> Purchase:
        """A unit measured by itself."""
        price = self.tariff.alone if unit.counts else self.tariff.price(unit.group.queries)
        cost = self.tariff.cost(price)
        return Purchase("answers", cost, {**self._entry("answers", cost, unit), "asked": unit.to_json(self.domain)})

    @property
    def _bargain(self) -> bool:
        """Whether the last sparse vector gave as many answers as its price would have paid for."""
        return self._worth >= 1

    def trusted(self, unit: Unit) -> bool:
        """Whether the hypothesis was right of late, on queries of this kind, so often as a sparse vector costs."""
        if self.learner is None or not unit.counts:
            return False
        price, _ = self._vector(self._fewest)
        return self._right.get(unit.order, 0) * self.tariff.alone >= price

    def sparse(self, unit: Unit) -> Purchase | None:
        """A sparse vector for a unit that is trusted; after some that were no bargain, the credit must be larger."""
        if not self.trusted(unit):
            return None
        # Not dearer than what is left to pay until a synopsis is bought.
        room = min((self._due(offer) - rent for rent, offer in self._offers(unit, ripe=False)), default=math.inf)
        positives = min(4 * self._positives, self._most) if self._bargain else self._fewest
        while (price := self._vector(positives)[0]) > room and positives > self._fewest:
            positives //= 4
        _, threshold = self._vector(positives)
        spare = self._right[unit.order] * self.tariff.alone >= self._patience * price
        if price > room or threshold <= 0 or not (self._bargain or spare):
            return None
        cost = self.tariff.cost(price)
        terms = {"positives": positives, "threshold": threshold}
        return Purchase("sparse", cost, {**self._entry("sparse", cost, unit), **terms})

    def _entry(self, kind: Kind, cost: PureDP | ZCDP, unit: Unit) -> dict[str, Any]:
        return {"buy": kind, "cost": cost.to_json(), "order": unit.order, "axes": unit.columns}

    def synopses(self, unit: Unit) -> Iterator[Purchase]:
        """Those that are worth their price now, the most worthwhile first."""
        everything = tuple(range(len(self.domain)))
        if self._declared and all(self._declared.contains(self.domain, a) for a in unit.asked):
            offers = [self._outright(everything, self._declared), self._offer(everything, self._declared, None)]
            yield from (self._synopsis(offer) for offer in offers if offer is not None)
        found = [(rent / self._due(offer), offer) for rent, offer in self._offers(unit, ripe=True)]
        yield from (self._synopsis(offer) for _, offer in sorted(found, key=lambda f: -f[0]))

    def _offers(self, unit: Unit, *, ripe: bool) -> Iterator[tuple[float, Offer]]:
        """The synopses that would answer a unit and what the stream has shown so far, each with the rent paid.

        ripe  those only whose rent is due: most others need no price, which takes long to work out, since a synopsis
              costs hardly less than one for some of its columns and queries
        """
        for order in self._orders(unit.order):
            rent, columns = self._shown(order)
            axes = tuple(sorted(columns.union(unit.columns)))
            if not rent or (ripe and _HARDLY * self._least(axes, order) > rent):
                continue
            offer = self._priced(axes, order)
            if offer is not None and not (ripe and self._due(offer) > rent):
                yield rent, offer

    def foresee(self) -> bool:
        """Work out a price that the next query may else wait for; whether there was any.

        Of a synopsis on just the columns that the stream has shown: with others, it costs hardly less.
        """
        for order in self._orders(min(self._paid, default=0)):
            rent, columns = self._shown(order)
            axes = tuple(sorted(columns))
            near = rent and _HARDLY * self._least(axes, order) <= rent + self.tariff.alone
            if near and (axes, order) not in self._dues:
                self._priced(axes, order)
                return True
        return False

    def _shown(self, order: int) -> tuple[float, frozenset[int]]:
        """What answers to queries of a class cost since the last synopsis, and the columns that those were on."""
        paid = [self._paid[k] for k in self._paid if k <= order]
        return sum(rent for rent, _ in paid), frozenset().union(*(columns for _, columns in paid))

    def _priced(self, axes: Axes, order: int) -> Offer | None:
        offer = self._offer(axes, self._class(order), self._number)
        self._dues[axes, order] = math.inf if offer is None else self._due(offer)
        return offer

    def _least(self, axes: Axes, order: int) -> float:
        """At least so much is the rent at which a synopsis is bought."""
        own = isinstance(self._class(order), Everything)  # for which few columns have a bound that is less than others'
        least, wide = order if own else 0, {*axes}
        some = (due for (a, k), due in self._dues.items() if least <= k <= order and wide.issuperset(a))
        return max(some, default=0.0)

    @property
    def _backing(self) -> float | None:
        """δ for a declared synopsis outright, most of the cap's, as long as nothing was spent in ρ; else None.

        A synopsis that is expected to answer everything is cheaper in ε, or by the exact (ε, δ) of Gaussian noise, than
        by way of ρ, as long as nothing else is: the filter adds them up, and ρ is converted with the δ that is left.
        """
        begun = self.tally.account is not None or self.tally.delta > 0
        if begun or self._declared is None or not isinstance(self.cap, ApproxDP):
            return None
        return 0.875 * self.cap.delta or None

    def _outright(self, axes: Axes, declared: Conjunctions) -> Offer | None:
        """The cheaper of a table in ε and residuals in (ε, δ)."""
        delta, found = self._backing, list[Offer]()
        if delta is not None:
            with suppress(TooLarge):
                found.append(self.tariff.table(None, axes, declared))
            with suppress(TooLarge):
                found.append(self.tariff.approximate(None, axes, declared, delta))
        return min(found, key=lambda offer: self.price(offer.cost), default=None)

    def _due(self, offer: Offer) -> float:
        """The rent at which it is bought."""
        return self._rent * self.price(offer.cost)

    def _orders(self, least: int) -> list[int]:
        """The classes that a unit of this order belongs to, of those that the stream has shown so far."""
        widest = len(self.domain)
        if not self.gaussian:  # a table costs hardly more for conjunctions of all its columns than for few
            return [order for order in (widest, widest + 1, widest + 2) if order >= least]
        return [k for k in sorted({least, *self._paid}) if least <= k <= widest]

    def _class(self, order: int) -> QueryClass:
        widest = len(self.domain)
        return Conjunctions(max(order, 1)) if order <= widest else Parities() if order == widest + 1 else Everything()

    def _price_anew(self) -> None:
        self._dues.clear()
        self._offer.cache_clear()
        self._vector.cache_clear()

    def _sparse_terms(self, positives: int) -> tuple[float, int]:
        return self.tariff.sparse(self._number, positives)

    def _offered(self, axes: Axes, queries: QueryClass, number: int | None) -> Offer | None:
        try:
            if not self.gaussian:
                return self.tariff.table(number, axes, queries)
            return self.tariff.residuals(number, axes, queries) if isinstance(queries, Conjunctions) else None
        except TooLarge:
            return None

    def _synopsis(self, offer: Offer) -> Purchase:
        terms = {"axes": offer.axes, "class": offer.queries.to_json(), "workload": offer.workload.to_json()}
        return Purchase("synopsis", offer.cost, {"buy": "synopsis", "cost": offer.cost.to_json(), **terms}, offer)
