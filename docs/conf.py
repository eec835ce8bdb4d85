"""The site: `python -m sphinx -W -b html docs build/site`; `tests/test_site.py` checks what was built.

Its code cells run while it is built, in an empty folder each. Nothing of it asks another host: formulas are MathML,
fonts and scripts are the theme's own files, and search is a file beside the pages.

Where several versions are published side by side, each in a folder of its name, `SITE_VERSIONS=../versions.json` puts a
menu of them into the header. The file, which stands beside the folders, lists `{"version": "0.1.0", "url": "/0.1.0/"}`.
"""

import os
import re
import sys
from importlib.metadata import version as installed
from pathlib import Path

import myst_nb.core.render
from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = Path(__file__).resolve().parent.parent

# Cells that run `qrelease` mean the one of this environment, and their help texts are as wide as a page.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
os.environ["COLUMNS"] = "100"
os.environ["NO_COLOR"] = "1"
os.environ["TQDM_DISABLE"] = "1"  # progress is of who waits, not of who reads
sys.path.insert(0, str(ROOT))

project = "qrelease"
copyright = "the authors of qrelease; Apache-2.0"
version = release = installed("qrelease")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_nb", "sphinx_design"]
exclude_patterns = ["_templates"]
templates_path = ["_templates"]
default_role = "autolink"
nitpicky = False

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
add_module_names = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "auto"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_ipywidgets_js = {}

html_theme = "pydata_sphinx_theme"
html_title = f"qrelease {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "../qrelease/apps/server/static/icon.svg"
html_domain_indices = False  # the index of names has all of them
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # from a folder, a browser may not fetch the pages that it would quote
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": f"qrelease {release}"},
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
if versions := os.environ.get("SITE_VERSIONS"):
    html_theme_options["switcher"] = {"json_url": versions, "version_match": release}
    html_theme_options["check_switcher"] = False  # the file is where the site will be, not where it is built
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher"]

# Files of the repository that have a page here: a link to one of them is a link to its page.
PAGES = {
    "README.md": "/index.md",
    "ARCHITECTURE.md": "/explanation/architecture.md",
    "CONTRIBUTING.md": "/how-to/extending.md",
}


def relinked(text: str, folder: Path) -> str:
    """Links of a page in `folder` to files of the repository outside docs/, turned to where the site has them."""

    def moved(link: re.Match[str]) -> str:
        target, _, anchor = link[1].partition("#")
        path = Path(os.path.normpath(folder / target))
        if not path.is_relative_to(ROOT):
            return link[0]
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("docs/"):
            return f"](/{name.removeprefix('docs/')}{'#' + anchor if anchor else ''})"
        if name.startswith("examples/"):
            return f"](/how-to/examples.md#{path.name.replace('.', '')})"
        return f"]({PAGES[name]})" if name in PAGES else link[0]

    return re.sub(r"\]\(((?![a-z]+:|#|/|<)[^)\s]+)\)", moved, text)


def read_source(app, docname, source):
    source[0] = relinked(source[0], (ROOT / "docs" / docname).parent)


def read_include(app, path, docname, source):
    if Path(path).suffix == ".md":
        source[0] = relinked(source[0], (ROOT / "docs" / path).resolve().parent)


def escape_bars(app, what, name, obj, options, lines):
    """|x| is an absolute value here, and no substitution. Examples and literal text have none to escape."""
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else line.replace("|", r"\|") for line in lines]


def joined_streams(outputs):
    """What a cell printed, in one piece for each stream: it comes in pieces of a hundred characters."""
    found, streams = [], {}
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] in streams:
            streams[output["name"]]["text"] += output["text"]
            continue
        if output["output_type"] == "stream":
            streams[output["name"]] = output = output.copy()
        found.append(output)
    return found


def inline_math(translator, node):
    translator.body.append(tex2mathml(node.astext()))
    raise SkipNode


def block_math(translator, node):
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def setup(app):
    myst_nb.core.render.coalesce_streams = joined_streams  # its own breaks lines between the pieces
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.connect("source-read", read_source)
    app.connect("include-read", read_include)
    app.connect("autodoc-process-docstring", escape_bars)


html_math_renderer = "mathml"
