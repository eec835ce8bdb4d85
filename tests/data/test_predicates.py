import operator
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import domains

from qrelease.data.domain import Attribute, Domain
from qrelease.data.predicates import Predicate, parse
from qrelease.errors import InvalidInput, TooLarge
from tests.data.condition_domain import DOMAIN


def cells(text):
    """The codes of the one attribute a text mentions that satisfy it."""
    predicate = parse(text, DOMAIN)
    assert len(predicate.axes) == 1
    mask = predicate.mask()
    assert mask.dtype == bool
    assert mask.shape == (DOMAIN.cells(predicate.axes),)
    return set(np.flatnonzero(mask).tolist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age in 20..39", {1, 2}),
        ("age >= 20 and age <= 39", {1, 2}),
        ("age >= 20 and not age >= 40", {1, 2}),
        ("age < 20", {0}),
        ("age > 39", {3}),
        ("age = 40", {3}),
        ("age = '20..29'", {1}),
        ("age < -5", set()),
        ("age < 1000", {0, 1, 2, 3}),
        ("not age < 20", {1, 2, 3, 4}),
        ("age is missing", {4}),
        ("age = '?'", {4}),
        ("age is not missing", {0, 1, 2, 3}),
        ("age in {0..19, 40, '?'}", {0, 3, 4}),
        ("age not in {}", {0, 1, 2, 3, 4}),
        ("income = '>50K'", {1}),
        ('income = ">50K"', {1}),
        ("income == 'it''s'", {2}),
        ("income != '>50K'", {0, 2}),
        ("income in ('<=50K', '>50K')", {0, 1}),
        ("school >= high", {1, 2, 3}),
        ("school in high..college", {1, 2}),
        ("school < 'none'", set()),
        ("share < 0.25", {0}),
        ("share >= .5", {2}),
        ("share in 0..0.5", {0, 1}),
        ("share in 0.25..1", {1, 2}),
        ("share in 2.5e-1..5", {1, 2}),
        ("share <= 1.0", {0, 1, 2}),
        ("share > 1", set()),
        ("share = '[0.25, 0.5)'", {1}),
        ("day in 2020-01-01..2020-01-31", {0}),
        ("day >= '2020-02-01'", {1}),
        ("day = '2020-02-01..2020-02-29'", {1}),
        ("`getting in/out` > 2", {3}),
        ('"getting in/out" in {0, 2..3}', {0, 2, 3}),
        ("\"getting in/out\" = '9'", {4}),
        ('"getting in/out" in -3..1', {0, 1}),
        ("hours in 0..39", {0, 1}),
        ("hours < 100", {0, 1, 2}),
        ('"in" = a', {0}),
        ("AGE_ = 1 or age in 20..29", None),
        ("NOT age IN 20..29 AND age IS NOT missing", {0, 2, 3}),
        ("not (age < 20 or (age in 20..39))", {3, 4}),
    ],
)
def test_cells(text, expected):
    if expected is None:
        with pytest.raises(InvalidInput, match="position 1: no column 'AGE_'"):
            parse(text, DOMAIN)
    else:
        assert cells(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "position 1: expected a column name, got the end"),
        (
            "'age' = 20",
            "position 1: expected a column name, got 'age'; names go without quotes, or in double ones: age",
        ),
        ("age& = 20", "position 4: the character '&'; write and; a value with spaces or signs goes in single quotes"),
        ("age", "position 4: expected one of = != < <= > >= in is, got the end"),
        ("age 20", "position 5: expected one of = != < <= > >= in is, got '20'"),
        ("age not = 20", "position 9: expected 'in', got '='"),
        ("age is null", "position 8: expected 'missing', got 'null'"),
        ("age in 20", "position 10: expected '..', or a set in braces after 'in', got the end"),
        ("age in {20..29", "position 15: expected ',' or '}', got the end"),
        ("age in (20..29}", "position 15: expected ',' or ')', got '}'"),
        ("(age < 20", "position 10: expected ')', got the end"),
        ("age < 20)", "position 9: expected 'and', 'or' or the end, got ')'"),
        ("age < 20 income = 'x'", "position 10: expected 'and', 'or' or the end, got 'income'"),
        ("income = >50K", "(one with spaces or signs goes in quotes), got '>': did you mean income = '>50K'?"),
        ("income in {<= 50K, x}", "got '<=': did you mean income = '<=50K'?"),
        ("income = >50", "position 10: expected a value (one with spaces or signs goes in quotes), got '>'"),
        ("age = missing", "position 7: expected a value"),
        ("'age' < 20", "position 1: expected a column name, got 'age'"),
        ("income = '>50K", "position 10: a quote that is not closed"),
        ("age < 20 & age > 3", "position 10: the character '&'"),
        ("ages < 20", "position 1: no column 'ages' (did you mean 'age'?); there are age, income, school"),
        (
            "getting in 1..2",
            "no column 'getting' (did you mean 'getting in/out'?); there are age, income, school, share",
        ),
        ("age < 25", "the condition cuts through the bin 20..29; the nearest edges are 20 and 30 (use < or >= there)"),
        ("age <= 20", "the condition cuts through the bin 20..29; the nearest edges are 20 and 30"),
        ("age in 20..35", "the condition cuts through the bin 30..39; the nearest edges are 30 and 40"),
        ("age = 25", "the condition cuts through the bin 20..29"),
        ("age = 50", "attribute 'age' has no cell for 50; it covers 0..19 to 40"),
        ("age = x", "attribute 'age' needs a whole number, got 'x'"),
        ("age < 20.5", "attribute 'age' needs a whole number, got '20.5'"),
        ("age < '?'", "attribute 'age' needs a whole number, got '?'"),
        ("age in 39..20", "the range 39..20 runs backwards"),
        ("school in phd..high", "the range phd..high runs backwards"),
        ("school > low", "attribute 'school' has no category 'low'; it has 'none', 'high', 'college', 'phd'"),
        ("income >50K", "position 1: attribute 'income' is not ordered: did you mean income = '>50K'?"),
        ("income <= 50K", "attribute 'income' is not ordered: did you mean income = '<=50K'?"),
        ("income > '<=50K'", "attribute 'income' is not ordered; use =, != or in {…} (only a schema that says ordered"),
        ("income is missing", "attribute 'income' has no missing cell: its entry in the schema has no `missing`"),
        ("age = missing", "got 'missing'; for missing values write age is missing"),
        ("age in {missing, 30..39}", "got 'missing'; for missing values write age is missing"),
        ("age is not null", "expected 'missing', got 'null'; for missing values write age is missing"),
        ("age is 30", "expected 'missing', got '30'"),
        ("age = NA", "needs a whole number, got 'NA'; for missing values write age is missing"),
        ("income = ''", "'it''s'; for missing values write income is missing"),
        (
            "income = 50K",
            "attribute 'income' has no category '50K' (did you mean '>50K'?); it has '<=50K'",
        ),
        (
            "share < 0.3",
            "cuts through the bin [0.25, 0.5); the nearest edges are 0.25 and 0.5 (use < or >= there)",
        ),
        ("share <= 0.25", "cuts through the bin [0.25, 0.5); the nearest edges are 0.25 and 0.5"),
        ("share < 1", "cuts through the bin [0.5, 1]"),
        ("share <= 0", "cuts through the bin [0, 0.25)"),
        ("share > 0", "cuts through the bin [0, 0.25)"),
        ("share = 0.25", "attribute 'share' holds bins of numbers; ask for a range, in a..b"),
        (
            "day < 2020-01-15",
            "cuts through the bin 2020-01-01..2020-01-31; the nearest edges are 2020-01-01 and 2020-02-01",
        ),
        ("day < soon", "attribute 'day' needs a date (YYYY-MM-DD), got 'soon'"),
        ('"getting in/out" = 4', "attribute 'getting in/out' has no cell for 4; it covers 0 to 3"),
        (
            "hours in 0..150",
            "the end bins, 0..19 and 40..99, take in whatever lies beyond (outside = 'clip')",
        ),
        ("hours > 120", "a condition must stay within them"),
        ("age is missing or hours = 500", "position 19: attribute 'hours' has no cell for 500"),
        ("not " * 200 + "age < 20", "position 405: nested deeper than 100 levels"),
        ("(" * 5000, "position 102: nested deeper than 100 levels"),
        ("age < 20 or " * 10_000, "a predicate may have 65536 characters, got 120000"),
    ],
)
def test_parse_refuses(text, message):
    with pytest.raises(InvalidInput) as caught:
        parse(text, DOMAIN)
    assert message in str(caught.value)
    assert str(caught.value).count("\n") == 0


CLIPPED = Domain(
    (
        Attribute("hours", "number", edges=(0, 20, 100), integer=True, outside="clip", missing=("?",)),
        Attribute("share", "number", edges=(0, 0.5, 1), outside="clip"),
        Attribute("pay", "number", edges=(0, 50, 100), within=(0, 99), step=1, outside="clip"),
        Attribute("price", "number", edges=(0, 5, 10), within=(0, 9.99), step=0.01, outside="clip"),
        Attribute("day", "date", edges=(18262, 18293, 18322), outside="clip"),
        Attribute("age", "number", edges=(0, 20, 120), integer=True, outside="missing", missing=("?",)),
    )
)


@pytest.mark.parametrize(
    "text",
    [
        *("hours > 99", "hours >= 100", "hours < 0", "hours <= -1", "hours > 150", "not hours <= 99"),
        *("not (hours >= 0 and hours <= 99)", "hours not in 0..99", "hours not between 0 and 99"),
        *("hours not in {0..99}", "hours < 20 or not not hours > 99"),
        *("share > 1", "share < 0", "share in 0..0", "pay > 99", "pay >= 100", "pay < 0", "price > 9.99"),
        *("price >= 10", "price < 0", "day > 2020-02-29", "day < 2020-01-01", "day <= 2019-12-31"),
    ],
)
def test_what_only_clipped_values_could_meet_is_refused(text):
    with pytest.raises(InvalidInput, match=r"take in whatever lies beyond .* a condition must stay within them"):
        parse(text, CLIPPED)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("hours <= 99", "hours is not missing"),
        ("hours in {}", "hours in {}"),
        ("hours < 20 and hours >= 20", "hours in {}"),
        ("not hours is not missing", "hours is missing"),
        ("not not hours <= 99", "hours is not missing"),
        ("share in 0.5..0.5", "share in {}"),
        ("not (share >= 0.5 and hours < 20)", "hours in {20..99, '?'} or share in 0.0..0.5"),
        ("age > 119", "age in {}"),
        ("not age >= 0", "age is missing"),
    ],
)
def test_other_conditions_of_clipped_columns_stay(text, canonical):
    assert str(parse(text, CLIPPED)) == canonical


def test_a_predicate_must_be_text():
    with pytest.raises(InvalidInput, match="a predicate must be a text, got int"):
        parse(3, DOMAIN)


@pytest.mark.parametrize(
    ("texts", "canonical"),
    [
        (
            ["age in 20..39", "age>=20 and age<40", "not (age < 20 or age >= 40 or age is missing)"],
            "age in 20..39",
        ),
        (["income != '>50K'", "not income = '>50K'", "income in {'it''s', '<=50K'}"], "income != '>50K'"),
        (
            ["income = '>50K' and age < 20", '(age < 20) and income=">50K"'],
            "age in 0..19 and income = '>50K'",
        ),
        (["not age in {0..40}", "age is missing", "age in {'?'}"], "age is missing"),
        (
            ["not (age < 20 and (income = '>50K' or school = phd))"],
            "age in {20..40, '?'} or (income != '>50K' and school in 'none'..'college')",
        ),
        (['"getting in/out" in {3,0,1}'], '"getting in/out" in {0, 1, 3}'),
        (['"in" is not missing'], '"in" is not missing'),
        (["share in 0..0.5"], "share in 0.0..0.5"),
        (["age in {}", "age < -3"], "age in {}"),
        (["day <= 2020-01-31"], "day in 2020-01-01..2020-01-31"),
        (["age < 20 or (age = 40 or income = '>50K')"], "age in {0..19, 40} or income = '>50K'"),
    ],
)
def test_equal_conditions_are_equal(texts, canonical):
    found = {parse(text, DOMAIN) for text in texts}
    assert len(found) == 1
    assert str(found.pop()) == canonical


def test_mask_runs_over_the_mentioned_axes_in_order():
    predicate = parse("income = '>50K' and age in 20..29", DOMAIN)
    assert predicate.axes == (0, 1)
    mask = predicate.mask().reshape(5, 3)
    assert np.argwhere(mask).tolist() == [[1, 1]]
    assert repr(predicate) == "parse(\"age in 20..29 and income = '>50K'\", …)"


def test_too_large_masks_are_refused():
    domain = Domain.coded({"a": 2**13, "b": 2**13, "c": 2**30})
    assert parse("a = 1 or a = 5", domain).mask().sum() == 2
    with pytest.raises(TooLarge, match="span 67,108,864 cells; at most 16,777,216"):
        parse("a = 1 and b = 2", domain)
    with pytest.raises(TooLarge, match="attribute 'c' has 1,073,741,824 cells"):
        parse("c < 5", domain)


def test_many_groups_of_wide_attributes_are_ordered():
    domain = Domain.coded({"a": 30_000, "b": 3})
    text = " or ".join(f"(a = {i} and b = {i % 3})" for i in range(60, 0, -1))
    found = parse(text, domain)
    assert found.mask().sum() == 60
    assert parse(str(found), domain) == found


# ---- random predicates: the parser against an evaluation record by record


@st.composite
def conditions(draw, domain):
    """A condition on one attribute as text, with the set of codes it must mean."""
    attribute = draw(st.sampled_from(domain.attributes))
    axis = domain.axis(attribute.name)
    name = '"' + attribute.name.replace('"', '""') + '"'

    def quoted(code):
        return "'" + attribute.label(code).replace("'", "''") + "'"

    codes = draw(st.sets(st.integers(0, attribute.size - 1), max_size=4))
    if attribute.kind in ("coded", "number") and set(attribute.labels[:-1]) & set(attribute.missing):
        codes = set()  # a missing mark that looks like a label hides it
    choice = draw(st.sampled_from(["set", "equal", "unequal", "compare"]))
    if choice == "compare" and attribute.kind == "coded" and attribute.ordered:
        sign = draw(st.sampled_from(["<", "<=", ">", ">="]))
        bound = draw(st.integers(-2, attribute.codes + 1))
        compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[sign]
        return f"{name} {sign} {bound}", axis, {c for c in range(attribute.codes) if compare(c, bound)}
    if choice == "equal" and len(codes) == 1:
        return f"{name} = {quoted(*codes)}", axis, codes
    if choice == "unequal" and len(codes) == 1:
        return f"{name} != {quoted(*codes)}", axis, set(range(attribute.size)) - codes
    return f"{name} in {{{', '.join(map(quoted, sorted(codes)))}}}", axis, codes


@st.composite
def texts(draw, domain, depth=3):
    """A predicate as text, with a function from a record to its truth."""
    kind = draw(st.sampled_from(["atom", "not", "and", "or"])) if depth else "atom"
    if kind == "atom":
        text, axis, codes = draw(conditions(domain))
        return text, lambda record: record[axis] in codes
    if kind == "not":
        text, holds = draw(texts(domain, depth - 1))
        return f"not ({text})", lambda record: not holds(record)
    parts = [draw(texts(domain, depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    join = all if kind == "and" else any
    return f" {kind} ".join(f"({t})" for t, _ in parts), lambda record: join([h(record) for _, h in parts])


@settings(deadline=None)
@given(st.data(), domains(most=3))
def test_masks_equal_an_evaluation_record_by_record(data, domain):
    text, holds = data.draw(texts(domain))
    predicate = parse(text, domain)
    axes, mask = predicate.axes, predicate.mask()
    assert axes == tuple(sorted(set(axes)))
    for cell, index in enumerate(np.ndindex(*[domain.attributes[a].size for a in axes])):
        record = dict(zip(axes, index, strict=True))
        assert mask[cell] == holds(record)
    again = parse(str(predicate), domain)
    assert again == predicate
    assert str(again) == str(predicate)
    assert isinstance(again, Predicate)


@given(st.text(max_size=30))
def test_any_text_parses_or_is_refused_in_one_line(text):
    assert "\n" not in outcome(text)


def test_a_refused_value_stays_on_its_line():
    assert "\n" not in outcome("age = '50\n'")
    assert "\n" not in outcome("age in '39\n'..'20\n'")


def outcome(text):
    try:
        return str(parse(text, DOMAIN))
    except InvalidInput as error:
        return str(error)


def test_between_and_like_are_what_they_say():
    domain = Domain(
        (
            Attribute("age", "number", edges=(0, 10, 20, 30), integer=True),
            Attribute("job", "category", categories=("nurse", "nurse (night)", "like", "between", "a%b")),
        )
    )
    same = [
        ("age between 10 and 29", "age in 10..29"),
        ("age not between 10 and 29", "not age in 10..29"),
        ("age BETWEEN 0 AND 9 and job = like", "age in 0..9 and job = 'like'"),
        ("job like 'nurse%'", "job in {'nurse', 'nurse (night)'}"),
        ("job like '_urse'", "job = 'nurse'"),
        ("job like '%e%e%'", "job = 'between'"),
        ("job not like '%n%'", "job in {'like', 'a%b'}"),
        ("job = between", "job = 'between'"),
    ]
    for one, other in same:
        np.testing.assert_array_equal(parse(one, domain).mask(), parse(other, domain).mask(), err_msg=one)
    refused = {
        "job like 'doctor'": "no category like 'doctor'",
        "age like '1%'": "holds no texts",
        "age between 10": "expected 'and', got the end",
        "ago = 1": "no column 'ago' (did you mean 'age'?)",
        "job = Nurse": "has no category 'Nurse' (did you mean 'nurse'?)",
    }
    for text, words in refused.items():
        with pytest.raises(InvalidInput, match=re.escape(words)):
            parse(text, domain)


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (30, "it has " + ", ".join(f"'c{i:02}'" for i in range(30))),
        (40, "it has 'c33', 'c00', 'c01', 'c02', 'c03', 'c04', 'c05', 'c06' and 32 more"),
    ],
)
def test_a_message_names_all_categories_or_those_that_are_near(count: int, told: str) -> None:
    domain = Domain((Attribute("a", "category", categories=tuple(f"c{i:02}" for i in range(count))),))
    with pytest.raises(InvalidInput) as refused:
        parse("a = cx33", domain)
    assert str(refused.value).endswith(told)
    with pytest.raises(InvalidInput) as refused:
        parse("a like 'zzzz'", domain)
    assert ("and 32 more" in str(refused.value)) == (count > 30)
    assert "it has 'c00', 'c01'" in str(refused.value)


def test_like_takes_few_steps():
    domain = Domain((Attribute("a", "category", categories=("a" * 5000, "b")),))
    with pytest.raises(InvalidInput, match="no category like"):
        parse("a like '" + "%a" * 500 + "%b%'", domain)


def test_patterns_are_compared_once_each_and_not_with_millions_of_categories():
    """A server reads conditions for analysts, while others wait."""
    towns = Attribute("town", "category", categories=tuple(f"town {i}" for i in range(70_000)))
    domain = Domain((towns,))
    once = " or ".join(["town like '%1'"] * 3000)
    assert parse(once, domain).mask().sum() == 7000
    with pytest.raises(TooLarge, match="position 257: its patterns are compared with 1,050,000 categories"):
        parse(" or ".join(f"town like '%{i}'" for i in range(2000)), domain)


@pytest.mark.parametrize(
    "text", ["mean:age by in", "median:age", "mean: age by in*school", "quantile(.5):age", " avg :age"]
)
def test_a_question_about_numbers_is_told_from_a_condition(text):
    with pytest.raises(
        InvalidInput, match=r"is a question about numbers, as it has a colon.*release\.table"
    ) as refused:
        parse(text, DOMAIN)
    assert repr(text.strip()) in str(refused.value)


def test_a_column_with_a_colon_in_its_name_may_begin_a_condition():
    domain = Domain((Attribute("a:b", "coded", codes=3), Attribute("c", "coded", codes=2)))
    assert parse("a:b = 2", domain).axes == (0,)
    with pytest.raises(InvalidInput, match=r"condition, position 1: no column 'a:c' .did you mean 'a:b'"):
        parse("a:c = 2", domain)


def test_truth_values_are_written_as_python_has_them_or_as_files_have_them():
    smokes = Attribute("smokes", "category", categories=("false", "true"), missing=("",))
    domain = Domain((smokes, Attribute("says", "category", categories=("True", "true", "no"))))
    for text in ("True", "true", "TRUE", "'True'"):
        assert parse(f"smokes = {text}", domain) == parse("smokes = 'true'", domain)
        assert parse(f"not smokes in {{False, {text}}}", domain) == parse("smokes is missing", domain)
    assert parse("says = True", domain).mask().tolist() == [True, False, False]  # listed apart
    with pytest.raises(InvalidInput, match="no category 'TRUE'"):
        parse("says = TRUE", domain)
    with pytest.raises(InvalidInput, match="no category 'False'"):
        parse("says = False", domain)


WORDS = Domain(
    (
        Attribute("city", "category", categories=("Ede", "Den Haag", "Trinidad and Tobago", "Den", "Ulm, Mitte")),
        Attribute("plan", "category", categories=("plus", "pro")),
        Attribute("signup", "date", edges=(18262, 18993, 19358, 19723)),
        Attribute("a", "number", edges=(0, 1, 2, 3), integer=True),
        Attribute("signed", "category", categories=("=>1", "&")),
    )
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "city = Trinidad and Tobago",
            "no category 'Trinidad': did you mean 'Trinidad and Tobago'? A value of several",
        ),
        ("city != den  haag and a = 1", "no category 'den': did you mean 'Den Haag'? A value of several words goes in"),
        ("city = Den Haag", "got 'Haag': did you mean 'Den Haag'? A value of several words goes in quotes"),
        ("city in {Ede, Den Haag}", "got 'Haag': did you mean 'Den Haag'?"),
        ("city in Den Haag", "got 'Haag': did you mean 'Den Haag'?"),
        ('plan in ["plus","pro"]', "position 9: the character '['; a list goes in parentheses: write in (plus, pro);"),
        ("city in ['Den Haag', Ede]", "write in ('Den Haag', Ede);"),
        ("plan in [plus", "a list goes in parentheses: write in (a, b);"),
        ("a > 1 & a = 2", "the character '&'; write and; a value with spaces or signs goes in single quotes"),
        ("a > 1 && a = 2", "the character '&'; write and;"),
        ("a > 1 | a = 2", "the character '|'; write or;"),
        ("a > 1 || a = 2", "the character '|'; write or;"),
        ("!(a = 1)", "the character '!'; write not;"),
        ("a => 1", "position 3: => is no comparison: write >="),
        ("a =< 1", "=< is no comparison: write <="),
        ("a <> 1", "<> is no comparison: write !="),
        ("a === 1", "=== is no comparison: write ="),
        ("signed = =>1", "did you mean signed = '=>1'?"),
        (
            "signup in 2022",
            "for all of 2022 write signup in 2022-01-01..2022-12-31, and for earlier dates signup < 2022-01-01",
        ),
        (
            "signup < 1990",
            "needs a date (YYYY-MM-DD), got '1990'; for all of 1990 write signup in 1990-01-01..1990-12-31",
        ),
        ("signup = 2024-02", "for all of 2024-02 write signup in 2024-02-01..2024-02-29"),
    ],
)
def test_what_is_written_as_elsewhere_is_told_how_it_is_written_here(text, told):
    with pytest.raises(InvalidInput) as refused:
        parse(text, WORDS)
    assert told in str(refused.value)


def test_what_is_proposed_in_place_of_a_mistake_is_a_condition():
    for text in ("plan in (plus, pro)", "city in ('Den Haag', Ede)", "signup < 2022-01-01", "a == 1 AND plan == plus"):
        parse(text, WORDS)
    for text in ("signup in 2022-13", "a in 2"):
        with pytest.raises(InvalidInput, match=r"got the end$"):
            parse(text, WORDS)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("Town140", ""),
        ("town014", r" \(did you mean 'Town014'\?\)"),
        ("Town01*", r" \(did you mean like 'Town01%'\?\)"),
    ],
)
def test_a_value_that_was_not_learned_is_told_where_it_is_counted_and_no_other_is_proposed(text, near):
    """Of another town it was asked whether that one was meant."""
    city = Attribute("city", "category", categories=("Town014", "Town140b", "other"), outside="other")
    told = (
        f"^.*'{re.escape(text)}' is not among the categories that were learned or listed for 'city'{near}: such values"
    )
    with pytest.raises(InvalidInput, match=rf"{told} are counted in 'other' \(city = 'other'\)$"):
        parse(f"city = '{text}'", Domain((city,)))


def test_of_a_column_of_truth_values_alone_it_is_said_how_to_ask_for_those_that_are_true():
    domain = Domain((Attribute("remote", "category", categories=("false", "true")), DOMAIN["income"]))
    with pytest.raises(InvalidInput, match=r"in is, got the end: write remote = 'true'$"):
        parse("remote", domain)
    with pytest.raises(InvalidInput, match=r"in is, got the end$"):
        parse("income", domain)
