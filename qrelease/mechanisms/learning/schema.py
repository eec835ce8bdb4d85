"""A schema completed from the records: `learn` divides a cost, and spends for each column before it draws.

**Of records**, each column costs a part of ε: bins have Laplace noise, and categories the best rule there is for one
category a record, with a part of δ (`partition_selection`).

**Of persons**, where categories are to be learned, half of δ is set aside for those that a single person has, and all
else is spent in ρ: parts of it buy Gaussian noise on the tree of bins, and on the votes for categories
(`gaussian_selection`). Each of these is δᵢ-approximate ρᵢ-zCDP, so all together are Σδᵢ-approximate Σρᵢ-zCDP (Bun &
Steinke 2016, Lemma 8.2), and what Σρᵢ converts to at the other half of δ, with that half, is the (ε, δ) that was given.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from qrelease._util.typing import Ints
from qrelease.data.attribute import OTHER, Attribute
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.mechanisms.learning import gaussian_selection, partition_selection
from qrelease.mechanisms.learning.bins import cuts_of, shape_of
from qrelease.mechanisms.learning.point_tree import levels, measured_leaves
from qrelease.mechanisms.private_data import Private
from qrelease.noise.samplers import discrete_gaussian, discrete_laplace
from qrelease.privacy.conversions import zcdp_of
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, Spend, check_cost, split

LEARNING_SHARE = 0.1
"""The part of a cost that goes into what a schema leaves open, where one cost pays for that and for a release.
`python -m benchmarks.learning --shares` compares parts."""

CATEGORIES_WEIGHT = 4
"""How many times as much ε a column of categories takes as one of bins. A text needs about ln(1/δ)/ε records to be
named, some 25/ε, and the noise of a bin is some 3/ε to 6/ε; what is not named is lost to every query about it."""

CATEGORIES_RHO_WEIGHT = 16
"""The same of ρ, of which a part buys as much as its square root of ε does."""

PERSONS_SHARE = 0.35
"""The part of one cost where categories of persons are to be learned. Some 7/√(2ρ) persons must have a category for it
to be named, and there are fewer persons than records, while the noise of a release is already that of many records."""


def check_learning(domain: Domain, cost: Cost) -> None:
    """Raise `InvalidInput` where nothing is to be learned, for a cost in zCDP, and for categories without a δ."""
    check_cost(cost, PureDP, ApproxDP)
    if not domain.undecided:
        raise InvalidInput("the schema leaves nothing to be learned")
    keyed = [a.name for a in domain if a.undecided and a.kind == "category"]
    if keyed and not (isinstance(cost, ApproxDP) and cost.delta):
        raise InvalidInput(f"categories that are to be learned ({', '.join(keyed)}) need a delta above 0")


def _of_votes(domain: Domain) -> bool:
    """Whether persons vote for categories, so that a cost is spent in ρ."""
    return domain.at_most is not None and any(a.undecided and a.kind == "category" for a in domain)


def purse(domain: Domain, cost: Cost) -> Cost:
    """What the parts of `column_costs` are spent from: the cost, less the half of δ that stands for lone persons."""
    if not _of_votes(domain):
        return cost
    check_learning(domain, cost)
    assert isinstance(cost, ApproxDP)
    return ApproxDP(cost.epsilon, split(cost, [1, 1])[0].delta)


def lone_delta(domain: Domain, cost: Cost) -> float:
    """δ of each column of categories of persons: of naming any that one person alone has."""
    check_learning(domain, cost)
    assert isinstance(cost, ApproxDP)
    return split(cost, [1] * (2 * sum(a.undecided and a.kind == "category" for a in domain)))[0].delta


def column_costs(domain: Domain, cost: Cost) -> dict[str, Cost]:
    """What each column that is to be learned costs: of records ε by `CATEGORIES_WEIGHT`, and δ where it has categories.

    Of persons, where there are categories, ρ by `CATEGORIES_RHO_WEIGHT`; and each of these costs `lone_delta` as well.
    """
    check_learning(domain, cost)
    open_ = [a for a in domain if a.undecided]
    if _of_votes(domain):
        spent = purse(domain, cost)
        assert isinstance(spent, ApproxDP)
        parts = split(zcdp_of(spent), [CATEGORIES_RHO_WEIGHT if a.kind == "category" else 1 for a in open_])
        return {attribute.name: part for attribute, part in zip(open_, parts, strict=True)}
    keyed = [a for a in open_ if a.kind == "category"]
    weights = [CATEGORIES_WEIGHT if a.kind == "category" else 1 for a in open_]
    pure = split(PureDP(cost.to_json()["epsilon"]), weights)
    found: dict[str, Cost] = {attribute.name: part for attribute, part in zip(open_, pure, strict=True)}
    if keyed:
        deltas = split(cost, [1] * len(keyed))
        for attribute, own, part in zip(keyed, (pure[open_.index(a)] for a in keyed), deltas, strict=True):
            found[attribute.name] = ApproxDP(own.epsilon, part.to_json()["delta"])
    return found


def what(attribute: Attribute) -> str:
    """What is drawn for a column, for the list of what a cost went into."""
    return f"learn {'categories' if attribute.kind == 'category' else 'bins'} of {attribute.name}"


def spends(domain: Domain, cost: Cost) -> tuple[Spend, ...]:
    """What a cost goes into, as those are told who asked for it: what is drawn, and its part."""
    found = []
    for name, part in column_costs(domain, cost).items():
        said = what(domain[name])
        if isinstance(part, ZCDP) and domain[name].kind == "category":
            said = said.replace(" of ", f" (and delta={lone_delta(domain, cost):.3g}) of ", 1)
        found.append(Spend(said, part))
    return tuple(found)


def learnable_domain(domain: Domain, *, most: bool = False) -> Domain:
    """A domain such as may be learned, for checks before anything is charged: with even bins, and with few categories.

    most  with as many categories as may be learned
    """
    attributes = tuple(_stand_in(a, a.learn if most else 1) if a.undecided else a for a in domain)
    return replace(domain, attributes=attributes)


def _stand_in(attribute: Attribute, categories: int) -> Attribute:
    if attribute.grid is None:
        named = tuple(map(str, range(categories)))
        return replace(attribute, learn=0, categories=(*named, OTHER), outside=OTHER)
    size = attribute.grid.size
    cuts = [size * i // min(size, attribute.learn) for i in range(min(size, attribute.learn) + 1)]
    return replace(attribute, learn=0, edges=tuple(float(attribute.grid.value(cut)) for cut in cuts))


def learning_share(domain: Domain) -> float:
    """The part of one cost for what a schema leaves open."""
    return PERSONS_SHARE if _of_votes(domain) else LEARNING_SHARE


def divided(domain: Domain, cost: Cost) -> tuple[Cost, Cost]:
    """The parts of one cost for what a schema leaves open, and for a release: of δ only where categories are learned.

    Raises what `check_learning` does.
    """
    check_learning(domain, cost)
    share = learning_share(domain)
    parts = [share, 1 - share]
    if isinstance(cost, ApproxDP) and not any(a.undecided and a.kind == "category" for a in domain):
        pure, left = split(PureDP(cost.epsilon), parts)
        return pure, ApproxDP(left.epsilon, cost.delta)
    first, rest = split(cost, parts)
    return first, rest


def learn(private: Private, cost: Cost) -> Domain:
    """The domain with all bins and categories known, each column spent for before it is looked at.

    private   over a domain that leaves some open, whose filter holds its `purse`; the cost is that of its unit, or of a
              record
    cost      of which each such column costs its part of `column_costs`
    """
    parts = column_costs(private.domain, cost)
    made = []
    for attribute in private.domain:
        if attribute.undecided:
            share = parts[attribute.name]
            private.spend(what(attribute), share)
            if attribute.kind != "category":
                attribute = _bins(
                    private, attribute, share if private.unit is None else private.unit.of_a_record(share)
                )
            elif isinstance(share, ZCDP):
                attribute = _voted(private, attribute, share, lone_delta(private.domain, cost))
            else:
                attribute = _categories(private, attribute, share)
        made.append(attribute)
    return replace(private.domain, attributes=tuple(made))


def _moved(private: Private) -> int:
    """How many counts a neighbour changes by 1 each."""
    return 2 if private.neighbours is Neighbours.REPLACE_ONE else 1


def _bins(private: Private, attribute: Attribute, cost: Cost) -> Attribute:
    assert attribute.grid is not None
    size = attribute.grid.size
    points, counts = private.occurring(attribute.name)
    changed = levels(size) * _moved(private)  # a record is in one part of each level

    if isinstance(cost, ZCDP):
        variance = Fraction(changed) / (2 * Fraction(cost.rho))
        scale = Fraction(math.sqrt(variance / 2))  # of Laplace noise of that variance, by which a tree is judged

        def draw(scale: Fraction, count: int) -> Ints:
            return discrete_gaussian(variance, count, private.entropy)

    else:
        scale = changed / Fraction(cost.to_json()["epsilon"])

        def draw(scale: Fraction, count: int) -> Ints:
            return discrete_laplace(scale, count, private.entropy)

    pieces = measured_leaves(points, counts, size, scale, attribute.learn, draw)
    edges = tuple(float(attribute.grid.value(cut)) for cut in cuts_of(pieces, attribute.learn))
    return replace(attribute, learn=0, edges=edges, shape=shape_of(pieces))


def _categories(private: Private, attribute: Attribute, cost: Cost) -> Attribute:
    values = cost.to_json()
    epsilon, delta = (Fraction(values[key]) / _moved(private) for key in ("epsilon", "delta"))
    codes, counts = private.occurring(attribute.name)
    named, noisy = partition_selection.select(counts, epsilon, delta, private.entropy)
    texts = private.texts(attribute.name)
    return _with(attribute, [(int(noisy[i]), texts[codes[i]]) for i in np.flatnonzero(named).tolist()])


def _voted(private: Private, attribute: Attribute, cost: ZCDP, delta: float) -> Attribute:
    """Of persons, each of whom divides one vote."""
    persons = 2 if private.unit is not None and private.unit.neighbours is Neighbours.REPLACE_ONE else 1
    sums = private.votes(attribute.name)
    named, noisy = gaussian_selection.select(sums, cost.rho, delta, private.entropy, persons)
    texts = private.texts(attribute.name)
    return _with(attribute, [(int(noisy[i]), texts[i]) for i in np.flatnonzero(named).tolist()])


def _with(attribute: Attribute, named: list[tuple[int, str]]) -> Attribute:
    """With the categories that may be named, of which those with the most are kept where there are too many."""
    found = sorted((-many, text) for many, text in named)
    kept = sorted(text for _, text in found[: attribute.learn] if text != OTHER)
    return replace(attribute, learn=0, categories=(*kept, OTHER), outside=OTHER)
