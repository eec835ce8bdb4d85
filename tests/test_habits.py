"""Habits that are counted: private names and replacements in tests, modules without tests, what is said twice.

`python -m tests.test_habits` lists them.
"""

import ast
import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

MOST_PRIVATE_NAMES = 40
"""Places in tests that name something private of the package."""

MOST_PATCHES = 82
"""Places in tests that replace something for a while: of the package, of Python, of the environment.

It only goes down."""

MOST_ALIKE = 9
"""Lines of code in a row, of the same shape, that two places of the package may share."""

TESTS = Path(__file__).parent

PACKAGE = TESTS.parent / "qrelease"

PATCHING = {"setattr", "setitem", "delattr", "delitem", "setenv", "delenv", "chdir", "syspath_prepend"}
"""Of pytest's `monkeypatch`."""

PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit", "_repr_html_"}
"""Names with an underscore that Python or notebooks document."""


def is_private(name: str) -> bool:
    """Whether a name, or the last part of a dotted one, begins with one underscore."""
    last = name.rpartition(".")[2]
    return last.isidentifier() and last.startswith("_") and not last.startswith("__") and last not in PUBLIC


def own_names(tree: ast.AST) -> set[str]:
    """What the file itself defines, or sets on its own objects."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            found.add(node.attr)
    return found


def is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Attributes and imports with an underscore that the file does not define, and those handed over as texts."""
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_self(node.value):
            if node.attr not in own:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            whole = [a.name for a in node.names if is_private(a.name) and a.name != "_util"]
            yield from ((node.lineno, f"{node.module}.{name}") for name in whole)
        elif isinstance(node, ast.Call):
            by_name = isinstance(node.func, ast.Name) and node.func.id in {"getattr", "setattr", "hasattr", "delattr"}
            if by_name or is_patch(node):
                texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                yield from ((node.lineno, text) for text in texts if is_private(text))


def is_patch(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PATCHING


def patches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What is replaced: with `monkeypatch` under any name, with `unittest.mock`, or by hand in a module."""
    modules = {a.asname or a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    for node in ast.walk(tree):
        if is_patch(node) and not isinstance(node.func.value, ast.Constant):
            if ast.unparse(node.func) not in {"contextlib.chdir", "os.chdir"}:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [getattr(node, "module", None) or "", *(a.name for a in node.names)]
            if any(name.startswith(("unittest.mock", "mock")) for name in names):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) in modules:
                    yield node.lineno, ast.unparse(node)


def counted(find) -> list[str]:
    """Every place in the tests, as file:line and its text."""
    return [
        f"{file.relative_to(TESTS.parent)}:{line}: {text[:100]}"
        for file in sorted(TESTS.rglob("*.py"))
        for line, text in find(ast.parse(file.read_text(encoding="utf-8")))
    ]


def test_tests_name_few_private_things_of_the_package():
    found = counted(private_names)
    assert len(found) <= MOST_PRIVATE_NAMES, "\n".join(found)


def test_tests_replace_few_things():
    found = counted(patches)
    assert len(found) <= MOST_PATCHES, "\n".join(found)


def shapes(text: str) -> Iterator[tuple[int, str]]:
    """The lines of code in functions, with one sign for any name, number or text; no signatures or docstrings."""
    kept: set[int] = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in node.body:
                kept.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    for node in ast.walk(tree):
        told = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if told or isinstance(node, ast.Import | ast.ImportFrom):
            kept.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    signs = {tokenize.NUMBER: "0", tokenize.STRING: "s"}
    lines: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.start[0] in kept and token.string.strip() and token.type != tokenize.COMMENT:
            name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            lines[token.start[0]].append("n" if name else signs.get(token.type, token.string))
    yield from ((number, " ".join(line)) for number, line in sorted(lines.items()) if any(map(str.isalnum, line)))


def alike(files: dict[str, str]) -> list[str]:
    """Pairs of places in files, name and content, that share too many lines of one shape."""
    places = defaultdict(list)
    for name, text in files.items():
        lines = list(shapes(text))
        for first in range(len(lines) - MOST_ALIKE):
            run = lines[first : first + MOST_ALIKE + 1]
            if sum(len(line.split()) for _, line in run) < 4 * len(run):  # a list of names, a line each
                continue
            places["\n".join(line for _, line in run)].append((name, first, run[0][0]))
    return [
        f"{one[0]}:{one[2]} and {other[0]}:{other[2]}"
        for found in places.values()
        for one, other in combinations(found, 2)
        if one[0] != other[0] or other[1] - one[1] > MOST_ALIKE
    ]


def test_no_two_places_of_the_package_share_ten_lines():
    assert alike({str(f): f.read_text(encoding="utf-8") for f in sorted(PACKAGE.rglob("*.py"))}) == []


def test_lines_are_alike_whatever_their_names_are():
    body = [f"    a{i} = f(b, {i}) + c[{i}{', 2' * (i % 3)}]" for i in range(9)]
    one = "\n".join(["def one(b, c):", '    """What it does."""', *body, "    return a0"])
    other = one.replace("one", "other").replace("b", "items").replace("What it does", "Another thing")
    assert alike({"one.py": one, "other.py": other}) == ["one.py:3 and other.py:3"]
    assert alike({"one.py": f"{one}\n\n\n{other}"}) == ["one.py:3 and one.py:17"]
    assert alike({"one.py": one, "other.py": other.replace("a5 =", "a5 = 1 +")}) == []


EXEMPT = (
    "_util/typing.py",  # names of types alone
    "data/source.py",  # a protocol: signatures and what they promise, which the tests of each source hold them to
)
"""Modules without a test file of their own, and why."""


def unmirrored() -> list[str]:
    """Modules without a test file of the same name in the same place; leading underscores do not count."""
    modules = [file.relative_to(PACKAGE) for file in sorted(PACKAGE.rglob("*.py"))]
    return [
        module.as_posix()
        for module in modules
        if module.name not in ("__init__.py", "__main__.py")
        and not (TESTS / module.parent / f"test_{module.name.lstrip('_')}").exists()
    ]


def test_every_module_has_its_tests_in_a_file_of_its_name():
    assert unmirrored() == sorted(EXEMPT)


@pytest.mark.parametrize(
    ("text", "private", "replaced"),
    [
        ("from qrelease._util import memory\nmemory.free()", 0, 0),
        ("from qrelease.data.table import _codes", 1, 0),
        ("session._state.hypothesis._replayed", 2, 0),
        ("class Own:\n    def _state(self): return self._hidden\nOwn()._state()", 0, 0),
        ("row._replace(answer=1)\nos._exit(0)\nrelease._repr_html_()", 0, 0),
        ("getattr(session, '_state')", 1, 0),
        ("monkeypatch.setattr(module, '_MOST', 3)\npatch.setattr('qrelease.data.table._MOST', 3)", 2, 2),
        ("patched.setitem(sys.modules, 'sklearn', None)\nmonkeypatch.setenv('HOME', 'x')", 0, 2),
        ("from unittest.mock import patch", 0, 1),
        ("import qrelease.data.table as table\ntable.MOST = 3", 0, 1),
        ("with contextlib.chdir(tmp_path): pass", 0, 0),
    ],
)
def test_what_counts(text, private, replaced):
    tree = ast.parse(text)
    assert (len([*private_names(tree)]), len([*patches(tree)])) == (private, replaced)


if __name__ == "__main__":
    for title, find in (("private names of the package", private_names), ("replaced", patches)):
        places = counted(find)
        print(*places, f"{title}: {len(places)}", "", sep="\n")
