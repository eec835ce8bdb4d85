"""What every result of an attack has in common: its text and its JSON say that it is not private."""

from dataclasses import asdict
from typing import Any

from qrelease.evaluation.results import NOTICE


class NotPrivate:
    """A frozen dataclass that was compared with the truth."""

    def __str__(self) -> str:
        return f"{NOTICE}\n{self!r}"

    def to_json(self) -> dict[str, Any]:
        """Its fields, with the notice."""
        return {**asdict(self), "notice": NOTICE}  # type: ignore[call-overload]
