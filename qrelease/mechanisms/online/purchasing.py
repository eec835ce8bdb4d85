"""What a session would buy next, and whether it is worth its price: public arithmetic on what it paid so far.

**Synopses, by the rule of the ski rental.** Whoever does not know how long they will ski rents skis until the rent has
cost as much as skis do, and then buys them. Here single answers are rented, and a synopsis of the class of queries that
the stream has shown so far is bought once the answers that it would have given have cost a share of its price.
Under pure ε there is one more such class, of simple conditions: on ranges of ordered columns and on single values of
others, on the sets of columns that were asked about together, and on those with another number in the place of one.
Noisy tables of these few columns each cost far less than one table of all columns. Nothing that was measured before
comes into their answers: which class is bought depends on answers that were seen, so the noise in these is no longer
what the bound on all queries of the class takes it to be.

**Sparse vectors, by credit.** Each time the hypothesis turns out to be right about a query that was measured, it earns
credit for queries of that order; when it is wrong, it loses most of it. A sparse vector is bought when so many measured
answers as the hypothesis was right about would have cost as much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, combinations, product
from typing import Any, Final, Literal, final

from qrelease._util.typing import Axes
from qrelease.data.domain import Domain
from qrelease.errors import TooLarge
from qrelease.mechanisms.online.canonical_group import CanonicalGroup
from qrelease.mechanisms.online.prices import MAX_TABLE_SETS, Offer, Prices
from qrelease.mechanisms.online.quotes import price_of
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP
from qrelease.privacy.filters import Tally
from qrelease.queries.canonical import CanonicalQuery
from qrelease.queries.classes import Conjunctions, Everything, Parities, QueryClass, maximal_sets
from qrelease.queries.workload import Group, Workload

Kind = Literal["count", "answers", "synopsis", "sparse", "estimate"]


@final
@dataclass(frozen=True)
class PolicySettings:
    """How readily a session buys synopses and sparse vectors."""

    synopsis_share: float = 0.85
    """A synopsis is bought when the answers that it would have given have cost this share r of its price. Whoever stops
    asking just then has paid 1 + 1/r = 2.18 times what the answers cost; the longer they ask, the nearer to 1 + r times
    the price of the synopsis."""

    synopsis_share_in_rho: float = 0.3
    """The same share where prices are in ρ and the total is (ε, δ): ε grows with √ρ, and √(1 + 1/0.3) = 2.08."""

    least_price_ratio: float = 0.98
    """A synopsis for more columns and queries costs at least this much of the price of one for fewer. It would do for
    fewer too, but the scales of residuals are not quite the best: of 58 000 pairs at random 7 are the other way round,
    by 0.4 % at most."""

    outright_delta_share: float = 0.875
    """The share of the cap's δ for which a declared class's synopsis is bought in (ε, δ)."""

    sparse_growth: int = 4
    """The next sparse vector has so many times the positive answers of the last one, if that was worth its price."""

    credit_kept: float = 0.25
    """The part of its credit that the hypothesis keeps, rounded down, when it was wrong."""

    foresight: float = 1.25
    """Tables of some columns are priced ahead when so many times what was paid on these would buy them: sooner, it
    would often be done for nothing, and hold up who asks meanwhile for some milliseconds."""

    cached_prices: int = 256
    """Prices of each kind that are remembered until the next synopsis or sparse vector is bought."""


POLICY: Final = PolicySettings()
"""The settings of all sessions."""


@final
@dataclass(frozen=True)
class Purchase:
    """One purchase of a session.

    Parameters
    ----------
    kind
        A noisy count of the records, answers to a group of queries, a synopsis, a sparse vector, or an estimate.
    cost
        What is charged for it.
    entry
        The journal's entry that says it, as JSON.
    offer
        What is measured for a synopsis.
    queries
        The queries that were asked, of a purchase of answers.
    """

    kind: Kind
    cost: PureDP | ApproxDP | ZCDP
    entry: dict[str, Any]
    offer: Offer | None = None
    queries: tuple[CanonicalQuery, ...] = ()

    def workload(self, domain: Domain) -> Workload:
        """What is to be measured, of a purchase of answers or of a synopsis."""
        if self.offer is not None:
            return self.offer.workload
        if isinstance(self.entry["asked"], str):
            return Workload(domain, (self.queries[0].group(domain),))
        return Workload.from_json(domain, self.entry["asked"])

    def learned_queries(self, domain: Domain) -> CanonicalQuery | Group:
        """What the hypothesis learns from, of a purchase of answers: one canonical query, or a family."""
        return self.queries[0] if len(self.queries) == 1 else self.workload(domain).groups[0]


@final
class PurchasePolicy:
    """What a session would buy for a group of queries, from what its journal says that it bought and learned.

    It is told of every purchase (`record_purchase`) and of every time that the hypothesis was right or wrong
    (`record_hypothesis`, `record_free_answer`) in the order of the journal, and depends on nothing else.

    Parameters
    ----------
    prices
        The prices of the session; `reprice` sets others.
    cap
        What the session may spend in all.
    declared
        The class of queries that will be asked, if it was declared.
    has_hypothesis
        Whether the session keeps a hypothesis.
    """

    def __init__(self, prices: Prices, cap: Cost, declared: Conjunctions | None, *, has_hypothesis: bool) -> None:
        self.prices = prices
        self.synopsis_share = POLICY.synopsis_share_in_rho if isinstance(cap, ApproxDP) else POLICY.synopsis_share
        self._domain, self._cap, self._has_hypothesis = prices.domain, cap, has_hypothesis
        self._declared = None if declared is None else replace(declared, weighted=True)
        self._bought_so_far = 0  # synopses and sparse vectors
        self._thresholds: dict[tuple[Axes, int], float] = {}  # by columns and order, the rent at which to buy
        self._offer = lru_cache(POLICY.cached_prices)(self._price_offer)
        self._least_of_tables = lru_cache(POLICY.cached_prices)(prices.least_of_tables)
        self._sparse_terms = lru_cache(POLICY.cached_prices)(self._price_sparse)
        self._credit: dict[int, int] = {}  # by the order of a group
        self._patience = 1  # doubled by each sparse vector that was not worth its price
        # Under pure ε each positive answer costs less the more there are, under ρ the same.
        self._fewest_positives, self._most_positives = (1, 1) if prices.gaussian else (4, 64)
        self._last_positives = 0  # of the last sparse vector
        self._last_sparse_price, self._last_sparse_return = 1.0, 0.0  # its return: its answers' worth over its price
        self._rent: dict[int, tuple[float, frozenset[int]]] = {}  # by order, since the last synopsis, on which columns
        self._simple = Conjunctions(max(len(self._domain), 1), weighted=True, simple=True)
        self._is_a_simple_one = lru_cache(POLICY.cached_prices)(partial(self._simple.contains, self._domain))
        self._rent_on: dict[Axes, float] = {}  # for simple conjunctions, by columns, since a synopsis gives those
        self._within_shown: set[Axes] = set()  # subsets of these columns, but not many more than tables are made for
        self._last_on: Axes | None = None  # the columns of the last of these, until their tables are priced

    # What the journal says

    def reprice(self, prices: Prices) -> None:
        """Use other prices from now on."""
        self.prices = prices
        self._least_of_tables = lru_cache(POLICY.cached_prices)(prices.least_of_tables)
        self._forget_prices()

    def record_purchase(
        self,
        kind: Kind,
        cost: PureDP | ApproxDP | ZCDP,
        entry: dict[str, Any],
        queries: tuple[CanonicalQuery, ...] = (),
    ) -> None:
        """Take a purchase into account; the queries are those of a purchase of answers."""
        if kind == "synopsis":
            self._rent = {}
            given = [set(s) for s in entry["class"].get("among", [entry["axes"]])]
            self._rent_on = {s: r for s, r in self._rent_on.items() if not any(set(s) <= other for other in given)}
            self._within_shown = set()
            for s in self._rent_on:
                self._show(s)
        if kind == "answers" and not self.prices.gaussian and self._is_simple(queries):
            on = tuple(entry["axes"])
            if on not in self._rent_on:
                self._show(on)
            self._rent_on[on] = self._rent_on.get(on, 0.0) + price_of(cost)
            self._last_on = on
        if kind in ("synopsis", "sparse"):
            self._bought_so_far += 1
            self._forget_prices()
        if kind == "sparse":
            self._patience = 1 if self._last_was_worth_it else 2 * self._patience
            self._last_positives = entry["positives"]
            self._last_sparse_price, self._last_sparse_return = price_of(cost), 0.0
        if kind in ("answers", "sparse"):
            paid, columns = self._rent.get(entry["order"], (0.0, frozenset()))
            self._rent[entry["order"]] = paid + price_of(cost), columns.union(entry["axes"])

    def record_hypothesis(self, order: int, *, right: bool) -> None:
        """The hypothesis was right or wrong about a query of this order; once wrong takes away most of its credit."""
        credit = self._credit.get(order, 0)
        self._credit[order] = credit + 1 if right else int(credit * POLICY.credit_kept)

    def record_free_answer(self, order: int) -> None:
        """A sparse vector said that the hypothesis is right about a query of this order."""
        self.record_hypothesis(order, right=True)
        self._last_sparse_return += self.prices.alone / self._last_sparse_price

    # What to buy

    def alone(self, group: CanonicalGroup) -> Purchase:
        """A group of queries measured by itself."""
        price = self.prices.alone if group.is_one_count else self.prices.price(group.group.queries)
        cost = self.prices.cost(price)
        content = {**_entry("answers", cost, group), "asked": group.to_json(self._domain)}
        return Purchase("answers", cost, content)

    @property
    def _last_was_worth_it(self) -> bool:
        """Whether the last sparse vector gave as many answers as its price would have paid for."""
        return self._last_sparse_return >= 1

    def trusts_hypothesis(self, group: CanonicalGroup) -> bool:
        """Whether the hypothesis was right so often of late, about queries of this order, as a sparse vector costs."""
        if not self._has_hypothesis or not group.is_one_count:
            return False
        price, _ = self._sparse_terms(self._fewest_positives)
        return self._credit.get(group.order, 0) * self.prices.alone >= price

    def sparse(self, group: CanonicalGroup) -> Purchase | None:
        """A sparse vector, for a group about which the hypothesis is trusted; None where it is not worth its price.

        After some that were not worth theirs, the credit must be larger.
        """
        if not self.trusts_hypothesis(group):
            return None
        # Not dearer than what is left to pay until a synopsis is bought.
        room = min((self._threshold(offer) - rent for rent, offer in self._offers(group, due=False)), default=math.inf)
        largest = min(POLICY.sparse_growth * self._last_positives, self._most_positives)
        positives = largest if self._last_was_worth_it else self._fewest_positives
        while (price := self._sparse_terms(positives)[0]) > room and positives > self._fewest_positives:
            positives //= POLICY.sparse_growth
        _, threshold = self._sparse_terms(positives)
        has_spare_credit = self._credit[group.order] * self.prices.alone >= self._patience * price
        if price > room or threshold <= 0 or not (self._last_was_worth_it or has_spare_credit):
            return None
        cost = self.prices.cost(price)
        terms = {"positives": positives, "threshold": threshold}
        return Purchase("sparse", cost, {**_entry("sparse", cost, group), **terms})

    def synopses(self, group: CanonicalGroup, tally: Tally) -> Iterator[Purchase]:
        """The synopses that answer a group and are worth their price now, the most worthwhile first.

        tally  what the session spent so far
        """
        everything = tuple(range(len(self._domain)))
        if self._declared and all(self._declared.contains(self._domain, query) for query in group.queries):
            offers = [self._outright(everything, self._declared, tally), self._offer(everything, self._declared, None)]
            yield from (_synopsis(offer) for offer in offers if offer is not None)
        found = [(rent / self._threshold(offer), offer) for rent, offer in self._offers(group, due=True)]
        yield from (_synopsis(offer) for _, offer in sorted(found, key=lambda f: -f[0]))

    def foresee(self) -> bool:
        """Work out a price that the next query might else wait for; whether there was any.

        It is that of a synopsis on just the columns that the stream has shown: with others, it costs hardly less. Or
        that of tables of the columns that the last query was on: by then, those on as many columns of such sizes cost
        no time.
        """
        on, self._last_on = self._last_on, None
        if on and self._is_near(on):
            self._offer(on, self._on_tables([on]), self._bought_so_far)
            return True
        for order in self._orders(min(self._rent, default=0)):
            rent, columns = self._rent_paid(order)
            axes = tuple(sorted(columns))
            is_near = rent and POLICY.least_price_ratio * self._least(axes, order) <= rent + self.prices.alone
            if is_near and (axes, order) not in self._thresholds:
                self._priced(axes, order)
                return True
        return False

    def outright_delta(self, tally: Tally) -> float | None:
        """δ for the synopsis of a declared class, most of the cap's, as long as nothing was spent in ρ; else None.

        A synopsis that is expected to answer everything is cheaper in ε, or by the exact (ε, δ) of Gaussian noise, than
        by way of ρ, as long as nothing else is: the filter adds them up, and ρ is converted with the δ that is left.
        """
        has_begun = tally.account is not None or tally.delta > 0
        if has_begun or self._declared is None or not isinstance(self._cap, ApproxDP):
            return None
        return POLICY.outright_delta_share * self._cap.delta or None

    def _offers(self, group: CanonicalGroup, *, due: bool) -> Iterator[tuple[float, Offer]]:
        """The synopses that would answer a group and what the stream has shown so far, each with the rent paid.

        due  those only whose time to buy has come: most others need no price, which takes long to work out, since a
             synopsis costs hardly less than one for some of its columns and queries
        """
        yield from self._offers_of_tables(group, due=due)
        for order in self._orders(group.order):
            rent, columns = self._rent_paid(order)
            axes = tuple(sorted(columns.union(group.columns)))
            if not rent or (due and POLICY.least_price_ratio * self._least(axes, order) > rent):
                continue
            offer = self._priced(axes, order)
            if offer is not None and not (due and self._threshold(offer) > rent):
                yield rent, offer

    def _offers_of_tables(self, group: CanonicalGroup, *, due: bool) -> Iterator[tuple[float, Offer]]:
        """That of tables of the sets of columns that the stream has shown, and of those that are like them.

        Of simple conjunctions, on ranges of values and on single ones, there are so few that their tables cost little.
        Where they would be too large, it is of the sets that were shown alone, or of the group's columns.
        """
        if self.prices.gaussian or not self._rent_on or not self._is_simple(group.queries):
            return
        for sets, rent in self._rented(group.columns):
            if not rent:
                return
            if len(sets) > MAX_TABLE_SETS:
                continue
            among = tuple(sorted(maximal_sets(sets)))
            axes = tuple(sorted({a for s in among for a in s}))
            if not axes:
                continue
            queries = self._on_tables(among)
            with suppress(TooLarge):
                if due and self.synopsis_share * self._least_of_tables(self._bought_so_far, axes, queries) > rent:
                    return
                offer = self._offer(axes, queries, self._bought_so_far)
                if offer is not None:
                    if not (due and self._threshold(offer) > rent):
                        yield rent, offer
                    return

    def _rented(self, columns: Axes) -> Iterator[tuple[set[Axes], float]]:
        """Sets of columns that tables may be of for a group on these, the most first, and what was paid on such."""
        if len(self._within_shown) <= MAX_TABLE_SETS:  # else they only get more
            shown = {*self._rent_on, columns}
            paid, alike = sum(self._rent_on.values()), self._alike(shown)
            yield alike, paid
            if alike is not shown:
                yield shown, paid
        yield {columns}, self._rent_within(columns)

    def _is_near(self, on: Axes) -> bool:
        """Whether a table of these columns may be bought soon."""
        with suppress(TooLarge):
            least = self._least_of_tables(self._bought_so_far, on, self._on_tables([on]))
            return self.synopsis_share * least <= POLICY.foresight * self._rent_within(on)
        return False

    def _rent_within(self, columns: Axes) -> float:
        """What simple conjunctions on some of these columns cost since a synopsis gave them."""
        wide = {*columns}
        return sum(rent for s, rent in self._rent_on.items() if wide.issuperset(s))

    def _on_tables(self, among: Sequence[Axes]) -> Conjunctions:
        """The simple conjunctions on these sets of columns."""
        return replace(self._simple, order=max(map(len, among)), among=tuple(among))

    def _show(self, on: Axes) -> None:
        """Take down the subsets of some columns, until there are too many for tables of them."""
        subsets = chain.from_iterable(combinations(on, k) for k in range(len(on) + 1))
        while len(self._within_shown) <= MAX_TABLE_SETS and (subset := next(subsets, None)) is not None:
            self._within_shown.add(subset)

    def _alike(self, shown: set[Axes]) -> set[Axes]:
        """These sets of columns, and those with another ordered column of them all in place of one.

        Whoever asks for means of one column by groups asks for those of others by the same groups.
        """
        if len(shown) > MAX_TABLE_SETS:
            return shown
        ordered = {a for s in shown for a in s if self._domain.attributes[a].ordered}
        found = {*maximal_sets(shown)}
        if len(found) * len(ordered) ** 2 > MAX_TABLE_SETS:
            return shown
        for s in [*found]:
            pairs = product(ordered.intersection(s), ordered.difference(s))
            found |= {tuple(sorted({*s, new} - {old})) for old, new in pairs}
        return found

    def _is_simple(self, queries: tuple[CanonicalQuery, ...]) -> bool:
        return all(map(self._is_a_simple_one, queries))

    def _rent_paid(self, order: int) -> tuple[float, frozenset[int]]:
        """What answers to queries of a class cost since the last synopsis, and the columns that those were on."""
        paid = [self._rent[k] for k in self._rent if k <= order]
        return sum(rent for rent, _ in paid), frozenset().union(*(columns for _, columns in paid))

    def _priced(self, axes: Axes, order: int) -> Offer | None:
        offer = self._offer(axes, self._class(order), self._bought_so_far)
        self._thresholds[axes, order] = math.inf if offer is None else self._threshold(offer)
        return offer

    def _least(self, axes: Axes, order: int) -> float:
        """A lower bound, but for `least_price_ratio`, on the rent at which a synopsis is bought."""
        own = isinstance(self._class(order), Everything)  # for which few columns have a bound that is less than others'
        least, wide = order if own else 0, {*axes}
        some = (at for (a, k), at in self._thresholds.items() if least <= k <= order and wide.issuperset(a))
        return max(some, default=0.0)

    def _outright(self, axes: Axes, declared: Conjunctions, tally: Tally) -> Offer | None:
        """The cheaper of a table in ε and residuals in (ε, δ)."""
        delta, found = self.outright_delta(tally), list[Offer]()
        if delta is not None:
            with suppress(TooLarge):
                found.append(self.prices.table(None, axes, declared))
            with suppress(TooLarge):
                found.append(self.prices.approximate(None, axes, declared, delta))
        return min(found, key=lambda offer: price_of(offer.cost), default=None)

    def _threshold(self, offer: Offer) -> float:
        """The rent at which a synopsis is bought."""
        return self.synopsis_share * price_of(offer.cost)

    def _orders(self, least: int) -> list[int]:
        """The classes that a group of this order belongs to, of those that the stream has shown so far."""
        widest = len(self._domain)
        if not self.prices.gaussian:  # a table costs hardly more for conjunctions of all its columns than for few
            return [order for order in (widest, widest + 1, widest + 2) if order >= least]
        return [k for k in sorted({least, *self._rent}) if least <= k <= widest]

    def _class(self, order: int) -> QueryClass:
        widest = len(self._domain)
        return (
            Conjunctions(max(order, 1), weighted=True)
            if order <= widest
            else Parities()
            if order == widest + 1
            else Everything()
        )

    def _forget_prices(self) -> None:
        self._thresholds.clear()
        self._offer.cache_clear()
        self._sparse_terms.cache_clear()

    def _price_sparse(self, positives: int) -> tuple[float, int]:
        return self.prices.sparse(self._bought_so_far, positives)

    def _price_offer(self, axes: Axes, queries: QueryClass, number: int | None) -> Offer | None:
        try:
            if isinstance(queries, Conjunctions) and queries.among:
                return self.prices.tables(number, axes, queries)
            if not self.prices.gaussian:
                return self.prices.table(number, axes, queries)
            return self.prices.residuals(number, axes, queries) if isinstance(queries, Conjunctions) else None
        except TooLarge:
            return None


def _entry(kind: Kind, cost: PureDP | ZCDP, group: CanonicalGroup) -> dict[str, Any]:
    return {"buy": kind, "cost": cost.to_json(), "order": group.order, "axes": group.columns}


def _synopsis(offer: Offer) -> Purchase:
    terms = {"axes": offer.axes, "class": offer.queries.to_json(), "workload": offer.workload.to_json()}
    entry = {"buy": "synopsis", "cost": offer.cost.to_json(), **terms}
    return Purchase("synopsis", offer.cost, entry, offer)
