"""What docstrings show is what comes out, and every public name has one that is whole."""

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import qrelease

ROOT = Path(qrelease.__file__).parent
SHOWN = [file for file in sorted(ROOT.rglob("*.py")) if ">>> " in file.read_text(encoding="utf-8")]


def module_of(file):
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: ".".join(file.relative_to(ROOT).with_suffix("").parts))
def test_the_examples_of_a_module_run(file):
    found = doctest.testmod(module_of(file), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0
    assert found.failed == 0


PUBLIC = {name: getattr(qrelease, name) for name in qrelease.__all__}


@pytest.mark.parametrize("name", [n for n, o in PUBLIC.items() if inspect.isclass(o) or inspect.isfunction(o)])
def test_a_public_name_is_documented(name):
    """Every one with an example, and a function with what it takes and returns."""
    sections = {"Examples"}
    if inspect.isfunction(PUBLIC[name]):
        sections |= {"Parameters", "Returns"}
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert not {s for s in sections if f"{s}\n{'-' * len(s)}\n" not in text}


PAGES = sorted((Path(__file__).parents[1] / "docs").rglob("*.md"))
RUNNING = [page for page in PAGES if page.stem == "local"]


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page):
    blocks = page.read_text(encoding="utf-8").split("```python\n")[1:]
    assert blocks
    for block in blocks:
        exec(block.split("```")[0], {})
