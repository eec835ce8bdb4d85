"""The budget book: memory, composition, rounds, and why it does not go by the value."""

import math
from fractions import Fraction
from itertools import product

import pytest
from paths import at_most_e_to, law_of, worst_ratio

from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.local import Book, Coin, DeviceEntropy, KAry


def test_an_answer_is_given_again_whatever_the_value_is_by_then():
    book, client = Book(1.0), KAry(1.0, 1000)
    first = book.report("job", client, 3, DeviceEntropy())
    assert all(book.report("job", client, v, DeviceEntropy()) == first for v in range(50))
    assert (book.spent, book.left) == (1, 0)
    with pytest.raises(BudgetExceeded, match="total epsilon=1, spent 1, asked 1"):
        book.report("job", client, 3, DeviceEntropy(), round=1)


def test_questions_and_rounds_add_up_exactly():
    book = Book(Fraction(1, 2))
    for round in range(3):
        book.report("mood", Coin(Fraction(1, 10)), 0.5, DeviceEntropy(), round=round)
    book.report("sport", KAry(Fraction(2, 10), 3), 1, DeviceEntropy())
    assert book.left == 0
    with pytest.raises(BudgetExceeded):
        book.report("age", Coin(Fraction(1, 10**9)), 0.5, DeviceEntropy())


def test_a_book_lasts_and_holds_no_value(tmp_path):
    path = tmp_path / "book.json"
    first = Book(1.0, path).report("place", KAry(0.5, 1 << 40), 123456789, DeviceEntropy())
    again = Book(1.0, path)
    assert again.spent == Fraction(1, 2)
    assert again.report("place", KAry(0.5, 1 << 40), 7, DeviceEntropy()) == first
    if first.code != 123456789:
        assert "123456789" not in path.read_text()
    with pytest.raises(InvalidInput, match="in other terms"):
        again.report("place", KAry(0.25, 1 << 40), 7, DeviceEntropy())
    with pytest.raises(InvalidInput, match="a total epsilon=1, not 2"):
        Book(2.0, path)
    path.write_text('{"format": 1, "epsilon": "1", "answers": {"0 a": {"epsilon": "-1", "terms": "", "report": ""}}}')
    with pytest.raises(InvalidInput, match="no budget book"):
        Book(1.0, path)
    path.write_text("[]")
    with pytest.raises(InvalidInput, match="no budget book"):
        Book(1.0, path)


def test_nothing_is_charged_for_what_is_refused():
    book = Book(1.0)
    for bad in (
        lambda: book.report("a", KAry(1.0, 3), 5, DeviceEntropy()),
        lambda: book.report("", KAry(1.0, 3), 1, DeviceEntropy()),
    ):
        with pytest.raises(InvalidInput):
            bad()
    assert book.spent == 0


def transcript(client, values, draws, remembered):
    """What a device says to the same question three times, with a memory by `remembered(round, value)`."""
    memory = {}
    for round, value in enumerate(values):
        key = remembered(round, value)
        if key not in memory:
            memory[key] = client.draw(value, draws)
    return tuple(memory[remembered(round, value)] for round, value in enumerate(values))


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_whole_history_of_values_is_private_and_a_memory_by_value_is_not(rounds):
    client, histories = KAry(0.5, 2), list(product(range(2), repeat=3))
    book = [
        law_of(lambda draws, h=h: transcript(client, h, draws, lambda round, _: min(round, rounds - 1)))
        for h in histories
    ]
    ratio = worst_ratio(book)
    assert at_most_e_to(ratio, Fraction(rounds, 2))
    assert math.log(ratio) == pytest.approx(rounds / 2)
    by_value = [law_of(lambda draws, h=h: transcript(client, h, draws, lambda _, value: value)) for h in histories]
    assert worst_ratio(by_value) == math.inf
