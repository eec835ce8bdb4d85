"""`qrelease schema`: drafts that are refused until reviewed, and schemas learned for a charge."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from towns import OPEN, frame

from qrelease.apps.cli import main
from qrelease.data.attribute import OTHER, Attribute
from qrelease.data.domain import Domain
from qrelease.data.schema import load, to_toml
from qrelease.data.table import Table
from qrelease.mechanisms.auto import Auto
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.release.reader import load as read
from qrelease.release.schema_cost import cost_with_schema

LEARN = ["schema", "learn", "towns.csv", "--schema", "draft.toml", "--out", "schema.toml", "--epsilon", "2"]


@pytest.fixture
def towns(in_folder):
    frame(400).to_csv("towns.csv", index=False)
    (in_folder / "draft.toml").write_text(to_toml(OPEN))
    return in_folder


def test_the_command_charges_and_writes(towns, capsys):
    assert main([*LEARN, "--delta", "1e-6", "--total-epsilon", "3", "--total-delta", "1e-5"]) == 0
    assert "learn bins of hours: epsilon=0.4" in capsys.readouterr().out
    domain = load("schema.toml")
    assert domain["town"].categories[-1] == OTHER
    again = [*LEARN[:-3], "again.toml", *LEARN[-2:], "--delta", "1e-6"]
    assert main(again) == 0
    assert "cost nothing now" in capsys.readouterr().out
    assert load("again.toml") == domain
    assert main(["release", "towns.csv", "--schema", "schema.toml", "--epsilon", "1", "--workload", "marginals:1"]) == 0
    with Ledger.open(towns / "towns.ledger") as ledger:
        assert ledger.spent == ApproxDP(3.0, 1e-6)
    (of_schema,) = read("towns-release").learned  # the release knows it by the ledger: e^3, not e^1
    assert (of_schema.columns, of_schema.cost) == (("hours", "town"), ApproxDP(2.0, 1e-6))
    assert "within a factor of 20.09, give or take δ = 1e-06" in read("towns-release").promise


def test_what_learning_costs_and_finds_is_told_before_the_charge_and_alone_by_plan(towns, capsys):
    cost = ["--delta", "1e-6"]
    (towns / "towns.csv").rename("away.csv")
    plan = [*LEARN[:5], "--plan", *LEARN[-2:], *cost]
    assert main(plan) == 0
    planned, *columns = capsys.readouterr().out.splitlines()
    assert planned.startswith("epsilon=2, delta=1e-06 would be charged;")
    assert len(columns) == 2
    assert "is as likely to become one as not" in columns[1]
    assert not [*towns.glob("*.ledger")]
    (towns / "away.csv").rename("towns.csv")
    for wrong in ([*LEARN, *cost, "--plan"], [*LEARN[:5], *LEARN[-2:], *cost]):
        assert main(wrong) == 2
        assert "give either --out, the file to make, or --plan" in capsys.readouterr().err
    assert main([*LEARN, *cost]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [f"qrelease: {line}" for line in columns] == [line for line in said if "learn " in line]
    assert main([*LEARN[:-3], "again.toml", *LEARN[-2:], *cost]) == 0
    assert "at most" not in capsys.readouterr().err  # nothing is charged


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])  # charged one after the other, and together
def test_a_release_that_learned_has_the_completed_schema_for_further_releases(towns, capsys, mechanism):
    release = ["release", "towns.csv", "--epsilon", "2", "--delta", "1e-6", "--workload", "marginals:1", "--schema"]
    total = ["--total-epsilon", "9", "--total-delta", "1e-5"]
    assert main([*release, "draft.toml", *total, "--mechanism", mechanism, "--out", "first"]) == 0
    assert load("first/schema.toml") == read("first").domain
    assert main(["verify", "first"]) == 0
    assert "holds: schema: schema.toml is that of this manifest" in capsys.readouterr().out
    assert main([*release, "first/schema.toml", "--out", "second"]) == 0
    assert read("second").domain == read("first").domain
    assert read("second").learned
    (towns / "first" / "schema.toml").write_text("")
    main(["verify", "first"])
    said = capsys.readouterr().out
    assert "not checked: schema: schema.toml is not the one" in said


def test_one_command_learns_and_releases(towns, capsys):
    arguments = ["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "4", "--delta", "1e-6"]
    assert main([*arguments, "--workload", "marginals:2", "--mechanism", "laplace"]) == 0
    with Ledger.open(towns / "towns.ledger") as ledger:
        assert ledger.spent.epsilon == pytest.approx(4.0)
        assert len([entry for entry in ledger.history() if entry.kind == "charge"]) == 2
    rows = pd.read_csv(towns / "towns-release" / "synthetic.csv")
    assert set(rows["hours"].dropna()) <= set(range(1000))
    assert cost_with_schema(read("towns-release")).epsilon == pytest.approx(4.0)


def test_a_release_in_rho_is_charged_with_its_schema_and_can_be_verified(towns, capsys):
    arguments = ["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "1", "--delta", "1e-6"]
    assert main([*arguments, "--total-epsilon", "3", "--total-delta", "1e-5"]) == 0
    printed = capsys.readouterr()
    assert "learned hours, town for a part of the epsilon=1, delta=1e-06 that it and the release" in printed.err
    assert "spent in all: epsilon=1, delta=1e-06 of epsilon=3, delta=1e-05" in printed.out
    with Ledger.open(towns / "towns.ledger") as ledger:
        assert len([entry for entry in ledger.history() if entry.kind == "charge"]) == 1
    assert main(["ledger", "show", "towns.ledger", "--json"]) == 0
    (towns / "ledger.json").write_text(capsys.readouterr().out)
    assert main(["verify", "towns-release", "--ledger", "ledger.json"]) == 0
    assert "learn bins of hours" in (towns / "towns-release" / "report.html").read_text()


def test_a_release_that_was_cut_off_goes_on_with_the_schema_that_it_was_charged_with(towns, capsys):
    total = ApproxDP(1.0, 1e-6)
    with Ledger.open(towns / "towns.ledger", total, dataset="towns") as ledger:
        table = Table.read("towns.csv", load("draft.toml", undecided=True))
        begun = Curator(table, ledger, place="towns").learn_for(Auto(), total)
    assert main(["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "1", "--delta", "1e-6"]) == 0
    assert "goes on for free" in capsys.readouterr().err
    assert read("towns-release").domain == begun.domain
    with Ledger.open(towns / "towns.ledger") as ledger:
        assert ledger.spent == total


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (LEARN, "need a delta above 0"),
        ([*LEARN, "--delta", "0"], "need a delta above 0"),
        (["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "1"], "need a delta above 0"),
        (["release", "towns.csv", "--schema", "draft.toml", "--rho", "1"], "must be PureDP or ApproxDP"),
        (["evaluate", "towns.csv", "--schema", "draft.toml", "--epsilon", "1"], "must be learned"),
        ([*LEARN, "--delta", "1e-6", "--epsilon", "1e-15"], "need a larger epsilon than"),
        (
            ["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "1e-14", "--delta", "1e-30"],
            "need a larger rho than",
        ),
    ],
)
def test_what_is_wrong_is_one_line_and_costs_nothing(towns, capsys, arguments, told):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1
    assert not (towns / "towns.ledger").exists()
    assert not (towns / "schema.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--workload", "where:nosuch = 3"], "no column 'nosuch'"),
        (["--workload", "where:hours < soon"], "needs a whole number"),
        (["--workload", "where:hours < 40 and sex = 'X'"], "no category 'X'"),
        (["--workload", "where:town in {'Ulm', 'Bonn'} and ("], "expected a column name"),
        (["--workload", "wherever"], "a workload is"),
        (["--weighted", "--columns", "hours,sex,weight"], "rename that column"),
    ],
)
def test_what_no_learned_schema_could_make_right_is_refused_before_it_is_learned(towns, capsys, arguments, told):
    """It follows from the schema alone: nobody pays for a schema to be told that a name is wrong."""
    frame(400).assign(weight=1).to_csv("towns.csv", index=False)
    (towns / "draft.toml").write_text(to_toml(Domain((*OPEN, Attribute("weight", "coded", codes=2)))))
    asked = ["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "4", "--delta", "1e-6", *arguments]
    assert main(asked) == 2
    assert told in capsys.readouterr().err
    assert not (towns / "towns.ledger").exists()


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("nosuch = 3", "impossible 1: condition, position 1: no column 'nosuch'"),
        ("sex = 'X'", "no category 'X'"),
        ("sex = 'f' or sex = 'm'", "leaves no record that is possible"),
        ("hours < 16 and sex = 'f'", "the cells of 'hours' must be learned first, without this condition"),
    ],
)
def test_rules_are_read_before_a_schema_is_learned(towns, capsys, rule, told):
    """One on values that are to be learned cannot be read before: it is added to the schema that is learned."""
    (towns / "draft.toml").write_text(to_toml(replace(OPEN, impossible=(rule,))))
    asked = ["towns.csv", "--schema", "draft.toml", "--epsilon", "4", "--delta", "1e-6"]
    for command in (["release", *asked], ["schema", "learn", *asked, "--out", "schema.toml"]):
        assert main(command) == 2
        assert told in capsys.readouterr().err
    assert not (towns / "towns.ledger").exists()


@pytest.mark.parametrize(
    ("arguments", "free", "told"),
    [
        (["--mechanism", "matrix", "--workload", "prefixes:hours", "--rows", "10"], 1 << 40, "would give none"),
        ([], 1 << 20, "this release may take"),
        (["--numbers", "mean:hours by sex where nosuch = 1"], 1 << 40, "no column 'nosuch'"),
        (["--numbers", "mean:sex by hours"], 1 << 40, "column 'sex' holds texts and has no mean"),
    ],
)
def test_what_no_release_could_be_made_of_is_refused_before_a_schema_is_learned(
    towns, capsys, free_disk, arguments, free, told
):
    """The room on the disk, a table that cannot be had, and questions about numbers."""
    free_disk(free)
    asked = ["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "4", "--delta", "1e-6", *arguments]
    assert main(asked) == 2
    assert told in capsys.readouterr().err
    assert not (towns / "towns.ledger").exists()


def test_numbers_where_a_learned_category_may_be(towns, capsys):
    """`Ur` has half of the records: it is learned, and nobody knows before."""
    asked = ["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "8", "--delta", "1e-6"]
    assert main([*asked, "--numbers", "mean:hours by sex where town = Ur", "--numbers", "ratio:town = Ur"]) == 0


def test_what_many_categories_would_make_too_large_is_told_before_they_are_learned(towns, capsys, free_disk):
    """At most 5 million towns by 32 bins of hours: no disk has room, and five towns have."""
    free_disk(1 << 30)
    many = Domain((OPEN["hours"], replace(OPEN["town"], learn=5_000_000), OPEN["sex"]))
    (towns / "draft.toml").write_text(to_toml(many))
    asked = ["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "4", "--delta", "1e-6"]
    assert main([*asked, "--workload", "marginals:2"]) == 0
    told = capsys.readouterr().err
    assert "with as many categories as the schema allows, this would end after" in told
    assert "nothing was charged" not in told


def test_a_condition_that_a_learned_schema_may_make_right_is_not_refused_before(towns, capsys):
    """Where the bins will be, and which towns are named, nobody knows yet."""
    asked = ["release", "towns.csv", "--schema", "draft.toml", "--epsilon", "4", "--delta", "1e-6"]
    assert main([*asked, "--workload", "where:hours < 301 or town in {'nowhere', 'Ulm'}"]) == 2
    assert "was charged for the schema" in capsys.readouterr().err


def test_a_draft_is_refused_until_reviewed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "draft", "people.csv", "--out", "draft.toml"]) == 0
    assert main(["release", "people.csv", "--schema", "draft.toml", "--epsilon", "1", "--out", "out"]) == 2
    assert "not reviewed" in capsys.readouterr().err
    text = (folder / "draft.toml").read_text()
    (folder / "draft.toml").write_text(text.replace("reviewed = false", "reviewed = true"))
    assert main(["release", "people.csv", "--schema", "draft.toml", "--epsilon", "1", "--out", "out"]) == 0


def test_a_first_line_that_looks_like_a_record_is_not_drafted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "headless.csv").write_text("Zyxwv,F,31,Atlantis\nA,M,22,Ulm\nB,F,44,Rom\n")
    draft = ["schema", "draft", "headless.csv", "--out", "draft.toml"]
    assert main(draft) == 2
    said = capsys.readouterr().err
    assert said.startswith("qrelease: headless.csv: its first line looks like a record: the name of column 2 is also")
    assert said.count("\n") == 1
    assert not [value for value in ("Zyxwv", "31", "Atlantis") if value in said]
    assert not (folder / "draft.toml").exists()
    assert main([*draft, "--named"]) == 0
    assert main([*draft[:-1], "other.toml", "--header", "name,sex,age,city"]) == 0
    assert capsys.readouterr().err == ""


def test_one_name_that_looks_like_a_value_is_asked_about(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "city.csv").write_text("n,m,city\n1,5,city\n2,6,land\n")
    assert main(["schema", "draft", "city.csv", "--out", "city.toml"]) == 0
    assert capsys.readouterr().err == (
        "warning: Is the first line of the file a record already? In it the name of column 3 is also one of its values."
        " Then the names are a person's: draft again with --header and the names of all columns. If it is none, say"
        " --named.\n"
    )


def test_a_draft_is_for_its_owner_alone_and_overwrites_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has values of the data."""
    draft = ["schema", "draft", "people.csv", "--out", "own.toml"]
    assert main(draft) == 0
    assert (folder / "own.toml").stat().st_mode & 0o077 == 0
    before = (folder / "own.toml").read_text()
    assert main(["schema", "draft", "nothing.csv", "--out", "own.toml"]) == 2  # before the data are read
    assert "exists already" in capsys.readouterr().err
    assert (folder / "own.toml").read_text() == before
    assert main(["schema", "draft", "people.csv", "--out", "nowhere/own.toml"]) == 2
    assert "nowhere/own.toml cannot be written: No such file or directory" in capsys.readouterr().err


def test_a_draft_of_persons_is_released_for_persons(towns, capsys):
    table = frame(400)
    table["who"] = [f"p{i // 4}" if i else "NA" for i in range(400)]
    table.to_csv("visits.csv", index=False)
    arguments = [
        "schema",
        "draft",
        "visits.csv",
        "--learn",
        "--person",
        "who",
        "--at-most",
        "3",
        "--out",
        "visits.toml",
    ]
    assert main(arguments) == 0
    text = (towns / "visits.toml").read_text()
    assert "# - 'who': it says whose the records are" in text
    (towns / "visits.toml").write_text(text.replace("reviewed = false", "reviewed = true"))
    person = load("visits.toml", undecided=True).person
    assert (person.column, person.at_most, person.missing) == ("who", 3, ("NA",))
    release = ["release", "visits.csv", "--schema", "visits.toml", "--epsilon", "2", "--delta", "1e-9"]
    assert main([*release, "--workload", "marginals:1", "--mechanism", "laplace"]) == 0
    assert "a person with at most 3 records" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--person", "sex"], "go together"),
        (["--at-most", "2"], "go together"),
        (["--person", "sex", "--at-most", "0"], "at_most must be a whole number"),
        (["--person", "nobody", "--at-most", "2"], "no column 'nobody'"),
    ],
)
def test_a_draft_of_no_person_is_not_made(towns, capsys, more, told):
    assert main(["schema", "draft", "towns.csv", "--out", "new.toml", *more]) == 2
    assert told in capsys.readouterr().err
    assert not (towns / "new.toml").exists()


def test_the_command_says_of_which_columns_nothing_was_named(towns, capsys):
    assert main([*LEARN[:-1], "0.05", "--delta", "1e-12"]) == 0
    assert "warning: town: no text is of enough records" in capsys.readouterr().err


def test_a_check_lists_all_that_is_refused_and_ends_with_1(towns, capsys):
    schema = ["--schema", "draft.toml"]
    assert main(["schema", "check", "towns.csv", *schema]) == 0
    said = capsys.readouterr()
    assert "NOT PRIVATE" in said.err
    assert said.out.startswith("400 records\n")
    lines = Path("towns.csv").read_text().splitlines()
    column = lines[0].split(",").index("hours")
    for place, wrong in ((3, "many"), (7, "few")):
        fields = lines[place].split(",")
        fields[column] = wrong
        lines[place] = ",".join(fields)
    Path("towns.csv").write_text("\n".join(lines) + "\n")
    assert main(["schema", "check", "towns.csv", *schema]) == 1
    out = capsys.readouterr().out
    assert "'many' (1, first in record 3)" in out
    assert "'few' (1, first in record 7)" in out


def test_a_draft_of_a_large_file_names_rows(tmp_path, capsys):
    path = tmp_path / "people.parquet"
    table = pa.table({"sex": ["F", "M"] * 30, "letter": [f"{i} " + "x" * (1 << 20) for i in range(60)]})
    for rows, options, names in ((10, [], False), (60, [], True), (60, ["--rows", "20"], False)):
        parquet.write_table(table.slice(0, rows), path, compression="none")
        assert main(["schema", "draft", str(path), *options]) == 0
        assert ("by --rows 100000, is usually enough" in capsys.readouterr().err) == names
