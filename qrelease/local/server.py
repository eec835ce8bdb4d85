"""What a collector does with reports: reads them strictly, estimates, and says how far liars can move an estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

import numpy as np
import numpy.typing as npt
from scipy import special

from qrelease._util.typing import Floats
from qrelease._util.validate import whole
from qrelease.errors import InvalidInput
from qrelease.local.client import Client, Report

ReportCodes = npt.NDArray[np.uint64]
Octets = npt.NDArray[np.uint8]

C = TypeVar("C", bound=Client)

CONFIDENCE = 0.95
"""The probability with which an interval holds what it estimates, for each number by itself."""

_COUNTED = 1 << 12  # different reports, up to which few are counted too
_TERMS = 4  # bytes of the fingerprint


@final
@dataclass(frozen=True, eq=False)
class LocalEstimate:
    """What reports say, unbiased, with an interval for each number.

    Attributes
    ----------
    value : float or array
        In the units that the server states.
    interval : tuple
        The lower and upper ends, shaped as `value`: each holds the truth with probability 0.95.
    deviation : float or array
        The estimated standard deviation of each value.
    reports : int
        How many reports it rests on.
    """

    value: Any
    interval: tuple[Any, Any]
    deviation: Any
    reports: int


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """Reports that were read and found right, ready for estimating.

    Attributes
    ----------
    octets : array (n, width)
        The numbers of the reports, big-endian.
    """

    terms: str
    octets: Octets

    def __len__(self) -> int:
        return len(self.octets)

    @property
    def codes(self) -> ReportCodes:
        """The numbers, (n,), where they are below 2^64."""
        width = self.octets.shape[1]
        if width > 8:
            raise InvalidInput(f"numbers of {width} bytes do not fit into 64 bits")
        wide = np.zeros((len(self.octets), 8), np.uint8)
        wide[:, 8 - width :] = self.octets
        return wide.view(">u8").reshape(-1).astype(np.uint64)


@dataclass(frozen=True, eq=False)
class Server(ABC, Generic[C]):
    """The collector's half of a mechanism. It knows the public terms, and sees nothing but reports.

    Parameters
    ----------
    client
        The mechanism on people's devices, of which only the public parameters are read.
    """

    client: C

    @final
    def read(self, octets: bytes) -> Batch:
        """Many compact reports, one after another with nothing in between.

        Raises
        ------
        InvalidInput
            For a broken length, and for a report in other terms or with a number too large; it names the first one.
        """
        if not isinstance(octets, bytes | bytearray | memoryview):
            raise InvalidInput(f"reports are bytes, got {type(octets).__name__}")
        octets, width = bytes(octets), self.client.width
        if len(octets) % (_TERMS + width):
            raise InvalidInput(f"reports in these terms have {_TERMS + width} bytes each, got {len(octets)} in all")
        table = np.frombuffer(octets, np.uint8).reshape(-1, _TERMS + width)
        expected = np.frombuffer(bytes.fromhex(self.client.terms), np.uint8)
        foreign = np.flatnonzero((table[:, :_TERMS] != expected).any(axis=1))
        if len(foreign):
            got = table[foreign[0], :_TERMS].tobytes().hex()
            raise InvalidInput(f"report {foreign[0] + 1} is in the terms {got}, expected {self.client.terms}")
        batch = Batch(self.client.terms, np.ascontiguousarray(table[:, _TERMS:]))
        beyond = np.flatnonzero(_above(batch.octets, self.client.size - 1))
        if len(beyond):
            raise InvalidInput(f"report {beyond[0] + 1} has a number that is not below {self.client.size}")
        self._check_used(batch)
        return batch

    def _check_used(self, batch: Batch) -> None:
        """`InvalidInput` for a number that no report has: what it is worth is outside of what `reach` allows for."""
        if not self.client.unused:
            return
        # The ranges are ascending and apart, so that a number is in one where an odd number of ends are below it.
        ends = np.array(self.client.unused, np.uint64).reshape(-1)
        lies = np.flatnonzero(np.searchsorted(ends, batch.codes, side="right") % 2)
        if len(lies):
            raise InvalidInput(f"report {lies[0] + 1} has a number that no report in these terms has")

    @final
    def gather(self, reports: Iterable[Report]) -> Batch:
        """Single reports as a batch; each is checked as in `read`."""
        single = list(reports)
        if not all(isinstance(report, Report) for report in single):
            raise InvalidInput("there must be reports only, got another type")
        return self.read(b"".join(report.to_bytes() for report in single))

    @final
    def from_codes(self, codes: npt.NDArray[Any]) -> Batch:
        """A batch of reports with these numbers, (n,); for simulations. `InvalidInput` for numbers too large."""
        numbers = np.asarray(codes)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or (numbers < 0).any():
            raise InvalidInput("the numbers of reports must be one row of integers, none below 0")
        wide = numbers.astype(">u8").view(np.uint8).reshape(len(numbers), 8)
        width = self.client.width
        if len(numbers) and int(numbers.max()) >= self.client.size:
            raise InvalidInput(f"the numbers of reports must be below {self.client.size}")
        octets = np.zeros((len(numbers), width), np.uint8)
        taken = min(width, 8)
        octets[:, width - taken :] = wide[:, 8 - taken :]
        batch = Batch(self.client.terms, octets)
        self._check_used(batch)
        return batch

    @final
    def estimate(self, reports: Batch | Iterable[Report]) -> LocalEstimate:
        """Estimate what the reports are about.

        Parameters
        ----------
        reports
            Single reports, or the batch that `read` or `gather` made of them.

        Returns
        -------
        Estimate
            Unbiased, with intervals that hold the truth of the people who reported, and of the population that they
            are a random sample of, with probability 0.95 each.

        Raises
        ------
        InvalidInput
            For a report in other terms, and for none at all.
        """
        batch = reports if isinstance(reports, Batch) else self.gather(reports)
        if batch.terms != self.client.terms:
            raise InvalidInput(f"the reports are in the terms {batch.terms}, expected {self.client.terms}")
        if not len(batch):
            raise InvalidInput("there is no report to estimate from")
        return self._estimate(batch)

    @abstractmethod
    def _estimate(self, batch: Batch) -> LocalEstimate:
        """`estimate` of at least one report in these terms."""

    @property
    @abstractmethod
    def reach(self) -> Any:
        """How far one report can move r times an estimate that is a mean of r reports: the spread of what they add."""

    def rests_on(self, reports: Batch | int) -> Any:
        """How many reports each number of the estimate is a mean of, shaped as its value or one for all."""
        return len(reports) if isinstance(reports, Batch) else reports

    @final
    def moved_by(self, liars: int, reports: Batch | int) -> Any:
        """How far so many liars among the reports can move the estimate from what their true reports would give.

        It is `reach` · min(1, `liars` / r), shaped as the estimate's value, for an estimate that is a mean of r
        reports, and is reached in the worst case. Where each person answers one of several questions, a liar may also
        choose which: of the r reports to one question a are lies, and b of the liars' true reports would have been to
        it, so that with h = r - a honest ones the two means differ by at most reach · max(a/(h + a), b/(h + b)), and a
        and b are at most `liars`. A liar who follows the protocol with a wrong value moves it by no more than one
        person's value can.

        Parameters
        ----------
        liars
            How many of the reports may be anything.
        reports
            The batch that was read, lies among it; or how many there are, where all are to one question.

        Raises
        ------
        InvalidInput
            For more liars than reports, and for a number of reports where the bound depends on the batch.
        """
        n = whole("reports", len(reports) if isinstance(reports, Batch) else reports, least=1)
        k = whole("liars", liars, least=0)
        if k > n:
            raise InvalidInput(f"there cannot be more liars than reports, got {k} and {n}")
        rests = self.rests_on(reports)
        share = k / max(rests, 1) if isinstance(rests, int) else k / np.maximum(rests, 1)
        return self.reach * (min(1.0, share) if isinstance(share, float) else np.minimum(1.0, share))

    def _counted(self, batch: Batch) -> npt.NDArray[np.int64] | None:
        """How often each number was reported, (size,); None where that would be longer than the reports are."""
        if self.client.size > max(_COUNTED, len(batch)):
            return None
        return np.bincount(batch.codes.astype(np.int64), minlength=self.client.size)


def _above(octets: Octets, most: int) -> npt.NDArray[np.bool_]:
    """Which big-endian numbers, (n, width), are above `most`, of as many bytes."""
    above = np.zeros(len(octets), np.bool_)
    limit = most.to_bytes(octets.shape[1], "big")
    if octets.shape[1] and limit[0] == 0xFF and len(set(limit)) == 1:
        return above
    tied = np.ones(len(octets), np.bool_)
    for column, byte in zip(octets.T, limit, strict=True):
        above |= tied & (column > byte)
        tied &= column == byte
        if not tied.any():
            break
    return above


def proportion_interval(successes: Floats, n: float) -> tuple[Floats, Floats]:
    """Clopper's and Pearson's interval for probabilities, from so many successes of n.

    It also holds for the mean probability where these differ between people, but for terms far below the error: a sum
    of different coins is less spread than one of equal coins (Hoeffding 1956).
    """
    tail = (1 - CONFIDENCE) / 2
    s = np.asarray(successes, np.float64)
    low = np.where(s > 0, special.betaincinv(np.maximum(s, 0.5), n - s + 1, tail), 0.0)
    high = np.where(s < n, special.betaincinv(s + 1, np.maximum(n - s, 0.5), 1 - tail), 1.0)
    return low, high


def normal_estimate(mean: Any, variance: Any, n: int) -> LocalEstimate:
    """A mean of n contributions with this variance each, and its normal interval."""
    deviation = np.sqrt(np.maximum(variance, 0.0) / n)
    width = special.ndtri(0.5 + CONFIDENCE / 2) * deviation
    return LocalEstimate(mean, (mean - width, mean + width), deviation, n)
