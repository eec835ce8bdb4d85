"""The benchmarks of universes that no memory holds, on rows and tables that are made up.

Of `benchmarks.large` the picture, error against seconds; of `benchmarks.records` that each part tells a broken promise.
"""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.queries.workload import Workload

benchmarks = pytest.importorskip("benchmarks.large"), pytest.importorskip("benchmarks.records")


@pytest.fixture
def large() -> ModuleType:
    return benchmarks[0]


def rows(large: ModuleType, dataset: str, records: int, *errors: float) -> tuple[tuple, list]:
    made = [
        large.Row(dataset, 1.0, "records", seed, records, error, error / 10, records / 1000, 100.0)
        for seed, error in enumerate(errors)
    ]
    return (dataset, 1.0, "records", records), made


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_picture(suffix: str, large: ModuleType, tmp_path: Path) -> None:
    adult = [rows(large, "adult", 65_536, 0.13, 0.14), rows(large, "adult", 16_384, 0.2, 0.22)]
    file = tmp_path / f"picture.{suffix}"
    large.draw(dict([*adult, rows(large, "titanic", 16_384, 0.5)]), file)
    once = file.read_bytes()
    large.draw(dict([*adult, rows(large, "titanic", 16_384, 0.5)]), file)
    assert file.read_bytes() == once
    if suffix == "svg":
        text = once.decode()
        for said in ("adult, epsilon 1: records", "adult, epsilon 1: AIM, 0.132", "AIM, 0.0171", "65,536", "16,384"):
            assert said in text
        assert "titanic, epsilon 1: AIM" not in text  # nothing is known of it
        large.draw(dict([rows(large, "adult", 65_536, 0.13, 0.2)]), file)
        assert file.read_bytes() != once


def test_what_is_drawn(large: ModuleType) -> None:
    """A point at the mean of the seeds, with their span."""
    runs = [rows(large, "adult", 16_384, 0.2)[1], rows(large, "adult", 65_536, 0.13, 0.15)[1]]
    for factor, kind in ((1, "l1"), (0.1, "max")):
        seconds, means, spans = large.points(runs, kind)
        assert seconds == pytest.approx([16.384, 65.536])
        assert means == pytest.approx([0.2 * factor, 0.14 * factor])
        np.testing.assert_allclose(spans, [[0, 0.01 * factor], [0, 0.01 * factor]], atol=1e-12)


def test_one_epsilon_and_a_picture_that_cannot_be(
    large: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "adult.csv.gz").touch()
    asked = []
    monkeypatch.setattr(large, "run", lambda todo, *rest: asked.append((todo, *rest)) or 0)
    command = ["--data", str(tmp_path), "--only", "adult", "--seeds", "1", "--records", "10,20"]
    assert large.main([*command, "--epsilon", "1", "--picture", str(tmp_path / "a.svg")]) == 0
    assert large.main(command) == 0
    (one, _, picture), (all_three, _, none) = asked
    assert [(j.epsilon, j.records) for j in one] == [(1.0, 10), (1.0, 20)]
    assert (len(all_three), picture, none) == (6, tmp_path / "a.svg", None)
    with pytest.raises(SystemExit):
        large.main([*command, "--picture", "a.pdf"])
    assert "a picture is written as .svg or .png" in capsys.readouterr().err


def test_figures_of_rows(large: ModuleType) -> None:
    rng = np.random.default_rng(0)
    private = rng.integers(3, size=(4_000, 6))
    private[:, 1] = private[:, 0]  # one follows from the other
    assert large.impossible(private[:2_000, :2], private[:, :2]) == 0
    broken = private.copy()
    broken[:1_000, 1] = (broken[:1_000, 0] + 1) % 3
    assert large.impossible(broken[:, :2], private[:, :2]) == 0.25
    assert large.apart(private, private[::-1], 3) < 1e-12
    halved = private[private[:, 5] > 0]  # a third is not there, in half of the triples
    assert large.apart(halved, private, 3) == pytest.approx(2 / 3 * 0.5, abs=0.05)


def test_what_is_worse_than_recorded_fails_and_what_misses_is_told(large: ModuleType) -> None:
    recorded = {("adult", 1.0): (0.1, 0.01)}, {("income AUC", 1.0): 0.9, ("impossible", 1.0): 1.0}
    found = dict([rows(large, "adult", 0, 0.1, 0.102)])
    assert [*large.failures(found, {("income AUC", 1.0): [0.895], ("impossible", 1.0): [1.9]}, *recorded)] == []
    told = [*large.missed(found, {("income AUC", 1.0): [0.895], ("impossible", 1.0): [1.6]})]
    assert [line.split(": ")[1].split(" ")[0] for line in told] == ["l1", "max", "income"]
    worse = dict([rows(large, "adult", 0, 0.11, 0.11)])
    assert len([*large.failures(worse, {("income AUC", 1.0): [0.88], ("impossible", 1.0): [2.1]}, *recorded)]) == 3


@pytest.fixture
def records() -> ModuleType:
    return benchmarks[1]


NARROW = Domain.coded({"c0": 9, "c1": 8, "c2": 12, "c3": 16})  # too wide to be measured at once


def test_a_fit_goes_on_beyond_its_stop(records: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """From where the release stopped, for as many rounds again; and a fit that drifts is told."""
    table, workload = records.made_up(NARROW, 2_000), Workload.marginals(NARROW, 3)
    line = records.going_on(table, workload, 10_000, 1.0, seeds=2)
    assert np.shape(line["l1"]) == (3, 2)
    assert line["more"] == line["stopped"] // 2
    np.testing.assert_allclose(line["means"], np.mean(line["l1"], axis=1))
    assert line["change"] < 0.06
    plain = records.mechanism.fit_records

    def drifting(estimates, count, **options):
        """Past the release all interactions grow."""
        found = plain(estimates, count, **options)
        if options["rounds"] != line["more"]:
            return found
        return replace(found, interactions={s: 2 * table for s, table in found.interactions.items()})

    monkeypatch.setattr(records.mechanism, "fit_records", drifting)
    drifted = records.going_on(table, workload, 10_000, 1.0, seeds=2)
    assert drifted["means"][0] == line["means"][0]
    assert drifted["change"] > 0.06


def test_what_a_wide_table_takes(records: ModuleType) -> None:
    line = records.measured(records.made_up(NARROW, 20_000), 8_000, 1.0)
    assert line["l1"] < 0.6 * line["l1_independent"]
    assert line["l1_rows"] == pytest.approx(line["l1"], rel=0.2)
    assert min(line["seconds"], line["forecast"], line["forecast_mib"]) > 0


def test_answers_are_as_near_as_what_was_measured(records: ModuleType) -> None:
    line = records.many(records.Job("many", None, 1.0, 0, 500_000))
    assert [*records.failures("many", line)] == []
    assert len([*records.failures("many", line | {"ratio": 1.2})]) == 1


def test_columns_that_determine_each_other_are_fitted_too(records: ModuleType) -> None:
    line = records.ruled(records.Job("ruled", None, 1.0, 0, 1_000_000))
    assert [*records.failures("ruled", line)] == []
    assert len([*records.failures("ruled", line | {"ratio": 1.2, "broken": 1})]) == 2


def test_rules_are_kept_and_who_keeps_none_is_told(records: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rules = records.made_up(NARROW, 20_000), ("c1 = 3", "c0 = 0 and c2 = 2", "c0 = 1 and c1 = 1 and c3 < 8")
    kept = records.broken(table, rules, 2_000, 1.0, 10_000)
    assert kept["table"] > 0
    assert kept["rows"] == 10_000
    assert kept["weighted"] > 30
    assert not kept["broken"] + kept["weighted_broken"] + kept["answers"]
    monkeypatch.setattr("qrelease.data.structural_zeros.masks", lambda *_: {})
    lost = records.broken(table, rules, 2_000, 1.0, 10_000)
    assert min(lost["broken"], lost["weighted_broken"], lost["answers"]) > 0
    assert [*records.failures("zeros", kept)] == []
    assert len([*records.failures("zeros", lost)]) == 1
    assert [*records.failures("zeros", {**kept, "table": 0})] == ["no row of the table breaks a rule: nothing is shown"]


def test_what_is_promised(records: ModuleType) -> None:
    """Each limit is told when it is missed, and only then."""
    good = {"mib": 900.0, "added_mib": 700.0, "forecast_mib": 800.0, "seconds": 50.0, "forecast": 100.0}
    good |= {"l1": 0.2, "l1_rows": 0.21, "l1_independent": 0.5}
    assert [*records.failures("wide", good)] == []
    for bad in ({"mib": 4_200.0}, {"added_mib": 810.0}, {"seconds": 401.0}, {"seconds": 24.0}, {"l1_rows": 0.5}):
        assert len([*records.failures("wide", good | bad)]) == 1
    assert [*records.failures("beyond", {"epsilon": 1.0, "change": 0.0099})] == []
    assert [*records.failures("beyond", {"epsilon": 0.1, "change": 0.0123})] == [
        "at epsilon=0.1 more rounds change l1 by 1.23%"
    ]


def test_parts_and_what_is_skipped(
    records: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "adult.csv.gz").touch()
    found = [*records.jobs(records.PARTS, tmp_path, (0.1, 1.0), 0, 10)]
    assert [j.part for j in found] == ["beyond", *records.PARTS]
    assert [j.epsilon for j in found] == [0.1, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert [j.records for j in found] == [records.LAST, records.LAST, 1_000_000, 65_536, 0, 0]
    assert [j.part for j in records.jobs(["beyond", "zeros"], None, (1.0,), 5, 10)] == ["zeros"]
    assert "SKIPPED beyond" in capsys.readouterr().err
    assert np.log2(np.array(records.WIDE, float)).sum() == pytest.approx(111, abs=0.5)
    assert (len(records.WIDE), max(records.WIDE)) == (35, 181)
    assert len(records.masks(Domain.coded({f"c{i}": n for i, n in enumerate(records.NARROW)}), records.RULES)) == 3
