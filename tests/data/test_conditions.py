"""Texts of cells and of runs of cells: the conditions that mean them."""

from itertools import combinations_with_replacement

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import domains

from qrelease.data.conditions import cell_text, described, run_texts, runs
from qrelease.data.predicates import parse
from tests.data.condition_domain import DOMAIN


def test_cell_and_run_texts_are_conditions():
    age, income = DOMAIN.attributes[:2]
    assert cell_text(age, 1) == "age in 20..29"
    assert cell_text(age, 4) == "age is missing"
    assert cell_text(income, 2) == "income = 'it''s'"
    assert list(run_texts(age, prefixes=True))[3] == "age is not missing"
    assert list(run_texts(DOMAIN["hours"], prefixes=False))[2] == "hours in 0..99"


@settings(deadline=None)
@given(st.data(), domains(most=2), st.booleans())
def test_all_runs_at_once_are_spelled_as_each_by_itself_and_parse_to_their_cells(data, domain, prefixes):
    world = domain if any(a.ordered for a in domain) else DOMAIN
    axis = data.draw(st.sampled_from([i for i, a in enumerate(world) if a.ordered]))
    attribute = world.attributes[axis]
    pairs = [p for p in combinations_with_replacement(range(attribute.values), 2) if not (prefixes and p[0])]
    each = [described(attribute, (2 << high) - (1 << low), "x") for low, high in pairs]
    assert list(runs(attribute, "x", prefixes=prefixes)) == each
    texts = list(run_texts(attribute, prefixes=prefixes))
    some = data.draw(st.integers(0, len(pairs) - 1))
    found = parse(texts[some], world)
    assert found.axes == (axis,)
    assert np.flatnonzero(found.mask()).tolist() == list(range(pairs[some][0], pairs[some][1] + 1))
