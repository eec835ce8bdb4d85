"""The HTTP interface as an OpenAPI document: endpoints, requests and responses; requests are checked against it.

The document that a client reads is what the server itself checks bodies and parameters by (`check_body`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from qrelease.apps.server.problems import PROBLEMS
from qrelease.errors import InvalidInput

MAX_TEXT: Final = 4096
"""Characters of a condition."""

MAX_BATCH: Final = 100
"""Queries in one request."""

MAX_ROWS: Final = 100_000
"""Synthetic records in one response."""

MAX_VALUES: Final = 1 << 21
"""Of synthetic records in one response: rows times columns."""

MAX_PAGE: Final = 100
"""Requests in one page of a history."""

KEY_PATTERN: Final = r"^[!-~]{1,128}$"
"""An idempotency key: up to 128 visible ASCII characters."""

SOURCES: Final = ["cached", "hypothesis", "synopsis", "measured"]
"""How an answer was obtained: see `OnlineAnswer`."""

Schema = Mapping[str, Any]


def _object(**properties: Schema) -> Schema:
    """An object of all these properties and no others."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _may_have(schema: Schema, **properties: Schema) -> Schema:
    """The object of a schema, which may have these properties too."""
    return {**schema, "properties": {**schema["properties"], **properties}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Schema, least: int = 0, most: int | None = None) -> Schema:
    limits = {"maxItems": most} if most is not None else {}
    return {"type": "array", "items": items, "minItems": least, **limits}


_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 256}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Query": {
        "description": "What to count: the records of a condition, of a range of one column, or of every cell of a"
        " marginal; or numbers by group, as `mean:age by sex where income = '>50K'`: sum, mean, variance,"
        " quantile(.5,.9) or ratio of a column, or count.",
        "oneOf": [
            _object(where={"type": "string", "minLength": 1, "maxLength": MAX_TEXT}),
            _object(marginal=_list(_TEXT, 1, 16)),
            _object(range=_object(column=_TEXT, low=_TEXT, high=_TEXT)),
            _object(numbers={"type": "string", "minLength": 1, "maxLength": MAX_TEXT}),
        ],
    },
    "Queries": _object(queries=_list(_ref("Query"), 1, MAX_BATCH)),
    "Cost": {
        "description": "A privacy cost: epsilon, epsilon and delta, or rho; null is none.",
        "type": ["object", "null"],
        "additionalProperties": _NUMBER,
    },
    "Answer": _may_have(
        _object(
            query={"type": "string", "description": "the condition, in its one fixed spelling"},
            value={"type": "number", "description": "a count; of numbers a sum, a mean, and so on"},
            error={"type": "number", "description": "with probability 1 - beta the true count is this close"},
            source={"type": "string", "enum": SOURCES},
            cost=_ref("Cost"),
        ),
        low={"type": "number", "description": "of numbers: what the answer lies between, as far as its counts hold"},
        high=_NUMBER,
        rank_error={"type": "number", "description": "of a quantile: how far its rank may be off, a count"},
    ),
    "Answered": _object(answers=_list(_ref("Answer"))),
    "Quote": _object(
        source={
            "type": "string",
            "enum": SOURCES,
            "description": "a `synopsis` answers a whole class of queries, all ranges of a column for one: it costs"
            " more than this one answer by itself, and makes the others of its class free",
        },
        cost=_ref("Cost"),
        takes={
            "description": "by how much it would raise what your budget says that you have spent, in its terms",
            "$ref": "#/components/schemas/Cost",
        },
        affordable={"type": "boolean", "description": "whether the budgets hold it now; if not, this is its price"},
    ),
    "Quoted": _object(quotes=_list(_ref("Quote"))),
    "Account": _object(total=_ref("Cost"), spent=_ref("Cost")),
    "Budget": _object(name={"type": "string"}, requests=_COUNT, analyst=_ref("Account"), server=_ref("Account")),
    "Domain": _may_have(
        _object(
            dataset={"type": "string"},
            neighbours={"type": "string", "enum": ["add-remove", "replace-one"]},
            alpha=_NUMBER,
            beta=_NUMBER,
            cells=_COUNT,
            columns=_list(
                _may_have(
                    _object(
                        name={"type": "string"},
                        kind={"type": "string", "enum": ["coded", "category", "number", "date"]},
                        ordered={"type": "boolean"},
                        cells=_COUNT,
                        conditions=_list({"type": "string"}),
                    ),
                    missing={"type": "string", "description": "what stands in a synthetic record for no value"},
                )
            ),
        ),
        person=_object(column={"type": "string"}, at_most=_COUNT),
    ),
    "Asked": _object(number=_COUNT, key={"type": "string"}, time={"type": "string"}, queries=_list(_ref("Query"))),
    "History": _object(requests=_list(_ref("Asked")), next={"type": ["integer", "null"]}),
    "Records": _object(columns=_list({"type": "string"}), rows=_list({"type": "array"})),
    "Health": _object(status={"type": "string", "enum": ["ok"]}),
    "Problem": _object(
        title={"type": "string"}, status={"type": "integer"}, detail={"type": "string", "description": "one line"}
    ),
}


@dataclass(frozen=True)
class Endpoint:
    """One operation.

    Parameters
    ----------
    method, path, summary
        As in the document.
    answer, body
        Names in `SCHEMAS`; a request without a body has none.
    parameters
        The schemas of what is in the query or the path, by name.
    example
        A body.
    also
        Other media types of the answer than JSON.
    key
        Whether it takes an Idempotency-Key: then it may spend.
    public
        Whether it takes no token.
    """

    method: str
    path: str
    summary: str
    answer: str
    body: str | None = None
    parameters: Mapping[str, Schema] | None = None
    also: tuple[str, ...] = ()
    example: Mapping[str, Any] | None = None
    key: bool = False
    public: bool = False

    @property
    def name(self) -> str:
        """The last fixed part of the path."""
        return re.sub(r"/\{.*", "_one", self.path).rsplit("/", 1)[1]


_FIRST: Schema = {"type": "integer", "minimum": 1, "maximum": 2**53, "default": 1}

_LIMIT: Final[Mapping[str, Schema]] = {
    "most": {
        "description": "refuse rather than take more than this of your budget, in epsilon, or rho where it is in rho: a"
        " quote's `takes`, which others' questions may outdate; by default as much as is left",
        "type": "number",
        "minimum": 0,
    }
}

_RECORDS: Final[Mapping[str, Schema]] = {
    "rows": {
        "description": f"of at most {MAX_VALUES:,} values in all",
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_ROWS,
        "default": 1000,
    },
    "format": {"type": "string", "enum": ["json", "csv"], "default": "json"},
}

_EXAMPLE: Final = {"where": "age in 30..39 and income = '>50K'"}
_EXAMPLES: Final = {
    "queries": [
        _EXAMPLE,
        {"marginal": ["sex", "income"]},
        {"range": {"column": "age", "low": "30", "high": "39"}},
        {"numbers": "mean:age by sex"},
    ]
}

ENDPOINTS: Final = (
    Endpoint("GET", "/v1/schema", "The columns and the conditions that name their cells.", "Domain"),
    Endpoint(
        "POST",
        "/v1/quote",
        "What queries would cost now, without asking them.",
        "Quoted",
        body="Queries",
        example=_EXAMPLES,
    ),
    Endpoint(
        "POST",
        "/v1/query",
        "Ask one query.",
        "Answered",
        body="Query",
        parameters=_LIMIT,
        example=_EXAMPLE,
        key=True,
    ),
    Endpoint(
        "POST",
        "/v1/batch",
        "Ask several queries. If the budget ends in between there is no answer, and what was paid for is cached: free.",
        "Answered",
        body="Queries",
        parameters=_LIMIT,
        example=_EXAMPLES,
        key=True,
    ),
    Endpoint("GET", "/v1/budget", "What you, and the server as a whole, have spent.", "Budget"),
    Endpoint(
        "GET",
        "/v1/history",
        "Your requests, in order.",
        "History",
        parameters={
            "first": _FIRST,
            "count": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": MAX_PAGE},
        },
    ),
    Endpoint(
        "GET",
        "/v1/history/{number}",
        "The answer to one of your requests, byte for byte.",
        "Answered",
        parameters={"number": {"type": "integer", "minimum": 1, "maximum": 2**53}},
    ),
    Endpoint(
        "GET",
        "/v1/synthetic",
        "Synthetic records from what the answers so far say: free.",
        "Records",
        parameters=_RECORDS,
        also=("text/csv",),
    ),
    Endpoint(
        "GET",
        "/v1/dummy",
        "Made-up records of the same columns, drawn from the schema alone: to try code on.",
        "Records",
        parameters=_RECORDS,
        also=("text/csv",),
    ),
    Endpoint("GET", "/health", "Whether the server is at work.", "Health", public=True),
)


DATASETS: Final = Endpoint("GET", "/v1/datasets", "The datasets that your token is for.", "Datasets")
"""Of a server of several datasets alone."""

PREFIX: Final = "/datasets/{dataset}"
"""What stands before the path of an endpoint where a server has several datasets."""

_DATASET: Final[Mapping[str, Any]] = {
    "name": "dataset",
    "in": "path",
    "required": True,
    "description": "one that `/v1/datasets` lists",
    "schema": {"type": "string"},
}


@cache
def document(*, several: bool = False) -> dict[str, Any]:
    """The OpenAPI document of a server of one dataset, or of several."""
    paths: dict[str, Any] = {}
    for endpoint in (DATASETS, *ENDPOINTS) if several else ENDPOINTS:
        path, operation = endpoint.path, _operation(endpoint)
        if several and endpoint is not DATASETS and not endpoint.public:
            path, operation["parameters"] = f"{PREFIX}{path}", [_DATASET, *operation["parameters"]]
        paths.setdefault(path, {})[endpoint.method.lower()] = operation
    own = {"Datasets": _object(datasets=_list({"type": "string"}))} if several else {}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "qrelease",
            "version": version("qrelease"),
            "description": "Answers under differential privacy, from one budget, which all analysts share with the"
            " answers: that a quote is free tells that the query, or what it follows from, was asked before, and the"
            " server's account tells what others spent. Every error is a Problem.",
        },
        "paths": paths,
        "components": {
            "schemas": {**SCHEMAS, **own},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref(endpoint.answer)}, **{kind: {} for kind in endpoint.also}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [_parameter(endpoint, *item) for item in (endpoint.parameters or {}).items()],
        "responses": {"200": {"description": "done", "content": content}},
        "security": [] if endpoint.public else [{"token": []}],
    }
    if endpoint.key:
        operation["parameters"].append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": True,
                "description": "Your own name for this request: asked again under it, you get the same bytes, free.",
                "schema": {"type": "string", "pattern": KEY_PATTERN},
            }
        )
    if endpoint.body:
        schema = _ref(endpoint.body)
        shape = {"schema": schema, "example": endpoint.example}
        operation["requestBody"] = {"required": True, "content": {"application/json": shape}}
    problem = {"application/problem+json": {"schema": _ref("Problem")}}
    for status in _problems(endpoint):
        operation["responses"][str(status)] = {"description": PROBLEMS[status], "content": problem}
    return operation


def _problems(endpoint: Endpoint) -> list[int]:
    found = [400, 405, 431, 500, 503]
    if not endpoint.public:
        found += [401, 429]
    if endpoint.body:
        found += [408, 413, 415, 422]
    if endpoint.key:
        found += [402, 409]
    if endpoint.name in ("history_one", "synthetic", "dummy"):
        found.append(404)
    return sorted(found)


def _parameter(endpoint: Endpoint, name: str, schema: Schema) -> dict[str, Any]:
    in_path = f"{{{name}}}" in endpoint.path
    return {"name": name, "in": "path" if in_path else "query", "required": in_path, "schema": schema}


def check_body(value: object, schema: Schema, where: str = "the body") -> None:
    """`InvalidInput`, one line, unless a JSON value has the shape that a schema of this module says."""
    if "$ref" in schema:
        return check_body(value, SCHEMAS[schema["$ref"].rsplit("/", 1)[1]], where)
    if "oneOf" in schema:
        return _check_one(value, schema["oneOf"], where)
    match schema["type"]:
        case "object":
            if not isinstance(value, dict):
                raise InvalidInput(f"{where} must be an object")
            _check_names(value, schema, where)
            for name, inner in value.items():
                check_body(inner, schema["properties"][name], f"{where}: {name}")
        case "array":
            if not isinstance(value, list):
                raise InvalidInput(f"{where} must be a list")
            _check_within(len(value), schema["minItems"], schema["maxItems"], f"{where} must have", "entries")
            for i, inner in enumerate(value):
                check_body(inner, schema["items"], f"{where} [{i}]")
        case "string":
            if not isinstance(value, str) or any("\ud800" <= c <= "\udfff" for c in value):
                raise InvalidInput(f"{where} must be a text")
            _check_within(len(value), schema["minLength"], schema["maxLength"], f"{where} must have", "characters")
    return None


def _check_one(value: object, shapes: list[Schema], where: str) -> None:
    """Check a value against whichever it names of several objects that have one property each."""
    names = [next(iter(shape["properties"])) for shape in shapes]
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in names:
        raise InvalidInput(f"{where} must be an object with one of {', '.join(names)}")
    check_body(value, shapes[names.index(next(iter(value)))], where)


def _check_names(value: Mapping[str, object], schema: Schema, where: str) -> None:
    for name in schema["required"]:
        if name not in value:
            raise InvalidInput(f"{where} must have {name!r}")
    if any(name not in schema["properties"] for name in value):
        raise InvalidInput(f"{where} has names that are not known; there are {', '.join(schema['properties'])}")


def _check_within(found: int, least: int, most: int, what: str, unit: str) -> None:
    if not least <= found <= most:
        raise InvalidInput(f"{what} {least} to {most:,} {unit}, got {found:,}")


def parameter(text: str | None, name: str, schema: Schema) -> Any:
    """The value of a parameter, which came as text; `InvalidInput` for one out of its range."""
    if text is None:
        return schema.get("default")
    if schema["type"] == "string":
        if text not in schema["enum"]:
            raise InvalidInput(f"{name} must be {' or '.join(schema['enum'])}")
        return text
    if schema["type"] == "number":
        if not re.fullmatch(r"[0-9]{1,16}(\.[0-9]{1,24})?([eE][-+]?[0-9]{1,3})?", text) or float(text) == math.inf:
            raise InvalidInput(f"{name} must be a number of at least {schema['minimum']}")
        return float(text)
    if not re.fullmatch(r"[0-9]{1,16}", text) or not schema["minimum"] <= int(text) <= schema["maximum"]:
        raise InvalidInput(f"{name} must be a whole number in {schema['minimum']}..{schema['maximum']}")
    return int(text)
