"""The command line: it parses arguments and loads the module of a command only when that command is used.

A command is the module of its name. Its `options(parser)` declares its options, the default `run`, a function of the
parsed arguments that returns an exit code, or None for 0, and the default `uncharged`, where it charges a ledger: what
is said of that when it is interrupted. Once a charge was made, `run` sets `charged`, which is said after every error.
What is heavy is imported inside that function, so that no `--help` waits for numpy.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import NoReturn

from qrelease._util.progress import log_lines
from qrelease.errors import QReleaseError

COMMANDS = {
    "demo": "Release the bundled Adult table; show its error.",
    "schema": "Draft a schema for a table, check a table against one, or learn what it leaves open.",
    "dummy": "Make up a table of a schema, to try code on. Reads no data.",
    "count": "PRIVATE: count the shards of a table exactly, so that they can be released elsewhere.",
    "plan": "What each mechanism promises, and what a target costs. Reads no data.",
    "release": "Release a synthetic table and the answers to queries, for one charge.",
    "estimate": "Estimate one number, such as a mean or a quantile, for one charge.",
    "run": "Make those releases of a job file that are not there yet, under one budget.",
    "answer": "Answer further queries from a release, at no cost.",
    "verify": "Check all of a release that a third party can check. Reads no data.",
    "card": "Fill in the deployment card of a release, as public registries ask.",
    "key": "Make a key to sign releases with.",
    "sign": "Sign a release that is made already.",
    "evaluate": "NOT PRIVATE: compare mechanisms, or a synthetic table, with the truth; for the data holder only.",
    "score": "Measure how good a synthetic table is, with noise, for a charge: may be published.",
    "ledger": "Look at a budget, or raise its total.",
    "account": "What several mechanisms or ledgers cost together, by every composition rule. Reads no data.",
    "attack": "NOT PRIVATE: what attacks recover from rounded and from released answers; for the data holder only.",
    "serve": "Answer analysts over HTTP, from one session (extra: server).",
    "studio": "Go from a data file to a release on a page in the browser, on this machine (extra: server).",
    "analyst": "Say who may ask a server, and how much each may spend.",
    "audit": "Test whether a mechanism keeps its promise, by running it on neighbouring tables.",
    "warmup": "Compile everything now, once, so that no later command has to (a minute or two).",
}

STAYS = "a charge that was made stays spent (qrelease ledger show)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it did its work, 2 with one line on standard error for a mistake that can be mended.

    `audit` ends with 1 when it convicts, `verify` when something does not hold.
    """
    given = sys.argv[1:] if argv is None else argv
    arguments, unknown = _parser(given).parse_known_args(given)
    if unknown:  # argparse would point to the help of `qrelease`, which has none of a command's options
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}{_repeated(arguments.parser, given)}")
    run: Callable[[argparse.Namespace], int | None] = arguments.run

    def stands(*, quiet: bool = False) -> str:
        """Whether a charge was made, after a semicolon; `quiet` where none was."""
        told: str = getattr(arguments, "charged", "")
        if not told and not quiet:
            told = getattr(arguments, "uncharged", "")
        return f"; {told}" if told else ""

    try:
        with _interruptible(), log_lines():
            code = run(arguments)
        sys.stdout.flush()
    except QReleaseError as error:
        print(f"qrelease: {error}{stands(quiet=True)}", file=sys.stderr)
        return 2
    except MemoryError:
        from qrelease._util import memory

        left = memory.size(memory.free())
        advice = "use fewer columns or coarser bins"
        print(f"qrelease: out of memory, {left} are left: {advice}{stands()}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not stands(quiet=True):
            return 0
        print(f"qrelease: nobody reads the output{stands()}", file=sys.stderr)
        return 2
    except OSError as error:
        named = error.filename or "a file"
        print(f"qrelease: {named}: {error.strerror or error}{stands(quiet=True)}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        told = next((told for known, told in _RUNTIME_ERRORS.items() if known in str(error)), None)
        if told is None:
            raise
        print(f"qrelease: {error}{told}{stands()}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"qrelease: interrupted{stands()}", file=sys.stderr)
        return 128 + int(stop.args[0] if stop.args else signal.SIGINT)
    return code or 0


def _repeated(parser: argparse.ArgumentParser, given: Sequence[str]) -> str:
    """How to give an option several values, where a word stands behind its one value; empty where none does."""
    for place, name in enumerate(given[:-2]):
        option = next((a for a in parser._actions if name in a.option_strings), None)
        if isinstance(option, argparse._AppendAction) and not given[place + 2].startswith("-"):
            return f"; {name} takes one value, so repeat it for each: {name} {option.metavar} {name} {option.metavar}"
    return ""


# What pathlib (before Python 3.13) and numba raise as RuntimeError, and what helps.
_RUNTIME_ERRORS = {
    "Symlink loop": "",
    "no locator available": ": name a folder of your own in NUMBA_CACHE_DIR, where compiled code can be kept",
}


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
        unknown = re.match("argument COMMAND: invalid choice: '([^']*)'", message)
        told = _meant(unknown[1]) if unknown else ""
        self.exit(2, f"{self.prog}: {message}{told} (see {self.prog} --help)\n")


def _meant(word: str) -> str:
    """Which command an unknown word may have meant: one that is spelled like it, or has a part of that name."""
    from difflib import get_close_matches

    for name in COMMANDS:
        command = _Parser()
        import_module(f"qrelease.apps.cli.{name}").options(command)
        parts = (a.choices for a in command._actions if isinstance(a, argparse._SubParsersAction))
        if any(word in part for part in parts):
            return f"; did you mean `qrelease {name} {word}`?"
    near = get_close_matches(word, COMMANDS, 1)
    return f"; did you mean `qrelease {near[0]}`?" if near else ""


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"qrelease {version('qrelease')}")
        parser.exit()


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """The parser: it knows the names of all commands, and the options of those that the arguments name."""
    parser = _Parser(
        prog="qrelease",
        description="Release a synthetic table, or answers to a workload of queries, under differential privacy.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(parser=command)
        if name in given:
            import_module(f"qrelease.apps.cli.{name}").options(command)
    return parser
