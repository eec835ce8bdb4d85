"""`qrelease plan`."""

import argparse
import json

from qrelease.apps.cli.shared import (
    clips_of,
    delta_option,
    neighbours_option,
    numbers_apart,
    schema_options,
    workload_of,
    workload_option,
)
from qrelease.errors import InvalidInput


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_plan)
    schema_options(parser)
    workload_option(parser)
    neighbours_option(parser)
    parser.add_argument("--n", type=int, required=True, help="about how many records there are")
    parser.add_argument(
        "--persons",
        type=int,
        metavar="N",
        help="about how many persons there are, where the schema has a [person]: then the plan says how many of their"
        " records are kept",
    )
    parser.add_argument(
        "--target-error", type=float, help="how far off the worst answer may be, as a fraction of the records"
    )
    parser.add_argument(
        "--epsilon", type=float, help="what a release may cost (default: the least that a theorem needs for the target)"
    )
    delta_option(parser)
    parser.add_argument(
        "--beta",
        type=float,
        default=0.05,
        help="the probability with which a promised error may be exceeded (default: %(default)s)",
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=3,
        help="how often each mechanism is simulated on made-up records (default: %(default)s; 0 for never)",
    )
    parser.add_argument(
        "--numbers",
        action="append",
        metavar="Q",
        help="also say how accurate sums, means, variances or shares by group will be, as `qrelease release --numbers`"
        " takes them: mean:COLUMN by A*B where CONDITION; may be repeated",
    )
    parser.add_argument(
        "--clip",
        action="append",
        metavar="COLUMN=LOW..HIGH",
        help="the bounds that the values of a column will be clipped to, for --numbers (default: the schema's)",
    )
    parser.add_argument(
        "--numbers-share",
        type=float,
        metavar="S",
        default=0.5,
        help="the share of the cost that --numbers may take, between 0 and 1 (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _plan(arguments: argparse.Namespace) -> None:
    from qrelease.data.schema import load
    from qrelease.data.structural_zeros import narrowed
    from qrelease.evaluation.planning import plan

    numbers_apart(arguments)
    if arguments.clip is not None and arguments.numbers is None:
        raise InvalidInput("--clip needs --numbers")
    clip, learned = clips_of(arguments.clip or [])
    if learned:
        raise InvalidInput(f"bounds of {learned[0]!r} that are to be learned are not known to a plan: give LOW..HIGH")
    domain = load(arguments.schema)
    domain = narrowed(domain, domain.names if arguments.columns is None else arguments.columns)
    found = plan(
        workload_of(arguments, domain),
        arguments.n,
        arguments.target_error,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        neighbours=arguments.neighbours,
        beta=arguments.beta,
        trials=arguments.trials,
        persons=arguments.persons,
        numbers=arguments.numbers or (),
        clip=clip,
        numbers_share=arguments.numbers_share,
    )
    print(json.dumps(found.to_json()) if arguments.json else found)
