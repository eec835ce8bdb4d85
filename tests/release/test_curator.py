"""The curator charges first and draws then, and refuses before it charges."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from releases import COST, PAIRS, TABLE, released
from worlds import (
    BOTH,
    PEOPLE,
    SpyEntropy,
    coded,
    random_table,
)

from qrelease.errors import BudgetExceeded, InvalidInput, QReleaseError, TooLarge
from qrelease.inference.update_rules import Hedge, Perceptron, Projection
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.online.session import Online
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.privacy.costs import MOST_SPENT
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.statistics.mean import Mean

MECHANISMS = [Laplace(), Gaussian(), MWEM(rounds=4), MWEM(rounds=4, choice="query")]


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_the_charge_is_durable_before_the_first_word_is_drawn(tmp_path, mechanism, relation):
    path = tmp_path / "people.ledger"
    seen = []

    def look():
        """As another process would, in a connection of its own."""
        with Ledger.open(path) as other:
            seen.append([(e.kind, e.cost, e.label) for e in other.history()][1:])
            assert other.spent == COST

    with Ledger.open(path, COST, neighbours=relation) as opened:
        spy = SpyEntropy(0, before=look)
        Curator(TABLE, opened, spy).release(mechanism, PAIRS, COST)
    assert seen == [[("charge", COST, f"{mechanism.name}: 26 queries")]]
    assert spy.taken > 0


@dataclasses.dataclass(frozen=True)
class Failing:
    """A mechanism that fails in `check`, or only after it has drawn."""

    early: bool
    name = "failing"

    def check(self, workload, cost, neighbours):
        if self.early:
            raise TooLarge("known beforehand")

    def release(self, private, workload, cost):
        private.entropy.words(1)
        raise TooLarge("found out too late")


EXTREMES = [0, -1, 0.5, 1e308, 5e-324, 10**400, -(10**400), 2**63, math.nan, math.inf, -math.inf, True, "many", []]
NUMBERS = {
    "records": (Auto, MaxEnt, MWEM),
    "weighted_records": (FittedRecords,),
    "rounds": (MWEM,),
    "sweeps": (MWEM,),
    "selection": (MWEM,),
    "order": (FittedRecords,),
    "size": (SmallDB,),
    "alpha": (SmallDB, Hedge, Projection, Perceptron),
    "beta": (IterativeConstruction,),
    "weight": (MaxEnt,),
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in NUMBERS.items() for kind in kinds])
def test_a_number_that_is_none_for_its_argument_is_refused_by_its_name(name, kind):
    """By the constructor or by the check: what passes both is a number that it can work with."""
    asked, refused = Workload.marginals(coded(3, 2), 1), []
    for value in EXTREMES:
        try:
            made = kind(weights=(value, 1.0)) if name == "weight" else kind(**{name: value})
            rule = hasattr(made, "update_bound")
            (IterativeConstruction(made) if rule else made).check(asked, COST, Neighbours.ADD_REMOVE)
        except QReleaseError as error:
            refused.append(str(error))
    assert len(refused) >= 9
    assert [message for message in refused if name not in message] == []


@pytest.mark.parametrize(
    ("mechanism", "asked", "cost", "error"),
    [
        (Failing(early=True), PAIRS, COST, TooLarge),
        (Laplace(), Workload.marginals(coded(2, 4, 3), 2), COST, InvalidInput),
        (Laplace(), PAIRS, ApproxDP(10.5, 1e-6), BudgetExceeded),
        (Gaussian(), PAIRS, ApproxDP(1.0, 0.5), BudgetExceeded),
        (Laplace(), PAIRS, ZCDP(0.1), InvalidInput),
        (Gaussian(), PAIRS, PureDP(1.0), InvalidInput),
        (MWEM(), PAIRS, "epsilon=1", InvalidInput),
        (MWEM(), PAIRS, PureDP(1e-300), InvalidInput),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_refusal_charges_and_draws_nothing(ledger, mechanism, asked, cost, error):
    spy = SpyEntropy(0)
    with pytest.raises(error):
        Curator(TABLE, ledger, spy).release(mechanism, asked, cost)
    assert ledger.spent is None
    assert len(ledger.history()) == 1
    assert spy.taken == 0


@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian(), MWEM(rounds=2), MaxEnt(), Auto(), Matrix()])
@pytest.mark.parametrize("cost", [PureDP(1e300), ApproxDP(1e300, 1e-9), ZCDP(1e300), ApproxDP(1e-300, 1e-9)], ids=str)
def test_a_cost_beyond_what_floats_can_count_with_is_refused_before_the_charge(mechanism, cost):
    with Ledger.open(None, cost) as ledger:
        with pytest.raises(InvalidInput, match=r"^(epsilon|rho) must be from 1e-50 to 1e\+50 to be spent, got 1e"):
            Curator(TABLE, ledger, SpyEntropy(0)).release(mechanism, PAIRS, cost)
        assert ledger.spent is None


@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian(), MWEM(rounds=2), MaxEnt(), Auto(), Matrix()])
@pytest.mark.parametrize("cost", [PureDP(MOST_SPENT), ApproxDP(MOST_SPENT, 1e-9), ZCDP(MOST_SPENT)], ids=str)
def test_the_largest_cost_is_spent_or_refused_before_the_charge(mechanism, cost):
    with Ledger.open(None, cost) as ledger:
        try:
            release = Curator(TABLE, ledger, Entropy.insecure(0)).release(mechanism, PAIRS, cost)
        except InvalidInput:
            assert ledger.spent is None
        else:
            assert np.isfinite(release.answers()).all()


def test_no_estimate_schema_or_session_costs_so_much(ledger):
    curator, cost = Curator(TABLE, ledger, SpyEntropy(0)), PureDP(1e300)
    for refused in (
        lambda: curator.estimate(Mean("age"), cost),
        lambda: curator.open(Online(0.1, 0.1), cost),
        lambda: curator.learn_for(MaxEnt(), ApproxDP(1e300, 1e-9)),
        lambda: curator.open(Online(0.1, 0.1), COST).estimate(Mean("age"), cost),
    ):
        with pytest.raises(InvalidInput, match="must be from 1e-50 to 1e"):
            refused()


def test_counts_that_do_not_fit_are_refused_before_the_charge(ledger, monkeypatch):
    """A few predicates on wide columns ask few queries, but exact counts of many cells."""
    monkeypatch.setattr("qrelease.data.known_counts.MAX_COUNTED_CELLS", 20)
    with pytest.raises(TooLarge):
        Curator(TABLE, ledger, SpyEntropy(0)).release(Laplace(), PAIRS, COST)
    assert ledger.spent is None


def test_a_failure_after_a_draw_stays_charged(ledger):
    with pytest.raises(TooLarge):
        Curator(TABLE, ledger, SpyEntropy(0)).release(Failing(early=False), PAIRS, COST)
    assert ledger.spent == COST


def test_releases_are_charged_until_nothing_is_left(ledger):
    curator = Curator(TABLE, ledger, Entropy.insecure(0))
    for _ in range(10):
        curator.release(Laplace(), PAIRS, PureDP(1.0))
    with pytest.raises(BudgetExceeded, match=r"total epsilon=10.*spent epsilon=10.*requested epsilon=0\.5"):
        curator.release(Laplace(), PAIRS, PureDP(0.5))
    assert curator.ledger is ledger


def test_the_relation_is_that_of_the_ledger():
    public, hidden = (released(relation=r) for r in (Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE))
    assert public.neighbours is Neighbours.REPLACE_ONE
    assert (public.synopsis.total, public.parameters["records"]) == (200.0, 200.0)
    assert hidden.synopsis.total != 200.0


def test_only_the_systems_entropy_makes_a_release_secure(ledger):
    """A stand-in that claims to have no seed is still a stand-in."""
    assert not Curator(TABLE, ledger).release(Laplace(), PAIRS, PureDP(0.01)).insecure
    assert Curator(TABLE, ledger, SpyEntropy(0)).release(Laplace(), PAIRS, PureDP(0.01)).insecure
    assert Curator(TABLE, ledger, Entropy.insecure(1)).release(Laplace(), PAIRS, PureDP(0.01)).insecure


def test_what_a_mechanism_of_ones_own_lacks_is_named():
    class Unfinished:
        def release(self, private, workload, cost):
            raise NotImplementedError

    with Ledger.open(None, PureDP(1.0)) as ledger:
        curator = Curator(random_table(PEOPLE, 9, 0), ledger, Entropy.insecure(0))
        with pytest.raises(InvalidInput, match="Unfinished has no name and no check"):
            curator.release(Unfinished(), Workload.marginals(PEOPLE, 1), PureDP(1.0))
        assert ledger.spent is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (PrivateMultiplicativeWeights(), "not an online one, got"),
        (None, "None has no name, no check and no release"),
        ("mwem", "'mwem' has no name, no check and no release"),
        (Entropy.insecure(0), "Entropy has no name, no check and no release"),
    ],
)
def test_a_release_takes_a_mechanism_of_releases(wrong, told):
    with Ledger.open(None, PureDP(1.0)) as ledger:
        curator = Curator(random_table(PEOPLE, 9, 0), ledger, Entropy.insecure(0))
        with pytest.raises(InvalidInput, match=rf"a release takes a mechanism such as MWEM\(\),.*{told}"):
            curator.release(wrong, Workload.marginals(PEOPLE, 1), PureDP(1.0))
        with pytest.raises(InvalidInput, match="a session takes an online mechanism such as Private"):
            curator.open(MWEM() if isinstance(wrong, PrivateMultiplicativeWeights) else wrong, PureDP(1.0))
        assert ledger.spent is None


def test_a_class_is_no_mechanism():
    with Ledger.open(None, PureDP(1.0)) as ledger:
        curator = Curator(random_table(PEOPLE, 9, 0), ledger, Entropy.insecure(0))
        with pytest.raises(
            InvalidInput, match=r"pass an object, MWEM\(\), as the mechanism, not the class MWEM itself"
        ):
            curator.release(MWEM, Workload.marginals(PEOPLE, 1), PureDP(1.0))
        with pytest.raises(InvalidInput, match="not the class Online itself"):
            curator.open(Online, PureDP(1.0))
        assert ledger.spent is None


@pytest.mark.parametrize("wrong", [None, [Workload.marginals(PEOPLE, 1)], "marginals:2"])
def test_a_release_takes_a_workload(wrong):
    with Ledger.open(None, PureDP(1.0)) as ledger:
        curator = Curator(random_table(PEOPLE, 9, 0), ledger, Entropy.insecure(0))
        with pytest.raises(InvalidInput, match="a release takes a Workload, such as"):
            curator.release(Laplace(), wrong, PureDP(1.0))
        assert ledger.spent is None


def test_a_frame_or_a_path_where_a_table_and_a_ledger_belong_is_refused_with_what_makes_them(tmp_path):
    path = tmp_path / "people.ledger"
    with Ledger.open(None, COST) as opened:
        with pytest.raises(InvalidInput, match=r"takes a table, got DataFrame: make one by qr.Table.from_frame"):
            Curator(pd.DataFrame({"a": [1]}), opened)
        with pytest.raises(InvalidInput, match=r"takes a table, got str: make one by qr.Table.read\(path, schema\)"):
            Curator("people.csv", opened)
    with pytest.raises(InvalidInput, match=r"an opened ledger, got str: open one by qr.Ledger.open\('cust.ledger'\)"):
        Curator(TABLE, "cust.ledger")
    with pytest.raises(InvalidInput, match="takes an opened ledger, got NoneType"):
        Curator(TABLE, None)
    with pytest.raises(InvalidInput, match="takes an opened ledger, got PosixPath"):
        Curator(TABLE, path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("relation", "mechanism", "how_many"),
    [
        (Neighbours.ADD_REMOVE, MaxEnt(), ""),
        (Neighbours.ADD_REMOVE, MaxEnt(records=500), "500"),
        (Neighbours.REPLACE_ONE, MaxEnt(), "all"),
    ],
)
def test_before_the_charge_it_is_said_how_long_a_release_takes_by_public_facts(relation, mechanism, how_many, capsys):
    for rows in (300, 3_000):
        table, spent = random_table(TABLE.domain, rows, 1), []
        with Ledger.open(None, COST, neighbours=relation) as ledger:
            spy = SpyEntropy(0, before=lambda heard=spent: heard.append(capsys.readouterr().err))
            Curator(table, ledger, spy).release(mechanism, PAIRS, COST, progress=True)
        said = [line for line in spent[0].splitlines() if "compiling" not in line]
        known = {"": None, "500": 500, "all": rows}[how_many]
        begun = "qrelease: from here on maxent takes about "
        assert [line.partition("about ")[0] + "about " for line in said] == [begun]
        if known is not None:
            assert "records" not in said[0]
        assert str(rows) not in said[0]


def test_nothing_is_said_of_a_release_unless_it_is_asked_for(ledger, capsys):
    Curator(TABLE, ledger, Entropy.insecure(1)).release(MaxEnt(), PAIRS, COST)
    assert capsys.readouterr().err == ""


def test_what_is_refused_says_nothing_of_what_a_release_would_be_like(capsys):
    with Ledger.open(None, PureDP(0.1)) as ledger, pytest.raises(BudgetExceeded):
        Curator(TABLE, ledger).release(MaxEnt(), PAIRS, PureDP(1.0), progress=True)
    assert capsys.readouterr().err == ""
