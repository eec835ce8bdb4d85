"""A client of `qrelease serve`, for analysts: questions in, answers and data frames out."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self, overload

import numpy as np

from qrelease._util.brief import brief
from qrelease._util.validate import whole
from qrelease.apps.client_http import Address, Wire
from qrelease.errors import InvalidInput, ServiceError
from qrelease.privacy.costs import Cost, amount_from_json, check_cost, cost_from_json
from qrelease.release.frames import Column, Frame, as_frame, check_frame, key_name
from qrelease.statistics.catalogue import spell_statistic
from qrelease.statistics.estimate import Estimate

if TYPE_CHECKING:
    from qrelease.statistics.base import Statistic

QuestionForm = str | Sequence[str] | Mapping[str, Any]
"""A condition; the columns of a marginal; or a query as the service's document has it, `{"numbers": "mean:age"}`."""

_OF_NUMBERS: Final = re.compile(
    r"\s*(sum|mean|median|variance|histogram|ratio|quantile\s*\([^)]*\))\s*:|\s*count(\s+by\s|\s*$)"
)
_COST_COLUMNS: Final = ("epsilon", "delta", "rho")
_OWN_COLUMNS: Final = (
    *("query", "value", "low", "high", "source", "takes", "note", "error", "rank_error"),
    *_COST_COLUMNS,
)
_DAY, _MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}"), re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """One answer of a service.

    query       the condition, or the question about numbers, in its one fixed spelling
    value       a count; of numbers a sum, a mean, and so on
    error       the true value is this close, except with the probability `ServedSchema.beta`
    source      how it was obtained: "cached", "hypothesis", "synopsis" or "measured"
    cost        what it cost; None for nothing
    low, high   of numbers: what the true answer lies between, except with `beta` for each count that it is made of
    rank_error  of a quantile: how many records its rank may be off by; `low` and `high` allow for it
    takes       by how much it raised what the analyst has spent, in the terms of that budget; None for nothing
    note        of numbers: why `low` and `high` tell no more than was known before; that a synopsis was bought; else
                nothing
    group       of a marginal, and of numbers by group: the value of each column of the group, or the label of its bin,
                in the order that was asked for; None for a missing value, and nothing without groups
    """

    query: str
    value: float
    error: float
    source: str
    cost: Cost | None
    low: float | None = None
    high: float | None = None
    rank_error: float | None = None
    takes: Mapping[str, float] | None = None
    note: str = ""
    group: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class ServedQuote:
    """What a question would cost now.

    source      how it would be answered
    cost        at most; None for nothing
    takes       by how much what the analyst has spent would rise, in the terms of that budget
    affordable  whether the budgets hold it now
    note        a sentence where there are so many groups that the answers can tell little, or where less may be charged
                than is quoted, as of a quantile, or where a synopsis would be bought; else nothing
    error       how far off each answer may be: of counts at most, of sums, means and shares about so far where all
                groups have as many records and none lacks the number; None where that rests on what is private
    """

    source: str
    cost: Cost | None
    takes: Mapping[str, float] | None
    affordable: bool
    note: str = ""
    error: float | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class ServedEstimate:
    """A statistic that a service estimated.

    estimate  its value, interval and promise, and what was measured
    source    "measured", or "cached" where it was paid for before
    cost      what it cost now; None for nothing
    takes     by how much it raised what the analyst has spent, in the terms of that budget; None for nothing
    """

    estimate: Estimate
    source: str
    cost: Cost | None
    takes: Mapping[str, float] | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class ServedEstimateQuote:
    """What an estimate would cost now.

    source      "measured", or "cached" where it was paid for before
    cost        the cost that was given; None for nothing
    takes       by how much what the analyst has spent would rise, in the terms of that budget
    affordable  whether the budgets hold it now
    promise     the error is at most this with probability 0.95, for as many records as the service counted; or None
    """

    source: str
    cost: Cost | None
    takes: Mapping[str, float] | None
    affordable: bool
    promise: float | None

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class ServedBudget:
    """An analyst's account, and the whole service's; nothing spent, or left, is None.

    `left` is the largest cost of the total's kind that can still be bought; `note` says why it is less than what the
    total has more than was spent, where it is. `answers` is about how many more counts that have to be paid for both
    accounts still buy, at the present price of one by itself; None from a server that does not say.
    """

    name: str
    requests: int
    total: Cost
    spent: Cost | None
    server_total: Cost
    server_spent: Cost | None
    left: Cost | None = None
    server_left: Cost | None = None
    note: str = ""
    answers: int | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class ServedColumn:
    """A column: `conditions` name its first thousand cells; `missing` is the text for no value, where there is one."""

    name: str
    kind: Literal["coded", "category", "number", "date"]
    ordered: bool
    cells: int
    conditions: tuple[str, ...]
    missing: str | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class ServedSchema:
    """What is public of the table: its columns, and what is promised of answers.

    An answer is within the fraction `alpha` of the records, with probability 1 - `beta`.
    """

    dataset: str
    neighbours: str
    alpha: float
    beta: float
    cells: int
    columns: tuple[ServedColumn, ...]
    person: tuple[str, int] | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """One request of an analyst's history; `AnalystClient.answered` has what it was answered.

    Of an estimate there are no queries, and `AnalystClient.estimated` has it.
    """

    number: int
    key: str
    time: str
    queries: tuple[Mapping[str, Any], ...]
    estimate: Mapping[str, Any] | None = None

    __repr__ = brief


def connect(
    url: str,
    token: str,
    *,
    timeout: float = 30.0,
    patience: float = 60.0,
    ca: str | os.PathLike[str] | None = None,
) -> AnalystClient:
    """A client of the service at a URL, with an analyst's token. Nothing is sent before the first question.

    Parameters
    ----------
    url : str
        https://HOST, with :PORT and /PATH where there are any; http:// to this machine alone.
    token : str
        As `qrelease analyst add` printed it; space around it, as of a line of a file, is left out.
    timeout : float
        Seconds that one attempt waits for the network.
    patience : float
        Seconds for which a request is sent again, after a lost connection or a service that has no time.
    ca : path, optional
        A file of certificates to trust in place of the system's.

    Returns
    -------
    AnalystClient
        For one thread at a time; others wait.

    Raises
    ------
    InvalidInput
        For a URL without TLS to another machine, and for what can be no token.

    Examples
    --------
    >>> import qrelease as qr
    >>> qr.connect("https://data.example.org/people", "some-token")
    <AnalystClient of https://data.example.org:443/people>
    >>> qr.connect("http://data.example.org", "some-token")
    Traceback (most recent call last):
    ...
    qrelease.errors.InvalidInput: url must be https: to data.example.org the token would travel in the clear
    """
    return AnalystClient(Wire(Address.of(url), token, timeout, patience, ca))


class AnalystClient:
    """A connection to a service, for one analyst; `connect` makes it.

    A question is sent under a key. Where the connection breaks, or the service has no time (429, 5xx), it is sent again
    under that key, so that what was paid for before is given again and nothing is paid for twice. If `patience` ends
    first, a `ServiceError` names the key, and `ask(..., key=...)` goes on from there, in another process too.

    Parameters
    ----------
    wire : Wire
        The connection, which `connect` opens.

    Examples
    --------
    >>> import qrelease as qr
    >>> with qr.connect("https://data.example.org", "some-token") as people:  # doctest: +SKIP
    ...     people.quote(["age >= 60 and smokes = yes"])
    ...     people.ask("age >= 60 and smokes = yes").value
    ...     people.ask_many([["sex", "smokes"]], frame="pandas")
    ...     people.numbers("mean:age by sex", frame="polars")
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __repr__(self) -> str:
        return f"<AnalystClient of {self._wire.address}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def schema(self) -> ServedSchema:
        """The columns of the table, the conditions that name their cells, and what is promised of answers: free."""
        found = self._wire.get("/v1/schema")
        with _expected():
            columns = [ServedColumn(**{**c, "conditions": tuple(c["conditions"])}) for c in found["columns"]]
            person = found.get("person")
            held_by = None if person is None else (str(person["column"]), int(person["at_most"]))
            return ServedSchema(**{**found, "columns": tuple(columns), "person": held_by})

    def budget(self) -> ServedBudget:
        """What this analyst, and the service as a whole, may spend and have spent."""
        found = self._wire.get("/v1/budget")
        with _expected():
            own, server = found["analyst"], found["server"]
            accounts = [
                (
                    cost_from_json(account["total"]),
                    amount_from_json(account["spent"]),
                    amount_from_json(account.get("left")),
                )
                for account in (own, server)
            ]
            (total, spent, left), (server_total, server_spent, server_left) = accounts
            both = [account["answers"] for account in (own, server) if "answers" in account]
            return ServedBudget(
                found["name"],
                found["requests"],
                total,
                spent,
                server_total,
                server_spent,
                left,
                server_left,
                found.get("note", ""),
                min(both, default=None),
            )

    def quote(self, questions: Sequence[QuestionForm]) -> list[ServedQuote]:
        """What each question would cost now, without asking it.

        Each is priced as if it came first. What a list takes may be less than the sum, as some answers follow from
        others, or more, as a session buys a synopsis once many alike were asked; `ask_many` limits it by `most`.

        Parameters
        ----------
        questions : sequence of str or of list of str
            Conditions, or the columns of marginals.

        Returns
        -------
        list of ServedQuote
            One for each question.

        Raises
        ------
        InvalidInput
            Where a question means nothing.
        ServiceError
            Where no answer came in time.
        """
        with _advised(questions):
            found = self._wire.post("/v1/quote", {"queries": _queries(questions)})
        with _expected():
            return [
                ServedQuote(
                    q["source"],
                    _cost(q["cost"]),
                    q["takes"],
                    bool(q["affordable"]),
                    q.get("note", ""),
                    q.get("error"),
                )
                for q in found["quotes"]
            ]

    def ask(
        self, condition: str, *, most: float | None = None, synopsis: bool = True, key: str | None = None
    ) -> ServedAnswer:
        """How many records meet a condition, such as `age >= 60 and smokes = yes`.

        Parameters
        ----------
        condition : str
            In the language of conditions.
        most : float, optional
            Refuse rather than take more than this of the budget, in ε, or in ρ where the budget is in ρ.
        synopsis : bool
            Whether a synopsis may be bought, where many like it were asked: it costs more, and makes later ones free.
        key : str, optional
            This question's own name, by default a new one: asked again under it, the answer is the same, and free.

        Returns
        -------
        ServedAnswer
            A count, how far off it may be, and what it cost.

        Raises
        ------
        BudgetExceeded
            Where a budget, or `most`, does not hold it.
        InvalidInput
            Where the question means nothing, or the key is another question's.
        ServiceError
            Where no answer came in time; its `key` is the one to go on with.
        """
        if not isinstance(condition, str):
            raise InvalidInput(
                f"ask takes one condition, a text; ask_many([...]) takes other questions, got {condition!r}"
            )
        with _advised([condition]):
            (answer,) = self._asked("/v1/query", {"where": condition, **_wish(synopsis=synopsis)}, most, key)
        return answer

    @overload
    def ask_many(
        self, questions: Sequence[QuestionForm], *, most: float | None = ..., key: str | None = ..., frame: None = ...
    ) -> list[ServedAnswer]: ...
    @overload
    def ask_many(
        self,
        questions: Sequence[QuestionForm],
        *,
        most: float | None = ...,
        key: str | None = ...,
        frame: Frame,
        details: bool = ...,
    ) -> Any: ...
    def ask_many(
        self,
        questions: Sequence[QuestionForm],
        *,
        most: float | None = None,
        key: str | None = None,
        frame: Frame | None = None,
        details: bool = False,
    ) -> Any:
        """Ask up to 100 questions in one request.

        If a budget ends in between, what was found before is paid for, kept, and free when it is asked again.

        Parameters
        ----------
        questions : sequence of str or of list of str
            Conditions; or the columns of a marginal, as `["sex", "age"]`, which has an answer for each of its cells.
        most, key
            As in `ask`, of all together.
        frame : {"pandas", "polars", "arrow"}, optional
            The kind of data frame that is wanted.
        details : bool
            Whether a frame has all that answers have: also `error`, `rank_error`, and what was paid for each.

        Returns
        -------
        list of ServedAnswer, or a data frame
            A frame has a row an answer; `low` and `high` are what the truth lies between, of a count `value` ± `error`,
            and `takes` is what it took of the budget, in ε, or in ρ where the budget is in ρ.

        Raises
        ------
        BudgetExceeded, InvalidInput, ServiceError
            As `ask` does.
        """
        check_frame(frame)
        with _advised(questions):
            found = self._asked("/v1/batch", {"queries": _queries(questions)}, most, key)
        return found if frame is None else as_frame(_answer_columns(found, details=details), frame)

    @overload
    def numbers(
        self,
        question: str,
        *,
        top: int | None = ...,
        most: float | None = ...,
        synopsis: bool = ...,
        key: str | None = ...,
        frame: None = ...,
    ) -> list[ServedAnswer]: ...
    @overload
    def numbers(
        self,
        question: str,
        *,
        top: int | None = ...,
        most: float | None = ...,
        synopsis: bool = ...,
        key: str | None = ...,
        frame: Frame,
        details: bool = ...,
    ) -> Any: ...
    def numbers(
        self,
        question: str,
        *,
        top: int | None = None,
        most: float | None = None,
        synopsis: bool = True,
        key: str | None = None,
        frame: Frame | None = None,
        details: bool = False,
    ) -> Any:
        """Numbers by group, such as `mean:age by sex where income = '>50K'`.

        Parameters
        ----------
        question : str
            In the language of questions about numbers (`qrelease.queries.numeric`).
        top : int, optional
            Give only so many groups, those of the largest values, in descending order. All groups are asked and paid
            for; the first of those given has the cost.
        most, key, frame, details
            As in `ask_many`; a frame has the groups by their columns, too.
        synopsis
            As in `ask`.

        Returns
        -------
        list of ServedAnswer, or a data frame
            An answer for each group, in the unit of the column; counts for `count`, fractions for `ratio`.

        Raises
        ------
        BudgetExceeded, InvalidInput, ServiceError
            As `ask` does.
        """
        check_frame(frame)
        limit = {} if top is None else {"top": whole("top", top, least=1)}
        found = self._asked("/v1/query", {"numbers": question, **limit, **_wish(synopsis=synopsis)}, most, key)
        return found if frame is None else as_frame(_answer_columns(found, details=details), frame)

    def estimate(
        self, statistic: str | Statistic, cost: Cost, *, most: float | None = None, key: str | None = None
    ) -> ServedEstimate:
        """A statistic at a cost of your choice, or the groups whose count, sum or mean is above a threshold.

        One that was estimated before at this cost, or at a larger one, is given again, free.

        Parameters
        ----------
        statistic : str or Statistic
            Such as `qr.Quantile("age", 0.25)`, or its text, `quantile:age,q=0.25`; and
            `qr.AboveThresholds(("job",), 50, positives=4, measure="mean", column="pay")`.
        cost : PureDP or ZCDP
            What it may cost; all of it is charged, once.
        most, key
            As in `ask`.

        Returns
        -------
        ServedEstimate
            With the estimate, as `Curator.estimate` makes it.

        Raises
        ------
        BudgetExceeded, InvalidInput, ServiceError
            As `ask` does.
        """
        return _estimated(self._spend("/v1/estimate", _estimate_body(statistic, cost), most, key))

    def quote_estimate(self, statistic: str | Statistic, cost: Cost) -> ServedEstimateQuote:
        """What an estimate would cost now, and what is promised of it, without making it.

        Parameters
        ----------
        statistic, cost
            As in `estimate`.

        Returns
        -------
        ServedEstimateQuote
            Nothing is charged.

        Raises
        ------
        InvalidInput, ServiceError
            As `estimate` does.
        """
        found = self._wire.post("/v1/estimate/quote", _estimate_body(statistic, cost))
        with _expected():
            parts = {name: found[name] for name in ("source", "takes", "affordable", "promise")}
            return ServedEstimateQuote(**parts, cost=_cost(found["cost"]))

    def estimated(self, number: int) -> ServedEstimate:
        """The estimate of an earlier request, as it was given: free.

        Parameters
        ----------
        number : int
            The number of the request in the analyst's history, from 1.

        Returns
        -------
        ServedEstimate
            With what it cost then.

        Raises
        ------
        InvalidInput
            Where there was no such request, or it was of queries.
        ServiceError
            Where no answer came in time.
        """
        found = self._earlier(number)
        if "answers" in found:
            raise InvalidInput(f"request {number} was of queries: answered({number}) has its answers")
        return _estimated(found)

    def synthetic(self, rows: int = 1000, *, frame: Frame | None = None) -> Any:
        """Synthetic records drawn from what the answers so far tell; free.

        Parameters
        ----------
        rows : int
            How many; a response has two million values at most.
        frame : {"pandas", "polars", "arrow"}, optional
            The kind of data frame; by default a dict of arrays.

        Returns
        -------
        dict of ndarrays of shape (rows,), or a data frame
            Columns are typed, and values missing, as `Release.synthetic` has them.

        Raises
        ------
        InvalidInput
            For a number of rows that is not positive, or more than a response has.
        ServiceError
            Where no answer came in time.
        """
        return self._records("/v1/synthetic", rows, frame)

    def dummy(self, rows: int = 1000, *, frame: Frame | None = None) -> Any:
        """Made-up records of the same columns, drawn from the schema alone, to try code on: free.

        Parameters
        ----------
        rows : int
            How many, as for `synthetic`.
        frame : {"pandas", "polars", "arrow"}, optional
            The kind of data frame; by default a dict of arrays.

        Returns
        -------
        dict of ndarrays of shape (rows,), or a data frame
            As of `synthetic`. They say nothing of anybody.

        Raises
        ------
        InvalidInput, ServiceError
            As `synthetic` does.
        """
        return self._records("/v1/dummy", rows, frame)

    def _records(self, path: str, rows: int, frame: Frame | None) -> Any:
        check_frame(frame)
        schema = self.schema()
        found = self._wire.get(path, rows=whole("rows", rows, least=1), format="json")
        with _expected():
            cells = zip(*found["rows"], strict=True)
            columns = {c.name: _typed(c, v) for c, v in zip(schema.columns, cells, strict=True)}
            if [*columns] != found["columns"]:
                raise ValueError("other columns than the schema's")
        return {name: column.array for name, column in columns.items()} if frame is None else as_frame(columns, frame)

    def history(self) -> list[ServedRequest]:
        """This analyst's requests, in order: free."""
        first: int | None = 1
        found: list[ServedRequest] = []
        while first is not None:
            page = self._wire.get("/v1/history", first=first)
            with _expected():
                found += [ServedRequest(**{**r, "queries": tuple(r["queries"])}) for r in page["requests"]]
                first = page["next"]
        return found

    def answered(self, number: int) -> list[ServedAnswer]:
        """The answers to an earlier request, as they were given: free.

        Parameters
        ----------
        number : int
            The number of the request in the analyst's history, from 1.

        Returns
        -------
        list of ServedAnswer
            In the order of the questions.

        Raises
        ------
        InvalidInput
            Where there was no such request, or it was of an estimate.
        ServiceError
            Where no answer came in time.
        """
        found = self._earlier(number)
        if "estimate" in found:
            raise InvalidInput(f"request {number} was of an estimate: estimated({number}) has it")
        return _answers(found)

    def _earlier(self, number: int) -> Any:
        return self._wire.get(f"/v1/history/{whole('number', number, least=1)}")

    def _asked(self, path: str, body: object, most: float | None, key: str | None) -> list[ServedAnswer]:
        return _answers(self._spend(path, body, most, key))

    def _spend(self, path: str, body: object, most: float | None, key: str | None) -> Any:
        """What a service says to a request that may spend."""
        named = secrets.token_urlsafe(18) if key is None else key
        return self._wire.post(path, body, named, most=None if most is None else f"{float(most)!r}")


def _wish(*, synopsis: bool) -> Mapping[str, bool]:
    """What a query says of synopses: nothing where one may be bought."""
    return {} if synopsis else {"synopsis": False}


@contextlib.contextmanager
def _advised(questions: Sequence[QuestionForm]) -> Iterator[None]:
    """While a service reads questions: of a refused one that looks like one about numbers, say where it goes."""
    try:
        yield
    except InvalidInput as error:
        numbers = next((q for q in questions if isinstance(q, str) and _OF_NUMBERS.match(q)), None)
        if numbers is None:
            raise
        advice = f"numbers({numbers!r}) asks for numbers, and {{'numbers': {numbers!r}}} does in a list"
        raise InvalidInput(f"{error}; {advice}") from None


def _queries(questions: Sequence[QuestionForm]) -> list[Mapping[str, Any]]:
    """Questions as the service's document has them; one question is no list, although a text has items too."""
    if isinstance(questions, str | Mapping):
        raise InvalidInput(f"a list of questions is wanted, [{questions!r}], got a single one")
    return [_query(question) for question in questions]


def _query(question: QuestionForm) -> Mapping[str, Any]:
    """A question as the service's document has it."""
    if isinstance(question, str):
        return {"where": question}
    return question if isinstance(question, Mapping) else {"marginal": [*question]}


@contextlib.contextmanager
def _expected() -> Iterator[None]:
    """While a response is read: one of another shape is no answer."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ServiceError("the service answered in another form than this version of qrelease knows", 200) from None


def _cost(found: Mapping[str, float] | None) -> Cost | None:
    return None if found is None else cost_from_json(found)


def _answers(found: Any) -> list[ServedAnswer]:
    with _expected():
        return [ServedAnswer(**{**answer, "cost": _cost(answer["cost"])}) for answer in found["answers"]]


def _estimate_body(statistic: str | Statistic, cost: Cost) -> Mapping[str, Any]:
    """A request for an estimate."""
    check_cost(cost)
    return {"statistic": statistic if isinstance(statistic, str) else spell_statistic(statistic), **cost.to_json()}


def _estimated(found: Any) -> ServedEstimate:
    with _expected():
        return ServedEstimate(
            Estimate.from_json(found["estimate"]), found["source"], _cost(found["cost"]), found["takes"]
        )


def _answer_columns(answers: Sequence[ServedAnswer], *, details: bool) -> dict[str, Column]:
    """Answers as columns: first those of the groups, where all answers are of groups by the same columns.

    The others are always the same ones, and what an answer does not have is missing there. A count lies as far on
    either side as its `error` says.

    details  whether all that they have is there; what does not fit a line is not seen
    """
    found = {
        **_group_columns(answers),
        "query": _texts([a.query for a in answers]),
        "value": _floats([a.value for a in answers]),
        "low": _floats([a.value - a.error if a.low is None else a.low for a in answers]),
        "high": _floats([a.value + a.error if a.high is None else a.high for a in answers]),
        "source": _texts([a.source for a in answers]),
        "takes": _floats([next(iter(a.takes.values())) if a.takes else None for a in answers]),
        "note": _texts([a.note for a in answers]),
    }
    if not details:
        return found
    costs = [{} if a.cost is None else a.cost.to_json() for a in answers]
    return {
        **found,
        "error": _floats([a.error for a in answers]),
        "rank_error": _floats([a.rank_error for a in answers]),
        **{name: _floats([cost.get(name) for cost in costs]) for name in _COST_COLUMNS},
    }


def _group_columns(answers: Sequence[ServedAnswer]) -> dict[str, Column]:
    """The groups of answers by the columns that these are of; nothing where these are not the same for all."""
    names = [*answers[0].group] if answers else []
    if any([*a.group] != names for a in answers):
        return {}
    return {key_name(name, _OWN_COLUMNS, names): _cells([a.group[name] for a in answers]) for name in names}


def _cells(values: Sequence[Any]) -> Column:
    """Numbers, truth values or texts, some of which may be missing."""
    missing = np.array([value is None for value in values], dtype=bool)
    kinds = {type(value) for value in values if value is not None}
    kind = next((kind for kind in (bool, int, float) if kinds == {kind}), object)
    empty = None if kind is object else kind()
    return Column(np.array([empty if value is None else value for value in values], dtype=kind), missing)


def _texts(values: Sequence[str]) -> Column:
    return Column(np.array(values, dtype=object))


def _floats(values: Sequence[float | None]) -> Column:
    missing = np.array([value is None for value in values], dtype=bool)
    return Column(np.array([0.0 if value is None else value for value in values], dtype=np.float64), missing)


def _typed(column: ServedColumn, cells: Sequence[Any]) -> Column:
    """Synthetic values as the schema types them: whole numbers, floats, dates or texts."""
    missing = None
    if column.missing is not None:
        missing = np.array([isinstance(cell, str) and cell == column.missing for cell in cells], dtype=bool)
    if column.kind == "category":
        return Column(np.array([str(cell) for cell in cells], dtype=object), missing)
    absent = np.zeros(len(cells), dtype=bool) if missing is None else missing
    if column.kind == "date":
        days = [cell for cell, no in zip(cells, absent, strict=True) if not no]
        if not all(_DAY.fullmatch(day) or _MOMENT.fullmatch(day) for day in days):
            raise ValueError("no date")
        unit = "datetime64[D]" if all(_DAY.fullmatch(day) for day in days) else "datetime64[s]"
        return Column(
            np.array(["1970-01-01" if no else cell for cell, no in zip(cells, absent, strict=True)], dtype=unit),
            missing,
        )
    numbers = [0 if no else cell for cell, no in zip(cells, absent, strict=True)]
    if not all(isinstance(number, int | float) for number in numbers):
        raise ValueError("no number")
    integers = all(isinstance(number, int) for number in numbers)
    return Column(np.array(numbers, dtype=np.int64 if integers else np.float64), missing)
