"""What a collector does with reports, single or many; what liars can do, and no more."""

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.local import Coin, Hadamard, Hybrid, KAry, LocalHashing, OneOf, Piecewise, Report, serve
from qrelease.local.crowd import insecure_reports
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


@pytest.mark.parametrize(
    "client",
    [KAry(1.0, 4), LocalHashing(1.0, 4), Hadamard(3.0, 9), Coin(1.0), Piecewise(1.0), Hybrid(0.3), Hybrid(2.0)],
)
def test_liars_move_an_estimate_as_far_as_is_said_and_no_further(client):
    server, rng, n, k = serve(client), np.random.default_rng(3), 500, 25
    codes = insecure_reports(client, np.zeros(n, np.int64), rng)
    numbers = np.unique(np.append(rng.integers(0, client.size, 300), [0, 1, client.size - 1]))
    tried = np.array([number for number in numbers if accepted(server, number)])
    moved = []
    for before in tried[:40]:
        codes[:k] = before
        base = server.estimate(server.from_codes(codes)).value
        for after in tried:
            codes[:k] = after
            moved.append(np.max(np.abs(server.estimate(server.from_codes(codes)).value - base)))
    assert max(moved) <= server.moved_by(k, n) * (1 + 1e-9)
    assert max(moved) > 0.7 * server.moved_by(k, n)


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
