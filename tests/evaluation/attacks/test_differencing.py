"""Differences and averages read exact, sticky and fresh answers; asking a session or the server again gains nothing."""

import numpy as np
import pytest
from serving import TABLE, Client, admit, spent, worker

import qrelease as qr
from qrelease.errors import InvalidInput
from qrelease.evaluation.attacks.differencing import averaging, differencing, repeated, split_questions
from qrelease.evaluation.attacks.publishers import Exact, FreshNoise, Released, Rounded, Sticky, Suppressed
from qrelease.noise.entropy import Entropy
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

SECRET = np.random.default_rng(0).random(400) < 0.5
HALF = np.random.default_rng(1).random(400) < 0.5

SAME = ["age in 20..39 and sex = F", "sex = F and age in 20..39", "not (sex != F or age not in 20..39)"]


def test_two_exact_answers_give_a_bit_away():
    assert differencing(Exact(SECRET), SECRET, 400, np.random.default_rng(2)).recovered == 1.0


@pytest.mark.parametrize("publisher", [Rounded(SECRET, 5), Sticky(SECRET, 1.0), FreshNoise(SECRET, 1.0)])
def test_more_pairs_get_through_rounding_and_noise(publisher):
    rng = np.random.default_rng(3)
    once = differencing(publisher, SECRET, 100, rng)
    often = differencing(publisher, SECRET, 100, rng, repeats=100)
    assert once.recovered < 0.9 < often.recovered


def test_a_release_is_not_read_by_differences():
    publisher = Released(SECRET, qr.Laplace(), qr.PureDP(1.0), Entropy.insecure(0))
    found = differencing(publisher, SECRET, 100, np.random.default_rng(4), repeats=20)
    assert found.recovered <= 0.65  # a coin gives 0.5, with a standard deviation of 0.05


def test_fresh_noise_averages_out_and_sticky_noise_does_not():
    truth = (SECRET & HALF).sum()
    fresh, sticky = repeated(FreshNoise(SECRET, 10.0), HALF, 2000), repeated(Sticky(SECRET, 10.0), HALF, 50)
    assert abs(fresh.mean - truth) < 1
    assert sticky.distinct == 1
    assert sticky.mean == sticky.first != truth


def test_sticky_noise_averages_out_in_two_parts():
    found = split_questions(Sticky(SECRET, 10.0), HALF, 2000, np.random.default_rng(5))
    assert found.distinct > 1
    assert abs(found.mean - (SECRET & HALF).sum()) < 2


def test_a_session_gains_nothing_from_other_words():
    with Ledger.open(None, qr.PureDP(1.0), dataset="people") as ledger:
        curator = Curator(TABLE, ledger, Entropy.insecure(0))
        with curator.open(qr.Online(), qr.PureDP(1.0)) as session:
            first = averaging(lambda words: session.answer(words).value, SAME[:1])
            paid = session.spent
            found = averaging(lambda words: session.answer(words).value, SAME * 20)
            assert (found.distinct, found.first) == (1, first.first)
            assert session.spent == paid


def test_the_server_gains_nothing_from_other_words(tmp_path):
    path = tmp_path / "people.ledger"
    with worker(path) as app:
        client = Client(app, admit(path, "ada"))

        def ask(words):
            reply = client.ask({"where": words})
            assert reply.status == 200, reply.content
            return reply.json["answers"][0]["value"]

        first, paid = ask(SAME[0]), spent(path)
        found = averaging(ask, SAME * 5)
        assert (found.distinct, found.first) == (1, first)
        assert spent(path) == paid > 0


def test_mistakes_are_told():
    with pytest.raises(InvalidInput, match="at most the 400 people, got 401"):
        differencing(Exact(SECRET), SECRET, 401, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="at least once"):
        averaging(lambda words: 0.0, [])
    with pytest.raises(InvalidInput, match="nothing to average"):
        repeated(Suppressed(SECRET, 401), HALF, 2)
