"""What the curator warns of before a charge: an equal one that was made, an epsilon too large, records that changed."""

import warnings

import numpy as np
import pytest

import qrelease as qr

TABLES = [qr.Table(qr.Domain.coded({"age": 5, "sex": 2}), (np.arange(n) % 5, np.arange(n) % 2)) for n in (60, 50)]
WORKLOAD = qr.Workload.marginals(TABLES[0].domain, 1)
QUARTER = qr.PureDP(0.25)


def release(ledger, table=TABLES[0], cost=QUARTER, **more):
    return qr.Curator(table, ledger).release(qr.Laplace(), WORKLOAD, cost, **more)


@pytest.fixture(autouse=True)
def ledger(tmp_path):
    with qr.Ledger.open(tmp_path / "people.ledger", qr.PureDP(200.0)) as opened, warnings.catch_warnings():
        warnings.simplefilter("error")
        yield opened


def test_a_release_that_was_made_before_warns_before_it_is_charged_again(ledger):
    release(ledger)
    with pytest.raises(UserWarning, match=r"these arguments already: epsilon=0\.25 is charged once more") as told:
        release(ledger)
    assert not isinstance(told.value, qr.RowsChangedWarning)
    assert ledger.spent == QUARTER
    with pytest.warns(UserWarning, match="charged once more") as warned:
        release(ledger)
    assert [each.filename for each in warned] == [__file__]
    release(ledger, again=True)
    release(ledger, cost=qr.PureDP(0.5))
    assert ledger.spent == qr.PureDP(1.25)
    with pytest.raises(qr.RowsChangedWarning):
        release(ledger, TABLES[1])
    release(ledger, TABLES[1], changed_rows=True)


def test_a_release_that_goes_on_is_not_warned_of(ledger):
    release(ledger)
    curator = qr.Curator(TABLES[0], ledger)
    curator.pay(qr.Laplace(), WORKLOAD, QUARTER, again=True)  # and the process dies
    release(ledger)
    assert ledger.spent == qr.PureDP(0.5)


def test_a_schema_that_is_learned_once_more_with_its_release_is_warned_of(tmp_path):
    hours = qr.Attribute("hours", "number", within=(0, 99), step=1, learn=4, missing=("",))
    table = qr.Table(qr.Domain((hours,)), ([40] * 700 + list(range(100)),))
    for delta in (None, 1e-9):
        with qr.Ledger.open(tmp_path / f"{delta}.ledger", qr.ApproxDP(2.0, 1e-8)) as ledger:
            model = qr.Synthesizer(epsilon=0.5, delta=delta, ledger=ledger, schema=table.domain, workload=1)
            model.set_params(mechanism=qr.MaxEnt()).fit(table)
            with pytest.raises(UserWarning, match="charged once more"):
                model.fit(table)
            assert ledger.spent.epsilon == pytest.approx(0.5)


def test_an_epsilon_that_promises_next_to_nothing_is_warned_of_before_the_charge(ledger):
    curator, weak = qr.Curator(TABLES[0], ledger), qr.PureDP(21.0)
    for charges in (
        lambda: release(ledger, cost=weak),
        lambda: curator.estimate(qr.Quantile("age"), weak),
        lambda: curator.open(qr.Online(0.4, 0.1), weak),
        lambda: qr.Synthesizer(epsilon=21.0, ledger=ledger, schema=TABLES[0].domain).fit(TABLES[0]),
    ):
        with pytest.raises(qr.WeakCostWarning, match="epsilon 21 is above 20 and promises next to nothing"):
            charges()
    assert ledger.spent is None
    with pytest.warns(qr.WeakCostWarning):
        release(ledger, cost=weak)
    release(ledger, cost=qr.PureDP(20.0))
    with qr.Ledger.open(None, weak) as forgotten:
        release(forgotten, cost=weak)


def test_a_cost_that_does_not_fit_is_refused_before_anything_is_said_of_the_records(tmp_path):
    narrow = qr.Table(qr.Domain.coded({"age": 5}), TABLES[0].columns[:1])
    asked, cost = qr.Workload.marginals(narrow.domain, 1), qr.ApproxDP(0.25, 1e-9)
    with qr.Ledger.open(tmp_path / "other.ledger", qr.ApproxDP(1.0, 1e-9)) as ledger:
        release(ledger, cost=cost)
        curator = qr.Curator(narrow, ledger)
        for charges in (
            lambda: curator.release(qr.Laplace(), asked, cost),
            lambda: curator.estimate(qr.Quantile("age"), cost),
            lambda: curator.open(qr.PrivateMultiplicativeWeights(), cost),
        ):
            with pytest.raises(qr.BudgetExceeded, match="no delta is left"):
                charges()
        with pytest.raises(qr.RowsChangedWarning, match="were for other columns or under another schema"):
            curator.release(qr.Laplace(), asked, QUARTER)
    with qr.Ledger.open(tmp_path / "pure.ledger", qr.PureDP(1.0)) as ledger:
        release(ledger)
        with pytest.raises(qr.InvalidInput, match="it has no delta"):
            qr.Curator(narrow, ledger).release(qr.Laplace(), asked, cost)
