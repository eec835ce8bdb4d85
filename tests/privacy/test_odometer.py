"""Odometers: what was spent at any time, and runs along which a bound at a fixed time fails."""

import math
import threading

import numpy as np
import pytest
from scipy.stats import norm

from qrelease.errors import InvalidInput
from qrelease.privacy import (
    ZCDP,
    ApproxDP,
    Odometer,
    PureDP,
)


def test_an_odometer_of_pure_costs_is_their_sum() -> None:
    odometer = Odometer(1e-6, ZCDP(0.01))
    assert odometer.spent is None
    for cost in (PureDP(0.5), ApproxDP(0.25, 0.0)):
        odometer.spend(cost)
    assert odometer.spent == PureDP(0.75)
    for wrong in (ApproxDP(0.1, 1e-9), 1.0):
        with pytest.raises(InvalidInput):
            odometer.spend(wrong)  # type: ignore[arg-type]
    assert odometer.spent == PureDP(0.75)
    for slack in (0.0, 1.0, -1.0, math.nan, True):
        with pytest.raises(InvalidInput, match="slack must be"):
            Odometer(slack, ZCDP(1.0))
    with pytest.raises(InvalidInput, match="the cost must be ZCDP"):
        Odometer(1e-6, PureDP(1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("slack", [1e-12, 1e-6, 0.01, 0.4, 0.9])
@pytest.mark.parametrize("near", [1e-4, 0.05, 2.0])
def test_an_odometer_is_a_crossing_bound_and_near_the_filter(slack: float, near: float) -> None:
    """The average over λ of exp(λs − λ²ρ), by quadrature, is at least 1/slack at the odometer's s."""
    spread = Odometer(slack, ZCDP(near))._v
    for rho in (near / 100, near, 100 * near):
        at = Odometer(slack, ZCDP(near))
        at.spend(ZCDP(rho))
        spent = at.spent
        assert isinstance(spent, ApproxDP)
        assert spent.delta == slack
        s = spent.epsilon - rho
        top = (s / (2 * rho + spread)) + 40 / math.sqrt(2 * rho + spread)
        lambdas = np.linspace(0, top, 400_001)
        weights = (
            2 * math.sqrt(spread / (2 * math.pi)) * np.exp(-(lambdas**2) * spread / 2 + lambdas * s - lambdas**2 * rho)
        )
        average = np.trapezoid(weights, lambdas)
        assert 1 / slack * (1 - 1e-6) <= average <= 1 / slack * 1.6
    at = Odometer(slack, ZCDP(near))
    at.spend(ZCDP(near))
    if slack < 1e-5:
        assert at.spent.epsilon < 1.1 * (near + 2 * math.sqrt(near * -math.log(slack)))  # type: ignore[union-attr]


def test_an_odometer_holds_along_a_run_where_a_fixed_time_bound_does_not() -> None:
    slack, step, steps, runs = 0.05, 0.01, 400, 4000
    generator = np.random.default_rng(7)
    loss = np.cumsum(generator.normal(step, math.sqrt(2 * step), (runs, steps)), axis=1)
    odometer, bound = Odometer(slack, ZCDP(1.0)), []
    for _ in range(steps):
        odometer.spend(ZCDP(step))
        bound.append(odometer.spent.epsilon)  # type: ignore[union-attr]
    rho = step * np.arange(1, steps + 1)
    fixed = rho + np.sqrt(2 * rho) * norm.isf(slack)
    crossed = np.mean((loss > bound).any(axis=1))
    assert crossed <= slack
    assert np.mean((loss > fixed).any(axis=1)) > 3 * slack


def test_what_was_spent_is_read_without_a_lock_that_a_thread_lost_at_a_fork_may_have() -> None:
    odometer, read = Odometer(1e-6, ZCDP(0.1)), list[object]()
    odometer.spend(PureDP(0.5))
    with odometer._lock:
        reader = threading.Thread(target=lambda: read.append(odometer.spent), daemon=True)
        reader.start()
        reader.join(20)
        assert read == [PureDP(0.5)]
