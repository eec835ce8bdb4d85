"""One ledger under two names, mounted alone, without its log, in a child of a fork: nothing is charged twice or lost.

Processes are real ones, since SQLite keeps what two connections of one process do apart from what two processes do.
"""

import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from qrelease.errors import LedgerError
from qrelease.privacy import PureDP, ledger_file
from qrelease.privacy import ledger_place as place
from qrelease.privacy.ledger import Ledger

CHARGE = """
import sys
from qrelease.errors import QReleaseError
from qrelease.privacy.ledger import Ledger
from qrelease.privacy import PureDP
try:
    ledger = Ledger.open(sys.argv[1])
    ledger.charge(PureDP(1.0), "all")
    print("charged", flush=True)
except QReleaseError as error:
    print(error, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "people.ledger"
    Ledger.open(path, PureDP(1.0)).close()
    return path


def together(*paths):
    """What processes say that each charge everything under a name of its own, all at work at once."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CHARGE]
    processes = [subprocess.Popen([*command, str(p)], stdin=pipe, stdout=pipe, text=True) for p in paths]
    said = [process.stdout.readline().strip() for process in processes]
    for process in processes:
        process.communicate("\n", timeout=60)
    return said


def python(code, *arguments, seconds=60):
    """What a process prints that runs some code; one that hangs is a failure."""
    modules = ("errors", "privacy.ledger", "privacy")
    prelude = "import os, sys\n" + "".join(f"from qrelease.{m} import *\n" for m in modules)
    command = [sys.executable, "-c", prelude + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


# --- names


def test_a_second_hard_link_charges_nothing(path):
    other = path.with_name("other.ledger")
    os.link(path, other)
    for said, name in zip(together(path, other), (other, path), strict=True):
        assert f"has 2 names (hard links), the others {name}:" in said
    other.unlink()
    assert together(path) == ["charged"]


def test_a_hard_link_that_appears_later_charges_nothing_more(path):
    with Ledger.open(path) as ledger:
        ledger.charge(PureDP(0.25), "before")
        os.link(path, path.with_name("other.ledger"))
        with pytest.raises(LedgerError, match="has 2 names"):
            ledger.charge(PureDP(0.25), "after")
        path.with_name("other.ledger").unlink()
        with pytest.raises(LedgerError, match="has 2 names"), ledger.transaction():
            ledger.charge(PureDP(0.25), "while it appears")
            os.link(path, path.with_name("other.ledger"))
        path.with_name("other.ledger").unlink()
        assert (ledger.spent, len(ledger.history())) == (PureDP(0.25), 2)


def test_symbolic_links_lead_to_one_ledger(path):
    link = path.with_name("link.ledger")
    link.symlink_to(path)
    assert sorted(said.partition(":")[0] for said in together(path, link)) == ["budget exceeded", "charged"]
    with Ledger.open(link) as ledger:
        assert len(ledger.history()) == 2


def test_a_link_that_leads_elsewhere_by_now_is_noticed(path):
    link, other = path.with_name("link.ledger"), path.with_name("other.ledger")
    link.symlink_to(path)
    Ledger.open(other, PureDP(1.0)).close()
    with Ledger.open(link) as ledger:
        link.unlink()
        link.symlink_to(other)
        with pytest.raises(LedgerError, match="was moved or replaced"):
            ledger.charge(PureDP(0.5), "a")


def test_the_draft_of_a_killed_creation_is_named(tmp_path):
    """Killed after the draft got its name, and before it was taken away."""
    code = """
import signal
from qrelease.privacy import ledger_file
ledger_file.sync_folder = lambda folder: None
os.unlink = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
Ledger.open(sys.argv[1], PureDP(1.0))
"""
    code = code.replace("os.unlink = ", "from pathlib import Path\nPath.unlink = ")
    prelude = "import os, sys\nfrom qrelease.privacy.ledger import *\nfrom qrelease.privacy import *\n"
    path = tmp_path / "people.ledger"
    done = subprocess.run([sys.executable, "-c", prelude + code, str(path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    (draft,) = tmp_path.glob(".people.ledger.*.new")
    with pytest.raises(LedgerError, match="a creation that was killed left the draft") as error:
        Ledger.open(path)
    assert str(draft) in str(error.value)
    draft.unlink()
    with Ledger.open(path) as ledger:
        assert ledger.total == PureDP(1.0)


# --- the log


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_log_that_is_taken_away_while_it_is_open_ends_its_use(path, end):
    """Another process would begin a new one, and neither would see what the other charges."""
    with Ledger.open(path) as ledger:
        ledger.charge(PureDP(0.25), "a")
        Path(f"{path}{end}").unlink()
        with pytest.raises(LedgerError, match="-wal and -shm beside"):
            ledger.charge(PureDP(0.25), "b")


# --- mounts

MOUNTS = """22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:22 / /proc rw,nosuid - proc proc rw
31 22 0:40 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2
32 22 254:0 /srv/people.ledger /data/people.ledger rw,relatime - ext4 /dev/vda rw
33 22 0:41 / /mnt/with\\040space rw - cifs //server/x rw
34 31 254:0 /x /home/local rw - ext4 /dev/vda rw
"""


@pytest.mark.parametrize(
    ("file", "point", "kind"),
    [
        ("/data/people.ledger", "/data/people.ledger", "ext4"),
        ("/data/other.ledger", "/", "ext4"),
        ("/home/ada/people.ledger", "/home", "nfs4"),
        ("/home/local/people.ledger", "/home/local", "ext4"),
        ("/homes/people.ledger", "/", "ext4"),
        ("/mnt/with space/people.ledger", "/mnt/with space", "cifs"),
    ],
)
def test_the_mount_of_a_file_is_found(file, point, kind):
    assert place.mount_of(Path(file), MOUNTS) == (Path(point), kind)


@pytest.fixture
def mounted(path, monkeypatch):
    """What a kernel says of its file systems from now on."""
    file = path.with_name("mounts")
    monkeypatch.setattr(place, "MOUNTS", file)
    return file.write_text


def test_a_ledger_on_the_network_is_refused(path, mounted):
    mounted(MOUNTS.replace("/home ", f"{os.path.realpath(path.parent)} "))
    with pytest.raises(LedgerError, match=r"is on a network file system \(nfs4\)"):
        Ledger.open(path)
    with pytest.raises(LedgerError, match=r"is on a network file system \(nfs4\)"):
        Ledger.open(path.with_name("new.ledger"), PureDP(1.0))
    assert not path.with_name("new.ledger").exists()


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        *((kind, True) for kind in ("9p", "virtiofs", "gpfs", "gfs2", "ocfs2", "cifs", "smb3", "ceph", "lustre")),
        *((f"fuse.{kind}", True) for kind in ("s3fs", "rclone", "sshfs", "glusterfs", "gcsfuse", "of-next-year")),
        ("fuse", True),
        *((kind, False) for kind in ("ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuseblk", "vfat")),
        *((f"fuse.{kind}", False) for kind in ("fuse-overlayfs", "mergerfs")),
    ],
)
def test_what_other_machines_may_write_to_is_no_local_disk(kind, refused, path, mounted):
    """File systems of programs are taken for a network's, but for some that are known to be on a disk."""
    mounted(f"36 35 98:0 / {os.path.realpath(path.parent)} rw shared:1 - {kind} source rw\n")
    if refused:
        with pytest.raises(LedgerError, match=f"is on a network file system .{kind}."):
            Ledger.open(path)
    else:
        Ledger.open(path).close()


def test_a_store_that_is_left_over_says_nothing_at_the_end():
    """One whose making failed, and one that is alive when the interpreter ends."""
    code = """
from pathlib import Path
from qrelease.privacy.ledger_file import LedgerFile
try:
    LedgerFile(Path("null\\0byte"))
except ValueError:
    print("no such name")
ledger = Ledger.open(sys.argv[1], PureDP(1.0))
class Late:
    def __init__(self, kept): self.kept, self.me = kept, self
late = Late(ledger)
"""
    with tempfile.TemporaryDirectory() as folder:
        prelude = "import sys\nfrom qrelease.privacy import PureDP\nfrom qrelease.privacy.ledger import Ledger\n"
        command = [sys.executable, "-c", prelude + code]
        path = Path(folder) / "p.ledger"
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "no such name\n", "")


def test_the_end_of_a_store_needs_no_module(path):
    """At the end of the interpreter the names of modules may be gone already."""
    ledger, kept = Ledger.open(path), ledger_file.os
    try:
        ledger_file.os = None
        ledger.store.database.__del__(lambda: True)
    finally:
        ledger_file.os = kept
    ledger.charge(PureDP(0.5), "still open")
    ledger.close()


def may_mount():
    command = ["unshare", "-m", "mount", "--bind", "/tmp", "/tmp"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount")
def test_a_ledger_that_is_mounted_as_a_single_file_is_refused(path):
    alone = path.parent / "container"
    alone.mkdir()
    (alone / path.name).touch()
    script = 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$2"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", path, alone / path.name, sys.executable, CHARGE]
    done = subprocess.run([*map(str, command)], input="\n", capture_output=True, text=True, timeout=60, check=False)
    assert "is mounted as a single file" in done.stdout, done
    with Ledger.open(path) as ledger:
        assert ledger.spent is None


# --- forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_inside_a_transaction_is_the_parents(path):
    """Every use by the child is an error, at once, also of a ledger that it opens anew; the parent goes on."""
    code = """
import warnings
from qrelease.privacy.analysts import Analysts
warnings.simplefilter("ignore", DeprecationWarning)
ledger = Ledger.open(sys.argv[1])
charge = ledger.charge(PureDP(0.125), "before", "k")
shared = ledger.session(PureDP(0.5), "a session", "s")
uses = [
    lambda: ledger.charge(PureDP(0.25), "child"), lambda: ledger.spent, ledger.history,
    lambda: ledger.store_answer(charge, b"child"), lambda: ledger.journal(charge),
    lambda: ledger.session(PureDP(0.5), "a session", "t"), shared.read, lambda: Analysts(ledger).list(),
    lambda: Analysts(ledger).add("ada", PureDP(0.1)), lambda: Ledger.open(sys.argv[1]),
    lambda: ledger.transaction().__enter__(),
]
try:
    with ledger.transaction():
        pid = os.fork()
        if not pid:
            for number, use in enumerate(uses):
                try:
                    use()
                except LedgerError as error:
                    assert "inside a transaction" in str(error), error
                    continue
                os.write(1, f"use {number} went through".encode())
        else:
            assert os.waitpid(pid, 0)[1] == 0
            ledger.charge(PureDP(0.25), "parent")
except LedgerError as error:  # what the child meets at the end of the transaction
    assert not pid and "inside a transaction" in str(error)
    try:
        ledger.spent
    except LedgerError:
        os._exit(0)
ledger.charge(PureDP(0.125), "after")
print(ledger.spent.epsilon, len(ledger.history()))
"""
    assert python(code, path) == ["0.5 5"]
    with Ledger.open(path) as ledger:
        assert [entry.label for entry in ledger.history()] == ["created", "before", "a session", "parent", "after"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_ends_by_itself_leaves_the_transaction_of_its_parent_alone(path):
    """Also when Python takes the child's objects apart, and when the transaction is larger than SQLite's cache."""
    code = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
ledger = Ledger.open(sys.argv[1])
with ledger.transaction():
    for number in range(1500):
        ledger.charge(PureDP(2.0**-20), "x" * 4000)
    pid = os.fork()
    if not pid:
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] >> 8 in (0, 1)
    ledger.charge(PureDP(0.25), "parent")
print(len(ledger.history()))
"""
    assert python(code, path) == ["1502"]
    with Ledger.open(path) as ledger:
        assert len(ledger.history()) == 1502


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_memory_ledger_too_is_not_used_after_a_fork_inside_a_transaction():
    code = """
ledger = Ledger.open(None, PureDP(1.0))
with ledger.transaction():
    pid = os.fork()
    if not pid:
        try:
            ledger.charge(PureDP(0.5), "child")
        except LedgerError as error:
            os._exit("before a fork" not in str(error))
    ledger.charge(PureDP(0.5), "parent")
assert os.waitpid(pid, 0)[1] == 0
print(ledger.spent.epsilon)
"""
    assert python(code) == ["0.5"]


def test_a_thread_that_would_wait_for_itself_is_told(path):
    ledger = Ledger.open(path)
    for use in (ledger.close, ledger.store.tidy):
        with ledger.transaction(), pytest.raises(LedgerError, match="is in use by this very thread"):
            use()
    ledger.charge(PureDP(0.5), "a")
    ledger.close()


def test_a_ledger_is_not_pickled(path):
    with Ledger.open(path) as ledger, pytest.raises(TypeError, match="open its file in each process"):
        pickle.dumps(ledger)


KILLED = """
import os, sys
from qrelease.privacy.ledger import Ledger
from qrelease.privacy import PureDP
ledger = Ledger.open(sys.argv[1])
ledger.charge(PureDP(0.75), "first")
os.kill(os.getpid(), 9)
"""


def test_a_ledger_that_is_moved_to_another_folder_without_its_log_forgets_nothing(path, tmp_path):
    """After a kill, and while it is open: what was charged is in the file."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60, check=False)
    with Ledger.open(shutil.move(path, elsewhere)) as ledger:
        assert ledger.spent == PureDP(0.75)
        for number in range(8):
            charge = ledger.charge(PureDP(2.0**-5), str(number), key=str(number))
            ledger.store_answer(charge, b"an answer")
            with Ledger.open(shutil.copy(elsewhere / path.name, elsewhere / f"{number}.ledger")) as copy:
                assert copy.history() == ledger.history()


def test_a_copy_of_the_file_alone_has_all_that_several_processes_charged(path, tmp_path):
    """Each while the others write and read; a copy that is taken in the middle of it may be refused as damaged."""
    code = """
import subprocess
name = sys.argv[1]
with Ledger.open(name) as ledger:
    for number in range(20):
        charge = ledger.charge(PureDP(2.0**-10), "a query")
        copy = f"{name}.{os.getpid()}.{number}"
        subprocess.run(["cp", name, copy])  # not here: to close the file gives up all locks that this process has on it
        try:
            with Ledger.open(copy) as other:
                assert len(other.history()) >= charge.id, (number, charge.id, len(other.history()))
        except LedgerError as error:
            print(error)
        ledger.history()
print("done")
"""
    prelude = "import os, sys\nfrom qrelease.errors import *\nfrom qrelease.privacy.ledger import *\n"
    command = [sys.executable, "-c", f"{prelude}from qrelease.privacy import *\n{code}", str(path)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=120)[0].splitlines() for process in started]
    assert [lines[-1] for lines in said] == ["done"] * 3
    assert sum(map(len, said)) < 33  # more than half of the copies were opened
    with Ledger.open(path) as ledger:
        assert ledger.spent == PureDP(60 * 2.0**-10)


def test_a_reader_that_does_not_end_holds_up_no_charge(path, tmp_path):
    """What is not taken over into the file for it is in the log, and goes over with the next charge."""
    with Ledger.open(path) as ledger:
        ledger.charge(PureDP(0.25), "before")
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM head").fetchall()
        ledger.charge(PureDP(0.25), "meanwhile")
        assert ledger.spent == PureDP(0.5)
        reader.close()
        ledger.charge(PureDP(0.25), "after")
        with Ledger.open(shutil.copy(path, tmp_path / "copy.ledger")) as copy:
            assert copy.spent == PureDP(0.75)


KILLED_IN_A_HURRY = KILLED.replace("ledger.charge", "ledger.store.hurry(); ledger.charge")
"""As a server that is killed within a second of its last answer."""


def test_a_ledger_that_was_renamed_without_its_log_is_refused(path):
    """Its log has the charges: SQLite would open the file without them, as if nothing had been spent."""
    subprocess.run([sys.executable, "-c", KILLED_IN_A_HURRY, str(path)], timeout=60, check=False)
    log = Path(f"{path}-wal")
    assert log.stat().st_size
    renamed = path.rename(path.with_name("renamed.ledger"))
    with pytest.raises(LedgerError, match=r"people.ledger-wal .* rename it back, or its log along"):
        Ledger.open(renamed)
    log.rename(f"{renamed}-wal")
    with Ledger.open(renamed) as ledger:
        assert ledger.spent == PureDP(0.75)


def test_a_ledger_that_is_renamed_while_it_is_open_is_refused_elsewhere(path):
    with Ledger.open(path) as ledger:
        ledger.charge(PureDP(0.75), "first")
        renamed = path.rename(path.with_name("renamed.ledger"))
        code = "import sys; from qrelease.privacy.ledger import Ledger; Ledger.open(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", code, str(renamed)], capture_output=True, text=True, check=False)
        assert "rename it back" in done.stderr
        renamed.rename(path)
    with Ledger.open(path) as ledger:
        assert ledger.spent == PureDP(0.75)


def test_a_log_of_another_ledger_that_is_there_refuses_nothing(path):
    other = path.with_name("other.ledger")
    with Ledger.open(other, PureDP(1.0)) as open_one:
        open_one.charge(PureDP(0.5), "a")
        with Ledger.open(path) as ledger:
            assert ledger.spent is None
    path.with_name("notes-wal").write_text("no log")
    with Ledger.open(path) as ledger:
        assert ledger.spent is None


def test_who_reads_an_earlier_state_is_waited_for_once(path):
    """What is charged meanwhile is in the log, and in the file with the first charge after that."""
    with Ledger.open(path) as ledger:
        ledger.raise_total(PureDP(9.0))
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        took = []
        for _ in range(3):
            begun = time.monotonic()
            ledger.charge(PureDP(1.0), "beside a reader")
            took.append(time.monotonic() - begun)
        assert min(took[1:]) < 0.5 < took[0]
        reader.execute("COMMIT")
        reader.close()
        ledger.charge(PureDP(1.0), "after it")
        copy = path.with_name("copy.ledger")
        python("import shutil; shutil.copy(sys.argv[1], sys.argv[2])", path, copy)
    with Ledger.open(copy) as ledger:
        assert ledger.spent == PureDP(4.0)
