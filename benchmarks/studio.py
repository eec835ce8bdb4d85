"""The picture of the studio in the documentation, made in a browser: `python -m benchmarks.studio docs/studio.png`.

It needs selenium, chromium and its driver. The table is the public one that comes with the package.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from qrelease.data.bundled import ADULT_SCHEMA, adult
from qrelease.data.schema import to_toml
from qrelease.data.sources.csv import write_csv

COLUMNS = ["age", "education", "sex", "income"]


def main() -> None:
    """Go to the step with the price, and take a picture of it."""
    parser = argparse.ArgumentParser(description="Draw the picture of the studio.")
    parser.add_argument("picture", type=Path)
    picture = parser.parse_args().picture
    with tempfile.TemporaryDirectory() as folder:
        write_people(Path(folder))
        command = [sys.executable, "-m", "qrelease", "studio", folder, "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as studio:
            assert studio.stdout is not None
            try:
                draw(next(line.strip() for line in studio.stdout if "http://" in line), picture)
            finally:
                studio.terminate()
    print(f"wrote {picture}")


def write_people(folder: Path) -> None:
    """Some columns of the public table, and their schema."""
    import numpy as np

    table = adult(COLUMNS)
    write_csv(folder / "adult.csv", table.domain, table.columns, np.random.default_rng(0))
    (folder / "adult.toml").write_text(to_toml(table.domain, f"Of {ADULT_SCHEMA.name}"), encoding="utf-8")


def draw(address: str, picture: Path) -> None:
    """A picture of the step with the price."""
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select, WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1100,1130"):
        options.add_argument(option)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        browser.get(address)
        wait = WebDriverWait(browser, 60)
        wait.until(lambda _: len(browser.find_elements(By.CSS_SELECTOR, "#schema option")) == 2)
        Select(browser.find_element(By.ID, "schema")).select_by_visible_text("adult.toml")

        def shown(step: str) -> None:
            wait.until(lambda _: browser.find_element(By.ID, step).is_displayed())

        for button, step in (("#take", "columns"), ("#reviewed", "unit"), ("#whose .act", "price")):
            browser.find_element(By.CSS_SELECTOR, button).click()
            shown(step)
        browser.find_element(By.ID, "records").send_keys("50000")
        wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, "#curve .dot"))
        browser.execute_script("document.querySelector('#status').textContent = ''")
        browser.execute_script(
            "for (const e of document.querySelectorAll('#ledger dd')) e.textContent = "
            "e.textContent.replace(/.*[/]/, '')"
        )
        browser.save_screenshot(str(picture))
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
