"""The command line end to end: what it writes, and that every mistake is one line, exit code 2 and no charge."""

import ast
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest
from commands import release

import qrelease as qr
from qrelease.apps.cli import COMMANDS, main
from qrelease.apps.cli.shared import DATA
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.queries.workload import Workload
from qrelease.release import writer


def test_help_needs_no_numpy() -> None:
    code = (
        "import sys; from qrelease.apps.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'numpy', 'numba', 'scipy'} & set(sys.modules), 'slow --help'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("verify out --ledger", "x.json"),
        ("account ledgers", "x.json"),
        ("card out --fill", "x.toml"),
        ("run", "x.toml"),
        ("serve", "x.toml"),
        ("dummy", "x.toml"),
        ("dummy", "x.json"),
    ],
)
def test_a_file_of_lists_in_lists_without_end_is_refused_in_one_line(
    command: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "out" in command:
        assert release() == 0
    begin = '{"a": ' if name == "x.json" else "a = "
    (folder / name).write_text(begin + "[" * 100_000)
    capsys.readouterr()
    assert main([*command.split(), name]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert name in message


READERS = {"release", "serve", "evaluate", "estimate", "attack", "score", "count"}
"""Commands that are given private records."""


def _options_in_messages() -> set[str]:
    """The options that texts of the readers of records tell to say, except where a docstring does."""
    found: set[str] = set()
    for file in (Path(qr.__file__).parent / "data" / "sources").rglob("*.py"):
        tree = ast.parse(file.read_text())
        raised = (node for node in ast.walk(tree) if isinstance(node, ast.Raise | ast.Return))
        texts = (n.value for r in raised for n in ast.walk(r) if isinstance(n, ast.Constant))
        found |= {option for text in texts if isinstance(text, str) for option in re.findall(r"--[a-z]+", text)}
    return found


ACTIONS = [f"schema {action}" for action in ("draft", "check", "learn")]


@pytest.mark.parametrize("command", [*(command for command in COMMANDS if command != "schema"), *ACTIONS])
def test_whoever_reads_records_has_the_options_that_errors_of_reading_name(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = _options_in_messages() - {"--dataset"}  # whose ledger is charged: of those that charge one
    assert named == {"--encoding", "--separator", "--decimal", "--quote", "--escape", "--header", "--query"}
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    shown = capsys.readouterr().out
    reads = command in {*READERS, *ACTIONS}
    assert reads or "".join(DATA.split()) not in "".join(shown.split())
    if reads:
        # A query reads one database, and shards are files.
        assert named - {*re.findall(r"--[a-z]+", shown)} == ({"--query"} if command == "count" else set())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_is_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for arguments in (["--help"], [command, "--help"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        texts.append(" ".join(capsys.readouterr().out.split()))
    both, own = texts
    assert f" {command} {COMMANDS[command]}" in both
    assert own.startswith(f"usage: qrelease {command} [-h]")
    assert COMMANDS[command] in own


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("draft", "did you mean `qrelease schema draft`?"),
        ("raise", "did you mean `qrelease ledger raise`?"),
        ("relase", "did you mean `qrelease release`?"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_command_is_told_which_one_was_meant(
    word: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([word, "people.csv"])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert ("did you mean" in said, told in said) == (bool(told), True)


def test_a_closed_pipe_is_no_traceback(folder: Path) -> None:
    assert release() == 0
    command = f"{sys.executable} -m qrelease ledger show people.ledger | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_the_help_names_all_kinds_of_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput) as error:
        Workload.parse(Domain.coded({"a": 2}), "nonsense")
    kinds = re.findall(r"(\w+):", str(error.value).partition(", got ")[0])
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    text = capsys.readouterr().out
    assert len(set(kinds)) == 5
    assert all(f"{kind}:" in text for kind in kinds)


def test_out_of_memory_is_one_line_that_names_a_size(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate an array with shape (54321,)")  # which tells the number of records

    monkeypatch.setattr("qrelease.release.writer.save", full)
    assert release() == 2
    foretold, message = capsys.readouterr().err.splitlines(keepends=True)
    assert foretold.startswith("qrelease: auto would take")
    assert re.fullmatch(r"qrelease: out of memory, [\d.]+ [MG]iB are left: .* the same command goes on .*\n", message)
    assert sorted(f.name for f in folder.iterdir()) == ["people.csv", "people.ledger", "people.toml"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="signals and pipes as on Unix")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing_behind(folder: Path, name: str) -> None:
    """The data come from a pipe that nobody writes to, so that the run waits to be ended."""
    (folder / "people.csv").unlink()
    os.mkfifo(folder / "people.csv")
    command = [sys.executable, "-m", "qrelease", "release", "people.csv", "--schema", "people.toml"]
    number = getattr(signal, name)
    run = subprocess.Popen(
        [*command, "--epsilon", "1", "--out", "out"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # whoever runs the tests may ignore it, as nohup does
    )
    while not (folder / ".out.part").exists():
        assert run.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    run.send_signal(number)
    _, message = run.communicate(timeout=60)
    assert run.returncode == 128 + number
    assert message == "qrelease: interrupted; nothing was charged\n"
    assert sorted(f.name for f in folder.iterdir()) == ["people.csv", "people.toml"]


def test_who_interrupts_what_charges_nothing_hears_of_no_charge(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("qrelease.evaluation.planning.plan", interrupt)
    assert main(["plan", "--schema", "people.toml", "--n", "100"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "qrelease: interrupted\n"


def test_what_a_kill_left_behind_is_no_obstacle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = folder / ".out.part"
    (left / "inside").mkdir(parents=True)
    (left / "synthetic.csv").write_text("half")
    with writer.new_folder("out"):
        assert release() == 2, "a run is at work"
        assert "qrelease: out is being written by another run" in capsys.readouterr().err
    (folder / "out").rmdir()
    assert not (folder / "people.ledger").exists()
    assert release() == 0
    assert sorted(f.name for f in (folder / "out").iterdir()) == [
        *("SHA256SUMS", "answers.csv", "release.json", "report.html", "synthetic.csv"),
    ]


def test_numbers_of_thousands_of_digits_are_one_line(in_folder, capsys):
    """Python refuses to read them, with an error of its own."""
    many = "1" * 5000
    Path("d.csv").write_text("x\n1\n")
    Path("s.toml").write_text(f'[[attribute]]\nname = "x"\nkind = "coded"\ncodes = {many}\n')
    Path("s.json").write_text(f'{{"x": {many}}}')
    Path("ok.json").write_text('{"x": 3}')
    Path("whose.toml").write_text('[[attribute]]\nname="a"\nkind="coded"\ncodes=3\n[person]\ncolumn="x"\nat_most=2\n')
    Path("p.csv").write_text(f"x,a\n{many},1\n{many}.0,2\n")
    made = ["--epsilon", "1", "--out", "out"]
    assert main(["release", "d.csv", "--schema", "ok.json", "--mechanism", "laplace", *made]) == 0
    capsys.readouterr()
    for given in (
        ["release", "d.csv", "--schema", "s.toml", *made],
        ["release", "d.csv", "--schema", "s.json", *made],
        [
            "release",
            "d.csv",
            "--schema",
            "ok.json",
            "--epsilon",
            "1",
            "--out",
            "more",
            "--workload",
            f"marginals:{many}",
        ],
        ["release", "p.csv", "--schema", "whose.toml", "--epsilon", "1", "--out", "more"],
        ["run", "s.toml"],
        ["card", "out", "--fill", "s.toml"],
        ["attack", "d.csv", "--release", "out", "--secret", "x", "--people", many],
    ):
        assert main(given) == 2, given[:4]
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_option_of_another_command_points_to_the_help_of_this_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--schema", "s.toml", "--n", "9", "--out-format", "csv"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told == "qrelease plan: unrecognized arguments: --out-format csv (see qrelease plan --help)\n"


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        (["people.csv", "--schema", "s", "--numbers", "mean:a", "mean:b", "--epsilon", "1"], "mean:b"),
        (["--schema", "s", "--numbers", "mean:a", "mean:b", "--epsilon", "1", "people.csv"], "people.csv"),
    ],
)
def test_an_option_with_a_second_value_says_how_it_is_repeated(
    given: list[str], unknown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["release", *given])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"qrelease release: unrecognized arguments: {unknown}; --numbers takes one value, so repeat it for each:"
        " --numbers Q --numbers Q (see qrelease release --help)\n"
    )


def test_a_ledger_that_is_a_link_to_itself_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own.ledger").symlink_to("own.ledger")
    command = ["release", "people.csv", "--schema", "people.toml", "--epsilon", "1", "--ledger", "own.ledger"]
    assert main(command) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert "own.ledger" in error[-1]
    assert error[-1].endswith("nothing was charged")


def test_no_folder_for_compiled_code_is_one_line(folder: Path) -> None:
    """As in a container that is read-only, for a user who has no home."""
    program = (
        "import sys; from numba.core import caching; caching.CacheImpl._locator_classes = []\n"
        "from qrelease.apps.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "release", "people.csv", "--schema", "people.toml", "--epsilon", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert ended.returncode == 2
    assert "name a folder of your own in NUMBA_CACHE_DIR" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (folder / "people.ledger").exists()


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.split() == ["qrelease", qr.__version__]
