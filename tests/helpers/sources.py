"""A file of people as text, its schema and its codes; and visits, which every kind of source reads."""

from qrelease.data.domain import Attribute, Domain

PEOPLE = Domain(
    (
        Attribute("age", "number", edges=(0, 20, 40, 60), integer=True, missing=("?",)),
        Attribute("sex", "category", categories=("F", "M")),
        Attribute("day", "date", edges=(18262, 18293, 18322), missing=("",)),
    )
)
TEXT = 'sex,note,age,day\nF,"a, b",19,2020-01-31\nM,"two\nlines",?,\n F ,x, 40 ,2020-02-01\n'
CODES = [[0, 3, 2], [0, 1, 0], [0, 2, 1]]

ROWS = [
    {"id": f"p{i % 30}", "ward": ("north", "south", None)[i % 3], "age": None if i % 11 == 0 else 18 + i % 60}
    for i in range(200)
]
FRAME = {key: [row[key] for row in ROWS] for key in ROWS[0]}
RECORDS = (
    Attribute("ward", "category", categories=("north", "south"), missing=("",)),
    Attribute("age", "number", edges=(18, 30, 50, 80), integer=True, missing=("",)),
)
VISITS_SCHEMA = """
[[attribute]]
name = "ward"
kind = "category"
categories = ["north", "south"]
missing = [""]

[[attribute]]
name = "age"
kind = "number"
integer = true
bins = [18, 30, 50, 80]
missing = [""]
"""
DERIVED = f"""
[person]
column = "id"

[person.derive]
visits = {{ take = "count", bins = [0, 1, 5, 20] }}
oldest = {{ take = "max", of = "age" }}
{VISITS_SCHEMA}"""


def codes(table):
    return [column.tolist() for column in table.columns]
