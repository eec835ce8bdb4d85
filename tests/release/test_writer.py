"""A release saved and loaded is the same release."""

import csv
import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, OutOfMemory, QReleaseError
from qrelease.inference.measurement import RECORDS
from qrelease.inference.median_rule import Median
from qrelease.inference.nets import quantiles
from qrelease.inference.update_rules import Projection
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.distinguishers import Select
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.private_data import Private
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import Records
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release import reader, writer
from qrelease.release.curator import Curator
from qrelease.release.manifest import manifest as described
from qrelease.release.manifest import put_back, set_apart
from qrelease.release.release import Release

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


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as content:
        return list(csv.DictReader(content))


@pytest.mark.parametrize("mechanism", [MWEM(rounds=4), MaxEnt(), Laplace()], ids=lambda m: m.name)
def test_the_file_of_answers_is_tidy(mechanism, tmp_path: Path) -> None:
    """A cell is named by its labels, one column each, any other query by its text."""
    release = released(mechanism)
    release.save(tmp_path / "out")
    rows = rows_of(tmp_path / "out" / "answers.csv")
    assert list(rows[0]) == ["query", "sex", "age", "code", "answer", "noisy", "error_95", "model_95", "INSECURE"]
    for row, text in zip(rows, release.workload.texts(), strict=True):
        keys = {name: row[name] for name in DOMAIN.names if row[name]}
        assert bool(row["query"]) == (not keys)
        assert row["query"] in ("", text)
        for name, label in keys.items():
            assert f"{name} = " in text or f"{name} in {label}" in text or f"{name} is missing" in text
    expected = (release.answers(), *release.error_bars(), release.model_bars())
    for name, values in zip(("answer", "noisy", "error_95", "model_95"), expected, strict=True):
        written = np.array([float(row[name]) if row[name] else np.nan for row in rows])
        np.testing.assert_allclose(written, values, rtol=1e-3, err_msg=name)


def test_a_key_that_is_named_as_a_number_is_told_apart() -> None:
    domain = Domain.coded({"answer": 2, "answer_": 2, "query": 2})
    table = Table(domain, (np.array([0, 1], np.uint8),) * 3)
    with Ledger.open(None, PureDP(1.0)) as ledger:
        release = Curator(table, ledger, Entropy.insecure(1)).release(
            Laplace(), Workload.marginals(domain, 2), PureDP(1.0)
        )
    names = release.answers_frame().columns.tolist()
    assert names == ["answer__", "answer_", "query_", "answer", "noisy", "error_95", "model_95"]


def test_answers_are_written_in_parts_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = released()
    release.save(tmp_path / "whole")
    monkeypatch.setattr("qrelease.release.answer_table._PART", 20)
    release.save(tmp_path / "parts")
    assert (tmp_path / "whole" / "answers.csv").read_bytes() == (tmp_path / "parts" / "answers.csv").read_bytes()


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


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="format must be one of csv, parquet, got 'xls'"):
        released().save(tmp_path / "out", format="xls")
    assert not [*tmp_path.iterdir()]


def test_long_lists_of_numbers_are_beside_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qrelease.release.manifest.LISTED", 10)
    release = released(Records(records=3000))
    release.save(tmp_path / "out")
    files = sorted(f.name for f in (tmp_path / "out").iterdir())
    assert files == ["answers.csv", "release.json", "report.html", "synopsis.npz", "synthetic.csv"]
    assert "array" in json.loads((tmp_path / "out" / "release.json").read_text())["synopsis"]["weights"]
    loaded = reader.load(tmp_path / "out")
    np.testing.assert_allclose(loaded.answers(), release.answers(), rtol=1e-12)
    assert described(loaded, None)["synopsis"] == described(release, None)["synopsis"]
    numbers = tmp_path / "out" / "synopsis.npz"
    whole = numbers.read_bytes()
    for damage in (whole[:-1], b"", whole[:100] + b"x" + whole[101:]):
        numbers.write_bytes(damage)
        with pytest.raises(InvalidInput, match="does not hold the numbers of the synopsis"):
            reader.load(tmp_path / "out")
    numbers.unlink()
    with pytest.raises(InvalidInput, match=r"synopsis\.npz cannot be read"):
        reader.load(tmp_path / "out")


@pytest.mark.parametrize(
    "content",
    [
        {"records": [[0, 300], [1, 2]] * 9, "weights": [0.5] * 18},
        {"widths": [None, 1.5] * 9, "inner": [{"logs": [-1.0] * 18}, {"logs": [1]}]},
        {"texts": ["a"] * 18, "queries": [{"columns": ["a"]}] * 18, "negative": [-5, 2] * 9},
    ],
)
def test_numbers_that_are_set_apart_are_put_back(content: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qrelease.release.manifest.LISTED", 10)
    arrays: dict[str, Any] = {}
    left = set_apart(content, arrays)
    assert arrays
    assert len(json.dumps(left)) < len(json.dumps(content))
    assert put_back(json.loads(json.dumps(left)), arrays) == content


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
    with pytest.raises(InvalidInput, match="rename that of the schema"):
        writer.check_weighted(Domain.coded({"weight": 2}))


@pytest.mark.parametrize("mechanism", [MWEM(rounds=4), Laplace(), Gaussian()], ids=lambda m: m.name)
def test_every_mechanism_gives_a_table_and_again_when_loaded(mechanism, tmp_path: Path) -> None:
    release = released(mechanism)
    release.save(tmp_path / "out")
    files = ["answers.csv", "release.json", "report.html", "synthetic.csv"]
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == files
    again = reader.load(tmp_path / "out").synthetic(20)
    for name, column in release.synthetic(20).items():
        np.testing.assert_array_equal(again[name], column)


def test_a_table_that_never_fits_takes_nothing_else_with_it(tmp_path: Path, monkeypatch) -> None:
    """The limits of the machine are public, and so may decide which files there are."""
    release = released()
    monkeypatch.setattr("qrelease._util.memory.room", lambda: 0)
    left_out = writer.save(release, tmp_path, rows=500)
    assert [*left_out] == ["synthetic.csv"]
    assert "500 synthetic records: about" in left_out["synthetic.csv"]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["answers.csv", "release.json", "report.html"]


@pytest.mark.parametrize("weighted", [False, True])
def test_what_memory_is_free_decides_no_file(tmp_path: Path, monkeypatch, weighted) -> None:
    """A private table takes memory: a release is saved whole, or not at all, which the data holder alone sees."""
    release = released()
    monkeypatch.setattr("qrelease._util.memory.free", lambda: 0)
    with pytest.raises(OutOfMemory, match="are needed and 0 MiB are free"):
        release.save(tmp_path / "out", rows=500, weighted=weighted)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("mechanism", [MWEM(rounds=4), Gaussian(), MaxEnt()], ids=lambda m: m.name)
def test_many_noisy_answers_have_a_file_of_their_own(mechanism, tmp_path: Path, monkeypatch) -> None:
    release = released(mechanism)
    monkeypatch.setattr(writer, "LISTED_ANSWERS", 10)
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


def test_a_file_of_noisy_answers_that_is_not_whole_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(writer, "LISTED_ANSWERS", 10)
    released(Gaussian()).save(tmp_path / "out")
    file = tmp_path / "out" / "measurements.npy"
    values, manifest = np.load(file), tmp_path / "out" / "release.json"
    ours = hashlib.sha256(file.read_bytes()).hexdigest()
    for others in (values[1:], values + 1, values.astype(np.float32)):
        np.save(file, others)
        with pytest.raises(InvalidInput, match="does not hold the noisy answers of this release"):
            reader.load(tmp_path / "out")
    # Nor does one that the manifest itself names.
    for others, message in [
        (values[1:], r"hold the \d+ noisy answers"),
        (np.array([{}]), "values: ValueError: Array can't be memory-mapped"),
        (np.where(np.arange(len(values)) == 3, np.nan, values), "must hold finite numbers"),
    ]:
        np.save(file, others)
        named = manifest.read_text().replace(ours, hashlib.sha256(file.read_bytes()).hexdigest())
        (tmp_path / "named.json").write_text(named)
        shutil.copy(file, tmp_path / file.name)
        with pytest.raises(InvalidInput, match=message):
            reader.load(tmp_path / "named.json")
    file.write_bytes(b"")
    with pytest.raises(InvalidInput, match="does not hold"):
        reader.load(tmp_path / "out")
    file.unlink()
    with pytest.raises(InvalidInput, match=r"measurements\.npy cannot be read"):
        reader.load(tmp_path / "out")


def test_very_many_answers_are_written_only_if_asked_for(tmp_path: Path, monkeypatch) -> None:
    release = released()
    monkeypatch.setattr(writer, "MOST_ANSWERS", len(release.workload))
    release.save(tmp_path / "all")
    monkeypatch.setattr(writer, "MOST_ANSWERS", len(release.workload) - 1)
    release.save(tmp_path / "none")
    reader.load(tmp_path / "none").save(tmp_path / "later", answers=True)
    there = [(tmp_path / folder / "answers.csv").exists() for folder in ("all", "none", "later")]
    assert there == [True, False, True]
    assert (tmp_path / "all" / "answers.csv").read_bytes() == (tmp_path / "later" / "answers.csv").read_bytes()
    left_out = writer.save(release, tmp_path, answers=False)
    assert [*left_out] == ["answers.csv"]
    assert "not wanted" in left_out["answers.csv"]
    (tmp_path / "more").mkdir()
    assert f"{len(release.workload):,} lines" in writer.save(release, tmp_path / "more")["answers.csv"]


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


def test_a_manifest_whose_parts_cost_more_than_it_claims_is_refused(tmp_path: Path) -> None:
    released().save(tmp_path / "out")
    file = tmp_path / "out" / "release.json"
    content = json.loads(file.read_text())
    content["cost"]["epsilon"] = 0.5
    file.write_text(json.dumps(content))
    with pytest.raises(Exception, match="budget exceeded"):
        reader.load(tmp_path / "out")


def test_grids_of_queries_and_of_their_noise_are_two_things(tmp_path: Path) -> None:
    """Noise is on the finest grid of a workload, whatever the grid of a query."""
    domain = Domain.coded({"a": 3, "b": 2})
    asked = Workload.vectors(domain, [[0, 1, 1]], ["a"]) + Workload.vectors(domain, [[0.3, 0.5]], ["b"])
    table = Table(domain, (np.array([0, 1, 2, 2], np.uint8), np.array([0, 1, 1, 1], np.uint8)))
    with Ledger.open(None, PureDP(1.0)) as ledger:
        release = Curator(table, ledger, Entropy.insecure(1)).release(Laplace(), asked, PureDP(1.0))
    release.save(tmp_path / "out")
    loaded = reader.load(tmp_path / "out")
    assert [m.group for m in loaded.measurements] == [m.group for m in release.measurements]
    np.testing.assert_array_equal(loaded.error_bars(), release.error_bars())


LINE = Domain.coded({"a": 6})
LARGE = Domain.coded({f"a{i}": 64 for i in range(6)})

STORED = {
    "histogram": (DOMAIN, MWEM(rounds=4)),
    "answers": (DOMAIN, Gaussian()),
    "maximum entropy": (DOMAIN, MaxEnt()),
    "residuals": (LARGE, MaxEnt()),
    "least squares": (LINE, Matrix()),
    "weighted codes": (DOMAIN, Records(records=20)),
    "weighted records": (LINE, SmallDB(size=3)),
    "dual": (LINE, IterativeConstruction(Projection(0.25), Select("query"))),
    "medians": (LINE, IterativeConstruction(Median(quantiles(LINE, alpha=1 / 4), 0.3, radius=1 / 4), Select("query"))),
}
"""What makes each kind of synopsis."""


CONTRADICTED = {
    "cost": ["spends"],
    "domain": ["workload", "measurements", "synopsis"],
    "workload": ["synopsis"],
    "measurements": ["synopsis"],
}
"""The parts that contradict another one which is possible by itself."""


def stored(kind: str) -> dict[str, Any]:
    domain, mechanism = STORED[kind]
    rng = np.random.default_rng(0)
    table = Table(domain, tuple(rng.integers(0, size, 300).astype(np.uint8) for size in domain.shape))
    workload = Workload.marginals(domain, 1)
    if domain is not LARGE:
        workload += Workload.ranges(domain, domain.names[-1])
    if mechanism.name != "records" and domain is DOMAIN:
        workload += Workload.vectors(DOMAIN, [[0.25, 0.5, 1]], ["sex"])
    with Ledger.open(None, COST, dataset="made up") as ledger:
        release = Curator(table, ledger, Entropy.insecure(0)).release(mechanism, workload, COST)
    text = json.dumps(described(release, None))
    content: dict[str, Any] = json.loads(text)
    assert content["synopsis"]["type"] == kind
    return content


def damages(content: Any) -> Iterator[tuple[list[Any], Any]]:
    """What each part of a manifest might be instead, and the path to it; of a list, the first and the last entry."""
    wrong = [None, -1, 0.5, 10**400, math.nan, math.inf, 1e5, True, "text", [], {}]
    if isinstance(content, list) and content:
        wrong += [content[:-1], [*content, content[-1]]]
    for other in wrong:
        if type(other) is not type(content) or other != content:
            yield [], other
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, part in inner:
        if isinstance(content, list) and 0 < key < len(content) - 1:
            continue
        if isinstance(content, dict):
            yield [], {k: v for k, v in content.items() if k != key}
        for path, other in damages(part):
            yield [key, *path], other


def edited(content: Any, path: list[Any], other: Any) -> Any:
    if not path:
        return other
    copy = content.copy()
    copy[path[0]] = edited(content[path[0]], path[1:], other)
    return copy


def settled(content: Any) -> Any:
    """What a manifest says: a constant in a factor means nothing, nor a scale of 1, nor the totals of candidates."""
    if isinstance(content, dict):
        content = dict(content)
        if content.get("type") == "scaled" and content["total"] == content["synopsis"].get("total"):
            return settled(content["synopsis"])
        if content.get("type") == "medians":
            inner = (c["synopsis"] if c["type"] == "scaled" else c for c in content["candidates"])
            content["candidates"] = [settled(c) | {"total": 1.0} for c in inner]
        if "logs" in content:
            content["logs"] = (np.array(content["logs"]) - np.mean(content["logs"])).tolist()
        return {key: settled(part) for key, part in content.items()}
    if isinstance(content, list):
        return [settled(part) for part in content]
    return content


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return isinstance(other, int | float) and math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == other)


@pytest.mark.parametrize("kind", STORED)
def test_a_damaged_manifest_is_one_clear_error_or_says_what_it_says(kind: str, tmp_path: Path) -> None:
    """Each field in turn. Parameters and the names of things are free text: they may be any, and decide nothing."""
    content, file = stored(kind), tmp_path / "release.json"
    file.write_text(json.dumps(content))
    assert described(reader.load(file), None)["synopsis"].keys() == content["synopsis"].keys()
    refused = tried = 0
    for path, other in damages(content):
        if path[:1] == ["parameters"] and path[1:]:
            continue
        tried += 1
        manifest = edited(content, path, other)
        file.write_text(json.dumps(manifest))
        where = f"{path} = {str(other)[:80]}"
        message = ""
        try:
            found = reader.load(file)
        except QReleaseError as error:
            message = str(error)
        if message:
            assert message.startswith(f"{file}: "), where
            named = [path[0], *CONTRADICTED.get(path[0], [])] if path else [""]
            assert any(name in message.removeprefix(str(file)) for name in named), f"{where}: {message}"
            refused += 1
            continue
        again = json.loads(json.dumps(described(found, None)))
        assert again.keys() == manifest.keys(), where
        for key in again:
            if key != "insecure":  # a text, which says what it says by being there
                assert same(settled(again[key]), settled(manifest[key])), where
        assert np.isfinite(found.answers()).all(), where
        for bars in (found.error_bars()[1], found.model_bars()):
            assert not (bars < 0).any(), where
    assert refused > 0.9 * tried > 500


@pytest.mark.parametrize(
    ("kind", "path", "other", "words"),
    [
        ("answers", ["measurements", 0, "noise", "scale"], -1, "measurements: entry 0: scale must be positive, got -1"),
        ("answers", ["synopsis", "total"], math.nan, "synopsis: total must be finite"),
        ("answers", ["spends", 0, "epsilon"], 2.0, "spends: budget exceeded"),
        ("maximum entropy", ["synopsis", "widths"], [1.0], "synopsis: widths: must be"),
        ("histogram", ["synopsis", "factors", 0, "logs"], [1e5, 1e5, 0.0], "synopsis: factors: their product is out"),
        ("residuals", ["synopsis", "total"], 5.0, "synopsis: total: 5.0 is not that of the measurements"),
        ("weighted codes", ["synopsis", "records", 0], [0.5, 0, 0], "synopsis: records: must be rows of 3 codes"),
    ],
)
def test_an_error_names_the_field(kind: str, path: list[Any], other: Any, words: str, tmp_path: Path) -> None:
    (tmp_path / "release.json").write_text(json.dumps(edited(stored(kind), path, other)))
    with pytest.raises(QReleaseError, match=re.escape(f"{tmp_path / 'release.json'}: {words}")):
        reader.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 99}', "[" * 100_000])
def test_what_is_no_manifest_is_one_clear_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "release.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"release\.json"):
        reader.load(tmp_path)


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


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), writer.new_folder(tmp_path / "out") as part:
        (part / "half").write_text("written")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
