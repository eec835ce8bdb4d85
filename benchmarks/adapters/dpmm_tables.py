"""AIM, MST and PrivBayes of dpmm on a table of integer codes. It runs in an environment of its own, without qrelease:

    python3 -m venv peers && peers/bin/pip install dpmm==0.1.9
    peers/bin/python benchmarks/adapters/dpmm_tables.py aim table.csv domain.json synthetic.csv --epsilon 1 --delta 1e-9

dpmm needs numpy 1 and pandas 2.1 exactly. It prints its version, an object on a line, and at the end another with its
seconds and its memory. Past --cpu-limit the system ends it by SIGXCPU; past --memory-limit it ends with a MemoryError.
"""

import argparse
import json
import resource
import sys
import time
from importlib.metadata import version

PIPELINES = {"aim": "AIMPipeline", "mst": "MSTPipeline", "privbayes": "PrivBayesPipeline"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mechanism", choices=PIPELINES)
    parser.add_argument("table")
    parser.add_argument("domain")
    parser.add_argument("out")
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--degree", type=int, help="of AIM: columns of a marginal that it may measure")
    parser.add_argument("--model-size", type=float, help="of AIM: megabytes of its model")
    parser.add_argument("--cpu-limit", type=int, help="CPU seconds that it may use")
    parser.add_argument("--memory-limit", type=int, help="GiB of addresses that it may have")
    arguments = parser.parse_args()
    if arguments.cpu_limit is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (arguments.cpu_limit, arguments.cpu_limit + 10))
    if arguments.memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (arguments.memory_limit * 2**30,) * 2)
    print(json.dumps({"version": f"dpmm {version('dpmm')}"}), flush=True)
    import dpmm.pipelines
    import pandas as pd

    frame = pd.read_csv(arguments.table)
    with open(arguments.domain) as file:
        sizes = json.load(file)
    domain = {column: sizes[column] for column in frame.columns}  # in the order of the table
    options = {} if arguments.degree is None else {"gen_kwargs": {"degree": arguments.degree}}
    if arguments.model_size is not None:
        options["max_model_size"] = arguments.model_size
    pipeline = getattr(dpmm.pipelines, PIPELINES[arguments.mechanism])(
        epsilon=arguments.epsilon, delta=arguments.delta, n_jobs=1, disable_processing=True, **options
    )
    started, wall = time.process_time(), time.monotonic()
    pipeline.fit(frame, domain, random_state=arguments.seed)
    pipeline.generate(n_records=len(frame), random_state=arguments.seed).to_csv(arguments.out, index=False)
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "cpu_seconds": time.process_time() - started,
        "wall_seconds": time.monotonic() - wall,
        "peak_mib": used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
