"""JSON that every reader reads alike."""

import pytest

from qrelease._util.strict_json import decode


def test_what_is_read_is_what_was_written():
    assert decode('{"a": [1, 2.5, {"b": null, "a": true}], "b": "x"}') == {
        "a": [1, 2.5, {"b": None, "a": True}],
        "b": "x",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "'a' is given twice"),
        ('[{"b": {"a": 1, "a": 2}}]', "'a' is given twice"),
        ('{"a": 1', "Expecting"),
        ("{} {}", "Extra data"),
    ],
)
def test_what_readers_may_read_otherwise_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        decode(text)
