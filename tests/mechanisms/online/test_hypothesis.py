"""The public hypothesis of a session: what it learns, in any order, and where it is not learned."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sessions import CAPS, DOMAIN, mask, opened, state_of
from worlds import coded, random_table

from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.mechanisms.online.hypothesis import LEARNING, Hypothesis
from qrelease.mechanisms.online.session import Online
from qrelease.privacy import PureDP
from qrelease.queries.canonical import CanonicalQuery, canonical_name
from qrelease.queries.classes import Conjunctions
from qrelease.queries.workload import Workload


def test_after_a_synopsis_no_answer_waits_for_a_fit(monkeypatch):
    """The sweeps of the fit are done one an answer, or where there is time; and older answers come in again."""
    with opened(Online(0.1, 0.01, Conjunctions(2)), CAPS[1], table=random_table(coded(*[3] * 6), 4_000, 1)) as session:
        session.answer("a = 0 and b = 0 and c = 1")
        fits = []
        monkeypatch.setattr(
            MultiplicativeWeights,
            "_compare",
            lambda *a, old=MultiplicativeWeights._compare: (fits.append(1), old(*a))[1],
        )
        assert session.answer("a = 0 and c = 1").source == "synopsis"
        assert not fits
        for i in range(3):
            session.answer(f"a = 0 and b = {i} and d = 1")
            assert len(fits) <= 2 + i
        while session.learn():
            pass
        total = len(fits)
        session.synopsis  # noqa: B018
        assert len(fits) == total > 10


def test_steps_come_to_the_same_in_any_order_and_portions():
    domain, rng = coded(2, 3, 4), np.random.default_rng(1)
    queries = [canonical_name(domain, mask(rng.integers(0, 2, 24)).groups[0])[0] for _ in range(20)]
    queries += [
        canonical_name(domain, mask(rng.random(24)).groups[0])[0],
        Workload.marginals(domain, [["a", "c"]]).groups[0],
    ]
    sizes = [1] * 21 + [8]
    hypotheses = [Hypothesis(domain, 4_000.0, 30.0) for _ in range(2)]
    for hypothesis in hypotheses:
        for number, (query, k) in enumerate(zip(queries, sizes, strict=True)):
            hypothesis.add_answers(number, query, np.full(k, 100.0))
    steps = [
        (int(n), rng.integers(-(2**18), 2**18, sizes[n]).tolist()) for n in rng.integers(0, len(queries), 300).tolist()
    ]
    hypotheses[0].add_steps(steps)
    hypotheses[0].settle()
    for i in reversed(range(0, 300, 3)):
        hypotheses[1].guess(mask(np.arange(24) < 5).groups[0])
        hypotheses[1].add_steps(steps[i : i + 3])
        hypotheses[1].settle()
    one, other = (hypothesis.histogram for hypothesis in hypotheses)
    np.testing.assert_array_equal(one.values, other.values)
    exponents = np.zeros(24)
    for number, step in steps:
        group = queries[number].group(domain) if isinstance(queries[number], CanonicalQuery) else queries[number]
        part = group.queries.adjoint(np.array(step, float)) * group.queries.unit * 2.0**-20
        shape = [n if a in group.axes else 1 for a, n in enumerate(domain.shape)]
        exponents += np.broadcast_to(part.reshape(shape), domain.shape).reshape(-1)
    expected = np.exp(exponents) / np.exp(exponents).sum() * 4_000
    np.testing.assert_allclose(one.values, expected, rtol=1e-9)
    guesses = [hypothesis.guess(mask(np.arange(24) < 5).groups[0]) for hypothesis in hypotheses]
    np.testing.assert_allclose(guesses, expected[:5].sum(), rtol=1e-9)


def test_steps_that_add_up_beyond_any_number_leave_a_hypothesis():
    """One cell takes e^-125 on each of twelve columns, and all other records with it."""
    domain = coded(*[2] * 12)
    hypothesis = Hypothesis(domain, 4_000.0, 30.0)
    for number, name in enumerate(domain.names):
        hypothesis.add_answers(
            number, canonical_name(domain, Workload.predicates(domain, f"{name} = 0").groups[0])[0], np.zeros(1)
        )
    hypothesis.add_steps([(number, [-125 << 20]) for number in range(12)])
    hypothesis.settle()
    state = hypothesis.histogram
    assert state.values[-1] == pytest.approx(4_000)
    assert state.values[0] == pytest.approx(0)
    _, steps = hypothesis.lesson(
        12, canonical_name(domain, Workload.predicates(domain, "a = 0").groups[0])[0], np.array([2_000.0])
    )
    assert all(abs(step) <= 1 << 20 for _, exponents in steps for step in exponents)


def test_large_families_are_learned_once():
    domain = coded(8, 9)
    hypothesis = Hypothesis(domain, 4_000.0, 30.0)
    hypothesis.add_answers(0, Workload.marginals(domain, 2).groups[0], np.full(72, 10.0))
    hypothesis.add_answers(1, Workload.marginals(domain, 1).groups[0], np.full(8, 10.0))
    _, steps = hypothesis.lesson(2, Workload.marginals(domain, 1).groups[1], np.full(9, 10.0))
    assert [number for number, _ in steps] == [2, 1]


def test_what_finds_no_room_is_not_learned(monkeypatch):
    few = replace(LEARNING, max_marginals=2)
    monkeypatch.setattr("qrelease.mechanisms.online.hypothesis.LEARNING", few)
    with opened(cap=PureDP(1e6)) as session:
        state_of(session).policy.synopsis_share = math.inf
        for text in ("a = 0", "b = 0", "c = 0", "a = 0 and c = 1"):
            session.answer(text)
        assert state_of(session).hypothesis._replayed == [0, 1]
        assert session.synopsis.answer(Workload.predicates(DOMAIN, "c = 0"))[0] == pytest.approx(1_000)
