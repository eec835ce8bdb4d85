"""What a schema refuses or moves of a table: every value, not only the first, as reading the table has it."""

import re

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import qrelease as qr
from qrelease.data.schema_check import CAUTION, check
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

SCHEMA = """
[[attribute]]
name = "age"
kind = "number"
bins = [0, 18, 65, 120]
integer = true

[[attribute]]
name = "sex"
kind = "category"
categories = ["F", "M"]
missing = ["", "?"]
outside = "missing"

[[attribute]]
name = "pay"
kind = "number"
within = [0, 1000]
step = 1
bins = 4
outside = "clip"
"""

PERSON = '\n[person]\ncolumn = "who"\nat_most = 2\nmissing = ["-"]\n'

ROWS = [
    ("a", "17", "F", "12"),
    ("a", "-1", "X", "12"),
    ("a", "199", "?", "2000"),
    ("b", "199", " M ", "1e3"),
    ("-", "40.0", "X", "-3"),
]


def written(folder, schema=SCHEMA, rows=ROWS):
    (folder / "schema.toml").write_text(schema)
    lines = [",".join(row) for row in [("who", "age", "sex", "pay"), *rows]]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    return folder / "people.csv", folder / "schema.toml"


def test_every_value_without_a_place_is_listed(tmp_path):
    found = check(*written(tmp_path))
    age, sex, pay = found.columns
    assert dict(age.refused) == {"-1": 1, "199": 2}
    assert age.first == {"-1": 2, "199": 3}
    assert dict(sex.moved) == {"X": 2}
    assert sex.missing == 1
    assert dict(pay.moved) == {"2000": 1, "-3": 1}
    assert not pay.refused
    assert not found.holds
    assert found.records == 5
    assert found.told.splitlines() == [
        "5 records",
        "age: REFUSED in 3 records: '199' (2, first in record 3), '-1' (1, first in record 2)",
        "sex: 1 record missing, by a mark of the schema",
        "sex: counted as missing in 2 records: 'X' (2, first in record 2)",
        "pay: counted in the nearest bin in 2 records: '2000' (1, first in record 3), '-3' (1, first in record 5)",
        "a release stops at the first REFUSED value",
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("wrong", ["-1", "199", "40", "forty", ""])
def test_it_refuses_what_reading_refuses(tmp_path, wrong, kind):
    path, schema = written(tmp_path, rows=[("a", wrong, "F", "1"), ("b", "5", "M", "2")])
    if kind == "parquet":
        polars = pytest.importorskip("polars")
        pytest.importorskip("pyarrow")
        path = tmp_path / "people.parquet"
        polars.read_csv(tmp_path / "people.csv", infer_schema_length=0).write_parquet(path)
    refused = False
    try:
        Table.read(path, schema)
    except InvalidInput:
        refused = True
    assert check(path, schema).holds is not refused


def test_persons_and_what_a_bound_leaves_out(tmp_path):
    found = check(*written(tmp_path, SCHEMA + PERSON))
    told = "who: 2 persons, of at most 3 records each; at_most = 2 leaves out 1 of 4 records; 1 record of nobody"
    assert found.persons.startswith(told)
    assert not found.keyless


def test_a_record_without_a_key_is_refused(tmp_path):
    good = [("a", "17", "F", "12"), ("b", "30", "M", "0")]
    assert check(*written(tmp_path, SCHEMA + PERSON, good)).holds
    found = check(*written(tmp_path, SCHEMA + PERSON, [*good, ("", "30", "M", "0")]))
    assert not found.holds
    assert "REFUSED: 1 record without a key" in str(found)


def test_bins_and_categories_that_are_yet_to_be_learned(tmp_path):
    schema = SCHEMA.replace("bins = 4", "bins = { learn = 4 }")
    schema = schema.replace('categories = ["F", "M"]', "categories = { learn = true, at_most = 9 }")
    schema = schema.replace('missing = ["", "?"]\noutside = "missing"', 'missing = ["", "?"]')
    age, sex, pay = check(*written(tmp_path, schema)).columns
    assert not sex.refused
    assert dict(pay.moved) == {"2000": 1, "-3": 1}
    assert dict(age.refused) == {"-1": 1, "199": 2}


def test_a_column_that_is_not_there(tmp_path):
    path, schema = written(tmp_path, SCHEMA.replace('"pay"', '"rent"'))
    with pytest.raises(InvalidInput, match="no column 'rent'"):
        check(path, schema)


RULED = """
[[attribute]]
name = "province"
kind = "category"
categories = ["A", "B"]

[[attribute]]
name = "town"
kind = "category"
categories = { file = "towns.csv", column = "town" }
parent = "province"

[[attribute]]
name = "pay"
kind = "number"
within = [0, 1000]
step = 1
bins = [0, 1, 1001]
missing = [""]

[[attribute]]
name = "job"
kind = "category"
categories = ["none", "some"]

[[impossible]]
where = "pay >= 1 and job = none"
"""


def ruled(folder, rows, person=""):
    (folder / "towns.csv").write_text("town,province\nUr,A\nUlm,A\nBonn,B\n")
    (folder / "schema.toml").write_text(RULED + person)
    lines = [",".join(row) for row in [("who", "province", "town", "pay", "job"), *rows]]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    return folder / "people.csv", folder / "schema.toml"


IMPOSSIBLE = [
    ("a", "A", "Ur", "0", "none"),
    ("b", "B", "Ulm", "5", "some"),  # Ulm is in A
    ("c", "A", "Bonn", "7", "none"),  # Bonn is in B, and there is no pay without a job
    ("d", "B", "Ulm", "", "none"),
    ("e", "B", "Ulm", "2000", "none"),  # the pay has no place, so nothing is said of it and the job
]


def test_what_no_record_can_be_is_listed(tmp_path):
    found = check(*ruled(tmp_path, IMPOSSIBLE))
    assert {rule.columns: dict(rule.refused) for rule in found.rules} == {
        ("province", "town"): {("B", "Ulm"): 3, ("A", "Bonn"): 1},
        ("pay", "job"): {("1..1000", "none"): 1},
    }
    assert not found.holds
    assert found.told.splitlines()[1:] == [
        "pay: 1 record missing, by a mark of the schema",
        "pay: REFUSED in 1 record: '2000' (1, first in record 5)",
        "pay, job: REFUSED in 1 record: '1..1000' and 'none' (1, first in record 3); impossible by the schema"
        " (an [[impossible]] rule, or the parent that its code list gives)",
        "province, town: REFUSED in 4 records: 'B' and 'Ulm' (3, first in record 2), 'A' and 'Bonn' (1, first in record"
        " 3); impossible by the schema (an [[impossible]] rule, or the parent that its code list gives)",
        "a release stops at the first REFUSED value",
    ]


@pytest.mark.parametrize("place", range(4))
def test_it_refuses_the_records_that_reading_refuses(tmp_path, place):
    rows = [IMPOSSIBLE[0], IMPOSSIBLE[place]]
    path, schema = ruled(tmp_path, rows)
    refused = False
    try:
        Table.read(path, schema)
    except InvalidInput:
        refused = True
    assert refused is (place > 0)
    assert check(path, schema).holds is not refused


def test_records_of_nobody_are_held_to_no_rule(tmp_path):
    rows = [IMPOSSIBLE[0], ("-", *IMPOSSIBLE[1][1:])]
    path, schema = ruled(tmp_path, rows, PERSON)
    assert len(Table.read(path, schema)) == 1
    assert check(path, schema).holds
    assert not check(*ruled(tmp_path, [rows[0], IMPOSSIBLE[1]], PERSON)).holds


# --- data frames

VALUES = {"age": [17, -1, 199, 199, 40], "sex": ["F", "X", "?", " M ", "X"], "pay": [12.0, 12.0, 2e3, 1e3, -3.0]}


def frames():
    yield pd.DataFrame(VALUES, index=range(7, 12))
    yield pl.DataFrame(VALUES)
    yield pl.LazyFrame(VALUES)
    yield pa.table(VALUES)


@pytest.mark.parametrize("frame", [*frames()], ids=lambda frame: f"{type(frame).__module__.split('.')[0]}")
def test_a_frame_is_checked_as_a_file_is(tmp_path, frame):
    path, schema = written(tmp_path)
    found = qr.check(frame, SCHEMA)
    assert str(found) == str(check(path, schema)) == f"{CAUTION}\n{found.told}"
    assert str(qr.check(frame, qr.Table.from_frame(pd.DataFrame(VALUES).head(1), SCHEMA).domain)) == str(found)
    assert "199" not in repr(found)  # which may be logged
    assert not any("199" in re.sub(" at 0x[0-9a-f]+", "", repr(column)) for column in found.columns)


def test_a_value_of_a_frame_that_is_refused_names_the_check_of_all():
    frame = pd.DataFrame(VALUES)
    with pytest.raises(InvalidInput, match=r"row 1 \(from 0\): .*-1.*; print\(qr.check\(frame, schema\)\) lists all"):
        qr.Table.from_frame(frame, SCHEMA)


def test_what_is_missing_in_a_frame_is_so_for_the_check_too():
    """Null is the first mark of the column, and the empty text is none; what has no text is refused."""
    schema = SCHEMA.replace('missing = ["", "?"]\noutside = "missing"', 'missing = ["?"]')
    frame = pd.DataFrame({"age": [20, 20, 20], "sex": [None, float("nan"), "F"], "pay": [1, 2, 3]})
    assert len(qr.Table.from_frame(frame, schema)) == 3
    found = qr.check(frame, schema)
    assert (found.holds, found.columns[1].missing) == (True, 2)
    for odd, told in (("", "''"), (["F"], "values of type list cannot be categories")):
        changed = frame.assign(sex=pd.Series([None, odd, "F"], dtype=object))
        with pytest.raises(InvalidInput):
            qr.Table.from_frame(changed, schema)
        found = qr.check(changed, schema)
        assert (found.holds, found.columns[1].missing) == (False, 1)
        assert told in str(found)


def test_a_query_is_of_no_frame():
    with pytest.raises(InvalidInput, match="query and dialect are for files"):
        qr.check(pd.DataFrame(VALUES), SCHEMA, query="SELECT 1")


POOR_YOUNG = """
[[impossible]]
where = "age < 18 and pay >= 500"
"""


@pytest.mark.parametrize("odd", [[], [("c", "199", "F", "12")], [("c", "40", "F", "2000")], [("c", "40", "X", "12")]])
def test_columns_that_are_known_and_others_are_told_of_alike(tmp_path, odd):
    """What has no place is looked up among texts, and all else among codes: both count the same."""
    rows = [("a", "17", "?", "12"), ("a", "17", "F", "700"), ("b", "40", "", "700"), *odd] * 3
    found = check(*written(tmp_path, SCHEMA + POOR_YOUNG, rows))
    assert found.records == len(rows)
    age, sex, pay = found.columns
    assert sex.missing == 6
    assert [dict(age.refused), dict(sex.moved), dict(pay.moved)] == [
        {row[place]: 3 for row in odd if row[place] in ("199", "X", "2000")} for place in (1, 2, 3)
    ]
    (rule,) = found.rules
    assert [*rule.refused.values()] == [3]
    assert [*rule.first.values()] == [2]
    people = check(*written(tmp_path, SCHEMA + POOR_YOUNG + PERSON, rows))  # of persons all are looked up among texts
    assert [(c.missing, c.refused, c.moved, c.first) for c in found.columns] == [
        (c.missing, c.refused, c.moved, c.first) for c in people.columns
    ]
    assert [(r.refused, r.first) for r in found.rules] == [(r.refused, r.first) for r in people.rules]


def test_a_table_of_some_columns_is_checked_by_these(tmp_path):
    _, schema = written(tmp_path, SCHEMA + POOR_YOUNG)
    table = pd.DataFrame({"age": [17, 199], "sex": ["F", "M"]})
    with pytest.raises(InvalidInput, match=r"has no column 'pay'.*--columns .* names those that are checked"):
        check(table, schema)
    found = check(table, schema, columns=["sex", "age"])
    assert [column.name for column in found.columns] == ["sex", "age"]
    assert dict(found.columns[1].refused) == {"199": 1}
    assert found.rules == (), "the rule is about another column, too"
    with pytest.raises(InvalidInput, match=r"no person column 'who'.*: check it by a schema without \[person\]"):
        check(table.assign(pay=1), written(tmp_path, SCHEMA + PERSON)[1])
