"""`html`: a release as one self-contained page, for whoever receives it: what was promised, bought and found.

It reads the release only, which is public, so all of it is post-processing. There is no clock and no random choice in
it: the same release gives the same page. The page loads nothing and runs nothing, and its own policy forbids both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice

import numpy as np

from qrelease.chart import bar, count, text
from qrelease.contracts import Model
from qrelease.domain import readable
from qrelease.measure import CONFIDENCE, Measurement, Spend
from qrelease.pictures import figures
from qrelease.privacy import ZCDP, ApproxDP, Cost, Filter, Neighbours, PureDP, zcdp_epsilon
from qrelease.queries import Cells, Intervals, Queries, Vectors
from qrelease.release import Release
from qrelease.workload import Workload

_LISTED = 200  # rows of a table; the manifest has them all
_OPEN = 12  # a table of more rows is folded away
_ANSWERS = 24  # that are listed one by one
_WEAK = 0.95  # a chance above this is called weak: ε > 2.94
_DELTA = 1e-9  # at which a rho is put into words
_SYMBOLS = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}


def html(release: Release, page: bool = True) -> str:
    """The page, or for a notebook (`page=False`) a fragment with the warning, if any, and the key figures."""
    head = f"{_alarm(release)}<h1>{_title(release)}</h1>{_lead(release)}{_facts(release)}"
    if not page:
        return f'<style>{_css()}</style><div class="qrelease">{head}</div>'
    parts = (_promise, _limits, _asked, _accuracy, figures, _budget, _measured, _made)
    body = head + "".join(part(release) for part in parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{_title(release)}</title><style>{_css()}</style></head>"
        f'<body class="qrelease qrelease-page"><main>{body}</main></body></html>\n'
    )


@cache
def _css() -> str:
    return (files("qrelease") / "report.css").read_text(encoding="utf-8")


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


def _lead(release: Release) -> str:
    return (
        f'<p class="lead">{len(release.workload):,} answers about {len(release.domain)} columns, given by'
        f" <strong>{text(release.mechanism)}</strong> at a privacy cost of <strong>{text(release.cost)}</strong>.</p>"
    )


def _facts(release: Release) -> str:
    about = "about " if release.neighbours is Neighbours.ADD_REMOVE else ""
    facts = {
        **{_SYMBOLS[name]: f"{value:g}" for name, value in release.cost.to_json().items()},
        "neighbours": release.neighbours.value,
        "records": f"{about}{release.synopsis.total:,.0f}",
        "queries": f"{len(release.workload):,}",
        "cells of the universe": readable(release.domain.size),
    }
    items = (f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{"".join(items)}</dl>'


def _promise(release: Release) -> str:
    """The guarantee in words (Dwork & Roth 2014, Def. 2.4), and as odds."""
    added = release.neighbours is Neighbours.ADD_REMOVE
    otherwise = "Had that record not been in the table" if added else "Had that record said anything else"
    doubt = "whether that one is there at all" if added else "which of two things that one says"
    relation = (
        "Neighbouring tables differ by one record that is there or is not. So it stays hidden whether any one record is"
        " in the table, and with it everything that the record says. The number of records is private as well: the one"
        " given here is noisy, and its noise was paid for."
        if added
        else "Neighbouring tables differ in what one record says. So all of that stays hidden. How many records there"
        " are does not: their number is public."
    )
    heading = "What a secure release would have promised" if release.insecure else "What was promised"
    chance = _chance(release.cost)
    weak = " <strong>That is a weak promise.</strong>" if chance > _WEAK else ""
    return (
        f"<h2>{heading}</h2><p>Take any one record, and anything that somebody might conclude from this release."
        f" <strong>{otherwise}, the probability that they conclude it would have been the same within a factor of"
        f" {_closeness(release.cost)}.</strong> This holds whatever they know, whatever they compute, now and later."
        f"</p><p>As odds: somebody who knows every other record, and holds it for a toss-up {doubt}, will be right"
        f" about it with probability at most <strong>{math.ceil(chance * 1000) / 10:.1f} %</strong> once they have seen"
        f" this release.{weak}</p><p>{relation} (The relation is called <em>{release.neighbours.value}</em>.)</p>"
    )


def _closeness(cost: Cost) -> str:
    match cost:
        case PureDP(epsilon) | ApproxDP(epsilon, 0.0):
            return f"e<sup>ε</sup> = {_factor(epsilon)}"
        case ApproxDP(epsilon, delta):
            return f"e<sup>ε</sup> = {_factor(epsilon)}, give or take δ = {delta:g}"
        case ZCDP(rho):
            factor = _factor(zcdp_epsilon(rho, _DELTA))
            return f"{factor}, give or take {_DELTA:g} (this is zero-concentrated privacy with ρ = {rho:g})"


def _factor(epsilon: float) -> str:
    """e^ε, rounded up."""
    if epsilon > 13:
        return f"10<sup>{math.ceil(epsilon / math.log(10))}</sup>"
    digits = 2 if epsilon < 4 else 0
    return f"{math.ceil(math.exp(epsilon) * 10**digits) / 10**digits:,.{digits}f}"


def _chance(cost: Cost) -> float:
    """The best chance to tell two equally likely neighbours apart, (1 + total variation) / 2.

    Under (ε, δ) it is at most (e^ε + δ) / (e^ε + 1) [Kairouz, Oh & Viswanath 2015]; under ρ the total variation is at
    most √(ρ/2) (Pinsker) and √(1 - e^-ρ) (Bretagnolle & Huber).
    """
    if isinstance(cost, ZCDP):
        return (1 + min(math.sqrt(cost.rho / 2), math.sqrt(-math.expm1(-cost.rho)))) / 2
    delta = cost.delta if isinstance(cost, ApproxDP) else 0.0
    inverse = math.exp(-cost.epsilon)
    return (1 + delta * inverse) / (1 + inverse)


def _limits(release: Release) -> str:
    grows = "ρ is g² times" if isinstance(release.cost, ZCDP) else "ε is g times"
    further = ", and δ grows faster still" if isinstance(release.cost, ApproxDP) and release.cost.delta else ""
    items = (
        f"The unit is one record. Somebody with g records in the table is protected less: {grows} as large{further}.",
        "What is true of people in general is the purpose of a release. If it shows that most people of some kind earn"
        " little, then that is learnt about each of them, whether they are in the table or not.",
        "Whoever held the table saw it, and is trusted. The protection begins with this release.",
        "The schema is public: names of columns, categories, bins. It must not have been taken from the records.",
        f"Other releases from the same records cost more. The ledger of “{text(release.dataset)}” adds up those that"
        " were made through it, and no others.",
    )
    return f"<h2>What is not protected</h2><ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _asked(release: Release) -> str:
    families: Counter[tuple[str, int]] = Counter()
    queries: Counter[tuple[str, int]] = Counter()
    for group in release.workload.groups:
        family = _family(group.queries), len(group.axes)
        families[family] += 1
        queries[family] += group.queries.count
    rows = [(f"{families[f]:,}", f[0], str(f[1]), f"{queries[f]:,}") for f in families]
    table = _table({"how many": True, "of what": False, "columns in each": True, "queries": True}, rows)
    return f"<h2>What was asked</h2>{table}{_answers(release)}"


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
    found = release.synopsis.answer(workload), release.model_bars(workload), *release.error_bars(workload)
    rows = [
        (text(query), _with_bar(value, bar), "" if math.isnan(error) else _with_bar(noisy, error))
        for query, value, bar, noisy, error in islice(zip(workload.texts(), *found, strict=True), _ANSWERS)
    ]
    more = f"<p class=note>and {whole - _ANSWERS:,} more</p>" if whole > _ANSWERS else ""
    return _table({"query": False, "records": True, "measured": True}, rows) + more


def _with_bar(value: float, bar: float) -> str:
    return count(value) if math.isnan(bar) else f"{count(value)} ± {count(bar)}"


def _accuracy(release: Release) -> str:
    """What the error bars say of each answer, and the mechanism's theorem of all together, where there are any."""
    said = _bars(release) + _theorem(release)
    return said and f"<h2>How close the answers are</h2>{said}"


def _bars(release: Release) -> str:
    """The typical widths, where the model has error bars of its own."""
    if not isinstance(release.synopsis, Model):  # before every answer is put together for nothing
        return ""
    model, (_, unbiased) = release.model_bars(), release.error_bars()
    if np.isnan(model).all():
        return ""
    of_model, of_unbiased = (f"± {count(float(np.nanmedian(widths)))}" for widths in (model, unbiased))
    return (
        "<p>Each query has two answers, each with an error bar, within which the truth lies with probability"
        f" {CONFIDENCE:.0%}, for each by itself: what the model says, which is the one to use, and an unbiased one from"
        f" the measurements alone. Half of the model’s bars are narrower than <strong>{of_model} records</strong>,"
        f" half of the others than {of_unbiased}.</p>"
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
    total = Filter(release.cost)
    for spend in release.spends:
        total.spend(spend.cost)
    listed = Counter((spend.what, spend.cost) for spend in release.spends)
    rows = [(text(what), f"{times}", text(cost)) for (what, cost), times in listed.items()]
    parts = "1 part comes" if len(release.spends) == 1 else f"{len(release.spends)} parts come"
    return (
        f"<h2>Where the budget went</h2><p>{parts} to {text(total.spent)}, within the promised {text(release.cost)}."
        f"</p>{_shares(release.spends)}{_folded('Every part', len(rows))}"
        f"{_table({'drawn': False, 'times': True, 'cost of each': False}, rows)}</details>"
    )


def _folded(summary: str, rows: int) -> str:
    """The opening of a block that can be folded away, and is where it is long."""
    return f"<details{' open' if rows <= _OPEN else ''}><summary>{summary}</summary>"


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
    whole, rows = len(release.measurements), [_measurement(release, m) for m in release.measurements[:_LISTED]]
    selected = any(spend.what.startswith("select") for spend in release.spends)
    chosen = ", and choices as the budget lists them" if selected else ""
    header = {"columns": False, "answers": True, "noise": False, "scale": True, "times": True, "error bar": True}
    return (
        f"<h2>What was measured</h2><p>{whole:,} groups of answers were drawn with noise{chosen}; everything else"
        " follows from that. The scale and the error bar are those of the numbers that were measured: counts of"
        " records, or, where that is more exact, sums of counts times whole numbers. The exact number lies within the"
        f" error bar around the noisy one with probability {CONFIDENCE:.0%}, for each by itself.</p>"
        f"{_folded('Every measurement', len(rows))}{_table(header, rows, whole)}</details>"
    )


def _measurement(release: Release, m: Measurement) -> tuple[str, ...]:
    return (
        text(" × ".join(release.domain.names[a] for a in m.group.axes)) or "all records",
        f"{m.group.queries.count:,}",
        m.noise.law,
        f"{m.noise.scale:,.3g}" if m.noise.scale < 1000 else f"{m.noise.scale:,.0f}",
        str(m.repeats),
        f"± {m.noise.half_width(m.repeats) / m.repeats:,.1f}",
    )


def _made(release: Release) -> str:
    parameters = {k: v for k, v in release.parameters.items() if k not in ("promise", "predictions")}
    return (
        f"<h2>How it was made</h2>{_chosen(release)}"
        f"<div class=scroll>{_pairs({'mechanism': release.mechanism, **parameters})}{_pairs(release.versions)}</div>"
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
        f"{_table(header, rows)}"
    )


def _pairs(content: Mapping[str, object]) -> str:
    rows = "".join(f"<tr><th scope=row>{text(k)}</th><td>{text(v)}</td></tr>" for k, v in content.items())
    return f"<table>{rows}</table>"


def _table(header: Mapping[str, bool], rows: Sequence[Sequence[str]], whole: int | None = None) -> str:
    """A table of cells that are HTML already; the header says which columns hold numbers.

    whole  how many rows there are, if these are only as many as are shown
    """
    whole = len(rows) if whole is None else whole
    kinds = [" class=n" if number else "" for number in header.values()]
    head = "".join(f"<th scope=col{kind}>{text(name)}</th>" for name, kind in zip(header, kinds, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>"
        for row in rows[:_LISTED]
    )
    more = f"<p class=note>and {whole - _LISTED:,} more</p>" if whole > _LISTED else ""
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"
