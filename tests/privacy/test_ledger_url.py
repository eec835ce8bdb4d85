"""Addresses of ledgers on servers, and that their passwords stay where they are."""

import pytest

from qrelease.errors import InvalidInput
from qrelease.privacy.ledger_url import LedgerUrl, is_address


@pytest.mark.parametrize(
    ("given", "conninfo", "shown", "schema"),
    [
        ("postgresql://h/d", "postgresql://h/d", "postgresql://h/d", "qrelease"),
        ("postgres://u@h:1/d?schema=p", "postgres://u@h:1/d", "postgres://u@h:1/d?schema=p", "p"),
        ("postgresql://u:pw@h/d?schema=p", "postgresql://u:pw@h/d", "postgresql://u@h/d?schema=p", "p"),
        ("postgresql://u:p%40w@a,b:2/d?sslmode=require", None, "postgresql://u@a,b:2/d?sslmode=require", "qrelease"),
        ("postgresql://h/d?password=pw&user=u", None, "postgresql://h/d?user=u", "qrelease"),
        ("postgresql:///d?host=/run/pg", None, "postgresql:///d?host=/run/pg", "qrelease"),
        ("postgresql://u:a@b:pw@h/d", None, "postgresql://u@h/d", "qrelease"),
    ],
)
def test_an_address_is_shown_without_its_password(given, conninfo, shown, schema):
    url = LedgerUrl.of(given)
    assert url is not None
    assert (str(url), url.schema) == (shown, schema)
    assert conninfo in (None, url.conninfo)
    for text in (str(url), repr(url), f"{url}"):
        assert "pw" not in text
        assert "p%40w" not in text
    assert LedgerUrl.of(url) is url


@pytest.mark.parametrize("place", ["people.ledger", "postgresql.ledger", None, b"postgresql://h/d"])
def test_files_are_no_addresses(place):
    assert LedgerUrl.of(place) is None
    assert not is_address(place)


@pytest.mark.parametrize(
    "place",
    [
        "postgresql://u:pw@h/d?schema=A",
        "postgresql://u:pw@h/d?schema=pg_x",
        "postgresql://u:pw@[h/d",
        "postgresql://u:pw@h/d?pw",
        "postgresql://u:x/pw@127.0.0.1:1/db",
        "postgresql://u:x#pw@h/d",
        "postgresql://u:x?pw@h/d",
        " postgresql://u:pw@h/d",
        "postgresql:/u:pw@h/d",
        "postgresql:h",
        "postgresql://h/d?Password=pw",
        "postgresql://h/d?options=-cpassword=pw",
    ],
)
def test_what_is_wrong_is_said_without_the_password(place):
    with pytest.raises(InvalidInput) as error:
        LedgerUrl.of(place)
    assert "pw" not in str(error.value)


def test_messages_lose_their_passwords():
    url = LedgerUrl.of("postgresql://u:p%40w@h/d?sslpassword=other")
    assert url.without_secrets("no\n p@w, p%40w nor other") == "no ***, *** nor ***"


def test_a_new_ledger_is_called_by_its_schema_or_its_database():
    assert LedgerUrl.of("postgresql://h/people").dataset == "people"
    assert LedgerUrl.of("postgresql://h/d?schema=towns").dataset == "towns"
    assert LedgerUrl.of("postgresql://h?dbname=d").dataset == "qrelease"


@pytest.mark.parametrize(
    "place",
    [
        "postgresql://h",
        "postgresql://u@h:1/?schema=people",
        "postgresql://h?dbname=",
        "postgresql:///d",
        "postgresql://u@/d?schema=people",
        "postgresql://:5432/d",
        "postgresql://a,/d",
        "postgresql://h/d?dbname=",
        "postgresql://h/d?host=",
        "postgresql://?host=h&schema=people",
        "postgresql://",
    ],
)
def test_an_address_leaves_neither_the_server_nor_the_database_to_the_users_settings(place):
    """libpq would take a database of the user's name, and the server from PGHOST: a whole budget for each user."""
    with pytest.raises(InvalidInput, match="names its server and its database"):
        LedgerUrl.of(place)


@pytest.mark.parametrize("place", ["postgresql://?host=h&dbname=d", "postgresql://h?dbname=d", "postgresql://[::1]/d"])
def test_the_server_and_the_database_may_be_parameters(place):
    assert str(LedgerUrl.of(place)) == place
