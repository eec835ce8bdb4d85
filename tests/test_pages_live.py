"""Pages that people read, in a real browser: the site, a report, an estimate, a quality report.

On each: no error of a script, no other host, every control reached by Tab and seen to be, every text with the contrast
of WCAG 2.2 AA, light and dark, and a name for everything that is heard instead of seen. The studio and the analysts'
page are asked the same in `test_studio_live.py` and `test_server_live.py`, step by step.
"""

import contextlib
import functools
import http.server
import threading
from pathlib import Path

import numpy as np
import pytest
from browsers import asked, chromium, out_of_reach, too_faint, unnamed
from serving import TABLE

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.data import schema
from qrelease.data.sources.csv import write_csv

pytestmark = pytest.mark.slow

SITE = Path(__file__).parent.parent / "build" / "site"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a folder, and an empty icon, which browsers ask for by themselves."""

    def do_GET(self):
        """A file."""
        if self.path != "/favicon.ico":
            return super().do_GET()
        self.send_response(204)
        return self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


@contextlib.contextmanager
def served(folder):
    """The address of a folder's files."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def faults(browser, address, page):
    """What is wrong with a page."""
    browser.get(f"{address}/{page}")
    found = unnamed(browser) + too_faint(browser) + out_of_reach(browser)
    found += [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]
    return found + [url for url in asked(browser) if not url.startswith((address, "data:"))]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A folder with a release and its report, and a quality report."""
    folder = tmp_path_factory.mktemp("pages")
    write_csv(folder / "people.csv", TABLE.domain, TABLE.columns, np.random.default_rng(0))
    text = schema.to_toml(TABLE.domain).replace("reviewed = false", "reviewed = true")
    (folder / "people.toml").write_text(text, encoding="utf-8")
    data = [str(folder / "people.csv"), "--schema", str(folder / "people.toml")]
    out, cost = str(folder / "release"), ["--neighbours", "replace-one", "--epsilon", "1"]
    assert main(["release", *data, *cost, "--workload", "marginals:2", "--out", out]) == 0
    assert main(["evaluate", *data, "--release", out, "--out", str(folder / "quality")]) == 0
    visits = qr.Table(qr.Domain((qr.Attribute("visits", "coded", codes=10),)), (np.arange(200, dtype=np.uint32) % 10,))
    with qr.Ledger.open(None, qr.PureDP(1.0), dataset="people") as ledger:
        estimate = qr.Curator(visits, ledger).estimate(qr.Mean("visits"), qr.PureDP(1.0))
    (folder / "estimate.html").write_text(estimate.html(), encoding="utf-8")
    return folder


@pytest.mark.parametrize("page", ["release/report.html", "estimate.html", "quality/quality.html"])
def test_a_report_can_be_read_by_everybody(released, browser, page):
    with served(released) as address:
        assert faults(browser, address, page) == []


def test_a_bad_page_is_found(tmp_path, browser):
    """Each fault that is looked for, once."""
    (tmp_path / "bad.html").write_text(
        """<!doctype html><style>button:focus { outline: none } p { color: #999; background: #fff }</style>
        <p>faint</p><img src="nothing.png"><input><button></button><svg role="img"></svg>
        <h3 id="a">x</h3><a id="a" href="#a" tabindex="-1">y</a><script>nothing()</script>""",
        encoding="utf-8",
    )
    with served(tmp_path) as address:
        found = "\n".join(faults(browser, address, "bad.html"))
    for fault in ("no language", "no title", "no viewport", "not one main part", "no alternative text", "no label"):
        assert fault in found
    for fault in ("no name: <button", "no name: <svg", "twice the id a", "not one h1", "headings is left out"):
        assert fault in found
    for fault in ("light 2.85: faint", "not seen: 1 ", "2 a", "nothing is not defined", "404"):
        assert fault in found


@pytest.mark.skipif(not SITE.is_dir(), reason="python -m sphinx -W -b html docs build/site makes it")
def test_every_page_of_the_site_can_be_read_by_everybody(browser):
    """Pages of single names are made alike: every tenth of them is read."""
    pages = [p.relative_to(SITE).as_posix() for p in sorted(SITE.rglob("*.html")) if "_static" not in p.parts]
    names = [page for page in pages if "generated" in page]
    read = [page for page in pages if "generated" not in page or names.index(page) % 10 == 0]
    assert len(read) > len(names) / 10 + 30
    with served(SITE) as address:
        found = {page: faults(browser, address, page) for page in read}
    assert {page: what for page, what in found.items() if what} == {}
