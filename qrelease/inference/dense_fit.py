"""Fits weighted records to residuals with few coordinates, with the whole Fisher information matrix.

Where the coordinates are few, J is a matrix, learnt from the records, and (1) of `maxent` is solved as there: under
noise that is loud at first and then quieter, level by level, each with records that follow and a fresh J; then with ω
by the evidence, by records that stay: only their weights move. A tilt gives measured marginals exactly, however the
records scatter, so that answers differ from those of a histogram by what the scatter does to Qθ: by little, where there
are many more records than coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from qrelease._util.parallel import one_thread
from qrelease._util.progress import progress
from qrelease._util.typing import Axes, Floats, Mask
from qrelease.data.marginals.record_tables import Tables
from qrelease.inference import log_linear
from qrelease.inference.gibbs import Chains, GibbsSampler, independent
from qrelease.inference.interaction_basis import Interactions
from qrelease.inference.interaction_prior import prior_variance
from qrelease.inference.lbfgs import two_loops
from qrelease.inference.log_linear import LogLinear
from qrelease.inference.maxent import SOLVER, Dense, by_evidence
from qrelease.inference.residuals import Estimates
from qrelease.inference.single_columns import singles, with_likely_columns

SAMPLE: Final = 1 << 15
"""Records that J is learnt from."""


@dataclass(frozen=True)
class DenseSettings:
    """How far records are tilted before they follow; levels of noise and ends of steps are those of `maxent.SOLVER`."""

    features_at_once: int = 1 << 13
    """Records whose features are listed at a time."""
    level_rounds: int = 6
    """Rounds at a level at most."""
    least_gain: float = 3.0
    """What a round must promise to go on at its level, in units of what the scatter of the records promises."""
    worn_evenness: float = 0.3
    """The effective number of records, over their number, below which they follow before J is learnt from them."""
    sweeps: int = 2
    """Sweeps in which they follow."""
    steps: int = 3
    """Steps of L-BFGS on one set of records, before they move."""
    pairs: int = 10
    """Pairs that L-BFGS keeps."""
    kept_evenness: float = 0.5
    """The part of their effective number that records keep in a round."""
    fresh_evenness: float = 0.7
    """The effective number, over the number, below which records are drawn anew before they move."""
    reach: float = 0.9
    """The standard deviation of the logarithmic weights that a first step makes."""
    tries: int = 8
    """Lengths of a step that are tried."""
    shorter: float = 0.6
    """What the length is multiplied by where a step leaves the weights too uneven."""
    least_curvature: float = 1e-3
    """The curvature of a pair that is kept, over what its step promised."""
    fallback_rounds: int = 24
    """Rounds of the fit by raking, where no solution is found."""


SETTINGS: Final = DenseSettings()


def fit_densely(
    estimates: Estimates,
    weighted_records: int,
    *,
    rng: np.random.Generator,
    impossible: Mapping[Axes, Mask] | None = None,
) -> LogLinear:
    """Fit so many weighted records to measured residuals of few coordinates, with the whole of J: a matrix of them.

    estimates  of residuals of sets of columns, among them of all columns
    impossible cells (cells,) of marginals, by their columns, that no record is in: a public rule

    Raises `InvalidInput` where no record is found that is possible.
    """
    problem = _Objective(estimates, impossible or {})
    few = min(weighted_records, SAMPLE)
    theta, chains = problem.alone, independent(problem.singles, impossible or {}, few, rng).merged()
    level, quietest, rounds = SOLVER.first_level * problem.total, float(problem.noise.min()), 0
    bar = progress(desc="fit", unit="round")
    while True:
        problem.learn(chains, level, rng)
        pairs: list[tuple[Floats, Floats]] = []
        for turn in range(SETTINGS.level_rounds):
            theta, chains, promise = _descend(problem, theta, chains, pairs)
            chains = problem.followed(chains, theta, 1, rng).merged()
            rounds += 1
            bar.set_postfix_str(f"to gain {promise:.3g}", refresh=False)
            bar.update()
            if turn and promise < SETTINGS.least_gain * problem.total / few:  # by records that have followed
                break
        if level <= quietest:
            break
        level /= SOLVER.level_ratio
    bar.close()
    prior = np.array([prior_variance(k) for k in problem.basis.orders.tolist()])
    model = _Tilted(problem, theta, problem.grown(chains, theta, weighted_records, rng), prior)
    if by_evidence(model, rng) is None:
        start = log_linear.fit_records(estimates, few, rounds=SETTINGS.fallback_rounds, rng=rng, impossible=impossible)
        return log_linear.finish(estimates, weighted_records, rng=rng, impossible=impossible, start=start)
    return LogLinear(model.chains, problem.interactions(model.interactions), {}, problem.total, rounds)


@final
class _Objective:
    """The function that the fit makes least, in the coordinates of `Interactions`."""

    def __init__(self, estimates: Estimates, impossible: Mapping[Axes, Mask]) -> None:
        self.total = max(float(estimates.residuals[()].values), 1.0)
        self.singles = singles(estimates)
        residuals = with_likely_columns(estimates).residuals
        self.basis = Interactions([s for s in residuals if s], self.singles)
        sets = self.basis.sets
        self.tables = Tables(estimates.domain.shape, sets)
        self._impossible = impossible
        self.noise = np.array([residuals[s].variance for s in sets])[self.basis.owner]
        self.prior = np.array([prior_variance(k) for k in self.basis.orders.tolist()])[self.basis.owner]
        self.target = self.basis.coordinates(np.concatenate([residuals[s].values.reshape(-1) for s in sets]))
        self._learnt: Dense | None = None

    @property
    def alone(self) -> Floats:
        """θ of independent columns."""
        sizes = np.diff(self.tables.offsets).tolist()
        tables = [
            np.log(self.singles[s[0]]) if len(s) == 1 else np.zeros(size)
            for s, size in zip(self.basis.sets, sizes, strict=True)
        ]
        return self.basis.coordinates(np.concatenate(tables))

    def interactions(self, theta: Floats) -> dict[Axes, Floats]:
        """The interactions as tables, by their columns."""
        parts = np.split(self.basis.tables(theta), self.tables.offsets[1:-1])
        return dict(zip(self.basis.sets, parts, strict=True))

    @property
    def learnt(self) -> Dense:
        """Q and J + Q, which `learn` learnt last."""
        assert self._learnt is not None
        return self._learnt

    def learn(self, chains: Chains, level: float, rng: np.random.Generator) -> None:
        """Learn J from these records; Q is from now on that of this J, and of noise of this variance at least."""
        self._learnt = Dense(self.information(chains, rng), self.prior, np.maximum(self.noise, level))

    def gradient(self, chains: Chains, theta: Floats) -> Floats:
        """The gradient at θ, from records that are a sample of the model there."""
        found = self.total * self.basis.coordinates(self.tables.marginals(chains.codes, chains.weights))
        gradient: Floats = found - self.target + self.learnt.of(theta)
        return gradient

    def information(self, chains: Chains, rng: np.random.Generator) -> Floats:
        """J (dimensions, dimensions), from `SAMPLE` of the records at most."""
        if len(chains.weights) > SAMPLE:
            chains = chains.evened(SAMPLE, rng).merged()
        dimensions = len(self.target)
        found, mean = np.zeros((dimensions, dimensions)), np.zeros(dimensions)
        for first in range(0, len(chains.weights), SETTINGS.features_at_once):
            some = slice(first, first + SETTINGS.features_at_once)
            features = self.basis.features([*chains.codes[:, some]])
            roots = np.sqrt(chains.weights[some]).astype(np.float32)
            features *= roots[:, None]
            mean += roots @ features
            found += features.T @ features
        return self.total * (found - np.outer(mean, mean))

    def _sampler(self, theta: Floats) -> GibbsSampler:
        return GibbsSampler(self.tables.shape, [*self.interactions(theta).items()], self._impossible, ())

    def followed(self, chains: Chains, theta: Floats, sweeps: int, rng: np.random.Generator) -> Chains:
        """As many records after some sweeps: of equal weights, if theirs are too uneven."""
        chains = chains.evened(chains.number, rng) if chains.even < SETTINGS.fresh_evenness else chains.apart()
        codes, sampler = chains.codes.copy(), self._sampler(theta)
        for _ in range(sweeps):
            sampler.sweep(codes, rng)
        return Chains(codes, chains.weights)

    def grown(self, chains: Chains, theta: Floats, weighted_records: int, rng: np.random.Generator) -> Chains:
        """More records, of equal weights: see `GibbsSampler.grown`."""
        return self._sampler(theta).grown(chains.evened(chains.number, rng), weighted_records, rng)


@final
class _Tilted:
    """A `Model` of weighted records: θ moves by their weights, and records follow before J is learnt from them."""

    def __init__(self, problem: _Objective, theta: Floats, chains: Chains, prior: Floats) -> None:
        self._problem, self.prior = problem, prior
        self.basis, self.target, self.noise = problem.basis, problem.target, problem.noise
        self._start(chains, theta)

    def _start(self, chains: Chains, theta: Floats) -> None:
        """Records that are a sample of the model at θ."""
        self._drawn, self._origin = chains.merged(), theta
        self.move(theta)

    def move(self, interactions: Floats) -> None:
        problem, tables = self._problem, self._problem.tables
        # From the start, so that nothing is lost where a step gives a record no weight.
        self.chains = self._drawn.tilted(
            tables.sums(self._drawn.codes, problem.basis.tables(interactions - self._origin))
        )
        self.found = problem.total * self.basis.coordinates(tables.marginals(self.chains.codes, self.chains.weights))
        self.interactions = interactions

    def keep(self) -> None:
        self._kept = self._drawn, self._origin, self.interactions

    def back(self) -> None:
        # With its records: a solution is one for those alone.
        self._drawn, self._origin, interactions = self._kept
        self.move(interactions)

    def fisher(self, rng: np.random.Generator) -> Floats:
        # Records that stay are a convex problem of their own, to be solved before they follow.
        if self.chains.even < SETTINGS.worn_evenness:
            self._start(self._problem.followed(self.chains, self.interactions, SETTINGS.sweeps, rng), self.interactions)
        return self._problem.information(self.chains, rng)

    def reach(self, step: Floats) -> float:
        sums = self._problem.tables.sums(self.chains.codes, self._problem.basis.tables(step))
        length = SETTINGS.reach / max(self.chains.deviation(sums), SETTINGS.reach)
        while (
            self.chains.tilted(length * sums).even < SETTINGS.kept_evenness * self.chains.even
        ):  # a few of them may be far out
            length *= SETTINGS.shorter
        return length


@one_thread()
def _descend(
    problem: _Objective, theta: Floats, chains: Chains, pairs: list[tuple[Floats, Floats]]
) -> tuple[Floats, Chains, float]:
    """Some steps on one set of records; with how much a first one promised to gain, per dimension, in counts.

    A step is as long as leaves the weights even enough, and its slope at its end small or negative. After one that they
    cut short the records move.
    """
    floor, first = SETTINGS.kept_evenness * chains.even, np.inf
    gradient = problem.gradient(chains, theta)
    for _ in range(SETTINGS.steps):
        direction = -two_loops(gradient, problem.learnt.solve, pairs, scaled=False)
        slope = float(gradient @ direction)
        first = min(first, -slope / len(theta))
        sums = problem.tables.sums(chains.codes, problem.basis.tables(direction))
        # The effective number falls about as 1 / (1 + variance of the logarithms).
        length = min(1.0, SETTINGS.reach / max(chains.deviation(sums), SETTINGS.reach))
        crowded = length < 1
        for _ in range(SETTINGS.tries):
            tilted = chains.tilted(length * sums)
            if tilted.even < floor:
                length, crowded = SETTINGS.shorter * length, True
                continue
            bent = problem.gradient(tilted, theta + length * direction)
            end = float(bent @ direction)
            if end <= -SOLVER.end_slope * slope:
                break
            length *= min(max(slope / (slope - end), 0.1), 0.7)
        else:
            break
        step, change = length * direction, bent - gradient
        if step @ change > -SETTINGS.least_curvature * length * slope:
            pairs.append((step, change))
            del pairs[: -SETTINGS.pairs]
        theta, chains, gradient = theta + step, tilted, bent
        if crowded:
            break
    return theta, chains, first
