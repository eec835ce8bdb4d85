"""`qrelease evaluate`."""

import argparse
import sys
from pathlib import Path

from qrelease.apps.cli.mechanisms import DEFAULT, MECHANISMS, mechanism_of
from qrelease.apps.cli.shared import (
    check_memory,
    data_options,
    dataset_of,
    entropy_of,
    names,
    seed_option,
    table_of,
    workload_of,
)
from qrelease.errors import InvalidInput


def options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.set_defaults(run=_evaluate)
    data_options(parser)
    parser.add_argument("--mechanism", type=names, default=[DEFAULT], help="a,b; the baselines are always there")
    parser.add_argument("--epsilon", type=_floats, default=[0.1, 1.0, 10.0], help="as 0.1,1,10 (the default)")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    parser.add_argument("--trials", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--plot", type=Path, help="draw error against epsilon (.svg or .png)")
    parser.add_argument("--json", action="store_true", help="one object a line")
    seed_option(parser)


def _floats(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a list of numbers: {text!r}") from None


def _evaluate(arguments: argparse.Namespace) -> None:
    check_memory()
    from qrelease.evaluation.evaluate import evaluate
    from qrelease.evaluation.results import check_picture

    unknown = [name for name in arguments.mechanism if name not in MECHANISMS]
    if unknown:
        raise InvalidInput(f"mechanisms are {', '.join(MECHANISMS)}, got {unknown[0]!r}")
    if arguments.plot is not None:
        check_picture(arguments.plot)
    table = table_of(arguments)
    found = evaluate(
        table,
        workload_of(arguments, table.domain),
        {name: mechanism_of(name) for name in arguments.mechanism},
        arguments.epsilon,
        delta=arguments.delta,
        neighbours=arguments.neighbours,
        trials=arguments.trials,
        entropy=entropy_of(arguments),
        dataset=dataset_of(arguments),
    )
    print(found.to_json_lines() if arguments.json else found)
    if arguments.plot is not None:
        found.plot(arguments.plot)
        print(f"drew {arguments.plot}", file=sys.stderr)
