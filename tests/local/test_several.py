"""One of several questions: privacy of the whole, estimates from those who answered, synthetic tables from reports."""

import math
from fractions import Fraction

import numpy as np
import pytest
from paths import at_most_e_to, law, worst_ratio

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.maxent import fit
from qrelease.inference.residuals import Estimates
from qrelease.local import Coin, Hybrid, KAry, Marginals, OneOf, Piecewise, serve
from qrelease.local.crowd import insecure_reports
from qrelease.noise.entropy import Entropy
from qrelease.queries.workload import Workload

CLIENTS = [
    OneOf(1.0, (Coin(1.0, 0, 1, 2), KAry(0.5, 3))),
    OneOf(0.3, (Coin(0.3, 0, 1, 2),) * 3),
    OneOf(2, (Piecewise(2.0, 0, 1, 3), Hybrid(1.0, 0, 1, 2))),
    Marginals(0.5, (2, 3, 2), ((0,), (0, 2), (1, 2))),
]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_one_answer_costs_epsilon_for_all_values_together(client):
    laws = [law(client, place) for place in range(client.inputs)]
    assert all(sum(one.values()) == 1 for one in laws)
    assert all(0 <= code < client.size for one in laws for code in one)
    ratio = worst_ratio(laws)
    assert at_most_e_to(ratio, Fraction(client.epsilon))
    assert math.log(ratio) == pytest.approx(float(client.epsilon), rel=1e-8)


def test_places_keep_the_values_of_all_questions():
    client = CLIENTS[0]
    seen = {client.place((x, c)) for x in (0, 0.5, 1) for c in range(3)}
    assert seen == set(range(9))
    with pytest.raises(InvalidInput, match="2 values"):
        client.place((1,))
    with pytest.raises(InvalidInput, match="3 codes"):
        CLIENTS[3].place((1, 1))
    with pytest.raises(InvalidInput, match="a code must be an integer from 0 to 2"):
        CLIENTS[3].place((1, 3, 1))


def simulated(client, places, rng):
    """Reports of a `OneOf`, places (people, questions)."""
    chosen = rng.integers(0, len(client.questions), len(places))
    codes = np.empty(len(places), np.int64)
    for j, question in enumerate(client.questions):
        mine = chosen == j
        codes[mine] = client.offsets[j] + insecure_reports(question, places[mine, j], rng)
    return codes


def test_the_realised_divisor_is_unbiased_and_better_than_the_expected_one():
    m, n, runs = 6, 1_200, 300
    client = OneOf(8.0, (Coin(8.0, 0, 1),) * m)
    server, rng = serve(client), np.random.default_rng(1)
    places = np.full((n, m), round(0.8 * 65536))
    found = {"realised": [], "harmony": [], "rcp": []}
    for _ in range(runs):
        batch = server.from_codes(simulated(client, places, rng))
        found["realised"].append(server.estimate(batch).value)
        found["harmony"].append(server.as_published(batch, "harmony").value)
        found["rcp"].append(server.as_published(batch, "rcp").value)
    spread = {name: np.std(values) for name, values in found.items()}
    for name, values in found.items():
        assert abs(np.mean(values) - 0.8) < 4.5 * spread[name] / np.sqrt(runs * m)
    assert spread["realised"] * 1.1 < spread["harmony"]
    assert spread["harmony"] * 1.1 < spread["rcp"]
    deviations = [server.estimate(batch).deviation.mean(), server.as_published(batch, "rcp").deviation.mean()]
    assert deviations == pytest.approx([spread["realised"], spread["rcp"]], rel=0.1)


def test_the_published_gain_of_the_realised_divisor():
    """At ε = .1, m = 36, n = 8e5 and means of 1/2: a root mean squared error of .094 against .067."""
    m, n = 36, 800_000
    client = OneOf(0.1, (Coin(0.1, 0, 1),) * m)
    server, rng = serve(client), np.random.default_rng(2)
    batch = server.from_codes(simulated(client, np.full((n, m), 32768), rng))
    found = [server.as_published(batch, "rcp"), server.estimate(batch)]
    errors = [np.sqrt(np.mean((e.value - 0.5) ** 2)) for e in found]
    assert errors == pytest.approx([0.094, 0.067], rel=0.35)
    assert [e.deviation.mean() for e in found] == pytest.approx([0.094, 0.067], rel=0.02)


def test_a_question_without_reports_is_named():
    client = CLIENTS[0]
    server = serve(client)
    with pytest.raises(InvalidInput, match="nobody answered question 2 of 2"):
        server.estimate(server.from_codes(np.array([0, 1, 1])))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OneOf(1.0, ()), "from 1 to 4,096 questions"),
        (lambda: OneOf(1.0, (Coin(1.5),)), r"epsilon of 1\.5, above 1"),
        (lambda: OneOf(1.0, [Coin(1.0)]), "a tuple of clients"),
        (lambda: OneOf(1.0, (OneOf(1.0, (Coin(1.0),)),)), "for categories and numbers"),
        (lambda: Marginals(1.0, (2, 2), ((1, 0),)), "ascending order"),
        (lambda: Marginals(1.0, (2, 2), ((0, 2),)), "ascending order"),
        (lambda: Marginals(1.0, (2, 1), ((1,),)), "has one"),
        (lambda: Marginals(1.0, (2, 2), ()), "different sets"),
    ],
)
def test_bad_questions_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


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
    histogram, _ = fit(estimates)
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
