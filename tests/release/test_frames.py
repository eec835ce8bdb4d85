"""Synthetic columns with types, and marginals as data frames."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from releases import PAIRS
from worlds import (
    random_table,
)

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.entropy import Entropy
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

TYPED = Domain(
    (
        Attribute("sex", "category", categories=("F", "M"), missing=("",)),
        Attribute("age", "number", edges=(18, 30, 40, 70), integer=True, missing=("-1",)),
        Attribute("born", "date", edges=(0, 100, 365), missing=("?",)),
        Attribute("height", "number", edges=(1.0, 1.5, 2.0)),
        Attribute("code", "coded", codes=4),
    )
)


def typed(mechanism=None):
    table = random_table(TYPED, 400, 0)
    with Ledger.open(None, PureDP(5.0)) as ledger:
        asked = Workload.marginals(TYPED, 2)
        return Curator(table, ledger, Entropy.insecure(3)).release(mechanism or MWEM(rounds=3), asked, PureDP(5.0))


def test_synthetic_columns_have_types_and_missing_values():
    found = typed()
    arrays = found.synthetic(200, seed=1)
    kinds = {name: column.dtype.kind for name, column in arrays.items()}
    assert kinds == {"sex": "O", "age": "f", "born": "M", "height": "f", "code": "i"}
    assert any(v is None for v in arrays["sex"].tolist())
    assert np.isnan(arrays["age"]).any()
    assert np.isnat(arrays["born"]).any()
    pandas = found.synthetic(200, seed=1, frame="pandas")
    assert str(pandas["age"].dtype) == "Int64"
    assert pandas["age"].mean() == pytest.approx(np.nanmean(arrays["age"]))
    polars = found.synthetic(200, seed=1, frame="polars")
    assert [str(kind) for kind in polars.dtypes] == ["String", "Int64", "Date", "Float64", "Int64"]
    arrow = found.synthetic(200, seed=1, frame="arrow")
    assert [str(kind) for kind in arrow.schema.types] == ["string", "int64", "date32[day]", "double", "int64"]
    nulls = [int(n) for n in pandas.isna().sum()]
    assert nulls == [polars[name].null_count() for name in TYPED.names] == [arrow[n].null_count for n in TYPED.names]
    assert nulls[0] > 0
    tables = [Table.from_frame(frame, TYPED) for frame in (pandas, polars, arrow)]
    for columns in zip(*(t.columns for t in tables), found.codes(200, np.random.default_rng(1)), strict=True):
        assert all(np.array_equal(columns[-1], column) for column in columns)


def test_a_column_of_bools_comes_back_as_bools():
    """True and false, with or without missing ones; categories that only resemble them stay texts."""
    domain = Domain(
        (
            Attribute("flag", "category", categories=("false", "true")),
            Attribute("maybe", "category", categories=("True", "False"), missing=("",)),
            Attribute("word", "category", categories=("true", "false", "unknown")),
        )
    )
    table = random_table(domain, 400, 0)
    with Ledger.open(None, PureDP(5.0)) as ledger:
        asked = Workload.marginals(domain, 2)
        made = Curator(table, ledger, Entropy.insecure(3)).release(MWEM(rounds=3), asked, PureDP(5.0))
    codes = made.codes(200, np.random.default_rng(1))
    arrays = made.synthetic(200, seed=1)
    assert {name: column.dtype.kind for name, column in arrays.items()} == {"flag": "b", "maybe": "O", "word": "O"}
    assert sum(value is None for value in arrays["maybe"]) > 0
    assert {*arrays["word"]} == {"true", "false", "unknown"}
    pandas = made.synthetic(200, seed=1, frame="pandas")
    assert [str(kind) for kind in pandas.dtypes[:2]] == ["bool", "boolean"]
    polars = made.synthetic(200, seed=1, frame="polars")
    assert [str(kind) for kind in polars.dtypes] == ["Boolean", "Boolean", "String"]
    arrow = made.synthetic(200, seed=1, frame="arrow")
    assert [str(kind) for kind in arrow.schema.types] == ["bool", "bool", "string"]
    nulls = polars["maybe"].null_count()
    assert nulls == pandas["maybe"].isna().sum() == arrow["maybe"].null_count > 0
    assert arrays["flag"].tolist() == polars["flag"].to_list() == pandas["flag"].tolist()
    assert {*np.unique(codes[0])} == {0, 1}


def ranked():
    """A release of columns whose categories are in an order that no alphabet has, and of one that has no order."""
    domain = Domain(
        (
            Attribute("size", "category", categories=("small", "medium", "large"), ordered=True, missing=("?", "")),
            Attribute("grade", "category", categories=("low", "high"), ordered=True),
            Attribute("town", "category", categories=("Ulm", "Bonn")),
        )
    )
    table = random_table(domain, 400, 0)
    with Ledger.open(None, PureDP(5.0)) as ledger:
        asked = Workload.marginals(domain, 2)
        return Curator(table, ledger, Entropy.insecure(3)).release(MWEM(rounds=3), asked, PureDP(5.0))


def test_ordered_categories_keep_their_order_in_data_frames():
    made = ranked()
    pandas = made.synthetic(200, seed=1, frame="pandas")
    assert pandas["size"].cat.ordered
    assert [*pandas["size"].cat.categories] == ["small", "medium", "large"]
    assert pandas["size"].max() == "large"
    assert {*pandas["size"][pandas["size"] < "large"]} == {"small", "medium"}
    assert not isinstance(pandas["town"].dtype, pd.CategoricalDtype)
    polars = made.synthetic(200, seed=1, frame="polars")
    assert polars["size"].dtype == pl.Enum(["small", "medium", "large"])
    assert polars["size"].max() == "large"
    assert polars["town"].dtype == pl.String
    arrow = made.synthetic(200, seed=1, frame="arrow")
    assert arrow.schema.field("size").type.ordered
    assert arrow["size"].chunk(0).dictionary.to_pylist() == ["small", "medium", "large"]
    assert arrow.schema.field("town").type == pa.string()
    texts = made.synthetic(200, seed=1)["size"].tolist()
    assert None in texts
    assert polars["size"].to_list() == arrow["size"].to_pylist() == texts
    assert [None if isinstance(text, float) else text for text in pandas["size"]] == texts
    drawn = made.sample("size = large", 5, frame="pandas")["size"]
    assert [*drawn.cat.categories] == ["small", "medium", "large"]
    codes = made.codes(200, np.random.default_rng(1))
    for frame in (pandas, polars, arrow):
        again = Table.from_frame(frame, made.domain)
        assert all(np.array_equal(a, b) for a, b in zip(again.columns, codes, strict=True))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_of_ordered_categories_are_read_again(tmp_path, form):
    made = ranked()
    made.save(tmp_path / "out", format=form)
    read = Table.read(tmp_path / "out" / f"synthetic.{form}", made.domain)
    assert len(read) == len(made.codes(None, np.random.default_rng(0))[0])
    if form == "parquet":
        frame = pd.read_parquet(tmp_path / "out" / "synthetic.parquet")
        assert [*frame["size"].cat.categories] == ["small", "medium", "large"]
        assert frame["size"].cat.ordered


@pytest.mark.parametrize("frame", ["pandas", "polars", "arrow"])
def test_a_marginal_is_a_tidy_frame(frame):
    found = typed()
    table = found.marginal(["age", "sex"], frame=frame)
    names = list(table.column_names if frame == "arrow" else table.columns)
    assert names == ["age", "sex", "answer", "model_95"]
    assert len(table) == 3 * 4
    answers = np.asarray(table["answer"], np.float64)
    cells = np.reshape(found.answer(Workload.marginals(TYPED, [["sex", "age"]])), (3, 4))
    np.testing.assert_allclose(answers, cells.T.reshape(-1))
    labels = table["sex"].to_pylist() if frame == "arrow" else table["sex"].to_list()
    assert [label if isinstance(label, str) else None for label in labels] == ["F", "M", None] * 4
    assert [*found.marginal(["sex", "age"], frame="pandas")["sex"].fillna("-")] == ["F"] * 4 + ["M"] * 4 + ["-"] * 4


def keyed(order=2):
    """A release of columns of single values, of all kinds, and of columns of bins."""
    domain = Domain(
        (
            Attribute("rating", "number", edges=(1, 2, 3, 4), integer=True, missing=("NA",)),
            Attribute("stars", "number", within=(0, Fraction(3, 2)), step=Fraction(1, 2)),
            Attribute("female", "category", categories=("false", "true")),
            Attribute("size", "category", categories=("small", "large"), ordered=True, missing=("?",)),
            Attribute("town", "category", categories=("Ulm", "Bonn"), missing=("",)),
            Attribute("day", "date", edges=(0, 1, 2, 3)),
            Attribute("age", "number", edges=(18, 30, 70), integer=True, missing=("-1",)),
            Attribute("height", "number", edges=(1.0, 1.5, 2.0)),
            Attribute("born", "date", edges=(0, 100, 365)),
        )
    )
    cost, asked = PureDP(5.0), Workload.marginals(domain, order)
    with Ledger.open(None, cost) as ledger:
        return Curator(random_table(domain, 400, 0), ledger, Entropy.insecure(3)).release(Laplace(), asked, cost)


SINGLE = ("rating", "stars", "female", "size", "town", "day")


@pytest.mark.parametrize("name", SINGLE)
def test_a_marginal_has_keys_that_synthetic_records_can_be_merged_by(name):
    made = keyed()
    rows, counts = made.synthetic(300, seed=1, frame="pandas"), made.marginal(name)
    assert counts[name].dtype == rows[name].dtype
    merged = rows.merge(counts, on=name, how="left", indicator=True)
    assert len(merged) == len(rows)
    assert (merged["_merge"] == "both").all()
    polars, arrow = (made.marginal(name, frame=frame) for frame in ("polars", "arrow"))
    assert polars[name].dtype == made.synthetic(5, seed=1, frame="polars")[name].dtype
    assert arrow[name].type == made.synthetic(5, seed=1, frame="arrow")[name].type
    assert polars[name].to_list() == arrow[name].to_pylist()


def test_keys_of_bins_are_texts_and_have_their_ends_where_these_are_asked_for():
    made = keyed(3)
    assert made.marginal(["age", "height"])["age"].tolist()[::2] == ["18..29", "30..69", "-1"]
    frame = made.marginal(["height", "born", "age"], edges=True)
    ends = ["height", "height_low", "height_high", "born", "born_low", "born_high", "age", "age_low", "age_high"]
    assert [*frame.columns] == [*ends, "answer", "model_95"]
    ages = frame[["age", "age_low", "age_high"]].iloc[:3]
    assert [str(kind) for kind in ages.dtypes[1:]] == ["Int64", "Int64"]
    assert ages["age_low"].tolist() == [18, 30, pd.NA]
    assert ages["age_high"].tolist() == [30, 70, pd.NA]
    assert frame["height_low"].unique().tolist() == [1.0, 1.5]
    assert frame["born_high"].iloc[0] == pd.Timestamp("1970-04-11")
    assert [*made.marginal("female", edges=True).columns] == ["female", "answer", "model_95"]
    arrow = made.marginal("born", edges=True, frame="arrow")
    assert str(arrow["born_low"].type) == "date32[day]"


def test_columns_of_ends_are_told_apart_from_attributes_of_their_names():
    domain = Domain((Attribute("age", "number", edges=(0, 5, 9), integer=True), Attribute("age_low", "coded", codes=2)))
    cost, asked = PureDP(5.0), Workload.marginals(domain, 2)
    with Ledger.open(None, cost) as ledger:
        made = Curator(random_table(domain, 400, 0), ledger, Entropy.insecure(3)).release(Laplace(), asked, cost)
    frame = made.marginal(["age_low", "age"], edges=True)
    assert [*frame.columns[:4]] == ["age_low", "age", "age_low_", "age_high"]
    assert frame["age_low_"].tolist() == [0, 5, 0, 5]


def test_a_table_of_several_marginals_tells_a_missing_cell_from_a_column_that_is_not_asked_about():
    made = keyed()
    frame = made.answers_frame(edges=True)
    assert {*frame["town"].dropna()} == {"Ulm", "Bonn", "(missing)"}
    assert {*frame["rating"].dropna()} == {"1", "2", "3", "NA"}
    assert str(frame["female"].dtype) == "boolean"
    asked = frame[frame["age"].notna() & frame["height"].notna()]
    assert asked["height_high"].tolist() == [1.5, 2.0] * 3
    assert frame["height_high"].isna().equals(frame["height"].isna())
    one = made.answers_frame(Workload.marginals(made.domain, [["town", "rating"]]))
    assert one["town"].isna().sum() == 4
    assert str(one["rating"].dtype) == "Int64"


def test_a_marginal_of_three_columns_comes_in_the_order_asked():
    """Each line is the answer to the condition that its labels say."""
    domain = Domain.coded({"a": 2, "b": 3, "c": 4})
    with Ledger.open(None, PureDP(5.0)) as ledger:
        curator = Curator(random_table(domain, 400, 0), ledger, Entropy.insecure(3))
        found = curator.release(MWEM(rounds=3), Workload.marginals(domain, 3), PureDP(5.0))
    for names in permutations("abc"):
        table = found.marginal(names, frame="pandas", details=True)
        assert [*table.columns[:3]] == [*names]
        assert table.equals(table.sort_values([*names], kind="stable"))
        for line in table.sample(5, random_state=0).to_dict("records"):
            asked = " and ".join(f"{name} = {line[name]}" for name in names)
            assert line["answer"] == pytest.approx(float(found.answer(asked)))


def test_frames_of_another_kind_are_refused():
    with pytest.raises(InvalidInput, match="frame must be one of pandas, polars, arrow, got 'excel'"):
        typed().marginal(["sex"], frame="excel")
    with pytest.raises(InvalidInput, match="another domain"):
        typed().answers_frame(PAIRS)


def test_a_single_column_is_named_without_a_list_and_what_is_no_name_is_refused_by_name():
    release = typed()
    assert release.marginal("age").equals(release.marginal(["age"]))
    with pytest.raises(InvalidInput, match="a marginal is of a column, or of a list of them, got 3"):
        release.marginal(3)
    with pytest.raises(InvalidInput, match="by takes the name of a column, or a list of names, got 3"):
        release.mean("age", by=3)
    with pytest.raises(InvalidInput, match="a column is needed, one of"):
        release.mean("age", by=[3])
