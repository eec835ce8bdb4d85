"""What is said where the folder of temporary files is full."""

import errno

import pytest

from qrelease._util.temporary import check_disk, told_of_full_disk
from qrelease.errors import OutOfMemory

SAID = r"^the records do not fit in the folder of temporary files: name another by TMPDIR$"


def test_what_no_disk_has_room_for_is_refused_without_its_size():
    check_disk(1)
    with pytest.raises(OutOfMemory, match=SAID):
        check_disk(1 << 80)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_is_full_in_the_end_is_said_to_be(code):
    with pytest.raises(OutOfMemory, match=SAID), told_of_full_disk():
        raise OSError(code, "no room")


def test_other_errors_pass():
    with pytest.raises(PermissionError), told_of_full_disk():
        raise PermissionError(errno.EACCES, "not yours")
