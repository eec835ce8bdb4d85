"""`qrelease dummy`."""

import argparse
from pathlib import Path


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_dummy)
    parser.add_argument("schema", type=Path, help="the schema, a TOML file; or JSON {column: size}")
    parser.add_argument(
        "--rows", type=int, default=1000, metavar="N", help="how many records to draw (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, help="the CSV file to make (default: standard output)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another number gives other records (default: %(default)s)"
    )


def _dummy(arguments: argparse.Namespace) -> None:
    import sys

    from qrelease.data.dummy import dummy_table
    from qrelease.data.schema import load
    from qrelease.data.sources.compression import written
    from qrelease.data.sources.csv import write_rows
    from qrelease.errors import InvalidInput

    if arguments.seed < 0:
        raise InvalidInput(f"--seed must be at least 0, got {arguments.seed}")
    table = dummy_table(load(arguments.schema, undecided=True), arguments.rows, arguments.seed)
    rows = [zip(*(column.tolist() for column in table.values()), strict=True)]
    if arguments.out is None:
        write_rows(sys.stdout, [*table], rows)
        return
    if arguments.out.exists():
        raise InvalidInput(f"{arguments.out} exists already; say another --out")
    with written(arguments.out) as file:
        write_rows(file, [*table], rows)
    print(f"wrote {arguments.rows:,} made-up records into {arguments.out}")
