"""The README's code runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import qrelease as qr
from qrelease.data.bundled import CATEGORICAL
from qrelease.data.predicates import parse
from qrelease.data.schema import load
from qrelease.data.structural_zeros import narrowed

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def blocks(file: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a people.csv that the commands of the README fit."""
    rows = (f"{18 + i % 70},{('<=50K', '>50K')[i % 3 == 0]},{('Female', 'Male')[i % 2]}" for i in range(900))
    (tmp_path / "people.csv").write_text("age,income,sex\n" + "\n".join(rows) + "\n")
    return tmp_path


def review(folder: Path) -> None:
    """As a person would: bins that the conditions can be asked of."""
    text = (folder / "people.toml").read_text()
    text = re.sub(r"bins = .*", "bins = [18, 30, 40, 60, 88]", text)
    text = re.sub(r"within = .*", "within = [18, 87]", text)
    (folder / "people.toml").write_text(text.replace("reviewed = false", "reviewed = true"))


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


FILES = ("SHA256SUMS", "answers.csv", "release.json", "report.html", "synthetic.csv")

# With a second bar where the marginal was measured, which is drawn by the system's entropy.
ANSWER = re.compile(r"-?[\d.]+ ± [\d.]+( \(measured -?[\d.]+ ± [\d.]+\))?")


def test_the_first_two_lines_make_an_environment_and_are_run_by_ci() -> None:
    demo, tests = (block.strip() for block in blocks(README, "sh")[:2])
    assert demo == "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/qrelease demo"
    assert tests == "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/pytest"
    run = (ROOT / ".ci" / "run").read_text()
    assert run.index("\npromised '.venv/bin/qrelease demo'\n") < run.index("\npromised '.venv/bin/pytest'\n")


def test_the_command_beneath_the_figure_is_one_of_files_and_columns_that_there_are() -> None:
    (command,) = (block for block in blocks(README, "sh") if "--plot" in block)
    words = command.replace("\\\n", "").split()
    assert (ROOT / words[2]).exists()
    assert (ROOT / words[words.index("--schema") + 1]).exists()
    assert tuple(words[words.index("--columns") + 1].split(",")) == CATEGORICAL


def test_the_python_blocks_run(folder: Path) -> None:
    release, stream = blocks(README, "python")
    assert len(release.strip().splitlines()) == 2 + 6
    shown = run([sys.executable, "-W", "error", "-c", release + stream], folder)
    first, header, low, high, *answers, last = shown.splitlines()
    assert ANSWER.fullmatch(first)
    assert header.split()[:2] == ["income", "value"]
    assert [row.split()[-1] for row in (low, high)] == ["measured", "measured"]
    assert [answer.count("±") for answer in answers] == [1, 1, 0, 0]
    assert [answer.count(" to ") for answer in answers] == [0, 0, 1, 1]
    assert last.startswith("spent ")
    assert shown.count("quoted: free") == 1


def test_the_conditions_that_it_shows_can_be_asked_of_the_bundled_data() -> None:
    text = README.read_text(encoding="utf-8")
    shown = re.findall(r'"where": "([^"]+)"', text) + re.findall(r'qrelease answer people-release "([^":]+)"', text)
    assert len(shown) == 3
    domain = qr.data.adult().domain
    assert all(parse(condition, domain).mask().any() for condition in shown)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_python_block_runs_on_a_frame_of_ones_own(folder: Path, library: str) -> None:
    code, _ = blocks(README, "python")
    line, call = re.search(r"^(table = .*)  # yours: (.*)$", code, re.MULTILINE).groups()
    read = f"import {library}; frame = {library}.read_csv('people.csv')"
    run([sys.executable, "-m", "qrelease", "schema", "draft", "people.csv", "--out", "people.toml"], folder)
    review(folder)
    code = code.replace(line, f"{read}\ntable = {call}")
    answer, *means = run([sys.executable, "-W", "error", "-c", code], folder).strip().splitlines()
    assert ANSWER.fullmatch(answer)
    assert "income" in means[0]


def test_the_command_lines_run(folder: Path) -> None:
    commands = next(b for b in blocks(README, "sh") if "schema draft" in b).replace("\\\n", "").splitlines()
    inline = re.findall(r"`(qrelease (?:evaluate|attack)[^`]* [^`]*)`", README.read_text(encoding="utf-8"))
    assert len(inline) == 2
    for line in [*commands, *(" ".join(command.split()) for command in inline)]:
        if line.startswith("#"):
            review(folder)
            continue
        command = line.replace("qrelease ", f"{sys.executable} -m qrelease ", 1).replace("marginals:3", "marginals:2")
        run(["bash", "-c", command], folder)
    assert (folder / "error.svg").exists()
    assert (folder / "attack.svg").exists()


def test_the_commands_about_persons_run(tmp_path: Path) -> None:
    """An aircraft as the unit, bins and categories that nobody listed: each column is in the synthetic table."""
    commands = next(b for b in blocks(README, "sh") if "--person" in b).replace("\\\n", "").splitlines()
    rows = "".join(f"N{i % 90},{('JFK', 'EWR', 'LGA')[i % 3]},D{i % 14},{i % 131 - 10}\n" for i in range(3000))
    (tmp_path / "flights.csv").write_text(f"tailnum,origin,dest,dep_delay\n{rows}")
    for line in commands:
        if line.startswith("#"):
            (limits,) = re.findall(r"within = \[.*?\]", line)
            before, behind = (tmp_path / "flights.toml").read_text().split('name = "dep_delay"')
            text = f'{before}name = "dep_delay"{re.sub(r"within = .*", limits, behind, count=1)}'
            (tmp_path / "flights.toml").write_text(text.replace("reviewed = false", "reviewed = true"))
            continue
        said = run(["bash", "-c", line.replace("qrelease ", f"{sys.executable} -m qrelease ", 1)], tmp_path)
    assert "mean:dep_delay by origin" in said
    assert "no interval" not in said  # the question was measured
    header = (tmp_path / "flights-release" / "synthetic.csv").read_text().splitlines()[0]
    assert header == "origin,dest,dep_delay"


def test_the_schema_of_the_documentation_is_one(tmp_path: Path) -> None:
    page = ROOT / "docs" / "reference" / "schema.md"
    attributes, clock, written, rules, hierarchy, person, derived, counted = blocks(page, "toml")
    (tmp_path / "people.toml").write_text(clock)
    assert str(parse("sched_dep_time in 600..799", load(tmp_path / "people.toml"))) == "sched_dep_time in 600..799"
    (tmp_path / "people.toml").write_text(written)
    (tmp_path / "people.csv").write_text('income,born\n"1.234,50 €",31.12.1951\n12,1.2.1990\n')
    table = qr.Table.read(tmp_path / "people.csv", tmp_path / "people.toml")
    assert table.grid("income").tolist() == [123_450, 1200]
    assert table.columns[1].tolist() == [2, 6]
    (tmp_path / "people.toml").write_text(f"{attributes}\n{rules}")
    domain = load(tmp_path / "people.toml")
    assert str(domain) == ("age[11] x education[3] x admitted[60] x ward[12] (23,760 cells)")
    assert len(narrowed(domain, domain.names).impossible) == 1
    province = '[[attribute]]\nname = "province"\nkind = "category"\ncategories = ["N", "S"]\n'
    (tmp_path / "municipalities.csv").write_text("code,province\n1,N\n2,S\n3,S\n")
    (tmp_path / "people.toml").write_text(f"{province}\n{hierarchy}")
    assert len(load(tmp_path / "people.toml").impossible) == 2
    (tmp_path / "people.toml").write_text(f"{attributes}\n{person}")
    assert load(tmp_path / "people.toml").at_most == 5
    visits = "".join(
        f'[[attribute]]\nname = "{name}"\nkind = "coded"\ncodes = 3000\n' for name in ("severity", "ward", "year")
    )
    kind = '[[attribute]]\nname = "kind"\nkind = "category"\ncategories = ["emergency", "planned"]\n'
    (tmp_path / "people.toml").write_text(f"{visits}{kind}{derived}")
    domain = load(tmp_path / "people.toml")
    assert narrowed(domain, domain.names).names == ("visits", "emergency", "worst", "ward", "first")
    (tmp_path / "people.toml").write_text(f'{visits}{kind}[person]\ncolumn = "who"\n{counted}')
    domain = load(tmp_path / "people.toml")
    assert str(narrowed(domain, domain.names)) == "visits[16] (16 cells)"


def test_the_page_on_numbers_is_right(tmp_path: Path) -> None:
    released, summed = blocks(ROOT / "docs" / "how-to" / "numbers.md", "python")
    said = run([sys.executable, "-W", "error", "-c", released + summed], tmp_path)
    assert said.count("measured") == 9 + 5
    assert said.count(">50K") >= 7


def test_the_page_on_learning_is_right(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "learning.md"
    for text, columns in zip(
        blocks(page, "toml"), ("dep_delay[21] x scheduled[12]", "dep_delay[?] x dest[?]"), strict=True
    ):
        (tmp_path / "s.toml").write_text(text)
        assert str(load(tmp_path / "s.toml", undecided=True)).startswith(columns)
    towns = "".join(f"{i % 400},T{i % 15}\n" for i in range(2000))
    (tmp_path / "flights.csv").write_text(f"dep_delay,dest\n{towns}")
    (tmp_path / "towns.csv").write_text(f"hours,town\n{re.sub('[0-9]+,', '40,', towns)}")
    (commands,) = blocks(page, "sh")
    for line in commands.replace("\\\n", "").splitlines():
        if line.startswith("#"):
            draft = (tmp_path / "draft.toml").read_text()
            assert "learn = true" in draft
            (tmp_path / "draft.toml").write_text(draft.replace("reviewed = false", "reviewed = true"))
            continue
        run(["bash", "-c", line.replace("qrelease ", f"{sys.executable} -m qrelease ", 1)], tmp_path)
    code = "".join(blocks(page, "python"))
    assert run([sys.executable, "-W", "error", "-c", code], tmp_path).startswith("hours[")
    run([sys.executable, "-m", "qrelease", "verify", "towns-release"], tmp_path)


def test_the_job_file_of_the_documentation_is_one(folder: Path) -> None:
    (jobs,) = blocks(ROOT / "docs" / "how-to" / "budget.md", "toml")
    run([sys.executable, "-m", "qrelease", "schema", "draft", "people.csv", "--out", "people.toml"], folder)
    review(folder)
    (folder / "jobs.toml").write_text(jobs.replace('"marginals:2"', '"marginals:1"'))
    assert (
        run([sys.executable, "-m", "qrelease", "run", "jobs.toml"], folder).count("wrote SHA256SUMS, answers.csv") == 2
    )
