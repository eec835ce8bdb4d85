"""A studio in an empty folder with one file."""

import pytest
from studios import studio_in


@pytest.fixture
def page(in_folder):
    return studio_in(in_folder)
