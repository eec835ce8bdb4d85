"""The document says what there is."""

import json
import re

from serving import Client

from qrelease.apps.server.openapi import ENDPOINTS, document


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
