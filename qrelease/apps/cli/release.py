"""`qrelease release`: checks all that can be checked, charges the ledger, makes the release and writes its folder."""

from __future__ import annotations

import argparse
import operator
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from qrelease._util.compiling import tell_of_compiling
from qrelease._util.elapsed import elapsed
from qrelease.apps.cli.ledgers import (
    check_affordable,
    known_curator,
    ledger_of,
    ledger_path,
    new_curator,
    place_of,
    told_of_rows,
)
from qrelease.apps.cli.mechanisms import (
    DEFAULT,
    MECHANISMS,
    OPTIONS,
    SUMS,
    known_or_own,
    mechanism_name,
    options_of,
    own_failures,
)
from qrelease.apps.cli.release_both import make_both
from qrelease.apps.cli.shared import (
    OptionParser,
    charging,
    check_memory,
    clips_of,
    cost_meant,
    cost_options,
    counts_of,
    data_options,
    dataset_of,
    default_workload,
    dialect_of,
    entropy_of,
    ledger_options,
    neighbours_option,
    numbers_apart,
    protection_options,
    table_of,
    told,
    warn_of_delta,
    warn_of_unnamed,
    workload_of,
    workload_option,
    wrote,
)
from qrelease.errors import InvalidInput, OutOfMemory, QReleaseError, TooLarge

if TYPE_CHECKING:
    from qrelease.data.domain import Domain
    from qrelease.data.source import Source
    from qrelease.data.table import Table
    from qrelease.mechanisms.base import Mechanism
    from qrelease.privacy import Cost
    from qrelease.privacy.ledger import Ledger
    from qrelease.queries.workload import Workload
    from qrelease.release.curator import Curator, Paid
    from qrelease.release.learned_schema import Learned
    from qrelease.release.release import Release


_RED, _PLAIN = "\033[31m", "\033[0m"  # of a terminal
_RULES = "the impossible rules of the schema, also about parents, are kept by --mechanism records and maxent alone"
_KEEPING = "records", "maxent"

# Bytes, about: of a noisy answer as a number in the manifest and beside the ledger, of a line of answers.csv, of a
# label in synthetic.csv, and of everything else.
_NUMBER, _ANSWER, _LABEL, _SOME = 24, 64, 8, 1 << 22

_FEW_CELLS = 1 << 16
"""Combinations of the columns of a condition up to which their counts are proposed instead of it."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=make, uncharged="nothing was charged")
    data_options(parser.add_argument_group("the data"), counted=True)
    _question_options(parser.add_argument_group("what is asked"))
    _privacy_options(parser.add_argument_group("what it may cost"))
    _mechanism_options(parser.add_argument_group("how it is made"))
    _output_options(parser.add_argument_group("what is written"))


def _question_options(parser: OptionParser) -> None:
    """The queries that are answered, and the numbers."""
    workload_option(parser)
    parser.add_argument(
        "--numbers",
        action="append",
        metavar="Q",
        help="also release sums, means, variances, quantiles or shares by group, each with its interval: mean:COLUMN by"
        " A*B where CONDITION; likewise sum:, variance:, quantile(.5,.9):, ratio:CONDITION, histogram:COLUMN and count;"
        " may be repeated",
    )
    parser.add_argument(
        "--clip",
        action="append",
        metavar="COLUMN=LOW..HIGH",
        help="clip the values of a column to these bounds, which come from public knowledge, for --numbers;"
        " COLUMN=learn learns bounds from the records for a tenth of the cost (default: the schema's bounds)",
    )
    parser.add_argument(
        "--numbers-share",
        type=float,
        metavar="S",
        help="the share of the cost that --numbers may take, between 0 and 1 (default: 0.5)",
    )


def _privacy_options(parser: OptionParser) -> None:
    """What is protected, what the release may cost, and which ledger pays."""
    cost_options(parser, "what this release may cost")
    neighbours_option(parser)
    ledger_options(parser, "release")
    parser.add_argument(
        "--again",
        action="store_true",
        help="charge again, although a release with the same arguments was charged and not finished (default: finish"
        " that one, for free)",
    )
    protection_options(parser)


def _mechanism_options(parser: OptionParser) -> None:
    """How the release is made."""
    parser.add_argument(
        "--mechanism",
        type=mechanism_name,
        metavar="NAME",
        default=DEFAULT,
        help=f"the mechanism: {', '.join([*MECHANISMS, SUMS])}, or one of your own, MODULE:NAME, an object with name,"
        " check and release, or its class, from the current folder (default: auto, which takes the one whose predicted"
        " error is least); laplace and gaussian fit a synthetic table to their noisy answers where the universe is"
        " small enough; sums measures the workload and --numbers together",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say why auto takes the mechanism that it takes, and not others"
    )
    parser.add_argument("--rounds", type=int, help="mwem only: the number of rounds (default: by a public rule)")
    parser.add_argument(
        "--size", type=int, help="smalldb only: the number of records of the small database (default: by a public rule)"
    )
    parser.add_argument(
        "--alpha",
        type=float,
        help="smalldb only, instead of --size: the error, a fraction of the records, within which some small database"
        " shall fit",
    )
    parser.add_argument(
        "--records",
        type=int,
        metavar="N",
        help="auto, maxent and mwem only: about how many records there are, if that is public (default: a little of the"
        " budget is spent on a noisy count)",
    )
    parser.add_argument(
        "--weighted-records",
        type=int,
        metavar="N",
        help="records only: the number of weighted records of the model; more are slower and more accurate (default: by"
        " the noisy number of records and the cost)",
    )
    parser.add_argument(
        "--order",
        type=int,
        metavar="K",
        help="records only: measure marginals of at most K columns (default: 3)",
    )


def _output_options(parser: OptionParser) -> None:
    """The files that are written, and where."""
    parser.add_argument(
        "--both",
        action="store_true",
        help="release both tables of --parent: parents.csv, with how many children each has, and children.csv, each"
        " child of a parent there",
    )
    parser.add_argument("--out", type=Path, help="the folder to make (default: DATASET-release)")
    parser.add_argument(
        "--rows", type=int, help="the number of synthetic records (default: about as many as the table has)"
    )
    parser.add_argument(
        "--weighted",
        action="store_true",
        help="write the model's cells with a column `weight`, instead of whole synthetic records: more accurate",
    )
    parser.add_argument(
        "--answers",
        action=argparse.BooleanOptionalAction,
        help="write answers.csv, or do not (default: write it unless it would have more than 1,000,000 lines)",
    )
    parser.add_argument(
        "--out-format",
        choices=["csv", "parquet"],
        default="csv",
        help="the format of the synthetic table and the answers (default: %(default)s)",
    )
    parser.add_argument("--sign", type=Path, metavar="KEY", help="sign the release with this key (see `qrelease key`)")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of `options` in some words.

    `InvalidInput` where the command line would end, or would refuse them whatever the data are.
    """
    parser = argparse.ArgumentParser(exit_on_error=False)
    options(parser)
    try:
        found = parser.parse_args(words)
    except (argparse.ArgumentError, SystemExit) as error:
        raise InvalidInput(str(error) if isinstance(error, argparse.ArgumentError) else "see above") from None
    cost_meant(found)
    numbers_apart(found)
    _mechanism(found)
    return found


def private_data_of(arguments: argparse.Namespace) -> Source:
    """The table, or the counts, that `options` name."""
    return table_of(arguments, undecided=True) if arguments.counts is None else counts_of(arguments)


def make(arguments: argparse.Namespace, read: Callable[[argparse.Namespace], Source] = private_data_of) -> None:
    """One release, from the arguments of `options`.

    read  the records; for who tells of what is wrong with them in other words
    """
    check_memory()
    tell_of_compiling()
    numbers_apart(arguments)
    _take_counts(arguments)
    from qrelease.data.schema import doubts_of, load
    from qrelease.data.table import Table
    from qrelease.privacy import Neighbours
    from qrelease.release import checksums, writer
    from qrelease.release.curator import Curator
    from qrelease.release.few_records import few_records
    from qrelease.release.forecasts import table_forecast
    from qrelease.release.numbers import uncertain_number, unnamed_records, wide_bins
    from qrelease.release.synthetic import check_rows
    from qrelease.release.unmeasured import unmeasured_sets

    key = None if arguments.sign is None else checksums.private_key(arguments.sign)
    cost = cost_meant(arguments)
    mechanism = _mechanism(arguments)
    if arguments.rows is not None:
        check_rows(arguments.rows)
    if arguments.both:
        with own_failures(arguments, arguments.mechanism):
            make_both(arguments, mechanism)
        return
    declared = load(arguments.schema, undecided=True)
    for doubt in doubts_of(arguments.schema):
        print(f"qrelease: warning: {doubt}", file=sys.stderr)
    out = arguments.out or Path(f"{dataset_of(arguments)}-release")
    with own_failures(arguments, arguments.mechanism), ExitStack() as closing:
        with writer.new_folder(out) as folder:
            disks = Disks.of(arguments, folder)
            _check_unread(arguments, mechanism, declared, cost)
            check_affordable(arguments, cost, resumes=not arguments.again, in_parts=bool(declared.undecided))
            table = read(arguments)
            neighbours = Neighbours.parse(arguments.neighbours)
            whole, ledger, learned = cost, None, None
            if isinstance(table, Table) and table.domain.undecided:
                cost = _check_open(arguments, mechanism, table, whole, disks)
                ledger = closing.enter_context(ledger_of(arguments, whole, neighbours, table))
                learned = _learned(arguments, mechanism, table, whole, ledger)
                table = table.viewed(learned.domain)
            workload = workload_of(arguments, table.domain)
            if ledger is None:
                curator = known_curator(arguments, table, cost, neighbours, closing)
            else:  # it was told of the rows before the schema was learned
                curator = Curator(table, ledger, entropy_of(arguments), place=place_of(arguments))
            public = public_records(arguments, table)
            with elapsed("checking what is asked"):
                _check(arguments, mechanism, table, workload, cost, public)
            _check_disk(arguments, workload, disks, public)
            charging = None if curator is None or (learned is not None and learned.left) else curator.ledger
            _foretell(arguments, mechanism, workload, cost, charging, public)
            if curator is None:
                curator = new_curator(arguments, table, cost, neighbours, closing)
            ledger = curator.ledger
            paid = _paid(arguments, curator, mechanism, workload, cost, learned)
            with elapsed("releasing"):
                release = paid.release()
            if not arguments.weighted and (line := table_forecast(release, arguments.rows)):
                print(f"qrelease: {line}", file=sys.stderr)
            with elapsed("writing the files"):
                left_out = _saved(release, folder, out, arguments)
                if key is not None:
                    checksums.sign(folder, key)
            hashes = checksums.read_hashes(folder)
            paid.complete(release, out, hashes)
        paid.finish(release, hashes)  # there is nothing more to go on with
        del arguments.charged
        _tell(arguments, release, out, left_out)
        if arguments.insecure_seed is None or arguments.ledger:
            print(f"spent in all: {told(ledger.spent)} of {told(ledger.total)} (ledger {ledger_path(arguments)})")
        few = " ".join(filter(None, [few_records(release), uncertain_number(release)]))
        for note in filter(None, [unmeasured_sets(release), few, *unnamed_records(release), *wide_bins(release)]):
            print(note)
    warn_of_delta(whole)


def _take_counts(arguments: argparse.Namespace) -> None:
    """Checks that there is either a table or counts, and takes counts for the data from here on."""
    if (arguments.data is None) == (arguments.counts is None):
        raise InvalidInput("give either a table or --counts")
    if arguments.counts is None:
        return
    if arguments.parent is not None or arguments.query is not None or dialect_of(arguments) is not None:
        raise InvalidInput(
            "--counts cannot be used with --parent, --query or options about CSV files: they were read already"
        )
    if arguments.dataset is None and arguments.ledger is None:
        raise InvalidInput(
            "--counts needs --dataset NAME, or --ledger: a ledger named after the counts would be a second budget"
            " for the records that were counted"
        )
    arguments.data = arguments.counts


def _tell(arguments: argparse.Namespace, release: Release, out: Path, left_out: Mapping[str, str]) -> None:
    """Print what was released, why by this mechanism, where it is, and how well its records fit."""
    from qrelease.inference.synopsis import Fitted
    from qrelease.release.promise import chosen
    from qrelease.release.unmeasured import what_records_lack

    print(repr(release))
    for line in chosen(release, briefly=not arguments.verbose):
        print(line)
    print(wrote(out))
    for name, why in left_out.items():
        print(f"no {name}: {why}")
    otherwise = [a.name for a in release.domain if not a.writing.is_plain]
    if otherwise and arguments.out_format == "csv":
        print(f"{', '.join(otherwise)}: written here as 1234.5 and 2024-12-31, not as the schema says of the data")
    if release.has_table and not any(name.startswith("synthetic") for name in left_out):
        for lacking in what_records_lack(release):
            print(lacking)
    if isinstance(release.synopsis, Fitted):
        _tell_misfit(release.synopsis.misfit)


def _tell_misfit(misfit: float) -> None:
    """How far synthetic records are from what was measured: a warning, in red on a terminal, where they miss it."""
    from qrelease.inference.synopsis import MISSED

    print(f"the synthetic records differ from what was measured by {misfit:.3g} times its noise (root mean square)")
    if misfit > MISSED:
        warning = (
            "warning: that is more than noise; use the answers, which follow the measurements, and not the records"
        )
        print(f"{_RED}{warning}{_PLAIN}" if sys.stderr.isatty() else warning, file=sys.stderr)


def _mechanism(arguments: argparse.Namespace) -> Mechanism:
    """The one that was asked for, with its options."""
    if arguments.numbers is None and arguments.mechanism == SUMS:
        raise InvalidInput("--mechanism sums needs questions to measure: give them by --numbers")
    counting = _counting(arguments)
    if arguments.numbers is None:
        assert counting is not None
        if arguments.clip is not None or arguments.numbers_share is not None:
            raise InvalidInput("--clip and --numbers-share need --numbers")
        return counting
    from qrelease.mechanisms.number_sums import NumberSums

    clip, learn = clips_of(arguments.clip or [])
    share = {} if arguments.numbers_share is None else {"share": arguments.numbers_share}
    return NumberSums(tuple(arguments.numbers), clip, learn, counting, records=arguments.records, **share)


def _counting(arguments: argparse.Namespace) -> Mechanism | None:
    """What answers the workload; None where that is measured with the numbers."""
    options = {option: getattr(arguments, option) for option in OPTIONS}
    if arguments.mechanism == SUMS:
        for name in (o for o, value in options.items() if value is not None and o != "records"):
            raise InvalidInput(f"--{name.replace('_', '-')} is an option of {' and '.join(OPTIONS[name])}, not of sums")
        return None
    if arguments.mechanism == "auto":
        from qrelease.mechanisms.auto import Auto

        options_of("auto", **options)  # it hands none to the mechanism that it takes
        return Auto(arguments.records, table=_tabled(arguments))
    return known_or_own(arguments.mechanism, **options)


def _tabled(arguments: argparse.Namespace) -> bool:
    """Whether synthetic records are wanted in any case."""
    return bool(arguments.weighted) or arguments.rows is not None


def _check_open(arguments: argparse.Namespace, mechanism: Mechanism, table: Table, cost: Cost, disks: Disks) -> Cost:
    """Raise what the release would raise whatever bins and categories are learned; returns what is left for it.

    What only some of what may be learned would make too large is told of: then what was learned stays paid for, and
    another command can release from it.
    """
    from qrelease._util import memory
    from qrelease.mechanisms.learning import schema as learning
    from qrelease.privacy import Neighbours
    from qrelease.privacy.unit import Unit
    from qrelease.release.curator import releases_in_rho

    unit = Unit.of(Neighbours.parse(arguments.neighbours), table.domain).of_records
    first: learning.LearningCost
    first, left = learning.divided(table.domain, cost)
    if releases_in_rho(mechanism):
        with unit.explained():
            account = learning.one_account(table.domain, cost, unit)
        first, left = (first, left) if account is None else (account, account.release)
    with unit.explained():
        learning.check_noise(table.domain, first, unit)
    least, most = (learning.learnable_domain(table.domain, most=most) for most in (False, True))
    _check_learnable(arguments, mechanism, table, least, left, disks)
    try:
        with memory.unused():  # by the machine's memory: what the records take of it is private
            _check_learnable(arguments, mechanism, table, most, left, disks)
    except (InvalidInput, TooLarge, OutOfMemory) as error:
        print(
            f"qrelease: with as many categories as the schema allows, this would end after they are learned: {error};"
            " `qrelease schema learn` learns them by itself",
            file=sys.stderr,
        )
    return left


def _check_learnable(
    arguments: argparse.Namespace, mechanism: Mechanism, table: Table, made_up: Domain, cost: Cost, disks: Disks
) -> None:
    """What a release would raise over a domain that may be learned."""
    from qrelease.data.predicates import before_learning
    from qrelease.queries.workload import Workload

    learned = table.domain.undecided
    texts = []
    for text in arguments.workload or [default_workload(made_up)]:
        kind, _, condition = text.partition(":")
        if kind.strip() == "where" and condition.strip():
            before_learning(condition.strip(), made_up, learned)
        else:
            texts.append(text)
    if arguments.numbers is not None:
        from qrelease.mechanisms.number_sums import NumberSums
        from qrelease.queries.numeric import NumericQuestion

        assert isinstance(mechanism, NumberSums)
        asked = [str(NumericQuestion.before_learning(made_up, text, learned)) for text in mechanism.questions]
        mechanism = replace(mechanism, questions=asked)
    workload = reduce(operator.add, (Workload.parse(made_up, text) for text in texts or ["marginals:1"]))
    public = public_records(arguments, table)
    _check(arguments, mechanism, table, workload, cost, public)
    _check_disk(arguments, workload, disks, public)


def _learned(arguments: argparse.Namespace, mechanism: Mechanism, table: Table, cost: Cost, ledger: Ledger) -> Learned:
    """The completed schema, which is charged here: with the release if that can be, else the first part of the cost."""
    from qrelease.mechanisms.learning import schema as learning
    from qrelease.privacy.costs import is_pure
    from qrelease.release.curator import Curator, releases_in_rho

    curator = told_of_rows(Curator(table, ledger, entropy_of(arguments), place=place_of(arguments)))
    together = releases_in_rho(mechanism) and not is_pure(cost)
    if together:
        first, known = cost, curator.has_learned_for(mechanism, cost)
    else:
        first, _ = learning.divided(table.domain, cost)
        known = curator.has_learned(first)
    if not known or arguments.again:
        ledger.check(cost)
    with charging(arguments):
        if together:
            learned = curator.learn_for(mechanism, cost, again=arguments.again, changed_rows=True)
            what = "the schema and the release, and the same command goes on from there, also with another --workload"
        else:
            learned = curator.learn(first, again=arguments.again, changed_rows=True)
            what = "the schema, and the same command takes what was learned"
    arguments.charged = f"{told(first)} was charged for {what}"
    print(f"qrelease: learned {', '.join(table.domain.undecided)} for {_of_schema(learned)}", file=sys.stderr)
    warn_of_unnamed(learned)
    return learned


def _of_schema(learned: Learned) -> str:
    """What the schema alone cost: in one account with the release, a part of it."""
    if learned.left is None:
        return told(learned.charge.cost)
    return f"a part of the {told(learned.charge.cost)} that it and the release cost together"


def public_records(arguments: argparse.Namespace, table: Source) -> int | None:
    """How many records there are, where that is public: told, or under replace-one the size of the table.

    Nothing that is said or refused before the release may come of their number where it is private.
    """
    if arguments.neighbours == "replace-one" and table.domain.at_most is None:
        return len(table)
    return int(arguments.records) if arguments.records is not None else None


def _rows_written(arguments: argparse.Namespace, public: int | None) -> int | None:
    """How many synthetic records there will be, where that follows from what is public."""
    from qrelease.release.synthetic import MAX_ROWS

    if arguments.rows is not None:
        return int(arguments.rows)
    return None if public is None else min(max(public, 1), MAX_ROWS)


def _check_unread(arguments: argparse.Namespace, mechanism: Mechanism, declared: Domain, cost: Cost) -> None:
    """What the schema alone shows to be wrong, before the records are read, which may take long.

    Nothing of a schema that leaves something to be learned, as `_check_open` looks at what it may become; nor of
    counts, which are read at once.

    declared  the schema, of which `--columns` may take a part
    """
    from qrelease.data.structural_zeros import narrowed

    if declared.undecided or arguments.counts is not None:
        return
    domain = declared if arguments.columns is None else narrowed(declared, arguments.columns)
    with elapsed("checking what is asked"):
        _check_asked(arguments, mechanism, workload_of(arguments, domain), cost)


def _check_asked(arguments: argparse.Namespace, mechanism: Mechanism, workload: Workload, cost: Cost) -> None:
    """What the schema, the workload and the cost show to be wrong, whatever the records are."""
    from qrelease.mechanisms.base import check_parts, check_table
    from qrelease.privacy import Neighbours
    from qrelease.privacy.unit import Unit
    from qrelease.release import writer

    unit = Unit.of(Neighbours.parse(arguments.neighbours), workload.domain)
    writer.check_format(arguments.out_format)
    if arguments.weighted:
        writer.check_weighted(workload.domain)
    check_parts(mechanism, workload.domain)
    with unit.explained():
        mechanism.check(workload, unit.of_a_record(cost), unit.relation)
    if _tabled(arguments):
        check_table(mechanism, workload)


def _check(
    arguments: argparse.Namespace,
    mechanism: Mechanism,
    table: Source,
    workload: Workload,
    cost: Cost,
    public: int | None,
) -> None:
    """What can be known to be wrong before there is a ledger.

    table     its domain is that of the workload, or some of its columns are still to be learned
    """
    from qrelease.mechanisms.base import sets_counted, why_no_table
    from qrelease.privacy import Neighbours
    from qrelease.release.curator import check_relation
    from qrelease.release.synthetic import check_fit

    check_relation(table, Neighbours.parse(arguments.neighbours))
    _check_asked(arguments, mechanism, workload, cost)
    if not table.domain.undecided:
        table.check_counts(sets_counted(mechanism, workload))
    # Records that do not fit are refused before the charge, if their number is public. If it is private, the same
    # command goes on after the charge for free, with fewer --rows.
    rows = _rows_written(arguments, public)
    if rows is not None and not arguments.weighted and why_no_table(mechanism, workload) is None:
        check_fit(workload.domain, rows)


def _foretell(
    arguments: argparse.Namespace,
    mechanism: Mechanism,
    workload: Workload,
    cost: Cost,
    ledger: Ledger | None,
    public: int | None,
) -> None:
    """Tell what the release will be like, and how long it will take, while it costs nothing to call it off.

    Nothing where the ledger does not cover the cost: then either a release that was cut off is resumed, or a
    refusal follows, which is one line.
    """
    from qrelease.privacy import Neighbours
    from qrelease.privacy.unit import Unit
    from qrelease.release.forecasts import Files, foretold

    try:
        if ledger is not None:
            ledger.check(cost)
    except QReleaseError:
        return
    _tell_unasked(arguments, workload)
    unit = Unit.of(Neighbours.parse(arguments.neighbours), workload.domain)
    files = Files(0 if arguments.weighted else arguments.rows, arguments.answers)
    told = foretold(mechanism, workload, cost, unit, public, files, verbose=arguments.verbose)
    why = "" if arguments.verbose else " (-v: why)"
    for i, line in enumerate(told.choice):
        print(f"qrelease: {line}{why if i == 0 else ''}", file=sys.stderr)
    _tell_rules(workload, told.among)
    _tell_conditions(arguments, workload, told.among)
    for line in told.times:
        print(f"qrelease: {line}", file=sys.stderr)


def _tell_rules(workload: Workload, among: Sequence[Mechanism]) -> None:
    """Warn of rules of the schema that a mechanism does not keep which will be taken; of `among`, none if not known."""
    if workload.domain.impossible and not (among and all(each.name in _KEEPING for each in among)):
        print(f"warning: {_RULES}{', if one of them is chosen' * (len(among) != 1)}", file=sys.stderr)


def _tell_conditions(arguments: argparse.Namespace, workload: Workload, among: Sequence[Mechanism]) -> None:
    """Where conditions alone are asked, and no table comes of them: how their columns are asked of.

    among  the mechanisms of which one will be taken; nothing is told where none is known
    """
    from qrelease.mechanisms.base import why_no_table

    texts, domain = arguments.workload or [], workload.domain
    if not texts or any(text.partition(":")[0].strip() != "where" for text in texts):
        return
    sets = list(dict.fromkeys(axes for axes in workload.sets if axes))
    if not among or not sets or any(why_no_table(each, workload) is None for each in among):
        return
    if max(map(domain.cells, sets)) <= _FEW_CELLS:
        asked = ",".join("*".join(domain.names[axis] for axis in axes) for axes in sets)
        print(
            "qrelease: the release will answer these conditions, and hardly any others: --workload"
            f" {shlex.quote(f'marginals:{asked}')} asks for the counts of all combinations of their columns",
            file=sys.stderr,
        )


def _tell_unasked(arguments: argparse.Namespace, workload: Workload) -> None:
    """Name the columns that no question is about: a synthetic table would have them, and would know nothing of them."""
    asked = {workload.domain.names[axis] for axes in workload.sets for axis in axes}
    numbers = " ".join(arguments.numbers or ())
    names = [name for name in workload.domain.names if name not in asked]
    unasked, measured = [n for n in names if n not in numbers], [n for n in names if n in numbers]
    if arguments.mechanism == "matrix":
        return
    if unasked:
        print(
            f"qrelease: nothing is asked of {', '.join(unasked)}: synthetic values there would follow the schema alone;"
            " --columns leaves them out, which is faster, as are fewer synthetic records, by --rows N",
            file=sys.stderr,
        )
    if measured:
        print(
            f"qrelease: warning: only --numbers ask of {', '.join(measured)}: synthetic values there may follow the"
            f" schema alone, whatever the numbers are; --workload marginals:{measured[0]}, beside what else is asked,"
            " has them follow counts",
            file=sys.stderr,
        )


@dataclass(frozen=True)
class Disks:
    """Bytes that were free before the records were read, of which much may be in temporary files after that."""

    folder: int  # on the disk of the release's folder
    ledger: int | None  # on that of the ledger; None where it has no file, or its folder is not there
    places: tuple[Path, Path | None]

    @classmethod
    def of(cls, arguments: argparse.Namespace, folder: Path) -> Disks:
        """Those that a release writes to."""
        place = None
        if arguments.insecure_seed is None or arguments.ledger is not None:
            ledger = ledger_path(arguments)
            place = ledger.resolve().parent if isinstance(ledger, Path) else None
        left = shutil.disk_usage(place).free if place is not None and place.is_dir() else None
        return cls(shutil.disk_usage(folder).free, left, (folder.resolve().parent, place))


def _check_disk(arguments: argparse.Namespace, workload: Workload, disks: Disks, public: int | None) -> None:
    """Raise `InvalidInput` unless the disks have room for the release, and for what is drawn beside the ledger.

    What synthetic records take is counted where their number is public.
    """
    from qrelease._util import memory
    from qrelease.release.answer_table import MAX_ANSWERS

    written = len(workload) <= MAX_ANSWERS if arguments.answers is None else arguments.answers
    rows = _rows_written(arguments, public) or 0
    drawn = _NUMBER * len(workload) + _SOME
    files = drawn + _LABEL * len(workload.domain) * rows + (_ANSWER * len(workload) if written else 0)
    for place, free, size in zip(disks.places, (disks.folder, disks.ledger), (files, drawn), strict=True):
        if free is not None and free < size:
            raise InvalidInput(
                f"the disk of {place} has {memory.size(free)} free, and this release may take {memory.size(size)}"
            )


def _paid(
    arguments: argparse.Namespace,
    curator: Curator,
    mechanism: Mechanism,
    workload: Workload,
    cost: Cost,
    learned: Learned | None = None,
) -> Paid:
    """The charge; or that of a run with the same arguments that was cut off. From here on errors tell of it.

    learned   the schema, where it was learned first: the release may have been charged with it, and says what it cost
    """
    with charging(arguments):
        paid = curator.pay(mechanism, workload, cost, again=arguments.again, changed_rows=True, learned=learned)
    if not paid.charge.fresh:
        print(
            f"qrelease: goes on for free with the release that was charged at {paid.charge.time} and not finished"
            " (--again: a new one)",
            file=sys.stderr,
        )
    keeps = "and the same command goes on from what was drawn, for free" if paid.resumes else "and stays spent"
    arguments.charged = f"{told(paid.charge.cost)} was charged, {keeps}"
    return paid


def _saved(release: Release, folder: Path, out: Path, arguments: argparse.Namespace) -> dict[str, str]:
    from qrelease.release import writer
    from qrelease.release.manifest import why_unreadable

    why = why_unreadable(release.synopsis)
    if why:  # it is paid for, and its answers can be used
        print(
            f"qrelease: warning: no command can read {out} again, as `answer` and `verify` would: {why}",
            file=sys.stderr,
        )
    try:
        return writer.save(
            release,
            folder,
            arguments.rows,
            weighted=arguments.weighted,
            answers=arguments.answers,
            format=arguments.out_format,
        )
    except OutOfMemory as error:
        raise OutOfMemory(f"{out} is not written: {error}") from None
    except OSError as error:
        raise InvalidInput(f"{out} cannot be written: {error.strerror}") from None
