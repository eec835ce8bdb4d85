"""Which server a client of one question has: its own, in the same terms, and none for anything else."""

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.local import (
    Coin,
    Hadamard,
    Hybrid,
    KAry,
    LocalHashing,
    LocalLaplace,
    Marginals,
    OneOf,
    OptimisedUnary,
    Piecewise,
    SquareWave,
    Text,
    Unary,
)
from qrelease.local.question_servers import serve_question
from qrelease.noise.entropy import Entropy

CATEGORIES = [kind(3.0, 6) for kind in (KAry, Unary, OptimisedUnary, LocalHashing, Hadamard)]
NUMBERS = [*(kind(3.0, 0, 10) for kind in (Coin, Piecewise, SquareWave, Hybrid)), LocalLaplace(3.0, 0, 10)]


@pytest.mark.parametrize("client", CATEGORIES, ids=lambda c: c.name)
def test_the_server_of_a_category_finds_its_share(client):
    entropy, server = Entropy.insecure(2), serve_question(client)
    assert server.client is client
    found = server.estimate(server.gather([client.report(4, entropy) for _ in range(800)]))
    assert np.abs(np.asarray(found.value) - np.eye(6)[4]).max() < 0.25


@pytest.mark.parametrize("client", NUMBERS, ids=lambda c: c.name)
def test_the_server_of_a_number_finds_its_mean(client):
    entropy, server = Entropy.insecure(2), serve_question(client)
    found = server.estimate(server.gather([client.report(7.5, entropy) for _ in range(800)]))
    assert found.value == pytest.approx(7.5, abs=1.0)


def test_every_client_of_one_question_has_a_server_of_its_own():
    clients = [*CATEGORIES, *NUMBERS, Text(1.0, "ab", 3)]
    assert len({type(serve_question(client)) for client in clients}) == len(clients)


def test_other_clients_and_what_is_none_are_refused():
    several = OneOf(1.0, (Coin(1.0), KAry(0.5, 3)))
    for other in (several, Marginals(1.0, (2, 3), ((0,), (1,))), "k-ary", None, KAry):
        with pytest.raises(InvalidInput, match="there is no server for"):
            serve_question(other)
