"""The studio's process."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import qrelease as qr
from qrelease.apps.studio.running import way_in


def test_the_page_that_leads_to_the_studio_is_its_owners_alone(tmp_path):
    page = way_in("http://127.0.0.1:8123/secret/", tmp_path)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "url=http://127.0.0.1:8123/secret/" in page.read_text()


def test_no_argument_of_a_browser_names_the_token(tmp_path):
    """All users of a machine see the arguments of its programs."""
    told = tmp_path / "told"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {told}.part\nmv {told}.part {told}\n')
    browser.chmod(0o700)
    root = str(Path(qr.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": root, "BROWSER": f"{browser} %s"}
    command = [sys.executable, "-m", "qrelease", "studio", str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = next(line.strip() for line in process.stdout if "http://" in line)
            while not told.exists():
                assert process.poll() is None
            argument = told.read_text()
            assert argument.startswith("file://")
            assert address.split("/")[3] not in argument
            assert address in Path(argument.strip().removeprefix("file://")).read_text()
        finally:
            process.terminate()
