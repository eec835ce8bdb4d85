"""Differentially private query release: synthetic tables and answers to workloads under one stated (ε, δ).

The public names are those that the stub beside this file, `__init__.pyi`, imports; type checkers read them there. Here
each loads on first use, so that `import qrelease` and the command line's `--help` cost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qrelease._util.stub import homes

if TYPE_CHECKING:
    from qrelease.data.table import Table


def read_csv(*args: Any, **kwargs: Any) -> "Table":
    """The private records of a CSV file, by a public schema; short for `Table.read_csv`.

    Parameters
    ----------
    *args, **kwargs
        As `Table.read_csv` takes them: the path of the file, the schema or its path, and the columns, by default all.

    Returns
    -------
    Table
        The private table.

    Raises
    ------
    InvalidInput
        One line that names source, line, column and value: for the data holder's eyes.

    Examples
    --------
    >>> import qrelease as qr
    >>> from qrelease.data.bundled import ADULT_CSV, ADULT_SCHEMA
    >>> len(qr.read_csv(ADULT_CSV, ADULT_SCHEMA, ["sex", "education"]))
    48842
    """
    from qrelease.data.table import Table

    return Table.read_csv(*args, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name == "__version__":
        from importlib.metadata import version

        return version("qrelease")
    if name.startswith("_") or name not in homes("qrelease"):
        raise AttributeError(f"module 'qrelease' has no attribute {name!r}")
    module = homes("qrelease")[name]
    if module in ("qrelease", "qrelease.data.sources"):  # it is a module
        return import_module(f"{module}.{name}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted([*homes("qrelease"), "read_csv"])
