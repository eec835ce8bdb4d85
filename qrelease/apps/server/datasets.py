"""Several datasets behind one address: each has at `/datasets/NAME/` what a server of one has at `/`.

Who asks sees the datasets that their token is for, and nothing of others. A dataset that there is not answers as one
does for which the token is no good, status, bytes and rate limit alike, and it looks the token up as that would, in the
ledger of a dataset that stands in for it. Pages, the document and the server's health take no token, and are the same
whatever name is in their address.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from qrelease.apps.server.app import Handlers, metrics_route, refuse_stranger, responded, routed
from qrelease.apps.server.openapi import DATASETS, ENDPOINTS, PREFIX, Endpoint, document
from qrelease.apps.server.pages import ENTRY_PAGES, fixed_route, page_routes
from qrelease.apps.server.problems import json_response
from qrelease.apps.server.rate_limit import Rates
from qrelease.apps.server.shapes import Datasets, Health
from qrelease.apps.server.transactions import Busy
from qrelease.privacy.analysts import Analyst

if TYPE_CHECKING:
    from qrelease.apps.server.metrics import Meter


_HINT: Final = "this server has several datasets, each below /datasets/NAME, of those at /v1/datasets: see /docs"


class Doors:
    """The handlers of each dataset, and what is asked of all of them.

    Parameters
    ----------
    handlers
        By the names of the datasets; all count `strangers` alike.
    strangers
        Counts the requests without a good token.
    secret
        By which a dataset is chosen that stands in for a name that there is not: the same in all workers. Who knew it
        could tell, while one dataset is in trouble, which names are those of datasets.
    """

    def __init__(self, handlers: Mapping[str, Handlers], strangers: Rates, secret: bytes) -> None:
        self._handlers, self._strangers, self._secret = handlers, strangers, secret

    def route(self, endpoint: Endpoint) -> Route:
        """The route of an endpoint of every dataset."""

        async def answer(request: Request) -> Response:
            name = request.path_params["dataset"]
            found = self._handlers.get(name)
            if found is not None:
                return await found.respond(endpoint, request)

            async def refuse() -> Response:
                await self._in_place_of(name).holder(request)
                refuse_stranger(request, self._strangers)

            return await responded(refuse, under_key=endpoint.key)

        return Route(f"{PREFIX}{endpoint.path}", answer, methods=[endpoint.method])

    def _in_place_of(self, name: str) -> Handlers:
        """Of a name that there is not, always the same dataset."""
        hashed = blake2b(name.encode(errors="surrogateescape"), digest_size=8, key=self._secret)
        number = int.from_bytes(hashed.digest())
        return [*self._handlers.values()][number % len(self._handlers)]

    async def datasets(self, request: Request) -> Response:
        """The names of the datasets that a token is for, but those whose ledger cannot be asked now.

        Only where none of the others is its own is the trouble told.
        """
        holders = await asyncio.gather(
            *(each.holder(request) for each in self._handlers.values()), return_exceptions=True
        )
        found = [(name, a) for name, a in zip(self._handlers, holders, strict=True) if isinstance(a, Analyst)]
        if not found:
            for holder in holders:
                if isinstance(holder, BaseException):
                    raise holder
            refuse_stranger(request, self._strangers)
        for name, analyst in found:
            self._handlers[name].welcome(request, analyst)
        return json_response(Datasets([name for name, _ in found]))

    async def health(self) -> Response:
        """Whether the server is at work: for one dataset at least, since one in trouble shall not take others along."""
        if not any(each.well for each in self._handlers.values()):
            raise Busy("no transaction can be done")
        return json_response(Health("ok"))


def datasets_application(
    handlers: Mapping[str, Handlers], strangers: Rates, meter: Meter | None, secret: bytes
) -> ASGIApp:
    """The whole server, in front of transactions that have begun."""
    doors = Doors(handlers, strangers, secret)

    async def health(_: Request) -> Response:
        return await responded(doors.health)

    async def datasets(request: Request) -> Response:
        return await responded(lambda: doors.datasets(request))

    routes = [Route(DATASETS.path, datasets, methods=["GET"]), metrics_route(meter, [*handlers.values()])]
    routes += [doors.route(endpoint) for endpoint in ENDPOINTS if not endpoint.public]
    described = json.dumps(document(several=True)).encode()
    for prefix in ("", PREFIX):
        routes.append(Route(f"{prefix}/health", health, methods=["GET"]))
        routes.append(fixed_route(f"{prefix}/openapi.json", described, "application/json"))
    return routed([*routes, *page_routes(ENTRY_PAGES), *page_routes(prefix=PREFIX)], _HINT)
