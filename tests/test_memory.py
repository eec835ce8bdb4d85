"""What memory is left: the least of what the machine, a container and the process's own limits leave."""

import subprocess
import sys

import pytest

from qrelease import memory
from qrelease.errors import TooLarge

GIB = 1 << 30


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Files of a kernel that has 8 GiB free: `kernel(path, text)` writes another one."""

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    monkeypatch.setattr(memory, "_SHARE", 1.0)
    write("proc/meminfo", f"MemTotal: 1 kB\nMemAvailable: {8 << 20} kB\n")
    return write


def test_of_the_machine(kernel):
    assert memory.free() == 8 * GIB


def test_without_a_kernel_that_tells_there_is_a_guess(kernel, monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_ROOT", tmp_path / "nowhere")
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
    with pytest.raises(TooLarge, match="512 MiB are free"):  # libraries and threads reserve address space of their own
        memory.check(GIB // 2, "this", "ask less")
    memory.check(GIB, "this", "ask less", ahead=False)


def test_a_limit_that_is_passed_already_leaves_nothing(kernel):
    kernel("proc/self/cgroup", "0::/\n")
    kernel("sys/fs/cgroup/memory.max", "5\n")
    kernel("sys/fs/cgroup/memory.current", "7\n")
    assert memory.free() == 0


def test_a_refusal_names_both_sizes(kernel):
    memory.check(7 * GIB, "this", "ask less")
    with pytest.raises(TooLarge, match=r"^this: about 9\.1 GiB are needed and 8\.0 GiB are free; ask less$") as refusal:
        memory.check(9 * GIB, "this", "ask less")
    # What is free tells of the size of a private table: that is for the data holder's eyes.
    assert refusal.value.public == "this: about 9.1 GiB are needed, more than are free; ask less"
    memory.check(8 * GIB, "this", "ask less", ahead=False)
    with pytest.raises(TooLarge, match=r"^this: about 8\.0 GiB are needed and"):
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
        assert "MiB are needed and" in done.stderr
        assert sorted(f.name for f in tmp_path.iterdir()) == ["people.csv", "people.json"]


def test_what_is_used_decides_nothing_but_refusals(kernel):
    """A private table takes memory, record for record: what a release is may depend on the limits alone."""
    kernel("proc/meminfo", f"MemTotal: {8 << 20} kB\nMemAvailable: {1 << 20} kB\n")
    assert (memory.free(), memory.room()) == (GIB, 8 * GIB)
    kernel("proc/self/cgroup", "0::/job\n")
    kernel("sys/fs/cgroup/job/memory.max", f"{4 * GIB}\n")
    kernel("sys/fs/cgroup/job/memory.current", f"{7 * GIB // 2}\n")
    assert (memory.free(), memory.room()) == (GIB // 2, 4 * GIB)
    with pytest.raises(TooLarge, match="are free"):
        memory.check(3 * GIB, "this", "ask less")
    with memory.unused():
        memory.check(3 * GIB, "this", "ask less")
        with pytest.raises(
            TooLarge, match=r"^this: about 5\.1 GiB are needed, more than this machine has; ask less$"
        ) as no:
            memory.check(5 * GIB, "this", "ask less")
        assert no.value.public == str(no.value)
    with pytest.raises(TooLarge, match="are free"):
        memory.check(3 * GIB, "this", "ask less")
