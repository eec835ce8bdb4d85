"""A release that is cut off after its charge goes on for free, from the very draws that were made, and never twice."""

import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qrelease.apps.cli import main
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.online.session import Online
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Cost, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.resuming import MAX_BYTES, Draws, check_room, key_of, public_part, releases, unfinished
from qrelease.queries.workload import Workload
from qrelease.release import reader
from qrelease.release.curator import Curator

DOMAIN = Domain.coded(dict.fromkeys("abcd", 3))
WORKLOAD = Workload.marginals(DOMAIN, 2)
COST = PureDP(0.5)


def table(seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    return Table(DOMAIN, tuple(rng.integers(0, 3, 1000).astype(np.uint8) for _ in "abcd"))


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "l", ApproxDP(1.0, 1e-6)) as opened:
        yield opened


def kept(path: Path) -> list[bytes]:
    """The draws that are in a ledger, as an outsider reads them."""
    with sqlite3.connect(path) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'draws'").fetchone():
            return []
        return [drawn for (drawn,) in connection.execute("SELECT drawn FROM draws ORDER BY charge, number")]


@pytest.mark.parametrize(
    ("mechanism", "cost"),
    [
        (MWEM(rounds=3), COST),
        (FittedRecords(weighted_records=2000), ApproxDP(0.5, 1e-9)),
        (MaxEnt(), ApproxDP(0.5, 1e-9)),
        (Laplace(), COST),
        (SmallDB(size=3), COST),
        (SmallDB(size=8), COST),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_same_draws_make_the_same_release(mechanism, cost: Cost, ledger: Ledger) -> None:
    paid = Curator(table(), ledger).pay(mechanism, WORKLOAD, cost)
    first = paid.release()
    again = Curator(table(), ledger).pay(mechanism, WORKLOAD, cost)
    assert (paid.charge.fresh, again.charge.fresh) == (True, False)
    second = again.release()
    np.testing.assert_array_equal(first.answers(), second.answers())
    assert [m.values.tolist() for m in first.measurements] == [m.values.tolist() for m in second.measurements]
    again.finish(second)
    with pytest.raises(LedgerError, match="finished by another process"):
        Draws(ledger, paid.charge, "p").take("more", lambda: b"")
    with pytest.warns(UserWarning, match="charged once more"):
        third = Curator(table(), ledger).release(mechanism, WORKLOAD, cost)
    assert third.answers().tolist() != first.answers().tolist(), "what is finished is a new charge, and new noise"
    assert len(ledger.history()) == 3


@pytest.mark.parametrize("seed", [0, 1], ids=["the same records", "other records"])
@pytest.mark.parametrize("drawn", [0, 1, 2], ids=lambda drawn: f"{drawn} draws")
def test_what_is_public_does_not_tell_whether_records_changed_after_a_run_was_cut_off(
    drawn: int, seed: int, ledger: Ledger
) -> None:
    """Another charge for changed records would tell everybody who sees the ledger that some record changed."""
    mechanism, cost = MaxEnt(), ApproxDP(0.5, 1e-9)
    paid = Curator(table(), ledger).pay(mechanism, WORKLOAD, cost)
    assert paid.private.draws is not None
    cut = Cut(paid.private.draws, drawn)
    with suppress(KeyboardInterrupt):
        replace(paid, private=replace(paid.private, draws=cut)).release()
    held = kept(Path(str(ledger.store.place)))
    assert len(held) == drawn
    again = Curator(table(seed), ledger).pay(mechanism, WORKLOAD, cost, changed_rows=True)
    release = again.release()
    assert kept(Path(str(ledger.store.place)))[:drawn] == held, "what was drawn is not drawn again"
    again.finish(release)
    entries = [(entry["label"], entry["cost"], entry["release"] is None) for entry in public_part(ledger)["entries"]]
    assert entries[1:] == [("maxent: 54 queries", cost.to_json(), False)]
    assert ledger.spent == cost


class Cut:
    """The draws of a run that is interrupted after some of them."""

    def __init__(self, draws: Draws, left: int) -> None:
        self._draws, self._left = draws, left

    @property
    def in_transaction(self) -> bool:
        return self._draws.in_transaction

    def take(self, asked: str, draw: Callable[[], bytes]) -> bytes:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return self._draws.take(asked, draw)


def test_what_is_not_the_same_is_a_new_charge(ledger: Ledger) -> None:
    small, laplace = PureDP(0.01), Laplace()
    wider = Domain(tuple(replace(a, missing=("",)) for a in DOMAIN))
    charges = [
        Curator(table(), ledger).pay(laplace, WORKLOAD, small),
        Curator(Table(wider, table().columns), ledger).pay(
            laplace, Workload.marginals(wider, 2), small, changed_rows=True
        ),
        Curator(table(), ledger).pay(laplace, Workload.marginals(DOMAIN, 1), small, changed_rows=True),
        Curator(table(), ledger).pay(laplace, WORKLOAD, PureDP(0.02)),
        Curator(table(), ledger).pay(MWEM(), WORKLOAD, small),
        Curator(table(), ledger).pay(MWEM(rounds=3), WORKLOAD, small),
        Curator(table(), ledger).pay(laplace, WORKLOAD, small, again=True),
        Curator(table(), ledger, Entropy.insecure(1)).pay(laplace, WORKLOAD, small),
        Curator(table(), ledger, Entropy.insecure(1)).pay(laplace, WORKLOAD, small),
    ]
    assert all(paid.charge.fresh for paid in charges)
    assert len({paid.charge.id for paid in charges}) == len(charges)
    assert not charges[-1].resumes
    resumed = Curator(table(), ledger).pay(laplace, WORKLOAD, small).charge
    assert resumed.id == charges[6].charge.id, "the latest one that is not finished"


def test_a_spent_ledger_has_room_for_what_goes_on_for_free(tmp_path: Path) -> None:
    cost, part = PureDP(1.0), PureDP(0.5)
    with Ledger.open(tmp_path / "people.ledger", cost) as ledger:
        check_room(ledger, cost)
        paid = Curator(table(), ledger).pay(Laplace(), WORKLOAD, cost)
        check_room(ledger, cost)
        check_room(ledger, part, in_parts=True)
        for given in ({"resumes": False}, {"resumes": False, "in_parts": True}):
            with pytest.raises(BudgetExceeded):
                check_room(ledger, cost, **given)
        with pytest.raises(BudgetExceeded):
            check_room(ledger, part)
        paid.finish(paid.release())
        with pytest.raises(BudgetExceeded):
            check_room(ledger, cost)


def test_a_kept_draw_answers_no_other_question(ledger: Ledger) -> None:
    charge = ledger.charge(COST, "a", "k")
    assert Draws(ledger, charge, "p").take("one", lambda: b"1") == b"1"
    for program, asked in [("p", "two"), ("q", "one")]:
        with pytest.raises(LedgerError, match="answers other questions than this run asks"):
            Draws(ledger, charge, program).take(asked, lambda: b"2")


@pytest.mark.parametrize("drawn", [0, 1])
def test_nothing_is_drawn_for_a_charge_that_the_ledger_forgot(drawn: int, ledger: Ledger) -> None:
    """A backup was put back, or a stand-in took over, between the charge and the draw."""
    with ledger.store.reading():
        before = ledger.store.execute("SELECT tally, entries, last, digest FROM head").fetchone()
    charge = ledger.charge(COST, "a", "k")
    draws = Draws(ledger, charge, "p")
    for number in range(drawn):
        draws.take(f"{number}", lambda: b"1")
    with ledger.store.writing():
        for table in ("draws",) * drawn + ("entries WHERE id > 1",):
            ledger.store.execute(f"DELETE FROM {table}")
        ledger.store.execute("UPDATE head SET tally = ?, entries = ?, last = ?, digest = ?", tuple(before))
    with pytest.raises(LedgerError, match="has forgotten charges"):
        draws.take("next", lambda: pytest.fail("it was drawn"))


def test_what_may_be_given_away_of_a_ledger_has_days_and_no_times(ledger: Ledger) -> None:
    """Between two charges of one run is a release, and how long that took tells about how many records there are."""
    charges = [ledger.charge(PureDP(0.1), f"{number}", f"{number}") for number in range(2)]
    told = public_part(ledger)["entries"]
    assert [entry["time"] for entry in told[1:]] == [charge.time.partition("T")[0] for charge in charges]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", entry["time"]) for entry in told)


def test_of_two_that_draw_at_once_both_get_the_first(ledger: Ledger) -> None:
    charge = ledger.charge(COST, "a", "k")

    def late() -> bytes:
        assert Draws(ledger, charge, "p").take("one", lambda: b"first") == b"first"
        return b"second"

    assert Draws(ledger, charge, "p").take("one", late) == b"first"


def test_nothing_is_kept_after_a_draw_that_is_not(ledger: Ledger) -> None:
    """What is drawn after it may depend on it: kept alone, it would go with another draw in the run that goes on."""
    charge = ledger.charge(COST, "a", "k")
    draws = Draws(ledger, charge, "p")
    long = bytes(MAX_BYTES + 1)
    given = [b"1", long, b"3"]
    taken = [draws.take(str(n), lambda drawn=drawn: drawn) for n, drawn in enumerate(given)]
    assert taken == given
    assert kept(Path(str(ledger.store.place))) == []
    # Nobody goes on with this charge: other draws would come of it, for no further charge.
    assert ledger.charge(COST, "a", "k").answer is not None
    with pytest.raises(LedgerError, match="was begun by another process"):
        Draws(ledger, charge, "p").take("0", lambda: long)


def test_damage_is_noticed(ledger: Ledger) -> None:
    charge = ledger.charge(COST, "a", "k")
    Draws(ledger, charge, "p").take("one", lambda: b"1")
    with ledger.store.writing():
        ledger.store.execute("UPDATE draws SET drawn = ?", (b"2",))
    with pytest.raises(LedgerError, match="damaged"):
        Draws(ledger, charge, "p").take("one", lambda: b"1")


SCHEMA = "".join(
    f'[[attribute]]\nname = "{name}"\nkind = "category"\ncategories = ["x", "y", "z"]\n\n' for name in "abcd"
)
COMMAND = [
    *("release", "people.csv", "--schema", "people.toml", "--workload", "marginals:2", "--mechanism", "mwem"),
    *("--rounds", "3", "--epsilon", "0.5", "--total-epsilon", "0.6", "--out", "out"),
]

KILLED = """
import os, signal, sys
from qrelease.privacy.resuming import Draws
take, taken = Draws.take, []
def killing(self, asked, draw):
    if {before} and len(taken) == {draws}:
        found = draw()
        os.kill(os.getpid(), signal.{name})
    drawn = take(self, asked, draw)
    taken.append(drawn)
    if not {before} and len(taken) == {draws}:
        os.kill(os.getpid(), signal.{name})
    return drawn
Draws.take = killing
from qrelease.apps.cli import main
sys.exit(main({command}))
"""


@pytest.fixture
def folder(in_folder: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = "".join(",".join("xyz"[v] for v in row) + "\n" for row in rng.integers(0, 3, (500, 4)))
    (in_folder / "people.csv").write_text("a,b,c,d\n" + rows)
    (in_folder / "people.toml").write_text(SCHEMA)
    return in_folder


def cut_off(
    draws: int, name: str, *, before: bool = False, command: Sequence[str] = COMMAND
) -> subprocess.CompletedProcess[str]:
    """A run that is ended at its n-th draw, or after it is drawn and before it is kept."""
    return ended(KILLED.format(before=before, draws=draws, name=name, command=[*command]))


def ended(program: str) -> subprocess.CompletedProcess[str]:
    """A program that ends itself."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # who runs the tests may ignore it
    )


def charges(folder: Path) -> int:
    with Ledger.open(folder / "people.ledger") as opened:
        return sum(entry.kind == "charge" for entry in opened.history())


@pytest.mark.parametrize(("draws", "before"), [(1, False), (1, True), (4, False)])
def test_a_kill_costs_nothing_more(draws: int, before: bool, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cut_off(draws, "SIGKILL", before=before).returncode == -signal.SIGKILL
    drawn = kept(folder / "people.ledger")
    assert (len(drawn), charges(folder)) == (draws, 1)
    assert main(["ledger", "show", "people.ledger"]) == 0
    assert capsys.readouterr().out.count("not finished: the same command goes on for free") == 1
    assert main(COMMAND) == 0
    printed = capsys.readouterr()
    assert "goes on for free with the release that was charged at" in printed.err
    assert "spent in all: epsilon=0.5 of epsilon=0.6" in printed.out
    assert (charges(folder), kept(folder / "people.ledger")) == (1, [])
    measured = {v for m in reader.load("out").measurements for v in m.values.tolist()}
    for count_or_columns in drawn[:2]:
        values = np.frombuffer(zlib.decompress(count_or_columns), "<f8").tolist()
        assert measured.issuperset(values), "none was drawn again"
    assert main(["ledger", "show", "people.ledger"]) == 0
    assert "not finished" not in capsys.readouterr().out
    shutil.rmtree("out")
    assert main(COMMAND) == 2, "the release was made: the same again is a new one, for which nothing is left"
    assert "budget exceeded" in capsys.readouterr().err


def test_of_two_tables_with_one_ledger_none_goes_on_from_the_other(folder: Path) -> None:
    """Their files have names, which are public: by them the draws of one are not taken for those of the other."""
    shutil.copy("people.csv", "north.csv")
    Path("south.csv").write_text("a,b,c,d\n" + "x,y,z,x\n" * 40)
    one, other = (
        [*COMMAND[:1], f"{name}.csv", *COMMAND[2:-1], name, "--dataset", "people", "--ledger", "people.ledger"]
        for name in ("north", "south")
    )
    spent = ["--total-epsilon", "1.1"]
    assert cut_off(2, "SIGKILL", command=[*one, *spent]).returncode == -signal.SIGKILL
    drawn = {value for draw in kept(folder / "people.ledger") for value in np.frombuffer(zlib.decompress(draw), "<f8")}
    assert len(drawn) > 5
    assert main([*other, *spent]) == 0
    assert charges(folder) == 2
    assert main([*one, *spent]) == 0, "it goes on from its own draws"
    assert charges(folder) == 2
    measured = [
        {value for m in reader.load(name).measurements for value in m.values.tolist()} for name in ("north", "south")
    ]
    assert [drawn <= values for values in measured] == [True, False]


@pytest.mark.parametrize("moved", [False, True])
def test_a_release_that_is_at_its_place_is_finished_by_the_next(moved: bool, folder: Path) -> None:
    """A run may be cut off when its folder has its name, and the ledger has not heard of that: the next month's release
    would go on from its draws. Where the folder is another by now, nobody knows, and it is made again for nothing."""
    program = f"""
import os
from qrelease.release.curator import Paid
Paid.finish = lambda *_: os._exit(9)
from qrelease.apps.cli import main
main({COMMAND})
"""
    assert ended(program).returncode == 9
    first = reader.load("out")
    if moved:
        Path("out").rename("elsewhere")
    command = [*COMMAND[:-1], "february"]
    assert main(command) == (0 if moved else 2), "for a new charge nothing is left"
    with Ledger.open("people.ledger") as opened:
        (made,) = releases(opened).values()
        assert not any(map(unfinished, opened.history()))
    assert made["release"] == first.id
    assert charges(folder) == 1
    assert kept(folder / "people.ledger") == []


def test_who_interrupts_hears_of_the_charge(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = cut_off(2, "SIGINT")
    assert run.returncode == 128 + signal.SIGINT
    assert run.stderr.endswith(
        "qrelease: interrupted; epsilon=0.5 was charged, and the same command goes on from what was drawn, for free\n"
    )
    (folder / "people.csv").write_text((folder / "people.csv").read_text() + "x,x,x,x\n")
    assert main(COMMAND) == 0, "whether there is a release does not tell whether a record changed"
    told = capsys.readouterr().err
    assert "the records are not those of the charge of" in told
    assert "goes on for free" in told
    assert charges(folder) == 1


def test_a_full_disk_costs_nothing_more(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [*COMMAND, "--rows", "300000"]
    run = subprocess.run(
        [sys.executable, "-m", "qrelease", *command], capture_output=True, text=True, preexec_fn=full, timeout=120
    )
    assert run.returncode == 2
    assert "out cannot be written: File too large; epsilon=0.5 was charged, and the same command goes on" in run.stderr
    assert not (folder / "out").exists()
    assert main(command) == 0
    assert charges(folder) == 1


@pytest.mark.parametrize(
    "key", ["release ", "release 2024", "release x 1", f"release {'0' * 64}", f"release {'g' * 64} 1"]
)
def test_a_key_of_a_users_own_is_no_release_that_was_cut_off(key: str, ledger: Ledger) -> None:
    ledger.charge(COST, "a user's own work", key)
    assert not unfinished(ledger.history()[-1])


def test_a_key_such_as_releases_have_is_for_releases_alone(ledger: Ledger) -> None:
    work = "ab" * 32
    ledger.charge(PureDP(0.01), "a user's own", f"release {work} no number")
    assert key_of(ledger, work) == f"release {work} 1"
    ledger.charge(PureDP(0.01), "a release", f"release {work} 1")
    assert unfinished(ledger.history()[-1])
    assert key_of(ledger, work) == f"release {work} 1"
    assert key_of(ledger, work, again=True) == f"release {work} 2"
    with pytest.raises(InvalidInput, match="looks like a key of a release"):
        Curator(table(), ledger).open(Online(0.1), PureDP(0.01), key=f"release {work} 1")


def test_a_disk_that_is_too_small_is_refused_before_the_charge(
    folder: Path, free_disk: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    free_disk(1 << 20)
    assert main(COMMAND) == 2
    assert "has 1 MiB free, and this release may take" in capsys.readouterr().err
    assert not (folder / "people.ledger").exists()


if not hasattr(os, "fork"):  # signals and limits as on Unix
    pytest.skip(allow_module_level=True)


def test_a_charge_is_for_the_process_that_paid_it(ledger: Ledger) -> None:
    """A fork, or a transaction that is undone, would draw twice under one charge."""
    paid = Curator(table(), ledger).pay(Laplace(), WORKLOAD, COST)
    with ledger.transaction(), pytest.raises(LedgerError, match="outside of transactions"):
        paid.release()
    with pytest.raises(LedgerError, match="by the process that paid"):
        replace(paid, process=0).release()
    assert paid.release().answers().shape == (len(WORKLOAD),)
