"""Private selection of one candidate by its integer score, exactly: no floating point, no Gumbel noise.

Scores are int64, larger is better, and between neighbours no score moves by more than Δ, the `sensitivity`. Real
scores are to be rounded to a grid of integers before they come here, with the Δ that they then have. All three
mechanisms are ε-DP at the rate γ = ε/(2Δ), or γ = ε/Δ if the scores are `monotone`: between any two neighbours all
scores move the same way, as counts do under add-remove. With d_r = max(s) - s_r:

**Exponential mechanism** (McSherry & Talwar 2007): P(r) ∝ e^(-γ d_r), by inversion at one uniform.
The utility is within (ln k + t)/γ of the best with probability 1 - e^-t.

**Permute-and-flip** (McKenna & Sheldon 2020): go through the candidates in random order, flip a coin of bias
e^(-γ d_r) for each, return the first with heads. Here all coins are flipped at once and the candidate is drawn
uniformly from those with heads, which is the same law: given the coins, the first of them in a uniform order is
uniform. The best candidate always has heads. Never worse than the exponential mechanism; it is report noisy max
with one-sided exponential noise (Ding, Kifer, Sayed, Steinke, Wang, Xiao & Zhang 2021).

**Report noisy max**: the candidate with the largest score plus noise.

Time and random words depend on the number of candidates and on the one that is released, not on the scores: passes
in 64-bit integers of known error bounds (`samplers`) and, where they leave the choice open, exact arithmetic on the
same words. That is a chance of at most k² / 2^52 for the exponential mechanism and k / 2^38 for permute-and-flip.
"""

from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from qrelease import laws
from qrelease.entropy import WordSource
from qrelease.errors import InvalidInput
from qrelease.exact import invert, rational, uniform_below, whole
from qrelease.noise import MAX_SCALE, Integers, draw, laplace_sampler
from qrelease.samplers import accept, pick, rate

I64 = npt.NDArray[np.int64]


def exponential_mechanism(
    scores: I64, epsilon: float | Fraction, sensitivity: int, entropy: WordSource, *, monotone: bool = False
) -> int:
    """A candidate r in 0..k-1 from `scores`, (k,), with P(r) ∝ e^(ε s_r / (2Δ)), or e^(ε s_r / Δ) if `monotone`.

    ε-DP, and ε²/8-zCDP by its bounded range. Exact for any int64 scores and any rational ε. Raises `InvalidInput`,
    and draws nothing, for scores that are not a non-empty list of integers, an ε that is not positive and finite,
    or a sensitivity that is not a positive integer.
    """
    scores, gamma = _checked(scores, epsilon, sensitivity, monotone)
    top = int(scores.max())
    word = entropy.words(1)[0]
    index, sure = pick(scores, top, rate(gamma), word)
    if sure:
        return int(index)
    distances = tuple(top - score for score in scores.tolist())
    return invert(partial(laws.selection, distances, gamma), int(word), 64, entropy)


def permute_and_flip(
    scores: I64, epsilon: float | Fraction, sensitivity: int, entropy: WordSource, *, monotone: bool = False
) -> int:
    """A candidate r in 0..k-1 from `scores`, (k,): the first in random order whose coin falls heads.

    A coin has bias e^(-ε (max - s_r) / (2Δ)), without the 2 if `monotone`. ε-DP. Raises `InvalidInput` as
    `exponential_mechanism` does.
    """
    scores, gamma = _checked(scores, epsilon, sensitivity, monotone)
    top = int(scores.max())
    words = entropy.words(scores.size)
    verdict = accept(scores, top, rate(gamma), words)
    for r in np.flatnonzero(verdict == 2):
        coin = partial(laws.coin, gamma * (top - int(scores[r])))
        verdict[r] = invert(coin, int(words[r]) >> 1, 63, entropy) == 0
    return _any_of(np.flatnonzero(verdict), entropy)


def report_noisy_max(
    scores: I64,
    epsilon: float | Fraction,
    sensitivity: int,
    entropy: WordSource,
    *,
    noise: Literal["laplace", "exponential", "gumbel"] = "exponential",
    monotone: bool = False,
) -> int:
    """The candidate with the largest noisy score, noise of scale 2Δ/ε, or Δ/ε if `monotone`; ε-DP.

    `exponential` is the law of `permute_and_flip`, `gumbel` that of `exponential_mechanism`, drawn as such. `laplace`
    adds discrete Laplace noise to the integer scores and breaks ties uniformly (Dwork & Roth 2014, Claim 3.9).

    Proof for `laplace`. Uniform tie-breaking is a mixture, over orders of priority chosen without the data, of
    tie-breaking by priority; take one such order. Fix the noise of all but candidate r. Then r wins iff its own
    noise R is at least some integer z, which moves by at most 2Δ between neighbours, or Δ if monotone. As
    P(R >= z + 1) >= e^(-γ) P(R >= z) for every integer z (with q = e^-γ, P(R >= z) is q^z/(1 + q) for z >= 0, and
    for z < 0 P(R = z) = (1 - q) q^-z/(1 + q) <= (1 - q) P(R >= z)), the chance of r to win falls by at most e^-ε.

    Raises `InvalidInput` as `exponential_mechanism` does, and for a noise that is not one of the three.
    """
    if noise == "exponential":
        return permute_and_flip(scores, epsilon, sensitivity, entropy, monotone=monotone)
    if noise == "gumbel":
        return exponential_mechanism(scores, epsilon, sensitivity, entropy, monotone=monotone)
    if noise != "laplace":
        raise InvalidInput(f"noise must be 'laplace', 'exponential' or 'gumbel', got {noise!r}")
    scores, gamma = _checked(scores, epsilon, sensitivity, monotone)
    if gamma * MAX_SCALE < 1:
        raise InvalidInput(f"epsilon / sensitivity is too small for Laplace noise, got {epsilon} / {sensitivity}")
    noisy = _sum(scores, draw(laplace_sampler(1 / gamma, signed=True), scores.size, entropy))
    return _any_of(np.flatnonzero(noisy == noisy.max()), entropy)


def _sum(scores: I64, noise: Integers) -> Integers:
    """The exact sums."""
    half = 1 << 62
    fits = all(-half <= part.min() and part.max() < half for part in (scores, noise))
    total: Integers = scores + noise if fits else scores.astype(object) + noise.astype(object)
    return total


def _any_of(candidates: npt.NDArray[np.intp], entropy: WordSource) -> int:
    return int(candidates[uniform_below(candidates.size, int(entropy.words(1)[0]), entropy)])


def _checked(scores: I64, epsilon: float | Fraction, sensitivity: int, monotone: bool) -> tuple[I64, Fraction]:
    """The scores as int64 and γ."""
    scores = np.array(scores)  # a copy of one layout, whatever came: every other one would compile the kernels anew
    if scores.ndim != 1 or not scores.size:
        raise InvalidInput(f"scores must be one row of at least one candidate, got shape {scores.shape}")
    if scores.dtype.kind != "i":
        raise InvalidInput(f"scores must be signed integers, got {scores.dtype}")
    steps = (1 if monotone else 2) * whole("sensitivity", sensitivity, least=1)
    return scores.astype(np.int64, copy=False), rational("epsilon", epsilon) / steps
