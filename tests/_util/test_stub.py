"""Public names are those of the stubs, and each is where its stub says."""

from importlib import import_module
from pathlib import Path

import pytest

import qrelease
from qrelease._util.stub import homes

PACKAGES = ["qrelease", "qrelease.local"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_stub_is_there_and_there_is_no_other(package):
    module = import_module(package)
    assert set(homes(package)) <= set(dir(module))
    assert set(module.__all__) <= set(dir(module))
    for name, home in homes(package).items():
        assert getattr(module, name) is getattr(import_module(home), name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


def test_each_stub_is_read():
    root = Path(qrelease.__file__).parent
    stubs = {".".join(["qrelease", *f.parent.relative_to(root).parts]) for f in root.rglob("*.pyi")}
    assert stubs == set(PACKAGES)
