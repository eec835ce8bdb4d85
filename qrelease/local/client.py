"""What every local mechanism is on a person's device, and what leaves it: one whole number in public terms.

A client's parameters are public, so it may be shown and logged; the person's value is an argument and is kept nowhere.
Every report is an integer from 0 to `size` - 1. So its bits can tell nothing that the mechanism does not say: there is
no floating-point number in it, and each input leads to a place on a declared grid before anything random is drawn.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from qrelease.errors import InvalidInput
from qrelease.local.draws import DeviceDraws, ExactDraws, checked_epsilon, factor

if TYPE_CHECKING:
    from qrelease.noise.entropy import WordSource

_TERMS_BYTES: Final = 4
_KEYS: Final = {"terms", "report"}


@final
@dataclass(frozen=True)
class Report:
    """What a device sends: a number, and the fingerprint of the public terms under which it was drawn.

    Attributes
    ----------
    code : int
        From 0 to the client's size - 1.
    terms : str
        8 hexadecimal digits; they tell mechanisms apart, and are no signature.
    width : int
        Bytes of the number on the wire, the same for every report in these terms.
    """

    terms: str
    code: int
    width: int

    def to_json(self) -> str:
        """One JSON object: `{"terms": "…", "report": "…"}`, both hexadecimal, of the same length for all reports."""
        return json.dumps({"terms": self.terms, "report": self.code.to_bytes(self.width, "big").hex()})

    def to_bytes(self) -> bytes:
        """The fingerprint and the number, big-endian: 4 + width bytes. `InvalidInput` for parts that do not fit."""
        try:
            return bytes.fromhex(self.terms) + self.code.to_bytes(self.width, "big")
        except (ValueError, TypeError, AttributeError, OverflowError):
            raise InvalidInput("a report has hexadecimal terms, and a number that its width holds") from None


@dataclass(frozen=True)
class Client(ABC):
    """A local mechanism on a person's device, at ε for each report.

    Parameters
    ----------
    epsilon
        The privacy loss of one report, a number from 2^-40 to 32: no report is more than e^ε times as likely for one
        value as for another, exactly.
    """

    name: ClassVar[str]
    epsilon: float | Fraction

    def __post_init__(self) -> None:
        exact = checked_epsilon(self.epsilon)
        if type(self.epsilon) not in (int, float, Fraction):
            self._set("epsilon", exact)

    @final
    def _set(self, name: str, value: Any) -> None:
        """Put a parameter as Python's own type: numpy's integers overflow, and weights are larger than 64 bits."""
        object.__setattr__(self, name, value)

    @property
    @abstractmethod
    def inputs(self) -> int:
        """How many places on the input grid there are."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many different reports there are."""

    @property
    def unused(self) -> tuple[tuple[int, int], ...]:
        """Ranges [first, end) of numbers below `size` that no report has, ascending: a server refuses them as lies."""
        return ()

    @abstractmethod
    def place(self, value: Any) -> int:
        """The place of a value on the input grid, from 0 to `inputs` - 1. `InvalidInput` for what is no value."""

    @abstractmethod
    def draw(self, place: int, draws: DeviceDraws) -> int:
        """The number of a report for a value at this place."""

    @final
    def report(self, value: Any, entropy: WordSource) -> Report:
        """Randomise a value.

        Parameters
        ----------
        value
            The person's own value. It is not kept, and appears in no error.
        entropy
            A source of random words: `DeviceEntropy()` on a device.

        Raises
        ------
        InvalidInput
            For what is no value of this mechanism. Nothing has been drawn then.
        """
        return Report(self.terms, self.draw(self.place(value), ExactDraws(entropy)), self.width)

    @cached_property
    def odds(self) -> Fraction:
        """The rational number just below e^ε by which reports of one value are at most likelier than of another."""
        return factor(checked_epsilon(self.epsilon))

    @property
    def width(self) -> int:
        """Bytes of a report's number on the wire."""
        return max(1, -(-(self.size - 1).bit_length() // 8))

    def to_json(self) -> dict[str, Any]:
        """The public terms as plain types."""
        found: dict[str, Any] = {"mechanism": self.name}
        for field in fields(self):
            found[field.name] = _plain(getattr(self, field.name))
        return found

    @cached_property
    def terms(self) -> str:
        """The fingerprint of the public terms, 8 hexadecimal digits."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).digest()[:_TERMS_BYTES].hex()

    @final
    def read_json(self, text: str | bytes) -> Report:
        """A report that came as JSON, in the one text that `Report.to_json` writes. `InvalidInput` for anything else.

        Blanks elsewhere, another order and doubled names are refused: they could carry what the mechanism does not say.
        """
        if not isinstance(text, str | bytes) or len(text) > 64 + 2 * self.width:
            raise InvalidInput(f"a report in these terms is at most {64 + 2 * self.width} characters of JSON")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidInput("the report is not JSON") from None
        if not isinstance(found, dict) or set(found) != _KEYS or not all(isinstance(v, str) for v in found.values()):
            raise InvalidInput('a report is a JSON object with the texts "terms" and "report"')
        try:
            octets = bytes.fromhex(found["terms"]) + bytes.fromhex(found["report"])
        except ValueError:
            raise InvalidInput("the numbers of a report must be hexadecimal") from None
        report = self.read_bytes(octets)
        if (found["terms"], found["report"]) != (report.terms, octets[_TERMS_BYTES:].hex()):
            raise InvalidInput("the numbers of a report must be in lower-case hexadecimal digits and nothing else")
        if text not in (report.to_json(), report.to_json().encode()):
            raise InvalidInput(f"a report is one text, {report.to_json()} here: no other blanks, order or names")
        return report

    @final
    def read_bytes(self, octets: bytes) -> Report:
        """A report that came as compact bytes. `InvalidInput` for another length, other terms, a number none has."""
        if not isinstance(octets, bytes | bytearray | memoryview):
            raise InvalidInput(f"a report is bytes, got {type(octets).__name__}")
        octets = bytes(octets)
        if len(octets) != _TERMS_BYTES + self.width:
            raise InvalidInput(f"a report in these terms has {_TERMS_BYTES + self.width} bytes, got {len(octets)}")
        if octets[:_TERMS_BYTES].hex() != self.terms:
            raise InvalidInput(f"the report is in the terms {octets[:_TERMS_BYTES].hex()}, expected {self.terms}")
        code = int.from_bytes(octets[_TERMS_BYTES:], "big")
        if code >= self.size:
            raise InvalidInput(f"the number of a report must be below {self.size}, got {code}")
        if any(first <= code < end for first, end in self.unused):
            raise InvalidInput(f"no report in these terms has the number {code}")
        return Report(self.terms, code, self.width)


def _plain(value: Any) -> Any:
    if isinstance(value, Client):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, str):
        return value
    # Equal numbers have one text, whatever their type: 1 and 1.0, 0.5 and 1/2; a float counts at face value.
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 else str(exact)


def checked_place(name: str, value: object, size: int) -> int:
    """`value` as an integer from 0 to size - 1; `InvalidInput`, which does not name it, otherwise."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidInput(f"{name} must be an integer from 0 to {size - 1}, got another type")
    place = value.__index__()
    if not 0 <= place < size:
        raise InvalidInput(f"{name} must be an integer from 0 to {size - 1}, got one outside")
    return int(place)
