"""What the two baselines share: noise on every answer at once, then clipping and normalising."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qrelease._util import memory
from qrelease._util.typing import Floats
from qrelease._util.validate import positive_probability, whole
from qrelease.errors import TooLarge
from qrelease.inference.histogram import check_size
from qrelease.inference.measurement import Measurement, noise_for
from qrelease.inference.noisy_answers import Answers
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.private_data import Private
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.queries.families import Cells
from qrelease.queries.workload import Workload

MAX_ANSWERS = 1 << 26
"""At a gibibyte for exact, noisy and processed answers."""


def check_answers(workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
    """Raise `TooLarge` for more answers than fit in memory, `InvalidInput` for noise beyond the samplers' range."""
    if len(workload) > MAX_ANSWERS:
        raise TooLarge(f"{len(workload):,} separate answers are too many; at most {MAX_ANSWERS:,} fit")
    memory.check(memory.ANSWER_BYTES * len(workload), f"{len(workload):,} separate answers", "ask fewer")
    noise_for(workload, cost, neighbours)


def unfitted(workload: Workload) -> str | None:
    """Why no histogram can be fitted to separate answers, if none can: by public facts, as a release may say it."""
    try:
        with memory.unused():
            check_size(workload.domain, workload.sets, len(workload), ahead=False)
    except TooLarge as reason:
        return str(reason)
    return None


def measure_all(private: Private, workload: Workload, cost: Cost) -> MechanismResult:
    """All answers with noise for the whole workload at once, then each marginal made a table of counts.

    A marginal is projected to the nearest non-negative table (Euclidean) with the common total: the public one, or
    what all marginals' noisy sums agree on. Other answers are clipped to [0, total]. Post-processing, and free.
    """
    measurements = private.measure(workload, cost)
    public = None if private.public_records is None else float(private.public_records)
    answers = processed(workload, measurements, public)
    return MechanismResult(answers, answers.measurements)


def processed(workload: Workload, measurements: Sequence[Measurement], public: float | None) -> Answers:
    """What `measure_all` makes of noisy answers; `public`: the number of records, where it is."""
    total = _total(measurements) if public is None else public
    parts = [
        project(m.values, total) if isinstance(m.group.queries, Cells) else np.clip(m.values, 0, total)
        for m in measurements
    ]
    return Answers(workload, np.concatenate(parts), total, tuple(measurements))


def promised_error(workload: Workload, records: int, cost: Cost, neighbours: Neighbours, beta: float) -> float:
    """What `measure_all` promises: with probability 1 - β no answer is off by more than this fraction of n `records`.

    t/n without marginals, (2t + d)/n with them, where with probability 1 - β none of the noises exceeds t (a union
    bound, as Dwork & Roth 2014, Theorem 3.8) and the common total is off by at most d. Above 1 it says nothing.

    *Proof.* Clipping brings answers closer to the truth p, or as close as the total is. Projecting v = p + e, with
    |e| <= t, to the sum n ± d gives max(v - θ, 0) for some θ. If θ were above t + d, all cells together would lose
    more than d; if below -(t + d), gain more than d. So a cell that is not 0 is off by |e - θ| <= 2t + d, and one
    that is had p <= θ + t. ∎
    """
    n, beta = whole("records", records, least=1), positive_probability("beta", beta)
    cells = [g.queries.count for g in workload.groups if isinstance(g.queries, Cells)]
    if not cells:
        return noise_bound(workload, cost, neighbours, beta) / n
    if neighbours is Neighbours.REPLACE_ONE:
        return 2 * noise_bound(workload, cost, neighbours, beta) / n
    noise, _ = noise_for(workload, cost, neighbours)
    return (2 * noise_bound(workload, cost, neighbours, beta / 2) + off_total(noise, cells, beta / 2)) / n


def noise_bound(workload: Workload, cost: Cost, neighbours: Neighbours, beta: float) -> float:
    """t, a count: with probability 1 - β none of the noisy answers is off by more, before they are made consistent."""
    return noise_for(workload, cost, neighbours)[0].largest_of(len(workload), beta)


def off_total(noise: Noise, cells: Sequence[int], beta: float) -> float:
    """d, a count, such that `_total` of marginals of so many cells is off by more with probability at most β.

    It is a sum of independent noises with weights a, of which each marginal's are alike: A = Σ a² = 1 / Σ 1/cells.
    """
    inverse = sum(1 / c for c in cells)
    return noise.weighted_sum_bound(1 / inverse, 1 / (inverse * min(cells)), beta)


def _total(measurements: Sequence[Measurement]) -> float:
    sums = [(m.values.sum(), 1 / len(m.values)) for m in measurements if isinstance(m.group.queries, Cells)]
    if not sums:  # no query is larger than the number of records, so the largest answer is what is known of it
        return max(1.0, *(float(m.values.max()) for m in measurements))
    return max(1.0, float(sum(s * w for s, w in sums) / sum(w for _, w in sums)))


def project(values: Floats, total: float) -> Floats:
    """The nearest vector, in Euclidean distance, that is non-negative and has the given sum.

    Held, Wolfe & Crowder 1974: subtract the one threshold at which the positive parts have that sum.
    """
    if total <= 0:
        return np.zeros_like(values)
    values = values - values.max()  # a common shift changes nothing, and keeps what matters near zero
    ordered = np.sort(values)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    above = np.flatnonzero(ordered > thresholds)[-1]
    projected: Floats = np.maximum(values - thresholds[above], 0.0)
    return projected
