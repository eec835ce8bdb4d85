"""Estimates from many reports: no bias, the stated spread, intervals that cover; what liars can do, and no more."""

from itertools import product

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.local import (
    Coin,
    Hadamard,
    Hybrid,
    KAry,
    Laplace,
    LocalHashing,
    Marginals,
    OneOf,
    OptimisedUnary,
    Piecewise,
    SquareWave,
    Text,
    Unary,
    serve,
)
from qrelease.local.crowd import insecure_reports, places_of
from qrelease.local.draws import ExactDraws
from qrelease.noise.entropy import Entropy

SHARES = np.array([0.5, 0.3, 0.15, 0.05, 0.0])


def people(n):
    return np.repeat(np.arange(5), (SHARES * n).astype(int))


@pytest.mark.parametrize("client", [KAry(1.0, 5), LocalHashing(1.0, 5), Hadamard(0.7, 5), Hadamard(3.0, 5)])
def test_frequencies_are_unbiased_and_intervals_cover(client):
    server, rng, n, runs = serve(client), np.random.default_rng(1), 2_000, 400
    found = [server.estimate(server.from_codes(insecure_reports(client, people(n), rng))) for _ in range(runs)]
    values = np.array([e.value for e in found])
    error = values.std(axis=0) / np.sqrt(runs)
    assert (np.abs(values.mean(axis=0) - SHARES) < 4.5 * error).all()
    if not isinstance(client, Hadamard):
        stated = [float(server.variance(s)) / n for s in SHARES]
        np.testing.assert_allclose(values.var(axis=0), stated, rtol=0.3)
    covered = np.mean([(e.interval[0] <= SHARES) & (e.interval[1] >= SHARES) for e in found], axis=0)
    assert covered.min() > 0.92
    assert np.mean([e.deviation for e in found], axis=0) == pytest.approx(values.std(axis=0), rel=0.25)
    # Intervals of half the width would not do.
    half = [np.abs(e.value - SHARES) <= (e.interval[1] - e.interval[0]) / 4 for e in found]
    assert np.mean(half) < 0.85


@pytest.mark.parametrize("client", [Unary(1.0, 5), OptimisedUnary(1.0, 5), Unary(1.0, 70)], ids=lambda c: c.name)
def test_bits_are_summed_as_the_client_sets_them(client):
    entropy, server, n = Entropy.insecure(4), serve(client), 1_500
    reports = [client.report(int(v), entropy) for v in people(n)]
    batch = server.gather(reports)
    assert server.supports(batch).tolist() == [sum(r.code >> v & 1 for r in reports) for v in range(client.k)]
    found = server.estimate(batch)
    deviation = np.sqrt(float(server.variance(0.5)) / n)
    assert np.abs(found.value[:5] - SHARES).max() < 4.5 * deviation
    assert np.abs(found.value[:2] * 3 - SHARES[:2]).max() > 4.5 * deviation


@pytest.mark.parametrize("kind", [Coin, Piecewise, SquareWave, Hybrid, Laplace])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_means_are_unbiased_and_intervals_cover(kind, epsilon):
    client = kind(epsilon, -5, 15)
    server, rng, n, runs = serve(client), np.random.default_rng(2), 1_000, 300
    values = rng.beta(2, 6, n) * 20 - 5
    places = places_of(client, values)
    found = [server.estimate(server.from_codes(insecure_reports(client, places, rng))) for _ in range(runs)]
    means = np.array([e.value for e in found])
    assert abs(means.mean() - values.mean()) < 4.5 * means.std() / np.sqrt(runs) + 20 / client.steps
    stated = np.mean([server.variance(v) for v in values[:100]]) / n
    assert means.var() == pytest.approx(stated, rel=0.35)
    covered = np.mean([e.interval[0] <= values.mean() <= e.interval[1] for e in found])
    assert covered > 0.91
    narrow = np.mean([abs(e.value - values.mean()) <= (e.interval[1] - e.interval[0]) / 4 for e in found])
    assert narrow < 0.85


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 2), (0.5, 300), (1.0, 81), (1.0, 2000), (3.0, 1000), (5.4, 40)])
def test_local_hashing_counts_what_each_category_hashes_to(epsilon, k):
    client, rng = LocalHashing(epsilon, k), np.random.default_rng(6)
    server = serve(client)
    batch = server.from_codes(insecure_reports(client, rng.integers(0, k, 3_000), rng))
    some = np.unique(np.append(rng.integers(0, k, 50), [0, k - 1]))
    by_hand = [
        sum(client.hashed(c // client.g, v) == c % client.g for c in batch.codes.tolist()) for v in some.tolist()
    ]
    assert server.supports(batch)[some].tolist() == by_hand
    assert server.supports_of(batch, some.astype(np.uint64)).tolist() == by_hand


def test_single_reports_and_batches_say_the_same():
    client, entropy = Piecewise(1.0), Entropy.insecure(9)
    reports = [client.report(0.2, entropy) for _ in range(200)]
    server = serve(client)
    wire = b"".join(r.to_bytes() for r in reports)
    assert server.estimate(reports).value == server.estimate(server.read(wire)).value


@pytest.mark.parametrize(
    ("client", "question"),
    [
        (OneOf(1.0, (Coin(1.0, 0, 1), Coin(1.0, 0, 1), KAry(0.5, 3))), 0),
        (Marginals(1.0, (2, 3), ((0,), (1,), (0, 1))), 1),
    ],
)
def test_liars_who_all_choose_one_question_move_it_no_further_than_is_said(client, question):
    """They are past the bound that takes an even share of the reports for each question where that has fewer."""
    server, rng, k = serve(client), np.random.default_rng(4), 30
    honest = np.concatenate(
        [
            client.offsets[j] + insecure_reports(q, np.zeros(60 if j == question else 120, np.int64), rng)
            for j, q in enumerate(client.questions)
        ]
    )
    begin, size = client.offsets[question], client.questions[question].size
    elsewhere = client.offsets[(question + 1) % 3]
    moved = []
    for lie, truth, away in product(range(size), range(size), (0, k)):
        truths = np.append(np.full(k - away, begin + truth), np.full(away, elsewhere))
        batches = [server.from_codes(np.append(honest, c)) for c in (np.full(k, begin + lie), truths)]
        found = np.abs(server.estimate(batches[0]).value - server.estimate(batches[1]).value)
        assert (found <= server.moved_by(k, batches[0]) * (1 + 1e-9)).all()
        moved.append(found)
    here = server.moved_by(k, batches[0]) > np.min(server.moved_by(k, batches[0])) * (1 + 1e-9)
    even_share = (server.reach * 3 * k / len(batches[0]))[here]
    assert (np.max(moved, axis=0)[here] > 1.1 * even_share).any()
    with pytest.raises(InvalidInput, match="give the batch"):
        server.moved_by(k, len(batches[0]))


def test_liars_about_a_text_move_its_share_no_further_than_is_said():
    client = Text(3.0, "ab", 2)
    server, n, k, draws = serve(client), 1_200, 60, ExactDraws(Entropy.insecure(6))
    codes = np.array([client.draw(client.place("ab"), draws) for _ in range(n)], np.uint64)
    mark, hashing, size = client.fingerprint(1, "ab"), client.hashing, client.hashing.size
    last = [i for i, c in enumerate(codes.tolist()) if c >= size]
    supports = [hashing.hashed((c := int(codes[i]) - size) // hashing.g, mark) == c % hashing.g for i in last]
    against = codes[last[supports.index(False)]]
    liars = [i for i, supporting in zip(last, supports, strict=True) if supporting][:k]
    lied = codes.copy()
    lied[liars] = against
    batches = [server.from_codes(c) for c in (codes, lied)]
    one, two = (server.estimate(batch).value["ab"] for batch in batches)
    bound = server.moved_by(k, batches[1])
    assert 0.8 * bound < abs(one - two) <= bound * (1 + 1e-9)
    with pytest.raises(InvalidInput, match="give the batch"):
        server.moved_by(k, n)


@pytest.mark.parametrize(
    "client", [KAry(1.0, 4), LocalHashing(1.0, 4), Hadamard(3.0, 9), Coin(1.0), Piecewise(1.0), Hybrid(2.0)]
)
def test_liars_move_an_estimate_as_far_as_is_said_and_no_further(client):
    server, rng, n, k = serve(client), np.random.default_rng(3), 500, 25
    codes = insecure_reports(client, np.zeros(n, np.int64), rng)
    tried = np.unique(np.append(rng.integers(0, client.size, 300), [0, 1, client.size - 1]))
    moved = []
    for before in tried[:40]:
        codes[:k] = before
        base = server.estimate(server.from_codes(codes)).value
        for after in tried:
            codes[:k] = after
            moved.append(np.max(np.abs(server.estimate(server.from_codes(codes)).value - base)))
    assert max(moved) <= server.moved_by(k, n) * (1 + 1e-9)
    assert max(moved) > 0.7 * server.moved_by(k, n)


def test_square_waves_tell_the_distribution():
    client = SquareWave(2.0)
    server, rng, n = serve(client), np.random.default_rng(5), 100_000
    values = np.where(rng.random(n) < 0.7, rng.normal(0.3, 0.05, n), rng.normal(0.75, 0.07, n)).clip(0, 1)
    batch = server.from_codes(insecure_reports(client, places_of(client, values), rng))
    truth = np.histogram(values, 32, (0, 1))[0] / n
    found = server.distribution(batch, 32)
    assert found.sum() == pytest.approx(1)
    distance = lambda p: np.abs(np.cumsum(p - truth)).mean()  # noqa: E731
    assert distance(found) < 0.01
    assert distance(np.full(32, 1 / 32)) > 0.1
    # The raw reports, rescaled, are far off: the noise has to be taken out.
    raw = np.histogram(batch.codes.astype(float) / client.size, 32, (0, 1))[0] / n
    assert distance(raw) > 0.05
