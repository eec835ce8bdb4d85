"""A server of several datasets reads its file again: nobody is refused meanwhile, and a wrong file changes nothing."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from host_process import Host, free_port, write_table
from serving import admit

pytestmark = pytest.mark.slow

DATASET = """
[datasets.{name}]
data = "{name}.csv"
schema = "people.toml"
ledger = "{name}.ledger"
epsilon = 1
neighbours = "replace-one"
"""


class Served(Host):
    """`qrelease serve serve.toml`, of some of the datasets `people`, `staff` and `guests`."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        write_table(folder)
        for name in ("staff", "guests"):
            (folder / f"{name}.csv").write_bytes((folder / "people.csv").read_bytes())
        self.write("people", "staff")
        command = [sys.executable, "-m", "qrelease", "serve", str(folder / "serve.toml")]
        with (folder / "said").open("w") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)

    def write(self, *names, more=""):
        settings = f"[server]\nport = {self.port}\nworkers = 2\nrate = 1e6\n{more}"
        (self.folder / "serve.toml").write_text(settings + "".join(DATASET.format(name=name) for name in names))

    def reload(self, until):
        """Tell it to read its file, and wait until it says something that it did not say before."""
        before = self.told().count(until)
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 120
        while self.told().count(until) == before:
            assert time.monotonic() < deadline, self.told()
            assert self.process.poll() is None, self.told()
            time.sleep(0.05)

    def ready(self):
        """Once it takes requests."""
        deadline = time.monotonic() + 120
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if self.send("/health")[0] == 200:
                    return
            time.sleep(0.1)
        raise AssertionError(self.told())

    def errors(self):
        """What the last reload said of the records."""
        file = self.folder / "serve.toml.errors"
        assert file.stat().st_mode & 0o777 == 0o600
        return file.read_text()

    def told(self):
        return (self.folder / "said").read_text()

    def slowly(self, token, key):
        """A query whose body comes in two parts."""
        body = json.dumps({"where": "sex = 'F'"}).encode()
        head = "POST /datasets/people/v1/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {token}\r\nIdempotency-Key: {key}\r\nConnection: close\r\n"
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as link:
            link.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
            time.sleep(0.5)
            link.sendall(body[5:])
            return int(link.makefile("rb").readline().split()[1])


@contextlib.contextmanager
def clients(*works):
    """What comes of works that are done again and again, each in a thread, until the end."""
    over, outcomes = threading.Event(), []

    def repeat(number, work):
        for turn in range(1_000_000):
            if over.is_set():
                break
            try:
                outcomes.append(work(f"{number}-{turn}"))
            except OSError as error:
                outcomes.append(error)

    threads = [threading.Thread(target=repeat, args=item) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    try:
        yield outcomes
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_reload_opens_and_closes_datasets_and_refuses_nobody(tmp_path):
    server = Served(tmp_path)
    try:
        server.ready()
        ada, bob = admit(tmp_path / "people.ledger", "ada"), admit(tmp_path / "staff.ledger", "bob")
        assert server.send("/datasets/staff/v1/budget", bob)[0] == 200

        def quickly(key):
            time.sleep(0.02)
            return server.send("/datasets/people/v1/query", ada, key, {"where": "sex = 'M'"})[0]

        slow = [lambda key: server.slowly(ada, key)] * 2
        with clients(*slow, quickly, quickly) as outcomes:
            server.write("people", "guests")
            server.reload("the file was read again")
            time.sleep(1)
        assert len(outcomes) > 20
        assert set(outcomes) == {200}
        assert server.send("/datasets/staff/v1/budget", bob)[0] == 401
        cy = admit(tmp_path / "guests.ledger", "cy")
        assert json.loads(server.send("/v1/datasets", cy)[1]) == {"datasets": ["guests"]}
        assert server.send("/datasets/guests/v1/budget", cy)[0] == 200
        deadline = time.monotonic() + 30
        while (tmp_path / "staff.ledger-wal").exists():  # SQLite's, until the last connection is closed
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        server.process.terminate()
        assert server.process.wait(40) == 0
    assert not [*tmp_path.glob("*-wal")]


def test_a_wrong_file_leaves_the_service_and_says_why(tmp_path):
    server = Served(tmp_path)
    try:
        server.ready()
        ada = admit(tmp_path / "people.ledger", "ada")
        server.write("people", "staff", "nobody")
        server.reload("the service goes on as it was")
        assert "nobody.csv cannot be read: No such file or directory" in server.errors()
        server.write("people", more="alpha = 1\n")
        server.reload("[server]: unrecognized arguments: alpha=1; the service goes on as it was")
        server.write("people", more="host = '127.0.0.2'\n")
        server.reload("host, port and metrics-port can change only at a new start; the service goes on as it")
        (tmp_path / "serve.toml").unlink()
        server.reload("serve.toml cannot be read: No such file or directory; the service goes on as it was")
        assert server.send("/datasets/people/v1/budget", ada)[0] == 200
        server.write("people")
        server.reload("the file was read again")
        assert server.send("/datasets/people/v1/budget", ada)[0] == 200
    finally:
        server.process.terminate()
        assert server.process.wait(40) == 0


def test_what_a_reload_says_of_the_records_is_for_the_holder_and_in_no_log(tmp_path):
    server = Served(tmp_path)
    try:
        server.ready()
        ada = admit(tmp_path / "people.ledger", "ada")
        rows = (tmp_path / "staff.csv").read_text()
        (tmp_path / "staff.csv").write_text(f"{rows}Zyxwv{rows.splitlines()[-1]}\n")
        server.reload("the service goes on as it was")
        assert "Zyxwv" in server.errors()
        assert "staff.csv line" in server.errors()
        assert server.send("/datasets/people/v1/budget", ada)[0] == 200
        (tmp_path / "staff.csv").write_text(rows + rows.splitlines()[-1] + "\n")  # another record: the session stops
        server.reload("the service goes on as it was")
        assert "staff" in server.errors()
        assert "Zyxwv" not in server.errors()
        (tmp_path / "staff.csv").write_text(rows)
        server.reload("the file was read again")
        assert not (tmp_path / "serve.toml.errors").exists()
        told = server.told()
        assert "Zyxwv" not in told
        assert "records have changed" not in told
        assert f"what is to be said of the records is in {tmp_path}/serve.toml.errors, for its owner alone" in told
    finally:
        server.process.terminate()
        assert server.process.wait(40) == 0


def test_what_serves_ends_with_the_process_that_was_started(tmp_path):
    server = Served(tmp_path)
    try:
        server.ready()
    finally:
        server.process.kill()
        server.process.wait()
    deadline = time.monotonic() + 20
    while answers(server):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def answers(server):
    # What ends in the middle of an answer breaks it off: an HTTPException, not an OSError.
    with contextlib.suppress(OSError, http.client.HTTPException):
        return server.send("/health")[0] == 200
    return False
