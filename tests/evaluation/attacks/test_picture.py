"""The picture of what attacks recovered: under the notice, and not to be broken by a label."""

import xml.etree.ElementTree as ElementTree

import pytest

from qrelease.evaluation.attacks.picture import Bar, draw_picture
from qrelease.evaluation.results import NOTICE


def test_labels_cannot_break_the_picture():
    drawn = draw_picture("<b>&", [Bar("</text><script>", 0.5)], {'"quoted"': 0.25}, NOTICE)
    assert "<script>" not in drawn
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


@pytest.mark.parametrize(
    ("title", "label"),
    [
        ("title", "exact"),
        ("title", "this release (records, epsilon=0.693147, delta=1.23457e-09)"),
        ("title" * 30, "exact"),
    ],
)
def test_nothing_that_is_written_is_cut_off(title, label):
    """At 7.2 units a letter, as browsers draw labels, and at 8.9 the title: both end inside of the picture."""
    root = ElementTree.fromstring(draw_picture(title, [Bar(label, 1.0, safe=True)], {"guessing": 0.5}, NOTICE))
    place = {element.text: element for element in root.iter() if element.text and "x" in element.attrib}
    width = float(root.attrib["width"])
    assert float(place[label].attrib["x"]) - 7.2 * len(label) > 0
    assert 12 + 8.9 * len(title) < width
    assert float(place["100.0%"].attrib["x"]) + 7.2 * len("100.0%") < width
