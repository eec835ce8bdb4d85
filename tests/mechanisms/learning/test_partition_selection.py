"""Keys that nobody listed: the rule is (ε, δ)-DP by exact enumeration, optimal, and drawn as it says."""

import math
from fractions import Fraction

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.evaluation.audit.enumeration import Distribution, compare, delta_between, enumerated
from qrelease.mechanisms.learning import partition_selection
from qrelease.mechanisms.learning.partition_selection import chance, reach, select
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP


def law(epsilon, k):
    weights = {x: math.exp(-epsilon * abs(x)) for x in range(-k, k + 1)}
    whole = sum(weights.values())
    return Distribution({x: w / whole for x, w in weights.items()})


def published(monkeypatch, counts, epsilon, delta, lower=0):
    """The exact distribution of what is named, with the numbers that come along; `lower` makes a broken twin."""

    def run(counts, choices):
        def drawn(epsilon, k, size, entropy):
            return np.array([choices.draw(law(epsilon, k)) for _ in range(size)], np.int64) + lower

        monkeypatch.setattr(partition_selection, "noise", drawn)
        named, noisy = select(np.array(counts), epsilon, delta, None)
        return tuple(int(v) if n else None for n, v in zip(named, noisy, strict=True))

    return enumerated(run, counts, least=1e-30)


NEIGHBOURS = [((n, m), (n + 1, m)) for n in range(5) for m in (0, 2)]


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (0.5, 0.1), (2.0, 1e-3)])
def test_neighbours_are_as_near_as_is_claimed(monkeypatch, epsilon, delta):
    worst = 0.0
    for first, second in NEIGHBOURS:
        p, q = (published(monkeypatch, counts, epsilon, delta) for counts in (first, second))
        assert not compare(p, q, ApproxDP(epsilon, delta)).convicted
        worst = max(worst, *(delta_between(a, b, epsilon)[1] for a, b in ((p, q), (q, p))))
    assert delta / math.exp(epsilon) / 2 < worst <= delta * (1 + 1e-9)  # and next to nothing is given away


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (0.5, 0.1)])
def test_a_threshold_that_is_one_lower_is_convicted(monkeypatch, epsilon, delta):
    found = [
        compare(*(published(monkeypatch, c, epsilon, delta, lower=1) for c in pair), ApproxDP(epsilon, delta))
        for pair in NEIGHBOURS
    ]
    assert any(audit.convicted for audit in found)


def test_nobody_and_a_single_person(monkeypatch):
    for delta in (0.1, 1e-3, 1e-9):
        k = reach(1.0, delta)
        alone = law(1.0, k).masses[k]
        assert alone <= delta < law(1.0, k - 1).masses[k - 1]
        assert chance(np.array([0, 1]), 1.0, delta) == pytest.approx([0, alone], rel=1e-6)
    named, _ = select(np.zeros(1000, np.int64), 1.0, 0.4, Entropy.insecure(1))
    assert not named.any()


def optimal(epsilon, delta, most):
    """The largest chances that any rule may have (Theorem 1)."""
    chances = [0.0]
    for _ in range(most):
        last = chances[-1]
        chances.append(min(math.exp(epsilon) * last + delta, 1 - math.exp(-epsilon) * (1 - last - delta), 1.0))
    return np.array(chances)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-9), (0.3, 1e-3)])
def test_no_rule_names_more(epsilon, delta):
    counts = np.arange(3 * reach(epsilon, delta))
    found, best = chance(counts, epsilon, delta), optimal(epsilon, delta, len(counts) - 1)
    assert (found <= best + 1e-12).all()
    exact = law(epsilon, k := reach(epsilon, delta)).masses[k]
    assert np.allclose(found, optimal(epsilon, exact, len(counts) - 1), atol=1e-9)  # optimal for the δ it has
    assert exact >= delta * math.exp(-epsilon) * (1 - 1e-9)


@pytest.mark.slow
def test_noise_is_of_its_law():
    k, drawn = 6, partition_selection.noise(Fraction(1, 2), 6, 200_000, Entropy.insecure(3))
    expected = np.array([law(0.5, k).masses[x] for x in range(-k, k + 1)]) * len(drawn)
    assert _off(np.bincount(drawn + k, minlength=2 * k + 1), expected) < 35  # 12 degrees of freedom
    untruncated = np.clip(drawn * 1.3, -k, k).astype(int)
    assert _off(np.bincount(untruncated + k, minlength=2 * k + 1), expected) > 1000


def _off(seen, expected):
    return float(((seen - expected) ** 2 / expected).sum())


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0), (1.0, 1), (0, 1e-9), (1e-20, 1e-30)])
def test_what_names_nothing_is_refused(epsilon, delta):
    with pytest.raises(InvalidInput):
        reach(epsilon, delta)
