"""Commands on a ledger that is on a PostgreSQL server: its address stands wherever a file would."""

import json
import secrets

import pytest
from commands import release

from qrelease.apps.cli import main

LEDGER = "--ledger"


@pytest.fixture
def place(postgres):
    return postgres.url(f"s{secrets.token_hex(6)}")


def test_every_command_takes_an_address(folder, place, postgres, capsys):
    assert release(LEDGER, place, "--total-epsilon", "2") == 0
    assert release(LEDGER, place, out="second") == 0
    assert release(LEDGER, place, out="third") == 2
    refused = capsys.readouterr().err
    assert refused.count("budget exceeded") == 1
    assert not list(folder.glob("*.ledger"))
    assert main(["ledger", "raise", place, "--epsilon", "3"]) == 0
    assert main(["analyst", "add", "ada", LEDGER, place, "--epsilon", "0.5"]) == 0
    assert main(["analyst", "list", LEDGER, place]) == 0
    assert main(["account", "ledgers", place]) == 0
    assert main(["verify", "out", LEDGER, place]) == 0
    job = f'data = "people.csv"\nschema = "people.toml"\nledger = "{place}"\ntotal = {{epsilon = 3}}\n'
    (folder / "jobs.toml").write_text(job + '[[release]]\nout = "fourth"\nepsilon = 1\nworkload = "marginals:1"\n')
    assert main(["run", "jobs.toml"]) == 0
    assert main(["ledger", "show", place]) == 0
    shown = capsys.readouterr()
    assert "spent   epsilon=3" in shown.out
    assert main(["ledger", "show", place, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["entries"]) == 5
    written = "".join(f.read_text(errors="replace") for f in folder.rglob("*") if f.is_file() and f.name != "jobs.toml")
    for text in (refused, shown.out, shown.err, written):
        assert postgres.password not in text


def test_what_is_wrong_with_an_address_is_one_line_without_its_password(folder, capsys):
    pytest.importorskip("psycopg")
    assert main(["ledger", "show", "postgresql://u:geheim@127.0.0.1:1/d"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "geheim" not in said
    for address, why in (
        ("postgresql://u:geheim@h/d?schema=No", "small letters"),
        ("postgresql://u:geheim@127.0.0.1:port/d", "cannot be read"),
        ("postgresql://u:geheim/x@127.0.0.1/d", "%2F"),
        ("postgresql:/u:geheim@h/d", "not written so"),
        ("postgresql://u:x@h/d?geheim=1", "no such parameter"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["ledger", "show", address])
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert why in said
        assert "geheim" not in said
