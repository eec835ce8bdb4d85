"""Short reprs."""

from collections.abc import Mapping
from dataclasses import dataclass

from qrelease._util.brief import brief
from qrelease.privacy import ApproxDP, Cost


@dataclass(frozen=True)
class Many:
    name: str
    value: float
    whole: int
    cost: Cost | None
    names: tuple[str, ...] = ()
    takes: Mapping[str, float] | None = None
    low: float = 0.0
    sure: bool = False

    __repr__ = brief


def test_what_says_nothing_is_left_out_and_long_values_are_cut() -> None:
    assert repr(Many("a", 1 / 3, 1234567, None)) == "Many(name='a', value=0.333333, whole=1234567)"
    cost = ApproxDP(1 / 3, 1e-9)
    found = repr(Many("b" * 99, 0.0, 0, cost, tuple("wxyz"), {"epsilon": 2 / 3}, 1.0, True))
    assert found == (
        f"Many(name='{'b' * 57}...', value=0, whole=0, cost={cost:.6g}, names=('w', 'x', 'y', ... 1 more),"
        " takes={epsilon: 0.666667}, low=1, sure=True)"
    )
