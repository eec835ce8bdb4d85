"""HTTP for the client: one kept connection, requests repeated until they are answered, errors as exceptions.

By the standard library's `http.client`. A client sends one request at a time to one host, and when a request may be
repeated depends on this service: on its keys, on which of its 429s says when to come again. A library's pools would lie
idle, its rules of repeating would be switched off, and none of them is worth another package that everybody installs.
Nothing follows a redirect or a proxy of the environment, so the token goes to the host of the URL alone.

Every request may be sent again. Those that read change nothing, and a query goes under its key: the service answers a
key that it knows with the bytes that are written down, and charges nothing.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from qrelease._util.validate import positive
from qrelease.errors import BudgetExceeded, InvalidInput, QReleaseError, ServiceError

FIRST_PAUSE: Final = 0.1
"""Seconds before a request is sent the second time, at most; each further pause may be twice as long."""

LONGEST_PAUSE: Final = 5.0
"""Seconds of a pause at most, unless the service asks for more."""

MAX_RESPONSE_BYTES: Final = 1 << 28
"""Bytes of one response: more than any that the service gives."""

_MAX_DETAIL: Final = 1000  # characters of what a response says in an error
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
_CHANCE: Final = secrets.SystemRandom()
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})
_KEY: Final = re.compile(r"[!-~]{1,128}")
_REFUSED: Final = frozenset({400, 404, 405, 409, 413, 415, 422, 431})  # by what the request says


@dataclass(frozen=True)
class Address:
    """Where a service is: `secure` means TLS; `prefix` is what comes before the service's own paths."""

    secure: bool
    host: str
    port: int
    prefix: str

    @classmethod
    def of(cls, url: str) -> Address:
        """The address that a URL names; `InvalidInput`, which does not repeat the URL, for one that will not do.

        Without TLS anybody on the way reads the token: so there is none but to this machine itself.
        """
        try:
            parts = urlsplit(url) if re.fullmatch(r"[!-~]+", url) else None
            port = parts.port if parts else None
        except ValueError:
            parts = None
        if parts is None or parts.scheme not in ("https", "http") or not parts.hostname:
            raise InvalidInput(
                "url must be https://HOST, with :PORT and /PATH if there are any, or http://127.0.0.1:PORT here"
            )
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise InvalidInput("url must have no user, no password, no query and no fragment: the token is given apart")
        secure = parts.scheme == "https"
        if not secure and not _is_loopback(parts.hostname):
            raise InvalidInput(f"url must be https: to {parts.hostname} the token would travel in the clear")
        return cls(secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/"))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.prefix}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class _Reply:
    """What came back; where nothing did, `status` is 0, `told` says why, and `sent` whether it may have been asked."""

    status: int
    told: str
    content: bytes = b""
    after: float | None = None
    final: bool = False
    sent: bool = True

    @property
    def passing(self) -> bool:
        """Whether the same request may be answered later. A 429 that names no time means something that stays."""
        if self.status == 429:
            return self.after is not None
        return not self.final and (self.status == 0 or self.status == 408 or self.status >= 500)


class Wire:
    """Sends requests to one service, one at a time, from any thread.

    Parameters
    ----------
    address
        Where it is.
    token
        What it is told with every request; it is shown nowhere.
    timeout
        Seconds that one attempt waits for the network.
    patience
        Seconds after which a request is not repeated any more.
    ca
        A file of certificates to trust in place of the system's.
    """

    def __init__(
        self, address: Address, token: str, timeout: float, patience: float, ca: str | os.PathLike[str] | None
    ) -> None:
        token = token.strip() if isinstance(token, str) else ""  # of a file, the end of the line
        if not _TOKEN.fullmatch(token):
            raise InvalidInput("token must be as `qrelease analyst add` printed it: letters, digits, - and _")
        self.address = address
        self._token = token
        self._timeout, self._patience = positive("timeout", timeout), positive("patience", patience)
        self._trust = _trusting(ca) if address.secure else None
        self._connection: http.client.HTTPConnection | None = None
        self._process = os.getpid()
        self._turn = threading.Lock()

    def get(self, path: str, **parameters: object) -> Any:
        """What the service answers, as JSON."""
        return self._send("GET", path, None, None, parameters)

    def post(self, path: str, body: object, key: str | None = None, **parameters: object) -> Any:
        """What the service answers to a body, as JSON; under a key, where it may spend."""
        if key is not None and not (isinstance(key, str) and _KEY.fullmatch(key)):
            raise InvalidInput("key must be 1 to 128 visible ASCII characters")
        return self._send("POST", path, json.dumps(body).encode(), key, parameters)

    def close(self) -> None:
        """Close the connection; another request opens another."""
        with self._turn:
            self._drop()

    def _send(self, method: str, path: str, body: bytes | None, key: str | None, parameters: Mapping[str, Any]) -> Any:
        """The answer, however many attempts it takes."""
        given = urlencode({name: value for name, value in parameters.items() if value is not None})
        target = f"{self.address.prefix}{path}" + (f"?{given}" if given else "")
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", "User-Agent": "qrelease"}
        headers |= {} if body is None else {"Content-Type": "application/json"}
        headers |= {} if key is None else {"Idempotency-Key": key}
        until, pause, sent = time.monotonic() + self._patience, FIRST_PAUSE, False
        while True:
            with self._turn:
                kept = self._connection is not None and self._process == os.getpid()
                reply = self._attempt(method, target, body, headers)
            sent = sent or reply.sent
            if not reply.passing:
                return _content(reply, key, self.address, sent=sent)
            # A kept connection may have been closed by the service, which had nothing to do: so at once, on a new one.
            wait = 0.0 if kept and reply.status == 0 else max(reply.after or 0.0, _CHANCE.uniform(pause / 2, pause))
            if time.monotonic() + wait > until:
                return _content(reply, key, self.address, sent=sent)
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _attempt(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> _Reply:
        sent = False
        try:
            connection = self._connected()
            if connection.sock is None:
                connection.connect()
            sent = True
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            content = response.read(MAX_RESPONSE_BYTES + 1)
            if response.will_close or len(content) > MAX_RESPONSE_BYTES:
                self._drop()
        except ssl.SSLCertVerificationError as error:
            self._drop()
            return _Reply(0, f"its certificate is not trusted: {error.verify_message}", final=True, sent=sent)
        except socket.gaierror as error:
            self._drop()
            return _Reply(0, f"no such host: {error.strerror}", final=error.errno != socket.EAI_AGAIN, sent=sent)
        except ssl.SSLError as error:
            self._drop()
            if not sent and error.reason in _NO_TLS:
                return _Reply(0, "there is no TLS at this port: it may be http://", final=True, sent=False)
            return _Reply(0, f"TLS: {error.reason or 'the connection broke'}", sent=sent)
        except TimeoutError:
            self._drop()
            return _Reply(0, f"no answer within {self._timeout:g} s", sent=sent)
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            told = getattr(error, "strerror", None) or f"the connection broke ({type(error).__name__})"
            return _Reply(0, told, sent=sent)
        except BaseException:  # an interrupt: what comes next on this connection answers this request
            self._drop()
            raise
        told = _told(response, content)
        if len(content) > MAX_RESPONSE_BYTES:
            return _Reply(0, "a response larger than any that the service gives", final=True)
        return _Reply(response.status, told, content, _seconds(response.headers.get("Retry-After")))

    def _connected(self) -> http.client.HTTPConnection:
        """The kept connection, or a new one; a forked process leaves its parent's alone."""
        if self._process != os.getpid():
            self._connection, self._process = None, os.getpid()
        if self._connection is None:
            host, port, timeout = self.address.host, self.address.port, self._timeout
            if self._trust is None:
                self._connection = http.client.HTTPConnection(host, port, timeout=timeout)
            else:
                self._connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=self._trust)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            with contextlib.suppress(OSError):
                connection.close()


def _trusting(ca: str | os.PathLike[str] | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise InvalidInput(f"ca {os.fspath(ca or '')} holds no certificates that can be read: {error}") from None


def _seconds(text: str | None) -> float | None:
    """What a Retry-After says; one that names a date means that there is a time, though not this module's to count."""
    if text is None:
        return None
    return float(text) if re.fullmatch(r"[0-9]{1,6}", text) else LONGEST_PAUSE


def _told(response: http.client.HTTPResponse, content: bytes) -> str:
    """One line of why a request was refused, in the service's words where they are its words."""
    kind = (response.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    if kind == "application/problem+json":
        with contextlib.suppress(ValueError, KeyError, TypeError):
            detail = str(json.loads(content)["detail"])
            return "".join(c if c.isprintable() else " " for c in detail)[:_MAX_DETAIL]
    if 300 <= response.status < 400:
        return "a redirect, which is not followed, since the token would go along: give the URL that it leads to"
    return "" if kind == "application/json" else "what came is not an answer of a qrelease service"


def _content(reply: _Reply, key: str | None, address: Address, *, sent: bool) -> Any:
    """The JSON of a reply, or its error as an exception of this package.

    sent  whether the service may have had the request, in this attempt or before
    """
    if reply.status == 200 and not reply.told:
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(reply.content)
    error: QReleaseError
    if reply.status == 402:
        error = BudgetExceeded(reply.told)
    elif reply.status in _REFUSED:
        error = InvalidInput(reply.told or f"the service answered {reply.status}")
    else:
        told = f"{address} answered {reply.status}" if reply.status else f"{address} did not answer"
        told += f": {reply.told or 'not JSON'}"
        if reply.status == 401:
            told += (
                "; give connect the token that `qrelease analyst add` printed for this dataset, unless it was revoked"
            )
        if key is not None and not sent:
            told += "; nothing was sent, and nothing is paid for"
        elif key is not None and (reply.passing or reply.status in (0, 200)):
            told += f"; it may be paid for: ask again with key={key!r}, which pays nothing twice"
        error = ServiceError(told, reply.status or None, key)
    raise error
