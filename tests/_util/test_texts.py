import pytest

from qrelease._util.texts import meant, readable


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (65_536, "65,536"),
        (10**12 - 1, "999,999,999,999"),
        (10**12, "about 2^40"),
        (2**55, "2^55"),
        (2**55 - 1, "about 2^55"),
        (9**35, "about 2^111"),
        (2**5000 + 1, "about 2^5000"),
    ],
)
def test_a_number_that_nobody_would_read_is_a_power_of_two(count, text):
    assert readable(count) == text


@pytest.mark.parametrize(
    ("text", "asked"),
    [("sx", " (did you mean 'sex'?)"), ("AGE", " (did you mean 'age'?)"), ("zzz", ""), ("s" * 65, ""), ("nope", "")],
)
def test_a_name_like_an_unknown_one_is_proposed(text, asked):
    assert meant(text, ["age", "sex", "income"]) == asked
