"""What several commands share: common options, the objects made from them, and messages about costs and files."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qrelease.errors import InvalidInput, LedgerError, WeakCostWarning
from qrelease.privacy.costs import WEAK_DELTA, WEAK_EPSILON, cost_of
from qrelease.privacy.ledger_url import LedgerUrl

if TYPE_CHECKING:
    from qrelease.data.counts import Counts
    from qrelease.data.domain import Domain
    from qrelease.data.sources.dialect import Dialect
    from qrelease.data.table import Table
    from qrelease.noise.entropy import Entropy
    from qrelease.privacy import Cost
    from qrelease.privacy.ledger import Ledger
    from qrelease.queries.workload import Workload
    from qrelease.release.learned_schema import Learned

DATA = (
    "the table: a file whose suffix says its format, .csv (also .csv.gz, .csv.xz, .csv.bz2), .parquet, .arrow, .jsonl,"
    " .duckdb or .sqlite; in quotes, a pattern such as 'part-*.parquet' for many files; a URL, s3://, gs:// or"
    " https://; or postgresql://user@host/database"
)
LEDGER = "the ledger: a file, or postgresql://user@host/database?schema=people for one on a server"
OptionParser = argparse.ArgumentParser | argparse._ArgumentGroup
"""What options are added to: a parser, or a group of its options that has a heading of its own."""

NEIGHBOURS = ("add-remove", "replace-one")


def action(
    actions: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str
) -> argparse.ArgumentParser:
    """The parser of one action of a command that has several, as `show` of `ledger`."""
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def data_options(parser: OptionParser, *, counted: bool = False, released: bool = False) -> None:
    """A table and its schema.

    counted   whether exact counts of it do
    released  whether a release of it may say the schema, see `table_of`
    """
    parser.add_argument("data", type=data_place, help=DATA, nargs="?" if counted else None)
    if counted:
        parser.add_argument(
            "--counts",
            type=Path,
            metavar="DIR",
            help="read the exact counts that `qrelease count` wrote into this folder, instead of a table",
        )
        parser.add_argument(
            "--equal-shards",
            action="store_true",
            help="take shards with equal records: none of their files is a copy of another",
        )
    dataset_option(parser)
    query_option(parser)
    parent_option(parser)
    dialect_options(parser)
    schema_options(parser, required=not released, default=" (default: that of the release)" if released else "")


def query_option(parser: OptionParser) -> None:
    """Which records of a database."""
    parser.add_argument(
        "--query",
        metavar="SQL",
        help="the select statement that gives the records, by DuckDB or, of a SQLite file, by SQLite; a file that is no"
        " database is a table, called as the file is without its suffixes, with _ for what is no letter, digit or _; of"
        " a pattern each file is one, and the table `files` is all of them; where the data are in SQLite or PostgreSQL,"
        " the name of their table",
    )


def dialect_options(parser: OptionParser) -> None:
    """How CSV files are written."""
    parser.add_argument("--separator", metavar="MARK", help="between the fields of a CSV file: ; or tab (default: ,)")
    parser.add_argument("--quote", metavar="MARK", help="around a field of a CSV file, or '' for nothing (default: \")")
    parser.add_argument("--decimal", metavar="MARK", help="before the decimals of a CSV file's numbers (default: .)")
    parser.add_argument("--encoding", metavar="NAME", help="of a CSV file: latin-1, utf-16, … (default: utf-8)")
    parser.add_argument(
        "--escape",
        metavar="MARK",
        help="'\\' where a CSV file has it before quotes in quotes (default: doubled ones)",
    )
    parser.add_argument(
        "--header", type=names, metavar="A,B,…", help="the columns of a CSV file whose first line is a record already"
    )


def dialect_of(arguments: argparse.Namespace) -> Dialect | None:
    """What `dialect_options` say, if anything."""
    from qrelease.data.sources.dialect import Dialect

    marks = ("separator", "quote", "decimal", "encoding", "escape", "header")
    said = {name: getattr(arguments, name, None) for name in marks}
    said["separator"] = {"tab": "\t", "\\t": "\t"}.get(said["separator"] or "", said["separator"])
    said["header"] = None if said["header"] is None else tuple(said["header"])
    found = {name: mark for name, mark in said.items() if mark is not None}
    return Dialect(**found) if found else None


def dataset_option(parser: OptionParser) -> None:
    """The name of the people whose budget is spent."""
    parser.add_argument(
        "--dataset",
        metavar="NAME",
        help="the name of the dataset, whose ledger is charged (default: the file's name without its suffixes)",
    )


def ledger_options(parser: OptionParser, what: str) -> None:
    """The ledger that pays for `what`, such as an estimate or a release, and the total of a new one."""
    parser.add_argument(
        "--ledger",
        type=ledger_place,
        help="the ledger that is charged (default: DATASET.ledger beside the data); needed where that folder cannot be"
        " written",
    )
    parser.add_argument(
        "--total-epsilon",
        type=float,
        help=f"the epsilon of all charges together, when the ledger is made (default: the cost of this {what})",
    )
    parser.add_argument(
        "--total-delta", type=float, help=f"the delta of all charges together (default: that of this {what})"
    )


def parent_option(parser: OptionParser) -> None:
    """Add the option that names a parent table."""
    parser.add_argument(
        "--parent",
        type=data_place,
        metavar="FILE",
        help="a second table with one row for each person (see [person] in the schema): it has those of the schema's"
        " columns that the data lack",
    )


def neighbours_option(parser: OptionParser) -> None:
    """Add the option that says which tables are neighbours."""
    parser.add_argument(
        "--neighbours",
        choices=NEIGHBOURS,
        default=NEIGHBOURS[0],
        help="what is protected: whether a record is there at all, or what it says, where the number of records is"
        " public (default: %(default)s)",
    )


def workload_option(parser: OptionParser) -> None:
    """Add the option that names the queries."""
    parser.add_argument(
        "--workload",
        action="append",
        metavar="W",
        help="the queries to answer well: marginals:3 (the default: all tables of counts by three columns),"
        " marginals:a*b,c*d (these two), ranges:a, prefixes:a, boxes:a*b, or where:CONDITION; may be repeated",
    )


def schema_options(parser: OptionParser, *, required: bool = True, default: str = "") -> None:
    """Add the options that name the schema and its columns."""
    parser.add_argument(
        "--schema",
        type=Path,
        required=required,
        help=f"the schema, a TOML file; or JSON {{column: size}}, where the data are codes 0 to size - 1{default}",
    )
    parser.add_argument("--columns", type=names, metavar="A,B,…", help="use only these columns (default: all)")


def seed_option(parser: OptionParser) -> None:
    """The option that makes the noise repeatable, for tests."""
    parser.add_argument(
        "--insecure-seed",
        type=int,
        metavar="N",
        help="draw repeatable noise, for tests: the result protects nobody",
    )


def names(text: str) -> list[str]:
    """The type of an option such as `a,b,c`."""
    return [name.strip() for name in text.split(",")]


def check_memory() -> None:
    """Raise `TooLarge` where not even the libraries fit: before they are loaded."""
    from qrelease._util import memory

    memory.check(memory.LIBRARY_BYTES, "this command", "raise the limit of this shell or container")


def check_processes() -> None:
    """Raise `InvalidInput` where the system has no POSIX processes and locks, which the servers are made of."""
    if find_spec("fcntl") is None or not hasattr(os, "fork"):
        raise InvalidInput("this command runs on Linux and macOS; on Windows take the Windows Subsystem for Linux")


def counts_of(arguments: argparse.Namespace) -> Counts:
    """The counts of `data_options`.

    `InvalidInput` where the schema is another than theirs, or has persons as the unit, whom counts do not tell apart.
    """
    from qrelease.data.counts import Counts, check_countable
    from qrelease.data.schema import load
    from qrelease.data.structural_zeros import narrowed

    counts, domain = Counts.load(arguments.counts), load(arguments.schema)
    names = arguments.columns or [name for name in counts.domain.names if name in domain.names]
    asked = narrowed(domain, names)
    check_countable(asked)
    if asked.attributes != counts.domain.attributes:
        raise InvalidInput(
            f"{arguments.counts} was counted with another schema, or other columns, than {arguments.schema}"
        )
    if counts.equal_shards and not arguments.equal_shards:  # for the data holder, who alone knows which it is
        raise InvalidInput(
            f"{arguments.counts} has shards with equal records, from different files: if one is a copy of another, each"
            " of its records is counted twice, and less protected than is said; if none is, add --equal-shards"
        )
    return counts


def table_of(arguments: argparse.Namespace, *, undecided: bool = False, released: Domain | None = None) -> Table:
    """The table of `data_options`; `InvalidInput` for a schema that leaves something to be learned, unless it may.

    released  the domain of a release of it: the schema where none is named
    """
    from qrelease.data.table import Table

    schema = released if arguments.schema is None else arguments.schema
    if schema is None:
        raise InvalidInput("say with --schema what the columns are")
    parent, query = (getattr(arguments, option, None) for option in ("parent", "query"))
    table = Table.read(arguments.data, schema, arguments.columns, parent, query, dialect_of(arguments))
    if not undecided:
        table.domain.check_decided()
    return table


def default_workload(domain: Domain) -> str:
    """The queries where none are named."""
    return f"marginals:{min(3, len(domain))}"


def numbers_apart(arguments: argparse.Namespace) -> None:
    """Take questions about numbers, such as `mean:age by sex`, out of the workload: they are asked as `--numbers`."""
    from qrelease.queries.numeric import NumericQuestion

    texts = arguments.workload or []
    found = [text for text in texts if NumericQuestion.names_kind(text)]
    if found:
        arguments.numbers = [*(arguments.numbers or []), *found]
        arguments.workload = [text for text in texts if text not in found] or None


def workload_of(arguments: argparse.Namespace, domain: Domain) -> Workload:
    """The queries of `query_options`."""
    from qrelease.queries.workload import Workload

    parts = [Workload.parse(domain, text) for text in arguments.workload or [default_workload(domain)]]
    whole = parts[0]
    for part in parts[1:]:
        whole += part
    return whole


def cost_options(parser: OptionParser, what: str) -> None:
    """An epsilon and perhaps a delta, or a rho."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--epsilon", type=float, help=what)
    either.add_argument("--rho", type=float, help="the cost as a rho of zCDP, instead of an epsilon and a delta")
    delta_option(parser)


def delta_option(parser: OptionParser) -> None:
    """The probability with which the promise may fail."""
    parser.add_argument(
        "--delta",
        type=float,
        help="the probability with which the promise may fail: far below 1 / the number of people (default: 0, pure"
        " epsilon)",
    )


def cost_given(arguments: argparse.Namespace) -> Cost:
    """What `cost_options` was given."""
    if arguments.rho is None:
        return cost_of(arguments.epsilon, arguments.delta)
    from qrelease.privacy import ZCDP

    if arguments.delta is not None:
        raise InvalidInput("--rho cannot be used with --delta: a rho holds at every delta")
    return ZCDP(arguments.rho)


def cost_meant(arguments: argparse.Namespace) -> Cost:
    """The cost that was given; `InvalidInput` for one that promises next to nothing, unless `--weak` says so."""
    cost = cost_given(arguments)
    check_weak(cost, arguments.weak)
    return cost


def told(cost: Cost | None) -> str:
    """A cost as people read it, to six digits: what is exact is in the files, and in refusals."""
    return "nothing" if cost is None else f"{cost:.6g}"


def entropy_of(arguments: argparse.Namespace) -> Entropy:
    """The stream of `seed_option`."""
    from qrelease.noise.entropy import Entropy

    return Entropy() if arguments.insecure_seed is None else Entropy.insecure(arguments.insecure_seed)


@contextmanager
def charging(arguments: argparse.Namespace) -> Iterator[None]:
    """For what charges a ledger: where it ends early, by a signal or for want of room, the error says how to look."""
    before = getattr(arguments, "charged", None)
    try:
        yield
    except (KeyboardInterrupt, MemoryError, OSError):
        if getattr(arguments, "charged", None) == before:
            told = "`qrelease ledger show` tells whether a charge was made"
            arguments.charged = told if before is None else f"{before}; {told}"
        raise


def dataset_of(arguments: argparse.Namespace) -> str:
    """Whose budget is spent: the name given, or the file's without its suffixes, compressed or not.

    So `people.csv`, `people.csv.gz` and `people.parquet` in one folder are one dataset with one ledger.
    """
    if arguments.dataset is not None:
        return str(arguments.dataset)
    from qrelease.data.sources.files import dataset_name

    return dataset_name(arguments.data)


def data_place(text: str) -> Path | str:
    """The type of an option that names a table: a file, or the address of a server."""
    from qrelease.data.sources.files import is_remote, is_server, local_path

    try:
        return text if is_server(text) or is_remote(text) else Path(local_path(text))
    except InvalidInput as error:  # argparse would repeat the text, which may have a password
        raise argparse.ArgumentTypeError(str(error)) from None


def ledger_place(text: str) -> Path | LedgerUrl:
    """The type of an option that names a ledger: a file, or the address of one on a server."""
    try:
        return LedgerUrl.of(text) or Path(text)
    except InvalidInput as error:  # argparse would repeat the text, which may have a password
        raise argparse.ArgumentTypeError(str(error)) from None


def opened(place: Path | LedgerUrl) -> Ledger:
    """A ledger that is there already."""
    from qrelease.privacy.ledger import Ledger

    if not Ledger.exists(place):
        raise LedgerError(f"there is no ledger {place}")
    if isinstance(place, Path) and place.is_file() and _published(place):
        raise LedgerError(
            f"{place} is what of a ledger was published, a text to be read as it is; `qrelease verify FOLDER --ledger"
            f" {place}` compares a release with it"
        )
    return Ledger.open(place)


def _published(path: Path) -> bool:
    """Whether a file is JSON, as `qrelease ledger show --json` prints it, and no ledger."""
    try:
        with path.open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False


def weak_option(parser: OptionParser) -> None:
    """Whether a cost that protects next to nobody is meant."""
    parser.add_argument(
        "--weak",
        action="store_true",
        help=f"allow an epsilon above {WEAK_EPSILON:g}, which protects hardly anyone",
    )


def protection_options(parser: OptionParser) -> None:
    """Whether next to no protection is meant: `weak_option` and `seed_option`."""
    weak_option(parser)
    seed_option(parser)


def check_weak(cost: Cost, meant: bool) -> None:
    """Raise `InvalidInput` for an ε that promises next to nothing, unless it is meant.

    A person who types such numbers may not know what they mean.
    """
    from qrelease.privacy.conversions import epsilon_told

    epsilon = epsilon_told(cost)
    if epsilon > WEAK_EPSILON and not meant:
        raise InvalidInput(
            f"epsilon {epsilon:.6g} is above {WEAK_EPSILON:g} and promises next to nothing: nothing was charged; say"
            " --weak if it is meant"
        )
    if meant:
        warnings.simplefilter("ignore", WeakCostWarning)  # it was said, by the option


def warn_of_delta(cost: Cost) -> None:
    """Warn of a δ that is too large to promise much."""
    if cost.to_json().get("delta", 0) > WEAK_DELTA:
        print(f"warning: delta above {WEAK_DELTA:g}: it should be far below 1 / (number of people)", file=sys.stderr)


def warn_of_unnamed(learned: Learned) -> None:
    """Warn of columns of which nothing was learned."""
    if learned.unnamed:
        print(
            f"warning: {', '.join(learned.unnamed)}: no text is of enough records, or persons, to be named at this"
            " cost, so that all are 'other'; list the categories in the schema, from public knowledge, or spend more"
            " on learning",
            file=sys.stderr,
        )


def wrote(folder: Path) -> str:
    """The line that says which files a folder has now."""
    names = sorted(file.name for file in folder.iterdir())
    return f"wrote {', '.join(names)} in {folder}"


def clips_of(texts: list[str]) -> tuple[dict[str, tuple[float, float]], tuple[str, ...]]:
    """The bounds of columns that are given, and the columns whose bounds are learned."""
    clip: dict[str, tuple[float, float]] = {}
    learn = []
    for text in texts:
        name, _, bounds = text.rpartition("=")
        low, dots, high = bounds.partition("..")
        if name and bounds.strip() == "learn":
            learn.append(name.strip())
            continue
        try:
            if not (name and dots):
                raise ValueError
            clip[name.strip()] = float(low), float(high)
        except ValueError:
            raise InvalidInput(f"--clip takes COLUMN=LOW..HIGH or COLUMN=learn, got {text!r}") from None
    return clip, tuple(learn)
