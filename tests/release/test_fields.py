"""Fields of a manifest: whatever is wrong with one is a line that names it."""

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.queries.workload import Workload
from qrelease.release.fields import floats, queries, reading, value_of

DOMAIN = Domain.coded({"a": 3, "b": 4})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: {}["date"],
        lambda: [][3],
        lambda: None.nothing,
        lambda: int("x"),
        lambda: 1 // 0,
        lambda: len(3),
        lambda: (_ for _ in ()).throw(RecursionError("too deep")),
    ],
)
def test_any_mistake_in_what_is_read_is_one_line(wrong):
    with pytest.raises(InvalidInput, match=r"^cost: .+") as raised, reading("cost"):
        wrong()
    assert "\n" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_errors_of_the_package_keep_their_kind_and_others_pass():
    with pytest.raises(TooLarge, match=r"^synopsis: too many"), reading("synopsis"):
        raise TooLarge("too many")
    with pytest.raises(KeyboardInterrupt), reading("synopsis"):
        raise KeyboardInterrupt


def test_kinds_are_exact():
    assert value_of("n", 3, int) == 3
    assert value_of("n", None, int, None) is None
    for value, kinds, said in [(True, (int,), "int, got bool"), (3, (float, None), "float or null, got int")]:
        with pytest.raises(InvalidInput, match=f"^n: must be {said}$"):
            value_of("n", value, *kinds)


@pytest.mark.parametrize("content", [[1.0], [1.0, None], [1.0, "2"], [1.0, np.inf], [1.0, np.nan], [True, False], {}])
def test_numbers_are_finite_and_as_many_as_is_said(content):
    assert floats("values", [1, 2.5], 2).tolist() == [1.0, 2.5]
    assert floats("values", [], 0).tolist() == []
    with pytest.raises(InvalidInput, match=r"^values: must be 2 finite numbers$"):
        floats("values", content, 2)


def test_queries_are_read_as_they_are_written_and_no_other_way():
    asked = Workload.marginals(DOMAIN, 2)
    content = asked.to_json()
    assert queries(DOMAIN, content) == asked
    with pytest.raises(InvalidInput, match=r"entry 0: columns: these are not queries"):
        queries(DOMAIN, [{**content[0], "columns": ("a", "b")}])
    with pytest.raises(InvalidInput, match=r"they: must be list"):
        queries(DOMAIN, {"columns": ["a"]})
