"""The public domain and the private table, read and counted; and `adult`, the bundled table."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qrelease.data.bundled import adult as adult


def __getattr__(name: str) -> Any:
    """`adult`, loaded on first use: whoever imports the domain alone does not load the table."""
    if name == "adult":
        from qrelease.data.bundled import adult

        return adult
    raise AttributeError(f"module 'qrelease.data' has no attribute {name!r}")
