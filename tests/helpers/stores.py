"""Servers that records are read from: one of the web, and one that speaks S3."""

import base64
import contextlib
import http.server
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, urlsplit

NO_S3 = None if find_spec("moto") and find_spec("flask") else "no S3 server: pip install 'qrelease[dev]' has moto's"


@dataclass
class Web:
    """A web server over a folder.

    ways  by path, what it does instead of giving the file: a redirect, a cut, a code, …
    seen  the path with its query, and the credentials, of each request
    """

    url: str
    ways: dict[str, object] = field(default_factory=dict)
    seen: list[tuple[str, str | None]] = field(default_factory=list)

    def at(self, path: str, user: str = "") -> str:
        """The URL of a path, with a user before the host."""
        return f"{self.url}{path}".replace("://", f"://{user}")


@contextlib.contextmanager
def web_server(folder: Path) -> Iterator[Web]:
    """Python's own server."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: object) -> None:
            super().__init__(*given, directory=str(folder))

        def log_message(self, *_: object) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            web.seen.append((self.path, self.headers.get("Authorization")))
            match web.ways.get(path):
                case None:
                    super().do_GET()
                case int(code):
                    self.send_error(code)
                case str(place):
                    self.send_response(302)
                    self.send_header("Location", place)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                case {**headers}:
                    raw = (folder / path[1:]).read_bytes()
                    self.send_response(200)
                    for name, value in headers.items():
                        self.send_header(name, str(value))
                    self.end_headers()
                    chunked = "Transfer-Encoding" in headers
                    self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(raw), raw) if chunked else raw)
                    self.close_connection = True

    Handler.protocol_version = "HTTP/1.1"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web = Web(f"http://127.0.0.1:{server.server_port}/")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class S3:
    """A server of S3, and who may read it."""

    port: int
    bucket: str = "people"
    key: str = "AKIAQRELEASETESTS"
    secret: str = "so/me+secret-of/40/characters"

    def url(self, path: str, options: str = "") -> str:
        """The URL of an object, with credentials."""
        user = f"{self.key}:{quote(self.secret, safe='')}@"
        where = f"endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1{options}"
        return f"s3://{user}{self.bucket}/{path}?{where}"

    def put(self, path: str, raw: bytes) -> None:
        """An object."""
        from pyarrow import fs

        system, place = fs.FileSystem.from_uri(self.url("", "&allow_bucket_creation=true"))
        system.create_dir(place.rstrip("/"))
        with system.open_output_stream(f"{self.bucket}/{path}", compression=None) as out:
            out.write(raw)


@contextlib.contextmanager
def s3_server(folder: Path, **settings: str) -> Iterator[S3]:
    """moto's, in a process of its own, with some settings of its environment."""
    with contextlib.closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with open(folder / "moto.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **settings})
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        assert process.poll() is None, (folder / "moto.log").read_text()
        yield S3(port)
    finally:
        process.kill()
        process.wait()


def basic(user: str, password: str) -> str:
    """What a server is told of a user."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
