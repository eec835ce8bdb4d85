"""`qrelease evaluate`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from qrelease._util.compiling import tell_of_compiling
from qrelease._util.elapsed import elapsed
from qrelease.apps.cli.mechanisms import DEFAULT, known_or_own
from qrelease.apps.cli.shared import (
    check_memory,
    data_options,
    dataset_of,
    delta_option,
    entropy_of,
    names,
    neighbours_option,
    seed_option,
    table_of,
    workload_of,
    workload_option,
    wrote,
)
from qrelease.errors import InvalidInput


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_evaluate)
    data_options(parser.add_argument_group("the data"), released=True)
    mechanisms = parser.add_argument_group("comparing mechanisms")
    workload_option(mechanisms)
    mechanisms.add_argument(
        "--mechanism",
        type=names,
        default=[DEFAULT],
        metavar="A,B,…",
        help="the mechanisms to compare, beside the baselines, which are always compared (default: auto); MODULE:NAME"
        " is one of your own: an object with check and release, or its class, from the current folder",
    )
    mechanisms.add_argument(
        "--epsilon", type=_floats, default=[0.1, 1.0, 10.0], help="the epsilons to compare at (default: 0.1,1,10)"
    )
    delta_option(mechanisms)
    neighbours_option(mechanisms)
    mechanisms.add_argument(
        "--trials", type=int, default=1, help="how often each mechanism is run (default: %(default)s)"
    )
    mechanisms.add_argument("--plot", type=Path, help="draw error against epsilon into this file, .svg or .png")
    quality = parser.add_argument_group("judging a synthetic table, instead of mechanisms")
    judged = quality.add_mutually_exclusive_group()
    judged.add_argument("--release", type=Path, help="judge the synthetic table of this release")
    judged.add_argument(
        "--synthetic", type=Path, help="judge this synthetic table, made by any tool: a CSV or Parquet file"
    )
    quality.add_argument(
        "--targets",
        type=names,
        metavar="A,B,…",
        help="the columns that models are trained to predict, or all (default: one column with few cells)",
    )
    quality.add_argument("--out", type=Path, help="the folder to make, for quality.html and quality.json")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    seed_option(parser)


def _floats(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a list of numbers: {text!r}") from None


def _evaluate(arguments: argparse.Namespace) -> None:
    check_memory()
    tell_of_compiling()
    if arguments.release is not None or arguments.synthetic is not None:
        _judge(arguments)
        return
    if arguments.targets is not None or arguments.out is not None:
        raise InvalidInput("--targets and --out go with --release or --synthetic")
    from qrelease.evaluation.evaluate import evaluate
    from qrelease.evaluation.results import check_picture

    mechanisms = {name: known_or_own(name) for name in arguments.mechanism}
    if arguments.plot is not None:
        check_picture(arguments.plot)
    table = table_of(arguments)
    found = evaluate(
        table,
        workload_of(arguments, table.domain),
        mechanisms,
        arguments.epsilon,
        delta=arguments.delta,
        neighbours=arguments.neighbours,
        trials=arguments.trials,
        entropy=entropy_of(arguments),
        dataset=dataset_of(arguments),
    )
    print(found.to_json_lines() if arguments.json else found)
    if arguments.plot is not None:
        found.plot(arguments.plot)
        print(f"drew {arguments.plot}", file=sys.stderr)


def _judge(arguments: argparse.Namespace) -> None:
    """A synthetic table beside the real one."""
    from contextlib import ExitStack

    from qrelease.data.table import Table
    from qrelease.evaluation.quality import page
    from qrelease.evaluation.quality.published import as_released, published, synthetic_table
    from qrelease.evaluation.quality.quality import quality
    from qrelease.release import writer
    from qrelease.release.reader import load

    with ExitStack() as written:
        folder = None if arguments.out is None else written.enter_context(writer.new_folder(arguments.out))
        if folder is not None:
            folder.chmod(0o700)  # what is written there is not private
        release = None
        if arguments.release is not None:
            with elapsed("reading the release"):
                release = load(arguments.release)
            table = as_released(
                table_of(arguments, undecided=True, released=release.domain), release, arguments.release
            )
            synthetic, name = synthetic_table(release, arguments.release), str(arguments.release)
        else:
            table = table_of(arguments)
            synthetic, name = Table.read(arguments.synthetic, table.domain.of_rows), str(arguments.synthetic)
        targets = list(table.domain.names) if arguments.targets == ["all"] else arguments.targets
        with elapsed("comparing"):
            found = quality(table, synthetic, name=name, targets=targets, seed=arguments.insecure_seed or 0)
            if release is not None:
                found = replace(found, published=published(table, release))
        if folder is not None:
            page.write_page(found, folder)
    print(json.dumps(found.to_json(), ensure_ascii=False, allow_nan=False) if arguments.json else found)
    if arguments.out is not None:
        print(f"{wrote(arguments.out)}: NOT PRIVATE", file=sys.stderr)
