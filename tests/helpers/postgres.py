"""A PostgreSQL server of a test's own, in a temporary folder, on a port of this machine and with a password.

It is Debian's or whatever `pg_config` finds; where there is none, or no psycopg, tests that need it are skipped.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

NAME = "postgres"


def binaries() -> Path | None:
    """Where `initdb` and `pg_ctl` are; None where they are not, or psycopg is missing."""
    if find_spec("psycopg") is None:
        return None
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True) + ([Path(found).parent] if found else [])
    if os.getuid() == 0:  # the server refuses to be root
        try:
            pwd.getpwnam(NAME)
        except KeyError:
            return None
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Server:
    """A server that can be stopped as a crash stops it. `port` and `password` stay the same."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.programs = folder, programs
        self.password, self.port = secrets.token_hex(8), _free_port()
        self.user = NAME if os.getuid() == 0 else None
        secret = folder / "password"
        secret.write_text(self.password)
        if self.user:
            shutil.chown(folder, self.user)
            shutil.chown(secret, self.user)
        self._run("initdb", "-D", f"{folder}/data", "-A", "scram-sha-256", "-U", NAME, "--pwfile", str(secret))
        with (folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{folder}'\n"
                "max_connections = 60\nshared_buffers = 16MB\nautovacuum = off\nrecovery_init_sync_method = syncfs\n"
            )
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        settings = ["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"] if program == "initdb" else []
        command = [str(self.programs / program), *arguments, *settings]
        subprocess.run(command, user=self.user, cwd=self.folder, check=True, capture_output=True, timeout=60)

    def start(self) -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` ends it in the middle of everything, as a crash does; it recovers at the next start."""
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-m", mode, "stop")

    def url(self, schema: str, user: str = NAME, password: str | None = None, port: int | None = None) -> str:
        secret = self.password if password is None else password
        return f"postgresql://{user}:{secret}@127.0.0.1:{port or self.port}/postgres?schema={schema}"

    def do(self, statement: str, schema: str = "public") -> list[tuple[object, ...]]:
        """A statement of the owner's, behind everybody's back."""
        import psycopg

        address = self.url("x").partition("?")[0]
        with psycopg.connect(address, autocommit=True, options=f"-c search_path={schema}") as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def running(within: Path | None = None) -> Iterator[Server | None]:
    """A server until the end, in a folder of its own within one; None where none can be had."""
    programs = binaries()
    if programs is None:
        yield None
        return
    with tempfile.TemporaryDirectory(dir=within, prefix="qrelease-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        server = Server(folder, programs)
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                server.stop()


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


class Proxy:
    """Carries one conversation after the other to a server, and cuts it where a client says COMMIT.

    cut       at the next COMMIT: "before" it is passed on, "after" it was answered and before the answer; else None
    messages  that clients sent, each of which they wait for the answer of
    """

    def __init__(self, port: int) -> None:
        self.cut: str | None = None
        self.cuts = self.messages = 0
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                answered = threading.Event()
                for work in (self._asks, self._answers):
                    threading.Thread(target=work, args=(client, server, answered), daemon=True).start()

    def _asks(self, client: socket.socket, server: socket.socket, ending: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self.messages += 1
                if self.cut and b"COMMIT" in data and b"INSERT INTO clients" in data:
                    self.cuts += 1
                    if self.cut == "before":
                        break
                    ending.set()
                server.sendall(data)
        if not ending.is_set():
            _end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, ending: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if ending.is_set():
                    break
                client.sendall(data)
        _end(client, server)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
            end.close()
