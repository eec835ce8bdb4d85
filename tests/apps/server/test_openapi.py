"""The document says what there is."""

import json
import re

import numpy as np
import pytest
from serving import Client, admit, worker
from worlds import PEOPLE, random_table

from qrelease.apps.server.openapi import ENDPOINTS, document
from qrelease.data.attribute import Attribute
from qrelease.data.bundled import adult
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.mechanisms.online.session import Online
from qrelease.privacy import PureDP

DOMAINS = {
    "of all kinds": PEOPLE,
    "of names that need quotes": Domain(
        (
            Attribute('a "b" and c', "category", categories=("it's", "x")),
            Attribute("in", "number", edges=(0, 0.5, 2)),
            Attribute("day", "date", edges=(18262, 18293, 18322)),
        )
    ),
    "of one cell": Domain.coded({"a": 1}),
    "of a long column": Domain.coded({"a": 5000, "b": 2}),
}
KINDS = ["where", "marginal", "range", "numbers"]


def test_the_document_says_how_conditions_and_numbers_are_written():
    members = document()["components"]["schemas"]["Query"]["properties"]
    told = {name: members[name]["description"] for name in ("where", "numbers")}
    for words in ("in LOW..HIGH", "in {A, B}", "between LOW and HIGH", "like 'A%'", "is missing", "single quotes"):
        assert words in told["where"]
    for words in ("KIND:COLUMN", "by COLUMN*COLUMN", "median", "quantile(.25,.5)", "ratio:CONDITION", "count"):
        assert words in told["numbers"]


def test_every_problem_is_in_the_document(server):
    """Of each endpoint; but not of paths and methods that it does not know."""
    for endpoint in ENDPOINTS:
        responses = document()["paths"][endpoint.path][endpoint.method.lower()]["responses"]
        assert {"400", "405", "431", "500", "503"} <= set(responses)
        assert endpoint.public or {"401", "429"} <= set(responses)
        for status, response in responses.items():
            assert status == "200" or list(response["content"]) == ["application/problem+json"]


def test_the_document_names_every_endpoint_and_its_shapes(server):
    found = Client(server.app).get("/openapi.json").json
    assert found == document()
    assert sum(len(operations) for operations in found["paths"].values()) == len(ENDPOINTS)
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(found)))
    assert names <= set(found["components"]["schemas"])


def test_every_example_of_a_body_in_the_document_can_be_sent(path):
    table = adult(["age", "sex", "income"])
    with worker(path, table=table, cap=PureDP(8.0), mechanism=Online(alpha=0.2)) as app:
        client, sent = Client(app, admit(path, "ada")), set()
        for where, operations in client.get("/openapi.json").json["paths"].items():
            if "post" not in operations:
                continue
            example = operations["post"]["requestBody"]["content"]["application/json"]["example"]
            reply = client.post(where, example)
            assert reply.status == 200, reply.json
            sent.add(where)
        posted = {"/v1/quote", "/v1/query", "/v1/batch", "/v1/estimate", "/v1/estimate/quote"}
        assert sent == {e.path for e in ENDPOINTS if e.body} == posted


@pytest.mark.parametrize("name", DOMAINS)
def test_every_example_that_a_token_gets_can_be_asked_of_its_columns(path, name):
    domain = DOMAINS[name]
    rows = random_table(domain, 500, 0) if domain.size > 1 else Table(domain, (np.zeros(500, np.int64),))
    with worker(path, table=rows, cap=PureDP(20.0), mechanism=Online(alpha=0.4)) as app:
        assert Client(app).get("/v1/examples").status == 401
        client = Client(app, admit(path, "ada"))
        examples = client.get("/v1/examples").json
        assert [kind for query in examples["queries"] for kind in query] == KINDS
        for where, body in (("quote", examples), ("query", examples["queries"][0]), ("batch", examples)):
            reply = client.post(f"/v1/{where}", body)
            assert reply.status == 200, reply.json
