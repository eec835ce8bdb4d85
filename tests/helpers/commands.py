"""A table of people, its schema, and the command that releases it; and a file to serve two tables by."""

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


def release(*options: str, out: str = "out") -> int:
    command = ["release", "people.csv", "--schema", "people.toml", "--workload", "marginals:2", "--epsilon", "1"]
    return main([*command, "--out", out, *options])
