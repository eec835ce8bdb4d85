"""Texts as places, and the privacy of a prefix."""

from fractions import Fraction

import pytest
from paths import at_most_e_to, law, worst_ratio

from qrelease.errors import InvalidInput
from qrelease.local import LocalHashing, Text


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


def test_bad_terms_are_refused():
    for make in (lambda: Text(1.0, "aa", 3), lambda: Text(1.0, "ab", 300), lambda: Text(1.0, "ab", 3, 4)):
        with pytest.raises(InvalidInput):
            make()
