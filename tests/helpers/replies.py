"""What is read of a reply."""

from qrelease.privacy.analysts import Analysts


def problem(reply, status):
    """The one form of every error."""
    assert reply.status == status, reply.content
    assert reply.headers["content-type"] == "application/problem+json"
    assert {*reply.json} - {"answers"} == {"title", "status", "detail"}
    assert "\n" not in reply.json["detail"]
    return reply.json["detail"]


def read(ledger, name, key):
    with Analysts(ledger).account(name) as account:
        return account.request(key)
