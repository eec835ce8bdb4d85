"""The bundled table, UCI Adult (Becker & Kohavi 1996, CC BY 4.0; see ATTRIBUTION.md beside this file)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qrelease.data.table import Table

ADULT_CSV = Path(__file__).with_name("adult.csv.xz")
ADULT_SCHEMA = Path(__file__).with_name("adult.toml")

CATEGORICAL = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
    "income",
)
"""The nine columns without numbers: a universe of 76 204 800 cells, missing ones included."""


def adult(columns: Sequence[str] | None = None) -> "Table":
    """The 48 842 records of UCI Adult in 13 columns, or in some of them, in the order given."""
    from qrelease.data.table import Table

    return Table.read_csv(ADULT_CSV, ADULT_SCHEMA, columns)
