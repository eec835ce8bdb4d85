import json
import tomllib

import numpy as np
import pytest
from hypothesis import given
from strategies import domains

import qrelease as qr
from qrelease.data.domain import Attribute, Domain
from qrelease.data.schema import column_digests, domain_from_json, domain_to_json, load, to_toml
from qrelease.errors import InvalidInput
from qrelease.release.card import card

FULL = """
[[attribute]]
name = "age"
kind = "number"
bins = { start = 0, stop = 30, width = 10 }
integer = true
missing = ["", "?"]
outside = "clip"

[[attribute]]
name = "share"
kind = "number"
bins = { start = 0, stop = 0.3, width = 0.1 }

[[attribute]]
name = "education"
kind = "category"
categories = ["school", "college"]
ordered = true

[[attribute]]
name = "admitted"
kind = "date"
bins = { start = 2020-01-15, stop = 2020-04-15, months = 1 }
reviewed = true

[[attribute]]
name = "ward"
kind = "coded"
codes = 12
ordered = false
"""


@pytest.fixture
def write(tmp_path):
    def _write(text, name="people.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


def test_load(write):
    assert load(write(FULL)) == Domain(
        (
            Attribute("age", "number", edges=(0, 10, 20, 30), integer=True, missing=("", "?"), outside="clip"),
            Attribute("share", "number", edges=(0, 0.1, 0.2, 0.3)),
            Attribute("education", "category", categories=("school", "college"), ordered=True),
            Attribute("admitted", "date", edges=(18276, 18307, 18336, 18367)),
            Attribute("ward", "coded", codes=12),
        )
    )


def test_load_private_pgm_json(write):
    domain = load(write('{"b": 3, "a": 2}', "d.json"))
    assert domain == Domain.coded({"b": 3, "a": 2})
    assert domain.names == ("b", "a")
    assert domain["b"].ordered


def test_a_byte_order_mark_is_skipped(write):
    assert load(write(b"\xef\xbb\xbf" + FULL.encode())) == load(write(FULL, "other.toml"))


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        ("{ start = 0, stop = 3, width = 1 }", ("0", "1", "2")),
        ("[0, 18, 65]", ("0..17", "18..64")),
    ],
)
def test_bins_of_whole_numbers(write, spec, labels):
    text = f'[[attribute]]\nname="a"\nkind="number"\ninteger=true\nbins={spec}'
    assert load(write(text))["a"].labels == labels


@pytest.mark.parametrize(
    ("spec", "first", "count"),
    [
        ("{ start = 2020-01-01, stop = 2030-01-01, years = 5 }", "2020-01-01..2024-12-31", 2),
        ('{ start = "2020-01-01", stop = "2021-01-01", months = 3 }', "2020-01-01..2020-03-31", 4),
        ("{ start = 2020-01-01, stop = 2020-01-15, days = 7 }", "2020-01-01..2020-01-07", 2),
        ("[2020-01-01, 2020-01-02, 2020-06-01]", "2020-01-01", 2),
    ],
)
def test_bins_of_dates(write, spec, first, count):
    attribute = load(write(f'[[attribute]]\nname="a"\nkind="date"\nbins={spec}'))["a"]
    assert attribute.label(0) == first
    assert attribute.size == count


def entry(body, head='[[attribute]]\nname = "a"\n'):
    return head + body


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there must be at least one [[attribute]]"),
        ("attribute = 1", "there must be at least one [[attribute]]"),
        (
            "[attributes.a]\nkind='coded'",
            "unknown key 'attributes'; a schema has 'attribute', 'impossible' and 'person', and may say",
        ),
        ("[[attribute]", "is not TOML"),
        ("attribute = [3]", "attribute 1 must be a table, got int"),
        ("[[attribute]]\nkind = 'coded'", "attribute 1: name must be a non-empty text, got None"),
        (entry(""), "attribute 'a': kind must be one of coded, category, number, date, got None"),
        (entry("kind = 'coded'"), "attribute 'a': kind 'coded' needs codes"),
        (entry("kind = 'coded'\ncodes = 2.0"), "attribute 'a': codes must be a whole number, got 2.0"),
        (entry("kind = 'coded'\ncodes = true"), "attribute 'a': codes must be a whole number, got True"),
        (entry("kind = 'coded'\ncodes = 0"), "attribute 'a' must have at least one cell"),
        (
            entry("kind = 'coded'\ncodes = 2\ncategories = []"),
            "attribute 'a': unknown key 'categories'; the keys of kind 'coded' are "
            "name, kind, missing, outside, reviewed, codes, ordered",
        ),
        (
            entry("kind = 'category'\ncategories = [1, 2]"),
            "attribute 'a': categories must be a list of texts in quotes, got [1, 2]",
        ),
        (entry("kind = 'category'\ncategories = ['x', 'x']"), "attribute 'a': category 'x' is listed twice"),
        (entry("kind = 'number'\nbins = [1]"), "attribute 'a': bins must be a list of at least two edges"),
        (entry("kind = 'number'\nbins = [1, 'x']"), "attribute 'a': bins must hold finite numbers, got 'x'"),
        (entry("kind = 'number'\nbins = [1, inf]"), "attribute 'a': bins must hold finite numbers, got inf"),
        (entry(f"kind = 'number'\nbins = [1, 1{'0' * 400}]"), "attribute 'a': bins must hold finite numbers"),
        (
            entry("kind = 'number'\nbins = [1, 3, 2]"),
            "attribute 'a': bin edges must increase strictly, got 3",
        ),
        (
            entry("kind = 'number'\nbins = {start = 0, stop = 1}"),
            "attribute 'a': bins must be a list of at least two edges, or start, stop and width; got {",
        ),
        (
            entry("kind = 'number'\nbins = {start = 0, stop = 95, width = 10}"),
            "attribute 'a': bins: stop must be start plus a multiple of width, got 95; use 90 or 100",
        ),
        (
            entry("kind = 'number'\nbins = {start = 0, stop = 1, width = -1}"),
            "attribute 'a': bins: width must be positive, got -1",
        ),
        (
            entry("kind = 'number'\nbins = {start = 1, stop = 1, width = 1}"),
            "attribute 'a': bins: start must lie before stop, got 1 and 1",
        ),
        (
            entry("kind = 'number'\nbins = {start = 0, stop = 1, width = 1e-300}"),
            "attribute 'a': bins: width makes",
        ),
        (
            entry("kind = 'date'\nbins = {start = 2020-01-01, stop = 2020-03-15, months = 1}"),
            "attribute 'a': bins: stop must be start plus a multiple of months, got 2020-03-15; "
            "use 2020-03-01 or 2020-04-01",
        ),
        (
            entry("kind = 'date'\nbins = {start = 2020-01-31, stop = 2020-03-31, months = 1}"),
            "attribute 'a': bins: months must be whole and start on a day 1..28",
        ),
        (
            entry("kind = 'date'\nbins = {start = 2020-01-01, stop = 9999-12-01, months = 999999}"),
            "attribute 'a': bins: months = 999999 steps past the year 9999",
        ),
        (
            entry("kind = 'date'\nbins = [2020-01-01T00:00:00, 2020-01-02]"),
            "attribute 'a': bins must hold dates such as 2024-01-31, got 2020-01-01 00:00:00",
        ),
        (
            entry("kind = 'date'\nbins = ['2020-13-01', '2021-01-01']"),
            "attribute 'a': bins must hold dates such as 2024-01-31, got '2020-13-01'",
        ),
        (entry("kind = 'coded'\ncodes = 2\noutside = 3"), "attribute 'a': outside must be a text, got 3"),
        (
            entry("kind = 'coded'\ncodes = 2\noutside = 'clip'"),
            "attribute 'a': outside must be one of 'error'",
        ),
        (
            entry("kind = 'coded'\ncodes = 2\nreviewed = 'no'"),
            "attribute 'a': reviewed must be true or false",
        ),
        (entry("kind = 'coded'\ncodes = 2\n") * 2, "attribute 'a' is listed twice"),
        (
            entry("kind = 'coded'\ncodes = 2\nreviewed = false"),
            "not reviewed: a; check each against public knowledge, then set its reviewed = true",
        ),
    ],
)
def test_load_refuses(write, text, message):
    path = write(text)
    with pytest.raises(InvalidInput) as caught:
        load(path)
    assert str(caught.value).startswith(f"schema {path}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", 'a JSON schema must be {"column": size, …}'),
        ("{}", 'a JSON schema must be {"column": size, …}'),
        ('{"a": 0}', "column 'a': size must be a whole number of at least 1, got 0"),
        ('{"a": true}', "column 'a': size must be a whole number of at least 1, got True"),
        ('{"a": 2', "is not JSON"),
    ],
)
def test_load_json_refuses(write, text, message):
    with pytest.raises(InvalidInput) as caught:
        load(write(text, "d.json"))
    assert message in str(caught.value)


def test_unreadable_schema(write, tmp_path):
    with pytest.raises(InvalidInput, match=r"absent\.toml cannot be read: No such file .* qr\.draft makes a first one"):
        load(tmp_path / "absent.toml")
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        load(tmp_path)
    with pytest.raises(InvalidInput, match="is not UTF-8 text"):
        load(write(b"\xff\xfe"))


def test_a_schema_is_given_by_its_text_too(write):
    assert load(FULL) == load(write(FULL))
    with pytest.raises(InvalidInput, match=r"^the text of the schema: attribute 'a': .*codes"):
        load(entry("kind = 'coded'"))
    with pytest.raises(InvalidInput, match=r"^the text of the schema is not TOML"):
        load("[[attribute\n")
    with pytest.raises(InvalidInput, match="a Domain, the path of a file, or its text, got dict"):
        load({"a": ["x"]})


@given(domains())
def test_a_domain_survives_json_and_toml(domain):
    plain = json.loads(json.dumps(domain_to_json(domain)))
    assert domain_from_json(plain) == domain
    assert domain_from_json(tomllib.loads(to_toml(domain))) == domain


@pytest.mark.parametrize("content", [None, [], {"attribute": 1}, {"attribute": []}, {"x": 1}])
def test_domain_from_json_refuses(content):
    with pytest.raises(InvalidInput):
        domain_from_json(content)


REVIEWED = '[[attribute]]\nname = "sex"\nkind = "category"\ncategories = ["F", "M"]\nreviewed = true\n'


@pytest.mark.parametrize(
    ("said", "by", "on"),
    [
        ('reviewed_by = "the board"\nreviewed_on = 2026-01-31\n', "the board", "2026-01-31"),
        ('reviewed_on = "2026-01-31"\n', None, "2026-01-31"),
        ('reviewed_by = "the board"\n', "the board", None),
    ],
)
def test_who_reviewed_a_schema_is_carried_to_manifest_and_card_and_changes_no_digest(said, by, on, tmp_path):
    plain, domain = load(REVIEWED), load(said + REVIEWED)
    assert (domain.review.by, domain.review.on) == (by, on)
    assert plain.review is None
    assert domain == plain
    assert hash(domain) == hash(plain)
    assert domain_to_json(domain) == domain_to_json(plain)
    assert column_digests(domain) == column_digests(plain)
    for i, each in enumerate((plain, domain)):
        with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
            curator = qr.Curator(qr.Table(each, (np.zeros(5, np.uint8),)), ledger)
            made = curator.release(qr.Laplace(), qr.Workload.marginals(each, 1), qr.PureDP(1.0))
        made.save(tmp_path / f"{i}")
    assert qr.load(tmp_path / "1").domain.review == domain.review
    assert qr.load(tmp_path / "0").domain.review is None
    written = json.loads((tmp_path / "1" / "release.json").read_text())["domain"]
    assert written == domain_to_json(domain) | domain.review.to_json()
    assert card(qr.load(tmp_path / "1"))["data"]["schema reviewed"] == str(domain.review)
    assert "schema reviewed" not in card(qr.load(tmp_path / "0"))["data"]
    assert qr.verify(tmp_path / "1").holds


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ('reviewed_by = ""\n', "reviewed_by must be a text of one line"),
        ("reviewed_by = 3\n", "reviewed_by must be a text of one line"),
        ('reviewed_on = "31.1.2026"\n', "reviewed_on must be a date such as"),
        ("reviewed_on = 2026-01-31T10:00:00\n", "reviewed_on must be a date such as"),
        ("reviewed_on = 5\n", "reviewed_on must be a date such as"),
    ],
)
def test_a_review_that_is_none_is_refused(said, why):
    with pytest.raises(InvalidInput, match=why):
        load(said + REVIEWED)


def test_columns_of_a_reviewed_schema_are_reviewed_too():
    domain = load('reviewed_by = "us"\n' + REVIEWED + REVIEWED.replace("sex", "other"))
    assert domain.project([1]).review.by == "us"
