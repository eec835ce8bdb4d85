"""Client for long texts: which are common is found prefix by prefix. No numpy.

Each person is given a length by chance and reports, by local hashing, the first so many characters of her text. The
server keeps the prefixes of one length that many people have, extends each by every character, and so on: it never
looks through all texts, of which there are too many (Bassily & Smith 2015; PEM: Wang, Li & Jha 2019).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, final

from qrelease._util.validate import whole
from qrelease.errors import InvalidInput
from qrelease.local.categories import LocalHashing
from qrelease.local.client import Client
from qrelease.local.draws import DeviceDraws

MAX_LENGTH: Final = 256
FINGERPRINT: Final = 5
"""Bytes of a prefix's fingerprint: two of a thousand prefixes share one with a probability below 10^-6."""


@final
@dataclass(frozen=True)
class Text(Client):
    """A prefix of a text, by local hashing.

    Parameters
    ----------
    epsilon
        As of every `Client`.
    alphabet
        The characters that a text may have, each once.
    length
        How many characters of a text count, at most 256.
    step
        By how many characters prefixes grow: fewer lengths mean more people for each, but more candidates.
    """

    name: ClassVar[str] = "text"
    alphabet: str
    length: int
    step: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.alphabet, str) or len(set(self.alphabet)) != len(self.alphabet) or not self.alphabet:
            raise InvalidInput("the alphabet must be a text of different characters")
        self._set("length", whole("length", self.length, least=1))
        self._set("step", whole("step", self.step, least=1))
        if self.length > MAX_LENGTH:
            raise InvalidInput(f"length must be at most {MAX_LENGTH}, got {self.length}")
        if self.step > self.length:
            raise InvalidInput(f"step must be at most the length {self.length}, got {self.step}")

    @property
    def levels(self) -> int:
        """How many different lengths of prefixes there are."""
        return -(-self.length // self.step)

    @cached_property
    def hashing(self) -> LocalHashing:
        """How a prefix is reported, by its fingerprint."""
        return LocalHashing(self.epsilon, 1 << 8 * FINGERPRINT)

    @property
    def inputs(self) -> int:
        """All texts, with an end sign for each character that is missing."""
        return int((len(self.alphabet) + 1) ** self.length)

    @property
    def size(self) -> int:
        """Lengths times the reports of `hashing`."""
        return self.levels * self.hashing.size

    def place(self, value: object) -> int:
        """The text as a number; what is longer than `length` is cut. `InvalidInput` for other characters."""
        if not isinstance(value, str):
            raise InvalidInput("the value must be a text, got another type")
        if not set(value[: self.length]) <= set(self.alphabet):
            raise InvalidInput("the value must be a text over the alphabet, got another character")
        total, base = 0, len(self.alphabet) + 1
        for place in range(self.length):
            total = total * base + (self.alphabet.index(value[place]) + 1 if place < len(value) else 0)
        return total

    def text(self, place: int) -> str:
        """The text of a place."""
        characters = []
        for _ in range(self.length):
            place, digit = divmod(place, len(self.alphabet) + 1)
            characters.append(self.alphabet[digit - 1] if digit else "")
        return "".join(reversed(characters))

    def prefix_length(self, level: int) -> int:
        """The length of the prefixes of this level, in characters."""
        return min((level + 1) * self.step, self.length)

    def fingerprint(self, level: int, prefix: str) -> int:
        """A public number of 40 bits for a prefix, the same on every device."""
        ended = prefix[: self.prefix_length(level)].ljust(self.prefix_length(level), "\0")
        octets = hashlib.sha256(f"{level} {ended}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(octets[:FINGERPRINT], "big")

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """A level, uniformly, and the hashed fingerprint of that prefix."""
        level = draws.below(self.levels)
        report = self.hashing.draw(self.fingerprint(level, self.text(place)), draws)
        return level * self.hashing.size + report
