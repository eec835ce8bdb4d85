"""What a collector does with reports, single or many; what liars can do, and no more."""

import numpy as np
import pytest

from qrelease.local import Coin, Hadamard, Hybrid, KAry, LocalHashing, Piecewise, serve
from qrelease.local.crowd import insecure_reports
from qrelease.noise.entropy import Entropy


def test_single_reports_and_batches_say_the_same():
    client, entropy = Piecewise(1.0), Entropy.insecure(9)
    reports = [client.report(0.2, entropy) for _ in range(200)]
    server = serve(client)
    wire = b"".join(r.to_bytes() for r in reports)
    assert server.estimate(reports).value == server.estimate(server.read(wire)).value


@pytest.mark.parametrize(
    "client", [KAry(1.0, 4), LocalHashing(1.0, 4), Hadamard(3.0, 9), Coin(1.0), Piecewise(1.0), Hybrid(2.0)]
)
def test_liars_move_an_estimate_as_far_as_is_said_and_no_further(client):
    server, rng, n, k = serve(client), np.random.default_rng(3), 500, 25
    codes = insecure_reports(client, np.zeros(n, np.int64), rng)
    tried = np.unique(np.append(rng.integers(0, client.size, 300), [0, 1, client.size - 1]))
    moved = []
    for before in tried[:40]:
        codes[:k] = before
        base = server.estimate(server.from_codes(codes)).value
        for after in tried:
            codes[:k] = after
            moved.append(np.max(np.abs(server.estimate(server.from_codes(codes)).value - base)))
    assert max(moved) <= server.moved_by(k, n) * (1 + 1e-9)
    assert max(moved) > 0.7 * server.moved_by(k, n)
