"""What a command line says of mechanisms and inputs."""

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import (
    audit,
    find_own,
    read_input,
)
from qrelease.privacy import PureDP

ONE = PureDP(1.0)


def test_a_mechanism_is_found_by_its_name_in_the_current_folder(in_folder):
    (in_folder / "mechanisms_of_mine.py").write_text(
        "from qrelease.evaluation.audit import vectorised\n"
        "class Mine:\n"
        "    def leak(data, entropy):\n"
        "        return data\n"
        "leaks = vectorised(lambda data, entropy, n: [data] * n)\n"
        "number = 3\n"
    )
    for name in ("mechanisms_of_mine:Mine.leak", "mechanisms_of_mine:leaks"):
        assert audit(find_own(name), 0, 1, ONE, samples=200).convicted
    for name, message in {
        "mechanisms_of_mine": "named as module:name, got 'mechanisms_of_mine'",
        "no_such_module_here:f": "no_such_module_here cannot be imported: No module named",
        "mechanisms_of_mine:Mine.lean": "mechanisms_of_mine has no Mine.lean",
        "mechanisms_of_mine:number": "must be a function of data and entropy, got int",
    }.items():
        with pytest.raises(InvalidInput, match=message):
            find_own(name)


def test_inputs_are_read_as_json():
    assert read_input("3") == 3
    assert read_input('{"age": [1]}') == {"age": [1]}
    assert read_input("[[1, 2], [3]]") == [[1, 2], [3]]
    assert read_input('["a", 1]') == ["a", 1]
    array = read_input("[0, 1.5]")
    assert isinstance(array, np.ndarray)
    assert array.tolist() == [0, 1.5]
    with pytest.raises(InvalidInput, match="an input must be JSON, got 'x'"):
        read_input("x")
