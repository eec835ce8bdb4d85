"""`qrelease count`."""

import argparse
import os
from pathlib import Path

from qrelease._util.compiling import tell_of_compiling
from qrelease.apps.cli.shared import (
    check_memory,
    data_place,
    dialect_of,
    dialect_options,
    schema_options,
    workload_of,
    workload_option,
)
from qrelease.errors import InvalidInput

SHARD = (
    "a file whose suffix says its format, .csv (also .csv.gz, .csv.xz, .csv.bz2), .parquet, .arrow or .jsonl; in"
    " quotes, a pattern such as 'part-*.parquet', each of whose files is a shard; or a URL, s3://, gs:// or https://;"
    " each record is in one shard only"
)

_NO_DATABASE = "shards are files: write the records of a database to one, such as .parquet, and count that"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_count)
    parser.add_argument("data", type=data_place, nargs="+", metavar="SHARD", help=SHARD)
    dialect_options(parser)
    schema_options(parser)
    workload_option(parser)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="the folder to which the counts of each shard are added, in a file of their own",
    )


def _count(arguments: argparse.Namespace) -> None:
    check_memory()
    tell_of_compiling()
    from qrelease.data.counts import SUFFIX, Counts, check_countable
    from qrelease.data.sources.files import each_of, is_database, is_server
    from qrelease.data.sources.stores import public_name
    from qrelease.data.table import Table

    if any(map(is_server, arguments.data)):
        raise InvalidInput(_NO_DATABASE)
    places = [each for place in arguments.data for each in each_of(place)]
    shards = [str(shard) if isinstance(shard, Path) else public_name(shard) for shard in places]
    if any(map(is_database, shards)):
        raise InvalidInput(_NO_DATABASE)
    files = [arguments.out / f"{Path(shard).name}{SUFFIX}" for shard in shards]
    twice = next((file for i, file in enumerate(files) if file in files[:i] or file.exists()), None)
    if twice is not None:
        raise InvalidInput(f"{twice} exists already: each shard is counted once")
    try:
        arguments.out.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{arguments.out} cannot be made: {error.strerror}") from None
    for data, shard, file in zip(places, shards, files, strict=True):
        table = Table.read(data, arguments.schema, arguments.columns, dialect=dialect_of(arguments))
        check_countable(table.domain)
        Counts.of(table, workload_of(arguments, table.domain).sets, shard).save(file)
        print(f"wrote {file}")
    print(f"PRIVATE: exact counts; qrelease release --counts {os.fspath(arguments.out)} releases from them")
