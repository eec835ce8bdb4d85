"""The local model: each person randomises on her own device, and the collector sees reports only.

Clients need no numpy, so that they run on a phone; servers do, and load when they are first used, so that `import *`
brings what a device needs and a collector names what it takes. Nothing here reads a table: there is no trusted curator.
Many people's reports are simulated by `crowd`, for studies only.
"""

from importlib import import_module
from typing import Any

from qrelease._util.stub import homes

_ON_DEVICES = {"book", "categories", "client", "draws", "numeric", "several", "texts"}
"""Modules that run on a person's device."""

__all__ = sorted(name for name, module in homes("qrelease.local").items() if module.rpartition(".")[2] in _ON_DEVICES)


def __getattr__(name: str) -> Any:
    if name not in homes("qrelease.local"):
        raise AttributeError(f"module 'qrelease.local' has no attribute {name!r}")
    return getattr(import_module(homes("qrelease.local")[name]), name)


def __dir__() -> list[str]:
    return sorted(homes("qrelease.local"))
