"""Sample and aggregate: any function of a table, by its answers on random blocks of it (Nissim et al. 2007).

Each record draws its block, of k, by itself. A block's answer is the function's value on it, clipped to public bounds
[l, u], or their middle where it has none. One record that comes or goes is in one block and moves one answer, by u - l
at most; one that is replaced moves two. So the mean of the answers has sensitivity (u - l)/k, whatever the function is.

Blocks by position are a mistake: without the first record every other one stands in another place, and all answers
move. Here a record's block has nothing to do with the others: without one of them, they stay where they are. Within a
block records are sorted, so their order tells nothing.

The answers are rounded to 2^16 steps of u - l, and the noise is on these steps. `median` takes the smooth sensitivity
of the median of the k answers, of which one is replaced: it is better where some blocks go astray.

The function runs in a process of its own for each block, with limits of time and memory, and is given the block; a
process that it kills is started again for the blocks that follow. It is the data holder's: that it does not look for
other processes and their memory, writes no files, that the machine has room for it beside the table, and that how long
all of it takes is shown to nobody, is up to them.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import positive, real, whole
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated, sensitivity_of_one
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.statistics.base import BETA, EstimateResult, Measured, spelled, within
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.local_sensitivity import Median
from qrelease.statistics.private_columns import PrivateColumns, moves
from qrelease.statistics.smooth_sensitivity import Smoothing, smooth_sensitivity

STEPS: Final = 1 << 16
"""Steps of the range that an answer is rounded to."""

_MEGABYTE: Final = 1 << 20


@final
@dataclass(frozen=True)
class SampleAndAggregate:
    """The noisy mean, or median, of a function's answers on k random blocks; the module's docstring has the proof.

    Parameters
    ----------
    columns
        What the function sees: it gets a mapping of each name to an array of float64, NaN where a value is missing.
    function
        `file.py:name` or `module:name`; it returns a number.
    low, high
        l and u; answers are clipped to them.
    blocks
        k. More blocks have less noise, and answers of fewer records each.
    aggregate
        `mean`, or `median`, for neighbours where records come and go.
    seconds, megabytes
        What the function may take on one block; beyond it the block has no answer.

    Notes
    -----
    `error_bound` is about the mean of the answers, not about the function of the whole table, for which blocks may be
    biased. Runs where processes can be forked.

    References
    ----------
    Nissim, Raskhodnikova & Smith 2007; Mohan, Thakurta, Shi, Song & Culler 2012, GUPT.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> statistic = SampleAndAggregate(("age",), "own.py:slope", low=-1, high=1, blocks=50)
    >>> bound = statistic.error_bound(Domain.coded({"age": 100}), 0, PureDP(1.0), Neighbours.ADD_REMOVE, beta=0.05)
    >>> round(bound, 3)
    0.12
    """

    columns: tuple[str, ...]
    function: str
    low: float
    high: float
    blocks: int = 50
    aggregate: Literal["mean", "median"] = "mean"
    seconds: float = 10.0
    megabytes: int = 4096
    name: ClassVar[str] = "sample-and-aggregate"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`. The function is looked for, and not run."""
        if not isinstance(self.columns, tuple) or not self.columns:
            raise InvalidInput(f"columns must be a tuple of names, got {self.columns!r}")
        for name in self.columns:
            Grid.of(domain, name)
        if real("low", self.low) >= real("high", self.high):
            raise InvalidInput(f"low must be below high, got {self.low:g} and {self.high:g}")
        if not math.isfinite(self.high - self.low):
            raise InvalidInput(f"high - low must be a finite number, got {self.low:g} and {self.high:g}")
        whole("blocks", self.blocks, least=1)
        whole("megabytes", self.megabytes, least=64)
        positive("seconds", self.seconds)
        place, _, called = str(self.function).rpartition(":")
        if not called or (place.endswith(".py") and not Path(place).is_file()):
            raise InvalidInput(f"the function must be file.py:name or module:name, got {self.function!r}")
        if not hasattr(os, "fork"):
            raise InvalidInput("sample-and-aggregate runs where processes can be forked")
        if self.aggregate == "median":
            if neighbours is Neighbours.REPLACE_ONE:
                raise InvalidInput(
                    "the median of blocks takes add-remove neighbours: a replaced record moves two blocks"
                )
            Smoothing.of(cost)
        elif self.aggregate == "mean":
            self._law(cost, neighbours)
        else:
            raise InvalidInput(f"aggregate must be 'mean' or 'median', got {self.aggregate!r}")

    @property
    def _called(self) -> str:
        """The function without the folder that it is in."""
        return Path(self.function).name

    def to_json(self) -> dict[str, Any]:
        """The parameters, as an estimate lists them.

        Returns
        -------
        dict
            By name; of the function without the folder that it is in, which is the holder's own.
        """
        return asdict(self) | {"function": self._called}

    def _moved(self, cost: Cost, neighbours: Neighbours) -> int:
        """The sensitivity of the sum of the answers in steps: Δ₁ under pure ε, else Δ₂²."""
        return sensitivity_of_one(STEPS * moves(neighbours), cost)

    def _law(self, cost: Cost, neighbours: Neighbours) -> Noise:
        return calibrated(self._moved(cost, neighbours), cost)[0]

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        answers = self.answers(private)
        if self.aggregate == "mean":
            return self._mean(private, answers, cost)
        return self._median(private, answers, cost)

    def answers(self, private: PrivateColumns) -> Ints:
        """The answers of all blocks. Private.

        Parameters
        ----------
        private : PrivateColumns
            The columns.

        Returns
        -------
        ndarray of int, shape (k,)
            One for each block, in steps of the grid of answers.
        """
        grids = [Grid.of(private.domain, name) for name in self.columns]
        codes = np.stack([private.codes(name) for name in self.columns])
        block = private.noise.labels(codes.shape[1], self.blocks)
        order = np.lexsort((*codes, block))
        cuts = np.searchsorted(block[order], np.arange(1, self.blocks))
        frames = []
        for part in np.split(codes[:, order], cuts, axis=1):
            pairs = zip(grids, part, strict=True)
            frames.append({g.name: np.where(row < 0, np.nan, g.low + g.step * row) for g, row in pairs})
        found = run_on_blocks(self.function, frames, self.seconds, self.megabytes * _MEGABYTE)
        middle = (self.low + self.high) / 2
        clipped = np.clip(np.where(np.isfinite(found), found, middle), self.low, self.high)
        return np.rint((clipped - self.low) / (self.high - self.low) * STEPS).astype(np.int64)

    def _value(self, steps: float) -> float:
        return min(max(self.low + (self.high - self.low) * steps / STEPS, self.low), self.high)

    def _mean(self, private: PrivateColumns, answers: Ints, cost: Cost) -> EstimateResult:
        exact = np.array([answers.sum()])
        noisy, law = private.measure("sum of the answers", exact, self._moved(cost, private.neighbours), cost)
        reach = law.largest_of(1, BETA) / self.blocks
        mean = int(noisy[0]) / self.blocks
        return EstimateResult(
            self._value(mean),
            (self._value(mean - reach), self._value(mean + reach)),
            f"the sum is within the reach of its noise, beta {BETA:g}",
            f"the mean of {self._called} over {self.blocks} random blocks, clipped to {self.low:g}..{self.high:g}",
            (Measured("sum of the answers, in steps", int(noisy[0]), spelled(law)),),
            typical=math.sqrt(law.variance) / self.blocks / STEPS * (self.high - self.low),
            records=math.inf,
        )

    def _median(self, private: PrivateColumns, answers: Ints, cost: Cost) -> EstimateResult:
        smoothing, found = Smoothing.of(cost), Numbers.listed(answers, STEPS + 1)
        smooth = smooth_sensitivity(Median(), found, self.blocks, smoothing, Neighbours.REPLACE_ONE)
        draw = private.perturb if smoothing.noise == "Laplace" else private.perturb_widely
        exact = Median().value(found, Neighbours.REPLACE_ONE)
        noisy = draw("median of the answers", exact, smoothing.scale(smooth), cost)
        return EstimateResult(
            within((self._value(noisy),) * 2, self.low, self.high)[0],
            None,
            "none: how wide the noise is depends on the table",
            f"the median of {self._called} over {self.blocks} random blocks, clipped to {self.low:g}..{self.high:g}",
            (
                Measured(
                    "median of the answers, in steps", noisy, f"discrete {smoothing.noise}, a scale of the table's"
                ),
            ),
        )

    def error_bound(
        self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float
    ) -> float | None:
        """See `Statistic`; in the unit of answers, of their mean; a median has no theorem about all tables."""
        if self.aggregate == "median":
            return None
        error = self._law(cost, neighbours).largest_of(1, beta) / self.blocks / STEPS
        return (self.high - self.low) * (error + 1 / STEPS) if error < 1 else math.inf


def run_on_blocks(function: str, frames: Sequence[dict[str, Floats]], seconds: float, size: int) -> Floats:
    """The function's value on each frame, (k,) floats; NaN where it has none. See `block_runner`.

    Where the runner dies at a block, another goes on with the next: no block takes an answer from the others.
    """
    found = np.full(len(frames), np.nan)
    done = 0
    while done < len(frames):
        answers = _answers(function, frames[done:], seconds, size)
        found[done : done + len(answers)] = answers
        done += len(answers) + 1
    return found


def _answers(function: str, frames: Sequence[dict[str, Floats]], seconds: float, size: int) -> Floats:
    """The answers of one runner, (at most k,): fewer where it died at the one that follows."""
    told: Any = {"function": function, "seconds": seconds, "bytes": size}
    sent = bytearray(json.dumps(told).encode() + b"\n")
    for frame in frames:
        archive = io.BytesIO()
        np.savez(archive, allow_pickle=False, **frame)
        sent += struct.pack("<q", archive.tell()) + archive.getvalue()
    done = subprocess.run(
        [sys.executable, "-m", "qrelease.statistics.block_runner"],
        input=bytes(sent),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        start_new_session=True,  # signals to its group do not reach this process
    )
    whole_answers = min(len(done.stdout) // 8, len(frames))
    return np.frombuffer(done.stdout[: 8 * whole_answers], "<f8")
