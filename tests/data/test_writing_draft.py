"""Ways in which texts may be numbers or dates: all of them, and none for codes and words."""

import pytest

from qrelease.data.writing import Writing
from qrelease.data.writing_draft import still_read, ways_to_read


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("1.234,50 €", [Writing(",", ".", "€")]),
        ("$1,234.50", [Writing(".", ",", "$")]),
        ("EUR 12,50", [Writing(",", mark, "EUR") for mark in ("", ".", " ", "'")]),
        ("1,234", [Writing(","), Writing(",", "."), Writing(".", ","), Writing(",", " "), Writing(",", "'")]),
        ("31.12.2024", [Writing(format="%d.%m.%Y"), Writing(format="%m.%d.%Y")]),
        ("2024/12/31", [Writing(format="%Y/%m/%d")]),
        ("31/12/2024 06:30", [Writing(format=f"{day} %H:%M") for day in ("%d/%m/%Y", "%m/%d/%Y")]),
        *((text, []) for text in ("E64.4", "P012", "Bern", "192.168.1.1", "12A", "", "€", "12-34", "A 12")),
    ],
)
def test_all_ways_are_found(text, ways):
    assert ways_to_read(text) == ways


def test_another_text_leaves_those_in_which_it_is_read_too():
    assert still_read(ways_to_read("1,234"), "12,5") == [Writing(",", mark) for mark in ("", ".", " ", "'")]
    assert still_read(ways_to_read("1,234"), "1,234,567") == [Writing(".", ",")]
    assert still_read(ways_to_read("1,234"), "many") == []
