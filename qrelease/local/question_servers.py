"""The collector's half of the clients that ask one question: those for a category, a number or a text."""

from __future__ import annotations

from typing import Any

from qrelease.errors import InvalidInput
from qrelease.local import frequencies, hitters, means
from qrelease.local.categories import Hadamard, KAry, LocalHashing, OptimisedUnary, Unary
from qrelease.local.client import Client
from qrelease.local.numeric import Coin, Hybrid, LocalLaplace, Piecewise, SquareWave
from qrelease.local.server import Server
from qrelease.local.texts import Text

_SERVERS: dict[type[Client], type[Server[Any]]] = {
    KAry: frequencies.KAryServer,
    Unary: frequencies.UnaryServer,
    OptimisedUnary: frequencies.OptimisedUnaryServer,
    LocalHashing: frequencies.LocalHashingServer,
    Hadamard: frequencies.HadamardServer,
    Coin: means.CoinServer,
    Piecewise: means.PiecewiseServer,
    SquareWave: means.SquareWaveServer,
    Hybrid: means.HybridServer,
    LocalLaplace: means.LaplaceServer,
    Text: hitters.TextServer,
}


def serve_question(client: Client) -> Server[Any]:
    """The server of a client that asks one question.

    Raises
    ------
    InvalidInput
        For a client of any other class.
    """
    if type(client) not in _SERVERS:
        raise InvalidInput(f"there is no server for {client!r}")
    return _SERVERS[type(client)](client)
