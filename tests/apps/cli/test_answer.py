"""The command that answers conditions from a release."""

import csv
import json
from pathlib import Path

import pytest
from commands import release

from qrelease.apps.cli import main


def test_what_is_no_release_is_said_to_be_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("people.csv", "."):
        assert main(["answer", path, "sex = F"]) == 2
        assert capsys.readouterr().err == (
            f"qrelease: {path} is no release: that is a folder that `qrelease release` wrote, with its release.json\n"
        )
    assert main(["answer", "nowhere", "sex = F"]) == 2
    assert "nowhere cannot be read: No such file" in capsys.readouterr().err
    assert release() == 0
    assert main(["answer", "out/release.json", "sex = F"]) == 0


def test_of_several_conditions_none_is_answered_before_all_are_understood(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release() == 0
    capsys.readouterr()
    assert main(["answer", "out", "sex = F", "sex is"]) == 2
    found = capsys.readouterr()
    assert not found.out
    assert "expected 'missing', got the end" in found.err


def test_all_queries_that_are_wrong_are_told_with_their_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--delta", "1e-6") == 0
    (folder / "asked").write_text("# of the survey\nsex is\n\nsex = F\nagee = 3\nmean:sex by city\nmean:age\n")
    capsys.readouterr()
    assert main(["answer", "out", "city is", "--file", "asked"]) == 2
    found = capsys.readouterr()
    assert not found.out
    *lines, last = found.err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["'city is'", *(f"asked, line {n}" for n in (2, 5, 6))]
    assert "expected 'missing', got the end" in lines[1]
    assert "'agee = 3': " in lines[2]
    assert "holds texts and has no mean" in lines[3]
    assert last == "qrelease: 4 of 6 queries cannot be answered, so none was"
    # So also those that are understood, and have no answer as it is asked for.
    (folder / "asked").write_text("count by sex\nmean:age by sex\nsum:age by city\n")
    assert main(["answer", "out", "--percent", "--file", "asked"]) == 2
    found = capsys.readouterr()
    assert not found.out
    assert [line[:32] for line in found.err.splitlines()] == [
        "qrelease: asked, line 2: 'mean:a",
        "qrelease: 1 of 3 queries cannot ",
    ]


def test_a_suppressed_group_has_no_numbers_in_any_format(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the value nor `n`, which of a count is the value; the row stays."""
    assert release() == 0
    capsys.readouterr()
    command = ["answer", "out", "count by sex", "--suppress", "1e9", "--format"]
    assert main([*command, "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sex,value,low_95,high_95,unbiased,n,source"
    assert [line.split(",")[1:6] for line in lines[1:]] == [[""] * 5] * 2
    assert main([*command, "json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["value"], row["n"]) for row in found] == [(None, None)] * 2
    assert main([*command, "text"]) == 0
    assert [line.split()[1:6] for line in capsys.readouterr().out.splitlines()[2:]] == [["-"] * 5] * 2
    with pytest.raises(SystemExit):
        main(["answer", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "leave the numbers blank, n too, of groups that have fewer than about N records; their rows stay" in told


def test_conditions_come_from_a_file_and_answers_as_csv_or_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release("--delta", "1e-6") == 0
    (folder / "asked").write_text("# of the survey\nsex = F\n\n  age between 30 and 39 and sex = M\n")
    capsys.readouterr()
    assert main(["answer", "out", "city is missing", "--file", "asked", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["query"] for row in rows] == ["city is missing", "sex = F", "age between 30 and 39 and sex = M"]
    assert set(rows[0]) == {"query", "answer", "noisy", "error_95", "model_95"}
    assert all(row["model_95"] > 0 for row in rows)  # every answer has a bar to publish
    assert main(["answer", "out", "--file", "asked", "--format", "csv"]) == 0
    found = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [float(row["answer"]) for row in found] == [row["answer"] for row in rows[1:]]
    assert [float(row["model_95"]) for row in found] == [row["model_95"] for row in rows[1:]]
    for command, words in [
        (["answer", "out"], "no condition or question"),
        (["answer", "out", "--file", "no"], "no cannot be read"),
    ]:
        assert main(command) == 2
        assert words in capsys.readouterr().err


def test_numbers_by_group_are_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--delta", "1e-6") == 0
    capsys.readouterr()
    assert main(["answer", "out", "mean:age by sex", "--format", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert list(rows[0]) == ["sex", "value", "low_95", "high_95", "unbiased", "n", "source"]
    assert all(float(row["low_95"]) <= float(row["value"]) <= float(row["high_95"]) for row in rows)
    assert main(["answer", "out", "mean:age by sex", "sex = F", "--format", "json"]) == 0
    first, *others = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first["query"] == "sex = F"
    assert [str(row["value"]) for row in others] == [row["value"] for row in rows]
    assert main(["answer", "out", "count by sex", "--where", "age >= 30", "--percent", "--top", "1"]) == 0
    query, header, line = capsys.readouterr().out.splitlines()
    assert query.startswith("count by sex where age")
    assert header.split()[:2] == ["sex", "value"]
    assert 50 <= float(line.split()[1]) <= 100
    assert main(["answer", "out", "count by sex", "sex = F", "--top", "1"]) == 0
    condition, query, _, _ = capsys.readouterr().out.splitlines()
    assert (condition.rpartition("\t")[2], query) == ("sex = F", "count by sex")
    assert main(["answer", "out", "count by sex", "--above", "1e9"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2  # no group is


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["mean:agee"], "no column 'agee' (did you mean 'age'?)"),
        (["mean:sex"], "column 'sex' holds texts and has no mean"),
        (["quantile(1.2):age"], "a quantile is of a probability from 0 to 1, got 1.2"),
        (["mean:age", "--where", "agee > 3"], "no column 'agee'"),
        (
            ["medians:age by sex"],
            "'medians:age by sex' is no question about numbers (did you mean quantile(.5):age by sex?): a question is",
        ),
        (["median age by sex"], "no column 'median'; there are sex, age, city (did you mean quantile(.5):age by sex?)"),
        (["mean:age", "--percent"], "share of the total"),
        (["sex = F", "--top", "3"], "--top is for numbers, and 'sex = F' is a condition: ask it by itself"),
        (
            ["sex = F", "count by sex", "--top", "1", "--suppress", "5", "--where", "age >= 30"],
            "--where and --suppress are for numbers, and 'sex = F' is a condition: ask it by itself, or write both",
        ),
        (["mean:age", "count by sex", "--format", "csv"], "one CSV table cannot hold"),
    ],
)
def test_bad_questions_are_told_in_one_line(
    asked: list[str], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release() == 0
    capsys.readouterr()
    assert main(["answer", "out", *asked]) == 2
    found = capsys.readouterr()
    assert not found.out
    assert told in found.err
    assert found.err.count("\n") == 1


def test_a_table_without_intervals_says_why_and_what_has_them_measured(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = (folder / "people.toml").read_text()
    exact = schema.replace("bins = [18, 30, 40, 70]", "within = [18, 70]\nstep = 1\nbins = 3")
    (folder / "people.toml").write_text(exact)
    assert release("--delta", "1e-6", "--mechanism", "maxent") == 0
    capsys.readouterr()
    told = "the model alone says this, and it may be far off; measure it: qrelease release"
    assert main(["answer", "out", "mean:age by sex where city = Ulm"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"no interval: {told} --numbers 'mean:age by sex where city = '\"'\"'Ulm'\"'\"''"
    assert [line.split()[-1] for line in said[2:-1]] == ["model", "model"]
    assert main(["answer", "out", "mean:age by sex*city"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"no interval: {told} --numbers 'mean:age by sex*city'"
    assert main(["answer", "out", "mean:age by sex where city = Ulm", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["low_95"], row["source"]) for row in rows] == [(None, "model")] * 2
    (folder / "people.toml").write_text(schema)
    assert release("--total-epsilon", "1", "--mechanism", "maxent", "--insecure-seed", "1", out="bins") == 0
    capsys.readouterr()
    assert main(["answer", "bins", "mean:age by sex*city"]) == 0  # without exact values there are no sums of them
    assert capsys.readouterr().out.splitlines()[-1] == f"no interval: {told} --workload 'marginals:sex*age*city'"


def test_a_number_of_a_model_is_told_with_the_columns_that_are_independent_in_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--schema", "people.toml", "--workload", "marginals:1", "--mechanism", "maxent", "--epsilon", "1"]
    assert main(["release", "people.csv", *asked, "--insecure-seed", "1", "--out", "out"]) == 0
    capsys.readouterr()
    assert main(["answer", "out", "mean:age by sex"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "no interval: the model alone says this, and it may be far off (sex; age: not counted together, and so"
        " independent of each other in the model); measure it: qrelease release --workload 'marginals:sex*age'"
    )


def test_a_table_whose_intervals_are_the_bounds_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seeded = ["--insecure-seed", "1", "--epsilon", "1e-5"]
    assert release("--mechanism", "laplace", *seeded) == 0
    capsys.readouterr()
    assert main(["answer", "out", "mean:age by sex"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last.startswith(
        "the interval is all that the column's bounds allow: there is too much noise for so few records"
    )
    assert [line.split()[2:4] + line.split()[-1:] for line in lines[2:]] == [["18", "69", "bounds"]] * 2
    assert main(["answer", "out", "count by sex"]) == 0
    assert "bounds" not in capsys.readouterr().out


def test_a_range_that_was_measured_is_answered_as_in_answers_csv(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranges = ["--workload", "ranges:age", "--epsilon", "1", "--mechanism", "laplace"]
    assert main(["release", "people.csv", "--schema", "people.toml", *ranges, "--out", "out"]) == 0
    with (folder / "out" / "answers.csv").open() as lines:
        line = list(csv.DictReader(lines))[1]
    capsys.readouterr()
    assert main(["answer", "out", line["query"], f"not {line['query']}", "--format", "csv"]) == 0
    one, other = csv.DictReader(capsys.readouterr().out.splitlines())
    assert {name: float(one[name]) for name in ("answer", "noisy", "error_95", "model_95")} == pytest.approx(
        {name: float(line[name]) for name in ("answer", "noisy", "error_95", "model_95")}, rel=1e-3
    )
    assert float(other["error_95"]) > 0
    assert main(["answer", "out", "sex = F and age in 18..29"]) == 2
    assert "does not follow from the queries that were measured" in capsys.readouterr().err


def test_a_question_is_headed_by_its_own_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--mechanism", "laplace", "--insecure-seed", "1") == 0
    capsys.readouterr()
    assert main(["answer", "out", "mean:age  where sex like '%'"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "mean:age  where sex like '%'"
    assert main(["answer", "out", "mean:age", "--where", "age>=30"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "mean:age where age>=30"


def test_numbers_without_groups_are_one_csv_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--mechanism", "laplace", "--insecure-seed", "1") == 0
    questions = ["mean:age", "quantile(.9):age", "count where sex = F"]
    assert main(["answer", "out", *questions, "--format", "json"]) == 0
    values = [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()[-3:]]
    assert main(["answer", "out", *questions, "--format", "csv"]) == 0
    header, *rows = csv.reader(capsys.readouterr().out.splitlines())
    assert header == ["question", "value", "low_95", "high_95", "unbiased", "n", "source"]
    assert [row[0] for row in rows] == questions
    assert [float(row[1]) for row in rows] == values
    assert main(["answer", "out", "mean:age", "quantile(.1,.9):age", "--format", "csv"]) == 2
    assert main(["answer", "out", "mean:age", "sex = F", "--format", "csv"]) == 2
    assert capsys.readouterr().err.count("one CSV table cannot hold") == 2


def test_a_star_in_a_value_is_told_as_a_pattern(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release("--mechanism", "laplace", "--insecure-seed", "1") == 0
    assert main(["answer", "out", "city = 'U*'"]) == 2
    assert "no category 'U*' (did you mean like 'U%'?)" in capsys.readouterr().err
