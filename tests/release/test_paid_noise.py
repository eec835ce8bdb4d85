"""What a mechanism of one's own measured without paying for it is said in its release."""

from dataclasses import dataclass

import numpy as np
import pytest
from worlds import coded, random_table

import qrelease as qr
from qrelease.apps.cli.mechanisms import MECHANISMS
from qrelease.release.paid_noise import OF_THE_PACKAGE

DOMAIN = coded(2, 2, 3)
WORKLOAD = qr.Workload.marginals(DOMAIN, 2)
COST = qr.PureDP(1.0)


@dataclass(frozen=True)
class Drawing:
    """A mechanism that measures all pairs as it was told, and the first pair by itself where it was told so."""

    how: str
    name = "drawing"

    def check(self, workload, cost, neighbours):
        """Nothing is refused."""

    def release(self, private, workload, cost):
        first, *_ = qr.split(cost, [0.5, 0.5])
        measured = private.measure(workload, first if self.how != "all" else cost)
        if self.how == "by itself":
            group, noise = workload.groups[0], measured[0].noise
            (exact,) = private.exact(qr.Workload(workload.domain, (group,)))
            own = np.random.default_rng(0).laplace(0, 0.1, len(exact))
            measured = [qr.Measurement(group, exact + own, qr.Noise(noise.law, noise.scale / 100)), *measured[1:]]
        if self.how == "by itself, and says so":
            private.spend("a draw of my own", first)
            measured = [qr.Measurement(m.group, m.values, qr.Noise("discrete Laplace", 77.0)) for m in measured]
        return qr.MechanismResult(qr.fitted(workload, measured, private.public_records), tuple(measured))


def released(how, table=None, cost=COST, **options):
    table = random_table(DOMAIN, 200, 0) if table is None else table
    with qr.Ledger.open(None, cost, **options) as ledger:
        return qr.Curator(table, ledger).release(Drawing(how), WORKLOAD, cost)


def about_draws(release):
    return [note for note in release.notes if "COST" in note or "spent" in note]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("cost", [COST, qr.ZCDP(0.3), qr.ApproxDP(1.0, 1e-6)])
def test_of_what_was_drawn_through_the_door_nothing_is_said(neighbours, cost):
    assert not about_draws(released("all", cost=cost, neighbours=neighbours))


def test_a_measurement_that_a_mechanism_made_by_itself_is_said_not_to_be_covered(tmp_path):
    release = released("by itself")
    uncovered, unspent = about_draws(release)
    assert uncovered.startswith("NOT COVERED BY THE COST: no part of it buys the noise of the measurements of a * b.")
    assert "private.measure" in uncovered
    assert unspent == "the mechanism spent epsilon=0.5 of epsilon=1: all of it was charged"
    release.save(tmp_path / "out")
    assert about_draws(qr.load(tmp_path / "out")) == [uncovered, unspent]
    found = {check.name: check for check in qr.verify(tmp_path / "out").checks}
    assert found["noise"].holds is False
    assert found["noise source"].holds is None
    released("all").save(tmp_path / "right")
    assert {check.name: check for check in qr.verify(tmp_path / "right").checks}["noise source"].holds


def test_a_draw_that_was_paid_for_under_another_name_may_be_any():
    assert not about_draws(released("by itself, and says so"))


def test_half_of_the_cost_is_said_to_be_unspent_in_the_terms_of_one_record():
    assert about_draws(released("half")) == ["the mechanism spent epsilon=0.5 of epsilon=1: all of it was charged"]


def test_the_package_s_own_mechanisms_are_named():
    assert {*OF_THE_PACKAGE} == {*MECHANISMS, "net", "sums"}
