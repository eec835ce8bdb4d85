"""`python -m qrelease`."""

import sys

from qrelease.cli import main

sys.exit(main())
