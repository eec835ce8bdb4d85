"""A server for a client to talk to over a real socket, and a line to it that can break."""

import asyncio
import contextlib
import http.server
import json
import socket
import threading
import time

from qrelease.apps.server.http_bounds import BoundedServer, configured


@contextlib.contextmanager
def listening_server(app, meter=None):
    """The port of an application that is served in a thread; with a meter, at its socket too."""
    watching = {} if meter is None else {"watch": meter.connected}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = BoundedServer(configured(app, 1, **watching))
        sockets = [listening] if meter is None else [listening, meter.meters.listening]
        thread = threading.Thread(target=lambda: asyncio.run(serving.serve(sockets=sockets)))
        thread.start()
        try:
            while not serving.started:
                time.sleep(0.005)
            yield listening.getsockname()[1]
        finally:
            serving.should_exit = True
            thread.join()


class Line:
    """A port that leads to another one; `lose` answers of it never arrive, and the connection breaks instead.

    lost  is called when that happens
    """

    def __init__(self, port, lose=0, lost=lambda: None):
        self.to, self.lose, self.lost = port, lose, lost
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near):
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.to)) as far:
            threading.Thread(target=self._copy, args=(near, far), daemon=True).start()
            while part := far.recv(1 << 16):
                if self.lose:
                    self.lose -= 1
                    self.lost()
                    break
                near.sendall(part)
            for end in (near, far):  # a close alone would wait for the other thread
                end.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _copy(near, far):
        with contextlib.suppress(OSError):
            while part := near.recv(1 << 16):
                far.sendall(part)
            far.shutdown(socket.SHUT_WR)

    def close(self):
        self._listening.close()


@contextlib.contextmanager
def scripted(*replies):
    """The port of a server that says what it is told to, (status, headers, body) a request; and what it was asked."""
    left, asked = list(replies), []

    class Said(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append((self.command, self.path, dict(self.headers), body))
            status, headers, content = left.pop(0)
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, text in ({"Content-Type": "application/json"} | headers).items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Said) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()
