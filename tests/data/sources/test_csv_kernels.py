"""The loops over the bytes of a CSV file find the cells that are there, and no others."""

import csv
import io

import numpy as np
import pytest

from qrelease.data.sources.csv_kernels import PADDING, cell_codes, remember, split_cells

NOTHING = np.zeros(PADDING, np.uint8)
EMPTY = np.zeros((256, 5), np.uint64)


def cells(text, width, quote='"', separator=","):
    """The cells of the whole records, how many bytes these take, and whether all was plain."""
    raw = text.encode()
    starts, ends = (np.full((width, len(raw) // width + 1), -1, np.int32) for _ in range(2))
    look = np.frombuffer(raw + bytes(PADDING), np.uint8)
    wanted = np.arange(width, dtype=np.int32)
    mark = ord(quote) if quote else -1
    records, taken, plain = split_cells(look, len(raw), ord(separator), mark, wanted, starts, ends)
    rows = [[raw[starts[c, r] : ends[c, r]].decode() for c in range(width)] for r in range(records)]
    return rows, taken, plain


def looked_up(texts, point=-1, low=0, table=(), known=EMPTY, spelled=NOTHING):
    """Codes, and the numbers of the cells that are left."""
    raw = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, raw)]).astype(np.int32)
    block = np.frombuffer(b"".join(raw) + bytes(PADDING), np.uint8)
    found, left, numbers = np.empty(len(raw), np.int32), np.empty(len(raw), np.int32), np.empty(len(raw))
    count = cell_codes(
        block, ends[:-1], ends[1:], point, low, np.array(table, np.int32), known, spelled, found, left, numbers
    )
    return found.tolist(), left[:count].tolist(), numbers[:count].tolist()


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("a,b\nc,d\n", 2, ([["a", "b"], ["c", "d"]], 8, True)),
        ("a,b\r\n\r\n\nc,d\r\n", 2, ([["a", "b"], ["c", "d"]], 13, True)),
        ('"a,\n",""\n', 2, ([["a,\n", ""]], 9, True)),
        ('"a""b",c\n', 2, ([['a""b', "c"]], 9, True)),  # as bytes: who makes a text of them takes one of the two
        ("\n\r\na\n", 1, ([[""], [""], ["a"]], 5, True)),
        ("a,b\nc", 2, ([["a", "b"]], 4, True)),
        ('a,b\n"c', 2, ([["a", "b"]], 4, True)),
        ('a,b\n"c"', 2, ([["a", "b"]], 4, True)),
        ("a,b\nc,d\r", 2, ([["a", "b"]], 4, True)),
        ("a,b\nc,d\re,f\n", 2, ([["a", "b"]], 4, False)),
        ("a,b\nc\n", 2, ([["a", "b"]], 4, False)),
        ("a,b\nc,d,e\n", 2, ([["a", "b"]], 4, False)),
        ('a,b\nc"d",e\n', 2, ([["a", "b"]], 4, False)),
        ('a,b\n"c"d,e\n', 2, ([["a", "b"]], 4, False)),
        ("a,b\n" + "x" * ((1 << 17) + 1) + ",d\n", 2, ([["a", "b"]], 4, False)),
        ('a,b\n"' + "x" * ((1 << 17) + 1), 2, ([["a", "b"]], 4, False)),
    ],
)
def test_split(text, width, expected):
    assert cells(text, width) == expected


def test_split_at_other_marks():
    assert cells("a,b;'c;d'\n", 2, "'", ";") == ([["a,b", "c;d"]], 10, True)
    assert cells('a"|"b"\n', 2, "", "|") == ([['a"', '"b"']], 7, True)


@pytest.mark.parametrize("seed", range(3))
def test_split_finds_the_cells_of_python_wherever_the_bytes_end(seed):
    rng = np.random.default_rng(seed)
    out = io.StringIO()
    rows = [["".join(rng.choice([*"ab", "é", ",", '"', "\n", "\r", ""], 3)) for _ in range(3)] for _ in range(20)]
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    whole = out.getvalue()
    expected = [[text.replace('"', '""') for text in row] for row in rows]
    for end in range(len(whole) + 1):
        found, _, plain = cells(whole[:end], 3)
        assert plain
        assert found == expected[: len(found)]
    assert found == expected


@pytest.mark.parametrize("seed", range(3))
def test_spellings_have_their_own_codes_and_no_others(seed):
    """Also those that share their first or last bytes, have zeros at their end, or are of any length."""
    rng = np.random.default_rng(seed)
    letters = np.array([*"ab\0", "é"])
    drawn = {"".join(letters[rng.integers(0, 4, rng.integers(0, 30))]) for _ in range(2000)}
    drawn |= {f"the same beginning {k}" for k in range(500)} | {f"{k} and the same end" for k in range(500)}
    drawn |= {"\0" * k for k in range(30)}
    texts = sorted(drawn)
    given = [text for text in texts if rng.random() < 0.5]
    raw = [text.encode() for text in given]
    spelled = np.frombuffer(b"".join(raw) + bytes(PADDING), np.uint8)
    offsets = np.cumsum([0, *map(len, raw)])
    known = np.zeros((1 << (2 * len(given)).bit_length(), 5), np.uint64)
    half = len(given) // 2
    remember(spelled, offsets[: half + 1], np.arange(half), known)
    remember(spelled, offsets[half:], np.arange(half, len(given)), known)
    codes = dict(zip(given, range(len(given)), strict=True))
    found, left, _ = looked_up(texts, known=known, spelled=spelled)
    assert found == [codes.get(text, -1) for text in texts]
    assert left == [place for place, text in enumerate(texts) if text not in codes]


def test_whole_numbers_have_the_codes_of_the_table():
    texts = ["-2", "-1", "0", "-0", "007", "1", "2", "3", "+1", "1.0", "", "-", "1 ", "0" * 14 + "1", "0" * 15 + "1"]
    found, left, numbers = looked_up(texts, ord("."), -1, (7, -1, 9, 11))
    assert found == [-1, 7, -1, -1, -1, 9, 11, -1, -1, -1, -1, -1, -1, 9, -1]
    nan = float("nan")
    spelled = [-2.0, 0.0, 0.0, 7.0, 3.0, nan, 1.0, nan, nan, nan, nan]
    assert np.array_equal(numbers, spelled, equal_nan=True)
    assert [texts[place] for place in left] == ["-2", "0", "-0", "007", "3", "+1", "1.0", "", "-", "1 ", "0" * 15 + "1"]


@pytest.mark.parametrize("seed", range(3))
def test_numerals_are_the_floats_that_python_reads(seed):
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(5000):
        digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, 18))))
        point = rng.integers(0, len(digits) + 1)
        text = digits[:point] + "." + digits[point:] if rng.random() < 0.8 else digits
        texts.append(("-" if rng.random() < 0.3 else "") + text)
    texts += ["9007199254740993", "-9007199254740992", "1e3", "0x1", "1_0", "inf", "nan", "1..2", "1.2.3", "--1", "."]
    _, left, numbers = looked_up(texts, ord("."))
    assert left == list(range(len(texts)))
    for text, number in zip(texts, numbers, strict=True):
        digits = text.removeprefix("-").split(".")
        plain = len(digits) < 3 and all(part.isdigit() for part in digits) and sum(map(len, digits)) <= 15
        assert (number == float(text)) if plain else np.isnan(number), text
    assert np.isfinite(numbers).sum() > 2000


def test_decimals_stand_behind_the_mark_that_is_said():
    assert looked_up(["1,5", "1.5"], ord(","))[2][0] == 1.5
    assert np.isnan(looked_up(["1,5", "1.5"], ord(","))[2][1])
