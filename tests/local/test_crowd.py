"""Many people's reports at once have the law of single ones."""

from dataclasses import replace

import numpy as np
import pytest
from enumerated import client_id, laplace_law, p_value
from paths import law

from qrelease.local import Coin, Hadamard, Hybrid, KAry, LocalHashing, LocalLaplace, Piecewise, SquareWave
from qrelease.local.crowd import insecure_reports

SIMULATED = [
    KAry(1.0, 5),
    LocalHashing(1.0, 5),
    Hadamard(0.5, 5),
    Hadamard(3.0, 9),
    Coin(1.0, 0, 1, 4),
    Piecewise(2.0, 0, 1, 6),
    SquareWave(1.0, 0, 1, 6),
    Hybrid(2.0, 0, 1, 6),
    LocalLaplace(8.0, 0, 1, 4),
]


@pytest.mark.parametrize("client", SIMULATED, ids=client_id)
def test_simulated_reports_have_the_clients_law_and_thirty_per_cent_of_epsilon_would_show(client):
    n, rng = 60_000, np.random.default_rng(7)
    louder = replace(client, epsilon=float(client.epsilon) * 1.3)
    p_values, wrong = [], []
    for place in {0, client.inputs // 2, client.inputs - 1}:
        codes = insecure_reports(client, np.full(n, place), rng)
        exact = (laplace_law if isinstance(client, LocalLaplace) else law)(client, place)
        p_values.append(p_value(codes, exact))
        if louder.size == client.size:
            wrong.append(p_value(codes, law(louder, place)))
    assert min(p_values) > 1e-3
    assert min(wrong, default=0) < 1e-6
