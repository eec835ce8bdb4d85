"""The picture of what attacks recovered: under the notice, and not to be broken by a label."""

import xml.etree.ElementTree as ElementTree

from qrelease.evaluation.attacks.picture import Bar, draw_picture
from qrelease.evaluation.results import NOTICE


def test_labels_cannot_break_the_picture():
    drawn = draw_picture("<b>&", [Bar("</text><script>", 0.5)], {'"quoted"': 0.25}, NOTICE)
    assert "<script>" not in drawn
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
