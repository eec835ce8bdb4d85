"""The worked example of a mechanism of one's own, as CONTRIBUTING prints it."""

import contextlib
import importlib.util
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from worlds import BOTH, coded, private, random_table, table_of

import qrelease as qr
from qrelease.evaluation.audit import audit
from qrelease.inference.histogram import Histogram

ROOT = Path(__file__).parent.parent


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


own, own_bars = example("own_mechanism"), example("own_bars")

DOMAIN = coded(2, 2, 3)
WORKLOAD = qr.Workload.marginals(DOMAIN, 2)


def test_contributing_prints_the_example():
    shown, text = (ROOT / "examples" / "own_mechanism.py").read_text(), (ROOT / "CONTRIBUTING.md").read_text()
    begin, end = shown.index("@dataclass(frozen=True)"), shown.index("def main()")
    assert shown[begin:end].rstrip() in text


@pytest.mark.parametrize("neighbours", BOTH)
def test_the_mechanism_in_rounds_that_contributing_prints_runs_a_rule_without_a_bound(neighbours, capsys):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    begin = text.index("## Adding an update rule")
    blocks = [block.split("```")[0] for block in text[begin:].split("```python\n")[1:3]]
    shown: dict = {"__name__": "contributing"}
    exec("\n".join(blocks), shown)
    assert " mine " in capsys.readouterr().out

    class Unbounded:
        """Of the printed rule what has no bound."""

        start, update = shown["ProjectedPerceptron"](0.1).start, shown["ProjectedPerceptron"](0.1).update

    cost, door = qr.PureDP(1.0), private(random_table(DOMAIN, 200, 0), qr.PureDP(1.0), neighbours)
    mechanism = shown["InRounds"](Unbounded(), rounds=3)
    mechanism.check(WORKLOAD, cost, neighbours)
    made = mechanism.release(door, WORKLOAD, cost)
    assert len(made.synopsis.answer(WORKLOAD)) == len(WORKLOAD)
    assert made.synopsis.answer(WORKLOAD).sum() == pytest.approx(3 * made.synopsis.total)
    with pytest.raises(qr.InvalidInput, match="in-rounds spends epsilon alone"):
        mechanism.check(WORKLOAD, qr.ZCDP(0.1), neighbours)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("records", [0, 1, 200])
def test_it_releases_what_it_may_and_comes_back(neighbours, records, tmp_path):
    table = random_table(DOMAIN, records, 0) if records else table_of(DOMAIN, np.zeros((0, 3), np.uint8))
    cost = qr.PureDP(1.0)
    with qr.Ledger.open(None, cost, neighbours=neighbours) as ledger:
        made = qr.Curator(table, ledger, qr.Entropy.insecure(0)).release(own.Pairs(2), WORKLOAD, cost)
    assert len(made.parameters["selected"]) == 2
    assert sum(s.cost.epsilon for s in made.spends) == pytest.approx(1.0)
    made.save(tmp_path / "out")
    np.testing.assert_allclose(qr.load(tmp_path / "out").answers(), made.answers(), rtol=1e-9, atol=1e-9)


class HalfTheSensitivity(own.Pairs):
    """The broken twin: it tells `select` that a record moves a score by half as much as it does."""

    def farthest(self, private, columns, cost):
        select = private.select

        class Door:
            domain, exact = private.domain, private.exact

            def select(self, scores, sensitivity, cost, rule):
                return select(scores, sensitivity // 2, cost, rule)

        return super().farthest(Door(), columns, cost)


@pytest.mark.parametrize(("mechanism", "convicted"), [(own.Pairs(1), False), (HalfTheSensitivity(1), True)])
def test_an_audit_acquits_its_selection_and_convicts_a_twin_with_half_the_sensitivity(mechanism, convicted):
    """Of which pair is selected, given the columns: one record that is replaced moves two scores, one up, one down."""
    cost, domain = qr.PureDP(1.0), coded(2, 2, 2)
    # a and b are less alike than b and c, so that to select them is rare: how rare is turned around by one record.
    rows = [[0, 0, 0], [1, 1, 1]] * 3 + [[1, 0, 0], [0, 1, 1]]
    pair = [table_of(domain, [*rows, last]) for last in ([0, 0, 1], [1, 0, 0])]
    known = [type("Known", (), {"values": np.array([4.5, 4.5])})()] * 3

    def run(table, entropy):
        return [
            float(sum(mechanism.farthest(private(table, cost, qr.Neighbours.REPLACE_ONE, entropy), known, cost)[0]))
        ]

    found = audit(run, *pair, cost, samples=4_000, entropy=qr.Entropy.insecure(3))
    assert found.convicted == convicted


def test_the_audits_that_contributing_prints_run(capsys):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = [block for block in blocks("CONTRIBUTING.md", "```python\n") if "qr.audit" in block]
    assert len(shown) == 2
    for block in shown:
        exec(block, {})
    assert capsys.readouterr().out.startswith("acquitted")
    assert "benchmarks.audits" in text


def test_what_annotations_of_public_classes_name_is_public():
    """An author writes these down in her own signatures."""
    for kind, member in ((qr.Measurement, "group"), (qr.Measurement, "noise"), (qr.MechanismResult, "synopsis")):
        assert kind.__annotations__[member] in qr.__all__
    assert qr.Workload.__annotations__["groups"] == f"tuple[{qr.Group.__name__}, ...]"


def test_the_bars_of_a_synopsis_of_ones_own_are_those_of_its_release():
    """And hold 19 times out of 20, which bars that are 30 % narrower do not."""
    domain, cost = qr.Domain.coded({"age": 16}), qr.ZCDP(0.01)
    table, workload = random_table(domain, 500, 0), qr.Workload.ranges(domain, "age")
    truth = np.concatenate([g.queries.apply(table.counts([g.axes])[0]) for g in workload.groups])
    inside, narrower = [], []
    for seed in range(150):
        with qr.Ledger.open(None, cost) as ledger:
            release = qr.Curator(table, ledger, qr.Entropy.insecure(seed)).release(own_bars.Doubling(), workload, cost)
        noisy, widths = release.error_bars()
        inside.append(np.mean(np.abs(noisy - truth) <= widths))
        narrower.append(np.mean(np.abs(noisy - truth) <= 0.7 * widths))
    assert 0.92 < np.mean(inside) < 0.975
    assert np.mean(narrower) < 0.88
    condition = release.answer("age in {1, 2, 7}")
    assert condition.error > 0
    assert condition.model_error <= condition.error


def test_a_synopsis_that_could_not_be_read_again_is_not_saved(tmp_path):
    domain, cost = qr.Domain.coded({"age": 16}), qr.ZCDP(0.01)
    workload = qr.Workload.ranges(domain, "age")
    with qr.Ledger.open(None, cost) as ledger:
        curator = qr.Curator(random_table(domain, 500, 0), ledger, qr.Entropy.insecure(0))
        release = curator.release(own_bars.Doubling(), workload, cost)
    with pytest.raises(qr.InvalidInput, match=r"Estimated cannot be saved.*no synopsis of type 'estimated cells'"):
        release.save(tmp_path / "out")
    assert not list(tmp_path.iterdir())
    synthesizer = qr.Synthesizer(
        mechanism=own_bars.Doubling(),
        workload=workload,
        rho=0.01,
        schema=domain,
        ledger=qr.Ledger.open(None, cost),
        folder=tmp_path / "out",
    )
    with pytest.raises(qr.InvalidInput, match="Estimated cannot be saved"):
        synthesizer.fit(random_table(domain, 500, 0))
    assert synthesizer.release_.answer("age in {1, 2, 7}").error > 0  # it was paid for

    class NoJson(own_bars.Estimated):
        """Its description is no JSON."""

        def to_json(self):
            return {"type": "histogram", "cells": self.cells}

    made = release.synopsis
    with pytest.raises(qr.InvalidInput, match=r"NoJson cannot be saved.*what its to_json gives is no JSON"):
        replace(release, synopsis=NoJson(made.domain, made.cells, made.covariance)).save(tmp_path / "out")

    class Described(own_bars.Estimated):
        """It describes records that stand for it."""

        to_json = qr.WeightedRecords.equal(domain, np.arange(16), 500.0).to_json

    told = replace(release, synopsis=Described(made.domain, made.cells, made.covariance))
    told.save(tmp_path / "out")
    assert isinstance(qr.load(tmp_path / "out").synopsis, qr.WeightedRecords)


def test_a_histogram_names_the_marginal_that_it_does_not_keep():
    with pytest.raises(qr.InvalidInput, match="this histogram keeps no marginal of a: name it when it is made"):
        Histogram(DOMAIN, [(0, 1)], 10.0).slice((0,))


def test_what_contributing_builds_on_are_public_names_alone():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert len(blocks) >= 5
    for block in blocks:
        assert not [line for line in block.splitlines() if "from qrelease" in line or "import qrelease." in line]
        assert set(re.findall(r"\bqr\.(\w+)", block)) <= {*dir(qr)}


def blocks(file, mark):
    return [block.split("```")[0] for block in (ROOT / file).read_text(encoding="utf-8").split(mark)[1:]]


def test_what_the_pages_print_for_ones_own_parts_imports_public_names_alone():
    shown = blocks("docs/how-to/extending.md", "```{code-cell} ipython3\n") + blocks("CONTRIBUTING.md", "```python\n")
    assert len(shown) > 5
    assert not [line for block in shown for line in re.findall(r".*\bqrelease\..*", block)]


def test_the_parts_of_the_page_run(capsys, tmp_path):
    shown: dict = {"__name__": "extending"}
    with contextlib.chdir(tmp_path):
        exec("\n".join(blocks("docs/how-to/extending.md", "```{code-cell} ipython3\n")), shown)
    printed = capsys.readouterr().out
    assert "worst error 0." in printed
    assert "people.txt line 3: column 'sex': value 'F1' is not one of the 2 categories" in printed
    source, places, whole = shown["FixedPlaces"], {"sex": (0, 1), "age": (1, 4)}, qr.Domain(shown["columns"])
    with_commas = tmp_path / "people.csv"
    with_commas.write_text("sex,age\n" + "F,31\nM,47\nF,104\nM,8\n" * 250, "utf-8")
    fixed = source(tmp_path / "people.txt", places)
    found, same = qr.Table.of_reader(fixed, whole), qr.Table.read(with_commas, whole)
    assert [c.tolist() for c in found.columns] == [c.tolist() for c in same.columns]
    held = qr.Domain(whole.attributes[:1], person=qr.Person("age", 3))  # as if the age told them apart
    assert len(qr.Table.of_reader(fixed, held)) == len(qr.Table.read(with_commas, held))
    found = shown["Furthest"]()
    door = private(random_table(DOMAIN, 200, 0), qr.PureDP(1.0))
    state = qr.WeightedRecords.equal(DOMAIN, np.arange(12), 200.0)
    chosen = found.distinguish(door, state, WORKLOAD, qr.PureDP(0.5), qr.PureDP(0.5))
    assert chosen.groups[0] in WORKLOAD.groups
    assert found.shortfall(WORKLOAD, qr.ZCDP(0.1), qr.Neighbours.ADD_REMOVE, 0.05) == np.inf


@dataclass(frozen=True)
class Returning:
    """A mechanism that spends and returns what it was made with."""

    what: object = None
    name = "returning"

    def check(self, workload, cost, neighbours):
        """Nothing is refused."""

    def release(self, private, workload, cost):
        measured = private.measure(workload, cost)
        made = qr.MechanismResult(qr.fitted(workload, measured, private.public_records), tuple(measured))
        return made if self.what == "right" else WRONG[self.what](made)


WRONG = {
    "nothing": lambda made: None,
    "the synopsis": lambda made: made.synopsis,
    "no synopsis": lambda made: replace(made, synopsis=np.zeros(3)),
    "other measurements": lambda made: replace(made, measurements=made.synopsis),
    "no choices": lambda made: replace(made, choices=[("chosen", 3)]),
}


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("nothing", r"returning returned nothing: its release must return MechanismResult\(synopsis, measurements"),
        ("the synopsis", "returning returned an object of type .*: its release must return MechanismResult"),
        ("no synopsis", "an object of type ndarray as the synopsis, which has no domain and no total and no has_table"),
        ("other measurements", "measurements that are no list of Measurement"),
        ("no choices", "an object of type list as the choices, which are a mapping"),
    ],
)
def test_a_mechanism_that_returns_what_no_release_can_be_made_of_is_told_so(what, told):
    table, cost = random_table(DOMAIN, 200, 0), qr.PureDP(1.0)
    with (
        qr.Ledger.open(None, cost) as ledger,
        pytest.raises(qr.InvalidInput, match=rf"{told}.*; epsilon=1 was charged$"),
    ):
        qr.Curator(table, ledger, qr.Entropy.insecure(0)).release(Returning(what), WORKLOAD, cost)
    with pytest.raises(qr.InvalidInput, match=told):
        qr.audit_mechanism(Returning(what), cost, qr.Neighbours.ADD_REMOVE, samples=1_000)
    with qr.Ledger.open(None, cost) as ledger:
        made = qr.Curator(table, ledger, qr.Entropy.insecure(0)).release(Returning("right"), WORKLOAD, cost)
    assert made.mechanism == "returning"


def test_an_error_in_a_mechanism_s_own_code_says_that_and_where_it_was_charged(tmp_path):
    """In a note, which Python prints below the traceback."""

    @dataclass(frozen=True)
    class Wrong(Returning):
        def release(self, private, workload, cost):
            return super().release(private, workload, cost).no_such_part

    table, cost = random_table(DOMAIN, 200, 0), qr.PureDP(1.0)
    with qr.Ledger.open(tmp_path / "people.ledger", cost) as ledger:
        with pytest.raises(AttributeError, match="no_such_part") as raised:
            qr.Curator(table, ledger).release(Wrong("right"), WORKLOAD, cost)
        assert ledger.spent == cost
    assert raised.value.__notes__ == [
        f"qrelease: epsilon=1 was charged to {tmp_path / 'people.ledger'}: it stays spent"
    ]


def test_so_does_an_error_of_arithmetic():
    @dataclass(frozen=True)
    class Dividing(Returning):
        def release(self, private, workload, cost):
            return 1 // 0

    cost = qr.PureDP(1.0)
    with qr.Ledger.open(None, cost) as ledger, pytest.raises(ZeroDivisionError) as raised:
        qr.Curator(random_table(DOMAIN, 200, 0), ledger).release(Dividing(), WORKLOAD, cost)
    assert raised.value.__notes__ == ["qrelease: epsilon=1 was charged to the ledger in memory: it stays spent"]


def test_a_mechanism_may_return_the_list_that_measure_gives():
    @dataclass(frozen=True)
    class Listing(Returning):
        def release(self, private, workload, cost):
            measured = private.measure(workload, cost)
            return qr.MechanismResult(qr.fitted(workload, measured, private.public_records), measured)

    cost = qr.PureDP(1.0)
    with qr.Ledger.open(None, cost) as ledger:
        made = qr.Curator(random_table(DOMAIN, 200, 0), ledger, qr.Entropy.insecure(0)).release(
            Listing(), WORKLOAD, cost
        )
    assert len(made.measurements) == len(WORKLOAD.groups)


def test_a_mechanism_that_draws_for_more_than_its_cost_is_told_to_divide_it():
    @dataclass(frozen=True)
    class Twice(Returning):
        def release(self, private, workload, cost):
            private.measure(workload, cost)
            return super().release(private, workload, cost)

    cost = qr.PureDP(1.0)
    with qr.Ledger.open(None, qr.PureDP(5.0)) as ledger:
        told = r"requested epsilon=1 \(more was asked for than the cost.*qr\.split divides.*\); epsilon=1 was charged$"
        with pytest.raises(qr.BudgetExceeded, match=told) as refused:
            qr.Curator(random_table(DOMAIN, 200, 0), ledger, qr.Entropy.insecure(0)).release(Twice(), WORKLOAD, cost)
        assert ledger.spent == cost
    assert "raise" not in str(refused.value)


def test_a_mechanism_that_is_no_dataclass_or_takes_other_arguments_is_refused_before_the_charge():
    class Plain:
        name = "plain"
        check, release = Returning.check, Returning.release

    @dataclass(frozen=True)
    class Fewer(Returning):
        def release(self, private, workload):
            """It forgot the cost."""

    table, cost = random_table(DOMAIN, 200, 0), qr.PureDP(1.0)
    with qr.Ledger.open(None, cost) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(0))
        with pytest.raises(
            qr.InvalidInput,
            match=r"Plain must be a dataclass of its public parameters: write @dataclass\(frozen=True\) above",
        ):
            curator.release(Plain(), WORKLOAD, cost)
        with pytest.raises(qr.InvalidInput, match=r"Fewer.release must take \(private, workload, cost\)"):
            curator.release(Fewer(), WORKLOAD, cost)
        assert ledger.spent is None


@dataclass(frozen=True)
class Misplacing(Returning):
    """A mechanism that returns the measurements that its synopsis was fitted to as it was told."""

    def release(self, private, workload, cost):
        counting, rest = qr.split(cost, [0.1, 0.9])
        counted = [m for m in [private.count(counting)[1]] if m is not None]
        measured = private.measure(workload, rest)
        returned = {
            "forgotten": (),
            "some": (*counted, *measured[:-1]),
            "first": (*measured, *counted),
            "last": (*counted, *measured),
            "last in another order": (*counted, *measured[::-1]),
        }
        return qr.MechanismResult(qr.fitted(workload, measured), returned[self.what])


@pytest.mark.parametrize("what", ["forgotten", "some", "first"])
def test_measurements_that_a_saved_release_would_lack_are_refused_and_kept(what):
    table, cost = random_table(DOMAIN, 200, 0), qr.PureDP(1.0)
    with qr.Ledger.open(None, cost) as ledger:
        told = r"fitted made of 3 measurements, and these are not the last.*return MechanismResult\(.*was charged$"
        with pytest.raises(qr.UnusableResult, match=told) as refused:
            qr.Curator(table, ledger, qr.Entropy.insecure(0)).release(Misplacing(what), WORKLOAD, cost)
        assert ledger.spent == cost
    kept = refused.value.returned.synopsis.made_of
    assert [m.group for m in kept] == list(WORKLOAD.groups)
    np.testing.assert_allclose(
        qr.fitted(WORKLOAD, kept).answer(WORKLOAD), refused.value.returned.synopsis.answer(WORKLOAD)
    )


@pytest.mark.parametrize("what", ["last", "last in another order"])
def test_measurements_that_were_fitted_may_come_last_in_any_order(what, tmp_path):
    cost = qr.PureDP(1.0)
    with qr.Ledger.open(None, cost) as ledger:
        curator = qr.Curator(random_table(DOMAIN, 200, 0), ledger, qr.Entropy.insecure(0))
        made = curator.release(Misplacing(what), WORKLOAD, cost)
    made.save(tmp_path / "out")
    np.testing.assert_allclose(qr.load(tmp_path / "out").answers(), made.answers(), rtol=1e-9, atol=1e-9)
