"""The HTTP side of the studio: what the page asks for. Everything stays on this machine.

No response holds a record. Values of the data are in one response alone, that of a draft, whose entries are marked as
read off the data until a person has gone through them. What is refused is one line, and charges nothing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from qrelease.apps.server.bodies import json_body
from qrelease.apps.server.pages import MEDIA_TYPES, BrowserHeaders, fixed_route
from qrelease.apps.server.problems import Problem, bytes_response, json_response
from qrelease.apps.studio import script
from qrelease.apps.studio.files import Folder
from qrelease.apps.studio.guard import HEADERS, REPORT_POLICY, TokenGuard
from qrelease.apps.studio.releasing import AlreadyReleasing, ReleaseMaker, Releasing
from qrelease.apps.studio.review import Review, described_universe
from qrelease.apps.studio.terms import Program, Terms
from qrelease.data.schema import load
from qrelease.data.sources.files import dataset_name
from qrelease.errors import BudgetExceeded, InvalidInput, QReleaseError
from qrelease.release.writer import REPORT

log = logging.getLogger("qrelease.studio")

MAX_BODY: Final = 1 << 23
"""Bytes of a request; a long list of categories is the largest."""

BODY_SECONDS: Final = 30.0
"""For a request to arrive."""

MAX_RECORDS: Final = 10**10
"""More records than a table has."""

MAX_OFFERS: Final = 100
"""Prices that wait to be confirmed; the oldest are forgotten."""

TITLES: Final[Mapping[int, str]] = {402: "budget exceeded", 422: "not possible"}
"""The titles of problems, by their status, where they are not those of a server's."""

PAGES: Final = ("index.html", "studio.js", "columns.js", "quality.js", "parts.js", "studio.css")
"""The files of the folder `static`."""

_Answer = Callable[[Request], Awaitable[Response]]


@final
class Studio:
    """What the page asks for, one method an endpoint; and what was chosen and reviewed so far.

    Parameters
    ----------
    folder
        Where it was started: what is listed is there, and what is written goes there.
    program
        The command line.
    """

    def __init__(self, folder: Path, program: Program) -> None:
        self.folder, self.maker, self._program = Folder(folder.resolve()), ReleaseMaker(program), program
        self._review: Review | None = None
        self._schema: Path | None = None
        self._offers: dict[str, Terms] = {}

    async def files(self, request: Request) -> Response:
        """What may be chosen, and how a release that was begun stands: what a page needs that was loaded again."""
        last = self.maker.last
        return json_response(
            {"folder": str(self.folder.path), **self.folder.listed(), "release": None if last is None else last.state}
        )

    async def upload(self, request: Request) -> Response:
        """Keep a file that was sent, in the folder."""
        size = request.headers.get("content-length", "")
        if not size.isdigit() or request.headers.get("content-type") != "application/octet-stream":
            raise Problem(415, "a file is sent as application/octet-stream, with its length")
        kept = await self.folder.keep(request.query_params.get("name", ""), int(size), request.stream())
        return json_response({"file": kept.name})

    async def draft(self, request: Request) -> Response:
        """Choose a file: its columns, drafted, or as a schema says that was reviewed before."""
        body = await _body(request, ("file", "path", "schema"))
        if ("file" in body) == ("path" in body):
            raise InvalidInput("give a file of the folder, or the path of another one")
        data = self.folder.chosen(body["file"]) if "file" in body else self.folder.typed(body["path"])
        if "schema" in body:
            found = await asyncio.to_thread(Review.of_schema, data, self.folder.chosen(body["schema"]))
        else:
            found = await asyncio.to_thread(Review.of_draft, data)
        self._review, self._schema = found, None
        return json_response(found.to_json())

    async def schema(self, request: Request) -> Response:
        """Write the schema that was reviewed, with the unit of what is promised; or look at its columns only.

        Who reviewed it may be said by a name.
        """
        body = await _body(request, ("content", "save", "by"), texts=False)
        if self._review is None:
            raise InvalidInput("choose a file first")
        if body.get("save") is not True:
            return json_response(described_universe(self._review.domain(body.get("content"), self.folder)))
        by = body.get("by")
        if by is not None and not isinstance(by, str):
            raise InvalidInput("who reviewed the schema must be a text")
        name = (by or "").strip() or None
        self._schema = await asyncio.to_thread(self._review.save, body.get("content"), self.folder, name)
        return json_response({"schema": self._schema.name, **described_universe(load(self._schema))})

    async def price(self, request: Request) -> Response:
        """What a release would cost, and what is predicted of it; and the offer of it, which can be confirmed once."""
        terms, records = await self._asked(request)
        found = await asyncio.to_thread(self._program.price, terms.arguments, records)
        offer = secrets.token_urlsafe(16)
        self._offers[offer] = terms
        while len(self._offers) > MAX_OFFERS:
            del self._offers[next(iter(self._offers))]
        return json_response({**found, "folder": self._next(terms).name, "offer": offer})

    async def curve(self, request: Request) -> Response:
        """The predicted quality at several ε."""
        terms, records = await self._asked(request)
        return json_response({"curve": await asyncio.to_thread(self._program.curve, terms.arguments, records)})

    async def release(self, request: Request) -> Response:
        """Begin a release, which charges the ledger; only where the holder has confirmed its cost, and once.

        What is confirmed is an offer: of the file, the schema and the terms that were priced, whatever another page of
        this studio has chosen since; a schema that was edited since is refused. A request that comes twice finds it
        taken.
        """
        body = await _body(request, ("offer", "confirmed"), texts=False)
        if body.get("confirmed") is not True:
            raise InvalidInput("a release is a charge, which has to be confirmed")
        offer = str(body.get("offer"))
        terms = self._offers.pop(offer, None)
        if terms is None:
            raise InvalidInput("a price is confirmed once: ask for the price first, or again")
        try:
            terms.check_schema(await asyncio.to_thread(load, terms.arguments.schema))
            await asyncio.to_thread(self._program.account, terms.arguments)  # refuses the ledger of other people
            begun = self.maker.begin(terms, lambda: self._next(terms))
        except BaseException as refused:
            self._offers[offer] = terms  # nothing was begun
            if isinstance(refused, AlreadyReleasing):
                raise Problem(503, str(refused)) from None
            raise
        return json_response(begun.state, 202)

    async def made(self, request: Request) -> Response:
        """How the release stands that was begun last."""
        return json_response(self._last().state)

    async def file(self, request: Request) -> Response:
        """A file of a release that was made here; the report as a page that runs nothing."""
        name = request.path_params["name"]
        found = self.maker.file(request.path_params["folder"], name)
        headers = {"cache-control": "no-store"}
        if name == REPORT:
            headers["content-security-policy"] = REPORT_POLICY
            return FileResponse(found, media_type="text/html", headers=headers)
        return FileResponse(found, media_type="application/octet-stream", filename=name, headers=headers)

    async def script(self, request: Request) -> Response:
        """The script that makes the same release again."""
        made, name = self._last(), request.path_params["name"]
        if made.state["state"] != "done":
            raise InvalidInput("there is no release yet")
        text = {"release.sh": script.shell, "release.py": script.python}.get(name)
        if text is None:
            raise InvalidInput("the scripts are release.sh and release.py")
        response = bytes_response(text(made).encode(), "text/plain; charset=utf-8")
        response.headers["content-disposition"] = f'attachment; filename="{name}"'
        return response

    async def _asked(self, request: Request) -> tuple[Terms, int]:
        body = await _body(request, ("terms", "records"), texts=False)
        records = body.get("records")
        if type(records) is not int or not 1 <= records <= MAX_RECORDS:
            raise InvalidInput(f"say about how many records there are: a whole number in 1..{MAX_RECORDS:,}")
        return await asyncio.to_thread(self._terms, body.get("terms")), records

    def _terms(self, given: object) -> Terms:
        if self._review is None or self._schema is None:
            raise InvalidInput("review the schema first")
        if not isinstance(given, dict):
            raise InvalidInput("the terms of a release must be an object")
        return Terms.of(self._program, self._review.data, self._schema, given)

    def _next(self, terms: Terms) -> Path:
        """The folder of the next release."""
        return self.folder.free_name(f"{dataset_name(terms.arguments.data)}-release")

    def _last(self) -> Releasing:
        if self.maker.last is None:
            raise InvalidInput("there is no release yet")
        return self.maker.last


def application(studio: Studio, token: str, port: int) -> ASGIApp:
    """The studio behind its guard."""
    asked = {
        "files": ("GET", studio.files),
        "upload": ("POST", studio.upload),
        "draft": ("POST", studio.draft),
        "schema": ("POST", studio.schema),
        "price": ("POST", studio.price),
        "curve": ("POST", studio.curve),
        "release": ("POST", studio.release),
        "made": ("GET", studio.made),
        "made/{folder}/{name}": ("GET", studio.file),
        "script/{name}": ("GET", studio.script),
    }
    routes = [Route(f"/api/{path}", refusing(answer), methods=[method]) for path, (method, answer) in asked.items()]
    folder = files("qrelease.apps.studio") / "static"
    icon = files("qrelease.apps.server") / "static" / "icon.svg"
    routes.append(fixed_route("/icon.svg", icon.read_bytes(), MEDIA_TYPES["svg"]))
    routes += [
        fixed_route(
            "/" if name == "index.html" else f"/{name}",
            (folder / name).read_bytes(),
            MEDIA_TYPES[name.rpartition(".")[2]],
        )
        for name in PAGES
    ]
    served = Starlette(routes=routes, exception_handlers={HTTPException: _not_there})
    served.router.redirect_slashes = False
    return BrowserHeaders(TokenGuard(served, token, port), HEADERS)


def refusing(answer: _Answer) -> _Answer:
    """An endpoint whose refusals are problems, and whose faults say nothing."""

    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except Problem as refused:
            return refused.response()
        except ClientDisconnect:
            return Response(status_code=499)
        except QReleaseError as refusal:
            status = 402 if isinstance(refusal, BudgetExceeded) else 422
            return Problem(status, str(refusal), title=TITLES[status]).response()
        except OSError as error:
            detail = f"{Path(str(error.filename or 'a file')).name}: {error.strerror or type(error).__name__}"
            return Problem(422, detail, title=TITLES[422]).response()
        except MemoryError:
            return Problem(503, "out of memory: use fewer columns or coarser bins").response()
        except Exception as error:
            log.error("a fault: %s", type(error).__name__)  # its text may hold what is private
            return Problem(500, "a fault of the studio; the ledger says what was charged").response()

    return answered


async def _body(request: Request, names: tuple[str, ...], *, texts: bool = True) -> dict[str, Any]:
    """The body: an object of known names, whose values are texts."""
    body = await json_body(request, dict[str, Any], MAX_BODY, BODY_SECONDS)
    if not set(body) <= set(names):
        raise InvalidInput(f"the body must be an object of {', '.join(names)}")
    if texts and not all(isinstance(value, str) for value in body.values()):
        raise InvalidInput(f"{', '.join(names)} must be texts")
    return body


async def _not_there(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return Problem(status, "the studio has no such page").response()
