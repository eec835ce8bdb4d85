"""The picture of an evaluation."""

import re
from xml.etree import ElementTree

from qrelease.evaluation.results import NOTICE, Errors, Evaluation, Run
from tests.evaluation.comparisons import small


def test_the_picture_says_that_it_is_not_private_and_is_the_same_each_time(tmp_path):
    found = small(dataset="costs $5 and $6 <b>")
    for name in ("one.svg", "two.svg", "one.png", "two.png"):
        found.plot(tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert NOTICE in drawn
    assert "costs $5 and $6 &lt;b&gt;" in drawn
    assert all(name in drawn for name in ("mwem", "laplace", "gaussian"))
    assert "<dc:date>" not in drawn
    assert drawn == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_one_epsilon_and_an_error_of_nothing_can_be_drawn(tmp_path):
    runs = (
        Run("a", 1.0, 0.0, 0, Errors(0.0, 0.0, 0.0), 1.0, 1.0),
        Run("b", 1.0, 0.0, 0, Errors(0.3, 0.3, 0.3), 1.0, 1.0),
    )
    Evaluation("t", "s", runs).plot(tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert text.count("<use ") > 2  # the marks of both
    assert not re.search(r"\b(nan|inf)\b", text)
