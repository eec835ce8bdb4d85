"""What a sparse-vector stream answers, by enumeration, and the most that a transcript of it can lose."""

import math

import numpy as np


def mass(scale, two_sided, y):
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** np.abs(y) if two_sided else np.where(y >= 0, (1 - q) * q ** np.maximum(y, 0), 0)


def survival(scale, two_sided, y):
    """P(Y >= y)."""
    q = math.exp(-1 / scale)
    if not two_sided:
        return q ** np.maximum(y, 0)
    return np.where(y > 0, q ** np.maximum(y, 0) / (1 + q), 1 - q ** np.maximum(1 - y, 0) / (1 + q))


class Law:
    """What a stream answers to values against the threshold 0, by sums over ρ; its noise may be off on purpose."""

    def __init__(self, calibration, threshold=1.0, query=1.0, redraw=None):
        self.scale, self.two_sided = float(calibration.query) * query, calibration.two_sided
        self.redraw = calibration.redraw if redraw is None else redraw
        self.offset, self.positives = calibration.offset, calibration.positives
        b = float(calibration.threshold) * threshold
        self.z = np.arange(-math.ceil(40 * b), math.ceil(40 * b) + 1)
        self.start = mass(b, self.two_sided, self.z)

    def step(self, weights, value, answer):
        """The weights over ρ after one more answer: None for ⊥, a gap, or True for ⊤ with any gap."""
        level = self.z + self.offset - value
        if answer is None:
            return weights * (1 - survival(self.scale, self.two_sided, level))
        if answer is True:
            above = weights * survival(self.scale, self.two_sided, level)
        else:
            above = weights * mass(self.scale, self.two_sided, level + answer)
        return self.start * above.sum() if self.redraw else above

    def probability(self, values, answers):
        weights = self.start
        for value, answer in zip(values, answers, strict=False):
            weights = self.step(weights, value, answer)
        return weights.sum()

    def transcripts(self, values, answers=(None, True)):
        """All transcripts with their probabilities; a transcript ends with the last value or the last positive."""
        found = {}

        def extend(weights, given):
            positives = sum(a is not None for a in given)
            if len(given) == len(values) or positives == self.positives:
                found[given] = weights.sum()
                return
            for answer in answers:
                extend(self.step(weights, values[len(given)], answer), (*given, answer))

        extend(self.start, ())
        return found


def worst(calibration, step, *, monotone, **off):
    """The loss of a stream that goes for both noises: far above and yet ⊥, many times; far below and yet ⊤, c times."""
    law = Law(calibration, **off)
    far = math.ceil(6 * float(calibration.threshold))
    below, above = [far] * 30, [-far]
    values, answers = [], []
    moves = []
    for _ in range(calibration.positives if calibration.redraw else 1):
        values += below + above
        answers += [None] * 30 + [True]
        moves += [step] * 30 + [0 if monotone else -step]
    if not calibration.redraw:
        rest = calibration.positives - 1
        values, answers, moves = values + above * rest, answers + [True] * rest, moves + moves[-1:] * rest
    moved = [v + d for v, d in zip(values, moves, strict=True)]
    return math.log(law.probability(values, answers) / law.probability(moved, answers))
