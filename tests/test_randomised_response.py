"""Randomised response: the law of a report, its ε, the estimator, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from qrelease import laws
from qrelease.entropy import Entropy
from qrelease.errors import InvalidInput
from qrelease.randomised_response import RandomisedResponse


def report_law(epsilon, k):
    """P(report | answer), (k, k)."""
    truth = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    return np.full((k, k), (1 - truth) / (k - 1)) + np.eye(k) * (truth - (1 - truth) / (k - 1))


@pytest.mark.parametrize(("epsilon", "k"), [(math.log(3), 2), (Fraction(1, 10), 2), (1.0, 5), (4, 7)])
def test_reports_have_the_law_and_an_epsilon_off_by_thirty_per_cent_would_show(epsilon, k):
    response = RandomisedResponse(epsilon, k)
    answers = np.repeat(np.arange(k), 200_000)
    reports = response.report(answers, Entropy.insecure(51))
    table = np.bincount(answers * k + reports, minlength=k * k)
    p_value = lambda e: stats.chisquare(table, (report_law(e, k) * 200_000).ravel()).pvalue  # noqa: E731
    assert p_value(float(epsilon)) > 1e-3
    assert p_value(float(epsilon) * 1.3) < 1e-6
    law = report_law(float(epsilon), k)
    assert np.log(law.max(axis=0) / law.min(axis=0)).max() == pytest.approx(float(epsilon))
    assert response.truth == pytest.approx(law[0, 0])


def test_two_fair_coins_are_ln_3():
    assert RandomisedResponse(math.log(3)).truth == pytest.approx(0.75)


def test_the_coin_is_exact_where_64_bits_leave_it_open():
    class Script:
        stock: tuple[int, ...] = ()

        def words(self, n):
            played, self.stock = self.stock[:n], self.stock[n:]
            return np.array(played, dtype=np.uint64)

    source = Script()
    first, second = divmod(laws.response(Fraction(1), 2, 128)[0][0], 2**64)
    for more, report in [(second - 1, 1), (second + 2, 2)]:
        source.stock = (first, 2**63, more)
        assert RandomisedResponse(1, 3).report(np.array([1]), source).tolist() == [report]
    # floor(U · 3) for k = 4, at U = 1/3 up to 64 bits.
    for more, report in [(0, 1), (2**64 - 1, 2)]:
        source.stock = (2**64 - 1 - 2**30, 2**64 // 3, more)
        assert RandomisedResponse(1, 4).report(np.array([0]), source).tolist() == [report]


def test_the_estimate_is_unbiased_and_as_precise_as_it_says():
    answers = np.repeat([0, 1, 2, 3], [500, 1500, 0, 3000])
    response, entropy = RandomisedResponse(1.0, 4), Entropy.insecure(52)
    estimates = np.array([response.estimate(response.report(answers, entropy)) for _ in range(400)])
    law = report_law(1.0, 4)
    bound = np.sqrt(5000 / 4) / (law[0, 0] - law[0, 1])
    assert np.abs(estimates.mean(axis=0) - [500, 1500, 0, 3000]).max() < 4 * bound / 20
    assert estimates.std(axis=0).max() < 1.1 * bound
    np.testing.assert_allclose(estimates.sum(axis=1), 5000)
    # A plain count of the reports is off by far more than the test allows.
    assert abs(5000 * law[0, 1] + 500 * (law[0, 0] - law[0, 1]) - 500) > 4 * bound / 20


def test_answers_may_be_a_list_and_an_epsilon_any_positive_number():
    assert RandomisedResponse(50, 3).report([0, 2, 1], Entropy.insecure(53)).tolist() == [0, 2, 1]
    for huge in (Fraction(10**400), 10**400, 1e308):
        response = RandomisedResponse(huge, 3)
        assert response.truth == 1.0
        assert response.estimate([0, 0, 2]).tolist() == [2, 0, 1]
    # p - q = ε/2 to first order: the difference of two floats would be off by 1e-4 of it.
    assert RandomisedResponse(1e-12).estimate([0, 0, 0, 1]) == pytest.approx([2e12, -2e12], rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "k", "message"),
    [
        (0, 2, "epsilon must be positive, got 0"),
        (math.nan, 2, "epsilon must be finite, got nan"),
        (True, 2, "epsilon must be a number, got True"),
        (1, 1, "k must be an integer of at least 2, got 1"),
        (1, 2.0, "k must be an integer of at least 2, got 2.0"),
        (1, True, "k must be an integer of at least 2, got True"),
        (1, 2**25, r"k must be at most 2\^24, got"),
    ],
)
def test_bad_parameters_are_one_clear_error(epsilon, k, message):
    with pytest.raises(InvalidInput, match=message):
        RandomisedResponse(epsilon, k)


@pytest.mark.parametrize(
    ("codes", "message"),
    [([0.5], "integers, got float64"), ([[1]], "one row"), ([3], "codes in 0..2"), ([-1], "codes in 0..2")],
)
def test_bad_answers_are_one_clear_error(codes, message):
    response = RandomisedResponse(1, 3)
    with pytest.raises(InvalidInput, match=f"answers must be .*{message}"):
        response.report(codes, Entropy.insecure(1))
    with pytest.raises(InvalidInput, match=f"reports must be .*{message}"):
        response.estimate(codes)
