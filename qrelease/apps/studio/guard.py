"""Access control of the studio: only requests from this machine, with the printed token, and from its own page.

The address begins with a token that nobody can guess. It is part of every path, and no cookie, so a page from elsewhere
cannot make a browser send it. Beside that the `Host` must be this machine's own, by which a name that another host
gives to 127.0.0.1 (DNS rebinding) is refused, and an `Origin`, where a browser says one, this page's own. From
elsewhere nothing but the page itself can be opened, with its whole address, and in a window of its own: as the page
that the studio leaves for its browser does.
"""

from __future__ import annotations

import secrets
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from qrelease.apps.server.problems import Problem

HOSTS: Final = ("127.0.0.1", "localhost")
"""The names by which the studio is reached."""

TOKEN_BYTES: Final = 32
"""Random bytes of a token."""

HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
        b" frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
"""Headers of every response: a page loads what the studio serves, and is shown in no other page."""

REPORT_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox"
"""The policy of a report, which runs nothing and is shown in the studio's own page."""


def new_token() -> str:
    """A token for the address of a studio."""
    return secrets.token_urlsafe(TOKEN_BYTES)


class TokenGuard:
    """Hands on the requests that name the token, without it; all others are refused before they are read.

    Parameters
    ----------
    app
        The application, whose paths begin behind the token.
    token, port
        Of the address.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{host}:{port}" for host in HOSTS}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        try:
            inner = self._admitted(scope)
        except Problem as refused:
            await refused.response()(scope, receive, send)
            return
        await self._app(inner, receive, send)

    def _admitted(self, scope: Scope) -> Scope:
        """The request without the token; `Problem` where it may not come in."""
        hosts, origins = (_values(scope, name) for name in (b"host", b"origin"))
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise _forbidden("the studio is reached by 127.0.0.1 alone")
        if len(origins) > 1 or not set(origins) <= self._origins:
            raise _forbidden("the request comes from another page")
        token, slash, rest = str(scope["path"]).removeprefix("/").partition("/")
        if not set(_values(scope, b"sec-fetch-site")) <= {"same-origin", "none"} and (rest or not _opens(scope)):
            raise _forbidden("the request comes from another page")
        if not secrets.compare_digest(token.encode(), self._token) or not slash:
            raise Problem(401, "open the whole address that `qrelease studio` printed; it ends with a slash")
        return {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode(), "root_path": ""}


def _opens(scope: Scope) -> bool:
    """Whether a browser opens a page, in a window of its own."""
    mode, shown = (_values(scope, name) for name in (b"sec-fetch-mode", b"sec-fetch-dest"))
    return scope["method"] == "GET" and mode == ["navigate"] and shown == ["document"]


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for found, value in scope["headers"] if found == name]


def _forbidden(why: str) -> Problem:
    return Problem(403, why, title="not from here")
