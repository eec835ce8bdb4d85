"""What a mechanism is predicted to do, and which one was chosen by that: in words, and as a release keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from qrelease._util.texts import rounded


@final
@dataclass(frozen=True)
class Prediction:
    """What one mechanism is expected to do.

    error  the root mean squared error of an answer, records; None where it was not predicted
    why    where that comes from, or why there is none
    l1     the mean L1 distance of the normalised marginals; None where it was not predicted
    """

    mechanism: str
    error: float | None
    why: str
    l1: float | None = None

    @property
    def measure(self) -> float | None:
        """What predictions of one workload are compared by: the L1, where there is one."""
        return self.error if self.l1 is None else self.l1

    @property
    def figures(self) -> str:
        """The error in words; empty where there is none."""
        return "" if self.error is None else f"answers off by about {rounded(self.error)} records (root mean square)"

    def briefly(self, fewer: float = 1.0) -> str:
        """The mechanism and its error; that of many empty cells says little, so what share of records it is, too.

        fewer  how many records there seem to be, over how many the error was predicted for: at most 1
        """
        share = (
            ""
            if self.l1 is None
            else f"; {min(self.l1 / 2 / fewer, 1):.2g} of a marginal's records are in another cell"
        )
        return f"{self.mechanism}: {self.figures + share if self.figures else self.why}"

    def __str__(self) -> str:
        compared = "" if self.l1 is None else f"mean L1 error {self.l1:.3g}, by which mechanisms are compared"
        return f"{self.mechanism}: {'; '.join(part for part in (self.figures, compared, self.why) if part)}"


def explained(parameters: Mapping[str, Any], *, briefly: bool = False) -> str:
    """A line for each mechanism, from the parameters of a release that was made by `Auto`; and what the choice cost.

    briefly  the line of the chosen one alone
    """
    found = [Prediction(**p) for p in parameters["predictions"]]
    if briefly:
        fewer = 1.0
        known = parameters.get("records")  # None of a mechanism that counts none
        if known is not None and "predicted_for" in parameters:  # a small table has fewer than were planned for
            fewer = min(max(known, 1.0) / parameters["predicted_for"], 1.0)
        return next(f"chosen {p.briefly(fewer)}" for p in found if p.mechanism == parameters["chosen"])
    lines = [f"{'chosen' if p.mechanism == parameters['chosen'] else 'not'} {p}" for p in found]
    return "\n".join([*lines, *([f"to choose: {parameters['to_choose']}"] if "to_choose" in parameters else [])])
