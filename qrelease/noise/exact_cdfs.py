"""Cumulative distribution functions of the samplers, to any precision; `exact_reals` inverts them.

Each function is `law(parameters, bits)`; `functools.partial` over its parameters makes it a `ExactCDF`. With q = e^-γ:

    coin        0 with probability q, else 1
    laplace     P(v) ∝ q^v on 0, 1, 2, …
    gaussian    P(v) ∝ q^(v²) on 0, 1, 2, …
    selection   P(r) ∝ q^(d_r) on 0..k-1

`laplace` and `gaussian` count every v > 0 twice if `folded`: the magnitude of the symmetric law on the integers.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from qrelease.noise.exact_reals import GUARD, Enclosure, exp_negative, rescale

Thresholds = tuple[Enclosure, ...]


def coin(gamma: Fraction, bits: int) -> Thresholds:
    """The threshold of a coin that falls with probability q = e^-γ, γ >= 0."""
    return (exp_negative(gamma, bits),)


@lru_cache(maxsize=16)
def laplace(gamma: Fraction, folded: bool, bits: int) -> Thresholds:
    """C_v = 1 - q^v, or 1 - 2 q^v / (1 + q) if folded, up to where it cannot be told from 1."""
    scale = bits + GUARD
    one = 1 << scale
    step = power = exp_negative(gamma, scale)
    found: list[Enclosure] = []
    while not found or found[-1][1] < 1 << bits:
        tail = power
        if folded:
            tail = _quotient((2 * power[0], 2 * power[1]), (one + step[0], one + step[1]), scale)
        found.append(rescale((one - tail[1], one - tail[0]), scale, bits))
        power = _times(power, step, scale)
    return tuple(found)


@lru_cache(maxsize=16)
def gaussian(gamma: Fraction, folded: bool, bits: int) -> Thresholds:
    """C_v = Σ_{u<v} w_u / Σ_u w_u, with w_u = q^(u²), doubled for u > 0 if folded.

    w_{u+1} = w_u ρ_u where ρ_u = q^(2u+1) falls with u: what follows a term w_n is at most w_n ρ_n / (1 - ρ_n).
    """
    scale = bits + GUARD
    one = 1 << scale
    ratio = exp_negative(gamma, scale)
    step = _times(ratio, ratio, scale)
    copies = 2 if folded else 1
    term, sums = (one, one), [(one, one)]
    while term[0]:
        term, ratio = _times(term, ratio, scale), _times(ratio, step, scale)
        sums.append((sums[-1][0] + copies * term[0], sums[-1][1] + copies * term[1]))
    rest = copies * term[1] * one // (one - ratio[1]) + 1
    total = (sums[-1][0], sums[-1][1] + rest)
    return tuple(_quotient(part, total, bits) for part in sums)


def selection(distances: tuple[int, ...], gamma: Fraction, bits: int) -> Thresholds:
    """C_r = Σ_{u<r} q^(d_u) / Σ_u q^(d_u); candidates at the same distance share one exponential."""
    scale = bits + GUARD
    terms = {d: exp_negative(gamma * d, scale) for d in set(distances)}
    lows = list(accumulate(terms[d][0] for d in distances))
    highs = list(accumulate(terms[d][1] for d in distances))
    total = (lows[-1], highs[-1])
    return tuple(_quotient(part, total, bits) for part in zip(lows[:-1], highs[:-1], strict=True))


def _times(a: Enclosure, b: Enclosure, scale: int) -> Enclosure:
    return (a[0] * b[0] >> scale, (a[1] * b[1] >> scale) + 1)


def _quotient(a: Enclosure, b: Enclosure, bits: int) -> Enclosure:
    """An enclosure of a / b <= 1 on the scale 2^bits, for intervals a >= 0 and b > 0 on one scale."""
    return ((a[0] << bits) // b[1], min(-(-(a[1] << bits) // b[0]), 1 << bits))
