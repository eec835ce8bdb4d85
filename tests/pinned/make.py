"""Record what the pinned tests compare with: `python -m tests.pinned.make`, from the root of the repository.

All was recorded at commit bd985e4. Where a later change is meant, the part that it changes is recorded anew, and the
commit says why:

    python -m tests.pinned.make --only help        # the texts of `--help`
    python -m tests.pinned.make --only releases    # seeded releases of every mechanism
    python -m tests.pinned.make --only sessions    # transcripts and journals of sessions
    python -m tests.pinned.make --only server      # responses over HTTP
    python -m tests.pinned.make --only old         # what comes of folders and ledgers that bd985e4 wrote

Those folders and ledgers themselves are written by `--only old-files`, which is for that commit alone.
"""

import argparse
import gzip
import json
from functools import cache
from pathlib import Path

from . import helps, old, releases, server, sessions
from .same import arithmetic

STORED = Path(__file__).parent / "stored"

PARTS = {"help": helps, "releases": releases, "sessions": sessions, "server": server, "old": old}


@cache
def stored(part):
    """What is stored of a part, by case."""
    if part == "help":
        return json.loads((STORED / "help.json").read_text(encoding="utf-8"))
    return json.loads(gzip.decompress((STORED / f"{part}.json.gz").read_bytes()))


def found(part, case):
    """What a case gives now, as JSON has it."""
    return json.loads(json.dumps(PARTS[part].record(case)))


def arithmetic_of_releases():
    """The digest of the arithmetic by which the releases were recorded; the other parts hold no fits."""
    return (STORED / "arithmetic.txt").read_text(encoding="utf-8").strip()


def record(part):
    """Store what all cases of a part give now."""
    content = {case: found(part, case) for case in PARTS[part].CASES}
    STORED.mkdir(exist_ok=True)
    if part == "releases":
        (STORED / "arithmetic.txt").write_text(arithmetic() + "\n", encoding="utf-8")
    if part == "help":  # readable, so that a change of it can be reviewed
        (STORED / "help.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (STORED / f"{part}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main():
    """Record all parts, or those that are named."""
    parser = argparse.ArgumentParser(description="Record what the pinned tests compare with.")
    parser.add_argument("--only", choices=[*PARTS, "old-files"], action="append")
    only = parser.parse_args().only
    if only and "old-files" in only:
        STORED.mkdir(exist_ok=True)
        old.pack()
    for part in only or PARTS:
        if part in PARTS:
            record(part)
            print(f"recorded {part}")


if __name__ == "__main__":
    main()
