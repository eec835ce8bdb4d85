"""The deployment card of a release: what public registries of differential privacy ask, filled in from the manifest.

The questions are those that registries of deployments ask (Dwork, Kohli & Mulligan 2019, "Differential Privacy in
Practice: Expose Your Epsilons!") and the words those of NIST SP 800-226 (2025). What the manifest does not know, the
holder of the data has to say: these fields are marked, and can be given by their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from qrelease._util.texts import readable
from qrelease._util.typing import Axes
from qrelease.data import predicates
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.structural_zeros import masks
from qrelease.errors import InvalidInput
from qrelease.privacy.conversions import zcdp_epsilon
from qrelease.privacy.costs import ZCDP, Neighbours
from qrelease.queries.families import Cells
from qrelease.release.parameter_words import in_words
from qrelease.release.promise import made_by
from qrelease.release.release import Release
from qrelease.release.schema_cost import cost_with_schema, learned_columns

TO_FILL_IN = "TO FILL IN"

HOLDERS: Mapping[str, str] = {
    "name": "what the data product is called",
    "data_controller": "who is responsible for the data, and whom to write to",
    "purpose": "why it is released, and for whom",
    "data_subjects": "whose data they are, when and how they were collected, under which law or consent",
    "records_per_person": "how many records one person may have: the guarantee is for one record",
    "parameter_choice": "who chose the privacy parameters, by what argument",
    "unprotected_quantities_elsewhere": "what about these data was published without differential privacy",
    "budget_policy": "the total budget of these data, over what time, and who may raise it",
    "access_control": "who can reach the records, the ledger and the machine that drew the noise",
    "retention": "how long the records are kept after the release",
    "publication": "where the release is published, and under what licence",
}
"""Fields that only the holder of the data knows, and what each asks."""

_DELTA = 1e-9  # at which a rho is put into words


def card(release: Release, filled: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The card as plain types, section by section.

    Parameters
    ----------
    release
        Made by this or an earlier version.
    filled
        Texts for some of `HOLDERS`, by name.

    Raises
    ------
    InvalidInput
        For a field that is not in `HOLDERS`, and for anything but a text.

    Examples
    --------
    >>> import qrelease as qr
    >>> table = qr.data.adult(["sex", "income"])
    >>> curator = qr.Curator(table, qr.Ledger.open(None, qr.PureDP(1.0)))
    >>> made = curator.release(qr.Laplace(), qr.Workload.marginals(table.domain, 1), qr.PureDP(1.0))
    >>> card(made, {"name": "Adult"})["privacy guarantee"]["privacy parameters"]
    {'epsilon': 1.0}
    """
    told = dict(filled or {})
    for name, value in told.items():
        if name not in HOLDERS:
            raise InvalidInput(f"a card has no field {name!r} to fill in; there are {', '.join(HOLDERS)}")
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(f"{name} must be a text, got {value!r}")
    asked = {**HOLDERS, **_asked_of_persons(release)}
    holder = {name: told.get(name, f"{TO_FILL_IN}: {question}") for name, question in asked.items()}
    return {
        "release": {
            "id": release.id or "none: it was made by an earlier version",
            "date": release.date or "not recorded",
            "dataset": release.dataset,
            "verification": "qrelease verify FOLDER; the files are named in SHA256SUMS",
        },
        "from the holder of the data": holder,
        "privacy guarantee": _guarantee(release),
        "data": _data(release),
        "unprotected quantities": _unprotected(release),
        "mechanism": _mechanism(release),
        "accounting": _accounting(release),
        "implementation": _implementation(release),
        "utility": _utility(release),
    }


def _asked_of_persons(release: Release) -> dict[str, str]:
    """What is asked in other words where whole persons are protected, who may be patients, households or firms."""
    person = release.domain.person
    if person is None:
        return {}
    kept = "one record was made of all" if release.unit.at_most is None else f"at most {release.unit.at_most:,} kept"
    return {
        "records_per_person": f"what a person is here, whose records share a value of {person.column!r}, and how many"
        f" records one may have; of the records of each {kept}"
    }


_MEASURED = {
    "cells": "counts",
    "product": "products of contrasts",
    "residuals": "residuals: sums of counts with whole coefficients, which are large, and so is the scale",
}
"""What is measured, by the type of its queries, where that alone says too little."""


def _guarantee(release: Release) -> dict[str, Any]:
    added = release.neighbours is Neighbours.ADD_REMOVE
    variant = {1: "pure differential privacy", 2: "approximate differential privacy"}
    cost = cost_with_schema(release)
    parameters: dict[str, Any] = dict(cost.to_json())
    kind = "zero-concentrated differential privacy" if isinstance(cost, ZCDP) else variant[len(parameters)]
    if isinstance(cost, ZCDP):
        parameters[f"epsilon at delta {_DELTA:g}"] = float(f"{zcdp_epsilon(cost.rho, _DELTA):.4g}")
    relation = "unbounded" if added else "bounded"
    differ = "there or not" if added else "another"
    marked = {"warning": "INSECURE: the noise came from a seeded generator, and protects nobody"}
    return {
        "variant": kind,
        "privacy parameters": parameters,
        "unit of privacy": _unit_of_privacy(release),
        "neighbouring relation": f"{release.neighbours.value}: {relation} differential privacy, tables that differ by"
        f" one {_units(release)[:-1]} that is {differ}",
        "trust model": "central: a trusted curator holds the records",
        "query model": "non-interactive: one release, from which further queries are answered by post-processing",
        "holds": not release.insecure,
        **(marked if release.insecure else {}),
    }


def _data(release: Release) -> dict[str, Any]:
    return {
        "universe": f"{readable(release.domain.size)} cells, public before the data were read{_but_learned(release)}",
        **({} if release.domain.review is None else {"schema reviewed": str(release.domain.review)}),
        "columns": {a.name: _column(a) for a in release.domain.attributes},
    }


def _but_learned(release: Release) -> str:
    """Of which columns that is not so."""
    columns = ", ".join(learned_columns(release))
    return f", but for the bins and categories of {columns}, which were learned with noise" if columns else ""


def _units(release: Release) -> str:
    """What neighbouring tables differ in one of."""
    return "records" if release.domain.person is None else "persons"


def _unit_of_privacy(release: Release) -> str:
    if release.domain.person is None:
        return "one record: event-level, and user-level only where each person has one record"
    if release.unit.at_most is None:
        return "one person: user-level, by one record that was made of all records of each"
    once = ", and who counts once" * release.unit.counts_once
    return f"one person: user-level, of whom at most {release.unit.at_most:,} records were kept{once}"


def _column(attribute: Attribute) -> str:
    kinds = {"coded": "whole numbers", "category": "categories", "number": "bins of numbers", "date": "bins of dates"}
    missing = ", one of them missing" if attribute.missing else ""
    outside = "" if attribute.outside == "error" else f"; values outside: {attribute.outside}"
    return f"{attribute.size:,} cells of {kinds.get(attribute.kind, attribute.kind)}{missing}{outside}"


def _unprotected(release: Release) -> list[str]:
    """What a reader may take for protected and is not."""
    found = [
        "the schema: names of columns, categories and bins, which must come from public knowledge"
        + _but_learned(release)
    ]
    if release.neighbours is Neighbours.REPLACE_ONE:
        found.append(f"the number of {_units(release)}, which neighbouring tables share")
    if release.domain.impossible:
        found.append(f"public rules on what no record can be: {'; '.join(_rules(release.domain))}")
    given = [name for name in ("records", "weights", "rounds") if release.parameters.get(name) is not None]
    if given:
        found.append("the parameters of the mechanism, as far as its user gave them, see below")
    found.append("that the release was made, when, and how large its files are")
    return found


def _rules(domain: Domain) -> list[str]:
    """The rules, those of a hierarchy in one text: each category of a column is possible with one of another only."""
    by_columns: dict[Axes, list[str]] = {}
    for rule in domain.impossible:
        by_columns.setdefault(predicates.parse(rule, domain).axes, []).append(rule)
    found = []
    for axes, rules in by_columns.items():
        below = None
        if len(axes) == 2 and len(rules) > 1:
            cells = ~masks(domain, rules)[axes].reshape([domain.shape[a] for a in axes])
            rows, columns = (domain.attributes[a].values for a in axes)
            allowed = cells[:rows, :columns]  # the last cells, of missing values, go with any other
            if not (cells[rows:].all() and cells[:, columns:].all()):
                allowed = cells
            for child, counts in ((axes[1], allowed.sum(0)), (axes[0], allowed.sum(1))):
                parents = allowed.size // len(counts)
                if parents < len(counts) and ((counts == 1) | (counts == parents)).all() and (counts == 1).any():
                    parent = axes[0] if child == axes[1] else axes[1]
                    listed = int((counts == 1).sum())
                    below = f"{domain.names[child]} belongs to {domain.names[parent]} (code list, {listed:,} codes)"
        found += rules if below is None else [below]
    return found


def _mechanism(release: Release) -> dict[str, Any]:
    families = Counter(
        "marginals" if isinstance(g.queries, Cells) else "other queries" for g in release.workload.groups
    )
    noise = Counter(
        (m.noise.law, f"{m.noise.scale:.4g}", str(m.group.queries.to_json()["type"])) for m in release.measurements
    )
    hidden = ("promise", "predictions", "certificate")
    return {
        "name": made_by(release),
        "parameters": in_words({k: v for k, v in release.parameters.items() if k not in hidden}),
        "workload": f"{len(release.workload):,} queries: "
        + ", ".join(f"{number:,} {name}" for name, number in families.items()),
        "noise": [
            f"{law}, scale {scale}, on {number:,} group{'s' * (number > 1)} of {_MEASURED.get(kind, kind)}"
            for (law, scale, kind), number in noise.most_common(20)
        ],
        "different noises": len(noise),
    }


def _accounting(release: Release) -> dict[str, Any]:
    # The manifest has what a part costs one record; what is promised, and the sum of the parts, is of the whole unit.
    kinds = Counter(
        f"{spend.what.partition(' ')[0]}: {release.unit.of_the_unit(spend.cost).rounded()}" for spend in release.spends
    )
    return {
        "composition": "adaptive sequential composition by a privacy filter over exact sums, before each draw",
        "parts": [f"{number:,} × {what}" for what, number in kinds.most_common(20)],
        "all parts": len(release.spends),
        **(
            {"the release": str(release.cost), "its schema, learned before": [str(part) for part in release.learned]}
            if release.learned
            else {}
        ),
        "budget": f"a durable ledger of dataset {release.dataset!r}; `qrelease ledger show --json` publishes it",
        "post-processing": "synthetic records, answers, error bars and the report are functions of the noisy answers",
    }


def _implementation(release: Release) -> dict[str, Any]:
    return {
        "software": {"name": "qrelease", "licence": "Apache-2.0", **dict(release.versions)},
        "random source": "a seeded generator: INSECURE"
        if release.insecure
        else "AES-256 in counter mode, keyed from the operating system (os.urandom)",
        "finite precision": "discrete noise by exact integer samplers on integer data; no floating point is drawn from",
        "side channels": "no defence against timing: the running time may depend on the records; keep it private",
        "security of the records": "as the holder says above; qrelease keeps no copy of them",
    }


def _utility(release: Release) -> dict[str, Any]:
    promise = release.parameters.get("promise")
    found = [p for p in release.parameters.get("predictions", ()) if p["mechanism"] == release.parameters["chosen"]]
    known = [float(f"{p['error']:.4g}") for p in found if p["error"] is not None]
    return {
        **({"predicted error of an answer, records (root mean square)": known[0]} if known else {}),
        "error bars": "each answer has a 95 % half-width, of its noise and of what a model smooths over (`model_95`)",
        "promised error": promise if isinstance(promise, Mapping) else "none by theorem",
        "bias": "tables have no negative counts, so small cells are biased upwards; `noisy` is unbiased",
    }


def markdown(content: Mapping[str, Any]) -> str:
    """A card as text."""
    return "\n".join(["# Deployment card of a differentially private release", *_lines(content, 2)]) + "\n"


def _lines(content: Mapping[str, Any], level: int) -> list[str]:
    found: list[str] = []
    for name, value in content.items():
        title = name.replace("_", " ")
        if level == 2:
            found += ["", f"{'#' * level} {title[:1].upper()}{title[1:]}", ""]
            found += _lines(value, level + 1) if isinstance(value, Mapping) else [f"- {_plain(v)}" for v in value]
        elif isinstance(value, Mapping):
            found += [f"- **{title}**", *(f"    - {_plain(k)}: {_plain(v)}" for k, v in value.items())]
        elif isinstance(value, list):
            found += [f"- **{title}**", *(f"    - {_plain(v)}" for v in value)]
        else:
            found.append(f"- **{title}**: {_plain(value)}")
    return found


def _plain(value: object) -> str:
    """One line, in which nothing but words is meant: names of columns are untrusted."""
    text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else " ".join(str(value).split())
    return "".join(f"\\{c}" if c in "\\`*_<>[]#|" else c for c in text)
