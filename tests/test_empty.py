"""Tables of no record and of one: neighbours under add-remove, which every mechanism takes alike."""

import warnings
from pathlib import Path

import broken
import numpy as np
import pytest

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.apps.cli.mechanisms import MECHANISMS, mechanism_of
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, StreamHalted
from qrelease.evaluation.audit import audit, released
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

DOMAIN = Domain.coded({"a": 2, "b": 2, "c": 2})
PAIRS = Workload.marginals(DOMAIN, 2)
COST = ApproxDP(1.0, 1e-6)
PURE = PureDP(2.0)


def table(records: int) -> Table:
    return Table(DOMAIN, (np.zeros(records, np.uint8),) * 3)


@pytest.mark.parametrize("neighbours", Neighbours, ids=lambda n: n.value)
@pytest.mark.parametrize("records", [0, 1])
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_releases_and_saves_it(name: str, records: int, neighbours: Neighbours, tmp_path: Path):
    """Under add-remove n is private and under replace-one it is public, and may be 0: warnings are errors here."""
    mechanism = Auto() if name == "auto" else mechanism_of(name)
    for seed in range(3):
        with Ledger.open(None, COST, neighbours=neighbours) as ledger:
            made = Curator(table(records), ledger, Entropy.insecure(seed)).release(mechanism, PAIRS, COST)
        folder = tmp_path / str(seed)
        made.save(folder)
        again = qr.load(folder)
        assert np.allclose(again.answers(), made.answers(), rtol=1e-6, atol=1e-9)
        assert np.isfinite(made.answers()).all()
        if made.has_table:
            rows = (folder / "synthetic.csv").read_text().splitlines()[1:]
            assert len(rows) == max(round(made.synopsis.total), 0)
            assert all(len(column) == len(rows) for column in made.codes(None, np.random.default_rng(0)))


@pytest.mark.parametrize("cost", [ZCDP(0.5), COST], ids=["rho", "delta"])
@pytest.mark.parametrize("records", [0, 1])
@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "laplace"])
def test_a_release_of_a_public_number_of_nobody_is_verified(name: str, records: int, cost: qr.Cost, tmp_path: Path):
    """What was drawn for it is insecure, and nothing else is found."""
    mechanism = Auto() if name == "auto" else mechanism_of(name)
    for k in (1, 2):
        workload = Workload.marginals(DOMAIN, k)
        with Ledger.open(None, cost, neighbours="replace-one") as ledger:
            made = Curator(table(records), ledger, Entropy.insecure(k)).release(mechanism, workload, cost)
        made.save(tmp_path / str(k))
        assert [c.name for c in qr.verify(tmp_path / str(k)).checks if c.holds is False] == ["noise source"]


def test_a_model_of_nobody_stands_for_nobody():
    with Ledger.open(None, ZCDP(0.5), neighbours="replace-one") as ledger:
        made = Curator(table(0), ledger, Entropy.insecure(0)).release(MaxEnt(), PAIRS, ZCDP(0.5))
    assert made.synopsis.total == 0
    assert not made.answers().any()


def test_a_synopsis_of_nobody_has_no_rows(tmp_path: Path):
    with Ledger.open(None, PURE, neighbours="replace-one") as ledger:
        made = Curator(table(0), ledger, Entropy.insecure(0)).release(Laplace(), PAIRS, PURE)
    assert made.synopsis.total == 0
    made.save(tmp_path / "rows")
    made.save(tmp_path / "weights", weighted=True)
    for folder in ("rows", "weights"):
        assert len((tmp_path / folder / "synthetic.csv").read_text().splitlines()) == 1
        assert (tmp_path / folder / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("text", ["a,b,c\n", "a,b,c", "a,b,c\n1,0,1\n"])
def test_the_command_line_releases_it(text: str, neighbours: str, in_folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("people.csv").write_text(text)
    Path("schema.json").write_text('{"a": 2, "b": 2, "c": 2}')
    words = f"release people.csv --schema schema.json --neighbours {neighbours} --epsilon 1 --out out"
    assert main([*words.split(), "--mechanism", "laplace"]) == 0
    assert sorted(p.name for p in Path("out").iterdir()) == [
        "SHA256SUMS",
        "answers.csv",
        "release.json",
        "report.html",
        "synthetic.csv",
    ]
    assert main(["ledger", "show", "people.ledger"]) == 0
    assert "spent   epsilon=1" in capsys.readouterr().out


AUDITED = {
    "laplace": (Laplace(), PURE),
    "gaussian": (Gaussian(), ApproxDP(2.0, 1e-3)),
    "mwem": (MWEM(rounds=1), PURE),
    "mwem in zCDP": (MWEM(rounds=2), ApproxDP(2.0, 1e-3)),
    "smalldb": (SmallDB(size=2), PURE),
    **{name: (mechanism_of(name), ApproxDP(2.0, 1e-3)) for name in ("iterative", "matrix", "maxent")},
}


SLOW = ("iterative", "maxent", "mwem in zCDP")


def assert_judged(mechanism, workload, cost, pair, samples: int, times: int | None):
    """Tables of nobody and of one are acquitted, and twins convicted: one draws for so many times its cost, if any."""

    def judged(run):
        return audit(run, *pair, cost, samples=samples, entropy=Entropy.insecure(10)).convicted

    def released_by(made):
        return released(made, workload, cost, Neighbours.ADD_REMOVE)

    right, of_one = released_by(mechanism), []

    def run(people, entropy):
        made = right(people, entropy)
        if len(people):
            of_one.append(made)
        return made

    assert not judged(run)
    again = iter(of_one)  # the same releases, in the same order; how often nobody's is run to foretell the time varies
    nothing = type(of_one[0])(dict.fromkeys(of_one[0], 0.0))

    def exact_for_nobody(people, _):
        return next(again) if len(people) else nothing

    assert judged(exact_for_nobody)
    assert next(again, None) is None
    if times is not None:
        assert judged(released_by(broken.Overspending(mechanism, times)))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in AUDITED])
def test_none_and_one_are_alike_and_telling_them_apart_is_convicted(name: str):
    """Two twins: one that draws for much more than its cost, and one that needs no noise where there is nobody.

    The first not of the iterative construction, which splits its cost in so many parts that 500 runs show too little.
    """
    mechanism, cost = AUDITED[name]
    pair = table(0), table(1)
    assert_judged(mechanism, PAIRS, cost, pair, 500, 16 if name != "iterative" else None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "cost", "times"), [(FittedRecords(weighted_records=4), ApproxDP(2.0, 1e-3), 64), (Auto(), PURE, 16)]
)
def test_what_takes_long_is_audited_on_two_columns(mechanism, cost, times: int):
    """As above, with fewer runs and less to answer."""
    domain = Domain.coded({"a": 2, "b": 2})
    singles = Workload.marginals(domain, 1)
    pair = [Table(domain, (np.zeros(n, np.uint8),) * 2) for n in (0, 1)]
    assert_judged(mechanism, singles, cost, pair, 100, times)


SESSIONS = {
    "online": qr.Online(alpha=0.9),
    "pmw": qr.PrivateMultiplicativeWeights(alpha=0.9, queries=3),
}


def asked(mechanism, cost):
    """A session as `f(table, entropy)`: what it answers to two conditions, or how it refuses."""

    def run(people, entropy):
        with Ledger.open(None, cost) as ledger:
            try:
                session = Curator(people, ledger, entropy).open(mechanism, cost, key="s")
                said = [session.records]
                said += [session.answer(condition).value for condition in ("a = 0", "b = 0 and c = 0")]
            except InvalidInput as error:
                return [float("few records" in str(error)) - 5.0, -1.0, -1.0]
            except (BudgetExceeded, StreamHalted):
                return [-9.0, -9.0, -9.0]
        return said

    return run


@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_on_none_and_one_are_alike_and_refusing_nobody_is_convicted(name: str):
    cost = PureDP(0.5)
    right = asked(SESSIONS[name], cost)

    def wrong(people, entropy):
        return right(people, entropy) if len(people) else [-5.0, -2.0, -2.0]

    for run, convicted in ((right, False), (wrong, True)):
        found = audit(run, table(0), table(1), cost, samples=200, entropy=Entropy.insecure(12))
        assert found.convicted == convicted


def test_a_session_on_nobody_ends_with_its_noisy_count():
    """Which is charged; noise alone is not taken for records, however coarse α is."""
    for seed in range(20):
        with Ledger.open(None, PureDP(0.3)) as ledger, warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(InvalidInput, match="too few records"):
                Curator(table(0), ledger, Entropy.insecure(seed)).open(qr.Online(alpha=0.9), PureDP(0.3))


def test_a_public_number_of_none_is_refused_by_sessions():
    for mechanism in SESSIONS.values():
        with Ledger.open(None, PURE, neighbours="replace-one") as ledger:
            with pytest.raises(InvalidInput, match="records"):
                Curator(table(0), ledger).open(mechanism, PURE)
            assert ledger.spent is None
