"""The site's pages lead where they say, list all that is public, and ask no other host."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import qrelease
import qrelease.local
from benchmarks import page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BUILT = ROOT / "build" / "site"
PAGES = [
    p for p in sorted(DOCS.rglob("*")) if p.suffix in (".md", ".rst") and not {"generated", "_templates"} & {*p.parts}
]
TEXTS = [*sorted(ROOT.glob("*.md")), *(p for p in PAGES if p.suffix == ".md")]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


def anchors(text: str) -> set[str]:
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return {slug(line.lstrip("#")) for line in prose.splitlines() if line.startswith("#")}


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_relative_links_resolve(file: Path) -> None:
    """Pages of the reference that Sphinx makes are links to public names."""
    text = re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        found = (file.parent / path).resolve() if path else file
        if found.parent == DOCS / "reference" / "generated":
            assert found.stem.removeprefix("qrelease.") in qrelease.__all__, target
            continue
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            listed = anchors(found.read_text(encoding="utf-8"))
            assert anchor in listed, target


def test_the_reference_lists_what_accounts_for_costs_besides_the_public_names() -> None:
    text = (DOCS / "reference" / "api_privacy.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^   (\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted({*qrelease.privacy.__all__} - {*qrelease.__all__})


@pytest.mark.parametrize("module", [qrelease, qrelease.local], ids=lambda module: module.__name__)
def test_the_reference_lists_every_public_name_once(module) -> None:
    file = {"qrelease": "api.rst", "qrelease.local": "api_local.rst"}[module.__name__]
    listed = re.findall(r"^   (\w+)$", (DOCS / "reference" / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(dir(module) if module is qrelease.local else module.__all__)


def test_every_example_has_its_place() -> None:
    text = (DOCS / "how-to" / "examples.md").read_text(encoding="utf-8")
    examples = sorted(p.name for p in (ROOT / "examples").glob("*.py"))
    assert re.findall(r"^## (\S+)$", text, re.MULTILINE) == examples
    assert re.findall(r"literalinclude} \.\./\.\./examples/(\S+)", text) == examples


def test_the_benchmarks_page_is_drawn_from_the_results() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.markdown()
    for name in ("synthesizers", "online", "noise"):
        for line in page.lines_of(name):
            assert {"command", "version", "machine"} <= {*line}


class Loaded(HTMLParser):
    """What a browser asks for when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed", "object"):
            self.urls += [str(given[key]) for key in ("src", "srcset", "data") if given.get(key)]
        if tag == "link" and given.get("rel") not in ("author", "index", "next", "prev", "search", "canonical"):
            self.urls.append(str(given.get("href")))
        self.urls += re.findall(r"url\(\s*['\"]?([^'\")]+)", given.get("style") or "")


def elsewhere(urls) -> list[str]:
    return [url for url in urls if re.match(r"(?:[a-z]+:)?//", url)]


def test_a_page_that_asks_another_host_is_found() -> None:
    parser = Loaded()
    parser.feed(
        '<script src="https://cdn.example/a.js"></script><link rel="stylesheet" href="//f.example"><img src="a.png">'
    )
    assert elsewhere(parser.urls) == ["https://cdn.example/a.js", "//f.example"]


@pytest.mark.skipif(not BUILT.is_dir(), reason="python -m sphinx -W -b html docs build/site makes it")
def test_the_built_site_asks_no_other_host() -> None:
    pages = sorted(BUILT.rglob("*.html"))
    assert {BUILT / "index.html", BUILT / "search.html"} <= {*pages}
    for file in pages:
        parser = Loaded()
        parser.feed(file.read_text(encoding="utf-8"))
        assert not elsewhere(parser.urls), file
        assert "MathJax" not in file.read_text(encoding="utf-8")
    for file in BUILT.rglob("*.css"):
        text = file.read_text(encoding="utf-8")
        assert not elsewhere(re.findall(r"(?:url\(|@import\s+)\s*['\"]?([^'\")\s;]+)", text)), file
