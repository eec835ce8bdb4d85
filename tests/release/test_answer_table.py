"""The file of answers: tidy, in parts of any size, as CSV and as parquet."""

from pathlib import Path

import numpy as np
import pytest
from archives import DOMAIN, released, rows_of

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.noise.entropy import Entropy
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator


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
    assert release.answers_frame().columns.tolist() == ["answer__", "answer_", "query_", "answer", "model_95"]
    names = release.answers_frame(details=True).columns.tolist()
    assert names == ["answer__", "answer_", "query_", "answer", "noisy", "error_95", "model_95"]


def test_answers_are_written_in_parts_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = released()
    release.save(tmp_path / "whole")
    monkeypatch.setattr("qrelease.release.answer_table.PART_ANSWERS", 20)
    release.save(tmp_path / "parts")
    assert (tmp_path / "whole" / "answers.csv").read_bytes() == (tmp_path / "parts" / "answers.csv").read_bytes()


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="format must be one of csv, parquet, got 'xls'"):
        released().save(tmp_path / "out", format="xls")
    assert not [*tmp_path.iterdir()]
