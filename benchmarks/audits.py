"""How many samples an audit needs to show noise that is too small, and how long it takes.

    python -m benchmarks.audits

Laplace noise is drawn for 2 and 4 times the ε that is claimed, and audited by `audit_mechanism` as it is by default. A
line for each: how many of the audits convicted, of how many, and the seconds of one.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace

import qrelease as qr
from qrelease.privacy.filters import Filter


@dataclass(frozen=True)
class TooLittleNoise:
    """A mechanism that draws as if it had been charged so many times its ε."""

    inner: qr.Laplace
    times: int
    name = "too-little-noise"

    def check(self, workload: qr.Workload, cost: qr.Cost, neighbours: qr.Neighbours) -> None:
        """As the other."""
        self.inner.check(workload, cost, neighbours)

    def release(self, private: qr.Private, workload: qr.Workload, cost: qr.Cost) -> qr.MechanismResult:
        """What is spent is not what was charged."""
        assert isinstance(cost, qr.PureDP)
        more = qr.PureDP(self.times * cost.epsilon)
        return self.inner.release(replace(private, filter=Filter(more)), workload, more)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epsilon", type=float, default=1.0, help="what is claimed (default: %(default)s)")
    options.add_argument("--samples", default="1000,2000,5000,10000,20000", help="with commas (default: %(default)s)")
    options.add_argument("--factors", default="1,2,4", help="with commas (default: %(default)s)")
    options.add_argument("--repeats", type=int, default=5, help="audits of each (default: %(default)s)")
    given = options.parse_args()
    print(f"Laplace noise, claimed epsilon={given.epsilon:g}")
    print(f"{'noise too small by':>18}{'samples':>9}{'convicted':>11}{'seconds':>9}")
    for times in map(int, given.factors.split(",")):
        for samples in map(int, given.samples.split(",")):
            convicted, started = 0, time.perf_counter()
            for seed in range(given.repeats):
                found = qr.audit_mechanism(
                    TooLittleNoise(qr.Laplace(), times),
                    qr.PureDP(given.epsilon),
                    qr.Neighbours.ADD_REMOVE,
                    samples=samples,
                    entropy=qr.Entropy.insecure(seed),
                )
                convicted += found.convicted
            seconds = (time.perf_counter() - started) / given.repeats
            print(f"{times:>18}{samples:>9,}{f'{convicted} of {given.repeats}':>11}{seconds:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
