"""The entry of a person in a schema."""

import pytest

from qrelease.data import schema
from qrelease.data.person import MAX_RECORDS
from qrelease.errors import InvalidInput


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ('column = "who"\nat_most = 0', "at_most must be"),
        ('column = "who"\nat_most = true', "at_most must be"),
        (f'column = "who"\nat_most = {MAX_RECORDS + 1}', "at_most must be a whole number in 1..1,048,576"),
        ("at_most = 3", "person needs column"),
        ('column = "who"', "person needs at_most"),
        ('column = " "\nat_most = 3', "column must be a text"),
        ('column = "who"\nat_most = 3\nmissing = "NA"', "missing must be a list of texts"),
        ('column = "who"\nat_most = 3\nmissing = [1]', "missing must be a list of texts"),
        ('column = "who"\nat_most = 3\nper = "day"', "unknown key 'per'; the keys are column, at_most"),
        ('column = "who"\nat_most = 3\nweights = "people"', "weights must be 'records' or 'persons'"),
        ('column = "a"\nat_most = 3', "the person column 'a' is also an attribute"),
    ],
)
def test_a_wrong_entry_is_one_line(tmp_path, entry, told):
    path = tmp_path / "schema.toml"
    path.write_text(f'[[attribute]]\nname = "a"\nkind = "coded"\ncodes = 2\n[person]\n{entry}\n')
    with pytest.raises(InvalidInput, match=told) as error:
        schema.load(path)
    assert "\n" not in str(error.value)
