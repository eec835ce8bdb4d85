"""Checks of what a caller passes: each returns the value in one plain type, or raises `InvalidInput`."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from inspect import signature
from numbers import Integral, Rational, Real

from qrelease.errors import InvalidInput


def real(name: str, value: object) -> float:
    """A finite number as the float that equals it, else `InvalidInput`.

    NumPy's real scalars are numbers like any other. Booleans, text, NaN, infinities, and fractions that no
    float equals are not.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInput(f"{name} must be finite, got {number}")
    if number != value:
        raise InvalidInput(f"{name} must be a float or equal to one, got {value}")
    return number


def positive(name: str, value: object) -> float:
    """A finite number above 0 as a float, else `InvalidInput`."""
    number = real(name, value)
    if number <= 0:
        raise InvalidInput(f"{name} must be positive, got {value}")
    return number


def probability(name: str, value: object) -> float:
    """A number in [0, 1) as a float, else `InvalidInput`."""
    number = real(name, value)
    if not 0 <= number < 1:
        raise InvalidInput(f"{name} must be in [0, 1), got {value}")
    return abs(number)  # -0.0 becomes 0.0


def positive_probability(name: str, value: object) -> float:
    """A number in (0, 1) as a float, else `InvalidInput`."""
    number = real(name, value)
    if not 0 < number < 1:
        raise InvalidInput(f"{name} must be in (0, 1), got {value}")
    return number


def accuracy(name: str, value: object) -> float:
    """A number from 1e-100 to below 1 as a float, whose square has an inverse in the floats' range; `InvalidInput`."""
    number = positive_probability(name, value)
    if number < 1e-100:
        raise InvalidInput(f"{name} must be at least 1e-100, got {value}")
    return number


def natural(name: str, value: object) -> int:
    """A natural number: whole, from 1 to 2^53, Python's or NumPy's, else `InvalidInput`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInput(f"{name} must be a whole number, got {value!r}")
    number = int(value)
    if not 1 <= number <= 2**53:
        raise InvalidInput(f"{name} must be from 1 to 2^53, got {number}")
    return number


def rational(name: str, value: object) -> Fraction:
    """`value` as an exact fraction: integers, fractions, floats and numpy scalars, floats at face value.

    Raises `InvalidInput` with `name` for booleans, other types, NaN, infinities, negative values, and zero.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(f"{name} must be a number, got {value!r}")
    if isinstance(value, Rational):
        exact = value if type(value) is Fraction else Fraction(int(value.numerator), int(value.denominator))
    elif not math.isfinite(value):
        raise InvalidInput(f"{name} must be finite, got {value}")
    else:
        exact = Fraction(*value.as_integer_ratio())  # type: ignore[attr-defined]  # floats have it, and NumPy's scalars
    if exact <= 0:
        raise InvalidInput(f"{name} must be positive, got {value}")
    return exact


def whole(name: str, value: object, *, least: int) -> int:
    """`value` as a Python integer of at least `least`; `InvalidInput` with `name` otherwise, booleans included."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InvalidInput(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def check_part(what: str, part: object, protocol: type, example: str) -> None:
    """Raise `InvalidInput` for a part of the construction that is a class, or lacks something that its protocol has."""
    if isinstance(part, type) or not isinstance(part, protocol):
        raise InvalidInput(f"{what} must be an object such as {example}, got {part!r}")


def check_arguments(part: object, method: Callable[..., object], *given: str, named: tuple[str, ...] = ()) -> None:
    """Raise `InvalidInput` for a method of a user's own object that cannot be called with these arguments.

    given  the names of those that are passed by position; `named` of those that are passed by name
    """
    try:
        signature(method).bind(*given, **dict.fromkeys(named))
    except ValueError:
        return  # a method that is written in C tells no signature
    except TypeError as error:
        wanted = ", ".join([*given, *(["*"] if named else []), *named])
        name = getattr(method, "__name__", "a method")
        taken = signature(method)
        raise InvalidInput(f"{type(part).__name__}.{name} must take ({wanted}), and takes {taken}: {error}") from None


def lacking(part: object, names: tuple[str, ...]) -> str:
    """Which of these attributes an object does not have, in words, such as `A has no name, no check and no release`."""
    shown = repr(part) if type(part).__module__ == "builtins" else type(part).__name__
    missing = [f"no {name}" for name in names if not hasattr(part, name)]
    *others, last = missing
    return f"{shown} has {', '.join(others)} and {last}" if others else f"{shown} has {last}"


def kind_of(value: object) -> str:
    """What a user's own method returned, in words."""
    return "nothing" if value is None else f"an object of type {type(value).__name__}"
