"""`Estimate`: the public result of a statistic, with what it cost and promises; as JSON and as a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any, Final, final

from qrelease._util.brief import brief
from qrelease._util.texts import aligned
from qrelease.errors import InvalidInput
from qrelease.privacy.costs import Cost, Neighbours, Spend, cost_from_json
from qrelease.privacy.unit import Unit
from qrelease.statistics.base import BETA, EstimateResult, Measured, Value

FORMAT: Final = 1

_INSECURE: Final = "INSECURE: the noise did not come from the system's entropy and protects nobody"

_SHOWN: Final = ("value", "interval", "statistic", "parameters", "dataset", "cost", "promise", "unit", "insecure")
"""What the repr has."""

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}"
    ".value{font-size:2rem}.alarm{color:#b00}"
)


@final
@dataclass(frozen=True)
class Estimate:
    """The result of a statistic: public, so it can be given away.

    Attributes
    ----------
    value, interval, method, covers, measured, choices, typical
        As in `EstimateResult`.
    confidence
        The probability with which the interval holds, 1 - β.
    statistic, parameters
        The statistic's name, and its public parameters.
    dataset, neighbours, cost, spends
        Whose records, what is protected, what was charged and for what it was spent.
    promise
        With probability 1 - β the error is at most this, by the statistic's theorem for the number of records that was
        measured, or is public; None where nothing is promised.
    unit
        What the errors in `promise` and `typical` are counted in.
    insecure
        Whether the noise came from a generator that protects nobody.
    least_error
        Of means: what no private estimate of them at this cost undercuts on all tables of as many records, with what
        was clipped within its bounds; a bound on the root mean square error over the noise and over the columns, see
        `statistics.lower_bounds.least_error`. None for everything else, or where records were not counted.
    at_most
        How many records of a person were kept, where the unit is a person with several: what was measured is of those
        records, and `cost`, `spends` and `neighbours` are of persons. None where the unit has one record.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> table = qr.Table(qr.Domain.coded({"age": 100}), (np.arange(2000) % 80,))
    >>> with qr.Ledger.open(None, qr.PureDP(1.0), dataset="people") as ledger:
    ...     found = qr.Curator(table, ledger).estimate(qr.Quantile("age"), qr.PureDP(1.0))
    >>> found.statistic, Estimate.from_json(found.to_json()) == found
    ('quantile', True)
    """

    value: Value
    interval: Any
    method: str
    covers: str
    confidence: float
    statistic: str
    parameters: Mapping[str, Any]
    dataset: str
    neighbours: Neighbours
    cost: Cost
    spends: tuple[Spend, ...]
    measured: tuple[Measured, ...]
    choices: Mapping[str, Any]
    typical: float | None
    promise: float | None
    unit: str
    least_error: float | None = None
    insecure: bool = False
    at_most: int | None = None

    @classmethod
    def of(cls, result: EstimateResult, **facts: Any) -> Estimate:
        """Make an estimate from a statistic's result and the facts of its charge.

        Parameters
        ----------
        result : EstimateResult
            What the statistic found.
        **facts
            The other attributes of `Estimate`, by name.

        Returns
        -------
        Estimate
            Equal to what `load` gives after `save`: lists are tuples.
        """
        held = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in ("records", "widths")}
        made = cls(**held, confidence=1 - BETA, **facts)
        return cls.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False)))

    def to_json(self) -> dict[str, Any]:
        """Plain types; `load` reads them back."""
        return {
            "format": FORMAT,
            "insecure": _INSECURE if self.insecure else None,
            "statistic": self.statistic,
            "parameters": dict(self.parameters),
            "dataset": self.dataset,
            "neighbours": self.neighbours.value,
            "cost": self.cost.to_json(),
            "at_most": self.at_most,
            "value": self.value,
            "interval": self.interval,
            "confidence": self.confidence,
            "method": self.method,
            "covers": self.covers,
            "promise": self.promise,
            "unit": self.unit,
            "typical": self.typical,
            "least_error": self.least_error,
            "choices": dict(self.choices),
            "measured": [m.to_json() for m in self.measured],
            "spends": [s.to_json() for s in self.spends],
        }

    def save(self, path: str | Path) -> None:
        """Write the estimate to two new files, `path`.json and `path`.html.

        Parameters
        ----------
        path : str or Path
            Without a suffix; one that it has is replaced.

        Raises
        ------
        InvalidInput
            Where one of them is there already.
        """
        texts = {".json": json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n", ".html": self.html()}
        files = {Path(path).with_suffix(suffix): text for suffix, text in texts.items()}
        for file in files:
            if file.exists():
                raise InvalidInput(f"{file} is there already")
        for file, text in files.items():
            file.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Estimate:
        """Read the estimate that `save` wrote.

        Parameters
        ----------
        path : str or Path
            As `save` had it: `path`.json is read.

        Returns
        -------
        Estimate
            Equal to the one that was saved.

        Raises
        ------
        InvalidInput
            For a file that is no estimate of this version.
        """
        file = Path(path).with_suffix(".json")
        try:
            return cls.from_json(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InvalidInput(f"{file} is no estimate of this version") from None

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Estimate:
        """The estimate that `to_json` described.

        Parameters
        ----------
        held : dict
            The content of the file.

        Returns
        -------
        Estimate
            Equal to the one that was described.

        Raises
        ------
        ValueError, TypeError, KeyError
            For anything that `to_json` does not write.
        """
        parts = {name: _listed(value) for name, value in held.items()}
        if parts.pop("format") != FORMAT:
            raise ValueError("another format")
        parts["insecure"] = parts["insecure"] is not None
        parts["neighbours"] = Neighbours.parse(parts["neighbours"])
        parts["cost"] = cost_from_json(parts["cost"])
        parts["measured"] = tuple(Measured(**m) for m in parts["measured"])
        parts["spends"] = tuple(Spend(s.pop("what"), cost_from_json(s)) for s in parts["spends"])
        return cls(**parts)

    def html(self) -> str:
        """One self-contained page for people."""
        rows = {
            "interval": self._interval(),
            "of": self.covers,
            "method": self.method,
            "promised": self._promise(),
            "typical error": "not known" if self.typical is None else f"{self.typical:.6g} {self.unit}",
            **({} if self.least_error is None else {"least error": self._least()}),
            "cost": self._cost(),
            "statistic": f"{self.statistic}: {_spelled(self.parameters)}",
            "chosen": _spelled(self.choices) or "nothing",
        }
        drawn = [f"<tr><td>{escape(m.what)}<td>{escape(_number(m.value))}<td>{escape(m.law)}" for m in self.measured]
        spent = [f"<tr><td>{escape(s.what)}<td>{escape(format(s.cost, '.6g'))}" for s in self.spends]
        alarm = f'<p class="alarm">{_INSECURE}</p>' if self.insecure else ""
        title = escape(f"{self.statistic} of {self.dataset}")
        facts = "".join(f"<tr><th>{name}<td>{escape(text)}" for name, text in rows.items())
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title><style>{_STYLE}</style></head><body><main>{alarm}<h1>{title}</h1>"
            f'<p class="value">{escape(_number(self.value))}</p><table>{facts}</table>'
            f"<h2>Measured</h2><table>{''.join(drawn)}</table><h2>Spent</h2><table>{''.join(spent)}</table></main>"
            "</body></html>\n"
        )

    def _values(self) -> list[str]:
        """The value and its interval; of groups, a line for each."""
        groups = self.choices.get("groups")
        if not groups or not isinstance(self.value, tuple):
            return [f"{self.statistic}  {_number(self.value)}", f"interval  {self._interval()}: {self.covers}"]
        about = "" if self.interval is None else f"; with intervals, of all together {self.confidence:.0%}"
        intervals = [""] * len(groups) if self.interval is None else map(_number, self.interval)
        rows = zip(map(str, groups), map(_number, self.value), intervals, strict=True)
        return [f"{self.statistic}  {self.covers}{about}", *(f"  {line}" for line in aligned([*rows]))]

    def _interval(self) -> str:
        return "none" if self.interval is None else f"{_number(self.interval)}, {self.confidence:.0%}"

    def _cost(self) -> str:
        return f"{self.cost:.6g}, {Unit(self.neighbours, self.at_most)}"

    def _promise(self) -> str:
        if self.promise is None:
            return (
                "no bound on the error, though the privacy is as promised: the statistic's error_bound has none (None)"
                ", or only for more records or a larger cost, or the records were not counted"
            )
        return f"error at most {self.promise:.6g} {self.unit}, with probability {self.confidence:g}"

    def _least(self) -> str:
        return f"{self.least_error:.6g}: no estimate at this cost has less on all tables of as many records"

    def __repr__(self) -> str:
        return brief(self, _SHOWN)

    def __str__(self) -> str:
        """A few lines for a terminal."""
        lines = [
            *self._values(),
            f"promise   {self._promise()}",
            *([] if self.least_error is None else [f"least     {self._least()}"]),
            f"cost      {self._cost()}",
        ]
        return "\n".join([*([_INSECURE] if self.insecure else []), *lines])


def _listed(value: Any) -> Any:
    """The value with tuples for lists, as JSON knows no tuples."""
    if isinstance(value, list | tuple):
        return tuple(map(_listed, value))
    return {key: _listed(part) for key, part in value.items()} if isinstance(value, Mapping) else value


def _number(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_number, value))})"
    if isinstance(value, Mapping):
        return _spelled(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _spelled(parts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_number(_listed(value))}" for name, value in parts.items())
