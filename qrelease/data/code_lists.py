"""Categories from a file, and hierarchies declared once: what a schema file says by naming a code list.

    [[attribute]]
    name = "municipality"
    kind = "category"
    categories = { file = "municipalities.csv", column = "code" }   # beside the schema; the first column by default
    parent = { attribute = "province", column = "province" }        # which province each lies in, from the same file

A list with semicolons is read by `separator = ";"` beside `file`.

A code list is public: what it lists becomes part of the universe. So it is never the data themselves, and `Table.read`
refuses a schema that names them, by whatever name.

`parent = "province"` is short for an attribute and a column of that name. A municipality with another province than
its own is then impossible, one rule for each province, as if the schema had said so in [[impossible]]; with a province
that has no municipality in the list, all of them are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qrelease._util.texts import listed
from qrelease.errors import InvalidInput

_KEYS = {"file", "column", "separator"}


def named_files(content: Mapping[str, Any], folder: Path) -> tuple[Path, ...]:
    """The files that a schema takes categories from."""
    entries = content.get("attribute")
    named = [e.get("categories") for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    files = [of["file"] for of in named if isinstance(of, dict) and isinstance(of.get("file"), str)]
    return tuple((folder / file).absolute() for file in dict.fromkeys(files))


def with_lists(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A schema with the categories of its files in place, and the rules that its parents make."""
    entries = content.get("attribute")
    if not isinstance(entries, list):
        return dict(content)
    made = [_filled(e, folder) if isinstance(e, dict) else e for e in entries]
    rules: list[dict[str, str]] = []
    for entry in made:
        if isinstance(entry, dict) and "_parents" in entry:
            attribute, parents = entry.pop("_parents")
            known = _known_parents(attribute, parents, entry, made)
            rules += [{"where": rule} for rule in _rules(str(entry.get("name")), attribute, parents, known)]
    found = {**content, "attribute": made}
    given = content.get("impossible", [])
    return found | ({"impossible": [*given, *rules]} if rules and isinstance(given, list) else {})


def without_children(content: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """A line for each code list that has no child of some parents, which may be an error in it.

    content  of a schema that is right
    """
    entries = content["attribute"]
    made = [_filled(entry, folder) for entry in entries]
    for entry, given in zip(made, entries, strict=True):
        if "_parents" not in entry:
            continue
        attribute, parents = entry["_parents"]
        none = [p for p in _known_parents(attribute, parents, entry, made) if p not in {*parents.values()}]
        if none:
            have, them = ("has", "it") if len(none) == 1 else ("have", "one of them")
            yield (
                f"{attribute} {listed(none)} {have} no category of {entry['name']!r} in {given['categories']['file']}:"
                f" records with {them} and any {entry['name']!r} that is listed there are refused"
            )


def _filled(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """An entry with its list in place of the file; the attribute above and each code's parent in it are `_parents`."""
    named = entry.get("categories")
    if not isinstance(named, dict) or "learn" in named:
        if "parent" in entry:
            raise InvalidInput(f"{_name(entry)}: parent needs categories from a file: {{ file = …, column = … }}")
        return entry
    if not {"file"} <= set(named) <= _KEYS or not all(isinstance(v, str) for v in named.values()):
        raise InvalidInput(f"{_name(entry)}: categories must be a list of texts, or file and perhaps column, separator")
    header, rows = _rows(folder / named["file"], named.get("separator"))
    place = _place(header, named.get("column", header[0]), entry, named["file"])
    filled = {key: value for key, value in entry.items() if key != "parent"}
    filled["categories"] = list(dict.fromkeys(row[place] for row in rows))
    if "parent" in entry:
        attribute, column = _parent(entry)
        above = _place(header, column, entry, named["file"])
        parents: dict[str, str] = {}
        for row in rows:
            if parents.setdefault(row[place], row[above]) != row[above]:
                raise InvalidInput(f"{_name(entry)}: {row[place]!r} has two parents in {named['file']}")
        filled["_parents"] = attribute, parents
    return filled


def _rules(name: str, attribute: str, parents: Mapping[str, str], known: Sequence[str]) -> list[str]:
    """For each parent: it, and a child of another."""
    found = []
    for parent in known:
        others = [child for child, own in parents.items() if own != parent]
        if others:
            children = ", ".join(map(_quoted, others))
            found.append(f"{_column(attribute)} = {_quoted(parent)} and {_column(name)} in {{{children}}}")
    return found


def _known_parents(
    attribute: str, parents: Mapping[str, str], entry: Mapping[str, Any], made: Sequence[Any]
) -> list[str]:
    """The categories of the attribute above; `InvalidInput` unless each parent in the list is one of them."""
    of = next((e for e in made if isinstance(e, dict) and e.get("name") == attribute), None)
    if of is None:
        raise InvalidInput(f"{_name(entry)}: parent {attribute!r} is not an attribute of this schema")
    known = of.get("categories")
    unknown = sorted(value for value in {*parents.values()} if not isinstance(known, list) or value not in known)
    if unknown:
        raise InvalidInput(f"{_name(entry)}: parent {attribute!r} has no category {unknown[0]!r}")
    # What is none of the categories is put into the one of `outside`, whichever child it has.
    return [p for p in known if p != of.get("outside") or p in {*parents.values()}] if isinstance(known, list) else []


def _parent(entry: Mapping[str, Any]) -> tuple[str, str]:
    """The attribute above, and the column of the file that gives it."""
    parent = entry["parent"]
    if isinstance(parent, str):
        return parent, parent
    if not isinstance(parent, dict) or set(parent) != {"attribute", "column"}:
        raise InvalidInput(f"{_name(entry)}: parent must be the name of an attribute, or attribute and column")
    return str(parent["attribute"]), str(parent["column"])


def _rows(file: Path, separator: str | None) -> tuple[tuple[str, ...], list[list[str]]]:
    from qrelease.data.sources.csv import PLAIN, CsvReader  # what is heavy, for schemas that name a file alone
    from qrelease.data.sources.dialect import Dialect

    reader = CsvReader(file, PLAIN if separator is None else Dialect(separator))
    rows = [[text.strip() for text in row] for chunk in reader.chunks() for row in chunk.rows]
    if not rows:
        raise InvalidInput(f"{file} lists nothing below its header")
    return reader.header, rows


def _place(header: tuple[str, ...], column: str, entry: Mapping[str, Any], file: str) -> int:
    if column not in header:
        other = next((mark for mark in ";\t|" if len(header) == 1 and mark in header[0]), None)
        advice = f'; or add separator = "{other}" beside file'.replace("\t", "\\t") if other else ""
        raise InvalidInput(f"{_name(entry)}: {file} has no column {column!r}; it has {', '.join(header)}{advice}")
    return header.index(column)


def _name(entry: Mapping[str, Any]) -> str:
    return f"attribute {entry.get('name')!r}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
