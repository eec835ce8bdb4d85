"""What a collector does with reports, single or many; what liars can do, and no more."""

import numpy as np
import pytest
from enumerated import client_id

from qrelease.errors import InvalidInput
from qrelease.local import (
    Coin,
    Hadamard,
    Hybrid,
    KAry,
    LocalHashing,
    LocalLaplace,
    OneOf,
    OptimisedUnary,
    Piecewise,
    Report,
    SquareWave,
    Unary,
    serve,
)
from qrelease.noise.entropy import Entropy


def accepted(server, number):
    """Whether the server reads a report with this number, which a liar may have made."""
    wire = Report(server.client.terms, int(number), server.client.width).to_bytes()
    try:
        return len(server.read(wire)) == 1
    except InvalidInput:
        return False


def test_single_reports_and_batches_say_the_same():
    client, entropy = Piecewise(1.0), Entropy.insecure(9)
    reports = [client.report(0.2, entropy) for _ in range(200)]
    server = serve(client)
    wire = b"".join(r.to_bytes() for r in reports)
    assert server.estimate(reports).value == server.estimate(server.read(wire)).value


def worths(client, server):
    """What each report that is accepted is worth by itself to each number of the estimate."""
    codes = [code for code in range(client.size) if accepted(server, code)]
    found = np.array([np.atleast_1d(server.estimate(server.from_codes(np.array([c]))).value) for c in codes])
    return np.array(codes), found


LIED_TO = [
    *(kind(e, 5) for kind in (KAry, Unary, OptimisedUnary, LocalHashing, Hadamard) for e in (0.3, 1.0, 3.0)),
    *(kind(e, -1, 3, 9) for kind in (Coin, Piecewise, SquareWave, Hybrid) for e in (0.3, 1.0, 3.0)),
    LocalLaplace(16.0, -1, 3, 9),
]


@pytest.mark.parametrize("client", LIED_TO, ids=client_id)
def test_the_worst_liars_move_an_estimate_exactly_as_far_as_is_said(client):
    """Of all that a server accepts the worst lie and the worst truth, for each number of the estimate."""
    server, rng, n, k = serve(client), np.random.default_rng(3), 400, 25
    codes, worth = worths(client, server)
    honest = rng.choice(codes, n - k)
    bound = np.broadcast_to(server.moved_by(k, n), worth.shape[1])
    for number, said in enumerate(bound):
        ends = codes[worth[:, number].argmin()], codes[worth[:, number].argmax()]
        low, high = (server.estimate(server.from_codes(np.append(honest, np.full(k, end)))).value for end in ends)
        assert (np.atleast_1d(high) - np.atleast_1d(low))[number] == pytest.approx(said, rel=1e-6)


@pytest.mark.parametrize(("client", "lie"), [(Hybrid(0.3), 2), (OneOf(0.3, (Coin(0.3), Hybrid(0.3), Coin(0.3))), 4)])
def test_a_number_that_no_client_reports_is_refused(client, lie):
    """At this ε a hybrid is the coin alone; its window's numbers, worth more, keep their place on the wire."""
    server, windows = serve(client), Hybrid(0.3).parts[1].size
    lies = [lie, lie + windows - 1]
    assert not any(accepted(server, number) for number in lies)
    assert all(accepted(server, number) for number in range(client.size) if number < lie or number >= lie + windows)
    for number in lies:
        with pytest.raises(InvalidInput, match="no report in these terms"):
            client.read_bytes(Report(client.terms, number, client.width).to_bytes())
        with pytest.raises(InvalidInput, match="no report in these terms"):
            server.from_codes(np.array([0, number]))


def test_what_is_no_report_is_refused():
    client = KAry(1.0, 3)
    server = serve(client)
    for report in (Report(client.terms, 300, 1), Report("zz", 0, 1), Report(client.terms, "0", 1), 7):
        with pytest.raises(InvalidInput):
            server.estimate([report])
    for octets in (None, "abcde", 5):
        for read in (client.read_bytes, server.read):
            with pytest.raises(InvalidInput, match="bytes"):
                read(octets)
