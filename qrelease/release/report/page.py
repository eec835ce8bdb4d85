"""`html`: a release as one self-contained page, for whoever receives it: what was promised, bought and found.

It reads the release only, which is public, so all of it is post-processing. There is no clock and no random choice in
it: the same release gives the same page. The page loads nothing and runs nothing, and its own policy forbids both.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from qrelease._util.texts import readable
from qrelease.inference.measurement import Measurement, as_stored
from qrelease.inference.synopsis import MISSED, Fitted
from qrelease.noise.distributions import CONFIDENCE
from qrelease.privacy.conversions import guessing_chance
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, Spend
from qrelease.privacy.filters import Filter
from qrelease.queries.families import Cells, Intervals, Queries, Residuals, Vectors
from qrelease.queries.workload import Workload
from qrelease.release.answer_table import MAX_ANSWERS
from qrelease.release.few_records import few_records
from qrelease.release.parameter_words import in_words
from qrelease.release.promise import (
    at_most,
    closeness,
    is_person,
    made_by,
    odds,
    otherwise_and_doubt,
    schema_in_words,
    unit_names,
)
from qrelease.release.report.figures import figures
from qrelease.release.report.numbers import number_tables
from qrelease.release.report.svg import bar, count, text
from qrelease.release.report.tables import LISTED, folded, html_table, pairs
from qrelease.release.schema_cost import cost_with_schema, learned_columns
from qrelease.release.unmeasured import unmeasured_sets, what_records_lack

if TYPE_CHECKING:
    from qrelease.release.release import Release

_ANSWERS = 24  # that are listed one by one
_WEAK = 0.95  # a chance above this is called weak: ε > 2.94
_GROUPS = 200  # groups of queries whose error bars are looked at
_FITS = 0.8  # the least share of answers within their error bars; of a perfect fit it is 0.95
_SYMBOLS = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}


def html(release: Release, page: bool = True) -> str:
    """The page, or for a notebook (`page=False`) a fragment with the warning, if any, and the key figures."""
    head = f"{_alarm(release)}{_missed(release)}<h1>{_title(release)}</h1>{_lead(release)}{_facts(release)}"
    if not page:
        return f'<style>{_css()}</style><div class="qrelease">{head}</div>'
    parts = (_accuracy, _promise, _limits, _asked, number_tables, figures, _budget, _measured, _made)
    return document(_title(release), head + "".join(part(release) for part in parts))


def document(title: str, body: str) -> str:
    """A whole page that loads nothing and runs nothing; both are HTML already."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{_css()}</style></head>"
        f'<body class="qrelease qrelease-page"><main>{body}</main></body></html>\n'
    )


@cache
def _css() -> str:
    return (files("qrelease.release.report") / "report.css").read_text(encoding="utf-8")


def _title(release: Release) -> str:
    return f"Private release of “{text(release.dataset)}”"


def _alarm(release: Release) -> str:
    if not release.insecure:
        return ""
    return (
        '<p class="alarm" role="alert"><strong>INSECURE: this release protects nobody. Do not publish it.</strong>'
        f"<br>Its noise came from a generator with the seed {text(release.insecure_seed)}. Whoever knows or guesses"
        " the seed can take the noise away. It is fit for tests only.</p>"
    )


def _missed(release: Release) -> str:
    """A warning where the synthetic records miss what was measured."""
    if not isinstance(release.synopsis, Fitted) or release.synopsis.misfit <= MISSED:
        return ""
    return (
        '<p class="alarm" role="alert"><strong>The synthetic records miss what was measured of the table.</strong>'
        f"<br>They are off by {release.synopsis.misfit:.3g} times the noise of the measurements, as a root mean square;"
        " noise alone makes up to 1. The answers of this release follow the measurements. Take these, and not counts of"
        " synthetic records.</p>"
    )


def _lead(release: Release) -> str:
    schema = f", beside what learning its schema cost: {text('; '.join(map(str, release.learned)))}"
    return (
        f'<p class="lead">{len(release.workload):,} answers about {len(release.domain)} columns, given by'
        f" <strong>{text(made_by(release))}</strong> at a privacy cost of <strong>{text(release.cost)}</strong>"
        f"{schema if release.learned else ''}.</p>"
    )


def _facts(release: Release) -> str:
    about = "" if release.unit.public_records else "about "
    person = {"unit": "a person", "records of each": f"{at_most(release)}"} if is_person(release) else {}
    facts = {
        **{_SYMBOLS[name]: f"{value:g}" for name, value in release.cost.to_json().items()},
        "neighbours": release.neighbours.value,
        **person,
        "persons" if release.unit.counts_once else "records": f"{about}{release.synopsis.total:,.0f}",
        "queries": f"{len(release.workload):,}",
        "cells of the universe": readable(release.domain.size),
    }
    items = (f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{"".join(items)}</dl>'


def _promise(release: Release) -> str:
    """The guarantee in words (Dwork & Roth 2014, Def. 2.4), and as odds."""
    added = release.neighbours is Neighbours.ADD_REMOVE
    one, all_others = unit_names(release)
    otherwise, doubt = otherwise_and_doubt(release)
    otherwise = otherwise[0].upper() + otherwise[1:]
    cost = cost_with_schema(release)
    relation = (
        _of_persons(release, added)
        if is_person(release)
        else "Neighbouring tables differ by one record that is there or is not. So it stays hidden whether any one"
        " record is in the table, and with it everything that the record says. The number of records is private as"
        " well: the one given here is noisy, and its noise was paid for."
        if added
        else "Neighbouring tables differ in what one record says. So all of that stays hidden. How many records there"
        " are does not: their number is public."
    )
    heading = "What a secure release would have promised" if release.insecure else "What was promised"
    weak = " <strong>That is a weak promise.</strong>" if guessing_chance(cost) > _WEAK else ""
    return (
        f"<h2>{heading}</h2><p>Take any one {one}, and anything that somebody might conclude from this release."
        f" <strong>{otherwise}, the probability that they conclude it would have been the same within a factor of"
        f" {_closeness(cost)}.</strong> This holds whatever they know, whatever they compute, now and later."
        f"</p><p>As odds: somebody who knows {all_others}, and holds it for a toss-up {doubt}, will be right"
        f" about it with probability at most <strong>{odds(cost)}</strong> once they have seen"
        f" this release.{weak}</p><p>{relation} (The relation is called <em>{release.neighbours.value}</em>.)</p>"
    )


def _of_persons(release: Release, added: bool) -> str:
    """What neighbouring tables are where the unit is a person, and what became of the records."""
    column = text(release.workload.domain.person.column) if release.workload.domain.person else ""
    of_all = (
        "Neighbouring tables differ by one person with all records of theirs. So it stays hidden whether anybody is in"
        " the table, and with it everything that their records say together, and how many these are."
        if added
        else "Neighbouring tables differ in what the records of one person say, and in how many there are. So all of"
        " that stays hidden. How many persons there are does not: their number is public, and that of the records is"
        " not."
    )
    if release.unit.at_most is None:
        return (
            f"Neighbouring tables differ {'by' if added else 'in all that is said of'} one person. Each person is one"
            f" record here, made of all records with their <em>{column}</em>, which is not released. "
            + ("So their number is private, and the one given here is noisy." if added else "Their number is public.")
        )
    counted = (
        "and each person counts once: with k records that were kept, each of these counts 1/k. So all numbers here are"
        " of persons, and a synthetic row is like one record, taken at random, of a person taken at random."
        if release.unit.counts_once
        else "and all numbers here are of the records that were kept."
    )
    person = release.workload.domain.person
    differ = ", ".join(() if person is None else person.distinct)
    counted += f" Of records of a person that are equal in {text(differ)} one was kept." if differ else ""
    return (
        f"{of_all} Who a record belongs to is said by the column <em>{column}</em>, which is not released. Of each"
        f" person {at_most(release)} records were kept, chosen at random, {counted} What share of all records was kept"
        " is private: it was not paid for, and is not told."
    )


def _closeness(cost: Cost) -> str:
    """As `promise.closeness`, with the formula where there is one."""
    said = re.sub(r"^10\^(\d+)", r"10<sup>\1</sup>", closeness(cost))
    return said if isinstance(cost, ZCDP) else f"e<sup>ε</sup> = {said}"


def _limits(release: Release) -> str:
    grows = "ρ is g² times" if isinstance(release.cost, ZCDP) else "ε is g times"
    further = ", and δ grows faster still" if isinstance(release.cost, ApproxDP) and release.cost.delta else ""
    unit = f"The unit is one record. Somebody with g records in the table is protected less: {grows} as large{further}."
    person = release.workload.domain.person
    if is_person(release) and person is not None:
        unit = (
            f"The unit is one person: all records with one value of <em>{text(person.column)}</em>. A group of g such"
            f" persons is protected less: {grows} as large{further}."
        )
    items = (
        unit,
        "What is true of people in general is the purpose of a release. If it shows that most people of some kind earn"
        " little, then that is learnt about each of them, whether they are in the table or not.",
        "Whoever held the table saw it, and is trusted. The protection begins with this release.",
        text(_of_schema(release)),
        f"Other releases from the same records cost more. The ledger of “{text(release.dataset)}” adds up those that"
        " were made through it, and no others.",
    )
    return f"<h2>What is not protected</h2><ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _of_schema(release: Release) -> str:
    """What of the schema is public knowledge, and what was learned."""
    public = "The schema is public: names of columns, categories, bins."
    if learned_columns(release):
        return f"{public} {schema_in_words(release)} All else of it must not have been taken from the records."
    return (
        f"{public} It must not have been taken from the records, unless it was learned for a charge of the same ledger,"
        " which comes on top."
    )


def _asked(release: Release) -> str:
    families: Counter[tuple[str, int]] = Counter()
    queries: Counter[tuple[str, int]] = Counter()
    for group in release.workload.groups:
        family = _family(group.queries), len(group.axes)
        families[family] += 1
        queries[family] += group.queries.count
    rows = [(f"{families[f]:,}", f[0], str(f[1]), f"{queries[f]:,}") for f in families]
    asked = html_table({"how many": True, "of what": False, "columns in each": True, "queries": True}, rows)
    return f"<h2>What was asked</h2>{asked}{_answers(release)}"


def _family(queries: Queries) -> str:
    match queries:
        case Cells():
            return "marginals"
        case Intervals(prefixes=prefixes):
            return "prefixes" if prefixes else "ranges"
        case Vectors(conditions=conditions) if conditions:
            return "conditions"
    return "lists of vectors"


def _answers(release: Release) -> str:
    """The first answers to queries that are no cells of a marginal, and so are in no picture."""
    groups = tuple(g for g in release.workload.groups if not isinstance(g.queries, Cells))
    if not groups:
        return ""
    workload, whole = Workload(release.domain, groups[:_ANSWERS]), sum(g.queries.count for g in groups)
    counts = release.published(workload)
    found = counts.answers, as_stored(counts.bars), counts.noisy, counts.widths
    rows = [
        (text(query), _with_bar(value, bar), "" if math.isnan(error) else _with_bar(noisy, error))
        for query, value, bar, noisy, error in islice(zip(workload.texts(), *found, strict=True), _ANSWERS)
    ]
    more = f"<p class=note>and {whole - _ANSWERS:,} more</p>" if whole > _ANSWERS else ""
    return html_table({"query": False, "records": True, "measured": True}, rows) + more


def _with_bar(value: float, bar: float) -> str:
    return count(value) if math.isnan(bar) else f"{count(value)} ± {count(bar)}"


def _accuracy(release: Release) -> str:
    """What the error bars say of each answer, and the mechanism's theorem of all together, where there is one."""
    few = few_records(release)
    said = f"<p><strong>{text(few)}</strong></p>" if few else ""
    parts = (_fit, _lacking, _bars, _theorem, _files)
    return f"<h2>How accurate is this</h2>{said}{''.join(part(release) for part in parts)}"


def _fit(release: Release) -> str:
    """How far synthetic records are from what was measured, where they were fitted to it."""
    if not isinstance(release.synopsis, Fitted):
        return ""
    return (
        "<p>Synthetic records were fitted to what was measured. They differ from it by"
        f" <strong>{release.synopsis.misfit:.3g} times</strong> its noise, as a root mean square; up to 1 is what noise"
        " alone makes.</p>"
    )


def _lacking(release: Release) -> str:
    """What synthetic records are not made from, and which answers were not measured."""
    said = [*(what_records_lack(release) if release.has_table else ()), *filter(None, [unmeasured_sets(release)])]
    return "".join(f"<p>{text(lacking[0].upper() + lacking[1:])}.</p>" for lacking in said)


def _bars(release: Release) -> str:
    """The typical widths of the error bars to publish, by the number of columns; and how the answers fit the noise."""
    rows = []
    orders = sorted({len(g.axes) for g in release.workload.groups})
    for order in orders:
        groups = [g for g in release.workload.groups if len(g.axes) == order]
        some = Workload(release.domain, tuple(groups[:: -(-len(groups) // _GROUPS)]))
        counts = release.published(some)
        answers, widths = counts.answers, as_stored(counts.bars)
        known = widths[~np.isnan(widths)]
        if not len(known):
            continue
        middle, high = np.quantile(known, [0.5, 0.95])
        typical = float(np.median(answers))
        queries = sum(g.queries.count for g in groups)
        rows.append(
            (str(order), f"{queries:,}", count(typical), f"± {count(float(middle))}", f"± {count(float(high))}")
        )
    names = ("columns", "queries", "half of the answers are below", "half of the bars are within", "95 % of them")
    header = dict.fromkeys(names, True)
    if not rows:
        return "<p>No error bar can be given: not even the number of records was measured.</p>"
    return (
        "<p>Publish each answer with its error bar, <code>answer</code> ± <code>model_95</code>: the truth lies within"
        f" it with probability {CONFIDENCE:.0%}, for each answer by itself. Where a group of queries was not measured,"
        " the bar is what the measured margins allow, and so rather wide. How wide the bars are, in records, by the"
        f" number of columns that a query is about:</p>{html_table(header, rows)}{_misfit(release)}"
    )


def _misfit(release: Release) -> str:
    """Whether the answers lie within the error bars of what was measured; in red, where they do not."""
    some = Workload(release.domain, release.workload.groups[:: -(-len(release.workload.groups) // _GROUPS)])
    noisy, widths = release.measured_bars(some)
    measured = ~np.isnan(widths)
    if not measured.any():
        return "<p>None of these answers was measured by itself: all follow from other measurements.</p>"
    within = float((np.abs(release.synopsis.answer(some) - noisy) <= widths)[measured].mean())
    said = f"{within:.0%} of the answers that were measured lie within the error bar of their measurement."
    if within >= _FITS:
        return f"<p>{said}</p>"
    return (
        f'<p class="alarm"><strong>This release misses its own measurements.</strong> Only {said} Use'
        " <code>noisy</code> ± <code>error_95</code> where it is given.</p>"
    )


def _files(release: Release) -> str:
    """How to get the answers that are not in a file."""
    asked = len(release.workload)
    if asked <= MAX_ANSWERS:
        return ""
    return (
        f"<p>There are {asked:,} answers, so no file of them is written unless <code>--answers</code> asks for it; in"
        " Python <code>release.save(folder, answers=True)</code>. <code>release.marginal([…])</code> and"
        " <code>qrelease answer</code> give any of them.</p>"
    )


def _theorem(release: Release) -> str:
    said = release.parameters.get("promise")
    if not isinstance(said, Mapping):
        return ""
    of, chance = text(said.get("of", "what was asked")), f"{1 - said['beta']:.4g}"
    if "excess" in said:
        most = f"{math.ceil(said['excess']):,} records more than the best choice would be"
    elif said["error"] is None:
        return "<p>The theorem of this mechanism promises nothing for so few records at this cost.</p>"
    else:
        most = f"{math.ceil(said['error']):,} records"
    vacuous = said.get("error", 0.0) >= release.synopsis.total
    return (
        f"<p>By the theorem of this mechanism, with probability {chance} no answer to {of} is off by more than"
        f" <strong>{most}</strong>: all of them together, whatever the table."
        f"{' Of so few records that says nothing.' if vacuous else ''} Such a bound is for the worst case; errors are"
        " mostly much smaller.</p>"
    )


def _budget(release: Release) -> str:
    """The parts of the cost, summed up once more from what the release lists."""
    if not release.spends:
        return ""
    unit = release.unit
    total = Filter(unit.of_a_record(release.cost))
    for spend in release.spends:
        total.spend(spend.cost)
    listed = Counter((spend.what, unit.of_the_unit(spend.cost)) for spend in release.spends)
    rows = [(text(what), f"{times}", text(cost.rounded())) for (what, cost), times in listed.items()]
    sum_told = None if total.spent is None else unit.of_the_unit(total.spent).rounded()
    parts = "1 part comes" if len(release.spends) == 1 else f"{len(release.spends)} parts come"
    return (
        f"<h2>Where the budget went</h2><p>{parts} to {text(sum_told)}, within the promised"
        f" {text(release.cost.rounded())}."
        f"{_RESIDUALS if _names_residuals(release) else ''}</p>{_shares(release.spends)}"
        f"{folded('Every part', len(rows))}"
        f"{html_table({'drawn': False, 'times': True, 'cost of each': False}, rows)}</details>"
    )


_RESIDUALS: Final = (
    " Residuals are what counts of some columns say beyond those of fewer: of two columns, by how much each pair of"
    " values occurs more or less often than the counts of either column alone would have it."
)


def _names_residuals(release: Release) -> bool:
    """Whether a part of the cost does: then they are explained there, and else where they were measured."""
    return any("residual" in spend.what for spend in release.spends)


def _shares(spends: Sequence[Spend]) -> str:
    """One bar of the parts by what they did, where all are in one currency."""
    if len({type(spend.cost) for spend in spends}) > 1:
        return ""
    sizes: dict[str, float] = {}
    for spend in spends:
        verb = spend.what.partition(" ")[0]
        sizes[verb] = sizes.get(verb, 0.0) + next(iter(spend.cost.to_json().values()))
    whole = sum(sizes.values())
    return bar({verb: size / whole for verb, size in sizes.items()})


def _measured(release: Release) -> str:
    if not release.measurements:
        return ""
    whole, rows = len(release.measurements), [_measurement(release, m) for m in release.measurements[:LISTED]]
    selected = any(spend.what.startswith("select") for spend in release.spends)
    chosen = ", and choices as the budget lists them" if selected else ""
    of_residuals = any(isinstance(m.group.queries, Residuals) for m in release.measurements)
    told = _RESIDUALS if of_residuals and not _names_residuals(release) else ""
    header = {"columns": False, "answers": True, "noise": False, "scale": True, "times": True, "error bar": True}
    return (
        f"<h2>What was measured</h2><p>{whole:,} groups of answers were drawn with noise{chosen}; everything else"
        " follows from that. The scale of the noise and the error bar are in records, also those of residuals."
        f"{told} The exact number lies within the error bar around the noisy one with probability {CONFIDENCE:.0%}, for"
        " each by itself.</p>"
        f"{folded('Every measurement', len(rows))}{html_table(header, rows, whole)}</details>"
    )


def _measurement(release: Release, m: Measurement) -> tuple[str, ...]:
    # Residuals are drawn as whole numbers, so many times what they are in records.
    multiple = m.group.queries.multiple if isinstance(m.group.queries, Residuals) else 1
    scale, half = m.noise.scale / multiple, m.noise.half_width(m.repeats) / m.repeats / multiple
    return (
        text(" × ".join(release.domain.names[a] for a in m.group.axes)) or "all records",
        f"{m.group.queries.count:,}",
        m.noise.law,
        f"{scale:,.3g}" if scale < 1000 else f"{scale:,.0f}",
        str(m.repeats),
        f"± {half:,.1f}" if half < 1000 else f"± {half:,.0f}",
    )


def _made(release: Release) -> str:
    hidden = ("promise", "predictions")
    parameters = in_words({k: v for k, v in release.parameters.items() if k not in hidden})
    return (
        f"<h2>How it was made</h2>{_chosen(release)}"
        f"<div class=scroll>{pairs({'mechanism': release.mechanism, **parameters})}{pairs(release.versions)}</div>"
        "<p class=note>The manifest <code>release.json</code> lists the workload, each measurement and each part of the"
        " cost. <code>qrelease.load</code> reads it, and answers further questions at no further cost to anybody’s"
        " privacy.</p>"
    )


def _chosen(release: Release) -> str:
    """Why this mechanism, where the choice was left to the program."""
    predictions = release.parameters.get("predictions", ())
    rows = [
        (text(p["mechanism"]), "" if p["error"] is None else f"± {p['error']:,.3g}", text(p["why"]))
        for p in predictions
    ]
    header = {"mechanism": False, "predicted error": True, "from": False}
    if not rows:
        return ""
    return (
        f"<p>The mechanism was chosen for the least error that was predicted, from public facts alone:"
        f" <strong>{text(release.parameters['chosen'])}</strong>. Errors are root mean squares, in records.</p>"
        f"{html_table(header, rows)}"
    )
