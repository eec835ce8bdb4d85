"""Checks that a query of a DuckDB file makes each of its rows from one row of every table that it names.

What is promised is of the rows that a query gives, so no row may depend on others. DuckDB's parser gives the query as a
tree, and every node of it has to be known here: columns, constants, comparisons, casts, cases, functions of one row,
tables, inner joins of different tables, and unions of all rows of different tables. What is not known is refused:
aggregates, windows, subqueries in expressions, outer joins, distinct, limits, samples, common table expressions, table
functions, views, macros and generated columns, and `rowid`, which tells how many rows stand before one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, Final

from qrelease._util.private_folder import private_folder
from qrelease.errors import InvalidInput

FILTERED: Final = "how many rows a query that filters or joins gives is private"
"""`Source.private_size` of the rows of a query whose number depends on what rows say."""

BATCH: Final = 1 << 18
"""Rows that are held decoded at a time."""

MEMORY: Final = "512MB"
"""What a query may hold in memory."""

_EXPRESSIONS: Final = frozenset(
    {
        *("COLUMN_REF", "CONSTANT", "FUNCTION", "CASE", "COMPARISON", "CONJUNCTION", "CAST", "OPERATOR"),
        *("BETWEEN", "STAR", "TYPE"),
    }
)
"""Classes of expressions whose value is one of a row's own."""

_OPERATORS: Final = frozenset(
    {
        *("OPERATOR_COALESCE", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_NOT", "OPERATOR_NULLIF"),
        *("COMPARE_IN", "COMPARE_NOT_IN"),
    }
)

_FUNCTIONS: Final = frozenset(
    {
        *("+", "-", "*", "/", "//", "%", "||", "~~", "!~~", "~~*", "!~~*", "like_escape", "not_like_escape"),
        *("lower", "upper", "trim", "ltrim", "rtrim", "substr", "substring", "left", "right", "length", "replace"),
        *("concat", "contains", "starts_with", "prefix", "suffix", "ends_with", "regexp_matches", "nullif"),
        *("abs", "round", "floor", "ceil", "ceiling", "trunc", "sign", "greatest", "least"),
        *("sqrt", "exp", "ln", "log10", "log2", "pow", "power", "**", "^"),
        *("date_part", "date_trunc", "year", "month", "day", "hour", "minute", "dayofweek", "strftime"),
    }
)
"""Functions of the values of one row, which give the same each time."""

_BY_EQUALITY: Final = ("COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM")

_ROW_BY_ROW: Final = frozenset(
    {
        "SEQ_SCAN",
        "TABLE_SCAN",
        "PROJECTION",
        "FILTER",
        "UNION",
        "ORDER_BY",
        "EMPTY_RESULT",
        "CROSS_PRODUCT",
        "HASH_JOIN",
    }
    | {"NESTED_LOOP_JOIN", "BLOCKWISE_NL_JOIN", "PIECEWISE_MERGE_JOIN", "IE_JOIN"}
    | {"ARROW_SCAN", "PYTHON_ARROW_SCAN"}
)
"""Steps of DuckDB's plans each of whose rows is made of one row of every table."""

_LONGEST_ERROR: Final = 300  # characters

_OF_THE_SESSION: Final = frozenset(
    {
        *("current_timestamp", "current_date", "current_time", "localtime", "localtimestamp", "user", "current_user"),
        *("session_user", "current_role", "current_schema", "current_catalog", "current_database"),
    }
)
"""Names that mean the clock or the session where no column is called so."""

_ABSENT: Final = ("group_expressions", "group_sets", "having", "sample", "qualify")
"""Parts of a select that have to be empty."""


def check_row_by_row(connection: Any, query: str, path: str) -> str:
    """Why the number of rows that a query gives is private under every relation: `FILTERED`, or nothing.

    Raises `InvalidInput` for one that is not known to make each row of one row of every table.

    connection  DuckDB's, of the file
    path        what errors call it
    """
    nodes = parsed(connection, query, path)
    private_size = check_nodes(nodes, path)
    _check_names(connection, nodes, path)
    return private_size


def parsed(connection: Any, query: str, path: str) -> list[Mapping[str, Any]]:
    """All nodes of the tree of a query. Raises `InvalidInput` where it is no single select."""
    statements = connection.extract_statements(query)
    nodes = _parsed(connection, query) if len(statements) == 1 and statements[0].type.name == "SELECT" else []
    if not nodes:
        raise InvalidInput(f"{path}: --query takes one select")
    return nodes


def check_nodes(nodes: Sequence[Mapping[str, Any]], path: str) -> str:
    """As `check_row_by_row`, of a query that names only tables, and functions of DuckDB's own."""
    for node in nodes:
        name = _of_the_session(node)
        if name is not None:
            raise InvalidInput(
                f"{path}: {name} is that of the session, or the clock, where no column is called so: write table.{name}"
            )
        found = _refused(node)
        if found:
            raise InvalidInput(
                f"{path}: the query has {found}, by which one record may change others, or which is not known here: a"
                " query selects columns, filters rows, joins different tables and takes functions of one row; of"
                " persons, [person.derive] of the schema counts and sums"
            )
    return FILTERED if any(node.get("where_clause") or node.get("type") == "JOIN" for node in nodes) else ""


def check_ordered(nodes: Sequence[Mapping[str, Any]], path: str) -> None:
    """Raise `InvalidInput` for a column that is compared by order with a number in quotes.

    Where the column has texts, as all of CSV have, 10 comes before 9 then; and where it has numbers, the number in
    quotes is one: so which records there are would depend on the type that others gave a column.
    """
    for node in nodes:
        if node.get("class") == "BETWEEN":
            sides = [node["input"], node["lower"], node["upper"]]
        elif node.get("class") == "COMPARISON" and node["type"] not in _BY_EQUALITY:
            sides = [node["left"], node["right"]]
        else:
            continue
        column = next((side for side in sides if side.get("class") == "COLUMN_REF"), None)
        number = next((text for text in map(_quoted_number, sides) if text), None)
        if column is not None and number is not None:
            name = ".".join(column["column_names"])
            raise InvalidInput(
                f"{path}: {name} is compared with the text '{number}', after which '10' comes before '9': write"
                f" cast({name} as double) and {number} without quotes"
            )


def _of_the_session(node: Mapping[str, Any]) -> str | None:
    """The name of a column that need not be one; None for other nodes."""
    names: Sequence[str] = node["column_names"] if node.get("class") == "COLUMN_REF" else ()
    return names[0] if len(names) == 1 and names[0].lower() in _OF_THE_SESSION else None


def _quoted_number(node: Mapping[str, Any]) -> str | None:
    """The number in a constant that is a text; None for others."""
    literal = node.get("literal") or {}
    if literal.get("kind") == "STRING":
        with suppress(ValueError):
            float(literal["text"])
            return str(literal["text"])
    return None


def check_plan(connection: Any, query: str, path: str) -> None:
    """Raise `InvalidInput` for a query whose plan, as written or as DuckDB betters it, has a step that mixes rows."""

    def steps(plan: list[Any]) -> Iterator[str]:
        for step in plan:
            yield str(step["name"]).strip()
            yield from steps(step["children"])

    for setting in ("disable_optimizer", "enable_optimizer"):
        connection.execute(f"pragma {setting}")
        (_, plan), *_ = connection.execute(f"explain (format json) {query}").fetchall()
        mixing = sorted(set(steps(json.loads(plan))) - _ROW_BY_ROW)
        if mixing:
            raise InvalidInput(
                f"{path}: the query has a step {mixing[0]}, in which one record may change others: a query selects"
                " columns, filters rows and joins tables; of persons, [person.derive] of the schema counts and sums"
            )


def arrow_batches(relation: Any, columns: Sequence[str]) -> Iterator[Any]:
    """The rows of a relation of DuckDB's, in the columns named, as tables of pyarrow's of at most `BATCH` each."""
    import pyarrow as pa

    for batch in relation.to_arrow_reader(BATCH):
        yield pa.Table.from_batches([batch]).select(list(columns))


@contextmanager
def connected(database: str) -> Iterator[Any]:
    """A database of DuckDB's, opened for reading, that reaches no other file but those that hold what memory cannot.

    These are in a `private_folder`, which is deleted afterwards. One thread, so that the rows of a join have one order.
    Moments are in UTC, on every machine, where DuckDB knows of other zones.
    """
    import duckdb

    with private_folder() as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": folder,
            "memory_limit": MEMORY,
            "threads": "1",
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
        }
        with duckdb.connect(database, read_only=database != ":memory:", config=settings) as connection:
            connection.execute("set enable_external_access = false")
            connection.execute("set enable_progress_bar = false")  # which goes to the standard output
            with suppress(duckdb.Error):
                connection.execute("set TimeZone = 'UTC'")
            yield connection


def error_line(error: BaseException) -> str:
    """An error of DuckDB's in one line, without the query at its end; of a long value in it no more than the head."""
    text = " ".join(str(error).rpartition("\n\nLINE ")[0].split() or str(error).split())
    text = "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text)
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


def tables_read(query: str) -> frozenset[str]:
    """The names of the tables that a query reads, in small letters and without their schemas.

    None where it is no single select, and without duckdb: who opens it then says why.
    """
    if find_spec("duckdb") is None:
        return frozenset()
    import duckdb

    with duckdb.connect() as connection:
        return frozenset(map(table_name, tables_of(_parsed(connection, query))))


def _parsed(connection: Any, query: str) -> list[Mapping[str, Any]]:
    """All nodes of the tree of a query; none where it is no single select."""
    ((text,),) = connection.execute("select json_serialize_sql(?::varchar)", [query]).fetchall()
    tree = json.loads(text)
    if tree.get("error") or len(tree.get("statements", ())) != 1:
        return []
    return list(_nodes(tree["statements"][0]["node"]))


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """All objects of a tree."""
    if isinstance(tree, Mapping):
        yield tree
        for part in tree.values():
            yield from _nodes(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _refused(node: Mapping[str, Any]) -> str | None:
    """What a node is, where it is not of a kind that is known to look at one row; None where it is."""
    if "class" in node:
        return _refused_expression(node)
    kind = node.get("type")
    if kind is None or "null_order" in node:
        return None
    match kind:
        case "SELECT_NODE":
            held = [key for key in _ABSENT if node.get(key)]
            if held or node.get("aggregate_handling") != "STANDARD_HANDLING":
                return (held or ["group by all"])[0].replace("_", " ")
        case "SET_OPERATION_NODE":
            if node.get("setop_type") != "UNION" or not node.get("setop_all"):
                return 'a set operation other than union all (a column called union is "union" in a query)'
            twice = _twice([*(node.get("children") or ()), node.get("left"), node.get("right")])
            if twice:
                return f"table {twice} in a union with itself, in which one record is several"
        case "BASE_TABLE":
            if node.get("sample") or node.get("at_clause"):
                return "a sample or a version of a table"
        case "JOIN":
            if node.get("join_type") != "INNER" or node.get("ref_type") not in ("REGULAR", "CROSS"):
                return f"a join of the kind {node.get('join_type')} {node.get('ref_type')}".lower()
            twice = _twice([node["left"], node["right"]])
            if twice:
                return f"table {twice} joined with itself"
        case "SUBQUERY":
            return "a sample" if node.get("sample") else None
        case "ORDER_MODIFIER":
            return None
        case _:
            return f"a {str(kind).lower().replace('_', ' ')}"
    return "a common table expression" if node.get("cte_map", {}).get("map") else None


def _refused_expression(node: Mapping[str, Any]) -> str | None:
    kind = node["class"]
    if kind not in _EXPRESSIONS:
        return f"a {str(kind).lower()} in an expression"
    if kind == "OPERATOR" and node["type"] not in _OPERATORS:
        return f"the operator {node['type']}"
    if kind == "STAR" and (node.get("columns") or node.get("expr")):
        return "COLUMNS(…)"
    if kind == "COLUMN_REF" and any(name.lower() == "rowid" for name in node["column_names"]):
        return "rowid"
    if kind == "FUNCTION":
        plain = not (node.get("schema") or node.get("catalog") or node.get("filter") or node.get("distinct"))
        if not plain or node["order_bys"]["orders"] or node["function_name"].lower() not in _FUNCTIONS:
            return f"the function {node['function_name']}"
    return None


def _twice(parts: Sequence[Any]) -> str | None:
    """A table that several parts of a join or of a union name; None where there is none."""
    seen: set[str] = set()
    for part in parts:
        named = set(map(table_name, tables_of(_nodes(part))))
        if named & seen:
            return min(named & seen)
        seen |= named
    return None


def tables_of(nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The nodes that name a table."""
    return [node for node in nodes if node.get("type") == "BASE_TABLE"]


def table_name(table: Mapping[str, Any]) -> str:
    """The name of a table that a node names, in small letters."""
    return str(table["table_name"]).lower()


def _check_names(connection: Any, nodes: list[Mapping[str, Any]], path: str) -> None:
    """Raise `InvalidInput` for a table that is a view, or has generated columns, and for a function that is a macro."""
    # Names are put into small letters here: a macro of the file may stand before DuckDB's own function.
    found = connection.execute("select table_name, sql from duckdb_tables() where not internal").fetchall()
    tables = {name.lower() for name, _ in found}
    generated = {name.lower() for name, sql in found if "generated always" in sql.lower()}  # in whichever schema
    views = {name.lower() for (name,) in connection.execute("select view_name from duckdb_views()").fetchall()}
    macros: set[str] = set()
    if any(node.get("class") == "FUNCTION" for node in nodes):  # to list all functions takes a while
        own = "select function_name from duckdb_functions() where not internal"
        macros = {name.lower() for (name,) in connection.execute(own).fetchall()}
    for node in tables_of(nodes):
        name = table_name(node)
        if name not in tables or name in views:
            raise InvalidInput(f"{path}: {node['table_name']} is not a table of the file: name tables, not views")
        if name in generated:
            raise InvalidInput(f"{path}: table {node['table_name']} has generated columns, which may mix rows")
    for node in nodes:
        if node.get("class") == "FUNCTION" and node["function_name"].lower() in macros:
            raise InvalidInput(f"{path}: {node['function_name']} is a macro of the file, which may mix rows")
