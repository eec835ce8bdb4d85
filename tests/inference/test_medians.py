"""The candidates that are left answer with medians."""

import json

import numpy as np
import pytest
from rules import NET
from worlds import PEOPLE, mixed

from qrelease.errors import TooLarge
from qrelease.inference.medians import Medians
from qrelease.inference.nets import small_databases


def test_medians_answer_with_medians():
    state = Medians(NET, 60.0)
    answers = np.array([y.answer(mixed()) / y.total for y in NET.synopses])
    np.testing.assert_allclose(state.answer(mixed()), 60 * np.median(answers, axis=0))
    some = Medians(NET, 60.0, np.array([3, 7, 30]))
    np.testing.assert_allclose(some.answer(mixed()), 60 * np.median(answers[[3, 7, 30]], axis=0))
    content = json.loads(json.dumps(some.to_json()))
    assert content["total"] == 60
    assert content["candidates"] == [json.loads(json.dumps(NET.synopsis(i, 60.0).to_json())) for i in (3, 7, 30)]


def test_medians_of_too_many_answers_are_refused():
    with pytest.raises(TooLarge, match="candidates are too many; at most 33,554,432"):
        Medians(small_databases(PEOPLE, 7), 60.0).answer(mixed())
