"""Servers on several hosts over one ledger: two processes with a listening socket each, and what they share.

The balancer is the test, which sends each request to the one or the other.
"""

import json
import os
import secrets
import signal
import time

import pytest
from host_process import Host, write_table

from qrelease.apps.cli import main
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger

pytestmark = pytest.mark.slow


@pytest.fixture
def hosts(postgres, tmp_path):
    """Two of them, and the address of their ledger."""
    write_table(tmp_path)
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
    assert main(["analyst", "reissue", "ada", "--ledger", ledger]) == 2
    capsys.readouterr()
    assert main(["analyst", "reissue", "ada", "--restore", "--ledger", ledger]) == 0
    token = capsys.readouterr().out.strip()
    postgres.stop()
    assert second.ask(queries[0], token, "key-4")[0] == 503
    postgres.start()
    deadline, in_a_row = time.monotonic() + 60, 0
    while in_a_row < 10:  # each of its two workers finds its own connection lost, and says so once
        assert time.monotonic() < deadline
        status, said = second.ask(queries[0], token, "key-1")
        assert (status, said) == (200, answer) or status == 503
        in_a_row = in_a_row + 1 if status == 200 else 0
        time.sleep(0.0 if status == 200 else 0.2)
    said = second.stop()
    assert postgres.password not in said
    assert "fault" not in said
    with Ledger.open(ledger) as opened:
        assert opened.total == PureDP(1.0)
        assert os.fspath(tmp_path) not in str(opened.store.place)
