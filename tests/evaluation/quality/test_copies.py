"""Copies of real records are told from a second sample."""

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality.copies import copies


def test_copies_are_told_from_a_second_sample():
    wide = Domain.coded({f"c{i}": 30 for i in range(5)})
    rng = np.random.default_rng(0)
    real = Table(wide, tuple(rng.integers(0, 30, 1000).astype(np.uint8) for _ in range(5)))
    fresh = Table(wide, tuple(rng.integers(0, 30, 1000).astype(np.uint8) for _ in range(5)))
    ours, second, apart = copies(real, fresh, fresh, np.random.default_rng(1))
    assert (ours.unique, second.unique, ours.same) == (0.0, 0.0, 0.0)
    assert ours.nearest_median == pytest.approx(second.nearest_median, abs=0.2)
    assert apart.nearest_median == pytest.approx(ours.nearest_median, abs=0.2)
    copied, _, _ = copies(real, real, fresh, np.random.default_rng(1))
    assert copied.unique > 0.3
    assert copied.same > 0.3
    assert copied.nearest_low == 0.0
