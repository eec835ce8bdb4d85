"""The exponential mechanism over all small databases, drawn exactly by branch and bound.

With the errors e(y) of `databases`, P(y) = e^(-γ e(y)) / Z over all N databases y, which are far too many to list.

**One try.** Cut the tree of databases anywhere: each of them lies in exactly one node of the *frontier*. Let ē(v) be at
most the error of every database in v. Draw a node v with probability ∝ |v| e^(-γ ē(v)), then y uniformly in v, and
accept it with probability e^(-γ (e(y) - ē(v))).

**This is exact.** With F = Σ_v |v| e^(-γ ē(v)), a try returns y with probability

    |v| e^(-γ ē(v)) / F · 1/|v| · e^(-γ (e(y) - ē(v)))  =  e^(-γ e(y)) / F,

for each y, whatever the frontier. Given that a try succeeds, y has the law P, and it is independent of how many tries
failed and of what they drew. So the frontier may be cut anew between tries, by any rule that looks at the data and at
earlier tries: the cut decides how long it takes, never what comes out. The draws are exact as well: of integers, and of
comparisons of a uniform, of as many bits as it takes, with enclosures of e^-x (`exact_reals`).

**The cut.** A node is cut where its mass |v| e^(-γ e(v)) is below a tolerance; that is lowered until a try succeeds.
This is A* sampling (Maddison, Tarlow & Minka 2014) with a frontier for its queue, and rejections, as in OS* (Dymetman,
Bouchard & Carter 2012), for its Gumbel noise, which floating point cannot draw exactly.

**What is seen from outside.** The law of y is that of the exponential mechanism. The time it takes, the nodes visited
and the tries are functions of the private targets, as the time of every search is. So the search never gives up: a
refusal would be an output, and the ratio of its probabilities on neighbours would not be bounded by e^ε. What cannot be
searched is refused before any private number is looked at, by its size (`databases.check_range`) or after a search
on made-up targets (`ends_soon`). Memory is bounded by public numbers: a frontier that would outgrow them is not cut
finer, and tries go on with the last one. Time is a side channel that is left open; where it matters, use a size whose
range is listed (`mechanisms.smalldb`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Ints
from qrelease.mechanisms.small_db.databases import Bounds, Cut, Databases
from qrelease.noise import exact_cdfs
from qrelease.noise.entropy import Entropy, WordSource
from qrelease.noise.exact_reals import GUARD, Enclosure, exp_negative, invert, uniform_below
from qrelease.noise.kernels import accept, rate

MAX_WORK: Final = 1 << 29
"""Answers to queries that a simulated search may take: about half a second."""


@final
@dataclass(frozen=True)
class SearchSettings:
    """How fine the frontiers of a search are, and how often it tries on each: they decide how long it takes."""

    max_nodes: int = 1 << 22
    """Nodes of a frontier, at about 50 bytes each; and tries in a batch."""

    first_nodes: int = 1 << 13
    """Nodes of the first frontier: more than `databases.MAX_RECORDS`, so that it fits."""

    growth: int = 16
    """The next frontier may have so many times the nodes of the last one."""

    least_growth: int = 4
    """Where a frontier grew by less than this, the tolerance is lowered faster."""

    least_step: float = 0.25
    """The step of the tolerance, in nats, at which a frontier may grow by more than `growth`."""

    first_tries: int = 1024
    """Tries in the first batch, and in each later one at least."""

    nodes_per_try: int = 32
    """What a try takes, about, in visits of nodes."""

    node_work: int = 40
    """What a visit of a node takes besides the answers to its queries, in answers."""

    max_rate: float = 2.0**60
    """A rate γ that tells every two errors apart; a larger one might overflow where nodes are cut."""

    steps_per_nat: int = 32
    """Steps of the grid of ē in one nat: rounding down to the grid loses a factor of at most e^(1/32)."""

    max_steps: int = 4096
    """Steps of that grid; errors that are further off share the last one."""

    max_grid: int = 1 << 62
    """The widest step of that grid, an error."""


SEARCH: Final = SearchSettings()
"""The settings of all searches."""

_LAST_WORD: Final = np.uint64(2**64 - 1)  # the one word that could be told apart from 2^64 - 1 only as 2^64 were a word


class Drawn(NamedTuple):
    """The database drawn, and, private still, the nodes visited and the tries made to find it."""

    number: int
    visited: int
    tries: int


def draw_database(databases: Databases, bounds: Bounds, gamma: Fraction, entropy: WordSource) -> Drawn:
    """The number of a database y, with P(y) ∝ e^(-γ e(y)) exactly, γ > 0.

    Ends with probability one; how soon depends on the data, see the module's text.
    """
    for drawn in _rounds(databases, bounds, gamma, entropy):
        if drawn.number >= 0:
            break
    return drawn


def ends_soon(databases: Databases, bounds: Bounds, gamma: Fraction, work: int) -> bool:
    """Whether a search ends in the round that takes it beyond so much work, as `MAX_WORK`, or before.

    A simulated search on *public* targets, on a seeded stream: what ends with less work ends with more.
    """
    for drawn in _rounds(databases, bounds, gamma, Entropy.insecure(0)):
        done = (drawn.visited + SEARCH.nodes_per_try * drawn.tries) * (len(databases.queries) + SEARCH.node_work)
        if drawn.number >= 0 or done > work:
            break
    return drawn.number >= 0


def _rounds(databases: Databases, bounds: Bounds, gamma: Fraction, entropy: WordSource) -> Iterator[Drawn]:
    """Batches of tries, each on a finer frontier; the number is that of the first try accepted in the batch, or -1."""
    search = _Search(databases, bounds, min(float(gamma), SEARCH.max_rate))
    frontier = _Frontier(search.cut, gamma)
    tries, batch, finer = 0, SEARCH.first_tries, True
    while True:
        numbers, floors = frontier.propose(batch, entropy)
        tries += batch
        accepted = np.flatnonzero(_coins(databases.errors(bounds, numbers) - floors, gamma, entropy))
        yield Drawn(int(numbers[accepted[0]]) if accepted.size else -1, search.visited, tries)
        finer = finer and search.refine()
        if finer:
            frontier = _Frontier(search.cut, gamma)
            batch = max(SEARCH.first_tries, search.cut.visited // SEARCH.nodes_per_try)
        else:  # it is as fine as memory allows: all that is left is to try more often
            batch = min(2 * batch, SEARCH.max_nodes)


class _Search:
    """Ever finer frontiers, each costing a few times what the one before it did."""

    def __init__(self, databases: Databases, bounds: Bounds, gamma: float) -> None:
        self._databases, self._bounds, self._gamma = databases, bounds, gamma
        self._tolerance, self._step, self._room = math.log(len(databases)), 1.0, SEARCH.first_nodes
        self.visited = 0
        self.cut = self._at(math.inf)

    def _at(self, tolerance: float) -> Cut:
        found = self._databases.cut(self._bounds, self._gamma, tolerance, self._room)
        self.visited += found.visited
        return found

    def refine(self) -> bool:
        """Lower the tolerance by a step that lets the frontier grow some; False if it cannot."""
        while True:
            found = self._at(self._tolerance - self._step)
            if found.complete:
                break
            if self._step > SEARCH.least_step:
                self._step /= 2
            elif self._room < SEARCH.max_nodes:
                self._room = min(SEARCH.growth * self._room, SEARCH.max_nodes)
            else:
                return False
        self._tolerance -= self._step
        if found.counts.size < SEARCH.least_growth * self.cut.counts.size:
            self._step *= 2
        self._room = min(max(self._room, SEARCH.growth * found.counts.size), SEARCH.max_nodes)
        self.cut = found
        return True


class _Frontier:
    """A frontier to draw from: its nodes sorted by ē, their bounds rounded down to a grid."""

    def __init__(self, cut: Cut, gamma: Fraction) -> None:
        least = int(cut.errors.min())
        grid = min(max(math.floor(1 / (gamma * SEARCH.steps_per_nat)), 1), SEARCH.max_grid)
        steps = np.minimum((cut.errors - least) // grid, SEARCH.max_steps - 1).astype(np.int16)
        self._order = np.argsort(steps, kind="stable")
        self._ends = np.cumsum(cut.counts[self._order])
        self._begins = np.cumsum(cut.counts) - cut.counts  # the number of each node's first database
        self._counts = cut.counts
        last = np.flatnonzero(
            np.diff(steps[self._order], append=SEARCH.max_steps)
        )  # of each step, its last node in the order
        self._steps = steps[self._order[last]].astype(np.int64)
        self._bounds = np.concatenate([[0], self._ends[last]])  # databases up to each step
        self._floors = least + self._steps * grid
        self._law = NodeLaw(tuple(self._steps.tolist()), tuple(np.diff(self._bounds).tolist()), gamma * grid)

    def propose(self, tries: int, entropy: WordSource) -> tuple[Ints, Ints]:
        """The numbers of so many databases, and ē of the nodes that hold them, (tries,): the try up to its coin."""
        which = self._law.draw(tries, entropy)
        places = self._bounds[which] + uniform_integers(np.diff(self._bounds)[which], entropy)
        at = np.searchsorted(self._ends, places, side="right")
        node = self._order[at]
        return self._begins[node] + places - (self._ends[at] - self._counts[node]), self._floors[which]


@final
@dataclass(frozen=True)
class NodeLaw:
    """P(i) ∝ counts[i] · e^(-γ steps[i]), steps ascending."""

    steps: tuple[int, ...]
    counts: tuple[int, ...]
    gamma: Fraction

    def thresholds(self, bits: int) -> tuple[Enclosure, ...]:
        """A law as `exact_reals` has it: enclosures of P(value <= i) for all i but the last, on the scale 2^bits."""
        scale = bits + 2 * GUARD + sum(self.counts).bit_length()
        factor = exp_negative(self.gamma, scale)
        low = high = 1 << scale  # e^(-γ (step - first step)): a common factor cancels
        step = self.steps[0]
        terms = []
        for upper, count in zip(self.steps, self.counts, strict=True):
            for _ in range(upper - step):
                low, high = low * factor[0] >> scale, (high * factor[1] >> scale) + 1
            step = upper
            terms.append((low * count, high * count))
        lows, highs = (list(accumulate(t[i] for t in terms)) for i in range(2))
        return tuple(
            ((low << bits) // highs[-1], min(-(-(high << bits) // lows[-1]), 1 << bits))
            for low, high in zip(lows[:-1], highs[:-1], strict=True)
        )

    @cached_property
    def _words(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """The thresholds on the scale 2^64, lowered and raised, as words."""
        found = self.thresholds(64)
        lows, highs = (np.array([min(t[i], int(_LAST_WORD)) for t in found], np.uint64) for i in range(2))
        return lows, highs

    def draw(self, size: int, entropy: WordSource) -> npt.NDArray[np.intp]:
        """Draw so many independent values, (size,)."""
        words = entropy.words(size)
        lows, highs = self._words
        sure, possible = (np.searchsorted(t, words, side="right") for t in (highs, lows))
        for i in np.flatnonzero((sure != possible) | (words == _LAST_WORD)):
            sure[i] = invert(self.thresholds, int(words[i]), 64, entropy)
        return sure


def uniform_integers(sizes: Ints, entropy: WordSource) -> Ints:
    """Uniform integers from 0 to below each of the sizes, (n,): floor(U size), as `exact_reals.uniform_below`."""
    words, n = entropy.words(sizes.size), sizes.astype(np.uint64)
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    w0, w1, n0, n1 = words & low, words >> half, n & low, n >> half
    middle = w1 * n0 + (w0 * n0 >> half)
    found: npt.NDArray[np.uint64] = w1 * n1 + (middle >> half) + (w0 * n1 + (middle & low) >> half)
    for i in np.flatnonzero(words * n > -n):  # later bits of U may carry into the integer part
        found[i] = uniform_below(int(sizes[i]), int(words[i]), entropy)
    placed: Ints = found.astype(np.int64)
    return placed


def _coins(excess: Ints, gamma: Fraction, entropy: WordSource) -> npt.NDArray[np.bool_]:
    """True with probability e^(-γ excess), (r,), each."""
    words = entropy.words(excess.size)
    heads = accept(-excess, 0, rate(gamma), words)
    for i in np.flatnonzero(heads == 2):
        heads[i] = invert(partial(exact_cdfs.coin, gamma * int(excess[i])), int(words[i]) >> 1, 63, entropy) == 0
    taken: npt.NDArray[np.bool_] = heads == 1
    return taken
