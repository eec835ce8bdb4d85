"""The pictures of a report: columns as bars or by density, and pairs that depend on each other."""

import re

import numpy as np
from pages import Page
from reports import mwem, released
from worlds import PEOPLE

from qrelease.data.domain import Attribute, Domain
from qrelease.mechanisms.laplace import Laplace
from qrelease.privacy import PureDP
from qrelease.queries.workload import Workload
from qrelease.release.report.page import html
from qrelease.release.report.svg import count, text


def test_bins_of_unequal_width_are_drawn_by_density():
    domain = Domain((Attribute("age", "number", edges=(0, 10, 20, 40), integer=True),))
    release = released(Laplace(), Workload.marginals(domain, 1), PureDP(1e6))
    counts = release.answers()
    page = html(release)
    assert "drawn by density" in page
    steps = re.search('class="bar" d="M([^Z]*)Z', page).group(1)
    corners = [tuple(map(float, corner.split())) for corner in steps.split("L")]
    areas = [(x - before) * (130 - y) for (before, _), (x, y) in zip(corners[:6:2], corners[1:6:2], strict=True)]
    np.testing.assert_allclose(np.array(areas) / sum(areas), counts / counts.sum(), rtol=0.02)


def test_columns_are_drawn_with_what_was_measured():
    release = mwem()
    page = html(release)
    pairs = {m.group.axes for m in release.measurements if len(m.group.axes) == 2}
    assert Page(page).tags["svg"] == 3 + len(pairs)
    assert page.count('class="dot"') == sum(PEOPLE.shape)  # singles are measured by themselves
    for axis, name in enumerate(PEOPLE.names):
        values = release.answer(Workload.marginals(PEOPLE, [[name]]))
        label = PEOPLE.attributes[axis].labels[int(values.argmax())]
        assert f'aria-label="{text(name)}: {text(label)} {count(values.max())}' in page


def test_answers_without_a_table_are_drawn_as_far_as_they_go():
    few = Page(html(released(Laplace(), Workload.marginals(PEOPLE, [["sex", "grade"]]), PureDP(1.0))))
    assert few.tags["svg"] == 2 + 1
    assert "1 further columns are not drawn" in few.text
    ranges = Page(html(released(Laplace(), Workload.ranges(PEOPLE, "grade"), PureDP(1.0))))
    assert ranges.tags["svg"] == 1  # the column itself, which follows from its ranges
    first = np.eye(1, PEOPLE["grade"].size)
    none = Page(html(released(Laplace(), Workload.vectors(PEOPLE, first, ["grade"]), PureDP(1.0))))
    assert none.tags["svg"] == 0
    assert "The columns" not in none.text
