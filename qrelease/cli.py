"""The command line: thin, and without numpy until a command needs it."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from qrelease.errors import InvalidInput, LedgerError, QReleaseError

if TYPE_CHECKING:
    from qrelease.domain import Domain
    from qrelease.entropy import Entropy
    from qrelease.ledger import Ledger
    from qrelease.privacy import Cost
    from qrelease.release import Mechanism, Release
    from qrelease.table import Table
    from qrelease.workload import Workload

MECHANISMS = {
    "mwem": "qrelease.mechanisms.mwem:MWEM",
    "maxent": "qrelease.mechanisms.maxent:MaxEnt",
    "matrix": "qrelease.mechanisms.matrix:Matrix",
    "records": "qrelease.mechanisms.records:Records",
    "laplace": "qrelease.mechanisms.laplace:Laplace",
    "gaussian": "qrelease.mechanisms.gaussian:Gaussian",
    "iterative": "qrelease.mechanisms.iterative:IterativeConstruction",
    "smalldb": "qrelease.mechanisms.smalldb:SmallDB",
    "auto": "qrelease.auto:Auto",
}

PYTHON_ONLY = {
    "net": "qrelease.Net, which takes a list of synopses",
    "pmw": "qrelease.PrivateMultiplicativeWeights, with Curator.open: its queries come one by one",
}

OPTIONS = {"rounds": ["mwem"], "size": ["smalldb"], "alpha": ["smalldb"], "records": ["auto", "maxent", "mwem"]}
"""Options of `release` that belong to some mechanisms."""

DEFAULT = "mwem"

Command = Callable[[argparse.Namespace], int | None]

_DATA = "CSV file (.gz, .xz, .bz2 too) or Parquet file (.parquet, .pq)"

_STAYS = "a charge that was made stays spent (qrelease ledger show)"

WEAK_EPSILON = 20.0
WEAK_DELTA = 1e-4
"""Costs beyond these are answered with a warning."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it did its work, 2 with one line on standard error for a mistake that can be mended.

    `audit` ends with 1 when it convicts.
    """
    arguments = _parser().parse_args(argv)
    command: Command = arguments.command
    try:
        with _interruptible():
            code = command(arguments)
        sys.stdout.flush()
    except QReleaseError as error:
        print(f"qrelease: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        from qrelease import memory

        left = memory.size(memory.free())
        print(f"qrelease: out of memory, {left} are left: use fewer columns or coarser bins; {_STAYS}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"qrelease: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"qrelease: interrupted; {_STAYS}", file=sys.stderr)
        return 128 + int(stop.args[0] if stop.args else signal.SIGINT)
    return code or 0


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """While a command runs, let the signals that end a process end it as Ctrl-C does: nothing is left half-written."""

    def interrupt(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(number)

    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    found = [getattr(signal, name) for name in names if hasattr(signal, name)]
    mine = [number for number in found if signal.getsignal(number) is signal.SIG_DFL]  # nohup's SIGHUP stays ignored
    for number in mine:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


class _Parser(argparse.ArgumentParser):
    """Argparse, but a wrong option is one line too."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        parser.exit(message=f"qrelease {version('qrelease')}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="qrelease",
        description="Release a synthetic table, or answers to a workload of queries, under differential privacy.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_schema(commands)
    _add_plan(commands)
    _add_release(commands)
    _add_answer(commands)
    _add_evaluate(commands)
    _add_ledger(commands)
    _add_serve(commands)
    _add_analyst(commands)
    _add_audit(commands)
    _add_warmup(commands)
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=run)
    return parser


# --- options that several commands share


def _data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, help=_DATA)
    parser.add_argument(
        "--dataset", metavar="NAME", help="whose people these are; default: the file's name without .csv, .gz, .parquet"
    )
    _query_options(parser)


def _query_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", type=Path, required=True, help="schema.toml, or a {column: size} JSON")
    parser.add_argument("--columns", type=_names, help="only these columns, as a,b,c")
    parser.add_argument(
        "--workload",
        action="append",
        metavar="W",
        help="marginals:3 (default), marginals:a*b,c*d, ranges:a, prefixes:a, where:CONDITION; may be repeated",
    )
    parser.add_argument(
        "--neighbours", choices=["add-remove", "replace-one"], default="add-remove", help="default: %(default)s"
    )


def _secret_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--insecure-seed", type=int, metavar="N", help="repeatable noise for tests; the result protects nobody"
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _check_memory() -> None:
    from qrelease import memory

    memory.check(memory.LIBRARIES, "this command", "raise the limit of this shell or container")


def _read(arguments: argparse.Namespace) -> Table:
    from qrelease.rows import PARQUET
    from qrelease.table import Table

    read = Table.read_parquet if arguments.data.suffix.lower() in PARQUET else Table.read_csv
    return read(arguments.data, arguments.schema, arguments.columns)


def _workload(arguments: argparse.Namespace, domain: Domain) -> Workload:
    from qrelease.workload import Workload

    default = f"marginals:{min(3, len(domain))}"
    parts = [Workload.parse(domain, text) for text in arguments.workload or [default]]
    whole = parts[0]
    for part in parts[1:]:
        whole += part
    return whole


def _cost(epsilon: float, delta: float | None) -> Cost:
    from qrelease.privacy import ApproxDP, PureDP

    return PureDP(epsilon) if not delta else ApproxDP(epsilon, delta)


def _mechanism(name: str, **options: float | None) -> Mechanism:
    from importlib import import_module

    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if name not in OPTIONS[option]:
            raise InvalidInput(f"--{option} belongs to {' and '.join(OPTIONS[option])}, {name} has none")
    module, _, kind = MECHANISMS[name].partition(":")
    make: Callable[..., Mechanism] = getattr(import_module(module), kind)
    return make(**given)


def _entropy(arguments: argparse.Namespace) -> Entropy:
    from qrelease.entropy import Entropy

    return Entropy() if arguments.insecure_seed is None else Entropy.insecure(arguments.insecure_seed)


# --- demo


def _add_demo(commands: Any) -> None:
    parser = _command(commands, "demo", _demo, "Release the bundled Adult table; show its error.")
    parser.add_argument("--out", type=Path, default=Path("demo-release"), help="default: %(default)s")
    parser.add_argument("--epsilon", type=float, default=1.0, help="default: %(default)s")
    parser.add_argument("--delta", type=float, default=1e-9, help="default: %(default)s")
    _secret_options(parser)


def _demo(arguments: argparse.Namespace) -> None:
    _check_memory()
    from qrelease import archive
    from qrelease.data import CATEGORICAL, adult
    from qrelease.evaluate import Truth
    from qrelease.ledger import Ledger
    from qrelease.release import Curator
    from qrelease.workload import Workload

    cost = _cost(arguments.epsilon, arguments.delta)
    with archive.new_folder(arguments.out) as folder:
        table = adult(CATEGORICAL)
        workload = Workload.marginals(table.domain, 3)
        print(
            f"UCI Adult, {len(table.domain)} columns, a universe of {table.domain.size:,} cells:"
            f" all {len(workload.sets)} three-way marginals, {len(workload):,} queries, at {cost}"
        )
        truth = Truth.of(table, workload)
        lines = []
        for name in ("laplace", "gaussian", DEFAULT):
            # The table is public and this is a demonstration: each mechanism gets a budget of its own, in memory.
            with Ledger.open(None, cost, dataset="adult") as ledger:
                release = Curator(table, ledger, _entropy(arguments)).release(_mechanism(name), workload, cost)
            lines.append((name, truth.errors(release.answers())))
        archive.save(release, folder)
    print("\nerror against the truth (this table is public; for private data such a comparison is not private):\n")
    print(f"{'mechanism':12}{'average L1':>12}{'of Laplace':>12}{'of Gaussian':>13}{'largest':>10}")
    for name, found in lines:
        ratios = [found.avg_l1 / lines[i][1].avg_l1 for i in (0, 1)]
        print(f"{name:12}{found.avg_l1:12.4f}{ratios[0]:12.2f}{ratios[1]:13.2f}{found.max_abs:10.4f}")
    print(f"\n{_files(arguments.out)}")


def _files(folder: Path) -> str:
    names = sorted(file.name for file in folder.iterdir())
    return f"wrote {', '.join(names)} in {folder}"


# --- schema draft


def _add_schema(commands: Any) -> None:
    schema = commands.add_parser(
        "schema", help="Draft a schema for a table.", description="Draft a schema for a table."
    )
    actions = schema.add_subparsers(required=True, metavar="ACTION")
    parser = _command(
        actions, "draft", _draft, "Write a schema drafted from the data, every entry of it marked as unreviewed."
    )
    parser.add_argument("data", type=Path, help=_DATA)
    parser.add_argument("--out", type=Path, help="default: standard output")


def _draft(arguments: argparse.Namespace) -> None:
    from qrelease.draft import draft
    from qrelease.rows import written

    text = draft(arguments.data)
    if arguments.out is None:
        print(text, end="")
        return
    if arguments.out.exists():
        raise InvalidInput(f"{arguments.out} exists already; drafts do not overwrite")
    with written(arguments.out) as file:
        file.write(text)
    print(f"wrote {arguments.out}: review every entry, then set its reviewed = true")


# --- plan


def _add_plan(commands: Any) -> None:
    parser = _command(commands, "plan", _plan, "What each mechanism promises, and what a target costs. Reads no data.")
    _query_options(parser)
    parser.add_argument("--n", type=int, required=True, help="about how many records there are")
    parser.add_argument("--target-error", type=float, help="how far off the worst answer may be, a fraction of n")
    parser.add_argument("--epsilon", type=float, help="default: the least that a theorem takes for the target error")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    parser.add_argument("--beta", type=float, default=0.05, help="how often a promise may fail; default: %(default)s")
    parser.add_argument("--trials", type=int, default=3, help="simulations of each; default: %(default)s, 0 for none")
    parser.add_argument("--json", action="store_true", help="one object")


def _plan(arguments: argparse.Namespace) -> None:
    import json

    from qrelease.planning import plan
    from qrelease.schema import load

    domain = load(arguments.schema)
    if arguments.columns is not None:
        domain = domain.project([domain.axis(name) for name in arguments.columns])
    found = plan(
        _workload(arguments, domain),
        arguments.n,
        arguments.target_error,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        neighbours=arguments.neighbours,
        beta=arguments.beta,
        trials=arguments.trials,
    )
    print(json.dumps(found.to_json()) if arguments.json else found)


# --- release


def _add_release(commands: Any) -> None:
    parser = _command(commands, "release", _release, "Release a synthetic table and answers, for one charge.")
    _data_options(parser)
    parser.add_argument(
        "--mechanism",
        type=_of_the_command_line,
        choices=list(MECHANISMS),
        default=DEFAULT,
        help="default: %(default)s; auto takes the one with the least predicted error, and says why; laplace and"
        " gaussian fit a table to their noisy answers, if the universe allows",
    )
    parser.add_argument("--epsilon", type=float, required=True, help="what this release may cost")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    parser.add_argument("--rounds", type=int, help="of mwem; default: a public rule")
    parser.add_argument("--size", type=int, help="of smalldb: records of the small database; default: a public rule")
    parser.add_argument("--alpha", type=float, help="of smalldb, instead of a size: how well some database should fit")
    parser.add_argument(
        "--records",
        type=int,
        metavar="N",
        help="of auto, maxent and mwem: about how many there are, if public; default: a little of the budget finds out",
    )
    parser.add_argument("--rows", type=int, help="synthetic records; default: about as many as the input has")
    parser.add_argument(
        "--weighted", action="store_true", help="a synthetic table with a weight for each row, which is the more exact"
    )
    parser.add_argument(
        "--answers",
        action=argparse.BooleanOptionalAction,
        help="whether answers.csv is written; default: unless it would have more than 16,777,216 lines",
    )
    parser.add_argument("--out", type=Path, help="a new folder; default: DATASET-release, here")
    parser.add_argument("--ledger", type=Path, help="default: DATASET.ledger beside the data")
    parser.add_argument("--total-epsilon", type=float, help="of a new ledger; default: the cost of this release")
    parser.add_argument("--total-delta", type=float, help="likewise; default: that of this release")
    _secret_options(parser)


def _of_the_command_line(mechanism: str) -> str:
    if mechanism in PYTHON_ONLY:
        raise argparse.ArgumentTypeError(f"{mechanism} is used from Python: {PYTHON_ONLY[mechanism]}")
    return mechanism


def _release(arguments: argparse.Namespace) -> None:
    _check_memory()
    from dataclasses import replace

    from qrelease import archive
    from qrelease.constraints import impossible
    from qrelease.mechanisms.records import Records
    from qrelease.planning import Forecasting, forecast
    from qrelease.privacy import Neighbours
    from qrelease.release import Curator, check_rows

    cost = _cost(arguments.epsilon, arguments.delta)
    neighbours = Neighbours.parse(arguments.neighbours)
    mechanism = _mechanism(arguments.mechanism, **{option: getattr(arguments, option) for option in OPTIONS})
    rules = impossible(arguments.schema, arguments.columns)
    if rules and isinstance(mechanism, Records):
        mechanism = replace(mechanism, impossible=rules)
    elif rules:
        print("warning: the impossible rules of the schema are kept by --mechanism records alone", file=sys.stderr)
    if arguments.rows is not None:
        check_rows(arguments.rows)
    out = arguments.out or Path(f"{_dataset(arguments)}-release")
    with archive.new_folder(out) as folder:
        table = _read(arguments)
        workload = _workload(arguments, table.domain)
        if arguments.weighted:
            archive.check_weighted(table.domain)
        mechanism.check(workload, cost, neighbours)
        if arguments.weighted or arguments.rows is not None:
            _check_table(arguments.mechanism, workload)
        table.check_counts(workload.sets)
        if isinstance(mechanism, Forecasting):
            public = len(table) if neighbours is Neighbours.REPLACE_ONE else None
            print(f"qrelease: {forecast(mechanism, workload, cost, public)}", file=sys.stderr)
        with _ledger(arguments, cost, neighbours) as ledger:
            release = Curator(table, ledger, _entropy(arguments)).release(mechanism, workload, cost)
            try:
                left_out = archive.save(
                    release, folder, arguments.rows, weighted=arguments.weighted, answers=arguments.answers
                )
            except OSError as error:
                raise InvalidInput(f"{out} cannot be written: {error.strerror}; {_STAYS}") from None
            spent, total = ledger.spent, ledger.total
    print(release)
    if arguments.mechanism == "auto":
        from qrelease.auto import explained

        print(explained(release.parameters))
    print(_files(out))
    for name, why in left_out.items():
        print(f"no {name}: {why}")
    if arguments.insecure_seed is None or arguments.ledger:
        print(f"spent in all: {spent} of {total} (ledger {_ledger_path(arguments)})")
    _warn_of_weak(cost)


def _check_table(name: str, workload: Workload) -> None:
    """`InvalidInput` where a table is asked for and there would be none: known before the charge, but of `auto`."""
    from qrelease.errors import TooLarge
    from qrelease.histogram import check_size

    asked = "--weighted and --rows ask for a synthetic table"
    if name == "matrix":
        raise InvalidInput(f"{asked}, and matrix gives answers alone: leave them out, or take another mechanism")
    if name in ("maxent", "laplace", "gaussian", "auto"):  # which give answers where the others refuse
        try:
            check_size(workload.domain, workload.sets, len(workload), ahead=False)
        except TooLarge as error:
            raise InvalidInput(f"{asked}, and there would be none: {error}") from None


def _warn_of_weak(cost: Cost) -> None:
    """A person who types such numbers may not know what they mean."""
    values = cost.to_json()
    if values["epsilon"] > WEAK_EPSILON:
        print(f"warning: epsilon above {WEAK_EPSILON:g} promises next to nothing", file=sys.stderr)
    if values.get("delta", 0) > WEAK_DELTA:
        print(f"warning: delta above {WEAK_DELTA:g}: it should be far below 1 / (number of people)", file=sys.stderr)


def _ledger(arguments: argparse.Namespace, cost: Cost, neighbours: Any) -> Ledger:
    """The ledger of this dataset, made with the asked total (or just this cost) if there is none yet.

    A run with an insecure seed and no ledger named is a test: it has a budget of its own, in memory.
    """
    from qrelease.ledger import Ledger
    from qrelease.privacy import Filter

    total = cost
    if arguments.total_epsilon is not None:
        delta = arguments.delta if arguments.total_delta is None else arguments.total_delta
        total = _cost(arguments.total_epsilon, delta)
    elif arguments.total_delta is not None:
        raise InvalidInput("--total-delta needs --total-epsilon")
    if arguments.insecure_seed is not None and arguments.ledger is None:
        return Ledger.open(None, total, dataset=_dataset(arguments), neighbours=neighbours)
    path = _ledger_path(arguments)
    if path.exists():
        if arguments.total_epsilon is not None:
            raise InvalidInput(f"ledger {path} has a total already; `qrelease ledger raise` changes it")
        return Ledger.open(path, dataset=_dataset(arguments), neighbours=neighbours)
    Filter(total).spend(cost)  # what would be refused leaves no new ledger behind
    return Ledger.open(path, total, dataset=_dataset(arguments), neighbours=neighbours)


def _dataset(arguments: argparse.Namespace) -> str:
    """Whose budget is spent: the name given, or the file's without its suffixes, compressed or not.

    So `people.csv`, `people.csv.gz` and `people.parquet` in one folder are one dataset with one ledger.
    """
    if arguments.dataset is not None:
        return str(arguments.dataset)
    from qrelease.rows import SUFFIXES

    name: Path = arguments.data.resolve()
    while name.suffix.lower() in SUFFIXES:
        name = name.with_suffix("")
    return name.name


def _ledger_path(arguments: argparse.Namespace) -> Path:
    """Beside the data, so that whoever releases from them finds it; in the user's own folder if that is read-only.

    A ledger that exists in either place is the ledger, whatever the permissions are by now.
    """
    if arguments.ledger is not None:
        return Path(arguments.ledger)
    from hashlib import sha256

    folder: Path = arguments.data.resolve().parent
    dataset = _dataset(arguments)
    if not dataset or Path(dataset).name != dataset:
        raise InvalidInput(f"dataset {dataset!r} cannot be the name of a ledger: say which with --ledger")
    beside = folder / f"{dataset}.ledger"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "qrelease"
    own = state / f"{dataset}-{sha256(str(folder).encode()).hexdigest()[:12]}.ledger"
    if beside.exists() and own.exists():
        raise LedgerError(f"two ledgers, {beside} and {own}, for one table: say which counts with --ledger")
    if own.exists() or not (beside.exists() or os.access(folder, os.W_OK)):
        state.mkdir(parents=True, exist_ok=True)
        return own
    return beside


# --- answer


def _add_answer(commands: Any) -> None:
    parser = _command(commands, "answer", _answer, "Answer further queries from a release, at no cost.")
    parser.add_argument("release", type=Path, help="the folder of a release")
    parser.add_argument("query", nargs="+", help="a condition, as in: age in 30..39 and income = '>50K'")


def _answer(arguments: argparse.Namespace) -> None:
    from qrelease.archive import load

    release = load(arguments.release)
    _warn(release)
    for query in arguments.query:
        print(f"{release.answer(query)}\t{query}")


def _warn(release: Release) -> None:
    if release.insecure:
        print("qrelease: INSECURE release: its noise came from a seed", file=sys.stderr)


# --- evaluate


def _add_evaluate(commands: Any) -> None:
    parser = _command(
        commands, "evaluate", _evaluate, "NOT PRIVATE: compare mechanisms with the truth, for the data holder's eyes."
    )
    _data_options(parser)
    parser.add_argument("--mechanism", type=_names, default=[DEFAULT], help="a,b; the baselines are always there")
    parser.add_argument("--epsilon", type=_floats, default=[0.1, 1.0, 10.0], help="as 0.1,1,10 (the default)")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    parser.add_argument("--trials", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--plot", type=Path, help="draw error against epsilon (.svg or .png)")
    parser.add_argument("--json", action="store_true", help="one object a line")
    _secret_options(parser)


def _floats(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a list of numbers: {text!r}") from None


def _evaluate(arguments: argparse.Namespace) -> None:
    _check_memory()
    from qrelease.comparison import check_picture
    from qrelease.evaluate import evaluate

    unknown = [name for name in arguments.mechanism if name not in MECHANISMS]
    if unknown:
        raise InvalidInput(f"mechanisms are {', '.join(MECHANISMS)}, got {unknown[0]!r}")
    if arguments.plot is not None:
        check_picture(arguments.plot)
    table = _read(arguments)
    found = evaluate(
        table,
        _workload(arguments, table.domain),
        {name: _mechanism(name) for name in arguments.mechanism},
        arguments.epsilon,
        delta=arguments.delta,
        neighbours=arguments.neighbours,
        trials=arguments.trials,
        entropy=_entropy(arguments),
        dataset=_dataset(arguments),
    )
    print(found.to_json_lines() if arguments.json else found)
    if arguments.plot is not None:
        found.plot(arguments.plot)
        print(f"drew {arguments.plot}", file=sys.stderr)


# --- ledger


def _add_ledger(commands: Any) -> None:
    text = "Look at a budget, or raise its total."
    ledger = commands.add_parser("ledger", help=text, description=text)
    actions = ledger.add_subparsers(required=True, metavar="ACTION")
    show = _command(actions, "show", _show, "What was spent, what is left, and the history.")
    show.add_argument("ledger", type=Path)
    more = _command(actions, "raise", _raise, "Set a larger total: a decision about the people in the data.")
    more.add_argument("ledger", type=Path)
    more.add_argument("--epsilon", type=float, required=True)
    more.add_argument("--delta", type=float, help="default: as it is")


def _open(path: Path) -> Ledger:
    from qrelease.ledger import Ledger

    if not path.exists():
        raise LedgerError(f"there is no ledger {path}")
    return Ledger.open(path)


def _show(arguments: argparse.Namespace) -> None:
    with _open(arguments.ledger) as ledger:
        print(f"dataset {ledger.dataset}, neighbours {ledger.neighbours.value}")
        print(f"total   {ledger.total}")
        print(f"spent   {ledger.spent or 'nothing'}")
        print(f"left    {ledger.remaining or 'nothing'}")
        for entry in ledger.history():
            print(f"{entry.time}  {entry.kind:7} {entry.cost}  {entry.label}")


def _raise(arguments: argparse.Namespace) -> None:
    with _open(arguments.ledger) as ledger:
        delta = ledger.total.to_json().get("delta") if arguments.delta is None else arguments.delta
        ledger.raise_total(_cost(arguments.epsilon, delta))
        print(f"total now {ledger.total}, spent {ledger.spent or 'nothing'}")


# --- serve, analyst


def _add_serve(commands: Any) -> None:
    parser = _command(commands, "serve", _serve, "Answer analysts over HTTP, from one session (extra: server).")
    parser.add_argument("--data", type=Path, required=True, help=_DATA)
    parser.add_argument("--schema", type=Path, required=True, help="schema.toml, or a {column: size} JSON")
    parser.add_argument("--columns", type=_names, help="only these columns, as a,b,c")
    parser.add_argument("--ledger", type=Path, required=True, help="made with this budget as its total, if it is new")
    parser.add_argument("--dataset", metavar="NAME", help="whose people these are; default: from the file's name")
    parser.add_argument("--neighbours", choices=["add-remove", "replace-one"], default="add-remove")
    parser.add_argument("--epsilon", type=float, required=True, help="what all answers together may cost")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    parser.add_argument("--alpha", type=float, default=0.05, help="error bars, a fraction of n; default: %(default)s")
    parser.add_argument("--beta", type=float, default=0.001, help="how often one may fail; default: %(default)s")
    parser.add_argument("--declare", type=int, metavar="K", help="queries have K columns at most: buys for all at once")
    parser.add_argument("--session", metavar="NAME", default="server", help="in the ledger; default: %(default)s")
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s; others need a proxy with TLS")
    parser.add_argument("--port", type=int, default=8000, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=1, help="processes; default: %(default)s")
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second, a token; default: %(default)s")


def _serve(arguments: argparse.Namespace) -> None:
    _check_memory()
    from ipaddress import ip_address

    from qrelease.server.run import Settings, listen, serve

    settings = Settings(
        data=str(arguments.data),
        schema=str(arguments.schema),
        columns=arguments.columns,
        ledger=str(arguments.ledger),
        dataset=_dataset(arguments),
        neighbours=arguments.neighbours,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        alpha=arguments.alpha,
        beta=arguments.beta,
        session=arguments.session,
        declared=arguments.declare,
        rate=arguments.rate,
    )
    _warn_of_weak(_cost(arguments.epsilon, arguments.delta))
    with listen(arguments.host, arguments.port) as listening:
        host, port = listening.getsockname()[:2]
        print(f"listening on http://{host}:{port}", flush=True)
        if not ip_address(host).is_loopback:
            print("warning: tokens and answers travel in the clear: put a proxy with TLS in front", file=sys.stderr)
        serve(settings, listening, arguments.workers)


def _add_analyst(commands: Any) -> None:
    text = "Who may ask a server, and for how much."
    analyst = commands.add_parser("analyst", help=text, description=text)
    actions = analyst.add_subparsers(required=True, metavar="ACTION")
    add = _command(actions, "add", _admit, "Print a new analyst's token, which is shown this once.")
    add.add_argument("name")
    add.add_argument("--epsilon", type=float, required=True, help="what this analyst may spend in a session")
    add.add_argument("--delta", type=float, help="default: none, pure epsilon")
    revoke = _command(actions, "revoke", _revoke, "End the validity of an analyst's token.")
    revoke.add_argument("name")
    listing = _command(actions, "list", _list, "Show names, budgets and how much was asked.")
    for parser in (add, revoke, listing):
        parser.add_argument("--ledger", type=Path, required=True)


def _admit(arguments: argparse.Namespace) -> None:
    from qrelease.analysts import Analysts

    with _open(arguments.ledger) as ledger:
        print(Analysts(ledger).add(arguments.name, _cost(arguments.epsilon, arguments.delta)))


def _revoke(arguments: argparse.Namespace) -> None:
    from qrelease.analysts import Analysts

    with _open(arguments.ledger) as ledger:
        Analysts(ledger).revoke(arguments.name)


def _list(arguments: argparse.Namespace) -> None:
    from qrelease.analysts import Analysts

    with _open(arguments.ledger) as ledger:
        for analyst in Analysts(ledger).list():
            state = "" if analyst.active else ", revoked"
            print(f"{analyst.name}  budget {analyst.budget}, {analyst.requests:,} requests{state}")


# --- audit


def _add_audit(commands: Any) -> None:
    parser = _command(
        commands,
        "audit",
        _audit,
        "Try to convict a mechanism: run it on neighbouring inputs.",
    )
    parser.add_argument(
        "mechanism", help=f"{', '.join(MECHANISMS)} on tiny tables, or MODULE:FUNCTION, called as f(data, entropy)"
    )
    parser.add_argument("--first", help="JSON: the input of MODULE:FUNCTION")
    parser.add_argument("--second", help="JSON: a neighbour of it")
    parser.add_argument("--epsilon", type=float, required=True, help="what the mechanism claims")
    parser.add_argument("--delta", type=float, help="default: none, pure epsilon")
    parser.add_argument("--neighbours", choices=["add-remove", "replace-one"], default="add-remove")
    parser.add_argument("--samples", type=int, default=20_000, help="runs on each input; default: %(default)s")
    parser.add_argument("--confidence", type=float, default=0.99, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="the finding as one object")
    _secret_options(parser)


def _audit(arguments: argparse.Namespace) -> int:
    import json

    from qrelease.audit import audit, audit_mechanism, find_mechanism, read_input
    from qrelease.privacy import Neighbours

    name, cost, entropy = arguments.mechanism, _cost(arguments.epsilon, arguments.delta), _entropy(arguments)
    effort = {"samples": arguments.samples, "confidence": arguments.confidence, "entropy": entropy}
    if ":" in name:
        if arguments.first is None or arguments.second is None:
            raise InvalidInput(f"{name} needs two neighbouring inputs: give --first and --second, as JSON")
        found = audit(find_mechanism(name), read_input(arguments.first), read_input(arguments.second), cost, **effort)
    elif name in MECHANISMS and name != "auto":  # which runs one of the others
        found = audit_mechanism(_mechanism(name), cost, Neighbours.parse(arguments.neighbours), **effort)
    else:
        raise InvalidInput(f"mechanisms are {', '.join(MECHANISMS)} or MODULE:FUNCTION, got {name!r}")
    if arguments.json:
        print(json.dumps(found.to_json()))
    else:
        print(found if found.convicted else f"{found}\n  an acquittal is no proof of privacy")
    return int(found.convicted)


# --- warmup


def _add_warmup(commands: Any) -> None:
    _command(commands, "warmup", _warmup, "Compile everything now, so that no later command has to: once, some 20 s.")


def _warmup(_: argparse.Namespace) -> None:
    """Call every compiled kernel once for each type of its arguments; numba keeps what it compiled."""
    from fractions import Fraction

    import numpy as np

    from qrelease import noise, selection
    from qrelease.branching import draw_database
    from qrelease.databases import Bounds, Databases
    from qrelease.domain import Domain
    from qrelease.entropy import Entropy
    from qrelease.histogram import Histogram, transform
    from qrelease.records import Tables
    from qrelease.table import Table
    from qrelease.workload import Workload

    domain = Domain.coded(dict.fromkeys("abcdefghi", 2))
    workload = Workload.marginals(domain, 3)
    Table(domain, (np.zeros(1, np.uint8),) * len(domain)).counts(workload.sets)
    one = Workload.predicates(domain, "a = 1 and i = 1")
    whole = Workload.predicates(domain, " and ".join(f"{name} = 1" for name in domain.names))
    for cells in (np.float64, np.float32):
        state = Histogram(domain, workload.sets, 1.0, cells)
        state.multiply(np.zeros(len(workload)))
        for group in (one + whole + Workload.vectors(domain, np.full((1, domain.size), 0.5))).groups:
            state.update(group, [0.0])
        state.answer(one)
        state.answer(workload)
        transform(np.zeros(1 << 16, cells))
        state.sample(1, np.random.default_rng(0))
    pair = Tables((2, 2), [(0, 1)])
    for rows in (1, 1 << 21):  # few records are taken as they are, many in slices, which are another type of array
        codes = np.zeros((2, rows), np.uint16)
        pair.marginals(codes, np.zeros(rows))
        pair.sums(codes, np.zeros(4))
    pair.redraw(np.zeros((2, 1), np.uint16), np.zeros(4), np.random.default_rng(0))
    entropy = Entropy()
    for scale in (Fraction(1), Fraction(10**6)):
        noise.discrete_laplace(scale, 1, entropy)
        noise.geometric(scale, 1, entropy)
        noise.discrete_gaussian(scale, 1, entropy)
        noise.rounded_gaussian(scale, 1, entropy)
    scores = np.array([1, 1, 0])
    for select in (selection.exponential_mechanism, selection.permute_and_flip):
        select(scores, Fraction(1), 1, entropy)
    databases = Databases.over(np.eye(4, dtype=np.int64), 3)
    bounds = Bounds(np.array([3, 0, 0, 0]), np.ones(4, np.int64))
    databases.all_errors(bounds)
    databases.errors(bounds, np.arange(1))
    databases.cells(0)
    draw_database(databases, bounds, Fraction(1), entropy)
    print("all kernels are compiled")


if __name__ == "__main__":
    sys.exit(main())
