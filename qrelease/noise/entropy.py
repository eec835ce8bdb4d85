"""Random words for the samplers: an AES-256-CTR key stream, keyed from the operating system.

The samplers of `samplers` and `selection` are exact when the words are independent and uniform. Here the words are
the output of AES-256 in counter mode under a key from `os.urandom`: uniform unless AES itself is broken, so the
privacy of every release is computational in exactly this one place.

A stream is never repeated. Threads share one stream behind a lock, a forked child rekeys itself before its first
word, and an `Entropy` can be neither pickled nor copied. Words already handed out are wiped from the buffer.
"""

import hashlib
import operator
import os
import threading
import weakref
from typing import Final, NoReturn, Protocol, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from qrelease._util.typing import Words
from qrelease.errors import InvalidInput

WORDS_PER_KEY: Final = 1 << 21
"""Words after which the next request draws a new key: memory seen later tells little of the noise drawn before."""

_BUFFER_WORDS: Final = 1 << 10
"""Words fetched at once for small requests; larger requests go straight to the cipher."""

_ZEROS: Final = bytes(1 << 16)
"""What the key stream is xored with: encrypting zeros yields the stream itself."""

_SPARE_WORDS: Final = 2
"""Spare words behind a buffer: `update_into` asks for one cipher block more than it writes."""


class WordSource(Protocol):
    """What a sampler draws from: `Entropy`, or the auditor's recording and replaying stand-ins."""

    @property
    def insecure_seed(self) -> int | None:
        """The seed of a reproducible, hence insecure, stream; None for a secret one."""

    def words(self, n: int) -> Words:
        """`n` fresh uniform 64-bit words, (n,)."""


@final
class Entropy:
    """A cryptographic stream of uniform 64-bit words: thread-safe, fork-safe, never repeated.

    `Entropy()` is keyed from the operating system and is the only kind a private release may use.
    `Entropy.insecure(seed)` is reproducible, for tests; every release made with it carries its seed.

    Examples
    --------
    >>> Entropy().words(2).shape
    (2,)
    >>> Entropy.insecure(7).insecure_seed
    7
    """

    __slots__ = ("__weakref__", "_age", "_buffer", "_cipher", "_lock", "_next", "_seed")

    def __init__(self) -> None:
        self._seed: int | None = None
        self._lock = threading.Lock()
        self._buffer: Words = np.zeros(_BUFFER_WORDS, dtype=np.uint64)
        self._next = _BUFFER_WORDS
        self._start(os.urandom(32))
        _alive.add(self)

    @classmethod
    def insecure(cls, seed: int) -> "Entropy":
        """A reproducible stream, the same for the same seed on every machine: for tests only.

        Whoever knows the seed knows the noise. After a fork, the child's stream is no longer reproducible.

        Parameters
        ----------
        seed : int
            Of any size and either sign.

        Returns
        -------
        Entropy
            All that is released with it is marked as insecure.

        Raises
        ------
        InvalidInput
            For a seed that is no integer.
        """
        if isinstance(seed, bool | np.bool_):
            raise InvalidInput(f"seed must be an integer, got {seed}")
        try:
            number = operator.index(seed)
        except TypeError:
            raise InvalidInput(f"seed must be an integer, got {seed!r}") from None
        self = cls()
        self._seed = number
        self._start(hashlib.sha256(f"qrelease insecure seed {number}".encode()).digest())
        return self

    def apart(self) -> "Entropy":
        """A further stream, independent of this one and all others, for work that runs at the same time.

        It is keyed as this one is: from the operating system, or, where that has a seed, by this one's next 256 bits,
        so that it is the same whatever else is drawn at that time.
        """
        other = Entropy()
        if self._seed is not None:
            other._seed = self._seed
            key = b"qrelease insecure stream apart" + self.words(4).astype("<u8").tobytes()
            other._start(hashlib.sha256(key).digest())
        return other

    @property
    def insecure_seed(self) -> int | None:
        """The seed given to `insecure`, or None for a stream keyed from the operating system."""
        return self._seed

    def words(self, n: int) -> Words:
        """Fresh words, independent and uniform.

        Parameters
        ----------
        n : int
            How many.

        Returns
        -------
        ndarray of uint64, shape (n,)
            The caller owns it.

        Raises
        ------
        InvalidInput
            For a negative number.
        """
        if n < 0:
            raise InvalidInput(f"the number of words must not be negative, got {n}")
        with self._lock:
            if self._age >= WORDS_PER_KEY and self._seed is None:
                self._start(os.urandom(32))
            if n > _BUFFER_WORDS:
                return self._fetch(n)
            if self._next + n > _BUFFER_WORDS:
                self._buffer[:], self._next = self._fetch(_BUFFER_WORDS), 0
            # Advanced first: an interrupt in between loses words, but none is handed out twice or after its wiping.
            start, self._next = self._next, self._next + n
            taken = self._buffer[start : start + n].copy()
            self._buffer[start : start + n] = 0
            return taken

    def _fetch(self, n: int) -> Words:
        self._age += n
        fresh = np.empty(n + _SPARE_WORDS, dtype="<u8")
        view = fresh.data.cast("B")
        for start in range(0, 8 * n, len(_ZEROS)):
            block = memoryview(_ZEROS)[: 8 * n - start]
            self._cipher.update_into(block, view[start:])
        return fresh[:n].astype(np.uint64, copy=False)

    def _start(self, key: bytes) -> None:
        self._next = _BUFFER_WORDS
        self._age = 0
        # Each key is used for one stream only, so the counter may start at zero.
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise InvalidInput("an Entropy cannot be pickled or copied: its stream would be used twice")

    def __repr__(self) -> str:
        return "Entropy()" if self._seed is None else f"Entropy.insecure({self._seed})"


_alive: "weakref.WeakSet[Entropy]" = weakref.WeakSet()


def _rekey_in_child() -> None:
    # Runs in a forked child before any of its Python code: the parent's key, buffer and (perhaps held) lock go.
    for entropy in list(_alive):
        entropy._lock = threading.Lock()
        entropy._start(os.urandom(32))


if hasattr(os, "register_at_fork"):  # absent on Windows, which does not fork
    os.register_at_fork(after_in_child=_rekey_in_child)


def is_insecure(source: WordSource) -> bool:
    """Whether it is anything but the system's entropy: noise from it protects nobody."""
    return type(source) is not Entropy or source.insecure_seed is not None
