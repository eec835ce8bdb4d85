"""Whole releases and sessions, attacked through the doors that people use: the command line, `Curator` and HTTP.

Neighbouring tables go in at each door, with the same insecure noise, and everything that can be seen of what comes out
is compared: which files there are and what is in them, exit codes, messages, log lines, statuses, headers. Whatever
differs has to be on the list of noisy fields, `NOISY_FIELDS`, and three more things are asked:

- a field of that list which depends on the table, and not at all on the noise, holds no noise;
- whatever a folder holds besides its manifest has to follow from the manifest: loaded and saved again it is the same,
  but for the last digits of fractions;
- a field that is there for one table alone is a difference, whatever its value.

How long things take is not compared, nor what a table's own reader says of a file that it cannot read: those messages
name the value that is wrong, and the data holder alone sees them.
"""

from __future__ import annotations

import csv
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from qrelease.data.schema import to_toml
from qrelease.data.table import Table
from qrelease.evaluation.audit.observed import (
    BEYOND_MANIFEST,
    SEEDS,
    SHAPE,
    Door,
    DoorAudit,
    Seen,
    account,
    compared,
    flat,
    listening,
)
from qrelease.evaluation.audit.session import Serving, server_door
from qrelease.mechanisms.base import Mechanism
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.manifest import MANIFEST
from qrelease.release.reader import load
from qrelease.release.sums import SUMS

_NUMBER: Final = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


def folder_seen(folder: Path) -> dict[str, object]:
    """What is in the folder of a release: names, the manifest field by field, and whether the rest follows from it."""
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))
    seen: dict[str, object] = {"files": ", ".join(files)}
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return seen
    content = json.loads(manifest.read_text(encoding="utf-8"))
    seen |= flat({name: part for name, part in content.items() if name != "id"}, MANIFEST)  # the hash of the others
    with tempfile.TemporaryDirectory() as again:
        load(folder).save(Path(again) / "again")
        for file in {*files} - {MANIFEST, SUMS}:  # `load` has checked the hashes
            encoding = "latin-1" if file.endswith((".npy", ".npz", ".parquet")) else "utf-8"  # any bytes, or texts
            copy, here = Path(again) / "again" / file, (folder / file).read_text(encoding)
            if not copy.is_file() or not alike(copy.read_text(encoding), here):
                seen[f"{file}{BEYOND_MANIFEST}"] = here
    return seen


def alike(first: str, second: str) -> bool:
    """Whether two texts are the same, but for the last digits of fractions: a fit adds in another order when loaded."""
    parts = [_NUMBER.split(text) for text in (first, second)]
    if len(parts[0]) != len(parts[1]):
        return False
    return all(a == b or _close(a, b) for a, b in zip(*parts, strict=True))


def _close(a: str, b: str) -> bool:
    """Whether two numbers are close, which are not both whole."""
    numbers = _NUMBER.fullmatch(a) and _NUMBER.fullmatch(b) and not (a + b).lstrip("-").isdecimal()
    return bool(numbers) and math.isclose(float(a), float(b), rel_tol=1e-4, abs_tol=1e-6)


def curator_door(mechanism: Mechanism, cost: Cost) -> Door:
    """`Curator.release` and `Release.save`: the folder, the representation, the error, log lines and the ledger."""

    def seen(table: Table, neighbours: Neighbours, seed: int) -> Seen:
        found: dict[str, object] = {}
        workload = Workload.marginals(table.domain, 2)
        with (
            tempfile.TemporaryDirectory() as here,
            Ledger.open(None, cost, neighbours=neighbours, person=table.person_column) as ledger,
            listening(found),
        ):
            out = Path(here) / "out"
            try:
                release = Curator(table, ledger, Entropy.insecure(seed)).release(mechanism, workload, cost)
                found["repr"] = _ADDRESS.sub("", repr(release))
                release.save(out)
            except Exception as error:  # whatever it is, somebody may read it
                found["error"] = f"{type(error).__name__}: {error}"
            found |= folder_seen(out) if out.exists() else {"files": None}
            found |= account(ledger)
        return found

    return seen


def command_door(mechanism: str, cost: Cost, command: Sequence[str] = (sys.executable, "-m", "qrelease")) -> Door:
    """`qrelease release` in a process of its own: exit code, both outputs, the folder, and what it leaves behind."""

    def seen(table: Table, neighbours: Neighbours, seed: int) -> Seen:
        with tempfile.TemporaryDirectory() as name:
            here = Path(name)
            (here / "schema.toml").write_text(to_toml(table.domain), encoding="utf-8")
            columns: dict[str, list[object]] = {
                name: codes.tolist() for name, codes in zip(SHAPE, table.columns, strict=True)
            }
            if table.persons is not None and table.person_column is not None:
                columns[table.person_column] = [f"p{digest:x}" for digest, _ in table.persons.unit.tolist()]
            with (here / "people.csv").open("w", encoding="utf-8", newline="") as out:
                rows = csv.writer(out)
                rows.writerow(columns)
                rows.writerows(zip(*columns.values(), strict=True))
            given = ["release", "people.csv", "--schema", "schema.toml", "--mechanism", mechanism, "--out", "out"]
            given += ["--neighbours", neighbours.value, "--insecure-seed", str(seed), "--ledger", "people.ledger"]
            given += [part for item in cost.to_json().items() for part in (f"--{item[0]}", repr(item[1]))]
            done = subprocess.run(  # noqa: S603  its own command line
                [*command, *given], cwd=here, capture_output=True, text=True, check=False
            )
            found: dict[str, object] = {"exit": done.returncode}
            found |= flat(done.stdout.splitlines(), "stdout")
            found |= flat(done.stderr.splitlines(), "stderr")
            found["left"] = ", ".join(sorted(file.name for file in here.iterdir()))
            if (here / "out").is_dir():
                found |= folder_seen(here / "out")
            if (here / "people.ledger").is_file():
                with Ledger.open(here / "people.ledger") as ledger:
                    found |= account(ledger)
        return found

    return seen


def audit_doors(
    mechanism: str,
    made: Mechanism | Online,
    cost: Cost,
    neighbours: Neighbours,
    serving: Serving,
    *,
    seeds: int = SEEDS,
    at_most: int | None = None,
) -> list[DoorAudit]:
    """Attack a mechanism through the public doors: a release by Python and by the command line, a session over HTTP.

    Parameters
    ----------
    mechanism, made
        Its name on the command line, or `online`, and itself.
    cost
        Of each release, or the cap of each session.
    neighbours
        The relation.
    serving
        How a server serves, for the sessions of `online`.
    seeds
        Insecure seeds for each table; the command line, which starts a process for each, is attacked with one.
    at_most
        Records of a person that are kept, where neighbouring tables differ by a whole person; by default they differ
        by one record.

    Returns
    -------
    list of DoorAudit
        One a door.
    """
    if isinstance(made, Online):
        door = server_door(made, cost, serving)
        return [compared("HTTP", mechanism, door, neighbours, seeds=seeds, at_most=at_most)]
    return [
        compared("Curator", mechanism, curator_door(made, cost), neighbours, seeds=seeds, at_most=at_most),
        compared("command line", mechanism, command_door(mechanism, cost), neighbours, seeds=1, at_most=at_most),
    ]
