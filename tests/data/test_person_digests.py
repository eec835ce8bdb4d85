"""Digests of persons: of whole numbers as of texts that stand for them, and of no others."""

from hashlib import blake2b

import numpy as np
import pytest

from qrelease.data.person_digests import NAMED, digests_of, whole_digests, word_digests
from qrelease.data.persons import person_identity

ENDS = [0, 1, -1, 9, 10, -10, 100, 10**9, 10**10, 10**15, -(10**15), 9 * 10**14, 123_000, 2**53 - 1, 1 - 2**53]


@pytest.mark.parametrize("size", [0, 1, 500])
def test_those_of_whole_numbers_are_those_of_texts_that_stand_for_them(size):
    rng = np.random.default_rng(size)
    for numbers in (rng.integers(-1000, 1000, size), rng.integers(1 - 2**53, 2**53, size), np.array(ENDS)):
        for spelled in ("{}", " {}.0", "{}.00e0"):
            identities = [person_identity(spelled.format(number)) for number in numbers.tolist()]
            assert np.array_equal(whole_digests(numbers), digests_of(identities))


def test_the_first_half_is_mixed_as_splitmix64_does():
    numbers = [0, 1234567]
    drawn = []
    for seed in numbers:
        word = (seed ^ 0x9E3779B97F4A7C15) % 2**64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            word = (word ^ (word >> shift)) * factor % 2**64
        drawn.append(word ^ (word >> 31))
    assert drawn[0] == 0xE220A8397B1DCDAF  # of seed 0, as Vigna's program prints it
    assert whole_digests(np.array(numbers))[:, 0].tolist() == drawn


def test_keys_of_both_kinds_keep_their_order():
    texts = ["a", "7", "2.5", "-7", "b", "7.0"]
    found = digests_of(map(person_identity, texts))
    assert np.array_equal(found, np.concatenate([digests_of([person_identity(text)]) for text in texts]))
    assert np.array_equal(found[1], found[5])
    assert len({tuple(row) for row in found.tolist()}) == 5


def test_other_keys_have_those_of_their_texts():
    texts = ["a", "2.5", str(2**53), str(-(2**53)), "1e30", "2020-01-31", "1e-3", "1" * 40]
    found = digests_of(map(person_identity, texts))
    expected = [blake2b(repr(person_identity(text)).encode(), digest_size=16).digest() for text in texts]
    assert found.astype("<u8").tobytes() == b"".join(expected)
    assert digests_of([]).shape == (0, 2)


def test_each_half_tells_whole_numbers_apart_and_no_bits_of_it_are_the_numbers():
    numbers = np.arange(-50_000, 50_000)
    for half in whole_digests(numbers).T:
        assert len(np.unique(half)) == len(numbers)
        bits = (half[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).mean(axis=0)
        assert np.abs(bits - 0.5).max() < 0.01  # of 100,000 fair bits the standard error is .0016
        again = np.corrcoef(half.astype(float), numbers)[0, 1]
        assert abs(again) < 0.02


def test_words_that_are_no_keys_have_the_digests_that_are_given():
    named = np.arange(6, dtype=np.uint64).reshape(3, 2)
    found = word_digests(np.array([7, NAMED + 2, -7, NAMED]), named)
    assert np.array_equal(found[[1, 3]], named[[2, 0]])
    assert np.array_equal(found[[0, 2]], whole_digests(np.array([7, -7])))
