"""What the local model exports."""

import pytest

import qrelease.local


def test_every_public_name_is_there():
    assert all(hasattr(qrelease.local, name) for name in qrelease.local.__all__)
    assert set(qrelease.local.__all__) < set(dir(qrelease.local))
    assert all(hasattr(qrelease.local, name) for name in dir(qrelease.local))
    with pytest.raises(AttributeError, match="no attribute 'Rcp'"):
        qrelease.local.Rcp  # noqa: B018
