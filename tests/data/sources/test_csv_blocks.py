"""Blocks of bytes are split into the records that Python's reader finds, or left to that reader."""

import csv
import gzip
import random
from functools import partial
from itertools import product

import numpy as np
import pytest
from sources import CODES, PEOPLE, TEXT, codes

from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.sources.csv import CsvPiece, CsvReader
from qrelease.data.sources.csv_blocks import BlockCsvReader, BlockPiece
from qrelease.data.sources.files import csv_reader
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

PIECES = ("a", "b", ",", ",", '"', '"', '""', "\n", "\r\n", "\r", " ", "\0", "é", "x" * 25)
FIELDS = ("a", '"', ",", "\n", "\r", "é", "", " ", "\r\n")


def texts(made):
    """The rows, or what is wrong with them; and how many of them Python's reader has read."""
    rows, by_python = [], 0
    try:
        reader = made()
        for piece in reader.pieces(list(reader.header)):
            if isinstance(piece, CsvPiece):
                by_python += len(piece.chunk.rows)
                rows += map(tuple, piece.chunk.rows)
            else:
                rows += zip(*(piece.texts(name) for name in reader.header), strict=True)
    except InvalidInput as error:
        return str(error), by_python
    return rows, by_python


def of_tokens(rng, width):
    """Anything at all."""
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(60)))


def of_records(rng, width):
    """Mostly a file."""
    records = []
    for _ in range(rng.randrange(12)):
        fields = ["".join(rng.choice(FIELDS) for _ in range(rng.randrange(5))) for _ in range(width)]
        if rng.random() < 0.02:
            fields.append("1")
        quoted = [any(mark in text for mark in '",\n\r') or rng.random() < 0.3 for text in fields]
        spelled = [
            f'"{text.replace(chr(34), chr(34) * 2)}"' if q else text for text, q in zip(fields, quoted, strict=True)
        ]
        records.append(",".join(spelled))
    end = rng.choice(["\n", "\r\n", "\r"])
    ends = [end if rng.random() < 0.8 else rng.choice(["\n", "\r\n", "\r", "\n\n"]) for _ in records]
    text = "".join(record + end for record, end in zip(records, ends, strict=True))
    return rng.choice([text, text, text.rstrip("\r\n"), text + end])


@pytest.mark.parametrize("make", [of_tokens, of_records])
@pytest.mark.parametrize("seed", range(3))
def test_the_records_and_errors_are_those_of_python(make, seed, tmp_path):
    rng, path = random.Random(seed), tmp_path / "t.csv"
    ways = dict.fromkeys(("bytes", "both", "python"), 0)
    for _ in range(400):
        width = rng.choice([1, 2, 3])
        header = ",".join("cde"[:width]) + rng.choice(["\n", "\n", "\r\n", "\r"])
        body = make(rng, width).encode()
        odd = rng.random()
        body = b"\xef\xbb\xbf" + body if odd < 0.02 else body + b"\xff\n" if odd < 0.04 else body
        path.write_bytes(rng.choice([b"", b"\xef\xbb\xbf"]) + header.encode() + body)
        expected, _ = texts(lambda: CsvReader(path))
        size = rng.choice([1, 8, 16, 64, 1 << 20])
        found, by_python = texts(partial(BlockCsvReader, path, block=size))
        assert found == expected, path.read_bytes()
        if found and isinstance(found, list):
            ways["python" if by_python == len(found) else "both" if by_python else "bytes"] += 1
    assert min(ways.values()) > 20 if make is of_records else ways["bytes"], ways


def test_a_file_of_people_has_the_same_codes(tmp_path):
    (tmp_path / "t.csv").write_text(TEXT, newline="")
    assert codes(Table.of_reader(BlockCsvReader(tmp_path / "t.csv", block=8), PEOPLE)) == CODES


def test_a_line_feed_in_quotes_after_a_return_stays_wherever_a_block_ends(tmp_path):
    for before in range(12):
        (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"x" * before + b',1\n"\r\n",2\n')
        found, _ = texts(lambda: BlockCsvReader(tmp_path / "t.csv", block=8))
        assert found == [("x" * before, "1"), ("\r\n", "2")]


def test_errors_name_the_line_as_python_does(tmp_path):
    domain = Domain((Attribute("a", "number", edges=(0, 10)), Attribute("b", "category", categories=("x",))))
    for body in ("1,x\n2,x\nmany,x\n", '1,"\ny"\n', "1,x\n2\n", '1,x\n"2"3,x\n', '1,x\n"2', "1,x\n11,x\n"):
        (tmp_path / "t.csv").write_text(f"a,b\n{body}")
        messages = []
        for reader in (CsvReader, BlockCsvReader):
            with pytest.raises(InvalidInput) as error:
                Table.of_reader(reader(tmp_path / "t.csv"), domain)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


def test_a_field_beyond_pythons_limit_is_refused_wherever_it_stands(tmp_path):
    domain = Domain((Attribute("a", "category", categories=("x", "other"), outside="other"),))
    for field in ("y" * 140_000, f'"{"y," * 70_000}"', f'"{"y" * 70_000}""{"y" * 70_000}"'):
        for before in (0, 30_000, 60_000):
            (tmp_path / "t.csv").write_text("a,b\n" + "x,1\n" * before + f"{field},1\n")
            with pytest.raises(InvalidInput, match="field larger than field limit"):
                Table.of_reader(BlockCsvReader(tmp_path / "t.csv"), domain)


def test_many_distinct_numerals_have_the_codes_of_each_by_itself(tmp_path):
    """They are read all at once, but for those that a mark may mean, that lie outside, or are spelled oddly."""
    rng = np.random.default_rng(0)
    plain = [repr(x) for x in np.round(rng.normal(scale=9, size=400), 3).tolist()] + [str(i) for i in range(-12, 13)]
    odd = [
        "-7.50",
        "007",
        " 1",
        "1e0",
        "+2",
        "nan",
        "inf",
        "1_0",
        "٣",
        "true",
        "0x1",
        "-0",
        "9" * 30,
        "0." + "3" * 40,
        "x",
        "",
    ]
    castable = ["1e0", "5.", ".5", "-0", "nan", "inf", "-9.00", "-9", "-7.50"]
    path = tmp_path / "t.csv"
    kinds = (
        {"kind": "number", "edges": (-10, 0, 0.5, 10)},
        {"kind": "number", "edges": (-10, 0, 5, 10), "integer": True},
        {"kind": "number", "edges": (-10, 0, 10), "within": (-10, 10), "step": 0.001},
        {"kind": "coded", "codes": 9},
    )
    for kind, more in product(kinds, ([*castable, *odd], castable)):
        values = rng.permutation(np.array([*plain, *more], dtype=object))
        path.write_text("a,n\n" + "".join(f"{value},1\n" for value in values))
        domain = Domain((Attribute("a", **kind, missing=("-9", "-7.5", "?"), outside="missing"),))
        by_python, by_bytes = (Table.of_reader(reader(path), domain) for reader in (CsvReader, BlockCsvReader))
        assert codes(by_python) == codes(by_bytes)
        assert by_python.fingerprint(b"key") == by_bytes.fingerprint(b"key")


def test_persons_and_learned_categories_are_numbered_alike(tmp_path):
    path = tmp_path / "t.csv.gz"
    rows = [f"{'pq'[i % 2]}{i % 7},w{i * i % 11}\n" for i in range(200)]
    path.write_bytes(gzip.compress(("id,ward\n" + "".join(rows)).encode()))
    learned = Attribute("ward", "category", learn=5, missing=("w3",))
    by_person = Domain(
        (Attribute("ward", "category", categories=tuple(f"w{i}" for i in range(11))),), person=Person("id", 3)
    )
    for domain in (Domain((learned,)), by_person):
        one, two = (Table.of_reader(reader, domain) for reader in (CsvReader(path), BlockCsvReader(path, block=64)))
        assert one.texts == two.texts
        assert one.fingerprint(b"key") == two.fingerprint(b"key")
    assert codes(one.bounded(b"secret")) == codes(two.bounded(b"secret"))


@pytest.mark.parametrize("header", ['"a\nb",c', '"a\r\nb",c', 'a,"b', "\n\na,b", "a\rb", 'a"b",c'])
def test_a_header_of_several_lines_is_that_of_python(header, tmp_path):
    """Python's parser raises an error for the first of its lines alone."""
    (tmp_path / "t.csv").write_bytes(f"{header}\n1,2\n3,4\n".encode())
    found, expected = (texts(partial(reader, tmp_path / "t.csv"))[0] for reader in (BlockCsvReader, CsvReader))
    assert found == expected


def test_larger_files_are_read_by_bytes(tmp_path):
    (tmp_path / "small.csv").write_text("a\n1\n")
    (tmp_path / "large.csv").write_text("a\n" + "1\n" * (1 << 21))
    kinds = [type(next(csv_reader(tmp_path / f"{name}.csv").pieces(["a"]))) for name in ("small", "large")]
    assert kinds == [CsvPiece, BlockPiece]
    assert csv.field_size_limit() == 1 << 17  # what a reader takes for the longest field
