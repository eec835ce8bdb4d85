"""A fit for mechanisms of one's own: what it says, and what it refuses by name."""

import numpy as np
import pytest
from worlds import coded, private, random_table, true_answers

import qrelease as qr
from qrelease.inference.measurement import Measurement
from qrelease.noise.distributions import Noise

DOMAIN = coded(2, 2, 3)
WORKLOAD = qr.Workload.marginals(DOMAIN, 2)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([], "nothing was measured: a fit needs noisy marginals"),
        ([["a"]], "no measurement tells of b, c: measure a marginal with each such column"),
        ([["a", "c"]], "no measurement tells of b: "),
    ],
)
def test_what_is_missing_is_named(sets, message):
    cost = qr.PureDP(1.0)
    door = private(random_table(DOMAIN, 20, 0), cost, qr.Neighbours.ADD_REMOVE, qr.Entropy.insecure(0))
    measured = door.measure(qr.Workload.marginals(DOMAIN, sets), cost) if sets else []
    with pytest.raises(qr.InvalidInput, match=message):
        qr.fitted(WORKLOAD, measured)


def test_what_is_no_marginal_is_refused_by_name():
    cost = qr.PureDP(1.0)
    door = private(random_table(DOMAIN, 20, 0), cost, qr.Neighbours.ADD_REMOVE, qr.Entropy.insecure(0))
    measured = door.measure(qr.Workload.predicates(DOMAIN, "a = 1 and c = 2"), cost)
    with pytest.raises(qr.InvalidInput, match=r"a fit takes whole marginals, .*, got predicates of a \* c"):
        qr.fitted(WORKLOAD, measured)
    with pytest.raises(qr.InvalidInput, match=r"takes what Private\.measure gives, got ndarray"):
        qr.fitted(WORKLOAD, [np.zeros(2)])


def test_a_fit_has_the_measured_marginals_and_bars_for_those_alone():
    table, cost = random_table(DOMAIN, 5_000, 1), qr.PureDP(500.0)
    measured = private(table, cost).measure(qr.Workload.marginals(DOMAIN, [["a", "c"], ["b"]]), cost)
    asked = qr.Workload.marginals(DOMAIN, [["b"], ["a", "b"], ["a", "c"], ["c"]])
    fit = qr.fitted(asked, measured)
    truth = true_answers(asked, table)
    known = np.repeat([True, False, True, True], np.diff(asked.bounds))
    assert np.abs(fit.answer(asked) - truth)[known].max() < 3
    # Nothing says how a and b go together: by maximum entropy they are independent.
    of_a, of_b = (true_answers(qr.Workload.marginals(DOMAIN, [[name]]), table) for name in "ab")
    assert fit.answer(asked)[2:6] == pytest.approx(np.outer(of_a, of_b).reshape(-1) / 5_000, abs=5)
    assert (np.isfinite(fit.model_bars(asked)) == known).all()
    assert (fit.model_bars(asked)[known] < 3).all()


def test_marginals_that_are_measured_twice_are_averaged_by_their_precision():
    (group,) = qr.Workload.marginals(coded(2), 1).groups
    rough, fine = (
        Measurement(group, np.array(values), Noise("discrete Gaussian", scale))
        for values, scale in (([900.0, 200.0], 30.0), ([500.0, 500.0], 10.0))
    )
    fit = qr.fitted(qr.Workload.marginals(coded(2), 1), [rough, fine], 1000)
    assert fit.total == 1000
    # The difference has weights of 1 and 9, (700 + 9 * 0) / 10; the prior hardly moves what stands out so far.
    assert fit.answer(qr.Workload.marginals(coded(2), 1)) == pytest.approx([535, 465], abs=2)


def test_a_universe_without_a_histogram_is_refused_before_anything_is_measured():
    qr.check_fitted(WORKLOAD)
    with pytest.raises(qr.TooLarge, match="histogram"):
        qr.check_fitted(qr.Workload.marginals(coded(*[32] * 11), 2))


def test_what_a_fit_would_refuse_after_the_charge_is_refused_before():
    """A workload of ranges, which a mechanism measures as it is, or from marginals that lack one of its columns."""
    ranges = qr.Workload.parse(WORKLOAD.domain, f"ranges:{WORKLOAD.domain.names[-1]}")
    with pytest.raises(qr.InvalidInput, match="a fit takes whole marginals"):
        qr.check_fitted(ranges)
    qr.check_fitted(ranges, qr.Workload.marginals(WORKLOAD.domain, 1))
    with pytest.raises(qr.InvalidInput, match=f"no measurement tells of {WORKLOAD.domain.names[-1]}"):
        qr.check_fitted(ranges, qr.Workload.marginals(WORKLOAD.domain, [[WORKLOAD.domain.names[0]]]))
