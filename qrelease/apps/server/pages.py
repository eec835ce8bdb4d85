"""The server's web pages, and the security headers of all its responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qrelease.apps.server.problems import bytes_response

PAGES: Final = {
    "/": "index.html",
    "/docs": "docs.html",
    "/static/page.js": "page.js",
    "/static/chart.js": "chart.js",
    "/static/docs.js": "docs.js",
    "/static/style.css": "style.css",
    "/static/icon.svg": "icon.svg",
}
"""The files of the folder `static`, by their paths on the server."""

ENTRY_PAGES: Final = {**PAGES, "/": "datasets.html", "/static/datasets.js": "datasets.js"}
"""The same where a server has several datasets, each with `PAGES` of its own."""

ENTRY_FORM: Final = "entry.html"
"""The form for a token: it replaces the comment `<!-- entry.html -->` of a page."""

MEDIA_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
"""Media types, by the endings of those files."""

HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
        b" base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every response, which keep a browser from loading or running anything that is not the server's own."""


def page_routes(pages: Mapping[str, str] = PAGES, prefix: str = "") -> list[Route]:
    """A route for each page, behind a prefix; the files are read once."""
    folder = files("qrelease.apps.server") / "static"
    mark, form = f"<!-- {ENTRY_FORM} -->\n".encode(), (folder / ENTRY_FORM).read_bytes()
    return [
        fixed_route(
            prefix + path, (folder / name).read_bytes().replace(mark, form), MEDIA_TYPES[name.rpartition(".")[2]]
        )
        for path, name in pages.items()
    ]


def fixed_route(path: str, content: bytes, kind: str) -> Route:
    """A route whose every response is the same bytes, of this media type."""
    response = bytes_response(content, kind)

    async def answer(_: Request) -> Response:
        return response

    return Route(path, answer, methods=["GET"])


class BrowserHeaders:
    """Adds to every response what keeps a browser from doing more with it than show it.

    headers  which a response may have already, with other contents
    """

    def __init__(self, app: ASGIApp, headers: Sequence[tuple[bytes, bytes]] = HEADERS) -> None:
        self._app, self._headers = app, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request by the application, and add the headers to the response."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in self._headers if h[0] not in own)]
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)
