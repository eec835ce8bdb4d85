"""What the server says when it refuses a request: problems, as RFC 9457 has them, and responses in general."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from starlette.responses import Response

from qrelease.apps.server import shapes
from qrelease.errors import BudgetExceeded, QReleaseError

PROBLEMS: Final[Mapping[int, str]] = {
    400: "malformed request",
    401: "no valid token",
    402: "budget exceeded",
    404: "not found",
    405: "method not allowed",
    408: "request too slow",
    409: "key used for another request",
    413: "request too large",
    415: "not JSON",
    422: "query not understood",
    429: "too many requests",
    431: "head of the request too large",
    500: "internal error",
    503: "try again",
}
"""The title of a problem, by its HTTP status."""


class KeyReused(QReleaseError):  # noqa: N818  it reads as the message does
    """The key was used before, for another request."""


class NoRoom(QReleaseError):  # noqa: N818
    """The analyst's requests take all the room that they have in the ledger."""


class Ended(BudgetExceeded):
    """A budget ended in the midst of a request, after some of it was answered.

    Parameters
    ----------
    message
        One line.
    answers
        The answers that were found before: they are kept, and their analyst is told them.
    """

    def __init__(self, message: str, answers: Sequence[shapes.Answer]) -> None:
        super().__init__(message)
        self.answers = [*answers]


class Problem(Exception):  # noqa: N818  it becomes a response
    """Why a request is refused, as its client is told.

    Parameters
    ----------
    status
        One of `PROBLEMS`.
    detail
        One line for the client: a function of the request and of what is public.
    title
        Another one than that of the status.
    answers
        Those that were found before the rest was refused.
    headers
        Further headers of the response, with underscores for hyphens.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str | None = None,
        answers: Sequence[shapes.Answer] = (),
        **headers: str,
    ) -> None:
        self.status, self.detail, self.headers = status, detail, headers
        self.answers = [*answers]
        self.title = title or PROBLEMS[status]

    def response(self) -> Response:
        """The response that says so."""
        content = shapes.Problem(self.title, self.status, self.detail, self.answers or msgspec.UNSET)
        return json_response(content, self.status, "application/problem+json", **self.headers)


def closing_response(status: int, detail: str) -> Response:
    """A problem of a whole connection, which ends with it: an application that answers everything so."""
    return Problem(status, detail, connection="close").response()


def json_response(content: object, status: int = 200, kind: str = "application/json", **headers: str) -> Response:
    """A response of some content as JSON."""
    return bytes_response(msgspec.json.encode(content), kind, status, **headers)


def bytes_response(content: bytes, kind: str = "application/json", status: int = 200, **headers: str) -> Response:
    """A response of bytes, which nobody in between may keep."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(content, status, {"cache-control": "no-store", **named}, kind)
