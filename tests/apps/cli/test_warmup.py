"""`qrelease warmup` leaves nothing to compile."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import qrelease
from qrelease.apps.cli import main
from qrelease.data.marginals import kernels

PACKAGE = Path(qrelease.__file__).parent
ONE_TYPE = {"collect", "spread", "count_codes"}  # of tables and records; the others work on cells of either precision

# Called by other kernels only, with which they are compiled and cached.
INSIDE = {
    "inference.controlled_rounding._left",
    "inference.controlled_rounding.proposed",
    "data.sources.kernels._bucket",
    "data.sources.kernels._count_smaller",
    "data.sources.kernels._draw",
    "data.sources.kernels._mixed",
    "data.sources.kernels._sort",
    "data.marginals.kernels._butterflies",
    "data.marginals.kernels._children",
    "data.marginals.kernels._direct_marginals",
    "data.marginals.kernels._exp32",
    "data.marginals.kernels._exp64",
    "data.marginals.kernels._load",
    "data.marginals.kernels._merge",
    "data.marginals.kernels._next",
    "data.marginals.kernels._unroll",
    "data.marginals.kernels.scale_blocks",
    "data.marginals.record_kernels._add_rows",
    "data.marginals.record_kernels._balanced",
    "data.marginals.record_kernels._centre",
    "data.marginals.record_kernels._change_columns",
    "data.marginals.record_kernels._draw",
    "data.marginals.record_kernels._locate",
    "data.marginals.record_kernels._move_columns",
    "data.marginals.record_kernels._of_columns",
    "data.marginals.record_kernels._places",
    "data.marginals.record_kernels._uniform",
    "data.sources.csv_kernels._hash",
    "data.sources.csv_kernels._same",
    "data.sources.csv_kernels._word",
    "noise.kernels._close",
    "noise.kernels._high",
    "noise.kernels._power",
    "noise.kernels._search",
    "noise.kernels.weight",
}


def compiled(module):
    """The functions of a module that numba compiles."""
    return {name: f for name, f in vars(module).items() if hasattr(f, "py_func") and f.__module__ == module.__name__}


def everything():
    """All of the package, by module and name."""
    modules = [p.relative_to(PACKAGE.parent) for p in PACKAGE.rglob("*.py") if "jit" in p.read_text("utf-8")]
    loaded = [import_module(".".join(p.with_suffix("").parts)) for p in modules]
    return {f"{m.__name__.removeprefix('qrelease.')}.{name}": f for m in loaded for name, f in compiled(m).items()}


@pytest.fixture(scope="module")
def _warm():
    assert main(["warmup"]) == 0


@pytest.mark.usefixtures("_warm")
def test_every_kernel_is_compiled():
    assert {name for name, f in everything().items() if not f.signatures} <= INSIDE
    assert set(everything()) > INSIDE


@pytest.mark.usefixtures("_warm")
@pytest.mark.parametrize(
    "name", [n for n in compiled(kernels) if n[0] != "_" and f"data.marginals.kernels.{n}" not in INSIDE]
)
def test_a_kernel_is_compiled_for_every_precision(name):
    assert len(getattr(kernels, name).signatures) >= (1 if name in ONE_TYPE else 2)


@pytest.mark.slow
def test_after_it_nothing_that_a_user_does_compiles_anything(tmp_path):
    """In processes of their own, with a cache of their own."""

    def run(*command):
        subprocess.run([sys.executable, *command], env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, check=True)
        return {path.name for path in tmp_path.rglob("*.nbc")}

    after = run("-m", "qrelease", "warmup")
    assert len(after) > len(everything())
    assert run(str(Path(__file__).parents[2] / "helpers" / "uses.py")) - after == set()
