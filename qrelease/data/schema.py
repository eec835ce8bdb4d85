"""Schemas: what a column may hold, as a TOML file a person reviewed, and as plain JSON values.

A schema is public and comes before the data. One `[[attribute]]` per column, in the order of the universe:

    [[attribute]]
    name = "age"
    kind = "number"                                # category | number | date | coded
    bins = { start = 0, stop = 100, width = 10 }   # or [0, 18, 65, 100]: 0..17, 18..64, 65..99
    integer = true                                 # whole numbers
    missing = ["", "?"]                            # spellings of "missing"; synthetic records have the first
    outside = "clip"                               # error (default) | missing | clip | a category

    [[attribute]]
    name = "price"
    kind = "number"
    within = [0, 1000]                             # values are kept as they are, on the grid 0, 0.01, …, 1000,
    step = 0.01                                    # beside their bins; dates by the second, minute, hour or day
    bins = 20                                      # so many even ones; none where there are at most 64 points
                                                   # or { learn = 32 }: see `qrelease schema learn`

    [[attribute]]
    name = "income"
    kind = "number"
    bins = { start = 0, stop = 100000, width = 5000 }
    decimal = ","                                  # how the data write numbers: 1.234,50 €; dates have
    thousands = "."                                # format = "%d.%m.%Y"
    unit = "€"

    [[attribute]]
    name = "destination"
    kind = "category"
    categories = { learn = true, at_most = 1000 }  # those that many records have; the rest will be `other`

    [[attribute]]
    name = "education"
    kind = "category"
    categories = ["school", "college", "university"]
    ordered = true                                 # ranges such as >= 'college' make sense

    [[attribute]]
    name = "admitted"
    kind = "date"                                  # ISO dates; days, months or years
    bins = { start = 2020-01-01, stop = 2025-01-01, months = 1 }

    [[attribute]]
    name = "ward"
    kind = "coded"
    codes = 12                                     # integer codes 0..11

Bins are half-open, [start, next); only where values are not whole does the last one contain its upper edge.
An entry with `reviewed = false` (a draft's) is refused until a person has set it to true; an entry without
the key was written by hand. Whoever reviewed a schema may say so before its first entry, in `reviewed_by = "a name"`
and `reviewed_on = 2026-01-31`: releases carry it on.

Categories may come from a file, and with them which category of another attribute each belongs to: see `code_lists`.
After the attributes a file may say, in `[[impossible]]` entries, which cells no record can be in: see
`structural_zeros`. An entry `[person]` says whose records they are, where somebody may have several: see `person`.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from qrelease.data import derivation
from qrelease.data.attribute import MAX_POINT_CELLS, Attribute, Kind
from qrelease.data.code_lists import named_files, with_lists, without_children
from qrelease.data.dates import iso_date, moment
from qrelease.data.domain import Domain, Review
from qrelease.data.grids import STEPS
from qrelease.data.person import Person
from qrelease.data.writing import Writing
from qrelease.errors import InvalidInput

MAX_BINS = 1 << 20  # more is a slip in a width, not a histogram

MAX_LEARNED_CATEGORIES = 1000
"""Categories that are learned of a column, at most, where the schema says nothing else."""

_EPOCH = date(1970, 1, 1)
_MAX_FLOAT = Fraction(sys.float_info.max)
_REVIEW = {"reviewed_by": "by", "reviewed_on": "on"}
"""Keys of a schema that say who reviewed it and when, and what a `Review` calls them."""

_PLAIN = Writing()
_WRITING = tuple(asdict(_PLAIN))

_COMMON_KEYS = ("name", "kind", "missing", "outside", "reviewed")
_KEYS_BY_KIND = {
    "coded": ("codes", "ordered"),
    "category": ("categories", "ordered"),
    "number": ("bins", "integer", "within", "step", "shape", "decimal", "thousands", "unit"),
    "date": ("bins", "within", "step", "shape", "format"),
}


def load(path: str | os.PathLike[str], *, undecided: bool = False) -> Domain:
    """Read the domain that a schema declares: TOML as above, or private-pgm's JSON `{"column": size}`.

    Parameters
    ----------
    path
        A file that ends in .json, or else is TOML; or the TOML itself, a text of several lines, as `qr.draft` gives it.
        Lists of codes that such a text names are looked for in the working folder.
    undecided
        Whether it may have bins and categories that are to be learned.

    Returns
    -------
    Domain
        Its columns in the order of the file.

    Raises
    ------
    InvalidInput
        One line that names file, attribute and key, for anything malformed or not yet reviewed.

    Examples
    --------
    >>> from qrelease.data.bundled import ADULT_SCHEMA
    >>> load(ADULT_SCHEMA).names[:3]
    ('age', 'workclass', 'education')
    """
    with _explained(path):
        domain, unreviewed = _declared(path)
        _check_reviewed(unreviewed)
        if not undecided:
            domain.check_decided()
    return domain


def load_draft(path: str | os.PathLike[str], *, undecided: bool = False) -> tuple[Domain, tuple[str, ...]]:
    """A schema that need not be reviewed: its domain, for its owner's eyes alone, as it has values of the data.

    Parameters
    ----------
    path, undecided
        As `load` takes them.

    Returns
    -------
    domain : Domain
        Its columns in the order of the file.
    unreviewed : tuple of str
        Those of them that nobody has reviewed: what their entries say was read off the data. Of derived columns those
        whose values, or order, are of such an entry.

    Raises
    ------
    InvalidInput
        One line that names file, attribute and key, for anything malformed.

    Examples
    --------
    >>> text = '[[attribute]]\\nname = "sex"\\nkind = "category"\\ncategories = ["F", "M"]\\nreviewed = false\\n'
    >>> load_draft(text)[1]
    ('sex',)
    """
    with _explained(path):
        domain, unreviewed = _declared(path)
        if not undecided:
            domain.check_decided()
    if domain.person is not None and domain.person.derive:
        return domain, tuple(r.name for r in domain.person.derive if r.of in unreviewed or r.by in unreviewed)
    return domain, unreviewed


def doubts_of(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """What a schema that `load` reads says and perhaps does not mean: a line each, from the schema alone."""
    with _explained(path):
        content, folder = _content(path)
        return () if _is_json(path) else tuple(without_children(content, folder))


def _declared(path: str | os.PathLike[str]) -> tuple[Domain, tuple[str, ...]]:
    """What a schema declares, and the names of those of its columns that nobody has reviewed."""
    content, folder = _content(path)
    if _is_json(path):
        return _coded(content), ()
    listed = with_lists(content, folder)
    domain = _of_schema(listed)
    return replace(domain, code_lists=named_files(content, folder)), _unreviewed(listed)


def _content(path: str | os.PathLike[str]) -> tuple[Any, Path]:
    """What a schema says, as it is written, and the folder in which its code lists are."""
    written = _written(path)
    if written is not None:
        return tomllib.loads(written), Path()
    text = Path(path).read_text(encoding="utf-8-sig")
    return json.loads(text) if _is_json(path) else tomllib.loads(text), Path(path).parent


def _is_json(path: str | os.PathLike[str]) -> bool:
    return _written(path) is None and Path(path).suffix == ".json"


@contextmanager
def _explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever is wrong with a schema, as an `InvalidInput` that names it."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"a schema is a Domain, the path of a file, or its text, got {type(path).__name__}")
    what = named(path)
    try:
        yield
    except OSError as error:
        advice = (
            "; `qrelease schema draft` or qr.draft makes a first one" if isinstance(error, FileNotFoundError) else ""
        )
        raise InvalidInput(f"{what} cannot be read: {error.strerror}{advice}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{what} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{what} is not TOML: {error}") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{what} has too many lists or tables in one another") from None
    except InvalidInput as error:
        raise InvalidInput(f"{what}: {error}") from None
    except ValueError:  # Python's own bound on the digits of a whole number, from both readers
        raise InvalidInput(f"{what} has a number of thousands of digits") from None


def named(schema: str | os.PathLike[str]) -> str:
    """What messages call a schema: by its file, or as the text that was given in place of one.

    Parameters
    ----------
    schema
        As `load` takes it.

    Returns
    -------
    str
        One line.

    Examples
    --------
    >>> named("people.toml"), named("[[attribute]]\\n")
    ('schema people.toml', 'the text of the schema')
    """
    return f"schema {os.fspath(schema)}" if _written(schema) is None else "the text of the schema"


def _written(schema: str | os.PathLike[str]) -> str | None:
    """The schema itself, where a text of several lines was given in place of a file's name."""
    return schema if isinstance(schema, str) and "\n" in schema else None


def domain_to_json(domain: Domain) -> dict[str, Any]:
    """A domain as plain JSON values, exactly: `domain_from_json` gives an equal domain back.

    Who reviewed the schema is no part of it, so that no digest of a schema depends on that: `Review.to_json` has it.

    Examples
    --------
    >>> domain_to_json(Domain.coded({"a": 2}))
    {'attribute': [{'name': 'a', 'kind': 'coded', 'codes': 2}]}
    """
    content: dict[str, Any] = {"attribute": [_entry(attribute) for attribute in _read(domain)]}
    if domain.person is not None:
        content["person"] = domain.person.to_json()
    return content | ({"impossible": [{"where": rule} for rule in domain.impossible]} if domain.impossible else {})


def domain_from_json(content: object) -> Domain:
    """The domain of `domain_to_json`, checked as strictly as a schema file.

    Raises
    ------
    InvalidInput
        One line that names the attribute and key, for anything malformed.

    Examples
    --------
    >>> domain = Domain.coded({"a": 2})
    >>> domain_from_json(domain_to_json(domain)) == domain
    True
    """
    if not isinstance(content, dict):
        raise InvalidInput(f"a domain must be a table, got {type(content).__name__}")
    unknown = [key for key in content if key not in ("attribute", "impossible", "person", *_REVIEW)]
    if unknown:
        raise InvalidInput(
            f"unknown key {unknown[0]!r}; a schema has 'attribute', 'impossible' and 'person', and may say who reviewed"
            " it: 'reviewed_by' and 'reviewed_on'"
        )
    entries = content.get("attribute")
    if not isinstance(entries, list) or not entries:
        raise InvalidInput("there must be at least one [[attribute]]")
    rules = _rules(content.get("impossible", []))
    person = Person.from_json(content["person"]) if "person" in content else None
    attributes = tuple(_attribute(entry, number) for number, entry in enumerate(entries, start=1))
    domain = Domain(attributes, rules, person=person, review=_review(content))
    if person is None or "derive" not in content["person"]:
        unknown = [name for name in ([] if person is None else person.distinct) if name not in domain.names]
        if unknown:
            raise InvalidInput(f"person: distinct names {unknown[0]!r}, which is not an attribute")
        return domain
    try:
        derive = derivation.rules(content["person"]["derive"], edges_of)
    except _WrongValue as error:
        raise InvalidInput(f"derived column: {error}") from None
    return derivation.derived_domain(domain, replace(person, derive=derive))


def _review(content: Mapping[str, Any]) -> Review | None:
    """Who reviewed it, and when, where that is said: the day as TOML's date or as a text."""
    said = {name: content[key] for key, name in _REVIEW.items() if key in content}
    on = said.get("on")
    if type(on) is date:
        said["on"] = on.isoformat()
    return Review(**said) if said else None


def _read(domain: Domain) -> Sequence[Attribute]:
    """The attributes of the records that are read: those that columns are derived from, where they are."""
    return domain.person.records if domain.person is not None and domain.person.derive else domain.attributes


def column_digests(domain: Domain) -> list[list[str]]:
    """[name, digest] of each column, in order: for what goes by positions and codes, which other labels or bins, other
    ways with wrong values, or columns in another order, would give another meaning.

    Where a person is the unit the last is of that entry, since what was bought for a person with at most m records does
    not pay for one with more.
    """
    found = [[a.name, _digest(_entry(a))] for a in domain]
    if domain.person is None:
        return found
    records = {"records": [_entry(a) for a in domain.person.records]} if domain.person.derive else {}
    return [*found, ["[person]", _digest(domain.person.to_json() | records)]]


def _digest(entry: Mapping[str, Any]) -> str:
    return sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def to_toml(domain: Domain, head: str = "", notes: Mapping[str, str] | None = None) -> str:
    """A domain as the text of a schema.toml that `load` reads back to an equal domain, with who reviewed it.

    head    a comment at its top
    notes   comments on the entries of some columns, by their names

    Examples
    --------
    >>> print(to_toml(Domain.coded({"a": 2})))
    [[attribute]]
    name = "a"
    kind = "coded"
    codes = 2
    <BLANKLINE>
    """
    content = domain_to_json(domain)
    if domain.person is not None and domain.person.derive:
        records = Domain(domain.person.records)
        kept = [r.name for r in domain.person.derive if not r.always and derivation.has_always(records, r)]
        for name in kept:  # of an earlier version: it reads back with the cell that it has
            content["person"]["derive"][name]["missing"] = True
    return content_to_toml(content | ({} if domain.review is None else domain.review.to_json()), head, notes)


def content_to_toml(content: Mapping[str, Any], head: str = "", notes: Mapping[str, str] | None = None) -> str:
    """The text of a schema.toml from its content: that of `domain_to_json`, or what `domain_from_json` takes."""
    import tomlkit

    document = tomlkit.document()
    if head:
        document.add(tomlkit.comment(head))
        document.add(tomlkit.nl())
    if (review := _review(content)) is not None:
        for key, value in review.to_json().items():
            document.add(key, date.fromisoformat(value) if key == "reviewed_on" else value)
        document.add(tomlkit.nl())
    entries = tomlkit.aot()
    for given in content["attribute"]:
        entry = tomlkit.table()
        for key, value in given.items():
            entry.add(key, _inline(value))
            if key == "name" and notes and value in notes:
                entry.add(tomlkit.comment(notes[value]))
        entries.append(entry)
    document.append("attribute", entries)
    if "person" in content:
        person = tomlkit.table()
        person.update(content["person"])
        document.append("person", person)
    if content.get("impossible"):
        rules = tomlkit.aot()
        for rule in content["impossible"]:
            rules.append(tomlkit.item(rule))
        document.append("impossible", rules)
    return tomlkit.dumps(document)


def _inline(value: Any) -> Any:
    """A table inside an entry on one line."""
    import tomlkit

    if not isinstance(value, dict):
        return value
    table = tomlkit.inline_table()
    table.update(value)
    return table


def reviewed(content: Mapping[str, Any]) -> Domain:
    """The domain of a schema file's content; `InvalidInput` for entries that nobody has reviewed, too."""
    domain = _of_schema(content)
    _check_reviewed(_unreviewed(content))
    return domain


def _of_schema(content: Mapping[str, Any]) -> Domain:
    """The domain of what a person wrote, or of a draft; what a release stored is read as it is: `domain_from_json`."""
    domain = domain_from_json(content)
    if domain.person is None or not domain.person.derive:
        return domain
    return derivation.without_phantoms(domain, content["person"]["derive"])


def _unreviewed(content: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(e["name"] for e in content["attribute"] if not e.get("reviewed", True))


def _check_reviewed(unreviewed: Sequence[str]) -> None:
    if unreviewed:
        raise InvalidInput(
            f"not reviewed: {', '.join(unreviewed)}; check each against public knowledge, then set its reviewed = true"
        )


def _rules(entries: object) -> tuple[str, ...]:
    if not isinstance(entries, list):
        raise InvalidInput('rules must be [[impossible]] entries, each with its where = "a condition"')
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or set(entry) != {"where"} or not isinstance(entry["where"], str):
            raise InvalidInput(f'impossible {number} must be where = "a condition", got {entry!r}')
    return tuple(entry["where"] for entry in entries)


def _coded(content: object) -> Domain:
    if not isinstance(content, dict) or not content:
        raise InvalidInput('a JSON schema must be {"column": size, …}')
    for name, size in content.items():
        if type(size) is not int or size < 1:
            raise InvalidInput(f"column {name!r}: size must be a whole number of at least 1, got {size!r}")
    return Domain.coded(content)


def _entry(attribute: Attribute) -> dict[str, Any]:
    """An attribute as the keys of a schema entry; keys that hold the default are left out."""
    entry: dict[str, Any] = {"name": attribute.name, "kind": attribute.kind}
    match attribute.kind:
        case "coded":
            entry["codes"] = attribute.codes
        case "category" if attribute.learn:
            entry["categories"] = {"learn": True, "at_most": attribute.learn}
        case "category":
            entry["categories"] = list(attribute.categories)
        case "number":
            entry["bins"] = [_spelled(e) for e in attribute.edges]
        case "date" if attribute.grid is None:
            entry["bins"] = [iso_date(e) for e in attribute.edges]
        case "date":
            stops = [*attribute.cuts[:-1], attribute.grid.size] if attribute.edges else []
            entry["bins"] = [attribute.shown(attribute.grid.value(c)) for c in stops]
    if attribute.grid is not None:
        date_ = attribute.kind == "date"
        entry["within"] = [(attribute.shown if date_ else _spelled)(end) for end in attribute.within]
        entry["step"] = next(w for w, s in STEPS.items() if s == attribute.step) if date_ else _spelled(attribute.step)
        if attribute.undecided:
            del entry["bins"]
        if attribute.learn:
            entry["bins"] = {"learn": attribute.learn}
        if attribute.shape:
            values = [(attribute.grid.value(point), weight) for point, weight in attribute.shape]
            entry["shape"] = [[attribute.shown(v) if date_ else _spelled(v), weight] for v, weight in values]
    if attribute.integer:
        entry["integer"] = True
    entry |= {key: mark for key, mark in asdict(attribute.writing).items() if mark != getattr(_PLAIN, key)}
    if attribute.ordered != _ORDERED_BY_DEFAULT[attribute.kind]:
        entry["ordered"] = attribute.ordered
    if attribute.missing:
        entry["missing"] = list(attribute.missing)
    if attribute.outside != "error":
        entry["outside"] = attribute.outside
    return entry


def _spelled(number: float | Fraction) -> int | float:
    """A number as TOML and JSON have it."""
    near = float(number)
    return int(number) if near.is_integer() and abs(near) < 2**53 else near


_ORDERED_BY_DEFAULT = {"coded": True, "category": False, "number": True, "date": True}


def _attribute(entry: object, number: int) -> Attribute:
    """One checked entry. `number` (from 1) names it in an error when it has no name."""
    if not isinstance(entry, dict):
        raise InvalidInput(f"attribute {number} must be a table, got {type(entry).__name__}")
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"attribute {number}: name must be a non-empty text, got {name!r}")
    try:
        return _build(name, entry)
    except _WrongValue as error:
        raise InvalidInput(f"attribute {name!r}: {error}") from None


class _WrongValue(Exception):  # noqa: N818
    """What is wrong with a key of an entry; the caller adds the attribute's name."""


def _build(name: str, entry: Mapping[str, Any]) -> Attribute:
    kind: Any = entry.get("kind")
    if kind not in get_args(Kind):
        raise _WrongValue(f"kind must be one of {', '.join(get_args(Kind))}, got {kind!r}")
    own = _KEYS_BY_KIND[kind]
    unknown = [key for key in entry if key not in (*_COMMON_KEYS, *own)]
    if unknown:
        known = ", ".join(_COMMON_KEYS + own)
        raise _WrongValue(f"unknown key {unknown[0]!r}; the keys of kind {kind!r} are {known}")
    gridded = "within" in entry or "step" in entry
    if own[0] not in entry and not gridded:
        raise _WrongValue(f"kind {kind!r} needs {own[0]}")
    _typed(entry, "reviewed", bool, True)
    within, step = _grid(entry, kind) if gridded else ((), Fraction(0))
    learn = _learn(entry, own[0])
    attribute = Attribute(
        name,
        kind,
        codes=_typed(entry, "codes", int, 0),
        categories=() if learn else _texts(entry, "categories"),
        edges=edges_of(entry["bins"], kind, within, step) if "bins" in entry and "bins" in own and not learn else (),
        missing=_texts(entry, "missing"),
        outside=_typed(entry, "outside", str, "error"),
        integer=_typed(entry, "integer", bool, False),
        ordered=_typed(entry, "ordered", bool, _ORDERED_BY_DEFAULT[kind]),
        within=within,
        step=step,
        learn=learn,
        shape=_shape(entry, kind, within, step),
        writing=_writing(entry),
    )
    if attribute.undecided and not learn:
        raise _WrongValue(
            f"within and step make {attribute.size:,} points, more than {MAX_POINT_CELLS}: give bins = N, or bins = {{ "
            "learn = N }"
        )
    return attribute


def _writing(entry: Mapping[str, Any]) -> Writing:
    """How its values are written."""
    try:
        return Writing(**{key: entry[key] for key in _WRITING if key in entry})
    except InvalidInput as error:
        raise _WrongValue(str(error)) from None


def _learn(entry: Mapping[str, Any], key: str) -> int:
    """How many bins, or categories, are to be learned; 0 where they are given."""
    given = entry.get(key)
    if not isinstance(given, dict) or "learn" not in given or key not in ("bins", "categories"):
        return 0
    if key == "bins" and set(given) == {"learn"} and type(given["learn"]) is int and given["learn"] > 0:
        return int(given["learn"])
    most = given.get("at_most", MAX_LEARNED_CATEGORIES)
    if key == "categories" and set(given) <= {"learn", "at_most"} and given["learn"] is True and type(most) is int:
        return most
    allowed = "{ learn = 32 }" if key == "bins" else "{ learn = true, at_most = 1000 }"
    raise _WrongValue(f"{key} to be learned are {allowed}, got {_brief(given)}")


def _shape(
    entry: Mapping[str, Any], kind: str, within: tuple[Fraction, ...], step: Fraction
) -> tuple[tuple[int, int], ...]:
    """Points and weights, from values and weights."""
    given = entry.get("shape", [])
    pairs = isinstance(given, list) and all(isinstance(p, list) and len(p) == 2 and type(p[1]) is int for p in given)
    if not pairs or (given and not within):
        raise _WrongValue(f"shape must be of values on a grid and weights, as [[0, 3], [10, 5]], got {_brief(given)}")
    read = _moment if kind == "date" else _number
    return tuple((round((read(value, "shape") - within[0]) / step), weight) for value, weight in given)


def _grid(entry: Mapping[str, Any], kind: str) -> tuple[tuple[Fraction, ...], Fraction]:
    """The ends of a grid, both included, and its step."""
    for key in ("within", "step"):
        if key not in entry:
            raise _WrongValue(f"within and step go together, got no {key}")
    ends, step = entry["within"], entry["step"]
    if not isinstance(ends, list) or len(ends) != 2:
        raise _WrongValue(f"within must be a first and a last value, as [0, 100], got {_brief(ends)}")
    if kind == "number":
        width = _number(step, "step")
        if width <= 0:
            raise _WrongValue(f"step must be positive, got {step}")
        return tuple(_number(end, "within") for end in ends), width
    if step not in STEPS:
        raise _WrongValue(f"step must be one of {', '.join(STEPS)}, got {_brief(step)}")
    low, high = (_moment(end, "within") for end in ends)
    if _is_day(ends[1]):
        high += 1 - STEPS[step]  # the whole of the last day
    return (low, high), STEPS[step]


def _typed(entry: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    value = entry.get(key, default)
    if type(value) is not kind:
        words = {bool: "true or false", int: "a whole number", str: "a text"}
        raise _WrongValue(f"{key} must be {words[kind]}, got {value!r}")
    return value


def _texts(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise _WrongValue(f"{key} must be a list of texts in quotes, got {_brief(value)}")
    return tuple(value)


def edges_of(
    bins: object, kind: str, within: tuple[Fraction, ...] = (), step: Fraction = Fraction(0)
) -> tuple[float, ...]:
    """Bin edges from a list or from {start, stop, width}; for dates {start, stop, days|months|years}; or, on a grid,
    from how many there are."""
    if within and type(bins) is int:
        return _even_bins(bins, within, step)
    point = (_moment if step.denominator > 1 else _day) if kind == "date" else _number
    if isinstance(bins, list) and len(bins) >= 2:
        return tuple(float(point(edge)) for edge in bins)
    point = _day if kind == "date" else _number
    return _edges_by_width(bins, kind, point)


def _even_bins(count: int, within: tuple[Fraction, ...], step: Fraction) -> tuple[float, ...]:
    """The edges of `count` bins on a grid, whose numbers of points differ by one at most."""
    points = (within[1] - within[0]) / step + 1
    most = min(math.floor(points), MAX_BINS)
    if not 1 <= count <= most:
        raise _WrongValue(f"bins must be 1..{most} on this grid, got {count}")
    return tuple(float(within[0] + step * math.floor(i * points / count)) for i in range(count + 1))


def _edges_by_width(bins: object, kind: str, point: Callable[[object], Fraction]) -> tuple[float, ...]:
    steps = ("days", "months", "years") if kind == "date" else ("width",)
    step = next((key for key in steps if isinstance(bins, dict) and key in bins), None)
    if not isinstance(bins, dict) or step is None or set(bins) != {"start", "stop", step}:
        raise _WrongValue(
            f"bins must be a list of at least two edges, or start, stop and {' or '.join(steps)}; got {_brief(bins)}"
        )
    start, stop = point(bins["start"]), point(bins["stop"])
    if not start < stop:
        raise _WrongValue(f"bins: start must lie before stop, got {bins['start']} and {bins['stop']}")
    if step in ("months", "years"):
        return _calendar_steps(int(start), int(stop), _step(bins, step), step)
    return _even_steps(start, stop, _step(bins, step), step, iso_date if kind == "date" else _plain)


def _even_steps(
    start: Fraction, stop: Fraction, step: Fraction, key: str, show: Callable[[float], str]
) -> tuple[float, ...]:
    """start, start + step, …, stop in exact decimal arithmetic."""
    count = math.ceil((stop - start) / step)
    if count > MAX_BINS:
        raise _WrongValue(f"bins: {key} makes {count} bins, at most {MAX_BINS} are allowed")
    edges = [float(start + i * step) for i in range(count + 1)]
    if start + count * step != stop:
        raise _uneven(key, float(stop), edges, show)
    return tuple(edges)


def _calendar_steps(start: int, stop: int, step: Fraction, key: str) -> tuple[float, ...]:
    """The same day of every step-th month (or year) from start to stop, as days since 1970-01-01."""
    first = _EPOCH + timedelta(days=start)
    if first.day > 28 or step.denominator != 1:
        raise _WrongValue(f"bins: {key} must be whole and start on a day 1..28, got {step} from {first}")
    months = int(step) * (12 if key == "years" else 1)
    edges = [float(start)]
    month = first.year * 12 + first.month - 1
    while edges[-1] < stop:
        month += months
        if month >= (date.max.year + 1) * 12:
            raise _WrongValue(f"bins: {key} = {step} steps past the year {date.max.year}")
        edges.append(float((date(month // 12, month % 12 + 1, first.day) - _EPOCH).days))
    if edges[-1] != stop:
        raise _uneven(key, float(stop), edges, iso_date)
    return tuple(edges)


def _uneven(key: str, stop: float, edges: list[float], show: Callable[[float], str]) -> _WrongValue:
    near = " or ".join(show(e) for e in edges[-2:] if e != edges[0])
    return _WrongValue(f"bins: stop must be start plus a multiple of {key}, got {show(stop)}; use {near}")


def _number(value: object, key: str = "bins") -> Fraction:
    finite = type(value) is int or (isinstance(value, float) and math.isfinite(value))
    if not finite or abs(Fraction(number := repr(value))) > _MAX_FLOAT:
        raise _WrongValue(f"{key} must hold finite numbers, got {_brief(value)}")
    return Fraction(number)  # by its decimals: 0.1 + 0.2 is 0.3 here


def _step(bins: Mapping[str, Any], key: str) -> Fraction:
    step = _number(bins[key])
    if step <= 0:
        raise _WrongValue(f"bins: {key} must be positive, got {bins[key]}")
    return step


def _day(value: object) -> Fraction:
    """Days since 1970-01-01 of a TOML date or an ISO text."""
    try:
        found = date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, date) or isinstance(found, datetime):
        raise _WrongValue(f"bins must hold dates such as 2024-01-31, got {_brief(value)}")
    return Fraction((found - _EPOCH).days)


def _moment(value: object, key: str = "bins") -> Fraction:
    """Days since 1970-01-01 of a TOML date or date-time without an offset, or of such an ISO text."""
    found = moment(value.isoformat() if isinstance(value, date) else value) if isinstance(value, date | str) else None
    if found is None or (isinstance(value, datetime) and value.tzinfo is not None):
        raise _WrongValue(f"{key} must hold dates such as 2024-01-31 or 2024-01-31T06:30, got {_brief(value)}")
    return found


def _is_day(value: object) -> bool:
    """Whether it is a date without a time."""
    return len(value) <= 10 if isinstance(value, str) else not isinstance(value, datetime)


def _plain(number: float) -> str:
    return f"{number:.12g}"


def _brief(value: object) -> str:
    """A value on one short line."""
    shown = str(value) if isinstance(value, date) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
