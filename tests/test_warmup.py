"""`qrelease warmup` leaves nothing to compile."""

import pytest

from qrelease import databases, kernels, samplers
from qrelease.cli import main

INSIDE = {"scale_blocks"}  # called by other kernels only
ONE_TYPE = {"collect", "spread", "count"}  # of tables and records; the others work on cells of either precision


@pytest.fixture(scope="module", autouse=True)
def _warm():
    assert main(["warmup"]) == 0


def public(module):
    return [name for name, value in vars(module).items() if hasattr(value, "py_func") and name[0] != "_"]


@pytest.mark.parametrize("name", sorted({*public(kernels)} - INSIDE))
def test_a_kernel_is_compiled_for_every_precision(name):
    assert len(getattr(kernels, name).signatures) >= (1 if name in ONE_TYPE else 2)


@pytest.mark.parametrize("name", ["cumulative", "narrow_rows", "wide_rows", "rounded_rows", "accept", "pick"])
def test_a_sampler_is_compiled(name):
    assert getattr(samplers, name).signatures


@pytest.mark.parametrize("name", ["_cut", "_decode", "_errors"])
def test_a_search_is_compiled(name):
    assert getattr(databases, name).signatures
