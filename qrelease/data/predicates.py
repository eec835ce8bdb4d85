"""Conditions on records in a small readable language: `age in 30..39 and income = '>50K'`.

    condition  = clause { "or" clause }
    clause     = term { "and" term }
    term       = "not" term | "(" condition ")" | name test
    test       = ("=" | "!=" | "<" | "<=" | ">" | ">=") value
               | [ "not" ] "in" ( value ".." value | "{" [ item { "," item } ] "}" )      also "(" item … ")"
               | "is" [ "not" ] "missing"
    item       = value | value ".." value

A name is bare (letters, digits, _ - . inside) or in double quotes or backticks; a value is bare or in single
or double quotes; a quote inside is doubled. Ranges include both ends (but see `conditions.between` for
numbers that are not whole). Logic has two values: a missing cell satisfies no comparison, so it satisfies
every negated one, and `x != 'a'` means `not x = 'a'`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Concatenate, Literal, NoReturn, ParamSpec, final

import numpy as np
import numpy.typing as npt

from qrelease._util.texts import MISSING_MARKS, meant, quoted, readable
from qrelease.data import conditions
from qrelease.data.conditions import WrittenValue
from qrelease.errors import InvalidInput, TooLarge

if TYPE_CHECKING:
    from qrelease.data.attribute import Attribute
    from qrelease.data.domain import Domain

MAX_MASK_CELLS = 1 << 24  # of the marginal that a predicate is a mask over

MAX_COMPARED = 1 << 20  # categories that the different patterns of a predicate are compared with, unless it has but one

MAX_DIVISIONS = 16  # of bins, by one condition on exact values, which is read again for each

_P = ParamSpec("_P")

_MAX_DEPTH = 100
_MAX_TEXT = 1 << 16
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quoted>'(?:[^']|'')*') | (?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    | (?P<bare>[+-]?\.?\w+(?:[-.+:/]\w+)*) | (?P<sign>\.\.|==|!=|<=|>=|[=<>(){},])
    )""",
    re.VERBOSE,
)

_WORD_FOR = {"&": "and", "|": "or", "!": "not", "~": "not"}
"""The word that is written here for a sign of other languages."""

_SIGN_FOR = {("=", ">"): ">=", ("=", "<"): "<=", ("<", ">"): "!=", ("==", "="): "="}
"""The sign that is written here for two that other languages have."""

_MAX_SHOWN = 60  # characters of a list in a message

_QUESTION = re.compile(r"\s*\w+\s*(?:\([^)]*\))?\s*:")


@final
@dataclass(frozen=True, slots=True)
class _Atom:
    """The cells of one attribute, as a set of bits."""

    axis: int
    cells: int


@final
@dataclass(frozen=True, slots=True)
class _Group:
    """At least two parts, none a group of the same operator, no two of them atoms of one attribute."""

    operator: Literal["and", "or"]
    parts: tuple[_Node, ...]


_Node = _Atom | _Group


@final
@dataclass(frozen=True)
class Predicate:
    """A set of cells of a marginal, from `parse`. Equal conditions on one attribute are equal predicates.

    `str(predicate)` is a fixed spelling that parses to an equal predicate.
    """

    domain: Domain
    _root: _Node

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The positions of the attributes it mentions, sorted."""
        return tuple(sorted(set(_axes(self._root))))

    def mask(self) -> npt.NDArray[np.bool_]:
        """Which cells of the marginal on `axes` satisfy it: (cells,) booleans, flat in C order."""
        axes = self.axes
        shape = tuple(self.domain.shape[a] for a in axes)
        return _evaluated(self._root, axes, shape).ravel()

    def __str__(self) -> str:
        return _text(self._root, self.domain)

    def __repr__(self) -> str:
        return f"parse({str(self)!r}, …)"


def parse(text: str, domain: Domain) -> Predicate:
    """The predicate that a text in the language above means on a domain.

    Raises `InvalidInput` that names the position (from 1) and what was expected there, and `TooLarge` when
    the marginal on the mentioned attributes has more than `MAX_MASK_CELLS` cells.
    """
    _check_text(text)
    predicate = Predicate(domain, _Parser(text, domain).whole())
    cells = domain.cells(predicate.axes)
    if cells > MAX_MASK_CELLS:
        raise TooLarge(
            f"the attributes of the predicate span {readable(cells)} cells; at most {MAX_MASK_CELLS:,} are allowed"
        )
    return predicate


def parse_finely(text: str, domain: Domain, learned: Collection[str] | None = None) -> Predicate:
    """The predicate of a text, whose comparisons may run through bins of columns with exact values.

    It is over a domain whose bins are divided there, and no more; over this one where none is. Raises what `parse`
    raises, and `InvalidInput` for a text that divides bins at more than `MAX_DIVISIONS` places.

    learned  what `before_learning` takes; None to parse
    """
    finer = domain
    for _ in range(MAX_DIVISIONS + 1):
        try:
            return parse(text, finer) if learned is None else before_learning(text, finer, learned)
        except conditions.CellsDiffer as error:
            if error.cut is None:
                raise
            finer = _divided(finer, error.column, error.cut)
    raise InvalidInput(f"a condition may run through bins at {MAX_DIVISIONS} places at most")


def _divided(domain: Domain, column: str, cut: int) -> Domain:
    """A domain with one more bin of a column, which begins at a point of its grid."""
    axis = domain.axis(column)
    before = domain.attributes[axis]
    assert before.grid is not None
    edges = tuple(sorted((*before.edges, float(before.grid.value(cut)))))
    attributes = tuple(replace(a, edges=edges) if a is before else a for a in domain.attributes)
    return replace(domain, attributes=attributes, impossible=())


def before_learning(text: str, domain: Domain, learned: Collection[str]) -> Predicate:
    """A predicate about the columns that `parse` would find, of which some are to be learned: their cells mean nothing.

    Raises what `parse` would raise whatever is learned.

    domain   as it may be once they are learned
    learned  their names
    """
    _check_text(text)
    return Predicate(domain, _Parser(text, domain, learned).whole())


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidInput(f"a predicate must be a text, got {type(text).__name__}")
    if len(text) > _MAX_TEXT:
        raise InvalidInput(f"a predicate may have {_MAX_TEXT} characters, got {len(text)}")


def _axes(node: _Node) -> Iterator[int]:
    if isinstance(node, _Atom):
        yield node.axis
    else:
        for part in node.parts:
            yield from _axes(part)


def _evaluated(node: _Node, axes: tuple[int, ...], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """The node's truth over `shape`, with length 1 along the axes it does not mention."""
    if isinstance(node, _Group):
        join = np.logical_and if node.operator == "and" else np.logical_or
        return reduce(join, (_evaluated(part, axes, shape) for part in node.parts))
    place = axes.index(node.axis)
    size = shape[place]
    raw = np.frombuffer(node.cells.to_bytes(size // 8 + 1, "little"), dtype=np.uint8)
    bits = np.unpackbits(raw, count=size, bitorder="little").view(np.bool_)
    return bits.reshape([size if i == place else 1 for i in range(len(axes))])


def _joined(operator: Literal["and", "or"], nodes: Iterable[_Node]) -> _Node:
    """The nodes joined: groups of the same kind dissolved, one atom an attribute, parts in a fixed order."""
    atoms: dict[int, _Atom] = {}
    groups: dict[_Group, None] = {}
    for node in nodes:
        for part in node.parts if isinstance(node, _Group) and node.operator == operator else (node,):
            if isinstance(part, _Group):
                groups[part] = None
            elif (other := atoms.get(part.axis)) is None:
                atoms[part.axis] = part
            else:
                both = other.cells & part.cells if operator == "and" else other.cells | part.cells
                atoms[part.axis] = _Atom(part.axis, both)
    parts: list[_Node] = [atoms[axis] for axis in sorted(atoms)]
    parts += sorted(groups, key=_order)
    return parts[0] if len(parts) == 1 else _Group(operator, tuple(parts))


def _order(node: _Node) -> tuple[object, ...]:
    """A sort key, by structure. (Not the repr: Python refuses to print integers of very many bits.)"""
    if isinstance(node, _Atom):
        return 0, node.axis, node.cells
    return 1, node.operator, tuple(map(_order, node.parts))


def _negated(node: _Node, domain: Domain) -> _Node:
    """The complement, with the negation carried down to the atoms (De Morgan)."""
    if isinstance(node, _Atom):
        return _Atom(node.axis, conditions.everything(domain.attributes[node.axis]) ^ node.cells)
    return _joined("or" if node.operator == "and" else "and", (_negated(p, domain) for p in node.parts))


def _text(node: _Node, domain: Domain) -> str:
    if isinstance(node, _Atom):
        attribute = domain.attributes[node.axis]
        return conditions.described(attribute, node.cells, conditions.name_text(attribute.name))
    return f" {node.operator} ".join(
        f"({_text(part, domain)})" if isinstance(part, _Group) else _text(part, domain) for part in node.parts
    )


def like_question(text: str, names: Collection[str]) -> bool:
    """Whether a text begins as a question about numbers does, `mean:age`, and with no name of these that has a colon.

    Nothing that begins so is a condition.
    """
    if _QUESTION.match(text) is None:
        return False
    first = _TOKEN.match(text)
    name = "" if first is None else first["bare"]
    return name not in names and not meant(name, [known for known in names if ":" in known])


_Token = tuple[str, str, int]
"""Its kind: quoted, name, bare, sign, keyword or end; its text; its position, which counts characters from 1."""


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    end = len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            start = len(text) - len(text[place:].lstrip())
            wrong = "a quote that is not closed" if text[start] in "'\"`" else f"the character {text[start]!r}"
            raise InvalidInput(
                f"condition, position {start + 1}: {wrong}{_instead(text, start)}; a value with spaces or signs goes in"
                " single quotes, as in region = 'St. Pauli', and such a name in double ones"
            )
        kind = str(match.lastgroup)
        found = match.group(kind)
        position = match.start(kind) + 1
        if kind in ("quoted", "name"):
            found = found[1:-1].replace(found[0] * 2, found[0])
        elif kind == "bare" and found.lower() in conditions.KEYWORDS:
            kind, found = "keyword", found.lower()
        yield kind, found, position
        place = match.end()
    yield "end", "", len(text) + 1


def _instead(text: str, start: int) -> str:
    """What is written here in place of a character that other languages have; empty for others."""
    if word := _WORD_FOR.get(text[start]):
        return f"; write {word}"
    inside, bracket, _ = text[start + 1 :].partition("]")
    if text[start] not in "[]":
        return ""
    items = [item.strip().strip("'\"") for item in inside.split(",")] if text[start] == "[" and bracket else []
    listed = conditions.listed_bare(items) if items and len(inside) <= _MAX_SHOWN else "(a, b)"
    return f"; a list goes in parentheses: write in {listed}"


@final
class _Parser:
    """Recursive descent over the tokens; the depth of nesting is bounded."""

    def __init__(self, text: str, domain: Domain, learned: Collection[str] = ()) -> None:
        self.text, self.domain, self.learned = text, domain, learned
        if like_question(text, domain.names):
            raise InvalidInput(
                f"{quoted(text.strip())} is a question about numbers, as it has a colon, and no condition:"
                ' ask it by release.table, session.numbers or {"numbers": …}'
            )
        self.patterns: dict[tuple[str, str], int] = {}
        self.compared = 0
        self.negated = False  # whether an odd number of `not` stands before what is read
        self.last: tuple[Attribute, str, int] | None = None  # whose value was read last, bare, and where it begins
        self.rest = iter(list(_tokens(text)))  # a text with a wrong character is told so before anything else
        self.now = next(self.rest)

    def whole(self) -> _Node:
        node = self._condition(0)
        if self.now[0] != "end":
            self._fail("'and', 'or' or the end", self._about_words())
        return node

    def _take(self, *texts: str) -> str | None:
        """The next token's text, consumed, if it is one of these signs or keywords."""
        kind, text, _ = self.now
        if text not in texts or kind not in ("sign", "keyword"):
            return None
        self.now = next(self.rest)
        return text

    def _word(self, word: str) -> bool:
        """Whether the next token is this word, which stands for itself elsewhere; then it is consumed."""
        kind, text, _ = self.now
        if kind != "bare" or text.lower() != word:
            return False
        self.now = next(self.rest)
        return True

    def _need(self, text: str) -> None:
        if not self._take(text):
            self._fail(repr(text))

    def _fail(self, expected: str, more: str = "") -> NoReturn:
        kind, text, position = self.now
        got = "the end" if kind == "end" else repr(text)
        raise InvalidInput(f"condition, position {position}: expected {expected}, got {got}{more}")

    def _about_missing(self, attribute: Attribute) -> str:
        """How one asks for missing values, where the next word seems to mean these; else nothing."""
        means = self.now[1].lower() in (*MISSING_MARKS, "missing", "empty")
        return conditions.how_to_ask_for_missing(attribute.name) if means and self.now[0] != "end" else ""

    def _about_truth(self, attribute: Attribute) -> str:
        """How one asks for the records of which a column of truth values is true; of other columns nothing."""
        true = attribute.listed(True) if attribute.kind == "category" else frozenset()
        return f": write {conditions.cell_text(attribute, next(iter(true)))}" if len(true) == 1 else ""

    def _about_quotes(self, attribute: Attribute) -> str:
        """How a category that begins with a sign is written, where it stands here without quotes; else nothing."""
        kind, sign, position = self.now
        rest = "".join(self.text[position - 1 :].split())
        signed = (
            (code, "".join(text.split())) for code, text in enumerate(attribute.categories) if text[:1] == sign[:1]
        )
        begun = [(len(text), code) for code, text in signed if kind == "sign" and rest.startswith(text)]
        return f": did you mean {conditions.cell_text(attribute, max(begun)[1])}?" if begun else ""

    def _about_words(self) -> str:
        """How the value that was read last is written, where it is the first word of a category of several; or ''."""
        if self.last is None:
            return ""
        attribute, _, position = self.last
        category = conditions.several_words(attribute, self.text[position - 1 :])
        return f": did you mean {quoted(category)}? A value of several words goes in quotes" if category else ""

    def _condition(self, depth: int) -> _Node:
        clauses = [self._clause(depth)]
        while self._take("or"):
            clauses.append(self._clause(depth))
        return _joined("or", clauses) if len(clauses) > 1 else clauses[0]

    def _clause(self, depth: int) -> _Node:
        terms = [self._term(depth)]
        while self._take("and"):
            terms.append(self._term(depth))
        return _joined("and", terms) if len(terms) > 1 else terms[0]

    def _term(self, depth: int) -> _Node:
        if depth > _MAX_DEPTH:
            raise InvalidInput(f"condition, position {self.now[2]}: nested deeper than {_MAX_DEPTH} levels")
        if self._take("not"):
            self.negated = not self.negated
            node = _negated(self._term(depth + 1), self.domain)
            self.negated = not self.negated
            return node
        if self._take("("):
            node = self._condition(depth + 1)
            self._need(")")
            return node
        return self._comparison()

    def _comparison(self) -> _Node:
        kind, name, position = self.now
        if kind not in ("bare", "name"):
            named = kind == "quoted" and name in self.domain.names
            self._fail(
                "a column name",
                "; names go without quotes, or in double ones: " + conditions.name_text(name) if named else "",
            )
        self.now = next(self.rest)
        if name not in self.domain.names:
            names = ", ".join(map(conditions.name_text, self.domain.names))
            near = meant(name, self.domain.names)
            raise InvalidInput(f"condition, position {position}: no column {name!r}{near}; there are {names}")
        axis = self.domain.axis(name)
        attribute = self.domain.attributes[axis]
        if attribute.undecided:
            raise InvalidInput(
                f"condition, position {position}: the cells of {name!r} must be learned first, without this condition"
            )
        if self.domain.shape[axis] > MAX_MASK_CELLS:
            raise TooLarge(f"attribute {name!r} has {attribute.size:,} cells; at most {MAX_MASK_CELLS:,} may")
        cells = self._test(attribute, position)
        return _Atom(axis, cells)

    def _test(self, attribute: Attribute, start: int) -> int:
        """The cells that what follows a column's name allows."""
        before = self.now[2]
        operator = self._take("=", "==", "!=", "<", "<=", ">", ">=")
        signs = operator or "", self.now[1]
        joined = self.now[0] == "sign" and self.now[2] == before + len(signs[0])
        if joined and (sign := _SIGN_FOR.get(signs)) and not self._about_quotes(attribute):
            raise InvalidInput(f"condition, position {before}: {''.join(signs)} is no comparison: write {sign}")
        if operator in ("=", "==", "!="):
            cells = self._cells(start, conditions.equal_to, attribute, self._value(attribute))
            return cells ^ conditions.everything(attribute) if operator == "!=" else cells
        if operator:
            value = self._value(attribute)
            return self._cells(start, conditions.compared, attribute, operator, value, negated=self.negated)
        inverted = self._take("not") is not None
        if self._word("between"):
            low = self._value(attribute)
            self._need("and")
            high, negated = self._value(attribute), inverted != self.negated
            cells = self._cells(start, conditions.between, attribute, low, high, negated=negated)
        elif self._word("like"):
            cells = self._like(attribute, start)
        elif self._take("in"):
            cells = self._members(attribute, start, negated=inverted != self.negated)
        elif not inverted and self._take("is"):
            inverted = self._take("not") is not None
            if not self._take("missing"):
                self._fail("'missing'", self._about_missing(attribute))
            cells = self._cells(start, conditions.missing, attribute)
        else:
            self._fail("'in'" if inverted else "one of = != < <= > >= in is", self._about_truth(attribute))
        return cells ^ conditions.everything(attribute) if inverted else cells

    def _like(self, attribute: Attribute, start: int) -> int:
        """The categories of a pattern, each pattern compared once."""
        pattern = self._value(attribute)
        key = attribute.name, pattern.text
        if key not in self.patterns:
            self.compared += attribute.values
            if self.compared > MAX_COMPARED and self.patterns:
                raise TooLarge(
                    f"condition, position {start}: its patterns are compared with {self.compared:,} categories;"
                    f" at most {MAX_COMPARED:,} are allowed"
                )
            self.patterns[key] = self._cells(start, conditions.like, attribute, pattern)
        return self.patterns[key]

    def _members(self, attribute: Attribute, start: int, *, negated: bool) -> int:
        """A range, or a set of values and ranges in braces or parentheses."""
        bracket = self._take("{", "(")
        if not bracket:
            return self._item(attribute, start, negated=negated, need_range=True)
        close = "}" if bracket == "{" else ")"
        cells = 0
        if self._take(close):
            return cells
        while True:
            cells |= self._item(attribute, start, negated=negated)
            if self._take(close):
                return cells
            if not self._take(","):
                self._fail(f"',' or '{close}'", self._about_words())

    def _item(self, attribute: Attribute, start: int, *, negated: bool, need_range: bool = False) -> int:
        value = self._value(attribute)
        if self._take(".."):
            high = self._value(attribute)
            return self._cells(start, conditions.between, attribute, value, high, negated=negated)
        if need_range:
            more = conditions.how_to_ask_for_period(attribute, value.text) or self._about_words()
            self._fail("'..', or a set in braces after 'in'", more)
        return self._cells(start, conditions.equal_to, attribute, value)

    def _value(self, attribute: Attribute) -> WrittenValue:
        kind, text, _ = self.now
        if kind not in ("bare", "quoted", "name"):
            more = self._about_missing(attribute) or self._about_quotes(attribute)
            self._fail("a value (one with spaces or signs goes in quotes)", more)
        self.last = (attribute, text, self.now[2]) if kind == "bare" else None
        self.now = next(self.rest)
        return WrittenValue(text, quoted=kind != "bare")

    def _cells(
        self,
        position: int,
        condition: Callable[Concatenate[Attribute, _P], int],
        attribute: Attribute,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> int:
        """The cells of a condition, whose error is told with its position; none where others may be learned."""
        try:
            return condition(attribute, *args, **kwargs)
        except InvalidInput as error:
            words = self._about_words() if isinstance(error, conditions.CellsDiffer) else ""
            told = f"condition, position {position}: {error}"
            if words and self.last:
                told = f"condition, position {position}: attribute {attribute.name!r} has no category"
                told += f" {self.last[1]!r}{words}"
            if not isinstance(error, conditions.CellsDiffer):
                raise InvalidInput(told) from None
            if attribute.name in self.learned:
                return 0
            differs = conditions.CellsDiffer(told)
            differs.column, differs.cut = error.column, error.cut
            raise differs from None
