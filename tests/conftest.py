"""Settings that every test shares."""

import contextlib
import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import postgres as postgres_server
import pytest
from hypothesis import settings

import qrelease
from qrelease.evaluation import planning

# Examples are the same at every run, and a slow shared machine is no failure.
settings.register_profile("qrelease", deadline=None, derandomize=True)
settings.load_profile("qrelease")

# Hypothesis also tries the constants of all modules that are imported by then: with all of them, those are the same
# whichever tests ran before in the same process.
for module in pkgutil.walk_packages(qrelease.__path__, "qrelease."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

# Where there is a test for every core, threads that share one matrix product only wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


LONGEST = (
    *("test_ledger_crash", "test_server_live", "test_journals", "test_ledger_server_crash", "test_memory"),
    *("test_studio_live", "test_pages_live", "test_processes_hosts", "test_audit_releases"),
)
"""Files of tests that take a minute or so each: most kill processes or browse, and wait."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that in the end no core waits for one of them."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """All tests are shared among the cores; what is asked for by file or name starts at once, in this process."""
    return None if config.args == config.getini("testpaths") else 0


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile once, before the workers: of two that compile the same function, one overwrites what the other caches."""
    if session.config.getoption("numprocesses"):
        subprocess.run([sys.executable, "-P", "-m", "qrelease", "warmup"], stdout=subprocess.DEVNULL, check=False)


@pytest.fixture
def free_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """As if so many bytes of memory were free from now on."""
    return lambda size: monkeypatch.setattr("qrelease._util.memory.free", lambda: size)


@pytest.fixture
def machine_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], contextlib.AbstractContextManager[None]]:
    """As if the machine had so many bytes of memory, within a `with`."""

    @contextlib.contextmanager
    def machine(size: int) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr("qrelease._util.memory.room", lambda: size)
            yield

    return machine


@pytest.fixture
def free_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """As if so many bytes of every disk were free from now on."""
    usage = shutil.disk_usage("/")
    return lambda size: monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=size))


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """As if a library were not installed from now on: who imports it gets an `ImportError`."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no search for a small database were worth simulating: that takes seconds."""
    monkeypatch.setattr("qrelease.mechanisms.small_db.small_db.largest_searchable", lambda workload, most, work: 6)


@pytest.fixture
def quick_nets(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Nets that take no second for each simulation of a plan; of so many answers, if a test says."""
    most = replace(planning.LIMITS, net_synopses=1 << 10, net_answers=getattr(request, "param", 1 << 10))
    monkeypatch.setattr(planning, "LIMITS", most)


@pytest.fixture
def in_folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of the test, which is the current one."""
    with contextlib.chdir(tmp_path):
        yield tmp_path


@pytest.fixture(scope="session")
def postgres_or_none() -> Iterator[postgres_server.Server | None]:
    """A PostgreSQL server for all tests of this process; None where none can be had."""
    with postgres_server.running() as server:
        yield server


@pytest.fixture
def postgres(postgres_or_none: postgres_server.Server | None) -> postgres_server.Server:
    """The same, or the test is skipped."""
    if postgres_or_none is None:
        pytest.skip("there is no PostgreSQL server, or no psycopg")
    return postgres_or_none


@pytest.fixture
def at_each_sync(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], None]], None]:
    """Have something done, from now on, wherever a file or a folder is made durable: with its path."""
    sync = os.fsync

    def watch(act: Callable[[str], None]) -> None:
        def synced(descriptor: int) -> None:
            act(os.path.realpath(f"/proc/self/fd/{descriptor}"))
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", synced)

    return watch
