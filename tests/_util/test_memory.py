"""What memory is left: the least of what the machine, a container and the process's own limits leave."""

import ast
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qrelease
from qrelease._util import memory
from qrelease.errors import OutOfMemory, TooLarge

GIB = 1 << 30


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Files of a kernel that has 8 GiB free: `kernel(path, text)` writes another one."""

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    monkeypatch.setattr(memory, "FILE_SYSTEM", tmp_path)
    monkeypatch.setattr(memory, "USABLE_SHARE", 1.0)
    write("proc/meminfo", f"MemTotal: {64 << 20} kB\nMemAvailable: {8 << 20} kB\n")
    return write


def test_of_the_machine(kernel):
    assert memory.free() == 8 * GIB


def test_without_a_kernel_that_tells_there_is_a_guess(kernel, tmp_path):
    assert memory.free() == 8 * GIB
    (tmp_path / "proc" / "meminfo").unlink()
    assert 1 << 26 < memory.free() < 1 << 50


def test_of_the_machine_for_real():
    assert 1 << 26 < memory.free() < 1 << 50


def test_of_a_control_group(kernel):
    """The inactive pages of files are given back under pressure, so they are free."""
    kernel("proc/self/cgroup", "0::/user/job\n")
    kernel("sys/fs/cgroup/user/job/memory.max", f"{4 * GIB}\n")
    kernel("sys/fs/cgroup/user/job/memory.current", f"{3 * GIB}\n")
    assert memory.free() == GIB
    kernel("sys/fs/cgroup/user/job/memory.stat", f"anon 7\ninactive_file {GIB}\n")
    assert memory.free() == 2 * GIB


def test_of_a_control_group_above(kernel):
    kernel("proc/self/cgroup", "0::/user/job\n")
    kernel("sys/fs/cgroup/user/job/memory.max", "max\n")
    kernel("sys/fs/cgroup/user/job/memory.current", "5\n")
    kernel("sys/fs/cgroup/user/memory.max", f"{2 * GIB}\n")
    kernel("sys/fs/cgroup/user/memory.current", f"{GIB}\n")
    assert memory.free() == GIB


def test_of_a_control_group_of_version_1_that_a_container_sees_at_its_root(kernel):
    kernel("proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/\n")
    kernel("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{3 * GIB}\n")
    kernel("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{2 * GIB}\n")
    kernel("sys/fs/cgroup/memory/memory.stat", f"total_inactive_file {GIB // 2}\n")
    assert memory.free() == 3 * GIB // 2


def test_a_control_group_of_version_1_without_a_limit_limits_nothing(kernel):
    """It has no word for that: the number is the largest multiple of a page."""
    kernel("proc/self/cgroup", "4:memory:/docker/x\n")
    kernel("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{(1 << 63) - 4096}\n")
    kernel("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{2 * GIB}\n")
    assert (memory.free(), memory.room()) == (8 * GIB, 64 * GIB)


@pytest.mark.parametrize("kind", ["AS", "DATA"])
def test_of_a_limit_of_the_process(kernel, monkeypatch, kind):
    resource = pytest.importorskip("resource")
    limit = getattr(resource, f"RLIMIT_{kind}")
    monkeypatch.setattr(
        resource, "getrlimit", lambda k: (4 * GIB, 9 * GIB) if k == limit else (resource.RLIM_INFINITY,)
    )
    monkeypatch.setattr(memory, "_reserved", lambda: GIB // 2)
    kernel("proc/self/status", f"VmSize: {3 << 20} kB\nVmData: {3 << 20} kB\n")
    assert memory.free() == GIB
    with pytest.raises(
        OutOfMemory, match="512 MiB are free"
    ):  # libraries and threads reserve address space of their own
        memory.check(GIB // 2, "this", "ask less")
    memory.check(GIB, "this", "ask less", ahead=False)


def test_a_limit_that_is_passed_already_leaves_nothing(kernel):
    kernel("proc/self/cgroup", "0::/\n")
    kernel("sys/fs/cgroup/memory.max", "5\n")
    kernel("sys/fs/cgroup/memory.current", "7\n")
    assert memory.free() == 0


def test_a_refusal_names_both_sizes(kernel):
    memory.check(7 * GIB, "this", "ask less")
    with pytest.raises(OutOfMemory, match=r"^this: about 9\.1 GiB are needed and 8\.0 GiB are free; ask less$"):
        memory.check(9 * GIB, "this", "ask less")
    memory.check(8 * GIB, "this", "ask less", ahead=False)
    with pytest.raises(OutOfMemory, match=r"^this: about 8\.0 GiB are needed and"):
        memory.check(8 * GIB + 1, "this", "ask less", ahead=False)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space")
def test_a_limited_shell_is_refused_in_one_line_and_nothing_is_charged(tmp_path):
    """Whatever the limit, a release either works or is refused in one line that names sizes, before the charge."""
    (tmp_path / "people.csv").write_text("a,b\n" + "0,1\n1,2\n" * 50)
    (tmp_path / "people.json").write_text('{"a": 2, "b": 3}')
    command = f"{sys.executable} -m qrelease release people.csv --schema people.json --epsilon 1 --out out"
    for limit in (100_000, 600_000, 800_000):  # KiB; at 600 000 the libraries load, and little more
        done = subprocess.run(
            ["bash", "-c", f"ulimit -v {limit}; {command}"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, ""), done.stderr
        assert "MiB are needed" in done.stderr
        assert sorted(f.name for f in tmp_path.iterdir()) == ["people.csv", "people.json"]


def test_what_is_used_decides_nothing_but_refusals(kernel):
    """A private table takes memory, record for record: what a release is may depend on the limits alone."""
    kernel("proc/meminfo", f"MemTotal: {8 << 20} kB\nMemAvailable: {1 << 20} kB\n")
    assert (memory.free(), memory.room()) == (GIB, 8 * GIB)
    kernel("proc/self/cgroup", "0::/job\n")
    kernel("sys/fs/cgroup/job/memory.max", f"{4 * GIB}\n")
    kernel("sys/fs/cgroup/job/memory.current", f"{7 * GIB // 2}\n")
    assert (memory.free(), memory.room()) == (GIB // 2, 4 * GIB)
    with pytest.raises(OutOfMemory, match="are free"):
        memory.check(3 * GIB, "this", "ask less")
    with memory.unused():
        memory.check(3 * GIB, "this", "ask less")
    beyond = r"^this: about 5\.1 GiB are needed, more than this machine has; ask less$"
    for context in (memory.unused(), nullcontext()):  # the limits alone: the same whatever is free
        with context, pytest.raises(TooLarge, match=beyond):
            memory.check(5 * GIB, "this", "ask less")
    with pytest.raises(OutOfMemory, match="are free"):
        memory.check(3 * GIB, "this", "ask less")


HANDLERS = {
    "apps/studio/accounts.py ledger_standing": "the studio's page is for the data holder alone",
    "apps/studio/app.py answered": "the studio's page is for the data holder alone",
    "apps/studio/app.py refusing": "the studio's page is for the data holder alone",
    "apps/studio/releasing.py _account": "the studio's page is for the data holder alone",
    "apps/studio/releasing.py _run": "it ends the release, and the data holder alone reads why",
    "evaluation/audit/doors.py _schema": "the auditor notes every error of tables that it made up",
    "evaluation/audit/doors.py folder_seen": "the auditor notes every error of tables that it made up",
    "evaluation/audit/doors.py linked_seen": "the auditor notes every error of tables that it made up",
    "evaluation/audit/doors.py curator_door": "the auditor notes every error of tables that it made up",
    "evaluation/audit/doors.py seen": "the auditor notes every error of tables that it made up",
    "evaluation/audit/session.py seen": "the auditor notes every error of tables that it made up",
    "evaluation/audit/session.py _estimated": "the auditor notes every error of tables that it made up",
    "evaluation/audit/session.py estimates_door": "the auditor notes every error of tables that it made up",
    "evaluation/audit/session.py server_door": "the auditor notes every error of tables that it made up",
    "mechanisms/auto.py _refusal": "it asks within memory.unused",
    "mechanisms/number_sums.py _as_good": "it asks within memory.unused",
    "mechanisms/auto.py _simulated": "what is for want of memory was raised before",
    "apps/server/app.py account": "the holder's own machine alone reads it, and a spent budget is left out of it",
    "apps/cli/__init__.py main": "it ends the command, and the data holder alone reads it",
    "evaluation/planning.py plan": "a plan reads no data",
    "evaluation/planning.py promised": "a plan reads no data",
    "evaluation/planning.py taken": "a plan reads no data",
    "evaluation/planning.py quote": "a plan reads no data",
    "apps/cli/ledgers.py _concerns": "it looks at the ledgers beside, before any charge, for the data holder alone",
    "apps/cli/release.py _check_open": "it asks within memory.unused",
    "apps/cli/release.py _foretell": "it asks whether the ledger covers a cost, for the data holder alone",
    "apps/server/app.py responded": "it ends the request, with one and the same 503",
    "apps/server/transactions.py _round": "the round is undone, and ends in a 503",
    "apps/server/transactions.py _keep_up": "the session is opened again from the ledger",
    "apps/server/transactions.py done": "what is for want of memory was raised before",
    "apps/server/processes.py _be_a_worker": "it ends the process, and the operator alone reads it",
    "evaluation/evaluate.py _unsuitable": "what evaluate finds is not private, and for the data holder alone",
    "evaluation/evaluate.py evaluate": "what it finds is not private, and for the data holder alone",
    "apps/server/reloading.py keep_serving": "it has read no data, and the operator alone reads it",
    "apps/server/reloading.py _serve": "it ends the process, and the operator alone reads it",
    "inference/median_rule.py _proved": "it is asked about public numbers",
    "evaluation/verify.py _verified": "it looks at a release, which is public",
    "evaluation/verify.py _total": "it looks at a release, which is public",
    "evaluation/verify.py _records": "it looks at a release, which is public",
}
"""Handlers that could take an `OutOfMemory` and go on, and why what they do then tells nobody of it."""

COULD = re.compile(r"\b(OutOfMemory|QReleaseError|MemoryError|Exception|BaseException)\b")


def test_nothing_in_the_package_decides_by_the_memory_that_is_free():
    """Who asks how much is free, and who could go on after there was too little: a new one has to be listed."""
    package = Path(qrelease.__file__).parent
    asking, going_on = set(), set()
    for file in sorted(package.rglob("*.py")):
        name, tree = file.relative_to(package).as_posix(), ast.parse(file.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.Attribute) and ast.unparse(node) == "memory.free" for node in ast.walk(tree)):
            asking.add(name)
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)):
            handlers = [n for n in ast.walk(function) if isinstance(n, ast.ExceptHandler)]
            for handler in handlers:
                kinds = "BaseException" if handler.type is None else ast.unparse(handler.type)
                if COULD.search(kinds) and not isinstance(handler.body[-1], ast.Raise):
                    going_on.add(f"{name} {function.name}")
    # What the data holder is told; which columns are files, and whether those of persons fit.
    assert asking == {"apps/cli/__init__.py", "data/spill.py", "data/table.py"}
    assert going_on == {*HANDLERS}


WHOLE = ["SHA256SUMS", "answers.csv", "release.json", "report.html", "synthetic.csv"]


def released_within(folder, records, mebibytes, *options):
    """Files of a release under a limit of address space, none where it is refused; and what was said of that."""
    here = folder / f"{records}-{mebibytes}-{len(options)}"
    here.mkdir()
    (here / "people.parquet").symlink_to(folder / f"people{records}.parquet")
    command = ["release", "people.parquet", "--schema", "../people.json", "--epsilon", "1", "--mechanism", "laplace"]
    command += ["--workload", "marginals:2", "--out", "out", "--ledger", "people.ledger", *options]
    limit = f"resource.setrlimit(resource.RLIMIT_AS, ({mebibytes << 20},) * 2)"
    one = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"  # each core reserves address space of its own
    script = (
        f"import os, resource, sys; {one}; {limit}; from qrelease.apps.cli import main; sys.exit(main({command!r}))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=here, capture_output=True, text=True, check=False)
    files = sorted(f.name for f in (here / "out").iterdir()) if (here / "out").exists() else []
    assert not (here / ".out.part").exists()
    assert done.returncode == (0 if files else 2), done.stderr
    assert bool(files) != ("are free" in done.stderr or "out of memory" in done.stderr), done.stderr
    return files, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space")
def test_whether_a_release_is_whole_does_not_depend_on_the_number_of_records(tmp_path):
    """Of 1 000 and of 10 million records, in the same address space: a folder has all its files, or is not there.

    The limit is found that leaves just room for few records, so that it is too small for many on every machine.
    """
    (tmp_path / "people.json").write_text('{"a": 2, "b": 3}')
    codes = np.random.default_rng(0)
    for records in (1_000, 10_000_000):
        columns = {"a": codes.integers(0, 2, records, np.uint8), "b": codes.integers(0, 3, records, np.uint8)}
        pq.write_table(pa.table(columns), tmp_path / f"people{records}.parquet")
    low, high = 1 << 10, 3 << 10
    while not released_within(tmp_path, 1_000, high)[0]:
        low, high = high, high + (1 << 10)
    while high - low > 40:
        middle = (low + high) // 2
        files, said = released_within(tmp_path, 1_000, middle)
        assert files in ([], WHOLE), said
        low, high = (low, middle) if files else (middle, high)
    files, said = released_within(tmp_path, 10_000_000, high)
    assert not files, said  # as many synthetic records do not fit: an error, and not a folder without them
    assert "no synthetic" not in said
    for options in (["--rows", "1000"], ["--rows", "1000", "--no-answers"]):
        wanted = [name for name in WHOLE if name != "answers.csv" or len(options) == 2]
        files, said = released_within(tmp_path, 10_000_000, high, *options)
        assert files in ([], wanted), said
    assert released_within(tmp_path, 10_000_000, high + 512)[0] == WHOLE
