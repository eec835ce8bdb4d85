"""One ledger under two names, mounted alone, or renamed without its log: nothing is charged twice or lost.

Processes are real ones, since SQLite keeps what two connections of one process do apart from what two processes do.
"""

import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qrelease.errors import LedgerError
from qrelease.privacy import PureDP
from qrelease.privacy import ledger_place as place
from qrelease.privacy.ledger import Ledger
from tests.privacy.processes import KILLED_IN_A_HURRY

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


def together(*paths):
    """What processes say that each charge everything under a name of its own, all at work at once."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CHARGE]
    processes = [subprocess.Popen([*command, str(p)], stdin=pipe, stdout=pipe, text=True) for p in paths]
    said = [process.stdout.readline().strip() for process in processes]
    for process in processes:
        process.communicate("\n", timeout=60)
    return said


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


@pytest.fixture
def draft(tmp_path):
    """What a creation leaves that was killed after its draft became the ledger, and before it was taken away."""
    code = """
import signal
from pathlib import Path
Path.unlink = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
Ledger.open(sys.argv[1], PureDP(1.0))
"""
    prelude = "import os, sys\nfrom qrelease.privacy.ledger import *\nfrom qrelease.privacy import *\n"
    path = tmp_path / "people.ledger"
    done = subprocess.run([sys.executable, "-c", prelude + code, str(path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    (found,) = tmp_path.glob(".people.ledger.*.new")
    assert found.samefile(path)
    return found


def test_the_draft_of_a_killed_creation_is_removed(tmp_path, draft):
    with Ledger.open(tmp_path / "people.ledger") as ledger:
        assert ledger.total == PureDP(1.0)
        ledger.charge(PureDP(0.5), "a")
    assert not draft.exists()


def test_a_draft_that_was_used_as_a_ledger_is_another_name(tmp_path, draft):
    """What was charged under it is in a log of its own."""
    Path(f"{draft}-wal").touch()
    with pytest.raises(LedgerError, match=re.escape(f"has 2 names (hard links), the others {draft}")):
        Ledger.open(tmp_path / "people.ledger")
    assert draft.exists()


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
        *((f"fuse.{kind}", False) for kind in ("fuse-overlayfs", "gocryptfs")),
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


@pytest.mark.parametrize("kind", ["fuse.bindfs", "fuse.mergerfs"])
def test_a_view_of_another_folder_is_refused(kind, path, mounted):
    """Under each of its two names SQLite has locks and shared memory of its own: charges were lost, files damaged."""
    mounted(f"36 35 98:0 / {os.path.realpath(path.parent)} rw shared:1 - {kind} source rw\n")
    for file, total in ((path, None), (path.with_name("new.ledger"), PureDP(1.0))):
        with pytest.raises(LedgerError, match=f"is on {kind}, which shows files that are in another folder, too"):
            Ledger.open(file, total)
    assert not path.with_name("new.ledger").exists()


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


# --- renamed


def test_a_ledger_is_not_pickled(path):
    with Ledger.open(path) as ledger, pytest.raises(TypeError, match="open its file in each process"):
        pickle.dumps(ledger)


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


# --- names that SQLite gives to files of its own


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal", "-WAL"])
def test_no_ledger_has_the_name_of_a_side_file_of_another(tmp_path, ending):
    """SQLite would delete it, with its charges, when it opens or closes the other one."""
    for name in (f"people.ledger{ending}", f"linked{ending.lower()}"):
        with pytest.raises(LedgerError, match=f"names end with {ending.lower()} belong to another database"):
            Ledger.open(tmp_path / name, PureDP(1.0))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["-shm", "-journal"])
def test_a_database_with_the_name_of_a_side_file_is_left_alone(tmp_path, ending):
    """Such as a ledger that an earlier version made."""
    Ledger.open(tmp_path / "other", PureDP(1.0)).close()
    held = (tmp_path / "other").rename(tmp_path / f"people.ledger{ending}")
    content = held.read_bytes()
    with pytest.raises(LedgerError, match="it may be an older ledger; move it away"):
        Ledger.open(tmp_path / "people.ledger", PureDP(1.0))
    with pytest.raises(LedgerError, match="belong to another database"):
        Ledger.open(held)
    assert [*tmp_path.iterdir()] == [held]
    assert held.read_bytes() == content
