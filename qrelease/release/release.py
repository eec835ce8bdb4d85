"""`Release`: what is given away. It knows no table, no ledger and no mechanism."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final, overload

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import CodeColumns, Floats
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.inference.noisy_answers import Answers
from qrelease.inference.sampling import generator
from qrelease.inference.synopsis import MISSED, Estimator, Fitted, SelfAssessed, Synopsis
from qrelease.inference.tilted_bins import TiltedBins
from qrelease.mechanisms.base import Answer, plain
from qrelease.privacy.costs import Cost, Neighbours, Spend
from qrelease.privacy.unit import Unit
from qrelease.queries.number_workload import NumberWorkload
from qrelease.queries.numeric import Label, NumericQuestion
from qrelease.queries.workload import Workload
from qrelease.release import numbers, promise, synthetic, writer
from qrelease.release.answer_table import DETAILS, answer_columns, marginal_columns
from qrelease.release.checksums import private_key
from qrelease.release.checksums import sign as sign_sums
from qrelease.release.error_bars import measured_answers, published
from qrelease.release.few_records import few_records
from qrelease.release.frames import Column, Frame, as_frame, check_frame, columns_of
from qrelease.release.manifest import check_stored, versions
from qrelease.release.number_caveats import warn_of_model
from qrelease.release.paid_noise import notes_of_draws
from qrelease.release.promise import ended_early, weakness
from qrelease.release.published_counts import PublishedCounts, as_cell, with_numbers
from qrelease.release.report.page import html
from qrelease.release.schema_cost import SchemaCost
from qrelease.release.unmeasured import unmeasured_sets, what_records_lack
from qrelease.release.within_bins import about_bins, model_records, tilted_bins

if TYPE_CHECKING:
    from qrelease.inference.number_tables import MeasuredSums, NumberTable


@final
@dataclass(frozen=True)
class Release:
    """What is given away: noisy measurements, a synopsis that answers queries, and their cost. Public; has no table.

    `Curator.release` makes one and `qrelease.load` reads one again. All of its methods compute from what is public
    already, at no further cost to anybody's privacy.

    Parameters
    ----------
    synopsis : Synopsis
        What answers queries: a histogram, weighted records, a model or separate answers.
    workload : Workload
        The k queries that it was made for.
    cost : PureDP, ApproxDP or ZCDP
        The whole privacy cost, of the `unit`; but for that of a schema that was `learned` before.
    neighbours : Neighbours
        Which tables the promise compares: that differ by one record, or, where the domain has a person, by one person.
    dataset : str
        The name of the dataset, as in the ledger.
    mechanism : str
        The stored name of the mechanism.
    parameters : mapping
        Those of the mechanism, and what it chose in public: values as JSON has them, the same once it is saved.
    measurements : tuple of Measurement
        The noisy answers.
    spends : tuple of Spend
        What each draw cost one record; where a person is the unit, `unit.of_the_unit` of it a person.
    insecure : bool
        Whether the noise came from anything but the system's entropy: then it protects nobody.
    insecure_seed : int, optional
        The seed, where it was a seeded generator.
    versions : mapping
        The versions of Python and of packages that a third party needs to run the same code.
    date : str, optional
        The day on which it was made, UTC, ISO 8601. Public; None where the noise is insecure, so that the same seed
        gives the same files.
    id : str
        Names the release in the ledger and the manifest, see `release.checksums`; empty for earlier versions.
    learned : tuple of SchemaCost
        What charges of their own paid for bins and categories of the schema, as far as is known: `promise` is of both.

    Examples
    --------
    >>> import qrelease as qr
    >>> table = qr.data.adult(["age", "sex", "income"])
    >>> workload = qr.Workload.marginals(table.domain, k=2)
    >>> curator = qr.Curator(table, qr.Ledger.open(None, qr.PureDP(1.0)), qr.Entropy.insecure(1))
    >>> release = curator.release(qr.Laplace(), workload, qr.PureDP(1.0))
    >>> release.marginal(["sex", "income"]).columns.tolist()
    ['sex', 'income', 'answer', 'model_95']
    >>> release.synthetic(5, frame="pandas").shape
    (5, 3)
    >>> answer = release.answer("age in 30..39 and income = '>50K'")
    >>> bool(answer.model_error > 0)
    True
    >>> ages = release.mean("age", by="sex")
    >>> ages.columns.tolist()
    ['sex', 'value', 'low_95', 'high_95', 'unbiased', 'n', 'source']
    >>> bool((ages.low_95 < ages.value).all() and (ages.value < ages.high_95).all())
    True
    >>> set(release.sample("age in 17..19 and income = '>50K'", 4, frame="pandas").income)
    {'>50K'}
    """

    synopsis: Synopsis
    workload: Workload
    cost: Cost
    neighbours: Neighbours
    dataset: str
    mechanism: str
    parameters: Mapping[str, Any]
    measurements: tuple[Measurement, ...]
    spends: tuple[Spend, ...]
    insecure: bool = False
    insecure_seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=versions)
    date: str | None = None
    id: str = ""
    measured_sums: MeasuredSums | None = None
    learned: tuple[SchemaCost, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", plain(self.parameters))

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self.synopsis.domain

    @property
    def unit(self) -> Unit:
        """The unit that the cost protects: one record, or a person with at most so many records.

        Where columns are derived of all records of a person, one record is a person.
        """
        return Unit.of(self.neighbours, self.workload.domain)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before records or answers are used, a sentence each, as the terminal says it; often nothing.

        What a mechanism of one's own measured that its cost does not cover, and how much of the cost it left unspent.
        Whether so large a cost promises anything, what synthetic records do not follow, whether they miss what was
        measured by more than its noise, why error bars may be wider than the table is long, within what the
        number of records is known where that is wide, how many have none of the categories that were learned of a
        column, that no interval of a quantile is narrower than its bin, and that
        iterative construction ended before its last round.
        """
        said = [*notes_of_draws(self), *weakness(self), *ended_early(self)]
        said += what_records_lack(self) if self.has_table else ()
        if isinstance(self.synopsis, Fitted) and self.synopsis.misfit > MISSED:
            said.append(
                f"the synthetic records differ from what was measured by {self.synopsis.misfit:.3g} times its noise:"
                " use the answers, which follow the measurements, and not the records"
            )
        said += filter(None, [unmeasured_sets(self), few_records(self), numbers.uncertain_number(self)])
        return (*said, *numbers.unnamed_records(self), *numbers.wide_bins(self))

    @property
    def promise(self) -> str:
        """What is promised to each of the records, or persons, in sentences for people, as the report says it."""
        return promise.in_words(self)

    def answer(self, query: str | Workload) -> Answer | Floats:
        """The answer to a condition, or the answers to a workload.

        Parameters
        ----------
        query : str or Workload
            A condition such as `age in 30..39 and income = '>50K'`, or k queries over this domain.

        Returns
        -------
        Answer or ndarray of shape (k,)
            Counts. An `Answer` has its error bars with it; for those of a workload see `answers_frame`.

        Raises
        ------
        InvalidInput
            For a condition that the domain does not know, or queries that the synopsis cannot answer.
        """
        if not isinstance(query, str):
            asked = self._asked(query)
            return self.published(asked).answers
        asked, place = as_cell(Workload.predicates(self.domain, query))
        found = self.published(asked)
        return Answer(*(float(part[place]) for part in (found.answers, found.noisy, found.widths, found.bars)))

    def answers(self) -> Floats:
        """Answers to the release's own workload, (k,) counts. Of very many, ask for some: `workload.parts(10**6)`."""
        return self.answer(self.workload)  # type: ignore[return-value]

    def answers_frame(
        self,
        workload: Workload | None = None,
        *,
        frame: Frame = "pandas",
        details: bool = False,
        edges: bool = False,
    ) -> Any:
        """Answers as a tidy data frame: a line for each query, named by its labels.

        Parameters
        ----------
        workload : Workload, optional
            The k queries; by default the release's own.
        frame : {"pandas", "polars", "arrow"}
            The kind of data frame.
        details : bool
            Whether `noisy` and `error_95` are among the columns, as they are in `answers.csv`.
        edges : bool
            Whether each key column of bins, such as `age`, has the ends of these behind it: `age_low`, where a bin
            begins, and `age_high`, where the next begins. Both are null for a missing cell.

        Returns
        -------
        data frame of k lines
            A key column for each attribute that is asked about, null where a query is not about it, and counts:
            `answer`, and `model_95`, the half-width of the 95 % error bar around it. What to publish is `answer` ±
            `model_95`. With `details` also `noisy`, the unbiased answer, and `error_95`, the half-width around that:
            both are missing (NaN, null) where nothing was measured that has the answer, as of most marginals of a
            release by `records` over many columns. Queries that are no cells of marginals have their text in a column
            `query`. Keys have the types of `synthetic(frame=...)` where every cell of the attribute is one value, so
            that the two can be merged; bins have their labels. A missing cell is null in a marginal; in a table of
            several, where null has another meaning, the keys of an attribute with a missing cell are texts.

        Raises
        ------
        InvalidInput
            For a workload over another domain, and where the package of the data frame is not installed.
        """
        check_frame(frame)
        return self._frame(answer_columns(self, self._asked(workload), edges=edges), frame, details=details)

    def _frame(self, columns: Mapping[str, Column], frame: Frame, *, details: bool) -> Any:
        """A data frame of a table of answers."""
        left_out = () if details else DETAILS  # a frame of many columns does not fit a line, and hides some of them
        return as_frame({name: column for name, column in columns.items() if name not in left_out}, frame)

    def marginal(
        self,
        columns: str | Sequence[str],
        *,
        frame: Frame = "pandas",
        details: bool = False,
        edges: bool = False,
    ) -> Any:
        """The marginal on some columns as a tidy data frame: how many records there are of each combination.

        Parameters
        ----------
        columns : str or sequence of str
            Names of attributes, or one.
        frame : {"pandas", "polars", "arrow"}
            The kind of data frame.
        details, edges : bool
            As in `answers_frame`.

        Returns
        -------
        data frame
            A line for each cell, with the columns of `answers_frame`: attributes as they are given, and lines in their
            order, the last attribute fastest. A missing cell is null.

        Raises
        ------
        InvalidInput
            For unknown columns, and for a marginal that a release of separate answers does not give.

        Examples
        --------
        >>> import qrelease as qr
        >>> table = qr.data.adult(["age", "sex"])
        >>> curator = qr.Curator(table, qr.Ledger.open(None, qr.PureDP(1.0)), qr.Entropy.insecure(1))
        >>> release = curator.release(qr.Laplace(), qr.Workload.marginals(table.domain, 2), qr.PureDP(1.0))
        >>> ages = release.marginal("age", edges=True)  # ages.plot.bar("age", "answer"), or with the ends as numbers
        >>> ages[["age", "age_low", "age_high"]].head(2).values.tolist()
        [['17..19', 17, 20], ['20..24', 20, 25]]
        >>> rows = release.synthetic(1000, seed=1, frame="pandas")
        >>> rows.merge(release.marginal("sex"), on="sex").shape
        (1000, 4)
        """
        check_frame(frame)
        given: Any = columns
        if not isinstance(given, Iterable):
            raise InvalidInput(f"a marginal is of a column, or of a list of them, got {given!r}")
        names = [given] if isinstance(given, str) else list(given)
        workload = Workload.marginals(self.domain, [names])
        return self._frame(marginal_columns(self, workload, names, edges=edges), frame, details=details)

    def table(
        self,
        question: str | NumericQuestion | NumberWorkload,
        *,
        frame: Frame = "pandas",
        top: int | None = None,
        above: float | None = None,
        percent: bool = False,
        cumulative: bool = False,
        suppress: float | None = None,
        intervals: bool = False,
    ) -> Any:
        """Sums, means, variances, quantiles, shares or counts by group, from what is released already, at no cost.

        Parameters
        ----------
        question : str, NumericQuestion or NumberWorkload
            Such as `mean:age by sex where income = '>50K'`, see `NumericQuestion`.
        frame : {"pandas", "polars", "arrow"}
            The kind of data frame.
        top : int, optional
            Only so many groups, those of the largest values, the largest first.
        above : float, optional
            Only the lines whose whole interval is above this.
        percent : bool
            Parts of the total of all groups, of counts and sums; of sums by bins, where they cannot be negative.
        cumulative : bool
            Running totals over the groups of one column, of sums and counts.
        suppress : float, optional
            Where `n` is less, all numbers are null, `n` too.
        intervals : bool
            Whether `unbiased` has its interval beside it, `unbiased_low_95` and `unbiased_high_95`.

        Returns
        -------
        data frame
            A line for each group, or for each of its quantiles or cells: its values, of the types that synthetic
            records have (null where missing), or the labels of bins; `value`, what to publish; `low_95` and `high_95`,
            between which the truth lies 19 times out of 20, with noise and the width of the column's bins counted;
            `unbiased`, from the noisy numbers alone (a quotient of two, of a mean or a share); `n`, of how many
            records; and `source`: `measured`; `bounds`, where the noise is so large that the interval is all that the
            column's bounds allow; or `model`, for an answer that only the model gives, or `clipped`, of values clipped
            to narrower bounds, of whose bias nothing is known: for these two the interval is null.

        Warns
        -----
        ModelAloneWarning
            Where some lines are of the `model` alone: these may be far off. It says which columns are independent in
            the model, and how to have the question measured. `sum`, `mean` and the others warn likewise.

        Raises
        ------
        InvalidInput
            For what is no question over this domain, and for one that a release of separate answers does not give.
        """
        check_frame(frame)
        asked = self._question(question)
        options = numbers.TableOptions(
            top, above=above, percent=percent, cumulative=cumulative, suppress=suppress, intervals=intervals
        )
        found = numbers.numbers_table(self, asked, options)
        warn_of_model(self, asked, found)
        return as_frame(found, frame)

    def sum(self, column: str, by: str | Sequence[str] = (), where: str = "", *, frame: Frame = "pandas") -> Any:
        """Sums of a column by group.

        Parameters
        ----------
        column, by, where, frame
            As in `NumericQuestion`, and as in `table`.

        Returns
        -------
        data frame
            As `table` gives it: a row for each group, with intervals, in the unit of the column.
        """
        return self.table(NumericQuestion(self.domain, "sum", column, by, where), frame=frame)

    def mean(self, column: str, by: str | Sequence[str] = (), where: str = "", *, frame: Frame = "pandas") -> Any:
        """Means of a column by group.

        Parameters
        ----------
        column, by, where, frame
            As in `NumericQuestion`, and as in `table`.

        Returns
        -------
        data frame
            As `table` gives it: a row for each group, with intervals, in the unit of the column.
        """
        return self.table(NumericQuestion(self.domain, "mean", column, by, where), frame=frame)

    def variance(self, column: str, by: str | Sequence[str] = (), where: str = "", *, frame: Frame = "pandas") -> Any:
        """Variances of a column by group.

        Parameters
        ----------
        column, by, where, frame
            As in `NumericQuestion`, and as in `table`.

        Returns
        -------
        data frame
            As `table` gives it: a row for each group, with intervals, in the unit of the column squared.
        """
        return self.table(NumericQuestion(self.domain, "variance", column, by, where), frame=frame)

    def quantile(
        self,
        column: str,
        probabilities: float | Sequence[float] = 0.5,
        by: str | Sequence[str] = (),
        where: str = "",
        *,
        frame: Frame = "pandas",
    ) -> Any:
        """Quantiles of a column by group.

        Parameters
        ----------
        column, by, where, frame
            As in `NumericQuestion`, and as in `table`.
        probabilities : float or sequence of float
            Which quantiles; the median by default.

        Returns
        -------
        data frame
            As `table` gives it: a row for each group and probability, in the unit of the column.
        """
        wanted = tuple(probabilities) if isinstance(probabilities, Sequence) else (probabilities,)
        return self.table(NumericQuestion(self.domain, "quantile", column, by, where, wanted), frame=frame)

    def median(self, column: str, by: str | Sequence[str] = (), where: str = "", *, frame: Frame = "pandas") -> Any:
        """Medians of a column by group: `quantile` at one half.

        Parameters
        ----------
        column, by, where, frame
            As in `NumericQuestion`, and as in `table`.

        Returns
        -------
        data frame
            As `table` gives it: a row for each group, in the unit of the column.
        """
        return self.quantile(column, 0.5, by, where, frame=frame)

    def ratio(self, condition: str, by: str | Sequence[str] = (), where: str = "", *, frame: Frame = "pandas") -> Any:
        """Which share of each group meets a condition.

        Parameters
        ----------
        condition : str
            In the language of conditions.
        by, where, frame
            As in `NumericQuestion`, and as in `table`.

        Returns
        -------
        data frame
            As `table` gives it: a row for each group, fractions.
        """
        return self.table(NumericQuestion(self.domain, "ratio", "", by, where, threshold=condition), frame=frame)

    def count(self, by: str | Sequence[str] = (), where: str = "", *, frame: Frame = "pandas") -> Any:
        """How many records each group has.

        Parameters
        ----------
        by, where, frame
            As in `NumericQuestion`, and as in `table`.

        Returns
        -------
        data frame
            As `table` gives it: a row for each group, with intervals. `marginal` has the noisy counts beside them.
        """
        return self.table(NumericQuestion(self.domain, "count", "", by, where), frame=frame)

    def difference(
        self,
        question: str | NumericQuestion | NumberWorkload,
        first: Label | Sequence[Label],
        second: Label | Sequence[Label],
        *,
        frame: Frame = "pandas",
    ) -> Any:
        """The difference of two groups in a sum, count, mean or share, with an interval of its own.

        Parameters
        ----------
        question : str, NumericQuestion or NumberWorkload
            Such as `mean:age by sex`.
        first, second : sequence of str, or str
            The labels of the two groups, one for each grouping column; of a single column also the label itself, or the
            number or truth value that the label spells.
        frame : {"pandas", "polars", "arrow"}
            The kind of data frame.

        Returns
        -------
        data frame
            One line with the numbers of `table`; noise that both groups share is counted right. `n` is that of the
            smaller group.

        Warns
        -----
        ModelAloneWarning
            As `table` does.

        Raises
        ------
        InvalidInput
            For groups that there are not, and for questions of another kind.
        """
        check_frame(frame)
        asked = self._question(question)
        found = numbers.difference(self, asked, asked.place(first), asked.place(second))
        line = numbers.line_numbers(found)
        warn_of_model(self, asked, line)
        return as_frame(line, frame)

    def _question(self, question: str | NumericQuestion | NumberWorkload) -> NumericQuestion:
        return NumericQuestion.of(self.domain, question)

    def sample(
        self, where: str, rows: int | None = None, *, seed: int | None = None, frame: Frame | None = None
    ) -> Any:
        """Synthetic records that meet a condition: drawn from the model's conditional distribution, without rejection.

        Records are independent, so that very rare ones take no longer than others.

        Parameters
        ----------
        where : str
            The condition.
        rows : int, optional
            By default about how many the release has of them.
        seed, frame
            As of `synthetic`.

        Returns
        -------
        dict of ndarrays of shape (rows,), or a data frame
            As `synthetic` gives them.

        Raises
        ------
        InvalidInput
            Where the release has no table, or no record that meets the condition.
        TooLarge
            For a universe without a histogram, of a release that has no records either.
        """
        check_frame(frame)
        rng = generator(self.insecure_seed if seed is None else seed)
        codes = synthetic.some_codes(self, where, rows, rng)
        return _given(columns_of(self.domain, codes, rng, self.points(codes, rng)), frame)

    def _asked(self, workload: Workload | None) -> Workload:
        asked = self.workload if workload is None else workload
        if not isinstance(asked, Workload):
            raise InvalidInput(
                f"one condition as a text, or a workload of counts, is needed, got {asked!r}; several conditions are a"
                " workload by Workload.predicates, and numbers are asked for by table"
            )
        if asked.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this release")
        return asked

    def error_bars(self, workload: Workload | None = None) -> tuple[Floats, Floats]:
        """Unbiased noisy answers, and their 95 % error bars.

        A synopsis that is an `Estimator` answers from all measurements together. Else each query is answered from the
        measurement that gives it with the least variance: of the same queries, of a marginal that contains its columns,
        or of the number of records where it asks for just that. Where counts that were measured with numbers are
        published (`release.published_counts`), they are those.

        Parameters
        ----------
        workload : Workload, optional
            k queries; by default those of the release.

        Returns
        -------
        tuple of ndarray of float, each of shape (k,)
            Answers and half-widths, as counts; NaN where nothing was measured.
        """
        asked = self._asked(workload)
        if self.measured_sums is None:
            return self.measured_bars(asked)
        found = with_numbers(self, asked, self._measured_alone)
        return found.noisy, found.widths

    def measured_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """`error_bars` by the measurements of the synopsis alone, without the counts that were measured with numbers.

        Parameters
        ----------
        workload : Workload
            k queries.

        Returns
        -------
        tuple of ndarray of float, each of shape (k,)
            Answers and half-widths, as counts; NaN where nothing was measured.
        """
        if isinstance(self.synopsis, Estimator):
            return self.synopsis.error_bars(workload)
        found = measured_answers(workload, self.measurements)
        if isinstance(self.synopsis, Answers) and np.isnan(found[1]).any():
            combined = self.synopsis.bars(workload)
            unknown = np.isnan(found[1])
            found = np.where(unknown, combined[0], found[0]), np.where(unknown, combined[1], found[1])
        return found

    def number_tables(self) -> Iterator[NumberTable]:
        """The answers to the questions about numbers that were measured, with all of their intervals.

        Returns
        -------
        iterator of NumberTable
            In the order of the questions: what `numbers.csv` and the page have.
        """
        return numbers.number_tables(self)

    def published(self, workload: Workload) -> PublishedCounts:
        """The answers to a workload with both of their error bars, as every file and page has them.

        Parameters
        ----------
        workload : Workload
            k queries over this domain.

        Returns
        -------
        PublishedCounts
            Arrays of shape (k,).

        Raises
        ------
        InvalidInput
            For queries that the synopsis cannot answer.
        """
        return with_numbers(self, self._asked(workload), self._of_synopsis)

    def _of_synopsis(self, asked: Workload) -> PublishedCounts:
        """The same of the synopsis alone, without the counts that were measured with numbers."""
        answers, (noisy, widths) = self.synopsis.answer(asked), self.measured_bars(asked)
        if isinstance(self.synopsis, Answers):  # a sum of many cells, of which those below 0 were raised, is too large
            own = self.synopsis.holds(asked)
            answers = np.where(own | np.isnan(widths), answers, np.maximum(noisy, 0.0))
        model = np.full(len(asked), np.nan)
        if isinstance(self.synopsis, SelfAssessed):
            model = self.synopsis.model_bars(asked)
        bars = published(asked, answers, model, noisy, widths, self._margin_bars, self.synopsis.total)
        return PublishedCounts(answers, noisy, widths, bars)

    def _measured_alone(self, asked: Workload) -> PublishedCounts:
        """Unbiased answers and their bars, which a synopsis that cannot answer may have, too; NaN for what it says."""
        noisy, widths = self.measured_bars(asked)
        nothing = np.full(len(asked), np.nan)
        return PublishedCounts(nothing, noisy, widths, nothing)

    def model_bars(self, workload: Workload | None = None) -> Floats:
        """Half-widths of the 95 % error bars around the release's own answers: those to publish.

        They count what a model smooths over as well as the noise, see `error_bars.published`. Those of the method
        `error_bars` are around the unbiased answers, and count the noise alone.

        Parameters
        ----------
        workload : Workload, optional
            k queries; by default those of the release.

        Returns
        -------
        ndarray of float, shape (k,)
            Counts; NaN only where not even the number of records was measured.
        """
        return self.published(self._asked(workload)).bars

    def _margin_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """`measured_bars`, and the number of records where it is public."""
        values, widths = self.measured_bars(workload)
        if self.unit.public_records and workload.groups[0] == RECORDS:
            values, widths = values.copy(), widths.copy()
            values[0], widths[0] = self.synopsis.total, 0.0
        return values, widths

    @overload
    def synthetic(
        self, rows: int | None = None, *, seed: int | None = None, frame: None = None
    ) -> dict[str, npt.NDArray[Any]]: ...

    @overload
    def synthetic(self, rows: int | None = None, *, seed: int | None = None, frame: Frame) -> Any: ...

    def synthetic(self, rows: int | None = None, *, seed: int | None = None, frame: Frame | None = None) -> Any:
        """Synthetic records as typed columns: whole numbers, floats, dates or texts, by the schema.

        Without `frame` this is a dict of numpy arrays and no data frame, whereas `marginal`, `answers_frame` and
        `table` give one of pandas: `release.synthetic(frame="pandas")` is the synthetic table as such a frame.

        Parameters
        ----------
        rows : int, optional
            By default the (noisy) number of records, and at most 100,000 where that drowns in its noise.
        seed : int, optional
            Of an ordinary generator: this is post-processing, and reveals nothing that the release does not.
        frame : {"pandas", "polars", "arrow"}, optional
            The kind of data frame; by default a dict of numpy arrays by the names of the columns.

        Returns
        -------
        dict of ndarrays of shape (rows,), or a data frame
            A missing value is null in a data frame. There, categories that are `ordered` by the schema are an ordered
            categorical (pandas), an enum (polars) or an ordered dictionary (pyarrow), to be sorted and compared in the
            schema's order; others are texts. In an array a missing text is None, a missing date NaT and a missing
            number NaN, so that whole numbers are floats there, and categories are texts in any case.
            `pandas.DataFrame` takes the dict as it is.

        Raises
        ------
        InvalidInput
            Where the release has no table, or the package of the data frame is not installed.
        TooLarge
            Where the rows never fit in memory, or, for separate answers, the universe that a table is fitted over.
        OutOfMemory
            Where they do not fit now.
        """
        check_frame(frame)
        rng = generator(self.insecure_seed if seed is None else seed)
        codes = self.codes(rows, rng)
        return _given(columns_of(self.domain, codes, rng, self.points(codes, rng)), frame)

    def codes(self, rows: int | None, rng: np.random.Generator) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Synthetic records as codes.

        Parameters
        ----------
        rows : int or None
            How many; None is about as many as the table has.
        rng : Generator
            Ordinary randomness: the release is public.

        Returns
        -------
        sequence of ndarray of int, each of shape (rows,)
            One for each column.

        Raises
        ------
        InvalidInput
            As `synthetic` does.
        """
        return synthetic.synthetic_codes(self, rows, rng)

    def points(
        self, codes: Sequence[npt.NDArray[np.integer[Any]]], rng: np.random.Generator
    ) -> dict[str, npt.NDArray[np.int64]]:
        """Where in their bins the numbers of synthetic records lie, in columns whose sums were measured.

        Counts of bins leave it open. It is drawn so that in all of the release's records the measured means hold, as
        nearly as the bins' counts and the noise allow: see `inference.tilted_bins`.

        Parameters
        ----------
        codes : sequence of ndarray of int, each of shape (rows,)
            Records of this release, one array for each column of the domain.
        rng : Generator
            Ordinary randomness: the release is public.

        Returns
        -------
        dict of ndarray of int, shape (rows,)
            By the name of a column: for each record the point of the column's grid, counted from 0.
        """
        return {self.domain.names[bins.axis]: bins.points(codes, rng) for bins in self.tilted_bins}

    @cached_property
    def about_bins(self) -> tuple[str, ...]:
        """What the means of numbers in synthetic records are worth, a sentence each; `notes` has these among others."""
        return about_bins(self)

    @cached_property
    def model_records(self) -> tuple[CodeColumns, Floats]:
        """Some records of the model and their weights, the same at each use: what numbers inside bins are fitted to."""
        return model_records(self)

    @cached_property
    def tilted_bins(self) -> tuple[TiltedBins, ...]:
        """How numbers lie inside their bins, for each column whose sums were measured; see `points`."""
        return tilted_bins(self)

    def weighted(self, rows: int | None = None, *, seed: int | None = None) -> tuple[dict[str, Any], Floats]:
        """A weighted table: rows, and how many records each stands for.

        Whole records cannot hold what a histogram says of a cell that expects a third of one; weights can. A universe
        of at most `rows` cells is written out, all but those of less than a millionth of a record; of a larger one it
        is the records that were fitted, or else so many synthetic ones, of which equal ones are one row.

        Parameters
        ----------
        rows : int, optional
            2²⁰ by default.
        seed : int, optional
            Of ordinary randomness.

        Returns
        -------
        tuple of dict of ndarray and ndarray of float, shape (r,)
            Typed columns by name, each of shape (r,), and the weights, whose sum is the (noisy) number of records.

        Raises
        ------
        InvalidInput
            As `synthetic` does.
        """
        rng = generator(self.insecure_seed if seed is None else seed)
        codes, weights = self.weighted_codes(rows, rng)
        return _given(columns_of(self.domain, codes, rng, self.points(codes, rng)), None), weights

    def weighted_codes(
        self, rows: int | None, rng: np.random.Generator
    ) -> tuple[Sequence[npt.NDArray[np.integer[Any]]], Floats]:
        """A weighted table as codes, see `weighted`.

        Parameters
        ----------
        rows : int or None
            As in `weighted`.
        rng : Generator
            Ordinary randomness: the release is public.

        Returns
        -------
        tuple of sequence of ndarray of int and ndarray of float, shape (r,)
            One array (r,) for each column, and the weights.

        Raises
        ------
        InvalidInput
            As `synthetic` does.
        """
        return synthetic.weighted_codes(self, rows, rng)

    @property
    def has_table(self) -> bool:
        """Whether there is a model to draw records from. Its universe may still be too large, see `synthetic`."""
        return self.synopsis.has_table

    def save(
        self,
        folder: str | os.PathLike[str],
        rows: int | None = None,
        *,
        weighted: bool = False,
        answers: bool | None = None,
        format: writer.Format = "csv",
        sign: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the synthetic table, the answers, `release.json` and `report.html` into a new folder, all or nothing.

        `SHA256SUMS` beside them says what they are; `qrelease verify` checks it.

        Parameters
        ----------
        folder : path
            A folder that does not exist, or is empty.
        rows : int, optional
            Of the synthetic table, see `synthetic`.
        weighted : bool
            Whether the synthetic table is the one of `weighted`, with a last column `weight`.
        answers : bool, optional
            Whether the answers are written; by default where they are at most `writer.MAX_ANSWERS`. A release that was
            saved without them gives every answer all the same, and can be saved with them later.
        format : {"csv", "parquet"}
            Of the two tables: `synthetic` and `answers`, with this suffix.
        sign : path, optional
            The private key of the holder, as `qrelease key` makes one: the hashes are signed with it.

        Raises
        ------
        InvalidInput
            Where the folder exists or cannot be written, where Parquet needs a package that is not installed, for a
            file that holds no key, and for a synopsis of one's own class that `qrelease.load` could not read again.
        """
        writer.check_format(format)
        check_stored(self.synopsis)
        key = None if sign is None else private_key(Path(sign))
        if weighted:
            writer.check_weighted(self.domain)
        with writer.new_folder(folder) as part:
            writer.save(self, part, rows, weighted=weighted, answers=answers, format=format)
            if key is not None:
                sign_sums(part, key)

    def __repr__(self) -> str:
        insecure = f", INSECURE seed {self.insecure_seed}" if self.insecure else ""
        derived = self.workload.domain.person is not None and self.unit.at_most is None
        person = " of a person with one record" if derived else ""
        return (
            f"Release({promise.made_by(self)} on {self.dataset!r}: {len(self.workload):,} queries,"
            f" {self.cost:.6g}, {self.unit}{person}{insecure})"
        )

    def __str__(self) -> str:
        return "\n".join([repr(self), *promise.chosen(self)])

    def _repr_html_(self) -> str:
        return html(self, page=False)


def _given(columns: Mapping[str, Column], frame: Frame | None) -> Any:
    """Columns as a data frame, or as arrays."""
    return {name: column.array for name, column in columns.items()} if frame is None else as_frame(columns, frame)
