"""The fields of a manifest, checked: an error is one line that names the field."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from qrelease._util.typing import Floats
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, QReleaseError
from qrelease.queries.workload import Workload


@contextlib.contextmanager
def reading(field: str) -> Iterator[None]:
    """Whatever is wrong with what is read, as one line that names the field."""
    try:
        yield
    except QReleaseError as error:
        raise type(error)(f"{field}: {error}") from None
    except KeyError as error:
        raise InvalidInput(f"{field}: {error} is missing") from None
    except (TypeError, AttributeError, ValueError, IndexError, ArithmeticError, EOFError, RecursionError) as error:
        raise InvalidInput(f"{field}: {type(error).__name__}: {error}") from None


def value_of(field: str, value: Any, *kinds: type | None) -> Any:
    """A value of one of some kinds; `InvalidInput` for another."""
    if type(value) not in [type(kind) if kind is None else kind for kind in kinds]:
        wanted = " or ".join("null" if kind is None else kind.__name__ for kind in kinds)
        raise InvalidInput(f"{field}: must be {wanted}, got {type(value).__name__}")
    return value


def queries(domain: Domain, content: Sequence[Mapping[str, Any]]) -> Workload:
    """Entries that describe their queries as these describe themselves: nothing is rounded, sorted or passed over."""
    found = Workload.from_json(domain, value_of("they", content, list))
    for i, (group, entry) in enumerate(zip(found.groups, content, strict=True)):
        said = {"columns": [domain.names[a] for a in group.axes], **group.queries.to_json()}
        for field, value in said.items():
            if entry[field] != value:
                raise InvalidInput(f"entry {i}: {field}: these are not queries as a release describes them")
    return found


def floats(field: str, content: object, length: int) -> Floats:
    """A field of so many finite numbers."""
    found = np.array(content)
    if found.shape != (length,) or (length and found.dtype.kind not in "if") or not np.isfinite(found).all():
        raise InvalidInput(f"{field}: must be {length:,} finite numbers")
    return found.astype(np.float64)
