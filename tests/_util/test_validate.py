"""Checks of arguments: what is taken, as which plain type, and what is refused in one line that names it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from qrelease._util import validate
from qrelease.errors import InvalidInput

NUMBERS = ["real", "positive", "probability", "positive_probability", "accuracy", "rational"]


@pytest.mark.parametrize("check", NUMBERS)
@pytest.mark.parametrize("value", [True, np.True_, "0.5", None, [0.5], math.nan, math.inf, 0.5j], ids=repr)
def test_what_is_no_finite_number_is_refused_by_its_name(check, value):
    with pytest.raises(InvalidInput, match=r"^beta must be "):
        getattr(validate, check)("beta", value)


@pytest.mark.parametrize("check", NUMBERS)
@pytest.mark.parametrize("value", [0.5, np.float64(0.5), np.float32(0.5), Fraction(1, 2)], ids=repr)
def test_numbers_of_any_library_become_plain_ones(check, value):
    found = getattr(validate, check)("beta", value)
    assert found == 0.5
    assert type(found) is (Fraction if check == "rational" else float)


@pytest.mark.parametrize(
    ("check", "inside", "outside"),
    [
        ("real", [-3.0, 0.0], []),
        ("positive", [5e-324, 1e300], [0.0, -0.0, -1.0]),
        ("probability", [0.0, 1 - 2**-53], [-5e-324, 1.0]),
        ("positive_probability", [5e-324, 1 - 2**-53], [0.0, 1.0]),
        ("accuracy", [1e-100, 1 - 2**-53], [0.9e-100, 0.0, 1.0]),
        ("rational", [5e-324, 1e300], [0.0, -1.0]),
    ],
)
def test_the_ends_of_what_is_allowed(check, inside, outside):
    for value in inside:
        assert getattr(validate, check)("x", value) == value
    for value in outside:
        with pytest.raises(InvalidInput):
            getattr(validate, check)("x", value)


def test_a_probability_has_no_sign():
    assert math.copysign(1, validate.probability("delta", -0.0)) == 1


def test_fractions_are_exact_or_refused():
    assert validate.rational("epsilon", Fraction(1, 3)) == Fraction(1, 3)
    assert validate.rational("epsilon", 0.1) == Fraction(0.1) != Fraction(1, 10)
    with pytest.raises(InvalidInput, match="equal to one"):
        validate.real("epsilon", Fraction(1, 3))
    with pytest.raises(InvalidInput, match="equal to one"):
        validate.real("epsilon", 2**53 + 1)
    with pytest.raises(InvalidInput, match="finite"):
        validate.real("epsilon", 10**400)


@pytest.mark.parametrize("value", [1, np.int8(1), 2**53, np.uint64(7)], ids=repr)
def test_whole_numbers(value):
    for found in (validate.natural("n", value), validate.whole("n", value, least=1)):
        assert found == value
        assert type(found) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", 2**53 + 1, Fraction(2)], ids=repr)
def test_what_is_no_natural_number_is_refused(value):
    with pytest.raises(InvalidInput, match=r"^n must be "):
        validate.natural("n", value)
    if value != 2**53 + 1:
        with pytest.raises(InvalidInput, match="at least 1, got"):
            validate.whole("n", value, least=1)
