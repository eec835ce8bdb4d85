"""`qrelease schema draft`, `qrelease schema check` and `qrelease schema learn`."""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from qrelease._util.compiling import tell_of_compiling
from qrelease._util.owner_only import new_for_owner
from qrelease.apps.cli.shared import (
    DATA,
    action,
    charging,
    check_memory,
    check_weak,
    data_options,
    data_place,
    dialect_of,
    dialect_options,
    entropy_of,
    ledger_options,
    neighbours_option,
    protection_options,
    query_option,
    schema_options,
    table_of,
    told,
    warn_of_delta,
    warn_of_unnamed,
)
from qrelease.errors import InvalidInput

_EXISTS: Final = "{} exists already; drafts do not overwrite"

_LARGE_FILE: Final = 50 << 20  # bytes of a file


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    draft = action(
        actions, "draft", _draft, "Write a schema drafted from the data, every entry of it marked as unreviewed."
    )
    draft.add_argument("data", type=data_place, help=DATA)
    query_option(draft)
    dialect_options(draft)
    draft.add_argument(
        "--named",
        action="store_true",
        help="the first line of a CSV file has the names of the columns, also where these look like values",
    )
    draft.add_argument("--rows", type=int, metavar="N", help="look at the first N records only (default: at all)")
    draft.add_argument(
        "--learn",
        action="store_true",
        help="leave bins and longer lists of categories open, for `schema learn` to learn from the budget, instead of"
        " reading them off the data",
    )
    draft.add_argument(
        "--person",
        metavar="COLUMN",
        help="the column that says whose the records are, where a person may have several: whole persons are protected",
    )
    draft.add_argument(
        "--at-most",
        type=int,
        metavar="M",
        help="with --person: how many records of each are kept, from what is publicly known of such tables",
    )
    draft.add_argument("--out", type=Path, help="the file to write (default: standard output)")
    check = action(
        actions,
        "check",
        _check,
        "NOT PRIVATE: list all values of a table that a schema refuses or moves, with exact counts; for the data holder"
        " only. The exit code is 1 where a value is refused.",
    )
    check.add_argument("data", type=data_place, help=DATA)
    query_option(check)
    dialect_options(check)
    schema_options(check)
    learn = action(actions, "learn", _learn, "Learn the bins and categories that a schema leaves open, for a charge.")
    learn.set_defaults(uncharged="nothing was charged")
    data_options(learn)
    neighbours_option(learn)
    learn.add_argument("--epsilon", type=float, required=True, help="what learning may cost")
    learn.add_argument(
        "--delta",
        type=float,
        help="the probability with which the promise may fail; needed where categories are to be learned",
    )
    learn.add_argument("--out", type=Path, help="the file to make, with the completed schema")
    learn.add_argument(
        "--plan",
        action="store_true",
        help="say what the cost goes into, and how finely that learns, and end: nothing is read, charged or made",
    )
    ledger_options(learn, "charge")
    learn.add_argument("--again", action="store_true", help="charge again, although the same was learned before")
    protection_options(learn)


def _is_large(place: object) -> bool:
    """Whether a draft of a whole file takes a minute or so."""
    return isinstance(place, str | os.PathLike) and os.path.isfile(place) and os.path.getsize(place) > _LARGE_FILE


def _draft(arguments: argparse.Namespace) -> None:
    from qrelease.data.header_draft import CAUTION
    from qrelease.data.person import Person
    from qrelease.data.schema_draft import drafted

    if (arguments.person is None) != (arguments.at_most is None):
        raise InvalidInput("--person and --at-most, how many records of each person are kept, go together")
    if arguments.out is not None and arguments.out.exists():  # before the data are read, which may take long
        raise InvalidInput(_EXISTS.format(arguments.out))
    if arguments.rows is None and _is_large(arguments.data):
        print("this file is large: a draft of its first records, by --rows 100000, is usually enough", file=sys.stderr)
    found = drafted(
        arguments.data,
        arguments.rows,
        learn=arguments.learn,
        person=None if arguments.person is None else Person(arguments.person, arguments.at_most),
        dialect=dialect_of(arguments),
        query=arguments.query,
        named=arguments.named,
    )
    text = found.text
    if found.doubted:
        print(f"warning: {' '.join(CAUTION.format(found.doubted).splitlines())}", file=sys.stderr)
    if arguments.out is None:
        print(text, end="")
        return
    # For its owner alone: it has values of the data, until a person has gone through them.
    try:
        with os.fdopen(new_for_owner(arguments.out), "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(_EXISTS.format(arguments.out)) from None
    except OSError as error:
        raise InvalidInput(f"{arguments.out} cannot be written: {error.strerror}") from None
    print(f"wrote {arguments.out}: review every entry, then set its reviewed = true")


def _check(arguments: argparse.Namespace) -> int:
    from qrelease.data.schema_check import CAUTION, check

    print(CAUTION, file=sys.stderr)
    found = check(
        arguments.data,
        arguments.schema,
        dialect=dialect_of(arguments),
        query=arguments.query,
        columns=arguments.columns,
    )
    print(found.told)
    return 0 if found.holds else 1


def _learn(arguments: argparse.Namespace) -> None:
    check_memory()
    tell_of_compiling()
    from qrelease.apps.cli.ledgers import check_affordable, ledger_of, ledger_path, told_of_rows
    from qrelease.data.schema import load
    from qrelease.data.sources.compression import written
    from qrelease.data.structural_zeros import narrowed
    from qrelease.evaluation.learning_forecast import told_of_learning
    from qrelease.mechanisms.learning import schema as learning
    from qrelease.privacy import Neighbours
    from qrelease.privacy.costs import cost_of
    from qrelease.privacy.unit import Unit
    from qrelease.release.curator import Curator, check_relation

    cost = cost_of(arguments.epsilon, arguments.delta)
    check_weak(cost, arguments.weak)
    if arguments.plan == (arguments.out is not None):
        raise InvalidInput("give either --out, the file to make, or --plan")
    if not arguments.plan and arguments.out.exists():
        raise InvalidInput(f"{arguments.out} exists already; say another --out")
    domain = load(arguments.schema, undecided=True)
    asked = domain if arguments.columns is None else narrowed(domain, arguments.columns)
    learning.check_learning(asked, cost)
    neighbours = Neighbours.parse(arguments.neighbours)
    unit = Unit.of(neighbours, asked).of_records
    with unit.explained():
        learning.check_noise(asked, cost, unit)
    if arguments.plan:
        print(f"{told(cost)} would be charged; reading and learning take at most about twice as long as reading alone")
        print(*told_of_learning(asked, cost, neighbours), sep="\n")
        return
    check_affordable(arguments, cost, resumes=not arguments.again, in_parts=True)
    table = table_of(arguments, undecided=True)
    check_relation(table, neighbours)  # before there is a ledger
    with (
        written(arguments.out) as file,
        ledger_of(arguments, cost, neighbours, table) as ledger,
    ):
        curator = told_of_rows(Curator(table, ledger, entropy_of(arguments)))
        if arguments.again or not curator.has_learned(cost):
            for line in told_of_learning(asked, cost, neighbours):
                print(f"qrelease: {line}", file=sys.stderr)
        with charging(arguments):
            learned = curator.learn(cost, again=arguments.again, changed_rows=True)
        arguments.charged = f"{told(cost)} was charged; the same command gives what was learned, for free"
        file.write(learned.to_toml())
        spent = f"spent in all: {told(ledger.spent)} of {told(ledger.total)}"
    del arguments.charged
    for spend in learned.spends:
        print(f"{spend.what}: {told(spend.cost)}")
    warn_of_unnamed(learned)
    if not learned.charge.fresh:
        print(f"this was learned before, at {learned.charge.time}, and cost nothing now (--again: anew)")
    named = (
        "" if arguments.insecure_seed is not None and not arguments.ledger else f" (ledger {ledger_path(arguments)})"
    )
    print(f"wrote {arguments.out}\n{spent}{named}")
    warn_of_delta(cost)
