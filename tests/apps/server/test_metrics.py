"""What a server did, as Prometheus reads it: what is counted, who may look, and what is not in it."""

import re
import socket
import urllib.error
import urllib.request

import pytest
from host_process import Host, free_port, write_table
from serving import TABLE, admit, spent, worker
from wire import listening_server

import qrelease as qr
from qrelease.apps.server.metrics import Meters
from qrelease.apps.server.shapes import Account

LINE = re.compile(r'(?P<name>[a-z_]+)(\{(?P<labels>[a-z]+="[^"]*"(,[a-z]+="[^"]*")*)\})? (?P<value>[0-9.e+-]+)')


def read(port):
    """All samples by their names with labels, and each is announced before it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return samples(response.read().decode())


def samples(text):
    assert text.endswith("\n")
    found, announced = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            announced.add(line.split()[2])
        elif not line.startswith("#"):
            sample = LINE.fullmatch(line)
            assert sample, line
            assert re.sub("_(bucket|sum|count)$", "", sample["name"]) in announced
            found[line.rpartition(" ")[0]] = float(sample["value"])
    return found


def requests(found, method, route, status):
    return found.get(f'qrelease_requests_total{{method="{method}",route="{route}",status="{status}"}}', 0)


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_requests_charges_and_what_is_spent_are_counted(path, listening):
    meter = Meters.of(1, listening).meter(0)
    with worker(path, meter=meter) as app, listening_server(app, meter) as port:
        with qr.connect(f"http://127.0.0.1:{port}", admit(path, "ada")) as client:
            client.ask("sex = 'F'", key="mine")
            client.ask("sex = 'F'", key="mine")
            client.ask("grade = 1")
            with pytest.raises(qr.InvalidInput):
                client.ask("salary = 3")
            found = read(meter.meters.port)
        assert requests(found, "POST", "/v1/query", 200) == 3
        assert requests(found, "POST", "/v1/query", 422) == 1
        assert found["qrelease_charges_total"] == 2
        assert found["qrelease_connections"] == 2
        assert found['qrelease_budget_spent{parameter="epsilon"}'] == spent(path)
        assert found['qrelease_budget_total{parameter="epsilon"}'] == 1
        named = 'method="POST",route="/v1/query"'
        buckets = [v for k, v in found.items() if k.startswith(f"qrelease_request_seconds_bucket{{{named}")]
        assert buckets == sorted(buckets)
        assert buckets[-1] == found[f"qrelease_request_seconds_count{{{named}}}"] == 4
        assert found[f"qrelease_request_seconds_sum{{{named}}}"] > 0
        with pytest.raises(urllib.error.HTTPError, match="404"):  # where analysts ask there are none
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")


def test_names_of_people_analysts_and_tables_are_not_in_it(path, listening):
    meters = Meters.of(1, listening)
    meter = meters.meter(0)
    with worker(path, meter=meter) as app, listening_server(app, meter) as port:
        token = admit(path, "adalovelace")
        with qr.connect(f"http://127.0.0.1:{port}", token) as client:
            client.ask("sex = 'F'")
        text = "\n".join(read(meters.port))
    for secret in ("adalovelace", token, "sex", str(len(TABLE)), "people"):
        assert secret not in text


def test_workers_add_up_and_one_in_anothers_place_goes_on(listening):
    meters = Meters.of(2, listening)
    for i in range(2):
        meters.meter(i).answered("budget", 200, 0.02)
        meters.meter(i).connected(3)
    meters.meter(1).answered("budget", 200, 20.0)
    found = samples(meters.text(Account({"rho": 0.5}, {"rho": 0.0}, {"rho": 0.5}, 0)))
    assert requests(found, "GET", "/v1/budget", 200) == 3
    assert found["qrelease_connections"] == 3
    named = 'method="GET",route="/v1/budget",le'
    slow, fast = (found[f'qrelease_request_seconds_bucket{{{named}="{end}"}}'] for end in ("+Inf", "0.025"))
    assert (fast, slow) == (2, 3)
    assert found['qrelease_budget_spent{parameter="rho"}'] == 0
    assert not [name for name in samples(meters.text(None)) if "budget_" in name]


@pytest.mark.slow
def test_two_workers_say_what_both_did(tmp_path):
    write_table(tmp_path)
    metrics = free_port()
    host = Host(tmp_path, "people.ledger", 2, None, "--metrics-port", str(metrics))
    try:
        host.ready()
        token = admit(tmp_path / "people.ledger", "ada")
        for _ in range(8):
            with qr.connect(f"http://127.0.0.1:{host.port}", token) as client:
                client.budget()
        assert {requests(read(metrics), "GET", "/v1/budget", 200) for _ in range(8)} == {8}
        assert host.send("/metrics")[0] == 404
    finally:
        host.stop()
