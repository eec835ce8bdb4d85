"""Rules by which all records of a person become one record, as the number of visits, or whether any was an emergency.

A schema says them in `[person.derive]`; its attributes are then those of the records that are read, and what is
released has the derived columns, a record a person:

    [person]
    column = "patient_id"

    [person.derive]
    visits    = { take = "count", bins = [0, 1, 2, 5, 10, 50] }
    emergency = { take = "any", where = "kind = 'emergency'" }
    worst     = { take = "max", of = "severity" }
    ward      = { take = "most frequent", of = "ward", where = "year >= 2020" }
    first     = { take = "first", of = "ward", by = "year" }

Every rule is a function of one person's records, in any order: so a person moves one record of the result, and no bound
is needed. Among equals `first` takes the lowest value, `last` the highest, and `most frequent` the lowest of those that
are as frequent. Where a person has no such records `count` and `sum` are 0, `any` is no, and the others are missing.

Whoever is in the data has a record. So where the schema has no missing value for what is taken, or for what says which
record comes first, and no condition leaves records out, every person has a value: then there is no missing cell. A rule
says `missing = false` for that, or `missing = true` for the cell all the same; in the manifests of earlier versions,
which say neither, there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.person import Derived, Person
from qrelease.errors import InvalidInput

_COUNTED: Final = ("count", "sum")
_KEYS: Final = {
    "count": ("bins",),
    "any": (),
    "sum": ("of", "bins"),
    "min": ("of",),
    "max": ("of",),
    "first": ("of", "by"),
    "last": ("of", "by"),
    "most frequent": ("of",),
}
"""What each way to take a value needs, beside a condition, which each may have."""


def rules(entry: object, edges: Callable[[object, str], tuple[float, ...]]) -> tuple[Derived, ...]:
    """The rules of a schema's entry, checked; `InvalidInput` that names the column.

    edges  makes edges of the text of bins
    """
    if not isinstance(entry, Mapping) or not entry:
        raise InvalidInput('person: derive must be a table of columns, each { take = "count", … }')
    found = []
    for name, rule in entry.items():
        if not isinstance(rule, Mapping) or rule.get("take") not in _KEYS:
            raise InvalidInput(f"derived {name!r}: take must be one of {', '.join(_KEYS)}, got {rule!r}")
        needed = _KEYS[rule["take"]]
        absent = [key for key in needed if key not in rule]
        cell = () if rule["take"] in (*_COUNTED, "any") else ("missing",)
        unknown = [key for key in rule if key not in ("take", "where", *needed, *cell)]
        if absent or unknown:
            wrong = f"needs {absent[0]}" if absent else f"has no key {unknown[0]!r}"
            raise InvalidInput(f"derived {name!r}: {rule['take']} {wrong}")
        texts = {key: rule.get(key) for key in ("of", "by", "where")}
        if not all(value is None or isinstance(value, str) for value in texts.values()):
            raise InvalidInput(f"derived {name!r}: of, by and where must be texts")
        if not isinstance(rule.get("missing", True), bool):
            raise InvalidInput(f"derived {name!r}: missing must be true or false")
        bins = edges(rule["bins"], "number") if "bins" in rule else ()
        always = rule.get("missing") is False
        found.append(Derived(str(name), rule["take"], **texts, edges=bins, always=always))
    return tuple(found)


def without_phantoms(domain: Domain, entry: Mapping[str, Mapping[str, object]]) -> Domain:
    """The domain of a schema file, without missing cells that nobody can be in, where the file does not ask for them.

    entry  the rules as the file has them
    """
    person = domain.person
    assert person is not None
    records = Domain(person.records, code_lists=domain.code_lists, review=domain.review)
    derive = tuple(
        replace(rule, always=True) if "missing" not in entry[rule.name] and has_always(records, rule) else rule
        for rule in person.derive
    )
    return derived_domain(records, replace(person, derive=derive, records=()))


def has_always(records: Domain, rule: Derived) -> bool:
    """Whether every person has a value whatever the records are, by the schema alone."""
    if rule.take in (*_COUNTED, "any") or rule.of is None or rule.where is not None:
        return False
    needed = [records[name] for name in (rule.of, rule.by) if name is not None]
    return all(not attribute.undecided and attribute.values == attribute.size for attribute in needed)


def derived_domain(records: Domain, person: Person) -> Domain:
    """The domain of one record a person, of what the rules make of the records.

    Raises `InvalidInput` for a rule about an attribute that there is not, or that does not fit it.
    """
    if records.impossible:
        raise InvalidInput("person: derive cannot be used with [[impossible]] rules, which are about single records")
    if person.at_most != 1:
        raise InvalidInput(f"person: with derive there is one record a person, so at_most is 1, got {person.at_most}")
    attributes = tuple(_attribute(records, rule) for rule in person.derive)
    person = replace(person, records=records.attributes)
    return Domain(attributes, code_lists=records.code_lists, person=person, review=records.review)


def _attribute(records: Domain, rule: Derived) -> Attribute:
    try:
        if rule.take == "any":
            return Attribute(rule.name, "category", categories=("no", "yes"))
        of = None if rule.of is None else records[rule.of]
        if rule.take in _COUNTED:
            if of is not None and values_of(of) is None:
                raise InvalidInput(
                    f"a sum needs whole numbers: codes, or bins of one number each, which {of.name!r} does not have"
                )
            return Attribute(rule.name, "number", edges=rule.edges, integer=True, ordered=True, outside="clip")
        assert of is not None
        ranked = of if rule.take in ("min", "max") else None if rule.by is None else records[rule.by]
        if ranked is not None and not ranked.ordered:
            raise InvalidInput(f"{rule.take} needs an order, and {ranked.name!r} has none")
        if rule.always and not has_always(records, rule):
            raise InvalidInput("missing = false: a person may have no such value, by what the schema says")
        return replace(of, name=rule.name, missing=() if rule.always else of.missing or ("",))
    except InvalidInput as error:
        raise InvalidInput(f"derived {rule.name!r}: {error}") from None


def values_of(attribute: Attribute) -> Sequence[float] | None:
    """The whole number that each cell stands for; None where it stands for none, or for several."""
    if attribute.kind == "coded":
        return range(attribute.codes)
    if attribute.kind != "number" or not attribute.whole:
        return None
    single = all(high - low == 1 for low, high in zip(attribute.edges, attribute.edges[1:], strict=False))
    return attribute.edges[:-1] if single else None
