"""The review of a schema: for each column what a draft read off the data, and what the reviewer declares public."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, final

from qrelease._util.texts import readable
from qrelease.apps.studio.files import Folder
from qrelease.apps.studio.reading import without_values
from qrelease.data.code_lists import with_lists
from qrelease.data.domain import Domain
from qrelease.data.schema import content_to_toml, load, reviewed
from qrelease.data.schema_draft import drafted
from qrelease.data.sources.compression import written
from qrelease.data.sources.files import dataset_name, open_reader
from qrelease.errors import InvalidInput

HEAD = "Reviewed in qrelease studio: every entry was set by a person from what is publicly known."
"""The first line of a schema that is written here."""

CHANGED = "Changed in qrelease studio, from {}: where its entries come from is said there."
"""The first line where another schema was chosen, which may have learned entries."""


@final
@dataclass(frozen=True)
class Review:
    """The columns of a file, before and after a person went through them.

    data      the file of the private records
    header    the names of its columns
    rules     the `[[impossible]]` entries of a schema that was there
    columns   entries that were drafted, which are read off the data; or those of a schema that was there
    left_out  why a column has no draft
    doubts    numbers of a drafted column that may mean missing
    reviewed  whether they come from a schema that was there
    person    the `[person]` of that schema
    schema    the file of that schema
    doubted   what of the names may be values of a first record, without them; empty where nothing is
    """

    data: Path
    header: tuple[str, ...]
    columns: tuple[dict[str, Any], ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules: tuple[dict[str, Any], ...] = ()
    reviewed: bool = False
    person: dict[str, Any] | None = None
    schema: Path | None = None
    doubted: str = ""

    @classmethod
    def of_draft(cls, data: Path) -> Review:
        """Every column as `qrelease schema draft` proposes it."""
        with without_values(data, ()):
            found = drafted(data)
        entries = _plain(tomllib.loads(found.text)["attribute"])
        return cls(data, found.header, tuple(entries), found.left_out, found.doubts, doubted=found.doubted)

    @classmethod
    def of_schema(cls, data: Path, schema: Path) -> Review:
        """Every column as a schema says that was reviewed before; nothing is read off the data but their header."""
        load(schema)
        content = _plain(tomllib.loads(schema.read_text(encoding="utf-8-sig")))
        with without_values(data, ()):
            header = tuple(name.strip() for name in open_reader(data).header)
        absent = [e["name"] for e in content["attribute"] if e["name"].strip() not in header]
        if absent:
            raise InvalidInput(f"{data.name} has no column {absent[0]!r}, which the schema {schema.name} has")
        rules, columns = tuple(content.get("impossible", ())), tuple(content["attribute"])
        return cls(data, header, columns, {}, {}, rules, True, content.get("person"), schema)

    def to_json(self) -> dict[str, Any]:
        """For the page. What is read off the data is in the entries that are not reviewed, `left_out`, `doubts` and
        `doubted`."""
        return {
            "file": self.data.name,
            "dataset": dataset_name(self.data),
            "header": self.header,
            "columns": self.columns,
            "left_out": [{"name": name, "why": why} for name, why in self.left_out.items()],
            "doubts": self.doubts,
            "doubted": self.doubted,
            "reviewed": self.reviewed,
            "person": self.person,
            "rules": len(self.rules),
        }

    def domain(self, content: Any, folder: Folder) -> Domain:
        """What a person made of it, as a universe; `InvalidInput` as for a schema, and for what is to be learned."""
        if not isinstance(content, dict) or not set(content) <= {"attribute", "person", "impossible"}:
            raise InvalidInput("a schema has the entries attribute and person only")
        lists = [e["categories"] for e in self.columns if isinstance(e.get("categories"), dict)]
        if any(file not in lists for file in _named_lists(content)):
            raise InvalidInput("list the categories: only a schema that existed before may take them from a file")
        domain = reviewed(with_lists(content, folder.path))
        domain.check_decided()
        person = () if domain.person is None else (domain.person.column,)
        for name in (*(entry["name"] for entry in content["attribute"]), *person):
            if name.strip() not in [column.strip() for column in self.header]:
                raise InvalidInput(f"{self.data.name} has no column {name!r}")
        return domain

    def save(self, given: Any, folder: Folder, by: str | None = None) -> Path:
        """The schema file of a reviewed content: one that says the same, or a new one, with the day of the review.

        by  a name or an office, where the person who reviewed it gave one; a file that names others is left as it is
        """
        content = {**given, "impossible": list(self.rules)} if isinstance(given, dict) and self.rules else given
        domain, stem = self.domain(content, folder), dataset_name(self.data)
        if self.schema is not None and _says(self.schema, domain) and by in (None, _reviewer(self.schema)):
            return self.schema
        for name in folder.listed()["schemas"]:
            there = folder.path / name
            if name.startswith(stem) and _says(there, domain) and _reviewer(there) == by:
                return there
        said = {} if by is None else {"reviewed_by": by}
        said["reviewed_on"] = date.today().isoformat()  # the day where the reviewer is
        head = HEAD if self.schema is None else CHANGED.format(self.schema.name)
        text, file = content_to_toml(content | said, head), folder.free_name(stem, ".toml")
        with written(file) as out:
            out.write(text)
        return file


def _named_lists(content: Mapping[str, Any]) -> list[Any]:
    """Where entries take categories from another place than a list."""
    entries = content.get("attribute")
    found = [e.get("categories") for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    return [categories for categories in found if isinstance(categories, dict) and "file" in categories]


def described_universe(domain: Domain) -> dict[str, Any]:
    """A universe in short: public."""
    return {
        "columns": [{"name": a.name, "kind": a.kind, "cells": a.size} for a in domain],
        "cells": readable(domain.size),
        "person": None if domain.person is None else domain.person.to_json(),
    }


def _says(schema: Path, domain: Domain) -> bool:
    try:
        return load(schema) == domain
    except InvalidInput:
        return False


def _reviewer(schema: Path) -> str | None:
    """Who a schema says reviewed it, of one that can be read."""
    review = load(schema).review
    return None if review is None else review.by


def _plain(value: Any) -> Any:
    """TOML as JSON has it: dates are texts."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, date) else value
