"""Estimates from those who answered each of several questions; synthetic tables from reports; liars who choose one."""

from itertools import product

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.maxent import fit_histogram
from qrelease.inference.residuals import Estimates
from qrelease.local import Coin, KAry, Marginals, OneOf, serve
from qrelease.local.crowd import insecure_reports
from qrelease.local.server import normal_estimate
from qrelease.noise.entropy import Entropy
from qrelease.queries.workload import Workload


def simulated(client, places, rng):
    """Reports of a `OneOf`, places (people, questions)."""
    chosen = rng.integers(0, len(client.questions), len(places))
    codes = np.empty(len(places), np.int64)
    for j, question in enumerate(client.questions):
        mine = chosen == j
        codes[mine] = client.offsets[j] + insecure_reports(question, places[mine, j], rng)
    return codes


def as_published(server, batch, rule):
    """The means as they were published: sums times m/n, and not times 1/nⱼ. Unbiased too, but at the mercy of nⱼ.

    rule  what somebody who was not asked counts: in Harmony the middle of the range, and in RCP a report of 0
    """
    n, m = len(batch), len(server.servers)
    means, variances = np.empty(m), np.empty(m)
    for j, (one, part) in enumerate(zip(server.servers, server.split(batch), strict=True)):
        zero = float(one.worths(np.array([0]))[0]) if rule == "rcp" else one.client.steps / 2
        worths = float(one.step) * (one.worths(part.codes.astype(np.int64)) - zero)
        means[j] = float(one.client.low) + float(one.step) * zero + worths.sum() * m / n
        variances[j] = (worths**2).sum() * m**2 / n - (worths.sum() * m / n) ** 2
    return normal_estimate(means, variances, n)


def test_the_realised_divisor_is_unbiased_and_better_than_the_expected_one():
    m, n, runs = 6, 1_200, 300
    client = OneOf(8.0, (Coin(8.0, 0, 1),) * m)
    server, rng = serve(client), np.random.default_rng(1)
    places = np.full((n, m), round(0.8 * 65536))
    found = {"realised": [], "harmony": [], "rcp": []}
    for _ in range(runs):
        batch = server.from_codes(simulated(client, places, rng))
        found["realised"].append(server.estimate(batch).value)
        found["harmony"].append(as_published(server, batch, "harmony").value)
        found["rcp"].append(as_published(server, batch, "rcp").value)
    spread = {name: np.std(values) for name, values in found.items()}
    for name, values in found.items():
        assert abs(np.mean(values) - 0.8) < 4.5 * spread[name] / np.sqrt(runs * m)
    assert spread["realised"] * 1.1 < spread["harmony"]
    assert spread["harmony"] * 1.1 < spread["rcp"]
    deviations = [server.estimate(batch).deviation.mean(), as_published(server, batch, "rcp").deviation.mean()]
    assert deviations == pytest.approx([spread["realised"], spread["rcp"]], rel=0.1)


def test_the_published_gain_of_the_realised_divisor():
    """At ε = .1, m = 36, n = 8e5 and means of 1/2: a root mean squared error of .094 against .067."""
    m, n = 36, 800_000
    client = OneOf(0.1, (Coin(0.1, 0, 1),) * m)
    server, rng = serve(client), np.random.default_rng(2)
    batch = server.from_codes(simulated(client, np.full((n, m), 32768), rng))
    found = [as_published(server, batch, "rcp"), server.estimate(batch)]
    errors = [np.sqrt(np.mean((e.value - 0.5) ** 2)) for e in found]
    assert errors == pytest.approx([0.094, 0.067], rel=0.35)
    assert [e.deviation.mean() for e in found] == pytest.approx([0.094, 0.067], rel=0.02)


def test_a_question_without_reports_is_named():
    server = serve(OneOf(1.0, (Coin(1.0, 0, 1, 2), KAry(0.5, 3))))
    with pytest.raises(InvalidInput, match="nobody answered question 2 of 2"):
        server.estimate(server.from_codes(np.array([0, 1, 1])))


def test_a_synthetic_table_is_fitted_to_local_reports():
    domain = Domain.coded({"a": 3, "b": 2, "c": 4})
    client = Marginals(1.0, domain.shape, ((0, 1), (0, 2), (1, 2)))
    server, rng, n = serve(client), np.random.default_rng(8), 30_000
    a = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    b, c = (a > 0) ^ (rng.random(n) < 0.3), np.where(rng.random(n) < 0.4, a, rng.integers(0, 4, n))
    records = np.stack([a, b, c], axis=1)
    cells = np.stack(
        [np.ravel_multi_index(records[:, list(s)].T, [domain.shape[i] for i in s]) for s in client.sets], axis=1
    )
    batch = server.from_codes(simulated(client, cells, rng))
    measurements = server.measurements(batch, domain)
    estimates = Estimates.of(domain, measurements, records=n)
    histogram, _ = fit_histogram(estimates)
    pairs = Workload.marginals(domain, 2)
    truth = np.concatenate(
        [np.bincount(cells[:, j], minlength=m.group.queries.cells) for j, m in enumerate(measurements)]
    )
    fitted, linear = histogram.answer(pairs), np.concatenate([m.values for m in measurements])
    stated = np.concatenate([np.full(m.values.size, m.noise.scale) for m in measurements])
    # Unbiased measurements of the stated spread, and a fit that is nearer to the truth than they are, and a table.
    assert np.mean(((linear - truth) / stated) ** 2) == pytest.approx(1, abs=0.75)
    assert np.linalg.norm(fitted - truth) < np.linalg.norm(linear - truth)
    assert fitted.min() >= 0
    uniform = np.concatenate([np.full(m.values.size, n / m.values.size) for m in measurements])
    assert np.linalg.norm(fitted - truth) < 0.3 * np.linalg.norm(uniform - truth)
    with pytest.raises(InvalidInput, match="the domain has the shape"):
        server.measurements(batch, Domain.coded({"a": 3}))


def test_single_reports_of_marginals_say_the_same_as_the_simulation():
    client = Marginals(1.0, (2, 3), ((0,), (0, 1)))
    entropy, server = Entropy.insecure(3), serve(client)
    found = server.estimate([client.report((1, 2), entropy) for _ in range(4_000)])
    truth = np.array([0, 1, 0, 0, 0, 0, 0, 1])
    assert np.abs((found.value - truth) / found.deviation).max() < 4.5
    assert np.abs((found.value - np.roll(truth, 1)) / found.deviation).max() > 10
    assert found.value.shape == server.reach.shape


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
