import pytest

from qrelease._util.texts import for_python, meant, readable


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


@pytest.mark.parametrize(
    ("text", "of_python"),
    [
        ("with --delta 1e-09 and 100 records", "with delta=1e-09 and 100 records"),
        ("leave --delta out, and the ledger keeps it", "leave delta out, and the ledger keeps it"),
        ("(--weighted-records N, where that is public)", "(weighted_records=N, where that is public)"),
        ("without a delta (--delta) there is none", "without a delta there is none"),
        ("more -- or less", "more -- or less"),
    ],
)
def test_options_of_the_command_line_are_told_as_arguments_of_python(text, of_python):
    assert for_python(text) == of_python
