"""`qrelease serve` as a process of its own, over the table of `serving`."""

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
from serving import TABLE

from qrelease.data import schema as schemas
from qrelease.data.sources.csv import write_csv


def write_table(folder):
    """The table and its schema, as files."""
    write_csv(folder / "people.csv", TABLE.domain, TABLE.columns, np.random.default_rng(0))
    written = schemas.to_toml(TABLE.domain).replace("reviewed = false", "reviewed = true")
    (folder / "people.toml").write_text(written)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Host:
    """One `qrelease serve`."""

    def __init__(self, folder: Path, ledger: str, workers: int = 1, port: int | None = None, *more: str) -> None:
        self.port = port or free_port()
        options = "--data people.csv --schema people.toml --neighbours replace-one --epsilon 1 --rate 1e6"
        command = [sys.executable, "-m", "qrelease", "serve", *options.split(), "--ledger", ledger]
        command += ["--port", str(self.port), "--workers", str(workers), *more]
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
