"""dpmm's PrivTree on one column of integers. It runs in an environment of its own, without qrelease:

    python3 -m venv peers && peers/bin/pip install dpmm==0.1.9
    peers/bin/python benchmarks/adapters/dpmm_bins.py values.npy --lower 0 --upper 150 --epsilon 0.01 --bins 32

dpmm needs numpy 1 and pandas 2.1 exactly. The bounds are told, so that dpmm does not pay for them. It prints the edges
of the bins, a list. Its noise has no seed.
"""

import argparse
import json

import numpy as np
from dpmm.processing.binners import PrivTreeBinner


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("values")
    parser.add_argument("--lower", type=int, required=True)
    parser.add_argument("--upper", type=int, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--bins", type=int, required=True)
    arguments = parser.parse_args()
    binner = PrivTreeBinner(
        arguments.bins, epsilon=arguments.epsilon, lower=float(arguments.lower), upper=float(arguments.upper)
    )
    binner.fit(np.load(arguments.values).astype(float))
    print(json.dumps([float(edge) for edge in binner.bins]))


if __name__ == "__main__":
    main()
