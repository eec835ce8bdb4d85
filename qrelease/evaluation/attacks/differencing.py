"""Differencing, and averaging: what a few questions about one person, or one question many times, give away.

Two questions that differ by one person differ by that person's bit. A publisher that adds noise to each answer is
asked more often: the same question again, the same in other words, or in two parts that are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from qrelease._util.typing import Mask
from qrelease._util.validate import natural
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.answered import Answered, Publisher, base_rate, check_secret
from qrelease.evaluation.attacks.results import NotPrivate


@final
@dataclass(frozen=True)
class Differencing(NotPrivate):
    """How many people's bits were read off pairs of questions. Not private.

    Attributes
    ----------
    publisher : str
        Who answered.
    people : int
        How many were attacked.
    repeats : int
        Pairs of questions about each of them.
    recovered : float
        The fraction of them whose bit was guessed right.
    base_rate : float
        The fraction that is right for who guesses the commoner bit of all people for everybody.
    """

    publisher: str
    people: int
    repeats: int
    recovered: float
    base_rate: float


def differencing(
    publisher: Publisher, secret: Any, targets: int, rng: np.random.Generator, *, repeats: int = 1
) -> Differencing:
    """Ask about a random group with a person and without, and guess the bit by the mean difference of the answers.

    Parameters
    ----------
    publisher : Publisher
        Answers about the same people as `secret`.
    secret : (n,) of zeros and ones
        The true bits, only to be compared with.
    targets : int
        How many of the people are attacked, at most n.
    rng : numpy.random.Generator
        Chooses the targets and the groups.
    repeats : int
        Pairs of questions about each target, with another group each; a refused answer counts as no difference.

    Raises
    ------
    InvalidInput
        For more targets than people.

    References
    ----------
    Denning, Denning & Schwartz 1979, "The tracker".

    Examples
    --------
    >>> import numpy as np
    >>> from qrelease.evaluation.attacks.publishers import Exact
    >>> secret = np.arange(50) % 3 == 0
    >>> differencing(Exact(secret), secret, 50, np.random.default_rng(0)).recovered
    1.0
    """
    bits = check_secret(secret)
    if natural("targets", targets) > len(bits):
        raise InvalidInput(f"targets must be at most the {len(bits):,} people, got {targets:,}")
    chosen = rng.choice(len(bits), targets, replace=False)
    pairs = np.repeat(chosen, natural("repeats", repeats))
    without = rng.random((len(pairs), len(bits))) < 0.5
    without[np.arange(len(pairs)), pairs] = False
    both = np.repeat(without, 2, axis=0)
    both[np.arange(1, len(both), 2), pairs] = True
    said = publisher.ask(both).values.reshape(targets, repeats, 2)
    apart = np.nan_to_num(said[:, :, 1] - said[:, :, 0]).mean(axis=1)
    right = float(((apart > 0.5) == bits[chosen]).mean())
    return Differencing(publisher.name, targets, repeats, right, base_rate(bits[chosen]))


@final
@dataclass(frozen=True)
class Averaging:
    """What asking again gave. Not private.

    Attributes
    ----------
    asked : int
        How often the question was asked, in whatever words.
    distinct : int
        How many different answers there were: 1 where asking again gains nothing.
    first, mean : float
        The first answer, and the mean of all: counts.
    """

    asked: int
    distinct: int
    first: float
    mean: float


def averaging(ask: Callable[[str], float], wordings: Sequence[str]) -> Averaging:
    """Ask one question in several words, and average the answers.

    Parameters
    ----------
    ask : callable
        Gives the answer, a count, to a question in words: a session's or a server's.
    wordings : sequence of str
        The same question, as often as it is asked.

    Examples
    --------
    >>> import itertools
    >>> numbers = itertools.cycle([9.0, 11.0])
    >>> averaging(lambda words: next(numbers), ["age < 30", "age in ..29"])
    Averaging(asked=2, distinct=2, first=9.0, mean=10.0)
    """
    if not wordings:
        raise InvalidInput("a question has to be asked at least once, got no wordings")
    answers = [float(ask(words)) for words in wordings]
    return Averaging(len(answers), len(set(answers)), answers[0], float(np.mean(answers)))


def repeated(publisher: Publisher, subset: Mask, times: int) -> Averaging:
    """Ask a publisher the same question (n,) many times, in calls of their own, and average the answers."""
    answers = [publisher.ask(subset[None, :]).values[0] for _ in range(natural("times", times))]
    return _averaged(np.array(answers))


def split_questions(publisher: Publisher, subset: Mask, times: int, rng: np.random.Generator) -> Averaging:
    """Ask about a subset (n,) in two random parts that are added up, many times, and average the sums.

    Against noise that is a function of the question: the parts are other questions each time.
    """
    halves = rng.random((natural("times", times), len(subset))) < 0.5
    said: Answered = publisher.ask(np.concatenate([halves & subset, ~halves & subset]))
    return _averaged(said.values.reshape(2, -1).sum(axis=0))


def _averaged(answers: Any) -> Averaging:
    given = answers[np.isfinite(answers)]
    if not len(given):
        raise InvalidInput("the publisher answered no question, so there is nothing to average")
    return Averaging(len(answers), len(np.unique(given)), float(given[0]), float(given.mean()))
