"""Where there is nothing of POSIX, as on Windows: a release is made, charged, verified and judged; servers say no."""

import os
import subprocess
import sys

import pytest

WITHOUT = """
import fcntl, importlib.abc, importlib.util, multiprocessing, os, shutil, signal, subprocess, sys, tempfile, types
import numba, scipy.optimize, tqdm.auto  # which are not the subject: on Windows they come as they are for Windows

lock, real = fcntl, importlib.util.find_spec
msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.LK_UNLCK = lock.LOCK_EX | lock.LOCK_NB, lock.LOCK_UN
msvcrt.locking = lambda descriptor, how, size: lock.lockf(descriptor, how, size)
gone = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"}


class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in gone:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


for name in gone:
    sys.modules.pop(name, None)
sys.modules["msvcrt"] = msvcrt
sys.meta_path.insert(0, Without())
importlib.util.find_spec = lambda name, package=None: None if name in gone else real(name, package)
tempfile._O_TMPFILE_WORKS = shutil._use_fd_functions = False
functions = "fork register_at_fork pread preadv sysconf sched_getaffinity getuid geteuid fchmod fchown mkfifo killpg"
flags = "O_NOFOLLOW O_DIRECTORY O_CLOEXEC O_NONBLOCK O_TMPFILE O_SYNC"
for module, names in (os, f"{functions} {flags}"), (signal, "SIGKILL SIGHUP SIGALRM SIGUSR1 SIGCHLD SIGPIPE alarm"):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
opened = os.open


def open_file(path, flags, mode=0o777, *, dir_fd=None):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)  # Windows opens no folder
    return opened(path, flags, mode)


os.open = open_file
from qrelease.apps.cli import main

with open("people.toml", "w") as out:
    out.write('[[attribute]]\\nname = "sex"\\nkind = "category"\\ncategories = ["F", "M"]\\n')
with open("people.csv", "w") as out:
    out.write("sex\\n" + "F\\nM\\nM\\n" * 100)
given = ["people.csv", "--schema", "people.toml"]
assert main(["release", *given, "--epsilon", "1", "--total-epsilon", "3", "--out", "out"]) == 0
assert main(["release", *given, "--epsilon", "5", "--out", "more"]) == 2
assert main(["verify", "out", "--ledger", "people.ledger"]) == 0
assert main(["evaluate", *given, "--release", "out", "--out", "seen"]) == 0
assert main(["score", "people.csv", "out/synthetic.csv", "--schema", "people.toml", "--epsilon", "1"]) == 0
assert main(["answer", "out", "sex = F"]) == 0
assert main(["ledger", "show", "people.ledger"]) == 0
assert main(["studio", ".", "--no-browser"]) == 2
assert main(["serve", "--data", *given, "--ledger", "people.ledger", "--epsilon", "1", "--alpha", "0.1"]) == 2
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there it is so without being made so")
def test_all_but_the_servers_needs_no_posix(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "holds: ledger" in done.stdout
    assert "budget exceeded" in done.stderr
    assert done.stderr.count("this command runs on Linux and macOS") == 2
