"""`qrelease plan`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from qrelease.data.domain import Domain
    from qrelease.evaluation.learning_forecast import LearningForecast


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
    from qrelease.data.schema import load_draft
    from qrelease.data.structural_zeros import narrowed
    from qrelease.evaluation.planning import plan

    numbers_apart(arguments)
    if arguments.clip is not None and arguments.numbers is None:
        raise InvalidInput("--clip needs --numbers")
    clip, learned = clips_of(arguments.clip or [])
    if learned:
        raise InvalidInput(f"bounds of {learned[0]!r} that are to be learned are not known to a plan: give LOW..HIGH")
    domain, unreviewed = load_draft(arguments.schema, undecided=True)
    domain = narrowed(domain, domain.names if arguments.columns is None else arguments.columns)
    drafted = [name for name in domain.names if name in unreviewed]
    learning, mechanisms = None, None
    cost: dict[str, float | None] = {"epsilon": arguments.epsilon, "delta": arguments.delta}
    if domain.undecided:
        learning = _learning(arguments, domain)
        domain, mechanisms = learning.stand_in, learning.mechanisms
        cost |= {"epsilon": None, **learning.left.to_json()}
    _check_limits_public(domain, arguments.numbers or (), drafted)
    found = plan(
        workload_of(arguments, domain),
        arguments.n,
        arguments.target_error,
        **cost,
        neighbours=arguments.neighbours,
        beta=arguments.beta,
        trials=arguments.trials,
        persons=arguments.persons,
        mechanisms=mechanisms,
        numbers=arguments.numbers or (),
        clip=clip,
        numbers_share=arguments.numbers_share,
    )
    if arguments.json:
        also = {} if learning is None else {"learning": learning.to_json()}
        print(json.dumps(found.to_json() | also | ({"not_reviewed": drafted} if drafted else {})))
    else:
        if learning is not None:
            print(f"{learning}\n  to plan with what is learned: {_to_learn(arguments, learning)}\n")
        print(found.text)
    if drafted:
        print(
            f"qrelease: not reviewed: {', '.join(drafted)}. This plan, like the draft, follows values that were read"
            " off the data: it is for your eyes only. A release needs each entry checked against public knowledge, and"
            " its reviewed = true",
            file=sys.stderr,
        )


def _learning(arguments: argparse.Namespace, domain: Domain) -> LearningForecast:
    """What can be said of columns that are to be learned.

    Raises `InvalidInput` where it is not known how the cost is divided, or what a condition is about.
    """
    from qrelease.evaluation.learning_forecast import LearningForecast
    from qrelease.privacy import Neighbours
    from qrelease.privacy.costs import cost_of

    open_ = ", ".join(domain.undecided)
    if arguments.epsilon is None:
        raise InvalidInput(
            f"{open_}: learned for a part of the cost, so a plan needs the --epsilon of learning and release together;"
            " or learn the schema first, by `qrelease schema learn`, and plan with what that writes"
        )
    found = LearningForecast.of(
        domain,
        arguments.n,
        cost_of(arguments.epsilon, arguments.delta),
        Neighbours.parse(arguments.neighbours),
        numbers=bool(arguments.numbers),
    )
    for text in [*(arguments.workload or ()), *(arguments.numbers or ())]:
        if found.is_about_learned(text):
            raise InvalidInput(
                f"{text!r} has a condition on what is to be learned ({open_}), whose bins or categories a plan does not"
                " know: leave it out, or learn them first, and plan with what that writes:"
                f" {_to_learn(arguments, found)}"
            )
    return found


def _to_learn(arguments: argparse.Namespace, learning: LearningForecast) -> str:
    """The command that learns a schema by itself, for the part of the cost that `qrelease release` takes for it."""
    part = learning.alone.to_json()
    options = [word for name, value in part.items() for word in (f"--{name}", f"{value:.6g}")]
    columns = [] if arguments.columns is None else ["--columns", ",".join(arguments.columns)]
    words = ["--schema", str(arguments.schema), *columns, *options, "--out", f"{arguments.schema.stem}-learned.toml"]
    return f"qrelease schema learn DATA {shlex.join(words)}"


def _check_limits_public(domain: Domain, numbers: Collection[str], drafted: Collection[str]) -> None:
    """Raise `InvalidInput` where a plan would tell the limits of a column that nobody has reviewed.

    How far off a sum or mean may be is a multiple of them, so that the least and the largest value could be told.
    """
    from qrelease.queries.numeric import NumericQuestion

    for text in numbers if drafted else ():
        column = NumericQuestion.parse(domain, text).column
        if column in drafted:
            raise InvalidInput(
                f"{text!r}: the limits of {column!r} were read off the data and not reviewed, and a plan of its"
                " numbers would tell them: review its entry first"
            )
