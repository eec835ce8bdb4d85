"""What models make of a synthetic table: can they tell it from the real one, and what do they learn from it.

Needs scikit-learn (the extra `evaluate`), which is imported where it is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from qrelease._util.typing import Floats
from qrelease.data.table import Table
from qrelease.evaluation.quality.copies import part

MAX_CLASSES = 20
"""Cells of a column that a model is trained to foretell."""

ROWS = 10_000
"""Records of each table that a model is trained or tested on."""

_TREES = 40
_MAX_PAIRS = 500  # of so many effects a regression takes seconds
_PENALTY = 1.0  # without it steps diverge where a column foretells rare classes exactly, and the AUC drops to a half


def why_untrained() -> str | None:
    """Why no models are trained, None where they are."""
    return None if find_spec("sklearn") else "scikit-learn is not installed: pip install 'qrelease[evaluate]'"


@dataclass(frozen=True)
class Told:
    """How well models tell one table from another.

    auc         of boosted trees, on records they were not trained on: 0.5 if they cannot, 1 if always
    pmse        the propensity mean squared error of a logistic regression on the columns and on products of pairs of
                them, the mean of (p - 1/2)² over the N records of both tables (Woo, Reiter, Oganian & Karr 2009). On
                the columns alone independent columns would be as good as a second sample of the real ones
    pmse_ratio  the same as a multiple of k / 4N, what two samples of one population have for k effects: 1 if it cannot.
                Half of that is the null of Snoke, Raab, Nowok, Dibben & Slavković 2018, whose synthetic records are
                drawn from the very sample that they are compared with
    """

    auc: float
    pmse: float
    pmse_ratio: float

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def told_apart(real: Table, other: Table, rng: np.random.Generator) -> Told:
    """How well a model tells real records from synthetic ones, of as many records of each."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    n = min(len(real), len(other), ROWS)
    rows = [_codes(part(t, rng.permutation(len(t))[:n])) for t in (real, other)]
    x, y = np.concatenate(rows), np.repeat([0, 1], n)
    order = rng.permutation(2 * n)
    x, y = x[order], y[order]
    half = n
    with one_thread_of_trees():
        model = _trees(real, range(len(real.domain))).fit(x[:half], y[:half])
        auc = float(roc_auc_score(y[half:], model.predict_proba(x[half:])[:, 1]))
    design = np.column_stack([_effects(real, x), _products(real, x, rng)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge to the last digit
        logistic = LogisticRegression(C=1e3, solver="newton-cholesky").fit(design, y)
    chances = logistic.predict_proba(design)[:, 1]
    pmse = float(((chances - 0.5) ** 2).mean())
    design -= design.mean(axis=0)
    expected = np.linalg.matrix_rank(design.T @ design, hermitian=True) * 0.25 / (2 * n)
    return Told(auc, pmse, pmse / max(float(expected), 1e-300))


@dataclass(frozen=True)
class LearnedColumn:
    """How well one column is foretold from the others on real records that no model was trained on.

    Each pair is the area under the ROC curve, of several classes the mean of each against the rest, and the accuracy.
    """

    target: str
    from_real: tuple[float, float]
    from_synthetic: tuple[float, float]
    from_independent: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def learned(
    train: Table, test: Table, synthetic: Table, independent: Table, target: int, rng: np.random.Generator
) -> LearnedColumn | None:
    """How well boosted trees foretell a column; None where the test has one class only: nothing to foretell."""
    truth = part(test, rng.permutation(len(test))[:ROWS])
    if len(np.unique(truth.columns[target])) < 2:
        return None
    found = []
    for table in (train, synthetic, independent):
        some = part(table, rng.permutation(len(table))[:ROWS])
        found.append(prediction_scores(some, truth, target))
    return LearnedColumn(train.domain.names[target], *found)


def prediction_scores(train: Table, test: Table, target: int) -> tuple[float, float]:
    """How well boosted trees that are trained on one table foretell a column of another: the area and the accuracy."""
    from sklearn.metrics import roc_auc_score

    truth = test.columns[target].astype(np.int64)
    chances = np.zeros((len(truth), train.domain.shape[target]))
    classes = np.unique(train.columns[target])
    if len(classes) < 2:
        chances[:, classes] = 1.0
    else:
        model = foreteller(train, target)
        with one_thread_of_trees():
            chances[:, model.classes_] = model.predict_proba(np.delete(_codes(test), target, axis=1))
    areas = [roc_auc_score(truth == c, chances[:, c]) for c in np.unique(truth) if not (truth == c).all()]
    return float(np.mean(areas)), float((chances.argmax(axis=1) == truth).mean())


def foreteller(train: Table, target: int) -> Any:
    """Boosted trees of scikit-learn that foretell a column with several values from the codes of the others."""
    features = [a for a in range(len(train.domain)) if a != target]
    with one_thread_of_trees():
        return _trees(train, features).fit(_codes(train)[:, features], train.columns[target].astype(np.int64))


def one_thread_of_trees() -> Any:
    """A context in which scikit-learn's trees take one thread: of few records each step is short, and where other
    processes keep the cores busy its threads wait for each other's turn, at each step."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, "openmp")


def _codes(table: Table) -> Floats:
    return np.column_stack([column.astype(np.float64) for column in table.columns])


def _trees(table: Table, features: Sequence[int]) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    kinds = [not table.domain.attributes[a].ordered and 2 < table.domain.shape[a] <= 255 for a in features]
    return HistGradientBoostingClassifier(
        max_iter=_TREES,
        max_leaf_nodes=15,
        l2_regularization=_PENALTY,
        categorical_features=kinds,
        early_stopping=False,
        random_state=0,
    )


def _effects(table: Table, x: Floats) -> Floats:
    """Ordered columns as numbers between 0 and 1, the others as indicators of their commonest cells."""
    found = []
    for a, attribute in enumerate(table.domain.attributes):
        if attribute.ordered:
            found.append(x[:, a] / max(attribute.size - 1, 1))
            continue
        common = np.argsort(-np.bincount(x[:, a].astype(np.int64), minlength=attribute.size), kind="stable")
        found += [(x[:, a] == c).astype(np.float64) for c in common[:MAX_CLASSES][1:]]
    return np.column_stack(found) if found else np.zeros((len(x), 1))


def _products(table: Table, x: Floats, rng: np.random.Generator) -> Floats:
    """Products of pairs of columns, of all or of some at random: of an ordered column its number between 0 and 1, of
    another whether it has its commonest cell."""
    first, second = np.triu_indices(len(table.domain), 1)
    some = np.sort(rng.permutation(len(first))[:_MAX_PAIRS])
    leading = np.empty(x.shape)
    for a, attribute in enumerate(table.domain.attributes):
        cells = x[:, a].astype(np.int64)
        leading[:, a] = (
            cells / max(attribute.size - 1, 1) if attribute.ordered else cells == np.bincount(cells).argmax()
        )
    return leading[:, first[some]] * leading[:, second[some]]
