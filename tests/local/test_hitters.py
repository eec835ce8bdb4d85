"""Heavy hitters: common texts are found with their shares, rare ones and invented ones are not."""

import numpy as np
import pytest

from qrelease.errors import InvalidInput, TooLarge
from qrelease.local import Text, serve
from qrelease.local.crowd import insecure_reports
from qrelease.local.draws import ExactDraws
from qrelease.noise.entropy import Entropy

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def reports(client, texts, rng):
    """Simulated reports, by the client's own fingerprints."""
    levels = rng.integers(0, client.levels, len(texts))
    marks = {(i, t): client.category(i, t) for t in set(texts) for i in range(client.levels)}
    places = np.array([marks[i, t] for i, t in zip(levels.tolist(), texts, strict=True)])
    return levels * client.hashing.size + insecure_reports(client.hashing, places, rng)


def test_common_texts_are_found():
    client, rng, n = Text(3.0, ALPHABET, 8, 2), np.random.default_rng(4), 30_000
    common = {"influenza": 0.3, "cold": 0.2, "covid": 0.1}
    texts = [t for t, share in common.items() for _ in range(int(n * share))]
    texts += ["".join(rng.choice(list(ALPHABET), 6)) for _ in range(n - len(texts))]
    found = serve(client).estimate(serve(client).from_codes(reports(client, texts, rng)))
    assert set(found.value) == {"influenz", "cold", "covid"}
    for text, share in common.items():
        assert abs(found.value[text[:8]] - share) < 4.5 * found.deviation[text[:8]] < 0.15
        assert found.interval[0][text[:8]] < found.value[text[:8]] < found.interval[1][text[:8]]


def test_nothing_is_found_where_nothing_is_common():
    client, rng = Text(1.0, "ab", 6), np.random.default_rng(5)
    texts = ["".join(rng.choice(list("ab"), 6)) for _ in range(2_000)]
    assert len(serve(client).estimate(serve(client).from_codes(reports(client, texts, rng))).value) <= 2


def test_a_device_reports_what_is_simulated():
    client, entropy = Text(4.0, "ab", 3), Entropy.insecure(6)
    found = serve(client).estimate([client.report("ba", entropy) for _ in range(900)])
    assert set(found.value) == {"ba"}
    assert abs(found.value["ba"] - 1) < 4.5 * found.deviation["ba"]


def test_too_many_candidates_are_refused():
    with pytest.raises(InvalidInput, match="smaller step"):  # before anybody reports
        Text(1.0, ALPHABET, 8, 4)
    client, rng = Text(1.3, "".join(map(chr, range(1, 128))), 4, 2), np.random.default_rng(7)
    server = serve(client)
    texts = [chr(20 + i) * 2 for i in range(20)] * 8_000
    batch = server.from_codes(reports(client, texts, rng))
    assert 8 <= len(server.find(batch, most=10).value) <= 10
    with pytest.raises(TooLarge, match="keep fewer"):
        server.find(batch)


def test_liars_about_a_text_move_its_share_no_further_than_is_said():
    client = Text(3.0, "ab", 2)
    server, n, k, draws = serve(client), 1_200, 60, ExactDraws(Entropy.insecure(6))
    codes = np.array([client.draw(client.place("ab"), draws) for _ in range(n)], np.uint64)
    mark, hashing, size = client.category(1, "ab"), client.hashing, client.hashing.size
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
