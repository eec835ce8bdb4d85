"""Iterative construction: a private distinguisher and a database update rule in turns (Dwork & Roth 2014, §5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tqdm import tqdm

from qrelease.distinguishers import Distinguisher
from qrelease.measure import Measurement, Private
from qrelease.privacy import ZCDP, PureDP, split
from qrelease.release import Synopsis
from qrelease.updates import UpdateRule
from qrelease.workload import Workload

State = TypeVar("State", bound=Synopsis)


@dataclass(frozen=True)
class Round:
    """What one round may spend."""

    selection: PureDP | ZCDP
    measurement: PureDP | ZCDP

    @classmethod
    def equal(cls, cost: PureDP | ZCDP, rounds: int, selection: float) -> tuple[Round, ...]:
        """A cost split over equal rounds, a fraction of each for the selection."""
        shares = split(cost, [selection, 1 - selection] * rounds)
        return tuple(cls(s, m) for s, m in zip(shares[::2], shares[1::2], strict=True))


def iterate(
    private: Private,
    workload: Workload,
    state: State,
    rule: UpdateRule[State],
    distinguisher: Distinguisher,
    rounds: Sequence[Round],
    measurements: list[Measurement],
) -> State:
    """Rounds of: find the queries that the hypothesis answers worst, measure them, learn from all measurements.

    `measurements` may hold earlier ones; the new ones are added to it. A group that is measured again under the same
    noise is averaged with what it had.
    """
    for step in tqdm(rounds, desc="rounds", disable=None, leave=False):
        chosen = distinguisher.distinguish(private, state, workload, step.selection, step.measurement)
        (new,) = private.measure(chosen, step.measurement)
        _keep(measurements, new)
        state = rule.update(state, measurements)
    return state


def _keep(measurements: list[Measurement], new: Measurement) -> None:
    """Add a measurement at the end, averaged with an earlier one of the same queries under the same noise."""
    for i, old in enumerate(measurements):
        if (old.group, old.noise) == (new.group, new.noise):
            new = measurements.pop(i).averaged(new)
            break
    measurements.append(new)
