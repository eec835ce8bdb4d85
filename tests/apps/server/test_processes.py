"""Who listens and who works: starts that fail, and workers that end."""

import math
import os
import signal
import socket
import time

import pytest
from instead import Instead
from serving import Client, admit, worker

from qrelease.apps.server import processes
from qrelease.apps.server.service import Service
from qrelease.privacy import PureDP

WOMEN = {"where": "sex = 'F'"}


def test_an_idle_worker_keeps_up_with_the_others(path):
    """So that it need not read and learn it all when somebody waits."""
    known = []

    def watched(session, analysts):
        service = Service(session, analysts)
        return Instead(service, catch_up=lambda: (service.catch_up(), known.append(session.spent))[0])

    with worker(path, seed=1) as one, worker(path, seed=2, service_of=watched):
        asked = Client(one, admit(path, "ada")).ask(WOMEN).json["answers"][0]
        deadline = time.monotonic() + 10
        while (not known or known[-1] is None) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert known[-1] == PureDP(asked["cost"]["epsilon"])


@pytest.fixture
def supervised(monkeypatch):
    """Real workers under a supervisor until there are enough of something, or time is up; then it is interrupted."""

    def supervise(listening, enough, seconds=20.0):
        pause, until, stopped = time.sleep, time.monotonic() + seconds, []

        def look(_):
            pause(0.002)
            if not stopped and (enough() or time.monotonic() > until):
                stopped.append("once")
                raise KeyboardInterrupt

        monkeypatch.setattr(processes.time, "sleep", look)
        processes.supervise(None, None, listening, 2)

    return supervise


def test_workers_that_end_at_once_are_not_replaced_for_ever(supervised, caplog):
    """These end with status 1 before they are at work, since there is nothing that they could serve."""
    most, reached, begun = 2 + processes.SPARE_WORKERS, [], time.monotonic()

    def enough():
        if len(ended(caplog, "with status 1")) >= most:
            reached.append(time.monotonic())
        return reached and time.monotonic() > reached[0] + 0.3  # and none follows, but one every few seconds

    with socket.create_server(("127.0.0.1", 0)) as listening:
        supervised(listening, enough)
    later = math.ceil((time.monotonic() - begun) / processes.RESTART_SECONDS)
    assert most <= len(ended(caplog, "with status 1")) <= most + later


def ended(caplog, how):
    """What the log says of workers that ended so and are replaced."""
    return [r.message for r in caplog.records if f"ended {how}; another takes its place" in r.message]


def test_a_worker_that_was_at_work_is_replaced_at_once_however_often_it_is_killed(supervised, monkeypatch, caplog):
    """And the log says so. Here a worker says that it is at work, and is killed."""

    def work(*_, begun, **__):
        begun()
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(processes, "_work", work)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        supervised(listening, lambda: len(ended(caplog, "by signal 9")) > 2 * processes.SPARE_WORKERS)
    assert len(ended(caplog, "by signal 9")) > 2 * processes.SPARE_WORKERS
