"""A table of people, its schema, the command that releases it; a file of two tables; a module of one's own."""

from qrelease.apps.cli import main

SCHEMA = """
[[attribute]]
name = "sex"
kind = "category"
categories = ["F", "M"]

[[attribute]]
name = "age"
kind = "number"
integer = true
bins = [18, 30, 40, 70]

[[attribute]]
name = "city"
kind = "category"
categories = ["Ulm", "Bonn", "Rom"]
missing = [""]
"""
ROWS = "".join(f"{'FM'[i % 2]},{18 + i % 50},{['Ulm', 'Bonn', 'Rom', ''][i % 4]}\n" for i in range(400))

SERVED = """
[server]
port = 0

[datasets.people]
data = "people.csv"
schema = "people.json"
ledger = "people.ledger"
epsilon = 1

[datasets.staff]
data = "staff.csv"
schema = "people.json"
ledger = "staff.ledger"
epsilon = 1
"""
"""The file of a server of two tables."""

OWN = """
from dataclasses import dataclass

import qrelease as qr

@dataclass(frozen=True)
class Own:
    name = "own"
    noise = 1  # no field, as it has no type

    def check(self, workload, cost, neighbours):
        pass

    def release(self, private, workload, cost):
        measured = private.measure(workload, cost)
        if not self.noise:
            raise ValueError("no\\nnoise")
        return qr.MechanismResult(qr.fitted(workload, measured, private.public_records), tuple(measured))

class Broken(Own):
    noise = 0

class Unfitted(Own):
    def release(self, private, workload, cost):
        return qr.Laplace().release(private, workload, cost)

class Sized(Own):
    def __init__(self, size):
        pass

class Nameless:
    def check(self, workload, cost, neighbours):
        pass

    def release(self, private, workload, cost):
        pass

class Statistic:
    name = "statistic"

    def estimate(self, private, cost):
        pass

def few(data):
    return data

class Choosing(Own):
    def release(self, private, workload, cost):
        private.select([0, 1], 1, cost, "exponential")

class OfAges(Unfitted):
    def check(self, workload, cost, neighbours):
        workload.domain.axis("age")

class OfAgesUnchecked(Unfitted):
    def release(self, private, workload, cost):
        return {}["age"] if "age" not in private.domain.names else super().release(private, workload, cost)
"""
"""A module with mechanisms of one's own, and what is none."""


def release(*options: str, out: str = "out") -> int:
    command = ["release", "people.csv", "--schema", "people.toml", "--workload", "marginals:2", "--epsilon", "1"]
    return main([*command, "--out", out, *options])
