"""The figures of a quality report: against their definitions, and on tables of which it is known how good they are."""

import itertools
import json
import math
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats.contingency import association

import qrelease as qr
from qrelease.apps.cli import main
from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality import models, page
from qrelease.evaluation.quality.associations import Coefficient, correlations, cramers_v, overlap, regression
from qrelease.evaluation.quality.copies import copies, part
from qrelease.evaluation.quality.marginals import counts_of, distances, score, sets_of
from qrelease.evaluation.quality.quality import quality


def ordered(name, size):
    return Attribute(name, "number", edges=tuple(range(size + 1)), integer=True)


DOMAIN = Domain(
    (ordered("age", 8), Attribute("sex", "category", categories=("F", "M")), ordered("pay", 6), ordered("time", 5))
)


def population(n, seed):
    """Records whose columns go together."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 8, n)
    sex = (rng.random(n) < 0.3 + 0.05 * age).astype(int)
    pay = np.clip(age // 2 + sex + rng.integers(-1, 2, n), 0, 5)
    time = np.clip(pay - rng.integers(0, 3, n), 0, 4)
    return Table(DOMAIN, tuple(c.astype(np.uint8) for c in (age, sex, pay, time)))


REAL = population(4000, 1)

OTHER = population(4000, 2)

INDEPENDENT = Table(DOMAIN, tuple(np.random.default_rng(7 + i).permutation(c) for i, c in enumerate(REAL.columns)))


def rows(table):
    return list(zip(*(c.tolist() for c in table.columns), strict=True))


def by_definition(real, synthetic, sets):
    """The k-marginal score as it is defined, without any of the package's arithmetic."""
    found = []
    for axes in sets:
        one, other = (Counter(tuple(r[a] for a in axes) for r in rows(t)) for t in (real, synthetic))
        found.append(math.fsum(abs(one[c] / len(real) - other[c] / len(synthetic)) for c in {*one, *other}))
    return (2 - math.fsum(found) / len(found)) * 500


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("other", [OTHER, INDEPENDENT, part(OTHER, slice(0, 37))], ids=["alike", "independent", "few"])
def test_the_score_is_its_definition(k, other):
    sets = sets_of(4, k, 100)
    assert sets == tuple(itertools.combinations(range(4), k))
    wanted = by_definition(REAL, other, sets)
    assert abs(score(distances(REAL, [other], sets)[0]) - wanted) < 1e-9
    assert score(distances(REAL, [REAL], sets)[0]) == 1000


def test_the_score_of_large_marginals_is_its_definition_too():
    """They are counted by what occurs."""
    domain, rng = Domain((ordered("a", 2000), ordered("b", 1000))), np.random.default_rng(0)
    one, other = (Table(domain, (rng.integers(0, 99, n), rng.integers(0, 9, n))) for n in (900, 700))
    wanted = by_definition(one, other, [(0, 1)])
    assert 0 < wanted < 999
    assert abs(score(distances(one, [other], [(0, 1)])[0]) - wanted) < 1e-9
    assert score(distances(one, [one], [(0, 1)])[0]) == 1000


@pytest.fixture
def _without_models(not_installed):
    """As where scikit-learn is not installed, whose models take a second."""
    not_installed("sklearn")


def test_sets_drawn_at_random_are_distinct_and_always_the_same():
    sets = sets_of(20, 4, 50)
    assert len(set(sets)) == 50
    assert all(list(s) == sorted(set(s)) for s in sets)
    assert sets == sets_of(20, 4, 50)
    with pytest.raises(qr.InvalidInput):
        sets_of(3, 4, 50)


def test_associations_are_those_of_other_libraries():
    counts = counts_of([REAL], (0, 2))[0].reshape(8, 6)
    assert cramers_v(REAL, 0, 2) == pytest.approx(association(counts[:, counts.sum(axis=0) > 0], method="cramer"))
    values = np.column_stack(REAL.columns).astype(float)
    np.testing.assert_allclose(correlations(REAL, range(4)), np.corrcoef(values.T), atol=1e-12)
    constant = Table(DOMAIN, (np.zeros(9, np.uint8), *(c[:9] for c in REAL.columns[1:])))
    assert cramers_v(constant, 0, 1) == 0.0
    assert not np.isnan(correlations(constant, range(4))).any()


def test_intervals_of_coefficients_hold_as_often_as_they_say():
    """Of records whose regression is known; half the width holds too rarely."""
    truth, held, half = {c.name: c.value for c in regression(population(400_000, 99), 2, [0, 1, 3])}, 0, 0
    for seed in range(100, 200):
        for c in regression(population(400, seed), 2, [0, 1, 3]):
            held += abs(c.value - truth[c.name]) <= c.width
            half += abs(c.value - truth[c.name]) <= c.width / 2
    assert 270 <= held <= 297  # of 300, 285 are expected
    assert half < 240


def test_overlaps_of_intervals():
    one = Coefficient("a", 0.0, 1.0)
    assert overlap(one, one) == 1.0
    assert overlap(one, Coefficient("a", 0.0, 2.0)) == 0.75
    assert overlap(one, Coefficient("a", 4.0, 1.0)) == -1.0


def test_copies_are_told_from_a_second_sample():
    wide = Domain.coded({f"c{i}": 30 for i in range(5)})
    rng = np.random.default_rng(0)
    real = Table(wide, tuple(rng.integers(0, 30, 1000).astype(np.uint8) for _ in range(5)))
    fresh = Table(wide, tuple(rng.integers(0, 30, 1000).astype(np.uint8) for _ in range(5)))
    ours, second = copies(real, fresh, np.random.default_rng(1))
    assert (ours.unique, second.unique, ours.same) == (0.0, 0.0, 0.0)
    assert ours.nearest_median == pytest.approx(second.nearest_median, abs=0.2)
    copied, _ = copies(real, real, np.random.default_rng(1))
    assert copied.unique > 0.3
    assert copied.same > 0.3
    assert copied.nearest_low == 0.0


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
    assert abs(good.learned[0].from_synthetic[0] - good.learned[0].from_real[0]) < 0.05
    assert bad.learned[0].from_synthetic[0] < 0.6 < 0.8 < bad.learned[0].from_real[0]
    assert bad.regressed[0].overlap.synthetic < 0 < 0.5 < good.regressed[0].overlap.synthetic
    assert bad.association.synthetic > 10 * good.association.synthetic
    assert {w.columns for w in bad.worst[2]} >= {("age", "pay"), ("pay", "time")}


def test_two_samples_of_one_population_have_a_ratio_near_one():
    """The null of the propensity score, on average; that of half as many effects would be twice as far."""
    pytest.importorskip("sklearn")
    ratios = [
        models.told_apart(population(1500, s), population(1500, 50 + s), np.random.default_rng(s)).pmse_ratio
        for s in range(12)
    ]
    assert 0.5 < np.mean(ratios) < 1.6


def test_a_column_that_another_gives_exactly_is_foretold_though_some_of_its_cells_are_rare():
    """Where boosting without a penalty diverges: there the area is 0.60."""
    pytest.importorskip("sklearn")
    domain, rng = Domain.coded({"a": 16, "b": 16, **{f"c{i}": 8 for i in range(5)}}), np.random.default_rng(4)
    a = rng.choice(16, 12_000, p=0.7 ** np.arange(16) / (0.7 ** np.arange(16)).sum())
    b = np.random.default_rng(5).permutation(16)[a]
    table = Table(domain, (a, b, *(rng.integers(0, 8, 12_000) for _ in range(5))))
    assert min(models.foretold(part(table, slice(0, 6000)), part(table, slice(6000, 12_000)), 1)) > 0.97


class Links(HTMLParser):
    """What a page loads, and whether its elements are closed."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.scripts = [], [], 0

    def handle_starttag(self, tag, attributes):
        self.loads += [v for k, v in attributes if k in ("src", "href", "xlink:href")]
        self.scripts += tag == "script"
        if tag not in ("meta", "br", "rect", "path", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("rect", "path", "circle"):
            assert self.open.pop() == tag


def test_the_page_is_whole_loads_nothing_and_says_that_it_is_private(tmp_path):
    name = "<script>x</script>"
    found = quality(REAL, INDEPENDENT, name=name, targets=["sex"])
    page.write(found, tmp_path)
    text = (tmp_path / "quality.html").read_text()
    reader = Links()
    reader.feed(text)
    assert (reader.open, reader.loads, reader.scripts) == ([], [], 0)
    assert "NOT PRIVATE" in text
    assert "k-marginal" in text
    content = json.loads((tmp_path / "quality.json").read_text())
    assert content["notice"].startswith("NOT PRIVATE")
    assert content["k_marginal"]["3"]["synthetic"] == found.k_marginal[3].synthetic
    assert content["k_marginal_sets"] == dict.fromkeys("1234", "all")
    assert "private" in repr(found)


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
def test_without_scikit_learn_the_report_says_what_it_skipped():
    found = quality(REAL, OTHER)
    assert found.told is None
    assert found.learned == ()
    assert "scikit-learn is not installed" in str(found)
    assert found.to_json()["told_apart"] is None
    assert "scikit-learn" in page.html(found)


def test_what_cannot_be_compared_is_one_clear_error():
    for other in (part(OTHER, slice(0, 3)), Table(Domain.coded({"a": 2}), (np.zeros(90, np.uint8),))):
        with pytest.raises(qr.InvalidInput):
            quality(REAL, other)
    with pytest.raises(qr.InvalidInput):
        quality(REAL, OTHER, targets=["nobody"])


def test_few_columns_and_constant_ones_are_judged_too():
    one = Domain.coded({"a": 3})
    small = Table(one, (np.arange(60, dtype=np.uint8) % 3,))
    assert quality(small, small).k_marginal.keys() == {1}
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
