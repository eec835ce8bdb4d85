"""The public names of a package, which are written once: in the stub beside its `__init__.py`."""

from functools import cache


@cache
def homes(package: str) -> dict[str, str]:
    """The module that each public name of a package is imported from, as `from … import name as name` in its stub."""
    import ast
    from importlib.resources import files

    stub = ast.parse((files(package) / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names if alias.asname}
