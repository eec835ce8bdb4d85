"""The command line end to end: what it writes, and that every mistake is one line, exit code 2 and no charge."""

import contextlib
import io
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

from qrelease.apps.cli import COMMANDS, main
from qrelease.apps.cli.shared import SILENT, elapsed
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
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


def test_costs_are_printed_short_and_refused_exactly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--epsilon", "0.1", "--delta", "1e-9", "--total-epsilon", "0.3", "--total-delta", "1e-8") == 0
    for out in ("two", "three"):
        last = release("--epsilon", "0.1", "--delta", "1e-9", out=out)
    refusal = capsys.readouterr().err
    assert last == 2, "three times 0.1 is more than 0.3"
    assert "at most the epsilon=0.0999999, delta=7.99999e-09 that" in refusal, "rounded up, it would be refused"
    assert main(["ledger", "show", "people.ledger"]) == 0
    assert main(["ledger", "raise", "people.ledger", "--epsilon", "0.4"]) == 0
    assert release("--epsilon", "0.1", "--delta", "1e-9", out="three") == 0
    printed = capsys.readouterr().out
    assert "spent   epsilon=0.2, delta=2e-09\nleft    epsilon=0.0999999, delta=7.99999e-09\n" in printed, "it fits"
    assert "total now epsilon=0.4, delta=1e-08, spent epsilon=0.2, delta=2e-09\n" in printed
    assert "spent in all: epsilon=0.3, delta=3e-09 of epsilon=0.4, delta=1e-08 (ledger" in printed
    with Ledger.open(folder / "people.ledger") as ledger:
        assert str(ledger.spent) != f"{ledger.spent:.6g}" == "epsilon=0.3, delta=3e-09"
        assert f"{ledger.spent}" == str(ledger.spent)
    Ledger.open(folder / "new", ApproxDP(0.3, 1e-9)).close()
    capsys.readouterr()
    assert main(["ledger", "show", "new"]) == 0
    assert "left    epsilon=0.3, delta=1e-09\n" in capsys.readouterr().out


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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("on", [io.StringIO, Terminal])
def test_what_takes_long_is_seen_on_a_terminal_alone(on: type[io.StringIO]) -> None:
    seen = on()
    with contextlib.redirect_stderr(seen):
        with elapsed("short"):
            pass
        assert "short" not in seen.getvalue()
        with elapsed("releasing"):
            deadline = time.monotonic() + (10 if seen.isatty() else SILENT + 0.3)
            while "releasing: 00:0" not in seen.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
    assert ("releasing: 00:0" in seen.getvalue()) == seen.isatty()


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
