"""Release folders of format 2 and ledgers of format 4 as commit bd985e4 wrote them: they load, and they go on.

The files are in `stored/old.zip` and were written once, by `python -m tests.pinned.make --only old-files` at bd985e4;
later programs must read them, so they are not written again. What comes of resuming them is pinned as all else is.
"""

import hashlib
import json
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import qrelease as qr

from . import doors, releases
from .same import without_words
from .server import WOMEN, YOUNG, exchange
from .sessions import PEOPLE, TABLE, transcript, written
from .tables import pairs

FILES = Path(__file__).parent / "stored" / "old.zip"

SWAP = qr.Neighbours.REPLACE_ONE

FOLDERS = {
    "histogram": "mwem; add-remove; pure",
    "separate answers": "laplace without a table; add-remove; pure",
    "constraints": "mwem with rules; replace-one; zcdp",
    "maximum entropy": "maxent; add-remove; zcdp",
    "residuals": "maxent without a histogram; add-remove; zcdp",
    "least squares": "matrix of boxes; replace-one; approx",
    "weighted codes": "records selected; replace-one; zcdp",
    "weighted records": "smalldb, listed; add-remove; pure",
    "scaled": "net of small databases; replace-one; pure",
    "product": "net of products; add-remove; pure",
    "dual": "iterative, projection; replace-one; pure",
    "medians": "iterative, medians; replace-one; pure",
    "chosen": "auto; add-remove; approx",
}
"""Of each kind of synopsis the release that was saved."""

LEDGERS = {"pmw": qr.PureDP(20.0), "online": qr.ApproxDP(20.0, 1e-6)}

MECHANISMS = {"pmw": qr.PrivateMultiplicativeWeights(queries=50), "online": qr.Online(0.02, 0.01, qr.Conjunctions(2))}

FIRST = ["sex = F", "age in 0..39 and grade = 1", "sex = F or grade = 2", "age is missing"]

THEN = ["not sex = M", "age is missing", "grade = 0", "age in 20..39 and sex = F", "sex = M and grade = 2"]

CASES = [
    *(f"folder {name}" for name in [*FOLDERS, "values apart"]),
    *(f"ledger {name}" for name in ["charges", "account", *LEDGERS, "analysts"]),
]


def make(out):
    """Write the files; at bd985e4, and nowhere else."""
    for name, case in FOLDERS.items():
        mechanism, relation, cost = case.split("; ")
        made, private, asked = releases.MECHANISMS[mechanism]
        with qr.Ledger.open(None, releases.COSTS[cost], neighbours=relation) as ledger:
            curator = qr.Curator(private, ledger, qr.Entropy.insecure(11))
            release = curator.release(made(), asked(private.domain), releases.COSTS[cost])
        release.save(out / name, 10)
    _put_values_apart(out / "separate answers", out / "values apart")
    with qr.Ledger.open(out / "charges.ledger", qr.PureDP(1.0), dataset="people") as ledger:
        charge = ledger.charge(qr.PureDP(0.25), "marginals", key="k")
        ledger.store_answer(charge, b"forty-two")
        ledger.charge(qr.PureDP(0.1), "unanswered", key="l")
        ledger.raise_total(qr.PureDP(1.5))
    with qr.Ledger.open(out / "account.ledger", qr.ApproxDP(1.0, 1e-6), dataset="people", neighbours=SWAP) as ledger:
        ledger.charge(qr.ApproxDP(0.2, 1e-7), "before the account", key="k")
        ledger.charge(qr.ZCDP(0.005), "in rho", key="l")
        ledger.charge(qr.PureDP(0.05), "in epsilon", key="m")
    for name, cost in LEDGERS.items():
        with qr.Ledger.open(out / f"{name}.ledger", cost, neighbours=SWAP) as ledger:
            transcript(qr.Curator(TABLE, ledger, qr.Entropy.insecure(3)), MECHANISMS[name], cost, FIRST)
    path = out / "analysts.ledger"
    with doors.serving.worker(path) as app:
        with qr.Ledger.open(path) as ledger:
            tokens = {name: doors.Analysts(ledger).add(name, qr.PureDP(0.5)) for name in ("ada", "bob", "gone")}
            doors.Analysts(ledger).revoke("gone")
        ada = doors.serving.Client(app, tokens["ada"])
        replies = [exchange(ada, ("POST", "/v1/query", q, k)) for q, k in ((WOMEN, "a"), (YOUNG, "b"))]
        assert [reply[1] for reply in replies] == [200, 200]
    (out / "tokens.json").write_text(json.dumps(tokens))


def _put_values_apart(folder, out):
    """A folder as it is written where the noisy answers are too many for the manifest."""
    out.mkdir()
    content = json.loads((folder / "release.json").read_text())
    values = np.concatenate([np.array(m.pop("values"), "<f8") for m in content["measurements"]])
    np.save(out / "measurements.npy", values)
    content["values"] = hashlib.sha256((out / "measurements.npy").read_bytes()).hexdigest()
    (out / "release.json").write_text(json.dumps(content))


def pack():
    """Write the archive of what `make` writes, without the pages for people."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        with zipfile.ZipFile(FILES, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for file in sorted(Path(folder).rglob("*")):
                if file.is_file() and file.suffix in (".ledger", ".json", ".csv", ".npy"):
                    archive.write(file, file.relative_to(folder))


def record(case):
    """What a program of today reads from such a file, and how it goes on."""
    kind, _, name = case.partition(" ")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(FILES) as archive:
            wanted = [n for n in archive.namelist() if n.split("/")[0] in (name, f"{name}.ledger", "tokens.json")]
            archive.extractall(folder, wanted)
        return _folder(Path(folder) / name) if kind == "folder" else _ledger(Path(folder) / f"{name}.ledger", name)


def _folder(path):
    release = qr.load(path)
    facts = {
        "mechanism": release.mechanism,
        "dataset": release.dataset,
        "cost": release.cost.to_json(),
        "neighbours": release.neighbours.value,
        "parameters": without_words(dict(release.parameters)),
        "spends": [s.to_json() for s in release.spends],
        "seed": release.insecure_seed,
        "versions": dict(release.versions),
    }
    with tempfile.TemporaryDirectory() as folder:
        release.save(Path(folder) / "again", 10)
        again = {"files": releases.files(Path(folder) / "again"), "manifest": releases.manifest(Path(folder) / "again")}
    return {**facts, **releases.described(release), "again": again}


def _ledger(path, name):
    before = written(path)
    if name in LEDGERS:
        with qr.Ledger.open(path, LEDGERS[name], neighbours=SWAP) as ledger:
            curator = qr.Curator(TABLE, ledger, qr.Entropy.insecure(4))
            found = transcript(curator, MECHANISMS[name], LEDGERS[name], [*FIRST, *THEN])
            other = transcript(curator, MECHANISMS[name], qr.PureDP(1.0), THEN)
            found = {"goes on": found, "with another cost": other}
    elif name == "analysts":
        found = _served(path)
    else:
        found = _charged(path)
    return {"before": before, **found, "after": written(path)}


def _charged(path):
    with qr.Ledger.open(path) as ledger:
        total = ledger.total
        known = [("k", "marginals", qr.PureDP(0.25)), ("l", "unanswered", qr.PureDP(0.1))]
        if path.stem == "account":
            known = [("k", "before the account", qr.ApproxDP(0.2, 1e-7)), ("l", "in rho", qr.ZCDP(0.005))]
        again = [ledger.charge(cost, label, key) for key, label, cost in known]
        state = [ledger.dataset, ledger.neighbours.value, *_costs(ledger)]
        new = qr.PureDP(0.125) if isinstance(total, qr.PureDP) else qr.ZCDP(0.001)
        charge = ledger.charge(new, "of today", key="new")
        ledger.store_answer(charge, b"new")
        errors = []
        for cost, label, key in ((total, "all of it", None), (new, "another", "k")):
            try:
                ledger.charge(cost, label, key)
            except qr.QReleaseError as error:
                errors.append(type(error).__name__)
        # And a release is charged to it, as any other.
        private = TABLE if ledger.neighbours is SWAP else releases.PEOPLE_400
        release = qr.Curator(private, ledger, qr.Entropy.insecure(5)).release(
            qr.Laplace(), pairs(PEOPLE), qr.PureDP(0.1)
        )
        return {
            "state": state,
            "again": [[c.id, c.label, c.fresh, None if c.answer is None else c.answer.decode()] for c in again],
            "errors": errors,
            "then": _costs(ledger),
            "history": [[e.id, e.kind, e.label, e.cost.to_json(), e.answered] for e in ledger.history()],
            "answers": release.synopsis.answer(release.workload).tolist(),
        }


def _costs(ledger):
    return [None if cost is None else cost.to_json() for cost in (ledger.total, ledger.spent, ledger.remaining)]


def _served(path):
    tokens = json.loads(path.with_name("tokens.json").read_text())
    requests = [
        ("GET", "/v1/budget"),
        ("GET", "/v1/history"),
        ("GET", "/v1/history/1"),
        ("POST", "/v1/query", WOMEN, "a"),
        ("POST", "/v1/query", WOMEN, "again"),
        ("POST", "/v1/query", YOUNG, "a"),
        ("POST", "/v1/query", {"marginal": ["grade"]}, "new"),
        ("GET", "/v1/synthetic?rows=3"),
        ("GET", "/v1/budget"),
    ]
    with doors.serving.worker(path, seed=2) as app:
        return {
            name: [exchange(doors.serving.Client(app, token), request) for request in requests]
            for name, token in tokens.items()
        }
