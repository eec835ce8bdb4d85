"""One answer to a count, at every door of a release: that of the synopsis, or the one measured with numbers."""

import csv
import io
from functools import cache

import numpy as np
import pytest
from releases import released

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.errors import ModelAloneWarning
from qrelease.inference.synopsis import SelfAssessed
from qrelease.release.published_counts import as_cell, from_numbers

EDGES = (0, 10_000, 20_000, 30_000, 50_000, 100_000, 400_000)
DOMAIN = qr.Domain(
    (
        qr.Attribute("region", "category", categories=("north", "south", "west")),
        qr.Attribute("sex", "category", categories=("f", "m")),
        qr.Attribute("income", "number", edges=EDGES, within=(0, 399_999), step=1),
    )
)
MECHANISMS = {
    "maxent": qr.MaxEnt(),
    "laplace": qr.Laplace(),
    "records": qr.FittedRecords(),
    "together": None,
}


def people(seed=0, n=3_000):
    rng = np.random.default_rng(seed)
    region, sex = rng.choice(3, n, p=[0.6, 0.35, 0.05]), rng.choice(2, n)
    income = np.minimum(rng.lognormal(10.2 + 0.3 * sex, 0.5, n), 399_999).astype(np.int64)
    return region, sex, income


@cache
def made(mechanism, seed=3, epsilon=0.5, share=0.5, asked=("mean:income", "mean:income by region")):
    region, sex, income = people()
    bins = (np.searchsorted(EDGES, income, side="right") - 1).astype(np.uint8)
    table = qr.Table(DOMAIN, (region, sex, bins), points=(None, None, income))
    cost = qr.PureDP(epsilon)
    with qr.Ledger.open(None, cost) as ledger:
        sums = qr.NumberSums(asked, mechanism=MECHANISMS[mechanism], share=share)
        return qr.Curator(table, ledger, qr.Entropy.insecure(seed)).release(
            sums, qr.Workload.marginals(DOMAIN, 2), cost
        )


CELLS = [("region",), ("sex",), ("region", "sex"), ("region", "income")]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("share", [0.9, 0.02])
def test_a_count_is_the_same_at_every_door(mechanism, share):
    release = made(mechanism, share=share)
    for names in CELLS:
        marginal = release.marginal(list(names), details=True)
        counts = release.table(f"count by {'*'.join(names)}")
        assert marginal["answer"].tolist() == pytest.approx(counts["value"].tolist())
        assert counts["n"].tolist() == pytest.approx(counts["value"].tolist()) or from_numbers(
            release, tuple(DOMAIN.axis(name) for name in names)
        )
        for at in range(len(marginal)):
            texts = [f"{name} {'in' if name == 'income' else '='} {marginal[name][at]}" for name in names]
            found = release.answer(" and ".join(texts))
            assert found.value == pytest.approx(marginal["answer"][at])
            assert found.model_error == pytest.approx(marginal["model_95"][at])
            assert found.noisy == pytest.approx(marginal["noisy"][at], nan_ok=True)
        axes = tuple(DOMAIN.axis(name) for name in names)
        ends = np.maximum(marginal["answer"] - marginal["model_95"], 0), marginal["answer"] + marginal["model_95"]
        low, high = counts["low_95"].to_numpy(), counts["high_95"].to_numpy()
        if isinstance(release.synopsis, SelfAssessed) and not from_numbers(release, axes):
            continue  # a model's bars, or what was measured, if that is nearer over all groups
        assert (low >= ends[0] - 1e-6).all()
        assert (high <= ends[1] + 1e-6).all()
        assert (np.isclose(low, ends[0], rtol=1e-5, atol=1e-5) | np.isclose(high, ends[1], rtol=1e-5, atol=1e-5)).all()


@pytest.mark.parametrize("mechanism", ["together", "laplace"])
def test_no_interval_of_a_count_goes_below_0_or_is_empty(mechanism):
    """At so much noise that many a noisy count is far below 0."""
    below = 0
    for seed in range(10):
        release = made(mechanism, seed=seed, epsilon=0.02, share=0.02)
        counts = release.table("count by region*sex", intervals=True)
        below += int((counts["unbiased"] < 0).sum())
        assert (counts["low_95"] >= 0).all()
        assert (counts["value"] >= 0).all()
        assert (counts["high_95"] - counts["low_95"] > 10).all()
    assert below > 2


def test_bars_of_a_workload_that_the_synopsis_cannot_answer_are_nan():
    """As the method says, whether numbers were measured besides or not."""
    pairs, one = qr.Workload.marginals(DOMAIN, [["region", "sex"]]), qr.Workload.marginals(DOMAIN, [["sex"]])
    cost = qr.PureDP(1.0)
    for asked in ((), ("mean:income by sex",)):
        with qr.Ledger.open(None, cost) as ledger:
            region, sex, income = people()
            bins = (np.searchsorted(EDGES, income, side="right") - 1).astype(np.uint8)
            table = qr.Table(DOMAIN, (region, sex, bins), points=(None, None, income))
            mechanism = qr.NumberSums(asked, mechanism=qr.Laplace()) if asked else qr.Laplace()
            release = qr.Curator(table, ledger, qr.Entropy.insecure(1)).release(mechanism, one, cost)
        noisy, widths = release.error_bars(pairs + one)
        assert np.isnan(noisy).tolist() == np.isnan(widths).tolist() == [True] * 6 + [False] * 2


def test_files_and_terminal_have_the_same_counts(tmp_path, capsys):
    release = made("maxent", asked=("count by region*sex", "mean:income by region*sex"), share=0.9)
    release.save(tmp_path / "out", 10)
    with (tmp_path / "out" / "answers.csv").open(encoding="utf-8") as file:
        of_file = {
            (r["region"], r["sex"]): float(r["answer"]) for r in csv.DictReader(file) if r["region"] and r["sex"]
        }
    with (tmp_path / "out" / "numbers.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    counts = [r for r in rows if r["question"].startswith("count")]
    means = [r for r in rows if r["question"].startswith("mean")]
    assert [float(r["value"]) for r in counts] == pytest.approx(list(of_file.values()), rel=1e-4)
    assert [float(r["n"]) for r in means] == pytest.approx(list(of_file.values()), rel=1e-4)
    main(["answer", str(tmp_path / "out"), "region = west and sex = f", "--format", "csv"])
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(line["answer"]) == pytest.approx(of_file["west", "f"])
    assert "not alike" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_the_nearer_of_two_is_published():
    """Counts by region are measured with much of the cost for the numbers; with little, they add to the others."""
    region, _, _ = people()
    true = np.bincount(region, minlength=3)
    for share in (0.9, 0.02):
        found = made("laplace", share=share)
        bars = found.marginal("region")["model_95"]
        alone = found.measured_bars(qr.Workload.marginals(DOMAIN, [["region"]]))[1]
        assert from_numbers(found, (0,))
        assert (bars < alone).all()
        assert (np.abs(found.marginal("region")["answer"] - true) <= 2 * bars).all()
    model = made("maxent", share=0.02)
    for axes in [(0, 1), (0, 2)]:  # the model knows how far off it is, and is published where that is less
        marginal = qr.Workload.marginals(DOMAIN, [[DOMAIN.names[a] for a in axes]])
        of_model = np.sqrt(np.mean(model.synopsis.model_bars(marginal) ** 2))
        assert np.sqrt(np.mean(model.model_bars(marginal) ** 2)) <= of_model + 1e-9
    assert not from_numbers(model, (0, 2))


def test_which_is_published_does_not_depend_on_what_was_measured_of_whom():
    """Where the synopsis does not tell how far off it is: from the variances of the noise alone."""
    said = {tuple(from_numbers(made("laplace", seed=seed), axes) for axes in [(0,), (1,), (0, 1)]) for seed in range(4)}
    assert len(said) == 1


def test_published_bars_hold_as_often_as_they_say():
    region, _, _ = people()
    true = np.bincount(region, minlength=3)
    within = []
    for seed in range(60):
        found = made("laplace", seed=seed).marginal("region")
        within += (np.abs(found["answer"] - true) <= found["model_95"]).tolist()
    assert 0.91 <= np.mean(within) <= 0.99


def test_a_condition_of_one_cell_is_that_cell_and_others_are_conditions():
    asked, place = as_cell(qr.Workload.predicates(DOMAIN, "region = west and sex = m"))
    assert (asked.groups[0].axes, len(asked), place) == ((0, 1), 6, 5)
    for text in ("region = west or sex = m", "income >= 20000"):
        asked = qr.Workload.predicates(DOMAIN, text)
        assert as_cell(asked) == (asked, 0)


def test_a_release_without_numbers_is_its_synopsis():
    release = released()
    assert release.answers().tolist() == release.synopsis.answer(release.workload).tolist()
    assert not from_numbers(release, release.workload.groups[0].axes)


def test_means_by_a_group_that_was_not_measured_agree_with_the_measured_mean_of_all():
    """They are read off wide bins, whose middles are far from where the incomes are; and stay in their intervals."""
    release = made("maxent", epsilon=5.0)
    everybody, groups = release.mean("income"), release.mean("income", by="sex")
    together = float(np.average(groups["value"], weights=groups["n"]))
    assert together == pytest.approx(everybody["value"][0], rel=1e-6)
    assert (groups["low_95"] <= groups["value"]).all()
    assert (groups["value"] <= groups["high_95"]).all()
    with pytest.warns(ModelAloneWarning):
        both = release.mean("income", by=["region", "sex"])
    of_region = release.mean("income", by="region")
    for at, name in enumerate(of_region["region"]):
        own = both[both["region"] == name]
        assert float(np.average(own["value"], weights=own["n"])) == pytest.approx(of_region["value"][at], rel=1e-6)
    total, parts = release.sum("income"), release.sum("income", by="sex")
    assert len(total) == 1
    assert set(parts["source"]) == {"measured"}


def test_means_that_agree_are_nearer_to_the_truth():
    _, sex, income = people()
    true = np.array([income[sex == s].mean() for s in range(2)])
    off, before = [], []
    for seed in range(20):
        found = made("maxent", seed=seed, epsilon=2.0, asked=("mean:income",)).mean("income", by="sex")
        alone = made("maxent", seed=seed, epsilon=2.0, asked=("sum:income by region where sex = f",)).mean(
            "income", by="sex"
        )
        off.append(found["value"] - true)
        before.append(alone["value"] - true)
    assert np.sqrt(np.mean(np.square(off))) < 0.8 * np.sqrt(np.mean(np.square(before)))


def test_a_measured_mean_that_tells_less_than_the_bins_moves_nothing():
    release = made("maxent", share=0.0005)
    assert release.mean("income")["source"][0] == "bounds"
    groups = release.mean("income", by="sex")
    assert (groups["value"] < 60_000).all()
