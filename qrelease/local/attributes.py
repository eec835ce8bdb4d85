"""Servers for several questions of which each person answers one: each is estimated from those who answered it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.measurement import Measurement
from qrelease.local.means import MeanServer
from qrelease.local.question_servers import serve_question
from qrelease.local.server import Batch, LocalEstimate, Server
from qrelease.local.several import Marginals, OneOf, Several
from qrelease.noise.distributions import Noise
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group

S = TypeVar("S", bound=Several)


@dataclass(frozen=True, eq=False)
class SeveralServer(Server[S]):
    """Estimates all questions, one after another, each from the nⱼ reports that answer it.

    nⱼ is what it came to be, and not the n/m that it is expected to be: then the estimate is a mean, and the chance of
    who answered what adds less noise.
    """

    @cached_property
    def servers(self) -> tuple[Server[Any], ...]:
        """The server of each question."""
        return tuple(serve_question(q) for q in self.client.questions)

    def split(self, batch: Batch) -> list[Batch]:
        """The reports to each question, in its own terms."""
        if self.client.width > 8:
            raise InvalidInput("reports of more than 64 bits cannot be told apart by question")
        codes = batch.codes
        which = np.searchsorted(np.array(self.client.offsets[1:], np.uint64), codes, side="right")
        order = np.argsort(which, kind="stable")
        ends = np.cumsum(np.bincount(which, minlength=len(self.servers)))[:-1]
        parts = np.split(codes[order], ends)
        begins = self.client.offsets
        return [s.from_codes(p - np.uint64(b)) for s, p, b in zip(self.servers, parts, begins, strict=False)]

    def estimates(self, batch: Batch) -> list[LocalEstimate]:
        """One estimate a question. `InvalidInput` for a question that nobody answered."""
        parts = self.split(batch)
        empty = [j for j, part in enumerate(parts) if not len(part)]
        if empty:
            raise InvalidInput(f"nobody answered question {empty[0] + 1} of {len(parts)}: more reports are needed")
        return [server.estimate(part) for server, part in zip(self.servers, parts, strict=True)]

    def _estimate(self, batch: Batch) -> LocalEstimate:
        found = self.estimates(batch)
        low, high = (_joined(e.interval[side] for e in found) for side in (0, 1))
        return LocalEstimate(
            _joined(e.value for e in found), (low, high), _joined(e.deviation for e in found), len(batch)
        )

    @property
    def reach(self) -> Floats:
        """The reach of each estimate, for the reports to its question."""
        return _joined(s.reach * np.ones(_width(s)) for s in self.servers)

    def rests_on(self, reports: Batch | int) -> Floats:
        """The nⱼ of each estimate's question, as they came to be: from a batch alone."""
        if not isinstance(reports, Batch):
            raise InvalidInput("how far liars move an estimate depends on who answered what: give the batch of reports")
        parts = zip(self.servers, self.split(reports), strict=True)
        return _joined(len(part) * np.ones(_width(server)) for server, part in parts)


def _width(server: Server[Any]) -> int:
    return 1 if isinstance(server, MeanServer) else int(server.client.inputs)


def _joined(parts: Any) -> Floats:
    return np.concatenate([np.atleast_1d(p) for p in parts])


@final
class OneOfServer(SeveralServer[OneOf]):
    """The collector's half of `OneOf`."""


@final
class MarginalsServer(SeveralServer[Marginals]):
    """The collector's half of `Marginals`. `estimate` gives shares of cells; `measurements` is for synthetic tables."""

    def measurements(self, batch: Batch, domain: Domain) -> list[Measurement]:
        """The marginals as noisy measurements, in counts: what `Estimates.of(domain, …, records=n)` takes.

        The number of reports is public. What a measurement has for a variance is the mean over its cells, of the noise
        and of who was asked; the noise is a sum of many reports', normal in the limit.

        Raises
        ------
        InvalidInput
            For a domain of another shape, and for a set of columns that nobody reported on.
        """
        if domain.shape != self.client.shape:
            raise InvalidInput(f"the domain has the shape {domain.shape}, and the reports {self.client.shape}")
        n, found = len(batch), []
        for axes, estimate in zip(self.client.sets, self.estimates(batch), strict=True):
            scale = n * float(np.sqrt(np.mean(np.square(estimate.deviation))))
            values: npt.NDArray[np.float64] = n * estimate.value
            found.append(Measurement(Group(axes, Cells(values.size)), values, Noise("sum of reports", scale)))
        return found
