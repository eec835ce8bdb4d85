"""Privacy costs, their conversions and compositions, filters and odometers. Knows nothing of data."""

from qrelease.privacy.composition import (
    advanced_composition,
    advanced_share,
    compose,
    group_privacy,
    optimal_composition,
    optimal_delta,
)
from qrelease.privacy.conversions import (
    em_to_zcdp,
    gaussian_delta,
    gaussian_variance,
    gaussian_zcdp,
    pure_to_zcdp,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_of,
)
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, cost_from_json, split
from qrelease.privacy.filters import Filter
from qrelease.privacy.odometer import Odometer
from qrelease.privacy.pld import PrivacyLoss

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Cost",
    "Filter",
    "Neighbours",
    "Odometer",
    "PrivacyLoss",
    "PureDP",
    "advanced_composition",
    "advanced_share",
    "compose",
    "cost_from_json",
    "em_to_zcdp",
    "gaussian_delta",
    "gaussian_variance",
    "gaussian_zcdp",
    "group_privacy",
    "optimal_composition",
    "optimal_delta",
    "pure_to_zcdp",
    "split",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_of",
]
