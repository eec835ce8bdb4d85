"""`qrelease serve`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qrelease._util.compiling import tell_of_compiling
from qrelease.apps.cli import STAYS
from qrelease.apps.cli.serve_file import read_serve_file
from qrelease.apps.cli.shared import (
    DATA,
    check_memory,
    check_processes,
    check_weak,
    data_place,
    dataset_of,
    dataset_option,
    delta_option,
    dialect_of,
    dialect_options,
    ledger_place,
    neighbours_option,
    parent_option,
    query_option,
    schema_options,
    warn_of_delta,
    weak_option,
)
from qrelease.errors import InvalidInput
from qrelease.privacy.costs import cost_of

if TYPE_CHECKING:
    from qrelease.apps.server.processes import Serving
    from qrelease.privacy.costs import Cost

_Datasets = Mapping[str | None, argparse.Namespace]

_NEEDED: Final = ("data", "schema", "ledger", "epsilon")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_serve, uncharged=STAYS)
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        help="a TOML file of several datasets, each with these options: they are at /datasets/NAME/; SIGHUP reads it"
        " again without an interruption",
    )
    dataset_options(parser, required=False)
    server_options(parser)


def dataset_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options of a dataset: its records, its budget, and its session."""
    _budget_options(parser, required=required)
    _session_options(parser)


def _budget_options(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """The records, and what all answers about them may cost."""
    parser.add_argument("--data", type=data_place, required=required, help=DATA)
    query_option(parser)
    parent_option(parser)
    dialect_options(parser)
    schema_options(parser, required=required)
    parser.add_argument(
        "--ledger",
        type=ledger_place,
        required=required,
        help="the ledger: a file, or for servers on many hosts postgresql://user@host/database?schema=people; made with"
        " this budget as its total, if it is new",
    )
    dataset_option(parser)
    neighbours_option(parser)
    parser.add_argument("--epsilon", type=float, required=required, help="what all answers together may cost")
    delta_option(parser)
    weak_option(parser)


def _session_options(parser: argparse.ArgumentParser) -> None:
    """The session that answers: how exactly, and how it is found again."""
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.05,
        help="how far off an answer may be, as a fraction of the records (default: %(default)s)",
    )
    parser.add_argument(
        "--beta",
        type=float,
        default=0.001,
        help="the probability with which an answer may be further off (default: %(default)s)",
    )
    parser.add_argument(
        "--records",
        type=int,
        metavar="N",
        help="about how many records there are, if that is public: an alpha that cannot be met with so many is then"
        " refused before a noisy count is bought",
    )
    parser.add_argument(
        "--declare",
        type=int,
        metavar="K",
        help="all queries will name at most K columns: the session then pays for them together, at the start",
    )
    parser.add_argument(
        "--session",
        metavar="NAME",
        default="server",
        help="the name of the session in the ledger; with a new name a new session begins (default: %(default)s)",
    )
    parser.add_argument(
        "--changed-rows",
        action="store_true",
        help="go on with a session although the records have changed since it was opened",
    )


def server_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a server: where it listens, and what it takes from whom."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on; any but this machine's own needs a proxy with TLS (default: %(default)s)",
    )
    parser.add_argument("--port", type=int, default=8000, help="the port to listen on (default: %(default)s)")
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve /metrics, for Prometheus, on this port of 127.0.0.1 (default: nowhere)",
    )
    parser.add_argument("--workers", type=int, default=1, help="the number of worker processes (default: %(default)s)")
    parser.add_argument(
        "--rate",
        type=float,
        default=200.0,
        help="how many requests a second each worker takes from one token (default: %(default)s)",
    )
    parser.add_argument(
        "--strangers",
        type=int,
        default=64,
        metavar="N",
        help="how many connections without a valid token each worker keeps from one address (for IPv6, from one /64"
        " network); a further one replaces the oldest idle one. Behind a proxy all come from its address: give as many"
        " as it opens (default: %(default)s)",
    )


def _serve(arguments: argparse.Namespace) -> int:
    check_memory()
    check_processes()
    from ipaddress import ip_address

    from qrelease.apps.server.processes import listen, serve
    from qrelease.apps.server.reloading import keep_serving

    datasets: _Datasets
    if arguments.file is None:
        if missing := [f"--{name}" for name in _NEEDED if getattr(arguments, name) is None]:
            raise InvalidInput(f"serve needs a FILE of datasets, or else {', '.join(missing)} as well")
        server, datasets = arguments, {None: arguments}
    else:
        _check_alone(arguments)
        server, datasets = _read(arguments.file)
    serving = _serving(server, datasets)

    def read() -> Serving:
        again, found = _read(arguments.file)
        if _place(again) != _place(server):
            raise InvalidInput(f"{arguments.file}: host, port and metrics-port can change only at a new start")
        serving = _serving(again, found)
        _warn_of_others(found)
        return serving

    if server.metrics_port == server.port != 0:
        raise InvalidInput("metrics-port is also the server's port, where anybody could read the metrics: take another")
    tell_of_compiling(everywhere=True)
    with ExitStack() as closing:
        listening = closing.enter_context(listen(server.host, server.port))
        if not ip_address(listening.getsockname()[0]).is_loopback:
            print("warning: tokens and answers travel in the clear: put a proxy with TLS in front", file=sys.stderr)
        metrics = None
        if server.metrics_port is not None:
            metrics = closing.enter_context(listen("127.0.0.1", server.metrics_port, "--metrics-port"))
        if arguments.file is not None:
            said = arguments.file.with_name(f"{arguments.file.name}.errors")
            return keep_serving(read, listening, metrics, said)
        _warn_of_others(datasets)
        serve(serving, listening, metrics)
    return 0


def _warn_of_others(datasets: _Datasets) -> None:
    from qrelease.apps.cli.ledgers import warn_of_another
    from qrelease.privacy.ledger import Ledger

    for given in datasets.values():
        if not Ledger.exists(given.ledger):
            warn_of_another(given, given.ledger)


def _read(path: Path) -> tuple[argparse.Namespace, _Datasets]:
    server, datasets = read_serve_file(path, server_options, dataset_options)
    for name, given in datasets.items():
        given.dataset = name if given.dataset is None else given.dataset
    return server, dict[str | None, argparse.Namespace](datasets.items())


def _serving(server: argparse.Namespace, datasets: _Datasets) -> Serving:
    """What was asked for; of a cost that promises little it is said here."""
    from qrelease.apps.server.processes import Serving, Settings

    settings = []
    for name, given in datasets.items():
        cost = cost_of(given.epsilon, given.delta)
        check_weak(cost, given.weak)
        _check_learned(given, cost)
        settings.append(
            Settings(
                data=str(given.data),
                schema=str(given.schema),
                columns=given.columns,
                ledger=given.ledger,
                dataset=dataset_of(given),
                neighbours=given.neighbours,
                epsilon=given.epsilon,
                delta=given.delta,
                alpha=given.alpha,
                beta=given.beta,
                session=given.session,
                declared=given.declare,
                changed_rows=given.changed_rows,
                records=given.records,
                parent=None if given.parent is None else str(given.parent),
                query=given.query,
                dialect=dialect_of(given),
                name=name,
            )
        )
        warn_of_delta(cost)
    return Serving(tuple(settings), server.rate, server.strangers, server.workers)


def _check_learned(given: argparse.Namespace, cost: Cost) -> None:
    """Raise `InvalidInput` for a schema that leaves something to be learned, with the command that learns it.

    A session answers by bins and categories that are known, and its price is that of one schema from the first answer
    on: so it does not learn by itself, as a release does. Only the schema is looked at, before the records are read.
    """
    from qrelease.data.schema import load
    from qrelease.data.structural_zeros import narrowed
    from qrelease.mechanisms.learning.schema import divided
    from qrelease.privacy.ledger import Ledger

    domain = load(given.schema, undecided=True)
    if given.columns is not None and not set(given.columns) <= set(domain.names):
        return  # who reads the records says what is wrong
    asked = domain if given.columns is None else narrowed(domain, given.columns)
    if not asked.undecided:
        return
    first, left = divided(asked, cost)
    learned = given.schema.with_name(f"{given.schema.stem}-learned.toml")
    data = str(given.data) if isinstance(given.data, Path) else "DATA"  # an address may have a password
    lists = {"--columns": given.columns, "--header": given.header}
    columns = [word for option, of in lists.items() if of is not None for word in (option, ",".join(of))]
    files = ["--schema", str(given.schema), *columns, "--ledger", str(given.ledger), "--out", str(learned)]
    of_file = ("--query", "--parent", "--separator", "--quote", "--decimal", "--encoding", "--escape")
    total = [] if Ledger.exists(given.ledger) else _cost_words(cost, "total-")
    words = [data, *files, *_words(given, "--dataset", *of_file, "--neighbours"), *_cost_words(first), *total]
    raise InvalidInput(
        f"{given.schema} leaves {', '.join(asked.undecided)} to be learned, and a server needs bins and categories that"
        f" are known; nothing was charged. Learn them, say by `qrelease schema learn {shlex.join(words)}`, and serve"
        f" with --schema {shlex.quote(str(learned))} and what that leaves, {' '.join(_cost_words(left))}"
    )


def _words(given: argparse.Namespace, *options: str) -> list[str]:
    """Those of some options that were given."""
    parser = argparse.ArgumentParser(add_help=False)
    dataset_options(parser, required=False)
    usual = vars(parser.parse_args([]))
    names = {option: option.removeprefix("--") for option in options}
    chosen = {option: getattr(given, name) for option, name in names.items() if getattr(given, name) != usual[name]}
    return [word for option, value in chosen.items() for word in (option, str(value))]


def _cost_words(cost: Cost, which: str = "") -> list[str]:
    """A cost as options."""
    return [word for name, value in cost.to_json().items() for word in (f"--{which}{name}", f"{value:.6g}")]


def _place(server: argparse.Namespace) -> tuple[object, ...]:
    return server.host, server.port, server.metrics_port


def _check_alone(arguments: argparse.Namespace) -> None:
    """Raise `InvalidInput` for options beside a file, which has them all."""
    parser = argparse.ArgumentParser(add_help=False)
    dataset_options(parser, required=False)
    server_options(parser)
    for name, value in vars(parser.parse_args([])).items():
        if getattr(arguments, name) != value:
            raise InvalidInput(f"--{name.replace('_', '-')} must be written into {arguments.file}, not given beside it")
