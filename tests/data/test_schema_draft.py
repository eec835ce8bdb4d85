"""Drafts of schemas: from files of each kind, and read again."""

import gzip
import sys
import tomllib
from collections import Counter
from dataclasses import asdict
from datetime import date, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qrelease.data.domain import Attribute, Domain
from qrelease.data.person import Person
from qrelease.data.schema import load
from qrelease.data.schema_draft import draft, drafted
from qrelease.data.sources.dialect import Dialect
from qrelease.data.table import Table
from qrelease.data.writing import Writing
from qrelease.errors import InvalidInput
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator


@pytest.fixture
def write(tmp_path):
    def _write(text, name="people.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


PEOPLE = """\
id,age,zip,day,score,flag,nothing,town
p1,17,01234,2020-02-03,0.125,0,,Bern
p2,93,04567,2020-12-30,0.5,1,?,NA
p3,,04567,9999-12-31,-0.25,1,?,"Genf, GE"
"""


def reviewed(text):
    return text.replace("reviewed = false", "reviewed = true")


def test_draft(write):
    rows = "".join(f"p{i},{20 + i % 60},01234,2020-06-01,0.3,1,?,Bern\n" for i in range(200))
    data = write(PEOPLE + rows, "people.csv")
    text = draft(data)
    path = write(text)
    with pytest.raises(InvalidInput, match="not reviewed: age, zip, day, score, flag, town; check each"):
        load(path)
    assert "read from private data" in text
    assert "# - 'id': more than 100 different texts" in text
    assert "# - 'nothing': it holds no value" in text
    domain = load(write(reviewed(text)))
    assert domain == Domain(
        (
            Attribute(
                "age",
                "number",
                edges=range_(10, 110, 10),
                within=(10, 99),
                step=1,
                missing=("",),
                outside="clip",
            ),
            Attribute("zip", "category", categories=("01234", "04567")),
            Attribute(
                "day",
                "date",
                edges=tuple(month_starts()),
                missing=("9999-12-31",),
                outside="clip",
            ),
            Attribute(
                *("score", "number"),
                edges=tuple(n / 10 for n in range(-3, 7)),
                within=(-0.3, 0.6),
                step=0.005,
                outside="clip",
            ),
            Attribute("flag", "number", edges=(0, 1, 2), integer=True),
            Attribute("town", "category", categories=("Bern", "Genf, GE"), missing=("NA",)),
        )
    )
    assert len(Table.read_csv(data, domain)) == 203


@pytest.mark.parametrize(
    ("spelled", "hint"),
    [
        (lambda i: f'"${i + 1000:,}.50"' if i else "a tip", "look like numbers"),
        (lambda i: f'"{i + 1},000"', "look like numbers"),  # two ways, and two amounts
        (lambda i: f"{i} %" if i else "none at all", "look like numbers"),
        (lambda i: f"{i % 28 + 1}.{i % 12 + 1}.{1900 + i}" if i else "soon", "look like dates"),
        (lambda i: f"{i % 12 + 1}/{i % 12 + 1}/{1900 + i}", ""),  # month and day are the same, so that both ways agree
        (lambda i: f"C{i}.{i % 10}", ""),
        (lambda i: f"192.168.{i}.1", ""),
        (lambda i: f"{i:05d}", ""),
    ],
)
def test_texts_that_look_like_numbers_or_dates_are_told_with_how_to_write_them(write, spelled, hint):
    rows = "".join(f"{spelled(i)},{i % 2}\n" for i in range(105) for _ in range(3))
    found = drafted(write(f"given,sex\n{rows}", "t.csv"))
    assert found.left_out.get("given", "").partition("; they ")[2].partition(":")[0] == hint


def test_of_dates_that_may_be_written_in_two_ways_both_are_told(write):
    rows = "".join(f"05/{i % 10 + 1:02d}/2024 08:{i % 60:02d}:{i // 60:02d},{i % 2}\n" for i in range(250))
    told = drafted(write(f"given,sex\n{rows}", "t.csv")).left_out["given"]
    assert told.endswith('as format the right one of "%d/%m/%Y %H:%M:%S" and "%m/%d/%Y %H:%M:%S"')


def test_texts_that_tell_persons_apart_and_come_again_are_told_as_such(write):
    rows = "".join(f"P{i % 150},{i % 2}\n" for i in range(600))
    assert "--person patient" in drafted(write("patient,sex\n" + rows, "t.csv")).left_out["patient"]


def test_categories_that_look_like_numbers_are_marked(write):
    shares = "".join(f"{i % 5 or 'no'} %,{i % 2}\n" for i in range(500) if i % 5 or i < 20)
    text = draft(write("share,sex\n" + shares, "t.csv"))
    assert "# they look like numbers" in text
    assert '"4 %"' in text


WRITTEN = {
    "pay": (
        lambda i: f"{37 * i % 9000 / 4:,.2f} €".translate(str.maketrans(",.", ".,")),
        {"decimal": ",", "unit": "€"},
    ),
    "price": (lambda i: f"${1217 * i % 90_000:,}.50", {"thousands": ",", "unit": "$"}),
    "size": (lambda i: f"{37 * i % 999},{i % 10}", {"decimal": ","}),
    "share": (lambda i: f"{i % 101} %", {"unit": "%"}),
    "few": (lambda i: f"{(1, 2, 30)[i % 3]} km", {"unit": "km"}),
    "people": (lambda i: f"{1217 * i % 9_000_000:,}".replace(",", " "), {"thousands": " "}),
    "day": (lambda i: f"{i % 28 + 1}.{i % 12 + 1}.{1990 + i % 30}", {"format": "%d.%m.%Y"}),
    "us_day": (lambda i: f"{i % 12 + 1:02}/{i % 28 + 1:02}/{1990 + i % 30}", {"format": "%m/%d/%Y"}),
    "at": (lambda i: f"{i % 28 + 1}.{i % 12 + 1}.1999 {i % 24:02}:15", {"format": "%d.%m.%Y %H:%M"}),
}


@pytest.mark.parametrize("learn", [False, True])
def test_columns_that_are_all_written_in_one_way_are_drafted_with_it(write, learn):
    lines = [";".join(WRITTEN)]
    lines += [";".join("NA" if i % 97 == 96 else spell(i) for spell, _ in WRITTEN.values()) for i in range(600)]
    data = write("\n".join([*lines, ""]), "t.csv")
    text = draft(data, learn=learn, dialect=Dialect(";"))
    domain = load(reviewed(text), undecided=learn)
    assert domain.names == tuple(WRITTEN)
    for attribute in domain:
        said = {key: mark for key, mark in asdict(attribute.writing).items() if mark != getattr(Writing(), key)}
        expected = WRITTEN[attribute.name][1]
        assert said == (expected | {"thousands": "."} if attribute.name == "pay" else expected)
        assert attribute.missing == ("NA",)
    assert text.count("# how all values that occur are written") == len(WRITTEN)
    table = Table.read(data, domain, dialect=Dialect(";"))
    assert len(table) == 600
    if not learn:
        places = table.grid("pay")
        grid = domain.attributes[0].grid
        assert [float(grid.value(int(p))) for p in places[:3]] == [0, 9.25, 18.5]


def test_one_text_that_is_written_otherwise_leaves_a_column_as_it_was(write):
    """It would be refused: a draft is of texts that are all read."""
    for odd in ("12.5", "about 3", "1,234.50"):
        rows = "".join(f"{i % 90},{i % 10};{i % 2}\n" for i in range(500)) + f"{odd};1\n"
        assert "decimal =" not in draft(write("x;sex\n" + rows, "t.csv"), dialect=Dialect(";"))


@pytest.mark.parametrize("learn", [False, True])
def test_answers_of_a_scale_are_drafted_in_its_order(write, learn):
    answers, weeks = ["strongly agree", "agree", "neutral", "disagree"], ["often", "never", "don't know", "always"]
    rows = "".join(f"{answers[i % 4]},{weeks[i % 4]},{i % 2}\n" for i in range(400))
    text = draft(write("opinion,how_often,sex\n" + rows, "t.csv"), learn=learn)
    opinion, often, _ = load(reviewed(text)).attributes
    assert opinion.categories == ("disagree", "neutral", "agree", "strongly agree")
    assert opinion.ordered
    assert often.categories == ("never", "often", "always", "don't know")
    assert not often.ordered  # else somebody who does not know would do it more than always
    assert "# a scale, but for don't know: with that under missing" in text
    told = text.replace('"don\'t know",', "").replace(', "don\'t know"', "")
    told = told.replace("# a scale, but for", 'missing = ["don\'t know"]\nordered = true\n# a scale, but for')
    assert load(reviewed(told)).attributes[1].ordered


@pytest.mark.parametrize("learn", [False, True])
def test_no_answer_is_missing_among_numbers_and_dates_and_a_category_among_texts(write, learn):
    """One `k.A.` made a list of categories of all ages."""
    lines = ["age;pay;day;opinion;only"]
    for i in range(400):
        none = i % 40 == 0
        pay, day = f"{37 * i % 9000 / 4:.2f} €".replace(".", ","), f"{i % 28 + 1}.{i % 12 + 1}.2020"
        lines.append(
            ";".join(
                ["k.A.", "don't know", "unbekannt", "refused", "n/a"]
                if none
                else [str(20 + i % 60), pay, day, "yes" if i % 2 else "no", ""]
            )
        )
    data = write("\n".join([*lines, ""]), "t.csv")
    text = draft(data, learn=learn, dialect=Dialect(";"))
    domain = load(reviewed(text), undecided=True)
    assert [(a.name, a.kind, a.missing) for a in domain] == [
        ("age", "number", ("k.A.",)),
        ("pay", "number", ("don't know",)),
        ("day", "date", ("unbekannt",)),
        ("opinion", "category", ()),
    ]
    assert domain["opinion"].categories == ("no", "refused", "yes")
    assert len(Table.read(data, domain, dialect=Dialect(";"))) == 400


AMOUNTS = [f"{37 * i % 9000 / 4:,.2f}".translate(str.maketrans(",.", ".,")) for i in range(300)]


def drafted_marks(write, **columns):
    """The marks of the draft of some columns of texts, by name."""
    rows = "".join(";".join(texts) + "\n" for texts in zip(*columns.values(), strict=True))
    data = write(";".join(columns) + "\n" + rows, "t.csv")
    text = draft(data, dialect=Dialect(";"))
    domain = load(reviewed(text))
    assert len(Table.read(data, domain, dialect=Dialect(";"))) == 300
    return {a.name: (a.writing.decimal, a.writing.thousands) for a in domain}


def test_the_mark_of_thousands_is_that_of_other_columns_with_the_same_decimals(write):
    small = [f"{i % 900},{i % 10}" for i in range(300)]
    found = drafted_marks(write, pay=AMOUNTS, fee=small, share=[f"{text} %" for text in small])
    assert found == {"pay": (",", "."), "fee": (",", "."), "share": (",", ".")}
    # So one that is above 1,000, of later records, is read, and a point can mean nothing else beside a decimal comma.
    data = write("pay;fee\n" + "".join(map("{};{}\n".format, AMOUNTS, small)), "t.csv")
    text = draft(data, dialect=Dialect(";"))
    assert text.count("# but none has a mark of thousands: it is that of other columns") == 1
    fee = load(reviewed(text))["fee"]
    assert fee.writing.plain("1.234,5") == "1234.5"
    assert fee.encode("1.234,5") == fee.values - 1  # clipped to the last bin, where it was refused


def test_the_mark_of_thousands_of_other_columns_is_not_taken_where_it_could_mislead(write):
    dotted = [f"{i % 9 + 1}.{i % 900 + 100}" for i in range(300)]  # 1.234: of decimals, or of thousands
    rates = [f"{i % 9 + 1}.{i % 90 + 10} %" for i in range(300)]
    whole = [f"{i % 90} %" for i in range(300)]
    found = drafted_marks(write, pay=AMOUNTS, size=dotted, rate=rates, share=whole)
    assert found == {"pay": (",", "."), "size": (".", ""), "rate": (".", ""), "share": (".", "")}
    # Nor where others have different ones.
    spaced = [text.replace(".", " ") for text in AMOUNTS]
    found = drafted_marks(write, pay=AMOUNTS, rent=spaced, fee=[f"{i % 900},{i % 10}" for i in range(300)])
    assert found == {"pay": (",", "."), "rent": (",", " "), "fee": (",", "")}


def test_an_end_of_time_is_missing_however_it_is_written(write):
    rows = "".join(f"{i % 28 + 1}.{i % 12 + 1}.2020,{i % 2}\n" for i in range(300)) + "31.12.9999,1\n"
    data = write("until,sex\n" + rows, "t.csv")
    domain = load(reviewed(draft(data)))
    assert domain.attributes[0].missing == ("31.12.9999",)
    assert Table.read(data, domain).columns[0][-1] == domain.attributes[0].values


def test_points_that_may_mark_thousands_are_asked_about(write):
    amounts = "".join(f"{i % 9 + 1}.{i % 900 + 100},{i % 2}\n" for i in range(300))
    assert "if points mark thousands here" in draft(write("x,sex\n900,1\n" + amounts, "t.csv"))
    assert "if points mark thousands here" not in draft(write("x,sex\n9.5,1\n" + amounts, "t.csv"))


def test_moments_with_an_offset_are_left_out_as_they_would_be_refused(write):
    data = write("at,sex\n" + "".join(f"2024-01-{i % 28 + 1:02d}T08:00:00Z,{i % 2}\n" for i in range(100)), "t.csv")
    told = drafted(data).left_out["at"]
    assert "time zone" in told
    assert 'step = "minute"' in told
    assert "at" not in drafted(data, learn=True).left_out


def test_few_whole_numbers_stay_numbers(tmp_path):
    """So that synthetic records join with others on them, and have means; codes far apart stay categories."""
    rng = np.random.default_rng(0)
    columns = {
        "year": rng.integers(1984, 1989, 500),
        "flag": rng.integers(0, 2, 500),
        "twice": rng.choice([1990, 1992, 1998], 500),
        "same": np.full(500, 7),
        "below": rng.choice([-3, 0, 3], 500),
        "region": rng.choice([344, 363, 518], 500),
    }
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "data.csv", index=False)
    text = draft(frame)
    assert text.partition("[[attribute]]")[2] == draft(tmp_path / "data.csv").partition("[[attribute]]")[2]
    (tmp_path / "schema.toml").write_text(reviewed(text))
    domain = load(tmp_path / "schema.toml")
    assert domain.shape == (5, 2, 5, 1, 3, 3)
    assert [a.name for a in domain if a.kind == "category"] == ["region"]
    with pytest.raises(InvalidInput, match="flag"):
        Table.from_frame(frame.assign(flag=2), domain)
    table = Table.from_frame(frame, domain)
    with Ledger.open(None, PureDP(100.0)) as ledger:
        made = Curator(table, ledger, Entropy.insecure(0)).release(
            MaxEnt(), Workload.marginals(domain, 1), PureDP(100.0)
        )
    rows = made.synthetic(500, seed=1, frame="pandas")
    for name in set(columns) - {"region"}:
        assert rows[name].dtype.kind == "i"
        assert set(rows[name]) <= set(range(columns[name].min(), columns[name].max() + 1, 2 if name == "twice" else 1))
        assert rows[name].mean() == pytest.approx(columns[name].mean(), abs=0.3)
        assert made.mean(name)["value"][0] == pytest.approx(columns[name].mean(), abs=0.1)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (lambda rng: rng.integers(0, 90, 3000), "step = 1\n"),
        (lambda rng: rng.integers(0, 90, 3000) / 2, "step = 0.5\n"),
        (lambda rng: np.round(np.exp(rng.normal(3, 1.5, 3000)), 2), "step = 0.01\n"),
        (lambda rng: rng.integers(-400, 400, 3000) / 20, "step = 0.05\n"),
        (lambda rng: rng.normal(0, 1, 3000), "step = 0.0001\n"),
        (lambda rng: rng.integers(0, 2, 3000) + 3, "bins = "),  # a bin for each
    ],
)
def test_a_mean_can_be_asked_of_a_drafted_column_as_it_is(values, step):
    frame = pd.DataFrame({"x": values(np.random.default_rng(1)), "sex": ["F", "M"] * 1500})
    text = draft(frame)
    assert step in text
    table = Table.from_frame(frame, reviewed(text))
    with Ledger.open(None, PureDP(100.0)) as ledger:
        curator = Curator(table, ledger, Entropy.insecure(0))
        workload = Workload.marginals(table.domain, 1) + Workload.means(table.domain, "x")
        made = curator.release(Auto(), workload, PureDP(100.0))
    told = made.mean("x")
    span = frame["x"].max() - frame["x"].min()
    assert told["value"][0] == pytest.approx(frame["x"].mean(), abs=0.01 * span)
    assert told["low_95"][0] <= told["value"][0] <= told["high_95"][0]


def range_(start, stop, step):
    return tuple(range(start, stop, step))


def month_starts():
    from datetime import date

    return [(date(2020 + m // 12, m % 12 + 1, 1) - date(1970, 1, 1)).days for m in range(1, 13)]


_CELLS = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.dates().map(str),
    st.datetimes().map(str),
    st.sampled_from(["", "?", "NA", "007", "1e5", ".5", "5.", "+3", "-0", "it's", 'say "x"', "a,b", "1_0"]),
)


@settings(deadline=None)  # files
@given(st.lists(_CELLS, min_size=1, max_size=8))
def test_a_reviewed_draft_reads_its_own_data(tmp_path_factory, cells):
    folder = tmp_path_factory.mktemp("draft")
    data, schema = folder / "d.csv", folder / "d.toml"
    lines = [f'x,"{cell.replace(chr(34), chr(34) * 2)}"' for cell in cells]
    data.write_text("\n".join(["always,sometimes", *lines]) + "\n")
    schema.write_text(reviewed(draft(data)))
    assert len(Table.read_csv(data, schema)) == len(cells)


def test_draft_of_a_parquet_file(tmp_path):
    """The same schema as of the same values as text, and one that reads the file."""
    columns = {
        "sex": ["F", "M", None, "F"],
        "age": [31, 52, 67, 18],
        "share": [0.5, 0.25, None, 1.0],
        "born": [date(1990, 1, 2), date(1971, 5, 6), None, date(2004, 7, 8)],
    }
    frame = pl.DataFrame(columns)
    frame.write_csv(tmp_path / "people.csv")
    frame.write_parquet(tmp_path / "people.pq")
    assert draft(tmp_path / "people.pq") == draft(tmp_path / "people.csv").replace("people.csv", "people.pq")
    frame.with_columns(smokes=pl.Series([True, False, True, None])).write_parquet(tmp_path / "people.pq")
    (tmp_path / "people.toml").write_text(reviewed(draft(tmp_path / "people.pq")))
    table = Table.read_parquet(tmp_path / "people.pq", tmp_path / "people.toml")
    assert len(table) == 4
    (tmp_path / "text.pq").write_text("sex,age\n")
    with pytest.raises(InvalidInput, match=r"text\.pq cannot be read"):
        draft(tmp_path / "text.pq")


HEADLESS = "Zyxwv,F,31,Atlantis\nA,M,22,Ulm\nB,F,44,Rom\n"


@pytest.mark.parametrize("name", ["people.csv", "people.txt", "people.csv.gz"])
@pytest.mark.parametrize("learn", [False, True])
def test_a_first_line_that_looks_like_a_record_is_refused_and_not_quoted(tmp_path, name, learn):
    packed = gzip.compress(HEADLESS.encode()) if name.endswith(".gz") else HEADLESS.encode()
    (tmp_path / name).write_bytes(packed)
    with pytest.raises(InvalidInput) as refused:
        draft(tmp_path / name, learn=learn)
    assert str(refused.value) == (
        f"{name}: its first line looks like a record: the name of column 2 is also one of its values, the name of"
        " column 3 is a number, as its values are; name all columns by --header (in Python: dialect=Dialect(header=…)),"
        " or, where it has the names of the columns, say --named (named=True)"
    )
    for many in ("people*", "peopl?.*"):
        with pytest.raises(InvalidInput, match="looks like a record"):
            draft(str(tmp_path / many))


def test_who_knows_what_a_first_line_is_says_so(tmp_path):
    (tmp_path / "people.csv").write_text(HEADLESS)
    found = drafted(tmp_path / "people.csv", dialect=Dialect(header=("name", "sex", "age", "city")))
    assert (found.header, found.doubted) == (("name", "sex", "age", "city"), "")
    assert '"Zyxwv"' in found.text
    found = drafted(tmp_path / "people.csv", named=True)
    assert (found.header, found.doubted) == (("Zyxwv", "F", "31", "Atlantis"), "")
    assert "already?" not in found.text


def test_one_name_that_looks_like_a_value_is_asked_about_at_the_top(tmp_path):
    (tmp_path / "people.csv").write_text("id,y,n\n1,y,3\n2,n,4\n")
    found = drafted(tmp_path / "people.csv")
    assert found.doubted == "the name of column 2 is also one of its values"
    head = found.text.partition("\n\n")[0].splitlines()
    assert f"# Is the first line of the file a record already? In it {found.doubted}." in head
    assert "already?" not in draft(tmp_path / "people.csv", named=True)


def test_names_of_frames_and_of_typed_files_are_names(tmp_path):
    frame = pl.DataFrame({"F": ["F", "M"] * 9, "31": [31, 22] * 9})
    frame.write_parquet(tmp_path / "people.parquet")
    assert drafted(frame).doubted == drafted(tmp_path / "people.parquet").doubted == ""


def test_draft_of_nothing_usable(write):
    with pytest.raises(InvalidInput, match="no column to draft a schema from: - 'a': it holds no value"):
        draft(write("a,\n?,\n", "d.csv"))


@pytest.mark.parametrize("scale", [1, 10_000, 1_000_000_000])
def test_a_draft_to_be_learned_takes_the_amounts_that_it_was_drafted_from(write, scale):
    pays = [f"{(37 + i * i % 991) * scale + i / 400:.2f}" for i in range(400)]
    text = reviewed(draft(write("\n".join(["pay", *pays]), "pay.csv"), learn=True))
    domain = load(write(text), undecided=True)
    table = Table.read(write("\n".join(["pay", *pays]), "pay.csv"), domain)
    assert len(table) == len(pays)
    grid = domain.attributes[0].grid
    assert [float(grid.value(int(c))) for c in table.columns[0]] == pytest.approx([float(p) for p in pays], abs=0.051)


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("spelled", ["{}", "P{:03}"])
@pytest.mark.parametrize(("name", "left_out"), [("pid", True), ("person_id", True), ("ID", True), ("idle", False)])
def test_a_column_that_is_named_as_one_of_persons_gets_no_entry(write, name, left_out, spelled, learn):
    """Also where persons have several records, so that its values are far from unique; the draft says how to go on."""
    rows = [f"{spelled.format(i % 60)},{i % 2}" for i in range(300)]
    path = write("\n".join([f"{name},flag", *rows, ""]), "people.csv")
    text = draft(path, learn=learn)
    assert (f'name = "{name}"' not in text) == left_out
    assert (f"draft with --person {name} --at-most M (in Python: person=qr.Person('{name}', M)" in text) == left_out
    assert f'name = "{name}"' not in draft(path, learn=learn, person=Person(name, 5))


def test_a_person_is_no_text():
    with pytest.raises(InvalidInput, match=r"person takes qr\.Person\('who', M\), which keeps M records of each"):
        draft(pd.DataFrame({"who": [1], "sex": ["f"]}), person="who")


def test_a_draft_says_that_a_person_may_have_several_records_unless_it_knows_whose_they_are(write):
    path = write("who,age\n" + "".join(f"{i // 2},{i % 60}\n" for i in range(300)), "visits.csv")
    assert "#     [person]" in draft(path)
    assert "several records" not in draft(path, person=Person("who", 2))
    lines = draft(path).splitlines()
    entry = [line.removeprefix("#").strip() for line in lines if "[person]" in line or "at_most" in line]
    entry.insert(1, 'column = "who"')  # the comment is an entry, once its column is named
    attributes = reviewed(draft(path)).split("[[attribute]]")
    age = next(part for part in attributes if '"age"' in part)
    domain = load(write("\n".join(entry) + "\n[[attribute]]" + age))
    assert (domain.person.column, domain.person.at_most) == ("who", 5)


def test_columns_that_follow_from_others_are_told_as_read_off_the_data():
    levels = ["low", "low", "mid", "high"]
    frame = pd.DataFrame(
        {
            "years": [i % 4 + 8 for i in range(400)],
            "level": [levels[i % 4] for i in range(400)],
            "id": [f"p{i}" for i in range(400)],
            "sex": ["FM"[i // 4 % 2] for i in range(400)],
        }
    )
    text = draft(frame)
    assert "# - from 'years': 'level'" in text
    assert text.count("- from '") == 1
    assert "Read off the data, so private unless it is public knowledge: in every record these columns follow" in text
    assert load_is_refused(text)
    # One record to the contrary; and who leaves more open is told no such thing.
    frame.loc[399, "level"] = "low"
    assert "Read off the data" not in draft(frame)
    frame.loc[399, "level"] = "high"
    assert "Read off the data" not in draft(frame, learn=True)
    assert "Read off the data" not in draft(frame, rows=20), "so few records go together by chance"


def load_is_refused(text):
    try:
        load(text)
    except InvalidInput as error:
        return "not reviewed" in str(error)
    return False


def test_a_draft_is_the_same_however_its_records_come():
    """Values that are the same are looked at together, in blocks; so the order hardly matters, nor the type."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"pay": rng.integers(0, 9000, 20_000) / 4, "town": rng.integers(0, 30, 20_000).astype(str)})
    again = draft(frame)
    assert draft(frame.sample(frac=1, random_state=2)) == again
    assert draft(frame.astype(object)) == again
    assert draft(pl.from_pandas(frame)) == again


def test_frames_with_missing_values_of_pandas_and_with_numbers_for_names_are_drafted():
    nullable = pd.DataFrame(
        {
            "age": pd.array([30, 41, None] * 100, dtype="Int64"),
            "member": pd.array([True, None, False] * 100, dtype="boolean"),
            "sex": pd.array(["f", None, "m"] * 100, dtype="string"),
        }
    )
    drafted = str(draft(nullable))
    assert 'categories = ["false", "true"]' in drafted
    assert drafted.count('missing = [""]') == 3
    years = str(draft(pd.DataFrame({2020: [1, 2] * 50, 2021: ["a", "b"] * 50})))
    assert 'name = "2020"' in years
    assert 'name = "2021"' in years


WITHOUT_TEXT = {
    "span": [timedelta(hours=i % 5) for i in range(40)],
    "list": [[1, 2][: 1 + i % 2] for i in range(40)],
    "struct": [{"a": i % 3} for i in range(40)],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("kind", WITHOUT_TEXT)
def test_values_that_reading_refuses_are_left_out_with_what_it_says(make, kind):
    frame = make({"sex": ["F", "M"] * 20, "odd": WITHOUT_TEXT[kind]})
    found = drafted(frame)
    assert [entry["name"] for entry in tomllib.loads(found.text)["attribute"]] == ["sex"]
    asked = found.text.replace('name = "sex"', 'name = "odd"')
    with pytest.raises(InvalidInput, match="cannot be categories: convert them") as refused:
        Table.from_frame(frame, reviewed(asked))
    assert found.left_out["odd"] in str(refused.value)
    assert ("total_seconds" in found.left_out["odd"]) == (kind == "span")
    assert len(Table.from_frame(frame, reviewed(found.text))) == 40


def test_intervals_and_periods_of_pandas_are_left_out():
    frame = pd.DataFrame({"sex": ["F", "M"] * 20, "band": pd.cut(range(40), 4)})
    frame["month"] = pd.period_range("2020-01", periods=40, freq="M")
    assert set(drafted(frame).left_out) == {"band", "month"}


def test_one_value_that_cannot_be_read_leaves_its_column_out():
    frame = pd.DataFrame({"sex": ["F", "M"] * 20, "odd": [*range(39), timedelta(1)]})
    assert set(drafted(frame).left_out) == {"odd"}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("learn", [False, True])
def test_infinite_numbers_are_missing_among_numbers(make, learn):
    numbers = [round(20 + 0.1 * (i * i % 613), 1) for i in range(600)]
    numbers[::100], numbers[7] = [float("inf")] * 6, float("-inf")
    frame = make({"x": numbers})
    text = draft(frame, learn=learn)
    assert "infinite numbers are read as missing as well" in text
    (entry,) = tomllib.loads(text)["attribute"]
    assert (entry["kind"], entry["missing"]) == ("number", ["", "-inf", "inf"])
    if not learn:
        table = Table.from_frame(frame, reviewed(text))
        assert table.counts(((0,),))[0][-1] == 7


def test_infinite_numbers_of_a_file_are_read_as_missing(write):
    rows = "".join(f"{20 + i % 60},a\n" for i in range(200)) + "inf,b\n-Infinity,b\n"
    data = write("age,word\n" + rows, "people.csv")
    text = draft(data)
    assert tomllib.loads(text)["attribute"][0]["missing"] == ["", "-Infinity", "inf"]
    assert Table.read(data, reviewed(text)).counts(((0,),))[0][-1] == 2
    assert "infinite" not in draft(write("word\n" + "inf\nabc\n" * 30, "words.csv"))


def test_marks_of_missing_among_amounts_are_taken_for_missing_or_asked_about():
    years = [18 + i % 70 for i in range(300)]
    frame = pd.DataFrame({"age": years[20:] + [-9] * 20, "pay": [0.5 * year for year in years], "size": years})
    frame.loc[:30, "size"] = 999
    frame["kids"], frame["score"] = [0, 1, 2, 3, 4, 99] * 50, [1, 2, 3, 4, 9] * 60
    found = drafted(frame)
    assert "# -9: taken for missing, as no other value is on that side of zero; if it is a value, take it" in found.text
    assert drafted(pd.DataFrame({"falls": [0] * 90 + [9] * 9})).doubts == {"falls": ("9",)}  # a count, most likely
    assert found.doubts == {"size": ("999",), "kids": ("99",), "score": ("9",)}
    for mark in ("999", "99", "9"):
        assert found.text.count(f"# {mark}: a value, or does it mean missing? If so, list it under missing") == 1
    entries = {entry["name"]: entry for entry in tomllib.loads(found.text)["attribute"]}
    assert {name: entry.get("missing") for name, entry in entries.items() if "missing" in entry} == {"age": ["-9"]}
    assert entries["age"]["within"] == [10, 89]
    assert entries["size"]["within"][1] >= 999  # a person says what it means
    table = Table.from_frame(frame, reviewed(found.text))
    assert table.counts(((0,),))[0][-1] == 20


@pytest.mark.parametrize("written", ["-9", "-9.0", "-9,0"])
def test_a_mark_is_missing_as_it_is_written(write, written):
    rows = [f"{i}{',5' if ',' in written else '.5' if '.' in written else ''}" for i in range(90)] * 2
    data = write("pay;sex\n" + "".join(f"{row};f\n" for row in [*rows, *[written] * 7]), "pay.csv")
    text = reviewed(draft(data, dialect=Dialect(separator=";")))
    assert f'missing = ["{written}"]' in text
    assert Table.read(data, text, dialect=Dialect(separator=";")).counts(((0,),))[0][-1] == 7


def test_numbers_of_records_are_left_out(write):
    n = 60
    columns = {
        "Unnamed: 0": [*range(1, n + 1)],
        "at": [*range(n)],
        "back": [*range(n)][::-1],
        "later": [*range(9, n + 9)],
    }
    frame = pd.DataFrame({**columns, "sex": ["F", "M"] * (n // 2)})
    found = drafted(frame)
    assert found.left_out == dict.fromkeys(["Unnamed: 0", "at"], "it numbers the records")
    assert [entry["name"] for entry in tomllib.loads(found.text)["attribute"]] == ["back", "later", "sex"]
    in_file = drafted(write(frame.to_csv(index=False), "numbered.csv"))
    assert in_file.left_out == found.left_out
    gaps = frame.drop(columns="at")[frame.index % 3 > 0]
    assert set(drafted(gaps).left_out) == {"Unnamed: 0"}  # it has no name, and its numbers are all different
    assert not drafted(frame.drop(columns="Unnamed: 0")[:19]).left_out  # so few may be anything
    assert set(drafted(frame[:19]).left_out) == {"Unnamed: 0"}
    assert "Unnamed: 0" not in drafted(frame.assign(**{"Unnamed: 0": [1, 2, 3] * 20})).left_out
    many = pd.DataFrame({"at": range(50_000), "sex": ["F", "M"] * 25_000})
    assert set(drafted(many).left_out) == set(drafted(many, rows=20_000).left_out) == {"at"}


def test_negative_numbers_that_go_on_from_zero_are_values_that_are_asked_about():
    found = drafted(pd.DataFrame({"age": [-2, -1, 0, 1] * 50, "sex": ["F", "M"] * 100}))
    entry = tomllib.loads(found.text)["attribute"][0]
    assert (entry["bins"], "missing" in entry) == ({"start": -2, "stop": 2, "width": 1}, False)
    assert found.doubts == {"age": ("-2", "-1")}
    assert "# -2 and -1: values, or do they mean missing?" in found.text


def test_days_that_are_written_as_whole_numbers_are_asked_about():
    days = [f"{day:%Y%m%d}" for day in pd.date_range("1975-01-03", periods=200, freq="W")]
    told = "# all are days as in 19750103, for 1975-01-03: if they are dates, write them so in the data"
    assert told in draft(pd.DataFrame({"date": [*map(int, days)]}))
    assert told not in draft(pd.DataFrame({"date": [*map(int, days), 19750100]}))


@pytest.mark.parametrize(
    ("numbers", "points"),
    [
        ([0, 1, 2, 3, 4, 5, 7, 9, 10, 14, 16, 17], 18),
        ([1, 2, 3, 4, 31], 31),
        ([0, 1, 2, 3, 32], 0),  # far from the others: more likely a code
        ([0, 1, 3, 4, 17], 0),  # a gap so early
        ([2, 3, 4, 5, 20], 0),
    ],
)
def test_a_count_with_gaps_is_one_of_numbers(numbers, points):
    (entry,) = tomllib.loads(draft(pd.DataFrame({"visits": numbers * 3})))["attribute"]
    first = numbers[0]
    expected = ("number", {"start": first, "stop": first + points, "width": 1}) if points else ("category", None)
    assert (entry["kind"], entry.get("bins")) == expected


def test_categories_in_two_spellings_are_asked_about():
    frame = pd.DataFrame({"land": ["NRW", "nrw", "Bayern", "Hessen"] * 20, "sex": ["F", "M"] * 40})
    text = draft(frame)
    assert "# one category in several spellings? 'NRW', 'nrw'" in text
    assert text.count("several spellings") == 1


def test_a_table_without_a_record_is_called_so(write):
    with pytest.raises(InvalidInput, match=r"none\.csv has no records to draft a schema from"):
        draft(write("a,b\n", "none.csv"))


def test_a_cell_for_each_hour_where_there_are_many_records(write):
    hours, few = np.arange(2400) % 24, np.arange(600) % 24
    drafted_bins = {
        name: tomllib.loads(draft(pd.DataFrame({"hour": values, "sex": ["F", "M"] * (len(values) // 2)})))
        for name, values in {"many": hours, "few": few}.items()
    }
    assert drafted_bins["many"]["attribute"][0]["bins"] == {"start": 0, "stop": 24, "width": 1}
    assert drafted_bins["few"]["attribute"][0]["bins"] == {"start": 0, "stop": 25, "width": 5}
    assert drafted_bins["many"]["attribute"][0]["outside"] == "clip"
    text = draft(pd.DataFrame({"hour": hours}))
    assert "a day has 24 hours" in text
    domain = load(write(reviewed(text)))
    codes = Table.from_frame(pd.DataFrame({"hour": [0, 7, 23, 40]}), domain)
    assert codes.columns[0].tolist() == [0, 7, 23, 23]


def test_the_categories_that_a_frame_names(write):
    levels = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
    pandas = pd.DataFrame(
        {
            "level": pd.Series(["high", "low", None] * 20, dtype=levels),
            "grade": pd.Categorical([2, 1, 2] * 20, categories=[3, 1, 2]),
        }
    )
    enum = pl.Enum(["low", "middle", "high"])
    polars = pl.DataFrame({"level": ["high", "low"] * 30, "seen": ["b", "a"] * 30}).cast({"level": enum})
    for frame in (pandas, polars, polars.cast({"seen": pl.Categorical})):
        entries = {entry["name"]: entry for entry in tomllib.loads(draft(frame))["attribute"]}
        assert entries["level"]["categories"] == ["low", "middle", "high"]
        assert entries["level"]["ordered"]
        domain = load(write(reviewed(draft(frame))))
        assert Table.from_frame(frame, domain).columns[0][:2].tolist() == [2, 0]
        if "grade" in entries:
            assert entries["grade"]["categories"] == ["3", "1", "2"]
            assert "ordered" not in entries["grade"]
        else:  # no more than those that occur
            assert entries["seen"]["categories"] == ["a", "b"]
    many = pd.DataFrame({"level": pd.Categorical(["a", "b"] * 30, categories=["a", "b", *map(str, range(200))])})
    assert tomllib.loads(draft(many))["attribute"][0]["categories"] == ["a", "b"]


def test_an_index_with_a_name_is_told_to_be_left_out():
    """It is no column of the frame, and who draws it up may think that it is."""
    frame = pd.DataFrame({"id": range(100), "sex": ["F", "M"] * 50}).set_index("id")
    told = "the index 'id' is not read: reset_index() makes it a column"
    assert f"# - {told}" in draft(frame).splitlines()
    assert "index" not in draft(frame.reset_index(drop=True))
    assert "index" not in draft(frame.assign(id=1))  # which is a column too
    for asked in (
        lambda: draft(frame, person=Person("id", 2)),
        lambda: Table.from_frame(frame, Domain((Attribute("id", "category", categories=("1",)),))),
        lambda: Table.from_frame(
            frame, Domain((Attribute("sex", "category", categories=("F", "M")),), person=Person("id", 2))
        ),
    ):
        with pytest.raises(InvalidInput) as refused:
            asked()
        assert str(refused.value).endswith(f"; {told}")


def proposed(text, name):
    """The lines of the entry of a column."""
    entry = next(part for part in text.split("[[attribute]]") if f'name = "{name}"' in part)
    return [line.removeprefix("# ") for line in entry.splitlines()]


def reviewed_with(text, *lines, instead=""):
    """The domain of a draft, with lines for the first entry, in place of one that begins so."""
    kept = [line for line in text.splitlines() if not (instead and line.startswith(instead))]
    at = next(place for place, line in enumerate(kept) if line.startswith("kind = "))
    return load("\n".join([*kept[:at], *lines, *kept[at:]]).replace("reviewed = false", "reviewed = true"))


def test_a_draft_says_that_times_of_day_are_cut_off_and_how_to_keep_them():
    hours = pd.date_range("2020-03-01 06:00", periods=500, freq="73h")
    text = draft(pd.DataFrame({"when": hours}))
    lines = proposed(text, "when")
    assert "the time of day is cut off: to have it in synthetic records, add" in lines
    (told,) = (line for line in lines if line.startswith("within = "))
    assert told == 'within = [2020-01-01, 2024-12-31] and step = "hour"'
    domain = reviewed_with(text, *told.split(" and "))
    assert domain["when"].grid is not None
    assert len(Table.from_frame(pd.DataFrame({"when": hours}), domain)) == 500
    minutes = draft(pd.DataFrame({"when": hours + pd.Timedelta(minutes=7)}))
    assert 'within = [2020-01-01, 2024-12-31] and step = "minute"' in proposed(minutes, "when")
    assert "time of day" not in draft(pd.DataFrame({"when": hours.normalize()}))


def test_a_draft_says_that_a_number_beyond_single_cells_stops_a_release():
    text = draft(pd.DataFrame({"rooms": [1, 2, 3, 4, 5] * 100}))
    lines = proposed(text, "rooms")
    assert any("as at a larger one next month" in line for line in lines)
    later = pd.DataFrame({"rooms": [6, 2]})
    with pytest.raises(InvalidInput, match="6"):
        Table.from_frame(later, reviewed_with(text))
    assert len(Table.from_frame(later, reviewed_with(text, 'outside = "clip"'))) == 2


@pytest.mark.parametrize(
    ("days", "wanted", "cells"),
    [
        (pd.date_range("1931-05-02", "2005-03-01", periods=400), "years = 10", 8),
        (pd.date_range("2024-01-05", "2024-02-29", periods=400), "days = 7", 8),
    ],
)
def test_a_draft_proposes_coarser_bins_for_many_cells_of_dates(days, wanted, cells):
    text = draft(pd.DataFrame({"born": days.normalize()}))
    lines = proposed(text, "born")
    assert any("cells are many: for fewer, each with more records" in line for line in lines)
    coarse = next(line for line in lines if line.startswith("bins = ") and wanted in line)
    domain = reviewed_with(text, coarse, instead="bins = ")
    assert len(domain["born"].edges) - 1 == cells
    assert len(Table.from_frame(pd.DataFrame({"born": days}), domain)) == 400
    assert "cells are many" not in draft(pd.DataFrame({"born": days[-90:].normalize()}))


def test_different_numbers_are_looked_at_together():
    """Of a column of many numbers a draft does not try each one as a date, a mark and an answer."""
    numbers = np.arange(20_000) * 37 % 20_011
    lost = [None, *(-numbers[1:]).tolist()]
    table = pa.table({"income": numbers, "share": np.round(numbers / 20_011.5, 4), "lost": lost})
    called = Counter()
    sys.setprofile(lambda frame, event, _: called.update([frame.f_code.co_name] if event == "call" else []))
    try:
        draft(table)
    finally:
        sys.setprofile(None)
    assert called["unanswered"] < 1_000


_MANY = st.lists(
    st.one_of(
        st.integers(-30, 40_000).map(str),
        st.decimals(-1000, 1000, places=2).map(str),
        st.sampled_from(
            ["", "007", "-9", "-0", "+4", "1.50", "1.5", "1e3", "0.0", "2020-01-31", "refused", "inf", "x"]
        ),
        st.sampled_from(["12345678901234567", "1.234", "00.5", " 7 ", "\u0663", "."]),
    ),
    min_size=40,
    max_size=400,
)


@settings(max_examples=60)
@given(texts=_MANY, name=st.sampled_from(["income", "municipality_code", "zip"]), whole=st.booleans())
def test_numbers_that_are_looked_at_together_are_as_one_by_one(texts, name, whole):
    """Texts with a space before them mean the same, and are looked at one by one."""
    given = [text for text in texts if text.isdecimal()] * 2 if whole else texts

    def drafted_of(texts):
        return draft(pa.table({name: texts, "sex": ["F", "M"] * (len(texts) // 2) + ["F"] * (len(texts) % 2)}))

    if given:
        assert drafted_of(given) == drafted_of([f" {text}" for text in given])


def test_a_draft_of_the_first_records_says_that_other_categories_may_occur():
    frame = pd.DataFrame({"sex": ["F", "M"] * 30})
    said = "of the first 20 records: others may occur in the rest; a public list of categories is given here, or by"
    assert said in draft(frame, rows=20)
    assert "others may occur" not in draft(frame)
    assert "exactly the values that occur" in draft(frame)
