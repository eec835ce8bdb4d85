"""`qrelease plan`."""

import argparse
import json

from qrelease.apps.cli.shared import query_options, workload_of


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_plan)
    query_options(parser)
    parser.add_argument("--n", type=int, required=True, help="about how many records there are")
    parser.add_argument(
        "--persons",
        type=int,
        metavar="N",
        help="about how many persons there are, where the schema has a [person]: it says how many records are kept",
    )
    parser.add_argument("--target-error", type=float, help="how far off the worst answer may be, a fraction of n")
    parser.add_argument("--epsilon", type=float, help="default: the least that a theorem takes for the target error")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    parser.add_argument("--beta", type=float, default=0.05, help="how often a promise may fail; default: %(default)s")
    parser.add_argument("--trials", type=int, default=3, help="simulations of each; default: %(default)s, 0 for none")
    parser.add_argument("--json", action="store_true", help="one object")


def _plan(arguments: argparse.Namespace) -> None:
    from qrelease.data.schema import load
    from qrelease.data.structural_zeros import narrowed
    from qrelease.evaluation.planning import plan

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
    )
    print(json.dumps(found.to_json()) if arguments.json else found)
