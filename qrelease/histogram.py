"""`Histogram`: the hypothesis y over the whole universe, kept as a product of factors on marginals."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease import kernels
from qrelease.cover import Axes, Cover
from qrelease.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.workload import Workload

Floats = npt.NDArray[np.float64]

MAX_CELLS = 1 << 27
"""A histogram of this many cells takes a gibibyte."""

_SPARE = 0.8  # of the free memory may be asked for


def check_size(domain: Domain, sets: Sequence[Axes] = (), answers: int = 0) -> None:
    """Raise `TooLarge` if a histogram over the domain with the marginals on `sets` would not fit; allocate nothing.

    answers  queries of a workload whose answers are to be held beside it, in a handful of vectors
    """
    cells = domain.size
    advice = "release fewer columns (--columns), use coarser bins, or answers alone (--mechanism gaussian)"
    if cells > MAX_CELLS:
        raise TooLarge(
            f"the universe has {_approximate(cells)} cells and a histogram holds at most {MAX_CELLS:,}; {advice}"
        )
    needed = 8 * (cells + Cover.choose(domain.shape, sets).scratch_cells + 6 * answers)
    free = _free_memory()
    if needed > _SPARE * free:
        raise TooLarge(
            f"the universe has {_approximate(cells)} cells: about {needed / 2**30:.1f} GiB are needed and"
            f" {free / 2**30:.1f} GiB are free; {advice}"
        )


@final
class Histogram:
    """A hypothesis over a domain: y = total · Π_S f_S / Z, one positive factor a cell of each marginal S.

    Multiplicative weights by queries on marginals never leaves this family, so the factors say everything: they are
    what a release stores, and the dense array is rebuilt from them in one pass. It starts uniform. A hypothesis is a
    function of public output only, so fast floating point is fine here.

    total       the sum of y, a count
    marginals   all marginals on `sets` of y, flat as `Cover` gives them, counts
    """

    has_table = True

    def __init__(self, domain: Domain, sets: Sequence[Axes], total: float) -> None:
        """Uniform, with the given total; `TooLarge` if it does not fit."""
        check_size(domain, sets)
        self.domain = domain
        self.total = float(total)
        self._cover = Cover.choose(domain.shape, sets)
        self._weights = np.full(domain.size, 1.0)
        self._mass = float(domain.size)  # the sum of the weights; y = weights · total / mass
        self._logs = np.zeros(self._cover.offsets[-1])
        self._slices = dict(zip(sets, map(slice, self._cover.offsets, self._cover.offsets[1:]), strict=False))
        self._raw = self._cover.marginals(self._weights)

    @property
    def sets(self) -> tuple[Axes, ...]:
        """The marginals whose factors it can change."""
        return self._cover.sets

    @property
    def marginals(self) -> Floats:
        """All marginals on `sets`, flat, as counts."""
        return self._raw * (self.total / self._mass)

    def slice(self, axes: Axes) -> slice:
        """Where the marginal on `axes` lies in the flat vector."""
        return self._slices[axes]

    def multiply(self, logs: Floats) -> None:
        """Scale by e^logs, one number for each cell of each marginal on `sets`, flat; the total stays.

        One pass over the universe, which also fills the new marginals.
        """
        factors = np.exp(logs)
        factors[self._slices[self.sets[0]]] *= self.domain.size / self._mass  # keeps the mass near |X|
        self._raw = self._cover.scale(self._weights, factors)
        self._mass = float(self._raw[self._slices[self.sets[0]]].sum())
        self._logs += logs

    @property
    def values(self) -> Floats:
        """y itself, (|X|,) counts: a copy as large as the universe."""
        return self._weights * (self.total / self._mass)

    def answer(self, workload: Workload) -> Floats:
        """Answers to any workload over the same domain, (k,) counts. Raises `InvalidInput` for another domain."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this histogram")
        if workload.sets == self.sets[: len(workload.sets)]:
            marginals = self.marginals[: workload.cover.offsets[-1]]
        else:
            marginals = workload.cover.marginals(self._weights) * (self.total / self._mass)
        return workload.answers(marginals)

    def sample(self, rows: int, rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
        """Codes of synthetic records, one array (rows,) a column, in random order.

        Systematic sampling: a cell that expects 2.3 records gets 2 or 3, so the table lies closer to the histogram than
        independent draws would. Post-processing: `rng` is an ordinary generator and no privacy rests on it.
        """
        cells = np.empty(rows, np.int64)
        kernels.systematic(self._weights, self._mass, rng.random(), cells)
        rng.shuffle(cells)
        return [np.asarray(c) for c in np.unravel_index(cells, self.domain.shape)]

    def to_json(self) -> dict[str, Any]:
        """The factors' logarithms by marginal (those that were ever changed), and the total."""
        names = self.domain.names
        marginals = self.marginals
        factors = []
        for s in self.sets:
            where = self._slices[s]
            logs = self._logs[where]
            if logs.any():
                # A constant in a factor means nothing; without its mean under y, no product of them can overflow.
                logs = logs - logs @ marginals[where] / self.total
                factors.append({"columns": [names[a] for a in s], "logs": logs.tolist()})
        return {"type": "histogram", "total": self.total, "factors": factors}

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any]) -> Histogram:
        """The histogram that `to_json` described, equal up to rounding; one pass over the universe."""
        factors = content["factors"]
        sets = [domain.axes(f["columns"]) for f in factors] or [(0,)]
        histogram = cls(domain, sets, content["total"])
        if factors:
            logs = np.concatenate([np.array(f["logs"], np.float64) for f in factors])
            histogram.multiply(logs)
        return histogram


def _approximate(cells: int) -> str:
    return f"{cells:,}" if cells < 10**12 else f"2^{cells.bit_length() - 1}"


def _free_memory() -> int:
    """Bytes this process may still take: the kernel's estimate where there is one."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 8 << 30
