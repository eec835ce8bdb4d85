"""Sums of costs by every rule: against enumeration, integrals, each other, and the rule of the notes that is wrong."""

import itertools
import json
import math

import numpy as np
import pytest

from qrelease.errors import InvalidInput, LedgerError
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.account import Part, account, best, lifetime, shares
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.resuming import public_part


def epsilons(parts, delta):
    return {t.rule: t.cost.to_json()["epsilon"] for t in account(parts, delta) if t.cost is not None}


def listed(epsilons, target):
    """δ at ε of randomised responses of these ε, summed over all their answers."""
    total = 0.0
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        p = math.prod(math.exp(e if s > 0 else 0) / (1 + math.exp(e)) for s, e in zip(signs, epsilons, strict=True))
        q = math.prod(math.exp(e if s < 0 else 0) / (1 + math.exp(e)) for s, e in zip(signs, epsilons, strict=True))
        total += max(p - math.exp(target) * q, 0)
    return total


@pytest.mark.parametrize("delta", [0.001, 0.05])
def test_the_optimum_of_unequal_epsilons_is_what_all_answers_give(delta):
    parts = [Part("epsilon", 0.3, times=4), Part("epsilon", 0.7, times=3), Part("epsilon", 1.1, times=2)]
    found = epsilons(parts, delta)["optimal"]
    each = [0.3] * 4 + [0.7] * 3 + [1.1] * 2
    assert listed(each, found) <= delta
    assert listed(each, found * (1 - 1e-6)) > delta


def test_deltas_of_the_mechanisms_come_out_of_the_whole_one():
    with_delta = epsilons([Part("epsilon", 0.1, 1e-9, times=100)], 1e-6)
    without = epsilons([Part("epsilon", 0.1, times=100)], 9e-7)
    assert with_delta["optimal"] == pytest.approx(without["optimal"], rel=1e-9)
    nothing_left = account([Part("epsilon", 0.1, 1.1e-8, times=100)], 1e-6)
    assert [t.rule for t in nothing_left if t.cost is not None] == []


@pytest.mark.parametrize(
    ("part", "delta"), [(Part("epsilon", 0.1, times=100), 1e-6), (Part("epsilon", 1, times=30), 1e-9)]
)
def test_rules_stand_in_the_order_in_which_they_are_proved_better(part, delta):
    found = epsilons([part], delta)
    assert found["optimal"] <= found["Renyi"] <= found["zCDP"] * (1 + 1e-9)
    assert found["optimal"] <= min(found["advanced"], found["basic"])


def test_the_numerical_sum_agrees_with_the_exact_ones():
    pytest.importorskip("dp_accounting")
    gaussian = epsilons([Part("gaussian", 10, times=100)], 1e-6)
    assert gaussian["numerical"] == pytest.approx(gaussian["Gaussian"], rel=1e-5)
    assert gaussian["Gaussian"] < 0.95 * gaussian["zCDP"]
    pure = epsilons([Part("epsilon", 0.1, times=100), Part("epsilon", 0.2, 1e-9, times=30)], 1e-6)
    assert pure["numerical"] == pytest.approx(pure["optimal"], rel=1e-5)


@pytest.mark.parametrize("scale", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("order", [1.5, 4.0, 30.0])
def test_the_divergence_of_laplace_is_its_integral(scale, order):
    x = np.linspace(-80 * scale, 80 * scale + 1, 2_000_001)
    logs = -order * np.abs(x) / scale + (order - 1) * np.abs(x - 1) / scale - math.log(2 * scale)
    integral = np.trapezoid(np.exp(logs), x)
    found = Part("laplace", scale).divergence(order)
    assert found == pytest.approx(math.log(integral) / (order - 1), rel=1e-4)
    assert found <= Part("epsilon", 1 / scale).divergence(order) <= 1 / scale


def test_the_rule_of_the_notes_is_convicted():
    """Broken twin: ε' = 2ε√(2k ln(1/δ')), used where √k(e^ε − 1) > √(2 ln(1/δ'))."""
    notes = 2 * math.sqrt(2 * 100 * math.log(100))
    responses = [1.0] * 100
    # The law of the sum of 100 randomised responses of ε = 1, exactly.
    p, q = math.e / (1 + math.e), 1 / (1 + math.e)
    real = sum(
        math.comb(100, i) * max(p ** (100 - i) * q**i - math.exp(notes) * q ** (100 - i) * p**i, 0.0)
        for i in range(101)
    )
    assert real > 3 * 0.01
    assert notes < epsilons([Part("epsilon", 1.0, times=len(responses))], 0.01)["optimal"]


def test_shares_fit_and_cannot_be_a_thousandth_larger():
    total = ApproxDP(1.0, 1e-6)
    for share in shares(total, 50):
        kind, key = ("rho", "zCDP") if isinstance(share.cost, ZCDP) else ("epsilon", share.rule)
        size = getattr(share.cost, kind)
        if share.rule == "rule of thumb":
            assert epsilons([Part(kind, size, times=50)], 1e-6)["advanced"] < 0.6
            continue
        assert epsilons([Part(kind, size, times=50)], 1e-6)[key] <= 1 + 1e-9
        assert epsilons([Part(kind, size * 1.001, times=50)], 1e-6)[key] > 1


@pytest.mark.parametrize(
    "text", ["", "epsilon", "2*", "epsilon=0", "sigma=1", "rho=1,delta=1e-9", "0*rho=1", "rho=1,epsilon=2"]
)
def test_what_is_no_part_is_refused(text):
    with pytest.raises(InvalidInput):
        Part.parse(text)


def ledger(path, total, spends, neighbours="add-remove"):
    with Ledger.open(path, total, neighbours=neighbours) as opened:
        for spend in spends:
            opened.charge(spend, "something")


def test_a_lifetime_adds_ledgers_up(tmp_path):
    ledger(tmp_path / "a.ledger", PureDP(1.0), [PureDP(0.25), PureDP(0.5)])
    ledger(tmp_path / "b.ledger", ApproxDP(2.0, 1e-9), [ApproxDP(0.5, 1e-10)])
    found = lifetime([tmp_path / "a.ledger", tmp_path / "b.ledger"])
    assert found.total == ApproxDP(3.0, 1e-9)
    assert found.spent == ApproxDP(1.25, 1e-10)
    assert lifetime([tmp_path / "a.ledger"], group=3).total == PureDP(3.0)


def test_a_lifetime_takes_the_published_part_of_a_ledger_for_the_ledger(tmp_path):
    ledger(tmp_path / "a.ledger", PureDP(1.0), [PureDP(0.25)])
    ledger(tmp_path / "b.ledger", ApproxDP(2.0, 1e-9), [ApproxDP(0.5, 1e-10)], "replace-one")
    for name in "ab":
        with Ledger.open(tmp_path / f"{name}.ledger") as opened:
            (tmp_path / f"{name}.json").write_text(json.dumps(public_part(opened)), encoding="utf-8")
    found, whole = (lifetime([tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"]) for kind in ("json", "ledger"))
    assert (found.neighbours, found.total, found.spent) == (whole.neighbours, whole.total, whole.spent)
    assert found.spent == ApproxDP(1.0, 1e-10)
    ledger(tmp_path / "d.ledger", PureDP(1.0), [PureDP(0.1)] * 3)  # whose sum of floats is above 0.3
    with Ledger.open(tmp_path / "d.ledger") as opened:
        assert public_part(opened)["spent"] == {"epsilon": 0.3}
        assert public_part(opened)["remaining"] == {"epsilon": 0.7}
    ledger(tmp_path / "e.ledger", ApproxDP(2.0, 1e-9), [])
    with Ledger.open(tmp_path / "e.ledger") as opened:
        fresh = public_part(opened)
    assert (fresh["spent"], fresh["remaining"]) == ({"epsilon": 0.0, "delta": 0.0}, {"epsilon": 2.0, "delta": 1e-9})
    for spent in (fresh["spent"], None):  # as earlier versions wrote nothing
        (tmp_path / "e.json").write_text(json.dumps(fresh | {"spent": spent}), encoding="utf-8")
        assert lifetime([tmp_path / "e.json"]).spent is None
    (tmp_path / "c.json").write_text('{"dataset": "c", "total": {"epsilon": 1}}', encoding="utf-8")
    with pytest.raises(LedgerError, match="neither a ledger nor what"):
        lifetime([tmp_path / "c.json"])


def test_a_lifetime_over_two_relations_counts_a_replacement_as_two_changes(tmp_path):
    ledger(tmp_path / "a.ledger", PureDP(1.0), [PureDP(0.25)])
    ledger(tmp_path / "b.ledger", PureDP(1.0), [], "replace-one")
    found = lifetime([tmp_path / "a.ledger", tmp_path / "b.ledger"])
    assert (found.neighbours.value, found.total, found.spent) == ("replace-one", PureDP(3.0), PureDP(0.5))


def test_a_lifetime_in_rho_needs_a_delta_only_where_kinds_meet(tmp_path):
    paths = [tmp_path / name for name in ("a.ledger", "b.ledger", "c.ledger")]
    ledger(paths[0], ZCDP(0.1), [])
    ledger(paths[1], ZCDP(0.2), [])
    ledger(paths[2], ApproxDP(1.0, 1e-9), [])
    assert lifetime(paths[:2]).total.rho == pytest.approx(0.3)
    with pytest.raises(InvalidInput, match="at a delta only"):
        lifetime(paths)
    assert lifetime(paths, delta=1e-6).total.epsilon > 1
    with pytest.raises(InvalidInput, match="twice"):
        lifetime([paths[0], paths[0]])
    with pytest.raises(LedgerError, match="no ledger"):
        lifetime([tmp_path / "d.ledger"])


def test_the_best_rule_is_the_least(capsys):
    assert best(account([Part("epsilon", 1.0)], 1e-9)).cost.epsilon <= 1.0
