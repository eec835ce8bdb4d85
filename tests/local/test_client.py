"""What leaves a device: grids, wire formats, hostile reports; and that a device needs no numpy."""

import json
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from enumerated import CATEGORIES, NUMBERS, client_id
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import at_most_e_to, law, worst_ratio

from qrelease.errors import InvalidInput
from qrelease.local import (
    Coin,
    DeviceEntropy,
    Hadamard,
    Hybrid,
    KAry,
    LocalHashing,
    LocalLaplace,
    Marginals,
    OneOf,
    OptimisedUnary,
    Piecewise,
    Report,
    SquareWave,
    Text,
    Unary,
    serve,
)
from qrelease.noise.entropy import Entropy

CLIENTS = [
    KAry(1.0, 300),
    Unary(1.0, 70),
    OptimisedUnary(0.5, 9),
    LocalHashing(1.0, 1000),
    Hadamard(2.0, 100),
    Coin(0.5),
    Piecewise(2.0, -1, 1),
    SquareWave(1.0),
    Hybrid(3.0),
    LocalLaplace(0.1, 10, 20),
]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda c: c.name)
def test_reports_travel_both_ways_and_have_one_length(client):
    value = 3 if client.inputs < 2000 and not hasattr(client, "low") else 0.3
    reports = [client.report(value, DeviceEntropy()) for _ in range(50)]
    assert {len(r.to_bytes()) for r in reports} == {4 + client.width}
    assert len({len(r.to_json()) for r in reports}) == 1
    for report in reports:
        assert client.read_bytes(report.to_bytes()) == report
        assert client.read_json(report.to_json()) == report
    server = serve(client)
    assert (server.read(b"".join(r.to_bytes() for r in reports)).octets == server.gather(reports).octets).all()


EVERY = [
    *CLIENTS,
    Hybrid(0.3),
    OneOf(1.0, (Coin(1.0), Hybrid(0.3), KAry(0.5, 3))),
    Marginals(1.0, (2, 3), ((0,), (1,))),
]
EVERY += [Text(1.0, "ab", 3)]
HEX = "0123456789abcdef"


def taken(read, wire):
    """The report that is read, or None where it is refused."""
    try:
        return read(wire)
    except InvalidInput:
        return None


@pytest.mark.parametrize("client", EVERY, ids=lambda c: f"{c.name} {c.epsilon}")
@given(data=st.data())
@settings(max_examples=60)
def test_whatever_bytes_come_they_are_a_report_or_refused(client, data):
    """A report that is read is one of the client's, and no two texts or rows of bytes are the same report."""
    terms, server = bytes.fromhex(client.terms), serve(client)
    start = data.draw(st.sampled_from([b"", terms, terms[:3]]))
    wire = start + data.draw(st.binary(min_size=client.width, max_size=client.width) | st.binary(max_size=12))
    report = taken(client.read_bytes, wire)
    batch = taken(server.read, wire)
    assert (report is not None) == (batch is not None and len(batch) == 1)
    if report is not None:
        assert report.to_bytes() == wire
        assert 0 <= report.code < client.size
        assert not any(first <= report.code < end for first, end in client.unused)
        assert client.read_json(report.to_json()) == report


@pytest.mark.parametrize("client", EVERY, ids=lambda c: f"{c.name} {c.epsilon}")
@given(data=st.data())
@settings(max_examples=60)
def test_a_text_that_was_tampered_with_is_another_report_or_refused(client, data):
    number = data.draw(st.text(HEX, min_size=2 * client.width, max_size=2 * client.width))
    text = json.dumps({"terms": client.terms, "report": number})
    at, end = (data.draw(st.integers(0, len(text))) for _ in range(2))
    other = data.draw(st.text(HEX + 'xABF{}[]":, \n\t\\\0\u0660', max_size=3))
    tampered = data.draw(
        st.sampled_from([text, text[:at] + other + text[max(at, end) :], text[:at] + other + text[at:]])
    )
    for wire in (tampered, tampered.encode()):
        report = taken(client.read_json, wire)
        if report is not None:
            assert report.to_json() == tampered
            assert client.read_bytes(report.to_bytes()) == report
        elif tampered == text:
            assert taken(client.read_bytes, bytes.fromhex(client.terms + number)) is None


@given(st.text(max_size=80) | st.recursive(st.none() | st.floats() | st.text(), st.lists, max_leaves=5).map(json.dumps))
def test_whatever_text_comes_it_is_refused(text):
    with pytest.raises(InvalidInput):
        KAry(1.0, 300).read_json(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 60, "not JSON"),
        ('{"terms": "TERMS", "report": "012c"}', "must be below 300, got 300"),
        ('{"terms": "00000000", "report": "0001"}', "in the terms 00000000, expected TERMS"),
        ('{"terms": "TERMS", "report": "00 01"}', "lower-case hexadecimal"),
        ('{"terms": "TERMS", "report": "000A"}', "lower-case hexadecimal"),
        ('{"terms": "TERMS", "report": "000001"}', "has 6 bytes, got 7"),
        ('{"terms": "TERMS", "report": "xx01"}', "must be hexadecimal"),
        ('{"terms": "TERMS", "report": 1}', "texts"),
        ('{"terms": "TERMS"}', "texts"),
        ('{"terms": "TERMS", "report": "0001", "x": "1"}', "texts"),
        ('{"terms": "TERMS", "report": "0001", "pad": "' + "0" * 99 + '"}', "at most 68 characters"),
        ('["TERMS"]', "texts"),
        ('{"terms": "TERMS", "terms": "TERMS", "report": "0001"}', "one text"),
        ('{"terms": "TERMS", "report": "0002", "report": "0001"}', "one text"),
        ('{"terms": "TERMS", "report": "0001"} ', "one text"),
        ('{"terms": "TERMS", "report": "0001"}\n', "one text"),
        ('{"terms":"TERMS", "report": "0001"}', "one text"),
        ('{"report": "0001", "terms": "TERMS"}', "one text"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_a_wrong_report_is_refused_with_its_reason(text, message):
    client = KAry(1.0, 300)
    text = text.replace("TERMS", client.terms) if isinstance(text, str) else text
    with pytest.raises(InvalidInput, match=message.replace("TERMS", client.terms)):
        client.read_json(text)


def test_one_wrong_report_among_many_is_named():
    client = KAry(1.0, 300)
    server, good = serve(client), Report(client.terms, 7, 2).to_bytes()
    assert server.read(3 * good).codes.tolist() == [7, 7, 7]
    with pytest.raises(InvalidInput, match="report 2 has a number that is not below 300"):
        server.read(good + bytes.fromhex(client.terms) + b"\x01\x2c" + good)
    with pytest.raises(InvalidInput, match=f"report 3 is in the terms 00000000, expected {client.terms}"):
        server.read(good + good + bytes(6))
    with pytest.raises(InvalidInput, match="6 bytes each, got 13"):
        server.read(good + good + b"x")
    with pytest.raises(InvalidInput, match="no report"):
        server.estimate([])
    with pytest.raises(InvalidInput, match="in the terms"):
        server.estimate(serve(KAry(2.0, 300)).read(b""))
    with pytest.raises(InvalidInput, match="report 1 is in the terms"):
        server.estimate([KAry(2.0, 300).report(1, DeviceEntropy())])


def test_terms_tell_mechanisms_apart_and_are_the_same_for_equal_ones():
    assert KAry(0.5, 3).terms == KAry(np.float32(0.5), np.int64(3)).terms
    assert Coin(1, 0, 2).terms == Coin(1.0, 0.0, np.float64(2)).terms
    assert len({c.terms for c in [*CLIENTS, KAry(1.0, 301), KAry(1.1, 300), Coin(0.5, 0, 2)]}) == len(CLIENTS) + 3
    assert json.loads(json.dumps(Coin(0.5).to_json()))["mechanism"] == "coin"


@pytest.mark.parametrize(
    "client",
    [
        KAry(np.float32(1), np.int8(100)),
        Coin(np.int64(1), np.float64(0), 1, np.int16(30_000)),
        Marginals(1, (np.int8(100), np.int8(100)), ((np.int8(0), np.int8(1)),)),
        Text(1, "ab", np.int8(100), np.int8(10)),
    ],
)
def test_parameters_of_numpys_types_do_not_overflow(client):
    for name in client.__dataclass_fields__:
        value = getattr(client, name)
        assert not type(value).__module__.startswith("numpy") or isinstance(value, float)
    assert client.size > 1
    assert client.inputs > 99
    assert type(client.inputs) is int


FLOATS = [0.0, -0.0, 5e-324, 1e-300, 0.1, 0.5, math.nextafter(0.5, 1), math.nextafter(0.5, 0), 1 - 2**-53, 1.0]


@pytest.mark.parametrize(
    "value", [*FLOATS, -1e308, 1e308, math.inf, -math.inf, 1, np.float32(0.1), np.int64(1), Fraction(1, 3)]
)
def test_any_number_counts_as_the_nearest_place_of_the_grid(value):
    """So a report's law, and its bits, depend on a value by its place on the declared grid alone."""
    client = Coin(1.0, 0, 1, 10)
    place = client.place(value)
    clipped = min(max(value if isinstance(value, Fraction) else float(value), 0), 1)
    assert 0 <= place <= 10
    assert abs(Fraction(clipped) - Fraction(place, 10)) <= Fraction(1, 20)


def test_every_half_float_goes_to_the_nearest_place():
    """All 65 536 of them: the infinite ones to the ends, and what is no number to none."""
    client = Coin(1.0, -1, 3, 12)
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    numbers = values[np.isfinite(values)]
    places = np.array([client.place(v) for v in numbers])
    ends = np.array([client.place(v) for v in (-np.inf, np.inf)])
    assert ends.tolist() == [0, 12]
    away = np.abs((np.clip(numbers.astype(np.float64), -1, 3) + 1) * 3 - places)
    assert away.max() <= 0.5
    assert set(places) == set(range(13))
    for value in values[np.isnan(values)]:
        with pytest.raises(InvalidInput):
            client.place(value)


def test_equal_places_make_equal_reports_from_equal_randomness():
    for client in [c for c in CLIENTS if hasattr(c, "low")]:
        step = (client.high - client.low) / client.steps
        near = [client.low + 100 * step + d * step for d in (-0.4, 0, 1e-9, 0.4)]
        assert len({client.report(v, Entropy.insecure(3)) for v in near}) == 1


@pytest.mark.parametrize("value", [math.nan, True, "0.5", None, 1j])
def test_what_is_no_number_is_refused_without_being_named(value):
    with pytest.raises(InvalidInput, match="the value must be a number") as caught:
        Coin(1.0).report(value, DeviceEntropy())
    assert repr(value) not in str(caught.value)


@pytest.mark.parametrize("value", [-1, 3, 1.0, True, "1", None])
def test_what_is_no_category_is_refused(value):
    with pytest.raises(InvalidInput, match="the category must be an integer from 0 to 2"):
        KAry(1.0, 3).report(value, DeviceEntropy())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KAry(1.0, 1), "k must be an integer of at least 2"),
        (lambda: Unary(1.0, 1 << 17), "k must be at most 65,536 for unary"),
        (lambda: Coin(1.0, 1, 1), "low must be below high"),
        (lambda: Coin(1.0, 0, math.inf), "high must be a finite number"),
        (lambda: Coin(1.0, 0, 1, 0), "steps must be an integer of at least 1"),
        (lambda: Coin(1.0, 0, 1, 1 << 25), r"steps must be at most 2\^24"),
        (lambda: serve(Coin(1.0)).moved_by(3, 2), "more liars than reports"),
    ],
)
def test_bad_terms_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_a_device_needs_no_numpy():
    code = """
import sys
for name in ("numpy", "scipy", "qrelease.data.table"):
    sys.modules[name] = None
from qrelease.local import *
for client in (KAry(1.0, 9), Unary(1.0, 9), OptimisedUnary(1.0, 9), LocalHashing(1.0, 9), Hadamard(1.0, 9)):
    client.read_json(client.report(8, DeviceEntropy()).to_json())
for client in (Coin(1.0), Piecewise(1.0), SquareWave(1.0), Hybrid(1.0), LocalLaplace(1.0)):
    client.read_bytes(client.report(0.1, DeviceEntropy()).to_bytes())
both = OneOf(1.0, (Coin(1.0), KAry(0.5, 3)))
marginals = Marginals(1.0, (2, 3), ((0,), (0, 1)))
for client, value in ((Text(1.0, "abc", 5), "abca"), (both, (0.3, 2)), (marginals, (1, 2))):
    with Book(1.0) as book:
        client.read_json(book.report("question", client, value, DeviceEntropy()).to_json())
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_servers_load_no_table():
    """Nothing that estimates single questions or texts could read a table; `attributes` hands measurements to fits."""
    code = """
import sys
import numpy as np
from qrelease.local import Coin, KAry, Text, plan, serve, shuffled
for client in (Coin(1.0), KAry(1.0, 3)):
    server = serve(client)
    server.estimate(server.from_codes(np.array([0, 1, 1])))
plan(1.0, n=100, m=3)
assert not {"qrelease.data.table", "qrelease.release.curator", "qrelease.privacy.ledger"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("client", CATEGORIES + NUMBERS, ids=client_id)
def test_no_report_is_more_than_e_to_the_epsilon_times_likelier(client):
    laws = [law(client, place) for place in range(client.inputs)]
    assert all(sum(one.values()) == 1 for one in laws)
    assert all(0 <= code < client.size for one in laws for code in one)
    ratio = worst_ratio(laws)
    assert at_most_e_to(ratio, Fraction(client.epsilon))
    # Nothing is given away either: e^ε is reached but for one part in 10^8 of ε.
    assert math.log(ratio) == pytest.approx(float(client.epsilon), rel=1e-8)
