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
from qrelease.queries.workload import Group, Workload


def check_fitted(workload: Workload, measured: Workload | None = None) -> None:
    """Raise what `fitted` would raise after the charge, as far as it is known before: for the `check` of a mechanism.

    Parameters
    ----------
    workload
        What will be asked.
    measured
        What will be measured in any case; by default the workload itself.

    Returns
    -------
    None

    Raises
    ------
    InvalidInput
        Where other queries than whole marginals are measured, or none with some column that is asked for.
    TooLarge
        Where there can be no histogram over the universe, by public sizes alone.

    Examples
    --------
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2, "age": 10})
    >>> qr.check_fitted(qr.Workload.marginals(domain, 2))

    Ranges may be asked for where marginals are measured:

    >>> qr.check_fitted(qr.Workload.parse(domain, "ranges:age"), qr.Workload.marginals(domain, 1))
    """
    groups = (workload if measured is None else measured).groups
    _check_measurable(workload, groups)
    sets = dict.fromkeys([*workload.sets, *(g.axes for g in groups)])
    check_size(workload.domain, tuple(sets), len(workload), ahead=True)


def fitted(workload: Workload, measurements: Sequence[Measurement], records: int | None = None) -> Modelled:
    """The maximum-entropy histogram that fits noisy marginals best: it answers any query and gives synthetic records.

    Parameters
    ----------
    workload
        What will be asked: its answers get error bars, where they were measured.
    measurements
        Noisy counts of whole marginals, as `Private.measure` gives them; those of one marginal are averaged by their
        precisions. Put them last in the `MechanismResult`: a saved release has them once, and the synopsis is made
        of its last ones again.
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
    _check_measurable(workload, [m.group for m in measurements])
    told = {a for m in measurements for a in m.group.axes}
    estimates = Estimates.of(domain, measurements, None if records is None else float(records))
    given = [estimates.gives(g.axes) for g in workload.groups]
    known = tuple(g for g, there in zip(workload.groups, given, strict=True) if there)
    barred = Workload(domain, known) if known else Workload.marginals(domain, [[domain.names[a]] for a in sorted(told)])
    made = Modelled.of(estimates, barred, len(measurements))
    widths = np.full(len(workload), np.nan)
    if known:
        widths[np.repeat(given, np.diff(workload.bounds))] = made.widths
    return replace(made, workload=workload, widths=widths, made_of=tuple(measurements))


def _check_measurable(workload: Workload, measured: Sequence[Group]) -> None:
    """Raise `InvalidInput` unless whole marginals are measured, which have all columns that a workload asks for."""
    domain = workload.domain
    for group in measured:
        if not isinstance(group.queries, Cells):
            got = f"{group.queries.to_json()['type']} of {domain.named(group.axes)}"
            raise InvalidInput(f"a fit takes whole marginals, as Workload.marginals asks for, got {got}")
    told = {a for group in measured for a in group.axes}
    asked = {a for s in workload.sets for a in s}
    missing = [domain.names[a] for a in sorted(asked - told) if domain.shape[a] > 1]
    if missing:
        raise InvalidInput(f"no measurement tells of {', '.join(missing)}: measure a marginal with each such column")
