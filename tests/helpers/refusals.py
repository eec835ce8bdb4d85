"""Refusals: before anything is charged or drawn, in one line."""

import pytest
from worlds import SpyEntropy

from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

ONE = PureDP(1.0)


def refused(mechanism, table, workload, kind, why):
    """Refused in one line, before anything is charged or drawn."""
    spy = SpyEntropy(0)
    with Ledger.open(None, ONE) as ledger:
        with pytest.raises(kind, match=why) as found:
            Curator(table, ledger, spy).release(mechanism, workload, ONE)
        assert ledger.spent is None
    assert spy.taken == 0
    assert "\n" not in str(found.value)
