"""What is predicted of a release, and that it moves with the terms."""

import pytest
from studios import PAY, PUBLIC, TERMS


def price(page, records=300, **terms):
    return page.good("price", {"terms": TERMS | terms, "records": records})


def test_price_and_quality_move_with_the_terms(page):
    page.reviewed()
    low, high = price(page, epsilon=0.1), price(page, epsilon=3)
    assert low["predicted"]["off"] > 3 * high["predicted"]["off"]
    assert low["predicted"]["error"] > 3 * high["predicted"]["error"]
    assert low["chance"] < high["chance"]
    assert price(page, records=30_000)["predicted"]["off"] < 0.1 * price(page)["predicted"]["off"]
    assert price(page)["folder"] == "people-release"
    assert price(page)["promised"]["laplace"] > price(page, records=30_000)["promised"]["laplace"]
    assert price(page)["predicted"]["mechanism"] == "maxent"


def test_a_person_with_many_records_is_dearer(page):
    page.reviewed()
    one = price(page)["predicted"]["error"]
    page.reviewed(person={"column": "name", "at_most": 4})
    assert price(page)["predicted"]["error"] > 3 * one
    page.reviewed(person={"column": "name", "at_most": 4, "weights": "persons"})
    assert price(page)["predicted"]["error"] == pytest.approx(one, rel=0.1)


def test_a_workload_that_is_more_than_tables_is_not_predicted(page):
    page.reviewed()
    found = price(page, workload=["ranges:age"])
    assert found["predicted"]["off"] is None
    assert found["promised"]["laplace"] > 0
    assert page.good("curve", {"terms": TERMS | {"workload": ["ranges:age"]}, "records": 300}) == {"curve": []}


def test_numbers_take_half_of_the_price(page):
    page.reviewed([*PUBLIC[:2], PAY])
    asked = {"numbers": ["mean:pay by sex"]}
    for delta in (0, 1e-9):
        whole, shared = price(page, delta=delta), price(page, delta=delta, **asked)
        assert shared["cost"] == whole["cost"]
        assert 1.2 * whole["predicted"]["error"] < shared["predicted"]["error"] < 3 * whole["predicted"]["error"]
        assert shared["promised"] == {}
    said = page.bad("price", {"terms": TERMS | {"numbers": ["mean:sex"]}, "records": 300})
    assert "sex" in said
    curves = [page.good("curve", {"terms": TERMS | more, "records": 300})["curve"] for more in ({}, asked)]
    assert all(one["off"] < two["off"] for one, two in zip(*curves, strict=True))


def test_the_curve_goes_down(page):
    page.reviewed()
    found = page.good("curve", {"terms": TERMS, "records": 300})["curve"]
    assert [p["epsilon"] for p in found] == sorted(p["epsilon"] for p in found)
    assert [p["off"] for p in found] == sorted((p["off"] for p in found), reverse=True)


@pytest.mark.parametrize("records", [0, -1, 1.5, "300", None, True, 10**12])
def test_records_are_a_public_number(page, records):
    page.reviewed()
    assert "about how many records" in page.bad("price", {"terms": TERMS, "records": records})


def test_nothing_of_a_price_comes_from_the_records(page):
    """The file may be away: a price reads none of it."""
    page.reviewed()

    def told():
        return {name: value for name, value in price(page).items() if name != "offer"}

    before = told()
    data = page.studio.folder.path / "people.csv"
    data.write_text("name,sex,age,city,pay,born\n")
    assert told() == before
    data.unlink()
    assert told() == before
