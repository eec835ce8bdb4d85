"""Queries of SQLite files that make each of their rows of one row of every table that they name.

What is promised is of the rows that a query gives, so no row may depend on others (as in `row_queries`, of DuckDB).
Python's sqlite3 shows no tree of a statement. So a query is read here, by a grammar that has nothing else than columns,
constants, operators, functions of one row, tables, inner joins of different tables and unions of all rows of different
tables; and what SQLite runs is not its text but what was understood of it, written anew with every name in full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from qrelease.errors import InvalidInput

_FUNCTIONS: Final[Mapping[str, range]] = {
    **dict.fromkeys(("lower", "upper", "length", "abs"), range(1, 2)),
    **dict.fromkeys(("trim", "ltrim", "rtrim", "round"), range(1, 3)),
    **dict.fromkeys(("substr", "substring"), range(2, 4)),
    **dict.fromkeys(("ifnull", "nullif", "instr"), range(2, 3)),
    **dict.fromkeys(("replace", "iif"), range(3, 4)),
    **dict.fromkeys(("coalesce", "min", "max"), range(2, 100)),  # of one value, min and max are of all rows
}
"""Functions of the values of one row, which give the same each time; and how many values they take."""

FUNCTIONS: Final = frozenset((*_FUNCTIONS, "like"))
"""Functions that a query may use, by the names that SQLite has for them."""

_FOREIGN: Final = frozenset(
    {
        *("order", "group", "having", "limit", "offset", "distinct", "left", "right", "full", "outer", "natural"),
        *("window", "over", "filter", "except", "intersect", "with", "values", "indexed", "collate", "glob", "regexp"),
        *("match", "exists", "by", "returning", "current_date", "current_time", "current_timestamp"),
    }
)
"""Words of SQL for what no query has here."""

_WORDS: Final = _FOREIGN | frozenset(
    {
        *("select", "from", "where", "as", "join", "inner", "cross", "on", "using", "and", "or", "not", "in", "is"),
        *("null", "like", "escape", "between", "case", "when", "then", "else", "end", "cast", "union", "all", "isnull"),
        "notnull",
    }
)
"""Words that are no names unless they are quoted."""

_TOKEN: Final = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/
    | (?P<name> [^\W\d][\w$]* ) | "(?P<quoted> (?:[^"]|"")* )" | `(?P<ticked> [^`]* )` | \[(?P<bracketed> [^]]* )\]
    | (?P<text> '(?:[^']|'')*' ) | (?P<number> (?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w$]) )
    | (?P<mark> \|\| | <> | != | <= | >= | == | [-+*/%<>=(),.;] )""",
    re.VERBOSE | re.DOTALL,
)

_TYPES: Final = frozenset({"text", "integer", "int", "real", "numeric", "float", "varchar", "double", "decimal"})

_LEVELS: Final = (("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"), ("||",))
"""Operators by how closely they bind, the loosest first; those of equality bind less."""

_EQUAL: Final = ("=", "==", "!=", "<>")

_OPERATORS: Final = frozenset(
    (*(mark for level in _LEVELS for mark in level), *_EQUAL, "is", "isnull", "notnull", "not", "in", "like", "between")
)

_DEEPEST: Final = 30
"""Expressions in parentheses in one another."""

_LONGEST: Final = 300
"""Operators of a statement."""

_ASKED: Final = (
    "a query selects columns, filters rows, joins different tables and takes functions of one row; of persons,"
    " [person.derive] of the schema counts and sums"
)


def is_select(query: str) -> bool:
    """Whether a text is a statement rather than the name of a table."""
    return re.match(r"\s*(select|with|values)\b", query, re.IGNORECASE) is not None


def tables_named(query: str) -> frozenset[str]:
    """The tables that a query reads, in small letters: what it is not, as it is."""
    try:
        parts = _Parser(query).statement() if is_select(query) else []
    except InvalidInput:
        parts = []  # who opens it then says why
    return frozenset(lowered(table) for part in parts for table, _ in part.tables) or frozenset({lowered(query)})


def lowered(name: str) -> str:
    """A name as SQLite compares names: small letters of ASCII alone."""
    return "".join(c.lower() if c.isascii() else c for c in name)


def quoted(name: str) -> str:
    """A name as SQLite reads it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


@final
class SelectedRows:
    """A query that is known to make each row of one row of every table.

    Raises `InvalidInput`, without a file's name, for one that is not.

    query    the text
    columns  of a table by its name, the names of its columns; None where it is no table of rows that are stored

    header    the names of the columns that it gives
    tables    the tables that it reads
    filtered  whether how many rows it gives depends on what they say
    joined    whether it joins
    """

    def __init__(self, query: str, columns: Mapping[str, Sequence[str]]) -> None:
        read = _Parser(query).statement()
        self._parts = [_Resolved(part, columns, names=not i) for i, part in enumerate(read)]
        self.tables = tuple(table for part in self._parts for table in part.tables)
        twice = next((t for i, t in enumerate(self.tables) if t in self.tables[:i]), None)
        if twice is not None:
            raise _refused(f"table {twice} joined or put together with itself, in which one record is several")
        self.header = tuple(name for name, _ in self._parts[0].items)
        if len({len(part.items) for part in self._parts}) > 1:
            raise InvalidInput("the selects of a union have different numbers of columns")
        twice = next((name for i, name in enumerate(self.header) if name in self.header[:i]), None)
        if twice is not None:
            raise InvalidInput(f"two columns of the query are called {twice!r}: name one with `as`")
        self.joined = any(len(part.tables) > 1 for part in self._parts)
        self.filtered = self.joined or any(part.where for part in self._parts)

    def statement(self, columns: Sequence[str]) -> str:
        """What SQLite runs, for some of the columns."""
        places = [self.header.index(name) for name in columns]
        return " union all ".join(part.statement(places) for part in self._parts)


@final
@dataclass
class _Select:
    """One select as it was written.

    tables  the table and what it is called here
    using   for each of them, the columns that it shares with those before
    where   the conditions: of the joins, and of the rows
    items   the expressions and their names; a star is a `_Star`
    """

    tables: list[tuple[str, str]] = field(default_factory=list)
    using: list[list[str]] = field(default_factory=list)
    where: list[_Tree] = field(default_factory=list)
    items: list[tuple[_Tree, str | None]] = field(default_factory=list)


@final
@dataclass(frozen=True)
class _Column:
    """A column, of a table if it is said."""

    table: str | None
    name: str


@final
@dataclass(frozen=True)
class _Star:
    """All columns, of a table if it is said."""

    table: str | None


_Tree = _Column | _Star | tuple[object, ...]
"""An expression: a column, or texts of SQL and expressions in their order."""

_Part = Callable[[], _Tree]


@final
class _Resolved:
    """A select whose names are those of columns that there are."""

    def __init__(self, part: _Select, known: Mapping[str, Sequence[str]], *, names: bool) -> None:
        by_name = {lowered(name): name for name in known}
        self._names = names  # those of a union are those of its first select
        self.tables: list[str] = []
        self._called: list[str] = []
        self._columns: list[dict[str, str]] = []
        self._visible: list[tuple[int, str]] = []  # by a name alone: what `using` shares is there once
        self.where: list[str] = []
        for (name, called), using in zip(part.tables, part.using, strict=True):
            if lowered(name) not in by_name:
                raise InvalidInput(f"{name} is not a table of the file: name tables, not views")
            if lowered(called) in self._called:
                raise InvalidInput(f"two tables of the query are called {called}: name one with `as`")
            self.tables.append(by_name[lowered(name)])
            self._called.append(lowered(called))
            self._columns.append({lowered(column): column for column in known[self.tables[-1]]})
            for column in using:
                self.where.append(f"{self._sql(_Column(None, column))} = {self._sql(_Column(called, column))}")
            shared, place = {*map(lowered, using)}, len(self.tables) - 1
            self._visible += [(place, c) for key, c in self._columns[-1].items() if key not in shared]
        self.where += map(self._sql, part.where)
        self.items = [found for tree, name in part.items for found in self._named(tree, name)]

    def statement(self, places: Sequence[int]) -> str:
        """The select, of some of its columns."""
        # An index holds copies of values, which a damaged file may have otherwise than the rows.
        alone = " not indexed" if len(self.tables) == 1 else ""
        given = ", ".join(self.items[place][1] for place in places) or "null"
        sources = ", ".join(f"main.{quoted(t)} as t{i}{alone}" for i, t in enumerate(self.tables))
        where = f" where {' and '.join(f'({c})' for c in self.where)}" if self.where else ""
        return f"select {given} from {sources}{where}"  # noqa: S608  every name in it is quoted

    def _named(self, tree: _Tree, name: str | None) -> Iterator[tuple[str, str]]:
        """The names and expressions of an item, which are many of a star."""
        if isinstance(tree, _Star):
            table = None if tree.table is None else self._table(tree.table)
            own = self._visible if table is None else [(table, column) for column in self._columns[table].values()]
            yield from ((column, f"t{place}.{quoted(column)}") for place, column in own)
        elif name is None and not isinstance(tree, _Column) and self._names:
            raise InvalidInput("an expression of the query has no name: give it one with `as`")
        else:
            place, column = self._found(tree) if isinstance(tree, _Column) else (0, "")
            yield name or column, f"t{place}.{quoted(column)}" if column else self._sql(tree)

    def _sql(self, tree: object) -> str:
        if isinstance(tree, _Column):
            place, column = self._found(tree)
            return f"t{place}.{quoted(column)}"
        if isinstance(tree, tuple):
            return "".join(map(self._sql, tree))
        return str(tree)

    def _table(self, called: str) -> int:
        if lowered(called) not in self._called:
            raise InvalidInput(f"the query has no table that is called {called}")
        return self._called.index(lowered(called))

    def _found(self, tree: _Column) -> tuple[int, str]:
        """The place of the table, and the name that the column has there."""
        if tree.table is not None:
            place = self._table(tree.table)
            if lowered(tree.name) not in self._columns[place]:
                raise InvalidInput(f"{tree.table} has no column {tree.name!r}")
            return place, self._columns[place][lowered(tree.name)]
        self._check_once(tree.name)
        return next(found for found in self._visible if lowered(found[1]) == lowered(tree.name))

    def _check_once(self, name: str) -> None:
        found = sum(lowered(column) == lowered(name) for _, column in self._visible)
        if found != 1:
            told = "have no column" if not found else "have more than one column"
            raise InvalidInput(f"the tables of the query {told} {name!r}")


def _refused(found: str) -> InvalidInput:
    return InvalidInput(
        f"the query has {found}, by which one record may change others, or which is not known here: {_ASKED}"
    )


@final
class _Parser:
    """Reads a statement."""

    def __init__(self, query: str) -> None:
        self._tokens = [*_tokens(query), ("end", "")]
        self._at = self._depth = 0
        operators = sum(text in _OPERATORS for kind, text in self._tokens if kind in ("mark", "word"))
        if operators > _LONGEST:
            raise InvalidInput(f"the query has more than {_LONGEST} operators")

    def statement(self) -> list[_Select]:
        """The selects, all of whose rows are put together."""
        parts = [self._select()]
        while self._took("union"):
            if not self._took("all"):
                raise _refused("a union that is not `union all`")
            parts.append(self._select())
        self._took(";")
        kind, found = self._tokens[self._at]
        if kind != "end":
            raise _refused(found.upper() if found in _FOREIGN else f"{found!r} after its end")
        return parts

    def _select(self) -> _Select:
        self._need("select")
        part = _Select()
        part.items.append(self._item())
        while self._took(","):
            part.items.append(self._item())
        self._need("from")
        self._source(part)
        while True:
            if self._took(","):
                self._source(part)
                continue
            crossed = self._took("cross") or self._took("inner")
            if not self._took("join"):
                if crossed:
                    self._need("join")
                break
            self._source(part)
            if self._took("on"):
                part.where.append(self._expression())
            elif self._took("using"):
                self._need("(")
                part.using[-1].append(self._name())
                while self._took(","):
                    part.using[-1].append(self._name())
                self._need(")")
        if self._took("where"):
            part.where.append(self._expression())
        return part

    def _item(self) -> tuple[_Tree, str | None]:
        if self._took("*"):
            return _Star(None), None
        if self._tokens[self._at][0] == "name" and self._tokens[self._at + 1 : self._at + 3] == [
            ("mark", "."),
            ("mark", "*"),
        ]:
            table = self._name()
            self._at += 2
            return _Star(table), None
        tree = self._expression()
        return tree, self._called()

    def _source(self, part: _Select) -> None:
        if self._tokens[self._at] == ("mark", "("):
            raise _refused("a select in a select")
        name = self._name()
        if self._tokens[self._at] in (("mark", "."), ("mark", "(")):
            raise _refused("a table of another file, or a function instead of a table")
        part.tables.append((name, self._called() or name))
        part.using.append([])

    def _called(self) -> str | None:
        """The name that comes next, after `as` or without it."""
        if self._took("as") or self._tokens[self._at][0] == "name":
            return self._name()
        return None

    def _expression(self) -> _Tree:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidInput("the query has too many expressions in one another")
        found = self._joined_by("or", lambda: self._joined_by("and", self._negated))
        self._depth -= 1
        return found

    def _joined_by(self, word: str, part: _Part) -> _Tree:
        first = part()
        rest: list[object] = []
        while self._took(word):
            rest += [f" {word} ", part()]
        return ("(", first, *rest, ")") if rest else first

    def _negated(self) -> _Tree:
        count = 0
        while self._took("not"):
            count += 1
        found = self._compared()
        return ("(not ", found, ")") if count % 2 else ("(not (not ", found, "))") if count else found

    def _compared(self) -> _Tree:
        """Of operators of equality, which bind from the left."""
        found = self._binary(0)
        while True:
            mark = self._took_mark(_EQUAL)
            if mark:
                found = ("(", found, f" {mark} ", self._binary(0), ")")
            elif self._took("isnull"):
                found = ("(", found, " is null)")
            elif self._took("notnull"):
                found = ("(", found, " is not null)")
            elif self._took("is"):
                no = " not" if self._took("not") else ""
                found = ("(", found, f" is{no} ", self._binary(0), ")")
            else:
                before = self._at
                no = "not " if self._took("not") else ""
                after = self._tested(found, no)
                if after is None:
                    if no and self._took("null"):
                        after = ("(", found, " is not null)")
                    else:
                        self._at = before
                        return found
                found = after

    def _tested(self, found: _Tree, no: str) -> _Tree | None:
        """What comes after a value, and perhaps after `not`: in, like, between; None where it is nothing of these."""
        if self._took("in"):
            self._need("(")
            if self._tokens[self._at] == ("word", "select"):
                raise _refused("a select in an expression")
            return ("(", found, f" {no}in (", *self._listed(), "))")
        if self._took("like"):
            tested = ("(", found, f" {no}like ", self._binary(0))
            return (*tested, " escape ", self._binary(0), ")") if self._took("escape") else (*tested, ")")
        if self._took("between"):
            low = self._binary(0)
            self._need("and")
            return ("(", found, f" {no}between ", low, " and ", self._binary(0), ")")
        return None

    def _binary(self, level: int) -> _Tree:
        if level == len(_LEVELS):
            return self._signed()
        found = self._binary(level + 1)
        while mark := self._took_mark(_LEVELS[level]):
            found = ("(", found, f" {mark} ", self._binary(level + 1), ")")
        return found

    def _signed(self) -> _Tree:
        signs = []
        while mark := self._took_mark(("+", "-")):
            signs.append(mark)
        found = self._value()
        for mark in reversed(signs):
            found = (f"({mark} ", found, ")")
        return found

    def _value(self) -> _Tree:
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind in ("number", "text"):
            return (text,)
        if kind == "mark" and text == "(":
            if self._tokens[self._at] == ("word", "select"):
                raise _refused("a select in an expression")
            found = self._expression()
            self._need(")")
            return found
        if kind == "word" and text == "null":
            return ("null",)
        if kind == "word" and text == "case":
            return self._case()
        if kind == "word" and text == "cast":
            self._need("(")
            found = self._expression()
            self._need("as")
            declared = lowered(self._name())
            if declared not in _TYPES:
                raise _refused(f"a cast to {declared}")
            self._need(")")
            return ("cast(", found, f" as {declared})")
        if kind == "name":
            if self._took("."):
                return _Column(text, self._name())
            return self._function(text) if self._took("(") else _Column(None, text)
        if text in _FOREIGN:
            raise _refused(text.upper())
        raise InvalidInput(f"the query has {text or 'its end'!r} where a value is expected")

    def _case(self) -> _Tree:
        tree: list[object] = ["case"]
        if self._tokens[self._at] != ("word", "when"):
            tree += [" ", self._expression()]
        self._need("when")
        while True:
            tree += [" when ", self._expression()]
            self._need("then")
            tree += [" then ", self._expression()]
            if not self._took("when"):
                break
        if self._took("else"):
            tree += [" else ", self._expression()]
        self._need("end")
        return ("(", *tree, " end)")

    def _function(self, name: str) -> _Tree:
        called = lowered(name)
        if self._tokens[self._at] in (("mark", "*"), ("word", "distinct")) or called not in _FUNCTIONS:
            raise _refused(f"the function {name}")
        values = self._listed()
        count = (len(values) + 1) // 2
        if count not in _FUNCTIONS[called]:
            raise _refused(f"the function {name} of {count} value{'s' * (count != 1)}")
        if self._tokens[self._at][1] in ("over", "filter"):
            raise _refused(self._tokens[self._at][1].upper())
        return (f"{called}(", *values, ")")

    def _listed(self) -> list[object]:
        """Values in parentheses, the first of which was read; with the commas between them."""
        if self._took(")"):
            return []
        values: list[object] = [self._expression()]
        while self._took(","):
            values += [", ", self._expression()]
        self._need(")")
        return values

    def _took(self, text: str) -> bool:
        """Whether a word or a mark comes next, which is then read."""
        if self._tokens[self._at] not in (("word", text), ("mark", text)):
            return False
        self._at += 1
        return True

    def _took_mark(self, marks: Sequence[str]) -> str | None:
        return next((mark for mark in marks if self._took(mark)), None)

    def _need(self, text: str) -> None:
        if not self._took(text):
            kind, found = self._tokens[self._at]
            if kind == "word" and found in _FOREIGN:
                raise _refused(found.upper())
            raise InvalidInput(f"the query has {found or 'its end'!r} where {text!r} is expected")

    def _name(self) -> str:
        kind, found = self._tokens[self._at]
        if kind != "name":
            raise InvalidInput(f"the query has {found or 'its end'!r} where a name is expected")
        self._at += 1
        return found


def _tokens(query: str) -> Iterator[tuple[str, str]]:
    """The parts of a statement, each after what it is: a word, a name, a number, a text or a mark."""
    at = 0
    while at < len(query):
        found = _TOKEN.match(query, at)
        if found is None or "\0" in found[0]:
            raise InvalidInput(f"the query has {query[at : at + 10]!r}, which is not known here: {_ASKED}")
        at = found.end()
        kind = found.lastgroup
        if kind == "name" and lowered(found["name"]) in _WORDS:
            yield "word", lowered(found["name"])
        elif kind in ("name", "ticked", "bracketed"):
            yield "name", found[kind]
        elif kind == "quoted":
            yield "name", found["quoted"].replace('""', '"')
        elif kind is not None:
            yield kind, found[0]
