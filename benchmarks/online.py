"""What a session of `Online` spends on streams of queries, beside simpler means in hindsight; accuracy and latency.

    python -m benchmarks.online [--quick] [--json] [--only easy hard third measured adversary] [--records 100000]

Streams, all of add-remove costs, β = 0.001:

easy   4 columns of 2, 2, 4, 8 values (128 cells, Covid-like); all products of value sets; 70 000 asked, α = .05
hard   8 columns of 4 values (65 536 cells, 12 components); 3-way cells and boxes; 10 000 and 30 000 asked, α = .02
third  that table; boxes on five columns, and parities of random sets of the 16 bits; 10 000 asked, α = .02 and .05

`ratio` is the total over that of the cheapest rival in hindsight under the same promise, to whom the session's price
for the number of records is added where that is paid in ε. `oblivious` is that over the cheapest rival that knows the
number, for queries that are fixed beforehand, each promised by itself: a session relies on neither.

`measured` and `adversary` are how often an answer is off by more than α, with a 99 % interval, and what the answers
were: against these a synopsis is cheaper than a sparse vector, which the tests attack. Fixed seeds protect nobody.
"""

import argparse
import itertools
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from benchmarks import rivals
from benchmarks.rivals import Stream
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.mechanisms.online.canonical_group import CanonicalGroup
from qrelease.mechanisms.online.session import Online, OnlineSession
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Cost, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.canonical import canonical_name
from qrelease.queries.classes import Conjunctions, Parities
from qrelease.queries.families import Vectors
from qrelease.queries.workload import Group, Workload
from qrelease.release.curator import Curator

CAPS: dict[str, PureDP | ApproxDP] = {"pure": PureDP(1e4), "delta=1e-9": ApproxDP(1e3, 1e-9)}
PARTS = ("easy", "hard", "third", "measured", "adversary")
BETA = 0.01  # where the probability of a larger error is looked at
Sets = tuple[tuple[int, ...], ...]
Row = dict[str, Any]


def easy(n: int, asked: int, zipf: float) -> Stream:
    sizes = (2, 2, 4, 8)
    age, ethnicity = [0.224, 0.312, 0.312, 0.152], [0.002, 0.15, 0.402, 0.042, 0.004, 0.006, 0.343, 0.053]
    age_positive, ethnicity_positive = [0.15, 0.57, 0.18, 0.10], [0.004, 0.07, 0.55, 0.015, 0.006, 0.105, 0.21, 0.04]
    negative = np.einsum("i,j,k->ijk", [0.5, 0.5], age, ethnicity)
    positive = np.einsum("i,j,k->ijk", [0.49, 0.51], age_positive, ethnicity_positive)
    p = np.stack([0.94 * negative / negative.sum(), 0.06 * positive / positive.sum()]).ravel()
    counts = np.random.default_rng(64).multinomial(n, p)
    pool = list(itertools.product(*map(_subsets, sizes)))
    rng = np.random.default_rng(64)
    order = rng.permutation(len(pool))
    weight = 1 / np.arange(1, len(pool) + 1) ** zipf
    sequence = order[rng.choice(len(pool), asked, p=weight / weight.sum())]
    return _stream(f"easy, zipf {zipf:g}", sizes, counts, pool, sequence, 0.05, Conjunctions(4))


def _subsets(size: int) -> list[tuple[int, ...]]:
    return [s for r in range(1, size + 1) for s in itertools.combinations(range(size), r)]


def _mixture(n: int) -> np.ndarray:
    d, k, components = 8, 4, 12
    rng = np.random.default_rng(1)
    mix = rng.dirichlet(np.ones(components))
    probs = rng.dirichlet(np.ones(k) * 0.4, size=(components, d))
    z = rng.choice(components, n, p=mix)
    records = np.stack([(rng.random((n, 1)) > probs[z, a].cumsum(1)).sum(1).clip(0, k - 1) for a in range(d)], 1)
    return np.bincount(np.ravel_multi_index(records.T, [k] * d), minlength=k**d)


def hard(n: int, asked: int) -> Stream:
    rng = np.random.default_rng(1)
    pool = [
        _box(dict(zip(columns, ((v,) for v in cell), strict=True)))
        for columns in itertools.combinations(range(8), 3)
        for cell in itertools.product(range(4), repeat=3)
    ]
    pool += [_random_box(rng, 3) for _ in range(4000)]
    sequence = np.random.default_rng(10).integers(0, len(pool), asked)
    return _stream("hard", (4,) * 8, _mixture(n), pool, sequence, 0.02, Conjunctions(3, ranges=True))


def third(n: int, asked: int, alpha: float) -> Stream:
    rng = np.random.default_rng(2)
    boxes = [_random_box(rng, 5) for _ in range(4000)]
    parities = [bits for bits in rng.integers(0, 4, (4000, 8)) if bits.any()]
    sequence = np.random.default_rng(11).integers(0, len(boxes) + len(parities), asked)
    stream = _stream("third", (4,) * 8, _mixture(n), boxes, sequence, alpha, Parities())
    domain = stream.workloads[0].domain
    rows = [_parity(bits) for bits in parities]
    workloads = [Workload(domain, (Group(tuple(range(8)), Vectors(row[None, :], 1.0)),)) for row in rows]
    workloads = [Workload(domain, (canonical_name(domain, w.groups[0])[0].group(domain),)) for w in workloads]
    cells = [np.flatnonzero(row) for row in rows]
    return replace(stream, workloads=[*stream.workloads, *workloads], cells=[*stream.cells, *cells])


def _parity(bits: np.ndarray) -> np.ndarray:
    row = np.zeros((), np.int64)
    for mask in bits:
        row = np.bitwise_xor.outer(row, [(int(mask) & v).bit_count() & 1 for v in range(4)])
    return row.reshape(-1)


def _box(chosen: dict[int, tuple[int, ...]]) -> Sets:
    return tuple(chosen.get(a, (0, 1, 2, 3)) for a in range(8))


def _random_box(rng: np.random.Generator, order: int) -> Sets:
    chosen = {}
    for a in rng.choice(8, order, replace=False):
        low = int(rng.integers(0, 4))
        chosen[int(a)] = tuple(range(low, int(rng.integers(low + 1, 5))))
    return _box(chosen)


def _stream(
    name: str,
    sizes: tuple[int, ...],
    counts: np.ndarray,
    pool: Sequence[Sets],
    sequence: np.ndarray,
    alpha: float,
    queries: Conjunctions | Parities,
) -> Stream:
    domain = Domain.coded({chr(ord("a") + i): n for i, n in enumerate(sizes)})
    index = np.arange(domain.size).reshape(sizes)
    workloads, cells = [], []
    for query in pool:
        axes = tuple(a for a, s in enumerate(query) if len(s) < sizes[a])
        row = np.ones(1, np.int64)
        for a in axes:
            row = np.multiply.outer(row, np.isin(np.arange(sizes[a]), query[a]).astype(np.int64)).reshape(-1)
        workloads.append(Workload(domain, (Group(axes, Vectors(row[None, :], 1.0)),)))
        cells.append(index[np.ix_(*query)].ravel())
    return Stream(name, workloads, cells, counts, sequence, alpha, queries)


def table_of(stream: Stream) -> Table:
    domain = stream.workloads[0].domain
    codes = np.unravel_index(np.repeat(np.arange(domain.size), stream.counts), domain.shape)
    return Table(domain, tuple(c.astype(np.uint8) for c in codes))


def run(stream: Stream, table: Table, cap: Cost, declared: Conjunctions | None) -> Row:
    """A session on a stream: what it spent, how many of its different answers are off by more than αn, its latency."""
    ledger = Ledger.open(None, cap)
    mechanism = Online(stream.alpha, stream.beta, declared)
    session = Curator(table, ledger, Entropy.insecure(1)).open(mechanism, cap)
    counting = sum(e.cost.epsilon for e in ledger.history() if e.kind == "charge" and isinstance(e.cost, PureDP))
    wrong: dict[int, bool] = {}
    sources: dict[str, int] = {}
    seconds = []
    for i in stream.asked.tolist():
        start = time.perf_counter()
        answer = session.answer(stream.workloads[i])
        seconds.append(time.perf_counter() - start)
        sources[answer.source] = sources.get(answer.source, 0) + 1
        wrong[i] = abs(answer.value - stream.truths[i]) > stream.error
    assert isinstance(ledger.spent, PureDP | ApproxDP)
    return {
        "epsilon": ledger.spent.epsilon,
        "counting": counting,
        "failures": int(sum(wrong.values())),
        "answers": len(wrong),
        "p50_ms": 1e3 * float(np.median(seconds)),
        "p99_ms": 1e3 * float(np.quantile(seconds, 0.99)),
        **sources,
    }


def compare(stream: Stream, *, slow: bool) -> list[Row]:
    """Rivals and sessions on one stream."""
    told = {"stream": stream.name, "n": stream.records, "alpha": stream.alpha, "asked": len(stream.asked)}
    found = {"laplace + cache": rivals.laplace(stream), "one histogram": rivals.histogram(stream)}
    pure = dict(found)
    found |= {"gaussian + cache": rivals.gaussian(stream), "one synopsis": rivals.synopsis(stream)}
    oblivious = {
        "pure": rivals.histogram(stream, oblivious=True),
        "delta=1e-9": rivals.synopsis(stream, oblivious=True),
    }
    rows: list[Row] = [{**told, "mechanism": name, "epsilon": e} for name, e in found.items() if np.isfinite(e)]
    rows += [
        {**told, "mechanism": f"one synopsis, oblivious, {k}", "epsilon": e}
        for k, e in oblivious.items()
        if np.isfinite(e)
    ]
    if slow:
        for name, bypass in (("vanilla pmw", False), ("bypass pmw", True)):
            total, failures = rivals.pmw(stream, 1, bypass=bypass)
            rows.append({**told, "mechanism": name, "epsilon": total, "failures": failures})
            if bypass:
                pure[name] = found[name] = total
    table = table_of(stream)
    classes: list[Conjunctions | None] = [None]
    if not isinstance(stream.queries, Parities):
        classes.append(stream.queries)
    for (kind, cap), declared in itertools.product(CAPS.items(), classes):
        row = run(stream, table, cap, declared)
        best = min((pure if kind == "pure" else found).values())
        each = min(best, oblivious["pure"], oblivious[kind])
        name = f"session, {kind}{', declared' if declared else ''}"
        ratios = {"ratio": row["epsilon"] / (best + row["counting"]), "oblivious": row["epsilon"] / each}
        rows.append({**told, "mechanism": name, **row, **ratios})
    return rows


def measured(answers: int) -> Iterator[Row]:
    """P[error > αn] over answers to different queries, with a 99 % interval: families of 1 000 cells."""
    domain = Domain.coded({"a": 1000})
    table = Table(domain, (np.random.default_rng(0).integers(0, 1000, 100_000).astype(np.uint16),))
    exact, marginal = table.histogram(), Workload.marginals(domain, 1)
    for kind in CAPS:
        wrong = total = 0
        while total < answers:
            values = np.array([a.value for a in _session(table, kind, total).answers(marginal)])
            wrong, total = wrong + int((values - exact > 5_000).sum()), total + 1000
        # Half of the noise is clipped at 0, which cannot make an answer worse: it is counted by its other half.
        low, high = stats.binomtest(wrong, total).proportion_ci(0.99)
        yield _rate(f"measured, {kind}", total, 2 * wrong / total, 2 * low, 2 * high, {"measured": total})


def adversary(answers: int) -> Iterator[Row]:
    """As `measured`, of one who knows the table.

    In each of many sessions they teach the hypothesis 30 products of value sets, and ask for the 2 000 on which it is
    worst then. Most of these come from one synopsis, so the interval is that of the sessions' means.
    """
    stream = easy(100_000, 30, 0)
    table, exact = table_of(stream), stream.truths
    units = [CanonicalGroup.of(table.domain, w.groups[0]) for w in stream.workloads]
    members = np.zeros((len(exact), len(stream.counts)))
    for row, cells in zip(members, stream.cells, strict=True):
        row[cells] = 1
    for kind in CAPS:
        means: list[float] = []
        sources: Counter[str] = Counter()
        while sources.total() < answers:
            session = _session(table, kind, len(means))
            for i in stream.asked:
                session.answer(units[i])
            off = np.abs(members @ session.synopsis.values - exact)
            worst = np.argsort(-off)[:2000]
            given = [session.answer(units[i]) for i in worst]
            sources.update(answer.source for answer in given)
            values = np.array([answer.value for answer in given])
            means.append(float((np.abs(values - exact[worst]) > stream.error).mean()))
        mean, half = float(np.mean(means)), 2.576 * float(np.std(means, ddof=1)) / math.sqrt(len(means))
        yield _rate(f"adversary, {kind}", sources.total(), mean, max(mean - half, 0.0), mean + half, sources)


def _session(table: Table, kind: str, seed: int) -> OnlineSession:
    cap = CAPS[kind]
    return Curator(table, Ledger.open(None, cap), Entropy.insecure(seed)).open(Online(0.05, BETA), cap)


def _rate(name: str, answers: int, rate: float, low: float, high: float, sources: Mapping[str, int]) -> Row:
    return {"accuracy": name, "answers": answers, "beta": BETA, "rate": rate, "low": low, "high": high, **sources}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer streams and queries: less than a minute")
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these parts")
    parser.add_argument("--records", type=int, help="tables of so many records only")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from fixed seeds, to be repeated; the tables are made up", file=sys.stderr)
    quick = arguments.quick
    streams = [("easy", n, partial(easy, asked=70_000, zipf=z)) for n in (10**4, 10**5, 1_008_532) for z in (0, 1)]
    streams += [("hard", n, partial(hard, asked=asked)) for n in (10**4, 10**5, 10**6) for asked in (10_000, 30_000)]
    streams += [("third", n, partial(third, asked=10_000, alpha=a)) for n in (10**5, 10**6) for a in (0.02, 0.05)]
    if quick:
        streams = [("easy", 1_008_532, partial(easy, asked=3_000, zipf=0)), ("hard", 10**5, partial(hard, asked=1_500))]
        streams += [("third", 10**5, partial(third, asked=500, alpha=0.05))]
    for name, n, make in streams:
        if name in arguments.only and arguments.records in (None, n):
            for row in compare(make(n), slow=True):
                show(row, as_json=arguments.json)
    for name, rows in (("measured", measured), ("adversary", adversary)):
        if name in arguments.only:
            for row in rows(20_000 if quick else 1_000_000):
                show(row, as_json=arguments.json)


def show(row: Row, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"name": "online", **row}), flush=True)
    elif "accuracy" in row:
        sources = ", ".join(f"{row[k]:,} {k}" for k in ("measured", "cached", "hypothesis", "synopsis") if k in row)
        print(
            "{accuracy:24} {answers:9,} answers, beta {beta}: {rate:.5f} in [{low:.5f}, {high:.5f}];".format(**row),
            sources,
        )
    else:
        start = "{stream:13} n={n:<9,} alpha={alpha:<5} asked={asked:<7,} {mechanism:34} {epsilon:10.5g}".format(**row)
        rest = [f"{k} {row[k]:.3g}" for k in ("ratio", "oblivious", "p50_ms", "p99_ms", "failures") if k in row]
        print(start, *rest, flush=True)


if __name__ == "__main__":
    main()
