"""What is refused, in one line that says nothing private; and files that are sent."""

import json

import pytest
from studios import HOST, TERMS, TOKEN

from qrelease.apps.studio.app import MAX_BODY, refusing


def test_the_folder_is_listed(page):
    folder = page.studio.folder.path
    assert page.good("files") == {"folder": str(folder), "data": ["people.csv"], "schemas": [], "release": None}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("draft", {}, "give a file of the folder"),
        ("draft", {"file": "people.csv", "path": "people.csv"}, "give a file of the folder"),
        ("draft", {"file": 3}, "must be texts"),
        ("draft", {"file": "../people.csv"}, "without a path"),
        ("draft", {"file": "nowhere.csv"}, "no file"),
        ("draft", {"path": "/nowhere.csv"}, "no file"),
        ("draft", {"path": "/dev/null"}, "no file"),
        ("draft", {"file": "people.csv", "schema": "../s.toml"}, "without a path"),
        ("draft", {"file": "people.csv", "more": "x"}, "an object of file, path, schema"),
        ("draft", [], "Expected `object`, got `array`"),
        ("schema", {"content": {}}, "choose a file first"),
        ("price", {"terms": TERMS, "records": 5}, "review the schema first"),
        ("release", {"offer": "x", "confirmed": True}, "ask for the price first"),
        ("release", {"offer": ["x"], "confirmed": True}, "ask for the price first"),
        ("release", {"terms": TERMS, "confirmed": True}, "an object of offer, confirmed"),
    ],
)
def test_requests_that_make_no_sense_are_one_line(page, path, body, said):
    assert said in page.bad(path, body)


@pytest.mark.parametrize(
    ("terms", "status"),
    [
        ({"epsilon": 0}, 422),
        ({"epsilon": -1}, 422),
        ({"epsilon": 21}, 422),
        ({"delta": 1}, 422),
        ({"workload": ["marginals:9"]}, 422),
        ({"workload": ["where:height > 3"]}, 422),
        ({"total_epsilon": 0.1}, 402),
    ],
)
def test_terms_that_cannot_be_cost_nothing(page, terms, status):
    page.reviewed()
    page.bad("price", {"terms": TERMS | terms, "records": 300}, status=status)
    assert not (page.studio.folder.path / "people.ledger").exists()
    assert not (page.studio.folder.path / "people-release").exists()


def test_bodies_are_json_and_bounded(page):
    assert page.bad("draft", b"{", status=400)
    assert page.bad("draft", b'{"file": "people.csv", "file": "x"}', status=400)
    assert page.bad("draft", b"[" * 100_000, status=400)
    assert page.bad("draft", b" " * (MAX_BODY + 1), status=413)
    sent = {"host": HOST, "content-type": "text/plain"}  # what another page's form may send
    assert page.client.send("POST", f"/{TOKEN}/api/draft", b"{}", sent).status == 415


def test_paths_and_methods_that_are_none_are_refused(page):
    assert page.ask("nothing").status == 404
    assert page.ask("draft").status == 405
    assert page.ask("files", {}).status == 405


def test_a_file_is_sent_into_the_folder(page):
    def send(name, content, **headers):
        named = {"host": HOST, "content-type": "application/octet-stream", "content-length": str(len(content))}
        return page.client.send("POST", f"/{TOKEN}/api/upload?name={name}", content, named | headers)

    assert send("new.csv", b"a,b\n1,2\n").json == {"file": "new.csv"}
    assert page.good("files")["data"] == ["new.csv", "people.csv"]
    for name in ("people.csv", "x.txt", "", "..%2Fx.csv", ".x.csv"):
        assert send(name, b"a\n").status == 422
    assert send("y.csv", b"a\n", **{"content-type": "text/plain"}).status == 415
    assert send("y.csv", b"a\n", **{"content-length": "x"}).status == 415
    assert send("y.csv", b"a\n", **{"content-length": "3"}).status == 422
    assert page.good("files")["data"] == ["new.csv", "people.csv"]


@pytest.mark.parametrize(
    "error", [RuntimeError("Zyxwv"), MemoryError("Zyxwv"), OSError(5, "Input/output error", "/a/b")]
)
def test_a_fault_says_nothing(error):
    import asyncio

    async def fault(request):
        raise error

    found = asyncio.run(refusing(fault)(None))
    assert b"Zyxwv" not in found.body
    assert b"/a/b" not in found.body
    assert json.loads(found.body)["status"] == found.status_code


def test_the_page_asks_nobody_else(page):
    for name in ("", "studio.js", "columns.js", "quality.js", "parts.js", "studio.css", "icon.svg"):
        found = page.client.send("GET", f"/{TOKEN}/{name}", b"", {"host": HOST})
        assert found.status == 200
        text = found.content.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"http:" not in text
        assert b"https:" not in text
        assert b"innerHTML" not in text
        assert b"style=" not in text
        assert b" onclick=" not in text
