"""A ledger's path, and a server with an analyst."""

import pytest
from serving import Client, admit, worker


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


@pytest.fixture
def server(path):
    """A client of the analyst `ada`."""
    with worker(path) as app:
        yield Client(app, admit(path, "ada"))
