"""The HTTP interface as an OpenAPI document: endpoints, requests and responses, whose shapes are in `shapes`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import msgspec

from qrelease.apps.server import shapes
from qrelease.apps.server.problems import PROBLEMS

KEY_PATTERN: Final = r"^[!-~]{1,128}$"
"""An idempotency key: up to 128 visible ASCII characters."""

_REFERENCE: Final = "#/components/schemas/{name}"


@dataclass(frozen=True)
class Endpoint:
    """One operation.

    Parameters
    ----------
    method, path, summary
        As in the document.
    answer, or_answer, body
        Their shapes; a request without a body has none, and most endpoints have one shape of answers.
    parameters
        The shape of what is in the query or the path.
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
    answer: type[shapes.Shape]
    or_answer: type[shapes.Shape] | None = None
    body: type[shapes.Shape] | None = None
    parameters: type[msgspec.Struct] | None = None
    also: tuple[str, ...] = ()
    example: Mapping[str, Any] | None = None
    key: bool = False
    public: bool = False

    @property
    def query_names(self) -> tuple[str, ...]:
        """The names of the parameters in its query."""
        names = () if self.parameters is None else self.parameters.__struct_fields__
        return tuple(name for name in names if f"{{{name}}}" not in self.path)

    @property
    def name(self) -> str:
        """The fixed parts of the path, without the version."""
        return re.sub(r"/\{.*", "_one", self.path.removeprefix("/v1")).removeprefix("/").replace("/", "_")


_EXAMPLE: Final = {"where": "age in 30..39 and income = '>50K'"}
_ESTIMATE: Final = {"statistic": "above-thresholds:age,threshold=1000,positives=3", "epsilon": 0.1}
_EXAMPLES: Final = {
    "queries": [
        _EXAMPLE,
        {"marginal": ["sex", "income"]},
        {"range": {"column": "age", "low": "30", "high": "39"}},
        {"numbers": "mean:age by sex"},
    ]
}

ENDPOINTS: Final = (
    Endpoint("GET", "/v1/schema", "The columns and the conditions that name their cells.", shapes.Domain),
    Endpoint("GET", "/v1/examples", "Queries that can be asked of these columns, to begin with.", shapes.Queries),
    Endpoint(
        "POST",
        "/v1/quote",
        "What each of some queries would cost now if it came first, without asking it. Their sum is no price of all"
        " together: some then follow from others, and what many alike cost may buy a synopsis. `most` limits a batch.",
        shapes.Quoted,
        body=shapes.Queries,
        example=_EXAMPLES,
    ),
    Endpoint(
        "POST",
        "/v1/query",
        "Ask one query.",
        shapes.Answered,
        body=shapes.Query,
        parameters=shapes.Limit,
        example=_EXAMPLE,
        key=True,
    ),
    Endpoint(
        "POST",
        "/v1/batch",
        "Ask several queries. If the budget ends in between, the refusal has the answers that were found before, which"
        " are kept: free when they are asked for again.",
        shapes.Answered,
        body=shapes.Queries,
        parameters=shapes.Limit,
        example=_EXAMPLES,
        key=True,
    ),
    Endpoint(
        "POST",
        "/v1/estimate",
        "Estimate a statistic of the table, or find the groups above a threshold, at a cost of your choice.",
        shapes.Estimated,
        body=shapes.EstimateQuery,
        parameters=shapes.Limit,
        example=_ESTIMATE,
        key=True,
    ),
    Endpoint(
        "POST",
        "/v1/estimate/quote",
        "What an estimate would cost now, and how far off it may be, without making it.",
        shapes.EstimateQuote,
        body=shapes.EstimateQuery,
        example=_ESTIMATE,
    ),
    Endpoint("GET", "/v1/budget", "What you, and the server as a whole, have spent, and have left.", shapes.Budget),
    Endpoint(
        "GET",
        "/v1/history",
        "Your requests, in order.",
        shapes.History,
        parameters=shapes.Page,
    ),
    Endpoint(
        "GET",
        "/v1/history/{number}",
        "The answer to one of your requests, byte for byte.",
        shapes.Answered,
        or_answer=shapes.Estimated,
        parameters=shapes.One,
    ),
    Endpoint(
        "GET",
        "/v1/synthetic",
        "Synthetic records from what the answers so far say: free.",
        shapes.Records,
        parameters=shapes.Drawn,
        also=("text/csv",),
    ),
    Endpoint(
        "GET",
        "/v1/dummy",
        "Made-up records of the same columns, drawn from the schema alone: to try code on.",
        shapes.Records,
        parameters=shapes.Drawn,
        also=("text/csv",),
    ),
    Endpoint("GET", "/health", "Whether the server is at work.", shapes.Health, public=True),
)


DATASETS: Final = Endpoint("GET", "/v1/datasets", "The datasets that your token is for.", shapes.Datasets)
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
            "schemas": _schemas(DATASETS, *ENDPOINTS) if several else _schemas(*ENDPOINTS),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(*endpoints: Endpoint) -> dict[str, Any]:
    """Of all bodies and answers, and what these have in them."""
    others = [kind for e in endpoints for kind in (e.or_answer, e.body) if kind]
    kinds = dict.fromkeys([shapes.Problem, *(e.answer for e in endpoints), *others])
    found: dict[str, Any] = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)[1]
    # What `Query.__post_init__` looks after.
    found["Query"] |= {
        "oneOf": [{"required": [form]} for form in shapes.QUERY_FORMS],
        "dependentRequired": {"top": ["numbers"]},
    }
    found["EstimateQuery"] |= {
        "oneOf": [{"required": ["epsilon"]}, {"required": ["rho"]}],
        "dependentRequired": {"delta": ["epsilon"]},
    }
    return found


def _ref(kind: type[shapes.Shape]) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(name=kind.__name__)}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    answer = _ref(endpoint.answer)
    if endpoint.or_answer:
        answer = {"anyOf": [answer, _ref(endpoint.or_answer)]}
    content = {"application/json": {"schema": answer}, **{kind: {} for kind in endpoint.also}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": _parameters(endpoint),
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
        shape = {"schema": _ref(endpoint.body), "example": endpoint.example}
        operation["requestBody"] = {"required": True, "content": {"application/json": shape}}
    problem = {"application/problem+json": {"schema": _ref(shapes.Problem)}}
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


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.parameters is None:
        return []
    (found,) = msgspec.json.schema_components([endpoint.parameters])[1].values()
    return [_parameter(endpoint, name, schema) for name, schema in found["properties"].items()]


def _parameter(endpoint: Endpoint, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    in_path = f"{{{name}}}" in endpoint.path
    return {"name": name, "in": "path" if in_path else "query", "required": in_path, "schema": schema}
