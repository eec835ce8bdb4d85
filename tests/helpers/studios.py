"""A studio without a socket: its application over a folder of made-up people, and what a page asks of it."""

import asyncio
import csv
import json
import random
from dataclasses import dataclass, field

from serving import Client

from qrelease.apps.cli.studio import CommandLine
from qrelease.apps.studio.app import Studio, application

TOKEN = "t" * 43
PORT = 8123
HOST = f"127.0.0.1:{PORT}"
SECRETS = ("Zyxwv", "Atlantis", "735194682", "1931-05-17")
"""Values of single records: a name, a rare city, the largest pay, the earliest day."""

PUBLIC = [
    {"name": "sex", "kind": "category", "categories": ["F", "M"]},
    {"name": "age", "kind": "number", "bins": {"start": 0, "stop": 120, "width": 40}, "integer": True},
    {"name": "city", "kind": "category", "categories": ["Ulm", "Rom", "else"], "outside": "else"},
]
PAY = {"name": "pay", "kind": "number", "within": [0, 999999999], "step": 1, "bins": 10, "integer": True}
"""A column with exact values."""

TERMS = {"epsilon": 1, "delta": 1e-9, "workload": ["marginals:2"], "neighbours": "add-remove"}


def write_people(file, rows=300):
    """Records of people, of whom one has the `SECRETS`."""
    drawn = random.Random(1)
    with file.open("w", newline="") as out:
        lines = csv.writer(out)
        lines.writerow(["name", "sex", "age", "city", "pay", "born"])
        lines.writerow(["Zyxwv", "F", 31, "Atlantis", 735194682, "1931-05-17"])
        for i in range(rows - 1):
            born = f"{1940 + i % 60}-03-{1 + i % 28:02}"
            age, pay = drawn.randrange(18, 90), 900 + 7 * drawn.randrange(1000)
            lines.writerow([f"Person {i} of us", drawn.choice("FM"), age, drawn.choice(["Ulm", "Rom"]), pay, born])


@dataclass
class Page:
    """What a page asks of a studio; all that was answered is kept."""

    studio: Studio
    answers: list = field(default_factory=list)

    def __post_init__(self):
        self.client = Client(application(self.studio, TOKEN, PORT))

    def ask(self, path, body=None, **headers):
        """An endpoint's reply, by its name."""
        named = {"host": HOST, **headers}
        if body is None:
            return self._kept(path, self.client.send("GET", f"/{TOKEN}/api/{path}", b"", named))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"content-type": "application/json"} | named
        return self._kept(path, self.client.send("POST", f"/{TOKEN}/api/{path}", content, named))

    def good(self, path, body=None):
        """What it says, where it did not refuse."""
        found = self.ask(path, body)
        assert found.status < 300, found.content
        return found.json

    def bad(self, path, body=None, status=422, **headers):
        """Its problem, of one line."""
        found = self.ask(path, body, **headers)
        assert found.status == status, found.content
        assert found.headers["content-type"] == "application/problem+json"
        assert "\n" not in found.json["detail"]
        return found.json["detail"]

    def reviewed(self, columns=PUBLIC, **more):
        """Choose the people's file and review its columns."""
        self.good("draft", {"file": "people.csv"})
        content = {"attribute": [{**c, "reviewed": True} for c in columns], **more}
        return self.good("schema", {"content": content, "save": True})

    def confirmed(self, **terms):
        """The body of a request for a release whose price was asked for."""
        offer = self.good("price", {"terms": TERMS | terms, "records": 300})["offer"]
        return {"offer": offer, "confirmed": True}

    def release(self, **terms):
        """Make a release; how it ended."""
        self.good("release", self.confirmed(**terms))
        self.studio.maker.wait()
        return self.good("made")

    def _kept(self, path, reply):
        self.answers.append((path, reply))
        return reply


def studio_in(folder):
    """A page of a studio in a folder, which gets a file of people."""
    if not (folder / "people.csv").exists():
        write_people(folder / "people.csv")
    return Page(Studio(folder, CommandLine()))


def told(app, path, **headers):
    """A reply to a bare request."""
    return asyncio.run(Client(app).exchange("GET", path, [b""], headers))
