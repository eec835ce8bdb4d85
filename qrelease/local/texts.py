"""Client for long texts: which are common is found prefix by prefix. No numpy.

Each person is given a length by chance and reports, by local hashing, the first so many characters of her text. The
server keeps the prefixes of one length that many people have, extends each by every character, and so on: it never
looks through all texts, of which there are too many (Bassily & Smith 2015; PEM: Wang, Li & Jha 2019).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, final

from qrelease._util.validate import whole
from qrelease.errors import InvalidInput
from qrelease.local.categories import LocalHashing
from qrelease.local.client import Client
from qrelease.local.draws import DeviceDraws

MAX_LENGTH: Final = 256
MAX_PARTS: Final = 1 << 16
"""By how many different texts a prefix may grow at once."""

_LARGEST_TABLE: Final = 1 << 24  # counts that the server needs for one prefix
_BEGINNING: Final = range(30, 41)  # bits of the fingerprint of how a prefix begins


@final
@dataclass(frozen=True)
class Text(Client):
    """A prefix of a text, by local hashing.

    What is hashed has two parts: a fingerprint of how the prefix begins, which is the prefix of the length before, and
    the `step` characters that follow. So a server hashes a beginning once, not each of the prefixes that it grows to.

    Parameters
    ----------
    epsilon
        As of every `Client`.
    alphabet
        The characters that a text may have, each once.
    length
        How many characters of a text count, at most 256.
    step
        By how many characters prefixes grow: fewer lengths mean more people for each, but more candidates. With an
        end sign there are (alphabet + 1)^step texts to grow by, which may be 65 536 at most.
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
        few = self.parts <= MAX_PARTS and self._g ** (self.part_digits + 1) <= _LARGEST_TABLE
        if not few or self._g**self._beginning_digits < 1 << _BEGINNING[0]:
            raise InvalidInput("prefixes would grow by too many texts at once: take a smaller step or alphabet")

    @property
    def levels(self) -> int:
        """How many different lengths of prefixes there are."""
        return -(-self.length // self.step)

    @property
    def parts(self) -> int:
        """By how many different texts a prefix may grow."""
        return int((len(self.alphabet) + 1) ** self.step)

    @cached_property
    def _g(self) -> int:
        return LocalHashing(self.epsilon, 2).g

    @cached_property
    def part_digits(self) -> int:
        """How many digits to the base of `hashing` the last part of a prefix has: the lowest of its category."""
        return LocalHashing(self.epsilon, self.parts).digits

    @cached_property
    def _beginning_digits(self) -> int:
        """Digits of a beginning's fingerprint: 40 bits, or as many as leave a report of 64 bits."""
        digits = 0
        while self._g**digits < 1 << _BEGINNING[-1]:
            if self.levels * self._g ** (digits + self.part_digits + 2) > 1 << 64:
                break
            digits += 1
        return digits

    @cached_property
    def hashing(self) -> LocalHashing:
        """How a prefix is reported, by its `category`."""
        return LocalHashing(self.epsilon, self._g ** (self._beginning_digits + self.part_digits))

    def to_json(self) -> dict[str, Any]:
        """The public terms as plain types, with those of `hashing`."""
        return super().to_json() | {"hashing": self.hashing.to_json()}

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

    def beginning(self, level: int, prefix: str) -> int:
        """A public number for the prefix of the length before this level's, the same on every device.

        Two of the 64 prefixes that are kept share one with a probability of at most 2 in a million.
        """
        length = self.prefix_length(level - 1) if level else 0
        octets = hashlib.sha256(f"{level} {prefix[:length]}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(octets[:16], "big") % int(self._g**self._beginning_digits)

    def part(self, level: int, prefix: str) -> int:
        """The characters that this level adds, as a number below `parts`; where the text has ended, the end sign's."""
        total, first = 0, self.prefix_length(level - 1) if level else 0
        for place in range(first, first + self.step):
            there = place < min(len(prefix), self.prefix_length(level))
            total = total * (len(self.alphabet) + 1) + (self.alphabet.index(prefix[place]) + 1 if there else 0)
        return total

    def category(self, level: int, prefix: str) -> int:
        """What `hashing` reports of the prefix that a text has at this level."""
        return self.beginning(level, prefix) * int(self._g**self.part_digits) + self.part(level, prefix)

    def draw(self, place: int, draws: DeviceDraws) -> int:
        """A level, uniformly, and the hashed category of that prefix."""
        level = draws.below(self.levels)
        report = self.hashing.draw(self.category(level, self.text(place)), draws)
        return level * self.hashing.size + report
