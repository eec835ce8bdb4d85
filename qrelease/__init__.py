"""Differentially private query release: synthetic tables and answers to workloads under one stated (ε, δ).

Names load on first use, so that `import qrelease` and the command line's `--help` cost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qrelease import data
    from qrelease.archive import load
    from qrelease.auto import Auto
    from qrelease.conjunctions import Conjunctions
    from qrelease.curator import Curator
    from qrelease.domain import Attribute, Domain
    from qrelease.entropy import Entropy
    from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError, QReleaseError, TooLarge
    from qrelease.ledger import Ledger
    from qrelease.mechanisms.gaussian import Gaussian
    from qrelease.mechanisms.iterative import IterativeConstruction
    from qrelease.mechanisms.laplace import Laplace
    from qrelease.mechanisms.matrix import Matrix
    from qrelease.mechanisms.maxent import MaxEnt
    from qrelease.mechanisms.mwem import MWEM
    from qrelease.mechanisms.net import Net
    from qrelease.mechanisms.online import Online
    from qrelease.mechanisms.pmw import PrivateMultiplicativeWeights
    from qrelease.mechanisms.records import Records
    from qrelease.mechanisms.smalldb import SmallDB
    from qrelease.planning import plan
    from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
    from qrelease.release import Release
    from qrelease.table import Table
    from qrelease.workload import Workload

_HOMES = {
    "load": "archive",
    "Auto": "auto",
    "Conjunctions": "conjunctions",
    "Attribute": "domain",
    "Domain": "domain",
    "Entropy": "entropy",
    "BudgetExceeded": "errors",
    "InvalidInput": "errors",
    "LedgerError": "errors",
    "QReleaseError": "errors",
    "TooLarge": "errors",
    "Ledger": "ledger",
    "Gaussian": "mechanisms.gaussian",
    "IterativeConstruction": "mechanisms.iterative",
    "Laplace": "mechanisms.laplace",
    "Matrix": "mechanisms.matrix",
    "MaxEnt": "mechanisms.maxent",
    "MWEM": "mechanisms.mwem",
    "Net": "mechanisms.net",
    "Online": "mechanisms.online",
    "Records": "mechanisms.records",
    "SmallDB": "mechanisms.smalldb",
    "PrivateMultiplicativeWeights": "mechanisms.pmw",
    "plan": "planning",
    "ZCDP": "privacy",
    "ApproxDP": "privacy",
    "Neighbours": "privacy",
    "PureDP": "privacy",
    "Curator": "curator",
    "Release": "release",
    "Table": "table",
    "Workload": "workload",
}

__all__ = [
    "MWEM",
    "ZCDP",
    "ApproxDP",
    "Attribute",
    "Auto",
    "BudgetExceeded",
    "Conjunctions",
    "Curator",
    "Domain",
    "Entropy",
    "Gaussian",
    "InvalidInput",
    "IterativeConstruction",
    "Laplace",
    "Ledger",
    "LedgerError",
    "Matrix",
    "MaxEnt",
    "Neighbours",
    "Net",
    "Online",
    "PrivateMultiplicativeWeights",
    "PureDP",
    "QReleaseError",
    "Records",
    "Release",
    "SmallDB",
    "Table",
    "TooLarge",
    "Workload",
    "data",
    "load",
    "plan",
    "read_csv",
]


def __getattr__(name: str) -> Any:
    if name == "data":
        return import_module("qrelease.data")
    if name not in _HOMES:
        raise AttributeError(f"module 'qrelease' has no attribute {name!r}")
    return getattr(import_module(f"qrelease.{_HOMES[name]}"), name)


def read_csv(*args: Any, **kwargs: Any) -> "Table":
    """`Table.read_csv`: the private records of a CSV file, by a schema."""
    from qrelease.table import Table

    return Table.read_csv(*args, **kwargs)


def __dir__() -> list[str]:
    return __all__
