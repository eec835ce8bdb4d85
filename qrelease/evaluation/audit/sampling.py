"""Audits by sampling: an event is found on one part of the runs, its probabilities are bounded on the rest."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np

from qrelease._util.progress import LINE_SECONDS, progress
from qrelease._util.validate import positive_probability, whole
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit.events import strongest_event
from qrelease.evaluation.audit.features import OutputBatch, Reading
from qrelease.evaluation.audit.scores import learned_scores
from qrelease.evaluation.audit.verdict import Audit, clopper_pearson, parts
from qrelease.noise.entropy import Entropy, WordSource
from qrelease.privacy.costs import Cost, check_cost

Data = TypeVar("Data")

CONFIDENCE: Final = 0.99
"""Of the bounds, by default."""

_MIN_SAMPLES: Final = 100

_LONG_SECONDS: Final = 30.0
"""From which on it is said beforehand how long an audit takes."""

_MIN_SHORTER: Final = 1_000
"""The fewest samples that are proposed: of fewer nothing is found."""

_TIMED_RUNS, _TIMED_SECONDS = 100, 2.0
"""Runs by which that is known, or fewer that take so long."""

_BLOCK_RUNS: Final = 1 << 16


@dataclass(frozen=True)
class Vectorised(Generic[Data]):
    """A mechanism that makes many independent runs at once; made by `vectorised`."""

    run: Callable[[Data, WordSource, int], OutputBatch]


AuditedMechanism = Callable[[Data, WordSource], Any] | Vectorised[Data]


def vectorised(run: Callable[[Data, WordSource, int], OutputBatch]) -> Vectorised[Data]:
    """Mark `run(data, entropy, n)` as a mechanism that returns n transcripts, (n, ...), of independent runs.

    Examples
    --------
    >>> many = vectorised(lambda data, entropy, n: data + entropy.words(n) % 2)
    >>> many.run(0, Entropy(), 5).shape
    (5,)
    """
    return Vectorised(run)


def audit(
    mechanism: AuditedMechanism[Data],
    first: Data,
    second: Data,
    claim: Cost,
    *,
    samples: int = 100_000,
    confidence: float = CONFIDENCE,
    entropy: WordSource | None = None,
) -> Audit:
    """Run a mechanism on two neighbouring inputs and bound its privacy loss from below.

    A quarter of the runs (at most 131 072) teaches scores, another one (at most 524 288) chooses among them an event,
    its direction and its threshold. On the remaining, at least half, the event's probability on either input gets a
    Clopper-Pearson bound, each wrong with probability at most (1 - confidence)/2. No other event is tested there, so
    the choice costs nothing, however wide.

    An audit that takes longer than half a minute says so on stderr before it begins, and how far it is; for that a
    mechanism that is not `vectorised` is run up to a hundred times more.

    Parameters
    ----------
    mechanism
        `f(data, entropy)` that returns a transcript: a number, an array, a frame, a tuple, anything. Numbers in it are
        read as floats, None as missing, everything else by its repr. Or one marked `vectorised`.
    first, second
        Neighbours under the relation that the claim is about.
    claim
        The cost that the mechanism says it has.
    samples
        Runs on each input, at least 100.
    confidence
        Of the bounds, whatever the mechanism; in (0, 1).
    entropy
        What the mechanism draws from; by default `Entropy()`.

    Returns
    -------
    Audit
        The event found, and the lower bound on ε or ρ that it proves.

    Raises
    ------
    InvalidInput
        For arguments out of range, and for transcripts without a repr of their own.

    References
    ----------
    Bichsel, Steffen, Bogunovic & Vechev 2021, *DP-Sniper*; Clopper & Pearson 1934.

    Examples
    --------
    >>> from qrelease.privacy import PureDP
    >>> def no_noise(data, entropy):
    ...     return data
    >>> audit(no_noise, 0, 1, PureDP(1.0), samples=1000).convicted
    True
    """
    runs = whole("samples", samples, least=_MIN_SAMPLES)
    source = Entropy() if entropy is None else entropy
    check_cost(claim)
    positive_probability("confidence", confidence)
    if not isinstance(mechanism, Vectorised):
        foretell(mechanism, first, 2 * runs, runs, confidence)
    with counted(2 * runs) as bar:
        return judged(mechanism, first, second, claim, samples=runs, confidence=confidence, entropy=source, bar=bar)


def foretell(
    mechanism: Callable[[Data, WordSource], object], data: Data, runs: int, samples: int, confidence: float
) -> None:
    """Say how long so many runs take, where that is long, and which `samples` would take about a minute.

    That is known by some runs whose draws are no part of them. The first one, which may compile something, is not
    timed. Where other work shares the machine an audit may take twice as long; how long it still takes is told as it
    goes. Of the fewer samples it is said what they show of no noise at all: the ε of an event that always happens on
    one input, and never on the other. What they can find of a mechanism with noise is said by `Audit`.
    """
    source, made = Entropy(), 0
    mechanism(data, source)
    started = time.perf_counter()
    while made < _TIMED_RUNS and (not made or time.perf_counter() - started < _TIMED_SECONDS):
        mechanism(data, source)
        made += 1
    seconds = runs * (time.perf_counter() - started) / made
    if seconds > _LONG_SECONDS:
        fewer = max(round(float(f"{60 * samples / seconds:.1g}")), _MIN_SHORTER)
        told = f"qrelease: {runs:,} runs, about {seconds / 60:,.1f} minutes in all, by the first {made} of them"
        if fewer < samples:
            less = seconds * fewer / samples / 60
            told += (
                f"; samples={fewer:,} (--samples) would take about {less:.1f} minutes, and find larger violations only"
                f" (without any noise they show epsilon {_most_shown(fewer, confidence):.1f}, and with some far less)"
            )
        print(told, file=sys.stderr, flush=True)


def _most_shown(samples: int, confidence: float) -> float:
    """The largest ε that an audit of so many samples can show, rounded up to a tenth."""
    *_, held_out = parts(samples)
    always, never = np.array([held_out, 0])
    miss = (1 - confidence) / 2
    (low, _), (_, high) = clopper_pearson(always, held_out, miss), clopper_pearson(never, held_out, miss)
    return math.ceil(10 * math.log(float(low) / float(high))) / 10


def counted(runs: int, what: str = "runs") -> Any:
    """The progress of so many runs in all."""
    return progress(total=runs, desc=what, unit=" runs", lines=LINE_SECONDS)


def judged(
    mechanism: AuditedMechanism[Data],
    first: Data,
    second: Data,
    claim: Cost,
    *,
    samples: int,
    confidence: float,
    entropy: WordSource,
    bar: Any,
) -> Audit:
    """What `audit` finds; the bar counts the runs on either input."""
    check_cost(claim)
    runs = whole("samples", samples, least=_MIN_SAMPLES)
    miss = (1 - positive_probability("confidence", confidence)) / 2
    learning, choosing, held_out = parts(runs)
    one, two = (_join(_draws(mechanism, data, entropy, learning, bar)) for data in (first, second))
    reading = Reading.of(one, two)
    scores = learned_scores(reading, reading.columns(one), reading.columns(two))
    one, two = (_join(_draws(mechanism, data, entropy, choosing, bar)) for data in (first, second))
    event = strongest_event(scores, reading.columns(one), reading.columns(two), claim, held_out, miss)
    hits = [
        sum(int(event.holds(reading.columns(batch)).sum()) for batch in _draws(mechanism, data, entropy, held_out, bar))
        for data in (first, second)
    ]
    likely, unlikely = hits if event.favours == "first" else hits[::-1]
    low, _ = clopper_pearson(np.array(likely), held_out, miss)
    _, high = clopper_pearson(np.array(unlikely), held_out, miss)
    return Audit(claim, str(event), event.favours, float(low), float(high), confidence, runs)


def worst_pair(
    mechanism: AuditedMechanism[Data],
    pairs: Iterable[tuple[Data, Data]],
    claim: Cost,
    *,
    samples: int = 10_000,
    entropy: WordSource | None = None,
) -> tuple[Data, Data]:
    """The pair of neighbours on which a short audit, of so many runs on each input, finds most.

    An `audit` of that pair draws anew, so its confidence is not touched by the choice.
    """
    listed, source = list(pairs), Entropy() if entropy is None else entropy
    with counted(2 * samples * len(listed)) as bar:
        return worst_of(mechanism, listed, claim, samples=samples, entropy=source, bar=bar)


def worst_of(
    mechanism: AuditedMechanism[Data],
    pairs: Sequence[tuple[Data, Data]],
    claim: Cost,
    *,
    samples: int,
    entropy: WordSource,
    bar: Any,
) -> tuple[Data, Data]:
    """What `worst_pair` finds; the bar counts the runs on either input of each pair."""
    effort = {"samples": samples, "confidence": CONFIDENCE, "entropy": entropy, "bar": bar}
    best, found = -1.0, None
    for first, second in pairs:
        bound = judged(mechanism, first, second, claim, **effort).bound
        if bound > best:
            best, found = bound, (first, second)
    if found is None:
        raise InvalidInput("at least one pair of neighbours is needed, got none")
    return found


def _draws(
    mechanism: AuditedMechanism[Data], data: Data, entropy: WordSource, runs: int, bar: Any
) -> Iterator[OutputBatch]:
    """`runs` transcripts in blocks."""
    for start in range(0, runs, _BLOCK_RUNS):
        size = min(_BLOCK_RUNS, runs - start)
        if isinstance(mechanism, Vectorised):
            batch = mechanism.run(data, entropy, size)
            if not isinstance(batch, np.ndarray) and hasattr(batch, "__array__"):
                batch = np.asarray(batch)
            if len(batch) != size:
                raise InvalidInput(f"a vectorised mechanism must return {size} transcripts, got {len(batch)}")
            bar.update(size)
        else:
            batch = []
            for _ in range(size):
                batch.append(mechanism(data, entropy))
                bar.update()
        yield batch


def _join(batches: Iterable[OutputBatch]) -> OutputBatch:
    parts = list(batches)
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [transcript for part in parts for transcript in part]
