"""How many megabytes an installation takes.

    python -m benchmarks.install [--extras none duckdb …] [--json]

For each of the extras named, `none` for the package by itself, a new virtual environment in a temporary folder, with
all that `pip install` puts into it; pip is not counted. Several extras in one environment are joined by commas. What
is asked is less than 750 MB, without Spark: exit code 1 where `none` or `duckdb` take more.
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


def installed(extras: str) -> float:
    """Megabytes of a new environment with these extras."""
    source = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as name:
        venv.create(name, with_pip=True)
        python = Path(name) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        wanted = str(source) if extras == "none" else f"{source}[{extras}]"
        subprocess.run([python, "-m", "pip", "install", "--quiet", wanted], check=True, capture_output=True)
        return megabytes(Path(name))


def main() -> int:
    """Print the megabytes of each; 1 where one of those that are asked takes too many."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", nargs="+", default=[*ASKED])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = {extras: installed(extras) for extras in arguments.extras}
    if arguments.json:
        print(json.dumps(found))
    else:
        for extras, size in found.items():
            print(f"{extras:30} {size:8.0f} MB")
    return int(any(size > MOST for extras, size in found.items() if extras in ASKED))


if __name__ == "__main__":
    sys.exit(main())
