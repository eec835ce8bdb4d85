"""Keys have the numbers that their reader gives them, in whatever blocks they come, and are read once."""

import numpy as np
import pytest

from qrelease.data.person import Person
from qrelease.data.persons import NOBODY, PersonReader
from qrelease.data.sources.csv_kernels import PADDING
from qrelease.data.sources.encoder import unquoted
from qrelease.data.sources.known_cells import LONGEST, REMEMBERED_VALUES
from qrelease.data.sources.known_keys import KnownKeys
from qrelease.errors import InvalidInput

LONG = ["k" * LONGEST, "k" * (LONGEST + 1), "j" * (LONGEST + 1)]
TEXTS = ["7", "8", "a", "A", "", "say 'so'", "é", "N14228", "2024-01-31", *LONG]


class Counting:
    """A reader, and how many texts it was asked for."""

    def __init__(self):
        self.reader, self.asked = PersonReader(Person("who", 1, ("",))), 0

    def text_codes(self, texts, where):
        texts = list(texts)
        self.asked += len(texts)
        return self.reader.text_codes(texts, where)


def where(position):
    return f"cell {position}"


def words(keys, texts):
    raw = [text.replace("'", "''").encode() for text in texts]
    ends = np.cumsum([0, *map(len, raw)]).astype(np.int32)
    return keys.words(b"".join(raw) + bytes(PADDING), ends[:-1].copy(), ends[1:].copy(), where)


def known(reader):
    return KnownKeys(reader, lambda raw: unquoted(raw, "'"))


@pytest.mark.parametrize("seed", range(3))
def test_words_are_those_of_the_reader_and_what_comes_again_is_not_asked(seed):
    rng = np.random.default_rng(seed)
    texts = rng.choice(TEXTS, 600).tolist()
    reader = Counting()
    keys = known(reader)
    found = [words(keys, texts[first : first + 6]) for first in range(0, 600, 6)]
    expected = PersonReader(Person("who", 1, ("",))).text_codes(texts, where)
    assert np.concatenate(found).tolist() == expected.tolist()
    assert NOBODY in expected
    long = sum(len(text) > LONGEST for text in texts)
    assert reader.asked <= long + 6 * len(TEXTS)  # at most a block of each


def test_more_keys_than_are_remembered():
    keys = known(PersonReader(Person("who", 1)))
    texts = [f"w{k}" for k in range(REMEMBERED_VALUES + 1000)]
    for _ in range(2):
        assert words(keys, texts).tolist() == [*range(len(texts))]


def test_an_error_names_the_cell_among_those_that_are_known():
    keys = known(PersonReader(Person("who", 1)))
    words(keys, ["7", "a"])
    with pytest.raises(InvalidInput, match=r"cell 3: person column 'who': '7' and '7\.0' may be two spellings"):
        words(keys, ["a", "7", "b", "7.0"])
