"""Categories in the order of a scale: those that are of one, and none that only look like it."""

import random

import pytest

from qrelease.data.scales_draft import SCALES, ScaleFound, scale_of

SAID = [  # each in its order
    ["Strongly disagree", "Disagree", "Neither agree nor disagree", "Agree", "Strongly agree"],
    ["completely disagree", "tend to disagree", "undecided", "tend to agree", "completely agree"],
    ["very bad", "bad", "fair", "good", "very good"],
    ["Poor", "Fair", "Good", "Very good", "Excellent"],
    ["never", "rarely", "sometimes", "often", "always"],
    ["LOW", "MEDIUM", "HIGH"],
    ["very_dissatisfied", "dissatisfied", "satisfied", "very_satisfied"],
    ["sehr schlecht", "schlecht", "mittel", "gut", "sehr gut"],
    ["Stimme überhaupt nicht zu", "Stimme eher nicht zu", "teils/teils", "Stimme eher zu", "Stimme voll und ganz zu"],
    ["trifft gar nicht zu", "trifft zu"],
    ["nie", "selten", "manchmal", "häufig", "immer"],
    ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"],
    ["Mon", "Tue", "Wed", "Thu"],
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
    ["März", "April", "Mai", "August"],
    ["0-4", "5-9", "10-14", "100+"],
    ["under 18", "18 to 24", "25-64", "65 and older"],
    ["unter 1.000 €", "1.000-1.999 €", "2.000 - 9.999 €", "10.000 € und mehr"],
    ["$0 - $9,999", "$10,000 - $49,999", "$50,000 or more"],
    ["1 child", "2 children", "3 or more"],
]


@pytest.mark.parametrize("order", SAID)
def test_categories_of_a_scale_are_in_its_order(order):
    shuffled = random.Random(3).sample(order, len(order))
    assert scale_of(shuffled) == ScaleFound(tuple(order), ())
    assert scale_of({*shuffled, "Don’t know", "keine Angabe"}) == ScaleFound(
        tuple(order), ("Don’t know", "keine Angabe")
    )


@pytest.mark.parametrize(
    "categories",
    [
        [],
        ["don't know", "no answer"],
        ["yes", "no"],
        ["agree", "perhaps"],
        ["good", "high"],
        ["neutral"],
        ["rarely", "seldom", "often"],  # two spellings of a step
        ["Good", "good", "bad"],
        ["may", "jan", "mar"],  # so short words, and so few: names, too
        ["so", "do"],
        ["12-34", "20-56"],
        ["2020-01", "2020-02"],
        ["2020/21", "2021/22"],
        ["12A", "13B"],
        ["E10-E14", "I20-I25"],
        ["1", "2"],
        ["5-" * 40, "1-2"],
    ],
)
def test_other_categories_have_no_order(categories):
    assert scale_of(categories) is None


@pytest.mark.parametrize("scale", SCALES)
def test_no_spelling_is_at_two_steps_of_a_scale(scale):
    texts = [text for step in scale.split(" < ") for text in step.split("|")]
    assert len(set(texts)) == len(texts)
    assert not [text for text in texts if text != text.strip() or not text]
    first = [step.split("|")[0] for step in scale.split(" < ")]
    assert scale_of(first[::-1]).ordered == tuple(first)


def test_scales_that_share_answers_agree_on_their_order():
    """So it does not matter which of them a column is found to be of."""
    steps = [{t: i for i, step in enumerate(s.split(" < ")) for t in step.split("|")} for s in SCALES]
    for a in steps:
        for b in steps:
            common = sorted(a.keys() & b.keys(), key=a.__getitem__)
            assert [b[text] for text in common] == sorted(b[text] for text in common), common
