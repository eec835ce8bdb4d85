"""The public names, once: `__init__.py` reads them here, and so do type checkers."""

import os
from collections.abc import Sequence

from qrelease import data as data
from qrelease.apps.analyst_client import AnalystClient as AnalystClient
from qrelease.apps.analyst_client import connect as connect
from qrelease.apps.synthesizer import Synthesizer as Synthesizer
from qrelease.apps.two_tables import release_linked as release_linked
from qrelease.data.attribute import Attribute as Attribute
from qrelease.data.domain import Domain as Domain
from qrelease.data.person import Person as Person
from qrelease.data.schema_draft import draft as draft
from qrelease.data.sources import spark as spark
from qrelease.data.table import Table as Table
from qrelease.data.two_tables import TwoTables as TwoTables
from qrelease.errors import BudgetExceeded as BudgetExceeded
from qrelease.errors import InvalidInput as InvalidInput
from qrelease.errors import LedgerError as LedgerError
from qrelease.errors import ModelAloneWarning as ModelAloneWarning
from qrelease.errors import OutOfMemory as OutOfMemory
from qrelease.errors import QReleaseError as QReleaseError
from qrelease.errors import RowsChangedWarning as RowsChangedWarning
from qrelease.errors import ServiceError as ServiceError
from qrelease.errors import TooLarge as TooLarge
from qrelease.evaluation.audit import audit as audit
from qrelease.evaluation.audit import audit_mechanism as audit_mechanism
from qrelease.evaluation.evaluate import evaluate as evaluate
from qrelease.evaluation.planning import plan as plan
from qrelease.evaluation.quality.private_score import QualityScores as QualityScores
from qrelease.evaluation.quality.quality import quality as quality
from qrelease.evaluation.verify import Verification as Verification
from qrelease.evaluation.verify import verify as verify
from qrelease.inference.fitted import check_fitted as check_fitted
from qrelease.inference.fitted import fitted as fitted
from qrelease.inference.measurement import Measurement as Measurement
from qrelease.inference.update_rules import Perceptron as Perceptron
from qrelease.inference.update_rules import UpdateRule as UpdateRule
from qrelease.inference.update_rules import furthest_off as furthest_off
from qrelease.inference.weighted_records import WeightedRecords as WeightedRecords
from qrelease.mechanisms.auto import Auto as Auto
from qrelease.mechanisms.base import MechanismResult as MechanismResult
from qrelease.mechanisms.gaussian import Gaussian as Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction as IterativeConstruction
from qrelease.mechanisms.iterative.construction import Round as Round
from qrelease.mechanisms.iterative.construction import iterate as iterate
from qrelease.mechanisms.iterative.distinguishers import Select as Select
from qrelease.mechanisms.iterative.mwem import MWEM as MWEM
from qrelease.mechanisms.iterative.pmw import PrivateMultiplicativeWeights as PrivateMultiplicativeWeights
from qrelease.mechanisms.laplace import Laplace as Laplace
from qrelease.mechanisms.matrix import Matrix as Matrix
from qrelease.mechanisms.maxent import MaxEnt as MaxEnt
from qrelease.mechanisms.number_sums import NumberSums as NumberSums
from qrelease.mechanisms.online.session import Online as Online
from qrelease.mechanisms.private_data import Private as Private
from qrelease.mechanisms.small_db.net import Net as Net
from qrelease.mechanisms.small_db.small_db import SmallDB as SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords as FittedRecords
from qrelease.noise.entropy import Entropy as Entropy
from qrelease.privacy import ZCDP as ZCDP
from qrelease.privacy import ApproxDP as ApproxDP
from qrelease.privacy import Cost as Cost
from qrelease.privacy import Neighbours as Neighbours
from qrelease.privacy import PureDP as PureDP
from qrelease.privacy import split as split
from qrelease.privacy.ledger import Ledger as Ledger
from qrelease.queries.classes import Conjunctions as Conjunctions
from qrelease.queries.number_workload import NumberWorkload as NumberWorkload
from qrelease.queries.numeric import NumericQuestion as NumericQuestion
from qrelease.queries.workload import Workload as Workload
from qrelease.release.curator import Curator as Curator
from qrelease.release.learned_schema import Learned as Learned
from qrelease.release.reader import load as load
from qrelease.release.release import Release as Release
from qrelease.statistics.adassp import AdaSSP as AdaSSP
from qrelease.statistics.base import EstimateResult as EstimateResult
from qrelease.statistics.base import Measured as Measured
from qrelease.statistics.base import Statistic as Statistic
from qrelease.statistics.chi_squared import FitTest as FitTest
from qrelease.statistics.chi_squared import IndependenceTest as IndependenceTest
from qrelease.statistics.clipped_mean import ClippedMean as ClippedMean
from qrelease.statistics.clipped_mean import QuantileMean as QuantileMean
from qrelease.statistics.clipped_mean import SparseVectorMean as SparseVectorMean
from qrelease.statistics.estimate import Estimate as Estimate
from qrelease.statistics.lipschitz import LipschitzTester as LipschitzTester
from qrelease.statistics.local_sensitivity import Median as Median
from qrelease.statistics.local_sensitivity import StableMean as StableMean
from qrelease.statistics.local_sensitivity import TrimmedMean as TrimmedMean
from qrelease.statistics.local_sensitivity import WinsorisedMean as WinsorisedMean
from qrelease.statistics.mean import Mean as Mean
from qrelease.statistics.mean import TextbookMean as TextbookMean
from qrelease.statistics.private_columns import PrivateColumns as PrivateColumns
from qrelease.statistics.propose_test_release import ProposeTestRelease as ProposeTestRelease
from qrelease.statistics.quantile import Quantile as Quantile
from qrelease.statistics.quantiles import RecursiveQuantiles as RecursiveQuantiles
from qrelease.statistics.quantiles import TreeQuantiles as TreeQuantiles
from qrelease.statistics.regression import FunctionalMechanism as FunctionalMechanism
from qrelease.statistics.regression import NoisyDescent as NoisyDescent
from qrelease.statistics.regression import regression_from_marginals as regression_from_marginals
from qrelease.statistics.sample_and_aggregate import SampleAndAggregate as SampleAndAggregate
from qrelease.statistics.selection import MostCommon as MostCommon
from qrelease.statistics.smooth_sensitivity import SmoothSensitivity as SmoothSensitivity
from qrelease.statistics.sparse_mean import PeelingMean as PeelingMean
from qrelease.statistics.sparse_mean import SparseMean as SparseMean
from qrelease.statistics.sums import Sum as Sum
from qrelease.statistics.thresholds import AboveThresholds as AboveThresholds
from qrelease.statistics.uniformity import EfficientTester as EfficientTester
from qrelease.statistics.uniformity import GaussianMeanTest as GaussianMeanTest
from qrelease.statistics.uniformity import UniformityTest as UniformityTest
from qrelease.statistics.vector_mean import TruncatedMean as TruncatedMean
from qrelease.statistics.vector_mean import VectorMean as VectorMean

__version__: str

def read_csv(
    path: str | os.PathLike[str], schema: Domain | str | os.PathLike[str], columns: Sequence[str] | None = None
) -> Table: ...
