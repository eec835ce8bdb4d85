"""The collector's half of any client."""

from __future__ import annotations

from typing import Any

from qrelease.local.attributes import MarginalsServer, OneOfServer
from qrelease.local.client import Client
from qrelease.local.question_servers import serve_question
from qrelease.local.server import Server
from qrelease.local.several import Marginals, OneOf


def serve(client: Client) -> Server[Any]:
    """The server in the same terms as a client.

    Examples
    --------
    >>> from qrelease.local import Coin, serve
    >>> serve(Coin(1.0)).moved_by(liars=3, reports=3000) < 0.01
    True
    """
    if isinstance(client, OneOf):
        return OneOfServer(client)
    return MarginalsServer(client) if isinstance(client, Marginals) else serve_question(client)
