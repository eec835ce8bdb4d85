"""Cells have the codes of their texts, whichever way these are found and in whatever blocks they come."""

import numpy as np
import pytest

from qrelease.data.domain import Attribute
from qrelease.data.sources.csv_kernels import PADDING
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.encoder import REMEMBERED_VALUES, Encoder, Misplaced, Spellings, unquoted

WORDS = ("a", "b", "a longer word", "a longer word still", "é", "?", "n/a", "", " a", "True")
NUMERALS = ("0", "1", "9", "10", "-9", "-9.0", "-7.50", "2.5", "1e0", "007", "9007199254740993", "9" * 30, "5.", "2.4")
MARKS = {"missing": ("-9", "?", "-7.5"), "outside": "missing"}
ATTRIBUTES = (
    Attribute("a", "category", categories=("a", "é", "a longer word", "other"), outside="other"),
    Attribute("a", "number", edges=(0, 1, 10), integer=True, **MARKS),
    Attribute("a", "number", edges=(0, 0.5, 1e16), **MARKS),
    Attribute("a", "number", edges=(-10, 0, 10), within=(-10, 10), step=0.01, **MARKS),
    Attribute("a", "number", edges=(0, 2, 4), within=(0, 3), step=1, **MARKS),
    Attribute("a", "coded", codes=300, **MARKS),
    Attribute("a", "category", learn=5, missing=("?",)),
    Attribute("a", "number", within=(0, 1000), step=1, learn=5, **MARKS),
    Attribute("a", "date", edges=(18_262, 18_292), **MARKS),
)


def blocks(texts, rng):
    """The texts, in blocks of one to five cells, as bytes and places."""
    while texts:
        count = rng.integers(1, 6)
        raw, texts = [text.replace('"', '""').encode() for text in texts[:count]], texts[count:]
        ends = np.cumsum([0, *map(len, raw)]).astype(np.int32)
        yield b"".join(raw) + bytes(PADDING), ends[:-1].copy(), ends[1:].copy()


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_codes_are_those_of_the_encoder(attribute, seed):
    rng = np.random.default_rng(seed)
    texts = [str(text) for text in rng.choice([*WORDS, *NUMERALS, 'say "a"', "2020-01-05"], 500)]
    spellings, encoder = Spellings(Encoder(attribute.fine), Dialect()), Encoder(attribute.fine)
    found = [spellings.codes(*block) for block in blocks(texts, rng)]
    expected = encoder.codes(texts, len(texts))
    assert np.concatenate(found).tolist() == expected.tolist()
    assert {codes.dtype for codes in found} == {expected.dtype}
    assert spellings.encoder.texts == encoder.texts  # of those that are learned, in their order


def test_more_spellings_than_are_remembered():
    attribute = Attribute("a", "category", categories=("x", "other"), outside="other")
    spellings = Spellings(Encoder(attribute), Dialect())
    texts = [f"w{k}" for k in range(REMEMBERED_VALUES + 1000)] + ["x", "x" * 1000]
    for _ in range(2):
        raw = "".join(texts).encode() + bytes(PADDING)
        ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
        codes = spellings.codes(raw, ends[:-1], ends[1:])
        assert codes.tolist() == [1] * (len(texts) - 2) + [0, 1]


def test_an_error_names_the_first_record():
    spellings = Spellings(Encoder(Attribute("a", "number", edges=(0, 10))), Dialect())
    for texts, place in ((["1", "11", "x"], 1), (["x", "11"], 0), (["2.5", "3", ""], 2)):
        ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
        with pytest.raises(Misplaced, match="column 'a'") as error:
            spellings.codes("".join(texts).encode() + bytes(PADDING), ends[:-1], ends[1:])
        assert error.value.position == place


def test_two_quotes_in_a_cell_mean_one():
    assert unquoted(b'a""b', '"') == 'a"b'
    assert unquoted(b'a""b', "") == 'a""b'
