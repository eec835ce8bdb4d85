"""Stored synopses: each kind is made again from what its class wrote, and what it cannot be is refused by name."""

import json

import numpy as np
import pytest
from releases import released
from stored_kinds import STORED
from worlds import random_table

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import Histogram
from qrelease.queries.workload import Workload
from qrelease.release.manifest import SYNOPSES
from qrelease.release.stored_synopses import Context, synopsis_of

PAIR = Domain.coded({"a": 3, "b": 4})
CONTEXT = Context(PAIR, Workload.marginals(PAIR, 1), ())
HISTOGRAM = {
    "type": "histogram",
    "total": 12.0,
    "factors": [{"columns": ["a"], "logs": [0.0, 0.5, -1.0]}, {"columns": ["a", "b"], "logs": [0.1] * 12}],
}
RECORDS = {"type": "weighted records", "total": 6.0, "records": [[0, 0], [2, 3]], "weights": [0.25, 0.75]}


@pytest.mark.parametrize("kind", STORED)
def test_each_kind_answers_as_the_one_that_was_stored(kind):
    domain, mechanism = STORED[kind]
    workload = Workload.marginals(domain, 1)
    release = released(mechanism, random_table(domain, 300, 0), workload)
    content = json.loads(json.dumps(release.synopsis.to_json(), allow_nan=False))
    assert content["type"] == kind
    again = synopsis_of(content, Context(domain, workload, release.measurements))
    assert type(again) is type(release.synopsis)
    np.testing.assert_allclose(again.answer(workload), release.answers(), rtol=1e-6, atol=1e-6)
    assert again.total == pytest.approx(release.synopsis.total)


def test_the_types_that_can_be_saved_are_those_that_can_be_read():
    assert {*STORED} <= {*SYNOPSES}
    for kind in SYNOPSES:
        with pytest.raises((InvalidInput, KeyError, ValueError)) as told:  # it lacks everything else
            synopsis_of({"type": kind}, CONTEXT)
        assert "knows no synopsis" not in str(told.value)


def test_a_histogram_is_the_product_of_its_factors():
    found = synopsis_of(HISTOGRAM, CONTEXT)
    assert isinstance(found, Histogram)
    cells = np.repeat(np.exp([0.0, 0.5, -1.0]), 4)
    np.testing.assert_allclose(found.values, 12 * cells / cells.sum(), rtol=1e-6)


def test_a_scaled_synopsis_is_another_of_another_total():
    found = synopsis_of({"type": "scaled", "total": 24.0, "synopsis": HISTOGRAM}, CONTEXT)
    inner = synopsis_of(HISTOGRAM, CONTEXT).answer(CONTEXT.workload)
    np.testing.assert_allclose(found.answer(CONTEXT.workload), 2 * inner)
    assert found.total == 24.0


@pytest.mark.parametrize("total", [-3.0, float("nan"), float("inf"), "7", None, True])
@pytest.mark.parametrize("content", [HISTOGRAM, RECORDS], ids=lambda content: content["type"])
def test_a_total_is_a_number_of_records(content, total):
    with pytest.raises(InvalidInput, match="total"):
        synopsis_of({**content, "total": total}, CONTEXT)


@pytest.mark.parametrize("kind", ["residuals", "least squares"])
def test_an_unbiased_total_may_be_below_0(kind):
    """It is an estimate with noise, and no number of synthetic records."""
    domain, mechanism = STORED[kind]
    nobody, workload = random_table(domain, 0, 0), Workload.marginals(domain, 1)
    below = 0
    for seed in range(8):
        release = released(mechanism, nobody, workload, seed=seed)
        context = Context(domain, workload, release.measurements)
        content = release.synopsis.to_json()
        assert synopsis_of(content, context).total == pytest.approx(release.synopsis.total)
        below += release.synopsis.total < 0
        with pytest.raises(InvalidInput, match="total"):
            synopsis_of({**content, "total": float("nan")}, context)
    assert below


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({**HISTOGRAM, "type": "no such"}, "knows no synopsis of type 'no such'"),
        ({**HISTOGRAM, "type": ["histogram"]}, "knows no synopsis of type"),
        ({**HISTOGRAM, "factors": [HISTOGRAM["factors"][0]] * 2}, "factor 1: columns: must be distinct"),
        ({**HISTOGRAM, "factors": [{"columns": ["b", "a"], "logs": [0.0] * 12}]}, "in the domain's order"),
        ({**HISTOGRAM, "factors": [{"columns": ["a"], "logs": [0.0] * 4}]}, "factor 0: logs"),
        ({**HISTOGRAM, "factors": [{"columns": ["c"], "logs": [0.0]}]}, "factor 0: .*'c'"),
        ({**HISTOGRAM, "factors": {}}, "factors"),
        ({**RECORDS, "records": [[0], [2]]}, "records: must be rows of 2 codes"),
        ({**RECORDS, "records": [[0, 0.5], [2, 3]]}, "records: must be rows of 2 codes"),
        ({**RECORDS, "weights": [1.0]}, "weights"),
        ({"type": "answers", "total": 3.0, "values": [1.0] * 6}, "values"),
        ({"type": "maximum entropy", "histogram": HISTOGRAM, "widths": [-1.0] * 7}, "widths: must not be negative"),
        ({"type": "maximum entropy", "histogram": HISTOGRAM, "widths": [1.0] * 6}, "widths"),
        ({"type": "maximum entropy", "histogram": RECORDS, "widths": [None] * 7}, "type: must be 'histogram'"),
        ({"type": "scaled", "total": 5.0, "synopsis": {**HISTOGRAM, "total": 0.0}}, "total: must be positive"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_a_synopsis_cannot_be_is_refused_by_name(content, said):
    with pytest.raises(InvalidInput, match=said):
        synopsis_of(content, CONTEXT)


def test_factors_whose_product_no_number_holds_are_refused():
    far = {**HISTOGRAM, "factors": [{"columns": ["a"], "logs": [1e308, -1e308, 0.0]}]}
    with np.errstate(all="ignore"), pytest.raises(InvalidInput, match="out of range"):
        synopsis_of({**far, "factors": [*far["factors"], {"columns": ["a", "b"], "logs": [1e308] * 12}]}, CONTEXT)
