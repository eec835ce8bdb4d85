"""The studio as people meet it: a process, and a browser that goes the whole way from a file to a script."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from browsers import asked, chromium, out_of_reach, too_faint, unnamed
from studios import SECRETS, write_people

import qrelease as qr

pytestmark = pytest.mark.slow

ROOT = Path(qr.__file__).parent.parent


@pytest.fixture
def address(tmp_path):
    """That of a studio in a folder with a file of people."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_people(folder / "people.csv", 2000)
    command = [sys.executable, "-m", "qrelease", "studio", str(folder), "--no-browser"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield next(line.strip() for line in process.stdout if "http://" in line)
        process.terminate()
        process.wait(30)
        assert "fault" not in process.stderr.read()
    finally:
        process.kill()
        process.stdout.close()
        process.stderr.close()


@pytest.fixture
def downloads(tmp_path):
    found = tmp_path / "downloads"
    found.mkdir()
    return found


@pytest.fixture
def browser(downloads):
    with chromium(downloads) as found:
        yield found


def test_from_a_file_to_a_script_in_a_browser(address, browser, downloads, tmp_path):
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    def one(selector):
        return browser.find_element(By.CSS_SELECTOR, selector)

    def wait(condition):
        redrawn = [StaleElementReferenceException]
        return WebDriverWait(browser, 30, ignored_exceptions=redrawn).until(lambda _: condition())

    def fine():
        """Of a step as it is shown: keys reach all of it, its texts can be read, light and dark, and heard."""
        assert unnamed(browser) == []
        assert out_of_reach(browser) == []
        assert too_faint(browser) == []

    def write(selector, text):
        one(selector).clear()
        one(selector).send_keys(text)

    # The file.
    browser.get(address)
    wait(lambda: one("#file").get_property("value") == "people.csv")
    fine()
    write("#path", "nowhere.csv")
    one("#type button").click()
    wait(lambda: "there is no file" in one("#status").text)
    one("#take").click()
    wait(lambda: one("#columns").is_displayed())

    # The columns: what was read off the data is marked, and nothing is public before somebody says so.
    legends = [legend.text for legend in browser.find_elements(By.CSS_SELECTOR, ".card legend")]
    assert legends == ["sex", "age", "city", "pay", "born"]
    assert len(browser.find_elements(By.CSS_SELECTOR, ".read .mark")) == 5
    assert one("#column-2-categories").get_property("value") == ""
    fine()
    one("#reviewed").click()
    wait(lambda: "not decided" in one("#status").text)
    one("#start-all").click()
    assert "Atlantis" in one("#column-2-categories").get_property("value")
    write("#column-2-categories", "Ulm\nRom\nelse")
    one("#column-2-outside").send_keys("counts as else")
    write("#column-1-bins", "0 to 120 by 40")
    write("#column-3-exact", "0 to 999999999 by 1")
    write("#column-3-bins", "10")
    for i in range(4):
        one(f"#column-{i}-agreed").click()
    one("#column-4-dropped").click()
    assert one("#decided").text == "5 of 5 columns decided"
    one("#reviewed").click()
    wait(lambda: "within" in one("#status").text)  # the draft's grid is not that of the new bins
    write("#column-1-exact", "0 to 119 by 1")
    one("#reviewed").click()
    wait(lambda: one("#unit").is_displayed())

    # The unit.
    one("input[value=person]").click()
    assert one("#at-most").is_displayed()
    write("#by", "Kim")
    fine()
    one("input[value=record]").click()
    one("#whose .act").click()
    wait(lambda: one("#price").is_displayed())

    # Price and quality move with ε, without a charge.
    def figure(name):
        found = browser.find_elements(By.CSS_SELECTOR, "#figures div")
        return next((d.text.splitlines()[1] for d in found if d.text.startswith(name)), None)

    def off():
        return float(figure("tables are off by").removesuffix(" %"))

    assert not one("#go").is_enabled()
    write("#records", "2000")
    wait(lambda: browser.find_elements(By.CSS_SELECTOR, "#curve .dot"))
    before, place = off(), one("#curve .dot").get_attribute("cx")
    one("#slider").send_keys(Keys.ARROW_RIGHT * 10)
    wait(lambda: figure("charge") != "ε = 1" and one("#go").is_enabled())
    assert off() < before
    assert float(one("#curve .dot").get_attribute("cx")) > float(place)
    assert one("#epsilon").get_property("value") != "1"
    pairs = off()
    one("input[value='marginals:1']").click()
    wait(lambda: one("#go").is_enabled() and off() < pairs)
    one("input[value='marginals:2']").click()
    one("#numbers").send_keys("mean:pay by city")
    wait(lambda: one("#go").is_enabled() and off() > pairs)
    write("#epsilon", "1")
    write("#total", "3")
    wait(lambda: figure("charge") == "ε = 1" and one("#go").is_enabled())
    fine()
    folder = tmp_path / "data"
    assert not (folder / "people.ledger").exists()

    # The release, which is confirmed.
    one("#go").click()
    wait(lambda: one("#confirm").is_displayed())
    assert "epsilon=1, delta=1e-09" in one("#summary").text
    fine_dialog = too_faint(browser)
    assert fine_dialog == []
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    wait(lambda: not one("#confirm").is_displayed())
    assert not (folder / "people.ledger").exists()
    one("#go").click()
    wait(lambda: one("#confirm").is_displayed())
    one("#charge").click()
    wait(lambda: one("#done").is_displayed())
    assert "epsilon=3, delta=1e-08" in one("#account").text
    assert "spent\nepsilon=1, delta=1e-09" in one("#account").text
    release = qr.load(folder / "people-release")
    assert release.domain.names == ("sex", "age", "city", "pay")
    assert release.domain.review.by == "Kim"
    means = release.table("mean:pay by city")
    sources = dict(zip(means["city"], means["source"], strict=True))
    assert sources.pop("else") in ("measured", "bounds")  # one person, who may be lost in the noise
    assert sources == {"Ulm": "measured", "Rom": "measured"}

    # Its report, in the page and by itself; and its files.
    browser.switch_to.frame(one("#report"))
    wait(lambda: "Private release of “people”" in one("h1").text)
    assert one("body").value_of_css_property("background-color") == "rgba(253, 253, 251, 1)"  # its own style is let in
    browser.switch_to.default_content()
    fine()
    assert "people-release" in one("#code").text

    # The script makes the same kind of release.
    one("#as-python").click()
    script = downloads / "release.py"
    wait(script.exists)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, script, "again"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "spent in all: epsilon=2" in run.stdout
    again = qr.load(tmp_path / "again")
    assert (again.workload, again.cost, again.mechanism) == (release.workload, release.cost, release.mechanism)

    # Loaded again, the page shows where things stand; and none of it holds a record.
    browser.refresh()
    wait(lambda: one("#done").is_displayed())
    assert "spent\nepsilon=2" in one("#account").text
    assert not any(secret in browser.page_source for secret in SECRETS)
    time.sleep(0.5)
    logged = [e["message"] for e in browser.get_log("browser") if "status of 422" not in e["message"]]
    assert logged == []
    assert {url for url in asked(browser) if not url.startswith(address)} == set()
