"""A worker, started by `run` with its settings, and two file descriptors that it inherits."""

import sys

from qrelease.server.run import worker

if __name__ == "__main__":
    sys.exit(worker(*sys.argv[1:]))
