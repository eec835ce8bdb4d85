"""Fifty dashboard questions about numbers: one planned measurement against one question at a time.

    python -m benchmarks.numbers [--quick] [--data DIR] [--only TABLE] [--seeds N] [--epsilon E] [--each] [--json]
                                 [--opendp PYTHON]

Raw tables from DIR/raw: flights (departures from New York in 2013; a person is an aircraft) and rwm5yr (doctor visits
of persons by year); and the bundled Adult. The questions are in `TABLES`; each table's are asked together, at ε in
{.1, 1, 10} and δ = 1e-9, add-remove, of a record and of a person with at most `at_most` records.

    ours       `SumsPlan` and `MeasuredSums`, as `NumberSums` measures and answers them: the shrunk answers and the
               unbiased ones
    by hand    one question at a time, with this engine's exact noise: the ρ of (ε, δ) divided evenly among the
               questions, and that of a question evenly among its tables. A mean is a noisy sum over a noisy count, the
               sum as OpenDP has it (of x, for the largest |x|) or as Tumult (about the middle, for half the width),
               whichever of them is off by less in the end; a share is a mean of 0 and 1, a variance has a table of
               squares besides. Answers are clipped to what is possible.

    OpenDP     its Polars interface itself, at ε = 1 and a record, where PYTHON has it (`adapters/opendp_polars.py`):
               the questions in one context of that ρ, split evenly; sums and counts are its, ratios are taken as above

    ratio      of the root mean squared errors over the groups that somebody is in, ours over the other's: the median
               over the questions, and the largest
    within     the share of the groups that their 95 % intervals contain, by the number of records in them: below 100,
               below 1 000, more
    width      the median width of an interval over what the question's answers can span

Below each table, what is known beforehand of the unbiased answers: the root mean square of the questions' ratios, as
planned, and the least that any Gaussian mechanism has (`numbers_bound`): errors are taken to be linear in the noise, as
they are of large groups. And the same of the half of the questions that is cheapest, if all privacy were theirs: no
plan of residuals has a smaller median; the least by any mechanism is told of that half alone. Less than that is
shrinkage's.

Errors are from the answers for all records, values clipped as the question says; intervals are about the records kept
of each person. Noise is from fixed seeds: it protects nobody, and the tables are public. Exit code 1 where the median
at ε = 1 is above a third, or a question's ratio, of the better of our two answers, is above 1.05, be it by the draws
alone: of 30 seeds a ratio is known within a tenth or so, and the largest is told less two standard errors too.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks import numbers_bound
from qrelease._util.typing import Floats, Ints
from qrelease.data.bundled import ADULT_CSV, ADULT_SCHEMA
from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.schema import load
from qrelease.data.table import Table
from qrelease.inference.measurement import Measurement
from qrelease.inference.number_tables import MeasuredSums, NumberTable
from qrelease.inference.sums_plan import SumsPlan
from qrelease.mechanisms.measured_values import record_values, table_of_sums
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import SAMPLERS, discrete_gaussian
from qrelease.privacy import ApproxDP, Cost, Neighbours
from qrelease.privacy.conversions import zcdp_of
from qrelease.privacy.unit import Unit
from qrelease.queries.measures import Needs, needs_by_cells, needs_of
from qrelease.queries.numeric import NumericQuestion

DELTA = 1e-9
EPSILONS = (0.1, 1.0, 10.0)
CLASSES = (100, 1_000, math.inf)
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
_NA = ("", "NA")


def _number(
    name: str, within: tuple[float, float], edges: Sequence[float], step: float = 1, **options: object
) -> Attribute:
    """A column of numbers on a grid, with bins."""
    return Attribute(name, "number", edges=tuple(edges), within=within, step=step, outside="clip", **options)  # type: ignore[arg-type]


_DELAY_BINS = (-120, -15, 0, 15, 30, 60, 120, 1441)
FLIGHTS = (
    Attribute("carrier", "category", categories=CARRIERS),
    Attribute("origin", "category", categories=("EWR", "JFK", "LGA")),
    _number("sched_dep_time", (0, 2400), (0, 600, 900, 1200, 1500, 1800, 2100, 2401)),
    _number("dep_delay", (-120, 1440), _DELAY_BINS, missing=_NA),
    _number("arr_delay", (-120, 1440), _DELAY_BINS, missing=_NA),
    _number("air_time", (0, 800), (0, 60, 120, 180, 240, 300, 801), missing=_NA),
    _number("distance", (0, 5000), (0, 250, 500, 750, 1000, 1500, 2000, 3000, 5001)),
)
DOCTOR_VISITS = (
    _number("docvis", (0, 130), (0, 1, 2, 3, 5, 8, 12, 20, 40, 131)),
    _number("hospvis", (0, 60), (0, 1, 2, 5, 61)),
    _number("year", (1984, 1988), range(1984, 1990)),
    _number("edlevel", (1, 4), range(1, 6)),
    _number("age", (25, 64), (25, 30, 35, 40, 45, 50, 55, 60, 65)),
    *(_number(name, (0, 1), (0, 1, 2)) for name in ("outwork", "female", "married", "kids")),
    _number("educ", (7, 18), (7, 10, 12, 14, 18.5), step=0.5),
)
ADULT = ("age", "education", "marital-status", "occupation", "race", "sex", "capital-gain", "hours-per-week", "income")


@dataclass(frozen=True)
class Asked:
    """What is asked of one table; `clips` are bounds from public knowledge."""

    person: Person | None
    clips: Mapping[str, tuple[float, float]]
    questions: tuple[str, ...]


TABLES: Mapping[str, Asked] = {
    "flights": Asked(
        Person("tailnum", 5, _NA),
        {"arr_delay": (-60, 180), "dep_delay": (-30, 180), "air_time": (0, 400)},
        (
            "mean:arr_delay",
            "mean:arr_delay by carrier",
            "mean:arr_delay by origin",
            "mean:arr_delay by carrier*origin",
            "mean:arr_delay by sched_dep_time",
            "mean:arr_delay by carrier*origin*sched_dep_time",
            "mean:dep_delay by carrier",
            "mean:dep_delay by origin*sched_dep_time",
            "mean:dep_delay by carrier*sched_dep_time",
            "mean:air_time by carrier",
            "mean:air_time by carrier*origin",
            "mean:distance by carrier",
            "mean:distance by origin",
            "sum:distance by carrier",
            "sum:air_time by origin",
            "sum:arr_delay by carrier where arr_delay >= 0",
            "ratio:arr_delay >= 15 by carrier",
            "ratio:arr_delay >= 15 by carrier*origin",
            "ratio:dep_delay >= 60 by sched_dep_time",
            "variance:arr_delay by carrier",
            "variance:dep_delay",
            "count by carrier*origin*sched_dep_time",
            "histogram:arr_delay by carrier",
            "mean:arr_delay by carrier where origin = 'JFK'",
        ),
    ),
    "rwm5yr": Asked(
        Person("id", 5),
        {"docvis": (0, 30), "hospvis": (0, 5)},
        (
            "mean:docvis",
            "mean:docvis by year",
            "mean:docvis by edlevel",
            "mean:docvis by female*age",
            "mean:docvis by year*female*married",
            "sum:docvis by year",
            "sum:hospvis by year",
            "mean:hospvis by age",
            "ratio:docvis >= 1 by age",
            "ratio:hospvis >= 1 by year*female",
            "variance:docvis by female",
            "mean:educ by year",
            "mean:docvis by edlevel*female where outwork = 1",
        ),
    ),
    "adult": Asked(
        None,
        {"capital-gain": (0, 20_000)},
        (
            "mean:age",
            "mean:age by sex",
            "mean:age by education",
            "mean:hours-per-week by sex",
            "mean:hours-per-week by education",
            "mean:hours-per-week by sex*education",
            "mean:hours-per-week by occupation*sex*race",
            "mean:capital-gain by education",
            "ratio:income = '>50K' by education",
            "ratio:income = '>50K' by sex*race",
            "sum:capital-gain by sex",
            "variance:hours-per-week by sex",
            "count by education*marital-status",
        ),
    ),
}
"""Fifty questions."""


def adult_domain() -> Domain:
    """The bundled schema, with the numbers of Adult as they are beside its bins."""
    grids = {"age": (17, 90), "capital-gain": (0, 99_999), "hours-per-week": (1, 99)}
    known = load(ADULT_SCHEMA)
    found = [known[name] for name in ADULT]
    exact = {name: (Fraction(low), Fraction(high)) for name, (low, high) in grids.items()}
    return Domain(tuple(replace(a, within=exact[a.name], step=Fraction(1)) if a.name in exact else a for a in found))


def table_of(name: str, data: Path) -> Table | None:
    """The records; None where the file is not there."""
    if name == "adult":
        return Table.read(ADULT_CSV, adult_domain())
    file = data / "raw" / f"{name}.csv.gz"
    if not file.exists():
        print(f"SKIPPED {name}: no raw/{name}.csv.gz; give its folder as --data DIR", file=sys.stderr)
        return None
    return Table.read(file, Domain(FLIGHTS if name == "flights" else DOCTOR_VISITS, person=TABLES[name].person))


@dataclass(frozen=True, eq=False)
class Truth:
    """The exact tables of a question: how many records, and ΣV and ΣU, all as (groups,) in the question's order."""

    needs: Needs
    counts: Floats
    sums: Floats
    squares: Floats

    @classmethod
    def of(cls, table: Table, question: NumericQuestion, needs: Needs) -> "Truth":
        columns = (*question.by, question.column) if question.kind == "histogram" else question.by
        order = [needs.axes.index(table.domain.axis(name)) for name in columns]
        shape = [table.domain.shape[a] for a in needs.axes]

        def exact(measure: object) -> Floats:
            if measure is None:
                return np.zeros(math.prod(shape))
            values = record_values(table, measure)  # type: ignore[arg-type]
            return table_of_sums(table, values, needs.axes).reshape(shape).transpose(order).reshape(-1).astype(float)

        counts = exact(needs.counts)
        if needs.present is not None:
            counts = (counts + exact(needs.present)) / 2
        return cls(needs, counts, exact(needs.sums), exact(needs.squares))

    @property
    def answers(self) -> Floats:
        """NaN for a mean of nobody."""
        found = answers(self.needs, self.counts, self.sums, self.squares)
        nobody = (self.counts == 0) & (self.needs.kind in ("mean", "ratio", "variance"))
        return np.where(nobody, np.nan, found)


def answers(needs: Needs, counts: Floats, sums: Floats, squares: Floats) -> Floats:
    """Of three tables, exact or noisy; what is impossible is clipped."""
    if needs.sums is None:
        return counts
    scale, width = needs.scale, needs.sums.top
    if needs.kind == "sum":
        return scale.middle * counts + scale.half * sums / width
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(counts > 0, sums / width / np.maximum(counts, 1e-9), 0.0)
        mean: Floats = np.clip(ratio, -1, 1)
        if needs.kind == "variance":
            square = np.where(counts > 0, squares / width**2 / np.maximum(counts, 1e-9), 0.0)
            variance: Floats = np.clip((square + 1) / 2 - mean**2, 0, 1) * scale.half**2
            return variance
    return scale.middle + scale.half * mean


def by_hand(truth: Truth, rho: Fraction, source: Entropy, *, centred: bool) -> Floats:
    """One question with noise of its own."""
    needs, size = truth.needs, len(truth.counts)
    if needs.sums is None:
        return truth.counts + _noise(1.0, rho, size, source)
    width = needs.sums.top
    middle = needs.scale.middle / needs.scale.half  # of values, in halves of the width
    if needs.kind == "ratio" and not centred:
        middle = 1.0  # 0 and 1
    tables = 2 + (needs.kind == "variance")
    if needs.kind == "sum":  # needs no count: the sum itself is the answer
        largest = (abs(middle) + 1) * width
        return (
            needs.scale.half / width * (truth.sums + middle * width * truth.counts + _noise(largest, rho, size, source))
        )
    share = rho / tables
    counts = truth.counts + _noise(1.0, share, size, source)
    if centred:
        sums = truth.sums + _noise(width, share, size, source)
    else:  # Σx, about 0
        largest = (abs(middle) + 1) * width
        sums = truth.sums + middle * width * truth.counts + _noise(largest, share, size, source)
        sums = sums - middle * width * counts
    squares = truth.squares + (_noise(width**2, share, size, source) if tables == 3 else 0.0)
    return answers(needs, counts, sums, squares)


def _noise(moved: float, rho: Fraction, size: int, source: Entropy) -> Floats:
    """Discrete Gaussian noise for a sensitivity."""
    return discrete_gaussian(Fraction(moved) ** 2 / (2 * rho), size, source).astype(np.float64)


def plan_of(domain: Domain, asked: Asked, needs: Sequence[Needs], cost: Cost) -> SumsPlan:
    """As `NumberSums` plans for the questions alone."""
    others = [needs_by_cells(NumericQuestion.parse(domain, text), asked.clips) for text in asked.questions]
    return SumsPlan.choose(domain, needs, cost, Neighbours.ADD_REMOVE, by_cells=others)


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan for questions, with the exact answers of its parts."""

    domain: Domain
    questions: tuple[str, ...]
    clips: Mapping[str, tuple[float, float]]
    plan: SumsPlan
    exact: tuple[Ints, ...]

    @classmethod
    def of(cls, table: Table, asked: Asked, cost: Cost) -> "Planned":
        """Of a table with the records that are kept."""
        needs = [needs_of(NumericQuestion.parse(table.domain, text), asked.clips) for text in asked.questions]
        plan = plan_of(table.domain, asked, needs, cost)
        values = {p.measure: record_values(table, p.measure) for p in plan.parts}
        exact = [p.group.queries.apply(table_of_sums(table, values[p.measure], p.group.axes)) for p in plan.parts]
        return cls(table.domain, asked.questions, asked.clips, plan, tuple(exact))

    def drawn(self, cost: Cost, source: Entropy) -> MeasuredSums:
        """What `Private.measure_sums` draws."""
        found = []
        for part, exact in zip(self.plan.parts, self.exact, strict=True):
            law, parameter = part.noise(cost, Neighbours.ADD_REMOVE)
            noisy = exact + SAMPLERS[law.law](parameter, len(exact), source)
            found.append(Measurement(part.group, noisy.astype(np.float64), law))
        return MeasuredSums(self.domain, self.questions, self.clips, self.plan.parts, tuple(found))


@dataclass(frozen=True)
class Row:
    """One question at one ε and unit."""

    table: str
    unit: str
    epsilon: float
    question: str
    ours: float
    unbiased: float
    other: float
    unsure: float
    inside: tuple[float, ...]
    inside_model: tuple[float, ...]
    groups: tuple[int, ...]
    width: float

    @property
    def ratio(self) -> float:
        return self.ours / self.other

    @property
    def best(self) -> float:
        """Of the better of our two answers, which a release has both."""
        return min(self.ratio, self.unbiased_ratio)

    @property
    def unbiased_ratio(self) -> float:
        return self.unbiased / self.other


def rows(name: str, read: Table, unit: str, epsilons: Sequence[float], seeds: int) -> Iterator[Row]:
    """All questions of a table."""
    asked = TABLES[name]
    questions = [NumericQuestion.parse(read.domain, text) for text in asked.questions]
    needs = [needs_of(question, asked.clips) for question in questions]
    wanted = [Truth.of(read, q, n) for q, n in zip(questions, needs, strict=True)]
    if unit == "person":
        table, at_most = read.bounded(b"benchmark"), read.domain.at_most
        assert isinstance(table, Table)  # in these schemas records count
    else:
        table, at_most = Table(read.domain.of_rows, read.columns, None, read.points), None
    kept = [Truth.of(table, q, n) for q, n in zip(questions, needs, strict=True)]
    for epsilon in epsilons:
        cost = Unit(Neighbours.ADD_REMOVE, at_most).of_a_record(ApproxDP(epsilon, DELTA))
        rho = Fraction(zcdp_of(ApproxDP(epsilon, DELTA)).rho) / (at_most or 1) ** 2 / len(questions)
        planned = Planned.of(table, asked, cost)
        runs: list[list[NumberTable]] = []
        others: list[list[list[Floats]]] = []
        for seed in range(seeds):
            source = Entropy.insecure(seed)
            sums = planned.drawn(cost, source)
            runs.append([sums.answer(text) for text in asked.questions])
            others.append([[by_hand(t, rho, source, centred=c) for t in kept] for c in (False, True)])
        for i, question in enumerate(questions):
            yield _row(
                name,
                unit,
                epsilon,
                str(question),
                wanted[i],
                kept[i],
                [r[i] for r in runs],
                [[o[c][i] for o in others] for c in (0, 1)],
            )


def _row(
    name: str,
    unit: str,
    epsilon: float,
    question: str,
    wanted: Truth,
    kept: Truth,
    found: Sequence[NumberTable],
    others: Sequence[Sequence[Floats]],
) -> Row:
    there = wanted.counts > 0

    def squares(parts: Sequence[Floats]) -> Floats:
        return np.array([((p - wanted.answers)[there] ** 2).mean() for p in parts])

    def off(parts: Sequence[Floats]) -> float:
        return float(np.sqrt(squares(parts).mean()))

    def relative(parts: Sequence[Floats]) -> float:
        """The standard error of a root mean square from so few draws, over itself."""
        drawn = squares(parts)
        return float(drawn.std() / max(drawn.mean(), _TINY) / (2 * math.sqrt(len(drawn))))

    inside, model, groups, low = [], [], [], 0.0
    for high in CLASSES:
        some = (kept.counts > 0) & (kept.counts >= low) & (kept.counts < high)
        groups.append(int(some.sum()))
        low = high
        if not some.any():
            inside.append(math.nan)
            model.append(math.nan)
            continue
        a = kept.answers[some]
        inside.append(float(np.mean([(f.low[some] <= a + _TINY) & (a - _TINY <= f.high[some]) for f in found])))
        model.append(
            float(np.mean([(f.model_low[some] <= a + _TINY) & (a - _TINY <= f.model_high[some]) for f in found]))
        )
    span = (
        2 * wanted.needs.scale.half
        if wanted.needs.kind in ("mean", "ratio")
        else float(np.abs(wanted.answers[there]).max())
    )
    width = float(np.median([(f.model_high - f.model_low)[there] for f in found])) / max(span, 1e-9)
    return Row(
        name,
        unit,
        epsilon,
        question,
        off([f.model for f in found]),
        off([f.value for f in found]),
        min(map(off, others)),
        math.hypot(
            relative(min(([f.model for f in found], [f.value for f in found]), key=off)), relative(min(others, key=off))
        ),
        tuple(inside),
        tuple(model),
        tuple(groups),
        width,
    )


_TINY = 1e-9


def by_opendp(name: str, read: Table, seeds: int, python: str) -> tuple[str, list[float]]:
    """OpenDP's version, and the root mean squared error of each question, at ε = 1 and a record."""
    asked = TABLES[name]
    table = Table(read.domain.of_rows, read.columns, None, read.points)
    questions = [NumericQuestion.parse(table.domain, text) for text in asked.questions]
    needs = [needs_of(question, asked.clips) for question in questions]
    truths = [Truth.of(table, q, n) for q, n in zip(questions, needs, strict=True)]
    columns = {f"a{axis}": table.codes(axis).astype(np.int64) for axis in range(len(table.domain))}
    content = []
    for i, (question, need) in enumerate(zip(questions, needs, strict=True)):
        axes = [table.domain.axis(n) for n in (*question.by, *([question.column] if need.kind == "histogram" else []))]
        active = np.abs(record_values(table, need.counts)) > 0
        sums = []
        if need.sums is not None:
            values, middle = record_values(table, need.sums), _shift(need)
            if need.present is not None:
                active &= record_values(table, need.present) > 0
            columns[f"s{i}"], top = np.where(active, values + middle, 0), need.sums.top
            sums.append((f"s{i}", middle - top, middle + top))
        if need.squares is not None:
            columns[f"t{i}"], top = record_values(table, need.squares), need.squares.top
            sums.append((f"t{i}", -top, top))
        columns[f"u{i}"] = active.astype(np.int64)
        content.append(
            {
                "by": [f"a{axis}" for axis in axes],
                "sizes": [table.domain.shape[axis] for axis in axes],
                "sums": sums,
                "count": need.kind != "sum",
                "only": None if active.all() else f"u{i}",
            }
        )
    rho = float(zcdp_of(ApproxDP(1, DELTA)).rho)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / n) for n in ("records.csv", "asked.json", "answers.json")]
        np.savetxt(files[0], np.stack(list(columns.values()), axis=1), "%d", ",", header=",".join(columns), comments="")
        Path(files[1]).write_text(json.dumps({"rho": rho, "repeats": seeds, "questions": content}))
        adapter = Path(__file__).parent / "adapters" / "opendp_polars.py"
        subprocess.run([python, str(adapter), *files], check=True)
        found = json.loads(Path(files[2]).read_text())
    errors = []
    for i, (need, truth) in enumerate(zip(needs, truths, strict=True)):
        there = truth.counts > 0
        off = [((_of_opendp(need, run[i]) - truth.answers)[there] ** 2).mean() for run in found["answers"]]
        errors.append(float(np.sqrt(np.mean(off))))
    return found["version"], errors


def compared(name: str, read: Table, seeds: int, python: str, ours: Sequence[Row]) -> str:
    """The ratios to OpenDP's errors, and its own over those by hand."""
    version, errors = by_opendp(name, read, seeds, python)
    if not ours:
        return f"{name}: {version}, not compared: no row of ours at epsilon 1"
    ratios = [min(r.ours, r.unbiased) / e for r, e in zip(ours, errors, strict=True)]
    hand = [e / r.other for r, e in zip(ours, errors, strict=True)]
    return (
        f"{name}: over {version}, by record at epsilon 1: median {np.median(ratios):.3f}, largest {max(ratios):.3f};"
        f" its errors over those by hand: median {np.median(hand):.3f}"
    )


def _shift(need: Needs) -> int:
    """What is added to a centred value for twice the value itself, in steps; 0 and 2 of a share."""
    assert need.sums is not None
    return need.sums.top if need.kind == "ratio" else round(need.scale.middle / need.scale.half * need.sums.top)


def _of_opendp(need: Needs, tables: Sequence[Sequence[float]]) -> Floats:
    parts = [np.array(table, np.float64) for table in tables]
    if need.sums is None:
        return parts[0]
    if need.kind == "sum":
        return need.scale.half / need.sums.top * parts[0]
    return answers(need, parts[0], parts[1] - _shift(need) * parts[0], parts[2] if len(parts) == 3 else parts[0])


def told(found: Sequence[Row]) -> str:
    """One line for the questions of a table at one ε and unit."""
    first = found[0]
    ratios, plain = [r.ratio for r in found], [r.unbiased_ratio for r in found]
    cover = []
    for which in ("inside", "inside_model"):
        for k in range(len(CLASSES)):
            pairs = [(getattr(r, which)[k], r.groups[k]) for r in found if r.groups[k]]
            cover.append(sum(c * g for c, g in pairs) / sum(g for _, g in pairs) if pairs else math.nan)
    shown = " ".join("    -" if math.isnan(c) else f"{c:5.3f}" for c in cover)
    return (
        f"{first.table:8} {first.unit:6} {first.epsilon:5g} {np.median(ratios):7.3f} {max(ratios):7.3f}"
        f" {np.median(plain):8.3f} {max(plain):7.3f}  {shown}  {np.median([r.width for r in found]):7.3f}"
    )


def foreseen(name: str, domain: Domain) -> str:
    """What is known of a table's unbiased answers before they are drawn."""
    asked = TABLES[name]
    questions = [NumericQuestion.parse(domain, text) for text in asked.questions]
    needs = [needs_of(question, asked.clips) for question in questions]
    plan = plan_of(domain, asked, needs, ApproxDP(1, DELTA))
    planned, least = numbers_bound.planned(domain, plan, needs), numbers_bound.bound(domain, questions, needs)
    others = [needs_by_cells(question, asked.clips) for question in questions]
    half, which = numbers_bound.best_half(domain, needs, others)
    some = [questions[i] for i in which], [needs[i] for i in which]
    of_half = numbers_bound.bound(domain, *some) * math.sqrt(len(which) / len(needs))
    return (
        f"{name}: unbiased, root mean square of the ratios: {planned:.3f} as planned, at least {least:.3f}; of the"
        f" cheapest half, were the others not asked: at least {half:.3f} by a plan of this kind, {of_half:.3f} by any"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="rwm5yr and Adult at one epsilon, with few seeds")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", choices=list(TABLES))
    parser.add_argument("--seeds", type=int, help="of the noise; default: 10, or 3 with --quick")
    parser.add_argument("--epsilon", type=float, action="append", help="default: .1, 1 and 10, or 1 with --quick")
    parser.add_argument("--each", action="store_true", help="a line for each question")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--opendp", metavar="PYTHON", help="with OpenDP and Polars; without it, it is not run")
    given = parser.parse_args(arguments)
    names = [given.only] if given.only else [n for n in TABLES if not (given.quick and n == "flights")]
    epsilons = given.epsilon or ((1.0,) if given.quick else EPSILONS)
    seeds = given.seeds or (3 if given.quick else 10)
    everything: list[Row] = []
    if not given.json:
        print("                            shrunk          unbiased           within: unbiased   within: shrunk")
        print("table    unit    eps  median largest   median largest  <100  <1000 more  <100  <1000 more    width")
    for name in names:
        read = table_of(name, given.data)
        if read is None:
            continue
        for unit in ("record", "person") if read.domain.person is not None else ("record",):
            some = list(rows(name, read, unit, epsilons, seeds))
            everything += some
            for epsilon in epsilons:
                here = [r for r in some if r.epsilon == epsilon]
                if not given.json:
                    print(told(here), flush=True)
                for r in here if given.each and not given.json else []:
                    print(f"    {r.ratio:7.3f} {r.unbiased_ratio:7.3f} {r.ours:11.4g} {r.other:11.4g}  {r.question}")
        if not given.json:
            print(foreseen(name, read.domain.of_rows), flush=True)
            if given.opendp:
                here = [r for r in everything if (r.table, r.unit, r.epsilon) == (name, "record", 1)]
                print(compared(name, read, seeds, given.opendp, here), flush=True)
    if not given.opendp and not given.json:
        print("SKIPPED OpenDP's Polars interface: give a python that has it as --opendp PYTHON")
    if given.json:
        for r in everything:
            print(json.dumps(asdict(r)))
    if not everything:
        return 0
    ones = [r.best for r in everything if r.epsilon == 1]
    largest = max(everything, key=lambda r: r.best)
    surely = max(r.best * (1 - 2 * r.unsure) for r in everything)
    median = float(np.median(ones)) if ones else None
    if not given.json:
        said = "" if median is None else f"median ratio at epsilon 1: {median:.3f} (asked 0.333); "
        print(
            f"{said}largest of all: {largest.best:.3f}"
            f" (asked 1.05), give or take {largest.best * largest.unsure:.3f} by the draws, of {largest.question};"
            f" largest of all less two such errors: {surely:.3f}"
        )
    return int((median is not None and median > 1 / 3) or largest.best > 1.05)


if __name__ == "__main__":
    sys.exit(main())
