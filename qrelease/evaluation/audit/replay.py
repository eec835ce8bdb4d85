"""Checks a declared sensitivity, by how far the output moves between two inputs under the same noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from qrelease._util.validate import positive
from qrelease.errors import InvalidInput
from qrelease.noise.entropy import Entropy, WordSource

Data = TypeVar("Data")

_REPLAYS: Final = 8
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class SensitivityAudit:
    """How far the output moved between neighbours under the same noise, against what was declared.

    declared   the sensitivity in the norm of `order`: L1 or L2
    found      the largest distance seen
    pair       the number of the pair of neighbours on which it was seen
    """

    declared: float
    found: float
    order: Literal[1, 2]
    pair: int

    @property
    def convicted(self) -> bool:
        """Whether the output moved further than declared."""
        return self.found > self.declared * (1 + _ROUNDING)

    def __str__(self) -> str:
        verdict = "CONVICTED" if self.convicted else "acquitted"
        return (
            f"{verdict} of declaring L{self.order} sensitivity {self.declared:g}:"
            f" under the same noise the output moved by {self.found:g} on pair {self.pair}"
        )


def audit_sensitivity(
    mechanism: Callable[[Data, WordSource], npt.ArrayLike],
    pairs: Iterable[tuple[Data, Data]],
    declared: float,
    *,
    order: Literal[1, 2] = 1,
) -> SensitivityAudit:
    """Replay the same noise on neighbours: what is left of the difference is that of the numbers before noise.

    For mechanisms that add noise to numbers, `f(data, entropy) -> array`. Each pair is run under a few recorded streams
    of random words, and the largest distance counts, so that rounding and clipping hide less. Raises `InvalidInput` for
    a mechanism that does not repeat itself under the same words, since it draws from elsewhere too; and for no pairs.
    """
    limit = positive("declared", declared)
    found = [
        (_moved(mechanism, first, second, seed, order), number)
        for number, (first, second) in enumerate(pairs)
        for seed in range(_REPLAYS)
    ]
    if not found:
        raise InvalidInput("at least one pair of neighbours is needed, got none")
    distance, number = max(found, key=lambda entry: entry[0])
    return SensitivityAudit(limit, distance, order, number)


def _moved(
    mechanism: Callable[[Data, WordSource], npt.ArrayLike], first: Data, second: Data, seed: int, order: int
) -> float:
    # A seeded stream is its own recording: the same seed gives the same words again.
    runs: list[npt.NDArray[Any]] = [
        np.asarray(mechanism(data, Entropy.insecure(seed))) for data in (first, first, second)
    ]
    if not np.array_equal(runs[0], runs[1]):
        raise InvalidInput("the mechanism must draw all its randomness from the entropy it is given, to be replayed")
    if runs[0].shape != runs[2].shape:
        raise InvalidInput(f"outputs must have one shape to be compared, got {runs[0].shape} and {runs[2].shape}")
    # Python numbers: integers stay exact, and so do their differences.
    steps = [abs(a - b) for a, b in zip(runs[0].ravel().tolist(), runs[2].ravel().tolist(), strict=True)]
    return float(sum(steps)) if order == 1 else float(np.sqrt(sum(s * s for s in steps)))
