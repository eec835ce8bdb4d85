"""SmallDB: which databases, what they promise, what is refused."""

import math

import numpy as np
import pytest
from refusals import ONE, refused
from worlds import BOTH, coded, full_matrix, private, random_table

from qrelease._util.multisets import range_size
from qrelease.data.bundled import adult
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, OutOfMemory, TooLarge
from qrelease.mechanisms.small_db import branch_and_bound, small_db
from qrelease.mechanisms.small_db.databases import Databases
from qrelease.mechanisms.small_db.small_db import ENUMERATED, SmallDB
from qrelease.noise.entropy import Entropy
from qrelease.privacy import PureDP
from qrelease.queries.vc import small_database_error, small_database_size, vc_dimension
from qrelease.queries.workload import Workload

ADD, SWAP = BOTH


# --- what it promises --------------------------------------------------------------------------------------------


def test_the_error_of_smalldb_is_that_of_its_theorem():
    asked, n, beta = Workload.marginals(coded(2, 2, 2), 2), 5000, 0.05
    for size in (1, 4, 9):
        exact = 2 * (math.log(math.comb(8 + size - 1, size)) + math.log(1 / beta)) / n
        found = SmallDB(size=size).error(asked, n, ONE, SWAP, beta=beta)
        assert found == pytest.approx(small_database_error(size, 12) + exact)
    # Proposition 4.4 as printed, with |X|^m for the range and √(ln|Q|/m) for α.
    alpha = 0.3
    m = math.ceil(math.log(12) / alpha**2)
    printed = alpha + 2 * (m * math.log(8) + math.log(1 / beta)) / n
    assert SmallDB(alpha=alpha).error(asked, n, ONE, SWAP, beta=beta) <= printed
    # Theorem 4.5 as printed.
    best = ((16 * math.log(8) * math.log(12) + 4 * math.log(1 / beta)) / n) ** (1 / 3)
    assert SmallDB().error(asked, n, ONE, SWAP, beta=beta) <= best


def test_the_size_that_a_noisy_count_gives_was_promised_for():
    asked, cost, n, beta = Workload.marginals(coded(2, 2, 2), 1), PureDP(0.5), 200, 0.1
    promised = SmallDB().possible_sizes(asked, n, cost, ADD, beta)
    table = random_table(coded(2, 2, 2), n, 0)
    drawn = []
    for seed in range(60):
        door = private(table, cost, ADD, Entropy.insecure(seed))
        drawn.append(SmallDB().release(door, asked, cost).choices["size"])
    assert len(set(drawn)) > 1
    assert np.mean([size in promised for size in drawn]) > 0.9


# --- which databases ---------------------------------------------------------------------------------------------


def test_the_size_follows_from_alpha_and_the_dimension():
    asked = Workload.prefixes(coded(40), "a")
    assert SmallDB(alpha=0.3).fixed_size(asked) == small_database_size(0.3, 40)
    assert SmallDB(alpha=0.3, dimension=vc_dimension(asked)).fixed_size(asked) == small_database_size(0.3, 40, 1)
    assert SmallDB(size=5).fixed_size(asked) == 5
    halves = Workload.vectors(coded(3), [[0, 0.5, 1]])
    for use in (SmallDB.check, lambda m, w, c, r: m.error(w, 100, c, r, beta=0.1)):
        with pytest.raises(InvalidInput, match="VC dimension is that of counting queries"):
            use(SmallDB(alpha=0.5, dimension=1), halves, ONE, ADD)


def test_the_default_size_grows_with_the_records():
    asked = Workload.marginals(coded(2, 2, 2), 1)
    table = random_table(coded(2, 2, 2), 100, 0)
    sizes = []
    for n in (30, 300, 3000):
        door = private(Table(table.domain, tuple(np.resize(c, n) for c in table.columns)), ONE, SWAP)
        sizes.append(SmallDB().release(door, asked, ONE).choices["size"])
    assert 1 <= sizes[0] < sizes[1] < sizes[2]


def test_a_range_of_more_than_a_million_million_databases_is_drawn_from():
    """Columns of Adult: 14 records over 64 cells, of which there are 8 · 10^14."""
    table = adult(["marital-status", "sex", "income"])
    table = Table(coded(2, 2, 2, 2, 2, 2), np.unravel_index(np.resize(np.flatnonzero(table.histogram()), 900), [2] * 6))
    asked = Workload.marginals(table.domain, 2)
    mechanism = SmallDB(size=14)
    assert range_size(64, 14) > 10**12 > ENUMERATED
    mechanism.check(asked, ONE, ADD)
    draft = mechanism.release(private(table, ONE, ADD), asked, ONE)
    truth = full_matrix(asked) @ table.histogram()
    off = np.abs(draft.synopsis.answer(asked) - truth).max() / 900
    assert off < 0.25
    assert off <= mechanism.error(asked, 900, ONE, ADD, beta=0.05)


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "why"),
    [
        *[({"size": v}, "size must be") for v in (0, -1, 2.5, True, "3", math.nan)],
        *[({"alpha": v}, "alpha must be") for v in (0, 1, -0.1, math.nan, True, "0.5")],
        *[({"alpha": 0.3, "dimension": v}, "dimension must be") for v in (-1, 2.5, True)],
        ({"size": 3, "alpha": 0.3}, "a size or an alpha"),
        ({"dimension": 2}, "a dimension needs an alpha"),
        ({"size": 3, "dimension": 2}, "a dimension needs an alpha"),
    ],
)
def test_bad_parameters(given, why):
    with pytest.raises(InvalidInput, match=why):
        SmallDB(**given)


def test_ranges_that_cannot_be_searched_are_refused(free_memory):
    table = random_table(coded(*[2] * 6), 50, 0)
    asked = Workload.marginals(table.domain, 2)
    beyond = r"at most 2\^62 are, of up to 19 records; \d+ records would do, or use mwem"
    refused(SmallDB(size=20), table, asked, TooLarge, f"{beyond}$")
    refused(SmallDB(alpha=0.01), table, asked, TooLarge, beyond + r" \(alpha=0\.\d+ takes no more\)$")
    wide = random_table(coded(*[2] * 20), 50, 0)
    refused(SmallDB(), wide, Workload.marginals(wide.domain, 1), TooLarge, "it evaluates every query in every cell")
    free_memory(1 << 28)
    refused(SmallDB(), table, asked, OutOfMemory, "a list or a search of small databases: about")
    SmallDB(size=2).check(asked, ONE, ADD)


def test_a_refusal_names_a_size_that_was_simulated_and_takes_little_time_to_find_it(monkeypatch):
    table, tried = random_table(coded(*[2] * 6), 50, 0), []
    asked = Workload.marginals(table.domain, 2)

    def soon(databases, bounds, gamma, work):
        tried.append((databases.records, work))
        return branch_and_bound.ends_soon(databases, bounds, gamma, work)

    monkeypatch.setattr(small_db, "ends_soon", soon)
    most = 3 << 26  # which no other test asks about
    monkeypatch.setattr(small_db, "MAX_WORK", most)
    refused(SmallDB(size=19), table, asked, TooLarge, r"might never end: .* tables; 11 records would do, or use mwem$")
    assert dict(tried) == {19: most, 18: most // 2, 11: most // 2}
    tried.clear()
    SmallDB(size=11).check(asked, ONE, ADD)
    assert set(tried) == {(11, most)}


def test_the_tree_of_a_workload_is_built_once_for_all_sizes():
    asked = Workload.marginals(coded(4, 4, 2), 2)
    for size in (1, 3, 6):
        found, alone = (
            small_db.searched_range(asked, size).databases,
            Databases.over(full_matrix(asked).astype(np.int64), size),
        )
        assert found.order is small_db.smallest_range(asked).databases.order
        assert len(found) == len(alone)
        assert all(found.cells(i).tolist() == alone.cells(i).tolist() for i in range(0, len(alone), 997))
