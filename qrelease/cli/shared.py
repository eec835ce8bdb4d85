"""What several commands share: their options, what is made of them, and what is said about costs and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qrelease.errors import LedgerError

if TYPE_CHECKING:
    from qrelease.domain import Domain
    from qrelease.entropy import Entropy
    from qrelease.ledger import Ledger
    from qrelease.privacy import Cost
    from qrelease.table import Table
    from qrelease.workload import Workload

DATA = "CSV file (.gz, .xz, .bz2 too) or Parquet file (.parquet, .pq)"

NEIGHBOURS = ("add-remove", "replace-one")

WEAK_EPSILON = 20.0
WEAK_DELTA = 1e-4
"""Costs beyond these are answered with a warning."""


def action(
    actions: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str
) -> argparse.ArgumentParser:
    """The parser of one action of a command that has several, as `show` of `ledger`."""
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def data_options(parser: argparse.ArgumentParser) -> None:
    """A table, and what is asked about it."""
    parser.add_argument("data", type=Path, help=DATA)
    parser.add_argument(
        "--dataset", metavar="NAME", help="whose people these are; default: the file's name without .csv, .gz, .parquet"
    )
    query_options(parser)


def query_options(parser: argparse.ArgumentParser) -> None:
    """A universe, what is asked about it, and what is protected."""
    schema_options(parser)
    parser.add_argument(
        "--workload",
        action="append",
        metavar="W",
        help="marginals:3 (default), marginals:a*b,c*d, ranges:a, prefixes:a, boxes:a*b, where:CONDITION; may be"
        " repeated",
    )
    parser.add_argument("--neighbours", choices=NEIGHBOURS, default=NEIGHBOURS[0], help="default: %(default)s")


def schema_options(parser: argparse.ArgumentParser) -> None:
    """A universe."""
    parser.add_argument("--schema", type=Path, required=True, help="schema.toml, or a {column: size} JSON")
    parser.add_argument("--columns", type=names, help="only these columns, as a,b,c")


def seed_option(parser: argparse.ArgumentParser) -> None:
    """Where the noise comes from."""
    parser.add_argument(
        "--insecure-seed", type=int, metavar="N", help="repeatable noise for tests; the result protects nobody"
    )


def names(text: str) -> list[str]:
    """The type of an option such as `a,b,c`."""
    return [name.strip() for name in text.split(",")]


def check_memory() -> None:
    """`TooLarge` where not even the libraries fit: before they are loaded."""
    from qrelease import memory

    memory.check(memory.LIBRARIES, "this command", "raise the limit of this shell or container")


def table_of(arguments: argparse.Namespace) -> Table:
    """The table of `data_options`."""
    from qrelease.rows import PARQUET
    from qrelease.table import Table

    make = Table.read_parquet if arguments.data.suffix.lower() in PARQUET else Table.read_csv
    return make(arguments.data, arguments.schema, arguments.columns)


def workload_of(arguments: argparse.Namespace, domain: Domain) -> Workload:
    """The queries of `query_options`."""
    from qrelease.workload import Workload

    default = f"marginals:{min(3, len(domain))}"
    parts = [Workload.parse(domain, text) for text in arguments.workload or [default]]
    whole = parts[0]
    for part in parts[1:]:
        whole += part
    return whole


def cost_of(epsilon: float, delta: float | None) -> Cost:
    """Pure ε without a δ."""
    from qrelease.privacy import ApproxDP, PureDP

    return PureDP(epsilon) if not delta else ApproxDP(epsilon, delta)


def told(cost: Cost | None) -> str:
    """A cost as people read it, to six digits: what is exact is in the files, and in refusals."""
    return "nothing" if cost is None else f"{cost:.6g}"


def entropy_of(arguments: argparse.Namespace) -> Entropy:
    """The stream of `seed_option`."""
    from qrelease.entropy import Entropy

    return Entropy() if arguments.insecure_seed is None else Entropy.insecure(arguments.insecure_seed)


def dataset_of(arguments: argparse.Namespace) -> str:
    """Whose budget is spent: the name given, or the file's without its suffixes, compressed or not.

    So `people.csv`, `people.csv.gz` and `people.parquet` in one folder are one dataset with one ledger.
    """
    if arguments.dataset is not None:
        return str(arguments.dataset)
    from qrelease.rows import SUFFIXES

    name: Path = arguments.data.resolve()
    while name.suffix.lower() in SUFFIXES:
        name = name.with_suffix("")
    return name.name


def opened(path: Path) -> Ledger:
    """A ledger that is there already."""
    from qrelease.ledger import Ledger

    if not path.exists():
        raise LedgerError(f"there is no ledger {path}")
    return Ledger.open(path)


def warn_of_weak(cost: Cost) -> None:
    """A person who types such numbers may not know what they mean."""
    values = cost.to_json()
    if values["epsilon"] > WEAK_EPSILON:
        print(f"warning: epsilon above {WEAK_EPSILON:g} promises next to nothing", file=sys.stderr)
    if values.get("delta", 0) > WEAK_DELTA:
        print(f"warning: delta above {WEAK_DELTA:g}: it should be far below 1 / (number of people)", file=sys.stderr)


def wrote(folder: Path) -> str:
    """Which files there are now."""
    names = sorted(file.name for file in folder.iterdir())
    return f"wrote {', '.join(names)} in {folder}"
