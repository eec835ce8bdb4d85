"""`Auto` looks at public facts alone, takes what is predicted to be best, and says in the release why."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from worlds import BOTH, SpyEntropy, coded, random_table, table_of

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, OutOfMemory, TooLarge
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.mechanisms import auto
from qrelease.mechanisms.auto import Auto, choose, in_closed_form, likely_records
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.predictions import explained
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.reader import load
from tests.mechanisms.chosen import ADD, DELTA, DOMAIN, PAIRS, RANGES, SWAP, released

LARGE = Workload.marginals(coded(*[4] * 8), 2)  # 65 536 cells: nothing is simulated
HUGE = Workload.marginals(coded(*[10] * 40), 1)


@pytest.mark.parametrize(
    ("asked", "records", "cost", "chosen"),
    [
        (RANGES, 10_000, ApproxDP(0.1, 1e-2), "matrix"),
        (RANGES, 10_000, PureDP(1.0), "maxent"),
        (RANGES, 10**7, PureDP(1.0), "maxent"),  # too many records to be made up: in closed form
        (LARGE, 10_000, ApproxDP(1.0, DELTA), "maxent"),
        (HUGE, 10_000, ApproxDP(1.0, DELTA), "records"),
        (HUGE, 10_000, PureDP(1.0), "laplace"),
    ],
)
def test_it_takes_the_least_of_what_is_predicted(asked, records, cost, chosen):
    found = choose(asked, records, cost, ADD)
    assert found.mechanism.name == chosen == found.predictions[0].mechanism
    errors = {p.mechanism: p.error for p in found.predictions}
    assert set(errors) == {"maxent", "records", "mwem", "smalldb", "matrix", "gaussian", "laplace"}
    # Of marginals users see the mean L1; of other queries the root mean squared error is all that is predicted.
    seen = {p.mechanism: p.error if p.l1 is None else p.l1 for p in found.predictions}
    known = [e for e in seen.values() if e is not None]
    assert not known or seen[chosen] <= 1.05 * min(known)
    assert all(p.why for p in found.predictions)
    lines = str(found).splitlines()
    assert len(lines) == 7
    assert lines[0].startswith(f"chosen {chosen}: ")


def test_the_same_facts_give_the_same_choice():
    first, second = (choose(PAIRS, 500, PureDP(0.5), ADD).predictions for _ in range(2))
    assert first == second


def test_before_a_charge_it_is_said_whether_there_is_a_table_and_what_a_delta_would_gain():
    wide, large = Workload.marginals(coded(*[10] * 15), 3), coded(10_000, 10_000, 2)
    with_delta, brief = (told := auto.foretold(wide, None, ApproxDP(1.0, DELTA), ADD)).lines, told.brief
    assert len(with_delta) == 1
    assert brief == ("auto would take records",)
    assert with_delta[0].startswith(
        "auto would take records, with a synthetic table: with 10,000 records answers off by about"
    )
    pure, brief = (told := auto.foretold(wide, 50_000, PureDP(1.0), ADD)).lines, told.brief
    assert pure[0].startswith(
        "auto would take records, with a synthetic table: with 50,000 records answers off by about "
    )
    assert pure[1].startswith("a delta would help: with --delta 1e-09 and 50,000 records, answers off by about ")
    assert brief == ("auto would take records", pure[1])
    without, brief = (told := auto.foretold(Workload.marginals(large, 2), 50_000, PureDP(1.0), ADD)).lines, told.brief
    assert "WITHOUT a synthetic table: with 50,000 records" in without[0]
    assert without[1].startswith("no table: the universe has")
    assert " WITHOUT a table" in brief[0]
    assert (
        auto.foretold(PAIRS, 500, PureDP(1.0), ADD)
        .lines[0]
        .startswith("auto would take maxent, with a synthetic table")
    )


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("neighbours", BOTH)
def test_unfitted_answers_to_wide_tables_are_never_taken_where_records_are_better(epsilon, neighbours):
    wide = Workload.marginals(coded(*[10] * 15), 3)
    for records in (1_000, 100_000):
        found = choose(wide, records, ApproxDP(epsilon, DELTA), neighbours)
        assert found.mechanism.name == "records"
        assert found.predictions[0].l1 <= 2


def test_nothing_is_spent_where_the_number_of_records_is_public():
    table = random_table(DOMAIN, 300, 1)
    for mechanism, neighbours in [(Auto(records=300), ADD), (Auto(), SWAP)]:
        found = released(mechanism, table, PAIRS, PureDP(1.0), neighbours)
        assert found.parameters["chosen"] == "maxent"
        assert not [s for s in found.spends if s.what == "count the records"]
        assert explained(found.parameters).endswith("to choose: nothing was spent")


@pytest.fixture
def candidates(monkeypatch):
    """`candidates(change)` leaves `Auto` what `change` makes of its candidates, a dictionary by name."""
    every = auto.candidate_mechanisms
    return lambda change: monkeypatch.setattr(auto, "candidate_mechanisms", lambda *of: change(every(*of)))


@pytest.fixture
def only(candidates):
    """Leave `Auto` the candidates of these names."""
    return lambda *names: candidates(lambda every: {name: every[name] for name in names})


@pytest.mark.parametrize("name", ["maxent", "mwem", "smalldb", "matrix", "gaussian", "laplace"])
def test_whatever_is_chosen_the_release_comes_back(name, only, tmp_path):
    only(name)
    found = released(Auto(), random_table(RANGES.domain, 300, 1), RANGES, ApproxDP(1.0, DELTA))
    assert found.parameters["chosen"] == name
    assert found.spends[0].what == "count the records"
    found.save(tmp_path / "out")
    loaded = load(tmp_path / "out")
    np.testing.assert_allclose(loaded.answers(), found.answers(), rtol=1e-9)
    np.testing.assert_allclose(loaded.error_bars(), found.error_bars(), rtol=1e-9)


def test_else_one_percent_buys_it():
    found = released(Auto(), random_table(DOMAIN, 300, 1), PAIRS, PureDP(1.0))
    assert [s.what for s in found.spends].count("count the records") == 1  # what is chosen counts no more
    assert found.spends[0].what == "count the records"
    assert found.spends[0].cost.epsilon == pytest.approx(0.01)
    assert sum(s.cost.epsilon for s in found.spends) <= 1.0
    assert explained(found.parameters).endswith("to choose: the cost of counting the records")


def test_the_choice_does_not_look_at_the_records():
    """Tables as far apart as can be, of one number of records."""
    tables = [table_of(DOMAIN, [[0, 0, 0]] * 200), random_table(DOMAIN, 200, 3)]
    first, second = (released(Auto(records=200), t, PAIRS, PureDP(1.0)).parameters["predictions"] for t in tables)
    assert first == second


def test_the_release_holds_the_reasons_and_comes_back(tmp_path):
    found = released(Auto(records=300), random_table(DOMAIN, 300, 1), PAIRS, PureDP(1.0))
    found.save(tmp_path / "out")
    again = load(tmp_path / "out")
    assert again.mechanism == "auto"
    assert explained(again.parameters) == explained(found.parameters)
    assert "chosen maxent: " in explained(again.parameters)
    assert "smalldb" in (tmp_path / "out" / "report.html").read_text()
    json.loads((tmp_path / "out" / "release.json").read_text())


class Broken:
    name = "maxent"

    def check(self, *_):
        raise TooLarge("far too large")


def test_where_nothing_can_run_nothing_is_charged(candidates):
    candidates(lambda _: {"maxent": Broken()})
    cost = PureDP(1.0)
    with Ledger.open(None, cost) as ledger:
        spy = SpyEntropy(0)
        with pytest.raises(InvalidInput, match="no mechanism can release this: far too large"):
            Curator(random_table(DOMAIN, 10, 0), ledger, spy).release(Auto(), PAIRS, cost)
        assert ledger.spent is None
        assert spy.taken == 0


def test_where_a_table_is_wanted_nothing_without_one_is_taken(only):
    only("matrix", "laplace")
    cost, table = ApproxDP(1.0, DELTA), random_table(RANGES.domain, 300, 1)
    without, found = (released(Auto(10**7, table=wanted), table, RANGES, cost) for wanted in (False, True))
    assert (without.parameters["chosen"], without.has_table) == ("matrix", False)
    assert (found.parameters["chosen"], found.has_table) == ("laplace", True)
    assert len(found.synthetic(7)["a"]) == 7
    (line,) = (line for line in explained(found.parameters).splitlines() if "matrix" in line)
    assert line.startswith("not matrix: cannot run: a synthetic table is wanted, and matrix would give none: ")


def test_where_no_table_can_be_had_nothing_is_charged_for_one():
    asked = Workload.marginals(coded(70_000, 10_000), 1)  # more cells of a column than records take
    cost, table = PureDP(1.0), random_table(asked.domain, 10, 0)
    with Ledger.open(None, cost) as ledger:
        spy = SpyEntropy(0)
        with pytest.raises(
            InvalidInput, match="a synthetic table is wanted, and laplace would give none: the universe"
        ):
            Curator(table, ledger, spy).release(Auto(table=True), asked, cost)
        assert ledger.spent is None
        assert spy.taken == 0
        assert Curator(table, ledger, spy).release(Auto(), asked, cost).parameters["chosen"] == "laplace"


@pytest.fixture
def _few_records(candidates):
    """It takes as few weighted records as make a quick fit."""
    candidates(lambda every: {**every, "records": FittedRecords(weighted_records=500)})


@pytest.mark.usefixtures("_few_records")
def test_where_nothing_else_gives_a_table_weighted_records_do():
    found = released(Auto(table=True), random_table(HUGE.domain, 10, 0), HUGE, ApproxDP(1.0, DELTA))
    assert (found.parameters["chosen"], found.has_table) == ("records", True)
    assert "not maxent: cannot run: a synthetic table is wanted" in explained(found.parameters)


@pytest.mark.parametrize("table", [1, None, "yes"])
def test_a_table_is_wanted_or_not(table):
    with pytest.raises(InvalidInput, match="table must be True or False"):
        Auto(table=table)


def test_the_memory_that_is_left_decides_no_choice(monkeypatch):
    """A simulation that fails for want of it ends the release: only the data holder sees that."""

    def full(*_):
        raise OutOfMemory("48 cells: 128 MiB are needed and 7 MiB are free")

    monkeypatch.setattr(auto, "_squares", full)
    with pytest.raises(OutOfMemory, match="7 MiB are free"):
        released(Auto(300), random_table(RANGES.domain, 300, 1), RANGES, PureDP(1.0))


@pytest.mark.usefixtures("_few_records")
def test_impossible_records_stay_impossible_where_records_is_chosen():
    rule = "a = 1 and b = 3"
    domain = replace(HUGE.domain, impossible=(rule,))
    asked = Workload.marginals(domain, 1)
    found = released(Auto(table=True), random_table(domain, 300, 1), asked, ApproxDP(1.0, DELTA))
    assert (found.parameters["chosen"], found.parameters["impossible"]) == ("records", "kept")
    assert found.answer(rule).value == 0.0
    without = released(Auto(10_000), random_table(domain, 300, 1), asked, PureDP(1.0))
    assert (without.parameters["chosen"], without.parameters["impossible"]) == ("laplace", "not kept")


@pytest.mark.parametrize("records", [0, -1, 2.5, "many", True])
def test_records_are_a_positive_whole_number(records):
    with pytest.raises(InvalidInput, match="records"):
        Auto(records=records)


@pytest.mark.parametrize("neighbours", BOTH)
def test_the_number_of_records_alone_can_be_asked(neighbours):
    """Under replace-one it is public: what would be measured of it has no plan, and that came up after the charge."""
    asked = Workload.marginals(DOMAIN, [()])
    release = released(Auto(), random_table(DOMAIN, 500, 0), asked, ApproxDP(1.0, DELTA), neighbours, 1)
    assert abs(release.answers()[0] - 500) < (0.01 if neighbours is SWAP else 60)


def test_a_tiny_cost_is_refused_before_the_charge():
    with pytest.raises(InvalidInput):
        Auto().check(PAIRS, PureDP(1e-300), Neighbours.ADD_REMOVE)
    Auto().check(PAIRS, PureDP(1.0), ADD)


def test_what_was_counted_first_is_no_part_of_the_answers_that_are_loaded(tmp_path):
    """A release by `Auto` lists the number of records among its measurements; its answers were fitted without it."""
    workload = Workload.marginals(coded(2, 3), 2)
    made = released(Auto(), random_table(workload.domain, 3, 0), workload, PureDP(1.0), seed=2)
    assert made.parameters["chosen"] == "laplace"
    made.save(tmp_path / "out")
    again = load(tmp_path / "out")
    assert again.measurements[0].group == RECORDS
    first, second = (m.synopsis.sample(50, np.random.default_rng(0)) for m in (made, again))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("shape", "columns", "cost", "least", "most"),
    [
        ({"town": 300, "age": 8, "job": 4}, 2, ApproxDP(1, 1e-9), 2.5, 3.5),  # 2.7 was measured
        ({"age": 8}, 1, PureDP(1), 1.3, 1.5),  # a count with Laplace noise: 1.36
    ],
)
def test_where_no_cell_is_thin_the_fit_takes_no_noise_away(shape, columns, cost, least, most):
    workload = Workload.marginals(Domain.coded(shape), columns)
    found = in_closed_form("maxent", workload, 3_000_000, cost, Neighbours.ADD_REMOVE)
    assert found.error is not None
    assert least < found.error < most
    told = f"answers off by about {found.error:.3g} records (root mean square)"
    assert found.briefly() == f"maxent: {told}; {found.l1 / 2:.2g} of a marginal's records are in another cell"


def test_of_a_tiny_table_the_share_in_other_cells_is_told_of_the_records_that_it_seems_to_have():
    """Errors are predicted for as many records as a noisy number of them is off by: some 141, and there are 30."""
    domain = Domain.coded({"job": 9, "sex": 2, "race": 5, "income": 2})
    rng = np.random.default_rng(1)
    table = Table(domain, tuple(rng.integers(size, size=30) for size in domain.shape))
    workload = Workload.marginals(domain, 2)
    told, real = [], []
    for seed in range(8):
        curator = Curator(table, Ledger.open(None, PureDP(1)), Entropy.insecure(seed))
        release = curator.release(Auto(), workload, PureDP(1))
        told.append(float(explained(release.parameters, briefly=True).split("; ")[1].split(" of ")[0]))
        gaps = np.abs(release.answers() - np.concatenate([c.reshape(-1) for c in table.counts(workload.sets)]))
        real.append(np.add.reduceat(gaps, workload.bounds[:-1]).mean() / 30 / 2)
    assert 0.5 < np.median(told) / np.median(real) < 2  # and it was a third


LIKE_ADULT = (32, 9, 32, 16, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)


def test_of_epsilon_alone_records_are_told_how_much_less_noise_a_delta_would_make():
    domain = Domain.coded({f"c{i}": n for i, n in enumerate(LIKE_ADULT)})
    said = auto.foretold(Workload.marginals(domain, 3), 48_842, PureDP(1.0), ADD, table=True)
    told = "a delta would most likely help: with --delta 1e-09 the counts of all 105 pairs of columns could be measured"
    assert f"{told} with noise of standard deviation 56.3 records, instead of 148" in said.lines
    assert told in said.brief[1]
    few = auto.foretold(Workload.marginals(domain, [["c0", "c1"]]), 48_842, PureDP(1.0), ADD, table=True)
    assert told not in "".join(few.lines)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_weighted_records_that_would_select_among_pairs_keep_the_delta(epsilon):
    """Pairs selected for epsilon alone have 1.4 times the error on Adult, whatever is predicted of its columns."""
    domain = Domain.coded({f"c{i}": n for i, n in enumerate(LIKE_ADULT)})
    asked, cost = Workload.marginals(domain, 3), ApproxDP(epsilon, 1e-9)
    guess = in_closed_form("records", asked, 48_842, PureDP(epsilon), ADD).measure
    assert guess < in_closed_form("records", asked, 48_842, cost, ADD).measure
    assert choose(asked, 48_842, cost, ADD, table=True).cost == cost


@pytest.mark.parametrize(("columns", "taken"), [(1, PureDP), (3, PureDP), (40, ApproxDP)])
def test_of_an_epsilon_and_a_delta_it_spends_what_has_less_noise(columns, taken):
    """A few answers are closer by Laplace noise for epsilon alone, many by Gaussian."""
    domain = Domain.coded({f"c{i}": 3 for i in range(columns)})
    asked, cost = Workload.marginals(domain, 1), ApproxDP(1.0, 1e-9)
    found = choose(asked, 10_000, cost, ADD)
    alone = choose(asked, 10_000, PureDP(1.0), ADD)
    assert isinstance(found.cost, taken)
    assert found.predictions[0].measure <= alone.predictions[0].measure
    assert ("epsilon alone" in str(found)) == (
        "the ledger keeps it" in str(auto.foretold(asked, 10_000, cost, ADD).brief)
    )
    assert ("epsilon alone" in str(found)) == (taken is PureDP)


SHAPE = (9, 9, 15, 42)
OFFICE = Workload.marginals(coded(4, 2, 11, 5, 7, 12), 2)


@pytest.mark.parametrize(("epsilon", "sizes"), [(1.0, ["100"]), (3.0, ["1,000", "10,000", "100,000", "1,000,000"])])
def test_where_the_number_of_records_decides_it_is_said_for_which_the_delta_is_spent(epsilon, sizes):
    """It was told by tables of 10 000 records and more, and a table of 300 spent it or not all the same."""
    cost = ApproxDP(epsilon, 1e-9)
    (said,) = auto.foretold(OFFICE, None, cost, ADD).lines[1:]
    assert said.startswith(f"the delta gains nothing with about {', '.join(sizes)} records, since noise for epsilon")
    assert "for so many, leave --delta out" in said
    assert said.endswith("if it is public, give --records N to have this said of N")
    for n in auto.SIZES:
        drawn = choose(OFFICE, n, ApproxDP(0.99 * epsilon, 1e-9), ADD).cost  # a hundredth counts the records
        assert isinstance(drawn, PureDP) == (f"{n:,}" in sizes)
    known = "".join(auto.foretold(OFFICE, 100, cost, ADD).lines)
    assert ("the delta gains nothing here" in known) == ("100" in sizes)


def test_of_few_records_whose_error_is_the_largest_the_delta_is_not_left_for_no_reason():
    """Both ways had an L1 of 2, the largest there is: that is no sign that they have the same noise."""
    wide, cost = Workload.marginals(coded(*[12] * 14), 1), ApproxDP(0.1, 1e-9)
    errors = [choose(wide, n, cost, ADD).predictions[0].error for n in (300, 1_000, 3_000)]
    assert choose(wide, 300, cost, ADD).cost == cost
    assert errors == sorted(errors)
    few = choose(Workload.marginals(coded(4, 2, 11, 5, 7, 12), 1), 100, cost, ADD)  # where laplace was taken with a δ
    assert few.cost == PureDP(0.1)


def test_what_a_delta_would_gain_is_told_of_the_part_of_the_cost_that_counts_have():
    sums = NumberSums(["mean:a by b"], mechanism=auto.Auto(3_000), records=3_000)
    asked = Workload.marginals(coded(*[4] * 9), 2)
    said = auto.foretold(asked, 3_000, PureDP(1.0), ADD, part=partial(sums.of_counts, asked, neighbours=ADD)).lines[1]
    own = sums.of_counts(asked, ApproxDP(1.0, auto.SMALL_DELTA), ADD)
    assert choose(asked, 3_000, own, ADD).predictions[0].figures in said
    assert choose(asked, 3_000, ApproxDP(1.0, auto.SMALL_DELTA), ADD).predictions[0].figures not in said


def test_a_delta_that_gains_little_is_not_praised():
    """It was, by the error for a million records, and the release of a few thousand was no nearer."""
    said = auto.foretold(OFFICE, None, PureDP(1.0), ADD)
    for n in auto.SIZES:
        alone, with_delta = (choose(OFFICE, n, c, ADD).predictions[0] for c in (PureDP(0.99), ApproxDP(0.99, 1e-9)))
        assert with_delta.measure > 0.95 * alone.measure
    assert "--delta" not in "".join(said.lines + said.brief)
    asked = Workload.marginals(coded(*[4] * 9), 2)
    many = auto.foretold(asked, None, PureDP(1.0), ADD).lines[1]
    with_delta = choose(asked, 1_000, ApproxDP(0.99, 1e-9), ADD).predictions[0]
    alone = choose(asked, 1_000, PureDP(0.99), ADD).predictions[0]
    assert f"with --delta 1e-09 and 1,000 records, {with_delta.figures}, instead of {alone.error:.3g}; with 100" in many
    assert "1,000,000" not in many  # it spoke of a million records before a table of 250
    assert "; with 100 records there would be little difference. How many records there are is private here: if" in many
    known = auto.foretold(asked, 5_000, PureDP(1.0), ADD).lines[1]
    assert "and 5,000 records, answers off by" in known
    assert "private" not in known
    assert "--delta" not in "".join(auto.foretold(asked, 100, PureDP(1.0), ADD).lines)


def test_where_the_delta_is_spent_for_sizes_between_others_it_is_said_why():
    cost = ApproxDP(0.03, 1e-9)
    asked = Workload.marginals(coded(*SHAPE), 2)
    lines = auto.foretold(asked, None, cost, ADD).lines
    (said,) = [line for line in lines if line.startswith("the delta gains nothing with")]
    spent = [isinstance(choose(asked, n, ApproxDP(0.0297, 1e-9), ADD).cost, ApproxDP) for n in auto.SIZES]
    assert spent == [True, False, True, False, False]
    assert "and so does which noise is smaller). How many records there are is private here" in said
    (once,) = auto.foretold(OFFICE, None, ApproxDP(1.0, 1e-9), ADD).lines[1:]
    assert "it is used. How many" in once


def test_what_seems_nearer_than_what_is_chosen_says_why_it_is_not():
    """Weighted records are a sample of what `maxent` fits: their figure was smaller, and nothing said why."""
    asked = Workload.marginals(coded(*SHAPE), 3)
    found = choose(asked, 10_000, ApproxDP(0.03, 1e-9), ADD)
    nearer = {p.mechanism: p for p in found.predictions if p.measure and p.measure < found.predictions[0].measure}
    assert (found.mechanism.name, set(nearer)) == ("maxent", {"records"})
    assert "are a sample of the histogram that maxent fits" in nearer["records"].why
    assert str(found).count("not taken") == 1


def test_what_is_passed_over_for_a_table_says_so():
    large = Workload.marginals(coded(10_000, 10_000, 2), 1)
    for n in (1_000, 100_000):
        found = choose(large, n, PureDP(1.0), ADD)
        for p in found.predictions[1:]:
            nearer = p.measure is not None and p.measure < found.predictions[0].measure
            assert ("not taken, since" in p.why) == nearer


def test_over_a_large_histogram_what_is_predicted_to_be_nearer_is_taken():
    asked = Workload.marginals(coded(*[8] * 8, 2), 3)
    assert asked.domain.size > auto.QUICK_CELLS
    taken = []
    for n in (1_000, 100_000):
        found = choose(asked, n, ApproxDP(0.1, 1e-9), ADD)
        expected = {p.mechanism: p.measure for p in found.predictions}
        assert found.mechanism.name == ("records" if 1.02 * expected["records"] < expected["maxent"] else "maxent")
        taken.append(found.mechanism.name)
    assert taken == ["records", "maxent"]


def test_a_count_below_its_noise_is_not_planned_for():
    """What is predicted for one record, where there are a thousand, is far too good."""
    noisy = Measurement(RECORDS, np.array([-362.0]), Noise("discrete Laplace", 600.0))
    assert likely_records(-362.0, noisy) == round(noisy.variance**0.5) == 849
    assert likely_records(5000.4, noisy) == 5000
    assert likely_records(3.0, None) == 3
    assert likely_records(0.0, None) == 1
    for seed in range(4):  # 1 % of the cost counts them, by noise with a deviation of 14,142
        found = released(Auto(), random_table(DOMAIN, 20, 1), PAIRS, PureDP(0.01), seed=seed)
        assert found.measurements[0].group == RECORDS
        assert 100 < found.parameters["error"] < 1000  # of noise with a scale of 290
