"""Iterative construction: a private distinguisher and a database update rule in turns (Dwork & Roth 2014, §5.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, final

import numpy as np

from qrelease._util.progress import progress
from qrelease._util.validate import check_part, positive_probability, whole
from qrelease.errors import InvalidInput
from qrelease.inference.measurement import Measurement, noise_for
from qrelease.inference.synopsis import Synopsis
from qrelease.inference.update_rules import BoundedRule, ConditionalRule, Projection, UpdateRule
from qrelease.mechanisms.accuracy import BETA, promise
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.iterative.distinguishers import Distinguisher, Select, all_cells
from qrelease.mechanisms.private_data import Private
from qrelease.noise.calibration import calibrated, counting_first
from qrelease.privacy.conversions import zcdp_of
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_cost, split
from qrelease.queries.workload import Workload

State = TypeVar("State", bound=Synopsis)

MAX_ROUNDS: Final = 100_000

TRIED_ALPHAS: Final = tuple(2 ** (-1 - i / 4) for i in range(34))
"""The α of rules that are tried where none is given: 1/2, and down to 1/600, as far as `MAX_ROUNDS` goes."""

EXPECTED_ROUNDS: Final = 25
"""Where the number of rounds is not known before the records are counted, the count costs as much as one draw of so
many rounds."""


@dataclass(frozen=True)
class Round:
    """What the selection and the measurement of one round may cost.

    Parameters
    ----------
    selection, measurement : PureDP or ZCDP
        Of one record.

    Examples
    --------
    >>> [first, second] = Round.equal(PureDP(1.0), 2, 0.25)
    >>> first.selection, first.measurement
    (PureDP(epsilon=0.125), PureDP(epsilon=0.375))
    """

    selection: PureDP | ZCDP
    measurement: PureDP | ZCDP

    @classmethod
    def equal(cls, cost: PureDP | ZCDP, rounds: int, selection: float) -> tuple[Round, ...]:
        """A cost split over equal rounds.

        Parameters
        ----------
        cost : PureDP or ZCDP
            Of all rounds together.
        rounds : int
            How many.
        selection : float
            The fraction of each round that is for its selection.

        Returns
        -------
        tuple of Round
            One for each round.
        """
        shares = split(cost, [selection, 1 - selection] * rounds)
        return tuple(cls(s, m) for s, m in zip(shares[::2], shares[1::2], strict=True))


def iterate(
    private: Private,
    workload: Workload,
    state: State,
    rule: UpdateRule[State],
    distinguisher: Distinguisher,
    rounds: Sequence[Round],
    measurements: list[Measurement],
    *,
    enough: float = 0.0,
) -> State:
    """Rounds of: find the queries that the hypothesis answers worst, measure them, learn from all measurements.

    A group that is measured again under the same noise is averaged with what it had.

    Parameters
    ----------
    private : Private
        The access to the table: each selection and each measurement spends from it before it draws.
    workload : Workload
        The queries.
    state : Synopsis
        The first hypothesis, as `rule.start` makes it, or a later one.
    rule : UpdateRule
        Changes the hypothesis.
    distinguisher : Distinguisher
        Finds one group of queries in each round, such as `Select`.
    rounds : sequence of Round
        What each may cost.
    measurements : list of Measurement
        May hold earlier ones; the new ones are added to it.
    enough : float
        It ends before an update if no answer just measured is off by so much, a count.

    Returns
    -------
    Synopsis
        The last hypothesis.

    Raises
    ------
    InvalidInput
        For a rule whose state does not answer with finite counts, or a table's with negative ones, and for a
        distinguisher that finds something else than one group of queries over the table's domain.
    BudgetExceeded
        Where the charge does not cover a round. Nothing is drawn in it then.

    Examples
    --------
    As a mechanism of one's own does it, which gets `private` from a curator:

    >>> import numpy as np
    >>> import qrelease as qr
    >>> from qrelease.privacy.filters import Filter
    >>> domain, cost = qr.Domain.coded({"age": 4, "sex": 2}), qr.PureDP(1.0)
    >>> table = qr.Table(domain, (np.arange(400) % 4, np.arange(400) % 2))
    >>> private = qr.Private(table, qr.Neighbours.ADD_REMOVE, Filter(cost), qr.Entropy.insecure(1))
    >>> workload, rule, measured = qr.Workload.marginals(domain, 1), qr.Perceptron(0.1), []
    >>> start = rule.start(domain, workload.sets, 400.0)
    >>> state = qr.iterate(private, workload, start, rule, qr.Select(), qr.Round.equal(cost, 3, 0.2), measured)
    >>> len(private.spends), state.total
    (6, 400.0)
    """
    check_state_answers(state, workload)
    for step in progress(rounds, desc="rounds"):
        chosen = distinguisher.distinguish(private, state, workload, step.selection, step.measurement)
        _check_one_group(chosen)
        (new,) = private.measure(chosen, step.measurement)
        _keep(measurements, new)
        if enough and np.abs(measurements[-1].values - state.answer(chosen)).max() < enough:
            break
        state = rule.update(state, measurements)
        check_state_answers(state, workload)
    return state


def _check_one_group(chosen: Workload) -> None:
    if not isinstance(chosen, Workload):
        raise InvalidInput(f"a distinguisher must find a workload, got {type(chosen).__name__}")
    if len(chosen.groups) != 1:
        raise InvalidInput(f"a distinguisher must find one group of queries, got {len(chosen.groups):,}")


def check_state_answers(state: Synopsis, workload: Workload) -> None:
    """`InvalidInput` unless a state answers with (k,) finite counts, of which none is negative if it has a table."""
    if not isinstance(state, Synopsis):
        raise InvalidInput(f"the update rule's state must be a synopsis, got {type(state).__name__}")
    if state.domain != workload.domain:
        raise InvalidInput("the update rule's state is over another domain than the workload")
    answers = np.asarray(state.answer(workload), np.float64)
    if answers.shape != (len(workload),):
        raise InvalidInput(f"the update rule's state must give {len(workload):,} answers, got shape {answers.shape}")
    if not np.isfinite(answers).all():
        raise InvalidInput("the update rule's state must answer with finite counts, got NaN or infinity")
    if state.has_table and answers.min() < -1e-6 * max(1.0, abs(state.total)):
        raise InvalidInput(
            f"the update rule's state has a table, so no answer may be negative, got {float(answers.min()):g}"
        )


def _keep(measurements: list[Measurement], new: Measurement) -> None:
    """Add a measurement at the end, averaged with an earlier one of the same queries under the same noise."""
    for i, old in enumerate(measurements):
        if (old.group, old.noise) == (new.group, new.noise):
            new = measurements.pop(i).averaged(new)
            break
    measurements.append(new)


@final
@dataclass(frozen=True)
class IterativeConstruction:
    """Repeats three steps: find the queries that a hypothesis answers worst, measure them with noise, update it.

    The distinguisher finds the query, the update rule changes the hypothesis. There are at most T(α) rounds. In each a
    draw of the distinguisher and a noisy answer v cost the same; by basic composition the draws of all rounds cost ε.
    Under (ε, δ) they are charged as zCDP, which is never worse than the text's advanced composition, or as pure ε where
    that is cheaper for few rounds. The mechanism stops before an update when |v - q(y)| < 3αn/2, where α is the
    parameter of the rule; the text's α, a bound on the error, is twice that.

    In the text queries are fractions of a public n, as under replace-one; here they are counts. Under add-remove, a
    noisy number of records ñ is bought first, and used in place of n.

    `error` gives the bound on the error of the answers, before anything is charged: ask it first. Where it is infinite
    the theorem promises nothing to so few records, and the first noisy answer often ends the rounds: nearly all of the
    cost is then charged and not used, which `Release.notes` says.

    Parameters
    ----------
    rule
        A rule with a bound T(α) on its updates; by default `Projection`, with the α that has the least error bound.
    distinguisher
        Finds the query of each round; by default `Select("query")`.
    beta
        The probability that the error bound of a release fails; the default rule is chosen for it.

    References
    ----------
    Dwork & Roth 2014, *The algorithmic foundations of differential privacy*, §5.2 and Algorithm 8.

    Examples
    --------
    Its theorem needs many records. What it promises of the worst of 20 answers, as a fraction of a million records:

    >>> import qrelease as qr
    >>> pairs = qr.Workload.marginals(qr.Domain.coded({"sex": 2, "age": 10}), 2)
    >>> mechanism = qr.IterativeConstruction()
    >>> round(mechanism.error(pairs, 1_000_000, qr.PureDP(1), qr.Neighbours.REPLACE_ONE, beta=0.05), 3)
    0.119
    """

    rule: BoundedRule[Any] | None = None
    distinguisher: Distinguisher = field(default_factory=lambda: Select("query"))
    beta: float = BETA

    @property
    def name(self) -> str:
        """`iterative`."""
        return "iterative"

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", positive_probability("beta", self.beta))
        check_part("distinguisher", self.distinguisher, Distinguisher, 'Select("query")')
        if self.rule is not None:
            if not hasattr(self.rule, "update_bound"):
                raise InvalidInput(
                    f"rule must have a bound on its updates, alpha and update_bound, as Hedge has, got {self.rule!r};"
                    " `iterate`, in the module of IterativeConstruction, runs any rule for a number of rounds"
                )
            check_part("rule", self.rule, BoundedRule, "Hedge(0.1)")
            positive_probability("alpha of the rule", self.rule.alpha)

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise `InvalidInput` for a rule that does not start well, too many rounds, or a cost too small for them.

        `TooLarge` for a universe or a workload too large for the rule or the distinguisher.
        """
        counting, rest = self._shares(workload, cost, neighbours)
        if counting is not None:
            calibrated(1, counting)
        rule = self.rule or Projection(TRIED_ALPHAS[0])
        self._rounds(rule, workload, rest, neighbours)
        start = rule.start(workload.domain, workload.sets, 1.0)
        check_state_answers(start, workload)
        if not self.distinguisher.confined:
            check_state_answers(start, all_cells(workload))

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Count the records if their number is private, then run the rounds."""
        counting, rest = self._shares(workload, cost, private.neighbours)
        found, counted = private.count(counting)
        total = max(found, 1.0)
        miss = _miss(counting, self.beta)
        rule = self._rule(workload, total - miss, miss, rest, private.neighbours)
        rounds = self._rounds(rule, workload, rest, private.neighbours)
        start = rule.start(workload.domain, workload.sets, total)
        measurements: list[Measurement] = []
        enough = 1.5 * rule.alpha * total
        state = iterate(private, workload, start, rule, self.distinguisher, rounds, measurements, enough=enough)
        bought = () if counted is None else (counted,)
        choices = {"alpha": rule.alpha, "rounds": len(rounds), "records": total}

        def error(n: float) -> float:
            return self._promise(rule, workload, n, miss, rest, private.neighbours, self.beta)

        said = promise(error, found, miss, self.beta)
        if not self.distinguisher.confined:
            said["promise"]["of"] = "the queries of the oracle"
        return MechanismResult(state, (*bought, *measurements), {**choices, **said})

    def error(self, workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """With probability 1 - β no query is off by more than this fraction of a table of n `records`.

        The queries are those of the workload, or of the distinguisher's oracle. Above 1 it says nothing; infinite where
        the theorem needs more records, where the distinguisher promises nothing, or where the bound T(α) of the rule is
        not proved, as for a `Median` whose candidates are not proved to be within α of every table.

        *Proof.* With probability 1 - β, each of T noisy answers is within E of the truth, each query found is off by at
        most F less than the worst, and |ñ - n| <= M; all in counts, and M = 0 where n is public. Suppose that
        E + (1 + α/2) M <= αn/2, so that E + M <= αñ/2. An update is by a query with |v - q(y)| >= 3αñ/2. Its gap, with
        x as fractions of n and y as fractions of ñ, is |q(x)/n - q(y)/ñ| >= (3αñ/2 - E - M)/ñ >= α, on the side of v,
        because |q(x) ñ/n - q(x)| <= |ñ - n|: there are at most T = T(α) of them. If all are made, no query has such a
        gap any more, so none is off by more than αñ + M <= α(n + M) + M. If the rounds end before, none is off by more
        than 3αñ/2 + E + F <= 3α(n + M)/2 + E + F, which is the larger of both.

        The default rule is the one that promises least to ñ - M records: not less than n - 2M, and not more than n. A
        rule promises more records less. So what is promised to n - 2M is promised to n, whatever ñ was.
        Raises `InvalidInput` for the default rule and a β less than that which it is chosen for.
        """
        n, beta = whole("records", records, least=1), positive_probability("beta", beta)
        counting, rest = self._shares(workload, cost, neighbours)
        if self.rule is not None:
            return self._promise(self.rule, workload, n, _miss(counting, beta), rest, neighbours, beta)
        if beta < self.beta:
            raise InvalidInput(f"the default rule is chosen for beta={self.beta:g}, got {beta:g}: give it that beta")
        miss = _miss(counting, self.beta)
        least = n - 2 * miss
        rule = self._rule(workload, least, miss, rest, neighbours)
        return self._promise(rule, workload, least, miss, rest, neighbours, self.beta)

    def _promise(
        self,
        rule: BoundedRule[Any],
        workload: Workload,
        n: float,
        miss: float,
        cost: PureDP | ZCDP,
        neighbours: Neighbours,
        beta: float,
    ) -> float:
        """The error, a fraction of n, that a rule promises with probability 1 - β, if |ñ - n| <= miss with 1 - β/3."""
        if n < 1:
            return math.inf
        if isinstance(rule, ConditionalRule) and not rule.proved(workload if self.distinguisher.confined else None):
            return math.inf
        first, *others = self._rounds(rule, workload, cost, neighbours)
        each = beta / (3 * (1 + len(others)))
        noise = calibrated(1, first.measurement)[0].reach(each)  # on a finer grid it reaches less far
        if noise + (1 + 0.5 * rule.alpha) * miss > 0.5 * rule.alpha * n:
            return math.inf
        loss = self.distinguisher.shortfall(workload, first.selection, neighbours, each)
        return (1.5 * rule.alpha * (n + miss) + noise + loss) / n

    def _rule(
        self, workload: Workload, n: float, miss: float, cost: PureDP | ZCDP, neighbours: Neighbours
    ) -> BoundedRule[Any]:
        """The rule, or the one that promises the least error for so many records; the coarsest if none promises any."""
        if self.rule is not None:
            return self.rule
        fitting = list(self._fitting(workload, cost, neighbours))
        return min(fitting, key=lambda rule: self._promise(rule, workload, n, miss, cost, neighbours, self.beta))

    def _fitting(self, workload: Workload, cost: PureDP | ZCDP, neighbours: Neighbours) -> Iterator[Projection]:
        """The rules to choose from, coarse to fine, as far as the cost can be cut into their rounds."""
        for rule in map(Projection, TRIED_ALPHAS):
            try:
                self._rounds(rule, workload, cost, neighbours)
            except InvalidInput:
                return
            yield rule

    def _rounds(
        self, rule: BoundedRule[Any], workload: Workload, cost: PureDP | ZCDP, neighbours: Neighbours
    ) -> list[Round]:
        """The rounds of a rule. `InvalidInput` for too many, or a cost too small for their draws."""
        rounds = self._bound(rule, workload)
        share, _ = split(cost, [1, 2 * rounds - 1])
        noise_for(workload, share, neighbours)  # for all queries at once: more than for those of one round
        self.distinguisher.shortfall(workload, share, neighbours, self.beta)
        return [Round(share, share)] * rounds

    def _bound(self, rule: BoundedRule[Any], workload: Workload) -> int:
        """T(α), and at least one."""
        bound = rule.update_bound(workload.domain, workload if self.distinguisher.confined else None)
        if whole("the rule's bound", bound, least=0) > MAX_ROUNDS:
            raise InvalidInput(
                f"an alpha of {rule.alpha:g} takes {bound:,} rounds; at most {MAX_ROUNDS:,} are possible"
            )
        return max(bound, 1)

    def _shares(
        self, workload: Workload, cost: Cost, neighbours: Neighbours
    ) -> tuple[PureDP | ZCDP | None, PureDP | ZCDP]:
        """What counts the records, where their number is private, and what is left for the rounds."""
        check_cost(cost)
        draws = 2 * (EXPECTED_ROUNDS if self.rule is None else self._bound(self.rule, workload))
        counting, rest = counting_first(cheaper_currency(cost, draws), 1 / (draws + 1), neighbours)
        assert not isinstance(rest, ApproxDP)
        return counting, rest


def cheaper_currency(cost: Cost, draws: int) -> PureDP | ZCDP:
    """What T draws of equal shares are paid in: of an (ε, δ), pure ε where their noise has less variance that way.

    Their standard deviation is √2 T/ε, or √(T/2ρ) for the ρ that converts to (ε, δ). A public choice.
    """
    if not isinstance(cost, ApproxDP):
        return cost
    if cost.delta == 0 or 2 * (draws / cost.epsilon) ** 2 < draws / (2 * zcdp_of(cost).rho):
        return PureDP(cost.epsilon)
    return zcdp_of(cost)


def _miss(counting: PureDP | ZCDP | None, beta: float) -> float:
    """M, a count: |ñ - n| is beyond it with probability at most β/3; at least 1, as ñ is, also where n is 0."""
    return 0.0 if counting is None else max(calibrated(1, counting)[0].reach(beta / 3), 1.0)
