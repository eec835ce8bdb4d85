"""The server's application without a process or socket of its own, for callers in the same process, such as audits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from qrelease.apps.server.app import Handlers, Limits, application
from qrelease.apps.server.questions import PublicFacts
from qrelease.apps.server.service import Service
from qrelease.apps.server.transactions import Transactions
from qrelease.mechanisms.online.session import Online, OnlineSession
from qrelease.privacy import Cost
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@contextlib.contextmanager
def in_process(
    curator: Curator,
    path: Path,
    mechanism: Online,
    cap: Cost,
    service_of: Callable[[OnlineSession, Analysts], Service] = Service,
) -> Iterator[tuple[ASGIApp, str]]:
    """The application over a curator's session, and the token of one analyst who may spend the whole cap.

    Parameters
    ----------
    curator
        Of the private table; its ledger is the one at `path`.
    path
        The file of the ledger, which the application opens once more, as a worker does.
    mechanism
        The online mechanism of the session.
    cap
        What the session may cost.
    service_of
        Makes the service of the session and of the ledger's analysts.

    Yields
    ------
    (ASGIApp, str)
        The application, and the analyst's token. When the context ends the session ends.
    """
    with Ledger.open(path) as door:
        analysts = Analysts(curator.ledger)
        token = analysts.add("ada", cap)
        transactions = Transactions(
            curator.ledger,
            lambda: service_of(curator.open(mechanism, cap, key="server"), analysts),
            path.with_name("turn"),
        )
        transactions.start()
        try:
            public = PublicFacts.of(curator.domain, curator.ledger, mechanism)
            yield (
                application(Handlers(transactions, Analysts(door), public, Limits(rate=1e6, burst=1e6, seconds=60.0))),
                token,
            )
        finally:
            transactions.stop()
