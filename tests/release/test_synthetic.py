"""Synthetic records of a release: as many as asked, fitting what was released, and the same again."""

import math

import numpy as np
import pytest
from releases import COST, PAIRS, released
from worlds import (
    PEOPLE,
    coded,
    random_table,
    records_of,
    table_of,
    true_answers,
)

from qrelease.errors import InvalidInput, OutOfMemory, TooLarge
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.privacy import ApproxDP, Neighbours, PureDP
from qrelease.queries.workload import Workload
from qrelease.release.synthetic import FEW_ROWS


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
def test_a_number_of_records_that_drowns_in_its_noise_makes_no_giant_table(mechanism):
    """At a tiny epsilon the noisy number of records may be billions."""
    sizes = {len(released(mechanism, cost=PureDP(1e-6), seed=seed).synthetic()["sex"]) for seed in range(6)}
    assert max(sizes) == FEW_ROWS
    assert len(released(mechanism, cost=PureDP(1e6)).synthetic()["sex"]) == 200
    public = released(mechanism, cost=PureDP(1e-6), relation=Neighbours.REPLACE_ONE)
    assert len(public.synthetic()["sex"]) == 200


def test_rows_that_do_not_fit_in_memory_are_refused(free_memory):
    found = released()
    free_memory(1 << 28)
    with pytest.raises(OutOfMemory, match=r"60,000,000 synthetic records: about .* are needed"):
        found.synthetic(60_000_000)
