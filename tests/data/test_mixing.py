"""Words are mixed as SplitMix64 mixes them."""

import numpy as np

from qrelease.data.mixing import mixed


def test_the_numbers_are_those_of_splitmix64():
    """The first that its generator gives from 0 and from 1234567, as published beside it."""
    step = np.uint64(0x9E3779B97F4A7C15)
    words = np.cumsum(np.full(3, step), dtype=np.uint64)
    assert mixed(words).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert mixed(words[:1] + np.uint64(1234567)).tolist() == [6457827717110365317]


def test_any_bit_changes_about_half_of_all():
    words = np.random.default_rng(0).integers(2**64, size=200, dtype=np.uint64)
    for bit in range(64):
        changed = mixed(words) ^ mixed(words ^ np.uint64(1 << bit))
        ones = np.unpackbits(changed.view(np.uint8)).sum() / len(words)
        assert abs(ones - 32) < 2
