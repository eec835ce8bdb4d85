"""Writers that charge, store and show answers until they are killed, and what a ledger has to keep of it afterwards.

What a writer believes done it appends to a journal with one write, and the ledger is held against the journal. The
ledger is a file, or on a server; of one on a server writers are told now and then that something came to nothing.
"""

import os
import random
import re
import time
from fractions import Fraction
from pathlib import Path

from qrelease.errors import BudgetExceeded, LedgerError, OutcomeUnknown
from qrelease.privacy import PureDP, split
from qrelease.privacy.costs import round_up
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_entries import Charge

SHARES, KEYS = 400, 600  # a ledger cannot hold all of its KEYS
TOTAL = PureDP(1.0)
COST = split(TOTAL, [1.0] * SHARES)[0]


def charge(ledger: Ledger, key: str) -> Charge:
    return ledger.charge(COST, f"label of {key}", key)


def note(journal: int, *words: str) -> None:
    os.write(journal, (" ".join(words) + "\n").encode())


def write_forever(place: str, journal: Path, seed: int, *, broken: bool = False, lost: bool = False) -> None:
    """A writer; the broken one shows its answer before it is stored.

    lost  whether a server may be, so that what came to nothing is tried again
    """
    generator = random.Random(seed)
    said = os.open(journal, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    ledger = None
    while True:
        try:
            ledger = ledger or Ledger.open(place, TOTAL)
            key = f"k{generator.randrange(KEYS)}"
            if lost and generator.random() < 0.25:
                look(ledger, key, said)
            else:
                write(ledger, key, said, broken)
        except BudgetExceeded:
            continue
        except OutcomeUnknown:
            note(said, "unknown")
        except LedgerError:
            if not lost:
                raise
            note(said, "nothing")
            time.sleep(0.02)  # the server may be starting


def write(ledger: Ledger, key: str, journal: int, broken: bool) -> None:
    charged = charge(ledger, key)
    note(journal, "charged", key)
    answer = charged.answer or os.urandom(8).hex().encode()
    if broken:
        note(journal, "shown", key, answer.decode())
    if charged.answer is None:
        answer = ledger.store_answer(charged, answer)
    note(journal, "shown", key, answer.decode())


def look(ledger: Ledger, key: str, journal: int) -> None:
    """Show what another has written, if anything, without writing."""
    with ledger.store.reading():
        row = ledger.store.with_key(key)
        answer = ledger.store.answer(row.id) if row else None
    if row:
        note(journal, "charged", key)
    if answer:
        note(journal, "shown", key, answer.decode())


def broken_promises(place: str, journal: Path, generator: random.Random) -> list[str]:
    """What the ledger does not keep of what the journal says, after a round."""
    lines = whole_lines(journal.read_text()) if journal.exists() else []
    shown: dict[str, set[str]] = {}
    for line in lines:
        if line[0] == "shown":
            shown.setdefault(line[1], set()).add(line[2])
    started = time.monotonic()
    with Ledger.open(place, TOTAL) as ledger, journal.open("a") as more:
        found = _against_history(ledger, {line[1] for line in lines if line[0] in ("charged", "shown")})
        found += [f"{key} showed {len(answers)} answers" for key, answers in shown.items() if len(answers) > 1]
        for key in generator.sample(sorted(shown), min(8, len(shown))):
            again = charge(ledger, key)
            if again.fresh or {str(again.answer or b"", "ascii")} != shown[key]:
                found.append(f"{key} came back as {again}, {again.answer!r} where {shown[key]} was shown")
        crashed = [e.key for e in ledger.history() if e.kind == "charge" and not e.answered]
        for key in crashed[:3]:
            again = charge(ledger, str(key))
            if again.fresh or again.answer is not None:
                found.append(f"{key} has no answer but came back as {again}")
            more.write(f"shown {key} {ledger.store_answer(again, b'late').decode()}\n")
    if time.monotonic() - started > 20:
        found.append("locked out")
    return found


def whole_lines(text: str) -> list[list[str]]:
    """The words of each line that was written whole: of a writer that is killed, a write may end where a page does."""
    whole = re.compile(r"charged k\d+\n|shown k\d+ \w+\n")
    return [line.split() for line in text.splitlines(keepends=True) if whole.fullmatch(line)]


def _against_history(ledger: Ledger, charged: set[str]) -> list[str]:
    """Lost charges, charges beyond the total, sums that are not the sum of the history."""
    history = ledger.history()
    charges = [entry for entry in history if entry.kind == "charge"]
    exact = sum((Fraction(entry.cost.epsilon) for entry in charges), Fraction(0))  # type: ignore[union-attr]
    spent = ledger.spent
    found = [f"the charge of {key} is lost" for key in charged - {str(entry.key) for entry in charges}]
    if exact > 1 or len(charges) > SHARES:
        found.append(f"{len(charges)} charges exceed the total")
    if spent != (PureDP(round_up(exact)) if exact else None):
        found.append(f"the history comes to {float(exact)}, the sum says {spent}")
    found += [f"entry {entry.id} has an answer without a charge" for entry in history[:1] if entry.answered]
    return found


def exhaust(place: str) -> list[str]:
    """After the last round the ledger still takes every share that is left."""
    with Ledger.open(place, TOTAL) as ledger:
        try:
            while True:
                ledger.charge(COST, "the rest")
        except BudgetExceeded:
            fitted = len(ledger.history()) - 1
    return [] if fitted == SHARES else [f"{fitted} shares fitted, not {SHARES}"]
