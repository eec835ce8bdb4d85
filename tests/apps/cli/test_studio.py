"""`qrelease studio` as a process."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from qrelease.apps.cli import main


def test_it_prints_an_address_and_ends_when_told(folder):
    command = [sys.executable, "-m", "qrelease", "studio", "--no-browser"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = next(line.strip() for line in process.stdout if "http://" in line)
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}api/files") as answer:
            assert json.load(answer)["data"] == ["people.csv"]
        host = address.rpartition("//")[2].partition("/")[0]
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.urlopen(f"http://{host}/")
        refused.value.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("command", [["studio"], ["serve", "serve.toml"]])
def test_a_system_without_posix_processes_is_told_so(command):
    code = f"import os; del os.fork; from qrelease.apps.cli import main; raise SystemExit(main({command}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    said = "qrelease: this command runs on Linux and macOS; on Windows take the Windows Subsystem for Linux\n"
    assert done.stderr == said


def test_a_folder_that_is_none_is_one_line(capsys):
    assert main(["studio", "nowhere", "--no-browser"]) == 2
    assert capsys.readouterr().err == "qrelease: there is no folder nowhere\n"
