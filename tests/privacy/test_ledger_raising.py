"""A total that is raised in view of the answers, against an adversary; and ledgers of the version that chose anew.

The adversary spends all of a total on a mechanism of finitely many answers, sees the privacy loss, chooses that of
fifty larger totals which suits it best, and spends the rest on a mechanism of two answers. A linear program finds the
first; all are then verified to be zCDP, at every order and in both directions. The failure is E_P (1 − exp(ε* − L))₊
with ε* the total at the end: what a promise of (ε*, δ) bounds by δ.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog
from scipy.special import logsumexp

from qrelease.apps.cli import main
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.privacy import ZCDP, ApproxDP, PureDP, zcdp_of
from qrelease.privacy.filters import after
from qrelease.privacy.ledger import Ledger


def tally_of(ledger):
    """What was spent, as the ledger adds it up."""
    return ledger._state()[1]


Floats = npt.NDArray[np.float64]

START: Final = ApproxDP(8.0, 1e-9)
RHO: Final = zcdp_of(START).rho
LARGER: Final = [ApproxDP(float(e), START.delta) for e in np.geomspace(8, 40, 51)[1:]]


@dataclass(frozen=True)
class Law:
    """The answers of a mechanism on two neighbours: logarithms of their probabilities on the one and the other."""

    p: Floats
    q: Floats

    @property
    def losses(self) -> Floats:
        return self.p - self.q

    @classmethod
    def rare(cls, losses: Floats, p: Floats) -> "Law":
        """Rare answers with these losses and probabilities, and one more that is given else."""
        log_p = np.log(p)
        log_q = log_p - losses
        rest = [math.log1p(-math.exp(logsumexp(logs))) for logs in (log_p, log_q)]
        return cls(np.append(log_p, rest[0]), np.append(log_q, rest[1]))

    def is_zcdp(self, rho: float) -> bool:
        """At all orders: the divergence grows with the order, so D(a') ≤ ρa shows it for all from a to a'.

        Beyond the last one it is at most the largest loss, which is below ρa.
        """
        last = np.abs(self.losses).max() / rho + 2
        orders = 1 + np.append(0.0, np.geomspace(1e-4, last, 20_000))
        low, high = orders[:-1], orders[1:, None]
        return all(
            (logsumexp(high * p + (1 - high) * q, axis=1) <= rho * low * (high[:, 0] - 1)).all()
            for p, q in ((self.p, self.q), (self.q, self.p))
        )


def largest(rho: float, losses: Floats, p: Floats) -> Law:
    """The mechanism with rare answers of about these probabilities, less by what verification needs."""
    for share in np.append(0.99 ** np.arange(100), 0):
        if share and (law := Law.rare(losses, share * p)).is_zcdp(rho):
            return law
    raise AssertionError("no such mechanism")


def chances(losses: Floats, rho: float) -> Floats:
    """About how likely answers of these losses can be: exp of minus the largest (a−1)L − a(a−1)ρ."""
    return np.where(losses > rho, np.exp(-((losses - rho) ** 2) / (4 * rho)), 1.0)


def second(gap: Floats, rho: float) -> tuple[Floats, Floats]:
    """The last mechanism, where a loss of so much more is a failure: the loss of its rare answer, and what fails."""
    beyond = np.linspace(0.003, 1, 100) * 4 * math.sqrt(rho)
    losses = gap[:, None] + beyond
    fails = np.where(gap[:, None] > 0, chances(losses, rho), 1.0) * -np.expm1(-beyond)
    best = fails.argmax(axis=1)
    return losses[np.arange(len(gap)), best], fails.max(axis=1)


def failure(more: Callable[[ApproxDP], float]) -> float:
    """The failure that the adversary reaches, where so much more rho fits after a raise to a total."""
    options = [(START.epsilon, 0.0), *((total.epsilon, more(total)) for total in LARGER)]
    grid = np.linspace(0, START.epsilon + 6 * math.sqrt(2 * RHO), 600)
    values = np.array(
        [
            np.maximum(-np.expm1(np.minimum(epsilon - grid, 0)), second(epsilon - grid, rho)[1] if rho else 0.0)
            for epsilon, rho in options
        ]
    )
    law = first_mechanism(grid, values.max(axis=0))
    reached = 0.0
    for log_p, loss in zip(law.p, law.losses, strict=True):
        fails = [last_failure(epsilon - loss, rho) for epsilon, rho in _best(options, loss)]
        reached += math.exp(log_p) * max(fails)
    return reached


def _best(options: list[tuple[float, float]], loss: float) -> list[tuple[float, float]]:
    """The totals that suit a loss best, with nothing done any more and with the last mechanism."""
    gaps = [epsilon - loss for epsilon, _ in options]
    estimates = [second(np.array([g]), rho)[1][0] if rho else 0.0 for g, (_, rho) in zip(gaps, options, strict=True)]
    return [options[0], options[int(np.argmax(estimates))]]


def last_failure(gap: float, rho: float) -> float:
    """E (1 − exp(gap − L))₊ of the verified last mechanism; of none where no rho is left."""
    if gap <= 0 or not rho:
        return -math.expm1(min(gap, 0.0))
    losses, _ = second(np.array([gap]), rho)
    law = largest(rho, losses, np.minimum(chances(losses, rho), 0.5))
    assert law.is_zcdp(rho)
    return float(np.exp(law.p) @ -np.expm1(np.minimum(gap - law.losses, 0)))


def first_mechanism(losses: Floats, values: Floats) -> Law:
    """The verified mechanism whose answers are worth most: a linear program over what each order allows."""
    base, alphas = chances(losses, RHO), 1 + np.geomspace(0.05, 30, 600)
    logs = (alphas[:, None] - 1) * losses + np.log(base) - (alphas * (alphas - 1) * RHO)[:, None]
    allowed = -np.expm1(-alphas * (alphas - 1) * RHO)
    worth = base * values
    found = linprog(-worth / worth.max(), A_ub=np.exp(logs), b_ub=allowed, bounds=(0, None), method="highs")
    p = found.x * base
    kept = (p * values > 1e-4 * (p @ values)) & (losses > 0)
    return largest(RHO, losses[kept], p[kept])


def anew(total: ApproxDP) -> float:
    """The old rule, the twin: all that a new total would buy, less what was spent."""
    return zcdp_of(total).rho - RHO


@cache
def kept(total: ApproxDP) -> float:
    """What a ledger takes after the raise."""
    with Ledger.open(None, START) as ledger:
        ledger.charge(ZCDP(RHO), "all")
        ledger.raise_total(total)
        low, high = 0.0, anew(total)
        for _ in range(40):
            middle = (low + high) / 2
            try:
                after(ledger.total, tally_of(ledger), ZCDP(middle))
            except BudgetExceeded:
                high = middle
            else:
                low = middle
        ledger.charge(ZCDP(low), "more")
    return low


def test_a_raise_in_view_of_the_answers_holds_at_one_delta_and_not_with_a_new_order():
    assert failure(anew) > 2 * START.delta
    assert 0.8 * START.delta < failure(kept) <= START.delta


def test_a_law_that_costs_more_is_no_zcdp():
    """The verification rejects what is 30 % too likely, or costs 10 % more."""
    losses = np.array([9.0])
    law = largest(RHO, losses, chances(losses, RHO))
    assert law.is_zcdp(RHO)
    assert not Law.rare(losses, 1.3 * chances(losses, RHO)).is_zcdp(RHO)
    assert not law.is_zcdp(RHO / 1.1)


def test_the_figures_of_a_raise_from_one_to_two():
    total = ApproxDP(1.0, 1e-9)
    with Ledger.open(None, total) as ledger:
        ledger.charge(zcdp_of(total), "all")
        ledger.raise_total(ApproxDP(2.0, 1e-9))
        ledger.charge(ZCDP(0.0436 - zcdp_of(total).rho), "more")
        with pytest.raises(BudgetExceeded):
            ledger.charge(ZCDP(0.0001), "beyond")
        assert ledger.promised == ledger.total
    assert zcdp_of(ApproxDP(2.0, 1e-9)).rho == pytest.approx(0.0561, abs=5e-5)


@pytest.mark.parametrize("steps", [[2.0, 4.0], [1.1, 1.2, 1.9, 4.0]])
def test_the_way_to_a_total_does_not_matter(steps: list[float]):
    total, left = ApproxDP(1.0, 1e-9), []
    for way in ([4.0], steps):
        with Ledger.open(None, total) as ledger:
            ledger.charge(ZCDP(0.001), "some")
            for epsilon in way:
                ledger.raise_total(ApproxDP(epsilon, 1e-9))
            left.append(ledger.remaining)
    assert left[0] == left[1]


def test_a_raised_delta_is_for_costs_with_a_delta_alone():
    with Ledger.open(None, ApproxDP(1.0, 1e-9)) as ledger:
        ledger.charge(zcdp_of(ApproxDP(1.0, 1e-9)), "all")
        ledger.raise_total(ApproxDP(1.0, 3e-9))
        with pytest.raises(BudgetExceeded):
            ledger.charge(ZCDP(1e-6), "the account keeps its delta")
        ledger.raise_total(ApproxDP(1.5, 3e-9))
        ledger.charge(ApproxDP(0.25, 1.5e-9), "the new delta")
        assert ledger.remaining.to_json() == {"epsilon": pytest.approx(0.25), "delta": pytest.approx(5e-10)}


def test_a_zcdp_total_is_raised_only_before_it_is_spent_from():
    with Ledger.open(None, ZCDP(1.0)) as ledger:
        ledger.raise_total(ZCDP(2.0))
        ledger.charge(ZCDP(0.5), "some")
        with pytest.raises(InvalidInput, match=r"must be raised before anything is spent, got rho=3 after rho=0\.5"):
            ledger.raise_total(ZCDP(3.0))
        assert ledger.total == ZCDP(2.0)


def as_before(ledger: Ledger, total: ApproxDP | None = None) -> None:
    """Write the sums as the version before did, which kept no order; and perhaps a total that was raised since."""
    store = ledger.store
    with store.writing():
        head = store.head()
        sums = json.loads(head.tally)
        head = head._replace(tally=json.dumps([*sums[:3], sums[3][:2]]))
        store.set_head(head)
    if total is not None:
        before = store.head().tally
        ledger.raise_total(total)
        with store.writing():
            store.set_head(store.head()._replace(tally=before))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger"


def test_a_ledger_without_an_order_goes_on_with_that_of_its_opening(path: Path):
    with Ledger.open(path, ApproxDP(0.5, 1e-9)) as ledger:
        ledger.charge(PureDP(0.25), "before")
        ledger.raise_total(ApproxDP(1.0, 1e-9))
        ledger.charge(ZCDP(1e-3), "opens the account")
        order, left = tally_of(ledger).account.order, ledger.remaining
        as_before(ledger)
    with Ledger.open(path) as ledger:
        assert tally_of(ledger).account.order == order
        assert ledger.remaining == left
        as_before_raise = ledger.store.head().tally
        ledger.raise_total(ApproxDP(3.0, 1e-9))
        assert len(json.loads(as_before_raise)[3]) == 2
        assert tally_of(ledger).account.order == order
        assert ledger.remaining.to_json() == {"epsilon": pytest.approx(left.epsilon + 2), "delta": 0.0}
        assert ledger.promised == ledger.total


def test_a_ledger_that_was_raised_by_the_old_rule_says_what_holds(path: Path, capsys: pytest.CaptureFixture[str]):
    small, large = ApproxDP(1.0, 1e-9), ApproxDP(2.0, 1e-9)
    with Ledger.open(path, small) as ledger:
        ledger.charge(zcdp_of(small), "all")
        as_before(ledger, large)
        order = tally_of(ledger).account.order
        store = ledger.store
        with store.writing():  # spent as the old rule allowed
            head = store.head()
            sums = json.loads(head.tally)
            store.set_head(head._replace(tally=json.dumps([*sums[:2], str(Fraction(zcdp_of(large).rho)), sums[3]])))
    with Ledger.open(path) as ledger:
        found = ledger.promised
        assert tally_of(ledger).account.order == order
        assert found.epsilon == pytest.approx(1 + float(order) * (zcdp_of(large).rho - zcdp_of(small).rho), rel=1e-9)
        assert found.delta == 1e-9
        assert ledger.remaining is None
        for cost in (PureDP(1e-6), ZCDP(1e-6)):
            with pytest.raises(BudgetExceeded, match="nothing is left unless you raise the total"):
                ledger.charge(cost, "more")
    assert main(["ledger", "show", str(path)]) == 0
    assert f"what holds is epsilon={found.epsilon:.6g}, delta=1e-09" in capsys.readouterr().out
    with Ledger.open(path) as ledger:
        ledger.raise_total(ApproxDP(math.nextafter(found.epsilon, 9) + 0.5, 1e-9))
        assert ledger.promised == ledger.total
        ledger.charge(PureDP(0.5), "more")


def test_an_account_that_no_charge_opened_is_refused():
    with Ledger.open(None, ApproxDP(1.0, 1e-9)) as ledger:
        with ledger.store.writing():
            head = ledger.store.head()
            ledger.store.set_head(head._replace(tally=json.dumps(["0", "1/8", "1/8", ["0", "1/8"]])))
        with pytest.raises(LedgerError, match="no charge that opened it"):
            _ = ledger.total


def test_a_session_is_not_enlarged_and_another_is_named(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l", PureDP(1.0)) as ledger:
        ledger.session(PureDP(1.0), "online: a session", key="server")
        ledger.raise_total(PureDP(1.5))
        with pytest.raises(LedgerError, match=r"serve --session NAME.* after its total was raised"):
            ledger.session(PureDP(1.5), "online: a session", key="server")
        assert ledger.session(PureDP(1.5), "online: a session", key="second").key == "second"
