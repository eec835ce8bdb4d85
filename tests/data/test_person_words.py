"""Words of persons, against the numbers that one reader of all texts gives."""

import numpy as np
import pytest

from qrelease.data.person import Person
from qrelease.data.person_digests import NAMED, word_digests
from qrelease.data.person_words import NO_WORD, PersonWords
from qrelease.data.persons import Persons
from qrelease.errors import InvalidInput


def row(position):
    return f"row {position}"


def all_words(person, *pieces):
    """Of pieces: arrays of whole numbers, lists of texts, tuples of values."""
    reader = PersonWords(person)
    read = {np.ndarray: reader.whole_codes, list: reader.text_codes, tuple: reader.codes}
    words = np.concatenate([read[type(piece)](piece, row) for piece in pieces])
    reader.check(words)
    return words, reader.digests()


PIECES = [
    np.array([5, -3, 5, 2**53 - 1, 0]),
    ["a", "5", "-3", "2.5", "a", "9007199254740993", "007x"],
    (7, "7", 2.5, None, True, "b"),
    np.array([7, 8, -3], np.int8),
    ["8", "1000000000000000000000"],
    np.array([2**63], np.uint64).astype(np.int64)[:0],
]


@pytest.mark.parametrize("missing", [("",), ("", "-3")])
@pytest.mark.parametrize("turned", [False, True])
def test_persons_are_those_of_one_reader_of_all_keys(missing, turned):
    person = Person("who", 1, missing)
    pieces = PIECES[::-1] if turned else PIECES
    words, named = all_words(person, *pieces)
    texts = [key if key is None or isinstance(key, float) else str(key) for piece in pieces for key in list(piece)]
    persons, mine = Persons.of(person, ["1" if text == "True" else text for text in texts])
    assert (words != NO_WORD).tolist() == mine.tolist()
    words = words[mine]
    assert np.array_equal(word_digests(words, named), persons.unit)
    of_words = Persons.of_words(words, named)
    assert np.array_equal(of_words.codes, persons.codes)
    assert np.array_equal(of_words.digests, persons.digests)


def test_whole_numbers_are_their_own_words_and_others_have_numbers():
    words, named = all_words(Person("who", 1), np.array([5, -1]), ["x", "5", "y", "x"])
    assert words[:2].tolist() == [5, -1]
    assert words[3] == 5
    assert (words[[2, 4, 5]] >= NAMED).all()
    assert len(set(words[[2, 4, 5]].tolist())) == 2
    assert len(named) == 3


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ([np.array([3, 7]), ["x", "7.0"]], "^row 1: person column 'who': '7' and '7.0' may be two spellings"),
        ([["x", "7.0"], np.array([3, 7])], "^row 1: person column 'who': '7.0' and '7' may be two spellings"),
        ([np.array([3]), ["x", " 7"], np.array([3, 3, 7])], "^row 2: person column 'who': ' 7' and '7' may be two"),
        ([np.array([7]), ["7.00000000000000000001"]], "^row 0: .*may be two spellings"),
        ([["7.00000000000000000001"], np.array([7])], "^row 0: .*may be two spellings"),
        ([np.array([120]), ["12e1"]], "^row 0: .*'120' and '12e1' may be two spellings"),
        ([np.array([0]), ["-0.0"]], "^row 0: .*may be two spellings"),
        ([np.array([1]), ["true"]], "^row 0: .*may be two spellings"),
        ([["7", "7.0"]], "^row 1: .*may be two spellings"),
        ([np.array([1, 2**53])], r"^row 1: person column 'who': give keys past 2\^53"),
        ([["x", ""]], "^row 1: .*looks like a missing key"),
    ],
)
def test_two_spellings_of_one_key_are_refused_with_the_row_of_the_second(pieces, told):
    with pytest.raises(InvalidInput, match=told):
        all_words(Person("who", 1), *pieces)


def test_numbers_that_are_not_the_same_are_two_persons():
    words, _ = all_words(Person("who", 1), np.array([7, 12]), ["7.5", "1e30", "-7", "12e2", "1e99999999999999999999"])
    assert len(set(words.tolist())) == len(words)
