"""`Private`: the only door through which a mechanism sees private counts.

A mechanism gets a `Private` that was made for one charge. It spends from that charge's filter before each draw, so the
parts of a cost are added up in one place, and every draw is written down for the manifest of the release.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, final

import numpy as np

from qrelease._util.parallel import at_once
from qrelease._util.typing import Axes, Floats, Ints
from qrelease._util.validate import kind_of
from qrelease.data.domain import Domain
from qrelease.data.source import Source
from qrelease.errors import InvalidInput
from qrelease.inference.measurement import RECORDS, Measurement, count_noise, noise_for
from qrelease.inference.sums_plan import PlannedTable, privacy_used
from qrelease.mechanisms.measured_values import column_places, record_values, table_of_sums
from qrelease.noise import selection
from qrelease.noise.calibration import Rule, selection_epsilon
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import Entropy, WordSource
from qrelease.noise.samplers import SAMPLERS
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, Spend
from qrelease.privacy.filters import Filter
from qrelease.privacy.resuming import Draws
from qrelease.privacy.unit import Unit
from qrelease.queries.families import Residuals
from qrelease.queries.measures import Measure
from qrelease.queries.workload import Group, Workload

if TYPE_CHECKING:
    from qrelease.statistics.base import Statistic
    from qrelease.statistics.estimate import Estimate

SELECT: Final = "select "
"""How the parts of a cost that buy choices are called, before what is chosen."""

_DRAWN = 1 << 18  # answers that are drawn at a time: they stay in the cache until the exact ones are added


class Estimating(Protocol):
    """What draws statistics of a table for whoever charges for them, at costs of the unit: `statistics.estimator`."""

    def check(self, statistic: Statistic, cost: Cost) -> None:
        """Raise what can be known to be wrong without a look at the records."""

    def check_records(self, statistic: Statistic, cost: Cost) -> None:
        """Raise `InvalidInput` where the number of records is public and the statistic promises nothing for it."""

    def check_short(self, statistic: Statistic) -> None:
        """Raise `TooLarge` for a statistic that would keep all who use a session waiting."""

    def asked(self, statistic: Statistic, parameters: Mapping[str, Any]) -> str:
        """What a statistic is remembered by; `InvalidInput` for one that no session takes."""

    def draw(self, statistic: Statistic, parameters: Mapping[str, Any], cost: Cost) -> Estimate:
        """Draw what was checked and charged for."""

    def read(self, described: Mapping[str, Any]) -> Estimate:
        """The estimate that was described as JSON."""

    def promised(self, statistic: Statistic, cost: Cost, records: int) -> float | None:
        """What a statistic's theorem promises for so many records; None for nothing."""


@final
@dataclass
class Private:
    """Private counts under a budget. Made by the `Curator` for one charge and one mechanism.

    Its neighbouring relation and its costs are those of records, also where the unit is a person; then `unit` converts
    them for sessions, which are charged as they go.

    `measure`, `measure_sums`, `select`, `select_apart` and `count` spend before they draw. `exact`, `occurring`,
    `votes`, `texts` and `values_by_group` return private values: a mechanism may let nothing out that depends on them,
    except draws that it spent for before, such as by `select` with scores made from them.

    Parameters
    ----------
    _table : Source
        The private records, or exact counts of them.
    neighbours : Neighbours
        Which tables the promise compares.
    filter : Filter
        What may be spent, and what was.
    entropy : WordSource
        Where the noise comes from.
    spends : list of Spend
        The parts of the cost so far, in the order of the draws.
    draws : Draws, optional
        What an interrupted run drew under the same charge; it is returned instead of new draws.
    unit : Unit, optional
        Converts costs of a record to costs of a person.
    estimator : Estimating, optional
        Draws statistics of the same records, for sessions.
    known : tuple of Measurement
        Counts that the same release measured before it came to the mechanism: public. What it fits it may fit to these
        too; then they are among the measurements of its result.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2})
    >>> cost, sexes = qr.PureDP(1), qr.Workload.marginals(domain, 1)
    >>> table = qr.Table(domain, (np.arange(500) % 2,))
    >>> private = Private(table, qr.Neighbours.ADD_REMOVE, Filter(cost), qr.Entropy.insecure(1))
    >>> [measured] = private.measure(sexes, cost)
    >>> measured.values.tolist(), len(private.spends)
    ([249.0, 253.0], 1)
    >>> private.measure(sexes, cost)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    qrelease.errors.BudgetExceeded: budget exceeded: ...
    """

    _table: Source = field(repr=False)
    neighbours: Neighbours
    filter: Filter
    entropy: WordSource = field(repr=False)
    spends: list[Spend] = field(default_factory=list)
    draws: Draws | None = field(default=None, repr=False)
    unit: Unit | None = None
    estimator: Estimating | None = field(default=None, repr=False)
    known: tuple[Measurement, ...] = ()

    @property
    def domain(self) -> Domain:
        """The public universe of the records."""
        return self._table.domain

    @property
    def weight_bits(self) -> int:
        """The bits b: exact answers are multiples of 2^-b. 0, except where each person counts once, in fractions."""
        return self._table.weight_bits

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction of the ledger is open, which could undo what is kept of a draw."""
        return self.draws is not None and self.draws.in_transaction

    @property
    def public_records(self) -> int | None:
        """The number of records, where it is public because neighbours have the same number; else None."""
        return len(self._table) if self.neighbours is Neighbours.REPLACE_ONE else None

    def spend(self, what: str, cost: Cost) -> None:
        """Take a cost from the charge, for the draw that follows, and write it down for the manifest.

        Parameters
        ----------
        what : str
            What is drawn, in words; public.
        cost : Cost
            What it costs, of one record.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover it: then nothing may be drawn.
        """
        self.filter.spend_part(cost)
        self.spends.append(Spend(what, cost))

    def exact(self, workload: Workload) -> list[Ints]:
        """The exact answers to queries, for scores. Private.

        Parameters
        ----------
        workload : Workload
            Queries with entries within [0, 1].

        Returns
        -------
        list of ndarray of int
            One for each group, (queries of the group,), in its units, of which one record moves an answer by at most 1.
            Where a person counts once (`weight_bits`), in units of 2^-bits of these, of which she moves 2^bits.

        Raises
        ------
        InvalidInput
            For queries over another domain, or with entries outside [0, 1].
        """
        workload.check_bounded()
        marginals = self._marginals(workload)
        return [g.queries.apply(marginals[g.axes]) for g in workload.groups]

    def occurring(self, name: str) -> tuple[Ints, Ints]:
        """The codes that occur in a column that is to be learned, and how often. Private.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        tuple of ndarray of int, each of shape (m,)
            The codes, ascending, and their counts; missing values are not among them.
        """
        axis = self.domain.axis(name)
        codes, counts = np.unique(self._table.codes(axis), return_counts=True)
        kept = codes < self.domain.attributes[axis].values
        return codes[kept].astype(np.int64), counts[kept]

    def votes(self, name: str) -> Ints:
        """What each text of a column that is to be learned counts of all persons. Private.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        ndarray of int, (texts,)
            By code; of all records of each person, in the units of `data.named_categories`.
        """
        return self._table.votes[name]

    def texts(self, name: str) -> Sequence[str]:
        """The texts behind the codes of a column whose categories are to be learned. Private.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        sequence of str
            By code.
        """
        return self._table.texts[name]

    def _marginals(self, workload: Workload) -> dict[Axes, Ints]:
        if workload.domain != self._table.domain:
            raise InvalidInput("the workload is over another domain than the table")
        return dict(zip(workload.sets, self._table.counts(workload.sets), strict=True))

    def measure(self, workload: Workload, cost: Cost) -> list[Measurement]:
        """Noisy answers to a whole workload under one cost. The noise is that of `noise_for`.

        Many answers are drawn in pieces, on all cores. The pieces are the same on however many, and each has a stream
        of its own, made in their order: so a seed gives the same noise everywhere. The streams of two pieces are keyed
        independently (`Entropy.apart`), as those of two releases are, so all draws are independent, as in one stream.

        Parameters
        ----------
        workload : Workload
            k queries.
        cost : Cost
            What all answers cost together.

        Returns
        -------
        list of Measurement
            One for each group.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        InvalidInput
            For queries over another domain.
        """
        if not isinstance(workload, Workload):
            raise InvalidInput(
                "private.measure takes a Workload, such as qr.Workload.marginals(private.domain, [['a', 'b']]), got"
                f" {kind_of(workload)}"
            )
        law, parameter = noise_for(workload, cost, self.neighbours)
        if workload.domain != self._table.domain:
            raise InvalidInput("the workload is over another domain than the table")
        self.spend(f"measure {_described(workload)}", cost)
        asked = () if self.draws is None else ("measure", workload_digest(workload), law.law, str(parameter))
        values = self._kept(asked, lambda: self._measured(workload, law, parameter))
        places = pairwise(workload.bounds.tolist())
        return [Measurement(g, values[a:b], law) for g, (a, b) in zip(workload.groups, places, strict=True)]

    def measure_sums(self, parts: Sequence[PlannedTable], cost: Cost) -> list[Measurement]:
        """Noisy tables of sums under one cost, in whole numbers.

        Parameters
        ----------
        parts : sequence of Part
            What is summed, and which share of the cost each has (`sums_plan`, (1)).
        cost : Cost
            What all of them cost together.

        Returns
        -------
        list of Measurement
            One for each part, of the part's measure.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        InvalidInput
            Where the shares come to more than the whole, and where a person counts once.
        """
        if self.domain.counts_once:
            raise InvalidInput("sums are of records, and here each person counts once")
        if privacy_used(self.domain, parts) > 1:
            raise InvalidInput("the parts of these sums use more than all of the privacy")
        laws = [part.noise(cost, self.neighbours) for part in parts]
        self.spend(f"sum {len(parts)} tables of residuals", cost)
        asked = ("sums", json.dumps([part.to_json() for part in parts]), *(str(parameter) for _, parameter in laws))
        bounds = np.cumsum([0, *(part.group.queries.count for part in parts)]).tolist()
        values = self._kept(asked, lambda: self._summed(parts, laws, bounds))
        places = [slice(a, b) for a, b in pairwise(bounds)]
        return [Measurement(p.group, values[at], law) for p, at, (law, _) in zip(parts, places, laws, strict=True)]

    def _summed(
        self, parts: Sequence[PlannedTable], laws: Sequence[tuple[Noise, Fraction]], bounds: Sequence[int]
    ) -> Floats:
        """Exact sums and noise. Sums of 2^64 would wrap around, which moves no two tables apart."""
        values, of_records = np.empty(bounds[-1]), dict[Measure, Ints]()
        for part, (law, parameter), start in zip(parts, laws, bounds, strict=False):
            if part.measure not in of_records:
                of_records = {part.measure: record_values(self._table, part.measure)}
            exact = part.group.queries.apply(table_of_sums(self._table, of_records[part.measure], part.group.axes))
            drawn = _draw(law, parameter, len(exact), self.entropy)
            values[start : start + len(exact)] = exact + drawn
        return values

    def _measured(self, workload: Workload, law: Noise, parameter: Fraction) -> Floats:
        """Exact answers and noise."""
        marginals = self._marginals(workload)
        values, bounds = np.empty(len(workload)), workload.bounds
        cuts = workload.cuts(_DRAWN)
        streams = self._streams(len(cuts))

        def work(piece: int) -> None:
            first, last = cuts[piece]
            place = slice(int(bounds[first]), int(bounds[last]))
            drawn = _draw(law, parameter, place.stop - place.start, streams[piece])
            at = 0
            for exact in _applied(workload.groups[first:last], marginals, law.unit * 2.0**self.weight_bits):
                drawn[at : at + len(exact)] += exact
                at += len(exact)
            np.multiply(drawn, law.unit, out=values[place])

        if streams[0] is self.entropy:
            for piece in range(len(cuts)):
                work(piece)
        else:
            at_once(work, range(len(cuts)))
        return values

    def _kept(self, asked: Sequence[str], draw: Callable[[], Floats]) -> Floats:
        """A draw, (k,) floats; the one that was kept where an earlier run under the same charge drew it."""
        if self.draws is None:
            return draw()
        kept = self.draws.take(json.dumps(asked), lambda: zlib.compress(draw().astype("<f8").tobytes(), 1))
        return np.frombuffer(zlib.decompress(kept), "<f8").astype(np.float64)  # a copy that can be written to

    def chosen(self, asked: Sequence[str], draw: Callable[[], int]) -> int:
        """Draw a choice that `spend` paid for; or read it, where an interrupted run drew it under the same charge.

        Parameters
        ----------
        asked : sequence of str
            What is chosen from and how: public, and the same in a run that is resumed.
        draw : callable
            Draws the choice.

        Returns
        -------
        int
            The choice.
        """
        if self.draws is None:
            return draw()
        return int(self.draws.take(json.dumps(asked), lambda: str(draw()).encode()))

    def _streams(self, pieces: int) -> list[WordSource]:
        """One for each piece; the same for all, which take turns, where it is one piece or no `Entropy`."""
        if pieces == 1 or not isinstance(self.entropy, Entropy):
            return [self.entropy] * pieces
        return [self.entropy.apart() for _ in range(pieces)]

    def count(self, cost: PureDP | ZCDP | None) -> tuple[float, Measurement | None]:
        """The number of records.

        Parameters
        ----------
        cost : PureDP, ZCDP or None
            What it may cost; None where records are replaced, which makes the number public.

        Returns
        -------
        tuple of float and Measurement
            A noisy count, and its measurement of `RECORDS`; where the number is public, the exact count and None.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        InvalidInput
            Without a cost where the number is private.
        """
        n = len(self._table)
        if self.neighbours is Neighbours.REPLACE_ONE:
            return float(n), None
        if cost is None:
            raise InvalidInput("the number of records is private under add-remove: it has a cost")
        law, parameter = count_noise(self.domain, cost)
        self.spend("count the records", cost)
        exact = n << self.domain.weight_bits
        noisy = self._kept(
            ("count", law.law, str(parameter)),
            lambda: (exact + _draw(law, parameter, 1, self.entropy)).astype(np.float64) * law.unit,  # floats come last
        )
        return float(noisy[0]), Measurement(RECORDS, noisy, law)

    def has_points(self, name: str) -> bool:
        """Whether the table keeps the points of a column's grid, and not its bins alone: public.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        bool
            False too where its bins are single values.
        """
        points = self._table.points
        return bool(points) and points[self.domain.axis(name)] is not None

    def values_by_group(self, by: Sequence[str], name: str, first: Ints, measure: Measure) -> Ints:
        """How many records of each group are in each of some runs of a column's values. Private.

        Parameters
        ----------
        by : sequence of str
            The columns whose cells are the groups.
        name : str
            The column of the values.
        first : ndarray of int, shape (K,)
            Where each run starts, ascending from 0: points of the grid where `has_points`, else bins.
        measure : Measure
            Which records count: a record does by what it adds, 0 or 1.

        Returns
        -------
        ndarray of int, shape (groups, K)
            One record is in at most one of them.
        """
        counted = record_values(self._table, measure) > 0
        places = np.searchsorted(first, column_places(self._table, name)[counted], side="right") - 1
        groups = np.zeros(len(places), np.int64)
        for column in by:
            axis = self.domain.axis(column)
            groups = groups * self.domain.shape[axis] + self._table.codes(axis)[counted].astype(np.int64)
        size = math.prod(self.domain[column].size for column in by)
        return np.bincount(groups * len(first) + places, minlength=size * len(first)).reshape(size, len(first))

    def select_apart(self, what: str, scores: Ints, sensitivity: int, cost: PureDP | ZCDP, rule: Rule) -> Ints:
        """An index for each of some lists of scores, for one cost: no two lists may depend on the same record.

        Parameters
        ----------
        what : str
            What is chosen, in words; public.
        scores : ndarray of int, shape (lists, k)
            Private whole numbers, one for each candidate of each list.
        sensitivity : int
            The most that one record moves a score by. Where one is replaced it may move those of two lists, by at most
            half as much each.
        cost : PureDP or ZCDP
            What the choices cost together: what one of them does.
        rule : {"exponential", "permute-and-flip"}
            How they are drawn.

        Returns
        -------
        ndarray of int, shape (lists,)
            From 0 to k - 1.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        InvalidInput
            For another kind of cost or rule, and a cost too small for a selection. Nothing is drawn then.
        """
        epsilon = _epsilon("select_apart", cost, rule)
        self.spend(f"{SELECT}{what}", cost)
        select = selection.exponential_mechanism if rule == "exponential" else selection.permute_and_flip
        asked = ("select apart", what, rule, str(scores.shape), str(sensitivity), str(epsilon))

        def draw() -> Floats:
            return np.array([select(part, epsilon, sensitivity, self.entropy) for part in scores], np.float64)

        return self._kept(asked, draw).astype(np.int64)

    def select(self, scores: Ints, sensitivity: int, cost: PureDP | ZCDP, rule: Rule) -> int:
        """An index, likelier the larger its score, drawn by the exponential mechanism or by permute-and-flip.

        Parameters
        ----------
        scores : ndarray of int, shape (k,)
            Private whole numbers, one for each candidate.
        sensitivity : int
            The most that one record moves a score by, in either direction.
        cost : PureDP or ZCDP
            What the choice costs; its ε is `selection_epsilon`.
        rule : {"exponential", "permute-and-flip"}
            How it is drawn.

        Returns
        -------
        int
            From 0 to k - 1.

        Raises
        ------
        BudgetExceeded
            Where the charge does not cover the cost. Nothing is drawn then.
        InvalidInput
            For another kind of cost or rule, and a cost too small for a selection. Nothing is drawn then.
        """
        epsilon = _epsilon("select", cost, rule)
        self.spend(f"select by {rule}", cost)
        select = selection.exponential_mechanism if rule == "exponential" else selection.permute_and_flip
        asked = ("select", rule, str(len(scores)), str(sensitivity), str(epsilon))
        return self.chosen(asked, lambda: select(scores, epsilon, sensitivity, self.entropy))


def workload_digest(workload: Workload) -> str:
    """A digest of all queries of a workload in their order: the same for the same queries over one domain."""
    return sha256(json.dumps(workload.to_json()).encode()).hexdigest()


def _epsilon(call: str, cost: Cost, rule: Rule) -> Fraction:
    """ε of a selection by a method of this name; of a cost that it does not take, how a mechanism is to treat that."""
    if isinstance(cost, ApproxDP):
        raise InvalidInput(
            f"private.{call} takes PureDP or ZCDP, got {cost!r}: let the mechanism's check refuse such a cost, or its"
            " release spend qrelease.privacy.zcdp_of(cost)"
        )
    return selection_epsilon(cost, rule)


def _draw(law: Noise, parameter: Fraction, size: int, source: WordSource) -> Ints:
    return SAMPLERS[law.law](parameter, size, source)


def _applied(groups: Sequence[Group], marginals: Mapping[Axes, Ints], unit: float) -> Iterator[Ints]:
    """The exact answers of groups one after another, in these units; those of like residuals together."""
    for queries, alike in groupby(groups, key=attrgetter("queries")):
        tables = [marginals[g.axes] for g in alike]
        factor = int(queries.unit / unit)
        for table in [np.stack(tables)] if isinstance(queries, Residuals) else tables:
            exact = queries.apply(table).reshape(-1)
            yield exact * factor if factor > 1 else exact


def _described(workload: Workload) -> str:
    if len(workload.groups) > 1:
        return f"{len(workload.groups)} groups of queries"
    (group,) = workload.groups
    return f"{group.queries.to_json()['type']} of {workload.domain.named(group.axes)}"
