"""A person's own budget book: what her device has said, and how much it may still say. No numpy.

An answer is drawn once for each question and round, and given again to whoever asks again, whatever her value is by
then. So the book may be asked for the same answer any number of times, and all that it ever says is (Σε)-private for
her whole history of values, by composition.

*Why the memory goes by the question and the round, and not by the value.* A memory by the value, as RAPPOR's permanent
response, shows when a value changes: one report again and again proves that it did not change between two reports that
differ, and that has no ε at all.
"""

from __future__ import annotations

import json
import os
import threading
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, final

from qrelease._util.durable import Lock, file_identity, replace_durably
from qrelease._util.validate import rational, whole
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.local.client import Client, Report

if TYPE_CHECKING:
    from qrelease.noise.entropy import WordSource


@final
class Book:
    """What one person's device has answered, under one total ε.

    Parameters
    ----------
    epsilon
        The total that all answers together may cost.
    path
        A file on the device, which is made if there is none; None keeps the book in memory. It holds reports, and no
        values. One book has it open at a time, by a lock on a file of that name and `.lock` beside it, until `close`.
        Neither may be moved, replaced or named twice meanwhile.

    Raises
    ------
    InvalidInput
        For a file that is no book, or one with another total.
    LedgerError
        For a file that is open already, here or in another process; one that was moved or replaced since it was opened,
        or whose lock was; and for any use after `close`, or in a process that did not open it, such as the child of a
        fork, whose answers would be forgotten here.

    Examples
    --------
    >>> from qrelease.local import Book, DeviceEntropy, KAry
    >>> book = Book(1.0)
    >>> first = book.report("sport", KAry(0.5, 3), 2, DeviceEntropy())
    >>> book.report("sport", KAry(0.5, 3), 0, DeviceEntropy()) == first  # the same round: nothing new is said
    True
    >>> float(book.left)
    0.5
    """

    def __init__(self, epsilon: float | Fraction, path: str | Path | None = None) -> None:
        self.total = rational("epsilon", epsilon)
        self._path = None if path is None else Path(os.path.realpath(path))
        self._answers: dict[str, dict[str, str]] = {}
        self._process, self._thread = os.getpid(), threading.Lock()
        self._lock: Lock | None = None
        self._file: tuple[int, int] | None = None  # that was last read or written
        self._closed = False
        if self._path is not None:
            self._lock = Lock.take(self._path.with_name(self._path.name + ".lock"))
            if self._lock is None:
                raise LedgerError(f"the budget book {self._path} is open already: close it there")
            try:
                self._file = file_identity(self._path)
                self._check_place()
                self._answers = self._load(self._path) if self._path.exists() else {}
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Let go of the file; afterwards every report is a `LedgerError`. Closing twice is harmless."""
        self._closed = True
        if self._lock is not None and self._process == os.getpid():
            self._lock.free()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_lock", None) is not None:
            self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a budget book cannot be copied or pickled: what one of two answers is not seen by the other")

    @property
    def spent(self) -> Fraction:
        """The sum of what all answers cost."""
        return sum((Fraction(a["epsilon"]) for a in self._answers.values()), Fraction(0))

    @property
    def left(self) -> Fraction:
        """What answers may still cost."""
        return self.total - self.spent

    def report(self, question: str, client: Client, value: Any, entropy: WordSource, *, round: int = 0) -> Report:
        """The answer to a question in a round: drawn, charged and written down, or given again.

        Parameters
        ----------
        question
            Its name. All rounds of one question, and all questions, add up.
        client
            The mechanism. Another one for the same question and round is refused.
        value
            The person's value now. It is not looked at where the answer was given before.
        entropy
            As for `Client.report`.
        round
            Which repetition of the question this is. It must be public, such as the week, and not depend on the value.

        Raises
        ------
        BudgetExceeded
            If the rest of the total is less than the client's ε. Nothing is drawn then.
        InvalidInput
            For a bad value or name, and for a question that was answered in other terms.
        LedgerError
            After `close`, in a process that did not open the book, and where its file or lock was moved or replaced.
        """
        self._check_open()  # before the lock, which another thread may have held at a fork
        with self._thread:
            return self._report(question, client, value, entropy, round)

    def _report(self, question: str, client: Client, value: Any, entropy: WordSource, round: int) -> Report:
        self._check_open()
        if not isinstance(question, str) or not question:
            raise InvalidInput("a question must have a name")
        key = f"{whole('round', round, least=0)} {question}"
        known = self._answers.get(key)
        if known is not None:
            report = client.read_json(known["report"]) if known["terms"] == client.terms else None
            if report is None:
                raise InvalidInput(f"question {question!r} was answered in round {round} in other terms")
            return report
        cost = Fraction(client.epsilon)
        if cost > self.left:
            raise BudgetExceeded(
                f"this person's budget does not cover the question: total epsilon={float(self.total):g}, "
                f"spent {float(self.spent):g}, asked {float(cost):g}"
            )
        self._check_place()
        client.place(value)  # a bad value is refused before anything is charged
        # The report goes into the book with its charge in one step, and leaves the device only after that.
        report = client.report(value, entropy)
        answer = {"epsilon": str(cost), "terms": client.terms, "report": report.to_json()}
        self._save({**self._answers, key: answer})
        return report

    def _check_open(self) -> None:
        named = "the budget book" if self._path is None else f"the budget book {self._path}"
        if self._closed:
            raise LedgerError(f"{named} is closed")
        if self._process != os.getpid():
            raise LedgerError(f"{named} was opened before a fork: open it in the process that uses it")

    def _check_place(self) -> None:
        """`LedgerError` for a file that another book could have open too, and go on there with what is left here."""
        path = self._path
        if path is None:
            return
        if self._lock is None or not self._lock.stands or file_identity(path) != self._file:
            raise LedgerError(f"the budget book {path} or its lock was moved or replaced since it was opened: close it")
        if self._file is not None and path.stat().st_nlink > 1:
            raise LedgerError(f"the budget book {path} has a second name (a hard link): leave one")

    def _save(self, answers: dict[str, dict[str, str]]) -> None:
        if self._path is not None:
            self._check_place()
            written = json.dumps({"format": 1, "epsilon": str(self.total), "answers": answers})
            self._file = replace_durably(self._path, written)
        self._answers = answers

    def _load(self, path: Path) -> dict[str, dict[str, str]]:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            total, answers = Fraction(found["epsilon"]), found["answers"]
            if found["format"] != 1 or not all(set(a) == {"epsilon", "terms", "report"} for a in answers.values()):
                raise ValueError
            if any(Fraction(a["epsilon"]) <= 0 for a in answers.values()):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            raise InvalidInput(f"{path} is no budget book") from None
        if total != self.total:
            raise InvalidInput(f"{path} is a book of a total epsilon={float(total):g}, not {float(self.total):g}")
        return dict(answers)
