"""Progress: on a terminal, and not in a pipe."""

import contextlib
import io
import sys

import pytest

from qrelease._util.progress import in_notebook, progress


class Terminal(io.StringIO):
    """Where a person looks."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("on", "shown"), [(Terminal, True), (io.StringIO, False)])
def test_work_is_seen_on_a_terminal_and_not_in_a_pipe(on: type[io.StringIO], shown: bool) -> None:
    seen = on()
    with contextlib.redirect_stderr(seen):
        assert list(progress(range(3), desc="rounds")) == [0, 1, 2]
        assert list(progress(range(3), desc="unseen", disable=True)) == [0, 1, 2]
    assert ("rounds" in seen.getvalue()) == shown
    assert "unseen" not in seen.getvalue()


def test_without_a_kernel_there_is_no_notebook() -> None:
    assert not in_notebook()
    assert "IPython" not in sys.modules or not hasattr(sys.modules["IPython"].get_ipython(), "kernel")
