"""Events in words."""

from sampled import one

from qrelease.evaluation.audit import (
    audit,
)
from qrelease.noise.entropy import Entropy
from qrelease.privacy import PureDP

ONE = PureDP(1.0)


def test_events_are_told_in_words():
    def event(transcript, apart=3):
        def run(data, entropy):
            return transcript(data + one(entropy))

        return audit(run, 0, apart, ONE, samples=4_000, entropy=Entropy.insecure(6)).event

    assert event(lambda y: "below" if y < 2 else "above") in ("the output is 'below'", "the output is 'above'")
    assert event(lambda y: (5, None if y < 2 else "far")) in (
        "the number of missing values is at least 1",
        "the number of missing values is at most 0",
    )
    assert event(lambda y: y * y if y > 1 else 0).startswith("the output is ")
    assert event(lambda y: y // 2 % 2, apart=2) in ("the output is at least 1", "the output is at most 0")
    assert event(lambda y: (y, -y), apart=0).startswith("number ")
