"""Which mechanisms the games of `benchmarks.membership` are about."""

from benchmarks.membership import unplayed


def test_all_public_mechanisms_and_sessions_are_played():
    assert unplayed() == []
