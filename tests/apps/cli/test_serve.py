"""`qrelease serve`: what it needs, and what is wrong, in one line."""

import shlex
import socket
import subprocess
import sys

import pytest
from commands import SERVED

from qrelease.apps.cli import main
from qrelease.privacy.costs import PureDP
from qrelease.privacy.ledger import Ledger


def test_options_stand_in_the_file_or_on_the_command_line(served, capsys):
    assert "--alpha must be written into serve.toml, not given beside it" in served(SERVED, "--alpha", "0.1")
    assert "--port must be written into serve.toml, not given beside it" in served(SERVED, "--port", "1")
    assert main(["serve", "--data", "people.csv", "--epsilon", "1"]) == 2
    assert "serve needs a FILE of datasets, or else --schema, --ledger as well" in capsys.readouterr().err


def test_what_is_wrong_with_a_table_is_said_as_by_a_server_of_one(tmp_path):
    """In a process of its own, since it forks."""
    (tmp_path / "serve.toml").write_text(SERVED.replace("epsilon = 1\n\n", "epsilon = 1\nalpha = 1e-11\n\n"))
    (tmp_path / "people.csv").write_text("sex\n1\n")
    (tmp_path / "people.json").write_text('{"sex": 2}')
    command = [sys.executable, "-m", "qrelease", "serve", "serve.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "alpha * records must be at least 2 counts" in line
    assert not [*tmp_path.glob("*.ledger")]


def test_records_in_another_dialect_are_read_by_the_options_that_errors_name(tmp_path, capsys):
    (tmp_path / "people.csv").write_bytes("sex;näme\n1;x\n".encode("latin-1"))
    (tmp_path / "people.json").write_text('{"sex": 2}')
    files = ["--data", f"{tmp_path}/people.csv", "--schema", f"{tmp_path}/people.json", "--ledger", f"{tmp_path}/l"]
    command = ["serve", *files, "--epsilon", "1", "--alpha", "1e-11", "--port", "0"]
    assert main(command) == 2
    assert "say its --encoding" in capsys.readouterr().err
    assert main([*command, "--encoding", "latin-1", "--separator", ";"]) == 2
    assert "alpha * records must be at least 2 counts" in capsys.readouterr().err  # so the records were read


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--data": "nothing.csv"}, "nothing.csv cannot be read"),
        ({"--schema": "nothing.toml"}, "nothing.toml cannot be read"),
        ({"--port": "taken"}, "take another by --port"),
        ({"--port": "-1"}, "cannot listen on 127.0.0.1 port -1"),
        ({"--workers": "0"}, "workers must be at least 1, got 0"),
        ({"--alpha": "2"}, "alpha"),
        ({"--alpha": "1e-11"}, "alpha * records must be at least 2 counts"),
        ({"--epsilon": "0"}, "epsilon must be positive"),
        ({"--epsilon": "1e-9"}, "too few records for answers"),
        ({"--rate": "nan"}, "rate must be in 0.001..1e+09, got nan"),
        ({"--rate": "0"}, "rate must be in"),
        ({"--rate": "-1"}, "rate must be in"),
        ({"--session": ""}, "session must be a text that is not empty"),
        ({"--session": "a\udc80"}, "session must be a text that is not empty, got 'a\\udc80'"),
        ({"--dataset": ""}, "dataset must be a text that is not empty"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(tmp_path, capsys, change, said):
    (tmp_path / "people.csv").write_text("sex\n1\n")
    (tmp_path / "people.json").write_text('{"sex": 2}')
    options = {"--data": "people.csv", "--schema": "people.json", "--ledger": "people.ledger", "--epsilon": "1"}
    options |= {"--port": "0", **change}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {"taken": str(taken.getsockname()[1])}
        files_ = {k: str(tmp_path / v) if k in ("--data", "--schema", "--ledger") else v for k, v in options.items()}
        arguments = [part for k, v in files_.items() for part in (k, values.get(v, v))]
        assert main(["serve", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    assert not (tmp_path / "people.ledger").exists()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_an_alpha_that_no_table_of_the_public_size_could_meet_is_refused_before_anything_is_bought(
    tmp_path, capsys, neighbours
):
    (tmp_path / "people.csv").write_text("a,b\n" + "0,1\n1,2\n" * 100)
    (tmp_path / "people.json").write_text('{"a": 2, "b": 3}')
    ledger = tmp_path / "people.ledger"
    given = f"serve --data {tmp_path}/people.csv --schema {tmp_path}/people.json --ledger {ledger} --records 200"
    for alpha, reason in (
        ("0.001", "alpha * records must be at least 2"),
        ("0.02", "alpha=0.02 of 200 records is out of"),
    ):
        assert (
            main([*given.split(), "--port", "0", "--neighbours", neighbours, "--epsilon", "0.5", "--alpha", alpha]) == 2
        )
        message = capsys.readouterr().err
        assert reason in message
        assert message.count("\n") == 1
        assert not ledger.exists()


def test_too_few_records_are_told_with_what_was_charged_and_another_session_can_be_opened(tmp_path):
    """In a process of its own, since a server takes the process for itself."""
    (tmp_path / "people.csv").write_text("sex\n1\n0\n")
    (tmp_path / "people.json").write_text('{"sex": 2}')
    given = "serve --data people.csv --schema people.json --ledger people.ledger --epsilon 1 --port 0"

    def run(*more):
        command = [sys.executable, "-m", "qrelease", *given.split(), *more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 2
        return done.stderr.splitlines()[0]

    first = run("--alpha", "0.001")
    with Ledger.open(tmp_path / "people.ledger") as ledger:
        assert f"to find that out, {ledger.spent:.6g} was charged, which stays spent" in first
    assert "serve --session NAME" in first
    assert "--records N" in first
    assert "serve --session NAME" in run("--alpha", "0.05")  # under the same name
    assert "too few records" in run("--alpha", "0.01", "--session", "another")  # a session of its own, as small


def test_a_schema_that_is_to_be_learned_is_refused_with_the_command_that_learns_it(tmp_path, capsys):
    schema, data = tmp_path / "people.toml", tmp_path / "people.csv"
    data.write_text("age;sex\n" + "".join(f"{20 + i % 50};{'FM'[i % 2]}\n" for i in range(500)))
    schema.write_text(
        '[[attribute]]\nname = "age"\nkind = "number"\nwithin = [0, 120]\nstep = 1\nbins = { learn = 8 }\n'
        '[[attribute]]\nname = "sex"\nkind = "category"\ncategories = ["F", "M"]\n'
    )
    served = ["serve", "--data", str(data), "--ledger", str(tmp_path / "p.ledger"), "--epsilon", "1", "--port", "0"]
    served += ["--separator", ";", "--schema"]
    assert main([*served, str(schema)]) == 2
    told = capsys.readouterr().err
    assert "people.toml leaves age to be learned" in told
    assert "nothing was charged" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "people.toml"]
    command = shlex.split(told.split("`qrelease ")[1].split("`")[0])
    assert "--header" not in command
    bare = tmp_path / "bare.csv"
    assert main(["serve", "--data", str(bare), *served[3:], str(schema), "--header", "age,sex"]) == 2
    assert f"schema learn {bare} --schema {schema} --header age,sex --ledger" in capsys.readouterr().err
    assert main(command) == 0
    with Ledger.open(tmp_path / "p.ledger") as ledger:
        assert (ledger.spent, ledger.total) == (PureDP(0.1), PureDP(1.0))
    assert main([*served, str(tmp_path / "people-learned.toml"), "--alpha", "1e-11"]) == 2
    assert "alpha * records must be at least 2 counts" in capsys.readouterr().err  # so the schema was taken
    # A ledger that is there has its total; of an address, whose password nobody needs to see, the option is named.
    assert main([*served, str(schema)]) == 2
    assert "--total-epsilon" not in capsys.readouterr().err
    served[2] = "postgresql://somebody:secret@host/people"
    assert main([*served, str(schema), "--query", "people", "--columns", "age"]) == 2
    told = capsys.readouterr().err
    assert f"schema learn DATA --schema {schema} --columns age" in told
    assert "secret" not in told
