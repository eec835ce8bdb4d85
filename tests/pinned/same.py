"""How a record is compared with the one that is stored: numbers to 1e-9, everything else exactly."""

import math
import re

CLOSE = 1e-9
"""Of floating-point numbers: relative, or absolute near 0."""


def differences(stored, found, where="", most=10):
    """The first differences of two JSON values, a line each."""
    return [line for line, _ in zip(_walk(stored, found, where), range(most), strict=False)]


def _walk(stored, found, where):
    if isinstance(stored, dict) and isinstance(found, dict):
        for key in {**stored, **found}:
            if key not in stored or key not in found:
                yield f"{where}/{key}: only in what {'is found' if key in found else 'is stored'}"
            else:
                yield from _walk(stored[key], found[key], f"{where}/{key}")
    elif isinstance(stored, list) and isinstance(found, list):
        if len(stored) != len(found):
            yield f"{where}: {len(stored)} items stored, {len(found)} found"
        for i, (a, b) in enumerate(zip(stored, found, strict=False)):
            yield from _walk(a, b, f"{where}/{i}")
    elif type(stored) is not type(found) or not _same(stored, found):
        yield f"{where}: stored {stored!r}, found {found!r}"


def _same(stored, found):
    if isinstance(stored, float):
        return (math.isnan(stored) and math.isnan(found)) or math.isclose(stored, found, rel_tol=CLOSE, abs_tol=CLOSE)
    return stored == found


def figures(text):
    """A sentence without its words, which may be improved: the numbers in it, as they are written."""
    return re.findall(r"\d+(?:[.,^]\d+)*(?:e-?\d+)?", text)


def without_words(value):
    """JSON in which every text of more than three words is its figures."""
    if isinstance(value, dict):
        return {key: without_words(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_words(part) for part in value]
    return figures(value) if isinstance(value, str) and value.count(" ") > 2 else value
