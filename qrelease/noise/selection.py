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
in 64-bit integers of known error bounds (`kernels`) and, where they leave the choice open, exact arithmetic on the
same words. That is a chance of at most k² / 2^52 for the exponential mechanism and k / 2^38 for permute-and-flip.
"""

from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Ints
from qrelease._util.validate import rational, whole
from qrelease.errors import InvalidInput
from qrelease.noise import exact_cdfs
from qrelease.noise.distributions import MAX_SCALE
from qrelease.noise.entropy import WordSource
from qrelease.noise.exact_reals import invert, uniform_below
from qrelease.noise.kernels import accept, pick, rate
from qrelease.noise.samplers import Integers, draw, laplace_sampler


def exponential_mechanism(
    scores: Ints, epsilon: float | Fraction, sensitivity: int, entropy: WordSource, *, monotone: bool = False
) -> int:
    """Choose a candidate r with P(r) ∝ e^(ε s_r / (2Δ)), or e^(ε s_r / Δ) if `monotone`.

    ε-DP, and ε²/8-zCDP by its bounded range. Exact for any int64 scores and any rational ε.

    Parameters
    ----------
    scores
        One integer a candidate, (k,); larger is better.
    epsilon
        ε, a positive number, taken at face value.
    sensitivity
        Δ, how far one score moves between neighbours at most, a positive integer.
    entropy
        The source of random words.
    monotone
        Whether between any two neighbours all scores move the same way, as counts do under add-remove.

    Returns
    -------
    int
        The candidate, 0 to k - 1.

    Raises
    ------
    InvalidInput
        Before anything is drawn, for scores that are not a non-empty list of integers, and for numbers out of range.

    References
    ----------
    McSherry & Talwar 2007; Cesar & Rogers 2021 for the bounded range.

    Examples
    --------
    >>> import numpy as np
    >>> from qrelease.noise.entropy import Entropy
    >>> exponential_mechanism(np.array([0, 40, 3]), 1.0, 1, Entropy.insecure(0))
    1
    """
    scores, gamma = _checked(scores, epsilon, sensitivity, monotone)
    top = int(scores.max())
    word = entropy.words(1)[0]
    index, sure = pick(scores, top, rate(gamma), word)
    if sure:
        return int(index)
    distances = tuple(top - score for score in scores.tolist())
    return invert(partial(exact_cdfs.selection, distances, gamma), int(word), 64, entropy)


def permute_and_flip(
    scores: Ints, epsilon: float | Fraction, sensitivity: int, entropy: WordSource, *, monotone: bool = False
) -> int:
    """Choose the first candidate in random order whose coin falls heads (McKenna & Sheldon 2020); ε-DP.

    A coin has bias e^(-ε (max - s_r) / (2Δ)), without the 2 if `monotone`. Parameters, result and errors are those of
    `exponential_mechanism`.

    Examples
    --------
    >>> import numpy as np
    >>> from qrelease.noise.entropy import Entropy
    >>> permute_and_flip(np.array([0, 40, 3]), 1.0, 1, Entropy.insecure(0))
    1
    """
    scores, gamma = _checked(scores, epsilon, sensitivity, monotone)
    top = int(scores.max())
    words = entropy.words(scores.size)
    verdict = accept(scores, top, rate(gamma), words)
    for r in np.flatnonzero(verdict == 2):
        coin = partial(exact_cdfs.coin, gamma * (top - int(scores[r])))
        verdict[r] = invert(coin, int(words[r]) >> 1, 63, entropy) == 0
    return _any_of(np.flatnonzero(verdict), entropy)


def report_noisy_max(
    scores: Ints,
    epsilon: float | Fraction,
    sensitivity: int,
    entropy: WordSource,
    *,
    noise: Literal["laplace", "exponential", "gumbel"] = "exponential",
    monotone: bool = False,
) -> int:
    """Choose the candidate with the largest noisy score, noise of scale 2Δ/ε, or Δ/ε if `monotone`; ε-DP.

    Parameters
    ----------
    noise
        `exponential` has the distribution of `permute_and_flip`, `gumbel` that of `exponential_mechanism`, and both are
        drawn as such. `laplace` adds discrete Laplace noise to the integer scores and breaks ties uniformly.
    scores, epsilon, sensitivity, entropy, monotone
        As in `exponential_mechanism`, and so are the result and the errors.

    Notes
    -----
    *Proof for `laplace`* (Dwork & Roth 2014, Claim 3.9). Uniform tie-breaking is a mixture, over orders of priority
    chosen without the data, of tie-breaking by priority; take one such order. Fix the noise of all but candidate r.
    Then r wins iff its own noise R is at least some integer z, which moves by at most 2Δ between neighbours, or Δ if
    monotone. As P(R >= z + 1) >= e^(-γ) P(R >= z) for every integer z (with q = e^-γ, P(R >= z) is q^z/(1 + q) for z >=
    0, and for z < 0 P(R = z) = (1 - q) q^-z/(1 + q) <= (1 - q) P(R >= z)), the chance of r to win falls by at most
    e^-ε.

    Examples
    --------
    >>> import numpy as np
    >>> from qrelease.noise.entropy import Entropy
    >>> report_noisy_max(np.array([0, 40, 3]), 1.0, 1, Entropy.insecure(0), noise="laplace")
    1
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


def _sum(scores: Ints, noise: Integers) -> Integers:
    """The exact sums."""
    half = 1 << 62
    fits = all(-half <= part.min() and part.max() < half for part in (scores, noise))
    total: Integers = scores + noise if fits else scores.astype(object) + noise.astype(object)
    return total


def _any_of(candidates: npt.NDArray[np.intp], entropy: WordSource) -> int:
    return int(candidates[uniform_below(candidates.size, int(entropy.words(1)[0]), entropy)])


def _checked(scores: Ints, epsilon: float | Fraction, sensitivity: int, monotone: bool) -> tuple[Ints, Fraction]:
    """The scores as int64 and γ."""
    scores = np.array(scores)  # a copy of one layout, whatever came: every other one would compile the kernels anew
    if scores.ndim != 1 or not scores.size:
        raise InvalidInput(f"scores must be one row of at least one candidate, got shape {scores.shape}")
    if scores.dtype.kind != "i":
        raise InvalidInput(f"scores must be signed integers, got {scores.dtype}")
    steps = (1 if monotone else 2) * whole("sensitivity", sensitivity, least=1)
    return scores.astype(np.int64, copy=False), rational("epsilon", epsilon) / steps
