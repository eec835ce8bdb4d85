"""`qrelease audit`."""

import argparse
import json

from qrelease.cli.mechanisms import MECHANISMS, mechanism_of
from qrelease.cli.shared import NEIGHBOURS, cost_of, entropy_of, seed_option
from qrelease.errors import InvalidInput


def options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.set_defaults(run=_audit)
    parser.add_argument(
        "mechanism", help=f"{', '.join(MECHANISMS)} on tiny tables, or MODULE:FUNCTION, called as f(data, entropy)"
    )
    parser.add_argument("--first", help="JSON: the input of MODULE:FUNCTION")
    parser.add_argument("--second", help="JSON: a neighbour of it")
    parser.add_argument("--epsilon", type=float, required=True, help="what the mechanism claims")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    parser.add_argument("--neighbours", choices=NEIGHBOURS, default=NEIGHBOURS[0])
    parser.add_argument("--samples", type=int, default=20_000, help="runs on each input; default: %(default)s")
    parser.add_argument("--confidence", type=float, default=0.99, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="the finding as one object")
    seed_option(parser)


def _audit(arguments: argparse.Namespace) -> int:
    from qrelease.audit import audit, audit_mechanism, find_mechanism, read_input
    from qrelease.privacy import Neighbours

    name, cost, entropy = (arguments.mechanism, cost_of(arguments.epsilon, arguments.delta), entropy_of(arguments))
    effort = {"samples": arguments.samples, "confidence": arguments.confidence, "entropy": entropy}
    if ":" in name:
        if arguments.first is None or arguments.second is None:
            raise InvalidInput(f"{name} needs two neighbouring inputs: give --first and --second, as JSON")
        found = audit(find_mechanism(name), read_input(arguments.first), read_input(arguments.second), cost, **effort)
    elif name in MECHANISMS and name != "auto":  # which runs one of the others
        found = audit_mechanism(mechanism_of(name), cost, Neighbours.parse(arguments.neighbours), **effort)
    else:
        raise InvalidInput(f"mechanisms are {', '.join(MECHANISMS)} or MODULE:FUNCTION, got {name!r}")
    if arguments.json:
        print(json.dumps(found.to_json()))
    else:
        print(found if found.convicted else f"{found}\n  an acquittal is no proof of privacy")
    return int(found.convicted)
