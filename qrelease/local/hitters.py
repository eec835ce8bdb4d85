"""Server for long texts: the common ones, found by extending common prefixes."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import final

import numpy as np
from scipy import special

from qrelease._util.validate import whole
from qrelease.errors import InvalidInput, TooLarge
from qrelease.local.frequencies import LocalHashingServer
from qrelease.local.server import Batch, LocalEstimate, Server
from qrelease.local.texts import Text

_MOST_CANDIDATES = 1 << 16
_MISTAKE = 0.05


@final
class TextServer(Server[Text]):
    """Estimates the shares of the common texts: `value` and the ends of `interval` map texts to shares."""

    @cached_property
    def _hashing(self) -> LocalHashingServer:
        return LocalHashingServer(self.client.hashing)

    def _levels(self, batch: Batch) -> list[Batch]:
        size = np.uint64(self.client.hashing.size)
        level, codes = np.divmod(batch.codes, size)
        found = [self._hashing.from_codes(codes[level == i]) for i in range(self.client.levels)]
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
        prefixes, found = [""], None
        for level, part in enumerate(self._levels(batch)):
            candidates = self._extended(prefixes, level)
            if not candidates:
                break
            marks = np.array([self.client.fingerprint(level, c) for c in candidates], np.uint64)
            found = self._hashing.estimate_of(part, marks)
            least = self._noise(len(part)) * -special.ndtri(_MISTAKE / len(candidates))
            order = np.argsort(-found.value)[:most]
            kept = [int(i) for i in order if found.value[i] > least]
            prefixes = [candidates[i] for i in kept]
            value = {candidates[i]: float(found.value[i]) for i in kept}
            ends = [{candidates[i]: float(found.interval[side][i]) for i in kept} for side in (0, 1)]
            spread = {candidates[i]: float(found.deviation[i]) for i in kept}
        if not prefixes or found is None:
            return LocalEstimate({}, ({}, {}), {}, len(batch))
        return LocalEstimate(value, (ends[0], ends[1]), spread, len(batch))

    def _noise(self, n: int) -> float:
        """The standard deviation of the share of a prefix that nobody has."""
        return float(np.sqrt(float(self._hashing.variance(0)) / n))

    def _extended(self, prefixes: list[str], level: int) -> list[str]:
        """All texts of this level's length that begin with one of these prefixes; one that has ended stays as it is."""
        before = self.client.prefix_length(level - 1) if level else 0
        more = self.client.prefix_length(level) - before
        if len(prefixes) * (len(self.client.alphabet) + 1) ** more > _MOST_CANDIDATES:
            raise TooLarge(f"there are more than {_MOST_CANDIDATES:,} candidates: take a smaller step, or keep fewer")
        found = [p for p in prefixes if len(p) < before]
        open_ones = [p for p in prefixes if len(p) == before]
        for count in range(more + 1):
            found += [p + "".join(c) for p in open_ones for c in product(self.client.alphabet, repeat=count)]
        return found

    @property
    def reach(self) -> float:
        """The reach of the share of a found text, for the reports on its length. Which texts are found has no bound."""
        return self._hashing.reach

    def rests_on(self, reports: Batch | int) -> int:
        """The reports on the length that has fewest, of a batch."""
        if not isinstance(reports, Batch):
            raise InvalidInput("how far liars move a share depends on who reported on what: give the batch of reports")
        return min(map(len, self._levels(reports)))
