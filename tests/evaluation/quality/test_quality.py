"""The figures of a quality report: against their definitions, and on tables of which it is known how good they are."""

import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality import page
from qrelease.evaluation.quality.copies import part
from qrelease.evaluation.quality.published import Published
from qrelease.evaluation.quality.quality import quality
from tests.evaluation.quality.tables import DOMAIN, INDEPENDENT, OTHER, REAL, by_definition, rows


@pytest.fixture
def _without_models(not_installed):
    """As where scikit-learn is not installed, whose models take a second."""
    not_installed("sklearn")


@pytest.mark.usefixtures("_without_models")
@pytest.mark.parametrize("share", [0.03, 0.15, 0.4])
def test_a_sample_of_the_real_table_is_worth_its_share(share):
    kept = np.random.default_rng(3).permutation(len(REAL))[: int(share * len(REAL))]
    found = quality(REAL, part(REAL, kept), targets=[])
    assert share / 1.6 < found.subsample < share * 1.6


def test_good_and_bad_tables_are_told_apart():
    pytest.importorskip("sklearn")
    good, bad = quality(REAL, OTHER, targets=["pay"]), quality(REAL, INDEPENDENT, targets=["pay"])
    off = [1000 - score for score in (good.k_marginal[3].synthetic, good.k_marginal[3].floor)]
    assert 1.2 < off[0] / off[1] < 1.7  # two samples differ √2 times as much as one of them and a sample of it
    assert bad.k_marginal[3].synthetic == pytest.approx(bad.k_marginal[3].independent, abs=12)
    assert bad.k_marginal[3].synthetic < 750 < 900 < good.k_marginal[3].synthetic
    assert good.told[0].auc < 0.56 < 0.7 < bad.told[0].auc
    assert good.told[0].pmse_ratio < 3
    assert good.told[1].auc < 0.56 < 0.7 < good.told[2].auc
    assert bad.told[0].auc == pytest.approx(bad.told[2].auc, abs=0.05)
    assert abs(good.learned[0].from_synthetic[0] - good.learned[0].from_real[0]) < 0.05
    assert bad.learned[0].from_synthetic[0] < 0.6 < 0.8 < bad.learned[0].from_real[0]
    assert bad.regressed[0].overlap.synthetic < 0 < 0.5 < good.regressed[0].overlap.synthetic
    assert bad.association.synthetic > 10 * good.association.synthetic
    assert {w.columns for w in bad.worst[2]} >= {("age", "pay"), ("pay", "time")}


@pytest.mark.usefixtures("_without_models")
def test_scores_over_sets_at_random_can_be_computed_by_the_sets_that_are_named():
    """Of nine columns there are 126 sets of four and of five, of which 100 are looked at."""
    domain, rng = Domain.coded({f"c{i}": 3 for i in range(9)}), np.random.default_rng(2)
    one, other = (Table(domain, tuple(rng.integers(0, 3, (9, n)).astype(np.uint8))) for n in (300, 200))
    found = quality(one, other)
    sets = found.to_json()["k_marginal_sets"]
    assert [sets[k] for k in "123"] == ["all"] * 3
    for k in (4, 5):
        axes = [tuple(domain.names.index(name) for name in names) for names in sets[str(k)]]
        assert len({*axes}) == 100
        assert abs(found.k_marginal[k].synthetic - by_definition(one, other, axes)) < 1e-9
    assert "100 of 126 sets, drawn at random" in page.html(found)


@pytest.mark.usefixtures("_without_models")
def test_columns_of_the_text_stand_under_each_other_however_long_names_are():
    name = "the_" + 10 * "very_" + "long_name"
    long = Domain(tuple(replace(a, name=name) if a.name == "sex" else a for a in DOMAIN))
    real, other = (Table(long, table.columns) for table in (REAL, OTHER))
    found = quality(real, other, targets=[name])
    found = replace(found, published=(Published(f"mean:pay by {name}", 9, 1234.5, 9, 2000.25, 1.0),) * 2)
    lines = str(found).splitlines()
    header, of_target = lines[1], next(line for line in lines if line.startswith("overlap of intervals"))
    assert of_target.startswith(f"overlap of intervals, {name}  ")
    assert header.endswith("independent")
    assert sum(line.startswith("floor: of as many records drawn anew from the real ones") for line in lines) == 1
    assert "of which each value was drawn by itself from its column" in page.html(found)
    assert len(of_target) == len(header)
    head, *told = lines[-len(found.skipped) - 3 :][:3]
    assert [len(line) for line in told] == [len(head)] * 2
    assert told[0].split() == ["mean:pay", "by", name, "1234", "2000", "100.0%", "of", "9"]


@pytest.mark.usefixtures("_without_models")
def test_without_scikit_learn_the_report_says_what_it_skipped():
    found = quality(REAL, OTHER)
    assert found.told is None
    assert found.learned == ()
    assert "scikit-learn is not installed" in str(found)
    assert found.to_json()["told_apart"] is None
    assert "scikit-learn" in page.html(found)


def test_what_cannot_be_compared_is_one_clear_error():
    for other in (part(OTHER, slice(0, 0)), Table(Domain.coded({"a": 2}), (np.zeros(90, np.uint8),))):
        with pytest.raises(qr.InvalidInput):
            quality(REAL, other)
    with pytest.raises(qr.InvalidInput):
        quality(REAL, OTHER, targets=["nobody"])


@pytest.mark.parametrize(("rows_of_real", "rows_of_other"), [(1, 30), (30, 1), (1, 1), (19, 40)])
def test_the_score_of_few_records_is_its_definition_and_the_rest_is_skipped(rows_of_real, rows_of_other, tmp_path):
    real, other = part(REAL, slice(0, rows_of_real)), part(OTHER, slice(0, rows_of_other))
    found = quality(real, other)
    for k, beside in found.k_marginal.items():
        sets = tuple(itertools.combinations(range(4), k))
        assert abs(beside.synthetic - by_definition(real, other, sets)) < 1e-9
    assert (found.told, found.copied, found.subsample, found.learned) == (None, None, None, ())
    content = json.loads(found.to_json_text())
    assert (content["copies"], content["told_apart"], content["equivalent_subsample"]) == (None, None, None)
    page.write_page(found, tmp_path)
    for shown in (str(found), (tmp_path / "quality.html").read_text()):
        assert "they take 20 records of each table" in shown
        assert "as good as" not in shown


@pytest.mark.usefixtures("_without_models")
def test_the_score_of_a_wide_table_is_over_all_its_sets_of_three():
    """Of 24 columns, as tables of the Collaborative Research Cycle have: 2,024 sets."""
    domain, rng = Domain.coded({f"c{i}": 2 for i in range(24)}), np.random.default_rng(4)
    one, other = (Table(domain, tuple(rng.integers(0, 2, (24, n)).astype(np.uint8))) for n in (40, 30))
    found = quality(one, other, targets=[])
    assert found.to_json()["k_marginal_sets"]["3"] == "all"
    wanted = by_definition(one, other, itertools.combinations(range(24), 3))
    assert abs(found.k_marginal[3].synthetic - wanted) < 1e-9


def test_few_columns_and_constant_ones_are_judged_too():
    one = Domain.coded({"a": 3})
    small = Table(one, (np.arange(60, dtype=np.uint8) % 3,))
    found = quality(small, small)
    assert found.k_marginal.keys() == {1}
    assert math.isnan(found.correlation.synthetic)  # of one column there are none: null in JSON, which has no NaN
    assert json.loads(found.to_json_text())["mean_correlation_gap"] == dict.fromkeys(
        ("synthetic", "floor", "independent")
    )
    assert re.search(r"mean gap of correlations +- +- +-$", str(found), re.MULTILINE)
    constant = Table(Domain.coded({"a": 3, "b": 1}), (np.zeros(60, np.uint8), np.zeros(60, np.uint8)))
    assert quality(constant, constant, targets=["a"]).k_marginal[2].synthetic == 1000


def written(file, table):
    lines = [",".join(DOMAIN.names), *(f"{r[0]},{'FM'[r[1]]},{r[2]},{r[3]}" for r in rows(table))]
    file.write_text("\n".join(lines) + "\n")


SCHEMA = """
[[attribute]]
name = "{}"
kind = "number"
integer = true
bins = {}
"""


@pytest.mark.usefixtures("_without_models")
def test_the_command_judges_a_release_and_any_table(in_folder, capsys):
    numbers = {a.name: list(range(a.size + 1)) for a in DOMAIN.attributes if a.kind == "number"}
    texts = [SCHEMA.format(name, bins) for name, bins in numbers.items()]
    category = '[[attribute]]\nname = "sex"\nkind = "category"\ncategories = ["F", "M"]\n'
    (in_folder / "people.toml").write_text(category + "".join(texts))
    written(in_folder / "people.csv", part(REAL, slice(0, 500)))
    written(in_folder / "fake.csv", part(OTHER, slice(0, 300)))
    given = ["people.csv", "--schema", "people.toml"]
    release = ["release", *given, "--mechanism", "mwem", "--workload", "marginals:2", "--epsilon", "2", "--out", "out"]
    assert main([*release, "--insecure-seed", "1"]) == 0
    capsys.readouterr()
    assert main(["evaluate", *given, "--release", "out", "--out", "seen"]) == 0
    shown = capsys.readouterr()
    assert "3-marginal score" in shown.out
    assert "NOT PRIVATE" in shown.err
    assert sorted(f.name for f in (in_folder / "seen").iterdir()) == ["quality.html", "quality.json"]
    assert main(["evaluate", *given, "--synthetic", "fake.csv", "--targets", "all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == {"real": 500, "synthetic": 300}
    assert main([*release[:-1], "heavy", "--weighted", "--insecure-seed", "1"]) == 0
    assert main(["evaluate", *given, "--release", "heavy"]) == 0
    for bad in (["--targets", "sex"], ["--release", "none"], ["--release", "out", "--columns", "sex"]):
        capsys.readouterr()
        assert main(["evaluate", *given, *bad]) == 2
        assert capsys.readouterr().err.count("\n") == 1


NUMBERS = Domain(
    (
        qr.Attribute("age", "number", edges=(0, 30, 60, 90), within=(0, 89), step=1, integer=True, missing=("",)),
        qr.Attribute("pay", "number", edges=(0, 10, 20)),
        qr.Attribute("sex", "category", categories=("F", "M")),
    )
)


@pytest.mark.usefixtures("_without_models")
@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_frames_of_any_tool_are_judged_with_the_means_of_their_numbers(frame):
    library = pytest.importorskip(frame)
    rng = np.random.default_rng(5)
    pay, sex = rng.uniform(0, 20, 40), ["F", "M"] * 20
    real, other = (library.DataFrame({"age": ages, "pay": pay, "sex": sex}) for ages in (range(40), range(10, 50)))
    holes = [*map(str, range(30)), *[""] * 10]
    found = qr.quality(qr.Table.from_frame(real, NUMBERS), other, targets=[])
    age, of_bins = found.numbers
    assert age.column == "age"
    assert age.mean == pytest.approx((19.5, 29.5))
    assert age.deviation == pytest.approx((np.arange(40).std(),) * 2)
    assert of_bins.mean == pytest.approx((np.where(pay < 10, 5, 15).mean(),) * 2)
    assert "age: mean 29.5, of the real 19.5" in str(found)
    assert found.to_json()["numbers"][0]["mean"] == {"real": pytest.approx(19.5), "synthetic": pytest.approx(29.5)}
    assert "29.5" in page.html(found)
    lost = library.DataFrame({"age": holes, "pay": pay, "sex": sex})
    assert qr.quality(qr.Table.from_frame(real, NUMBERS), lost, targets=[]).numbers[0].mean[1] == pytest.approx(14.5)


@pytest.mark.usefixtures("_without_models")
def test_where_one_table_has_bins_alone_both_are_taken_by_them():
    codes = np.arange(40) % 3
    bins = Table(NUMBERS, (codes, codes % 2, codes % 2))
    exact = Table.from_frame(bins_frame(codes), NUMBERS)
    (age, _) = qr.quality(exact, bins, targets=[]).numbers
    assert age.mean[0] == age.mean[1]


def bins_frame(codes):
    """Records at the lower ends of the bins."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"age": codes * 30, "pay": codes % 2 * 10.0, "sex": np.array(["F", "M"])[codes % 2]})
