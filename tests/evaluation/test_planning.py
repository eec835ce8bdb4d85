"""Promises as code: what theorems promise, what a target takes, and that promises are kept."""

import json
import math
import re
import time
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from worlds import BOTH, PEOPLE, coded, mixed, random_table

import qrelease as qr
from qrelease._util import memory
from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.planning import CONTENDERS, NumbersForecast, Setting, least_enough, plan
from qrelease.mechanisms import additive_noise
from qrelease.mechanisms.accuracy import Promising
from qrelease.mechanisms.auto import Auto, choose
from qrelease.mechanisms.forecasts import pace, rough
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.number_sums import COUNTED_WITH_SUMS, NumberSums
from qrelease.mechanisms.simulation import Simulation
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.unit import Unit
from qrelease.queries.workload import Workload
from qrelease.release import forecasts as forecasts_of_releases
from qrelease.release.curator import Curator
from tests.mechanisms.chosen import errors, true_answers

SWAP = Neighbours.REPLACE_ONE
SMALL = coded(6)
RANGES = Workload.ranges(SMALL, "a")
PAIRS = Workload.marginals(coded(2, 3, 2), 2)

pytestmark = pytest.mark.usefixtures("no_search")


# --- the promises of the baselines

KEPT = [
    (Laplace(), PureDP(0.5)),
    (Gaussian(), ApproxDP(0.5, 1e-6)),
    (Gaussian(), ZCDP(0.02)),
]


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize(("mechanism", "cost"), KEPT)
@pytest.mark.parametrize("workload", [mixed(), Workload.predicates(PEOPLE, "sex = F", "grade = 1", "age in 0..39")])
def test_a_baseline_keeps_its_promise(mechanism, cost, neighbours, workload):
    table = random_table(PEOPLE, 500, 2)
    promised = mechanism.error(workload, len(table), cost, neighbours, beta=0.1)
    found = errors(mechanism, table, workload, cost, neighbours, 60)
    assert np.mean(found > promised) <= 0.1
    assert np.quantile(found, 0.9) > promised / 6


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize(("mechanism", "cost"), KEPT)
def test_noisy_answers_are_within_what_is_said_of_them_and_little_more(mechanism, cost, neighbours):
    """Those before they are made consistent, which a plan tells beside what is promised of the others."""
    table, workload, found = random_table(PEOPLE, 500, 2), mixed(), []
    said = mechanism.noisy_error(workload, cost, neighbours, beta=0.1)
    for seed in range(150):
        with Ledger.open(None, cost, neighbours=neighbours) as ledger:
            release = Curator(table, ledger, Entropy.insecure(seed)).release(mechanism, workload, cost)
        noisy = np.concatenate([m.values for m in release.measurements])[: len(workload)]
        found.append(np.abs(noisy - true_answers(workload, table)).max())
    assert np.mean(np.array(found) > said) <= 0.174  # three standard deviations above β
    assert np.mean(1.3 * np.array(found) > said) > 0.174


@pytest.mark.parametrize("cost", [PureDP(0.5), ApproxDP(0.5, 1e-6), ZCDP(0.02)])
def test_the_union_bound_is_tight(cost):
    """The quantile of the largest of many draws, by simulation; it would not hold for a scale 30 % larger."""
    noise, exact = additive_noise.noise_for(Workload.predicates(PEOPLE, "sex = F"), cost, SWAP)
    from qrelease.noise.samplers import SAMPLERS

    drawn = np.abs(SAMPLERS[noise.law](exact, 50 * 4000, Entropy.insecure(0))).reshape(4000, 50).max(axis=1)
    limit = noise.largest_of(50, 0.05)
    assert np.mean(drawn * noise.unit > limit) <= 0.06
    assert np.mean(1.3 * drawn * noise.unit > limit) > 0.1


@pytest.mark.parametrize("law", ["discrete Laplace", "discrete Gaussian", "rounded Gaussian"])
def test_the_common_total_is_as_close_as_is_said(law):
    from qrelease.noise.samplers import SAMPLERS

    scale, cells = 8.0, [4, 4, 30]
    weights = np.repeat([1 / c for c in cells], cells) / sum(1 / c for c in cells)
    parameter = Fraction(scale if law == "discrete Laplace" else scale**2)
    drawn = SAMPLERS[law](parameter, 38 * 20_000, Entropy.insecure(1)).reshape(20_000, 38) @ weights
    limit = additive_noise.off_total(Noise(law, scale), cells, 0.05)
    assert np.mean(np.abs(drawn) > limit) <= 0.05
    assert np.quantile(np.abs(drawn), 0.95) > limit / 2


def test_projecting_moves_no_cell_by_more_than_it_is_said():
    rng = np.random.default_rng(0)
    for _ in range(300):
        truth = rng.multinomial(rng.integers(1, 50), rng.dirichlet(np.full(5, 0.3))).astype(float)
        noise, off = rng.uniform(-3, 3, 5), rng.uniform(-2, 2)
        total = max(truth.sum() + off, 0.5)
        moved = np.abs(additive_noise.project(truth + noise, total) - truth).max()
        assert moved <= 2 * np.abs(noise).max() + abs(total - truth.sum()) + 1e-9


@pytest.mark.parametrize("neighbours", BOTH)
def test_promises_grow_with_queries_and_fall_with_records_and_epsilon(neighbours):
    for name in CONTENDERS:
        setting = Setting(RANGES, 10_000, Unit(neighbours), 0.05, 1e-6)
        here = setting.promised(name, setting.cost(2.0))
        if name in ("mwem", "maxent", "matrix", "records"):
            assert here is None
            continue
        assert isinstance(CONTENDERS[name](setting, setting.cost(2.0)), Promising)
        assert setting.promised(name, setting.cost(4.0)) <= here
        assert Setting(RANGES, 20_000, Unit(neighbours), 0.05, 1e-6).promised(name, setting.cost(2.0)) <= here
        assert Setting(RANGES, 10_000, Unit(neighbours), 0.2, 1e-6).promised(name, setting.cost(2.0)) <= here
        if name != "net":
            other = Setting(RANGES + Workload.prefixes(SMALL, "a"), 10_000, Unit(neighbours), 0.05, 1e-6)
            assert other.promised(name, setting.cost(2.0)) >= here


@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian()])
def test_bad_arguments_of_a_promise(mechanism):
    for arguments, message in [
        ({"beta": 0.0}, "beta"),
        ({"beta": 1.0}, "beta"),
        ({"beta": 0.1, "records": 0}, "records"),
        ({"beta": 0.1, "cost": PureDP(1.0)}, "delta above 0"),
        ({"beta": 0.1, "cost": ZCDP(1.0)}, "spends epsilon"),
    ]:
        cost = arguments.pop("cost", ApproxDP(1.0, 1e-6))
        if isinstance(cost, PureDP) == isinstance(mechanism, Laplace) and not isinstance(cost, ApproxDP):
            continue
        if isinstance(cost, ZCDP) and isinstance(mechanism, Gaussian):
            continue
        with pytest.raises(InvalidInput, match=message):
            mechanism.error(PAIRS, arguments.pop("records", 100), cost, SWAP, **arguments)


# --- the inverse


def test_the_inverse_of_a_promise():
    setting = Setting(PAIRS, 5_000, Unit(SWAP), 0.05, None)
    for name in ("laplace", "iterative", "pmw"):
        epsilon = setting.least_epsilon(name, 0.3)
        assert setting.promised(name, setting.cost(epsilon)) <= 0.3
        assert not setting.reaches(name, 0.3, setting.cost(epsilon * 0.998))
        records = setting.least_records(name, 0.3, PureDP(1.0))
        assert Setting(PAIRS, records, Unit(SWAP), 0.05, None).promised(name, PureDP(1.0)) <= 0.3
        assert not Setting(PAIRS, math.floor(records * 0.998) - 1, Unit(SWAP), 0.05, None).reaches(
            name, 0.3, PureDP(1.0)
        )
    assert setting.least_epsilon("smalldb", 1e-6) is None
    assert setting.least_epsilon("mwem", 0.3) is None


@pytest.mark.parametrize(
    ("least", "low"), [(3e-7, 2.0**-40), (0.123456, 2.0**-40), (77.7, 1.0), (1.0, 1.0), (9e8, 1.0)]
)
def test_the_least_number_that_is_enough(least, low):
    found = least_enough(lambda value: value >= least, low)
    assert least <= found <= 1.0011 * least
    assert float(f"{found:.4g}") == found
    assert least_enough(lambda value: False, low) is None


# --- the table


@pytest.mark.usefixtures("quick_nets")
def test_a_plan_by_target():
    found = plan(RANGES, 50_000, 0.2, trials=1)
    assert isinstance(found.cost, PureDP)
    assert found.cost.epsilon == min(q.epsilon for q in found.forecasts if q.epsilon is not None)
    assert min(q.promised for q in found.forecasts if q.promised is not None) <= 0.2
    text = str(found)
    assert text.startswith("queries 21, marginals 1, columns 1, universe 6 cells, records 50,000, add-remove\n")
    assert "records for 0.2" in text
    assert "typical: how far the worst answer was off, as such a fraction: in one simulation on records that" in text
    assert "mwem: no theorem covers its practical updates" in text
    assert "gaussian: Gaussian noise needs a delta above 0" in text
    forecasts = {q.mechanism: q for q in found.forecasts}
    assert forecasts["mwem"].promised is None
    assert forecasts["mwem"].typical > 0
    assert forecasts["net"].typical <= forecasts["net"].promised
    assert len({len(line) for line in text.splitlines()[2:8]}) == 1  # a table


def counted_with_sums(release):
    return [release.measurements[i] for i in release.parameters.get(COUNTED_WITH_SUMS, ())]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_plan_says_how_accurate_numbers_will_be(neighbours):
    """The widths of a release of such records, which lie in the middle of their bounds and are spread evenly."""
    domain = Domain.coded({"age": 101, "sex": 2, "area": 5})
    rows = np.indices((2, 5)).reshape(2, -1).repeat(500, axis=1)
    table = Table(domain, (np.full(rows.shape[1], 50), *rows))
    questions = ["mean:age by sex*area", "sum:age by sex", "count by area where sex = 1", "variance:age"]
    asked, cost = Workload.marginals(domain, [["sex"]]), ApproxDP(1.0, 1e-9)
    found = plan(
        asked, 5_000, epsilon=1.0, delta=1e-9, neighbours=neighbours, trials=0, mechanisms=[], numbers=questions
    )
    assert [(n.question, n.groups) for n in found.numbers] == list(zip(questions, (10, 2, 5, 1), strict=True))
    assert [round(n.records) for n in found.numbers] == [500, 2500, 500, 5000]
    with Ledger.open(None, cost, neighbours=neighbours) as ledger:
        made = Curator(table, ledger, Entropy.insecure(1)).release(
            NumberSums(questions, mechanism=Auto(5_000)), asked, cost
        )
    for foretold in found.numbers:
        of = made.measured_sums.answer(foretold.question, counted_with_sums(made))
        half = np.median(of.high - of.low) / 2
        if foretold.question == "variance:age":  # of values that are all alike it is known better, if not by much
            assert half < 1.01 * foretold.half_width < 3 * half
        else:
            assert half == pytest.approx(foretold.half_width, rel=0.15)
    text = str(found)
    assert "numbers, for 0.5 of the cost" in text
    assert "  mean:age by sex*area: ± " in text
    assert found.to_json()["numbers"][1]["question"] == "sum:age by sex"
    clipped = plan(asked, 5_000, epsilon=1.0, trials=0, mechanisms=[], numbers=questions[:1], clip={"age": (40, 60)})
    whole = plan(asked, 5_000, epsilon=1.0, trials=0, mechanisms=[], numbers=questions[:1])
    assert clipped.numbers[0].half_width == pytest.approx(whole.numbers[0].half_width / 5, rel=0.05)
    assert "numbers" not in plan(asked, 5_000, epsilon=1.0, trials=0, mechanisms=[]).to_json()


@pytest.mark.parametrize("place", [2, 98])
def test_a_plan_says_how_much_less_accurate_numbers_are_of_values_near_an_end(place):
    """Of incomes most lie near the lower bound: a mean is further off there than in the middle, and a sum is not."""
    domain = Domain.coded({"pay": 101, "sex": 2})
    people = np.arange(6_000)
    table = Table(domain, (np.where(people % 20 == 0, 100 - place, place), people % 2))
    questions = ["mean:pay by sex", "ratio:pay >= 50 by sex", "sum:pay by sex"]
    asked, cost = Workload.marginals(domain, [["sex"]]), ApproxDP(0.5, 1e-9)
    found = plan(asked, 6_000, epsilon=0.5, delta=1e-9, trials=0, mechanisms=[], numbers=questions)
    with Ledger.open(None, cost) as ledger:
        made = Curator(table, ledger, Entropy.insecure(1)).release(
            NumberSums(questions, mechanism=Auto(6_000)), asked, cost
        )
    for foretold in found.numbers:
        of = made.measured_sums.answer(foretold.question, counted_with_sums(made))
        half = np.median(np.maximum(of.high - of.value, of.value - of.low))  # it is cut off at the bounds
        if foretold.question == "sum:pay by sex":
            assert foretold.half_width == pytest.approx(foretold.half_width_at_end)
            assert half == pytest.approx(foretold.half_width, rel=0.15)
        else:
            assert 1.2 * foretold.half_width < foretold.half_width_at_end
            assert 1.1 * foretold.half_width < half < foretold.half_width_at_end
            assert f"± {foretold.half_width:.3g} to {foretold.half_width_at_end:.3g}, each of" in str(foretold)


def test_a_plan_takes_hardly_any_value_to_be_missing_and_says_so():
    """It took half of them to be: of so few records an interval is more than twice as wide."""
    full = Domain(
        (Attribute("pay", "number", within=(0, 100), step=1, edges=(0, 50, 101)), Attribute("sex", "coded", codes=2))
    )
    some = replace(full, attributes=(replace(full["pay"], missing=("",)), full["sex"]))
    found, without = (
        plan(
            Workload.marginals(domain, [["sex"]]),
            5_000,
            epsilon=1.0,
            trials=0,
            mechanisms=[],
            numbers=["mean:pay by sex", "sum:pay by sex"],
        )
        for domain in (some, full)
    )
    assert [round(n.records) for n in found.numbers] == [2_500, 2_500]
    for one, other in zip(found.numbers, without.numbers, strict=True):
        assert other.half_width < one.half_width < 3 * other.half_width  # how many are missing is measured too
    assert "with no value missing" in str(found)


def test_a_plan_by_epsilon_says_what_is_vacuous():
    found = plan(PAIRS, 100, epsilon=1.0, delta=1e-6, neighbours="replace-one", trials=0)
    assert found.cost == ApproxDP(1.0, 1e-6)
    forecasts = {q.mechanism: q for q in found.forecasts}
    assert forecasts["laplace"].promised < 1
    assert "its noisy answers are all within 35 records; the promised error is larger" in forecasts["laplace"].note
    assert forecasts["pmw"].vacuous
    assert "  pmw (Python only, qr.PrivateMultiplicativeWeights, for questions one by one): epsilon is too" in str(
        found
    )
    assert forecasts[
        "pmw"
    ].note == "epsilon is too small: with epsilon=1, delta=1e-06, 100 records and 16 queries no alpha" + (
        " below 1 can be promised"
    )
    assert "typical" not in str(found)
    content = json.loads(json.dumps(found.to_json()))
    assert content["stand_in"] is None
    assert {q["mechanism"]: q["vacuous"] for q in content["quotes"]}["pmw"]
    assert str(plan(PAIRS, 100, epsilon=1.0, trials=0)) == str(plan(PAIRS, 100, epsilon=1.0, trials=0))


def test_the_average_error_that_is_predicted_is_that_of_releases():
    both = ("maxent", "matrix")
    found = plan(PAIRS, 2_000, epsilon=1.0, delta=1e-6, trials=0, mechanisms=both)
    forecasts = {q.mechanism: q for q in found.forecasts}
    for mechanism, seeds in ((qr.MaxEnt(), 16), (qr.Matrix(), 100)):
        stage, squares = Simulation.of(PAIRS, 2_000), []
        for seed in range(seeds):
            with Ledger.open(None, found.cost) as ledger:
                release = Curator(stage.table, ledger, Entropy.insecure(seed)).release(mechanism, PAIRS, found.cost)
            squares.append(np.mean((release.answers() - stage.answers) ** 2))
        assert forecasts[mechanism.name].average == pytest.approx(np.sqrt(np.mean(squares)), rel=0.1)
    pure = {q.mechanism: q for q in plan(PAIRS, 2_000, epsilon=1.0, trials=0, mechanisms=both).forecasts}
    assert pure["maxent"].average > 0
    assert pure["matrix"].average is None
    assert pure["matrix"].note.startswith("Gaussian noise needs a delta above 0")


def test_each_mechanism_has_an_average_error_or_a_reason():
    found = plan(PAIRS, 50_000, epsilon=1.0, delta=1e-6, trials=1)
    text = str(found)
    table, (legend, *_) = text.split("\n\n")[1], text.split("\n\n")[2:]
    for quote in found.forecasts:
        row = [line for line in table.splitlines() if line.startswith(f"{quote.mechanism} ")]
        assert len(row) == quote.says_something
        assert quote.average is not None or quote.note
        assert quote.says_something or f"  {quote.mechanism}" in legend
    assert {q.mechanism for q in found.forecasts if q.average is None} <= {"net", "pmw", "smalldb"}
    mwem = next(q for q in found.forecasts if q.mechanism == "mwem")  # it has no formula, and was simulated
    stage = Simulation.of(PAIRS, 50_000)
    squares = stage.errors(qr.MWEM(), found.cost, Neighbours.ADD_REMOVE, 0) ** 2
    assert mwem.average == pytest.approx(np.sqrt(squares.mean()))
    assert "average: how far answers are off, in the root mean square over all of them, in records" in text


def test_what_auto_would_take_is_simulated_and_what_is_clear_or_long_is_not():
    """A plan took 20 times as long as the release: by weighted records where there is a histogram, and a search."""
    asked = {"epsilon": 1.0, "delta": 1e-6, "trials": 1}
    middling = Workload.marginals(coded(11, 11, 11), 1)
    found = {q.mechanism: q for q in plan(middling, 2_000, **asked).forecasts}
    assert 0 < found["maxent"].typical < found["laplace"].typical
    assert found["records"].typical is None
    assert found["records"].average > found["maxent"].average
    assert "a sample of the histogram that maxent fits, and so further off" in found["records"].note
    assert (found["smalldb"].promised, found["smalldb"].typical) == (None, None)
    assert "more than 1,024, may take minutes" in found["smalldb"].note
    wide = Workload.marginals(coded(*[9] * 12), 1)  # no histogram is fitted
    assert plan(wide, 2_000, **asked, mechanisms=["maxent"]).forecasts[0].typical > 0
    triples = Workload.marginals(coded(4, 2, 11, 5, 7, 12), 3)
    (slow,) = plan(triples, 2_000, **asked, mechanisms=["maxent"]).forecasts
    assert slow.typical is None
    assert slow.average > 0
    said = re.search(r"not simulated: one simulation would take about (\d+) s$", slow.note)
    assert said is not None
    assert abs(int(said[1]) - slow.seconds) < 0.2 * slow.seconds  # of which writing files is no part


@dataclass
class Busy:
    """Laplace noise, after some work."""

    releases: int = 0
    name: str = "busy"

    def check(self, *given):
        Laplace().check(*given)

    def release(self, *given):
        self.releases += 1
        begin = time.process_time()
        while time.process_time() - begin < 0.6:
            pass
        return Laplace().release(*given)


def test_no_other_simulation_is_begun_once_a_second_is_gone():
    setting, stage, busy = Setting(PAIRS, 2_000, Unit(SWAP), 0.05, None), Simulation.of(PAIRS, 2_000), Busy()
    largest, average = setting.simulated(busy, PureDP(1.0), stage, 9)
    assert busy.releases == 2
    assert 0 < average < 2_000 * largest


def test_a_mechanism_that_none_plans_is_named():
    with pytest.raises(InvalidInput, match=r"mechanisms must be among laplace, .*, got 'magic'"):
        plan(PAIRS, 2_000, epsilon=1.0, mechanisms=["laplace", "magic"])


def test_a_plan_says_what_auto_would_take():
    told = ["laplace"]
    wide = Workload.marginals(coded(*[4] * 8), 2)
    cost = ApproxDP(1.0, 1e-6)
    found = plan(wide, 5_000, epsilon=1.0, delta=1e-6, trials=1, mechanisms=told)
    first = choose(wide, 5_000, cost, Neighbours.ADD_REMOVE).predictions[0]
    assert first.error is not None
    assert str(found).splitlines()[-1] == f"auto: would take {first}"
    assert found.to_json()["auto"] == f"would take {first}"
    assert plan(wide, 5_000, epsilon=1.0, delta=1e-6, trials=0, mechanisms=told).auto == f"would take {first}"
    few = Workload.predicates(coded(4, 4), "a = 1 and b in 0..2")
    assert "by simulations" in str(plan(few, 5_000, epsilon=1.0, delta=1e-6, trials=0, mechanisms=told))
    conditions = Workload.predicates(coded(*[4] * 8), "a = 1 and b in 0..2")
    assert plan(conditions, 5_000, epsilon=1.0, delta=1e-6, trials=1, mechanisms=told).auto == ""


@pytest.mark.parametrize(("epsilon", "gaussian"), [(1.0, True), (3.0, False)])
def test_beside_numbers_it_is_said_of_the_counts_part_of_the_cost_whether_the_delta_is_spent(epsilon, gaussian):
    """It was said of the whole cost, which ε alone may serve better where Gaussian noise serves numbers and counts."""
    domain = coded(4, 2, 5, 50, 12)
    questions = ["mean:d by a*b", "mean:e by c", "sum:d by b*c", "variance:d by a", "mean:e by a*c", "mean:d by a*b*c"]
    workload, cost = Workload.marginals(domain, 2), ApproxDP(epsilon, 1e-9)
    found = plan(workload, 3_000, epsilon=epsilon, delta=1e-9, trials=0, mechanisms=[], numbers=questions)
    with Ledger.open(None, cost) as ledger:
        made = Curator(random_table(domain, 3_000, 0), ledger, Entropy.insecure(1)).release(
            NumberSums(questions, mechanism=Auto(3_000), records=3_000), workload, cost
        )
    assert {"Gaussian" in m.noise.law for m in made.measurements} == {gaussian}
    assert ("epsilon alone" in found.auto) != gaussian
    assert ("the delta gains nothing here" in found.auto) != gaussian
    assert f"{made.parameters['predictions'][0]['error']:.3g} records" in found.auto
    assert found.auto.startswith("counts, for the rest of the cost: would take maxent")


def test_what_a_universe_is_too_large_for_is_said():
    wide = coded(*[10] * 12)
    found = plan(Workload.marginals(wide, 1), 10_000, 0.1, trials=0)
    forecasts = {q.mechanism: q for q in found.forecasts}
    assert "cells" in forecasts["mwem"].note
    assert forecasts["pmw"].promised is None
    assert forecasts["laplace"].epsilon == found.cost.epsilon
    # Of a size between, which has a histogram but no matrix of all queries.
    found = plan(Workload.marginals(coded(16, 9, 16, 7, 5, 2, 2), 2), 50_000, 0.02, trials=0)
    forecasts = {q.mechanism: q for q in found.forecasts}
    assert "it evaluates every query in every cell" in forecasts["smalldb"].note
    assert forecasts["smalldb"].promised is forecasts["net"].promised is None
    assert forecasts["iterative"].epsilon > 0


def test_a_universe_too_large_for_all_others_has_a_forecast_of_seconds_and_memory():
    wide = Workload.marginals(coded(*[9] * 35), 2)
    found = plan(wide, 200_000, epsilon=1.0, delta=1e-9)
    forecasts = {q.mechanism: q for q in found.forecasts}
    records, cost = forecasts["records"], ApproxDP(1.0, 1e-9)
    assert (
        records.seconds
        == forecasts_of_releases.seconds(FittedRecords(), wide, cost, 200_000)
        != plan(wide, 2_000, epsilon=1.0, delta=1e-9, trials=0).forecasts[list(forecasts).index("records")].seconds
    )
    assert records.memory == FittedRecords().memory(wide)
    assert records.typical is None  # it is not tried three times for minutes
    assert (
        f"one simulation would take about {rough(pace() * FittedRecords().seconds(wide, cost, 200_000))} s"
        in records.note
    )
    for name in ("mwem", "iterative", "smalldb", "net", "pmw"):
        assert "too" in forecasts[name].note or "about 2^111 cells" in forecasts[name].note
        assert forecasts[name].seconds is forecasts[name].memory is forecasts[name].typical is None
    lines = str(found).splitlines()
    assert (
        lines[0] == "queries 48,195, marginals 595, columns 35, universe about 2^111 cells, records 200,000, add-remove"
    )
    assert lines[2].split()[-2:] == ["seconds", "memory"]
    row = next(line for line in lines if line.startswith("records "))
    assert row.split()[-3:] == [rough(records.seconds), *memory.size(records.memory).split()]
    assert (
        "seconds, memory: about what one release takes on two cores, with its synthetic records and its files"
        in str(found)
    )
    content = json.loads(json.dumps(found.to_json()))
    assert content["quotes"][list(forecasts).index("records")]["memory"] == records.memory


def test_what_cannot_run_has_a_memory_but_no_seconds(free_memory):
    free_memory(160 << 20)
    small = {q.mechanism: q for q in plan(PAIRS, 1_000, epsilon=1.0, delta=1e-9, trials=0).forecasts}["records"]
    assert small.memory == FittedRecords().memory(PAIRS) > 32 << 20
    assert small.seconds is None
    assert "weighted records: about" in small.note


def test_what_is_quick_is_simulated(monkeypatch):
    monkeypatch.setitem(CONTENDERS, "records", lambda *_: FittedRecords(weighted_records=1_000))
    wide = Workload.marginals(coded(*[9] * 12), 1)  # no histogram is fitted
    (quote,) = plan(wide, 1_000, epsilon=5.0, delta=1e-6, trials=1, mechanisms=["records"]).forecasts
    assert 0 < quote.typical < 0.2
    assert "simulated" not in quote.note


def test_of_more_records_than_can_be_made_up_as_many_as_can_be_are_simulated():
    (at_most,) = plan(PAIRS, 2**23, epsilon=0.01, trials=1, mechanisms=["laplace"]).forecasts
    found = plan(PAIRS, 2**26, epsilon=0.01, trials=1, mechanisms=["laplace"])
    (quote,) = found.forecasts  # of whose noise the same is a smaller fraction
    assert quote.typical == pytest.approx(at_most.typical / 8)
    assert "typical errors are simulated with 8,388,608 records, for more are not made up" in found.to_json()["note"]


@pytest.mark.parametrize("quick_nets", [1 << 18], indirect=True)
def test_a_net_of_small_databases_where_there_are_no_ranges(quick_nets):
    forecasts = {q.mechanism: q for q in plan(PAIRS, 50_000, epsilon=1.0, trials=1).forecasts}
    assert 0 < forecasts["net"].typical <= forecasts["net"].promised < 0.6
    nothing = {q.mechanism: q for q in plan(PAIRS, 10, epsilon=0.1, trials=0).forecasts}
    assert nothing["iterative"].promised == math.inf
    assert nothing["iterative"].note.startswith("what its theorem promises of the worst case is nothing for 10 records")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs a target error, an epsilon, or both"),
        ({"target_error": 0.0}, "target_error"),
        ({"target_error": 1.0}, "target_error"),
        ({"target_error": 0.1, "n": 0}, "n must be"),
        ({"target_error": 0.1, "trials": -1}, "trials"),
        ({"target_error": 0.1, "beta": 1.0}, "beta"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1.0, "delta": 2.0}, "delta"),
        ({"epsilon": 1.0, "neighbours": "friends"}, "neighbours"),
    ],
)
def test_bad_plans(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        plan(PAIRS, arguments.pop("n", 1000), **{"trials": 0, **arguments})


def test_whoever_is_vacuous_and_not_simulated_has_a_reason():
    domain = coded(*[8] * 6)
    found = plan(Workload.marginals(domain, 2), 9_000, epsilon=0.2, delta=1e-6, trials=0)
    assert all(q.note for q in found.forecasts if not q.says_something)


def test_a_quantile_that_would_be_chosen_is_told_with_what_the_release_has_to_be_told():
    chosen = NumbersForecast("quantile(.5):x", 1, 500.0, 2.0, 2.0, "each chosen among 9 cells by permute-and-flip")
    assert str(chosen).endswith("; each chosen among 9 cells by permute-and-flip, if the release too is told --records")
    assert "--records" not in str(NumbersForecast("mean:x", 1, 500.0, 2.0, 2.0))


def test_a_plan_of_python_names_its_own_arguments():
    found = plan(PAIRS, 1000, epsilon=1, trials=0)
    assert "without a delta there is no Gaussian noise" in str(found)
    assert "--" not in str(found)
    assert "without a delta (--delta) there is no" in found.text


def test_a_plan_says_once_that_intervals_of_quantiles_are_no_narrower_than_bins():
    pay = Attribute("pay", "number", edges=(0, 10_000, 20_000, 30_000), integer=True)
    domain = Domain((pay, Attribute("sex", "category", categories=("F", "M"))))
    asked = ["median:pay by sex", "quantile(.9):pay", "count by sex"]
    told = str(plan(Workload.marginals(domain, 1), 1000, epsilon=1, trials=0, numbers=asked))
    assert told.count("no narrower than a bin, here 10,000") == 1
    told = str(plan(Workload.marginals(domain, 1), 1000, epsilon=1, trials=0, numbers=asked[2:]))
    assert "no narrower" not in told
