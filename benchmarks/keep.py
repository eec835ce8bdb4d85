"""Keeps the results of a benchmark that has `--json`: one object a line, each with its command, versions and machine.

    python -m benchmarks.keep noise
    python -m benchmarks.keep online --only easy

writes benchmarks/results/noise.jsonl and online.jsonl anew. `python -m benchmarks.page` draws the page of them.
"""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """Its class, without a name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    name, *options = sys.argv[1:]
    asked = [sys.executable, "-m", f"benchmarks.{name}", *options, "--json"]
    printed = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout
    command = " ".join(["python -m", f"benchmarks.{name}", *options])
    about = {"version": f"qrelease {version('qrelease')}", "machine": machine(), "command": command}
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    text = "".join(json.dumps(line | about, ensure_ascii=False) + "\n" for line in lines)
    (RESULTS / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
