"""Servers on several hosts over one ledger: two processes with a listening socket each, and what they share.

The balancer is the test, which sends each request to the one or the other.
"""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from serving import TABLE

from qrelease.apps.cli import main
from qrelease.data import schema as schemas
from qrelease.data.sources.csv import write_csv
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger

pytestmark = pytest.mark.slow


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Host:
    """One `qrelease serve`."""

    def __init__(self, folder: Path, ledger: str, workers: int = 1) -> None:
        self.port = free_port()
        options = "--data people.csv --schema people.toml --neighbours replace-one --epsilon 1 --rate 1e6"
        command = [sys.executable, "-m", "qrelease", "serve", *options.split(), "--ledger", ledger]
        command += ["--port", str(self.port), "--workers", str(workers)]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def ready(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError):
                if self.send("/health")[0] == 200:
                    return
            time.sleep(0.1)

    def send(self, path, token=None, key=None, body=None):
        headers = {"content-type": "application/json"} | ({"idempotency-key": key} if key else {})
        headers |= {"authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def ask(self, query, token, key):
        return self.send("/v1/query", token, key, {"where": query})

    def stop(self) -> str:
        self.process.terminate()
        said, _ = self.process.communicate(timeout=30)
        return said


@pytest.fixture
def hosts(postgres, tmp_path):
    """Two of them, and the address of their ledger."""
    write_csv(tmp_path / "people.csv", TABLE.domain, TABLE.columns, np.random.default_rng(0))
    written = schemas.to_toml(TABLE.domain).replace("reviewed = false", "reviewed = true")
    (tmp_path / "people.toml").write_text(written)
    ledger = postgres.url(f"s{secrets.token_hex(6)}")
    started = [Host(tmp_path, ledger)]
    try:
        started[0].ready()
        started.append(Host(tmp_path, ledger, workers=2))
        started[1].ready()
        yield started, ledger
    finally:
        for host in started:
            if host.process.poll() is None:
                host.process.kill()
            host.process.stdout.close()
            host.process.wait()


def test_two_hosts_are_one_service(hosts, postgres, capsys, tmp_path):
    (first, second), ledger = hosts
    queries = ["sex = 'F'", "grade = 0", "sex = 'F' and grade = 1"]
    assert main(["analyst", "add", "ada", "--ledger", ledger, "--epsilon", "0.5"]) == 0
    token = capsys.readouterr().out.strip()

    def spent():
        with Ledger.open(ledger) as opened:
            return opened.spent, len(opened.history())

    # An idempotency key is one on all hosts: the same bytes, charged once.
    status, answer = first.ask(queries[0], token, "key-1")
    assert status == 200, answer
    before = spent()
    assert second.ask(queries[0], token, "key-1") == (200, answer)
    assert second.ask(queries[1], token, "key-1")[0] == 409
    # What one bought is known to the other: an answer is cached once.
    status, known = second.ask(queries[0], token, "key-2")
    assert (status, json.loads(known)["answers"][0]["value"]) == (200, json.loads(answer)["answers"][0]["value"])
    assert json.loads(known)["answers"][0]["cost"] is None
    assert spent() == before
    # Turns, from both at once.
    for i, query in enumerate(queries * 3):
        assert (first, second)[i % 2].ask(query, token, f"turn-{i}")[0] == 200
    budgets = [json.loads(host.send("/v1/budget", token)[1]) for host in (first, second)]
    assert budgets[0] == budgets[1]
    # A host that is killed in between leaves the other answering, with all that was shown.
    first.process.send_signal(signal.SIGKILL)
    assert second.ask(queries[0], token, "key-1") == (200, answer)
    # A revoked analyst is one on every host.
    assert main(["analyst", "revoke", "ada", "--ledger", ledger]) == 0
    assert second.ask(queries[0], token, "key-3")[0] == 401
    # The server of the ledger crashes, and the host goes on when it is back.
    assert main(["analyst", "reissue", "ada", "--ledger", ledger]) == 0
    token = capsys.readouterr().out.strip()
    postgres.stop()
    assert second.ask(queries[0], token, "key-4")[0] == 503
    postgres.start()
    deadline = time.monotonic() + 60
    while second.ask(queries[0], token, "key-1")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert second.ask(queries[0], token, "key-1") == (200, answer)
    said = second.stop()
    assert postgres.password not in said
    assert "fault" not in said
    with Ledger.open(ledger) as opened:
        assert opened.total == PureDP(1.0)
        assert os.fspath(tmp_path) not in str(opened.store.place)
