"""A real browser, and what is asked of a page in it: no errors, no other host, keys enough, contrast enough."""

import contextlib
import json
import shutil

import pytest

CONTROLS = """
const seen = (e) => e.getClientRects().length && getComputedStyle(e).visibility === "visible";
const found = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((e) => !e.disabled && seen(e));
found.forEach((e, i) => { e.dataset.tab = e.type === "radio" ? `radio ${e.name}` : `${i} ${e.id || e.textContent}`; });
document.activeElement.blur();
getSelection().removeAllRanges();
return [...new Set(found.map((e) => e.dataset.tab))];
"""

FAINT = """
const rgb = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
function behind(e) {
  for (let at = e; at; at = at.parentElement) {
    const colour = rgb(getComputedStyle(at).backgroundColor);
    if (colour[3] > .99) return colour;
  }
  return [255, 255, 255, 1];
}
const found = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.getClientRects().length || e.disabled || e.closest("svg, option, iframe")) continue;
  const style = getComputedStyle(e), pair = [light(rgb(style.color)), light(behind(e))].sort((a, b) => b - a);
  const ratio = (pair[0] + .05) / (pair[1] + .05), size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)}: ${e.textContent.trim().slice(0, 40)}`);
}
return found;
"""


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


def out_of_reach(browser):
    """The controls of the page, as it is, that Tab does not come to."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    wanted = browser.execute_script(CONTROLS)
    reached = set()
    for _ in range(3 * len(wanted) + 20):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        reached.add(browser.execute_script("return document.activeElement?.dataset.tab ?? null"))
        if reached >= set(wanted):
            break
    return [name for name in wanted if name not in reached]


def too_faint(browser):
    """Texts whose contrast is below AA of WCAG 2, light and dark."""
    found = []
    for scheme in ("dark", "light"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        found += [f"{scheme} {text}" for text in browser.execute_script(FAINT)]
    return found
