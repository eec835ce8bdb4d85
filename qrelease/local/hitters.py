"""Server for long texts: the common ones, found by extending common prefixes."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import final

import numpy as np
import numpy.typing as npt
from scipy import special

from qrelease._util.validate import whole
from qrelease.errors import InvalidInput, TooLarge
from qrelease.local.frequencies import LocalHashingServer
from qrelease.local.server import Batch, LocalEstimate, Server
from qrelease.local.texts import Text

_MAX_CANDIDATES = 1 << 18
_MISTAKE = 0.05


@final
class TextServer(Server[Text]):
    """Estimates the shares of the common texts: `value` and the ends of `interval` map texts to shares."""

    @cached_property
    def _hashing(self) -> LocalHashingServer:
        return LocalHashingServer(self.client.hashing)

    def _levels(self, batch: Batch) -> list[npt.NDArray[np.uint64]]:
        """What was reported by the hash, of each length of prefixes."""
        codes, size = batch.codes, np.uint64(self.client.hashing.size)
        level = (codes // size).astype(np.uint16)
        found = [codes[level == i] - np.uint64(i) * size for i in range(self.client.levels)]
        if not all(len(part) for part in found):
            raise InvalidInput("nobody reported on one of the lengths of prefixes: more reports are needed")
        return found

    def _estimate(self, batch: Batch) -> LocalEstimate:
        return self.find(batch)

    def find(self, batch: Batch, *, most: int = 64) -> LocalEstimate:
        """The texts that stand out from the noise, with their shares.

        A prefix is kept if its estimate is above that of all prefixes that nobody has, but for a probability of 5 % a
        level, and among the `most` largest. Texts rarer than the noise of a level are not found.

        Parameters
        ----------
        batch
            Reports that were read.
        most
            Prefixes that are kept of each level.
        """
        whole("most", most, least=1)
        prefixes, found = [""], LocalEstimate({}, ({}, {}), {}, len(batch))
        for level, part in enumerate(self._levels(batch)):
            candidates, rows, columns = self._extended(prefixes, level)
            if not candidates:
                break
            upper = np.array([self.client.beginning(level, p) for p in prefixes], np.uint64)
            supports = self._hashing.supports_below(part, upper, self.client.parts)[rows, columns]
            least = self._noise(len(part)) * -special.ndtri(_MISTAKE / len(candidates))
            order = np.argsort(-supports, kind="stable")[:most]
            shares = self._hashing.from_supports(supports[order], len(part))
            kept = [i for i in range(len(order)) if shares.value[i] > least]
            prefixes = [candidates[order[i]] for i in kept]
            value, low, high, deviation = (
                dict(zip(prefixes, each[kept].tolist(), strict=True))
                for each in (shares.value, *shares.interval, shares.deviation)
            )
            found = LocalEstimate(value, (low, high), deviation, len(batch))
        return found

    def _noise(self, n: int) -> float:
        """The standard deviation of the share of a prefix that nobody has."""
        return float(np.sqrt(float(self._hashing.variance(0)) / n))

    def _extended(self, prefixes: list[str], level: int) -> tuple[list[str], list[int], list[int]]:
        """All texts of this level's length that begin with one of these prefixes, with which one and by which part.

        One that has ended stays as it is.
        """
        before = self.client.prefix_length(level - 1) if level else 0
        more = self.client.prefix_length(level) - before
        if len(prefixes) * (len(self.client.alphabet) + 1) ** more > _MAX_CANDIDATES:
            raise TooLarge(f"there are more than {_MAX_CANDIDATES:,} candidates: take a smaller step, or keep fewer")
        candidates, rows, columns = [], [], []
        endings = ["".join(c) for count in range(more + 1) for c in product(self.client.alphabet, repeat=count)]
        parts = [self.client.part(level, before * self.client.alphabet[0] + ending) for ending in endings]
        for row, prefix in enumerate(prefixes):
            grown = len(endings) if len(prefix) == before else 1  # of what has ended, the first alone: nothing more
            candidates += [prefix + ending for ending in endings[:grown]]
            rows += [row] * grown
            columns += parts[:grown]
        return candidates, rows, columns

    @property
    def reach(self) -> float:
        """The reach of the share of a found text, for the reports on its length. Which texts are found has no bound."""
        return self._hashing.reach

    def rests_on(self, reports: Batch | int) -> int:
        """The reports on the length that has fewest, of a batch."""
        if not isinstance(reports, Batch):
            raise InvalidInput("how far liars move a share depends on who reported on what: give the batch of reports")
        return min(map(len, self._levels(reports)))
