"""How a record is compared with the one that is stored: numbers to 1e-9, everything else exactly.

Fits are sums of floating-point numbers, whose last digits differ between kinds of processors, as their matrix kernels
add in different orders. Where the arithmetic is not that of the machine on which the records were made, releases are
compared by their essence: what was charged, what was drawn, and answers to one record or one hundredth.
"""

import math
import re
from functools import cache
from hashlib import sha256

import numba
import numpy as np
import scipy
from llvmlite import binding

CLOSE = 1e-9
"""Of floating-point numbers: relative, or absolute near 0."""


@cache
def arithmetic():
    """A digest of the processor, and of what it makes of products, factorisations and functions, to the last bit."""
    rng = np.random.default_rng(0)
    versions = f"{np.__version__} {scipy.__version__} {numba.__version__}"
    processor = (
        f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"  # what kernels are made for
    )
    digest = sha256(f"{versions} {processor}".encode())
    for size in (5, 33, 257):
        a, b = rng.standard_normal((2, size, size + 3))
        square = a @ b.T
        gram = a @ a.T + size * np.eye(size)
        x = np.abs(a[0]) + 0.1
        found = [
            square,
            a.T @ b[:, 0],
            a[0] @ b[0],
            np.linalg.cholesky(gram),
            np.linalg.solve(gram, b),
            np.linalg.eigh(gram),
        ]
        found += [np.linalg.svd(square), np.exp(a), np.log(x), np.tanh(a), x**0.3, a.sum(0), a.sum(1)]
        for part in found:
            for array in part if isinstance(part, tuple) else (part,):
                digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


ESSENCE = ("refused", "charged", "history", "total", "answers", "more answers", "loaded", "has table")
"""Of a release: what other arithmetic leaves as it is, or nearly."""


def near(stored, found, where=""):
    """The first differences of the essence of two releases."""
    stored, found = ({key: record[key] for key in ESSENCE if key in record} for record in (stored, found))
    return differences(stored, found, where, relative=0.01, absolute=1.0)


def differences(stored, found, where="", most=10, relative=CLOSE, absolute=CLOSE):
    """The first differences of two JSON values, a line each."""
    return [line for line, _ in zip(_walk(stored, found, where, relative, absolute), range(most), strict=False)]


def _walk(stored, found, where, *close):
    if isinstance(stored, dict) and isinstance(found, dict):
        for key in {**stored, **found}:
            if key not in stored or key not in found:
                yield f"{where}/{key}: only in what {'is found' if key in found else 'is stored'}"
            else:
                yield from _walk(stored[key], found[key], f"{where}/{key}", *close)
    elif isinstance(stored, list) and isinstance(found, list):
        if len(stored) != len(found):
            yield f"{where}: {len(stored)} items stored, {len(found)} found"
        for i, (a, b) in enumerate(zip(stored, found, strict=False)):
            yield from _walk(a, b, f"{where}/{i}", *close)
    elif type(stored) is not type(found) or not _same(stored, found, *close):
        yield f"{where}: stored {stored!r}, found {found!r}"


def _same(stored, found, relative, absolute):
    if isinstance(stored, float):
        both = math.isnan(stored) and math.isnan(found)
        return both or math.isclose(stored, found, rel_tol=relative, abs_tol=absolute)
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
