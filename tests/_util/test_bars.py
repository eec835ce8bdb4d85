"""Progress where there is no terminal: in a notebook, and in lines where they are asked for."""

import contextlib
import io

import pytest

from qrelease._util.progress import progress


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
