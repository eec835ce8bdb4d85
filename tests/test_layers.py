"""The rooms of the house, read off the imports: who may import whom, through however many modules.

An import inside a function counts like any other; a name in an annotation alone (`TYPE_CHECKING`) does not.
"""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import qrelease
from qrelease.apps.cli import COMMANDS

ROOT = Path(qrelease.__file__).parent

MAY_IMPORT = {
    "errors": set(),
    "_util": {"errors"},
    "privacy": {"errors", "_util"},
    "noise": {"errors", "_util", "privacy"},
    "data": {"errors", "_util"},
    "queries": {"errors", "_util", "data"},
    "inference": {"errors", "_util", "privacy", "noise", "data", "queries"},
    "local": {"errors", "_util", "privacy", "noise", "data", "queries", "inference"},
    "mechanisms": {"errors", "_util", "privacy", "noise", "data", "queries", "inference"},
    "statistics": {"errors", "_util", "privacy", "noise", "data", "queries", "inference"},
    "release": {"errors", "_util", "privacy", "noise", "data", "queries", "inference", "mechanisms", "statistics"},
    "evaluation": {
        *("errors", "_util", "privacy", "noise", "data", "queries", "inference", "mechanisms", "statistics"),
        "release",
    },
    "apps": {
        *("errors", "_util", "privacy", "noise", "data", "queries", "inference", "mechanisms", "statistics"),
        *("release", "evaluation", "local"),
    },
}
"""The rooms, each with those below it that it may import from."""

HOLDS_THE_TABLE = {"release.curator"}
"""Modules of `release` that stand beside what is given away: the door to the private table."""

LONGEST_CHAIN = 15
"""Modules that import one another in a row, at most."""


def name_of(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(f): f for f in sorted(ROOT.rglob("*.py")) if f.parent != ROOT or f.stem == "errors"}


def targets(node):
    """What one statement imports from the package, as module names; a name in a module counts as the module."""
    if isinstance(node, ast.Import):
        names = [a.name for a in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        names = [f"{node.module}.{a.name}" for a in node.names]
    else:
        return
    for full in names:
        if full.split(".")[0] == "qrelease":
            inner = full.split(".")[1:]
            while inner and ".".join(inner) not in FILES:
                inner.pop()
            if inner:
                yield ".".join(inner)


@cache
def imports(name):
    """The modules that a module imports, anywhere in its file."""
    found = set()

    def visit(node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            found.update(targets(child))
            visit(child)

    visit(ast.parse(FILES[name].read_text(encoding="utf-8")))
    return frozenset(found - {name})


@cache
def reached(name):
    """All modules that a module imports through however many others."""
    found, left = set(), [name]
    while left:
        for target in imports(left.pop()):
            if target not in found:
                found.add(target)
                left.append(target)
    return frozenset(found)


def room_of(name):
    return name.split(".")[0]


def test_every_module_has_a_room():
    """Beside the rooms there are only the package's public names, its command and its errors."""
    assert {room_of(name) for name in FILES} == set(MAY_IMPORT)
    assert {f.name for f in ROOT.glob("*.py")} == {"__init__.py", "__main__.py", "errors.py"}
    assert len([f for f in ROOT.iterdir() if f.is_dir() and f.name != "__pycache__"]) <= 12


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_from_those_below(room):
    for name in FILES:
        if room_of(name) == room:
            above = {t for t in imports(name) if room_of(t) not in {room, *MAY_IMPORT[room]}}
            assert not above, f"{name} may not import {above}"


def test_no_module_imports_itself_through_others():
    assert not [name for name in FILES if name in reached(name)]


def test_chains_are_short():
    depth = {}
    for name in TopologicalSorter({name: imports(name) for name in FILES}).static_order():
        depth[name] = 1 + max((depth[t] for t in imports(name)), default=0)
    assert max(depth.values()) <= LONGEST_CHAIN, max(depth, key=depth.get)


PUBLIC_ROOMS = [n for n in FILES if room_of(n) in {"inference", "release"} and n not in HOLDS_THE_TABLE]


@pytest.mark.parametrize("name", PUBLIC_ROOMS)
def test_what_is_made_of_measurements_reaches_no_table_and_no_noise(name):
    """From a noisy measurement on, nothing can look at the records again or draw at random in the name of privacy."""
    assert not reached(name) & {
        "data.source",
        "data.table",
        "noise.samplers",
        "noise.kernels",
        "noise.entropy",
        "release.curator",
    }


def test_the_private_table_is_seen_by_few():
    """`Private`, `PrivateColumns` and `Curator` are the door; what compares tables stands outside on purpose."""
    assert {name for name in FILES if "data.source" in imports(name)} == {
        "mechanisms.measured_values",
        "mechanisms.private_data",
        "release.curator",
        "statistics.private_columns",
    }
    seen_by = {name for name in FILES if "data.table" in imports(name)}
    assert {name for name in seen_by if room_of(name) not in {"evaluation", "apps"}} == {
        "data.bundled",
        "data.counts",
        "data.sources.spark_blocks",
        "data.two_tables",
        "mechanisms.simulation",
    }


@pytest.mark.parametrize("name", [n for n in FILES if room_of(n) == "local"])
def test_the_local_model_reaches_no_table(name):
    """Its servers see reports that people randomised themselves."""
    assert not reached(name) & {"data.source", "data.table", "release.curator", "mechanisms.private_data"}


def test_evaluation_enters_no_release():
    """It looks at the truth, so nothing that makes, stores or shows a release may know it."""
    assert {room_of(name) for name in FILES if "evaluation.evaluate" in imports(name)} <= {"apps"}


def test_a_mechanism_does_not_know_another():
    """But `mwem` and `pmw` are iterative constructions, and `auto` chooses among all."""
    mechanisms = {"laplace", "gaussian", "matrix", "maxent", "weighted_records", "auto", "small_db.small_db"}
    mechanisms |= {"small_db.net", "iterative.construction", "iterative.mwem", "iterative.pmw", "online.session"}
    mechanisms = {f"mechanisms.{name}" for name in mechanisms}
    for name in mechanisms - {"mechanisms.auto"}:
        assert imports(name) & mechanisms <= {"mechanisms.iterative.construction"}, name


def test_tests_mirror_the_rooms():
    """`tests/<room>/test_<module>.py` or `test_<module>_<aspect>.py`; a package's own name is its `__init__`."""
    modules = {f"{name}.{name.split('.')[-1]}" if file.stem == "__init__" else name for name, file in FILES.items()}
    tests = Path(__file__).parent
    for file in tests.rglob("test_*.py"):
        *room, stem = file.relative_to(tests).with_suffix("").parts
        words = stem.removeprefix("test_").split("_")
        named = {".".join([*room, "_".join(words[:k])]) for k in range(1, len(words) + 1)}
        assert not room or named & modules, f"{file} is named after no module of its room"


# --- light imports -----------------------------------------------------------------------------------------------

HEAVY = {"numpy", "numba", "scipy", "cryptography", "narwhals", "pandas", "matplotlib", "tqdm"}


def loaded_by(code):
    """Which modules a fresh interpreter has loaded after some code."""
    look = "import sys; print('\\n' + ' '.join(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\n{look}"], capture_output=True, text=True, check=True
    )
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "module",
    ["qrelease", *(f"qrelease.{m}" for m in ("errors", "privacy", "privacy.ledger", "data.domain", "data.schema"))],
)
def test_a_public_schema_and_a_budget_need_nothing_heavy(module):
    assert not loaded_by(f"import {module}") & HEAVY


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [
        (["--help"], set()),
        (["release", "--help"], {"release"}),
        (["evaluate", "--help"], {"evaluate"}),
        (["ledger", "show", "nowhere.ledger"], {"ledger"}),
    ],
    ids=lambda x: " ".join(x),
)
def test_a_command_loads_no_other_and_its_help_nothing_heavy(arguments, commands):
    loaded = loaded_by(f"""
import contextlib
import qrelease.apps.cli
with contextlib.suppress(SystemExit):
    qrelease.apps.cli.main({arguments})
""")
    assert not loaded & HEAVY
    assert {name for name in COMMANDS if f"qrelease.apps.cli.{name}" in loaded} == commands


def test_a_command_is_the_module_of_its_name():
    modules = {file.stem for file in (ROOT / "apps" / "cli").glob("*.py")}
    assert modules == {*COMMANDS, "release_both", "shared", "ledgers", "mechanisms", "serve_file", "__init__"}


def test_every_public_name_loads():
    assert all(getattr(qrelease, name) is not None for name in qrelease.__all__)
    assert set(qrelease.__all__) == set(dir(qrelease))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = qrelease.nothing
