"""`python -m qrelease`."""

import sys

from qrelease.apps.cli import main

sys.exit(main())
