"""What a session of `Online` spends on random questions about numbers by group, beside one at a time with a cache.

    python -m benchmarks.numbers_online [--quick] [--json] [--data DIR] [--questions 5000] [--kind pure]

Tables: adult, the bundled one, and, from DIR/raw, flights. Questions: sum, mean, variance, median, share and count, of
one column of numbers, by up to two columns, under up to one condition; α = .02 of the records, β = .001, add-remove.

`alone` is Laplace noise (in ε), or Gaussian noise (in ρ, then ε at δ = 1e-9), on each family of a question that was not
asked before, under the same promise: what the same session pays that never buys a synopsis. `ratio` is the session over
that. `outside` counts answers that the exact ones are not within the ends of. Fixed seeds protect nobody.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from qrelease.data import bundled
from qrelease.data.conditions import name_text
from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.mechanisms.online.numbers import Families, NumberAnswer
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, PureDP
from qrelease.privacy.conversions import zcdp_epsilon
from qrelease.privacy.ledger import Ledger
from qrelease.queries.canonical import CanonicalQuery
from qrelease.queries.numeric import NumericQuestion
from qrelease.release.curator import Curator

ALPHA, BETA, DELTA = 0.02, 0.001, 1e-9
CAPS: dict[str, PureDP | ApproxDP] = {"pure": PureDP(1e4), "delta=1e-9": ApproxDP(1e3, DELTA)}
KINDS = ("sum", "mean", "variance", "quantile(.5)", "ratio", "count")
Row = dict[str, Any]


def bins(name: str, edges: list[int], **fields: Any) -> Attribute:
    return Attribute(name, "number", edges=tuple(edges), integer=True, outside="clip", **fields)


def adult() -> Table:
    return bundled.adult(["age", "sex", "race", "hours-per-week", "income"])


def flights(data: Path) -> Table:
    delays = [-60, *range(-30, 60, 5), *range(60, 181, 30)]
    carriers = "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV"
    domain = Domain(
        (
            Attribute("carrier", "category", categories=tuple(carriers.split())),
            Attribute("origin", "category", categories=("EWR", "JFK", "LGA")),
            bins("sched_dep_time", [*range(0, 2400, 200), 2400]),
            bins("dep_delay", delays, missing=("", "NA")),
            bins("arr_delay", delays, missing=("", "NA")),
        )
    )
    return Table.read_csv(data / "raw" / "flights.csv.gz", domain)


def questions(domain: Domain, count: int, seed: int) -> list[str]:
    """Random questions, some of them more than once."""
    rng = np.random.default_rng(seed)
    numbers = [a for a in domain if a.kind == "number"]
    groups = [a for a in domain if a.kind != "number"]
    found: list[str] = []
    while len(found) < count:
        kind, of = str(rng.choice(KINDS)), numbers[int(rng.integers(len(numbers)))]
        by = [a for a in groups if rng.random() < 0.4][:2]
        rest = [a for a in domain if a.name != of.name and a not in by]
        asked = f":{condition(of, rng)}" if kind == "ratio" else "" if kind == "count" else f":{name_text(of.name)}"
        where = f" where {condition(rest[int(rng.integers(len(rest)))], rng)}" if rest and rng.random() < 0.5 else ""
        text = f"{kind}{asked}{' by ' * bool(by)}{'*'.join(name_text(a.name) for a in by)}{where}"
        found.append(text)
    return found


def condition(attribute: Attribute, rng: np.random.Generator) -> str:
    if attribute.kind in ("number", "date"):
        first = attribute.ends(int(rng.integers(1, attribute.values)))[0]
        return f"{name_text(attribute.name)} >= '{first}'"
    return f"{name_text(attribute.name)} = '{attribute.categories[int(rng.integers(len(attribute.categories)))]}'"


def alone(table: Table, texts: list[str], *, gaussian: bool) -> float:
    """ε of answering each family that was not asked before by itself, within α with probability 1 - β."""
    error, seen, paid = ALPHA * len(table), set[tuple[CanonicalQuery, ...]](), 0
    for text in dict.fromkeys(texts):
        question = NumericQuestion.parse(table.domain, text)
        families = Families(table.domain, question)
        for family in families.fixed():
            paid += family.queries not in seen
            seen.add(family.queries)
        paid += (families.cells - 1).bit_length() if question.kind == "quantile" else 0
    if gaussian:
        return zcdp_epsilon(paid * (float(special.ndtri(1 - BETA / 2)) / error) ** 2 / 2, DELTA)
    return paid * -math.log(BETA) / error


def outside(table: Table, question: NumericQuestion, answers: list[NumberAnswer]) -> int:
    """Of how many groups the exact answer, of the cells' means, is not within the ends."""
    counts = table.counts([question.axes])[0].astype(np.float64)
    tabulated, wrong = question.tabulated(counts), 0
    for row, answer in zip(tabulated, answers, strict=True):
        exact = of_cells(question, row)
        wrong += not (math.isnan(exact) or answer.low - 1e-6 <= exact <= answer.high + 1e-6)
    return wrong


def of_cells(question: NumericQuestion, row: np.ndarray) -> float:
    n = float(row.sum())
    if question.kind == "count":
        return n
    if question.kind == "ratio":
        return float(row[0]) / n if n else math.nan
    v = question.values.mean
    if question.kind == "sum":
        return float(row @ v)
    if not n:
        return math.nan
    if question.kind == "quantile":
        return float(v[np.searchsorted(np.cumsum(row), question.probabilities[0] * n)])
    return float(row @ v) / n if question.kind == "mean" else float(row @ v**2) / n - (float(row @ v) / n) ** 2


def run(name: str, table: Table, texts: list[str], kind: str) -> Row:
    ledger = Ledger.open(None, CAPS[kind])
    session = Curator(table, ledger, Entropy.insecure(1)).open(Online(ALPHA, BETA), CAPS[kind])
    wrong = given = 0
    seconds = []
    for text in texts:
        question = NumericQuestion.parse(table.domain, text)
        start = time.perf_counter()
        answers = session.numbers(question)
        seconds.append(time.perf_counter() - start)
        wrong, given = wrong + outside(table, question, answers), given + len(answers)
    spent, one = ledger.spent, alone(table, texts, gaussian=kind != "pure")
    assert isinstance(spent, PureDP | ApproxDP)
    return {
        "table": name,
        "n": len(table),
        "kind": kind,
        "questions": len(texts),
        "different": len(set(texts)),
        "epsilon": spent.epsilon,
        "alone": one,
        "ratio": spent.epsilon / one,
        "answers": given,
        "outside": wrong,
        "p50_ms": 1e3 * float(np.median(seconds)),
        "p99_ms": 1e3 * float(np.quantile(seconds, 0.99)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 questions")
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where raw/flights.csv.gz is")
    parser.add_argument("--questions", type=int, default=5000)
    parser.add_argument("--kind", choices=[*CAPS], help="this kind of cap alone")
    arguments = parser.parse_args()
    print("INSECURE: the noise is from fixed seeds, to be repeated", file=sys.stderr)
    asked = 200 if arguments.quick else arguments.questions
    tables = {"flights": flights(arguments.data)} if arguments.data else {"adult": adult()}
    for name, table in tables.items():
        texts = questions(table.domain, asked, seed=22)
        for kind in [arguments.kind] if arguments.kind else CAPS:
            row = run(name, table, texts, kind)
            if arguments.json:
                print(json.dumps({"name": "numbers_online", **row}), flush=True)
            else:
                line = (
                    "{table} n={n:,} {kind:10} {questions:,} questions ({different:,} different): epsilon {epsilon:.4g}"
                )
                rest = (
                    ", alone {alone:.4g}, ratio {ratio:.3f}; {outside} of {answers:,} answers outside; {p50_ms:.0f} ms"
                )
                print((line + rest).format(**row), flush=True)


if __name__ == "__main__":
    main()
