"""A release saved and loaded is the same release."""

import contextlib
import csv
import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import DOMAIN, many, released, rows_of
from pyarrow import parquet

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, OutOfMemory
from qrelease.inference.measurement import RECORDS
from qrelease.inference.update_rules import Projection
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.distinguishers import Select
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.private_data import Private
from qrelease.noise.entropy import Entropy
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release import reader, writer
from qrelease.release.answer_table import MAX_ANSWERS
from qrelease.release.curator import Curator


@pytest.mark.parametrize("mechanism", [MWEM(rounds=4), MWEM(rounds=5, choice="query"), Laplace(), Gaussian(), MaxEnt()])
def test_a_loaded_release_answers_like_the_saved_one(mechanism, tmp_path: Path) -> None:
    release = released(mechanism)
    release.save(tmp_path / "out")
    loaded = reader.load(tmp_path / "out")
    np.testing.assert_allclose(loaded.answers(), release.answers(), rtol=1e-9)
    for ours, theirs in zip(release.error_bars(), loaded.error_bars(), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-9)
    np.testing.assert_allclose(loaded.model_bars(), release.model_bars(), rtol=1e-3)
    assert np.isfinite(release.model_bars()).all()
    for name in ("workload", "cost", "neighbours", "dataset", "mechanism", "spends", "insecure_seed", "versions"):
        assert getattr(loaded, name) == getattr(release, name), name
    assert loaded.parameters == release.parameters


def test_synthetic_rows_have_the_inputs_header_and_labels(tmp_path: Path) -> None:
    release = released()
    release.save(tmp_path / "out", rows=300)
    table = Table.read_csv(tmp_path / "out" / "synthetic.csv", DOMAIN)
    assert len(table) == 300
    one_way = [c.astype(float) for c in table.counts([(0,), (1,), (2,)])]
    expected = release.answer(Workload.marginals(DOMAIN, 1)) * 300 / release.synopsis.total
    # Systematic sampling keeps prefix marginals within one row a cell; others drift by a few.
    np.testing.assert_allclose(np.concatenate(one_way), expected, atol=15)


@pytest.mark.parametrize("weighted", [False, True])
def test_parquet_holds_the_same_tables_with_types(tmp_path: Path, weighted: bool) -> None:
    release = released()
    release.save(tmp_path / "csv", 50, weighted=weighted)
    release.save(tmp_path / "parquet", 50, weighted=weighted, format="parquet")
    for name in ("synthetic", "answers"):
        texts = rows_of(tmp_path / "csv" / f"{name}.csv")
        typed = parquet.read_table(tmp_path / "parquet" / f"{name}.parquet")
        assert typed.column_names == list(texts[0])
        assert typed.num_rows == len(texts)
    typed = parquet.read_table(tmp_path / "parquet" / "synthetic.parquet")
    assert [str(typed.schema.field(n).type) for n in DOMAIN.names] == ["string", "int64", "int64"]
    assert typed["sex"].null_count > 0
    again = Table.read_parquet(tmp_path / "parquet" / "synthetic.parquet", DOMAIN)
    for ours, theirs in zip(
        again.columns, Table.read_csv(tmp_path / "csv" / "synthetic.csv", DOMAIN).columns, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it looks up what a descriptor is of")
def test_a_folder_has_its_name_only_when_all_of_it_is_on_disk(tmp_path: Path, at_each_sync) -> None:
    before, after = set[str](), set[str]()
    out = tmp_path / "out"
    at_each_sync(lambda path: (after if out.exists() else before).add(path))
    with writer.new_folder(out) as part:
        (part / "parents").mkdir()
        for name in ("release.json", "parents/release.json"):
            (part / name).write_text("{}")
    here = str(tmp_path / ".out.part")
    assert before == {f"{here}/release.json", f"{here}/parents/release.json", f"{here}/parents", here}
    assert after == {str(tmp_path)}


def test_a_file_that_the_disk_does_not_take_is_no_release(tmp_path: Path, at_each_sync) -> None:
    def full(_: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    at_each_sync(full)
    with pytest.raises(InvalidInput, match="out cannot be written: No space left"), writer.new_folder(tmp_path / "out"):
        pass
    assert not [*tmp_path.iterdir()]


def test_of_nobody_there_is_no_weighted_record(tmp_path: Path) -> None:
    domain = Domain.coded({"a": 3, "b": 2})
    nobody = Table(domain, (np.empty(0, np.uint8), np.empty(0, np.uint8)))
    with Ledger.open(None, PureDP(1.0), neighbours="replace-one") as ledger:
        curator = Curator(nobody, ledger, Entropy.insecure(1))
        release = curator.release(Laplace(), Workload.marginals(domain, 1), PureDP(1.0))
    for rows in (None, 2):
        assert release.weighted(rows)[1].size == 0
        release.save(tmp_path / f"{rows}", rows, weighted=True)
        assert (tmp_path / f"{rows}" / "synthetic.csv").read_text().splitlines() == ["a,b,weight,INSECURE"]


@pytest.mark.parametrize("mechanism", [MWEM(rounds=4), Gaussian(), MaxEnt()], ids=lambda m: m.name)
def test_a_weighted_table_gives_the_answers_of_the_histogram(mechanism, tmp_path: Path) -> None:
    release = released(mechanism)
    release.save(tmp_path / "out", weighted=True)
    with (tmp_path / "out" / "synthetic.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == [*DOMAIN.names, "weight", "INSECURE"]
    weights = np.array([float(row[-2]) for row in rows])
    labels, exact = release.weighted()
    np.testing.assert_allclose(weights, exact, rtol=1e-5)
    shares = {value: weights[[r[0] == value for r in rows]].sum() for value in ("F", "M, or other")}
    for value, share in shares.items():
        asked = Workload.predicates(DOMAIN, f"sex = '{value}'")
        histogram = release.synopsis if mechanism.name == "mwem" else release.synopsis.histogram
        assert share == pytest.approx(histogram.answer(asked)[0], rel=1e-4)
    assert len(labels["sex"]) == len(weights) <= DOMAIN.size


def test_of_a_universe_with_more_cells_than_rows_equal_records_are_one_row() -> None:
    release = released()
    labels, weights = release.weighted(20)
    rows = list(zip(*(labels[n].tolist() for n in ("sex", "code")), strict=True))
    assert len(rows) <= 20
    assert weights.sum() == pytest.approx(release.synopsis.total)
    np.testing.assert_allclose(weights * 20 / release.synopsis.total % 1, 0, atol=1e-9)


def test_a_column_of_the_weights_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="rename that column of the schema"):
        writer.check_weighted(Domain.coded({"weight": 2}))


@pytest.mark.parametrize("mechanism", [MWEM(rounds=4), Laplace(), Gaussian()], ids=lambda m: m.name)
def test_every_mechanism_gives_a_table_and_again_when_loaded(mechanism, tmp_path: Path) -> None:
    release = released(mechanism)
    release.save(tmp_path / "out")
    files = ["SHA256SUMS", "answers.csv", "release.json", "report.html", "synthetic.csv"]
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == files
    again = reader.load(tmp_path / "out").synthetic(20)
    for name, column in release.synthetic(20).items():
        np.testing.assert_array_equal(again[name], column)


def test_a_table_that_never_fits_takes_nothing_else_with_it(tmp_path: Path, machine_of) -> None:
    """The limits of the machine are public, and so may decide which files there are."""
    release = released()
    with machine_of(0):
        left_out = writer.save(release, tmp_path, rows=500)
    assert [*left_out] == ["synthetic.csv"]
    assert "500 synthetic records: about" in left_out["synthetic.csv"]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["SHA256SUMS", "answers.csv", "release.json", "report.html"]


@pytest.mark.parametrize("weighted", [False, True])
def test_what_memory_is_free_decides_no_file(tmp_path: Path, free_memory, weighted) -> None:
    """A private table takes memory: a release is saved whole, or not at all, which the data holder alone sees."""
    release = released()
    free_memory(0)
    with pytest.raises(OutOfMemory, match="are needed and 0 MiB are free"):
        release.save(tmp_path / "out", rows=500, weighted=weighted)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("mechanism", [MWEM(rounds=4), Gaussian(), MaxEnt()], ids=lambda m: m.name)
def test_many_noisy_answers_have_a_file_of_their_own(mechanism, tmp_path: Path) -> None:
    release = many(mechanism)
    release.save(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "release.json").read_text())
    assert not any("values" in m for m in manifest["measurements"])
    loaded = reader.load(tmp_path / "out" / "release.json")
    for ours, theirs in zip(release.measurements, loaded.measurements, strict=True):
        assert (ours.group, ours.noise, ours.repeats) == (theirs.group, theirs.noise, theirs.repeats)
        np.testing.assert_array_equal(theirs.values, ours.values)
        assert not theirs.values.flags.writeable  # they are mapped
    for ours, theirs in zip(release.error_bars(), loaded.error_bars(), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-9)


def test_very_many_answers_are_written_only_if_asked_for(tmp_path: Path) -> None:
    domain = Domain.coded({"a": MAX_ANSWERS + 1})
    table, asked = Table(domain, (np.arange(500),)), Workload.marginals(domain, 1)
    with Ledger.open(None, PureDP(1.0)) as ledger:
        large = Curator(table, ledger, Entropy.insecure(0)).release(Laplace(), asked, PureDP(1.0))
    (tmp_path / "large").mkdir()
    assert f"{MAX_ANSWERS + 1:,} lines" in writer.save(large, tmp_path / "large", rows=10)["answers.csv"]
    assert not (tmp_path / "large" / "answers.csv").exists()
    assert "unless <code>--answers</code> asks for it" in (tmp_path / "large" / "report.html").read_text()
    release = released()
    release.save(tmp_path / "all")
    release.save(tmp_path / "none", answers=False)
    reader.load(tmp_path / "none").save(tmp_path / "later", answers=True)
    there = [(tmp_path / folder / "answers.csv").exists() for folder in ("all", "none", "later")]
    assert there == [True, False, True]
    assert (tmp_path / "all" / "answers.csv").read_bytes() == (tmp_path / "later" / "answers.csv").read_bytes()
    left_out = writer.save(release, tmp_path, answers=False)
    assert [*left_out] == ["answers.csv"]
    assert "not wanted" in left_out["answers.csv"]


def test_the_noisy_number_of_records_is_in_the_manifest(tmp_path: Path) -> None:
    release = released()
    release.save(tmp_path / "out")
    (entry,) = [
        m for m in json.loads((tmp_path / "out" / "release.json").read_text())["measurements"] if not m["columns"]
    ]
    (measured,) = [m for m in release.measurements if m.group == RECORDS]
    assert entry == {
        "columns": [],
        "type": "cells",
        "noise": {"law": measured.noise.law, "scale": measured.noise.scale, "unit": 1.0},
        "repeats": 1,
        "values": measured.values.tolist(),
    }
    (again,) = [m for m in reader.load(tmp_path / "out").measurements if m.group == RECORDS]
    assert (again.noise, again.values.tolist()) == (measured.noise, measured.values.tolist())
    assert "all records" in (tmp_path / "out" / "report.html").read_text()


def test_an_insecure_seed_is_on_the_manifest_and_the_page(tmp_path: Path) -> None:
    released().save(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "release.json").read_text())
    assert manifest["insecure_seed"] == 7
    assert "INSECURE" in manifest["insecure"]
    assert "insecure" in (tmp_path / "out" / "report.html").read_text().lower()
    assert "INSECURE" in repr(reader.load(tmp_path / "out"))


class Looking:
    """A distinguisher of somebody's own, which is no dataclass, and keeps what it should not."""

    confined = True

    def distinguish(self, private: Private, *terms: Any) -> Workload:
        self.seen = private.exact(Workload.marginals(DOMAIN, 1))
        return Select("query").distinguish(private, *terms)

    def shortfall(self, *terms: Any) -> float:
        return Select("query").shortfall(*terms)


def test_a_part_of_somebodys_own_is_named_and_no_more(tmp_path: Path) -> None:
    for run in ("one", "two"):
        released(IterativeConstruction(Projection(0.25), Looking())).save(tmp_path / run)
    one, two = (json.loads((tmp_path / run / "release.json").read_text())["parameters"] for run in ("one", "two"))
    assert one == two
    assert one["distinguisher"].endswith(".Looking")


def test_a_folder_that_is_taken_or_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    with pytest.raises(InvalidInput, match="not overwritten"), writer.new_folder(tmp_path / "taken"):
        pass
    with pytest.raises(InvalidInput, match="cannot be written"), writer.new_folder(tmp_path / "no" / "such" / "place"):
        pass
    assert [f.name for f in tmp_path.iterdir()] == ["taken"]


def test_two_runs_cannot_write_one_folder(tmp_path: Path) -> None:
    with (
        writer.new_folder(tmp_path / "out"),
        pytest.raises(InvalidInput, match=r"out is being written by another run.*remove .*\.out\.part"),
        writer.new_folder(tmp_path / "out"),
    ):
        pass
    assert [f.name for f in tmp_path.iterdir()] == ["out"]


def test_a_run_whose_new_folder_another_has_taken_does_not_go_on_in_it(tmp_path: Path, monkeypatch) -> None:
    mkdir, out, other = Path.mkdir, tmp_path / "out", contextlib.ExitStack()

    def overtaken(folder: Path) -> None:
        mkdir(folder)
        monkeypatch.undo()
        (other.enter_context(writer.new_folder(out)) / "theirs").write_text("written")

    monkeypatch.setattr(Path, "mkdir", overtaken)
    with other:
        with pytest.raises(InvalidInput, match="out is being written by another run"), writer.new_folder(out):
            pass
        assert [f.name for f in tmp_path.iterdir()] == [".out.part"]
    assert [f.name for f in out.iterdir()] == ["theirs"]


def test_a_run_whose_new_folder_another_has_filled_does_not_go_on_in_it(tmp_path: Path, monkeypatch) -> None:
    opened, out = os.open, tmp_path / "out"

    def overtaken(*given: Any) -> int:
        monkeypatch.undo()
        descriptor = opened(*given)
        with writer.new_folder(out) as part:
            (part / "theirs").write_text("written")
        return descriptor

    monkeypatch.setattr(os, "open", overtaken)
    with pytest.raises(InvalidInput, match="out is being written by another run"), writer.new_folder(out):
        pass
    assert [f.name for f in out.iterdir()] == ["theirs"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), writer.new_folder(tmp_path / "out") as part:
        (part / "half").write_text("written")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
