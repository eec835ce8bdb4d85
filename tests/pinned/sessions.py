"""Transcripts of sessions: what was answered, from where, at which cost, and every entry of their journals."""

import json
import re
import sqlite3
import tempfile
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import qrelease as qr

from .tables import PEOPLE, table

SWAP, ADD = qr.Neighbours.REPLACE_ONE, qr.Neighbours.ADD_REMOVE

TABLE = table(PEOPLE, 30_000, 2)

PURE, APPROX, ZCDP = qr.PureDP(20.0), qr.ApproxDP(20.0, 1e-6), qr.ZCDP(5.0)

QUESTIONS = [
    "sex = F",
    "age in 0..39 and grade = 1",
    "not sex = 'M'",
    "age is missing",
    "grade >= 1 and sex = 'M' and age in 20..59",
    "sex = F or grade = 2",
    "sex in {'F', 'M'}",
    "age in 0..19",
    "age in 0..19 and sex = F",
    "grade = 0",
    "grade = 2 and sex = M",
    "nonsense = 1",
    "age in 40..59 and sex = F",
    "age in 0..39 and grade = 1",
]

SESSIONS = {
    "pmw": (qr.PrivateMultiplicativeWeights(), PURE, SWAP, {}),
    "pmw in (epsilon, delta)": (qr.PrivateMultiplicativeWeights(queries=100), APPROX, SWAP, {}),
    "pmw with a private number": (qr.PrivateMultiplicativeWeights(alpha=0.2), PURE, ADD, {}),
    "pmw that halts": (qr.PrivateMultiplicativeWeights(queries=3), APPROX, ADD, {}),
    "pmw in rho": (qr.PrivateMultiplicativeWeights(), ZCDP, SWAP, {}),
    "online": (qr.Online(0.02, 0.01), PURE, SWAP, {}),
    "online with a private number": (qr.Online(0.02, 0.01), PURE, ADD, {}),
    "online in (epsilon, delta)": (qr.Online(0.02, 0.01), APPROX, ADD, {}),
    "online in rho": (qr.Online(0.02, 0.01), ZCDP, SWAP, {}),
    "online, declared": (qr.Online(0.02, 0.01, qr.Conjunctions(2)), PURE, SWAP, {}),
    "online, declared, in (epsilon, delta)": (qr.Online(0.02, 0.01, qr.Conjunctions(2)), APPROX, ADD, {}),
    "online, declared ranges, in rho": (qr.Online(0.02, 0.01, qr.Conjunctions(3, ranges=True)), ZCDP, ADD, {}),
    "online, families": (qr.Online(0.03, 0.01), ZCDP, SWAP, {"families": True}),
    "online, a synopsis is bought": (qr.Online(0.05, 0.01), PURE, ADD, {"long": True}),
    "online, a synopsis is bought in rho": (qr.Online(0.05, 0.01), ZCDP, SWAP, {"long": True}),
    "online, too small a cap": (qr.Online(0.02, 0.01), qr.PureDP(0.03), SWAP, {}),
}

CASES = [*SESSIONS]


def record(case):
    """A transcript: the first half, then the other by another curator under the same key, and what the ledger holds."""
    mechanism, cost, relation, kinds = SESSIONS[case]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.ledger"
        asked = questions(**kinds)
        half = len(asked) // 2
        found = {}
        for part, some, seed in (("opened", asked[:half], 1), ("gone on with", asked[half:], 2)):
            with qr.Ledger.open(path, cost, neighbours=relation) as ledger:
                curator = qr.Curator(TABLE, ledger, qr.Entropy.insecure(seed))
                found[part] = transcript(curator, mechanism, cost, some)
        return {**found, **written(path)}


def questions(families=False, long=False):
    """Conditions, or workloads of several queries that are asked at once."""
    if families:
        return [
            qr.Workload.marginals(PEOPLE, [["sex", "age"]]),
            qr.Workload.marginals(PEOPLE, [["age"]]),
            qr.Workload.ranges(PEOPLE, "grade"),
            qr.Workload.prefixes(PEOPLE, "age"),
            qr.Workload.vectors(PEOPLE, [[0.5, 0.25, 1.0]], columns=["grade"]),
            qr.Workload.marginals(PEOPLE, [["sex", "age"]]),
        ]
    if long:
        ages = ["age in 0..19", "age in 20..39", "age in 40..59", "age is missing", "age in 0..39", "age in 20..59"]
        grades = ["grade = 0", "grade = 1", "grade = 2", "grade >= 1", "grade <= 1"]
        return [
            *(f"sex = {s} and {a} and {g}" for s in "FM" for a in ages for g in grades),
            *(f"{a} and {g}" for a in ages for g in grades),
        ]
    return QUESTIONS


def transcript(curator, mechanism, cost, asked, key="a session"):
    """What a session says to each question."""
    try:
        session = curator.open(mechanism, cost, key=key)
    except qr.QReleaseError as error:
        return {"refused": type(error).__name__}
    with session:
        said = [_said(session, question) for question in asked]
        synopsis = session.synopsis.answer(qr.Workload.marginals(PEOPLE, 3)).tolist()
        left = {
            n: getattr(session, n)
            for n in ("records", "insecure", "updates_left", "queries_left", "error")
            if hasattr(session, n)
        }
        return {"said": said, "synopsis": synopsis, "left": json.loads(json.dumps(left))}


def _said(session, question):
    try:
        if isinstance(question, qr.Workload):
            quote = _quote(session, question)
            return [quote, *map(_answer, session.answers(question))]
        return [_quote(session, question) if hasattr(session, "quote") else None, _answer(session.answer(question))]
    except qr.QReleaseError as error:
        return type(error).__name__


def _quote(session, question):
    quote = session.quote(question)
    return [quote.source, None if quote.cost is None else quote.cost.to_json()]


def _answer(answer):
    cost = None if answer.cost is None else answer.cost.to_json()
    return [float(answer.value), float(answer.error), answer.source, cost]


def written(path):
    """What a ledger's file holds but times and digests: the text of its tallies and of every entry."""
    with closing(sqlite3.connect(path)) as file:
        tables = sorted(name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
        entries = file.execute("SELECT id, kind, cost, label, key FROM entries ORDER BY id").fetchall()
        journal = (
            file.execute("SELECT charge, number, entry FROM journal ORDER BY charge, number").fetchall()
            if "journal" in tables
            else []
        )
        head = file.execute("SELECT dataset, neighbours, total, tally, entries, answers FROM head").fetchone()
        marks = [file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    return {
        "tables": tables,
        "marks": marks,
        "head": [*head[:2], json.loads(head[2]), _sums(json.loads(head[3])), *head[4:]],
        "entries": [[number, kind, json.loads(cost), label, _named(key)] for number, kind, cost, label, key in entries],
        "journal": [[charge, number, json.loads(entry)] for charge, number, entry in journal],
        "bytes": [hidden(entry.decode()) for _, _, entry in journal],
    }


def _named(key):
    return "random" if key and re.fullmatch("[0-9a-f]{32}", key) else key


def _sums(tally):
    """Exact sums as numbers, which are compared as all numbers are."""
    if isinstance(tally, list):
        return [_sums(part) for part in tally]
    return None if tally is None else float(Fraction(tally))


def hidden(text):
    """The form of an entry: its text without digits after a point, which may differ in the last place."""
    return re.sub(r"\d+\.\d+(e-?\d+)?", "0.0", text)
