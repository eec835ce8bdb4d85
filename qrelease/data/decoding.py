"""Values for cells of a column: what synthetic records show."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qrelease.data.attribute import Attribute
from qrelease.data.bin_pieces import BinPieces
from qrelease.data.grids import PointGrid

_DECIMALS_PER_BIN = 3  # a value drawn from a bin is rounded to about a thousandth of the bin


def decode(
    attribute: Attribute,
    codes: NDArray[np.integer],
    rng: np.random.Generator,
    points: NDArray[np.integer] | None = None,
) -> NDArray[np.object_]:
    """Values for cells: what synthetic records show.

    A category is its label, a code an int, a missing cell the first missing text. A bin is a value drawn uniformly
    inside it: int for whole numbers, an ISO text for dates, else a float rounded down to about a thousandth of the bin;
    on a grid one of its points. `attribute.encode(str(value))` gives the code back.

    Parameters
    ----------
    attribute : Attribute
        The column.
    codes : ndarray of int, shape (n,)
        Its cells, from 0 to `size` - 1. Public.
    rng : Generator
        Ordinary randomness, as no privacy rests on it.
    points : ndarray of int, shape (n,), optional
        The points of the column's grid that the records are at, each in its cell, where that was drawn before.

    Returns
    -------
    ndarray of object, shape (n,)
        One value for each cell.

    Examples
    --------
    >>> age = Attribute("age", "number", edges=(0, 18, 65), integer=True, missing=("?",))
    >>> values = decode(age, np.array([0, 1, 2]), np.random.default_rng(0))
    >>> [age.encode(str(value)) for value in values], values[2]
    ([0, 1, 2], '?')
    """
    if not attribute.edges and attribute.grid is None:
        found = np.empty(attribute.size, dtype=object)
        found[: attribute.values] = range(attribute.codes) if attribute.kind == "coded" else attribute.categories
        if attribute.missing:
            found[-1] = attribute.missing[0]
        decoded: NDArray[np.object_] = found[codes]
        return decoded
    inside = np.minimum(codes, attribute.values - 1).astype(np.intp)
    if attribute.grid is not None:
        found = _on_grid(attribute, attribute.grid, _points(attribute, inside, rng) if points is None else points)
        drawn = found.astype(object)
    else:
        edges = np.array(attribute.edges)
        drawn = _draw(attribute, edges[inside], edges[inside + 1], rng).astype(object)
    if attribute.missing:
        drawn[codes == attribute.values] = attribute.missing[0]
    return drawn


def _on_grid(attribute: Attribute, grid: PointGrid, places: NDArray[np.integer[Any]]) -> NDArray[np.generic]:
    """The values of points (n,): int64, ISO dates or moments, or float64."""
    if attribute.kind == "date":
        seconds = round(grid.low * 86_400) + places * round(grid.step * 86_400)
        days = attribute.step.denominator == 1
        return seconds.astype("datetime64[s]").astype("datetime64[D]" if days else "datetime64[s]").astype(str)
    return int(grid.low) + places * int(grid.step) if attribute.integer else grid.values(places)


def _points(attribute: Attribute, cells: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.integer[Any]]:
    """A point (n,) of each of some bins: each as likely as the others of its run."""
    if attribute.undecided:
        return cells
    if not attribute.shape:
        cuts = np.array(attribute.cuts)
        even: NDArray[np.int64] = rng.integers(cuts[:-1][cells], cuts[1:][cells])
        return even
    pieces = BinPieces.of(attribute)
    summed = np.concatenate([[0.0], np.cumsum(pieces.shares)])
    first = np.append(pieces.first, len(pieces.cells))
    at = summed[first[cells]] + rng.random(len(cells)) * (summed[first[cells + 1]] - summed[first[cells]])
    chosen = np.clip(np.searchsorted(summed, at, side="right") - 1, first[cells], first[cells + 1] - 1)
    drawn: NDArray[np.int64] = rng.integers(pieces.starts[chosen], pieces.starts[chosen] + pieces.lengths[chosen])
    return drawn


def _draw(
    attribute: Attribute, low: NDArray[np.float64], high: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.generic]:
    """Uniform values in [low, high), elementwise: int64, ISO date strings, or rounded float64."""
    if attribute.whole:
        drawn: NDArray[np.int64] = rng.integers(low.astype(np.int64), high.astype(np.int64))
        return drawn if attribute.kind == "number" else drawn.astype("datetime64[D]").astype(str)
    scale = 10.0 ** np.clip(_DECIMALS_PER_BIN - np.floor(np.log10(high - low)), 0, 300)
    rounded = np.floor((low + rng.random(len(low)) * (high - low)) * scale) / scale
    inside: NDArray[np.float64] = np.clip(rounded, low, np.nextafter(high, low))
    return inside
