"""Releases replayed on neighbouring tables: what goes into each draw is compared, for the same that came out before.

A mechanism sees private data through draws alone: exact numbers that noise is added to, and scores that a choice is
made by. A `Recording` makes up what comes out of each draw of one release, whatever that is. `share_used` makes the
same release of a neighbouring table, where each draw gives what was recorded, and compares

1. what is public of each draw: what is asked, what is spent for it, which noise of which scale, how many candidates;
2. what is private: how far the exact numbers are apart, by the norm and the scale of the noise, and the scores, by the
   rate of the choice, against what was spent;
3. the number and the order of the draws, and the release that is made in the end.

The probability of an output is the product, over the draws, of the chance of each given those before. So where all of
this holds for all outputs and neighbours, each draw costs no more than was spent for it whatever was drawn before, and
everything else is post-processing: the release costs no more than the sum of its spends (adaptive composition), which a
filter adds up. The filter, the samplers and the selections have tests of their own. Here nothing is estimated: the
tables and the outputs are samples, what is said of them is exact.

Where a person is the unit, what is spent on a record is compared as what it costs a person (`privacy.unit`), and all
that is spent with the charge.
"""

import json
import math
import zlib
from dataclasses import dataclass, replace

import numpy as np
from audits import drawn_by

from qrelease.privacy import ZCDP, Filter
from qrelease.privacy.conversions import gaussian_delta
from qrelease.privacy.costs import Spend, is_pure
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator

ROUNDING = 1e-9
"""Of shares of a cost, which are computed in floats, and of costs of persons."""


class Differs(Exception):  # noqa: N818
    """What is not the same for two neighbouring tables, although the same came out of all draws so far."""


@dataclass
class Draw:
    """What went into a draw that one part of the cost paid for, and what came out.

    noise    law, scale b or variance σ², and how many numbers, of each part
    exact    the numbers that the noise is added to, in its steps
    choices  rule, rate γ and number of candidates of each choice
    scores   of the candidates of each choice
    """

    asked: str
    spent: Spend
    noise: list[tuple]
    exact: np.ndarray
    choices: list[tuple]
    scores: list[np.ndarray]
    drawn: bytes = b""


class Recording:
    """The draws of one release, in their order: its source of noise, and where its draws are kept.

    Noise and choices that come out are made up from a seed: any numbers near the scale of the noise, any candidate. It
    has no random words, so nothing can be drawn of it beside the samplers and selections.
    """

    insecure_seed = 0
    in_transaction = False

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self.draws, self.spends, self._paid = [], [], 0
        self.unit = self.released = None

    def noise(self, law, parameter, size):
        """In the place of a sampler."""
        self._noise.append((law, parameter, size))
        if self._makes is not None:
            return np.full(size, self._makes)
        sigma = float(parameter) if law == "discrete Laplace" else math.sqrt(parameter)
        return np.rint(self._rng.normal(0, 2 * sigma, size)).astype(np.int64)

    def choose(self, rule, scores, epsilon, sensitivity):
        """In the place of a selection."""
        self._choices.append((rule, epsilon / (2 * sensitivity), len(scores)))
        self._scores.append(np.array(scores, object))
        return 0 if self._makes is not None else int(self._rng.integers(len(scores)))

    def _run(self, draw, makes):
        """What a draw gives with the same noise everywhere; or, for None, with any."""
        self._noise, self._choices, self._scores, self._makes = [], [], [], makes
        return draw()

    def take(self, asked, draw):
        """In the place of `Draws.take`: the next draw."""
        paid = self.spends[self._paid :]
        self._paid += len(paid)
        if len(paid) != 1:
            raise Differs(f"draw {len(self.draws)} is paid for by {len(paid)} parts of the cost, and not by one")
        exact, kept = np.zeros(0), self._run(draw, 0)
        if self._noise:
            less, more = (np.frombuffer(zlib.decompress(part), "<f8") for part in (kept, self._run(draw, 1)))
            exact = less / (more - less)  # one step more of noise shows how large the steps are
        found = Draw(asked, paid[0], self._noise, exact, self._choices, self._scores)
        found.drawn = self.comes_out(found, draw)
        self.draws.append(found)
        return found.drawn

    def comes_out(self, found, draw):
        """What a draw gives."""
        return self._run(draw, None)


class _Replay(Recording):
    def __init__(self, recording):
        super().__init__(0)
        self.recorded, self.used = recording.draws, 0.0

    def comes_out(self, found, draw):
        number = len(self.draws)
        if number == len(self.recorded):
            raise Differs("there is a draw more")
        before = self.recorded[number]
        for public in ("asked", "spent", "noise", "choices"):
            if getattr(found, public) != getattr(before, public):
                raise Differs(f"draw {number} has another public part: {public}")
        self.used = max(self.used, _share(list(_losses(before, found)), self.unit.of_the_unit(found.spent.cost)))
        return before.drawn


def _losses(one, other):
    """What each part of a draw tells of two tables: ε of Laplace noise and of choices, and μ² of Gaussian noise."""
    at = 0
    for law, parameter, size in one.noise:
        moved = np.abs(other.exact - one.exact)[at : at + size]
        at += size
        yield law, (moved.sum() if law == "discrete Laplace" else (moved**2).sum()) / float(parameter)
    for (rule, gamma, _), scores, others in zip(one.choices, one.scores, other.scores, strict=True):
        moved = others - scores
        # The exponential mechanism: ln of the ratio of two probabilities is γ · moved, but for a constant, which puts
        # it within a range of this width around 0. Permute-and-flip is report noisy max with exponential noise of rate
        # γ: a candidate wins where its noise is beyond a number that depends on the others, and moves by this at most.
        yield rule, float(gamma * (moved.max() - moved.min()))


_CONCENTRATED = {
    "discrete Laplace": lambda epsilon: epsilon**2 / 2,  # Bun & Steinke 2016
    "permute_and_flip": lambda epsilon: epsilon**2 / 2,
    "exponential_mechanism": lambda epsilon: epsilon**2 / 8,  # bounded range: Cesar & Rogers 2021
    "discrete Gaussian": lambda squared: squared / 2,  # Canonne, Kamath & Steinke 2020
    "rounded Gaussian": lambda squared: squared / 2,
}
"""ρ of a part of a draw, by what `_losses` says."""


def _share(losses, cost):
    """How much of a cost a draw uses that tells so much: of ε, of ρ, or of δ at the ε; infinite where nobody knows."""
    laws, total = {law for law, _ in losses}, math.fsum(loss for _, loss in losses)
    if isinstance(cost, ZCDP):
        return math.fsum(_CONCENTRATED[law](loss) for law, loss in losses) / cost.rho
    if laws == {"rounded Gaussian"} and not is_pure(cost):
        return gaussian_delta(math.sqrt(total), 1.0, cost.epsilon) / cost.delta if total else 0.0
    return math.inf if any("Gaussian" in law for law in laws) else total / cost.epsilon


@dataclass(frozen=True)
class Replayable:
    """A release that can be made of neighbouring tables, through a curator: what is asked for, for which cost."""

    mechanism: object
    asked: object
    cost: object
    relation: object

    def _released(self, table, tape):
        """All that is made of a table: the release without its synopsis, and what this answers."""
        person = table.person_column
        with Ledger.open(None, self.cost, neighbours=self.relation, **({"person": person} if person else {})) as ledger:
            paid = Curator(table, ledger, tape).pay(self.mechanism, self.asked, self.cost)
            tape.unit, tape.spends = paid.unit, paid.private.spends
            made = replace(paid, private=replace(paid.private, draws=tape)).release()
        charged = Filter(type(self.cost)(*(part * (1 + ROUNDING) for part in self.cost.to_json().values())))
        for spend in tape.spends:  # whatever filter the mechanism was given
            charged.spend_part(paid.unit.of_the_unit(spend.cost))
        return made.id, made.answers().tobytes(), json.dumps(made.synopsis.to_json())

    def recorded(self, table, seed):
        """The draws of a release of a table, and what is released."""
        recording = Recording(seed)
        recording.released = self._released(table, recording)
        return recording

    def share_used(self, recording, table):
        """The largest share of its part of the cost that a draw uses, on a neighbouring table; `Differs` for others."""
        replay = _Replay(recording)
        released = self._released(table, replay)
        if len(replay.draws) < len(recording.draws):
            raise Differs("there is a draw less")
        if released != recording.released:
            raise Differs("another release is made of the same draws")
        return replay.used


def recorded_draws(monkeypatch):
    """Samplers and selections ask a `Recording` what comes out."""
    drawn_by(
        monkeypatch,
        lambda law, parameter, size, tape: tape.noise(law, parameter, size),
        lambda rule, scores, epsilon, sensitivity, tape: tape.choose(rule, scores, epsilon, sensitivity),
    )
