"""The container's recipe: what it names is there, and its health check tells a server at work from none."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from serving import worker
from wire import listening_server

from qrelease.apps.cli.serve_file import read_serve_file

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "Containerfile"
pytestmark = pytest.mark.skipif(not RECIPE.exists(), reason="no Containerfile here")


def test_its_extras_are_the_packages_and_nobody_is_root():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.search(r"/src\[([a-z,]+)\]", RECIPE.read_text())[1].split(",")
    assert {*named} <= {*extras}
    users = re.findall(r"^USER (\d+):(\d+)$", RECIPE.read_text(), re.MULTILINE)
    assert users
    assert all(int(number) > 0 for pair in users for number in pair)


def test_the_health_check_tells_a_server_at_work_from_none(tmp_path):
    (check,) = re.findall(r"CMD (\[\"python\", .*\])$", RECIPE.read_text(), re.MULTILINE)[:1]
    code = json.loads(check)[2]

    def healthy(port):
        asked = code.replace(":8000/", f":{port}/")
        return subprocess.run([sys.executable, "-c", asked], capture_output=True, check=False).returncode == 0

    with worker(tmp_path / "people.ledger") as app, listening_server(app) as port:
        assert healthy(port)
    assert not healthy(port)


def test_the_page_has_a_file_that_serve_takes(tmp_path):
    from qrelease.apps.cli.serve import dataset_options, server_options

    page = (ROOT / "docs" / "how-to" / "container.md").read_text()
    (tmp_path / "serve.toml").write_text(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    server, datasets = read_serve_file(tmp_path / "serve.toml", server_options, dataset_options)
    assert server.port == 8000
    assert datasets["people"].ledger == Path("/ledgers/people.ledger")
