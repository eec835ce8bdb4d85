"""What texts that are no questions about numbers are told: the question that was probably meant, or nothing."""

import pytest

from qrelease.data.domain import Attribute, Domain
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.question_hints import questions_meant

PEOPLE = Domain(
    (
        Attribute("age", "number", edges=(0, 18, 30, 65), integer=True),
        Attribute("sex", "category", categories=("F", "M")),
        Attribute("race", "category", categories=("A", "B")),
        Attribute("hours per week", "number", edges=(0, 20, 100), integer=True),
        Attribute("born, year", "number", edges=(0, 20, 100), integer=True),
        Attribute("employed", "category", categories=("false", "true")),
    )
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("quantile:age,q=0.5", "quantile(.5):age"),
        ("quantile(q=0.5):age", "quantile(.5):age"),
        ("quantile(0.5) age", "quantile(.5):age"),
        ("quantile:age(.25,.75)", "quantile(.25,.75):age"),
        ("quantile(50):age", "quantile(.5):age"),
        ("quantile(90%):age", "quantile(.9):age"),
        ("quantile(age, 0.5) by sex", "quantile(.5):age by sex"),
        ("quantile.5:age", "quantile(.5):age"),
        ("percentile:age,90", "quantile(.9):age"),
        ("90th percentile of age", None),
        ("p90:age", "quantile(.9):age"),
        ("median(age)", "quantile(.5):age"),
        ("Median age by sex", "quantile(.5):age by sex"),
        ("quartiles:age", "quantile(.25,.5,.75):age"),
        ("max:age", "quantile(1):age"),
        ("mean(age)", "mean:age"),
        ("MEAN:Age", "mean:age"),
        ("mean of age", "mean:age"),
        ("avg(age) group by sex, race", "mean:age by sex*race"),
        ("average age for each sex", "mean:age by sex"),
        ("mean:age by sex and race", "mean:age by sex*race"),
        ("mean:age by (sex, race) where age < 18", "mean:age by sex*race where age < 18"),
        ("mean:age where sex = F group by race", "mean:age by race where sex = F"),
        ("mean:age,by=sex", "mean:age by sex"),
        ("mean:age if sex = F", "mean:age where sex = F"),
        ("mean:age where age < 18 where sex = F", "mean:age where (age < 18) and (sex = F)"),
        ("mean:agee per sex", "mean:age by sex"),
        ("average:hours per week by sex", 'mean:"hours per week" by sex'),
        ('median:"born, year"', 'quantile(.5):"born, year"'),
        ("stddev:age", "variance:age"),
        ("share:sex = F by race", "ratio:sex = F by race"),
        ("ratio(sex = F and (age < 18))", "ratio:sex = F and (age < 18)"),
        ("share of sex", "ratio:sex = 'F'"),
        ("percentage:employed by race", "ratio:employed = 'true' by race"),
        ("percentages:sex by race", "histogram:sex by race"),
        ("ratio:age", "ratio:age in 18..29"),
        ("count(*) by sex", "count by sex"),
        ("count:sex, race", "count by sex*race"),
        ("number of sex", "count by sex"),
        ("hist(age)", "histogram:age"),
        ("mean:age,hours per week", None),  # two questions
        ("mean", None),
        ("frobnicate:age", None),
        ("quantile(1.5):age", None),
        ("mean:elephants", None),
        ("mean:age by elephants", None),
        ("", None),
        ("mean:age " * 1000, None),
    ],
)
def test_the_question_that_was_meant(text, meant):
    found = next(questions_meant(PEOPLE, text), None)
    assert found == meant
    if meant is not None:
        NumericQuestion.parse(PEOPLE, meant)
        assert NumericQuestion.meant(PEOPLE, text) == meant
