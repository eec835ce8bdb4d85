"""Mechanisms that break their privacy promise in published ways, each beside what is right: for the auditor's tests.

All make n runs at once, `f(data, entropy, n) -> (n, ...)`. Their noise is exact, on a grid of 2^-10, so that nothing
but the published mistake can convict them; the floating-point specimens apart.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from unittest import mock

import numpy as np

from qrelease.mechanisms.base import Mechanism
from qrelease.mechanisms.iterative.distinguishers import Distinguisher
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.small_db import small_db
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.noise.entropy import Entropy, WordSource
from qrelease.noise.samplers import discrete_laplace, rounded_gaussian
from qrelease.privacy import ZCDP, Filter
from qrelease.queries.workload import Workload

UNIT = 2.0**-10


def laplace(scale: float, shape: tuple[int, ...], entropy: WordSource) -> np.ndarray:
    """Laplace noise on the multiples of `UNIT`."""
    return discrete_laplace(Fraction(scale) / Fraction(UNIT), math.prod(shape), entropy).reshape(shape) * UNIT


# --- sparse vector: Lyu, Su & Li 2017, Figure 1, with Δ = 1


@dataclass(frozen=True)
class SparseVector:
    """The family: scales of threshold and query noise, the number of ⊤ before it halts, and what a ⊤ says."""

    threshold_scale: float
    query_scale: float
    positives: float
    numeric: bool = False

    def __call__(self, queries: np.ndarray, entropy: WordSource, n: int) -> np.ndarray:
        """(n, k): NaN for ⊥, 1 (or the noisy number) for ⊤, infinity after it halted; the threshold is 0."""
        rho = laplace(self.threshold_scale, (n, 1), entropy)
        noisy = queries + (laplace(self.query_scale, (n, len(queries)), entropy) if self.query_scale else 0)
        above = noisy >= rho
        answers = np.where(above, noisy if self.numeric else 1.0, np.nan)
        before = above.cumsum(axis=1) - above
        return np.where(before < self.positives, answers, np.inf)


def right_sparse_vector(epsilon: float, positives: int) -> SparseVector:
    """Algorithm 1."""
    return SparseVector(2 / epsilon, 4 * positives / epsilon, positives)


def sparse_vector_that_releases_its_comparison(epsilon: float, positives: int) -> SparseVector:
    """Algorithm 3 (Roth 2011): a ⊤ is the noisy value that was compared. Not private at any ε."""
    return SparseVector(2 / epsilon, 2 * positives / epsilon, positives, numeric=True)


def sparse_vector_without_c(epsilon: float, positives: int) -> SparseVector:
    """Algorithm 4 (Lee & Clifton 2014): query noise that does not grow with c. Private at (1 + 6c)ε/4."""
    return SparseVector(4 / epsilon, 4 / (3 * epsilon), positives)


def sparse_vector_without_query_noise(epsilon: float) -> SparseVector:
    """Algorithm 5 (Stoddard, Chen & Machanavajjhala 2014). Not private at any ε."""
    return SparseVector(2 / epsilon, 0, math.inf)


def sparse_vector_without_cut_off(epsilon: float) -> SparseVector:
    """Algorithm 6 (Chen, Xiao, Zhang & Xu 2015). Not private at any ε."""
    return SparseVector(2 / epsilon, 2 / epsilon, math.inf)


# --- selection


def noisy_max(scores: np.ndarray, entropy: WordSource, n: int, *, scale: float) -> np.ndarray:
    """Report noisy max, (n,); on scores that are not monotone the scale must be 2/ε, not 1/ε."""
    return (scores + laplace(scale, (n, len(scores)), entropy)).argmax(axis=1)


# --- local sensitivity


@dataclass(frozen=True)
class ProposeTestRelease:
    """The median-like toy of propose-test-release: an answer, and the distance to data where it moves by more than b.

    On `(answer, distance)` it releases answer + Lap(b/ε) if distance + Lap(1/ε) exceeds the threshold, else NaN.
    """

    epsilon: float
    threshold: float

    def __call__(self, data: tuple[float, int], entropy: WordSource, n: int) -> np.ndarray:
        answer, distance = data
        passed = distance + laplace(1 / self.epsilon, (n,), entropy) > self.threshold
        return np.where(passed, answer + laplace(1 / self.epsilon, (n,), entropy), np.nan)


def right_propose_test_release(epsilon: float, delta: float) -> ProposeTestRelease:
    """(2ε, δ)."""
    return ProposeTestRelease(epsilon, math.log(1 / (2 * delta)) / epsilon)


def propose_test_release_of_the_notes(epsilon: float, delta: float) -> ProposeTestRelease:
    """The threshold ln(2/δ)/(2ε): δ is √(δ/8) in truth."""
    return ProposeTestRelease(epsilon, math.log(2 / delta) / (2 * epsilon))


# --- Gaussian noise


def gaussian(answer: float, entropy: WordSource, n: int, *, sigma: float) -> np.ndarray:
    """answer + N(0, σ²), rounded to the grid, (n,); the answer lies on it."""
    return answer + rounded_gaussian(Fraction(sigma / UNIT) ** 2, n, entropy) * UNIT


def right_sigma(epsilon: float, delta: float) -> float:
    """The least that is enough for sensitivity 1."""
    return analytic_gaussian_sigma(1.0, epsilon, delta)


def truncated_mean_sigma(epsilon: float, delta: float) -> float:
    """The printed variance 4R²d ln(1/δ)/(nε)² of a truncated mean, for L2 sensitivity 2R√d/n = 1."""
    return math.sqrt(math.log(1 / delta)) / epsilon


def classic_sigma(epsilon: float, delta: float) -> float:
    """√(2 ln(1.25/δ))/ε, used beyond ε = 1."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


# --- the local model: the chance to report 1, by the answer x in [0, 1]


def right_local_rule(x: float, epsilon: float) -> float:
    """((e^ε - 1)x + 1)/(e^ε + 1)."""
    return (math.expm1(epsilon) * x + 1) / (math.exp(epsilon) + 1)


def local_rule_over_too_small_a_number(x: float, epsilon: float) -> float:
    """((e^ε - 1)x + 1)/e^ε."""
    return (math.expm1(epsilon) * x + 1) / math.exp(epsilon)


def optimised_interval(x: float, epsilon: float, delta1: float = 1.0) -> float:
    """Linear in x from (1 + δ₂)/(e^ε + 1) to (e^ε + δ₁)/(e^ε + 1), δ₂ = δ₁ e^-ε: the published optimum is δ₁ = 1."""
    low = (1 + delta1 * math.exp(-epsilon)) / (math.exp(epsilon) + 1)
    high = (math.exp(epsilon) + delta1) / (math.exp(epsilon) + 1)
    return low + (high - low) * x


# --- floating point


def float_laplace(answer: float, entropy: WordSource, n: int, *, scale: float) -> np.ndarray:
    """Textbook Laplace noise in floating point: -b sign ln(U) added to the answer (Mironov 2012)."""
    rng = np.random.default_rng(entropy.words(4).tolist())
    return answer + scale * rng.choice([-1.0, 1.0], n) * np.log(1 - rng.random(n))


def grid_laplace(answer: float, entropy: WordSource, n: int, *, scale: float) -> np.ndarray:
    """The same on the grid, (n,); the answer lies on it."""
    return answer + laplace(scale, (n,), entropy)


LOWER, UPPER = 2.0**44, 2.0**44 + 1
"""Bounds of the values in `float_sum`: replacing one record moves a true sum by at most 1."""


def float_sum(values: np.ndarray, entropy: WordSource, n: int, *, epsilon: float) -> np.ndarray:
    """A sum of clipped floats, less n LOWER, in the order of the records, with noise for sensitivity UPPER - LOWER.

    The sum outgrows 2^53, and what is rounded away depends on the first records, and on the order of all (Casacuberta,
    Shoemate, Vadhan & Wagaman 2022).
    """
    total = np.clip(values, LOWER, UPPER).cumsum()[-1]  # cumsum adds one by one, where sum works in pairs
    return total - len(values) * LOWER + laplace((UPPER - LOWER) / epsilon, (n,), entropy)


def grid_sum(values: np.ndarray, entropy: WordSource, n: int, *, epsilon: float) -> np.ndarray:
    """The same, each value less LOWER rounded to the grid before integers are summed."""
    steps = np.rint((np.clip(values, LOWER, UPPER) - LOWER) / UNIT).astype(np.int64)
    return steps.sum() * UNIT + laplace((UPPER - LOWER) / epsilon, (n,), entropy)


def one_record_apart() -> tuple[np.ndarray, np.ndarray]:
    """16 384 values in one order, of which the first differs: from 2^53 on each doubling of the sum doubles that."""
    rest = np.full(16_383, LOWER + 2.0**-8)
    return np.append(LOWER, rest), np.append(UPPER, rest)


def one_record_and_the_order_apart() -> tuple[np.ndarray, np.ndarray]:
    """4 096 values that differ in one record, and in their order, as tables without order may."""
    high, low = np.full(2048, UPPER), np.full(2047, LOWER)
    return np.concatenate([low, [LOWER], high]), np.concatenate([high, [UPPER], low])


# --- releases


@dataclass(frozen=True)
class HalfTheSensitivity:
    """A distinguisher that draws as if one record moved the scores, or the noisy table, by half of what it does."""

    inner: Distinguisher

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def distinguish(self, private, state, workload, cost, measurement):
        return self.inner.distinguish(_Halved(private), state, workload, cost, measurement)


class _Halved:
    def __init__(self, private: Private) -> None:
        self._private = private

    def __getattr__(self, name: str):
        return getattr(self._private, name)

    def select(self, scores, sensitivity, cost, rule):
        return self._private.select(scores, sensitivity // 2, cost, rule)

    def measure(self, workload, cost):
        twice = _times(2, cost)
        return replace(self._private, filter=Filter(twice)).measure(workload, twice)


def _times(times, cost):
    """The cost of noise whose scale is divided by so much."""
    return ZCDP(times**2 * cost.rho) if isinstance(cost, ZCDP) else replace(cost, epsilon=times * cost.epsilon)


class SameNoise:
    """A `Private` whose measurements all draw the same noise again."""

    def __init__(self, private: Private) -> None:
        self._private = private
        self._seed = int(private.entropy.words(1)[0])

    def __getattr__(self, name: str):
        return getattr(self._private, name)

    def measure(self, workload, cost):
        return replace(self._private, entropy=Entropy.insecure(self._seed)).measure(workload, cost)


@dataclass(frozen=True)
class Overspending:
    """A mechanism that draws as if it had been charged several times its ε, or the square of that times its ρ."""

    inner: Mechanism
    times: float = 2

    @property
    def name(self):
        return f"{self.inner.name} at {self.times} times its cost"

    def check(self, workload, cost, neighbours):
        self.inner.check(workload, cost, neighbours)

    def release(self, private, workload, cost):
        more = _times(self.times, cost)
        return self.inner.release(replace(private, filter=Filter(more)), workload, more)


@dataclass(frozen=True)
class Replayed:
    """A mechanism that draws with the same random words in every release."""

    inner: Mechanism

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def release(self, private, workload, cost):
        return self.inner.release(replace(private, entropy=Entropy.insecure(0)), workload, cost)


@dataclass(frozen=True)
class PrivateSupport:
    """A mechanism whose weighted records are the private ones: only their weights come from what it fitted."""

    inner: Mechanism

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def release(self, private, workload, cost):
        draft = self.inner.release(private, workload, cost)
        made = draft.synopsis
        (counts,) = private.exact(Workload.marginals(private.domain, [private.domain.names]))
        cells = np.repeat(np.arange(len(counts)), counts)
        codes = np.stack(np.unravel_index(cells, private.domain.shape)).astype(np.uint16)
        equal = (made.codes[:, None, :] == codes[:, :, None]).all(axis=0)
        weights = equal @ made.weights + 1e-3  # what was fitted may have none of them
        return replace(draft, synopsis=replace(made, codes=codes, weights=weights / weights.sum()))


class Wrapped:
    """A synopsis that is another one, but for what a subclass overrides."""

    def __init__(self, inner, cells: np.ndarray) -> None:
        self._inner, self._cells = inner, cells
        self.domain, self.total, self.has_table = inner.domain, inner.total, inner.has_table

    def answer(self, workload):
        return self._inner.answer(workload)

    def sample(self, rows, rng):
        return self._inner.sample(rows, rng)

    def to_json(self):
        return self._inner.to_json()


class PrivateSample(Wrapped):
    """Its synthetic records are the private ones, over and over."""

    def sample(self, rows, rng):
        cells = np.resize(np.repeat(np.arange(self._cells.size), self._cells), rows)
        return list(np.unravel_index(cells, self.domain.shape))


class PrivateDescription(Wrapped):
    """Its description has the exact counts."""

    def to_json(self):
        return {**self._inner.to_json(), "cells": self._cells.tolist()}


class PrivateCells(Wrapped):
    """It answers what is asked of all columns exactly."""

    def answer(self, workload):
        exact = [g.queries.apply(self._cells) for g in workload.groups if len(g.axes) == len(self.domain)]
        return np.concatenate(exact, dtype=float) if len(exact) == len(workload.groups) else super().answer(workload)


@dataclass(frozen=True)
class PrivateSynopsis:
    """A mechanism whose synopsis knows the private cells, and tells them otherwise than by answers to the workload."""

    inner: Mechanism
    kind: type[Wrapped]

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def release(self, private, workload, cost):
        draft = self.inner.release(private, workload, cost)
        (cells,) = private.exact(Workload.marginals(private.domain, [list(private.domain.names)]))
        return replace(draft, synopsis=self.kind(draft.synopsis, cells))


@dataclass(frozen=True)
class PrivateSpends:
    """A mechanism that tells the exact number of records in the text of what it spent."""

    inner: Mechanism

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def release(self, private, workload, cost):
        draft = self.inner.release(private, workload, cost)
        records = int(private.exact(workload)[0].sum())
        private.spends[-1] = replace(private.spends[-1], what=f"measure {records} records")
        return draft


# --- choices of one synopsis: SmallDB and Net


@dataclass(frozen=True)
class ChoiceAtHalfTheSensitivity:
    """A mechanism that chooses as if one record moved the scores by half of what it does."""

    inner: Mechanism

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def release(self, private, workload, cost):
        return self.inner.release(_Halved(private), workload, cost)


@dataclass(frozen=True)
class SearchAtHalfTheSensitivity:
    """A mechanism that searches as if one record moved the errors by half of what it does."""

    inner: Mechanism

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def release(self, private, workload, cost):
        halved = property(lambda found: _SENSITIVITY.fget(found) // 2)
        with mock.patch.object(small_db.SearchedRange, "sensitivity", halved):
            return self.inner.release(private, workload, cost)


_SENSITIVITY = small_db.SearchedRange.sensitivity
