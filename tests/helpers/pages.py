"""A page of HTML, read strictly."""

from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and checks that every tag is closed where it should be."""

    def __init__(self, content):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], Counter(), [], []
        self.feed(content)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())
