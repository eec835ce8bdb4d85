"""The local model: each person randomises on her own device, and the collector sees reports only.

Clients need no numpy, so that they run on a phone; servers do, and load when they are first used. Nothing here reads a
table: there is no trusted curator. Many people's reports are simulated by `crowd`, for studies only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qrelease.local.attributes import MarginalsServer, OneOfServer
    from qrelease.local.book import Book
    from qrelease.local.categories import Hadamard, KAry, LocalHashing, OptimisedUnary, Unary
    from qrelease.local.client import Client, Report
    from qrelease.local.draws import DeviceEntropy
    from qrelease.local.frequencies import (
        HadamardServer,
        KAryServer,
        LocalHashingServer,
        OptimisedUnaryServer,
        UnaryServer,
    )
    from qrelease.local.hitters import TextServer
    from qrelease.local.means import CoinServer, HybridServer, LaplaceServer, PiecewiseServer, SquareWaveServer
    from qrelease.local.numeric import Coin, Hybrid, Laplace, Piecewise, SquareWave
    from qrelease.local.planning import Choice, plan
    from qrelease.local.server import Batch, Estimate, Server
    from qrelease.local.serving import serve
    from qrelease.local.several import Marginals, OneOf
    from qrelease.local.shuffling import shuffled
    from qrelease.local.texts import Text

_HOMES = {
    "MarginalsServer": "attributes",
    "OneOfServer": "attributes",
    "Book": "book",
    "Hadamard": "categories",
    "KAry": "categories",
    "LocalHashing": "categories",
    "OptimisedUnary": "categories",
    "Unary": "categories",
    "Client": "client",
    "Report": "client",
    "serve": "serving",
    "DeviceEntropy": "draws",
    "HadamardServer": "frequencies",
    "KAryServer": "frequencies",
    "LocalHashingServer": "frequencies",
    "OptimisedUnaryServer": "frequencies",
    "UnaryServer": "frequencies",
    "TextServer": "hitters",
    "CoinServer": "means",
    "HybridServer": "means",
    "LaplaceServer": "means",
    "PiecewiseServer": "means",
    "SquareWaveServer": "means",
    "Coin": "numeric",
    "Hybrid": "numeric",
    "Laplace": "numeric",
    "Piecewise": "numeric",
    "SquareWave": "numeric",
    "Choice": "planning",
    "plan": "planning",
    "Batch": "server",
    "Estimate": "server",
    "Server": "server",
    "Marginals": "several",
    "OneOf": "several",
    "shuffled": "shuffling",
    "Text": "texts",
}

__all__ = [
    "Batch",
    "Book",
    "Choice",
    "Client",
    "Coin",
    "CoinServer",
    "DeviceEntropy",
    "Estimate",
    "Hadamard",
    "HadamardServer",
    "Hybrid",
    "HybridServer",
    "KAry",
    "KAryServer",
    "Laplace",
    "LaplaceServer",
    "LocalHashing",
    "LocalHashingServer",
    "Marginals",
    "MarginalsServer",
    "OneOf",
    "OneOfServer",
    "OptimisedUnary",
    "OptimisedUnaryServer",
    "Piecewise",
    "PiecewiseServer",
    "Report",
    "Server",
    "SquareWave",
    "SquareWaveServer",
    "Text",
    "TextServer",
    "Unary",
    "UnaryServer",
    "plan",
    "serve",
    "shuffled",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'qrelease.local' has no attribute {name!r}")
    return getattr(import_module(f"qrelease.local.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
