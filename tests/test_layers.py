"""The layers of the house, read off the imports: no arrow runs up, and none crosses between the wings.

Within a wing a module imports only from those listed before it, so that the list is also a reading order.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import qrelease
from qrelease.cli import COMMANDS

ROOT = Path(qrelease.__file__).parent

GROUND = ["errors", "memory"]

DATA = [
    "rows",
    "domain",
    "schema",
    "draft",
    "conditions",
    "predicate",
    "queries",
    "products",
    "cores",
    "kernels",
    "record_kernels",
    "counting",
    "cover",
    "sampling",
    "constraints",
    "rounding",
    "replacement",
    "workload",
    "canonical",
    "dense",
    "support",
    "histogram",
    "encoding",
    "table",
    "data",
]

PRIVACY = [
    "privacy.costs",
    "privacy.conversions",
    "privacy.composition",
    "privacy.filters",
    "privacy.odometer",
    "privacy.pld",
    "privacy",
    "ledger_store",
    "ledger",
    "analyst_store",
    "analysts",
    "entropy",
    "exact",
    "laws",
    "samplers",
    "noise",
    "selection",
    "sparse_vector",
    "primitives",
    "randomised_response",
]

RELEASE = [
    "measure",
    "residuals",
    "strategies",
    "contracts",
    "promise",
    "interactions",
    "maxent",
    "records",
    "chains",
    "databases",
    "branching",
    "vc",
    "synopses",
    "nets",
    "covering",
    "hypotheses",
    "updates",
    "oracles",
    "distinguishers",
    "conjunctions",
    "tails",
    "pricing",
    "bought",
    "learner",
    "books",
    "mechanisms",
    "mechanisms.direct",
    "mechanisms.laplace",
    "mechanisms.gaussian",
    "mechanisms.matrix",
    "mechanisms.maxent",
    "mechanisms.records",
    "mechanisms.iterative",
    "mechanisms.mwem",
    "mechanisms.pmw_promise",
    "mechanisms.pmw",
    "mechanisms.online",
    "mechanisms.choosing",
    "mechanisms.smalldb",
    "mechanisms.net",
    "release",
    "curator",
]

USE = [
    "chart",
    "pictures",
    "report",
    "archive",
    "plot",
    "comparison",
    "rehearsal",
    "auto",
    "planning",
    "evaluate",
    "audit",
    "server",
    "cli",
    "__main__",
]

# A release saves and shows itself by calling up, when it is asked to; it can be made and used without.
ON_DEMAND = {("release", "archive"), ("release", "report")}

MODULES = [*GROUND, *DATA, *PRIVACY, *RELEASE, *USE]

BELOW = {"data": GROUND, "privacy": GROUND, "release": [*GROUND, *DATA, *PRIVACY], "use": MODULES[: -len(USE)]}


def name_of(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def place_of(name):
    """The auditor is one place in the list, the server, and the command line: how their parts lean is their affair."""
    return name.split(".")[0] if name.startswith(("audit.", "server.", "cli.")) else name


FILES = {name_of(f): f for f in sorted(ROOT.rglob("*.py"))}

PLACES = {place_of(name) for name in FILES}


@cache
def imports(place):
    """The places that the modules of a place import from, each with whether that is at a module's top level."""
    found = {}

    def visit(node, top):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue  # a name in an annotation is no arrow
            for target in map(place_of, targets(child)):
                found[target] = found.get(target, False) or top
            visit(child, top and not isinstance(child, ast.FunctionDef))

    for name, file in FILES.items():
        if place_of(name) == place:
            visit(ast.parse(file.read_text(encoding="utf-8")), top=True)
    found.pop(place, None)
    return found


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


def test_every_module_has_its_place():
    """A new module is written into the list above, where a reader finds what it may import."""
    assert sorted(PLACES) == sorted(["", *MODULES])


@pytest.mark.parametrize(
    ("layer", "wing"), [("data", DATA), ("privacy", PRIVACY), ("release", RELEASE), ("use", USE)], ids=BELOW
)
def test_no_arrow_runs_up(layer, wing):
    allowed = set(BELOW[layer])
    for name in wing:
        for target, top in imports(name).items():
            if (name, target) in ON_DEMAND:
                assert not top, f"{name} may import {target} on demand only"
            else:
                assert target in allowed, f"{name} may not import {target}"
        allowed.add(name)


def test_errors_stand_on_nothing():
    assert imports("errors") == {}
    assert set(imports("memory")) == {"errors"}


def test_the_wings_do_not_know_each_other():
    for here, there in ((DATA, PRIVACY), (PRIVACY, DATA)):
        assert not [(name, t) for name in here for t in imports(name) if t in there]


def test_only_the_learning_mechanisms_are_iterative():
    assert {name for name in PLACES if "mechanisms.iterative" in imports(name)} <= {
        "mechanisms.mwem",
        "mechanisms.pmw",
        "planning",
    }


def test_a_mechanism_does_not_know_another():
    pieces = {f"mechanisms.{piece}" for piece in ("direct", "iterative", "choosing", "pmw_promise")} | {"mechanisms"}
    for name in RELEASE:
        if name.startswith("mechanisms."):
            assert not [t for t in imports(name) if t.startswith("mechanisms.") and t not in pieces]


def test_the_private_table_is_seen_by_few():
    """`Private` and `Curator` are the door; what reads or compares tables stands outside on purpose."""
    seen_by = {name for name in PLACES if "table" in imports(name)}
    assert seen_by <= {"", "data", "measure", "curator", "rehearsal", "audit", "evaluate", "server", "cli"}
    assert not {"table", "ledger", "entropy", "curator"} & set(imports("release"))


def test_evaluation_enters_no_release():
    """It looks at the truth, so nothing that makes, stores or shows a release may know it."""
    assert {name for name in PLACES if "evaluate" in imports(name)} <= {"", "cli"}


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
    ["qrelease", *(f"qrelease.{m}" for m in ("errors", "privacy", "ledger", "domain", "schema"))],
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
import qrelease.cli
with contextlib.suppress(SystemExit):
    qrelease.cli.main({arguments})
""")
    assert not loaded & HEAVY
    assert {name for name in COMMANDS if f"qrelease.cli.{name}" in loaded} == commands


def test_a_command_is_the_module_of_its_name():
    modules = {file.stem for file in (ROOT / "cli").glob("*.py")}
    assert modules == {*COMMANDS, "shared", "mechanisms", "__init__"}


def test_every_public_name_loads():
    assert all(getattr(qrelease, name) is not None for name in qrelease.__all__)
    assert set(qrelease.__all__) == set(dir(qrelease))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = qrelease.nothing
