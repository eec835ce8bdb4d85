"""Statistics of columns that are kept on a grid: they take its points, whatever the bins are."""

from fractions import Fraction

import numpy as np
import pytest

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import ZCDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.mean import Mean
from qrelease.statistics.private_columns import domain_of
from qrelease.statistics.quantile import Quantile
from qrelease.statistics.sample_and_aggregate import SampleAndAggregate
from qrelease.statistics.selection import MostCommon
from qrelease.statistics.sparse_mean import PeelingMean
from tests.statistics.doors import door

COST = PureDP(1.0)
NUMBER = {"within": (-10, 90), "step": Fraction(1, 100), "missing": ("",)}
BINNED = Attribute("price", "number", edges=(-10, 40, 90), **NUMBER)
RAW = Attribute("price", "number", **NUMBER)
ANSWERS = Attribute("said", "category", categories=("no", "yes"))


def read(attribute, values, tmp_path):
    """A table as its readers make it, from texts."""
    file = tmp_path / "prices.csv"
    file.write_text("price,said\n" + "".join(f"{v},{'yes' if i % 2 else 'no'}\n" for i, v in enumerate(values)))
    return Table.read(file, Domain((attribute, ANSWERS)))


PRICES = ["0.07", "89.99", "-10", "", "39.995", "40", "3.14", "3.14"]


@pytest.mark.parametrize("attribute", [BINNED, RAW], ids=["binned", "without bins"])
def test_statistics_see_the_points_of_a_grid(attribute, tmp_path):
    private = door(read(attribute, PRICES, tmp_path), COST)
    places = [1007, 9999, 0, -1, 5000, 5000, 1314, 1314]  # 39.995 lies between two, and goes to the upper one
    assert private.codes("price").tolist() == places
    found = private.numbers("price")
    assert found.n == 7
    assert np.repeat(found.values, found.counts).tolist() == sorted(p for p in places if p >= 0)
    assert found.cells == 10_001


@pytest.mark.parametrize("attribute", [BINNED, RAW], ids=["binned", "without bins"])
def test_means_and_quantiles_are_of_the_numbers_and_not_of_their_bins(attribute, tmp_path):
    values = np.round(np.random.default_rng(3).gamma(2.0, 4.0, 4000), 2).clip(-10, 90)
    table = read(attribute, [f"{v:.2f}" for v in values], tmp_path)
    with Ledger.open(None, PureDP(4.0), dataset="prices") as ledger:
        curator = Curator(table, ledger, Entropy.insecure(5))
        mean, median = (curator.estimate(s, COST) for s in (Mean("price"), Quantile("price", 0.5)))
        counted = curator.estimate(MostCommon(("said",), 1), COST)
    assert abs(mean.value - values.mean()) < 0.2
    assert mean.interval[0] <= values.mean() <= mean.interval[1]
    assert abs(median.value - np.median(values)) < 0.5
    assert counted.value is not None


def test_a_table_made_of_bins_has_no_numbers_and_says_so_before_the_charge():
    domain = Domain((BINNED, ANSWERS))
    table = Table(domain, (np.array([0, 1, 2]), np.array([0, 1, 1])))
    assert domain_of(table)["price"].grid is None
    with Ledger.open(None, COST, dataset="prices") as ledger:
        curator = Curator(table, ledger, Entropy.insecure(1))
        for statistic in (Mean("price"), Quantile("price"), SampleAndAggregate(("price",), "f.py:f", 0, 1)):
            with pytest.raises(InvalidInput, match=r"'price' has no exact numbers.*within and step"):
                curator.estimate(statistic, COST)
        assert ledger.spent is None or ledger.spent == PureDP(0.0)


def test_categories_that_are_to_be_learned_come_first():
    table = Table(Domain((RAW, Attribute("town", "category", learn=5))), (np.array([0, 7]), np.array([0, 1])))
    with Ledger.open(None, COST, dataset="towns") as ledger, pytest.raises(InvalidInput, match="town: must be learned"):
        Curator(table, ledger, Entropy.insecure(1)).estimate(Mean("price"), COST)


def test_a_million_points_are_counted_in_blocks():
    places = np.random.default_rng(1).integers(0, 10_001, (1 << 20) + 5)
    bins = BINNED.bins_of(places)
    table = Table(Domain((BINNED,)), (bins,), points=(places,))
    found = door(table, COST).numbers("price")
    assert np.array_equal(np.bincount(places, minlength=10_001), np.bincount(found.values, found.counts, 10_001))


def test_a_sparse_mean_takes_the_points_of_a_column(tmp_path):
    file = tmp_path / "prices.csv"
    file.write_text("price\n" + "".join(f"{v}\n" for v in ["20.01", "19.99", ""] * 500))
    table = Table.read(file, Domain((BINNED,)))
    found = PeelingMean(1, origin=0.0).estimate(door(table, ZCDP(50.0)), ZCDP(50.0))
    assert found.value["price"] == pytest.approx(20.0 * 2 / 3, abs=0.05)


@pytest.mark.parametrize(
    "exact",
    [
        np.array([0.25]),
        [0.25],
        [np.float64(0.25)],
        [Fraction(1, 4)],
        ["1"],
        [np.timedelta64(7)],
        np.ones((2, 2), int),
        3,
        "12",
    ],
    ids=str,
)
def test_what_is_no_whole_number_is_refused_before_the_charge_and_not_told(exact, tmp_path):
    """Whole noise would leave a fraction as it is: the mean of a column was published to its last digit."""
    private = door(read(RAW, PRICES, tmp_path), COST)
    with pytest.raises(InvalidInput, match="whole numbers") as refused:
        private.measure("a mean", exact, 1, COST)
    assert "25" not in str(refused.value)
    assert private.measure("a count", np.array([3], np.uint64), 1, COST)[0].dtype == np.int64  # all of it was left


@pytest.mark.parametrize("perturb", ["perturb", "perturb_widely"])
def test_one_number_is_whole_too(perturb, tmp_path):
    private = door(read(RAW, PRICES, tmp_path), COST)
    with pytest.raises(InvalidInput, match="whole numbers"):
        getattr(private, perturb)("a mean", 0.25, Fraction(2), COST)
    assert isinstance(getattr(private, perturb)("a count", np.int64(3), Fraction(2), COST), int)


def test_a_sensitivity_is_whole(tmp_path):
    private = door(read(RAW, PRICES, tmp_path), COST)
    with pytest.raises(InvalidInput, match="sensitivity must be an integer"):
        private.measure("a count", [3], 0.5, COST)
    private.measure("a count", [3], 1, COST)
