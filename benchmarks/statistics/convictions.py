"""What is shown exactly: smooth sensitivity by brute force, and published mistakes that an audit convicts."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np

from benchmarks.statistics.setting import Row, Setting
from qrelease.evaluation.audit import Audit, Distribution, audit_gaussian, compare, laplace_distribution
from qrelease.privacy.costs import ApproxDP, Cost, Neighbours, PureDP
from qrelease.statistics.grid import Numbers
from qrelease.statistics.local_sensitivity import LocallyStable, Median, TrimmedMean, WinsorisedMean
from qrelease.statistics.propose_test_release import threshold
from qrelease.statistics.smooth_sensitivity import Smoothing

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
CELLS, MOST = 4, 8
SMOOTHINGS = (Smoothing.of(PureDP(2.5)), Smoothing.of(ApproxDP(25.0, 1e-2)))
"""β is 1.2, so that tables seven changes away and more, not all of which are listed, count for less than c."""


def brute_force(setting: Setting) -> Iterator[Row]:
    """S' of every table of at most eight records on a grid of four values, beside the maximum of e^(-βd) LS(y) over all
    tables y at distance d: how many tables, under two costs each, and the largest relative difference, to be at most
    the 2^-40 that S' is rounded up by."""
    most = 6 if setting.quick else MOST
    functions: tuple[tuple[LocallyStable, Neighbours], ...] = (
        *((Median(), ADD), (Median(), REPLACE), (TrimmedMean(0.25), REPLACE)),
        *((WinsorisedMean(0.2), REPLACE), (WinsorisedMean(0.25), REPLACE)),
    )
    for function, neighbours in functions:
        worst, tables = 0.0, 0
        for group in _groups(most, neighbours):
            tables += sum(1 for t in group if len(t) <= most)
            worst = max(worst, _largest_difference(function, neighbours, group, most))
        row: Row = {"function": function.name, "neighbours": neighbours.value, "tables": tables}
        yield row | {"largest difference": worst, "equal": worst <= 2.0**-40}


def _groups(most: int, neighbours: Neighbours) -> list[list[tuple[int, ...]]]:
    """Tables that can be reached from each other: of one size where records are replaced."""
    far = most if neighbours is REPLACE else most + 7
    sizes = [list(combinations_with_replacement(range(CELLS), n)) for n in range(far + 1)]
    return sizes[1:] if neighbours is REPLACE else [[t for size in sizes for t in size]]


def _largest_difference(function: LocallyStable, neighbours: Neighbours, group: Any, most: int) -> float:
    counts = np.array([np.bincount(np.array(t, np.int64), minlength=CELLS) for t in group])
    values = np.array([function.value(Numbers.listed(list(t), CELLS), neighbours) for t in group])
    sizes = counts.sum(axis=1)

    def apart(place: int) -> Any:
        return np.abs(counts - counts[place]).sum(axis=1) // (2 if neighbours is REPLACE else 1)

    local = np.array([np.abs(values - v)[apart(at) == 1].max(initial=0) for at, v in enumerate(values)])
    if neighbours is ADD:
        local[sizes == sizes.max()] = 0  # not all neighbours of these are listed
    worst = 0.0
    for smoothing in SMOOTHINGS:
        beta = smoothing.beta * (1 - 2.0**-20)
        for place in np.flatnonzero(sizes <= most).tolist():
            found = Numbers.listed(list(group[place]), CELLS)
            widest = (CELLS - 1) * function.units(len(group[place])) + 1
            ours = smoothing.smooth(function.sensitivities(found, smoothing.distances(widest), neighbours))
            exact = max(float((np.exp(-beta * apart(place)) * local).max()), smoothing.least)
            worst = max(worst, abs(ours / exact - 1))
    return worst


def convictions(setting: Setting) -> Iterator[Row]:
    """Published rules beside ours, at what the rule claims: an ε that is proved against each by its exact output
    distributions on two neighbours, and whether that convicts it."""
    cost = ApproxDP(4.0, 1e-3)
    notes = math.ceil(math.log(2 / cost.delta) / (2 * 2.0))
    yield _row("the notes' threshold of propose-test-release", cost, _tested(notes, cost), _tested(None, cost))
    yield _row("blocks by position", PureDP(1.0), _blocks(4, by_chance=False), _blocks(3, by_chance=True))
    small = ApproxDP(1.0, 1e-6)
    printed = math.sqrt(math.log(1 / small.delta)) / small.epsilon
    classic = math.sqrt(2 * math.log(1.25 / small.delta)) / small.epsilon
    yield _row("noise of a truncated mean", small, *(audit_gaussian(1.0, s, small) for s in (printed, classic)))
    steps = 10
    alone, together = (audit_gaussian(math.sqrt(steps), s, small) for s in (classic, classic * math.sqrt(steps)))
    yield _row("epsilon for each of ten steps", small, alone, together)


def _row(name: str, cost: Cost, printed: Audit, ours: Audit) -> Row:
    found = {"mistake": name, "claimed": str(cost), "printed": printed.bound, "convicted": printed.convicted}
    return found | {"ours": ours.bound, "ours convicted": ours.convicted}


def _tested(needed: int | None, cost: ApproxDP) -> Audit:
    """Propose-test-release of a median with bound 1, where one record moves it by 3, so that the distance is 0."""
    half = cost.epsilon / 2
    least = threshold(half, cost.delta) if needed is None else needed
    passes = laplace_distribution(1 / half, missing=1e-9).map(lambda z: z >= least)
    laws = []
    for values in ([0, 0, 3, 3], [0, 3, 3]):
        exact = Median().value(Numbers.listed(values, CELLS), ADD)
        drawn = laplace_distribution(1 / half, missing=1e-9)
        masses: dict[int | None, float] = {exact + z: p * passes.masses[True] for z, p in drawn.masses.items()}
        masses[None] = passes.masses[False]
        laws.append(Distribution(masses, 3e-9))
    return compare(laws[0], laws[1], cost)


def _blocks(blocks: int, *, by_chance: bool) -> Audit:
    """The sum of the largest value of each block, and a half of an empty one, with noise for one answer that moves."""
    laws = []
    for values in ([1, 0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0]):
        n = len(values)
        places: Sequence[Sequence[int]] = (
            list(product(range(blocks), repeat=n)) if by_chance else [[i // 2 for i in range(n)]]
        )
        masses: dict[int, float] = {}
        noise = laplace_distribution(2.0, missing=1e-12).masses
        for of in places:
            held = [[v for v, b in zip(values, of, strict=True) if b == block] for block in range(blocks)]
            total = sum(2 * max(h) if h else 1 for h in held)
            for z, mass in noise.items():
                masses[total + z] = masses.get(total + z, 0.0) + mass / len(places)
        laws.append(Distribution(masses, 1e-12))
    return compare(laws[0], laws[1], PureDP(1.0))
