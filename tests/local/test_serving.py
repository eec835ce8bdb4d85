"""Which server any client has: of several questions one that splits reports among them."""

import pytest

from qrelease.errors import InvalidInput
from qrelease.local import Coin, KAry, Marginals, OneOf, Text, serve
from qrelease.local.attributes import MarginalsServer, OneOfServer
from qrelease.local.question_servers import serve_question
from qrelease.noise.entropy import Entropy


@pytest.mark.parametrize("client", [KAry(1.0, 3), Coin(0.5), Text(1.0, "ab", 3)], ids=lambda c: c.name)
def test_a_client_of_one_question_has_the_server_of_that_question(client):
    assert type(serve(client)) is type(serve_question(client))


@pytest.mark.parametrize(
    ("client", "value", "kind"),
    [
        (OneOf(1.0, (Coin(1.0), KAry(1.0, 3))), (0.5, 2), OneOfServer),
        (Marginals(1.0, (2, 3), ((0,), (0, 1))), (1, 2), MarginalsServer),
    ],
    ids=["one of", "marginals"],
)
def test_a_client_of_several_has_one_that_reads_its_reports(client, value, kind):
    server = serve(client)
    assert type(server) is kind
    assert server.client is client
    reports = [client.report(value, Entropy.insecure(1)) for _ in range(5)]
    batch = server.read(b"".join(report.to_bytes() for report in reports))
    assert (batch.octets == server.gather(reports).octets).all()
    assert len(batch) == 5


def test_the_reports_of_other_terms_are_refused():
    wire = KAry(1.0, 3).report(1, Entropy.insecure(1)).to_bytes()
    with pytest.raises(InvalidInput):
        serve(KAry(2.0, 3)).read(wire)
