"""The page of a quality report."""

import json
from html.parser import HTMLParser

from qrelease.evaluation.quality import page
from qrelease.evaluation.quality.quality import quality
from tests.evaluation.quality.tables import INDEPENDENT, REAL


class Links(HTMLParser):
    """What a page loads, and whether its elements are closed."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.scripts = [], [], 0

    def handle_starttag(self, tag, attributes):
        self.loads += [v for k, v in attributes if k in ("src", "href", "xlink:href")]
        self.scripts += tag == "script"
        if tag not in ("meta", "br", "rect", "path", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("rect", "path", "circle"):
            assert self.open.pop() == tag


def test_the_page_is_whole_loads_nothing_and_says_that_it_is_private(tmp_path):
    name = "<script>x</script>"
    found = quality(REAL, INDEPENDENT, name=name, targets=["sex"])
    page.write_page(found, tmp_path)
    text = (tmp_path / "quality.html").read_text()
    reader = Links()
    reader.feed(text)
    assert (reader.open, reader.loads, reader.scripts) == ([], [], 0)
    assert "NOT PRIVATE" in text
    assert "k-marginal" in text
    content = json.loads((tmp_path / "quality.json").read_text())
    assert content["notice"].startswith("NOT PRIVATE")
    assert content["k_marginal"]["3"]["synthetic"] == found.k_marginal[3].synthetic
    assert content["k_marginal_sets"] == dict.fromkeys("1234", "all")
    assert "private" in repr(found)
