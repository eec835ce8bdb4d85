"""A ledger on a PostgreSQL server: settings that forget are refused, and a lost COMMIT has one outcome.

What every database promises is in `test_ledger_store`.
"""

import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from postgres import Proxy

from qrelease.errors import BudgetExceeded, LedgerError, OutcomeUnknown
from qrelease.privacy import PureDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.ledger import Ledger

TOTAL = PureDP(1.0)
DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "ledger.md"


@pytest.fixture
def schema():
    return f"s{secrets.token_hex(6)}"


@pytest.fixture
def url(postgres, schema):
    """Of a ledger that is there."""
    address = postgres.url(schema)
    Ledger.open(address, TOTAL).close()
    return address


def lose(postgres):
    """Every connection of a ledger."""
    postgres.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'qrelease %'")


# What is shown


def test_no_password_is_ever_shown(postgres, schema, url):
    said = []
    with Ledger.open(url) as ledger:
        said += [repr(ledger), str(ledger.store.place)]
        ledger.close()
        with pytest.raises(LedgerError) as error:
            _ = ledger.spent
        said.append(str(error.value))
    wrong = "wrong" + secrets.token_hex(8)
    for address in (
        postgres.url(schema, password=wrong),
        postgres.url(schema, user="nobody", password=wrong),
        postgres.url(schema, port=1, password=wrong),
        postgres.url(schema, password=wrong) + "&connect_timeout=2",
        postgres.url("elsewhere"),
        postgres.url(schema, port=1),
    ):
        with pytest.raises(LedgerError) as error:
            Ledger.open(address)
        assert error.value.__cause__ is None
        said.append(str(error.value))
    assert not [text for text in said if postgres.password in text or wrong in text or "\n" in text]
    assert all("ledger postgresql://" in text for text in said[2:])


def test_an_address_is_one_ledger_whatever_the_users_environment_says(url):
    with Ledger.open(url) as ledger:
        ledger.charge(PureDP(0.25), "mine")
    code = "import sys; from qrelease.privacy.ledger import Ledger; print(Ledger.open(sys.argv[1]).spent)"
    elsewhere = {"PGHOST": "203.0.113.1", "PGHOSTADDR": "203.0.113.1", "PGPORT": "1", "PGDATABASE": "other"}
    command = [sys.executable, "-c", code, url]
    done = subprocess.run(command, env=os.environ | elsewhere, capture_output=True, text=True, timeout=60)
    assert done.stdout == "epsilon=0.25\n", done.stderr


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "SJIS", "BIG5", "SQL_ASCII"])
def test_a_label_may_have_any_character_whatever_the_users_environment_says(url, encoding):
    code = "import sys; from qrelease.privacy import *; from qrelease.privacy.ledger import Ledger\n"
    code += "Ledger.open(sys.argv[1]).charge(PureDP(0.25), sys.argv[2])"
    label = "łódź 東京 ß 🙂"
    command = [sys.executable, "-c", code, url, label]
    environment = os.environ | {"PGCLIENTENCODING": encoding}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with Ledger.open(url) as ledger:
        assert ledger.history()[-1].label == label


# What is refused


def test_a_setting_that_forgets_charges_is_refused(postgres, url):
    def settle(statement):
        postgres.do(statement)
        postgres.do("SELECT pg_reload_conf()")
        time.sleep(0.3)

    with Ledger.open(url) as ledger:
        for name in ("off", "local", "remote_write"):
            postgres.do(f"ALTER ROLE postgres SET synchronous_commit = '{name}'")
            with pytest.raises(LedgerError, match=f"synchronous_commit is {name}"):
                Ledger.open(url)
            ledger.charge(PureDP(0.125), "as it was when it was opened")
        postgres.do("ALTER ROLE postgres RESET synchronous_commit")
        try:
            settle("ALTER SYSTEM SET fsync = off")
            with pytest.raises(LedgerError, match="fsync is off"):
                ledger.charge(PureDP(0.125), "a")
            with pytest.raises(LedgerError, match="fsync is off"):
                Ledger.open(url)
        finally:
            settle("ALTER SYSTEM RESET fsync")
        assert ledger.charge(PureDP(0.125), "a").id == 5


def test_what_is_no_ledger_is_refused(postgres, schema, url):
    postgres.do("UPDATE format SET version = 6", schema)
    with pytest.raises(LedgerError, match="has format 6"):
        Ledger.open(url)
    postgres.do("UPDATE format SET version = 5, application = 1", schema)
    with pytest.raises(LedgerError, match="is not a qrelease ledger"):
        Ledger.open(url)
    postgres.do("DROP TABLE format", schema)
    with pytest.raises(LedgerError, match="is not a qrelease ledger"):
        Ledger.open(url, TOTAL)
    with Ledger.open(postgres.url(f"{schema}_b"), TOTAL):
        postgres.do("DROP TABLE journal", f"{schema}_b")
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(postgres.url(f"{schema}_b"))


def test_a_text_that_it_cannot_hold_is_refused(url):
    with Ledger.open(url) as ledger:
        with pytest.raises(LedgerError, match="NUL"):
            ledger.charge(PureDP(0.1), "a\0b")
        assert ledger.charge(PureDP(0.125), "a").id == 2


def test_the_roles_of_the_page_are_enough_and_no_more(postgres, schema, url):
    """The statements of docs/how-to/ledger.md, for another schema."""
    part = DOCS.read_text(encoding="utf-8").partition("```sql\n")[2].partition("```")[0]
    names = {"spender": f"{schema}_s", "reader": f"{schema}_r", "people": schema, "'…'": "'secret'"}
    for old, new in names.items():
        part = part.replace(old, new)
    postgres.do(part)
    with Ledger.open(postgres.url(schema, f"{schema}_s", "secret")) as ledger:
        charge = ledger.charge(PureDP(0.125), "a", "a", rows=ledger.rows_of(lambda key: ("schema", "records")))
        ledger.store_answer(charge, b"a")
        session = ledger.session(PureDP(0.5), "s", "s")
        with session.writing():
            session.append(b"one")
        Analysts(ledger).add("ada", PureDP(0.5))
        with pytest.raises(LedgerError, match="may not be used so by this role"):
            ledger.raise_total(PureDP(2.0))
        for statement in ("DELETE FROM entries", "UPDATE entries SET cost = ''", "DROP TABLE head", "DELETE FROM head"):
            with pytest.raises(LedgerError, match="may not be used so"), ledger.store.writing():
                ledger.store.execute(statement)
    with Ledger.open(postgres.url(schema, f"{schema}_r", "secret")) as ledger:
        assert ledger.spent == PureDP(0.125)
        assert len(ledger.history()) == 3
        with pytest.raises(LedgerError, match="may not be used so by this role"):
            ledger.charge(PureDP(0.125), "a")


# What others wrote and is not durable yet


def test_what_is_read_is_durable(postgres, schema, url):
    def is_durable(end):
        return postgres.do(f"SELECT pg_current_wal_flush_lsn() >= '{end}'::pg_lsn") == [(True,)]

    def other():
        """Commits, and is not durable."""
        postgres.do("SET synchronous_commit = off; UPDATE kinds SET kind = kind", schema)
        ((end,),) = postgres.do("SELECT pg_current_wal_insert_lsn()")
        return end

    postgres.do(f"CREATE ROLE {schema}_r LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA {schema} TO {schema}_r")
    postgres.do(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}_r")
    postgres.do("ALTER SYSTEM SET wal_writer_delay = '1s'")
    try:
        postgres.do("SELECT pg_reload_conf()")
        time.sleep(0.3)
        for address in (url, postgres.url(schema, f"{schema}_r", "secret")):
            with Ledger.open(address) as ledger:
                was_open = False
                for _ in range(20):
                    end = other()
                    open_before = not is_durable(end)
                    assert ledger.spent is None
                    assert is_durable(end)
                    was_open |= open_before
                    if was_open:
                        break
                assert was_open  # or nothing was tested
    finally:
        postgres.do("ALTER SYSTEM RESET wal_writer_delay")
        postgres.do("SELECT pg_reload_conf()")


@pytest.mark.parametrize("shown", [False, True], ids=["undone", "read"])
def test_only_what_was_durable_can_be_forgotten(postgres, schema, url, shown):
    """A crash takes a charge that another saw, in a transaction that came to nothing or in one that did not."""
    ((*before,),) = postgres.do("SELECT tally, entries, answers, last, digest FROM head", schema)
    with Ledger.open(url) as ledger, Ledger.open(url) as other:
        other.charge(PureDP(0.125), "a")
        if shown:
            assert ledger.spent == PureDP(0.125)
        with pytest.raises(BudgetExceeded):
            ledger.charge(PureDP(1.0), "b")
        tally, entries, answers, last, digest = before
        postgres.do("DELETE FROM entries WHERE id = 2", schema)
        postgres.do(
            f"UPDATE head SET tally = '{tally}', entries = {entries}, answers = {answers}, last = '{last}',"
            f" digest = '{digest}'",
            schema,
        )
        if shown:
            with pytest.raises(LedgerError, match="has forgotten charges"):
                ledger.charge(PureDP(0.125), "c")
        else:
            assert ledger.charge(PureDP(0.125), "c").id == 2


# What is lost


def test_a_connection_that_was_lost_is_made_anew(postgres, url):
    with Ledger.open(url) as ledger:
        ledger.charge(PureDP(0.125), "a")
        lose(postgres)
        assert ledger.spent == PureDP(0.125)
        lose(postgres)
        assert ledger.charge(PureDP(0.125), "b").id == 3
        postgres.stop()
        starting = threading.Timer(0.5, postgres.start)
        starting.start()
        assert ledger.charge(PureDP(0.125), "c").id == 4
        starting.join()


def test_a_charge_takes_two_messages_also_after_another_host_charged(postgres, schema, url):
    """Hosts wait for each other while one of them waits for an answer: the more answers, the fewer charges."""
    proxy = Proxy(postgres.port)
    try:
        with Ledger.open(postgres.url(schema, port=proxy.port)) as ledger, Ledger.open(url) as other:
            ledger.charge(PureDP(0.125), "a")
            for key, expected in ((None, 2), (None, 2), ("known?", 3)):
                other.charge(PureDP(0.125), "b")
                before = proxy.messages
                ledger.charge(PureDP(0.125), "c", key)
                assert proxy.messages - before == expected
    finally:
        proxy.close()


def test_what_was_begun_when_a_connection_was_lost_came_to_nothing(postgres, url):
    with Ledger.open(url) as ledger:
        with pytest.raises(LedgerError, match="nothing was written"), ledger.transaction():
            ledger.charge(PureDP(0.125), "a", "a")
            lose(postgres)
            ledger.charge(PureDP(0.125), "b", "b")
        with pytest.raises(LedgerError, match="nothing was written"), ledger.transaction():
            ledger.charge(PureDP(0.125), "a", "a")
            lose(postgres)
        assert ledger.store.undone == 2
        assert (ledger.spent, ledger.knows("a"), ledger.knows("b")) == (None, False, False)
        assert ledger.charge(PureDP(0.125), "a", "a").fresh


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_commit_whose_answer_was_lost_has_one_outcome(postgres, schema, url, cut):
    """Cut before the COMMIT reached the server, or before its answer came back."""
    proxy = Proxy(postgres.port)
    try:
        with Ledger.open(postgres.url(schema, port=proxy.port)) as ledger, Ledger.open(url) as other:
            ledger.charge(PureDP(0.125), "a", "a")
            threading.Thread(target=_heal, args=(proxy, 1), daemon=True).start()
            proxy.cut = cut
            if cut == "after":
                assert ledger.charge(PureDP(0.125), "b", "b").fresh
            else:
                with pytest.raises(LedgerError, match="nothing was written"):
                    ledger.charge(PureDP(0.125), "b", "b")
            assert proxy.cuts == 1
            assert other.knows("b") is (cut == "after")
            assert ledger.charge(PureDP(0.125), "b", "b").fresh is (cut == "before")
            assert other.spent == PureDP(0.25)
    finally:
        proxy.close()


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_an_outcome_that_was_forgotten_counts_as_spent(postgres, schema, url, cut, first, monkeypatch):
    """As after a jump of the server's clock: other hosts then forget the connection's row."""
    if first:  # there was no row before
        monkeypatch.setattr("qrelease.privacy.ledger_server.CLIENT_SECONDS", 0)
    proxy = Proxy(postgres.port)

    def forget():
        while not proxy.cuts:
            time.sleep(0.001)
        while cut == "after" and not other.knows("b"):
            time.sleep(0.001)
        postgres.do("DELETE FROM clients", schema)
        proxy.cut = None

    try:
        with Ledger.open(postgres.url(schema, port=proxy.port)) as ledger, Ledger.open(url) as other:
            if not first:
                ledger.charge(PureDP(0.125), "a", "a")
            forgetting = threading.Thread(target=forget, daemon=True)
            forgetting.start()
            proxy.cut = cut  # of the look as well, until it is forgotten
            with pytest.raises(OutcomeUnknown, match=r"has forgotten .* counts as spent"):
                ledger.charge(PureDP(0.125), "b", "b")
            forgetting.join()
            assert ledger.charge(PureDP(0.125), "b", "b").fresh is (cut == "before")
            assert ledger.spent == PureDP(0.125 if first else 0.25)
    finally:
        proxy.close()


def _heal(proxy, cuts):
    while proxy.cuts < cuts:
        time.sleep(0.001)
    proxy.cut = None


@pytest.mark.parametrize("cut", ["before", "after"])
def test_an_outcome_that_cannot_be_learned_counts_as_spent(postgres, schema, url, cut, monkeypatch):
    monkeypatch.setattr("qrelease.privacy.ledger_server.OUTCOME_SECONDS", 0.3)
    proxy = Proxy(postgres.port)
    drawn = []
    try:
        with Ledger.open(postgres.url(schema, port=proxy.port)) as ledger:
            ledger.charge(PureDP(0.125), "a", "a")
            proxy.cut = cut  # of the look as well
            with pytest.raises(OutcomeUnknown, match="counts as spent"):
                drawn.append(ledger.charge(PureDP(0.125), "b", "b"))
            assert (drawn, ledger.store.undone) == ([], 1)
            proxy.cut = None
            again = ledger.charge(PureDP(0.125), "b", "b")
            assert (again.answer, again.fresh) == (None, cut == "before")
            assert ledger.spent == PureDP(0.25)
    finally:
        proxy.close()


@pytest.fixture
def setting(monkeypatch):
    """`setting(name, value)` is what new connections ask of the server."""
    from qrelease.privacy import ledger_server

    return lambda name, value: monkeypatch.setitem(ledger_server.SETTINGS, name, value)


def test_who_holds_the_lock_and_falls_silent_is_waited_for_no_longer(postgres, url, setting):
    setting("idle_in_transaction_session_timeout", "300ms")
    with Ledger.open(url) as silent, Ledger.open(url) as other:
        with pytest.raises(LedgerError, match="nothing was written"), silent.transaction():
            silent.charge(PureDP(0.125), "a")
            assert other.charge(PureDP(0.25), "b").id == 2
        assert silent.spent == PureDP(0.25)


def test_who_waits_too_long_for_the_lock_is_told(url, setting):
    setting("lock_timeout", "200ms")
    with Ledger.open(url) as holder, Ledger.open(url) as other, holder.transaction():
        holder.charge(PureDP(0.125), "a")
        with pytest.raises(LedgerError, match="stayed locked by another process"):
            other.charge(PureDP(0.25), "b")


def test_a_server_that_does_not_answer_is_out_of_reach(schema):
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        address = f"postgresql://u:secret@127.0.0.1:{asked.getsockname()[1]}/d?schema={schema}"
        pytest.importorskip("psycopg")
        with pytest.raises(LedgerError, match="cannot be reached"):
            Ledger.open(address, TOTAL)
