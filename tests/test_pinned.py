"""What must not change while modules move and things are renamed, as commit bd985e4 had it; see `tests.pinned.make`."""

import pytest

from tests.pinned import make
from tests.pinned.same import arithmetic, differences, near

CASES = [(part, case) for part, module in make.PARTS.items() for case in module.CASES]


@pytest.mark.parametrize("part", make.PARTS)
def test_what_is_stored_is_of_these_cases(part):
    assert list(make.stored(part)) == make.PARTS[part].CASES


@pytest.mark.parametrize(("part", "case"), CASES, ids=[f"{part}: {case}" for part, case in CASES])
def test_nothing_has_changed(part, case):
    # Some fits multiply larger matrices than `arithmetic` does: in which order they add depends on the caches, too.
    same = part != "releases" or (arithmetic() == make.arithmetic_of_releases() and "maximum entropy" not in case)
    assert (differences if same else near)(make.stored(part)[case], make.found(part, case)) == []


def test_other_arithmetic_forgives_less_than_a_record_and_no_charge():
    """What is compared where the last digits differ still tells a release of another mechanism, noise or cost."""
    case = "maxent; add-remove; approx"
    stored = make.stored("releases")[case]
    assert near(stored, stored) == []
    others = ("maxent; replace-one; approx", "maxent; add-remove; zcdp", "laplace; add-remove; approx")
    for other in others:
        assert near(stored, make.stored("releases")[other])
    moved = [1.02 * x + 1 for x in stored["answers"]]
    assert near(stored, stored | {"answers": moved})
    assert near(stored, stored | {"history": []})
