"""The tree over the cells of outputs: it finds what numbers tell together, and its boxes part all outputs."""

from itertools import product

import numpy as np
import pytest

from qrelease.evaluation.audit.cells import BinnedColumn, log_ratio
from qrelease.evaluation.audit.tree import grow

INF = float("inf")


def grown(first, second):
    cells = [BinnedColumn.of(i, name, first[:, i], second[:, i], {}) for i, name in enumerate("xyz"[: first.shape[1]])]
    return grow(cells, first, second)


def holding(tree, output):
    """The boxes that an output is in."""
    codes = [cells.codes(output[None, :])[0] for cells in tree.cells]
    return [i for i, box in enumerate(tree.boxes) if all(a <= codes[c] <= b for c, (a, b) in box.items())]


def test_two_numbers_tell_together_what_neither_tells_alone():
    """Two bits: alike on the first input, unlike on the second; each alone is hardly likelier on either."""
    coins = (np.random.default_rng(0).random((2, 400)) < [[0.6], [0.4]]).astype(float)
    first, second = np.column_stack([coins[0], coins[0]]), np.column_stack([coins[1], 1 - coins[1]])
    tree = grown(first, second)
    assert np.abs(np.concatenate([cells.ratio for cells in tree.cells])).max() < 0.5
    assert (tree.ratios(first) > 2).all()
    assert (tree.ratios(second) < -2).all()
    assert {*tree.describe(0, INF).split(", or ")} == {
        "x is 1 or missing and y is 1 or missing",
        "x is below 1 and y is below 1",
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_boxes_part_all_outputs_and_have_the_ratio_of_what_is_in_them(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 5, (600, 3)).astype(float), rng.integers(0, 5, (600, 3)).astype(float)
    first[first[:, 0] == 2, 1] = 4
    second[5, 2] = np.nan
    tree = grown(first, second)
    assert 1 < len(tree.boxes) <= 16
    held = [[holding(tree, output) for output in side] for side in (first, second)]
    assert all(len(boxes) == 1 for side in held for boxes in side)
    counts = [np.bincount([boxes[0] for boxes in side], minlength=len(tree.boxes)) for side in held]
    assert tree.ratio == pytest.approx(log_ratio(*counts))
    assert tree.ratios(first) == pytest.approx([tree.ratio[boxes[0]] for boxes in held[0]])
    # What was never seen is in some box, too.
    for output in product([-INF, 2.5, INF, np.nan], repeat=3):
        assert len(holding(tree, np.array(output))) == 1


def test_outputs_of_one_law_are_not_parted():
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 2, (2, 2000, 2)).astype(float)
    tree = grown(first, second)
    assert tree.boxes == [{}]
    assert tree.ratio.tolist() == [0]
    assert tree.describe(-1, 1) == "anything happens"


def test_the_best_cut_is_the_first_and_there_are_no_more_than_sixteen_boxes():
    """Every third value tells: that takes more cuts than there may be."""
    values = np.repeat(np.arange(60.0), 40)[:, None]
    tells = (values[:, 0] % 3 == 0) & (values[:, 0] >= 30)
    first, second = np.concatenate([values, values[tells]]), np.concatenate([values, values[~tells]])
    tree = grown(first, second)
    assert len(tree.boxes) == 16
    assert tree.describe(-INF, INF).endswith(", or in 14 more boxes")
    # From the same values, less often where they tell: boxes are single values there.
    assert (tree.ratios(values[tells]) > 0).mean() > 0.5
    assert (tree.ratios(values[values[:, 0] < 30]) < 0).all()
