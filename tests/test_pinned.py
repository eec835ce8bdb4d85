"""What must not change while modules move and things are renamed, as commit bd985e4 had it; see `tests.pinned.make`."""

import pytest

from tests.pinned import make
from tests.pinned.same import differences

CASES = [(part, case) for part, module in make.PARTS.items() for case in module.CASES]


@pytest.mark.parametrize("part", make.PARTS)
def test_what_is_stored_is_of_these_cases(part):
    assert list(make.stored(part)) == make.PARTS[part].CASES


@pytest.mark.parametrize(("part", "case"), CASES, ids=[f"{part}: {case}" for part, case in CASES])
def test_nothing_has_changed(part, case):
    assert differences(make.stored(part)[case], make.found(part, case)) == []
