"""The work for analysts in one transaction: quotes, answers that are charged and recorded, the public hypothesis.

How long a request takes depends on what is public: on the request, on what was answered before, and on where its answer
comes from, which the answer says. Estimates are an exception: their time may depend on which values occur, see the
threat model. Noise is drawn in the middle of it and takes the same path whatever its value: the same statements are
executed and the same rows written, in one transaction.

Analysts share what was bought: that a query is free for one of them tells that it, or what it follows from, was asked
before, and the server's total tells what others spent. That is public, as the answers are; names are not told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import UNSET

from qrelease._util.texts import listed
from qrelease.apps.server import shapes
from qrelease.apps.server.problems import Ended, KeyReused, NoRoom
from qrelease.apps.server.questions import EstimateQuestion, NumberQuestion, Question
from qrelease.errors import BudgetExceeded, StreamHalted
from qrelease.mechanisms.online import numbers
from qrelease.mechanisms.online.quotes import total_cost
from qrelease.privacy import Cost
from qrelease.privacy.analysts import MAX_STORED_BYTES, AnalystAccount, Analysts
from qrelease.privacy.costs import amount_to_json, six_digits
from qrelease.privacy.filters import IN_RHO, note_of

if TYPE_CHECKING:
    from qrelease.inference.histogram import Histogram
    from qrelease.mechanisms.online.canonical_group import CanonicalGroup
    from qrelease.mechanisms.online.quotes import Purse, Quote
    from qrelease.mechanisms.online.session import OnlineSession
    from qrelease.queries.canonical import CanonicalQuery
    from qrelease.queries.numeric import NumericQuestion


_Key = tuple[bool, "tuple[CanonicalQuery, ...] | NumericQuestion"]
"""What tells a question from others, and whether a synopsis may be bought for it."""


class _RequestPurse:
    """An analyst's account, of which one request takes at most `most`: in ε, or in ρ where the budget is in ρ.

    taken    what it took so far, in the same number
    terms    what it took since this was emptied last, in the budget's terms
    charges  in how many parts
    """

    def __init__(self, account: AnalystAccount, most: float | None) -> None:
        self._account, self._most, self.taken, self.charges = account, most, 0.0, 0
        self.terms: dict[str, float] = {}

    def takes(self, cost: Cost) -> dict[str, float] | None:
        """By how much a cost would raise what the analyst has spent."""
        return self._account.takes(cost)

    def admits(self, cost: Cost) -> None:
        self._account.admits(cost)
        if self._most is None:
            return
        takes = _first(self._account.takes(cost))
        if self.taken + takes > self._most * (1 + 1e-9):  # a quote's sum and the sum of its parts are rounded apart
            told = (
                f"it would take {six_digits(takes)} of your budget by now, and at most"
                f" {six_digits(self._most, up=False)} may be taken"
            )
            raise BudgetExceeded(f"{told}; ask for a new quote")

    def spend(self, cost: Cost) -> None:
        takes = self._account.takes(cost)
        self.taken += _first(takes)
        for name, part in (takes or {}).items():
            self.terms[name] = self.terms.get(name, 0.0) + part
        self.charges += 1
        self._account.spend(cost)


def _first(takes: dict[str, float] | None) -> float:
    """The first number of what a cost takes: ε, or ρ."""
    return next(iter(takes.values())) if takes else math.inf


def _so_far(taken: float, found: int, done: int, questions: Sequence[Question | NumberQuestion]) -> str:
    """What a request took that ends in the middle, and what it found: as public as the answers are.

    found  how many answers
    done   how many questions, the first ones, have all their answers
    """
    if not found and not taken:
        return "nothing was charged"
    asked = sum(question.given for question in questions)
    if not found:  # of a quantile, which is looked for step by step
        return (
            f"{six_digits(taken)} of your budget was charged for the first steps towards an answer: what they found is"
            " kept, and free when you ask again"
        )
    which = "question 1 is" if done == 1 else f"questions 1 to {done} are"
    paid = f"{six_digits(taken)} of your budget was charged by this request" if taken else "nothing was charged"
    return (
        f"{which} answered of {len(questions)}: {found:,} of {asked:,} answers were found, which stand in `answers` of"
        f" this reply; {paid}, and they are kept, and free when you ask for them again"
    )


BUDGET_NOTE: Final = f"{IN_RHO}: go by `answers`, about how many more answers what is left buys"
"""What is noted of a budget whose numbers do not add up."""

_NO_ROOM: Final = f"your requests fill the {MAX_STORED_BYTES:,} bytes that are kept; only known answers are given"


def _stored(account: AnalystAccount, key: str, request: str) -> bytes | None:
    """What was sent for this key before; `KeyReused` if it was another request's."""
    known = account.request(key)
    if known is not None and known.request != request:
        raise KeyReused("this key names another request of yours; give each request a key of its own")
    return known.response if known else None


def _recorded(account: AnalystAccount, key: str, request: str, answer: shapes.Shape) -> bytes:
    """An answer as bytes, written down while there is room."""
    response = msgspec.json.encode(answer)
    if not account.full:
        account.record(key, request, response)
    return response


class Service:
    """A session and those who may ask in it; for the thread of the transactions alone."""

    def __init__(self, session: OnlineSession, analysts: Analysts) -> None:
        self._session, self._analysts, self._charges = session, analysts, 0

    def charges(self) -> int:
        """The charges that requests made since this was asked last."""
        charges, self._charges = self._charges, 0
        return charges

    def together(self) -> AbstractContextManager[None]:
        """One durable transaction for what is done in it; nothing that it gives may be sent before its end."""
        return self._session.together()

    def catch_up(self) -> None:
        """Take in what other workers wrote."""
        self._session.catch_up()

    def learn(self) -> bool:
        """Learn one thing that was put off; whether there was any."""
        return self._session.learn()

    def quote(self, analyst: str, questions: Sequence[Question | NumberQuestion]) -> shapes.Quoted:
        """What each query would cost the analyst now, at most, and several together; also beyond what is left."""
        # Many are alike, and others cost the same.
        quoted: dict[_Key, shapes.Quote] = {}
        different = list[Question | NumberQuestion]()
        with self._analysts.account(analyst) as account:
            takes = cache(account.takes)
            for question in questions:
                if _asked(question) not in quoted:
                    quoted[_asked(question)] = self._quote(question, account, takes)
                    different.append(question)
            total = self._total(different, account) if len(questions) > 1 else UNSET
        return shapes.Quoted([quoted[_asked(question)] for question in questions], total)

    def _total(self, questions: Sequence[Question | NumberQuestion], account: AnalystAccount) -> shapes.Total:
        """What different queries would cost together, a synopsis once for all that it answers."""
        bought = list[Cost]()
        for synopsis in (True, False):
            of_a_kind = [question for question in questions if question.synopsis == synopsis]
            if of_a_kind:
                bought += self._bought(of_a_kind, account)
        total = total_cost(self._session.cost, bought)
        if total is None:
            return shapes.Total(None, None, affordable=True)
        try:
            self._session.check_covered(bought, account)
        except BudgetExceeded:
            return shapes.Total(costs(total), account.takes(total), affordable=False)
        return shapes.Total(costs(total), account.takes(total), affordable=True)

    def _bought(self, questions: Sequence[Question | NumberQuestion], purse: Purse) -> list[Cost]:
        """What would be bought for queries of which all, or none, may buy a synopsis, each at what it costs."""
        found: list[CanonicalGroup] = []
        steps: list[Cost] = []
        for question in questions:
            if isinstance(question, NumberQuestion):
                families, further = numbers.parts(self._session, question.asked)
                found, steps = [*found, *families], [*steps, *further]
            else:
                found.append(question.group)
        groups = [*{group.queries: group for group in found}.values()]  # means by the same groups count the same ones
        with self._as_wished(questions[0]):
            try:
                quotes = self._session.quotes(groups, purse)
            except BudgetExceeded:
                missing = [group for group in groups if self._session.missing(group)]
                return [*map(self._session.price, missing), *steps]
        return [*(quote.cost for quote in quotes if quote.cost is not None), *steps]

    def _quote(
        self, question: Question | NumberQuestion, purse: Purse, takes: Callable[[Cost], dict[str, float] | None]
    ) -> shapes.Quote:
        try:
            quote = self._quoted(question, purse)
            source, cost, affordable = quote.source, quote.cost, True
        except BudgetExceeded:
            source, cost, affordable = "measured", self._price(question), False
        raised = None if cost is None else takes(cost)
        note = self._session.forewarning(question.asked) if isinstance(question, NumberQuestion) else ""
        if source == "synopsis" and cost is not None:
            alone = self._price(question)
            apart = _alone("would take", None if alone is None else takes(alone))
            note = "; ".join(filter(None, [note, f"this buys {_synopsis_of(question)}; {apart}"]))
        error = self._session.foretold_error(question.asked if isinstance(question, NumberQuestion) else None)
        return shapes.Quote(source, costs(cost), raised, affordable, note or UNSET, UNSET if error is None else error)

    def _quoted(self, question: Question | NumberQuestion, purse: Purse | None = None) -> Quote:
        with self._as_wished(question):
            if isinstance(question, NumberQuestion):
                return numbers.quote(self._session, question.asked, purse)
            return self._session.quote(question.group, purse)

    def _as_wished(self, question: Question | NumberQuestion) -> AbstractContextManager[None]:
        """While a question is quoted or answered: whether a synopsis may be bought for it."""
        return nullcontext() if question.synopsis else self._session.single_answers()

    def _price(self, question: Question | NumberQuestion) -> Cost | None:
        if isinstance(question, NumberQuestion):
            return numbers.price(self._session, question.asked)
        return self._session.price(question.group)

    def ask(
        self,
        analyst: str,
        key: str,
        request: str,
        questions: Sequence[Question | NumberQuestion],
        most: float | None = None,
    ) -> bytes:
        """The answers, as the bytes that are sent, and sent again for the same key.

        most  of the analyst's budget that they may take together, in its first number; None for all that is left

        `BudgetExceeded` if the budget, or that part of it, ends before all are answered, which says how many were and
        what was charged for them: that stays, and they are cached. `KeyReused` if the key was another request's. Of an
        analyst whose room is used up nothing more is written down: answers that are known are given, for they never
        change; others are `NoRoom`.
        """
        with self._analysts.account(analyst) as account:
            known = _stored(account, key, request)
            if known is not None:
                return known
            if account.full and not all(self._known(question) for question in questions):
                raise NoRoom(_NO_ROOM)
            purse, answers, done = _RequestPurse(account, most), list[shapes.Answer](), 0
            try:
                for question in questions:
                    with self._as_wished(question):
                        answers += self._answers(purse, question)
                    _tell(answers, purse)
                    done += 1
            except (BudgetExceeded, StreamHalted) as end:
                facts = end.facts if isinstance(end, BudgetExceeded) else ""
                told = f"the server's {facts} (the data holder alone can raise it)" if facts else str(end)
                told = f"{told}; {_so_far(purse.taken, len(answers), done, questions)}"
                raise (Ended(told, answers) if answers else type(end)(told)) from None
            finally:
                self._charges += purse.charges
            return _recorded(account, key, request, shapes.Answered(answers))

    def quote_estimate(self, analyst: str, asked: EstimateQuestion) -> shapes.EstimateQuote:
        """What an estimate would cost the analyst now; also if that is more than is left."""
        with self._analysts.account(analyst) as account:
            source, cost, affordable = self._quoted_estimate(asked, account)
            takes = None if cost is None else account.takes(cost)
        promise = self._session.promised(asked.statistic, asked.cost)
        return shapes.EstimateQuote(source, costs(cost), takes, affordable, promise)

    def _quoted_estimate(
        self, asked: EstimateQuestion, purse: Purse | None
    ) -> tuple[Literal["cached", "measured"], Cost | None, bool]:
        """Where it would come from, its price, and whether the budgets hold that."""
        try:
            quote = self._session.quote_estimate(asked.statistic, asked.cost, purse)
        except BudgetExceeded:
            return "measured", asked.cost, False
        return "cached" if quote.source == "cached" else "measured", quote.cost, True

    def estimate(
        self, analyst: str, key: str, request: str, asked: EstimateQuestion, most: float | None = None
    ) -> bytes:
        """An estimate, as the bytes that are sent, and sent again for the same key; raises as `ask` does."""
        with self._analysts.account(analyst) as account:
            known = _stored(account, key, request)
            if known is not None:
                return known
            if account.full and self._quoted_estimate(asked, None)[0] != "cached":
                raise NoRoom(_NO_ROOM)
            purse = _RequestPurse(account, most)
            try:
                found = self._session.estimate(asked.statistic, asked.cost, purse)
            except BudgetExceeded as end:
                facts = end.facts
                told = f"the server's {facts} (the data holder alone can raise it)" if facts else str(end)
                raise BudgetExceeded(f"{told}; nothing was charged") from None
            finally:
                self._charges += purse.charges
            answer = shapes.Estimated(found.estimate.to_json(), found.source, costs(found.cost), purse.terms or None)
            return _recorded(account, key, request, answer)

    def _known(self, question: Question | NumberQuestion) -> bool:
        quote = self._quoted(question)
        return quote.cost is None and quote.source != "measured"

    def _answers(self, purse: _RequestPurse, question: Question | NumberQuestion) -> list[shapes.Answer]:
        """The answers to one question; a synopsis that was bought for it is noted with the one that has the cost."""
        if isinstance(question, NumberQuestion):
            found = self._numbers(purse, question)
            apart = f"with {_NO_SYNOPSIS} the answers are measured by themselves"
        else:
            price = self._session.price(question.group) if self._session.missing(question.group) else None
            alone = None if price is None else purse.takes(price)
            found = self._counts(purse, question)
            apart = _alone("would have taken", alone)
        paid = next((a for a in found if a.source == "synopsis" and a.cost is not None), None)
        if paid is not None:
            told = f"this bought {_synopsis_of(question)}; {apart}"
            paid.note = told if paid.note is UNSET else f"{paid.note}; {told}"
        return found

    def _numbers(self, purse: Purse, question: NumberQuestion) -> list[shapes.Answer]:
        answers = list[shapes.Answer]()
        for n, group in zip(numbers.answer(self._session, question.asked, purse), question.labels, strict=True):
            error, low, high = (_shown(part) for part in (n.error, n.low, n.high))
            rank = UNSET if n.rank_error is None else _shown(n.rank_error)
            cost, note = costs(n.cost), n.note or UNSET
            answers.append(
                shapes.Answer(n.text, n.value, error, n.source, cost, low, high, rank, note=note, group=group or UNSET)
            )
        return answers if question.top is None else _largest(answers, question.top)

    def _counts(self, purse: Purse, question: Question) -> list[shapes.Answer]:
        if self._session.listening:  # refused before a sparse vector is asked, which has few answers to give
            self._session.quote(question.group, purse)
        counts = self._session.answers(question.group, purse)
        return [
            shapes.Answer(text, a.value, _shown(a.error), a.source, costs(a.cost), group=group or UNSET)
            for text, a, group in zip(question.texts, counts, question.labels, strict=True)
        ]

    def budget(self, analyst: str) -> shapes.Budget:
        """What the analyst and the session may spend, have spent, and can still spend."""
        own, session = self._analysts.named(analyst), self._session
        note, unused = "", self._analysts.out_of_reach(analyst)
        if note_of(own.budget, own.spent, own.left) or note_of(session.cost, session.spent, session.remaining):
            note = BUDGET_NOTE
        if unused:
            note += f"; about epsilon={unused:.2g} of yours cannot be used, since it was raised after the first charge"
        return shapes.Budget(
            own.name,
            own.requests,
            _account(own.budget, own.spent, own.left, self._analysts.times_left(analyst, session.answer_price)),
            self.account,
            note or UNSET,
        )

    @property
    def account(self) -> shapes.Account:
        """What the session may spend, has spent, and can still spend."""
        session = self._session
        return _account(session.cost, session.spent, session.remaining, session.answers_left)

    @property
    def synopsis(self) -> Histogram:
        """The hypothesis: what is made of it needs no transaction, since later answers do not change it."""
        return self._session.synopsis


def _largest(answers: Sequence[shapes.Answer], top: int) -> list[shapes.Answer]:
    """Those of the largest values, in descending order; the first has the cost of all."""
    cost = next((answer.cost for answer in answers if answer.cost is not None), None)
    ranked = sorted(answers, key=lambda answer: -answer.value)[:top]
    for place, answer in enumerate(ranked):
        answer.cost = cost if place == 0 else None
    return ranked


_NO_SYNOPSIS: Final = '"synopsis": false'


def _synopsis_of(question: Question | NumberQuestion) -> str:
    """What a synopsis that is bought for a question is, in words."""
    domain = question.asked.domain if isinstance(question, NumberQuestion) else question.domain
    names = listed([domain.names[axis] for axis in question.axes])
    return f"a synopsis, which makes later questions of this kind on {names} alone free"


def _alone(would: str, takes: dict[str, float] | None) -> str:
    """What an answer would take of a budget that is measured by itself, and how that is asked for."""
    parts = [f"{name}={six_digits(part)}" for name, part in (takes or {}).items() if part]
    taken = f"without it the answer {would} {', '.join(parts)} of your budget" if parts else "it can be had without"
    return f"{taken}: to ask so, add {_NO_SYNOPSIS}"


def _tell(answers: Sequence[shapes.Answer], purse: _RequestPurse) -> None:
    """Say with the answer that has the cost, of those found last, what they took of the budget."""
    if purse.terms:
        paid = next(answer for answer in reversed(answers) if answer.cost is not None)
        paid.takes, purse.terms = purse.terms, {}


def _asked(question: Question | NumberQuestion) -> _Key:
    """What tells questions apart."""
    return question.synopsis, question.asked if isinstance(question, NumberQuestion) else question.group.queries


def _shown(bound: float) -> float:
    """How far off an answer may be, to twelve digits: what floating point made of the rest is nobody's to read."""
    return float(f"{bound:.12g}")


def _account(total: Cost, spent: Cost | None, left: Cost | None, answers: int) -> shapes.Account:
    """What an analyst, or the session, may spend, has spent, and can still spend."""
    return shapes.Account(total.to_json(), amount_to_json(spent, total), amount_to_json(left, total), answers)


def costs(cost: Cost | None) -> dict[str, float] | None:
    """A cost as JSON; null is none."""
    return None if cost is None else cost.to_json()
