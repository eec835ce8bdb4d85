"""All spellings of a query have one canonical form, and no other query has it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import DOMAIN, box, ledger_of, mask, opened
from worlds import PROPERTY

from qrelease.errors import StreamHalted
from qrelease.queries.canonical import CanonicalQuery, canonical_name


def test_all_spellings_of_a_query_are_one():
    with opened() as session:
        first = session.answer("b in 1..2 and c in 1..3")
        assert (first.source, first.cost) == ("measured", session.spent)
        spellings = [
            "not b = 0 and c > 0",
            "c in {1, 3, 2} and (b = 1 or b = 2) and a in {0, 1}",
            "not (b = 0 or c = 0)",
        ]
        again = [session.answer(text) for text in spellings] + [session.answer(box([(0, 1), (1, 2), (1, 2, 3)])[0])]
        assert {(a.value, a.error, a.source, a.cost) for a in again} == {(first.value, first.error, "cached", None)}
        assert len(ledger_of(session).history()) == 3
    with pytest.raises(StreamHalted, match="closed"):
        session.answer("a = 1")


@PROPERTY
@given(st.data())
def test_a_canonical_form_is_equal_if_and_only_if_the_query_is(data):
    rows = st.lists(st.integers(0, 1), min_size=24, max_size=24).map(np.array)
    free = data.draw(st.sampled_from([(), (0,), (1,), (2,), (0, 2)]))
    row = data.draw(rows).reshape(2, 3, 4)
    row = np.broadcast_to(row.take([0] * 1, axis=free[0]) if free else row, (2, 3, 4)).astype(float)
    other = data.draw(rows).astype(float)
    names = [canonical_name(DOMAIN, mask(r.reshape(-1)).groups[0])[0] for r in (row, other)]
    assert (names[0] == names[1]) == bool((row.reshape(-1) == other).all())
    assert all(a not in names[0].axes for a in free[:1])
    assert CanonicalQuery.from_text(names[0].to_text()) == names[0]
    group = names[0].group(DOMAIN)
    cube = group.queries.rows[0].reshape([DOMAIN.shape[a] for a in group.axes])
    wide = cube.reshape([n if a in group.axes else 1 for a, n in enumerate(DOMAIN.shape)])
    assert (np.broadcast_to(wide, (2, 3, 4)) == row).all()
