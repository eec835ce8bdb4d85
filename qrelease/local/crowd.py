"""Many people's reports at once, for studies and benchmarks only: the clients' laws, drawn by numpy's generator.

Nobody's report may be drawn here: numpy's generators are no source of secrets. The weights are the clients' own whole
numbers, and a choice among T of them is a uniform integer below T, so that the law is the clients' one exactly, up to
the quality of the generator.
"""

from __future__ import annotations

from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Ints
from qrelease.errors import InvalidInput
from qrelease.local.categories import Hadamard, KAry, LocalHashing
from qrelease.local.client import Client
from qrelease.local.draws import checked_epsilon
from qrelease.local.numeric import Coin, Hybrid, LocalLaplace, NumberClient, WindowClient


@singledispatch
def insecure_reports(client: Client, places: Ints, rng: np.random.Generator) -> Ints:
    """The numbers of one report for each person.

    Parameters
    ----------
    client
        The mechanism; reports of at most 62 bits.
    places
        (n,) each person's place on the input grid: `client.place`, or `places_of_values` for numbers.
    rng
        A seeded generator: the reports protect nobody.

    Returns
    -------
    array
        (n,) codes, for `Server.from_codes`.
    """
    raise InvalidInput(f"reports of {client!r} are not simulated")


def places_of_values(client: NumberClient, values: npt.NDArray[Any]) -> Ints:
    """The places of many values, (n,) to (n,): as `client.place`, up to a rounding near a step's middle."""
    span = float(client.high) - float(client.low)
    scaled = (np.clip(values, client.low, client.high) - float(client.low)) / span * client.steps
    places: Ints = np.rint(scaled).astype(np.int64)
    return places


def _first(weights: tuple[int, int], rng: np.random.Generator, n: int) -> npt.NDArray[np.bool_]:
    """Where the first of two things with these weights is chosen, (n,)."""
    total = sum(weights)
    if total >= 1 << 63:
        raise InvalidInput("weights of more than 63 bits are not simulated: take a smaller epsilon")
    return rng.integers(0, total, n) < weights[0]


@insecure_reports.register
def _of_k_ary(client: KAry, places: Ints, rng: np.random.Generator) -> Ints:
    return _truth_or_other(client.odds, client.k, places, rng)


def _truth_or_other(odds: Fraction, size: int, places: Ints, rng: np.random.Generator) -> Ints:
    truth = _first((odds.numerator, (size - 1) * odds.denominator), rng, len(places))
    other = rng.integers(0, size - 1, len(places))
    return np.where(truth, places, other + (other >= places))


@insecure_reports.register
def _of_local_hashing(client: LocalHashing, places: Ints, rng: np.random.Generator) -> Ints:
    seeds = rng.integers(0, client.seeds, len(places))
    hashed, rest, left = np.zeros_like(places), seeds.copy(), places.copy()
    for _ in range(client.digits):
        hashed += rest % client.g * (left % client.g)
        rest //= client.g
        left //= client.g
    found: Ints = seeds * client.g + _truth_or_other(client.odds, client.g, hashed % client.g, rng)
    return found


@insecure_reports.register
def _of_hadamard(client: Hadamard, places: Ints, rng: np.random.Generator) -> Ints:
    half, size, block, n = client.block // 2, client.size, client.block, len(places)
    first, row = np.divmod(places, block - 1)
    row += 1
    weights = half * client.odds.numerator, (size - half) * client.odds.denominator
    inside = _first(weights, rng, n)
    number = np.where(inside, rng.integers(0, half, n), rng.integers(0, size - half, n))
    near = inside | (number < half)
    low = row & np.negative(row)
    y = (number & (low - 1)) | (number & np.negative(low)) << 1
    y ^= np.where((np.bitwise_count(row & y) & 1) == inside, low, 0)  # even inside, odd outside
    away = number - half
    found: Ints = np.where(near, first * block + y, away + block * (away >= first * block))
    return found


@insecure_reports.register
def _of_coin(client: Coin, places: Ints, rng: np.random.Generator) -> Ints:
    e, one = client.odds.as_integer_ratio()
    total = sum(client.weights(0))
    if total >= 1 << 63:
        raise InvalidInput("weights of more than 63 bits are not simulated: take fewer steps or a smaller epsilon")
    return (rng.integers(0, total, len(places)) < (e - one) * places + one * client.steps).astype(np.int64)


@insecure_reports.register
def _of_window(client: WindowClient, places: Ints, rng: np.random.Generator) -> Ints:
    n = len(places)
    inside = _first(client.weights, rng, n)
    other = rng.integers(0, client.steps, n)
    return np.where(
        inside, places + rng.integers(0, client.window, n), other + client.window * (other >= places)
    ).astype(np.int64)


@insecure_reports.register
def _of_hybrid(client: Hybrid, places: Ints, rng: np.random.Generator) -> Ints:
    coin, window = client.parts
    found = insecure_reports(coin, places, rng)
    other = np.flatnonzero(~_first(client.weights, rng, len(places)))
    if len(other):
        found[other] = 2 + insecure_reports(window, places[other], rng)
    return found


@insecure_reports.register
def _of_laplace(client: LocalLaplace, places: Ints, rng: np.random.Generator) -> Ints:
    """Two-sided geometric noise is the difference of two geometric numbers of the same rate."""
    gamma = float(checked_epsilon(client.epsilon) / client.steps)
    n = len(places)
    # floor(X/γ) of an exponential X is geometric with ratio e^-γ.
    up, down = ((rng.standard_exponential(n) / gamma).astype(np.int64) for _ in range(2))
    found: Ints = np.clip(client.margin + places + up - down, 0, client.size - 1)
    return found
