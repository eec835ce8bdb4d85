"""The address of a ledger on a PostgreSQL server: `postgresql://user@host:port/database?schema=people`.

It is what libpq takes, with one parameter more: the schema that the tables are in, so that a database may hold several
ledgers. A password in it is shown nowhere: not in a message, a repr or a log line.

It names the server and the database: what an address left out, libpq would take from the user's name and environment,
so that one address would be another ledger for each user.
"""

import os
import re
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from qrelease.errors import InvalidInput

DEFAULT_SCHEMA: Final = "qrelease"
"""The schema of an address that names none."""

_SCHEMES = ("postgresql://", "postgres://")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SECRETS = frozenset(("password", "sslpassword", "passfile", "oauth_client_secret"))
_SHOWN = frozenset(
    {"schema", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "connect_timeout", "application_name"}
    | {
        "target_session_attrs",
        "load_balance_hosts",
        "gssencmode",
        "channel_binding",
        "require_auth",
        "host",
        "port",
        "user",
        "dbname",
    }
    | {"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"}
)
"""Parameters that may be in messages."""

_LIKE_AN_ADDRESS = re.compile(r"\s*postgres(ql)?\s*:", re.IGNORECASE)
_PORT = re.compile(r":[^\]]*$")  # not inside an address of IPv6
_EXAMPLE = "an address as postgresql://user@host:5432/database?schema=people"


@dataclass(frozen=True)
class LedgerUrl:
    """An address, whose text is without secrets.

    conninfo  what libpq is given, with them
    schema    that the tables are in
    shown     the address without them
    secrets   passwords, which no message may have
    """

    conninfo: str = field(repr=False)
    schema: str
    shown: str
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, place: object) -> Self | None:
        """The address that a text is; None where it is the name of a file. `InvalidInput` for one that is malformed."""
        if isinstance(place, cls):
            return place
        if not isinstance(place, str):
            return None
        if not place.lower().startswith(_SCHEMES):
            # Nearly an address: as the name of a file its password would be in messages.
            if _LIKE_AN_ADDRESS.match(place):
                raise InvalidInput(f"a ledger on a server has {_EXAMPLE}; this one is not written so")
            return None
        try:
            parts = urlsplit(place)
            given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            ports = [
                host.rpartition(":")[2] for host in parts.netloc.rpartition("@")[2].split(",") if _PORT.search(host)
            ]
            clear = not parts.fragment and "@" not in parts.path + parts.query and all(map(str.isdigit, ports))
        except ValueError:
            clear = False
        if not clear:
            raise InvalidInput(
                f"a ledger on a server has {_EXAMPLE}; this one cannot be read: / ? # and @ in a password are written"
                " %2F %3F %23 and %40"
            )
        if any(key not in _SHOWN | _SECRETS for key, _ in given):
            raise InvalidInput(
                f"there is no such parameter of a ledger's address; there are {', '.join(sorted(_SHOWN))}"
            )
        user, at, hosts = parts.netloc.rpartition("@")
        named = dict(given)
        servers = named.get("host", hosts).split(",")
        if not all(server.partition(":")[0] for server in servers) or not named.get("dbname", parts.path.strip("/")):
            raise InvalidInput(
                f"the address of a ledger names its server and its database, {_EXAMPLE}: else each user would find"
                " another ledger there, with the whole budget"
            )
        name, _, password = user.partition(":")
        schema = next((value for key, value in given if key == "schema"), DEFAULT_SCHEMA)
        if not _SCHEMA_NAME.fullmatch(schema) or schema.startswith("pg_"):
            raise InvalidInput(
                "the schema of a ledger has up to 63 small letters, digits and _, and no pg_ before them"
            )
        kept = [(key, value) for key, value in given if key != "schema"]
        public = [(key, value) for key, value in given if key not in _SECRETS]
        return cls(
            _joined(parts.scheme, parts.netloc, parts.path, kept),
            schema,
            _joined(parts.scheme, f"{name}{at}{hosts}", parts.path, public),
            tuple(text for text in (unquote(password), password, *(v for k, v in kept if k in _SECRETS)) if text),
        )

    @property
    def dataset(self) -> str:
        """What a new ledger there is called by default: its schema, else its database."""
        path = unquote(urlsplit(self.shown).path.strip("/"))
        return path if self.schema == DEFAULT_SCHEMA and path else self.schema

    def without_secrets(self, text: str) -> str:
        """A message without the passwords, should it have one, on one line."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return " ".join(text.split())

    def __str__(self) -> str:
        return self.shown


def _joined(scheme: str, server: str, path: str, pairs: list[tuple[str, str]]) -> str:
    query = urlencode(pairs, quote_via=quote, safe="/")
    return f"{scheme}://{server}{path}{'?' if query else ''}{query}"


def is_address(place: str | os.PathLike[str] | LedgerUrl | None) -> bool:
    """Whether a ledger is named by an address of a server."""
    return LedgerUrl.of(place) is not None
