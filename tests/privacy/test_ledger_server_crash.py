"""kill −9 of clients, of the server and of connections in the middle of COMMIT: nothing is lost, nothing overspent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "helpers" / "host_kills.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill")
def test_no_promise_breaks_on_a_server(tmp_path):
    command = [sys.executable, str(PROGRAM), str(tmp_path), "60", "1"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    if "skipped" in result:
        pytest.skip(result["skipped"])
    assert result["found"] == []
    assert result["kills"] >= 60
    assert result["writers killed"] > 20
    assert result["connections cut at COMMIT"] > 0
    assert result["charges believed"] > 50
