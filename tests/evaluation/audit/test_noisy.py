"""Which fields may differ: those that somebody has listed with a reason, and no others."""

from qrelease.apps.cli.mechanisms import MECHANISMS
from qrelease.evaluation.audit.commands import SCENES
from qrelease.evaluation.audit.noisy import NOISY_FIELDS, allowed
from qrelease.privacy import Neighbours

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
NAMES = [*MECHANISMS]


def test_a_field_is_suspicious_unless_it_is_listed_with_a_reason():
    assert all(field.reason and field.path for field in NOISY_FIELDS)
    for path in ("release.json/parameters/new", "release.json/new", "exit", "files", "stderr/0", "log/0", "error"):
        assert not any(allowed(path, name, way) for name in [*NAMES, "online"] for way in Neighbours)
    assert allowed("release.json/synopsis/total", "laplace", ADD)
    assert not allowed("release.json/synopsis/total", "laplace", SWAP)  # where it is public


def test_words_that_are_printed_are_no_noisy_field():
    for name in SCENES:
        for number in range(3):
            for path in ("stdout/0", "stdout/1", "stderr/0", "stderr/length", "exit", "log/0"):
                at = f"{number} {'schema' if name == 'learn' else name}/{path}"
                assert not any(allowed(at, name, way) for way in Neighbours)
