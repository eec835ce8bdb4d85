"""The mechanisms of the command line, by name, and their options."""

from pathlib import Path

import pytest
from commands import release

from qrelease.apps.cli.mechanisms import DEFAULT, MECHANISMS, OPTIONS, mechanism_of
from qrelease.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "words"), [("net", "is used from Python: qrelease.Net"), ("pmw", "PrivateMultiplicativeWeights")]
)
def test_a_mechanism_that_the_command_line_does_not_have_is_shown_the_way(
    name: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        release("--mechanism", name)
    assert words in capsys.readouterr().err


GIVEN = {"rounds": 7, "size": 5, "alpha": 0.25, "records": 900, "weighted_records": 80, "order": 2}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_name_makes_its_mechanism_with_the_options_that_are_its_own(name):
    """And an option of another is refused by name, although it would fit by chance."""
    assert mechanism_of(name).name == name
    for option, value in GIVEN.items():
        if name not in OPTIONS[option]:
            with pytest.raises(InvalidInput, match=f"--{option.replace('_', '-')} is an option of .*, not of {name}"):
                mechanism_of(name, **{option: value})
        elif option != "size":  # one of size and alpha is given
            assert getattr(mechanism_of(name, **{option: value}), option) == value
    assert GIVEN.keys() == OPTIONS.keys()


def test_an_option_that_is_not_given_leaves_the_default():
    assert mechanism_of(DEFAULT, **dict.fromkeys(GIVEN)) == mechanism_of(DEFAULT)
    assert mechanism_of("smalldb", size=5, alpha=None).size == 5
