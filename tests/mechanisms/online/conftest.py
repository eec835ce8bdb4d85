"""What tests of online sessions share."""

import pytest

from qrelease.mechanisms.online.prices import Prices


@pytest.fixture
def priced_synopses(monkeypatch):
    """`priced_synopses(method)` is a list, to which each synopsis is added that this method of `Prices` prices."""

    def watched(method):
        original, priced = getattr(Prices, method), []
        monkeypatch.setattr(Prices, method, lambda *given: (priced.append(given), original(*given))[1])
        return priced

    return watched
