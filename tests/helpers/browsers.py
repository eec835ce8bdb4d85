"""A real browser, and what is asked of a page in it: no errors, no other host, keys enough, contrast enough."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest

CHECKS = Path(__file__).with_name("page_checks.js").read_text(encoding="utf-8")


@contextlib.contextmanager
def chromium(downloads=None):
    """A browser; a skipped test where there is none.

    downloads  where files go
    """
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (binary and driver):
        pytest.skip("no chromium here: apt-get install -y --no-install-recommends chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1000,1400"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        if downloads is not None:
            place = {"behavior": "allow", "downloadPath": str(downloads)}
            found.execute_cdp_cmd("Browser.setDownloadBehavior", place)
        yield found
    finally:
        found.quit()


def asked(browser):
    """The addresses that pages asked for since this was called last."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def checked(browser, call):
    """What a function of page_checks.js returns."""
    return browser.execute_script(f"{CHECKS}\nreturn {call};")


def out_of_reach(browser):
    """The controls of the page, as it is, that Tab does not come to; and those that look the same when it does."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    wanted = checked(browser, "controls()")
    reached, unseen = set(), set()
    for _ in range(3 * len(wanted) + 20):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        name, same = checked(browser, "focused()")
        reached.add(name)
        if same:
            unseen.add(f"not seen: {name}")
        if reached >= set(wanted):
            break
    return [name for name in wanted if name not in reached] + sorted(unseen)


def too_faint(browser):
    """Texts whose contrast is below AA of WCAG 2, light and dark."""
    found = []
    for scheme in ("dark", "light"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        found += [f"{scheme} {text}" for text in checked(browser, "faint()")]
    return found


def unnamed(browser):
    """What of the page a reader who hears it misses: language, title, headings, labels, alternative texts."""
    return checked(browser, "unnamed()")
