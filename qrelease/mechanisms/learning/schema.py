"""A schema completed from the records: `learn` divides a cost, and spends for each column before it draws."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from qrelease._util.typing import Ints
from qrelease.data.attribute import OTHER, Attribute
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.mechanisms.learning import partition_selection
from qrelease.mechanisms.learning.bins import cuts_of, shape_of
from qrelease.mechanisms.learning.point_tree import levels, measured_leaves
from qrelease.mechanisms.private_data import Private
from qrelease.noise.distributions import MAX_SCALE
from qrelease.noise.samplers import discrete_laplace
from qrelease.privacy.costs import ApproxDP, Cost, Neighbours, PureDP, check_cost, split

NUMBERS_SHARE = 0.05
LEARNING_SHARE = 0.1
"""The part of a cost that goes into what a schema leaves open, where one cost pays for that and for a release: the
first where that is bins alone. `python -m benchmarks.learning --shares` compares parts."""

CATEGORIES_WEIGHT = 4
"""How many times as much ε a column of categories takes as one of bins. A text needs about ln(1/δ)/ε records to be
named, some 25/ε, and the noise of a bin is some 3/ε to 6/ε; what is not named is lost to every query about it."""


def check_learning(domain: Domain, cost: Cost) -> None:
    """Raise `InvalidInput` where nothing is to be learned, for a cost in zCDP, and for categories without a δ."""
    check_cost(cost, PureDP, ApproxDP)
    if not domain.undecided:
        raise InvalidInput("the schema leaves nothing to be learned")
    keyed = [a.name for a in domain if a.undecided and a.kind == "category"]
    if keyed and not (isinstance(cost, ApproxDP) and cost.delta):
        raise InvalidInput(f"categories that are to be learned ({', '.join(keyed)}) need a delta above 0")


def column_costs(domain: Domain, cost: Cost) -> dict[str, Cost]:
    """What each column that is to be learned costs: ε by `CATEGORIES_WEIGHT`, and δ where it has categories."""
    check_learning(domain, cost)
    open_ = [a for a in domain if a.undecided]
    keyed = [a for a in open_ if a.kind == "category"]
    weights = [CATEGORIES_WEIGHT if a.kind == "category" else 1 for a in open_]
    pure = split(PureDP(cost.to_json()["epsilon"]), weights)
    found: dict[str, Cost] = {attribute.name: part for attribute, part in zip(open_, pure, strict=True)}
    if keyed:
        deltas = split(cost, [1] * len(keyed))
        for attribute, own, part in zip(keyed, (pure[open_.index(a)] for a in keyed), deltas, strict=True):
            found[attribute.name] = ApproxDP(own.epsilon, part.to_json()["delta"])
    return found


def check_noise(domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
    """Raise `InvalidInput` where a part of what one record may cost buys no noise that can be drawn.

    As `check_learning`, of the domain and the cost alone: so it is known before anything is charged.
    """
    for name, part in column_costs(domain, cost).items():
        attribute = domain[name]
        if attribute.kind == "category":
            partition_selection.check(*_of_one_key(part, neighbours))
        elif _bins_scale(attribute, part, neighbours) > MAX_SCALE:
            raise InvalidInput(f"the bins of column {name!r} need a larger epsilon than {part.to_json()['epsilon']:g}")


def what(attribute: Attribute) -> str:
    """What is drawn for a column, for the list of what a cost went into."""
    return f"learn {'categories' if attribute.kind == 'category' else 'bins'} of {attribute.name}"


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
    return LEARNING_SHARE if any(a.undecided and a.kind == "category" for a in domain) else NUMBERS_SHARE


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

    private   over a domain that leaves some open
    cost      of which each such column costs its part of `column_costs`
    """
    parts = column_costs(private.domain, cost)
    made = []
    for attribute in private.domain:
        if attribute.undecided:
            share = parts[attribute.name]
            private.spend(what(attribute), share)
            attribute = (_categories if attribute.kind == "category" else _bins)(private, attribute, share)
        made.append(attribute)
    return replace(private.domain, attributes=tuple(made))


def _moved(neighbours: Neighbours) -> int:
    """How many counts a neighbour changes by 1 each."""
    return 2 if neighbours is Neighbours.REPLACE_ONE else 1


def _bins_scale(attribute: Attribute, cost: Cost, neighbours: Neighbours) -> Fraction:
    """The scale of the noise on each count of a tree over the points of a column."""
    assert attribute.grid is not None
    return levels(attribute.grid.size) * _moved(neighbours) / Fraction(cost.to_json()["epsilon"])


def _of_one_key(cost: Cost, neighbours: Neighbours) -> tuple[Fraction, Fraction]:
    """ε and δ of each count of texts that a neighbour changes."""
    values = cost.to_json()
    return Fraction(values["epsilon"]) / _moved(neighbours), Fraction(values["delta"]) / _moved(neighbours)


def _bins(private: Private, attribute: Attribute, cost: Cost) -> Attribute:
    assert attribute.grid is not None
    size = attribute.grid.size
    points, counts = private.occurring(attribute.name)
    scale = _bins_scale(attribute, cost, private.neighbours)

    def draw(scale: Fraction, count: int) -> Ints:
        return discrete_laplace(scale, count, private.entropy)

    pieces = measured_leaves(points, counts, size, scale, attribute.learn, draw)
    edges = tuple(float(attribute.grid.value(cut)) for cut in cuts_of(pieces, attribute.learn))
    return replace(attribute, learn=0, edges=edges, shape=shape_of(pieces))


def _categories(private: Private, attribute: Attribute, cost: Cost) -> Attribute:
    epsilon, delta = _of_one_key(cost, private.neighbours)
    codes, counts = private.occurring(attribute.name)
    named, noisy = partition_selection.select(counts, epsilon, delta, private.entropy)
    texts = private.texts(attribute.name)
    found = sorted((-int(noisy[i]), texts[codes[i]]) for i in np.flatnonzero(named).tolist())
    kept = sorted(text for _, text in found[: attribute.learn] if text != OTHER)
    return replace(attribute, learn=0, categories=(*kept, OTHER), outside=OTHER)
