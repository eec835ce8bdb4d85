"""Keeps the results of a benchmark that has `--json`: one object a line, each with its command, versions and machine.

    python -m benchmarks.keep noise
    python -m benchmarks.keep kernels --only single sampling
    python -m benchmarks.keep online --only easy

writes benchmarks/results/noise.jsonl, kernels.jsonl and online.jsonl anew. `python -m benchmarks.page` draws the page
of them.
"""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """Its class, without a name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def objects(printed: str) -> list[dict[str, Any]]:
    """What a benchmark printed: a list of objects, or one object a line among other lines."""
    if printed.lstrip().startswith("["):
        found: list[dict[str, Any]] = json.loads(printed)
    else:
        found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    if not found:
        sys.exit("the benchmark printed no results")
    return found


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    name, *options = sys.argv[1:]
    asked = [sys.executable, "-m", f"benchmarks.{name}", *options, "--json"]
    printed = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout
    command = " ".join(["python -m", f"benchmarks.{name}", *options])
    about = {"version": f"qrelease {version('qrelease')}", "machine": machine(), "command": command}
    text = "".join(json.dumps(line | about, ensure_ascii=False) + "\n" for line in objects(printed))
    (RESULTS / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
