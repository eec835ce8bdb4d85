"""A file of people as text, its schema and its codes."""

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


def codes(table):
    return [column.tolist() for column in table.columns]
