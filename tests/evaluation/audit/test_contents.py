"""What a result says, by name."""

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.evaluation.audit.contents import Contents
from qrelease.inference.synopsis import Scaled
from qrelease.inference.weighted_records import WeightedRecords
from qrelease.mechanisms.base import MechanismResult
from qrelease.privacy import PureDP
from qrelease.privacy.costs import Spend
from qrelease.queries.workload import Workload

DOMAIN = Domain.coded({"a": 2, "b": 3})
ONES = Workload.marginals(DOMAIN, 1)
SYNOPSIS = WeightedRecords.equal(DOMAIN, np.arange(6), 12.0)


def told(choices=None, synopsis=SYNOPSIS, spends=()):
    return Contents(ONES).of(MechanismResult(synopsis, (), choices or {}), spends)


@pytest.mark.parametrize(
    ("one", "other"), [(0.0, -0.0), (1, True), (1, 1.0), (2**53, 2**53 + 1), (None, float("nan")), ([0.0], [-0.0])]
)
def test_values_that_are_one_float_are_told_apart_by_how_they_are_written(one, other):
    name = "how it is written what was chosen"
    assert told({"x": one})[name] != told({"x": other})[name]


def test_the_cells_of_a_synopsis_are_told_and_the_packages_own_are_not_sampled():
    said = told(synopsis=Scaled(SYNOPSIS, 24.0))
    cells = {name: value for name, value in said.items() if name.startswith("the count of ")}
    assert list(cells.values()) == pytest.approx([4.0] * 6)
    assert said["the synopsis: total"] == 24.0
    assert not any("synthetic" in name for name in said)


def test_synthetic_records_of_another_synopsis_are_counted_and_drawn_alike_each_time():
    class Own:
        domain, total, has_table = SYNOPSIS.domain, SYNOPSIS.total, True
        answer, sample, to_json = SYNOPSIS.answer, SYNOPSIS.sample, SYNOPSIS.to_json

    one, two = (told(synopsis=Own()) for _ in range(2))
    assert one == two
    assert sum(value for name, value in one.items() if name.startswith("the synthetic records with ")) == 64


def test_each_part_of_the_cost_is_told_by_its_text_and_its_price():
    said = told(spends=[Spend("measure a", PureDP(0.5)), Spend("measure b", PureDP(0.25))])
    assert said["what spend 2 is of"] == "measure b, PureDP(epsilon=0.25)"
