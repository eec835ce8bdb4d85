"""Where the ledger stands, as a page tells its holder."""

from studios import TERMS

from qrelease.privacy import ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger


def ledger_of(page, **terms):
    return page.good("price", {"terms": TERMS | terms, "records": 300})["ledger"]


def test_a_ledger_that_is_new_is_not_made_by_a_price(page):
    page.reviewed()
    place = page.studio.folder.path / "people.ledger"
    assert ledger_of(page) == {"place": str(place), "new": True, "why": None}
    assert not place.exists()
    assert "budget exceeded" in page.bad("price", {"terms": TERMS | {"total_epsilon": 0.5}, "records": 9}, status=402)


def test_what_is_spent_and_left_is_told(page):
    page.reviewed()
    with Ledger.open(page.studio.folder.path / "people.ledger", ApproxDP(2, 1e-8), dataset="people") as ledger:
        ledger.charge(ApproxDP(1.5, 1e-9), "earlier")
    found = ledger_of(page, epsilon=0.5)
    assert found["total"] == "epsilon=2, delta=1e-08"
    assert found["spent"] == "epsilon=1.5, delta=1e-09"
    assert found["left"].startswith("epsilon=0.5, delta=")
    assert found["share"] == 0.75
    assert found["why"] is None
    assert "budget exceeded" in ledger_of(page, epsilon=0.6)["why"]


def test_a_ledger_of_another_promise_is_refused(page):
    page.reviewed()
    with Ledger.open(page.studio.folder.path / "people.ledger", PureDP(2), dataset="people"):
        pass
    assert "counts under add-remove" in page.bad(
        "price", {"terms": TERMS | {"neighbours": "replace-one"}, "records": 9}
    )
    page.reviewed(person={"column": "name", "at_most": 2})
    assert "one record" in page.bad("price", {"terms": TERMS, "records": 9})
