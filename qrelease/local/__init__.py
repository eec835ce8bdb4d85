"""The local model: each person randomises on her own device, and the collector sees reports only.

Clients need no numpy, so that they run on a phone; servers do, and load when they are first used, so that `import *`
brings what a device needs and a collector names what it takes. Nothing here reads a table: there is no trusted curator.
Many people's reports are simulated by `crowd`, for studies only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qrelease.local.attributes import MarginalsServer as MarginalsServer
    from qrelease.local.attributes import OneOfServer as OneOfServer
    from qrelease.local.book import Book
    from qrelease.local.categories import Hadamard, KAry, LocalHashing, OptimisedUnary, Unary
    from qrelease.local.client import Client, Report
    from qrelease.local.draws import DeviceEntropy
    from qrelease.local.frequencies import HadamardServer as HadamardServer
    from qrelease.local.frequencies import KAryServer as KAryServer
    from qrelease.local.frequencies import LocalHashingServer as LocalHashingServer
    from qrelease.local.frequencies import OptimisedUnaryServer as OptimisedUnaryServer
    from qrelease.local.frequencies import UnaryServer as UnaryServer
    from qrelease.local.hitters import TextServer as TextServer
    from qrelease.local.means import CoinServer as CoinServer
    from qrelease.local.means import HybridServer as HybridServer
    from qrelease.local.means import LaplaceServer as LaplaceServer
    from qrelease.local.means import PiecewiseServer as PiecewiseServer
    from qrelease.local.means import SquareWaveServer as SquareWaveServer
    from qrelease.local.numeric import Coin, Hybrid, Laplace, Piecewise, SquareWave
    from qrelease.local.planning import Choice as Choice
    from qrelease.local.planning import plan as plan
    from qrelease.local.server import Batch as Batch
    from qrelease.local.server import LocalEstimate as LocalEstimate
    from qrelease.local.server import Server as Server
    from qrelease.local.serving import serve as serve
    from qrelease.local.several import Marginals, OneOf
    from qrelease.local.shuffling import shuffled as shuffled
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
    "LocalEstimate": "server",
    "Server": "server",
    "Marginals": "several",
    "OneOf": "several",
    "shuffled": "shuffling",
    "Text": "texts",
}

__all__ = [
    "Book",
    "Client",
    "Coin",
    "DeviceEntropy",
    "Hadamard",
    "Hybrid",
    "KAry",
    "Laplace",
    "LocalHashing",
    "Marginals",
    "OneOf",
    "OptimisedUnary",
    "Piecewise",
    "Report",
    "SquareWave",
    "Text",
    "Unary",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'qrelease.local' has no attribute {name!r}")
    return getattr(import_module(f"qrelease.local.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
