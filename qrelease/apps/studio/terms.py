"""The settings of a release as arguments of `qrelease release`, checked and priced.

The words are the only form in which terms are handed on: the price is of them, the release is made from them, and the
script that is exported has them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, final

from qrelease.data.domain import Domain
from qrelease.data.schema import load
from qrelease.errors import InvalidInput
from qrelease.privacy.costs import Neighbours

MAX_PARTS: Final = 100
"""Parts of a workload, and questions about numbers."""

_OPTIONAL: Final = ("delta", "total_epsilon", "total_delta")
_FIELDS: Final = ("epsilon", "delta", "workload", "numbers", "neighbours", "total_epsilon", "total_delta")


class Program(Protocol):
    """What the command line does with the words of a release; it hands itself in, so that nothing is done twice."""

    def parsed(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments; `InvalidInput` for words that are wrong."""

    def price(self, arguments: argparse.Namespace, records: int) -> dict[str, Any]:
        """What the arguments cost and what is predicted of them, for about so many records; reads no data."""

    def curve(self, arguments: argparse.Namespace, records: int) -> list[dict[str, Any]]:
        """The predicted quality at several ε."""

    def account(self, arguments: argparse.Namespace) -> dict[str, Any]:
        """Where the ledger stands, and why it does not take the cost; `QReleaseError` where it is of other people."""

    def make(self, arguments: argparse.Namespace, check: Callable[[Domain], None]) -> None:
        """Charge, release and write; what is wrong with the records is said without their values.

        check  refuses the domain of the records that were read, before anything is charged
        """


@final
@dataclass(frozen=True)
class Terms:
    """What a release is to be, checked as the command line checks it.

    words      the arguments of `qrelease release`, without `--out`
    arguments  as the command line parses them
    domain     what the schema declared when they were priced: a file that is edited since is refused
    """

    words: tuple[str, ...]
    arguments: argparse.Namespace
    domain: Domain

    @classmethod
    def of(cls, program: Program, data: Path, schema: Path, given: Mapping[str, Any]) -> Terms:
        """The terms in a request's body; `InvalidInput` for what is missing, unknown, or of another type."""
        for name in given:
            if name not in _FIELDS:
                raise InvalidInput(f"{name!r} is not a setting of a release; these are: {', '.join(_FIELDS)}")
        words = [str(data), f"--schema={schema}"]
        words += [f"--workload={part}" for part in _texts(given.get("workload"), "workload", 1, "marginals:2")]
        words += [f"--numbers={part}" for part in _texts(given.get("numbers", []), "numbers", 0, "mean:age by sex")]
        if given.get("neighbours") not in [n.value for n in Neighbours]:
            raise InvalidInput(f"neighbours must be {' or '.join(n.value for n in Neighbours)}")
        words.append(f"--neighbours={given['neighbours']}")
        for name in ("epsilon", *_OPTIONAL):
            value = given.get(name)
            if value is None and name in _OPTIONAL:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InvalidInput(f"{name.replace('_', ' ')} must be a number")
            words.append(f"--{name.replace('_', '-')}={value!r}")
        return cls(tuple(words), program.parsed(words), load(schema))

    def check_schema(self, domain: Domain) -> None:
        """Raise `InvalidInput` where a schema declares another domain than the one that was priced."""
        if domain != self.domain:
            raise InvalidInput(
                f"{self.arguments.schema.name} was changed since the price was asked for: review it, and ask again"
            )


def _texts(given: Any, name: str, least: int, example: str) -> list[str]:
    """A list of texts."""
    texts = isinstance(given, list) and all(isinstance(part, str) for part in given)
    if not texts or not least <= len(given) <= MAX_PARTS:
        raise InvalidInput(f"{name} must be a list of {least} to {MAX_PARTS} texts, as {example}")
    return list(given)
