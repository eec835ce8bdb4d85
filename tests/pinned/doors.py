"""The only place of the pinned tests that imports modules inside the package: a move of modules mends it here.

Everything else in `pinned` uses the names that this module has. What is stored knows none of them.
"""

# ruff: noqa: F401

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))  # for `python -m tests.pinned.make`, as pytest does

import serving  # a client of the ASGI application, and one worker

from qrelease.apps.cli import COMMANDS, main
from qrelease.inference.maximum_entropy_rule import MaximumEntropy
from qrelease.inference.median_rule import MedianRule as Median
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.inference.nets import Averages, Listed, quantiles, small_databases, thin
from qrelease.inference.nets import ProductNet as Product
from qrelease.inference.update_rules import Hedge, Perceptron, Projection
from qrelease.mechanisms.iterative.distinguishers import PerturbedLeader, Select
from qrelease.privacy.analysts import Analysts
from qrelease.queries.oracles import ConjunctionOracle as BestConjunction
from qrelease.queries.oracles import PredicateOracle as BestPredicate
