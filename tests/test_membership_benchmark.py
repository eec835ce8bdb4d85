"""Which mechanisms the games of `benchmarks.membership` are about."""

import qrelease as qr
from benchmarks import membership


def test_all_public_mechanisms_and_sessions_are_played(monkeypatch):
    assert membership.unplayed() == []
    monkeypatch.setattr(membership, "contenders", list)
    assert set(membership.unplayed()) >= {qr.Laplace.__name__, qr.MaxEnt.__name__, qr.Auto.__name__}
