"""Models that are brought to measured means: which ones they become, and how far they go."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import qrelease as qr
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.inference.followed_means import ReweightedRecords, Tilt, follow, project
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.mechanisms.weighted_records import FittedRecords

PAY = Attribute("pay", "number", edges=tuple(range(0, 161, 10)), integer=True, within=(0, 159), step=1)
DOMAIN = Domain([PAY, Attribute("sex", "coded", codes=2), Attribute("town", "coded", codes=5)])
COST = qr.ApproxDP(1.0, 1e-6)
GAP = 20.0


def people(rows):
    """Pay depends on sex, by `GAP` on average, and on town."""
    rng = np.random.default_rng(4)
    sex, town = rng.integers(0, 2, rows), rng.integers(0, 5, rows)
    pay = np.clip(np.rint(rng.normal(60 + GAP * sex + 5 * (town == 2), 20)), 0, 159).astype(np.int64)
    return Table(DOMAIN, [PAY.bins_of(pay), sex, town], points=(pay, None, None)), pay


def test_it_is_the_nearest_distribution_with_the_means_and_the_other_columns():
    domain = Domain.coded({"pay": 3, "sex": 2, "town": 2})
    rng = np.random.default_rng(0)
    start = rng.dirichlet(np.full(12, 3.0))
    codes = np.array(np.unravel_index(np.arange(12), domain.shape), np.uint16)
    model = ReweightedRecords(WeightedCodes(domain, codes, start, 100.0))
    values, targets = np.array([0.0, 0.5, 1.0]), np.array([0.35, 0.6])
    bins, sex = np.unravel_index(np.arange(6), (3, 2))
    tilt = Tilt(0, (0, 1), sex * 3 + bins, values, targets, np.zeros(2))
    project(model, [tilt], [(1,), (2,)], 12)
    found, cube = model.weights, start.reshape(domain.shape)
    kept = [cube.sum(axis=(0, 2)), cube.sum(axis=(0, 1))]

    def off(p):
        table = p.reshape(domain.shape)
        by_sex = table.sum(axis=2)
        means = values @ by_sex / by_sex.sum(axis=0)
        return np.concatenate([means - targets, table.sum(axis=(0, 2)) - kept[0], table.sum(axis=(0, 1)) - kept[1]])

    assert np.abs(off(found)).max() < 2e-3
    best = minimize(
        lambda p: float(p @ np.log(p / start)),
        start,
        method="SLSQP",
        bounds=[(1e-9, 1)] * 12,
        constraints={"type": "eq", "fun": lambda p: off(p)[:-1]},
        options={"maxiter": 500, "ftol": 1e-12},
    ).x
    assert np.abs(found - best).max() < 2e-3
    assert np.abs(start - best).max() > 0.02


@pytest.mark.parametrize("counting", [MaxEnt(), FittedRecords()], ids=lambda m: m.name)
def test_a_gap_that_was_measured_is_in_synthetic_records_although_counts_are_too_noisy(counting):
    table, pay = people(600)
    truth = pay[np.asarray(table.columns[1]) == 1].mean() - pay[np.asarray(table.columns[1]) == 0].mean()
    off = {"with": [], "without": []}
    for seed in range(6):
        mechanism = NumberSums(["mean:pay by sex"], mechanism=counting)
        with qr.Ledger.open(None, COST) as ledger:
            found = qr.Curator(table, ledger, qr.Entropy.insecure(seed)).release(
                mechanism, qr.Workload.marginals(DOMAIN, k=2), COST
            )
            counted = qr.Curator(table, qr.Ledger.open(None, COST), qr.Entropy.insecure(seed)).release(
                counting, qr.Workload.marginals(DOMAIN, k=2), qr.ApproxDP(0.5, 5e-7)
            )
        for name, release in (("with", found), ("without", counted)):
            frame = release.synthetic(seed=1, frame="pandas")
            means = frame.groupby("sex")["pay"].mean()
            off[name].append(means.iloc[1] - means.iloc[0] - truth)
        published = found.mean("pay", by="sex").value
        assert abs(off["with"][-1] + truth - np.diff(published)[0]) < 0.3 * GAP
    with_sums, without = (float(np.sqrt(np.mean(np.square(off[name])))) for name in ("with", "without"))
    assert with_sums < 0.6 * without


def test_where_counts_are_known_well_nothing_moves():
    table, _ = people(60_000)
    mechanism = NumberSums(["mean:pay by sex"], mechanism=FittedRecords())
    cost = qr.ApproxDP(20.0, 1e-6)
    with qr.Ledger.open(None, cost) as ledger:
        found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).release(
            mechanism, qr.Workload.marginals(DOMAIN, k=2), cost
        )
    sums, synopsis = found.measured_sums, found.synopsis
    again = follow(synopsis, sums, found.measurements)
    assert np.abs(again.weights - synopsis.weights).sum() < 0.01
    # Of a measured mean that cannot be of these counts, they take next to nothing.
    (first, *rest) = sums.measured
    moved = replace(sums, measured=(replace(first, values=first.values * 1.2), *rest))
    assert np.abs(follow(synopsis, moved, found.measurements).weights - synopsis.weights).sum() < 0.1


def test_a_table_of_nobody_and_one_without_sums_stay_as_they_are():
    table, _ = people(600)
    with qr.Ledger.open(None, COST) as ledger:
        found = qr.Curator(table, ledger, qr.Entropy.insecure(2)).release(
            NumberSums(["quantile(.5):pay by sex"], mechanism=FittedRecords()), qr.Workload.marginals(DOMAIN, k=1), COST
        )
    assert follow(found.synopsis, found.measured_sums, found.measurements) is found.synopsis
    nobody = replace(found.synopsis, total=0.0)
    assert follow(nobody, found.measured_sums, found.measurements) is nobody
