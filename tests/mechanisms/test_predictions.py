"""What was predicted and chosen, in words."""

from dataclasses import asdict

from qrelease.mechanisms.predictions import Prediction, explained


def test_what_was_chosen_is_one_line_and_everything_is_a_line_each():
    found = [Prediction("maxent", 12.34, "by its plan", 0.2), Prediction("laplace", None, "it cannot run")]
    told = {"predictions": [asdict(p) for p in found], "chosen": "maxent", "to_choose": "nothing was spent"}
    assert explained(told, briefly=True) == (
        "chosen maxent: answers off by about 12.3 records (root mean square); 0.1 of a marginal's records are in"
        " another cell"
    )
    assert explained(told).splitlines() == [
        f"chosen {found[0]}",
        "not laplace: it cannot run",
        "to choose: nothing was spent",
    ]
