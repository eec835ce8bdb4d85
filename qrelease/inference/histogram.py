"""`Histogram`: the hypothesis y over the whole universe, kept as a product of factors on marginals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.parallel import aligned, in_parallel
from qrelease._util.texts import readable
from qrelease._util.typing import Axes, Floats, Reals
from qrelease.data.domain import Domain
from qrelease.data.marginals import kernels
from qrelease.data.marginals.plan import MarginalPlan
from qrelease.data.marginals.support import Support
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference import controlled_rounding
from qrelease.inference.sampling import systematic
from qrelease.queries.families import Queries, Vectors
from qrelease.queries.workload import Group, Workload

DOUBLES = 1 << 27
"""A histogram of up to so many cells, a gibibyte, is float64 unless it is told otherwise; a larger one float32."""

MAX_HISTOGRAM_CELLS = 1 << 28

_ROWS = 1 << 16  # records whose codes are worked out at a time

_DRIFT = 2.0**40  # the mean weight by which the weights are scaled back to a mean of 1

_MAX_EXPONENT = 700.0  # the largest exponent: e^±700 is a float64
_STORED_EXPONENT = 300.0  # of a factor that is read: several of them meet in a cell
_STORED_STEPS = 16  # in which factors are read, each a pass over the universe

_SMALL = 1 << 12  # cells of a query whose support is kept, at some 40 bytes each
_KEPT = 256  # such supports

_FACTOR = 64  # bytes of a factor, one a cell of a marginal, on its way into the manifest


def precision(domain: Domain) -> npt.DTypeLike:
    """The type of a histogram's cells, unless it is told otherwise."""
    return np.float64 if domain.size <= DOUBLES else np.float32


def check_size(
    domain: Domain,
    sets: Sequence[Axes] = (),
    answers: int = 0,
    dtype: npt.DTypeLike | None = None,
    *,
    ahead: bool = True,
) -> None:
    """Raise `TooLarge` if a histogram over the domain with the marginals on `sets` would not fit; allocate nothing.

    answers  queries of a workload whose answers are to be held beside it, in a handful of vectors
    dtype    of the histogram's cells, by default its `precision`
    ahead    as in `memory.check`
    """
    cells = domain.size
    advice = "release fewer columns (--columns), use coarser bins, or take --mechanism records"
    if cells > MAX_HISTOGRAM_CELLS:
        raise TooLarge(
            f"the universe has {readable(cells)} cells and a histogram holds at most {MAX_HISTOGRAM_CELLS:,}; {advice}"
        )
    needed = np.dtype(dtype or precision(domain)).itemsize * cells + memory.ANSWER_BYTES * answers
    needed += 8 * MarginalPlan.choose(domain.shape, sets).scratch_cells
    needed += _FACTOR * sum(domain.cells(s) for s in sets)
    memory.check(needed, f"the universe has {readable(cells)} cells", advice, ahead=ahead)


def copy_fits(cells: Reals) -> None:
    """Raise `TooLarge` unless there is memory for another vector of so many cells."""
    memory.check(cells.nbytes, f"a copy of {cells.size:,} cells", "answer queries instead", ahead=False)


@final
class Histogram:
    """A hypothesis over a domain: y = total · Π_S f_S / Z, one positive factor a cell of each marginal S.

    Multiplicative weights by queries on marginals never leaves this family, so the factors say everything: they are
    what a release stores, and the dense array is rebuilt from them in one pass. It starts uniform. A hypothesis is a
    function of public output only, so fast floating point is fine here.

    `multiply` changes all marginals at once, in one pass over the universe that also gives the new ones. `update` makes
    the step of a few queries on any columns, and touches only the cells that they see.

    total   the sum of y, a count
    dtype   of its cells, float64 or float32, by default `precision`; sums and marginals are float64 either way
    """

    has_table = True

    def __init__(self, domain: Domain, sets: Sequence[Axes], total: float, dtype: npt.DTypeLike | None = None) -> None:
        """Uniform, with the given total; `TooLarge` if it does not fit.

        Raises `InvalidInput` for a total that is negative or no number, and for sets of unknown columns.
        """
        if not 0 <= total < math.inf:
            raise InvalidInput(f"the total must be a number from 0, got {total}")
        cells = np.dtype(dtype or precision(domain))
        if cells not in (np.float64, np.float32):
            raise InvalidInput(f"a histogram's cells are float64 or float32, got {cells}")
        check_size(domain, sets, dtype=cells, ahead=False)
        self.domain = domain
        self.total = float(total)
        self._cover = MarginalPlan.choose(domain.shape, sets)
        self._slices = dict(zip(sets, map(slice, self._cover.offsets, self._cover.offsets[1:]), strict=False))
        # y = weights · total / mass: it is normalised when it is read, not when it is changed.
        self._weights: Reals = aligned(domain.size, cells)
        in_parallel(lambda _, cut: self._weights[cut].fill(1), domain.size, domain.size)
        self._mass = float(domain.size)
        self._summed = self._mass  # the mass when it was last summed up afresh
        self._logs = np.zeros(self._cover.offsets[-1])
        self._others: dict[Axes, Floats] = {}  # the logarithms of factors on further marginals
        self._raw: Floats | None = None  # the weights' marginals, if the weights have not changed since

    @property
    def sets(self) -> tuple[Axes, ...]:
        """The marginals whose factors it can change."""
        return self._cover.sets

    @property
    def marginals(self) -> Floats:
        """All marginals on `sets`, flat as `MarginalPlan` orders them, counts. After an update it takes a pass."""
        return self._weighed * (self.total / self._mass)

    @property
    def _weighed(self) -> Floats:
        """The marginals of the weights."""
        return self._read(self._cover.marginals(self._weights)) if self._raw is None else self._raw

    def _read(self, marginals: Floats) -> Floats:
        """Take in the weights' marginals, and with them their sum."""
        self._raw = marginals
        self._mass = self._summed = float(marginals[self._slices[self.sets[0]]].sum())
        return marginals

    @property
    def is_empty(self) -> bool:
        """Whether factors have left no cell that is more than 0."""
        return self._mass == 0

    @property
    def logs(self) -> Floats:
        """The logarithms of the factors on `sets`, flat: all that `multiply` has added up."""
        return self._logs.copy()

    @property
    def centred_logs(self) -> Floats:
        """The same, flat, less what each marginal's are on average under y: a constant in a factor means nothing, and
        without it no product of all of them can overflow.
        """
        weighed, logs = self._weighed, self.logs
        shares = weighed / self._mass  # also where the total is 0
        for where in self._slices.values():
            logs[where] -= logs[where] @ shares[where]
        return logs

    def slice(self, axes: Axes) -> slice:
        """Where the marginal on `axes` lies in the flat vector. `InvalidInput` for one that is not kept."""
        if axes not in self._slices:
            names = ", ".join(self.domain.names[a] for a in axes)
            raise InvalidInput(f"this histogram keeps no marginal of {names}: name it when it is made")
        return self._slices[axes]

    def multiply(self, logs: Floats) -> None:
        """Scale by e^logs, one number for each cell of each marginal on `sets`, flat; the total stays.

        One pass over the universe, which also fills the new marginals. `InvalidInput` for logs that are not so many
        finite numbers.
        """
        if np.shape(logs) != self._logs.shape or not np.isfinite(logs).all():
            raise InvalidInput(
                f"factors need a finite number for each cell of the marginals, {self._logs.shape}, got {np.shape(logs)}"
            )
        factors = np.exp(logs)
        factors[self._slices[self.sets[0]]] *= self.domain.size / self._mass  # keeps the mass near |X|
        self._read(self._cover.scale(self._weights, factors))
        self._logs += logs

    def multiply_in_steps(self, logs: Floats) -> None:
        """As `multiply` of what other steps added up, or another histogram: those of two marginals may cancel out."""
        # What is too large for one step may cancel out; what is too large for a few is out of range.
        steps = min(max(logs.max() / _STORED_EXPONENT, 1.0), _STORED_STEPS)
        for _ in range(math.ceil(steps)):
            self.multiply(logs / math.ceil(steps))

    def update(self, group: Group, logs: npt.ArrayLike) -> None:
        """y ∝ y · e^(Σ_q logs_q · q) for the k queries of a group, on any columns; the total stays.

        logs  (k,), such as ± α/2 in the multiplicative weights of Dwork & Roth 2014, Algorithm 5

        Only the cells that the queries see are touched, and what they gain or lose is added to the running normaliser.
        Raises `InvalidInput` for a group over another domain, and for logs that are not k finite numbers, or that would
        scale a cell beyond e^±700.
        """
        steps = np.asarray(logs, np.float64)
        queries, shape = group.queries, self.domain.shape
        if max(group.axes, default=0) >= len(shape) or queries.cells != self.domain.cells(group.axes):
            raise InvalidInput("the queries are over another domain than the histogram")
        if steps.shape != (queries.count,):
            raise InvalidInput(f"an update needs one number for each query, ({queries.count},), got {steps.shape}")
        exponents = queries.adjoint(steps) * queries.unit
        largest = float(np.abs(exponents).max())
        if not largest <= _MAX_EXPONENT:
            raise InvalidInput(f"an update scales by at most e^±{_MAX_EXPONENT:g}, got an exponent of {largest:g}")
        if group.axes in self._slices:
            self._logs[self._slices[group.axes]] += exponents
        else:
            self._others[group.axes] = self._others.get(group.axes, 0.0) + exponents
        self._raw = None
        if len(group.axes) == len(self.domain):
            self._scale(queries, steps, exponents)
        else:
            one = self._support(group).times(float(steps[0])) if queries.count == 1 else None
            support = one or Support.of(shape, group.axes, exponents)
            self._mass += support.scale(self._weights)
        if not self._summed / 2 < self._mass < _DRIFT * self.domain.size:
            self._renormalise()

    def _scale(self, queries: Queries, steps: Floats, exponents: Floats) -> None:
        """y *= e^exponents over the whole universe; one query of zeros and ones as a mask, an eighth of the memory."""
        if isinstance(queries, Vectors) and queries.count == 1 and queries.unit == 1:
            kernel, arrays, number = kernels.scale_masked, (queries.rows[0] != 0,), math.exp(steps[0])
        else:
            kernel, arrays, number = kernels.scale_by_exp, (exponents.astype(self._weights.dtype, copy=False),), 1.0
        parts = in_parallel(
            lambda _, cut: kernel(self._weights[cut], *(a[cut] for a in arrays), number),
            self.domain.size,
            self.domain.size,
        )
        self._mass = self._summed = sum(parts)

    def _renormalise(self) -> None:
        """Sum the weights up afresh, after losses have made the rounding of the running sum too large; and bring
        their mean back to 1 where it has left it so far that numbers might run out.
        """
        self._read(self._cover.marginals(self._weights))
        if not 1 / _DRIFT < self._mass / self.domain.size < _DRIFT:
            self.multiply(np.zeros(self._cover.offsets[-1]))

    @property
    def values(self) -> Reals:
        """y itself, (|X|,) counts: a copy as large as the universe. `TooLarge` if it does not fit."""
        copy_fits(self._weights)
        found: Reals = aligned(self.domain.size, self._weights.dtype)
        scale = self.total / self._mass
        in_parallel(
            lambda _, cut: np.multiply(self._weights[cut], scale, out=found[cut]), self.domain.size, self.domain.size
        )
        return found

    def box(self, codes: Sequence[npt.NDArray[np.integer[Any]]]) -> Floats:
        """y on all combinations of some codes of each column, (n_1, …, n_d) counts: a copy of those cells alone."""
        cells: Floats = self._weights.reshape(self.domain.shape)[np.ix_(*codes)].astype(np.float64)
        return cells * (self.total / self._mass)

    def answer(self, workload: Workload) -> Floats:
        """Answers to any workload over the same domain, (k,) counts. Raises `InvalidInput` for another domain."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this histogram")
        if workload.sets == self.sets[: len(workload.sets)] and (self._raw is not None or len(workload) > 1):
            return workload.answers(self.marginals[: workload.marginal_plan.offsets[-1]])
        if len(workload) == 1:
            support = self._support(workload.groups[0])
            return np.array([support.sum(self._weights) * (self.total / self._mass)])
        return workload.answers(workload.marginal_plan.marginals(self._weights) * (self.total / self._mass))

    def _support(self, query: Group) -> Support:
        """The support of a group of one query; a session asks for the same few again and again."""
        made = _kept_support if query.queries.cells <= _SMALL else _support
        return made(self.domain.shape, query)

    def parities(self) -> Reals:
        """Σ_x (-1)^(s·x) y(x) for every set s of the columns, (|X|,) counts; s as a cell of the universe.

        The Walsh-Hadamard transform of `values`. `TooLarge` where no copy fits, `InvalidInput` unless every column has
        two values.
        """
        if set(self.domain.shape) != {2}:
            raise InvalidInput(f"parities need columns of two values each, got {self.domain.shape}")
        found = self.values
        transform(found)
        return found

    def sample(self, rows: int, rng: np.random.Generator) -> list[npt.NDArray[np.unsignedinteger[Any]]]:
        """Codes of synthetic records, one array (rows,) a column, in random order.

        A cell that expects 2.3 records gets 2 or 3; the small marginals on columns that a factor is about settle which:
        see `controlled_rounding`.
        Post-processing: `rng` is an ordinary generator and no privacy rests on it.
        """
        cells, scale = self.draw(rows, rng), rows / self._mass
        told = [s for s, where in self._slices.items() if self._logs[where].any()] + [*self._others]
        settled = controlled_rounding.marginals(self.domain.shape, rows, sorted({a for s in told for a in s}))
        cover = MarginalPlan.choose(self.domain.shape, settled)
        controlled_rounding.settle(self._weights, scale, cells, cover, cover.marginals(self._weights) * scale, rng)
        rng.shuffle(cells)
        codes = [np.empty(rows, np.min_scalar_type(size - 1)) for size in self.domain.shape]
        for first in range(0, rows, _ROWS):
            some = slice(first, first + _ROWS)
            for column, part in zip(codes, np.unravel_index(cells[some], self.domain.shape), strict=True):
                column[some] = part
        return codes

    def draw(self, rows: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """The cells of records drawn from y, (rows,), in ascending order.

        Systematic sampling: a cell that expects 2.3 records gets 2 or 3, and 2.3 on average over all draws.
        """
        return systematic(self._weights, rows, rng)

    def to_json(self) -> dict[str, Any]:
        """The factors' logarithms by marginal (those that were ever changed), and the total."""
        names = self.domain.names
        total = self.total or 1.0  # of nobody the shares are stored too
        marginals = self._weighed * (total / self._mass)
        factors = {s: (self._logs[where], marginals[where]) for s, where in self._slices.items()}
        for s, logs in self._others.items():
            factors[s] = (
                logs,
                MarginalPlan.choose(self.domain.shape, [s]).marginals(self._weights) * (total / self._mass),
            )
        # A constant in a factor means nothing; without its mean under y, no product of them can overflow.
        kept = [
            {"columns": [names[a] for a in s], "logs": (logs - logs @ marginal / total).tolist()}
            for s, (logs, marginal) in factors.items()
            if logs.any()
        ]
        return {"type": "histogram", "total": self.total, "factors": kept}

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any]) -> Histogram:
        """The histogram that `to_json` described, equal up to rounding; one pass over the universe."""
        factors = content["factors"]
        sets = [domain.axes(f["columns"]) for f in factors] or [(0,)]
        histogram = cls(domain, sets, content["total"])
        if factors:
            histogram.multiply_in_steps(np.concatenate([np.array(f["logs"], np.float64) for f in factors]))
        return histogram


def _support(shape: tuple[int, ...], query: Group) -> Support:
    return Support.of(shape, query.axes, query.queries.adjoint(np.ones(1)) * query.queries.unit)


_kept_support = lru_cache(_KEPT)(_support)


def transform(y: Reals) -> None:
    """Replace y (2^k,) by its Walsh-Hadamard transform, in two passes: within pieces that fit a cache, then across."""
    width = min(kernels.CACHE_CELLS, y.size)
    pieces, lines = y.size // width, width // kernels.LINE_CELLS

    def within(_: int, cut: slice) -> None:
        kernels.walsh_hadamard(y[cut.start * width : cut.stop * width], width)

    def across(_: int, cut: slice) -> None:
        kernels.walsh_hadamard_across(y, width, cut.start * kernels.LINE_CELLS, cut.stop * kernels.LINE_CELLS)

    in_parallel(within, pieces, y.size)
    if pieces > 1:
        in_parallel(across, lines, y.size)
