"""Digests of whole numbers, against Python's own BLAKE2b of what they stand for."""

from hashlib import blake2b

import numpy as np
import pytest

from qrelease.data.persons import person_identity
from qrelease.data.whole_digests import NAMED, whole_digests, word_digests


def expected(numbers):
    words = [blake2b(repr(person_identity(str(n))).encode(), digest_size=16).digest() for n in numbers]
    return np.frombuffer(b"".join(words), "<u8").reshape(-1, 2)


ENDS = [0, 1, -1, 9, 10, -10, 100, 10**9, 10**10, 10**15, -(10**15), 9 * 10**14, 123_000, 2**53 - 1, 1 - 2**53]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 500])
def test_they_are_those_of_the_texts(size):
    rng = np.random.default_rng(size)
    for numbers in (rng.integers(-1000, 1000, size), rng.integers(1 - 2**53, 2**53, size), np.array(ENDS)):
        assert np.array_equal(whole_digests(numbers), expected(numbers.tolist()))


def test_words_that_are_no_keys_have_the_digests_that_are_given():
    named = np.arange(6, dtype=np.uint64).reshape(3, 2)
    found = word_digests(np.array([7, NAMED + 2, -7, NAMED]), named)
    assert np.array_equal(found[[1, 3]], named[[2, 0]])
    assert np.array_equal(found[[0, 2]], expected([7, -7]))
