"""Reconstruction: the secret bits of all people from answers about subsets of them (Dinur & Nissim 2003).

Answers within E of the truth to all 2ⁿ subsets leave at most 4E bits in doubt (`exhaustive`); answers within α√n to a
few n random subsets leave O(α²n), and those bits are found in polynomial time (`least_squares`, `linear_programme`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from qrelease._util import memory
from qrelease._util.typing import Floats, Mask
from qrelease._util.validate import natural
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.answered import Answered, Publisher, base_rate, check_secret
from qrelease.evaluation.attacks.extras import load_cvxpy
from qrelease.evaluation.attacks.results import NotPrivate

MAX_EXHAUSTED = 20
"""People whose 2ⁿ candidates are all tried."""

_CANDIDATE_BLOCK = 1 << 12  # candidates at a time

_MIN_DEVIATION = 1e-6
"""The least standard deviation of an answer that least squares reckons with: exact answers have none."""

_TOLERANCE = 1e-6
"""Least squares stops here, relative to the answers: far closer than a bit is to one half."""

_ENTRY_BYTES = 16
"""Bytes that an attack takes for each person in each question."""

ReconstructionAttack = Callable[[Mask, Answered], Floats]
"""From subsets (k, n) and the answers to them, how likely each person has the bit: (n,), rounded at one half."""


@final
@dataclass(frozen=True)
class Reconstruction(NotPrivate):
    """How much of a secret bit an attack recovered. Not private.

    Attributes
    ----------
    publisher, attack : str
        Who answered, and how the answers were decoded.
    people, questions, answered : int
        n, how many questions were asked, and how many of them were answered.
    recovered : float
        The fraction of the people whose bit was guessed right.
    base_rate : float
        The fraction that is right for who guesses the commoner bit for everybody, and asks nothing.
    seconds : float
        Of decoding.
    """

    publisher: str
    attack: str
    people: int
    questions: int
    answered: int
    recovered: float
    base_rate: float
    seconds: float


def questions(people: int, number: int, rng: np.random.Generator) -> Mask:
    """Random subsets (number, people): everybody, and then each person in each with probability one half.

    `TooLarge` where an attack on so many people would not fit in memory.
    """
    entries = natural("questions", number) * natural("people", people)
    memory.check(_ENTRY_BYTES * entries, f"{number:,} questions about {people:,} people", "attack fewer of them")
    subsets = np.array([rng.random(people) < 0.5 for _ in range(number)])
    subsets[0] = True
    return subsets


def reconstruct(publisher: Publisher, secret: Any, subsets: Mask, attack: ReconstructionAttack) -> Reconstruction:
    """Ask a publisher about subsets, decode what it says, and compare with the truth.

    The attacker knows how common the bit is, as the public mostly does: with no answers at all, she is right as often
    as the base rate says.

    Parameters
    ----------
    publisher : Publisher
        Answers about the same people as `secret`, in the same order.
    secret : (n,) of zeros and ones
        The true bits, only to be compared with.
    subsets : (k, n) bool
        The questions; those of `questions` do.
    attack : Attack
        `least_squares`, `linear_programme` or `exhaustive`.

    Raises
    ------
    InvalidInput
        For arrays of other shapes.

    Examples
    --------
    >>> import numpy as np
    >>> from qrelease.evaluation.attacks.publishers import Rounded
    >>> rng = np.random.default_rng(0)
    >>> secret = rng.random(100) < 0.3
    >>> found = reconstruct(Rounded(secret, 5), secret, questions(100, 800, rng), least_squares)
    >>> found.recovered
    1.0
    """
    bits = check_secret(secret)
    said = replace(publisher.ask(subsets), share=float(bits.mean()))
    begun = time.perf_counter()
    guessed = attack(subsets, said) > 0.5
    seconds = time.perf_counter() - begun
    return Reconstruction(
        publisher.name,
        getattr(attack, "__name__", type(attack).__name__).replace("_", " "),
        len(bits),
        len(subsets),
        int(np.isfinite(said.values).sum()),
        float((guessed == bits).mean()),
        base_rate(bits),
        seconds,
    )


def least_squares(subsets: Mask, said: Answered) -> Floats:
    """The bits that fit the answers best in squares, drawn towards the share of the bit as far as answers are noisy.

    This is the best linear guess for independent bits and independent errors of the announced deviation: where the
    noise drowns everything, it guesses the commoner bit for everybody. LSMR (Fong & Saunders 2011), so that thousands
    of people take about a second.
    """
    from scipy.sparse.linalg import LinearOperator, lsmr

    asked, values = _answered(subsets, said)
    share = _share(asked, values) if said.share is None else said.share
    if not 0 < share < 1:
        return np.full(subsets.shape[1], share)
    damping = max(said.spread, _MIN_DEVIATION) / np.sqrt(share * (1 - share))
    narrow = asked.astype(np.float32)  # half the memory to pass over, and exact
    sums = LinearOperator(
        narrow.shape,
        matvec=lambda x: (narrow @ x.astype(np.float32)).astype(np.float64),
        rmatvec=lambda y: (narrow.T @ y.astype(np.float32)).astype(np.float64),
        dtype=np.float64,
    )
    off = lsmr(sums, values - share * asked.sum(axis=1), damp=damping, atol=_TOLERANCE, btol=_TOLERANCE)[0]
    return np.asarray(share + off)


def linear_programme(subsets: Mask, said: Answered) -> Floats:
    """Numbers in [0, 1] whose sums are nowhere farther from the answers than need be (Dinur & Nissim 2003, §3).

    HiGHS by its interior point method. `InvalidInput` without cvxpy (extra: attack).
    """
    cvxpy = load_cvxpy()
    asked, values = _answered(subsets, said)
    bits = cvxpy.Variable(subsets.shape[1], bounds=[0, 1])
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.norm_inf(asked @ bits - values)))
    problem.solve(solver=cvxpy.HIGHS, highs_options={"solver": "ipm", "output_flag": False})  # else it names itself
    return np.asarray(bits.value, np.float64)


def exhaustive(subsets: Mask, said: Answered) -> Floats:
    """The first of all 2ⁿ candidates whose answers are nowhere farther from those given than need be.

    If all subsets were asked and no answer is off by more than E, at most 4E of its bits are wrong (Dinur & Nissim
    2003, Theorem 1). `InvalidInput` for more than 20 people.
    """
    people = subsets.shape[1]
    if people > MAX_EXHAUSTED:
        raise InvalidInput(f"all candidates are tried for at most {MAX_EXHAUSTED} people, got {people:,}")
    asked, values = _answered(subsets, said)
    best, least = np.zeros(people), np.inf
    for first in range(0, 1 << people, _CANDIDATE_BLOCK):
        numbers = np.arange(first, min(first + _CANDIDATE_BLOCK, 1 << people))
        candidates = (numbers[:, None] >> np.arange(people) & 1).astype(np.float64)
        worst = np.abs(candidates @ asked.T - values).max(axis=1, initial=0.0)
        if worst.min() < least:
            best, least = candidates[worst.argmin()], worst.min()
    return best


def all_subsets(people: int) -> Mask:
    """Every question there is about some people, (2ⁿ - 1, n). `InvalidInput` for more than 20."""
    if people > MAX_EXHAUSTED:
        raise InvalidInput(f"all subsets are asked of at most {MAX_EXHAUSTED} people, got {people:,}")
    return (np.arange(1, 1 << people)[:, None] >> np.arange(people) & 1).astype(np.bool_)


def _answered(subsets: Mask, said: Answered) -> tuple[Floats, Floats]:
    """The questions that were answered (k', n), and their answers (k',)."""
    given = np.isfinite(said.values)
    return subsets[given].astype(np.float64), said.values[given]


def _share(asked: Floats, values: Floats) -> float:
    """The fraction of people who have the bit, as the answers together say, with room on both sides for doubt."""
    people = asked.shape[1]
    share = values.sum() / asked.sum() if asked.any() else 0.5
    return float(np.clip(share, 1 / people, 1 - 1 / people)) if people > 1 else 0.5
