"""`fitted`: a synopsis from measurements of marginals, for mechanisms of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qrelease.errors import InvalidInput
from qrelease.inference.histogram import check_size
from qrelease.inference.measurement import Measurement
from qrelease.inference.residual_synopses import Modelled
from qrelease.inference.residuals import Estimates
from qrelease.queries.families import Cells
from qrelease.queries.workload import Workload


def check_fitted(workload: Workload) -> None:
    """Raise where no histogram over the universe of a workload can be fitted: for the `check` of a mechanism.

    Parameters
    ----------
    workload
        What will be measured, or asked.

    Returns
    -------
    None

    Raises
    ------
    TooLarge
        Where there can be none, by public sizes alone.

    Examples
    --------
    >>> import qrelease as qr
    >>> qr.check_fitted(qr.Workload.marginals(qr.Domain.coded({"sex": 2, "age": 10}), 2))
    """
    check_size(workload.domain, workload.sets, len(workload), ahead=True)


def fitted(workload: Workload, measurements: Sequence[Measurement], records: int | None = None) -> Modelled:
    """The maximum-entropy histogram that fits noisy marginals best: it answers any query and gives synthetic records.

    Parameters
    ----------
    workload
        What will be asked: its answers get error bars, where they were measured.
    measurements
        Noisy counts of whole marginals, as `Private.measure` gives them; those of one marginal are averaged by their
        precisions. Put them last in the `MechanismResult`.
    records
        The number of records, where it is public: `Private.public_records`.

    Returns
    -------
    Modelled
        A synopsis with a table, answers to any queries, and error bars of the workload's, counts.

    Raises
    ------
    InvalidInput
        Where nothing was measured, or other queries than marginals, or nothing that tells of some column.
    TooLarge
        For a universe that has no histogram.

    References
    ----------
    Dudík, Phillips & Schapire 2007, *Maximum entropy density estimation with generalized regularization*.

    Examples
    --------
    >>> import qrelease as qr
    >>> qr.fitted(qr.Workload.marginals(qr.Domain.coded({"a": 2}), 1), [])
    Traceback (most recent call last):
    ...
    qrelease.errors.InvalidInput: nothing was measured: a fit needs noisy marginals, as Private.measure gives them
    """
    domain = workload.domain
    if not measurements:
        raise InvalidInput("nothing was measured: a fit needs noisy marginals, as Private.measure gives them")
    for m in measurements:
        if not isinstance(m, Measurement):
            raise InvalidInput(f"a fit takes what Private.measure gives, got {type(m).__name__}")
        if not isinstance(m.group.queries, Cells):
            names = ", ".join(domain.names[a] for a in m.group.axes)
            kind = m.group.queries.to_json()["type"]
            raise InvalidInput(f"a fit takes whole marginals, as Workload.marginals asks for, got {kind} of {names}")
    told = {a for m in measurements for a in m.group.axes}
    asked = {a for s in workload.sets for a in s}
    missing = [domain.names[a] for a in sorted(asked - told) if domain.shape[a] > 1]
    if missing:
        raise InvalidInput(f"no measurement tells of {', '.join(missing)}: measure a marginal with each such column")
    estimates = Estimates.of(domain, measurements, None if records is None else float(records))
    given = [estimates.gives(g.axes) for g in workload.groups]
    known = tuple(g for g, there in zip(workload.groups, given, strict=True) if there)
    barred = Workload(domain, known) if known else Workload.marginals(domain, [[domain.names[a]] for a in sorted(told)])
    made = Modelled.of(estimates, barred, len(measurements))
    widths = np.full(len(workload), np.nan)
    if known:
        widths[np.repeat(given, np.diff(workload.bounds))] = made.widths
    return replace(made, workload=workload, widths=widths)
