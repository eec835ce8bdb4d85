"""Blocks come back from exact cross-tables, with a certificate, and not from noisy ones."""

from itertools import combinations

import numpy as np
import pytest

import qrelease as qr
from qrelease.data import adult
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.attacks import census
from qrelease.noise.entropy import Entropy

POPULATION = adult(["age", "race", "sex", "marital-status"])
PAIRS, TRIPLES = ([*combinations(range(4), k)] for k in (2, 3))
PRIOR = POPULATION.histogram() / len(POPULATION)


def block_of(people, seed=1):
    chosen = np.random.default_rng(seed).choice(len(POPULATION), people, replace=False)
    return Table(POPULATION.domain, tuple(column[chosen] for column in POPULATION.columns))


def attacked(block, sets, rule, name="rule"):
    found = census.fit_block(census.publish(block, sets, rule), len(block), prior=PRIOR)
    return census.beside_truth(name, block, found, POPULATION)


@pytest.mark.parametrize(("people", "sets"), [(15, PAIRS), (30, TRIPLES), (60, TRIPLES)])
def test_exact_cross_tables_give_the_whole_block_away(people, sets):
    found = attacked(block_of(people), sets, census.exact)
    assert found.recovered == found.certain == people
    assert found.guessed < 0.7 * people


@pytest.mark.parametrize("rule", [census.rounded(5), census.suppressed(5)])
def test_what_is_certain_is_right(rule):
    found = attacked(block_of(40), TRIPLES, rule)
    assert 0 < found.certain <= found.recovered <= 40


def test_hiding_small_counts_hides_little():
    found = attacked(block_of(40), TRIPLES, census.suppressed(5))
    assert found.recovered >= 1.4 * found.guessed


def test_rounding_to_ten_leaves_more_open_than_rounding_to_two():
    found = attacked(block_of(40), TRIPLES, census.rounded(10))
    assert found.certain <= found.recovered
    assert attacked(block_of(40), TRIPLES, census.rounded(2)).recovered > found.recovered


def test_sticky_noise_is_read_where_it_is_less_than_a_person():
    block = block_of(40)
    found = [
        census.beside_truth("sticky", block, census.fit_block(tables, 40, prior=PRIOR), POPULATION)
        for tables in (census.sticky(block, TRIPLES, sd, np.random.default_rng(0)) for sd in (0.3, 20.0))
    ]
    assert found[0].recovered > 1.4 * found[0].guessed
    assert found[1].recovered < found[0].recovered
    assert found[0].certain == found[1].certain == 0


def test_who_was_not_exchanged_is_found_and_nothing_is_certain():
    block = block_of(40)
    tables = census.swapped(block, TRIPLES, POPULATION, 0.1, np.random.default_rng(0))
    found = census.beside_truth("swapped", block, census.fit_block(tables, 40, prior=PRIOR), POPULATION)
    assert 36 <= found.recovered <= 40
    assert found.certain == 0
    half = census.swapped(block, TRIPLES, POPULATION, 0.5, np.random.default_rng(0))
    assert (
        census.beside_truth("half", block, census.fit_block(half, 40, prior=PRIOR), POPULATION).recovered
        < found.recovered
    )


@pytest.mark.parametrize("mechanism", [qr.Laplace(), pytest.param(qr.MaxEnt(), marks=pytest.mark.slow)])
def test_a_release_of_the_tables_gives_no_more_than_the_population(mechanism):
    block = block_of(40)
    tables = census.released(block, PAIRS, mechanism, qr.PureDP(1.0), Entropy.insecure(0))
    found = census.beside_truth("laplace", block, census.fit_block(tables, len(block), prior=PRIOR), POPULATION)
    assert found.certain == 0
    assert found.recovered <= 1.1 * found.guessed


def test_a_release_that_spends_far_too_much_gives_the_block_away():
    block = block_of(30)
    tables = census.released(block, TRIPLES, qr.Laplace(), qr.PureDP(300.0), Entropy.insecure(0))
    found = census.beside_truth("laplace", block, census.fit_block(tables, len(block), prior=PRIOR), POPULATION)
    assert found.recovered >= 28


def test_two_tables_that_fit_leave_nothing_certain():
    """Two records with equal margins: (0, 0) and (1, 1), or (0, 1) and (1, 0)."""
    domain = Domain.coded({"a": 2, "b": 2})
    block = Table(domain, (np.array([0, 1], np.uint8), np.array([0, 1], np.uint8)))
    assert census.fit_block(census.publish(block, [(0,), (1,)]), 2).certain == 0
    assert census.fit_block(census.publish(block, [(0, 1)]), 2).certain == 2


def test_mistakes_are_told():
    large = Domain.coded({"a": 300, "b": 300})
    block = Table(large, (np.array([0], np.uint16), np.array([0], np.uint16)))
    with pytest.raises(TooLarge, match="90,000 cells is too large; at most 16,384 do"):
        census.fit_block(census.publish(block, [(0,)]), 1)
    tables = census.publish(block_of(5), PAIRS)
    with pytest.raises(InvalidInput, match="records"):
        census.fit_block(tables, 0)
