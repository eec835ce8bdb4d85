"""Measured means in synthetic records, whatever draws them."""

import csv
import re

import numpy as np
import pytest

import qrelease as qr
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.verify import verify
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.release.within_bins import tilted_bins

WAGE = Attribute("wage", "number", edges=(0, 20, 50, 100, 2000), integer=True, within=(0, 1999), step=1, missing=("",))
DOMAIN = Domain([WAGE, Attribute("branch", "category", categories=("a", "b"))])
COST = qr.ApproxDP(20.0, 1e-9)


@pytest.fixture(scope="module")
def wages():
    """A long tail, of branch b a longer one; the last bin goes on to ten times what anybody has."""
    rng = np.random.default_rng(3)
    branch = rng.integers(0, 2, 20_000)
    wage = np.minimum(np.floor(rng.lognormal(3.2 + 0.4 * branch, 0.8)), 1999).astype(np.int64)
    bins = WAGE.bins_of(wage)
    bins[:200], wage[:200] = WAGE.values, WAGE.grid.size
    return Table(DOMAIN, [bins, branch], points=(wage, None)), wage


def released(wages, *questions, clip=None):
    table, _ = wages
    mechanism = NumberSums(questions, mechanism=MaxEnt(), clip=clip or {})
    with qr.Ledger.open(None, COST) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(5))
        return curator.release(mechanism, qr.Workload.marginals(DOMAIN, k=2), COST)


def true_means(wages, clip=(0, 1999)):
    table, wage = wages
    valued = np.asarray(table.columns[0]) < WAGE.values
    return [np.clip(wage[valued & (table.columns[1] == k)], *clip).mean() for k in range(2)]


def test_records_of_every_kind_have_the_measured_means(wages, tmp_path):
    found = released(wages, "mean:wage by branch")
    truth = dict(zip("ab", true_means(wages), strict=True))
    measured = dict(zip("ab", found.mean("wage", by="branch").value, strict=True))
    frame = found.synthetic(seed=1, frame="pandas")
    weights = found.weighted(seed=1)[1]
    found.save(tmp_path / "out")
    with (tmp_path / "out" / "synthetic.csv").open() as file:
        rows = [(row["branch"], row["wage"]) for row in csv.DictReader(file)]
    for branch in "ab":
        assert abs(measured[branch] - truth[branch]) < 0.5
        ways = {
            "synthetic": frame[frame.branch == branch].wage.mean(),
            "sample": found.sample(f"branch = '{branch}'", 20_000, seed=2, frame="pandas").wage.mean(),
            "file": np.mean([float(wage) for b, wage in rows if b == branch and wage]),
        }
        assert {name: abs(mean - truth[branch]) < 2.0 for name, mean in ways.items()} == dict.fromkeys(ways, True)
    assert len(weights) == 10  # a line for each cell, whose wage is one draw
    assert (np.abs(np.diff(np.array(list(truth.values())))) > 10).all()


def test_without_measured_means_records_lie_evenly_in_bins(wages):
    for questions in (["count by branch"], ["histogram:wage"], ["ratio:wage >= 50 by branch"]):
        found = released(wages, *questions)
        assert tilted_bins(found) == ()
        assert found.points(found.codes(100, np.random.default_rng(0)), np.random.default_rng(0)) == {}
    even = found.synthetic(seed=1, frame="pandas").groupby("branch").wage.mean()
    assert (even > 1.3 * np.array(true_means(wages))).all()


@pytest.mark.parametrize("question", ["sum:wage by branch", "variance:wage by branch", "mean:wage by branch"])
def test_sums_and_variances_tell_the_means_too(wages, question):
    frame = released(wages, question).synthetic(seed=1, frame="pandas")
    assert np.abs(frame.groupby("branch").wage.mean() - true_means(wages)).max() < 2.0


def test_of_clipped_values_the_clipped_means_hold(wages):
    frame = released(wages, "mean:wage by branch", clip={"wage": (0, 300)}).synthetic(seed=1, frame="pandas")
    clipped = frame.wage.clip(upper=300).groupby(frame.branch).mean()
    assert np.abs(clipped - true_means(wages, (0, 300))).max() < 2.0


def test_conditions_hold_as_well(wages):
    found = released(wages, "mean:wage where branch = 'b'")
    frame = found.synthetic(seed=1, frame="pandas")
    assert abs(frame[frame.branch == "b"].wage.mean() - true_means(wages)[1]) < 2.0


def test_a_read_release_draws_the_same(wages, tmp_path):
    found = released(wages, "mean:wage by branch")
    found.save(tmp_path / "out")
    read = qr.load(tmp_path / "out")
    first, again = (release.synthetic(500, seed=4, frame="pandas") for release in (found, read))
    assert first.equals(again)


def test_columns_whose_cells_are_single_numbers_have_nothing_to_move(wages):
    domain = Domain.coded({"visits": 6, "group": 2})
    codes = np.random.default_rng(6).integers(0, [[6], [2]], (2, 500))
    table, cost = Table(domain, list(codes)), qr.ApproxDP(1.0, 1e-9)
    with qr.Ledger.open(None, cost) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(5))
        mechanism = NumberSums(["mean:visits by group"], mechanism=MaxEnt())
        found = curator.release(mechanism, qr.Workload.marginals(domain, k=2), cost)
    assert tilted_bins(found) == ()


def test_what_the_means_of_records_are_worth_is_said(wages):
    held = "synthetic numbers lie inside their bins so that the measured means hold"
    (said,) = released(wages, "mean:wage by branch").about_bins
    assert said.startswith(held)
    (said,) = released(wages, "count by branch").about_bins
    assert said.startswith("nothing was measured of where in the wide bins of wage the values lie")
    assert "a measured mean:wage moves them" in said


@pytest.mark.parametrize(("by", "named"), [("", "wage"), (" by branch", "wage of branch [ab]")])
def test_a_mean_that_noisy_counts_cannot_follow_is_said_to_be_missed(wages, by, named):
    table, _ = wages
    mechanism = NumberSums([f"mean:wage{by}"], mechanism=Laplace(), share=0.9999)
    cost = qr.PureDP(0.4)
    with qr.Ledger.open(None, cost) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(1))
        found = curator.release(mechanism, qr.Workload.marginals(DOMAIN, k=2), cost)
    frame = found.synthetic(50_000, seed=1, frame="pandas")
    told = [re.match(rf"the mean of ({named}) is (\S+) in synthetic records and (\S+) by what", t) for t in found.notes]
    (said,) = [match for match in told if match is not None]
    group = said[1].removeprefix("wage of branch ") if by else None
    drawn = (frame if group is None else frame[frame.branch == group]).wage.mean()
    answer = found.mean("wage", by="branch" if by else ())
    measured = answer.value["ab".index(group) if group else 0]
    assert abs(float(said[2]) - drawn) < 0.05 * drawn  # of a sample
    assert float(said[3]) == float(f"{measured:.4g}")
    assert abs(drawn - measured) > 0.1 * drawn


def test_verify_finds_values_that_were_moved_inside_their_bins(wages, tmp_path):
    table, _ = wages
    mechanism = NumberSums(["mean:wage by branch"], mechanism=MaxEnt())
    with qr.Ledger.open(None, COST) as ledger:
        found = qr.Curator(table, ledger).release(mechanism, qr.Workload.marginals(DOMAIN, k=2), COST)
    found.save(tmp_path / "out")
    assert {c.name: c.holds for c in verify(tmp_path / "out").checks}["synthetic records"]
    file = tmp_path / "out" / "synthetic.csv"
    header, *rows = file.read_text().splitlines()
    moved = [
        row if not row.split(",")[0] or int(row.split(",")[0]) < 100 else "1999," + row.split(",")[1] for row in rows
    ]
    file.write_text("\n".join([header, *moved]) + "\n")
    (check,) = (c for c in verify(tmp_path / "out").checks if c.name == "synthetic records")
    assert check.holds is False
    assert "the values of wage lie elsewhere in their bins" in check.found
