"""Heavy hitters: common texts are found with their shares, rare ones and invented ones are not."""

from fractions import Fraction

import numpy as np
import pytest
from paths import at_most_e_to, law, worst_ratio

from qrelease.errors import InvalidInput, TooLarge
from qrelease.local import LocalHashing, Text, serve
from qrelease.local.crowd import insecure_reports
from qrelease.noise.entropy import Entropy

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def test_places_are_texts():
    client = Text(1.0, "ab", 3)
    texts = ["", "a", "b", "ab", "bba", "abb"]
    assert [client.text(client.place(t)) for t in texts] == texts
    assert client.place("abba") == client.place("abb")
    with pytest.raises(InvalidInput, match="over the alphabet") as caught:
        client.place("secret")
    assert "secret" not in str(caught.value)


def test_a_report_of_a_prefix_is_private():
    class Small(LocalHashing):
        digits = 2  # the fingerprint's lowest digits only: a law that can be listed

    client = Text(0.5, "ab", 2)
    client.__dict__["hashing"] = Small(0.5, 4)
    laws = [law(client, client.place(t)) for t in ("", "a", "b", "ab", "bb")]
    assert at_most_e_to(worst_ratio(laws), Fraction(1, 2))


def reports(client, texts, rng):
    """Simulated reports, by the client's own fingerprints."""
    levels = rng.integers(0, client.levels, len(texts))
    marks = {(i, t): client.fingerprint(i, t) for t in set(texts) for i in range(client.levels)}
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


def test_too_many_candidates_and_bad_terms_are_refused():
    client = Text(1.0, ALPHABET, 8, 4)
    with pytest.raises(TooLarge, match="smaller step"):
        serve(client).estimate(serve(client).from_codes(np.array([0, client.size - 1])))
    for make in (lambda: Text(1.0, "aa", 3), lambda: Text(1.0, "ab", 300), lambda: Text(1.0, "ab", 3, 4)):
        with pytest.raises(InvalidInput):
            make()
