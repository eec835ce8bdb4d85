"""What the package raises: who can catch what, and what outlives a pickle or a process."""

import inspect
import pickle

import pytest

from qrelease import errors
from qrelease.apps.cli import main

ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


def test_who_catches_the_base_catches_all_errors_and_no_warning():
    kinds = {kind for kind in ERRORS if issubclass(kind, errors.QReleaseError)}
    warned = set(ERRORS) - kinds
    assert warned == {errors.RowsChangedWarning, errors.WeakCostWarning, errors.ModelAloneWarning}
    assert all(issubclass(kind, UserWarning) for kind in warned)
    others = kinds - {errors.QReleaseError}
    assert {(a, b) for a in others for b in others if a is not b and issubclass(a, b)} == {
        (errors.OutcomeUnknown, errors.LedgerError),
        (errors.UnusableResult, errors.InvalidInput),
    }


def test_python_s_own_kinds_are_caught_too_where_they_fit():
    """What does not fit in the free memory is a `MemoryError` and what never fits is none: that is public."""
    assert issubclass(errors.InvalidInput, ValueError)
    assert issubclass(errors.OutOfMemory, MemoryError)
    assert [kind for kind in ERRORS if issubclass(kind, (ValueError, MemoryError))] == [
        errors.InvalidInput,
        errors.OutOfMemory,
        errors.UnusableResult,
    ]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_of_another_process_arrives_whole(kind):
    again = pickle.loads(pickle.dumps(kind("one line")))
    assert (type(again), str(again)) == (kind, "one line")


def test_what_a_mechanism_returned_goes_with_the_error_to_another_process():
    again = pickle.loads(pickle.dumps(errors.UnusableResult("no synopsis", [3])))
    assert (str(again), again.returned) == ("no synopsis", [3])


def test_an_error_of_a_service_keeps_its_status_and_its_key():
    again = pickle.loads(pickle.dumps(errors.ServiceError("not now", 503, "monday")))
    assert (str(again), again.status, again.key) == ("not now", 503, "monday")
    plain = errors.ServiceError("no answer")
    assert (plain.status, plain.key) == (None, None)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["ledger", "show", "none.ledger"], "qrelease: there is no ledger none.ledger"),
        (["answer", "none", "a = 1"], "none"),
        (["plan", "--schema", "none.json", "--n", "10", "--epsilon", "1"], "none.json cannot be read"),
    ],
)
def test_on_the_command_line_each_is_one_line_and_exit_code_2(command, said, in_folder, capsys):
    assert main(command) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("qrelease: ")
    assert said in shown.err
    assert shown.err.count("\n") == 1
