"""What a killed process left in the folder of temporary files is deleted, and nothing else."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

IN_A_FOLDER = """
import sys
from pathlib import Path
from qrelease._util.private_folder import private_folder
with private_folder() as folder:
    Path(folder, "rows").write_text("private")
    print(folder, flush=True)
    sys.stdin.readline()
"""


def in_a_folder(temporary):
    """A process that has a folder until it is told to go on, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_FOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    return process, Path(process.stdout.readline().strip())


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_the_folder_of_a_killed_process_is_deleted_by_the_next_and_no_other(tmp_path):
    others = [tmp_path / "qrelease-notes", tmp_path / "qrelease-file", tmp_path / "qrelease-link"]
    others[0].mkdir()
    others[1].touch()
    killed, left = in_a_folder(tmp_path)
    others[2].symlink_to(left)
    living, kept = in_a_folder(tmp_path)
    assert left.stat().st_mode & 0o777 == 0o700
    assert (left / "rows").exists()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert (left / "rows").exists()
    third, folder = in_a_folder(tmp_path)
    assert not left.exists()
    assert kept.exists()
    for process in (living, third):
        process.communicate("\n")
        assert process.returncode == 0
    assert sorted(tmp_path.iterdir()) == sorted(others)
    assert folder.parent == tmp_path
