"""A schema completed from the records: `learn` divides a cost, and spends for each column before it draws.

**Of records**, each column costs a part of ε: bins have Laplace noise, and categories the best rule there is for one
category a record, with a part of δ (`partition_selection`).

**Of persons**, where categories are to be learned, half of δ is set aside for those that a single person has, and all
else is spent in ρ: parts of it buy Gaussian noise on the tree of bins, and on the votes for categories
(`gaussian_selection`). Each of these is δᵢ-approximate ρᵢ-zCDP, so all together are Σδᵢ-approximate Σρᵢ-zCDP (Bun &
Steinke 2016, Lemma 8.2), and what Σρᵢ converts to at the other half of δ, with that half, is the (ε, δ) that was given.

**In one account** with the release that follows (`OneAccount`), where one (ε, δ) pays for both, the release is spent in
ρ too. To add up an ε of learning and one of a release, each with noise that its own ε buys, is basic composition: at a
small ε, where ρ is about ε²/(4 ln(1/δ)), a tenth of ε buys a hundredth of the ρ, and nine tenths buy four fifths, so
that nearly a fifth is lost. What is promised: of all draws,

- Gaussian noise on the tree of bins, and on votes, and every draw of the release, is ρᵢ-zCDP, or δᵢ-approximately so;
- categories of records are selected with (εᵢ, δᵢ)-DP. Any two laws that are (εᵢ, δᵢ)-close come of a pair that tells
  which it is with probability δᵢ, and else is εᵢ-randomised response (Kairouz, Oh & Viswanath 2015, *The Composition
  Theorem for Differential Privacy*), which is εᵢ²/2-zCDP (Bun & Steinke 2016, Proposition 1.4). So it is
  δᵢ-approximately εᵢ²/2-zCDP (Definition 8.1).

Each part is fixed before anything is drawn, from the domain, the unit and (ε, δ). So all together, however adaptively
the later ones are chosen, are Σδᵢ-approximately Σρᵢ-zCDP (Lemma 8.2), where Σδᵢ is half of δ, or 0 without categories;
and Σρᵢ is no more than what converts to ε at the rest of δ, which with Σδᵢ makes the (ε, δ).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from qrelease._util.typing import Ints
from qrelease.data.attribute import OTHER, Attribute
from qrelease.data.domain import Domain
from qrelease.data.named_categories import WEIGHT
from qrelease.errors import InvalidInput
from qrelease.mechanisms.learning import gaussian_selection, partition_selection
from qrelease.mechanisms.learning.bins import cuts_of, shape_of
from qrelease.mechanisms.learning.point_tree import changed, measured_leaves
from qrelease.mechanisms.learning.round_points import RoundPoints
from qrelease.mechanisms.private_data import Private
from qrelease.noise.calibration import selection_epsilon
from qrelease.noise.distributions import MAX_SCALE, MAX_VARIANCE
from qrelease.noise.samplers import discrete_gaussian, discrete_laplace
from qrelease.privacy.conversions import zcdp_of
from qrelease.privacy.costs import (
    ZCDP,
    ApproxDP,
    Cost,
    Neighbours,
    PureDP,
    Spend,
    beside,
    check_cost,
    check_spendable,
    round_down,
    split,
)
from qrelease.privacy.unit import Unit

LEARNING_SHARE = 0.1
"""The part of a cost that goes into what a schema leaves open, where one cost pays for that and for a release.
`python -m benchmarks.learning --shares` compares parts."""

CATEGORIES_WEIGHT = 4
"""How many times as much ε a column of categories takes as one of bins. A text needs about ln(1/δ)/ε records to be
named, some 25/ε, and the noise of a bin is some 3/ε to 6/ε; what is not named is lost to every query about it."""

CATEGORIES_RHO_WEIGHT = 48
"""How many times as much ρ as each level of a tree of bins: three levels take a sixteenth. What is not named is lost to
every query about it, while bins of noisier counts are a little less even. `python -m benchmarks.learning --weights`
compares weights."""

FEW_RECORDS = 8
"""Records of a person up to which that is the weight. The noise of bins grows with the records m of a person, that of
votes does not. Of two errors a/√ρ₁ and bm/√ρ₂ the sum is least where ρ₁/ρ₂ falls as m^(-2/3): with more records the
weight does."""

PERSONS_SHARE = 0.35
"""The part of one cost where categories of persons are to be learned. Some 7/√(2ρ) persons must have a category for it
to be named, and there are fewer persons than records, while the noise of a release is already that of many records."""

RHO_SHARE = 0.1
"""The part of ρ, where learning and a release are in one account."""


@final
@dataclass(frozen=True)
class OneAccount:
    """One (ε, δ) for what a schema leaves open and for the release that follows; made by `one_account`.

    whole     the (ε, δ) of both
    learning  ρ of all columns that are to be learned, beside the half of δ for categories
    release   ρ of the release
    """

    whole: ApproxDP
    learning: ZCDP
    release: ZCDP


LearningCost = Cost | OneAccount


def one_account(domain: Domain, cost: Cost, unit: Unit) -> OneAccount | None:
    """The account of learning and a release together, where there is a δ; None where there is none.

    Also the ρ of a record are together within what converts to its part of (ε, δ), as whoever reads the release will
    check: see `Unit.of_a_record`.

    unit  of whole records (`Unit.of_records`)

    Raises `InvalidInput` as `check_learning` does, and for too little.
    """
    check_learning(domain, cost)
    if not isinstance(cost, ApproxDP) or not cost.delta:
        return None
    keyed = any(a.undecided and a.kind == "category" for a in domain)
    backing = split(cost, [1, 1])[0] if keyed else cost
    of_unit = zcdp_of(ApproxDP(cost.epsilon, backing.delta)).rho
    a_record = unit.of_a_record(cost)
    assert isinstance(a_record, ApproxDP)
    of_record = Fraction(zcdp_of(a_record).rho) * unit.size**2
    most = ZCDP(round_down(min(Fraction(of_unit), of_record)))
    first, rest = split(most, [RHO_SHARE, 1 - RHO_SHARE])
    return OneAccount(cost, first, rest)


def check_learning(domain: Domain, cost: LearningCost) -> None:
    """Raise `InvalidInput` where nothing is to be learned, for a cost in zCDP, and for categories without a δ."""
    if isinstance(cost, OneAccount):
        cost = cost.whole
    check_cost(cost, PureDP, ApproxDP)
    check_spendable(cost)
    if not domain.undecided:
        raise InvalidInput("the schema leaves nothing to be learned")
    keyed = [a.name for a in domain if a.undecided and a.kind == "category"]
    if keyed and not (isinstance(cost, ApproxDP) and cost.delta):
        raise InvalidInput(f"categories that are to be learned ({', '.join(keyed)}) need a delta above 0")


def _of_votes(domain: Domain) -> bool:
    """Whether persons vote for categories, so that a cost is spent in ρ."""
    return domain.at_most is not None and any(a.undecided and a.kind == "category" for a in domain)


def purse(domain: Domain, cost: LearningCost) -> Cost:
    """What the parts of `column_costs` are spent from: the cost, less the half of δ that stands for lone persons."""
    if isinstance(cost, OneAccount):
        return cost.learning
    if not _of_votes(domain):
        return cost
    check_learning(domain, cost)
    assert isinstance(cost, ApproxDP)
    return ApproxDP(cost.epsilon, split(cost, [1, 1])[0].delta)


def lone_delta(domain: Domain, cost: LearningCost) -> float:
    """δ of each column of categories of persons, or of one in `OneAccount`: of naming any that one alone has."""
    check_learning(domain, cost)
    if isinstance(cost, OneAccount):
        cost = cost.whole
    assert isinstance(cost, ApproxDP)
    return split(cost, [1] * (2 * sum(a.undecided and a.kind == "category" for a in domain)))[0].delta


def column_costs(domain: Domain, cost: LearningCost) -> dict[str, Cost]:
    """What each column that is to be learned costs: of records ε by `CATEGORIES_WEIGHT`, and δ where it has categories.

    Of persons, where there are categories, and in `OneAccount`, ρ: of bins as much for each level of a column's tree,
    so that all its counts have the same noise, and of categories `CATEGORIES_RHO_WEIGHT`, which cost `lone_delta` too.
    """
    check_learning(domain, cost)
    open_ = [a for a in domain if a.undecided]
    if isinstance(cost, OneAccount):
        return dict(zip((a.name for a in open_), split(cost.learning, _rho_weights(domain, open_)), strict=True))
    if _of_votes(domain):
        spent = purse(domain, cost)
        assert isinstance(spent, ApproxDP)
        parts = split(zcdp_of(spent), _rho_weights(domain, open_))
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


def _rho_weights(domain: Domain, open_: Sequence[Attribute]) -> list[float]:
    """The parts of ρ that columns take."""
    many = 1.0 if domain.at_most is None else max(domain.at_most / FEW_RECORDS, 1.0)
    categories = round(CATEGORIES_RHO_WEIGHT * many ** (-2 / 3), 2)  # so that it is the same on every machine
    return [categories if a.grid is None else float(changed(RoundPoints.of(a.grid), squares=True)) for a in open_]


def check_noise(domain: Domain, cost: LearningCost, unit: Unit) -> None:
    """Raise `InvalidInput` where a part of a cost buys no noise that can be drawn.

    As `check_learning`, of the domain and the cost alone: so it is known before anything is charged.

    unit  of whole records (`Unit.of_records`), which a person has several of
    """
    for name, part in column_costs(domain, cost).items():
        attribute = domain[name]
        if attribute.kind != "category":
            _bins_noise(attribute, unit.of_a_record(part), unit.relation)
        elif isinstance(part, ZCDP) and _of_votes(domain):
            gaussian_selection.threshold(part.rho, lone_delta(domain, cost), _persons_moved(unit))
        elif isinstance(part, ZCDP):
            partition_selection.check(*_of_one_key(_selecting(part, lone_delta(domain, cost)), unit.relation))
        else:
            partition_selection.check(*_of_one_key(part, unit.relation))


def least_named(domain: Domain, cost: LearningCost, unit: Unit) -> dict[str, int]:
    """How many records, or votes of persons, a category seems to have at least that is named, by column.

    As `check_noise`, of public facts alone, and it raises what that does. A record is in one category, and a vote that
    is divided among d of them comes to √d, which is no more than the records it is of: so of n records hardly more than
    n divided by this many categories can be named.
    """
    check_noise(domain, cost, unit)
    found = {}
    for name, part in column_costs(domain, cost).items():
        if domain[name].kind != "category":
            continue
        if isinstance(part, ZCDP) and _of_votes(domain):
            reached = gaussian_selection.threshold(part.rho, lone_delta(domain, cost), _persons_moved(unit))
            found[name] = math.ceil(reached / WEIGHT)
        else:
            selecting = _selecting(part, lone_delta(domain, cost)) if isinstance(part, ZCDP) else part
            found[name] = partition_selection.reach(*_of_one_key(selecting, unit.relation)) + 1
    return found


def count_errors(domain: Domain, cost: LearningCost, unit: Unit) -> dict[str, float]:
    """How far off each count is that the bins of a column follow, in the root mean square, in records, by column.

    As `check_noise`, of public facts alone, and it raises what that does. Nothing of categories: see `least_named`.
    """
    check_noise(domain, cost, unit)
    found = {}
    for name, part in column_costs(domain, cost).items():
        if domain[name].kind != "category":
            scale, variance = _bins_noise(domain[name], unit.of_a_record(part), unit.relation)
            found[name] = math.sqrt(2) * float(scale) if variance is None else math.sqrt(variance)
    return found


def what(attribute: Attribute) -> str:
    """What is drawn for a column, for the list of what a cost went into."""
    return f"learn {'categories' if attribute.kind == 'category' else 'bins'} of {attribute.name}"


def spends(domain: Domain, cost: LearningCost) -> tuple[Spend, ...]:
    """What a cost goes into, as those are told who asked for it: what is drawn, and its part."""
    found = []
    for name, part in column_costs(domain, cost).items():
        said = what(domain[name])
        if isinstance(part, ZCDP) and domain[name].kind == "category":
            said = beside(said, lone_delta(domain, cost))
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


def learn(private: Private, cost: LearningCost) -> Domain:
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
            elif isinstance(share, ZCDP) and _of_votes(private.domain):
                attribute = _voted(private, attribute, share, lone_delta(private.domain, cost))
            elif isinstance(share, ZCDP):
                attribute = _categories(private, attribute, _selecting(share, lone_delta(private.domain, cost)))
            else:
                attribute = _categories(private, attribute, share)
        made.append(attribute)
    return replace(private.domain, attributes=tuple(made))


def _moved(neighbours: Neighbours) -> int:
    """How many counts a neighbour changes by 1 each."""
    return 2 if neighbours is Neighbours.REPLACE_ONE else 1


def _persons_moved(unit: Unit | None) -> int:
    """In how many persons neighbours differ."""
    return 2 if unit is not None and unit.neighbours is Neighbours.REPLACE_ONE else 1


def _bins_noise(attribute: Attribute, cost: Cost, neighbours: Neighbours) -> tuple[Fraction, Fraction | None]:
    """The scale of the Laplace noise on each count of a tree over the points of a column, and, of ρ, the variance of
    the Gaussian noise that is drawn instead; the tree is judged by Laplace noise of that variance.

    Raises `InvalidInput` for more noise than can be drawn.
    """
    assert attribute.grid is not None
    moved = changed(RoundPoints.of(attribute.grid), squares=isinstance(cost, ZCDP)) * _moved(neighbours)
    if isinstance(cost, ZCDP):
        variance = moved / (2 * Fraction(cost.rho))
        if variance <= MAX_VARIANCE:
            return Fraction(math.sqrt(variance / 2)), variance
    else:
        scale = moved / Fraction(cost.to_json()["epsilon"])
        if scale <= MAX_SCALE:
            return scale, None
    given = f"rho than {cost.rho:g}" if isinstance(cost, ZCDP) else f"epsilon than {cost.to_json()['epsilon']:g}"
    raise InvalidInput(f"the bins of column {attribute.name!r} need a larger {given}")


def _selecting(part: ZCDP, delta: float) -> ApproxDP:
    """The (ε, δ) of a selection that is δ-approximately ρ-zCDP: ε is √(2ρ), rounded down."""
    return ApproxDP(round_down(selection_epsilon(part, "permute-and-flip")), delta)


def _of_one_key(cost: Cost, neighbours: Neighbours) -> tuple[Fraction, Fraction]:
    """ε and δ of each count of texts that a neighbour changes."""
    values = cost.to_json()
    return Fraction(values["epsilon"]) / _moved(neighbours), Fraction(values["delta"]) / _moved(neighbours)


def _bins(private: Private, attribute: Attribute, cost: Cost) -> Attribute:
    assert attribute.grid is not None
    points, counts = private.occurring(attribute.name)
    scale, variance = _bins_noise(attribute, cost, private.neighbours)

    def draw(times: int, count: int) -> Ints:
        if variance is None:
            return discrete_laplace(times * scale, count, private.entropy)
        return discrete_gaussian(times**2 * variance, count, private.entropy)

    rounds = RoundPoints.of(attribute.grid)
    pieces = measured_leaves(points, counts, scale, attribute.learn, draw, rounds, laplace=variance is None)
    edges = tuple(float(attribute.grid.value(cut)) for cut in cuts_of(pieces, attribute.learn, rounds))
    return replace(attribute, learn=0, edges=edges, shape=shape_of(pieces))


def _categories(private: Private, attribute: Attribute, cost: Cost) -> Attribute:
    epsilon, delta = _of_one_key(cost, private.neighbours)
    codes, counts = private.occurring(attribute.name)
    named, noisy = partition_selection.select(counts, epsilon, delta, private.entropy)
    texts = private.texts(attribute.name)
    return _with(attribute, [(int(noisy[i]), texts[codes[i]]) for i in np.flatnonzero(named).tolist()])


def _voted(private: Private, attribute: Attribute, cost: ZCDP, delta: float) -> Attribute:
    """Of persons, each of whom divides one vote."""
    sums, persons = private.votes(attribute.name), _persons_moved(private.unit)
    named, noisy = gaussian_selection.select(sums, cost.rho, delta, private.entropy, persons)
    texts = private.texts(attribute.name)
    return _with(attribute, [(int(noisy[i]), texts[i]) for i in np.flatnonzero(named).tolist()])


def _with(attribute: Attribute, named: list[tuple[int, str]]) -> Attribute:
    """With the categories that may be named, of which those with the most are kept where there are too many."""
    found = sorted((-many, text) for many, text in named)
    kept = sorted(text for _, text in found[: attribute.learn] if text != OTHER)
    return replace(attribute, learn=0, categories=(*kept, OTHER), outside=OTHER)
