"""Two tables in one release: what it costs, no child without a parent, and a structure that is that of the data."""

import csv
from pathlib import Path

import numpy as np
import pytest

from qrelease.apps.cli import main
from qrelease.apps.two_tables import release_linked
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.person import CHILDREN, Person
from qrelease.data.schema import to_toml
from qrelease.data.table import Table
from qrelease.data.two_tables import TwoTables
from qrelease.errors import BudgetExceeded, InvalidInput, RowsChangedWarning
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.release.reader import load

M = 4
PERSON = Person("plane", M)
KIND, AGE = Attribute("kind", "category", categories=("jet", "prop")), Attribute("age", "coded", codes=5, ordered=True)
FAR, LATE = Attribute("far", "coded", codes=3, ordered=True), Attribute("late", "category", categories=("no", "yes"))
PLANES, FLIGHTS = Domain((KIND, AGE), person=PERSON), Domain((FAR, LATE), person=PERSON)


def made(planes=3000, seed=0, orphans=0):
    """Jets fly far and often, props near and seldom, some of them never; old ones are late."""
    rng = np.random.default_rng(seed)
    kind, age = rng.integers(2, size=planes), rng.integers(5, size=planes)
    flights = np.where(kind == 0, rng.integers(2, 7, size=planes), rng.integers(0, 3, size=planes))
    of = np.repeat(np.arange(planes), flights)
    far = np.where(rng.random(len(of)) < 0.9, np.where(kind[of] == 0, 2, 0), 1)
    late = (rng.random(len(of)) < 0.1 + 0.2 * age[of]).astype(int)
    lost = [f"lost {i}" for i in range(orphans)]
    parents = Table.of_persons(PLANES, [kind, age], [f"N{i}" for i in range(planes)])
    extra = np.ones(orphans, int)
    children = Table.of_persons(
        FLIGHTS, [np.append(far, extra), np.append(late, extra)], [*(f"N{i}" for i in of), *lost]
    )
    return TwoTables.of(parents, children), kind, age, flights, of, far, late


def test_what_a_parent_says_follows_from_its_own_rows():
    both, kind, _, flights, of, _, _ = made(300, orphans=9)
    assert both.parents.domain.names == ("kind", "age", CHILDREN)
    assert both.parents.columns[2].tolist() == np.minimum(flights, M).tolist()
    assert len(both.children) == len(of)  # the children of nobody are left out
    assert both.children.columns[2].tolist() == kind[of].tolist()
    without = made(300)[0]
    for table, same in zip((both.parents, both.children), (without.parents, without.children), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(table.columns, same.columns, strict=True))


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_neighbours_differ_by_one_record_there_and_at_most_m_here(neighbours):
    both = made(200)[0]
    names = np.array([f"N{i}" for i in range(200)])
    keep = names != "N7"
    parents = Table.of_persons(PLANES, [c[keep] for c in both.parents.columns[:2]], names[keep])
    whose = names[both.children.persons.rows_of(both.parents.persons)]
    mine = whose != "N7"
    children = Table.of_persons(FLIGHTS, [c[mine] for c in both.children.columns[:2]], whose[mine])
    less = TwoTables.of(parents, children)
    for table, other, most in ((both.parents, less.parents, 1), (both.children, less.children, M)):
        apart = table.bounded(b"key").histogram() - other.bounded(b"key").histogram()
        assert 0 < np.abs(apart).sum() <= most


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
def test_the_structure_is_that_of_the_data(neighbours):
    both, kind, age, flights, of, far, late = made()
    cost = ApproxDP(20.0, 1e-6)
    with Ledger.open(None, cost, neighbours=neighbours, person="plane") as ledger:
        found = release_linked(both, ledger, MaxEnt(), cost, entropy=Entropy.insecure(1))
        assert ledger.spent.epsilon == pytest.approx(cost.epsilon)
        assert sum(entry.kind == "charge" for entry in ledger.history()) == 2
    parents, owner, own = found.codes(None, np.random.default_rng(0))
    assert abs(len(parents[0]) - 3000) < 100
    assert np.array_equal(np.bincount(owner, minlength=len(parents[0])), parents[2])
    assert parents[2].max() <= M
    cut = np.minimum(flights, M)
    for value in (0, 1):
        assert parents[2][parents[0] == value].mean() == pytest.approx(cut[kind == value].mean(), abs=0.15)
        mine, theirs = parents[0][owner] == value, kind[of] == value
        for place in range(3):
            share = np.mean(own[0][mine] == place)
            assert share == pytest.approx(np.mean(far[theirs] == place), abs=0.06)
    for old in range(5):
        assert np.mean(own[1][parents[1][owner] == old]) == pytest.approx(np.mean(late[age[of] == old]), abs=0.08)


def test_nothing_is_charged_unless_both_are_covered_and_fit():
    both = made(200)[0]
    with Ledger.open(None, PureDP(1.0), person="plane") as ledger:
        Curator(both.parents, ledger).release(Laplace(), _pairs(both.parents), PureDP(0.5))
        with pytest.raises(BudgetExceeded):
            release_linked(both, ledger, Laplace(), PureDP(1.0), changed_rows=True)
        for wrong, said in ((Matrix(), "a synthetic table is wanted"), (MaxEnt(objective="largest"), "give --delta")):
            cost = ApproxDP(0.5, 1e-6) if isinstance(wrong, Matrix) else PureDP(0.5)
            with pytest.raises(InvalidInput, match=said):
                release_linked(both, ledger, wrong, cost, changed_rows=True)
        with pytest.raises(InvalidInput, match="share must be between 0 and 1"):
            release_linked(both, ledger, Laplace(), PureDP(0.5), share=1.0)
        assert ledger.spent == PureDP(0.5)


@pytest.mark.parametrize("mechanism", [Laplace(), MaxEnt()], ids=lambda mechanism: mechanism.name)
def test_how_many_parents_have_children_is_not_told(mechanism):
    """Where a parent counts once, and parents are replaced, their sum would be exact: of those with children alone."""
    domains = [Domain(domain.attributes, person=Person("plane", M, weights="persons")) for domain in (PLANES, FLIGHTS)]
    parents = Table.of_persons(domains[0], [np.zeros(9, int), np.zeros(9, int)], range(9))
    children = Table.of_persons(domains[1], [np.zeros(8, int), np.zeros(8, int)], range(8))
    both = TwoTables.of(parents, children)
    with Ledger.open(None, PureDP(1.0), neighbours=Neighbours.REPLACE_ONE, person="plane") as ledger:
        with pytest.raises(InvalidInput, match="how many parents have children is private"):
            release_linked(both, ledger, mechanism, PureDP(1.0))
        assert ledger.spent is None or ledger.spent == PureDP(0.0)
    with Ledger.open(None, PureDP(1.0), person="plane") as ledger:
        found = release_linked(both, ledger, mechanism, PureDP(1.0), entropy=Entropy.insecure(1))
        assert found.children.synopsis.total != 8  # of which the noise is that of one record


def _pairs(table):
    from qrelease.queries.workload import Workload

    return Workload.marginals(table.domain, 2)


def test_a_run_that_is_cut_off_is_gone_on_with_for_free(tmp_path):
    both, drawn = made(200)[0], []

    def fails(found):
        drawn.append(found.children.answers())
        raise OSError("the disk is full")

    with Ledger.open(tmp_path / "x.ledger", PureDP(1.0), person="plane") as ledger:
        with pytest.raises(OSError, match="the disk is full"):
            release_linked(both, ledger, Laplace(), PureDP(1.0), store=fails)
        assert ledger.spent.epsilon == pytest.approx(1.0)
        again = release_linked(both, ledger, Laplace(), PureDP(1.0), changed_rows=True)
        assert np.array_equal(again.children.answers(), drawn[0])
        with pytest.raises(BudgetExceeded):
            release_linked(both, ledger, Laplace(), PureDP(1.0), changed_rows=True)


def test_wrong_tables_are_refused():
    parents = Table.of_persons(PLANES, [np.zeros(2, int), np.zeros(2, int)], ["a", "a"])
    children = Table.of_persons(FLIGHTS, [np.zeros(1, int), np.zeros(1, int)], ["a"])
    with pytest.raises(InvalidInput, match="a parent table has one row for each 'plane'"):
        TwoTables.of(parents, children)
    other = Table.of_persons(Domain((KIND,), person=Person("ship", 2)), [np.zeros(1, int)], ["a"])
    with pytest.raises(InvalidInput, match="the same person column"):
        TwoTables.of(other, children)
    taken = Domain((Attribute(CHILDREN, "coded", codes=2),), person=PERSON)
    with pytest.raises(InvalidInput, match="rename that column of the schema"):
        TwoTables.of(Table.of_persons(taken, [np.zeros(1, int)], ["a"]), children)


def files(folder):
    _, kind, age, _, of, far, late = made(400)
    kinds, lates = KIND.categories, LATE.categories
    (folder / "planes.csv").write_text(
        "plane,kind,age\n" + "".join(f"N{i},{kinds[k]},{a}\n" for i, (k, a) in enumerate(zip(kind, age, strict=True)))
    )
    lines = (f"N{o},{f},{lates[i]}\n" for o, f, i in zip(of, far, late, strict=True))
    (folder / "flights.csv").write_text("plane,far,late\n" + "".join(lines) + "N-none,1,no\n")
    (folder / "flights.toml").write_text(to_toml(Domain((FAR, LATE, KIND, AGE), person=PERSON)))
    return [str(folder / "flights.csv"), "--schema", str(folder / "flights.toml"), "--epsilon", "2", "--delta", "1e-6"]


def test_on_the_command_line(tmp_path, capsys):
    given = files(tmp_path)
    asked = ["release", *given, "--parent", str(tmp_path / "planes.csv"), "--both", "--mechanism", "maxent"]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 0
    assert "spent in all" in capsys.readouterr().out
    with (tmp_path / "out" / "parents.csv").open() as parents, (tmp_path / "out" / "children.csv").open() as children:
        planes, flights = list(csv.DictReader(parents)), list(csv.DictReader(children))
    assert set(planes[0]) == {"plane", "kind", "age", CHILDREN}
    assert set(flights[0]) == {"plane", "far", "late"}
    keys = [row["plane"] for row in planes]
    assert len(set(keys)) == len(keys)
    assert {row["plane"] for row in flights} <= set(keys)
    for row in planes[:50]:
        assert sum(f["plane"] == row["plane"] for f in flights) == int(row[CHILDREN]) <= M
    assert load(tmp_path / "out" / "parents").unit.at_most == 1
    assert load(tmp_path / "out" / "children").unit.at_most == M


@pytest.mark.parametrize("changed", ["planes.csv", "flights.csv"])
def test_of_either_table_it_is_said_that_its_rows_have_changed(tmp_path, capsys, changed):
    """On the command line and in Python, before the charge: a row without children, too, and a child's own column."""
    given = files(tmp_path)
    with (tmp_path / "planes.csv").open("a") as file:
        file.write("N-alone,prop,1\n")
    asked = ["release", *given, "--parent", str(tmp_path / "planes.csv"), "--both", "--mechanism", "laplace"]
    assert main([*asked, "--total-epsilon", "9", "--total-delta", "1e-5", "--out", str(tmp_path / "out")]) == 0
    assert "the records are not those" not in capsys.readouterr().err
    file = tmp_path / changed
    text = file.read_text()
    old, new = ("N-alone,prop", "N-alone,jet") if changed == "planes.csv" else (",yes\n", ",no\n")
    file.write_text(text.replace(old, new, 1))
    (ledger_path,) = tmp_path.glob("*.ledger")
    tables = TwoTables.read(tmp_path / "flights.csv", tmp_path / "planes.csv", tmp_path / "flights.toml")
    with Ledger.open(ledger_path) as ledger, pytest.warns(RowsChangedWarning, match="the records are not those"):
        release_linked(tables, ledger, Laplace(), ApproxDP(2.0, 1e-6))
    file.write_text(text)
    assert main([*asked, "--again", "--out", str(tmp_path / "again")]) == 0
    assert capsys.readouterr().err.count("the records are not those") == 1


def test_a_folder_that_cannot_be_written_tells_of_the_charge_and_is_gone_on_with(tmp_path, capsys, monkeypatch):
    given = files(tmp_path)
    asked = ["release", *given, "--parent", str(tmp_path / "planes.csv"), "--both", "--mechanism", "laplace"]

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", full)
        assert main([*asked, "--out", str(tmp_path / "out")]) == 2
    assert "was charged, and the same command goes on from what was drawn, for free" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*asked, "--out", str(tmp_path / "out")]) == 0  # the ledger has no more than one release
    assert (tmp_path / "out" / "parents.csv").is_file()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--both"], "--both releases two tables: give the other one by --parent"),
        (["--both", "--parent", "PLANES", "--weighted"], "--both cannot be used with --weighted"),
        (["--both", "--parent", "PLANES", "--mechanism", "matrix"], "a synthetic table is wanted"),
        (["--both", "--parent", "PLANES", "--mechanism", "mwem", "--rounds", "0"], "rounds must be"),
    ],
)
def test_wrong_arguments_are_one_line_and_make_no_ledger(tmp_path, capsys, more, said):
    given = files(tmp_path)
    more = [str(tmp_path / "planes.csv") if part == "PLANES" else part for part in more]
    assert main(["release", *given, *more, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("*.ledger"))
    assert not (tmp_path / "out").exists()
