"""How many megabytes an installation takes, and how long what is installed takes to start.

    python -m benchmarks.install [--extras none duckdb …] [--json]

For each of the extras named, `none` for the package by itself, a new virtual environment in a temporary folder, with
all that `pip install` puts into it; pip is not counted. Several extras in one environment are joined by commas. What
is asked is less than 750 MB, without Spark: exit code 1 where `none` or `duckdb` take more. `import` is the processor
time of `import qrelease` in a new process, and `read` that of reading a CSV file of two records into codes, each the
least of five, the second with kernels that were compiled before.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

MOST = 750.0
ASKED = ("none", "duckdb")


def megabytes(folder: Path) -> float:
    """Of all files, in blocks of the disk as `du` counts them, without pip."""
    files = (path for path in folder.rglob("*") if not path.is_symlink() and path.is_file())
    return sum(path.stat().st_blocks * 512 for path in files if "pip" not in path.parts) / 2**20


STARTS = {
    "import": "import qrelease",
    "read": "import qrelease as qr; qr.Table.read('t.csv', qr.Domain.coded({'a': 2}))",
}
REPEATS = 5


def started(python: Path, folder: Path, code: str) -> float:
    """Seconds of processor time of a process, the least of some after a first one."""
    (folder / "t.csv").write_text("a\n0\n1\n")
    last = "import resource; used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime + used.ru_stime)"
    command = [str(python), "-c", f"{code}; {last}"]
    found = [
        float(subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout)
        for _ in range(REPEATS + 1)
    ]
    return min(found[1:])


def installed(extras: str) -> dict[str, float]:
    """Of a new environment with these extras: megabytes, and seconds of each start."""
    source = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as name:
        venv.create(name, with_pip=True)
        python = Path(name) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        wanted = str(source) if extras == "none" else f"{source}[{extras}]"
        subprocess.run([python, "-m", "pip", "install", "--quiet", wanted], check=True, capture_output=True)
        size = megabytes(Path(name))  # before anything is compiled
        return {"MB": size, **{start: started(python, Path(name), code) for start, code in STARTS.items()}}


def main() -> int:
    """Print what each takes; 1 where one of those that are asked takes too many."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", nargs="+", default=[*ASKED])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = {extras: installed(extras) for extras in arguments.extras}
    if arguments.json:
        print(json.dumps(found))
    else:
        for extras, of in found.items():
            print(f"{extras:30} {of['MB']:8.0f} MB  import {of['import']:6.3f} s  read {of['read']:6.3f} s")
    return int(any(of["MB"] > MOST for extras, of in found.items() if extras in ASKED))


if __name__ == "__main__":
    sys.exit(main())
