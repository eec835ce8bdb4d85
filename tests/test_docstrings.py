"""What docstrings show is what comes out, and every public name has one that is whole."""

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import qrelease
from qrelease.data.source import Source
from qrelease.data.sources.encoding import Piece, Reader
from qrelease.inference.nets import Candidates
from qrelease.inference.synopsis import Estimator, SelfAssessed, Synopsis
from qrelease.inference.update_rules import BoundedRule, ConditionalRule, UpdateRule
from qrelease.mechanisms.accuracy import Promising
from qrelease.mechanisms.base import (
    CountsMore,
    MeasuresNumbers,
    Mechanism,
    OfValues,
    OnlineMechanism,
    PayingMechanism,
    Session,
    Untabled,
)
from qrelease.mechanisms.forecasts import Choosing, Forecasting
from qrelease.mechanisms.iterative.distinguishers import Distinguisher
from qrelease.queries.families import Queries
from qrelease.queries.oracles import Oracle
from qrelease.statistics.base import Statistic
from qrelease.statistics.local_sensitivity import LocallyStable
from qrelease.statistics.noise_source import NoiseSource

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


CONTRACTS = [
    *(
        Mechanism,
        OnlineMechanism,
        PayingMechanism,
        Untabled,
        CountsMore,
        MeasuresNumbers,
        OfValues,
        Session,
        Promising,
        Choosing,
        Forecasting,
        Statistic,
    ),
    *(LocallyStable, NoiseSource, Synopsis, Estimator, SelfAssessed, UpdateRule, BoundedRule, ConditionalRule),
    *(Distinguisher, Oracle, Candidates, Piece, Reader, Source, Queries),
]
"""Protocols, whose methods are described once and for all who have them."""


def methods_of(kind):
    """The public methods that a class defines itself, with what each has beside the object."""
    for name, found in vars(kind).items():
        function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        if inspect.isfunction(function) and not name.startswith("_"):
            parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
            yield name, function, parameters


def missing_sections(function, parameters):
    text = inspect.getdoc(function) or ""
    returned = inspect.signature(function).return_annotation
    wanted = {"Parameters"} | ({"Returns"} if returned not in (None, "None") else set()) if parameters else set()
    return {s for s in wanted if f"{s}\n{'-' * len(s)}\n" not in text}


@pytest.mark.parametrize("kind", CONTRACTS, ids=lambda kind: kind.__name__)
def test_a_protocol_says_what_its_methods_take_and_return(kind):
    assert not [(name, s) for name, function, given in methods_of(kind) if (s := missing_sections(function, given))]


@pytest.mark.parametrize("name", [n for n, o in PUBLIC.items() if inspect.isclass(o)])
def test_a_public_class_says_what_its_methods_take_and_return(name):
    """What a protocol describes is not described again."""
    met = [kind for kind in CONTRACTS if all(hasattr(PUBLIC[name], method) for method, _, _ in methods_of(kind))]
    known = {method for kind in met for method, _, _ in methods_of(kind)}
    own = [(m, f, given) for m, f, given in methods_of(PUBLIC[name]) if m not in known]
    assert not [(m, s) for m, f, given in own if (s := missing_sections(f, given))]


PAGES = sorted((Path(__file__).parents[1] / "docs").rglob("*.md"))
RUNNING = [page for page in PAGES if page.stem == "local"]


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page):
    blocks = page.read_text(encoding="utf-8").split("```python\n")[1:]
    assert blocks
    for block in blocks:
        exec(block.split("```")[0], {})
