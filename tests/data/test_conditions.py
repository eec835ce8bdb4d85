"""Texts of cells and of runs of cells: the conditions that mean them."""

import random
import sys
from itertools import combinations_with_replacement

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import domains

from qrelease.data import conditions
from qrelease.data.attribute import Attribute
from qrelease.data.conditions import WrittenValue, cell_text, described, run_texts, runs
from qrelease.data.predicates import parse
from qrelease.errors import InvalidInput
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


def reference_fits(pattern, text):
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(reference_fits(pattern[1:], text[place:]) for place in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and reference_fits(pattern[1:], text[1:])


def test_patterns_fit_as_their_definition_says():
    rng = random.Random(1)
    found = []
    for _ in range(5000):
        pattern = "".join(rng.choices("ab%_.\n(", k=rng.randint(0, 7)))
        label = "".join(rng.choices("ab.\n_%(", k=rng.randint(1, 8)))
        job = Attribute("job", "category", categories=(label, "another one"))
        try:
            found.append(conditions.like(job, WrittenValue(pattern, quoted=True)) & 1)
        except InvalidInput:
            found.append(0)
        assert found[-1] == reference_fits(pattern, label)
    assert 100 < sum(found) < 4900


def test_a_pattern_takes_few_steps_a_category():
    """A server reads conditions while others wait: with hundreds of steps each, one request held them up a minute."""
    job = Attribute("job", "category", categories=tuple(f"{'a' * 38}{i:04}" for i in range(100)))
    steps = 0

    def trace(frame, event, _):
        nonlocal steps
        steps += event == "line" and frame.f_code.co_filename == conditions.__file__
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        conditions.like(job, WrittenValue("%aaaaaaaaaaaaaaaaaaaaa%9%", quoted=True))
    finally:
        sys.settrace(before)
    assert steps < 40 * len(job.categories)
