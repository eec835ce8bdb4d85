"""Four hosts' worth of processes on one ledger of a PostgreSQL server, where everything is killed that can be.

    python tests/helpers/host_kills.py FOLDER KILLS SEED

Each host is a process that forks writers and kills them (-9). Meanwhile the server is stopped as a crash stops it and
started again, its processes are ended in the middle of their work, and two of the hosts speak to it through a proxy
that cuts a connection at a COMMIT: before it arrives, or after it was carried out and before the answer. After every
`ROUND` kills the ledger is held against what the writers believe, and the next has a new one. Prints JSON.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from ledger_promises import TOTAL, broken_promises, exhaust, write_forever
from postgres import Proxy, Server, running

from qrelease.privacy.ledger import Ledger

HOSTS, WRITERS, ROUND = 4, 2, 50


def be_a_host(place: str, folder: Path, seed: int) -> None:
    """Fork writers, and kill each at a moment of its own, until told to end."""
    import psycopg  # noqa: F401  once, and not in every writer

    generator = random.Random(seed)
    while not (folder / "end").exists():
        writers = []
        for _ in range(WRITERS):
            number = generator.getrandbits(32)
            if not (pid := os.fork()):
                write_forever(place, folder / "journal", number, lost=True)
            writers.append(pid)
        for pid in writers:
            time.sleep(generator.uniform(0.1, 1.0))
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            if not os.WIFSIGNALED(status):
                raise RuntimeError(f"a writer ended by itself with {status}")
            with (folder / "killed").open("a") as counted:
                counted.write(".")


def disturb(server: Server, proxies: list[Proxy], generator: random.Random, done: Counter[str]) -> None:
    """One more mishap of the server's or of its connections."""
    what = generator.choices(("terminate", "cut", "crash"), (6, 6, 1))[0]
    if what == "terminate":
        ended = server.do(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE state <> 'idle'"
            " AND application_name LIKE 'qrelease %' ORDER BY random() LIMIT 1) AS one"
        )
        done["connections ended"] += len(ended)
        return
    if what == "crash":
        server.stop("immediate")
        server.start()
        done["server crashes"] += 1
        return
    proxy = generator.choice(proxies)
    before, until = proxy.cuts, time.monotonic() + 1
    proxy.cut = generator.choice(("before", "after"))
    while proxy.cuts == before and time.monotonic() < until:
        time.sleep(0.001)
    proxy.cut = None
    done["connections cut at COMMIT"] += proxy.cuts - before


def one_round(server: Server, folder: Path, kills: int, generator: random.Random, done: Counter[str]) -> list[str]:
    """So many kills on a new ledger; what it did not keep."""
    folder.mkdir()
    schema = f"round_{folder.name}"
    place = server.url(schema)
    Ledger.open(place, TOTAL).close()
    proxies = [Proxy(server.port), Proxy(server.port)]
    places = [place, place, *(server.url(schema, port=proxy.port) for proxy in proxies)]
    command = [sys.executable, __file__, "host"]
    hosts = [
        subprocess.Popen([*command, where, str(folder), str(generator.getrandbits(32))]) for where in places[:HOSTS]
    ]
    killed, own, before = 0, Counter[str](), folder / "killed"
    try:
        while killed + own.total() < kills:
            time.sleep(generator.uniform(0.05, 0.15))
            disturb(server, proxies, generator, own)
            killed = before.stat().st_size if before.exists() else 0
            if any(host.poll() is not None for host in hosts):
                return ["a host ended by itself"]
    finally:
        (folder / "end").touch()
        for host in hosts:
            host.wait(60)
        for proxy in proxies:
            proxy.close()
    own["writers killed"] = before.stat().st_size
    lines = [line.split()[0] for line in (folder / "journal").read_text().splitlines()]
    own["charges believed"], own["told of nothing"] = lines.count("charged"), lines.count("nothing")
    own["told of an unknown outcome"] = lines.count("unknown")
    done.update(own)
    return broken_promises(place, folder / "journal", generator) + exhaust(place)


KINDS = ("writers killed", "connections ended", "connections cut at COMMIT", "server crashes")


def main(base: Path, kills: int, seed: int) -> None:
    """Print what was killed, and which promises broke."""
    generator, done, found = random.Random(seed), Counter[str](), list[str]()
    with running() as server:
        if server is None:
            print(json.dumps({"skipped": "there is no PostgreSQL server, or no psycopg"}))
            return
        number = 0
        while sum(done[kind] for kind in KINDS) < kills and not found:
            left = kills - sum(done[kind] for kind in KINDS)
            found += one_round(server, base / str(number), min(ROUND, left), generator, done)
            number += 1
    lost = sum(any(word in text for word in ("lost", "came back", "showed", "without")) for text in found)
    kinds = {kind: done[kind] for kind in KINDS}
    told = {"kills": sum(kinds.values()), "lost": lost, "overspent": len(found) - lost, "found": found[:20]}
    print(json.dumps({**told, **kinds, **done}))


if __name__ == "__main__":
    if sys.argv[1] == "host":
        be_a_host(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
