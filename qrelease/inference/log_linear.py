"""Fits a log-linear model to noisy marginals over a universe of any size, by raking records that Gibbs moves draw.

The model is p_θ ∝ e^(Σ_S θ_S), one table θ_S for each measured set S of columns. Let t be the best unbiased estimate of
the marginal on S, s the variance of its residual, and e what independent columns would have in a cell. Interactions are
taken to be normal with variance ω, so that (see `maxent`) the fit is where, for each cell,

    N p_θ + q θ_S = t,    q = s / (1 + ω e).                                                                       (1)

For one set this is solved cell by cell, with the other sets as they are: iterative proportional fitting (Deming &
Stephan 1940) with a ridge, `record_kernels.rake`, exact block coordinate descent on a convex function. Records that
were drawn from the model stand for it: a change of θ multiplies their weights, and once these are uneven the records
are drawn anew and moved (`gibbs`). While records move, each round follows their scatter as well. So the steps become
shorter from pass to pass, as in stochastic approximation (Robbins & Monro 1951; Younes 1989), and the ridge counts the
scatter of so many records as noise. The last records are more, stay, and are raked to the end.

**How strong interactions are** differs from pair to pair by orders of magnitude, and is seen in the measurements: ω of
each set is estimated from t - e by moments (`record_kernels.strength`). With one ω for all pairs, the fit keeps strong
pairs off what was measured of them, and follows the noise of the weak ones.

**Empty cells.** Where one column determines another, most cells of their marginal are empty. A measured cell is taken
to be so with the probability that a mixture says, over all cells of the marginal, of "empty" and "about what
independent columns would have, up to ω". One that is more likely so than not has t = 0. On Adult at (1, 1e-9) this
brings the L1 distance of the measured `education` × `education-num` from .073 to .013.

**Smooth interactions.** With an age, or hours of work, interactions change little from a cell to the next. Where the
measurements say so (`smooth_interactions`), those of a pair have a smooth part besides, of which the ridge holds
nothing back. It is told anew from the fit as the records move.

**Loud columns.** Where the noise of a column by itself is about as loud as its counts, t and s are the mean and the
variance of what its measurement makes likely (`single_columns`).

**Signs.** It may be measured how many more records there are of which two columns agree in a sign than of which not
(`signs`). Where the pair is not measured, that is, with what the columns say by themselves, a marginal of two by two
cells, on which (1) holds too. Where it is, t becomes the best estimate from both. And as signs are known much better
than cells, the interactions of the pair are taken to be normal around what its signs tell: e is then what columns would
have that are independent but for their signs, and what (1) holds back is θ less the logarithm of what e grew by.
How many cells are empty is told with e of independent columns: signs leave hardly a record to some quarters of a
marginal, and an empty cell there looks like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, combinations
from math import prod
from typing import Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util.parallel import one_thread
from qrelease._util.progress import progress
from qrelease._util.typing import Axes, Floats, Ints, Mask
from qrelease.data.marginals import record_kernels
from qrelease.inference import signs as sign_pairs
from qrelease.inference.gibbs import Chains, GibbsSampler, independent
from qrelease.inference.interaction_prior import prior_variance
from qrelease.inference.measurement import Measurement
from qrelease.inference.mixing import Mixing
from qrelease.inference.residuals import Estimates
from qrelease.inference.single_columns import singles, with_likely_columns
from qrelease.inference.smooth_interactions import smooth_pairs


@dataclass(frozen=True)
class FitSettings:
    """How long is raked, how far a step goes, and which columns are drawn together."""

    first_passes: int = 3
    """Passes over all sets, of full steps, before the steps become shorter."""
    decay_passes: float = 3.0
    """Further passes after which the steps are half as long."""
    least_evenness: float = 0.4
    """The effective number of records, over their number, at which they are drawn anew in the middle of a pass."""
    fresh_evenness: float = 0.9
    """The same at the end of a pass: above it the records keep their weights."""
    trust: float = 2.0
    """Records in a cell of which half a step is made while records move: a cell of fewer says little."""
    least_share: float = 0.05
    """Of what independent columns have in a cell: what smooth interactions take it to have at least."""
    longest_step: float = 2.0
    """The most that one step changes an interaction."""
    least_interaction: float = -200.0
    """What e^θ of an empty cell may go down to: below, records never come."""
    unseen_records: float = 0.5
    """Records that a cell without any is taken to hold, so that its interaction can grow at all."""
    empty_ridge: float = 0.02
    """The ridge of cells that are taken to be empty, counts: with `least_interaction` it leaves .3 records in each."""
    single_variance: float = 4.0
    """Of the interactions of a column by itself."""
    emptied_rounds: int = 30
    """Rounds in which the other cells of a marginal take what the empty ones lack."""
    linked_pairs: int = 12
    """Pairs of columns that are drawn together, the most dependent ones."""
    linked_cells: int = 1 << 12
    """Cells at most of such a pair."""
    least_dependence: float = 0.05
    """χ² over n and the smaller number of cells less one, below which a pair is not drawn together."""
    settling_sweeps: int = 2
    """Sweeps of the records before they grow into more."""
    last_passes: int = 25
    """Passes at most on the last records."""
    last_change: float = 1e-3
    """The root mean squared change of the last records' logarithmic weights in a pass, at which passes end."""
    mixed_passes: int = 6
    """Passes whose ends are mixed."""
    mixed_records: int = 1 << 16
    """Records at most that tell how they are."""


SETTINGS: Final = FitSettings()

_LEAST_WEIGHT: Final = 1e-300  # below it a logarithm says nothing


@dataclass(frozen=True, eq=False)
class LogLinear:
    """What a fit ended with.

    chains        the records
    interactions  θ of each set of columns, (cells,), in C order
    signs         θ of pairs of signs that have a set of their own, (4,): both positive, the second negative, the first,
                  both
    total         the number of records in all that they stand for
    rounds        sweeps of the records in all, before the last ones
    """

    chains: Chains
    interactions: Mapping[Axes, Floats]
    signs: Mapping[Axes, Floats]
    total: float
    rounds: int


@final
class FitProblem:
    """The measured marginals and signs side by side, as `record_kernels.rake` takes them.

    sets    of columns, of the marginals and then of the signs
    linked  pairs that are drawn together
    """

    def __init__(
        self,
        estimates: Estimates,
        signs: Sequence[Measurement] = (),
        impossible: Mapping[Axes, Mask] | None = None,
        before: LogLinear | None = None,
    ) -> None:
        shape = estimates.domain.shape
        self.shape, self.impossible = shape, impossible or {}
        self.total = max(float(estimates.residuals[()].values), 1.0)
        self.singles = singles(estimates)
        estimates = with_likely_columns(estimates)
        self.marginals = sorted((s for s in estimates.residuals if s), key=lambda s: (len(s), s))
        # Signs that had a set of their own keep it, also where their pair is measured later.
        apart = before.signs if before is not None else {m.group.axes for m in signs} - set(estimates.residuals)
        within = {m.group.axes: m for m in signs if m.group.axes not in apart}
        signs = [m for m in signs if m.group.axes in apart]
        self.sets = [*self.marginals, *(m.group.axes for m in signs)]
        sizes = [prod(shape[a] for a in s) for s in self.marginals] + [4] * len(signs)
        self.begins = np.array([*accumulate(sizes, initial=0)], np.int64)
        cells = self.begins[-1]
        self.target, self._expected, self._noise, self._omega, self._zero, self._told = np.zeros((6, cells))
        self._dependence: dict[Axes, float] = {}
        self._classes = [sign_pairs.classes(m) for m in signs]
        for j, (m, classes) in enumerate(zip(signs, self._classes, strict=True), start=len(self.marginals)):
            self._observe_sign(estimates, m, classes, self.place(j))
        if signs:  # one variance for all of them: each is a single number
            place = slice(int(self.begins[len(self.marginals)]), int(cells))
            noise = float(self._noise[place].mean())
            self._omega[place] = sign_pairs.strength(self.target[place], self._expected[place], noise)
        told = {m.group.axes: self._told_apart(j) for j, m in enumerate(signs)}
        residuals: dict[Axes, Floats] = {}
        for j, s in enumerate(self.marginals):
            residual = self._observe_marginal(estimates, s, self.place(j), within.get(s), told.get(s))
            if len(s) == 2:
                residuals[s] = residual
        variances = {s: float(self._noise[self.place(j)][0]) for j, s in enumerate(self.marginals)}
        self._smooth = smooth_pairs(residuals, variances, self.singles, self.total)
        self._told_by_signs = self._told.copy()
        for j, s in enumerate(self.marginals):
            if s in self._smooth:
                self._omega[self.place(j)] = self._smooth[s].rough
        self._layout = self._laid_out()
        self.linked = self._linked()

    def place(self, number: int) -> slice:
        """The slice of the flat vectors that a set's cells are in, by its number in `sets`."""
        return slice(int(self.begins[number]), int(self.begins[number + 1]))

    def _told_apart(self, number: int) -> Floats:
        """What signs with a set of their own tell of cells (cells,): their records over those expected without them."""
        place = self.place(len(self.marginals) + number)
        records, expected, noise, omega = (v[place] for v in (self.target, self._expected, self._noise, self._omega))
        return sign_pairs.ratios(records, expected, float(noise[0]), float(omega[0]))[self._classes[number]]

    def _observe_marginal(
        self, estimates: Estimates, s: Axes, place: slice, signs: Measurement | None, told: Floats | None
    ) -> Floats:
        """Take in a marginal; signs that go with it, or what those tell (cells,) that have a set of their own.

        Returns what was measured beyond what is expected, signs included, (n_i for i in axes) counts.
        """
        table, _ = estimates.marginal(s)
        noise, sign_noise = max(estimates.residuals[s].variance, 1e-9), 0.0
        if signs is not None:
            table, sign_noise = sign_pairs.with_signs(table, noise, signs)
        expected = self.total * reduce(np.multiply.outer, [self.singles[a] for a in s]).reshape(-1)
        self.target[place], self._noise[place] = table.reshape(-1), noise
        omega = prior_variance(len(s)) if len(s) > 1 else SETTINGS.single_variance
        values = expected
        if len(s) > 1:
            values = expected + _beyond_singles(table, [self.singles[a] for a in s]).reshape(-1)
            if len(s) == 2:
                excess = (table.reshape(-1) - expected) ** 2 - noise
                degrees = min(table.shape) - 1
                self._dependence[s] = float((excess / (expected + np.sqrt(noise))).sum()) / self.total / degrees
            if signs is not None:
                told = sign_pairs.told(values, expected, sign_noise, signs)
                self._told[place] = np.log(told)
            prior, zero, is_pair = omega, self._zero[place], len(s) == 2
            omega, empty = record_kernels.strength(values, expected, noise, prior, is_pair, zero, -1.0)
            if told is not None:
                expected = expected * told
                omega, _ = record_kernels.strength(values, expected, noise, prior, is_pair, zero, empty)
        self._expected[place] = expected
        self._omega[place] = omega
        for axes, mask in self.impossible.items():
            if set(axes) <= set(s):
                ruled = mask.reshape([self.shape[a] if a in axes else 1 for a in s])
                self._zero[place] = np.maximum(self._zero[place], np.broadcast_to(ruled, table.shape).reshape(-1))
        self.target[place] = _emptied(table, self._zero[place].reshape(table.shape) > 0.5).reshape(-1)
        return np.asarray(values - expected).reshape(table.shape)

    def _observe_sign(self, estimates: Estimates, measured: Measurement, classes: Ints, place: slice) -> None:
        """Take in a pair of signs as a marginal of two columns of two cells.

        What it says of each column comes from the columns' own marginals.
        """
        columns = measured.group.axes
        chances = reduce(np.multiply.outer, [self.singles[a] for a in columns]).reshape(-1)
        own = [estimates.marginal((a,))[0] for a in columns]
        one, other = (np.add.outer(own[0], np.zeros(len(own[1]))), np.add.outer(np.zeros(len(own[0])), own[1]))
        first = np.bincount(classes // 2, one.reshape(-1), 2) / len(own[1])
        second = np.bincount(classes % 2, other.reshape(-1), 2) / len(own[0])
        signs = np.array([1.0, -1.0])
        agreeing = np.multiply.outer(signs, signs) * (measured.values[0] - 0.0)
        linear = np.add.outer(signs * (first @ signs), signs * (second @ signs))
        self.target[place] = ((self.total + linear + agreeing) / 4).reshape(-1)
        self._expected[place] = self.total * np.bincount(classes, chances, 4)
        self._noise[place] = max(measured.variance / 4, 1e-9)

    def _laid_out(self) -> tuple[npt.NDArray[np.int64], ...]:
        """axes, steps, firsts, begins, sizes, mains, classes, class_begins, as the kernel has them."""
        steps = [prod(self.shape[b] for b in s[i + 1 :]) for s in self.sets for i in range(len(s))]
        sizes = [len(part) for part in self._classes]
        columns = {s: int(self.begins[j]) for j, s in enumerate(self.marginals) if len(s) == 1}
        class_begins = [-1] * len(self.marginals) + [*accumulate(sizes, initial=0)][: len(sizes)]
        numbers = (
            [a for s in self.sets for a in s],
            steps,
            [*accumulate(map(len, self.sets), initial=0)],
            self.begins,
            [self.shape[a] for s in self.sets for a in s],
            [columns.get((a,), -1) for s in self.sets for a in s],
            np.concatenate([np.zeros(1, np.int64), *self._classes])[1:] if self._classes else [0],
            class_begins,
        )
        return tuple(np.array(part, np.int64) for part in numbers)

    def _linked(self) -> list[Axes]:
        """The most dependent pairs, and those that a rule links."""
        ruled = {pair for s in self.impossible for pair in combinations(s, 2)}
        strong = sorted((s for s, d in self._dependence.items() if d > SETTINGS.least_dependence), key=self._weakness)
        small = [s for s in strong if self._cells(s) <= SETTINGS.linked_cells][: SETTINGS.linked_pairs]
        return small + sorted(s for s in ruled - set(small) if self._cells(s) <= SETTINGS.linked_cells)

    def _weakness(self, pair: Axes) -> float:
        return -self._dependence[pair]

    def _cells(self, pair: Axes) -> int:
        return prod(self.shape[a] for a in pair)

    def ridge(self, scatter: float = 0.0) -> Floats:
        """q of each cell; with scatter, a fraction of what independent columns have in it, as noise besides."""
        found: Floats = (self._noise + scatter * self._expected) / (1 + self._omega * self._expected)
        found[self._zero > 0.5] = SETTINGS.empty_ridge
        return found

    def start(self, before: LogLinear | None) -> Floats:
        """θ of independent columns, or of an earlier fit where it had the same sets."""
        theta = np.zeros(self.begins[-1])
        for j, s in enumerate(self.marginals):
            if before is not None and s in before.interactions:
                theta[self.place(j)] = before.interactions[s]
            elif before is None and len(s) == 1:
                theta[self.place(j)] = np.log(self.singles[s[0]])
        if before is not None:
            for j, s in enumerate(self.sets[len(self.marginals) :], start=len(self.marginals)):
                theta[self.place(j)] = before.signs[s]
        return theta

    def result(self, chains: Chains, theta: Floats, rounds: int) -> LogLinear:
        """What ended with these records and interactions."""
        tables = {s: theta[self.place(j)] for j, s in enumerate(self.marginals)}
        signs = {s: theta[self.place(j)].copy() for j, s in enumerate(self.sets) if j >= len(self.marginals)}
        return LogLinear(chains, tables, signs, self.total, rounds)

    def sampler(self, theta: Floats) -> GibbsSampler:
        """The sampler of the model at θ."""
        tables = [(s, theta[self.place(j)]) for j, s in enumerate(self.marginals)]
        for j, classes in enumerate(self._classes, start=len(self.marginals)):
            tables.append((self.sets[j], theta[self.place(j)][classes]))
        return GibbsSampler(self.shape, tables, self.impossible, self.linked)

    def rake(
        self,
        chains: Chains,
        theta: Floats,
        order: Ints,
        unseen: Floats,
        ridge: Floats,
        *,
        gain: float = 1.0,
        trust: float = 0.0,
        evenness: float = 0.0,
    ) -> int:
        """Fit the weights and θ, in place, to the sets of these numbers; how many were, before weights got uneven."""
        axes, steps, firsts, begins, sizes, mains, classes, class_begins = self._layout
        beyond = theta - self._told  # what the ridge holds back
        fitted = int(
            record_kernels.rake(
                chains.codes,
                chains.weights,
                self.total,
                axes,
                steps,
                firsts,
                begins,
                sizes,
                mains,
                classes,
                class_begins,
                self.target,
                ridge,
                beyond,
                unseen,
                order,
                gain,
                trust,
                SETTINGS.longest_step,
                SETTINGS.least_interaction,
                evenness,
            )
        )
        theta[:] = beyond + self._told
        return fitted

    @one_thread()
    def smooth(self, chains: Chains, theta: Floats, *, scatter: float = 0.0, gain: float = 1.0) -> None:
        """Bring what is told of smooth interactions, which the ridge does not hold back, to what the fit says of them.

        scatter  as for `ridge`
        gain     how much of the way
        """
        for s, pair in self._smooth.items():
            place = self.place(self.marginals.index(s))
            shape = [self.shape[a] for a in s]
            codes = np.ravel_multi_index([chains.codes[a] for a in s], shape)
            marginal = self.total * np.bincount(codes, chains.weights, self._cells(s)) / chains.weights.sum()
            expected, apart = self._expected[place], self._told_by_signs[place]
            numbers = (
                self.target[place],
                expected,
                np.maximum(marginal, SETTINGS.unseen_records + SETTINGS.least_share * expected),
                self._noise[place] + scatter * expected,
                theta[place] - apart,
                self._zero[place] <= 0.5,
            )
            told = pair.told(*(v.reshape(shape) for v in numbers)).reshape(-1)
            self._told[place] += gain * np.where(numbers[-1], apart + told - self._told[place], 0.0)

    def unseen(self, weighted_records: int) -> Floats:
        """What cells without any of so many records are taken to hold, (cells,) counts."""
        return np.full(len(self.target), SETTINGS.unseen_records * self.total / weighted_records)


def _emptied(table: Floats, empty: Mask) -> Floats:
    """The nearest table with the same sums over each column's cells that is zero where it is said to be empty.

    Without the same sums no model could have what is wanted of this marginal and of those that it contains. Where a
    column's cell has only empty cells it gives them up.
    """
    if not empty.any():
        return table
    sums, kept = [table.sum(axis=_others(table, axis), keepdims=True) for axis in range(table.ndim)], ~empty
    found = np.where(empty, 0.0, table)
    counts = [np.maximum(kept.sum(axis=_others(table, axis), keepdims=True), 1) for axis in range(table.ndim)]
    for _ in range(SETTINGS.emptied_rounds):
        for axis, (wanted, number) in enumerate(zip(sums, counts, strict=True)):
            lacking = wanted - found.sum(axis=_others(table, axis), keepdims=True)
            found = np.where(empty, 0.0, found + lacking / number)
    return found


def _others(table: Floats, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(table.ndim) if other != axis)


def _beyond_singles(table: Floats, columns: Sequence[Floats]) -> Floats:
    """What a marginal has beyond what its columns less one say of it, were they nearly independent."""
    for axis, p in enumerate(columns):
        table = table - table.sum(axis=axis, keepdims=True) * p.reshape(
            [-1 if i == axis else 1 for i in range(table.ndim)]
        )
    return table


def fit_records(
    estimates: Estimates,
    weighted_records: int,
    *,
    rounds: int,
    rng: np.random.Generator,
    signs: Sequence[Measurement] = (),
    impossible: Mapping[Axes, Mask] | None = None,
    start: LogLinear | None = None,
) -> LogLinear:
    """Fit so many moving weighted records to measured residuals, in so many sweeps of them.

    estimates  of residuals of sets of columns, among them of all columns that have signs
    signs      measurements of one query each, with entries of ±1, on marginals of two columns
    impossible cells (cells,) of marginals, by their columns, that no record is in: a public rule
    start      where to go on from: what was fitted to some of them, the first signs

    Raises `InvalidInput` where no record is found that is possible.
    """
    problem = FitProblem(estimates, signs, impossible, start)
    theta = problem.start(start)
    chains = independent(problem.singles, problem.impossible, weighted_records, rng) if start is None else start.chains
    if chains.number != weighted_records or chains.counts is not None:
        chains = chains.evened(weighted_records, rng)
    if start is not None:
        problem.smooth(chains, theta, scatter=problem.total / weighted_records)
    passes = _Passes(problem, theta, weighted_records)
    for _ in progress(range(rounds), desc="fit", unit="round"):
        chains = passes.followed(chains, rng)
    done = rounds + (0 if start is None else start.rounds)
    return problem.result(chains, theta, done)


@final
class _Passes:
    """Passes over all sets, with shorter and shorter steps, that are interrupted where records must be drawn anew."""

    def __init__(self, problem: FitProblem, theta: Floats, weighted_records: int) -> None:
        self._problem, self._theta = problem, theta
        self._scatter = problem.total / weighted_records
        self._ridge = problem.ridge(self._scatter)
        self._order = np.arange(len(problem.sets))
        self._at, self._done = 0, 0

    def followed(self, chains: Chains, rng: np.random.Generator) -> Chains:
        """Records that were raked and then moved, at a θ that was moved in place."""
        chains = Chains(chains.codes.copy(), chains.weights.copy())
        self._rake(chains)
        self._problem.smooth(chains, self._theta, scatter=self._scatter, gain=self._gain)
        if chains.even < SETTINGS.fresh_evenness:
            chains = chains.evened(chains.number, rng)
        self._problem.sampler(self._theta).sweep(chains.codes, rng)
        return chains

    @property
    def _gain(self) -> float:
        return 1 / (1 + max(self._done - SETTINGS.first_passes, 0) / SETTINGS.decay_passes)

    def _rake(self, chains: Chains) -> None:
        unseen = self._problem.unseen(chains.number)
        left = (SETTINGS.first_passes if self._done < SETTINGS.first_passes else 1) * len(self._order)
        while left > 0:
            todo = self._order[self._at : self._at + left]
            fitted = self._problem.rake(
                chains,
                self._theta,
                todo,
                unseen,
                self._ridge,
                gain=self._gain,
                trust=SETTINGS.trust,
                evenness=SETTINGS.least_evenness,
            )
            self._at, left = self._at + fitted, left - len(todo)
            if self._at == len(self._order):
                self._at, self._done = 0, self._done + 1
            if fitted < len(todo):
                break


def finish(
    estimates: Estimates,
    weighted_records: int,
    *,
    rng: np.random.Generator,
    start: LogLinear,
    signs: Sequence[Measurement] = (),
    impossible: Mapping[Axes, Mask] | None = None,
) -> LogLinear:
    """Draw so many records from the fitted model, and fit their weights alone to the end; see `fit_records`."""
    problem = FitProblem(estimates, signs, impossible, start)
    theta = problem.start(start)
    sampler, moving = problem.sampler(theta), start.chains.evened(min(start.chains.number, weighted_records), rng)
    for _ in range(SETTINGS.settling_sweeps):
        sampler.sweep(moving.codes, rng)
    chains = sampler.grown(moving, weighted_records, rng)
    problem.smooth(chains, theta)
    chains, theta = _settled(problem, chains, theta)
    return problem.result(chains, theta, start.rounds)


def _settled(problem: FitProblem, chains: Chains, theta: Floats) -> tuple[Chains, Floats]:
    """Records and θ, raked until little changes, each pass from a mixture of where the last ones led (`mixing`).

    A mixture that leaves the weights much more uneven is beyond what these passes tell: then it goes on without.
    """
    unseen, ridge, order = problem.unseen(chains.number), problem.ridge(), np.arange(len(problem.sets))
    some = slice(None, None, -(-chains.number // SETTINGS.mixed_records))  # enough to tell how much changes
    theta, mixing, most = theta.copy(), Mixing(SETTINGS.mixed_passes), np.log(max(problem.total, _LEAST_WEIGHT))
    for turn in progress(range(SETTINGS.last_passes), desc="last fit", unit="pass"):
        before = _logarithms(chains.weights[some])
        problem.rake(chains, theta, order, unseen, ridge)
        importance = chains.weights[some] / chains.weights[some].sum()
        change = _logarithms(chains.weights[some]) - before
        change -= importance @ change
        if turn == SETTINGS.last_passes - 1 or np.sqrt(importance @ change**2) < SETTINGS.last_change:
            break
        reached = _logarithms(chains.weights), theta.copy(), _logarithms(unseen)
        logs, *others = mixing.next(change, importance, reached)
        mixed = Chains(chains.codes, np.exp(logs - logs.max()))
        mixed.weights[:] /= mixed.weights.sum()
        if mixed.even < SETTINGS.least_evenness * chains.even:
            mixing = Mixing(SETTINGS.mixed_passes)
        else:
            chains, theta = mixed, np.maximum(others[0], SETTINGS.least_interaction)
            unseen = np.exp(np.minimum(others[1], most))
    return chains, theta


def _logarithms(weights: Floats) -> Floats:
    """Of weights of which some, or all in a table of nobody, are 0."""
    found: Floats = np.log(np.maximum(weights, _LEAST_WEIGHT))
    return found
