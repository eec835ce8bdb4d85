"""Audits of whole releases and sessions through all interfaces that people use: command line, `Curator` and HTTP.

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

import json
import math
import re
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from qrelease._util.compiling import COMPILING
from qrelease.data.schema import load as load_schema
from qrelease.data.schema import to_toml
from qrelease.data.table import Table
from qrelease.errors import QReleaseError
from qrelease.evaluation.audit.commands import (
    SCENES,
    Running,
    Scene,
    filled_arguments,
    release_command,
    started,
    write_inputs,
)
from qrelease.evaluation.audit.observed import (
    BEYOND_MANIFEST,
    NUMBER,
    SEEDS,
    Door,
    DoorAudit,
    Seen,
    differences,
    flat,
    ledger_seen,
    lines_of,
    listening,
)
from qrelease.evaluation.audit.session import ServerStarter, estimates_door, server_door
from qrelease.mechanisms.base import Mechanism
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.checksums import SUMS
from qrelease.release.curator import Curator
from qrelease.release.linked import LinkedRelease
from qrelease.release.manifest import MANIFEST
from qrelease.release.reader import load
from qrelease.statistics.estimate import Estimate

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
    try:
        release = load(folder)
    except QReleaseError as error:
        return seen | {f"{MANIFEST}{BEYOND_MANIFEST}": str(error)}
    with tempfile.TemporaryDirectory() as again:
        release.save(Path(again) / "again")
        for file in {*files} - {MANIFEST, SUMS}:  # `load` has checked the hashes
            encoding = "latin-1" if file.endswith((".npy", ".npz", ".parquet")) else "utf-8"  # any bytes, or texts
            copy, here = Path(again) / "again" / file, (folder / file).read_text(encoding)
            if not copy.is_file() or not alike(copy.read_text(encoding), here):
                seen[f"{file}{BEYOND_MANIFEST}"] = here
    return seen


def linked_seen(folder: Path) -> Iterator[tuple[str, object]]:
    """What is in the folder of a release of parents and children: that of each, and whether the records follow."""
    yield "files", ", ".join(sorted(str(file.relative_to(folder)) for file in folder.rglob("*")))
    sides = folder / "parents", folder / "children"
    for side in sides:
        yield from ((f"{side.name}/{path}", value) for path, value in folder_seen(side).items())
    try:
        parents, children = map(load, sides)
    except QReleaseError as error:
        yield f"parents{BEYOND_MANIFEST}", str(error)
        return
    own = tuple(name for name in children.domain.names if name not in parents.domain.names)
    with tempfile.TemporaryDirectory() as again:
        LinkedRelease(parents, children, own).save(Path(again) / "again")
        for side in sides:
            copy, here = ((where / f"{side.name}.csv").read_text("utf-8") for where in (Path(again) / "again", folder))
            if not alike(copy, here):
                yield f"{side.name}.csv{BEYOND_MANIFEST}", here


def alike(first: str, second: str) -> bool:
    """Whether two texts are the same, but for the last digits of fractions: a fit adds in another order when loaded."""
    parts = [NUMBER.split(text) for text in (first, second)]
    if len(parts[0]) != len(parts[1]):
        return False
    return all(a == b or _close(a, b) for a, b in zip(*parts, strict=True))


def _close(a: str, b: str) -> bool:
    """Whether two numbers are close, which are not both whole."""
    numbers = NUMBER.fullmatch(a) and NUMBER.fullmatch(b) and not (a + b).lstrip("-").isdecimal()
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
            found |= ledger_seen(ledger)
        return found

    return seen


def command_door(scene: Scene, cost: Cost, run: Running | None = None) -> Door:
    """The commands of a scene: exit codes, both outputs, every file that is left behind, and what the ledger says."""
    run = run or started()

    def seen(table: Table, neighbours: Neighbours, seed: int) -> Seen:
        found: dict[str, object] = {}
        with tempfile.TemporaryDirectory() as name:
            here = Path(name).resolve()
            write_inputs(here, scene, table)
            given = {file.name for file in here.iterdir()}
            for number, text in enumerate(scene.commands):
                arguments = filled_arguments(text, cost, neighbours, seed)
                at = f"{number} {arguments[0]}"
                did = run(arguments, here)
                found[f"{at}/exit"] = did.exit
                for stream in ("stdout", "stderr", "log"):
                    lines = getattr(did, stream)
                    text = (lines if isinstance(lines, str) else "\n".join(lines)).replace(f"{COMPILING}\n", "")
                    found |= lines_of(_without_estimate(here, text).replace(name, "HERE"), f"{at}/{stream}")
            found["left"] = ", ".join(sorted(file.name for file in here.iterdir()))
            for file in sorted(here.iterdir()):
                if file.name not in given:
                    found |= _file(file)
        return found

    return seen


def audit_doors(
    mechanism: str,
    made: Mechanism | Online,
    cost: Cost,
    neighbours: Neighbours,
    serving: ServerStarter,
    *,
    seeds: int = SEEDS,
    at_most: int | None = None,
    run: Running | None = None,
) -> list[DoorAudit]:
    """Attack a mechanism through the public doors: a release by Python and by the command line, a session over HTTP
    and its estimates by Python.

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
        Insecure seeds for each table; the command line, which starts a process for each by default, is attacked with
        one.
    at_most
        Records of a person that are kept, where neighbouring tables differ by a whole person; by default they differ
        by one record.
    run
        How commands are run; by default each in a process of its own, as a user does.

    Returns
    -------
    list of DoorAudit
        One a door.
    """
    if isinstance(made, Online):
        return [
            differences(name, mechanism, door, neighbours, seeds=seeds, at_most=at_most)
            for name, door in (("HTTP", server_door(made, cost, serving)), ("session", estimates_door(made, cost)))
        ]
    return [
        differences("Curator", mechanism, curator_door(made, cost), neighbours, seeds=seeds, at_most=at_most),
        differences(
            "command line",
            mechanism,
            command_door(release_command(mechanism), cost, run),
            neighbours,
            seeds=1,
            at_most=at_most,
        ),
    ]


def audit_commands(
    name: str, cost: Cost, neighbours: Neighbours, *, at_most: int | None = None, run: Running | None = None
) -> list[DoorAudit]:
    """Attack what else the command line gives away: estimates, learned schemas, scores, numbers; one a scene.

    name     of `SCENES`
    cost     of each command
    at_most  records of a person that are kept, where neighbouring tables differ by a whole person, as they do in any
             case where a person is a parent with all children
    run      how commands are run
    """
    return [
        differences(
            "command line", name, command_door(scene, cost, run), neighbours, seeds=1, at_most=at_most or scene.children
        )
        for scene in SCENES[name]
    ]


def _estimate(file: Path) -> Estimate | None:
    """The estimate in a file; None where there is none."""
    return Estimate.load(file) if file.is_file() else None


def _without_estimate(here: Path, text: str) -> str:
    """What was printed, but for what says the same as the file of an estimate, which is compared field by field."""
    found = _estimate(here / "out.json")
    return text if found is None else text.replace(f"{found}\n", "", 1)


def _file(file: Path) -> Iterator[tuple[str, object]]:
    """What is in a file, or a folder, that a command made."""
    if file.suffix == ".ledger":
        with Ledger.open(file) as ledger:
            yield from ledger_seen(ledger)
    elif (file / MANIFEST).is_file():
        yield from folder_seen(file).items()
    elif (file / "parents" / MANIFEST).is_file():
        yield from linked_seen(file)
    elif file.suffix == ".toml":
        yield from _schema(file)
    elif file.suffix == ".json":
        yield from flat(json.loads(file.read_text(encoding="utf-8")), file.name)
    elif file.suffix == ".html" and (found := _estimate(file.with_suffix(".json"))) is not None:
        if found.html() != (here := file.read_text(encoding="utf-8")):
            yield f"{file.name}{BEYOND_MANIFEST}", here
    else:
        yield file.name, "a folder" if file.is_dir() else file.read_text(encoding="latin-1")


def _schema(file: Path) -> Iterator[tuple[str, object]]:
    """A schema: what it says, field by field, and its comments but for the date."""
    text = file.read_text(encoding="utf-8")
    said: dict[str, Any] = tomllib.loads(text)
    yield from flat(said, file.name)
    comments = [re.sub(r", \d{4}-\S+\.$", "", line) for line in text.splitlines() if line.startswith("#")]
    yield from flat(comments, f"{file.name}/comments")
    try:
        same = tomllib.loads(to_toml(load_schema(file))) == said
    except QReleaseError:
        same = False
    if not same:
        yield f"{file.name}{BEYOND_MANIFEST}", text
