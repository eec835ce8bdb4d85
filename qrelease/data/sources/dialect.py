"""The dialect of a CSV file, as options state it; it is never guessed, since one record could change a guess."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, final

from qrelease._util.texts import quoted
from qrelease.data.spelling import meaning
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.data.attribute import Attribute

_MARKS: Final = frozenset("!#$%&'*/:;<=>?@^_`|~\t,\"")
_ENCODINGS: Final = re.compile(
    r"utf-8(-sig)?|utf-(16|32)(-[lb]e)?|iso8859-\d+|cp\d+|mac-roman|koi8-[ru]|shift_jis|euc_jp|euc_kr|gbk|gb18030|big5"
)


@final
@dataclass(frozen=True, slots=True)
class Dialect:
    """Separator, quote, decimal mark and encoding of a CSV file, and its header where it has none.

    Attributes
    ----------
    separator
        One mark: a comma, a semicolon, a tab, a bar, …
    quote
        What stands around a field with separators or line breaks in it, and twice for one of its own in a field; empty
        where nothing does.
    decimal
        Before the decimals of a number, `.` or `,`; a schema is written with points whatever the file has. Beside a
        decimal comma a number with a point is refused, for it may be one with thousands.
    encoding
        By its name in Python: utf-8 (a byte order mark is skipped), latin-1, cp1252, utf-16, ….
    escape
        A backslash where that stands before a quote, a separator, a line break or itself to make it a part of the text;
        empty where nothing does. Before anything else it is refused: some write `\\N` for what is missing, or `\\t`.
    header
        The names of all columns, in their order, where the file begins with its first record; none where its first
        line has them.

    Raises
    ------
    InvalidInput
        For a mark or an encoding that is not one of these, and for a name that is empty or given twice.

    Examples
    --------
    >>> Dialect(separator=";", decimal=",").pointed("1,50")
    '1.50'
    """

    separator: str = ","
    quote: str = '"'
    decimal: str = "."
    encoding: str = "utf-8"
    escape: str = ""
    header: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.separator not in _MARKS or self.separator == '"':
            raise InvalidInput(f"--separator must be one mark, such as ; or a tab, got {self.separator!r}")
        if self.quote and (self.quote not in _MARKS or self.quote == self.separator):
            raise InvalidInput(f"--quote must be one mark other than the separator, or empty, got {self.quote!r}")
        if self.escape not in ("", "\\"):
            raise InvalidInput(f"--escape must be \\ or empty, got {self.escape!r}")
        if self.decimal not in (".", ","):
            raise InvalidInput(f"--decimal must be . or , got {self.decimal!r}")
        try:
            name = codecs.lookup(self.encoding).name
        except LookupError:
            name = ""
        if not _ENCODINGS.fullmatch(name):
            raise InvalidInput(f"--encoding must be one such as utf-8, latin-1 or utf-16, got {self.encoding!r}")
        object.__setattr__(self, "encoding", name)
        header = tuple(column.strip() for column in self.header)
        if not all(header) or len(set(header)) < len(header):
            raise InvalidInput(f"--header must name every column once, got {', '.join(map(repr, self.header))}")
        object.__setattr__(self, "header", header)

    @property
    def is_utf8(self) -> bool:
        """Whether the bytes are UTF-8."""
        return self.encoding.startswith("utf-8")

    @property
    def of_parent(self) -> Dialect:
        """That of the parent table beside the records: a header is of these alone."""
        return replace(self, header=())

    @property
    def format(self) -> dict[str, Any]:
        """What Python's `csv.reader` is told."""
        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        quotes = {"quotechar": self.quote or None, "quoting": quoting, "escapechar": self.escape or None}
        return {"delimiter": self.separator, **quotes, "strict": True}

    def lines(self, text: Iterable[str], where: object) -> Iterable[str]:
        """The lines of a text as they are; `InvalidInput` for one, called by its place, that escapes what cannot be."""
        return self._checked(text, where) if self.escape else text

    def _checked(self, text: Iterable[str], where: object) -> Iterator[str]:
        special = "".join(map(re.escape, {self.separator, self.quote, self.escape, "\r", "\n"}))
        good = re.compile(rf"(?:[^\\]|\\[{special}])*", re.DOTALL)
        for number, line in enumerate(text, start=1):
            if self.escape in line and not good.fullmatch(line):
                found = good.match(line)
                at = 0 if found is None else found.end()
                raise InvalidInput(
                    f"{where} line {number}: {quoted(line[at : at + 2])} escapes no quote, separator or line break, nor"
                    " itself: what it stands for is not known"
                )
            yield line

    def pointed(self, text: str) -> str:
        """A numeral with a decimal comma as one with a point; any other text as it is."""
        if self.decimal == "." or "," not in text or "." in text:
            return text
        changed = text.replace(",", ".")
        return changed if isinstance(meaning(changed.strip()), float) else text

    def text(self, attribute: Attribute, text: str) -> str:
        """The text that is looked up for a cell: of a column of numbers with points.

        Raises `InvalidInput` for a number with a point beside decimal commas, unless it is listed as missing, and where
        the schema says, too, how the column's numbers are written.
        """
        if self.decimal == "." or attribute.kind not in ("coded", "number"):
            return text
        self.check_alone(attribute)
        if "." in text and text.strip() not in attribute.missing and isinstance(meaning(text.strip()), float):
            raise InvalidInput(f"column {attribute.name!r}: value {quoted(text)} has a point, but --decimal is a comma")
        return self.pointed(text)

    def check_alone(self, attribute: Attribute) -> None:
        """Raise `InvalidInput` where both this and the schema say how a column's numbers are written."""
        if self.decimal != "." and attribute.writing.of_numbers:
            raise InvalidInput(
                f"column {attribute.name!r}: the schema says how its numbers are written; leave out --decimal, and say"
                " decimal in the entries of the others"
            )
