"""The stream of random words: never repeated, reproducible only when asked to be, and uniform."""

import copy
import gc
import hashlib
import os
import pickle
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from qrelease.errors import InvalidInput
from qrelease.noise.entropy import WORDS_PER_KEY, Entropy


def words_of_child(entropy: Entropy, n: int) -> np.ndarray:
    """The first `n` words that a forked child draws."""
    read, write = os.pipe()
    if not (pid := os.fork()):
        os.write(write, entropy.words(n).tobytes())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return np.frombuffer(data, dtype=np.uint64)


@pytest.mark.parametrize("n", [0, 1, 7, 1023, 1024, 1025, 8192, 8193, 100_003])
def test_gives_as_many_words_as_asked(n):
    words = Entropy().words(n)
    assert words.shape == (n,)
    assert words.dtype == np.uint64
    assert np.unique(words).size == n


def test_words_are_the_aes_256_ctr_key_stream():
    key = hashlib.sha256(b"qrelease insecure seed 5").digest()
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * 20_000))
    np.testing.assert_array_equal(Entropy.insecure(5).words(20_000), np.frombuffer(stream, dtype="<u8"))


def test_an_insecure_stream_is_reproducible_and_says_so():
    first, again, other = Entropy.insecure(1), Entropy.insecure(1), Entropy.insecure(-1)
    sizes = [3, 1000, 50, 5000, 1]
    np.testing.assert_array_equal(
        np.concatenate([first.words(n) for n in sizes]), np.concatenate([again.words(n) for n in sizes])
    )
    assert np.intersect1d(Entropy.insecure(1).words(1000), other.words(1000)).size == 0
    assert first.insecure_seed == 1
    assert repr(other) == "Entropy.insecure(-1)"
    assert Entropy.insecure(np.int64(7)).insecure_seed == 7


def test_secret_streams_differ_and_carry_no_seed():
    assert np.intersect1d(Entropy().words(5000), Entropy().words(5000)).size == 0
    assert Entropy().insecure_seed is None
    assert repr(Entropy()) == "Entropy()"


@pytest.mark.parametrize("seed", [True, np.True_, 1.0, "1", None, float("nan")])
def test_a_seed_must_be_an_integer(seed):
    with pytest.raises(InvalidInput, match="seed must be an integer, got"):
        Entropy.insecure(seed)


def test_a_negative_number_of_words_is_refused():
    with pytest.raises(InvalidInput, match="must not be negative, got -1"):
        Entropy().words(-1)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_stream_cannot_be_duplicated(duplicate):
    with pytest.raises(InvalidInput, match="cannot be pickled or copied"):
        duplicate(Entropy())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("make", [Entropy, lambda: Entropy.insecure(3)])
def test_a_forked_child_never_repeats_its_parent_or_a_sibling(make):
    entropy = make()
    entropy.words(10)
    children = [words_of_child(entropy, 300) for _ in range(2)]
    assert np.unique(np.concatenate([*children, entropy.words(2000)])).size == 2600


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_another_thread_draws_does_not_deadlock():
    entropy, done = Entropy(), threading.Event()

    def draw():
        while not done.is_set():
            entropy.words(1 << 17)  # holds the stream's lock nearly all the time

    drawing = threading.Thread(target=draw)
    drawing.start()
    try:
        assert all(words_of_child(entropy, 5).size == 5 for _ in range(8))
    finally:
        done.set()
        drawing.join()


def test_threads_share_one_stream_without_repeats():
    entropy = Entropy()
    drawn = []

    def work():
        drawn.extend(entropy.words(1 + i % 90) for i in range(400))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(drawn)
    assert np.unique(words).size == words.size


def test_words_handed_out_are_wiped_and_belong_to_the_caller():
    entropy = Entropy()
    words = entropy.words(100)
    held = [kept for kept in gc.get_referents(entropy) if isinstance(kept, np.ndarray)]
    assert held
    assert not any(np.isin(words, kept).any() for kept in held)
    words[:] = 0
    assert entropy.words(100).all()


@pytest.mark.parametrize("size", [3, 1000, 5000])
def test_a_secret_stream_gets_a_new_key_in_time_and_a_seeded_one_never(size):
    """Looked at from where memory is read: the cipher that a stream holds is another."""

    def cipher(entropy):
        (found,) = (kept for kept in gc.get_referents(entropy) if "cipher" in type(kept).__name__.lower())
        return found

    for entropy, keys in [(Entropy(), 2), (Entropy.insecure(1), 1)]:
        entropy.words(WORDS_PER_KEY - 50 * size - 2048)
        ciphers = [cipher(entropy)]
        for _ in range(100 + 4096 // size):
            entropy.words(size)
            if ciphers[-1] is not cipher(entropy):
                ciphers.append(cipher(entropy))
        assert len(ciphers) == keys


def worst_bit(words: np.ndarray) -> float:
    """The largest deviation of a bit's mean from one half, in standard deviations."""
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=0).astype(float)
    return np.abs(ones - words.size / 2).max() / np.sqrt(words.size / 4)


def test_every_bit_is_fair_and_a_bias_of_one_per_cent_would_show():
    words = Entropy.insecure(8).words(200_000)
    assert worst_bit(words) < 4.5
    words[::50] |= np.uint64(1 << 17)
    assert worst_bit(words) > 4.5
