"""What the server answers to a fixed list of requests, in process, with the noise of an insecure seed."""

import json
import re
import tempfile
from pathlib import Path

import qrelease as qr

from . import doors
from .same import figures, without_words
from .sessions import written

HEADERS = [
    "content-type",
    "cache-control",
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "www-authenticate",
    "retry-after",
    "allow",
]
"""Of a response: those that a client acts on."""

WOMEN = {"where": "sex = 'F'"}
YOUNG = {"range": {"column": "age", "low": "0", "high": "39"}}

REQUESTS = [
    ("GET", "/health"),
    ("GET", "/"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/nowhere"),
    ("POST", "/v1/schema", {}),
    ("GET", "/v1/schema"),
    ("GET", "/v1/budget"),
    ("GET", "/v1/synthetic?rows=3"),
    ("POST", "/v1/quote", {"queries": [WOMEN, {"marginal": ["grade"]}]}),
    ("POST", "/v1/query", WOMEN, "a"),
    ("POST", "/v1/query", YOUNG, "b"),
    ("POST", "/v1/query", {"where": "not sex = 'M'"}, "c"),
    ("POST", "/v1/query", WOMEN, "a"),
    ("POST", "/v1/query", YOUNG, "a"),
    ("POST", "/v1/query", {"marginal": ["age", "sex"]}, "d"),
    ("POST", "/v1/batch", {"queries": [WOMEN, YOUNG, {"where": "grade >= 1 and sex = F"}]}, "e"),
    ("POST", "/v1/query?most=0", {"where": "grade = 1 and sex = M and age in 0..19"}, "f"),
    ("POST", "/v1/query", {"where": "salary = 3"}, "g"),
    ("POST", "/v1/query", {"who": "me"}, "h"),
    ("POST", "/v1/query", b"{", "i"),
    ("POST", "/v1/query", b'{"where": NaN}', "j"),
    ("POST", "/v1/batch", {"queries": []}, "k"),
    ("POST", "/v1/quote", {"queries": [WOMEN, {"where": "grade = 2 or sex = M"}]}),
    ("GET", "/v1/budget"),
    ("GET", "/v1/history"),
    ("GET", "/v1/history?first=2&count=1"),
    ("GET", "/v1/history?first=0"),
    ("GET", "/v1/history/1"),
    ("GET", "/v1/history/99"),
    ("GET", "/v1/synthetic?rows=3&format=csv"),
    ("GET", "/v1/synthetic?rows=5"),
    ("GET", "/v1/synthetic?rows=0"),
    ("DELETE", "/v1/budget"),
]

CAPS = {"pure": qr.PureDP(1.0), "approx": qr.ApproxDP(1.0, 1e-6)}

BUDGETS = {"pure": qr.PureDP(0.5), "approx": qr.ApproxDP(0.5, 1e-7)}

MECHANISMS = {"": qr.Online(), ", declared": qr.Online(declared=qr.Conjunctions(2))}

CASES = [f"{cap}{name}" for cap in CAPS for name in MECHANISMS]


class Unpaused(doors.serving.Transactions):
    """Without what is learned in pauses: how long these are depends on the pace of the machine."""

    def _keep_up(self):
        return False


def record(case):
    """Every response; those without a token and of one with little money after those of `ada`; and what was written."""
    cap, mark, declared = case.partition(",")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.ledger"
        with doors.serving.worker(
            path, cap=CAPS[cap], mechanism=MECHANISMS[mark + declared], transactions_of=Unpaused
        ) as app:
            with qr.Ledger.open(path) as ledger:
                analysts = doors.Analysts(ledger)
                tokens = {"ada": analysts.add("ada", BUDGETS[cap]), "nobody": None, "wrong": "wrong"}
                poor = qr.PureDP(1e-4) if cap == "pure" else qr.ApproxDP(1e-4, 1e-8)
                tokens |= {"poor": analysts.add("poor", poor), "gone": analysts.add("gone", BUDGETS[cap])}
                analysts.revoke("gone")
            found = {
                name: [exchange(doors.serving.Client(app, token), request) for request in REQUESTS]
                for name, token in tokens.items()
            }
        with qr.Ledger.open(path) as ledger:
            names = ("name", "active", "requests")
            listed = [[*(getattr(a, n) for n in names), str(a.budget)] for a in doors.Analysts(ledger).list()]
        return {**found, "analysts": listed, "written": written(path)}


def exchange(client, request):
    """One request of the list, and what came back."""
    method, path, *rest = request
    if method == "POST" and len(rest) == 2:
        reply = client.post(path, *rest)
    elif method == "POST":
        reply = client.send("POST", path, json.dumps(*rest).encode(), {"content-type": "application/json"})
    else:
        reply = client.send(method, path, b"", {})
    headers = {name: reply.headers[name] for name in HEADERS if name in reply.headers}
    if "allow" in headers:  # a set, in any order
        headers["allow"] = sorted(headers["allow"].split(", "))
    return [f"{method} {path}", reply.status, headers, _body(reply)]


def _body(reply):
    kind = reply.headers["content-type"]
    if "csv" in kind:
        header, *lines = reply.content.decode().splitlines()
        return {"header": header, "lines": len(lines)}
    if "json" not in kind:  # of pages only that they are there
        return len(reply.content) > 0
    content = reply.json
    if "openapi" in content:
        content["info"].pop("version")
        content = without_words(content)
    if {"title", "status", "detail"} == set(content):
        content["detail"] = figures(content["detail"])
    for request in content.get("requests", []) if isinstance(content.get("requests"), list) else []:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", request.pop("time"))
    if "rows" in content:  # synthetic records are drawn with a secret seed
        content["rows"] = [len(row) for row in content["rows"]]
    return content
