"""Conditions that run through bins, against every point of the grid by itself."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from qrelease.data.domain import Attribute, Domain
from qrelease.data.predicates import MAX_DIVISIONS, parse, parse_finely
from qrelease.errors import InvalidInput
from qrelease.queries.met_shares import met_shares

DELAY = Attribute("delay", "number", edges=(-5, 0, 3, 10), integer=True, within=(-5, 9), step=1, missing=("?",))
SHAPED = Attribute(
    "shaped", "number", edges=(0, 4, 8), integer=True, within=(0, 7), step=1, shape=((0, 6), (2, 0), (5, 9))
)
PAY = Attribute("pay", "number", edges=(0.0, 0.3, 1.0), within=(0, 1), step=Fraction(1, 10))
CARRIER = Attribute("carrier", "coded", codes=2)
DOMAIN = Domain((CARRIER, DELAY, SHAPED, PAY))

CONDITIONS = {
    "delay > 1": lambda carrier, delay, shaped, pay: delay is not None and delay > 1,
    "delay <= 1 and carrier = 1": lambda carrier, delay, shaped, pay: delay is not None and delay <= 1 and carrier == 1,
    "delay in {-2..1, 5}": lambda carrier, delay, shaped, pay: delay is not None and (-2 <= delay <= 1 or delay == 5),
    "not delay < 2": lambda carrier, delay, shaped, pay: delay is None or delay >= 2,
    "delay is missing": lambda carrier, delay, shaped, pay: delay is None,
    "shaped >= 3": lambda carrier, delay, shaped, pay: shaped >= 3,
    "shaped < 3 or delay >= 5": lambda carrier, delay, shaped, pay: shaped < 3 or (delay is not None and delay >= 5),
    "pay > 0.2": lambda carrier, delay, shaped, pay: pay > Fraction(2, 10),
    "pay <= 0.5": lambda carrier, delay, shaped, pay: pay <= Fraction(5, 10),
    "pay >= 0.75": lambda carrier, delay, shaped, pay: pay >= Fraction(8, 10),
    "pay in 0.2..0.7": lambda carrier, delay, shaped, pay: Fraction(2, 10) <= pay < Fraction(7, 10),
}


def points(attribute):
    """Each point of a column: its value, its cell and its share of the cell's records."""
    if attribute.grid is None:
        return [(code, code, 1.0) for code in range(attribute.size)]
    weights = np.ones(attribute.grid.size)
    if attribute.shape:
        ends = [*(p for p, _ in attribute.shape), attribute.grid.size]
        for (first, weight), last in zip(attribute.shape, ends[1:], strict=True):
            weights[first:last] = weight / (last - first)
    cells = attribute.bins_of(np.arange(attribute.grid.size))
    totals = np.bincount(cells, weights)
    found = [
        (attribute.grid.value(p), int(cells[p]), weights[p] / totals[cells[p]]) for p in range(attribute.grid.size)
    ]
    return [*found, (None, attribute.values, 1.0)] if attribute.missing else found


@pytest.mark.parametrize("text", CONDITIONS)
def test_shares_are_those_of_all_points(text):
    predicate = parse_finely(text, DOMAIN)
    shape = [DOMAIN.shape[a] for a in predicate.axes]
    least, expected, most = np.ones(shape), np.zeros(shape), np.zeros(shape)
    values = dict.fromkeys(DOMAIN.names, 0)
    for combined in product(*(points(DOMAIN.attributes[a]) for a in predicate.axes)):
        values |= {DOMAIN.names[a]: value for a, (value, _, _) in zip(predicate.axes, combined, strict=True)}
        met = CONDITIONS[text](**values)
        cell = tuple(code for _, code, _ in combined)
        least[cell], most[cell] = min(least[cell], met), max(most[cell], met)
        expected[cell] += met * np.prod([share for _, _, share in combined])
    low, mean, high = (part.reshape(shape) for part in met_shares(predicate, DOMAIN))
    assert (low == least).all()
    assert (high == most).all()
    assert np.allclose(mean, expected)
    assert ((low <= mean) & (mean <= high)).all()


@pytest.mark.parametrize("text", CONDITIONS)
def test_the_spelling_means_the_same(text):
    found = parse_finely(text, DOMAIN)
    again = parse_finely(str(found), DOMAIN)
    assert str(again) == str(found)
    assert all((a == b).all() for a, b in zip(met_shares(again, DOMAIN), met_shares(found, DOMAIN), strict=True))


def test_a_condition_along_the_edges_is_that_of_the_domain():
    for text in ("delay >= 3", "carrier = 1 and delay < 0", "pay < 0.3", "pay >= 0.3 or delay is missing"):
        found = parse_finely(text, DOMAIN)
        assert found == parse(text, DOMAIN)
        low, mean, high = met_shares(found, DOMAIN)
        assert (low == mean).all()
        assert (mean == high).all()
        assert (low == found.mask()).all()


def test_what_no_bin_could_tell_is_refused_as_ever():
    bins = Domain((Attribute("age", "number", edges=(0, 18, 65), integer=True), CARRIER))
    for text, domain in (
        ("age > 20", bins),
        ("delay > 1.5", DOMAIN),
        ("dela > 1", DOMAIN),
        ("carrier > 1 and delay >> 1", DOMAIN),
    ):
        with pytest.raises(InvalidInput) as caught:
            parse_finely(text, domain)
        with pytest.raises(InvalidInput) as plain:
            parse(text, domain)
        assert str(caught.value) == str(plain.value)


def test_a_text_that_divides_too_much_is_refused():
    wide = Domain((Attribute("x", "number", edges=(0, 1000), integer=True, within=(0, 999), step=1),))
    runs = [f"x in {10 * i + 1}..{10 * i + 3}" for i in range(MAX_DIVISIONS)]
    with pytest.raises(InvalidInput, match="at most"):
        parse_finely(" or ".join(runs), wide)
    half = MAX_DIVISIONS // 2  # each begins and ends inside of the bin
    assert parse_finely(" or ".join(runs[:half]), wide).mask().sum() == half
