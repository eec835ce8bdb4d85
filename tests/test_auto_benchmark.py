"""A benchmark that takes hours may be stopped, and goes on from its file."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from benchmarks import auto
from qrelease.privacy import PureDP

ARGUMENTS = ["--only", "adult", "--quick", "--json", "--out"]


@pytest.fixture(scope="module")
def rows() -> list[auto.Row]:
    """One line for each choice of `--quick` on Adult, all as that of three columns of 1,000 records at ε = 1."""
    _, table = next(auto.tables({"adult": (3,)}, None, (1_000,)))
    chosen = next(row for row in auto.rows("adult", table, PureDP(1.0), 1) if row.chosen)
    settings = product((3, 5), (1_000, 48_842), (0.1, 1.0, 10.0), (auto.DELTA, 0.0))
    return [replace(chosen, columns=c, records=n, epsilon=epsilon, given=d) for c, n, epsilon, d in settings]


def setting_of(row: auto.Row) -> tuple[int, int, float, float]:
    return row.columns, row.records, row.epsilon, row.given


def test_what_a_file_has_is_not_run_again(
    rows: list[auto.Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = (3, 1_000, 1.0, 0.0)
    (missing,) = (row for row in rows if setting_of(row) == setting)
    others, out = [row for row in rows if row is not missing], tmp_path / "auto.jsonl"
    auto.keep(out, others)
    assert auto.main([*ARGUMENTS, str(out)]) == 0
    printed, told = capsys.readouterr()
    found = auto.told_in(out)
    assert found[: len(others)] == others
    assert {setting_of(row) for row in found[len(others) :]} == {setting}
    assert replace(missing, seconds=0.0) in [replace(row, seconds=0.0) for row in found[len(others) :]]
    assert len(printed.splitlines()) == len(found) - len(others)
    assert "regret of 24 choices" in told
    assert auto.main([*ARGUMENTS, str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert auto.told_in(out) == found


def test_the_verdict_is_on_all_that_a_file_has(rows: list[auto.Row], tmp_path: Path) -> None:
    auto.keep(tmp_path / "auto.jsonl", [*rows[1:], replace(rows[0], regret=1.3)])
    assert auto.main([*ARGUMENTS, str(tmp_path / "auto.jsonl")]) == 1
