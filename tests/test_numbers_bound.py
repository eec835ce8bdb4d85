"""The bound that `benchmarks.numbers` prints: singular values by hand, and plans that reach it."""

from itertools import combinations

import numpy as np
import pytest

from benchmarks.numbers_bound import alone, best_half, bound, planned
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


def test_the_cheapest_half_is_that_of_the_best_plan_of_some_half():
    """Each half planned by itself; its ratios are over one at a time of all questions."""
    texts = ["mean:x by a", "sum:x", "count by a*b", "variance:x by b", "mean:x by a where b = 1"]
    needs = [needs_of(NumericQuestion.parse(DOMAIN, text), {}) for text in texts]
    found = {}
    for half in combinations(range(5), 3):
        some = [needs[i] for i in half]
        weights = [1 / alone(needs) for needs in some]
        least = [SumsPlan.choose(DOMAIN, [one], ZCDP(0.5), Neighbours.ADD_REMOVE) for one in some]
        assert all(plan.ratios == (pytest.approx(1, rel=1e-6),) for plan in least)
        # Weights that make the plan's objective the sum of errors over those of one at a time.
        scales = [w * error(one) for w, one in zip(weights, some, strict=True)]
        plan = SumsPlan.choose(DOMAIN, some, ZCDP(0.5), Neighbours.ADD_REMOVE, scales)
        ratios = np.array(plan.ratios) * scales
        found[half] = float(np.sqrt(ratios.sum() / 15))
    least, which = best_half(DOMAIN, needs)
    assert which == min(found, key=lambda half: found[half])
    assert least == pytest.approx(found[which], rel=0.01)
    assert least < 0.9 * max(found.values())


def error(needs):
    """The least squared error of one question at σ = 1, from the definition of the plan's shares."""
    sizes = {a: DOMAIN.shape[a] for a in needs.axes}
    total = 0.0
    for _, weight in needs.weights:
        for s in (s for k in range(len(sizes) + 1) for s in combinations(sizes, k)):
            p = np.prod([1 - 1 / sizes[a] for a in s])
            total += np.sqrt(weight * p * p / np.prod([sizes[a] ** 2 for a in sizes if a not in s]))
    return float(total**2)
