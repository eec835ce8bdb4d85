"""AIM and MST of OpenDP on a table of integer codes. It runs in an environment of its own, without qrelease:

    python3 -m venv peers && peers/bin/pip install "opendp[mbi]==0.16.0" pandas
    peers/bin/python benchmarks/adapters/opendp_tables.py aim table.csv domain.json out.csv --epsilon 1 --delta 1e-9

The codes of a column are told by cut points, one fewer than it has codes: with `keys` OpenDP adds a code for what is
missing to every column. ρ is the most whose (ε, δ), by OpenDP's own conversion, is at most what is asked. The seed
is that of the records that are drawn from the model: the noise is OpenDP's, and has none.

MST of five selections or more often ends with "insufficient budget", as the shares that it cuts its budget into are
more than the whole by a rounding. That depends on ρ and not on the records, so it is tried anew with a millionth less.

It prints its version, an object on a line, and at the end another with the seconds and the tries it took, of the last
one: CPU seconds, and of the wall also those that JAX took to trace and compile; and its memory. Past --cpu-limit the
system ends it by SIGXCPU; past --memory-limit it ends with a MemoryError. OpenDP takes records from its model through
pandas, which its extra does not ask for.
"""

import argparse
import json
import os
import resource
import sys
import time
import warnings
from importlib.metadata import version
from typing import Any

ONE_THREAD = {
    "NPROC": "1",  # of XLA's pool
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "POLARS_MAX_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}
COMPILING = "/jax/core/compile/"
"""What JAX calls the seconds of tracing, lowering and compiling, each apart."""

MOST_TRIES = 50
LESS = 1e-6  # of ρ, at the next try


def rho_of(dp: Any, epsilon: float, delta: float) -> float:
    """The most ρ that is (ε, δ) by OpenDP's conversion."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def make(scale: float) -> Any:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale)), delta)

    scale = dp.binary_search_param(make, d_in=1.0, d_out=(epsilon, delta), T=float)
    return float(0.5 / scale**2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mechanism", choices=("aim", "mst"))
    parser.add_argument("table")
    parser.add_argument("domain")
    parser.add_argument("out")
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--degree", type=int, help="of AIM: columns of a marginal that it may measure")
    parser.add_argument("--model-size", type=float, help="of AIM: megabytes of its model")
    parser.add_argument("--oneway", type=float, help="part of the budget that goes to marginals of one column at first")
    parser.add_argument("--cpu-limit", type=int, help="CPU seconds that it may use")
    parser.add_argument("--memory-limit", type=int, help="GiB of addresses that it may have")
    arguments = parser.parse_args()
    if arguments.cpu_limit is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (arguments.cpu_limit, arguments.cpu_limit + 10))
    if arguments.memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (arguments.memory_limit * 2**30,) * 2)
    print(json.dumps({"version": f"OpenDP {version('opendp')}, mbi {version('mbi')}"}), flush=True)
    os.environ |= ONE_THREAD
    warnings.simplefilter("ignore", FutureWarning)
    import jax
    import numpy as np
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    compiling: dict[str, float] = {}

    def heard(event: str, seconds: float, **_: Any) -> None:
        if event.startswith(COMPILING):
            compiling[event] = compiling.get(event, 0.0) + seconds

    jax.monitoring.register_event_duration_secs_listener(heard)
    frame = pl.read_csv(arguments.table).cast(pl.Int64)
    with open(arguments.domain) as file:
        sizes = json.load(file)
    options = {} if arguments.oneway is None else {"oneway_split": arguments.oneway}
    if arguments.mechanism == "aim":
        options |= {} if arguments.degree is None else {"queries": arguments.degree}
        options |= {} if arguments.model_size is None else {"max_size": arguments.model_size}
    algorithm = {"aim": dp.mbi.AIM, "mst": dp.mbi.MST}[arguments.mechanism](**options)
    # A cut is the last code of its bin, and records have whole numbers of a bin: each has one, so codes come back.
    cuts = {column: list(range(sizes[column] - 1)) for column in frame.columns}
    np.random.seed(arguments.seed)  # noqa: NPY002 (it is what mbi draws records from)
    rho = rho_of(dp, arguments.epsilon, arguments.delta)
    for tries in range(1, MOST_TRIES + 1):
        started, wall = time.process_time(), time.monotonic()
        compiling.clear()
        context = dp.Context.compositor(
            data=frame.lazy(),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=rho),
            split_evenly_over=1,
        )
        query = context.query().select(*frame.columns).contingency_table(cuts=cuts, algorithm=algorithm)
        try:
            table = query.release()
            break
        except dp.OpenDPException as error:
            if "insufficient budget" not in str(error) or tries == MOST_TRIES:
                raise
            rho *= 1 - LESS
    # "round", its default, gives the records of a group their values in order, which ties columns that nothing ties.
    table.synthesize(rows=len(frame), method="sample").select(frame.columns).write_csv(arguments.out)
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "tries": tries,
        "cpu_seconds": time.process_time() - started,
        "wall_seconds": time.monotonic() - wall,
        "compile_seconds": sum(compiling.values()),
        "peak_mib": used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
