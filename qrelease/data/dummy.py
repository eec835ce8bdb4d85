"""Dummy tables: records that have the shape of a schema and tell nothing of any data, to try code on."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from qrelease._util.validate import whole
from qrelease.data.attribute import Attribute
from qrelease.data.decoding import decode
from qrelease.data.domain import Domain
from qrelease.data.sources.encoding import domain_of_records
from qrelease.data.structural_zeros import masks
from qrelease.errors import InvalidInput

MAX_ROWS: Final = 10_000_000
"""Of one dummy table."""

_TRIES: Final = 1000
"""How often records that cannot be are drawn again."""

_MOST_OF_A_PERSON: Final = 3


def dummy_codes(domain: Domain, rows: int, rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
    """Codes, one array (rows,) a column: of each column every cell alike, by itself, without impossible records.

    Raises `InvalidInput` where the rules leave hardly any record that can be.
    """
    codes = [rng.integers(attribute.size, size=rows) for attribute in domain]
    rules = masks(domain, domain.impossible)
    again = np.arange(rows)
    for _ in range(_TRIES):
        wrong = np.zeros(len(again), bool)
        for axes, mask in rules.items():
            shape = [domain.shape[axis] for axis in axes]
            wrong |= mask[np.ravel_multi_index([codes[axis][again] for axis in axes], shape)]
        again = again[wrong]
        if not len(again):
            return codes
        for axis, attribute in enumerate(domain):
            codes[axis][again] = rng.integers(attribute.size, size=len(again))
    raise InvalidInput("the schema's [[impossible]] rules leave too few possible records to draw a dummy table")


def dummy_table(domain: Domain, rows: int = 1000, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """A dummy table: values as the data have them, drawn from the schema alone.

    Where the schema has a `[person]`, its column is there too, each person with a few records; and where columns are
    derived of a person's records, the table is of those records.

    Parameters
    ----------
    domain
        The public schema, with nothing left to be learned.
    rows
        Records, at most ten million.
    seed
        Of an ordinary generator: nothing here is secret.

    Returns
    -------
    dict
        Columns (rows,) of values by name.

    Raises
    ------
    InvalidInput
        For a schema that leaves something open, or hardly any record that can be.

    Examples
    --------
    >>> from qrelease.data.domain import Attribute, Domain
    >>> domain = Domain((Attribute("sex", "category", categories=("F", "M")), Attribute("grade", "coded", codes=3)))
    >>> {name: values.tolist() for name, values in dummy_table(domain, 4).items()}
    {'sex': ['M', 'M', 'M', 'F'], 'grade': [0, 0, 0, 0]}
    """
    if whole("rows", rows, least=1) > MAX_ROWS:
        raise InvalidInput(f"a dummy table has at most {MAX_ROWS:,} rows, got {rows:,}")
    rng = np.random.default_rng(seed)
    person = domain.person
    if person is not None and person.derive:
        domain = domain_of_records(domain)
    domain.check_decided()
    codes = dummy_codes(domain, rows, rng)
    values = {a.name: _as_written(a, c, decode(a, c, rng)) for a, c in zip(domain, codes, strict=True)}
    if person is None:
        return values
    most = _MOST_OF_A_PERSON if person.derive else min(person.at_most or 1, _MOST_OF_A_PERSON)
    numbers = np.repeat(np.arange(rows), rng.integers(1, most + 1, size=rows))[:rows]
    return {person.column: np.array([f"p{number}" for number in numbers.tolist()], dtype=object), **values}


def _as_written(attribute: Attribute, codes: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values (n,) of cells as the data have them."""
    if attribute.writing.is_plain:
        return values
    pairs = zip(codes.tolist(), values.tolist(), strict=True)
    found = [value if code == attribute.values else attribute.writing.written(str(value)) for code, value in pairs]
    return np.array(found, dtype=object)
