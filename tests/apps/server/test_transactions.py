"""The queue of a worker's requests."""

import asyncio
import contextlib
import shutil
import threading
import time

import pytest

from qrelease.apps.server.transactions import SETTINGS, Busy, Transactions
from qrelease.errors import LedgerError
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger


class Idle:
    """A service that has nothing to do by itself."""

    def together(self):
        return contextlib.nullcontext()

    def charges(self):
        return 0

    def catch_up(self):
        pass

    def learn(self):
        return False


def spent_in_a_copy(path):
    with Ledger.open(shutil.copy(path, path.with_name("copy.ledger"))) as copy:
        return copy.spent


def test_the_file_alone_has_what_was_answered_soon_after(path):
    """In a pause, or within a second where there is none; until then the log has it."""
    with Ledger.open(path, PureDP(1.0)) as ledger:

        def charge(_):
            ledger.charge(PureDP(0.25), "a query")
            return spent_in_a_copy(path)

        transactions = Transactions(ledger, Idle, path.with_name("turn"))
        transactions.start()
        try:
            with transactions.coming():  # no pause
                assert asyncio.run(transactions.do(charge, 60.0)) is None
                until = time.monotonic() + 60
                while spent_in_a_copy(path) is None and time.monotonic() < until:
                    asyncio.run(transactions.do(lambda _: time.sleep(0.05), 60.0))
                assert spent_in_a_copy(path) == PureDP(0.25)
                assert asyncio.run(transactions.do(charge, 60.0)) == PureDP(0.25)
            while spent_in_a_copy(path) == PureDP(0.25) and time.monotonic() < until:
                time.sleep(0.05)
            assert spent_in_a_copy(path) == PureDP(0.5)
        finally:
            transactions.stop()


def test_the_file_is_not_brought_up_to_date_in_each_pause(path):
    """It waits for the disk, and would hold up who asks next."""
    with Ledger.open(path, PureDP(1.0)) as ledger:
        transactions = Transactions(ledger, Idle, path.with_name("turn"))
        transactions.start()
        try:
            begun, times = time.monotonic(), 0
            for _ in range(20):
                asyncio.run(transactions.do(lambda _: ledger.charge(PureDP(0.01), "a query"), 60.0))
                time.sleep(10 * SETTINGS.pause_seconds)
                with contextlib.suppress(LedgerError):  # it was copied just when it was brought up to date
                    times += spent_in_a_copy(path) == ledger.spent
            assert times <= (time.monotonic() - begun) / (SETTINGS.tidying_seconds / 2)
        finally:
            transactions.stop()


@pytest.fixture
def transactions(path):
    with Ledger.open(path, PureDP(1.0)) as ledger:
        transactions = Transactions(ledger, Idle, path.with_name("turn"))
        transactions.start()
        try:
            yield transactions
        finally:
            transactions.stop()


class Slow:
    """Work that takes until it may end."""

    def __init__(self):
        self.begun, self.going = threading.Event(), threading.Event()

    def __call__(self, service):
        self.begun.set()
        self.going.wait(60)
        return "slow"

    async def begin(self, transactions):
        """Have it begun."""
        task = asyncio.create_task(transactions.do(self, 60.0))
        while not self.begun.is_set():
            await asyncio.sleep(0.001)
            assert not task.done(), task.exception()
        return task


def test_a_queue_has_an_end(transactions):
    """While one request takes long, so many wait; a further one is told to try again, and they are all done."""
    late, most = [], SETTINGS.max_waiting

    async def many():
        slow = Slow()
        first = await slow.begin(transactions)
        waiting = [asyncio.create_task(transactions.do(lambda _: "done", 60.0)) for _ in range(most - 1)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="too many requests"):
            await transactions.do(late.append, 60.0)
        slow.going.set()
        return await asyncio.gather(first, *waiting)

    assert asyncio.run(many()) == ["slow", *["done"] * (most - 1)]
    assert not late


def test_who_waited_in_vain_is_passed_over(transactions):
    """What was still queued when nobody waited for it any more is not done at all."""
    late = []

    async def both():
        slow = Slow()
        first = await slow.begin(transactions)
        with pytest.raises(Busy, match="too long"):
            await transactions.do(late.append, 0.05)
        slow.going.set()
        assert await first == "slow"
        assert await transactions.do(lambda _: "next", 60.0) == "next"

    asyncio.run(both())
    assert not late
