"""`qrelease serve`."""

import argparse
import sys
from pathlib import Path

from qrelease.apps.cli import STAYS
from qrelease.apps.cli.shared import (
    DATA,
    check_memory,
    check_weak,
    dataset_of,
    dataset_option,
    delta_option,
    ledger_place,
    neighbours_option,
    parent_option,
    schema_options,
    warn_of_delta,
    weak_option,
)
from qrelease.privacy.costs import cost_of


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_serve, uncharged=STAYS)
    parser.add_argument("--data", type=Path, required=True, help=DATA)
    parent_option(parser)
    schema_options(parser)
    parser.add_argument(
        "--ledger",
        type=ledger_place,
        required=True,
        help="the ledger: a file, or for servers on many hosts postgresql://user@host/database?schema=people; made with"
        " this budget as its total, if it is new",
    )
    dataset_option(parser)
    neighbours_option(parser)
    parser.add_argument("--epsilon", type=float, required=True, help="what all answers together may cost")
    delta_option(parser)
    weak_option(parser)
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


def _serve(arguments: argparse.Namespace) -> None:
    check_weak(cost_of(arguments.epsilon, arguments.delta), arguments.weak)
    check_memory()
    from ipaddress import ip_address

    from qrelease.apps.server.processes import Settings, listen, serve

    settings = Settings(
        data=str(arguments.data),
        schema=str(arguments.schema),
        columns=arguments.columns,
        ledger=arguments.ledger,
        dataset=dataset_of(arguments),
        neighbours=arguments.neighbours,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        alpha=arguments.alpha,
        beta=arguments.beta,
        session=arguments.session,
        declared=arguments.declare,
        rate=arguments.rate,
        changed_rows=arguments.changed_rows,
        strangers=arguments.strangers,
        records=arguments.records,
        parent=None if arguments.parent is None else str(arguments.parent),
    )
    warn_of_delta(cost_of(arguments.epsilon, arguments.delta))
    with listen(arguments.host, arguments.port) as listening:
        if not ip_address(listening.getsockname()[0]).is_loopback:
            print("warning: tokens and answers travel in the clear: put a proxy with TLS in front", file=sys.stderr)
        if arguments.metrics_port is None:
            return serve(settings, listening, arguments.workers)
        with listen("127.0.0.1", arguments.metrics_port) as metrics:
            return serve(settings, listening, arguments.workers, metrics)
