"""Draws docs/benchmarks.md, and its picture, from the results that are kept in benchmarks/results.

    python -m benchmarks.page

Nothing is measured here. Each file of results has one object a line, with the command that made it, versions, seed and
the class of machine; see `benchmarks.synthesizers` and `benchmarks.keep` for how to make them anew.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.keep import RESULTS
from benchmarks.large import AIM

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PICTURE = "benchmarks.svg"

Line = dict[str, Any]

METHODS = {
    "qrelease": "qrelease, `auto`",
    "aim": "AIM",
    "aim-opendp": "AIM (OpenDP)",
    "mst": "MST",
    "mst-opendp": "MST (OpenDP)",
    "privbayes": "PrivBayes+PGM",
    "gaussian": "Gaussian noise",
    "independent": "independent columns",
    "floor": "sampling floor",
}

OF_OTHERS = ("aim", "aim-opendp", "mst", "mst-opendp", "privbayes")

HEAD = """<!-- Drawn by `python -m benchmarks.page` from benchmarks/results: change those, not this page. -->

# Benchmarks

Every figure is of a line in `benchmarks/results/*.jsonl`, which names the command, the versions, the seed and the class
of machine; `python -m benchmarks.page` draws this page from them. Noise is from fixed seeds (that of dpmm and of
OpenDP is not), and the tables are public. One seed was run, so small differences mean nothing. Seconds are CPU seconds,
on a machine that others used at the same time: the same run may take two or three times as many. Read them as orders of
magnitude.

## Synthetic tables

![Mean L1 distance of three-way marginals against epsilon, a panel for each table](benchmarks.svg)

For each table and ε, at δ = 10⁻⁹:

- **L1**: mean L1 distance (0 to 2) between the densities of the real and the synthetic table, over all marginals on
  three columns (up to 500 of them). These are what qrelease, AIM and Gaussian noise are asked for; MST and PrivBayes
  choose for themselves. `Gaussian noise` has no table: its own noisy answers, negative ones taken for 0.
- **TSTR**: train on synthetic, test on real: AUC of boosted trees for one column, higher is better. The test is on a
  fifth of the real records, which the synthetic table was made from as well: of use to compare, too good as a forecast.
- **told**: AUC of boosted trees that tell synthetic records from real ones: 0.5 is chance, lower is better. It falls
  beneath 0.5 where synthetic records are the same as real ones, which trees have seen under the other label.
- **CPU s**, **MiB**: of the mechanism with its fit and its records, and the most memory of the process. Others run on
  one thread, up to 900 CPU seconds if its line names no other `--limit`: a row that says `not done` was stopped there.
- The **sampling floor** is as many real records drawn again, **independent columns** keep one-way marginals alone;
  neither is private, and neither depends on ε. It is no bound: at a large ε a table can be nearer than another sample.

Of the tables that people have as text (flights, planes, rwm5yr) the columns in `benchmarks/synthesizers.py` are read,
with public bins and categories, and a record is the unit.
"""

PEERS = """
AIM, MST and PrivBayes+PGM are those of dpmm 0.1.9, run by `benchmarks/adapters/dpmm_tables.py` in an environment of
their own, on columns that are codes already, so that none of their budget goes into preprocessing; they draw exactly as
many records as there are. What each is given matters:

- AIM: all three-way marginals of up to 10,000 cells, which is dpmm's limit (titanic and adult have larger ones, which
  count in L1 all the same), and a model of 4 MB. Its authors recommend 80 MB for comparisons, which can take hours on a
  table, and with which it may well be more accurate than here.
- MST and PrivBayes+PGM: dpmm's defaults, by which both measure a tree of pairs (PrivBayes with one parent for each
  column). Such a model knows of three columns only what the pairs along its tree say, however large ε is, so its L1
  levels off. PrivBayes with a larger `degree` was not run.

OpenDP 0.16 has AIM and MST too (its extra `mbi`); `benchmarks/adapters/opendp_tables.py` runs them, and draws records
by `method="sample"`, as the default ties columns that nothing ties. They have no rows yet.

SWIFT and dpsynth are not in the package index, and private-pgm's `mbi` 2.0 there has no mechanisms: they were not run.
"""

NOT_RUN = """
**Not run**, for want of time on a machine that many used; nothing is known of these from here: {listed}.
"""

EPSILONS = (0.1, 1.0, 10.0)
BESIDE = ("independent", "floor")
"""What does not depend on ε: one row in a table."""

QUOTED = """
Not on this page's scale, since one column fewer is in it: AIM by its authors' code (numpy private-pgm, 1 MB model), as
`benchmarks/large.py` records it and not run anew, has a mean L1 over all three-way marginals of fourteen columns of
Adult of {figures}. `python -m benchmarks.large --data DIR --only adult`
prints ours beside it.
"""


def lines_of(name: str) -> list[Line]:
    """The kept results of a benchmark; none where nothing was kept."""
    file = RESULTS / f"{name}.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def figure(line: Mapping[str, Any], key: str, digits: int = 3) -> str:
    value = line.get(key)
    return "–" if value is None else f"{value:.{digits}f}"


def cell_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def ordered(lines: list[Line]) -> list[Line]:
    """By ε, and in the order of `METHODS`; last, and once, what does not depend on ε."""
    places = list(METHODS)
    asked = [line for line in lines if line["method"] not in BESIDE]
    once = {line["method"]: line for line in reversed(lines) if line["method"] in BESIDE}
    asked.sort(key=lambda line: (line["epsilon"], places.index(line["method"])))
    return asked + [once[method] for method in BESIDE if method in once]


def not_run(lines: list[Line]) -> str:
    """The tables and ε at which a mechanism of others, or of ours, has no row: not even that it was stopped."""
    done = {(x["method"], x["table"], x["epsilon"]) for x in lines}
    parts = []
    for method, name in METHODS.items():
        missing = []
        for table in dict.fromkeys(line["table"] for line in lines):
            left = [f"{e:g}" for e in EPSILONS if (method, table, e) not in done]
            if left and method not in BESIDE:
                missing.append(table if len(left) == len(EPSILONS) else f"{table} (at ε = {', '.join(left)})")
        if missing:
            parts.append(f"{name} on {', '.join(missing)}")
    return "; ".join(parts)


MEASURES = {"l1": ("L1", -1), "tstr_auc": ("TSTR", 1), "real_auc": ("told", -1)}
"""What a figure is called, and whether more of it is better."""

TOO_SMALL = 0.02, 0.01
"""Differences that are not told: as a part of our L1, and of an AUC."""

OTHERS = """Each figure of another private method that is better than that of `auto` at the same ε, but for differences
of less than {:.0%} of an L1 or {:g} of an AUC."""


def better(lines: list[Line]) -> list[tuple[str, Line, Line]]:
    """Where another private method has a better figure than ours: which, its line and ours."""
    places = list(METHODS)
    found = []
    for key, (_, sign) in MEASURES.items():
        for line in sorted(lines, key=lambda x: places.index(x["method"])):
            mine = beside(line, lines)
            if mine is None or key not in mine or key not in line:
                continue
            least = TOO_SMALL[0] * mine[key] if key == "l1" else TOO_SMALL[1]
            if sign * (line[key] - mine[key]) > least:
                found.append((key, line, mine))
    tables = list(dict.fromkeys(line["table"] for line in lines))
    found.sort(key=lambda x: (list(MEASURES).index(x[0]), tables.index(x[1]["table"]), x[1]["epsilon"]))
    return found


def beside(line: Line, lines: list[Line]) -> Line | None:
    """Our line at the table and ε of a private method of others."""
    if line["method"] in ("qrelease", *BESIDE):
        return None
    asked = ("qrelease", line["table"], line["epsilon"])
    return next((x for x in lines if (x["method"], x["table"], x["epsilon"]) == asked), None)


def where_others_are_better(lines: list[Line]) -> list[str]:
    """A section of all figures that speak against us."""
    header = ["figure", "table", "ε", "method", "its", "ours"]
    rows = [
        cell_row(
            [MEASURES[key][0], x["table"], f"{x['epsilon']:g}", METHODS[x["method"]], figure(x, key), figure(y, key)]
        )
        for key, x, y in better(lines)
    ]
    ended = [(x, beside(x, lines)) for x in lines if x["method"] in OF_OTHERS and "l1" in x]
    both = [(x, mine) for x, mine in ended if mine is not None]
    less = sum(x["peak_mib"] < mine["peak_mib"] for x, mine in both)
    faster = sum(x["cpu_seconds"] < mine["cpu_seconds"] for x, mine in both)
    counted = (
        f"Of {len(both)} rows of AIM, MST and PrivBayes+PGM with figures, {less} took less memory than `auto` and"
        f" {faster} fewer CPU seconds."
    )
    about = OTHERS.format(*TOO_SMALL)
    title = "### Where others are better than `auto`"
    return [title, "", about, "", cell_row(header), cell_row(["---"] * len(header)), *rows, "", counted, ""]


def row_of(line: Line) -> str:
    named = METHODS[line["method"]]
    if line["method"] == "qrelease":
        named += f" ({line.get('mechanism', '')})"
    epsilon = "any" if line["method"] in BESIDE else f"{line['epsilon']:g}"
    seconds = "–" if "cpu_seconds" not in line else f"{line['cpu_seconds']:.0f}"
    memory = "–" if "peak_mib" not in line else f"{line['peak_mib']:.0f}"
    scores = [figure(line, "l1"), figure(line, "tstr_auc"), figure(line, "real_auc")]
    if "failed" in line:
        scores = [str(line["failed"]).replace("|", "\\|"), "–", "–"]
    return cell_row([epsilon, named, *scores, seconds, memory])


def table_section(name: str, lines: list[Line]) -> list[str]:
    first = lines[0]
    title = f"### {name}: {first['records']:,} records, {first['columns']} columns"
    header = ["ε", "method", "L1", "TSTR", "told", "CPU s", "MiB"]
    return [title, "", cell_row(header), cell_row(["---"] * len(header)), *(row_of(x) for x in ordered(lines)), ""]


def online_section(lines: list[Line]) -> list[str]:
    if not lines:
        return []
    header = ["stream", "records", "α", "questions", "mechanism", "ε in all", "against the cheapest rival"]
    rows = [
        cell_row(
            [
                line["stream"],
                f"{line['n']:,}",
                f"{line['alpha']:g}",
                f"{line['asked']:,}",
                line["mechanism"],
                f"{line['epsilon']:.3g}",
                f"{line['ratio']:.2f}" if line.get("ratio") else "–",
            ]
        )
        for line in lines
        if line.get("epsilon") is not None
    ]
    about = (
        "What sessions of `qr.Online` spend on streams of questions, beside simpler means that are chosen in hindsight,"
        " Turbo's PMW-Bypass among them as `benchmarks/rivals.py` builds it from the published rules. The last column"
        " is the ε of a session over that of the cheapest of these that keeps the same promise, and that knows all"
        " questions beforehand: above 1 it is cheaper. Both pay for the number of records, where a session does."
    )
    command = f"`{lines[0]['command']}`, {lines[0]['machine']}."
    return [
        "## Questions one by one",
        "",
        about,
        "",
        cell_row(header),
        cell_row(["---"] * len(header)),
        *rows,
        "",
        command,
        "",
    ]


def side_by_side(title: str, about: str, lines: list[Line]) -> list[str]:
    """A section of figures, each with its reference in the same run."""
    if not lines:
        return []
    header = ["what", "cells", "ours", "reference", "ratio", "unit"]
    sized = any("cells" in line for line in lines)
    if not sized:
        header.remove("cells")
    rows = [
        cell_row(
            [
                str(line["name"]).replace("|", "\\|"),
                *([f"{line['cells']:,}"] if sized else []),
                f"{line['value']:.3g}",
                "–" if line.get("reference") is None else f"{line['reference']:.3g}",
                "–" if line.get("ratio") is None else f"{line['ratio']:.3g}",
                str(line.get("unit", "")).replace("|", "\\|"),
            ]
        )
        for line in lines
    ]
    command = f"`{lines[0]['command']}`, {lines[0]['machine']}."
    return [f"## {title}", "", about, "", cell_row(header), cell_row(["---"] * len(header)), *rows, "", command, ""]


NOISE = (
    "Draws a second of each sampler by its scale, on one thread, beside OpenDP's in the same run where it has that"
    " sampler. Of calls, selections and correlations the reference is the most that is allowed: there less is better."
)

KERNELS = (
    "Kernels on one thread, in CPU seconds, each in turn with what it is measured against in the same run: a sweep of"
    " memory (the triad), numpy, DuckDB, or another form of itself, as its name says. More is better, of seconds less."
    " A GB/s is of 24 bytes a cell, what a triad moves, for those too that move fewer (f32, masks). DuckDB groups by a"
    " tenth of the sets, and its rate is scaled to all. Of the records counted, beside no"
    " other, and of the start the reference is no measurement but what is asked. Cells are those of the histogram, and"
    " records where these are counted."
)


def markdown() -> str:
    """The page."""
    synthetic = lines_of("synthesizers")
    parts = [HEAD]
    for name in dict.fromkeys(line["table"] for line in synthetic):
        parts += table_section(name, [line for line in synthetic if line["table"] == name])
    machines = sorted({line["machine"] for line in synthetic})
    parts += where_others_are_better(synthetic)
    commands = "python -m benchmarks.synthesizers --data DIR --only TABLE --epsilon E --methods M --seed 0"
    others = "with `--peers PYTHON` for dpmm's, with `--opendp PYTHON` for OpenDP's"
    parts += [f"`{commands}` ({others}) makes a line; {'; '.join(machines)}.", PEERS.rstrip()]
    quoted = ", ".join(f"{l1:g} (ε = {epsilon:g})" for (_, epsilon), (l1, _) in AIM.items())
    left = not_run(synthetic)
    parts += [NOT_RUN.format(listed=left).rstrip()] if left else []
    parts += [QUOTED.format(figures=quoted).rstrip(), ""]
    parts += online_section(lines_of("online"))
    parts += side_by_side("Noise", NOISE, lines_of("noise")) + side_by_side("Kernels", KERNELS, lines_of("kernels"))
    parts += ["## What is measured elsewhere", "", ELSEWHERE]
    return "\n".join(parts)


ELSEWHERE = """Each prints its figures, with what is asked of them, and says what it needs:

| command | what |
| --- | --- |
| `python -m benchmarks.large --data DIR` | tables beyond a histogram, beside AIM's authors' code |
| `python -m benchmarks.error --data DIR` | three-way error beside both baselines |
| `python -m benchmarks.frontier` | error beside the least of any unbiased mechanism |
| `python -m benchmarks.kernels` | the kernels, beside DuckDB and numpy |
| `python -m benchmarks.persons --data DIR` | persons with several records |
| `python -m benchmarks.learning --data DIR` | bins and categories that are learned |
| `python -m benchmarks.two_tables --data DIR` | a parent table and its children |
| `python -m benchmarks.local --data DIR` | the local model |
| `python -m benchmarks.attacks` | attacks |
| `python -m benchmarks.attacks --only membership` | membership, against the bound |
| `python -m benchmarks.scale` | reading and counting, beside polars, pyarrow and DuckDB, in one process and by Spark |
| `python -m benchmarks.ledger` | durable charges, in a file and on PostgreSQL, and while processes are killed |
| `python -m benchmarks.server` | the server under load |
| `python -m benchmarks.statistics` | means, quantiles, selections |
"""


ACROSS = 4  # panels beside each other


def draw(lines: list[Line], out: Path) -> None:
    """A panel for each table, a line for each method."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "qrelease"
    tables = list(dict.fromkeys(line["table"] for line in lines))
    across = min(max(len(tables), 1), ACROSS)
    down = max(math.ceil(len(tables) / across), 1)
    figure = Figure(figsize=(2.9 * across, 2.7 * down + 0.7), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes in panels[len(tables) :]:
        axes.set_visible(False)
    for axes, table in zip(panels, tables, strict=False):
        for i, ((method, name), marker) in enumerate(zip(METHODS.items(), "osD^vPX", strict=False)):
            found = sorted(
                (x["epsilon"], x["l1"]) for x in lines if (x["table"], x["method"]) == (table, method) and "l1" in x
            )
            if found:
                axes.loglog(*zip(*found, strict=True), color=f"C{i}", marker=marker, label=name.replace("`", ""))
        for method, style in (("independent", "--"), ("floor", ":")):
            level = [x["l1"] for x in lines if (x["table"], x["method"]) == (table, method)]
            if level:
                axes.axhline(level[0], color="#777777", linestyle=style, label=METHODS[method])
        axes.set(title=table, xlabel="epsilon")
    figure.supylabel("mean L1 of three-way marginals", fontsize=9)
    shown = [panel.get_legend_handles_labels() for panel in panels]
    handles, labels = max(shown, key=lambda found: len(found[1]))
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    PAGE.write_text(markdown(), encoding="utf-8")
    draw(lines_of("synthesizers"), PAGE.parent / PICTURE)


if __name__ == "__main__":
    main()
