"""`qrelease audit`."""

from __future__ import annotations

import argparse
import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qrelease.apps.cli.mechanisms import AUDITED_STATISTIC, MECHANISMS, mechanism_of, own_mechanism
from qrelease.apps.cli.shared import entropy_of, neighbours_option, seed_option
from qrelease.errors import InvalidInput, QReleaseError
from qrelease.privacy.costs import cost_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from qrelease.mechanisms.online.session import Online
    from qrelease.privacy import Cost
    from qrelease.release.curator import Curator


_AUDITED: Final = tuple(name for name in MECHANISMS if name != "auto")
"""Mechanisms that are run by themselves: `auto` runs one of the others."""

_ELSEWHERE: Final = {
    "auto": "it runs one of the others, which the card and the manifest of a release name",
    "sums": "numbers by group are audited in whole releases, by `qrelease audit numbers --doors`",
}
"""Names of mechanisms on cards that are no mechanism to audit, and what to do."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_audit)
    parser.add_argument(
        "mechanism",
        help=f"the mechanism: {', '.join(_AUDITED)}, which is run on tiny tables, or one of your own, MODULE:NAME: a"
        " mechanism, an object with check and release, is run on tiny tables too, and a function is called as f(data,"
        f" entropy) with --first and --second. A statistic is no mechanism: {AUDITED_STATISTIC}",
    )
    parser.add_argument(
        "--doors",
        action="store_true",
        help="audit whole releases, as users get them. The same work is done on two tables that differ by one record,"
        " with the same insecure noise: in Python, by the command line, and over HTTP. All that comes out (files,"
        " messages, the ledger) is compared, and what differs without being a noisy number is reported. Instead of a"
        " mechanism, name `auto`, `online` for a session, or a command: `estimate`, `score`, `learn` (schema learn),"
        " `numbers` (release --numbers), `parent` (release --parent), `both` (release --both) or `learned` (a release"
        " under a schema that is learned)",
    )
    parser.add_argument(
        "--at-most",
        type=int,
        metavar="M",
        help="with --doors: the two tables differ by all records of one person, of whom at most M are kept (default: by"
        " one record; with `parent`, by one parent and all its children)",
    )
    parser.add_argument(
        "--first", help="the input of a function MODULE:NAME, as JSON: a list of numbers arrives as an array"
    )
    parser.add_argument("--second", help="a neighbouring input, as JSON")
    parser.add_argument("--epsilon", type=float, required=True, help="what the mechanism claims")
    parser.add_argument("--delta", type=float, help="the delta that it claims (default: 0, pure epsilon)")
    neighbours_option(parser)
    parser.add_argument(
        "--samples", type=int, default=20_000, help="how often it is run on each input (default: %(default)s)"
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.99,
        help="the probability with which a mechanism that keeps its promise is acquitted (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the finding as one JSON object")
    seed_option(parser)


def _audit(arguments: argparse.Namespace) -> int:
    from qrelease.evaluation.audit import audit, audit_mechanism, failure, find_own, read_input
    from qrelease.evaluation.audit.releases import OWN_TABLES
    from qrelease.privacy import Neighbours
    from qrelease.statistics.catalogue import STATISTICS

    if arguments.doors:
        return _audit_doors(arguments)
    name, cost, entropy = (arguments.mechanism, cost_of(arguments.epsilon, arguments.delta), entropy_of(arguments))
    effort = {"samples": arguments.samples, "confidence": arguments.confidence, "entropy": entropy}
    relation = Neighbours.parse(arguments.neighbours)
    if name.partition(":")[0] in STATISTICS and not Path(f"{name.partition(':')[0]}.py").exists():
        raise InvalidInput(f"{name} is a statistic: {AUDITED_STATISTIC}")
    if ":" in name:
        own, mechanism = find_own(name), None
        try:
            mechanism = own_mechanism(own)
            if mechanism is not None:
                found = audit_mechanism(mechanism, cost, relation, **effort)
            else:
                if arguments.first is None or arguments.second is None:
                    raise InvalidInput(
                        f"{name} needs two neighbouring inputs: give --first and --second, as JSON; a mechanism, an"
                        " object with name, check and release, needs none"
                    )
                found = audit(own, read_input(arguments.first), read_input(arguments.second), cost, **effort)
        except (QReleaseError, MemoryError):
            raise
        except Exception as error:  # exit code 2: 1 is a conviction
            hint = "a function gets (data, entropy)" if mechanism is None else OWN_TABLES
            raise InvalidInput(f"{name} failed: {failure(error)}; {hint}") from error
    elif name in _AUDITED:
        found = audit_mechanism(mechanism_of(name), cost, relation, **effort)
    else:
        hint = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        raise InvalidInput(f"mechanisms are {', '.join(_AUDITED)}, or one of your own, MODULE:NAME, got {name!r}{hint}")
    if arguments.json:
        print(json.dumps(found.to_json()))
    else:
        print(found if found.convicted else f"{found}\n  an acquittal is no proof of privacy")
    return int(found.convicted)


def _serving(curator: Curator, path: Path, mechanism: Online, cap: Cost) -> AbstractContextManager[tuple[ASGIApp, str]]:
    """A server of the curator's table: loaded where a session is audited, as it needs the extra `server`."""
    from qrelease.apps.server.in_process import in_process

    return in_process(curator, path, mechanism, cap)


def _audit_doors(arguments: argparse.Namespace) -> int:
    from qrelease.evaluation.audit.commands import SCENES
    from qrelease.evaluation.audit.doors import audit_commands, audit_doors
    from qrelease.mechanisms.online.session import Online
    from qrelease.privacy import Neighbours

    name = arguments.mechanism
    known = [*MECHANISMS, "online", *SCENES]
    if name not in known:
        raise InvalidInput(f"with --doors, what is attacked is one of {', '.join(known)}, got {name!r}")
    if arguments.insecure_seed is not None:
        raise InvalidInput("--doors has insecure seeds of its own: leave out --insecure-seed")
    cost = cost_of(arguments.epsilon, arguments.delta)
    relation = Neighbours.parse(arguments.neighbours)
    if name in SCENES:
        found = audit_commands(name, cost, relation, at_most=arguments.at_most)
    else:
        made = Online(alpha=0.2, beta=0.05) if name == "online" else mechanism_of(name)
        found = audit_doors(name, made, cost, relation, _serving, at_most=arguments.at_most)
    for door in found:
        print(json.dumps(door.to_json()) if arguments.json else door)
    if not arguments.json and not any(door.convicted for door in found):
        print("  an acquittal is no proof of privacy")
    return int(any(door.convicted for door in found))
