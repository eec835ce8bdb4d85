import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from strategies import domains

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput

AGE = Attribute("age", "number", edges=(17, 20, 30, 31), integer=True, missing=("?", ""))
SEX = Attribute("sex", "category", categories=("F", "M"), missing=("?",))


def test_import_is_light():
    code = (
        "import sys, qrelease.data.domain, qrelease.data.schema; print({'numpy', 'numba', 'scipy'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


@given(domains())
def test_domain_is_a_product(domain):
    assert domain.size == np.prod(domain.shape, dtype=object)
    assert domain.cells(range(len(domain))) == domain.size
    assert [domain.axis(name) for name in domain.names] == list(range(len(domain)))
    assert [domain[name] for name in domain.names] == list(domain)
    assert domain.project(range(len(domain))) == domain
    assert hash(Domain(list(domain))) == hash(domain)


def test_domain_refuses():
    with pytest.raises(InvalidInput, match="attribute 'sex' is listed twice"):
        Domain((SEX, SEX))
    with pytest.raises(InvalidInput, match="at least one attribute"):
        Domain(())
    with pytest.raises(InvalidInput, match="no attribute 'x'; the domain has age, sex"):
        Domain((AGE, SEX)).axis("x")
    with pytest.raises(InvalidInput, match="named twice"):
        Domain((AGE, SEX)).axes(["sex", "sex"])


def test_a_huge_universe_has_a_size():
    domain = Domain.coded({f"c{i}": 2 for i in range(110)})
    assert domain.size == 2**110
    assert str(Domain((AGE, SEX))) == "age[4] x sex[3] (12 cells)"
    assert str(Domain.coded(dict.fromkeys("abcde", 1000))).endswith(" e[1000] (about 2^50 cells)")


def test_columns_are_given_by_name_or_by_position():
    domain = Domain.coded({"a": 2, "b": 3, "c": 4})
    assert domain.positions(["c", 0, np.int64(1)]) == (2, 0, 1)
    assert domain.positions("b") == domain.positions([1]) == (1,)
    for wrong in (["d"], [1.5], [True], [None], 2.0):
        with pytest.raises(InvalidInput, match="no attribute"):
            domain.positions(wrong)
