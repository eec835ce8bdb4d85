"""Progress: on a terminal, and not in a pipe."""

import contextlib
import io
import sys

import pytest

from qrelease._util.progress import in_notebook, logs_lines, progress, showing


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


@pytest.mark.parametrize(("on", "by_default"), [(Terminal, True), (io.StringIO, False)])
def test_a_caller_from_python_sees_work_where_somebody_looks_or_as_asked(
    on: type[io.StringIO], by_default: bool
) -> None:
    for wanted, shown in [(None, by_default), (True, True), (False, False)]:
        seen = on()
        with contextlib.redirect_stderr(seen), showing(wanted) as told:
            assert told == shown
            assert logs_lines() == (wanted is True)
            list(progress(range(3), desc="rounds"))
        assert ("rounds" in seen.getvalue()) == (shown and on is Terminal)


def test_without_a_kernel_there_is_no_notebook() -> None:
    assert not in_notebook()
    assert "IPython" not in sys.modules or not hasattr(sys.modules["IPython"].get_ipython(), "kernel")
