"""Which means are measured by default."""

from dataclasses import replace

import pytest

import qrelease as qr
from qrelease.data.person import Person
from qrelease.mechanisms.auto import Auto
from qrelease.mechanisms.number_sums import NumberSums
from qrelease.queries.default_means import MEANS_SHARE, default_means

WAGE = qr.Attribute("wage", "number", edges=(0, 20, 50, 2000), integer=True, within=(0, 1999), step=1)
SEX = qr.Attribute("sex", "category", categories=("F", "M"))
DOMAIN = qr.Domain([WAGE, SEX, replace(WAGE, name="hours of work")])


def test_means_of_columns_that_are_asked_about_and_have_wide_bins_are_measured():
    pairs = qr.Workload.marginals(DOMAIN, 2)
    assert default_means(pairs) == ("mean:wage", 'mean:"hours of work"')
    sums = NumberSums(default_means(pairs), mechanism=Auto(), share=MEANS_SHARE)
    sums.check(pairs, qr.ApproxDP(1.0, 1e-9), qr.Neighbours.ADD_REMOVE)
    assert default_means(qr.Workload.marginals(DOMAIN, [["wage", "sex"]])) == ("mean:wage",)
    assert default_means(qr.Workload.marginals(DOMAIN, [["sex"]])) == ()


@pytest.mark.parametrize(
    "attribute",
    [
        replace(WAGE, edges=(0, 500, 1000, 1500, 2000)),
        replace(WAGE, shape=((0, 5), (1000, 1))),
        replace(WAGE, within=(), step=0),
        replace(WAGE, edges=(0, 2000)),
        qr.Attribute("wage", "coded", codes=100),
    ],
)
def test_even_bins_bins_with_a_shape_and_columns_without_a_grid_have_none(attribute):
    domain = qr.Domain([attribute, SEX])
    assert default_means(qr.Workload.marginals(domain, 2)) == ()


def test_where_a_person_counts_once_there_are_no_sums():
    domain = qr.Domain([WAGE, SEX], person=Person("id", 3, weights="persons"))
    assert default_means(qr.Workload.marginals(domain, 2)) == ()
