"""The auditor: lower bounds on the privacy that a mechanism really gives, from two neighbouring inputs.

Every method ends in the same kind of evidence, an `Audit`: an event that is likely on one input and unlikely on the
other. ε-DP forbids P(event | x) > e^ε P(event | y), so such an event convicts, whoever found it and how. Nothing found
is no proof of privacy; it is what a correct mechanism looks like.

    audit              runs any callable on both inputs, finds an event on one part of the runs and bounds its
                       probabilities on the rest
    compare            two output distributions given in full, by `enumerated` or by formula: exact
    audit_gaussian     the continuous mechanisms of one draw by their formulas: exact
    audit_laplace
    audit_sensitivity  replays the same noise on both inputs and looks how far the output moves

    doors.audit_doors  whole releases and sessions through the public doors: whatever of them is no noisy field and
                       tells neighbouring tables apart

`vectorised` marks a mechanism that makes many runs in one call; `worst_pair`, `query_pairs` and `table_pairs` look for
inputs that show a violation; `audit_mechanism` audits a mechanism of this package as a whole.
"""

from qrelease.evaluation.audit.analytic import audit_gaussian, audit_laplace
from qrelease.evaluation.audit.enumeration import (
    Choices,
    Distribution,
    compare,
    delta_between,
    enumerated,
    gaussian_distribution,
    laplace_distribution,
)
from qrelease.evaluation.audit.inputs import query_pairs, table_pairs
from qrelease.evaluation.audit.releases import audit_mechanism, released
from qrelease.evaluation.audit.replay import SensitivityAudit, audit_sensitivity
from qrelease.evaluation.audit.sampling import audit, vectorised, worst_pair
from qrelease.evaluation.audit.texts import failure, find_own, read_input
from qrelease.evaluation.audit.verdict import Audit

__all__ = [
    "Audit",
    "Choices",
    "Distribution",
    "SensitivityAudit",
    "audit",
    "audit_gaussian",
    "audit_laplace",
    "audit_mechanism",
    "audit_sensitivity",
    "compare",
    "delta_between",
    "enumerated",
    "failure",
    "find_own",
    "gaussian_distribution",
    "laplace_distribution",
    "query_pairs",
    "read_input",
    "released",
    "table_pairs",
    "vectorised",
    "worst_pair",
]
