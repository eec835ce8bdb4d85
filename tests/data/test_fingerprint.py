"""Other records under the same name: the holder is told, a session stops, and nobody else learns anything."""

import re
import sqlite3
import warnings

import numpy as np
import pytest
from worlds import coded, random_table

from qrelease.apps.cli import main
from qrelease.data.fingerprint import fingerprint, record_sums
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, LedgerError, RowsChangedWarning
from qrelease.evaluation.quality.private_score import QualityScores
from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.statistics.mean import Mean

DOMAIN = coded(5, 300, 2)
KEY = bytes(range(32))
TABLES = [random_table(DOMAIN, 2_000, seed) for seed in (0, 1)]
WORKLOAD = Workload.marginals(DOMAIN, 1)
COST, TOTAL = PureDP(0.25), PureDP(8.0)


def moved(table, order):
    return Table(table.domain, tuple(column[order] for column in table.columns))


# --- the digest


class Mapped(np.ndarray):
    """A column that says how many bytes were read of it before it was let go of."""

    def __getitem__(self, rows):
        found = np.asarray(self)[rows]
        self.read[-1] += found.nbytes
        return found

    @property
    def _mmap(self):
        return self

    def madvise(self, _):
        self.read.append(0)


@pytest.mark.parametrize("count", [1, 40])
def test_of_mapped_columns_a_bounded_part_is_in_memory_however_many_they_are(count):
    columns = [np.broadcast_to(np.uint64(3), (1 << 25) // count).view(Mapped) for _ in range(count)]
    for column in columns:
        column.read = [0]
    sums = record_sums(columns, KEY)
    read = np.array([column.read for column in columns]).sum(axis=0)
    assert read.sum() == 2 * count * columns[0].nbytes  # by two keys
    assert read.max() <= 1 << 27
    assert sums == record_sums([np.asarray(column) for column in columns], KEY)


@pytest.mark.parametrize("n", [1, 2, 1000, (1 << 15) + 1, 70_000])
def test_the_order_of_the_records_does_not_count_and_any_change_does(n):
    rng = np.random.default_rng(n)
    table = random_table(DOMAIN, n, 3)
    found = table.fingerprint(KEY)
    assert moved(table, rng.permutation(n)).fingerprint(KEY) == found
    seen = {found[1], table.fingerprint(KEY[::-1])[1]}
    for axis in range(3):
        columns = [column.copy() for column in table.columns]
        columns[axis][n // 2] = (columns[axis][n // 2] + 1) % DOMAIN.shape[axis]
        changed = Table(DOMAIN, tuple(columns)).fingerprint(KEY)
        assert changed[0] == found[0]
        seen.add(changed[1])
    seen.add(Table(DOMAIN, tuple(c[:-1] for c in table.columns)).fingerprint(KEY)[1])
    seen.add(Table(DOMAIN, tuple(np.append(c, c[:1]) for c in table.columns)).fingerprint(KEY)[1])
    assert len(seen) == 7


def test_records_that_trade_a_value_are_other_records():
    """All counts of single columns stay as they were."""
    a, b = np.array([0, 1, 2, 2], np.uint8), [0, 1, 0, 1]
    found = {
        fingerprint(coded(3, 2), (a, np.array(column, np.uint8)), KEY)[1] for column in (b, [1, 0, 0, 1], [0, 1, 1, 0])
    }
    assert len(found) == 2  # the last trades between two that are alike otherwise


def test_another_schema_is_told_by_its_own_digest():
    columns = TABLES[0].columns
    schemas = {fingerprint(coded(*shape), columns, KEY)[0] for shape in ((5, 300, 2), (6, 300, 2), (5, 300, 3))}
    assert len(schemas) == 3


# --- releases


def release(ledger, table, **more):
    return Curator(table, ledger, Entropy.insecure(0)).release(Laplace(), WORKLOAD, COST, **more)


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "file"])
def test_a_release_on_other_records_warns_before_the_charge_and_goes_on(kept, tmp_path):
    with Ledger.open(tmp_path / "people.ledger" if kept else None, TOTAL) as ledger:
        release(ledger, TABLES[0])
        release(ledger, moved(TABLES[0], np.arange(2_000)[::-1]))
        with pytest.raises(RowsChangedWarning, match="the records are not those of the charge of"):
            release(ledger, TABLES[1])
        assert ledger.spent == PureDP(0.5)  # where warnings are errors nothing is charged
        with pytest.warns(RowsChangedWarning) as warned:
            release(ledger, TABLES[1])
        assert warned[0].filename == __file__  # the line that asked, not one inside of the package
        release(ledger, TABLES[1])
        release(ledger, TABLES[0], changed_rows=True)
        ledger.charge(COST, "by hand")
        total, *charges = ledger.history()
        assert (total.rows, [entry.rows for entry in charges]) == (None, ["A", "A", "B", "B", "A", None])
        times = [entry.time for entry in charges]
        assert [entry.changed for entry in charges] == [None, None, times[1], times[1], times[3], None]


def test_records_under_another_schema_cannot_be_compared():
    with Ledger.open(None, TOTAL) as ledger:
        release(ledger, TABLES[0])
        narrow = Table(coded(5), TABLES[0].columns[:1])
        with pytest.raises(RowsChangedWarning, match="cannot tell whether these are the same"):
            Curator(narrow, ledger).release(Laplace(), Workload.marginals(narrow.domain, 1), COST)


def test_the_record_is_durable_with_the_charge(tmp_path):
    """What undoes the one undoes the other."""
    with Ledger.open(tmp_path / "people.ledger", TOTAL) as ledger:
        rows = [ledger.rows_of(table.fingerprint) for table in TABLES]
        ledger.charge(COST, "a", rows=rows[0])
        with pytest.raises(ZeroDivisionError), ledger.transaction():
            ledger.charge(COST, "b", rows=rows[1])
            raise ZeroDivisionError
        assert ledger.notice(rows[0]) is None
        assert ledger.notice(rows[1]) is not None
        assert [entry.rows for entry in ledger.history()] == [None, "A"]


# --- sessions


@pytest.mark.parametrize("mechanism", [PrivateMultiplicativeWeights(), Online()], ids=["one charge", "pays as it goes"])
def test_a_session_does_not_go_on_with_other_records_untold(mechanism, tmp_path):
    path, tables = tmp_path / "people.ledger", [random_table(coded(8, 8), 50_000, seed) for seed in (0, 1)]
    cap = PureDP(4.0)

    def opened(table, **more):
        ledger = Ledger.open(path, None if path.exists() else TOTAL, neighbours=Neighbours.REPLACE_ONE)
        with ledger:
            Curator(table, ledger, Entropy.insecure(0)).open(mechanism, cap, key="stream", **more)
            return len(ledger.history())

    entries = [opened(tables[0]), opened(tables[0])]
    with pytest.raises(LedgerError, match="was opened on other records"):
        opened(tables[1])
    entries += [opened(tables[1], changed_rows=True), opened(tables[1])]
    with pytest.raises(LedgerError, match="was opened on other records"):
        opened(tables[0])
    assert len(set(entries)) == 1


# --- files


def edit(path, *statements):
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def version(path):
    connection = sqlite3.connect(path)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return found


def test_a_ledger_of_format_4_goes_on_in_the_next(tmp_path):
    """A file of that format is one without the digests: what `Ledger.charge` alone writes is the same to the byte."""
    path = tmp_path / "people.ledger"
    with Ledger.open(path, TOTAL) as ledger:
        ledger.charge(COST, "before", "k")
        session = ledger.session(COST, "a session", "s")
    assert version(path) == 4
    with Ledger.open(path) as ledger:
        release(ledger, TABLES[0])
        rows = ledger.rows_of(TABLES[0].fingerprint)
        assert ledger.session(COST, "a session", "s", rows=rows).key == session.key
        with pytest.raises(LedgerError, match="was opened on other records"):
            ledger.session(COST, "a session", "s", rows=ledger.rows_of(TABLES[1].fingerprint))
        assert [entry.rows for entry in ledger.history()] == [None, None, None, "A"]
        assert ledger.spent == PureDP(0.5)
    assert version(path) == 5


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM tables WHERE number = 2",
        "DELETE FROM tables",
        "UPDATE tables SET records = 'other' WHERE number = 1",
        "UPDATE tables_key SET key = x'00'",
        "DELETE FROM tables_key",
        "DROP TABLE tables",
        "PRAGMA user_version = 4",
    ],
)
def test_damage_is_noticed(tmp_path, damage):
    path = tmp_path / "people.ledger"
    with Ledger.open(path, TOTAL) as ledger:
        for table in TABLES:
            release(ledger, table, changed_rows=True)
    edit(path, damage)
    with pytest.raises(LedgerError, match="is damaged"), Ledger.open(path) as ledger:
        ledger.history()


# --- the command line

SCHEMA = '[[attribute]]\nname = "a"\nkind = "coded"\ncodes = 4\n'


def test_the_terminal_says_it_and_the_release_does_not(in_folder, capsys):
    (in_folder / "people.toml").write_text(SCHEMA)
    said = []
    for out, last in (("one", 1), ("two", 1), ("three", 2)):
        (in_folder / "people.csv").write_text("a\n" + "0\n1\n3\n" * 50 + f"{last}\n")
        command = ["release", "people.csv", "--schema", "people.toml", "--epsilon", "1", "--out", out]
        assert main(command + ["--total-epsilon", "4"] * (out == "one")) == 0
        said.append(capsys.readouterr().err)
    assert ["the records are not those of the charge of" in text for text in said] == [False, False, True]
    assert main(["ledger", "show", "people.ledger"]) == 0
    shown = capsys.readouterr().out
    assert re.findall(r"rows (\w+)(: changed since 20)?", shown) == [("A", ""), ("A", ""), ("B", ": changed since 20")]
    connection = sqlite3.connect("people.ledger")
    (key,) = connection.execute("SELECT key FROM tables_key").fetchone()
    digests = {key.hex(), *(text for row in connection.execute("SELECT schema, records FROM tables") for text in row)}
    connection.close()
    assert len(digests) == 4
    given = (
        shown
        + "".join(said)
        + "".join(f.read_text() for f in in_folder.rglob("*") if f.parent.name in ("one", "three"))
    )
    assert not [digest for digest in digests if digest in given]
    assert "records are not those" not in "".join(f.read_text() for f in (in_folder / "three").iterdir())


def test_a_process_that_ignores_warnings_is_not_stopped():
    with Ledger.open(None, TOTAL) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore", RowsChangedWarning)
        for table in TABLES:
            release(ledger, table)
        assert ledger.spent == PureDP(0.5)


@pytest.mark.parametrize("use", ["estimate", "open", "score"])
def test_other_records_are_told_before_their_number_refuses(use):
    """Under replace-one it is public, of the records that it is known of."""
    few = Table(coded(5, 300, 2), tuple(column[:3] for column in TABLES[0].columns))
    with Ledger.open(None, TOTAL, neighbours="replace-one") as ledger:
        Curator(TABLES[0], ledger, Entropy.insecure(0)).release(
            Laplace(), Workload.marginals(few.domain, 1), PureDP(0.125)
        )
        spent, curator = ledger.spent, Curator(few, ledger)
        asked = {
            "estimate": lambda more: curator.estimate(Mean(DOMAIN.names[0]), PureDP(0.01), **more),
            "open": lambda more: curator.open(Online(alpha=0.05), PureDP(0.25), **more),
            "score": lambda more: curator.estimate(QualityScores(few), PureDP(0.125), **more),
        }[use]
        with pytest.raises(RowsChangedWarning, match="the records are not those"):
            asked({})
        assert ledger.spent == spent
        if use != "score":
            with pytest.raises(InvalidInput):
                asked({"changed_rows": True})
            assert ledger.spent == spent
