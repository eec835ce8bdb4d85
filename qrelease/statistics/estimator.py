"""`Estimator`: checks statistics of one table before they are charged for, and draws them afterwards."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.noise.entropy import WordSource, is_insecure
from qrelease.privacy.costs import Cost, Neighbours, Spend
from qrelease.privacy.filters import Filter
from qrelease.privacy.unit import Unit
from qrelease.statistics.base import BETA, EstimateResult, Statistic, check_statistic, checked_estimate, refuse_empty
from qrelease.statistics.catalogue import IN_SESSIONS, SESSION_GROUPS, SESSION_SCORES, SESSION_TEST_CELLS, STATISTICS
from qrelease.statistics.estimate import Estimate
from qrelease.statistics.grid import Grid
from qrelease.statistics.lower_bounds import least_error
from qrelease.statistics.noise_source import ExactNoise
from qrelease.statistics.private_columns import PrivateColumns, domain_of

if TYPE_CHECKING:
    from qrelease.data.source import Source


@final
@dataclass(frozen=True)
class Estimator:
    """Statistics of one table, for whoever charges for them. Made by the `Curator`; costs are those of the unit.

    Parameters
    ----------
    _table : Source
        The private records: those that are kept of each person, where that is the unit.
    unit : Unit
        Whose promise the costs are.
    dataset : str
        What an estimate says whose records it is of.
    entropy : WordSource
        Where the noise comes from.
    """

    _table: Source = field(repr=False)
    unit: Unit
    dataset: str
    entropy: WordSource = field(repr=False)

    def check(self, statistic: Statistic, cost: Cost) -> None:
        """Raise what can be known to be wrong without a look at the records.

        Parameters
        ----------
        statistic : Statistic
            What is to be estimated.
        cost : Cost
            What it may cost.

        Raises
        ------
        InvalidInput, TooLarge
            What the statistic's own check finds.
        """
        check_statistic(statistic)
        of_a_record = self.unit.of_a_record(cost)
        with self.unit.explained():
            statistic.check(domain_of(self._table), of_a_record, self.unit.relation)

    def check_records(self, statistic: Statistic, cost: Cost) -> None:
        """Raise `InvalidInput` where the number of records is public and the statistic promises nothing for it.

        Parameters
        ----------
        statistic, cost
            As in `check`.
        """
        unit = self.unit
        refuse_empty(statistic, domain_of(self._table), self._records, unit.of_a_record(cost), unit.relation)

    def asked(self, statistic: Statistic, parameters: Mapping[str, Any]) -> str:
        """What a session remembers a statistic by: its name and all its parameters.

        Parameters
        ----------
        statistic : Statistic
            One of `IN_SESSIONS`.
        parameters : mapping
            Its public parameters, by name.

        Returns
        -------
        str
            The same for equal statistics, and for no others.

        Raises
        ------
        InvalidInput
            For another statistic: of one's own, whose parameters may not tell all, or one that takes long.
        """
        name = getattr(statistic, "name", type(statistic).__name__)
        if name not in IN_SESSIONS or type(statistic).__name__ != STATISTICS[name][1] or not _is_own(statistic):
            raise InvalidInput(f"a session estimates {', '.join(IN_SESSIONS)}, got {name}")
        try:
            return json.dumps([name, parameters], sort_keys=True, allow_nan=False)
        except ValueError:
            raise InvalidInput(f"{name} takes finite numbers, got {dict(parameters)}") from None

    def check_short(self, statistic: Statistic) -> None:
        """Raise `TooLarge` for one of `IN_SESSIONS` that would keep all who use a session waiting.

        Parameters
        ----------
        statistic : Statistic
            One that was checked.

        Raises
        ------
        TooLarge
            For a test of more than `SESSION_TEST_CELLS` cells, which simulates a thousand such tables; and for
            quantiles of more than `SESSION_GROUPS` groups, or that score more than `SESSION_SCORES` values of groups.
        """
        domain, tested = domain_of(self._table), getattr(statistic, "tested", ())
        cells = domain.cells(domain.axes(tested))
        if cells > SESSION_TEST_CELLS:
            raise TooLarge(
                f"{statistic.name} in a session is of at most {SESSION_TEST_CELLS:,} cells, got {cells:,}: others would"
                " wait for its simulation; take columns of fewer cells"
            )
        by, column = getattr(statistic, "by", ()), getattr(statistic, "column", "")
        if not by or not column:
            return
        groups, values = domain.cells(domain.axes(by)), Grid.of(domain, column).cells
        if groups > SESSION_GROUPS or groups * values > SESSION_SCORES:
            raise TooLarge(
                f"{statistic.name} in a session is of at most {SESSION_GROUPS:,} groups, and {SESSION_SCORES:,} values"
                f" of all groups together, got {groups:,} groups with {values:,} values each: others would wait for"
                " it; ask by fewer columns, or of a column with a coarser step"
            )

    def draw(self, statistic: Statistic, parameters: Mapping[str, Any], cost: Cost) -> Estimate:
        """Draw what was checked and charged for.

        Parameters
        ----------
        statistic, cost
            As in `check`.
        parameters : mapping
            The statistic's public parameters, by name, which the estimate lists.

        Returns
        -------
        Estimate
            Public.

        Raises
        ------
        InvalidInput
            For what no estimate can be made of, which a statistic of one's own may return.
        """
        unit, domain = self.unit, domain_of(self._table)
        of_a_record, neighbours = unit.of_a_record(cost), unit.relation
        private = PrivateColumns(self._table, neighbours, Filter(of_a_record), ExactNoise(self.entropy))
        result = checked_estimate(statistic.estimate(private, of_a_record), statistic.name)
        return Estimate.of(
            result,
            statistic=statistic.name,
            parameters=parameters,
            dataset=self.dataset,
            neighbours=unit.neighbours,
            at_most=unit.at_most,
            cost=cost,
            spends=tuple(Spend(spend.what, unit.of_the_unit(spend.cost)) for spend in private.spends),
            promise=_promise(statistic, domain, result, self._records, of_a_record, neighbours),
            least_error=_least_error(result, self._records, cost, unit),
            insecure=is_insecure(self.entropy),
        )

    def read(self, described: Mapping[str, Any]) -> Estimate:
        """The estimate that was described as JSON.

        Parameters
        ----------
        described : mapping
            As `Estimate.to_json` made it.

        Returns
        -------
        Estimate
            Equal to the one that was drawn.
        """
        return Estimate.from_json(dict(described))

    def promised(self, statistic: Statistic, cost: Cost, records: int) -> float | None:
        """What a statistic's theorem promises for so many records.

        Parameters
        ----------
        statistic, cost
            As in `check`.
        records : int
            A public number, as a session counted them.

        Returns
        -------
        float or None
            The error is at most this with probability 1 - β, in the statistic's unit; None where nothing is promised.
            As in an estimate, half of β is left for the count where the number of records is private.
        """
        domain, unit, beta = domain_of(self._table), self.unit, BETA if self.unit.public_records else BETA / 2
        error = statistic.error_bound(domain, records, unit.of_a_record(cost), unit.relation, beta=beta)
        return error if error is not None and math.isfinite(error) else None

    @property
    def _records(self) -> int | None:
        """The number of records, where it is public."""
        return len(self._table) if self.unit.public_records else None


def _is_own(statistic: Statistic) -> bool:
    return type(statistic).__module__.startswith("qrelease.statistics.")


def _promise(
    statistic: Statistic,
    domain: Domain,
    result: EstimateResult,
    public: int | None,
    cost: Cost,
    neighbours: Neighbours,
) -> float | None:
    """What a statistic's theorem says for the public number of records, or for one that was measured.

    That number is right but with probability β/2, and the error is as promised but with probability β/2.
    """
    records, beta = (result.records, BETA / 2) if public is None else (public, BETA)
    if records is None or records < 1:
        return None
    error = statistic.error_bound(domain, records, cost, neighbours, beta=beta)
    return error if error is not None and math.isfinite(error) else None


def _least_error(result: EstimateResult, public: int | None, cost: Cost, unit: Unit) -> float | None:
    """The least error of the means of as many records; of persons, of whom each has as many records as any may."""
    records = result.records if public is None else public
    if not result.widths or records is None or not 1 <= records < math.inf:
        return None
    return least_error(result.widths, math.ceil(records / (unit.at_most or 1)), cost, unit.neighbours)
