"""The bound that `benchmarks.numbers` prints: singular values by hand, and plans that reach it."""

import numpy as np
import pytest

from benchmarks.numbers_bound import bound, planned
from qrelease.data.domain import Attribute, Domain
from qrelease.inference.sums_plan import SumsPlan
from qrelease.privacy import ZCDP, Neighbours
from qrelease.queries.measures import needs_of
from qrelease.queries.numeric import NumericQuestion

DOMAIN = Domain(
    (
        Attribute("a", "coded", codes=4, ordered=True),
        Attribute("b", "coded", codes=2, ordered=True),
        Attribute("x", "coded", codes=5, ordered=True),
    )
)


def both(*texts):
    questions = [NumericQuestion.parse(DOMAIN, text) for text in texts]
    needs = [needs_of(question, {}) for question in questions]
    plan = SumsPlan.choose(DOMAIN, needs, ZCDP(0.5), Neighbours.ADD_REMOVE)
    return planned(DOMAIN, plan, needs), bound(DOMAIN, questions, needs)


def test_a_plan_of_signs_and_counts_is_as_good_as_can_be():
    ours, least = both("ratio:b >= 1 by a", "count by a", "count")
    assert least == pytest.approx(ours, rel=0.01)


def test_one_question_has_the_singular_values_of_its_rows():
    """Of sums of five values by four groups, and counts: kinds of records are all alike in the first step."""
    question = NumericQuestion.parse(DOMAIN, "mean:x by a")
    least = bound(DOMAIN, [question], [needs_of(question, {})], steps=1)
    rows = [[(a == g) * v for a in range(4) for v in (-1, -0.5, 0, 0.5, 1)] for g in range(4)]
    counts = [[(a == g) * 3**-0.5 for a in range(4) for _ in range(5)] for g in range(4)]
    kinds = 20
    singular = np.linalg.svd(np.array(rows + counts) / kinds**0.5, compute_uv=False)
    error = singular.sum() ** 2 / 4  # of one cell on average
    assert least == pytest.approx((error / (2 * (1 + 1 / 3))) ** 0.5, rel=1e-6)


def test_functions_of_one_column_leave_room_below_the_plan():
    ours, least = both("mean:x by a", "variance:x by a", "ratio:x >= 3 by a", "histogram:x by a", "sum:x by a*b")
    assert 0.5 * ours < least < 0.95 * ours
