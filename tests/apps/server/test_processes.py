"""Who listens and who works: starts that fail, and workers that end."""

import os
import signal
import socket
import time

import pytest
from serving import Client, admit, worker

from qrelease.apps.cli import main
from qrelease.apps.server import processes
from qrelease.privacy.ledger import SharedJournal

WOMEN = {"where": "sex = 'F'"}


def test_an_idle_worker_keeps_up_with_the_others(path, monkeypatch):
    """So that it need not read and learn it all when somebody waits."""
    read, seen = SharedJournal.read, []

    def reading(journal):
        news = read(journal)
        seen.extend(news)
        return news

    with worker(path, seed=1) as one, worker(path, seed=2):
        monkeypatch.setattr(SharedJournal, "read", reading)
        Client(one, admit(path, "ada")).ask(WOMEN)
        deadline = time.monotonic() + 10
        while len(seen) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(seen) == 2  # a purchase and what came of it; who wrote them does not read them


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--data": "nothing.csv"}, "nothing.csv cannot be read"),
        ({"--schema": "nothing.toml"}, "nothing.toml cannot be read"),
        ({"--port": "taken"}, "cannot listen on 127.0.0.1 port"),
        ({"--port": "-1"}, "cannot listen on 127.0.0.1 port -1"),
        ({"--workers": "0"}, "workers must be at least 1, got 0"),
        ({"--alpha": "2"}, "alpha"),
        ({"--alpha": "1e-11"}, "alpha * records must be at least 2 counts"),
        ({"--epsilon": "0"}, "epsilon must be positive"),
        ({"--epsilon": "1e-9"}, "too few records for answers"),
        ({"--rate": "nan"}, "rate must be in 0.001..1e+09, got nan"),
        ({"--rate": "0"}, "rate must be in"),
        ({"--rate": "-1"}, "rate must be in"),
        ({"--session": ""}, "session must be a text that is not empty"),
        ({"--session": "a\udc80"}, "session must be a text that is not empty, got 'a\\udc80'"),
        ({"--dataset": ""}, "dataset must be a text that is not empty"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(tmp_path, capsys, change, said):
    (tmp_path / "people.csv").write_text("sex\n1\n")
    (tmp_path / "people.json").write_text('{"sex": 2}')
    options = {"--data": "people.csv", "--schema": "people.json", "--ledger": "people.ledger", "--epsilon": "1"}
    options |= {"--port": "0", **change}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {"taken": str(taken.getsockname()[1])}
        files_ = {k: str(tmp_path / v) if k in ("--data", "--schema", "--ledger") else v for k, v in options.items()}
        arguments = [part for k, v in files_.items() for part in (k, values.get(v, v))]
        assert main(["serve", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    assert not (tmp_path / "people.ledger").exists()


def test_workers_that_end_at_once_are_not_replaced_for_ever(monkeypatch):
    started, slept = [], []

    def fork():
        started.append(1)
        return len(started)

    def sleep(_):
        slept.append(1)
        if len(slept) == 100:
            raise KeyboardInterrupt

    monkeypatch.setattr(processes.os, "fork", fork)
    monkeypatch.setattr(processes.os, "waitpid", lambda process, _: (process, 1 << 8))
    monkeypatch.setattr(processes.os, "kill", lambda *_: None)
    monkeypatch.setattr(processes.time, "sleep", sleep)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        processes.supervise(None, None, listening, 2)
    assert len(started) == 2 + processes.SPARE_WORKERS


def test_a_worker_that_was_at_work_is_replaced_at_once_however_often_it_is_killed(monkeypatch, caplog):
    """And the log says so. Here a worker says that it is at work, and is killed."""
    pause, until, told = time.sleep, time.monotonic() + 20, []

    def work(*_, begun, **__):
        begun()
        os.kill(os.getpid(), signal.SIGKILL)

    def said():
        return [r.message for r in caplog.records if "ended by signal 9; another takes its place" in r.message]

    def sleep(_):
        pause(0.002)
        if not told and (len(said()) > 2 * processes.SPARE_WORKERS or time.monotonic() > until):
            told.append("to stop")
            raise KeyboardInterrupt

    monkeypatch.setattr(processes, "_work", work)
    monkeypatch.setattr(processes.time, "sleep", sleep)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        processes.supervise(None, None, listening, 2)
    assert len(said()) > 2 * processes.SPARE_WORKERS
