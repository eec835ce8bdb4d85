import pytest

from qrelease._util.texts import readable


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
