"""The standing adversary: everything that can be observed of neighbouring tables, and twins that leak in every way."""

import contextlib
import io
import json
import logging
import sys
from dataclasses import dataclass, replace

import pytest
from in_process import in_process as command_in_process

from qrelease._util.bars import LogLines
from qrelease._util.compiling import COMPILING
from qrelease.apps.cli import main
from qrelease.apps.cli.mechanisms import MECHANISMS, mechanism_of
from qrelease.apps.server.in_process import in_process
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit.commands import Ran, release_command, started
from qrelease.evaluation.audit.doors import alike, audit_doors, command_door, curator_door
from qrelease.evaluation.audit.observed import differences, neighbouring
from qrelease.evaluation.audit.sampling import counted
from qrelease.mechanisms.base import Mechanism
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Filter, Neighbours, PureDP
from qrelease.queries.workload import Workload

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
NAMES = [*MECHANISMS]
ONE = PureDP(1.0)
PURE = ("mwem", "laplace", "smalldb")
FEW = {ADD: neighbouring(ADD)[:2], SWAP: neighbouring(SWAP)[:2]}


def cost_of(name):
    return ONE if name in PURE else ApproxDP(1.0, 1e-6)


def made(name):
    return FittedRecords(weighted_records=500) if name == "records" else mechanism_of(name)


# --- what the package has


@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize("name", NAMES)
def test_of_a_release_only_what_is_noisy_differs(name, neighbours):
    door = curator_door(made(name), cost_of(name))
    found = differences("Curator", name, door, neighbours, seeds=1, pairs=FEW[neighbours])
    assert not found.convicted, str(found)
    assert found.fields > 40


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", [ADD, SWAP])
@pytest.mark.parametrize("name", NAMES)
def test_at_all_doors_of_a_release_only_what_is_noisy_differs(name, neighbours):
    for found in audit_doors(name, made(name), cost_of(name), neighbours, in_process, run=command_in_process):
        assert not found.convicted, str(found)


def test_on_the_command_line_only_what_is_noisy_differs():
    found = differences(
        "command line", "laplace", command_door(release_command("laplace"), ONE), ADD, seeds=1, pairs=FEW[ADD][:1]
    )
    assert not found.convicted, str(found)


# --- what follows from the draws


class Kept:
    """Draws that are kept of one table, and given again for another: `Draws` without a ledger."""

    in_transaction = False

    def __init__(self):
        self.found, self.next = [], 0

    def take(self, asked, draw):
        if self.next == len(self.found):
            self.found.append((asked, draw()))
        before, drawn = self.found[self.next]
        assert before == asked
        self.next += 1
        return drawn


def of_the_draws(mechanism, cost, neighbours, table, kept):
    kept.next = 0
    private = Private(table, neighbours, Filter(cost), Entropy.insecure(0), draws=kept)
    made = mechanism.release(private, Workload.marginals(table.domain, 2), cost)
    assert kept.next == len(kept.found)
    return json.dumps(
        [
            made.synopsis.to_json(),
            made.choices,
            [m.values.tolist() for m in made.measurements],
            *map(str, private.spends),
        ]
    )


@pytest.mark.parametrize("cost", [ApproxDP(1.0, 1e-6), ZCDP(0.5), ONE], ids=str)
@pytest.mark.parametrize(
    "mechanism", [FittedRecords(weighted_records=500), FittedRecords(weighted_records=500, at_once=False)]
)
def test_a_release_of_records_is_a_function_of_its_draws(mechanism, cost):
    """Its rounds, selections and lists too: with other records, and as many others, they stay as they are."""
    for neighbours in (ADD, SWAP):
        for first, second in neighbouring(neighbours):
            kept = Kept()
            before = of_the_draws(mechanism, cost, neighbours, first, kept)
            assert of_the_draws(mechanism, cost, neighbours, second, kept) == before


def test_a_release_that_is_no_function_of_its_draws_is_noticed():
    first, second = neighbouring(ADD)[1]
    for leak in (in_the_manifest, by_a_longer_list, by_a_noisy_field_without_noise):
        kept = Kept()
        before = of_the_draws(Leaky(leak), ONE, ADD, first, kept)
        assert of_the_draws(Leaky(leak), ONE, ADD, second, kept) != before


@pytest.mark.parametrize("cost", [ApproxDP(1.0, 1e-6), ZCDP(0.5), ONE], ids=str)
@pytest.mark.parametrize("neighbours", [ADD, SWAP])
def test_of_records_with_selected_marginals_only_what_is_noisy_differs(neighbours, cost):
    door = curator_door(FittedRecords(weighted_records=500, at_once=False), cost)
    found = differences("Curator", "records", door, neighbours, seeds=1)
    assert not found.convicted, str(found)


# --- twins that leak: all convicted


@dataclass(frozen=True)
class Leaky:
    """Laplace's releases, and something that tells the number of records: `leak(draft, n)`."""

    leak: object
    inner: Mechanism = Laplace()  # noqa: RUF009  frozen
    name: str = "laplace"

    def check(self, workload, cost, neighbours):
        self.inner.check(workload, cost, neighbours)

    def release(self, private, workload, cost):
        (records,) = private.exact(Workload.marginals(private.domain, [()]))
        return self.leak(self.inner.release(private, workload, cost), int(records[0]))


class Sampling:
    """A synopsis that draws its records in another way."""

    def __init__(self, inner, sample):
        self._inner, self.sample = inner, sample

    def __getattr__(self, name):
        return getattr(self._inner, name)


def in_the_manifest(draft, n):
    return replace(draft, choices={**draft.choices, "n": n})


def by_a_missing_file(draft, n):
    def sample(rows, rng):
        if n % 2:
            raise TooLarge("the table does not fit")
        return draft.synopsis.sample(rows, rng)

    return replace(draft, synopsis=Sampling(draft.synopsis, sample))


def by_an_error_text(draft, n):
    raise InvalidInput(f"{n} records are too few")


def by_an_error_alone(draft, n):
    if n == 2:
        raise InvalidInput("too few records")
    return draft


def by_a_log_line(draft, n):
    logging.getLogger("qrelease").info("drew noise for %d records", n)
    return draft


def by_a_count_of_rows(draft, n):
    return replace(draft, synopsis=Sampling(draft.synopsis, lambda _, rng: draft.synopsis.sample(n, rng)))


def by_a_noisy_field_without_noise(draft, n):
    return replace(draft, synopsis=replace(draft.synopsis, total=float(n)))


def by_a_longer_list(draft, n):
    return replace(draft, measurements=draft.measurements * (n + 1))


@pytest.mark.parametrize(
    ("leak", "path"),
    [
        (in_the_manifest, "release.json/parameters/n"),
        (by_a_missing_file, "files"),
        (by_an_error_text, "error"),
        (by_an_error_alone, "error"),
        (by_a_log_line, "log/0"),
        (by_a_count_of_rows, "synthetic.csv beyond the manifest"),
        (by_a_noisy_field_without_noise, "release.json/synopsis/total"),
        (by_a_longer_list, "release.json/measurements/length"),
    ],
)
def test_a_mechanism_that_leaks_is_convicted(leak, path):
    found = differences("Curator", "laplace", curator_door(Leaky(leak), ONE), ADD, pairs=FEW[ADD])
    assert found.convicted
    assert path in {d.path for d in found.differences}, str(found)
    assert "CONVICTED" in str(found)
    json.dumps(found.to_json())


@pytest.mark.parametrize(
    ("leak", "path"),
    [
        ('print("read", len(table), "records", file=sys.stderr)', "0 release/stderr/0/numbers/0"),
        pytest.param("(folder / 'notes').write_text('n' * len(table))", "files", marks=pytest.mark.slow),
        pytest.param("sys.exit(len(table))", "0 release/exit", marks=pytest.mark.slow),
    ],
)
def test_a_command_that_leaks_is_convicted(leak, path, tmp_path):
    """By a line, by a file of which even the name is new, by the exit code."""
    script = tmp_path / "leaky.py"
    script.write_text(
        "import sys\nfrom qrelease.release import curator, writer\nfrom qrelease.apps.cli import main\n"
        "made, save = curator.Curator.__init__, writer.save\n"
        "def init(self, given, *rest, **named):\n    global table\n    table = given\n"
        "    made(self, given, *rest, **named)\n"
        f"def saved(release, folder, *rest, **named):\n    {leak}\n    return save(release, folder, *rest, **named)\n"
        "curator.Curator.__init__, writer.save = init, saved\nsys.exit(main())\n"
    )
    door = command_door(release_command("laplace"), ONE, started((sys.executable, str(script))))
    found = differences("command line", "laplace", door, ADD, seeds=1, pairs=FEW[ADD][:1])
    expected = {"files": "notes beyond the manifest"}.get(path, path)
    assert expected in {d.path for d in found.differences}, str(found)


def test_that_a_first_run_compiled_is_no_difference_and_another_line_is():
    for line, convicted in ((COMPILING, False), ("39 records", True)):
        told = iter([f"{line}\n"])

        def run(arguments, folder, told=told):
            return Ran(0, "", next(told, "") + "made\n")

        door = command_door(release_command("laplace"), ONE, run)
        found = differences("command line", "laplace", door, ADD, seeds=1, pairs=FEW[ADD][:1])
        assert found.convicted == convicted


# --- the comparison itself


def test_texts_are_alike_but_for_the_last_digits_of_fractions():
    assert alike("a,1.234567,2", "a,1.234568,2")
    for other in ("a,1.234567,3", "a,1.24,2", "b,1.234567,2", "a,1.234567", "a,1.234567,2,"):
        assert not alike("a,1.234567,2", other)


@pytest.mark.parametrize("seen", [{"0 release/exit": 2}, {"error": "InvalidInput: …"}])
def test_an_audit_in_which_every_table_is_refused_says_so(seen):
    """Refusals that are alike acquit nothing: no release was made, as of Laplace noise for a rho."""
    found = differences("command line", "numbers", lambda *_: seen, ADD)
    assert found.refused
    assert not found.convicted
    assert "every table was refused, alike" in str(found)
    made = differences("command line", "numbers", lambda table, *_: seen if len(table) < 2 else {"0/exit": 0}, ADD)
    assert made.convicted
    assert not made.refused


class Terminal(io.StringIO):
    """Where a person looks."""

    def isatty(self) -> bool:
        return True


def test_an_audit_says_how_far_it_is_run_by_run():
    """Of each table once; in a pipe it is lines, twice a minute, as a command that is run takes seconds."""
    tables = {id(table) for pair in neighbouring(ADD) for table in pair}
    with contextlib.redirect_stderr(Terminal()) as seen:
        differences("command line", "numbers", lambda *_: {"exit": 0}, ADD, seeds=2)
    assert "command line, numbers: " in seen.getvalue()
    assert f"0/{2 * len(tables)} " in seen.getvalue()
    with contextlib.redirect_stderr(io.StringIO()), counted(2, "doors") as bar:
        assert isinstance(bar, LogLines)
        assert bar.mininterval == 30


def test_the_command_says_what_was_found(capsys, monkeypatch):
    lines = "laplace at the door Curator: 5 pairs of tables"
    doors = ("command", 0, lines, lambda *_: {"exit": 0}), ("curator", 1, '"path": "n"', lambda t, *_: {"n": len(t)})
    for name, code, said, door in doors:
        monkeypatch.setattr(f"qrelease.evaluation.audit.doors.{name}_door", lambda *_, door=door: door)
        assert main(["audit", "laplace", "--doors", "--epsilon", "1", *["--json"][:code]]) == code
        out = capsys.readouterr().out
        assert said in out
    first = json.loads(out.splitlines()[0])
    assert first["differences"][0]["path"] == "n"
    for wrong in ("audit x:y --doors --epsilon 1", "audit laplace --doors --epsilon 1 --insecure-seed 3"):
        assert main(wrong.split()) == 2
