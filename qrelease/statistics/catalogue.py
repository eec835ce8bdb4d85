"""The statistics that a text can name, as `quantile:age,q=0.25`: what the command line takes."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from typing import Any, Final

from qrelease._util.texts import meant
from qrelease.errors import InvalidInput

STATISTICS: Final = {
    "sum": ("sums", "Sum", "of values clipped to low..high"),
    "mean": ("mean", "Mean", "of values clipped to low..high"),
    "textbook-mean": ("mean", "TextbookMean", "a noisy sum over a noisy count; origin=middle or zero"),
    "clipped-mean": ("clipped_mean", "ClippedMean", "of values clipped to two bounds by sparse vector"),
    "quantile-mean": ("clipped_mean", "QuantileMean", "of values clipped to two private quantiles"),
    "sparse-vector-mean": (
        "clipped_mean",
        "SparseVectorMean",
        "of values clipped to one bound by sparse vector, as in the notes",
    ),
    "quantile": ("quantile", "Quantile", "q, by default the median; by=a/b for one in each of their cells"),
    "recursive-quantiles": ("quantiles", "RecursiveQuantiles", "qs=0.1/0.5/0.9, by halving"),
    "tree-quantiles": ("quantiles", "TreeQuantiles", "qs=0.1/0.5/0.9, by a tree of counts"),
    "smooth-sensitivity": (
        "smooth_sensitivity",
        "SmoothSensitivity",
        "of=median, trimmed-mean, winsorised-mean or mean",
    ),
    "most-common": ("selection", "MostCommon", "k cells of the columns a/b, the most common first"),
    "above-thresholds": (
        *("thresholds", "AboveThresholds"),
        "the cells of a/b with threshold=T; positives=c, form=best; measure=count, or sum or mean of column=COLUMN",
    ),
    "sample-and-aggregate": (
        *("sample_and_aggregate", "SampleAndAggregate"),
        "of the columns a/b, function=FILE.py:NAME, low=, high=, blocks=50, aggregate=mean or median",
    ),
    "propose-test-release": ("propose_test_release", "ProposeTestRelease", "bound=B, of=median or as above"),
    "vector-mean": ("vector_mean", "VectorMean", "of the columns a/b/c, clipped to a ball that is chosen privately"),
    "truncated-mean": ("vector_mean", "TruncatedMean", "of the columns a/b/c, clipped one by one; radius=R"),
    "sparse-mean": ("sparse_mean", "SparseMean", "of all columns: sparse-mean:10,origin=0, the 10 furthest from 0"),
    "peeling-mean": ("sparse_mean", "PeelingMean", "the same with Laplace noise, as in the text"),
    "independence-test": ("chi_squared", "IndependenceTest", "of a column and second=COLUMN"),
    "fit-test": ("chi_squared", "FitTest", "of a column and shares=1/2/3, one a cell"),
    "uniformity-test": ("uniformity", "UniformityTest", "whether the two-valued columns a/b/c are fair coins"),
    "gaussian-mean-test": (
        *("uniformity", "GaussianMeanTest"),
        "whether columns a/b/c have means=1/2/3, covariance=4/9/1, one variance a column",
    ),
    "efficient-tester": ("uniformity", "EfficientTester", "the same for a distance=D, constants=proved or printed"),
    "lipschitz-tester": ("lipschitz", "LipschitzTester", "the same for a pure epsilon and few columns; distance=D"),
    "adassp": (
        *("adassp", "AdaSSP"),
        "of a target on features=a/b/c, or on all; positive=VALUE; refinements=0 for the text's",
    ),
    "functional-mechanism": ("regression", "FunctionalMechanism", "the same for a pure epsilon"),
    "noisy-descent": ("regression", "NoisyDescent", "the same by loss=logistic, linear or huber; epochs=, clip="),
}
"""The names, each with the module in `statistics`, the class, and what its parameters are."""

IN_SESSIONS: Final = (
    *("sum", "mean", "clipped-mean", "quantile-mean", "quantile", "recursive-quantiles", "tree-quantiles"),
    *("most-common", "above-thresholds", "independence-test", "fit-test"),
)
"""Those that a session gives: they look once through the columns that they name, so nobody waits long for the answers
of others, and they run no code of who asks."""

SESSION_TEST_CELLS: Final = 1 << 10
"""Cells of a test in a session: tables as large are simulated in about a second, while others wait."""

SESSION_GROUPS: Final = 1 << 10
"""Groups of quantiles in a session: as many take about half a second, with intervals, and 2^14 take eight."""

SESSION_SCORES: Final = 1 << 18
"""Combinations of a group and a value that are scored for quantiles in a session: 2^22 take up to five seconds."""

_FUNCTIONS: Final = {
    "median": "Median",
    "trimmed-mean": "TrimmedMean",
    "winsorised-mean": "WinsorisedMean",
    "mean": "StableMean",
}


_QUESTION: Final = re.compile(
    r"(?P<kind>median|quantile)s?\s*(?:\((?P<levels>[^()]+)\))?\s*:\s*(?P<column>[^\s,]+)(?:\s+by\s+(?P<by>[^,]+))?"
)


def parse_statistic(text: str) -> Any:
    """The statistic that a text names: `name:column`, or `name:column,parameter=value,…`; a list is `a/b/c`.

    Raises
    ------
    InvalidInput
        For an unknown name or parameter, which the message lists, and for a value that does not fit.

    Examples
    --------
    >>> parse_statistic("quantile:age,q=0.25,interval=no")
    Quantile(column='age', q=0.25, interval=False, by=())
    """
    name, _, rest = text.partition(":")
    column, *given = rest.split(",")
    if name not in STATISTICS or not column:
        wanted = as_a_statistic(text)
        told = f" (did you mean {wanted}?)" if wanted else meant(name, [*STATISTICS])
        raise InvalidInput(f"a statistic is NAME:COLUMN with a name of {', '.join(STATISTICS)}, got {text!r}{told}")
    module, made, _ = STATISTICS[name]
    kind = getattr(import_module(f"qrelease.statistics.{module}"), made)
    first, *known = [f.name for f in fields(kind)]
    values: dict[str, Any] = {first: _value(first, column)}
    for part in given:
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no parameter"
            raise InvalidInput(f"{name} {takes}, got {part!r}")
        values[key] = _value(key, value)
    try:
        return kind(**values)
    except TypeError:
        missing = [f.name for f in fields(kind) if f.name not in values]
        raise InvalidInput(
            f"{name} needs one more of {', '.join(missing)}, as in {name}:{column},{missing[0]}=…"
        ) from None


def as_a_statistic(text: str) -> str:
    """The statistic that says what a question of `release --numbers` asks, `quantile(.5):age by sex`; empty if none.

    Examples
    --------
    >>> as_a_statistic("quantile(.5):age by sex"), as_a_statistic("mean:age by sex")
    ('quantile:age,q=.5,by=sex', '')
    """
    found = _QUESTION.fullmatch(text)
    if found is None:
        return ""
    levels = [level.strip() for level in (found["levels"] or ".5").split(",")]
    by = ",by=" + "/".join(part.strip() for part in found["by"].split("*")) if found["by"] else ""
    if found["levels"] is None and found["kind"] != "median":
        return ""
    if len(levels) == 1:
        return f"quantile:{found['column']},q={levels[0]}{by}"
    return "" if by else f"tree-quantiles:{found['column']},qs={'/'.join(levels)}"


def spell_statistic(statistic: Any) -> str:
    """The text that names a statistic: `parse_statistic` makes an equal one of it.

    Raises
    ------
    InvalidInput
        For what the catalogue does not have, and for a value that no text has: a function, or a name with a comma.

    Examples
    --------
    >>> from qrelease import AboveThresholds
    >>> spell_statistic(AboveThresholds(("job", "sex"), 500, positives=3, form="numeric"))
    'above-thresholds:job/sex,threshold=500,positives=3,form=numeric'
    """
    name = getattr(statistic, "name", "")
    if isinstance(statistic, type) or name not in STATISTICS or type(statistic).__name__ != STATISTICS[name][1]:
        raise InvalidInput(f"a statistic is one of {', '.join(STATISTICS)}, as Quantile('age'), got {statistic!r}")
    first, *others = fields(statistic)
    parts = [f"{name}:{_text(getattr(statistic, first.name))}"]
    for f in others:
        value = getattr(statistic, f.name)
        if value != f.default:
            parts.append(f"{f.name}={_text(value)}")
    text = ",".join(parts)
    with suppress(InvalidInput):
        if parse_statistic(text) == statistic:
            return text
    raise InvalidInput(f"no text names {statistic!r}: a name or a number in it is read as another")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "/".join(map(_text, value))
    return str(value)


def _value(key: str, text: str) -> Any:
    if key == "of":
        if text not in _FUNCTIONS:
            raise InvalidInput(f"of must be one of {', '.join(_FUNCTIONS)}, got {text!r}")
        return getattr(import_module("qrelease.statistics.local_sensitivity"), _FUNCTIONS[text])()
    if key in ("columns", "features", "by"):
        return tuple(text.split("/"))
    if key in ("function", "column", "first", "second", "target", "positive"):
        return text
    if text in ("yes", "no"):
        return text == "yes"
    if key in ("qs", "shares", "means", "covariance"):
        return tuple(float(_number(part)) for part in text.split("/"))
    return text if text.isalpha() else _number(text)


def _number(text: str) -> float:
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise InvalidInput(f"a parameter must be a number, a word or a/b/c, got {text!r}") from None
