"""Progress where there is no terminal: in a notebook, and in lines where they are asked for."""

import contextlib
import gc
import io
import re
import time

import pytest

from qrelease._util.elapsed import elapsed
from qrelease._util.progress import log_lines, progress


def test_lines_come_at_most_as_often_as_said_and_say_how_far_it_is() -> None:
    seen = io.StringIO()
    with contextlib.redirect_stderr(seen):
        for _ in progress(range(4), desc="runs", lines=0.0):
            pass
    lines = seen.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == [f"qrelease: runs: {i} of 4" for i in (1, 2, 3, 4)]
    with contextlib.redirect_stderr(seen):
        for _ in progress(range(4), desc="runs", lines=60.0):
            pass
    assert seen.getvalue().splitlines() == lines


def test_long_work_has_lines_where_a_log_is_asked_for_and_only_the_outermost() -> None:
    seen = io.StringIO()
    with contextlib.redirect_stderr(seen), log_lines(0.0):
        for _ in progress(range(2), desc="outer"):
            for _ in progress(range(2), desc="inner"):
                pass
        bar = progress(desc="reading")
        bar.update(3)
        bar.close()
        for _ in progress(range(1), desc="unseen", disable=True):
            pass
    lines = seen.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "qrelease: outer: 1 of 2",
        "qrelease: outer: 2 of 2",
        "qrelease: reading: 3 so far",
    ]
    with contextlib.redirect_stderr(seen):
        for _ in progress(range(2), desc="outer"):
            pass
    assert seen.getvalue().splitlines() == lines


def test_work_that_is_left_by_an_error_hides_no_later_lines() -> None:
    seen = io.StringIO()

    def broken() -> None:
        bar = progress(desc="broken")
        raise ValueError(str(bar.n))

    with contextlib.redirect_stderr(seen), log_lines(0.0):
        with pytest.raises(ValueError, match="0"):
            broken()
        gc.collect()
        for _ in progress(range(1), desc="later"):
            pass
    assert "qrelease: later: 1 of 1" in seen.getvalue()


def test_what_only_takes_long_has_lines_too() -> None:
    seen = io.StringIO()
    with contextlib.redirect_stderr(seen), log_lines(0.5), elapsed("releasing") as at:
        at("writing the files")
        deadline = time.monotonic() + 20
        while len(seen.getvalue().splitlines()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    lines = seen.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(re.fullmatch(r"qrelease: writing the files: 00:\d\d so far", line) for line in lines)


KERNEL = """
import sys, time
import numpy as np
import qrelease as qr
from qrelease._util.progress import progress
for _ in progress(range(8), desc="rounds"):
    time.sleep(0.25)
for _ in progress(range(8), desc="quick"):
    pass
domain = qr.Domain.coded({"a": 2})
table, workload = qr.Table(domain, (np.array([0, 1, 1]),)), qr.Workload.marginals(domain, 1)

class Slow(qr.Laplace):
    def release(self, *asked):
        time.sleep(4.5)
        return super().release(*asked)

with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
    qr.Curator(table, ledger).release(Slow(), workload, qr.PureDP(1.0))
"""


@pytest.mark.slow
def test_a_notebook_shows_in_its_output_what_a_terminal_does_and_empties_it() -> None:
    nbclient = pytest.importorskip("nbclient", reason="it comes with the extra docs")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    shown: list[str] = []

    class Watching(nbclient.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, msg, cell, cell_index):  # type: ignore[no-untyped-def]
            if msg["msg_type"] in ("display_data", "update_display_data"):
                shown.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(KERNEL)])
    Watching(notebook, timeout=120, kernel_name="python3").execute()
    assert any(text.startswith("rounds:") and "8" in text for text in shown)
    assert any(text.startswith("releasing: 00:0") for text in shown)
    assert not any(text.startswith("quick") for text in shown)
    assert all(output["data"]["text/plain"] == "" for output in notebook.cells[0].outputs)
