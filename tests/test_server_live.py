"""The server as people meet it: a process with workers, under load and kills, fuzzed, and in a browser."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from browsers import asked, chromium, out_of_reach, too_faint, unnamed
from serving import TABLE, admit, spent

from qrelease.data import schema
from qrelease.data.sources.csv import write_csv

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
TOOLS = Path(sys.executable).parent


@pytest.fixture
def live(tmp_path):
    """The address of a server with two workers, and its ledger."""
    write_csv(tmp_path / "people.csv", TABLE.domain, TABLE.columns, np.random.default_rng(0))
    (tmp_path / "people.toml").write_text(schema.to_toml(TABLE.domain).replace("reviewed = false", "reviewed = true"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = "--data people.csv --schema people.toml --ledger people.ledger --neighbours replace-one --epsilon 1"
    command = [sys.executable, "-m", "qrelease", "serve", *options.split(), "--rate", "1e6", "--workers", "2"]
    process = subprocess.Popen([*command, "--port", str(port)], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not answers(port):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", tmp_path / "people.ledger"
        process.terminate()
        assert process.wait(20) == 0
        assert "fault" not in process.stderr.read()
    finally:
        process.kill()
        process.stderr.close()


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as link:
        link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return link.recv(64).startswith(b"HTTP/1.1 200")


def test_every_answer_has_its_charge_whoever_is_killed():
    if not (ROOT / "benchmarks" / "server.py").exists():
        pytest.skip("no benchmarks here")
    command = [sys.executable, "-m", "benchmarks.server", "--requests", "2000", "--clients", "16", "--kills", "100"]
    run = subprocess.run(
        [*command, "--phases", "storm,fire", "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout)
    assert found["fire"]["connections lost"] > 0
    for books in (found["storm, books"], found["fire"]):
        assert books["requests in the file"] > 0
        assert books["spent"] > 0
        assert books["wrong"] == 0


def test_it_stands_fuzzing_against_its_own_document(live):
    tool = TOOLS / "schemathesis"
    if not tool.exists():
        pytest.skip("schemathesis is not installed: pip install schemathesis")
    address, ledger = live
    # Not every text that has the shape of a query means one: these are 422.
    checks = ["--checks", "all", "--exclude-checks", "positive_data_acceptance"]
    command = [tool, "run", f"{address}/openapi.json", "-H", f"Authorization: Bearer {admit(ledger, 'ada')}"]
    run = subprocess.run(
        [*command, *checks, "--max-examples", "25", "--seed", "1"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout


# --- the page


@pytest.fixture
def browser():
    with chromium() as found:
        yield found


def test_an_analyst_asks_in_a_browser(live, browser):
    from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait

    address, ledger = live
    token = admit(ledger, "ada")

    def one(selector):
        return browser.find_element(By.CSS_SELECTOR, selector)

    def wait(condition):
        redrawn = [StaleElementReferenceException]
        try:
            return WebDriverWait(browser, 20, ignored_exceptions=redrawn).until(lambda _: condition())
        except TimeoutException:
            raise AssertionError(f"the page says {one('main').text!r}") from None

    def rows():
        return [r.text for r in browser.find_elements(By.CSS_SELECTOR, "#answers tbody tr")]

    browser.get(address)
    one("#token").send_keys("wrong")
    one("#entry button").click()
    wait(lambda: "token is needed" in one("#status").text)
    one("#token").clear()
    one("#token").send_keys(token)
    one("#entry button").click()
    wait(lambda: one("#where").is_displayed())
    wait(lambda: "spent nothing of epsilon 1" in one("#budget").text)
    assert [r.text.split()[0] for r in browser.find_elements(By.CSS_SELECTOR, "#schema tbody tr")] == [
        "sex",
        "age",
        "grade",
    ]

    Select(one("#term-column")).select_by_visible_text("age")
    Select(one("#term-cell")).select_by_visible_text("age in 20..39")
    one("#term-add").click()
    wait(lambda: "(measured)" in one("#price").text)
    assert spent(ledger) == 0
    one("#ask").click()
    wait(lambda: len(rows()) == 1)
    assert "age in 20..39" in rows()[0]
    assert "measured" in rows()[0]
    wait(lambda: "spent nothing" not in one("#budget").text)
    wait(lambda: one("#price").text.startswith("free (cached)"))
    assert spent(ledger) > 0

    one("input[value=marginal]").click()
    one("#form-marginal input[value=sex]").click()
    one("#ask").click()
    wait(lambda: len(rows()) == 3)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#chart svg .bar")) == 3

    # A question about numbers, put together by its measure, groups and condition.
    one("input[value=numbers]").click()
    Select(one("#measure")).select_by_value("ratio")
    assert not one("#measure-of").is_displayed()
    one("#measure-met").send_keys("age in 20..39")
    one("#measure-by input[value=sex]").click()
    one("#measure-where").send_keys("age in 0..39")
    wait(lambda: "budget" in one("#price").text or "(" in one("#price").text)
    one("#ask").click()
    wait(lambda: len(rows()) == 5)
    assert "F" in rows()[0]
    assert "M" in rows()[1]
    for mark in ("g", "rect.column", "line.bar", "circle.dot"):  # numbers of one question have an axis of their own
        assert len(browser.find_elements(By.CSS_SELECTOR, f"#chart svg {mark}")) == 2
    low, middle, high = (
        float(one(f"#chart svg {mark}").get_attribute(place))
        for mark, place in (("line.bar", "x1"), ("circle.dot", "cx"), ("line.bar", "x2"))
    )
    assert low < middle < high
    assert unnamed(browser) == []
    assert out_of_reach(browser) == []
    assert too_faint(browser) == []

    # Of a group that the noise hides, the page says so.
    one("#measure-met").clear()
    one("#measure-met").send_keys("grade = 2")
    one("#measure-where").clear()
    one("#measure-where").send_keys("sex = 'M' and age in 60..79")
    wait(lambda: "(" in one("#price").text)
    one("#ask").click()
    wait(lambda: len(rows()) == 7)
    assert any("the interval is all that the column's bounds allow" in text for text in rows()[:2])

    one("#synthetic").send_keys(Keys.ENTER)  # a click might miss: what is above it may still change
    wait(lambda: "synthetic records" in one("#status").text)
    wait(lambda: one("#price").text != "–")
    assert "synthetic records" in one("#status").text  # a price that comes late leaves it
    one("input[value=where]").click()
    one("#where").clear()
    one("#where").send_keys("height > 3")
    wait(lambda: "no column 'height'" in one("#refused").text)
    assert one("#price").text == "–"
    one("#ask").click()
    wait(lambda: "no column 'height'" in one("#status").text)

    browser.refresh()  # the token is remembered until the tab is closed, and the answers are on the server
    wait(lambda: len(rows()) == 7)
    assert any("the interval is all that the column's bounds allow" in text for text in rows())
    one("#where").send_keys("sex = 'F'")
    one("#leave").click()
    wait(lambda: one("#token").is_displayed())
    one("#token").send_keys(admit(ledger, "bob"))  # in the same tab, who shall see nothing of what ada did
    one("#entry button").click()
    wait(lambda: one("#where").is_displayed())
    wait(lambda: "Yours (bob)" in one("#budget").text)
    assert rows() == []
    assert not browser.find_elements(By.CSS_SELECTOR, "#chart svg .bar")
    assert one("#where").get_property("value") == ""
    one("#leave").click()
    browser.get(f"{address}/docs")
    wait(lambda: "POST /v1/query" in one("main").text)
    assert unnamed(browser) + out_of_reach(browser) + too_faint(browser) == []
    logged = [e["message"] for e in browser.get_log("browser") if "status of 4" not in e["message"]]
    assert logged == []
    assert {url for url in asked(browser) if not url.startswith((address, "blob:", "data:"))} == set()
