"""The curator charges first and draws then; what it hands out is public, says how sure it is, and shows no more."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
from releases import COST, PAIRS, TABLE, released
from worlds import (
    BOTH,
    PEOPLE,
    coded,
    full_matrix,
    mixed,
    random_table,
    table_of,
)

import qrelease as qr
from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.inference.nets import quantiles
from qrelease.inference.update_rules import Projection
from qrelease.mechanisms.base import Answer, parameters
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.small_db.net import Net
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.reader import load

MECHANISMS = [Laplace(), Gaussian(), MWEM(rounds=4), MWEM(rounds=4, choice="query")]


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
        "Curator(Ledger(':memory:', dataset 'memory', add-remove, total epsilon=1, delta=1e-06, spent nothing,"
        " left epsilon=1, delta=1e-06); the records are private)"
    )


# --- answers -----------------------------------------------------------------------------------------------------


def test_answers_to_its_own_workload_and_to_others():
    found = released()
    np.testing.assert_array_equal(found.answers(), found.synopsis.answer(PAIRS))
    np.testing.assert_allclose(found.answer(mixed()), full_matrix(mixed()) @ found.synopsis.values, rtol=1e-9)
    one = found.answer("sex = F and age in 0..39")
    assert float(one) == one.value == pytest.approx(found.synopsis.values.reshape(2, 4, 3)[0, :2].sum())


def test_an_answer_reads_well():
    assert str(Answer(12.34, math.nan, math.nan)) == "12.3 (no error bar: nobody can tell how far off it is)"
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


# --- synthetic records -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [3, np.int64(3)])
def test_the_parameters_of_a_release_can_be_written_down(rounds):
    text = json.dumps(dict(released(MWEM(rounds=rounds)).parameters), allow_nan=False)
    assert json.loads(text)["rounds"] == 3


@pytest.mark.parametrize(("mechanism", "cost"), [(qr.Laplace(), qr.PureDP(1.0)), (qr.Gaussian(), qr.ZCDP(0.1))])
def test_a_condition_that_was_measured_as_a_range_has_the_answer_and_the_bar_of_its_line(mechanism, cost, tmp_path):
    """And one that follows from the measured ranges has theirs together: no marginal is needed for that."""
    table = qr.data.adult(["age", "sex"])
    ranges = qr.Workload.ranges(table.domain, "age")
    with qr.Ledger.open(None, cost) as ledger:
        qr.Curator(table, ledger, qr.Entropy.insecure(1)).release(mechanism, ranges, cost).save(tmp_path / "out", 100)
    release = qr.load(tmp_path / "out")
    lines = release.answers_frame(details=True).set_index("query")
    for text in ("age in 30..39", "age in 30..34", "age in 17..90"):
        found = release.answer(text)
        line = (found.value, found.noisy, found.error, found.model_error)
        assert line == tuple(lines.loc[text, ["answer", "noisy", "error_95", "model_95"]])
    both, one = release.answer("age in 30..39 or age in 50..59"), release.answer("age in 30..39")
    apart = one.value + release.answer("age in 50..59").value
    assert 0 < both.error < 2 * one.error
    assert abs(both.value - apart) < 3 * one.error
    with pytest.raises(qr.InvalidInput, match="does not follow from the queries that were measured") as told:
        release.answer("age in 30..39 and sex = Male")
    assert "no table" not in str(told.value)


def test_a_range_of_columns_whose_bars_are_asked_by_a_workload_has_them():
    table = qr.data.adult(["age", "sex"])
    with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
        release = curator.release(qr.Laplace(), qr.Workload.ranges(table.domain, "age"), qr.PureDP(1.0))
    prefixes = qr.Workload.prefixes(table.domain, "age")
    assert np.isfinite(release.error_bars(prefixes)).all()
    assert (release.answer(prefixes) == release.answers()[: len(prefixes)]).all()  # the first ranges are the prefixes
