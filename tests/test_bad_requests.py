"""What the optimal mechanisms cannot do is refused in one line, before anything is charged."""

import numpy as np
import pytest
from worlds import SpyEntropy, coded, random_table

from qrelease.errors import InvalidInput, QReleaseError
from qrelease.evaluation.planning import plan
from qrelease.inference.residual_synopses import Linear
from qrelease.inference.residuals import ResidualPlan
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.privacy import ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

COST = ApproxDP(1.0, 1e-9)
DOMAIN = coded(3, 4, 2)
WIDE = coded(*[32] * 11)


@pytest.mark.parametrize("weights", [[1, -1], [1, float("nan")], [0, 0], [1, float("inf")], [1], [], "ab"])
def test_weights_that_are_none(weights):
    with pytest.raises(InvalidInput, match="weight") as refusal:
        ResidualPlan.choose(DOMAIN, [(0,), (1,)], weights=weights)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("columns", "words"), [(["a", "zz"], "no attribute 'zz'"), (["a", "a"], "named twice"), ([["a"]], "no attribute")]
)
def test_marginals_on_columns_that_are_unknown_or_repeated(columns, words):
    with pytest.raises(QReleaseError, match=words):
        Workload.marginals(DOMAIN, [columns])
    with pytest.raises(QReleaseError):
        ResidualPlan.choose(DOMAIN, [(0, 0)])
    with pytest.raises(QReleaseError):
        ResidualPlan.choose(DOMAIN, [(0, 7)])


@pytest.mark.parametrize(
    ("mechanism", "asked", "cost", "words"),
    [
        (Gaussian(), Workload.marginals(DOMAIN, 1), PureDP(1.0), "needs a delta"),
        (MaxEnt(), Workload.marginals(DOMAIN, 1), ApproxDP(1e-15, 1e-18), "noise beyond|epsilon|delta"),
        (Matrix(), Workload.marginals(WIDE, 2), COST, "at most 1,024 combinations of values"),
        (Matrix(), Workload.marginals(DOMAIN, 1), PureDP(1.0), "needs a delta"),
        (Auto(), Workload.marginals(DOMAIN, 1), PureDP(1e-45), "noise beyond"),
        (Auto(), Workload.marginals(coded(3, 4), 1), COST, "another domain"),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_what_a_mechanism_cannot_do_costs_nothing(mechanism, asked, cost, words):
    table = random_table(WIDE if asked.domain == WIDE else DOMAIN, 20, 0)
    with Ledger.open(None, ApproxDP(10.0, 1e-3)) as ledger:
        spy = SpyEntropy(0)
        with pytest.raises(QReleaseError, match=words) as refusal:
            Curator(table, ledger, spy).release(mechanism, asked, cost)
        assert "\n" not in str(refusal.value)
        assert ledger.spent is None
        assert spy.taken == 0


def test_noise_that_cannot_be_drawn_for_any_number_of_records_costs_nothing():
    """Scales depend on the number of records, and so does whether there is noise for them."""
    asked = Workload.marginals(coded(100, 100, 100), 2)
    for epsilon in (0.003, 0.0041, 0.006):
        cost = ApproxDP(epsilon, 1e-9)
        with Ledger.open(None, cost) as ledger:
            try:
                Curator(random_table(asked.domain, 20, 0), ledger, SpyEntropy(0)).release(MaxEnt(10**7), asked, cost)
            except QReleaseError:
                assert ledger.spent is None


def test_a_target_error_that_nothing_reaches():
    with pytest.raises(InvalidInput, match="no theorem promises an error of 1e-300 at any epsilon"):
        plan(Workload.marginals(coded(2), 1), 1000, 1e-300)
    with pytest.raises(InvalidInput, match="1e-300 at any epsilon, nor to any number of records at epsilon=1"):
        plan(Workload.marginals(coded(2), 1), 1000, 1e-300, epsilon=1.0)


def test_a_universe_too_large_for_the_fit_gives_answers_and_error_bars_and_says_so():
    asked = Workload.marginals(WIDE, 2)
    table = random_table(WIDE, 500, 0)
    with Ledger.open(None, COST) as ledger:
        found = Curator(table, ledger, SpyEntropy(0)).release(MaxEnt(), asked, COST)
    assert isinstance(found.synopsis, Linear)
    assert not found.has_table
    assert found.parameters["no_table"].startswith("the universe has 2^55 cells and a histogram holds at most")
    noisy, half = found.error_bars()
    np.testing.assert_array_equal(noisy, found.answers())
    assert found.parameters["error"] < 1.001 * found.parameters["bound"]  # no model could make up for more
    assert [s.what for s in found.spends if "count" in s.what] == []
    assert (half > 0).all()
    np.testing.assert_array_equal(found.model_bars(), half)  # it publishes the unbiased answers themselves
    with pytest.raises(InvalidInput, match="no table"):
        found.synthetic()
    with pytest.raises(InvalidInput, match="no table"):
        found.weighted()


def test_auto_gives_a_table_of_a_universe_too_large_for_the_fit_and_says_how_far_off_it_is():
    asked = Workload.marginals(WIDE, 2)
    with Ledger.open(None, COST) as ledger:
        found = Curator(random_table(WIDE, 500, 0), ledger, SpyEntropy(0)).release(Auto(records=500), asked, COST)
    assert found.parameters["chosen"] == "records"
    assert found.has_table
    assert {column.shape for column in found.synthetic(100).values()} == {(100,)}
    predicted = {p["mechanism"]: p["l1"] for p in found.parameters["predictions"]}
    assert predicted["records"] < predicted["maxent"]  # answers without a fit are farther off than the table's
