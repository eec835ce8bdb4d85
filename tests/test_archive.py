"""A release saved and loaded is the same release."""

import json
from pathlib import Path

import numpy as np
import pytest

from qrelease import archive
from qrelease.domain import Attribute, Domain
from qrelease.entropy import Entropy
from qrelease.errors import InvalidInput
from qrelease.ledger import Ledger
from qrelease.measure import RECORDS
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.mwem import MWEM
from qrelease.privacy import ApproxDP
from qrelease.release import Curator, Release
from qrelease.table import Table
from qrelease.workload import Workload

COST = ApproxDP(1.0, 1e-6)
DOMAIN = Domain(
    (
        Attribute("sex", "category", categories=("F", "M, or other"), missing=("?",)),
        Attribute("age", "number", edges=(18, 30, 40, 70), integer=True),
        Attribute("code", "coded", codes=4, ordered=True),
    )
)


def released(mechanism=None, seed=7) -> Release:
    rng = np.random.default_rng(0)
    table = Table(DOMAIN, tuple(rng.integers(0, size, 500).astype(np.uint8) for size in DOMAIN.shape))
    workload = (
        Workload.marginals(DOMAIN, 2)
        + Workload.ranges(DOMAIN, "code")
        + Workload.predicates(DOMAIN, "age in 18..39 and sex = 'F'")
        + Workload.vectors(DOMAIN, [[0.25, 0.5, 1]], ["sex"])
    )
    curator = Curator(table, Ledger.open(None, COST, dataset="made up"), Entropy.insecure(seed))
    return curator.release(mechanism or MWEM(rounds=4), workload, COST)


@pytest.mark.parametrize("mechanism", [MWEM(rounds=4), MWEM(rounds=5, choice="query"), Laplace(), Gaussian()])
def test_a_loaded_release_answers_like_the_saved_one(mechanism, tmp_path: Path) -> None:
    release = released(mechanism)
    release.save(tmp_path / "out")
    loaded = archive.load(tmp_path / "out")
    np.testing.assert_allclose(loaded.answers(), release.answers(), rtol=1e-9)
    for ours, theirs in zip(release.error_bars(), loaded.error_bars(), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-12)
    for name in ("workload", "cost", "neighbours", "dataset", "mechanism", "spends", "insecure_seed", "versions"):
        assert getattr(loaded, name) == getattr(release, name), name
    assert dict(loaded.parameters) == dict(release.parameters)


def test_synthetic_rows_have_the_inputs_header_and_labels(tmp_path: Path) -> None:
    release = released()
    release.save(tmp_path / "out", rows=300)
    table = Table.read_csv(tmp_path / "out" / "synthetic.csv", DOMAIN)
    assert len(table) == 300
    one_way = [c.astype(float) for c in table.counts([(0,), (1,), (2,)])]
    expected = release.answer(Workload.marginals(DOMAIN, 1)) * 300 / release.synopsis.total
    # Systematic sampling keeps prefix marginals within one row a cell; others drift by a few.
    np.testing.assert_allclose(np.concatenate(one_way), expected, atol=15)


def test_answers_name_every_query_in_the_language_of_conditions(tmp_path: Path) -> None:
    release = released()
    release.save(tmp_path / "out")
    lines = (tmp_path / "out" / "answers.csv").read_text().splitlines()
    assert lines[0] == "query,answer,noisy,error_95,INSECURE"
    assert len(lines) == len(release.workload) + 1
    assert any("age in 18..39 and sex = F" in line or "'F'" in line for line in lines)


@pytest.mark.parametrize("mechanism", [MWEM(rounds=4), Laplace(), Gaussian()], ids=lambda m: m.name)
def test_every_mechanism_gives_a_table_and_again_when_loaded(mechanism, tmp_path: Path) -> None:
    release = released(mechanism)
    release.save(tmp_path / "out")
    files = ["answers.csv", "release.json", "report.html", "synthetic.csv"]
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == files
    again = archive.load(tmp_path / "out").synthetic(20)
    assert {name: column.tolist() for name, column in again.items()} == {
        name: column.tolist() for name, column in release.synthetic(20).items()
    }


def test_a_table_that_does_not_fit_takes_nothing_else_with_it(tmp_path: Path, monkeypatch) -> None:
    release = released()
    monkeypatch.setattr("qrelease.memory.free", lambda: 0)
    assert "500 synthetic records: about" in archive.save(release, tmp_path, rows=500)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["answers.csv", "release.json", "report.html"]


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
        "law": measured.noise.law,
        "scale": measured.noise.scale,
        "unit": 1.0,
        "repeats": 1,
        "values": measured.values.tolist(),
    }
    (again,) = [m for m in archive.load(tmp_path / "out").measurements if m.group == RECORDS]
    assert (again.noise, again.values.tolist()) == (measured.noise, measured.values.tolist())
    assert "all records" in (tmp_path / "out" / "report.html").read_text()


def test_an_insecure_seed_is_on_the_manifest_and_the_page(tmp_path: Path) -> None:
    released().save(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "release.json").read_text())
    assert manifest["insecure_seed"] == 7
    assert "INSECURE" in manifest["insecure"]
    assert "insecure" in (tmp_path / "out" / "report.html").read_text().lower()
    assert "INSECURE" in repr(archive.load(tmp_path / "out"))


def test_a_manifest_whose_parts_cost_more_than_it_claims_is_refused(tmp_path: Path) -> None:
    released().save(tmp_path / "out")
    file = tmp_path / "out" / "release.json"
    content = json.loads(file.read_text())
    content["cost"]["epsilon"] = 0.5
    file.write_text(json.dumps(content))
    with pytest.raises(Exception, match="budget exceeded"):
        archive.load(tmp_path / "out")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 99}'])
def test_what_is_no_manifest_is_one_clear_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "release.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"release\.json"):
        archive.load(tmp_path)


def test_a_folder_that_is_taken_or_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    with pytest.raises(InvalidInput, match="not overwritten"), archive.new_folder(tmp_path / "taken"):
        pass
    with pytest.raises(InvalidInput, match="cannot be written"), archive.new_folder(tmp_path / "no" / "such" / "place"):
        pass
    assert [f.name for f in tmp_path.iterdir()] == ["taken"]


def test_two_runs_cannot_write_one_folder(tmp_path: Path) -> None:
    with (
        archive.new_folder(tmp_path / "out"),
        pytest.raises(InvalidInput, match=r"out is being written by another run.*remove .*\.out\.part"),
        archive.new_folder(tmp_path / "out"),
    ):
        pass
    assert [f.name for f in tmp_path.iterdir()] == ["out"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), archive.new_folder(tmp_path / "out") as part:
        (part / "half").write_text("written")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
