"""`qrelease serve`."""

import argparse
import sys
from pathlib import Path

from qrelease.apps.cli import STAYS
from qrelease.apps.cli.shared import (
    DATA,
    NEIGHBOURS,
    check_memory,
    check_weak,
    dataset_of,
    ledger_place,
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
        help="a file, or for servers on many hosts postgresql://user@host/database?schema=people; made with this budget"
        " as its total, if it is new",
    )
    parser.add_argument("--dataset", metavar="NAME", help="whose people these are; default: from the file's name")
    parser.add_argument("--neighbours", choices=NEIGHBOURS, default=NEIGHBOURS[0])
    parser.add_argument("--epsilon", type=float, required=True, help="what all answers together may cost")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    weak_option(parser)
    parser.add_argument("--alpha", type=float, default=0.05, help="error bars, a fraction of n; default: %(default)s")
    parser.add_argument("--beta", type=float, default=0.001, help="how often one may fail; default: %(default)s")
    parser.add_argument(
        "--records",
        type=int,
        metavar="N",
        help="about how many there are, if public: an alpha that no table of so many could meet is refused before the"
        " noisy count is bought",
    )
    parser.add_argument("--declare", type=int, metavar="K", help="queries have K columns at most: buys for all at once")
    parser.add_argument(
        "--session",
        metavar="NAME",
        default="server",
        help="its key in the ledger: another is a new one; default: %(default)s",
    )
    parser.add_argument(
        "--changed-rows", action="store_true", help="go on with a session although the records are others than before"
    )
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s; others need a proxy with TLS")
    parser.add_argument("--port", type=int, default=8000, help="default: %(default)s")
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="of 127.0.0.1: serve /metrics there, for Prometheus, and there alone; default: nowhere",
    )
    parser.add_argument("--workers", type=int, default=1, help="processes; default: %(default)s")
    parser.add_argument(
        "--rate", type=float, default=200.0, help="requests a second, a token, in each worker; default: %(default)s"
    )
    parser.add_argument(
        "--strangers",
        type=int,
        default=64,
        metavar="N",
        help="connections without a good token from one address, or from the first 64 bits of one of IPv6, in each"
        " worker: a further one takes the place of the oldest idle one. Behind a proxy, from which all come, as many as"
        " it opens; default: %(default)s",
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
