"""Net: the choice among the synopses of a net, what it promises, what it refuses."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from refusals import ONE, refused
from worlds import BOTH, PEOPLE, coded, full_matrix, mixed, private, random_table

from qrelease.errors import InvalidInput, OutOfMemory, TooLarge
from qrelease.inference import nets
from qrelease.inference.net_radius import radius
from qrelease.inference.nets import ProductNet, quantiles, small_databases
from qrelease.mechanisms.small_db import exponential_choice
from qrelease.mechanisms.small_db.net import Net
from qrelease.queries.workload import Workload

ADD, SWAP = BOTH
TINY = coded(2, 2)
TABLE = random_table(PEOPLE, 200, 0)


# --- what it promises --------------------------------------------------------------------------------------------

TWO_WAY = Workload.marginals(TINY, 2)


def test_the_alpha_of_a_net_is_given_or_found():
    net, n = Net(small_databases(TINY, 3)), 1000
    found = net.error(TWO_WAY, n, ONE, SWAP, beta=0.1)
    given = replace(net, radius=0.25).error(TWO_WAY, n, ONE, SWAP, beta=0.1)  # it is 1/4
    assert radius(net.net, TWO_WAY, alpha=0.2501).certifies(0.2501)
    assert 0 <= found - given < 0.1
    assert given == pytest.approx(0.25 + (2 * math.log(20 / 0.1) + 2**-8) / n)
    # A synopsis within 1/4 may answer with 5/4 of the records: then a count that is off by m moves it by 5m/4.
    noisy = replace(net, radius=0.25).error(TWO_WAY, n, ONE, ADD, beta=0.1)
    chosen = exponential_choice.excess(20, ONE, ADD, 0.05) + 2**-8
    assert noisy == pytest.approx(0.25 + (1.25 * exponential_choice.count_error(ONE, ADD, 0.1) + chosen) / n)


def test_a_product_asked_net_by_net_promises_what_its_nets_do():
    domain = coded(4, 4)
    net = ProductNet(domain, tuple(small_databases(domain.project((i,)), 3) for i in (0, 1)))
    given = Net(net, 1 / 3 + 1e-3).error(Workload.marginals(domain, 1), 10_000, ONE, SWAP, beta=0.1)
    assert Net(net).error(Workload.marginals(domain, 1), 10_000, ONE, SWAP, beta=0.1) <= given


# --- which databases ---------------------------------------------------------------------------------------------


def test_a_quantile_net_answers_ranges():
    domain = coded(8)
    table = random_table(domain, 2000, 1)
    asked = Workload.ranges(domain, "a")
    draft = Net(quantiles(domain, 0.25)).release(private(table, ONE, SWAP), asked, ONE)
    assert np.abs(draft.synopsis.answer(asked) - full_matrix(asked) @ table.histogram()).max() <= 0.27 * 2000


# --- what is refused ---------------------------------------------------------------------------------------------


class Wrong:
    """A net that answers with something else than it should."""

    domain = PEOPLE
    synopsis = to_json = NotImplemented

    def __init__(self, blocks, size=2):
        self._blocks, self._size = blocks, size

    def __len__(self):
        return self._size

    def fractions(self, workload):
        return iter(self._blocks)


def test_nets_that_do_not_answer_are_refused(free_memory):
    k, half = len(mixed()), partial(np.full, fill_value=0.5)
    refused(Net(Wrong([half((2, k - 1))])), TABLE, mixed(), InvalidInput, f"must answer {k} queries with finite")
    refused(Net(Wrong([half((1, k)), np.full((1, k), np.nan)])), TABLE, mixed(), InvalidInput, "finite numbers")
    refused(Net(Wrong([half((1, k))])), TABLE, mixed(), InvalidInput, "has 2 synopses, but 1 answered")
    refused(Net(small_databases(TINY, 2)), TABLE, mixed(), InvalidInput, "over another domain than the workload")
    with pytest.raises(InvalidInput, match="over another domain than the workload"):
        Net(small_databases(TINY, 2), 0.5).error(mixed(), 100, ONE, SWAP, beta=0.1)
    for wrong in (None, [1, 2], small_databases):
        with pytest.raises(InvalidInput, match="synopses must be as qrelease"):
            Net(wrong)
    with pytest.raises(InvalidInput, match="at least one synopsis"):
        Net(Wrong([], 0))
    with pytest.raises(TooLarge, match="a net of 4,194,305 synopses"):
        Net(Wrong([], nets.MAX_SYNOPSES + 1))
    free_memory(1 << 20)
    with pytest.raises(OutOfMemory, match="a choice among 17,550 synopses: about"):
        Net(small_databases(PEOPLE, 4)).check(mixed(), ONE, ADD)
    free_memory(1 << 40)
    many = Workload.vectors(PEOPLE, np.random.default_rng(0).random((1025, PEOPLE.size)))
    refused(Net(Wrong([], nets.MAX_SYNOPSES)), TABLE, many, TooLarge, "thin the net, or ask less")
