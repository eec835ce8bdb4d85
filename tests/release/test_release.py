"""The curator charges first and draws then; what it hands out is public, says how sure it is, and shows no more."""

import dataclasses
import doctest
import importlib
import json
import math
import re

import numpy as np
import pytest
from worlds import (
    BOTH,
    PEOPLE,
    SpyEntropy,
    coded,
    full_matrix,
    mixed,
    random_table,
    records_of,
    table_of,
    true_answers,
)

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, OutOfMemory, QReleaseError, TooLarge
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.inference.nets import quantiles
from qrelease.inference.noisy_answers import Answers
from qrelease.inference.update_rules import Hedge, Perceptron, Projection
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.base import Answer, parameters
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.online.session import Online
from qrelease.mechanisms.small_db.net import Net
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import Records
from qrelease.noise.distributions import CONFIDENCE, Noise
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.reader import load
from qrelease.release.release import Release

COST = ApproxDP(1.0, 1e-6)
TABLE = random_table(PEOPLE, 200, 0)
PAIRS = Workload.marginals(PEOPLE, 2)
MECHANISMS = [Laplace(), Gaussian(), MWEM(rounds=4), MWEM(rounds=4, choice="query")]


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "people.ledger", ApproxDP(10.0, 1e-3)) as opened:
        yield opened


def released(mechanism=None, table=TABLE, asked=PAIRS, cost=COST, relation=Neighbours.ADD_REMOVE, seed=0):
    mechanism = MWEM(rounds=4) if mechanism is None else mechanism
    with Ledger.open(None, cost, neighbours=relation) as opened:
        return Curator(table, opened, Entropy.insecure(seed)).release(mechanism, asked, cost)


# --- charge, then draw -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_the_charge_is_durable_before_the_first_word_is_drawn(tmp_path, mechanism, relation):
    path = tmp_path / "people.ledger"
    seen = []

    def look():
        """As another process would, in a connection of its own."""
        with Ledger.open(path) as other:
            seen.append([(e.kind, e.cost, e.label) for e in other.history()][1:])
            assert other.spent == COST

    with Ledger.open(path, COST, neighbours=relation) as opened:
        spy = SpyEntropy(0, before=look)
        Curator(TABLE, opened, spy).release(mechanism, PAIRS, COST)
    assert seen == [[("charge", COST, f"{mechanism.name}: 26 queries")]]
    assert spy.taken > 0


@dataclasses.dataclass(frozen=True)
class Failing:
    """A mechanism that fails in `check`, or only after it has drawn."""

    early: bool
    name = "failing"

    def check(self, workload, cost, neighbours):
        if self.early:
            raise TooLarge("known beforehand")

    def release(self, private, workload, cost):
        private.entropy.words(1)
        raise TooLarge("found out too late")


EXTREMES = [0, -1, 0.5, 1e308, 5e-324, 10**400, -(10**400), 2**63, math.nan, math.inf, -math.inf, True, "many", []]
NUMBERS = {
    "records": (Auto, MaxEnt, MWEM, Records),
    "rounds": (MWEM,),
    "sweeps": (MWEM,),
    "selection": (MWEM,),
    "order": (Records,),
    "size": (SmallDB,),
    "alpha": (SmallDB, Hedge, Projection, Perceptron),
    "beta": (IterativeConstruction,),
    "weight": (MaxEnt,),
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in NUMBERS.items() for kind in kinds])
def test_a_number_that_is_none_for_its_argument_is_refused_by_its_name(name, kind):
    """By the constructor or by the check: what passes both is a number that it can work with."""
    asked, refused = Workload.marginals(coded(3, 2), 1), []
    for value in EXTREMES:
        try:
            made = kind(weights=(value, 1.0)) if name == "weight" else kind(**{name: value})
            rule = hasattr(made, "update_bound")
            (IterativeConstruction(made) if rule else made).check(asked, COST, Neighbours.ADD_REMOVE)
        except QReleaseError as error:
            refused.append(str(error))
    assert len(refused) >= 9
    assert [message for message in refused if name not in message] == []


@pytest.mark.parametrize(
    ("mechanism", "asked", "cost", "error"),
    [
        (Failing(early=True), PAIRS, COST, TooLarge),
        (Laplace(), Workload.marginals(coded(2, 4, 3), 2), COST, InvalidInput),
        (Laplace(), PAIRS, ApproxDP(10.5, 1e-6), BudgetExceeded),
        (Gaussian(), PAIRS, ApproxDP(1.0, 0.5), BudgetExceeded),
        (Laplace(), PAIRS, ZCDP(0.1), InvalidInput),
        (Gaussian(), PAIRS, PureDP(1.0), InvalidInput),
        (MWEM(), PAIRS, "epsilon=1", InvalidInput),
        (MWEM(), PAIRS, PureDP(1e-300), InvalidInput),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_refusal_charges_and_draws_nothing(ledger, mechanism, asked, cost, error):
    spy = SpyEntropy(0)
    with pytest.raises(error):
        Curator(TABLE, ledger, spy).release(mechanism, asked, cost)
    assert ledger.spent is None
    assert len(ledger.history()) == 1
    assert spy.taken == 0


def test_counts_that_do_not_fit_are_refused_before_the_charge(ledger, monkeypatch):
    """A few predicates on wide columns ask few queries, but exact counts of many cells."""
    monkeypatch.setattr("qrelease.data.table.MAX_CELLS", 20)
    with pytest.raises(TooLarge):
        Curator(TABLE, ledger, SpyEntropy(0)).release(Laplace(), PAIRS, COST)
    assert ledger.spent is None


def test_a_failure_after_a_draw_stays_charged(ledger):
    with pytest.raises(TooLarge):
        Curator(TABLE, ledger, SpyEntropy(0)).release(Failing(early=False), PAIRS, COST)
    assert ledger.spent == COST


def test_releases_are_charged_until_nothing_is_left(ledger):
    curator = Curator(TABLE, ledger, Entropy.insecure(0))
    for _ in range(10):
        curator.release(Laplace(), PAIRS, PureDP(1.0))
    with pytest.raises(BudgetExceeded, match=r"total epsilon=10.*spent epsilon=10.*requested epsilon=0\.5"):
        curator.release(Laplace(), PAIRS, PureDP(0.5))
    assert curator.ledger is ledger


def test_the_relation_is_that_of_the_ledger():
    public, hidden = (released(relation=r) for r in (Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE))
    assert public.neighbours is Neighbours.REPLACE_ONE
    assert (public.synopsis.total, public.parameters["records"]) == (200.0, 200.0)
    assert hidden.synopsis.total != 200.0


# --- what a release says of itself -------------------------------------------------------------------------------


def test_a_release_says_what_was_promised():
    found = released(MWEM(rounds=4, sweeps=2))
    assert (found.cost, found.neighbours, found.mechanism, found.dataset) == (COST, BOTH[0], "mwem", "memory")
    assert dict(found.parameters) == {
        **parameters(MWEM(rounds=4, sweeps=2)),
        "rule": "permute-and-flip",  # with so few groups pure epsilon is the cheaper currency
        "records": found.synopsis.total,
    }
    assert (found.workload, found.domain, found.has_table) == (PAIRS, PEOPLE, True)
    assert {"python", "qrelease", "numpy", "numba", "cryptography"} == set(found.versions)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.cost = PureDP(1e-9)


QUANTILES = quantiles(coded(6), 0.5)


@pytest.mark.parametrize(
    ("mechanism", "asked", "described"),
    [
        (MaxEnt(weights=(1, 2, 3)), PAIRS, {"weights": [1.0, 2.0, 3.0]}),
        (
            IterativeConstruction(Projection(0.3)),
            PAIRS,
            {"distinguisher": {"type": "Select", "choice": "query", "rule": "exponential"}},
        ),
        (Net(QUANTILES, 0.5), Workload.ranges(QUANTILES.domain, "a"), {"net": QUANTILES.to_json()}),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_parameters_are_the_same_before_it_is_saved_and_after(tmp_path, mechanism, asked, described):
    """As JSON has them: tuples are lists, and a rule, a distinguisher or a net describes itself."""
    found = released(mechanism, random_table(asked.domain, 200, 0), asked)
    found.save(tmp_path / "out")
    assert load(tmp_path / "out").parameters == found.parameters
    assert {name: found.parameters[name] for name in described} == described


def test_a_seed_makes_it_insecure_and_says_so():
    seeded = released(seed=77)
    assert seeded.insecure_seed == 77
    assert "INSECURE seed 77" in repr(seeded)
    with Ledger.open(None, COST) as opened:
        secret = Curator(TABLE, opened).release(Laplace(), PAIRS, COST)
    assert secret.insecure_seed is None
    assert "INSECURE" not in repr(secret)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_nothing_that_is_shown_holds_the_number_of_records(mechanism):
    """Under add-remove n is private. Noise may hit 54 321 by chance, but not in one place under three seeds."""
    table = table_of(PEOPLE, np.tile([[1, 2, 0]], (54_321, 1)))
    telling = set.intersection(*({i for i, text in enumerate(shown(mechanism, table, seed)) if "54321" in text}
                                 for seed in range(3)))  # fmt: skip
    assert not telling


def shown(mechanism, table, seed):
    """Everything that is printed, stored or raised about a release, without digit separators."""
    with Ledger.open(None, ApproxDP(2.0, 1e-3)) as opened:
        curator = Curator(table, opened, Entropy.insecure(seed))
        found = curator.release(mechanism, PAIRS, COST)
        with pytest.raises(BudgetExceeded) as refused:
            curator.release(mechanism, PAIRS, ApproxDP(100.0, 1e-6))
        texts = [
            repr(curator),
            repr(found),
            repr(found.synopsis),
            str(found.parameters),
            *map(repr, found.spends),
            *(repr(m.values.tolist()) for m in found.measurements),
            json.dumps(found.synopsis.to_json()),
            *(e.label for e in opened.history()),
            repr(found.answer("sex = M")),
            str(refused.value),
        ]
    return [re.sub(r"(?<=\d)[_,](?=\d)", "", text) for text in texts]


def test_the_repr_of_a_release():
    found = released(Laplace(), cost=PureDP(1.0))
    assert repr(found) == "Release(laplace on 'memory': 26 queries, epsilon=1, add-remove, INSECURE seed 0)"
    assert repr(Curator(TABLE, Ledger.open(None, COST))) == (
        "Curator(Ledger(':memory:', dataset 'memory', add-remove); the records are private)"
    )


# --- answers -----------------------------------------------------------------------------------------------------


def test_answers_to_its_own_workload_and_to_others():
    found = released()
    np.testing.assert_array_equal(found.answers(), found.synopsis.answer(PAIRS))
    np.testing.assert_allclose(found.answer(mixed()), full_matrix(mixed()) @ found.synopsis.values, rtol=1e-9)
    one = found.answer("sex = F and age in 0..39")
    assert float(one) == one.value == pytest.approx(found.synopsis.values.reshape(2, 4, 3)[0, :2].sum())


def test_an_answer_reads_well():
    assert str(Answer(12.34, math.nan, math.nan)) == "12.3"
    assert str(Answer(12.34, 11.0, 2.56)) == "12.3 (measured 11.0 ± 2.6)"
    assert str(Answer(12.34, 11.0, 2.56, 1.5)) == "12.3 ± 1.5 (measured 11.0 ± 2.6)"
    assert float(Answer(12.34, 11.0, 2.56)) == 12.34


def test_a_model_that_can_tell_has_error_bars_of_its_own():
    found = released(MaxEnt())
    np.testing.assert_array_equal(found.model_bars(), found.synopsis.model_bars(PAIRS))
    assert (found.model_bars() > 0).all()
    other = Workload.marginals(PEOPLE, 1)
    noisy, widths = found.error_bars(other)
    np.testing.assert_allclose(found.model_bars(other), np.abs(found.answer(other) - noisy) + widths)
    assert found.answer("sex = F").model_error > 0
    with pytest.raises(InvalidInput, match="another domain"):
        found.model_bars(Workload.marginals(coded(2, 2), 1))


@pytest.mark.parametrize("mechanism", [Laplace(), MWEM(rounds=2)], ids=str)
def test_questions_it_cannot_answer(mechanism):
    found = released(mechanism)
    with pytest.raises(InvalidInput, match="no column 'height'"):
        found.answer("height > 3")
    with pytest.raises(InvalidInput):
        found.answer("")
    other = Workload.marginals(coded(2, 4, 3), 2)
    with pytest.raises(InvalidInput, match="another domain"):
        found.answer(other)
    with pytest.raises(InvalidInput, match="another domain"):
        found.error_bars(other)


# --- error bars --------------------------------------------------------------------------------------------------

REPEATS = 250

ASKED_LATER = (
    Workload.marginals(PEOPLE, [["sex", "age"], ["sex"], ["age"], ["grade"]])
    + Workload.ranges(PEOPLE, "grade")
    + Workload.predicates(PEOPLE, "sex = F and age in 0..39", "sex = F or grade = 2", "age is missing")
    + Workload.vectors(PEOPLE, [[0.5, 0.25, 1.0]], ["grade"])
)


@pytest.mark.parametrize(
    ("mechanism", "asked", "cost"),
    [
        (Laplace(), PAIRS, PureDP(0.5)),
        (Gaussian(), PAIRS, COST),
        (Laplace(), mixed(), PureDP(0.5)),
        (Gaussian(), mixed(), COST),
        (MWEM(rounds=6, sweeps=1), PAIRS, PureDP(0.5)),
        (MWEM(rounds=6, sweeps=1), PAIRS, COST),
    ],
    ids=str,
)
def test_error_bars_cover_95_per_cent(mechanism, asked, cost):
    """Of what was measured, and of sums over what was measured; whatever the mechanism then made of it."""
    covered, tight, number = 0, 0, 0
    truths = [(later, true_answers(later, TABLE)) for later in (asked, ASKED_LATER)]
    for seed in range(REPEATS):
        found = released(mechanism, asked=asked, cost=cost, seed=seed)
        for later, truth in truths:
            noisy, half = found.error_bars(later)
            known = ~np.isnan(half)
            assert (known == ~np.isnan(noisy)).all()
            covered += int((np.abs(noisy - truth)[known] <= half[known]).sum())
            tight += int((np.abs(noisy - truth)[known] <= half[known] / 1.3).sum())
            number += int(known.sum())
    # Queries of one release share noise: the cautious sample size is the number of releases, not of answers.
    assert CONFIDENCE - 3 * math.sqrt(0.05 * 0.95 / REPEATS) < covered / number < CONFIDENCE + 0.025
    assert tight / number < CONFIDENCE - 0.015


def test_what_was_not_measured_has_no_error_bar():
    found = released(Laplace(), asked=Workload.marginals(PEOPLE, [["sex", "age"]]), cost=PureDP(1.0))
    noisy, half = found.error_bars(Workload.marginals(PEOPLE, [["grade"], ["sex"]]))
    assert np.isnan(noisy[:3]).all()
    assert np.isnan(half[:3]).all()
    assert np.isfinite(noisy[3:]).all()
    assert (half[3:] > 0).all()


def by_hand(*measurements, total=100.0):
    """A release of measurements that were never drawn."""
    asked = Workload(PEOPLE, tuple(m.group for m in measurements))
    answers = Answers(asked, np.concatenate([m.values for m in measurements]), total, measurements)
    return Release(answers, asked, COST, BOTH[0], "none", "hand", {}, measurements, ())


def marginal(columns, values, scale, law="discrete Gaussian", repeats=1):
    (group,) = Workload.marginals(PEOPLE, [columns]).groups
    return Measurement(group, np.asarray(values, float), Noise(law, scale), repeats)


def test_the_best_measurement_is_taken():
    wide = marginal(["sex", "age"], np.arange(8), 1.0)
    rough, fine = marginal(["sex"], [7, 20], 3.0), marginal(["sex"], [7, 20], 1.5)
    half = 1.959963984540054
    noisy, bars = by_hand(wide, rough).error_bars(Workload.marginals(PEOPLE, [["sex"]]))
    assert noisy.tolist() == [6, 22]  # four cells of variance 1, against 9
    np.testing.assert_allclose(bars, 2 * half + 0.5)
    noisy, bars = by_hand(wide, fine).error_bars(Workload.marginals(PEOPLE, [["sex"]]))
    assert noisy.tolist() == [7, 20]  # variance 2.25
    np.testing.assert_allclose(bars, 1.5 * half + 0.5)


def test_repeats_narrow_an_error_bar():
    one, four = (marginal(["sex"], [7, 20], 3.0, repeats=r) for r in (1, 4))
    asked = Workload.marginals(PEOPLE, [["sex"]])
    wide, narrow = (by_hand(m).error_bars(asked)[1] for m in (one, four))
    np.testing.assert_allclose(wide, 3 * 1.959963984540054 + 0.5)
    np.testing.assert_allclose(narrow, (2 * 3 * 1.959963984540054 + 0.5) / 4)


def test_a_sum_over_cells_has_the_bar_of_the_sum():
    found = by_hand(marginal(["age"], [10, 20, 30, 40], 2.0, "discrete Laplace"))
    (noisy,), (half,) = found.error_bars(Workload.predicates(PEOPLE, "age in 0..59"))
    assert noisy == 60
    assert half == pytest.approx(Noise("discrete Laplace", 2.0).half_width(3))
    answer = found.answer("age in 20..59")
    assert (answer.value, answer.noisy) == (50.0, 50.0)
    assert answer.error == pytest.approx(Noise("discrete Laplace", 2.0).half_width(2))
    (noisy,), (half,) = found.error_bars(Workload.predicates(PEOPLE, "age in {}"))
    assert (noisy, half) == (0.0, 0.5)


def test_the_number_of_records_is_measured_and_has_an_error_bar():
    """Where a query weighs all records alike, and no other measurement tells it better."""
    records = Measurement(RECORDS, np.array([90.0]), Noise("discrete Laplace", 5.0))
    found = by_hand(records, marginal(["age"], [10, 20, 30, 40], 100.0))
    everyone = Workload.predicates(PEOPLE, "sex in {F, M}", "age >= 0 or age is missing", "age >= 0")
    half = Noise("discrete Laplace", 5.0).half_width()
    noisy, bars = found.error_bars(everyone)
    assert noisy.tolist() == [90, 90, 60]  # the second as a sum over the ages would be 100, with four times the noise
    assert bars[:2].tolist() == [half, half]
    assert bars[2] > 100
    quarters = Workload.vectors(PEOPLE, [[0.25, 0.25], [0.25, 0.5]], ["sex"]) + Workload.prefixes(PEOPLE, "grade")
    noisy, bars = found.error_bars(quarters)
    np.testing.assert_array_equal(noisy, [22.5, np.nan, np.nan, np.nan, 90])
    assert bars[0] == pytest.approx(Noise("discrete Laplace", 5.0).half_width(1 / 16))
    assert bars[4] == half


@pytest.mark.parametrize("mechanism", [MWEM(), MWEM(rounds=4)], ids=str)
def test_the_noisy_count_is_among_the_measurements(mechanism):
    (count,) = [m for m in released(mechanism).measurements if m.group == RECORDS]
    assert (count.noise.law, count.noise.scale) == ("discrete Laplace", pytest.approx(100))  # 1/100 of epsilon = 1
    assert count.values.shape == (1,)
    assert not [m for m in released(mechanism, relation=Neighbours.REPLACE_ONE).measurements if m.group == RECORDS]


# --- synthetic records -------------------------------------------------------------------------------------------


def test_synthetic_records_are_labels_of_the_schema():
    found = released()
    columns = found.synthetic(seed=1)
    assert list(columns) == ["sex", "age", "grade"]
    assert {len(c) for c in columns.values()} == {round(found.synopsis.total)}
    for attribute in PEOPLE:
        texts = {attribute.blank if v is None or v != v else str(v) for v in columns[attribute.name].tolist()}
        assert {attribute.encode(text) for text in texts} <= set(range(attribute.size))


def test_synthetic_records_have_the_released_answers():
    found = released(MWEM(rounds=10), cost=COST)
    codes = found.codes(20_000, np.random.default_rng(0))
    assert records_of(table_of(PEOPLE, np.stack(codes, axis=1))).shape == (20_000, 3)
    shares = true_answers(PAIRS, table_of(PEOPLE, np.stack(codes, axis=1))) / 20_000
    np.testing.assert_allclose(shares, found.answers() / found.synopsis.total, atol=0.001)


def test_synthetic_records_can_be_had_again_and_anew():
    found = released()
    first, again, other = (found.synthetic(50, seed=s)["sex"].tolist() for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("seed", [0, -5, 2**70])
def test_an_insecure_release_has_reproducible_records_whatever_its_seed(seed):
    first, again = (released(seed=seed).synthetic(20)["sex"].tolist() for _ in range(2))
    assert first == again


@pytest.mark.parametrize("rows", [0, -1, True, 2.5, math.nan, "3"])
def test_bad_numbers_of_rows(rows):
    with pytest.raises(InvalidInput, match="rows must be a positive whole number"):
        released().synthetic(rows)


@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian()], ids=str)
def test_separate_answers_have_records_that_fit_them(mechanism):
    found = released(mechanism, cost=ApproxDP(100.0, 1e-6), table=random_table(PEOPLE, 5000, 0))
    before = found.answers().copy()
    codes = found.codes(20_000, np.random.default_rng(0))
    shares = true_answers(PAIRS, table_of(PEOPLE, np.stack(codes, axis=1))) / 20_000
    np.testing.assert_allclose(shares, before / found.synopsis.total, atol=0.002)
    np.testing.assert_array_equal(found.answers(), before)


@pytest.mark.parametrize("asked", [Workload.ranges(PEOPLE, "grade"), Workload.predicates(PEOPLE, "sex = F")], ids=len)
@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian()], ids=str)
def test_answers_that_are_no_marginals_have_records_too(mechanism, asked):
    assert len(released(mechanism, asked=asked).synthetic(50)["sex"]) == 50


def test_a_universe_too_large_has_answers_but_no_records():
    domain = coded(*[2] * 55)
    found = released(Laplace(), random_table(domain, 50, 0), Workload.marginals(domain, 1))
    assert found.answers().shape == (110,)
    with pytest.raises(TooLarge, match=r"2\^55 cells"):
        found.synthetic()


@pytest.mark.parametrize("mechanism", [MWEM(), Laplace()], ids=str)
def test_a_number_of_records_that_drowns_in_its_noise_makes_no_giant_table(mechanism, monkeypatch):
    """At a tiny epsilon the noisy number of records may be billions."""
    monkeypatch.setattr("qrelease.release.release.FEW_ROWS", 7)
    sizes = {len(released(mechanism, cost=PureDP(1e-6), seed=seed).synthetic()["sex"]) for seed in range(6)}
    assert max(sizes) == 7
    assert len(released(mechanism, cost=PureDP(1e6)).synthetic()["sex"]) == 200
    public = released(mechanism, cost=PureDP(1e-6), relation=Neighbours.REPLACE_ONE)
    assert len(public.synthetic()["sex"]) == 200


def test_rows_that_do_not_fit_in_memory_are_refused(monkeypatch):
    found = released()
    monkeypatch.setattr("qrelease._util.memory.free", lambda: 1 << 28)
    with pytest.raises(OutOfMemory, match=r"60,000,000 synthetic records: about .* are needed"):
        found.synthetic(60_000_000)


@pytest.mark.parametrize("rounds", [3, np.int64(3)])
def test_the_parameters_of_a_release_can_be_written_down(rounds):
    json.dumps(dict(released(MWEM(rounds=rounds)).parameters), allow_nan=False)


def test_only_the_systems_entropy_makes_a_release_secure(ledger):
    """A stand-in that claims to have no seed is still a stand-in."""
    assert not Curator(TABLE, ledger).release(Laplace(), PAIRS, PureDP(0.01)).insecure
    assert Curator(TABLE, ledger, SpyEntropy(0)).release(Laplace(), PAIRS, PureDP(0.01)).insecure
    assert Curator(TABLE, ledger, Entropy.insecure(1)).release(Laplace(), PAIRS, PureDP(0.01)).insecure


@pytest.mark.parametrize("wrong", [PrivateMultiplicativeWeights(), None, "mwem"])
def test_a_release_takes_a_mechanism_of_releases(wrong):
    with Ledger.open(None, PureDP(1.0)) as ledger:
        curator = Curator(random_table(PEOPLE, 9, 0), ledger, Entropy.insecure(0))
        with pytest.raises(InvalidInput, match=r"a release takes a mechanism such as MWEM\(\), not an online one, got"):
            curator.release(wrong, Workload.marginals(PEOPLE, 1), PureDP(1.0))
        with pytest.raises(InvalidInput, match="a session takes an online mechanism such as Private"):
            curator.open(MWEM() if isinstance(wrong, PrivateMultiplicativeWeights) else wrong, PureDP(1.0))
        assert ledger.spent is None


def test_a_class_is_no_mechanism():
    with Ledger.open(None, PureDP(1.0)) as ledger:
        curator = Curator(random_table(PEOPLE, 9, 0), ledger, Entropy.insecure(0))
        with pytest.raises(InvalidInput, match=r"take a mechanism that was made, MWEM\(\), not the class MWEM itself"):
            curator.release(MWEM, Workload.marginals(PEOPLE, 1), PureDP(1.0))
        with pytest.raises(InvalidInput, match="not the class Online itself"):
            curator.open(Online, PureDP(1.0))
        assert ledger.spent is None


@pytest.mark.parametrize("wrong", [None, [Workload.marginals(PEOPLE, 1)], "marginals:2"])
def test_a_release_takes_a_workload(wrong):
    with Ledger.open(None, PureDP(1.0)) as ledger:
        curator = Curator(random_table(PEOPLE, 9, 0), ledger, Entropy.insecure(0))
        with pytest.raises(InvalidInput, match="a release takes a Workload, such as"):
            curator.release(Laplace(), wrong, PureDP(1.0))
        assert ledger.spent is None


# --- typed columns and frames ------------------------------------------------------------------------------------

TYPED = Domain(
    (
        Attribute("sex", "category", categories=("F", "M"), missing=("",)),
        Attribute("age", "number", edges=(18, 30, 40, 70), integer=True, missing=("-1",)),
        Attribute("born", "date", edges=(0, 100, 365), missing=("?",)),
        Attribute("height", "number", edges=(1.0, 1.5, 2.0)),
        Attribute("code", "coded", codes=4),
    )
)


def typed(mechanism=None):
    table = random_table(TYPED, 400, 0)
    with Ledger.open(None, PureDP(5.0)) as ledger:
        asked = Workload.marginals(TYPED, 2)
        return Curator(table, ledger, Entropy.insecure(3)).release(mechanism or MWEM(rounds=3), asked, PureDP(5.0))


def test_synthetic_columns_have_types_and_missing_values():
    found = typed()
    arrays = found.synthetic(200, seed=1)
    kinds = {name: column.dtype.kind for name, column in arrays.items()}
    assert kinds == {"sex": "O", "age": "f", "born": "M", "height": "f", "code": "i"}
    assert any(v is None for v in arrays["sex"].tolist())
    assert np.isnan(arrays["age"]).any()
    assert np.isnat(arrays["born"]).any()
    pandas = found.synthetic(200, seed=1, frame="pandas")
    assert str(pandas["age"].dtype) == "Int64"
    assert pandas["age"].mean() == pytest.approx(np.nanmean(arrays["age"]))
    polars = found.synthetic(200, seed=1, frame="polars")
    assert [str(kind) for kind in polars.dtypes] == ["String", "Int64", "Date", "Float64", "Int64"]
    arrow = found.synthetic(200, seed=1, frame="arrow")
    assert [str(kind) for kind in arrow.schema.types] == ["string", "int64", "date32[day]", "double", "int64"]
    nulls = [int(n) for n in pandas.isna().sum()]
    assert nulls == [polars[name].null_count() for name in TYPED.names] == [arrow[n].null_count for n in TYPED.names]
    assert nulls[0] > 0
    tables = [Table.from_frame(frame, TYPED) for frame in (pandas, polars, arrow)]
    for columns in zip(*(t.columns for t in tables), found.codes(200, np.random.default_rng(1)), strict=True):
        assert all(np.array_equal(columns[-1], column) for column in columns)


@pytest.mark.parametrize("frame", ["pandas", "polars", "arrow"])
def test_a_marginal_is_a_tidy_frame(frame):
    found = typed()
    table = found.marginal(["age", "sex"], frame=frame)
    names = list(table.column_names if frame == "arrow" else table.columns)
    assert names == ["sex", "age", "answer", "noisy", "error_95", "model_95"]
    assert len(table) == 3 * 4
    answers = np.asarray(table["answer"], np.float64)
    np.testing.assert_allclose(answers, found.answer(Workload.marginals(TYPED, [["sex", "age"]])))
    labels = table["sex"].to_pylist() if frame == "arrow" else table["sex"].to_list()
    assert labels == ["F"] * 4 + ["M"] * 4 + ["(missing)"] * 4


def test_frames_of_another_kind_are_refused():
    with pytest.raises(InvalidInput, match="frame must be one of pandas, polars, arrow, got 'excel'"):
        typed().marginal(["sex"], frame="excel")
    with pytest.raises(InvalidInput, match="another domain"):
        typed().answers_frame(PAIRS)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("mechanism", [MWEM(rounds=2), MWEM(rounds=4, choice="query"), Records(order=2, records=200)])
def test_every_answer_has_an_error_bar_that_holds(mechanism, neighbours):
    """Measured or not: 19 times out of 20 the truth lies within; those that nothing measured are bounded by margins."""
    within, unmeasured = [], 0
    table = random_table(TYPED, 400, 0)
    asked = Workload.marginals(TYPED, 3) + Workload.predicates(
        TYPED, "age in 18..29 and sex = F", "code = 1 or code = 2"
    )
    truth = true_answers(asked, table)
    for seed in range(8):
        with Ledger.open(None, ApproxDP(1.0, 1e-6), neighbours=neighbours) as ledger:
            made = Curator(table, ledger, Entropy.insecure(seed)).release(mechanism, asked, ApproxDP(1.0, 1e-6))
        bars = made.model_bars()
        assert np.isfinite(bars).all()
        unmeasured += np.isnan(made.error_bars()[1]).sum()
        within.append(np.mean(np.abs(made.answers() - truth) <= bars))
    assert np.mean(within) > 0.95
    assert unmeasured


@pytest.mark.parametrize("module", ["mechanisms.base", "release.release", "release.curator"])
def test_the_examples_of_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(f"qrelease.{module}"))
    assert found.attempted
    assert not found.failed
