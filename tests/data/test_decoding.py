import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import attributes

from qrelease.data.attribute import Attribute
from qrelease.data.decoding import decode
from qrelease.data.domain import Domain
from qrelease.data.schema import domain_from_json, domain_to_json

AGE = Attribute("age", "number", edges=(17, 20, 30, 31), integer=True, missing=("?", ""))
SHARE = Attribute("share", "number", edges=(0, 0.25, 1))
DAY = Attribute("day", "date", edges=(0, 31, 59))
SEX = Attribute("sex", "category", categories=("F", "M"), missing=("?",))


@given(attributes("x"), st.integers(0, 2**32 - 1))
def test_decoded_values_encode_to_their_cell(attribute, seed):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(attribute.size), 20).astype(np.uint8)
    values = decode(attribute, codes, rng)
    assert values.shape == codes.shape
    assert [attribute.encode(str(v)) for v in values] == codes.tolist()


def test_decode_types_and_spread():
    rng = np.random.default_rng(5)
    ages = decode(AGE, np.full(2000, 1), rng)
    assert {type(v) for v in ages} == {int}
    assert set(ages) == set(range(20, 30))
    shares = decode(SHARE, np.zeros(2000, dtype=np.int64), rng).astype(float)
    assert abs(shares.mean() - 0.125) < 0.01
    assert shares.min() < 0.01
    assert shares.max() > 0.24
    assert max(len(str(v)) for v in decode(SHARE, np.zeros(50, dtype=np.int64), rng)) <= 6
    assert decode(DAY, np.array([0]), rng)[0].startswith("1970-01-")
    assert decode(SEX, np.array([0, 2, 1]), rng).tolist() == ["F", "?", "M"]
    assert decode(AGE, np.array([], dtype=np.uint8), rng).shape == (0,)


def test_synthetic_values_follow_the_shape_inside_their_bins():
    shape = ((0, 30), (10, 0), (40, 70), (41, 0), (60, 10))
    hours = Attribute("hours", "number", within=(0, 99), step=1, edges=(0, 50, 55, 100), shape=shape)
    drawn = decode(hours, np.repeat([0, 1, 2], 20_000), np.random.default_rng(1)).astype(int)
    first, empty, last = drawn[:20_000], drawn[20_000:40_000], drawn[40_000:]
    assert set(first) == {*range(10), 40}
    assert abs((first == 40).mean() - 0.7) < 0.02
    assert abs((first == 4).mean() - 0.03) < 0.006
    assert set(empty) == set(range(50, 55))  # evenly where nothing is known
    assert set(last) == set(range(60, 100))
    assert domain_from_json(domain_to_json(Domain((hours,))))["hours"] == hours
