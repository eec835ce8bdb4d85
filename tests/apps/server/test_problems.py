"""Problems: the one form of every refusal, as RFC 9457 has it, and responses that nobody keeps."""

import json
from http import HTTPStatus

import pytest

from qrelease.apps.server.problems import PROBLEMS, Problem, bytes_response, closing_response, json_response


@pytest.mark.parametrize("status", PROBLEMS)
def test_a_problem_says_its_title_status_and_detail_alone(status):
    reply = Problem(status, 'of "this" request', retry_after="1").response()
    assert reply.status_code == HTTPStatus(status)
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.headers["retry-after"] == "1"
    assert reply.headers["cache-control"] == "no-store"
    assert json.loads(reply.body) == {"title": PROBLEMS[status], "status": status, "detail": 'of "this" request'}


def test_a_title_of_ones_own_is_taken_and_a_status_that_no_problem_has_is_a_mistake():
    assert Problem(422, "x", title="too large").title == "too large"
    with pytest.raises(KeyError):
        Problem(200, "all is well")


def test_a_problem_of_a_connection_ends_it():
    reply = closing_response(408, "too slow")
    assert (reply.status_code, reply.headers["connection"]) == (408, "close")
    assert "connection" not in Problem(408, "too slow").response().headers


def test_what_is_private_to_one_analyst_is_kept_by_nobody_in_between():
    for reply in (json_response({"a": "ä"}), bytes_response(b"a,b\n", "text/csv"), json_response([], 503)):
        assert reply.headers["cache-control"] == "no-store"
    assert json.loads(json_response({"a": "ä"}).body) == {"a": "ä"}
    assert bytes_response(b"a,b\n", "text/csv").headers["content-type"].startswith("text/csv")
