"""Seeded releases of every mechanism: what they answer, their synthetic records, and what is written of them."""

import csv
import itertools
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import qrelease as qr
from qrelease.release.manifest import ARRAYS, put_back

from . import doors
from .same import without_words
from .tables import (
    HUGE,
    LONG,
    MANY,
    PEOPLE,
    RULED,
    TINY,
    WIDE,
    boxes,
    lawful,
    mixed,
    neighbours_pairs,
    ones,
    pairs,
    ranges,
    table,
    triples,
)

COSTS = {"pure": qr.PureDP(1.0), "approx": qr.ApproxDP(1.0, 1e-6), "zcdp": qr.ZCDP(0.1)}

ROWS = 30
"""Synthetic records of a release."""

THINNED = 9_973
"""Of more answers than that one in so many is kept."""

SEED = 7


def _small_net():
    return doors.small_databases(PEOPLE, 2)


def _product_net():
    ages = doors.small_databases(PEOPLE.project((1,)), 2)
    return doors.Product(PEOPLE, (ages, doors.small_databases(PEOPLE.project((0, 2)), 1)))


def _iterative(rule=None, distinguisher=None):
    options = {"rule": rule, "distinguisher": distinguisher}
    return qr.IterativeConstruction(**{name: value for name, value in options.items() if value is not None})


PEOPLE_400 = table(PEOPLE, 400)
PEOPLE_200_000 = table(PEOPLE, 200_000)

PAIRED = table(replace(WIDE, impossible=("a = 0 and b = 2",)), 60_000)

MECHANISMS = {
    "laplace": (lambda: qr.Laplace(), PEOPLE_400, mixed),
    "laplace without a table": (lambda: qr.Laplace(), table(HUGE, 500), ones),
    "laplace, many answers": (lambda: qr.Laplace(), table(MANY, 5_000), pairs),
    "gaussian, many answers": (lambda: qr.Gaussian(), table(MANY, 5_000), pairs),
    "gaussian": (lambda: qr.Gaussian(), PEOPLE_400, mixed),
    "mwem": (lambda: qr.MWEM(rounds=5), PEOPLE_400, mixed),
    "mwem by default": (lambda: qr.MWEM(), PEOPLE_400, pairs),
    "mwem by queries": (lambda: qr.MWEM(rounds=5, choice="query", rule="permute-and-flip"), PEOPLE_400, mixed),
    "mwem by maximum entropy": (lambda: qr.MWEM(rounds=5, update="maximum-entropy", records=400), PEOPLE_400, pairs),
    "mwem with rules": (lambda: qr.MWEM(rounds=5), lawful(RULED, 400), mixed),
    "maxent": (lambda: qr.MaxEnt(), PEOPLE_400, pairs),
    "maxent for the largest": (lambda: qr.MaxEnt(objective="largest", records=400), PEOPLE_400, pairs),
    "maxent with weights": (lambda: qr.MaxEnt(weights=(1.0, 2.0, 4.0)), lawful(RULED, 400), pairs),
    "maxent without a histogram": (lambda: qr.MaxEnt(), table(HUGE, 500), neighbours_pairs),
    "records at once": (lambda: qr.FittedRecords(order=2, weighted_records=300, at_once=True), table(WIDE, 600), pairs),
    "records selected": (
        lambda: qr.FittedRecords(order=2, weighted_records=300, at_once=False),
        table(WIDE, 600),
        triples,
    ),
    "records by default": (lambda: qr.FittedRecords(weighted_records=200), table(WIDE, 600), triples),
    "records selected, with pairs": (
        lambda: qr.FittedRecords(order=3, weighted_records=300, at_once=False),
        PAIRED,
        triples,
    ),
    "matrix of ranges": (lambda: qr.Matrix(), table(LONG, 800), ranges),
    "matrix of boxes": (lambda: qr.Matrix(), PEOPLE_400, boxes),
    "matrix of a mixture": (lambda: qr.Matrix(), PEOPLE_400, mixed),
    "iterative": (lambda: _iterative(), PEOPLE_200_000, mixed),
    "iterative, hedge": (lambda: _iterative(doors.Hedge(0.1)), PEOPLE_200_000, mixed),
    "iterative, projection": (lambda: _iterative(doors.Projection(0.1)), PEOPLE_200_000, mixed),
    "iterative, perceptron": (
        lambda: _iterative(doors.Perceptron(0.1), doors.Select("query", "permute-and-flip")),
        PEOPLE_200_000,
        mixed,
    ),
    "iterative, medians": (lambda: _iterative(doors.Median(_small_net(), 0.3, 0.2)), PEOPLE_200_000, mixed),
    "iterative, best conjunctions": (
        lambda: _iterative(doors.Projection(0.05), doors.PerturbedLeader(doors.BestConjunction())),
        table(TINY, 400_000),
        pairs,
    ),
    "iterative, best predicates": (
        lambda: _iterative(doors.Hedge(0.05), doors.PerturbedLeader(doors.BestPredicate())),
        table(TINY, 400_000),
        pairs,
    ),
    "smalldb, listed": (lambda: qr.SmallDB(size=4), table(TINY, 100), pairs),
    "smalldb, searched": (lambda: qr.SmallDB(size=12), PEOPLE_400, pairs),
    "smalldb by alpha": (lambda: qr.SmallDB(alpha=0.4), table(TINY, 100), ones),
    "net of small databases": (lambda: qr.Net(_small_net()), PEOPLE_400, mixed),
    "net of products": (lambda: qr.Net(_product_net()), PEOPLE_400, mixed),
    "net of quantiles": (lambda: qr.Net(doors.quantiles(LONG, 0.5)), table(LONG, 800), ranges),
    "net, thinned": (lambda: qr.Net(doors.thin(_small_net(), pairs(PEOPLE), 0.2)), PEOPLE_400, pairs),
    "auto": (lambda: qr.Auto(), PEOPLE_400, pairs),
    "auto for ranges": (lambda: qr.Auto(records=800), table(LONG, 800), ranges),
    "auto with a table": (lambda: qr.Auto(records=600, table=True), table(WIDE, 600), neighbours_pairs),
}
"""How each is made, the table, and its workload."""

UNSTABLE = {"auto with a table; replace-one; pure"}
"""Its fit ends where a sweep changes the error by a rounding alone, so whether the last one is undone may vary."""

CASES = [
    case
    for name, relation, cost in itertools.product(MECHANISMS, qr.Neighbours, COSTS)
    if (case := f"{name}; {relation.value}; {cost}") not in UNSTABLE
]


def record(case):
    """What a release is, as JSON has it; of one that is refused only the kind of error, as texts may be improved."""
    name, relation, cost = case.split("; ")
    make, private, asked = MECHANISMS[name]
    workload = asked(private.domain)
    with qr.Ledger.open(None, COSTS[cost], neighbours=relation) as ledger:
        curator = qr.Curator(private, ledger, qr.Entropy.insecure(SEED))
        try:
            release = curator.release(make(), workload, COSTS[cost])
        except qr.QReleaseError as error:
            return {"refused": type(error).__name__, "charged": ledger.spent is not None}
        history = [[e.kind, e.label, e.cost.to_json()] for e in ledger.history()]
    if len(workload) > THINNED:
        return {"history": history, "answers": release.synopsis.answer(workload)[::THINNED].tolist()}
    return {"history": history, **described(release), **_saved(release)}


def described(release):
    """Its numbers: answers, error bars, synthetic and weighted records."""
    workload = release.workload
    more = qr.Workload.marginals(release.domain, 1) if len(release.domain) < 10 else workload
    found = {
        "total": release.synopsis.total,
        "answers": release.synopsis.answer(workload).tolist(),
        "bars": [part.tolist() for part in release.error_bars()],
        "model bars": release.model_bars().tolist(),
        "has a table": release.has_table,
    }
    try:
        found["more answers"] = release.synopsis.answer(more).tolist()
    except qr.QReleaseError as error:
        found["more answers"] = type(error).__name__
    if release.has_table:
        rng = np.random.default_rng(3)
        found |= _table("codes", lambda: [c.tolist() for c in release.codes(ROWS, rng)])
        found |= _table("labels", lambda: [[str(x) for x in c] for c in release.synthetic(ROWS, seed=4).values()])
        found |= _table("weights", lambda: release.weighted(ROWS, seed=5)[1].tolist())
    return found


def _table(name, made):
    try:
        return {name: made()}
    except qr.QReleaseError as error:
        return {name: type(error).__name__}


def _saved(release):
    with tempfile.TemporaryDirectory() as folder:
        out, weighted = Path(folder) / "out", Path(folder) / "weighted"
        release.save(out, ROWS)
        found = {"files": files(out), "manifest": manifest(out)}
        release.save(weighted, ROWS, weighted=True)
        found["weighted files"] = files(weighted)
        again = qr.load(out)
        found["loaded"] = again.synopsis.answer(again.workload).tolist()
        return found


def files(folder):
    """The files of a saved release: their first lines and numbers of lines, and the rows that must be the same."""
    found = {}
    for file in sorted(folder.iterdir()):
        if (
            file.name == "SHA256SUMS"
        ):  # hashes of all the others, down to the last bit; see tests/evaluation/test_verify
            continue
        if file.suffix != ".csv":
            found[file.name] = True
            continue
        with file.open(newline="", encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
        found[file.name] = {"header": header, "rows": len(rows)}
        if file.name == "answers.csv":
            at = header.index("answer")
            found[file.name] |= {"keys": [row[:at] for row in rows], "mark": rows[0][at + 4 :]}
        elif "weight" not in header:
            found[file.name]["records"] = [",".join(row) for row in rows]
    return found


def manifest(folder):
    """All fields but the versions of what it was made with."""
    content = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    assert content.pop("versions")
    assert content.pop("id")  # the hash of all the others
    assert content.pop("date") is None
    if content.pop("arrays", None):  # whose bytes depend on the version of zlib
        with np.load(folder / ARRAYS) as arrays:
            content["synopsis"] = put_back(content["synopsis"], arrays)
    content["parameters"] = without_words(content["parameters"])  # predictions and reasons are sentences
    return content
