"""The server under load and under fire: rates, latencies, and whether every answer has its charge after kill -9.

    python -m benchmarks.server [--phases paid,paused,free,storm,fire] [--clients 64] [--workers 2] [--requests 100000]
                                [--kills 300] [--servers 32] [--json]

A table of 100 000 records, made up; all clients and the server share this machine's cores. Phases:

    paid   distinct queries, so that all are bought, whose charges are durable before they are answered: of a universe
           that is too large for anything but buying them one by one, and, `with a hypothesis` to be kept, of one where
           that lasts for 160 queries, until a synopsis is due, so of several servers; in closed loops, where many
           clients wait for each other, and by clients that pause before they ask, about a hundred times a second all
           together
    paused of these the clients that pause alone
    free   answers that are cached
    storm  clients of eight analysts whose budgets end, and so does the server's, with repeats under old keys, on a
           universe that is too large for a synopsis
    fire   a server that pays all the time, whose workers are killed and, in one of twenty cases, all of it; each twenty
           kills meet a new ledger

After the last two the books are compared: what was answered with what the ledger's file holds, key by key and byte by
byte, and the costs of the answers with what was spent. Ends with 1 if they do not agree. Each paid answer waits for one
fsync at least: `fsync` is what one takes, of a page written to a file's end, just before and just after, on the same
disk; and `ratio`, p99 over p99. `cpu_ms` is the processor time of the workers for each request, which depends less than
latencies do on what else the machine does. `idle` is how many cores nobody used before it began: where they are fewer
than all, latencies are those of a machine that does something else.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import signal
import socket
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from qrelease.data import schema
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.sources.csv import write_csv
from qrelease.privacy import PureDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.ledger import Ledger

ANALYSTS = 8
RECORDS = 100_000
VALUES = 4  # of each column
PAID = 160  # queries before a synopsis is due, which answers all others
STORM = 40.0  # what all may cost where a synopsis answers nothing: some 11 000 answers
PAUSE = 0.08  # seconds, on average, that an analyst thinks


class Lost(Exception):  # noqa: N818
    """The connection ended before the answer."""


class Client:
    """One connection, kept open; HTTP/1.1 with lengths, just as much as is needed to be no bottleneck."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: object, key: str | None = None) -> tuple[int, bytes]:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        head += f"Idempotency-Key: {key}\r\n\r\n" if key else "\r\n"
        try:
            if self.stream is None:
                self.stream = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = self.stream
            writer.write(head.encode() + content)
            found = await reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in found.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            return int(found.split(b" ", 2)[1]), await reader.readexactly(int(lengths[0].split(b":")[1]))
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise Lost from None

    def close(self) -> None:
        if self.stream is not None:
            self.stream[1].close()
            self.stream = None


@dataclass
class Server:
    """A server of its own, in a temporary folder, as a process of this one."""

    folder: Path
    workers: int
    columns: int
    cap: float
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    tokens: list[str] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)

    @property
    def ledger(self) -> Path:
        return self.folder / "people.ledger"

    @property
    def said(self) -> Path:
        """What it writes to stderr: shown at its end, but for warnings, that of the large ε above all, and kills."""
        return self.folder / "said"

    def start(self) -> None:
        """Start it and wait until it answers; how long that took is the last of `starts`."""
        begun = time.perf_counter()
        options = [
            "--data",
            "people.csv",
            "--schema",
            "people.toml",
            "--ledger",
            "people.ledger",
            "--epsilon",
            str(self.cap),
        ]
        options += ["--alpha", "0.02", "--beta", "0.001", "--rate", "1e6"]
        command = [sys.executable, "-m", "qrelease", "serve", *options, "--neighbours", "replace-one", "--weak"]
        command += ["--port", str(self.port), "--workers", str(self.workers)]
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=said)
        while not healthy(self.port):
            if self.process.poll() is not None or time.perf_counter() - begun > 60:
                raise SystemExit(f"the server does not start: {self.said.read_text()}")
            time.sleep(0.005)
        self.starts.append(time.perf_counter() - begun)

    def budget(self, analyst: int) -> float:
        """The first may spend it all, the others so little that theirs end."""
        return self.cap if analyst == 0 else self.cap / 16

    def children(self) -> list[int]:
        assert self.process is not None
        pid = self.process.pid
        with contextlib.suppress(FileNotFoundError):
            return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    def cpu(self) -> float:
        """Seconds of processor time that its workers took so far."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.children()]
        return sum(int(user) + int(system) for user, system in (s[11:13] for s in stats)) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        make_table(self.folder, self.columns)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()
        with Ledger.open(self.ledger) as ledger:
            analysts = Analysts(ledger)
            self.tokens = [analysts.add(f"analyst-{i}", PureDP(self.budget(i))) for i in range(ANALYSTS)]
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
        said = self.said.read_text().splitlines(keepends=True)
        expected = re.compile(r"warning:|.*: worker \d+ ended by signal 9; another takes its place$")
        sys.stderr.writelines(line for line in said if not expected.match(line))


def healthy(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as link:
        link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return link.recv(64).startswith(b"HTTP/1.1 200")
    return False


def make_table(folder: Path, columns: int) -> None:
    names = string.ascii_lowercase[:columns]
    domain = Domain(tuple(Attribute(name, "coded", codes=VALUES, ordered=True) for name in names))
    rng = np.random.default_rng(0)
    drawn = [(VALUES * rng.random(RECORDS) ** 2).astype(np.uint8) for _ in names]
    write_csv(folder / "people.csv", domain, drawn, rng)
    (folder / "people.toml").write_text(schema.to_toml(domain).replace("reviewed = false", "reviewed = true"))


def conditions(columns: int, count: int) -> list[str]:
    """Different conditions on three columns or more, at random."""
    rng = random.Random(0)
    found: dict[str, None] = {}
    while len(found) < count:
        names = sorted(rng.sample(string.ascii_lowercase[:columns], rng.randint(3, min(columns, 6))))
        sets = [sorted(rng.sample(range(VALUES), rng.randint(1, VALUES - 1))) for _ in names]
        terms = (f"{n} in {{{', '.join(map(str, values))}}}" for n, values in zip(names, sets, strict=True))
        found[" and ".join(terms)] = None
    return list(found)


@dataclass
class Log:
    """What clients saw: how long each answer took, in seconds, and by (analyst, key) the bytes of each."""

    times: list[float] = field(default_factory=list)
    answers: dict[tuple[int, str], bytes] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    lost: int = 0

    def saw(self, analyst: int, key: str, status: int, reply: bytes) -> None:
        named = str(status)
        if status == 200:
            again = "again" if (analyst, key) in self.answers else "free" if b'"cost": null' in reply else "paid"
            named = f"200 {again}"
        self.statuses[named] = self.statuses.get(named, 0) + 1
        if status == 200:
            if self.answers.setdefault((analyst, key), reply) != reply:
                self.wrong.append(f"key {key}: two answers")
        elif status not in (402, 503):
            self.wrong.append(f"key {key}: status {status}: {reply[:200]!r}")


Stream = Callable[[int], tuple[str, str]]
"""For an analyst, the key of the next request and its condition."""


async def load(server: Server, clients: int, requests: int, stream: Stream, log: Log, pause: float = 0.0) -> float:
    """So many clients in closed loops; what is lost, or refused for now, is asked again. The seconds that it took.

    pause  the mean of the exponential times that each waits before it asks again, in seconds
    """
    left, rng = iter(range(requests)), random.Random(2)

    async def one(analyst: int) -> None:
        client = Client(server.port, server.tokens[analyst])
        for _ in left:
            await asyncio.sleep(rng.expovariate(1 / pause) if pause else 0)
            key, text = stream(analyst)
            status = 503
            while status == 503:
                begun = time.perf_counter()
                try:
                    status, reply = await client.ask("/v1/query", {"where": text}, key)
                except Lost:
                    log.lost += 1
                    await asyncio.sleep(0.02)
                    continue
                log.times.append(time.perf_counter() - begun)
                log.saw(analyst, key, status, reply)
        client.close()

    begun = time.perf_counter()
    await asyncio.gather(*(one(i % ANALYSTS) for i in range(clients)))
    return time.perf_counter() - begun


def fresh(texts: Iterator[str]) -> Stream:
    return lambda _: (os.urandom(8).hex(), next(texts))


def mixed(texts: list[str]) -> Stream:
    """Queries at random, and one in five the repetition of an earlier request under its key."""
    rng = random.Random(1)
    past: dict[int, list[tuple[str, str]]] = {i: [] for i in range(ANALYSTS)}

    def choose(analyst: int) -> tuple[str, str]:
        if past[analyst] and rng.random() < 0.2:
            return rng.choice(past[analyst])
        past[analyst].append((os.urandom(8).hex(), rng.choice(texts)))
        return past[analyst][-1]

    return choose


async def fire(server: Server, kills: int) -> None:
    """Kill a worker at a time, and in the end the whole server, which is then started again: so many kills in all."""
    rng, killed = random.Random(2), 0
    while killed < kills - 1:
        await asyncio.sleep(rng.uniform(0.05, 0.35))
        if children := server.children():  # else none has started anew yet
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(children), signal.SIGKILL)
                killed += 1
    await asyncio.sleep(rng.uniform(0.05, 0.35))
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    await asyncio.to_thread(server.start)


def books(server: Server, log: Log) -> dict[str, Any]:
    """What the file says, against what the clients saw; everything but the first two figures has to be 0."""
    print(*log.wrong[:5], sep="\n", end="", file=sys.stderr)
    with Ledger.open(server.ledger) as ledger:
        analysts = Analysts(ledger)
        written: dict[tuple[int, str], bytes] = {}
        for i in range(ANALYSTS):
            name, first = f"analyst-{i}", 1
            while page := analysts.requests(name, first, 1000):
                written.update({(i, r.key): r.response for r in page})
                first += len(page)
        spent = ledger.spent.to_json()["epsilon"] if ledger.spent else 0.0
        ledger.history()
        missing = sum(written.get(name) != reply for name, reply in log.answers.items())
        paid = dict.fromkeys(range(ANALYSTS), 0.0)
        for (i, _), reply in written.items():
            paid[i] += sum((a["cost"] or {}).get("epsilon", 0.0) for a in json.loads(reply)["answers"])
    wrong = {
        "answers that the file does not hold": missing,
        "difference of charges and costs of answers": round(abs(spent - sum(paid.values())), 9),
        "analysts over their budget": sum(paid[i] > server.budget(i) + 1e-9 for i in paid),
        "over the total": int(spent > server.cap),
        "wrong replies": len(log.wrong),
    }
    return {"requests in the file": len(written), "spent": spent, **wrong, "wrong": sum(wrong.values())}


def quantiles(log: Log) -> dict[str, float]:
    times = sorted(log.times)
    found = {f"p{q}_ms": round(1e3 * times[len(times) * q // 100], 2) for q in (50, 99)}
    return {**found, "max_ms": round(1e3 * times[-1], 2)}


async def phase(server: Server, clients: int, requests: int, stream: Stream, log: Log) -> dict[str, Any]:
    took = await load(server, clients, requests, stream, log)
    rate = {"seconds": round(took, 1), "per_second": round(requests / took)}
    return {"clients": clients, "requests": requests, **rate, **quantiles(log)}


async def paid(servers: int, requests: int, columns: int, workers: int, clients: int, pause: float) -> dict[str, Any]:
    """Each query for the first time."""
    log, disk, idle, took, cpu = Log(), Log(), idle_cores(), 0.0, 0.0
    for _ in range(servers):
        with tempfile.TemporaryDirectory() as folder, Server(Path(folder), workers, columns, STORM) as server:
            fsyncs(Path(folder), disk)
            before = server.cpu()
            took += await load(server, clients, requests, fresh(iter(conditions(columns, requests))), log, pause)
            cpu += server.cpu() - before
            fsyncs(Path(folder), disk)
    asked = {"clients": clients, "pause_s": pause, **log.statuses, "per_second": round(servers * requests / took)}
    answered, synced = quantiles(log), quantiles(disk)
    return {
        **asked,
        **answered,
        "fsync": synced,
        "ratio": round(answered["p99_ms"] / synced["p99_ms"], 2),
        "cpu_ms": round(1e3 * cpu / (servers * requests), 2),
        "idle": idle,
    }


def idle_cores() -> float:
    """For a second."""

    def idle() -> int:
        return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[4])

    before = idle()
    time.sleep(1)
    return (idle() - before) / os.sysconf("SC_CLK_TCK")


def fsyncs(folder: Path, log: Log) -> None:
    """What 100 appended and synced pages take, each."""
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(100):
            begun = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            log.times.append(time.perf_counter() - begun)


async def under_fire(arguments: argparse.Namespace, kills: int) -> dict[str, Any]:
    """Some kills of one server, its books, and what was seen."""
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder), arguments.workers, 8, 5.0) as server:
        log, stream, requests = Log(), mixed(conditions(8, 20_000)), 0
        killer = asyncio.create_task(fire(server, kills))
        while not killer.done():
            await load(server, arguments.clients, arguments.clients, stream, log)
            requests += arguments.clients
        await killer
        found = books(server, log)
        slowest = round(server.starts[-1], 2)
        return {
            "kills": kills,
            "requests": requests,
            "connections lost": log.lost,
            **found,
            "slowest restart, s": slowest,
        }


class Rows(dict[str, dict[str, Any]]):
    """Figures by name; but for `--json`, each row is printed as soon as it is there."""

    def __init__(self, *, printed: bool) -> None:
        self.printed = printed

    def __setitem__(self, name: str, figures: dict[str, Any]) -> None:
        super().__setitem__(name, figures)
        if self.printed:
            print(f"{name:44}" + ", ".join(f"{key} {value}" for key, value in figures.items()), flush=True)


async def bench(arguments: argparse.Namespace) -> Rows:
    found = Rows(printed=not arguments.json)
    workers, most, requests = arguments.workers, arguments.clients, arguments.requests
    if {"paid", "paused"} & {*arguments.phases}:
        others = ((1, 0.0), (8, 0.0), (most, 0.0)) if "paid" in arguments.phases else ()
        for clients, pause in ((8, PAUSE), *others):
            name = f"paid, {clients} clients{' that pause' if pause else ''}"
            found[name] = await paid(1, requests // 20, 12, workers, clients, pause)
            found[f"{name}, with a hypothesis"] = await paid(arguments.servers, PAID, 8, workers, clients, pause)
    if "free" in arguments.phases:
        with tempfile.TemporaryDirectory() as folder, Server(Path(folder), workers, 6, 2.0) as server:
            found["start"] = {"seconds": round(server.starts[0], 2)}
            for clients in (1, 8, most):
                stream = fresh(itertools.cycle(conditions(6, 50)))
                found[f"free, {clients} clients"] = await phase(server, clients, requests // 10, stream, Log())
    if "storm" in arguments.phases:
        with tempfile.TemporaryDirectory() as folder, Server(Path(folder), workers, 12, STORM) as server:
            log = Log()
            seen = await phase(server, most, requests, mixed(conditions(12, requests // 5 * 2)), log)
            found["storm"] = {**seen, "statuses": log.statuses}
            found["storm, books"] = books(server, log)
    if "fire" in arguments.phases:
        fires = [await under_fire(arguments, min(20, arguments.kills - k)) for k in range(0, arguments.kills, 20)]
        found["fire"] = {k: (max if "slowest" in k else sum)(f[k] for f in fires) for k in fires[0]}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phases", type=lambda text: text.split(","), default=["paid", "free", "storm", "fire"])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument(
        "--servers", type=int, default=32, help="new ones for each kind of clients that pay; 32 by default"
    )
    parser.add_argument("--json", action="store_true", help="one object")
    arguments = parser.parse_args()
    found = asyncio.run(bench(arguments))
    if arguments.json:
        print(json.dumps(found))
    return int(any(figures.get("wrong") for figures in found.values()))


if __name__ == "__main__":
    sys.exit(main())
