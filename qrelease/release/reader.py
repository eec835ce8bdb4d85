"""`load`: a saved release, read again. Each field is checked, and an error names the field."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import numpy.typing as npt

from qrelease._util.strict_json import decode
from qrelease._util.typing import Floats
from qrelease._util.validate import natural, positive
from qrelease.data import schema
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.chosen_quantiles import ChosenQuantiles
from qrelease.inference.measurement import Measurement
from qrelease.inference.number_tables import MeasuredSums
from qrelease.inference.sums_plan import PlannedTable
from qrelease.noise.distributions import MAX_SCALE, Noise, NoiseLaw
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, Spend, cost_from_json
from qrelease.privacy.filters import Filter
from qrelease.privacy.unit import Unit
from qrelease.queries.measures import measure_from_json, needs_of
from qrelease.queries.numeric import NumericQuestion
from qrelease.release import checksums
from qrelease.release.fields import floats, queries, reading, value_of
from qrelease.release.manifest import ARRAYS, MANIFEST, NUMBERS, READABLE, VALUES, put_back
from qrelease.release.release import Release
from qrelease.release.schema_cost import SchemaCost
from qrelease.release.stored_synopses import Context, synopsis_of

_PRINTED: Final = 0.994
"""A number over what it is with three digits, at least."""


def load(path: str | os.PathLike[str]) -> Release:
    """A saved release, from its folder or its `release.json`. It answers further queries at no cost.

    Where there are very many noisy answers they stay in their file, which has to stay where it is. Of a folder all
    files have to be what its `SHA256SUMS` says, and what `release.json` says has to have its id; one of an
    earlier version has neither. `evaluation.verify` checks more.

    Parameters
    ----------
    path
        The folder that `Release.save` made, or the `release.json` in it.

    Returns
    -------
    Release
        Which gives the answers of the one that was saved.

    Raises
    ------
    InvalidInput
        For a file that is no release; the message names the field.
    BudgetExceeded
        Where its parts cost more than it claims in all.
    TooLarge
        For what does not fit in memory.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain, cost = qr.Domain.coded({"sex": 2}), qr.PureDP(1)
    >>> curator = qr.Curator(qr.Table(domain, (np.arange(500) % 2,)), qr.Ledger.open(None, cost))
    >>> release = curator.release(qr.Laplace(), qr.Workload.marginals(domain, 1), cost)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/sexes")
    ...     qr.load(f"{folder}/sexes").answer("sex = 1") == release.answer("sex = 1")
    True
    """
    return read(path, checked=True)


def read(path: str | os.PathLike[str], *, checked: bool) -> Release:
    """Read a release, as `load` does; `checked` says whether it has to agree with its own hashes."""
    file, folder = Path(path), Path(path).is_dir()
    file = file / MANIFEST if folder else file
    try:
        with reading(str(file)):
            content = decode(file.read_text(encoding="utf-8"))
            found = value_of("a manifest", content, dict).get("format")
            if found not in READABLE:
                raise InvalidInput(
                    f"it has format {found!r}, and this version reads {' and '.join(map(str, READABLE))}"
                )
            with reading("arrays"):
                arrays = _arrays(content.get("arrays"), file.parent / ARRAYS)
            if arrays:
                with reading("synopsis"):
                    content["synopsis"] = put_back(content["synopsis"], arrays)
            with reading("values"):
                values = _values(content.get("values"), file.parent / VALUES)
            release = _release(content, None if values is None else values.view(np.ndarray))
            if checked and release.id:
                _check_hashes(content, release, file, folder=folder)
            return release
    except OSError as error:
        raise InvalidInput(f"{error.filename or file} cannot be read: {error.strerror}") from None


def _check_hashes(content: Mapping[str, Any], release: Release, file: Path, *, folder: bool) -> None:
    """`InvalidInput` for what is not as it was when the release was made: the whole folder, or the manifest alone."""
    named = checksums.read_hashes(file.parent)
    if folder and (named is None or MANIFEST not in named):
        raise InvalidInput(f"{checksums.SUMS} is missing beside it, or does not name it: see `qrelease verify`")
    found = checksums.differences(file.parent, {n: v for n, v in (named or {}).items() if folder or n == file.name})
    if found:
        raise InvalidInput(f"{found[0]}, by {checksums.SUMS}: see `qrelease verify`")
    if not has_its_id(content, release):
        raise InvalidInput("id: the manifest is not what it was when the release was made: see `qrelease verify`")


def has_its_id(content: Mapping[str, Any], release: Release) -> bool:
    """Whether a manifest has the id of what it says; one with a NaN or an infinity has none."""
    try:
        return bool(content.get("id") == checksums.release_id(content, (m.values for m in release.measurements)))
    except ValueError:  # of `allow_nan=False`; 1e400 is read as infinite
        return False


def _check_digest(digest: object, file: Path, what: str) -> None:
    """Raise `InvalidInput` for another file than the manifest names."""
    if checksums.file_digest(file) != digest:
        raise InvalidInput(f"{file} does not hold the {what} of this release")


def _arrays(digest: object, file: Path) -> dict[str, npt.NDArray[Any]]:
    """The numbers of the synopsis that the manifest does not list, where it names a file of them."""
    if digest is None:
        return {}
    _check_digest(digest, file, "numbers of the synopsis")
    try:
        with np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except zipfile.BadZipFile as error:
        raise InvalidInput(f"{file} cannot be read: {error}") from None


def _values(digest: object, file: Path) -> Floats | None:
    """The noisy answers, where the manifest names a file of them: mapped, lest a query for some reads a gigabyte."""
    if digest is None:
        return None
    _check_digest(digest, file, "noisy answers")
    found: Floats = np.load(file, "r", allow_pickle=False)
    if not np.isfinite(found.sum()):  # without a copy
        raise InvalidInput(f"{file} must hold finite numbers")
    return found


def _release(content: Mapping[str, Any], values: Floats | None) -> Release:
    """`values`: of all measurements, where the manifest does not list them."""
    with reading("domain"):
        domain = schema.domain_from_json(content["domain"])
    with reading("workload"):
        workload = queries(domain, content["workload"])
    with reading("cost"):
        cost = cost_from_json(content["cost"])
    with reading("measurements"):
        measurements = _measurements(domain, content["measurements"], values)
    with reading("spends"):
        spends = tuple(_spend(entry) for entry in value_of("they", content["spends"], list))
        neighbours = Neighbours.parse(content["neighbours"])
        _check_spends(spends, cost, Unit.of(neighbours, domain))
    with reading("synopsis"), np.errstate(all="ignore"):  # what is out of range is found out by what comes of it
        synopsis = synopsis_of(content["synopsis"], Context(domain, workload, measurements))
    with reading("learned"):  # earlier versions do not say it
        learned = tuple(map(SchemaCost.from_json, value_of("it", content.get("learned", []), list)))
    made = value_of("date", content.get("date"), str, None)
    with reading("date"):
        if made is not None:
            date.fromisoformat(made)
    mark, seed = value_of("insecure", content["insecure"], str, None), content["insecure_seed"]
    if isinstance(seed, bool) or (value_of("insecure_seed", seed, int, None) is not None and mark is None):
        raise InvalidInput(f"insecure_seed: only a release that is marked `insecure` has a seed, got {seed!r}")
    return Release(
        synopsis,
        workload,
        cost,
        neighbours,
        value_of("dataset", content["dataset"], str),
        value_of("mechanism", content["mechanism"], str),
        value_of("parameters", content["parameters"], dict),
        measurements,
        spends,
        mark is not None,
        seed,
        {
            name: value_of(f"versions: {name}", v, str)
            for name, v in value_of("versions", content["versions"], dict).items()
        },
        made,
        value_of("id", content.get("id", ""), str),
        measured_sums=None if "numbers" not in content else _numbers(domain, content["numbers"]),
        learned=learned,
    )


def _check_spends(spends: Sequence[Spend], cost: Cost, unit: Unit) -> None:
    """Raise `InvalidInput`, or `BudgetExceeded`, where the parts of a cost, of a record, come to more than it.

    Categories that were learned cost a δ beside their ρ (`learning.schema.OneAccount`), which then backs no ρ.
    """
    deltas = sum(spend.delta_beside for spend in spends)
    if not deltas:
        claimed, units = Filter(unit.of_a_record(cost)), 1.0
    else:
        least = deltas * _PRINTED  # they are printed with three digits
        if not isinstance(cost, ApproxDP) or least >= cost.delta:
            raise InvalidInput(f"what was learned takes a delta of {deltas:g}, of {cost}")
        a_record = unit.of_a_record(ZCDP(1.0))
        assert isinstance(a_record, ZCDP)
        claimed, units = Filter(ApproxDP(cost.epsilon, cost.delta - least)), 1 / a_record.rho
    for spend in spends:
        claimed.spend(ZCDP(spend.cost.rho * units) if isinstance(spend.cost, ZCDP) else spend.cost)


def _numbers(domain: Domain, content: Mapping[str, Any]) -> MeasuredSums:
    """What was measured for questions about numbers."""
    parts, measured = [], []
    with reading("numbers"):
        for i, entry in enumerate(value_of("tables", content["tables"], list)):
            with reading(f"table {i}"):
                measure = measure_from_json(domain, entry["measure"])
                known = {k: v for k, v in entry.items() if k not in ("measure", "share", "noise", "values")}
                (group,) = queries(domain, [known]).groups
                noise = _noise(entry["noise"])
                values = floats("values", entry["values"], group.queries.count)
                parts.append(PlannedTable(measure, group, natural("share", entry["share"])))
                measured.append(Measurement(group, values, noise))
        clips = {
            str(name): tuple(floats("clip", bounds, 2).tolist())
            for name, bounds in value_of("clip", content["clip"], dict).items()
        }
        questions = tuple(str(text) for text in value_of("questions", content["questions"], list))
        records, chosen = content["records"], list[ChosenQuantiles]()
        for i, entry in enumerate(value_of("chosen", content.get("chosen", []), list)):
            with reading(f"choice {i}"):
                chosen.append(ChosenQuantiles.from_json(domain, entry))
        sums_found = MeasuredSums(
            domain,
            questions,
            clips,
            tuple(parts),
            tuple(measured),
            None if records is None else float(records),
            tuple(chosen),
        )
        for text in questions:
            needs_of(NumericQuestion.parse(domain, text), clips)
        return sums_found


def _spend(entry: Mapping[str, Any]) -> Spend:
    return Spend(value_of("what", entry["what"], str), cost_from_json({k: v for k, v in entry.items() if k != "what"}))


def _measurements(
    domain: Domain, content: Sequence[Mapping[str, Any]], values: Floats | None
) -> tuple[Measurement, ...]:
    if values is not None and (values.dtype != NUMBERS or values.ndim != 1):
        raise InvalidInput(f"{VALUES} does not hold noisy answers")
    found: list[Measurement] = []
    noise: Noise | None = None
    said, at = None, 0
    for i, entry in enumerate(value_of("they", content, list)):
        with reading(f"entry {i}"):
            (group,) = queries(domain, [entry]).groups
            size = group.queries.count
            part = floats("values", entry["values"], size) if values is None else values[at : at + size]
            if noise is None or entry["noise"] != said:  # mostly it is that of the one before
                said = entry["noise"]
                noise = _noise(said)
            found.append(Measurement(group, part, noise, natural("repeats", entry["repeats"])))
            at += size
    if values is not None and at != len(values):
        raise InvalidInput(f"{VALUES} does not hold the {at:,} noisy answers of this release")
    return tuple(found)


def _noise(entry: Mapping[str, Any]) -> Noise:
    if entry["law"] not in get_args(NoiseLaw):
        raise InvalidInput(f"law: must be one of {', '.join(get_args(NoiseLaw))}, got {entry['law']!r}")
    noise = Noise(entry["law"], positive("scale", entry["scale"]), positive("unit", entry["unit"]))
    if noise.scale > MAX_SCALE or noise.unit > 1:
        raise InvalidInput(f"noise: no noise has a scale of {noise.scale:g} on a grid of {noise.unit:g}")
    return noise
