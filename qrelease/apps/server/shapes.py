"""What goes over the wire, as types: requests are read as these, and responses are written from them.

The OpenAPI document is made of the same types (`openapi`), and of what their docstrings say.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from qrelease._util.texts import meant
from qrelease.errors import InvalidInput

_T = TypeVar("_T")

MAX_TEXT: Final = 4096
"""Characters of a condition."""

MAX_BATCH: Final = 100
"""Queries in one request."""

MAX_ROWS: Final = 100_000
"""Synthetic records in one response."""

MAX_VALUES: Final = 1 << 21
"""Of synthetic records in one response: rows times columns."""

MAX_SHOWN: Final = 64
"""Characters of an unknown name that are said again."""

MAX_PAGE: Final = 100
"""Requests in one page of a history."""

Name = Annotated[str, Meta(min_length=1, max_length=256)]
Condition = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Count = Annotated[int, Meta(ge=0)]
Number = Annotated[int, Meta(ge=1, le=2**53)]

Cost = Annotated[
    dict[str, float] | None, Meta(description="A privacy cost: epsilon, epsilon and delta, or rho; null is none.")
]

Source = Literal["cached", "hypothesis", "synopsis", "measured"]
"""How an answer was obtained: see `OnlineAnswer`."""


class Shape(Struct, forbid_unknown_fields=True):
    """An object of these members and no others; those that are `UNSET` may be left out."""


class Range(Shape):
    """The records of a range of one column."""

    column: Name
    low: Name
    high: Name


QUERY_FORMS: Final = ("where", "marginal", "range", "numbers")
"""The members of a query of which it has one."""


class Query(Shape):
    """What to count: the records of a condition, of a range of one column, or of every cell of a marginal; or numbers
    by group, as `mean:age by sex where income = '>50K'`: sum, mean, variance, quantile(.5,.9) or ratio of a column, or
    count. One of these; with numbers there may be `top`.
    """

    where: (
        Annotated[
            Condition,
            Meta(
                description="a condition: COLUMN = VALUE, or != < <= > >=; COLUMN in LOW..HIGH, or in {A, B};"
                " COLUMN between LOW and HIGH; COLUMN like 'A%', of categories, where % is any text and _ a character;"
                " COLUMN is missing; joined by and, or, not and parentheses. Values with spaces or signs go in single"
                " quotes, names of columns in double ones, and a quote inside is doubled"
            ),
        ]
        | UnsetType
    ) = UNSET
    marginal: Annotated[list[Name], Meta(min_length=1, max_length=16)] | UnsetType = UNSET
    range: Range | UnsetType = UNSET
    numbers: (
        Annotated[
            Condition,
            Meta(
                description="KIND:COLUMN, then `by COLUMN*COLUMN` and `where CONDITION` if wanted; KIND is sum, mean,"
                " variance, median or quantile(.25,.5); also ratio:CONDITION, the share of records that meet it, and"
                " count, without a column"
            ),
        ]
        | UnsetType
    ) = UNSET
    top: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=2**53,
                description="of numbers: give only so many groups, those of the largest values, in descending order;"
                " all groups are asked and paid for",
            ),
        ]
        | UnsetType
    ) = UNSET
    synopsis: (
        Annotated[
            bool,
            Meta(
                description="false: buy no synopsis, which would make later questions of this kind free at a higher"
                " price, but this answer alone; by default the server decides by what was asked so far"
            ),
        ]
        | UnsetType
    ) = UNSET

    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not UNSET for name in QUERY_FORMS) != 1:
            both = self.where is not UNSET and self.numbers is not UNSET
            inside = ": write the condition into the text, `mean:COLUMN by COLUMN where CONDITION`" if both else ""
            raise ValueError(f"Expected an object with one of {', '.join(QUERY_FORMS)}{inside}")
        if self.top is not UNSET and self.numbers is UNSET:
            raise ValueError("Expected top beside numbers alone")


class Queries(Shape):
    """Several queries."""

    queries: Annotated[list[Query], Meta(min_length=1, max_length=MAX_BATCH)]


class Answer(Shape):
    """One answer; of numbers it has `low` and `high` too, and of a quantile `rank_error`."""

    query: Annotated[str, Meta(description="the condition, in its one fixed spelling")]
    value: Annotated[float, Meta(description="a count; of numbers a sum, a mean, and so on")]
    error: Annotated[
        float, Meta(description="with probability 1 - beta the truth is this close; of numbers, low and high")
    ]
    source: Source
    cost: Cost
    low: (
        Annotated[
            float,
            Meta(
                description="of numbers: what the true answer lies between, except with beta for each count"
                " that it is made of; of a quantile it allows for rank_error"
            ),
        ]
        | UnsetType
    ) = UNSET
    high: float | UnsetType = UNSET
    rank_error: (
        Annotated[
            float, Meta(description="of a quantile: how many records its rank may be off by; low and high allow for it")
        ]
        | UnsetType
    ) = UNSET
    takes: Annotated[
        dict[str, float] | None,
        Meta(
            description="by how much it raised what your budget says that you have spent, in its terms; null for free"
        ),
    ] = None
    note: (
        Annotated[
            str,
            Meta(
                description="of numbers: why low and high tell no more than was known before; and that a synopsis was"
                " bought, where that is so"
            ),
        ]
        | UnsetType
    ) = UNSET

    group: (
        Annotated[
            dict[str, Any],
            Meta(
                description="of a marginal, and of numbers by group: the value of each column of the group, or the"
                " label of its bin, in the order that was asked for; null is no value"
            ),
        ]
        | UnsetType
    ) = UNSET


class Answered(Shape):
    """The answers to all queries of a request, in order."""

    answers: list[Answer]


class Quote(Shape):
    """What a query would cost now."""

    source: Annotated[
        Source,
        Meta(
            description="a `synopsis` answers a whole class of queries, all ranges of a column for one: it costs more"
            " than this one answer by itself, and makes the others of its class free"
        ),
    ]
    cost: Cost
    takes: Annotated[
        dict[str, float] | None,
        Meta(description="by how much it would raise what your budget says that you have spent, in its terms"),
    ]
    affordable: Annotated[bool, Meta(description="whether the budgets hold it now; if not, this is its price")]
    note: (
        Annotated[
            str,
            Meta(
                description="of numbers: a sentence where there are so many groups that the answers can tell little, or"
                " where less may be charged than is quoted; and what the answer would take by itself, where a synopsis"
                " would be bought"
            ),
        ]
        | UnsetType
    ) = UNSET
    error: (
        Annotated[
            float,
            Meta(
                description="how far off each answer may be, with the session's probability: of a count at most; of a"
                " sum, a mean or a share about so far where all groups have as many records and none lacks the number;"
                " left out where that is private"
            ),
        ]
        | UnsetType
    ) = UNSET


class EstimateQuery(Shape):
    """A statistic, and what it may cost: rho, or epsilon alone. The whole of it is charged."""

    statistic: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_TEXT,
            description="`NAME:COLUMN` with parameters, as `quantile:age,q=0.25`; a list is `a/b/c`. Which groups"
            " have a count, a sum or a mean of at least T: `above-thresholds:job,threshold=50,positives=4,"
            "measure=mean,column=pay`",
        ),
    ]
    epsilon: float | UnsetType = UNSET
    delta: Annotated[
        float | UnsetType,
        Meta(description="refused, as what answers take of the budget has no delta: rho, or epsilon alone"),
    ] = UNSET
    rho: float | UnsetType = UNSET

    def __post_init__(self) -> None:
        given = tuple(name for name in ("epsilon", "delta", "rho") if getattr(self, name) is not UNSET)
        if given not in (("epsilon",), ("epsilon", "delta"), ("rho",)):
            raise ValueError("Expected rho, or epsilon alone")

    @property
    def cost(self) -> dict[str, float]:
        """The cost, as `cost_from_json` reads it."""
        parts = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        return {name: part for name, part in parts.items() if part is not UNSET}


class EstimateQuote(Shape):
    """What an estimate would cost now, and what its theorem promises."""

    source: Literal["cached", "measured"]
    cost: Cost
    takes: Annotated[
        dict[str, float] | None,
        Meta(description="by how much it would raise what your budget says that you have spent, in its terms"),
    ]
    affordable: Annotated[bool, Meta(description="whether the budgets hold it now; if not, this is its price")]
    promise: Annotated[
        float | None,
        Meta(
            description="with probability 0.95 the error is at most this, for as many records as the server counted;"
            " null where nothing is promised"
        ),
    ]


class Estimated(Shape):
    """An estimate. One that was made before, at this cost or a larger one, is given again, free."""

    estimate: Annotated[
        dict[str, Any],
        Meta(
            description="`value`: a number, several, or the labels of groups; `interval` for what `covers` says, with"
            " the probability `confidence`; `promise`, what the error is at most in the `unit` of errors, with that"
            " probability; `cost`; and what was `measured`"
        ),
    ]
    source: Literal["cached", "measured"]
    cost: Cost
    takes: Annotated[
        dict[str, float] | None,
        Meta(
            description="by how much it raised what your budget says that you have spent, in its terms; null for free"
        ),
    ] = None


class Total(Shape):
    """What all queries of a request would cost now."""

    cost: Cost
    takes: Annotated[
        dict[str, float] | None,
        Meta(description="by how much it would raise what your budget says that you have spent, in its terms"),
    ]
    affordable: Annotated[bool, Meta(description="whether the budgets hold all of it now")]


class Quoted(Shape):
    """The quotes of all queries of a request, in order, each as if it were the first: their sum is no price of all."""

    quotes: list[Quote]
    total: Annotated[
        Total | UnsetType,
        Meta(
            description="of several queries: what they would cost together, equal ones once and a synopsis once for all"
            " that it answers; less where some turn out to follow from others, and more where a synopsis is bought on"
            " the way for many alike: `most` limits it"
        ),
    ] = UNSET


class Account(Shape):
    """What may be spent in all, what was, and what is left."""

    total: dict[str, float]
    spent: Annotated[dict[str, float], Meta(description="in the terms of the total; zeros for nothing")]
    left: Annotated[
        dict[str, float],
        Meta(
            description="the largest cost of the total's kind that can still be bought, zeros for nothing: not always"
            " total less spent, since charges in rho add up at an order of their own"
        ),
    ]
    answers: Annotated[
        Count,
        Meta(
            description="about how many more counts that have to be paid for this buys, at the present price of one by"
            " itself: those that follow from earlier answers are free, and numbers and groups may cost several times"
            " as much",
        ),
    ]


class Budget(Shape):
    """An analyst's account, and that of the whole server."""

    name: str
    requests: Count
    analyst: Account
    server: Account
    note: (
        Annotated[
            str,
            Meta(
                description="where spent and left of either come to less than the total: a sentence that says why, and"
                " how much of your budget cannot be used, where that is so"
            ),
        ]
        | UnsetType
    ) = UNSET


class Column(Shape):
    """A column of the table, with conditions that name its first cells."""

    name: str
    kind: Literal["coded", "category", "number", "date"]
    ordered: bool
    cells: Count
    conditions: list[str]
    missing: Annotated[str, Meta(description="what stands in a synthetic record for no value")] | UnsetType = UNSET


class Person(Shape):
    """Who is protected, where that is a person of several records."""

    column: str
    at_most: Count


class Domain(Shape):
    """The columns of the table, and what is promised: within the fraction alpha of the records, but for beta."""

    dataset: str
    neighbours: Literal["add-remove", "replace-one"]
    alpha: float
    beta: float
    cells: Count
    columns: list[Column]
    person: Person | UnsetType = UNSET


class Asked(Shape):
    """A request that was answered, and when: of queries, or of an estimate."""

    number: Count
    key: str
    time: str
    queries: list[Query]
    estimate: EstimateQuery | UnsetType = UNSET


class Kept(Shape):
    """The body of a request as the ledger keeps it."""

    queries: list[Query] | UnsetType = UNSET
    estimate: EstimateQuery | UnsetType = UNSET


class History(Shape):
    """Requests in order, and the number of the first one of the next page."""

    requests: list[Asked]
    next: int | None


class Records(Shape):
    """Synthetic records by row, each with its values in the order of the columns."""

    columns: list[str]
    rows: list[list[Any]]


class Datasets(Shape):
    """The names of datasets."""

    datasets: list[str]


class Health(Shape):
    """That the server is at work."""

    status: Literal["ok"]


class Problem(Shape):
    """Why a request is refused: the title of its status, and one line."""

    title: str
    status: int
    detail: Annotated[str, Meta(description="one line")]
    answers: (
        Annotated[
            list[Answer],
            Meta(description="where a budget ended in a batch: those that were found before, which are kept, and free"),
        ]
        | UnsetType
    ) = UNSET


class Limit(Struct):
    """The parameters of a request that may spend."""

    most: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=sys.float_info.max,
                description="refuse rather than take more than this of your budget, in epsilon, or rho where it is in"
                " rho: a quote's `takes`, which others' questions may outdate; by default as much as is left",
            ),
        ]
        | UnsetType
    ) = UNSET


class Page(Struct):
    """Which requests of a history."""

    first: Number = 1
    count: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = MAX_PAGE


class One(Struct):
    """Which request of a history."""

    number: Number


class Drawn(Struct):
    """How many records, and in which format."""

    rows: Annotated[int, Meta(ge=1, le=MAX_ROWS, description=f"of at most {MAX_VALUES:,} values in all")] = 1000
    format: Literal["json", "csv"] = "json"


def read_json(raw: bytes | bytearray, kind: type[_T]) -> _T:
    """A body as its type; `InvalidInput`, one line, for another shape, and `ValueError` for what is no JSON."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the body: {_line(error)}{_known(str(error), kind)}{_example(str(error), kind)}") from None


def check_names(given: Sequence[str], known: Sequence[str]) -> None:
    """Raise `InvalidInput` for a parameter that is unknown or given twice: it may have been to limit a price."""
    for name in given:
        if name not in known:
            has = f"it may have {', '.join(known)}" if known else "it has none"
            raise InvalidInput(f"the query has an unknown parameter {name[:MAX_SHOWN]!r}{meant(name, known)}; {has}")
        if given.count(name) > 1:
            raise InvalidInput(f"the query has the parameter {name!r} more than once")


def read_texts(texts: dict[str, str], kind: type[_T]) -> _T:
    """Parameters, which come as texts, as their type; `InvalidInput`, one line, for others."""
    try:
        return msgspec.convert(texts, kind, strict=False)
    except msgspec.ValidationError as error:
        said, _, place = _line(error).partition(" - at `$.")
        said, name = said.removesuffix(", got `str`"), place.rstrip("`")
        raise InvalidInput(f"{name}: {said[:1].lower()}{said[1:]}, got {texts.get(name, '')!r}") from None


def _known(error: str, kind: type) -> str:
    """After the message of an unknown field: the one that was meant, and all that there are; else nothing."""
    found = _UNKNOWN.fullmatch(error)
    if found is None:
        return ""
    unknown, place = found.groups(default="")
    shape: msgspec.inspect.Type | None = msgspec.inspect.type_info(kind)
    for name in _STEP.findall(place):
        if isinstance(shape, msgspec.inspect.StructType):
            shape = next((field.type for field in shape.fields if field.encode_name == name), None)
        elif isinstance(shape, msgspec.inspect.ListType):
            shape = shape.item_type
        if isinstance(shape, msgspec.inspect.UnionType):  # of one, and of what may be left out
            shape = next(t for t in shape.types if isinstance(t, msgspec.inspect.StructType | msgspec.inspect.ListType))
    if not isinstance(shape, msgspec.inspect.StructType):
        return ""
    names = [field.encode_name for field in shape.fields]
    return f"{meant(unknown, names)}; it may have {', '.join(names)}"


def _example(error: str, kind: type) -> str:
    """What a body of queries looks like, at the place of an error, or how many queries it may have; else nothing."""
    if kind not in (Query, Queries):
        return ""
    if kind is Query and _SEVERAL.search(error):
        return "; this address takes one query: several go to /v1/batch, and to /v1/quote for their prices"
    if _TOO_MANY.search(error):
        return f"; a request has {MAX_BATCH} queries at most: divide them among several"
    *_, inner = ("", *_STEP.findall(error.rpartition(" - at `$")[2]))
    if inner not in EXAMPLES:  # of a member of a range, the range
        inner = "range" if ".range" in error else ""
    if inner:
        return f"; a query is like {EXAMPLES[inner]}"
    return f'; it is like {{"queries": [{_QUERY}, ...]}}' if kind is Queries else f"; it is like {_QUERY}"


EXAMPLES: Final = {
    "where": '{"where": "COLUMN = VALUE and COLUMN >= NUMBER"}',
    "marginal": '{"marginal": ["COLUMN", "COLUMN"]}',
    "range": '{"range": {"column": "COLUMN", "low": "40", "high": "49"}}',
    "numbers": '{"numbers": "mean:COLUMN by COLUMN"}',
}
"""A query of each kind, in words that are no column's."""

_QUERY: Final = '{"where": "COLUMN = VALUE"} or {"numbers": "mean:COLUMN by COLUMN"}'
_SEVERAL: Final = re.compile(r"unknown field `queries`|Expected `object`, got `array`$")
_TOO_MANY: Final = re.compile(rf"length <= {MAX_BATCH}(?: - at `\$\.queries`)?$")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$([^`]*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[[^]]*\]")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
