"""The pages: self-contained, and behind headers that lock them down."""

import re
from importlib.resources import files

import pytest
from serving import Client

from qrelease.apps.server.app import routed
from qrelease.apps.server.pages import ENTRY_FORM, ENTRY_PAGES, HEADERS, PAGES, BrowserHeaders, page_routes


def test_pages_are_self_contained_and_locked_down(server):
    pages = ["/", "/docs", "/static/page.js", "/static/chart.js", "/static/docs.js", "/static/style.css"]
    texts = [Client(server.app).get(page).content.decode() for page in pages[:2]]
    icons = ["/" + re.search(r'<link rel="icon" href="([^"/][^"]+)">', text)[1] for text in texts]
    for page in [*pages, *icons]:
        reply = Client(server.app).get(page)
        assert reply.status == 200
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
    for file in (files("qrelease.apps.server") / "static").iterdir():
        text = file.read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg"}
        if "<script" in text:
            assert re.search(r"<noscript>.*JavaScript.*openapi.json.*</noscript>", text), file.name
        assert not re.search(r"innerHTML|eval\(|style=|onclick|document\.write", text)


@pytest.mark.parametrize("pages", [PAGES, ENTRY_PAGES], ids=["of one dataset", "of several"])
def test_every_file_is_served_behind_the_prefix_as_what_it_is(pages):
    app = routed(page_routes(pages, "/datasets/people"))
    folder = files("qrelease.apps.server") / "static"
    form = (folder / ENTRY_FORM).read_text(encoding="utf-8")
    for path, name in pages.items():
        reply = Client(app).get(f"/datasets/people{path}")
        assert reply.status == 200
        kind = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
        assert reply.headers["content-type"].partition(";")[0] == kind[name.rpartition(".")[2]]
        text = (folder / name).read_text(encoding="utf-8").replace(f"<!-- {ENTRY_FORM} -->\n", form)
        assert reply.content.decode() == text
        assert ENTRY_FORM not in text
        assert Client(app).get(path).status == 404
        assert Client(app).send("POST", f"/datasets/people{path}", b"", {}).status == 405
    assert form in Client(app).get("/datasets/people/").content.decode()


def test_headers_that_a_response_has_already_are_kept_and_no_others_are_missing():
    async def app(scope, receive, send):
        own = [(b"referrer-policy", b"origin"), (b"x-own", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": own})
        await send({"type": "http.response.body", "body": b"text"})

    reply = Client(BrowserHeaders(app)).get("/")
    kept = {name.decode(): text.decode() for name, text in HEADERS}
    assert reply.headers == {**kept, "referrer-policy": "origin", "x-own": "1"}
    assert reply.content == b"text"
    assert "script-src 'self'" in kept["content-security-policy"]
