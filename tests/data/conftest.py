"""Files of records that tests read."""

import pytest


@pytest.fixture
def file(tmp_path):
    def _file(content, name="people.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return _file
