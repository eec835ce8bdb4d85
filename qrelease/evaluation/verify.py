"""Whether a release is what it says: what a third party can check of a folder, without the table.

`qrelease.load` refuses what contradicts its own hashes. Who forges a release with care writes new hashes, so here is
checked besides whether its parts agree: whether each measurement has exactly the noise that some part of the cost buys,
whether the answers follow from the measurements, and, given the holder's public key or the ledger's public part
(`qrelease ledger show --json`), whether it is the release that the holder made. What cannot be checked is said.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, final, get_args

import numpy as np
import numpy.typing as npt

from qrelease._util.elapsed import elapsed
from qrelease._util.strict_json import decode
from qrelease._util.typing import Floats
from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, QReleaseError
from qrelease.inference.measurement import RECORDS, Measurement
from qrelease.inference.noisy_answers import Answers
from qrelease.inference.sums_plan import PlannedTable, bought, privacy_used
from qrelease.inference.synopsis import Tabulated, Weighted
from qrelease.inference.tilted_bins import TiltedBins
from qrelease.mechanisms.additive_noise import processed
from qrelease.mechanisms.number_sums import COUNTED_WITH_SUMS
from qrelease.mechanisms.quantile_choices import contradiction
from qrelease.privacy.costs import ZCDP, PureDP, amount_from_json, cost_from_json
from qrelease.privacy.resuming import learned_names
from qrelease.queries.measures import Measure
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Workload
from qrelease.release import checksums, promise
from qrelease.release.answer_table import MAX_ANSWERS, NUMBERS
from qrelease.release.error_bars import measured_answers
from qrelease.release.frames import as_arrow, told_apart
from qrelease.release.manifest import MANIFEST, manifest_of
from qrelease.release.number_rows import COLUMNS, NUMBERS_FILE, number_columns, number_rows
from qrelease.release.paid_noise import CHOOSE, SAME, SUM, foreign_spends, unpaid_measurements
from qrelease.release.reader import has_its_id, read
from qrelease.release.release import Release
from qrelease.release.report.page import html
from qrelease.release.writer import (
    INSECURE_MARK,
    REPORT,
    SCHEMA,
    WEIGHT,
    Format,
    answer_rows,
    check_format,
    header,
    schema_text,
)

_GAUSSIAN = ("discrete Gaussian", "rounded Gaussian")

_ROUNDED: Final = 1e-5
"""By how much, as a share, sums that are told to six digits may differ from what they are."""

_MADE: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]] = {
    "laplace": (("answers",), (), ("discrete Laplace",)),
    "gaussian": (("answers",), (), _GAUSSIAN),
    "matrix": (("least squares",), ("certificate",), _GAUSSIAN),
    "maxent": (("maximum entropy", "residuals"), ("objective", "weights"), ()),
    "mwem": (("histogram", "scaled"), ("choice", "rounds", "update"), ()),
    "records": (("weighted codes",), ("at_once", "order"), ()),
    "sums": ((), ("questions", "share"), ()),
    "smalldb": (("weighted records", "scaled"), ("alpha", "size"), ("discrete Laplace", "discrete Gaussian")),
    "iterative": ((), ("distinguisher", "rule"), ()),
    "net": ((), ("net",), ()),
}
"""Of each mechanism the stored types of synopsis that it makes, parameters that it has, and laws of noise that it draws
from; any, where none is named. A mechanism without parameters has none in its manifest."""

_ALWAYS = ("impossible", "no_table")
"""What a release of any mechanism may have among its parameters."""

_CLOSE, _BAR_CLOSE = 1e-4, 2e-3
"""Relative differences of answers of six digits, and of error bars of four, that another machine may make."""

_MAX_TOTAL_OFF = 8.0  # half-widths of its error bar that a total may be from what was measured

_MAX_COUNT_OFF = 8.0  # standard deviations that a synthetic table may be from what it was drawn from


@final
@dataclass(frozen=True)
class Check:
    """One thing that was looked at: whether it holds, None where that could not be told, and what was found."""

    name: str
    holds: bool | None
    found: str

    def __str__(self) -> str:
        said = {True: "holds", False: "DOES NOT HOLD", None: "not checked"}[self.holds]
        return f"{said}: {self.name}: {self.found}"


@final
@dataclass(frozen=True)
class Verification:
    """The result of `verify`: a list of checks; as text, one line for each.

    Parameters
    ----------
    checks
        What was found of each, in the order in which they were made.
    promise
        What the release says that it costs, of whom (a record, or a person with at most so many records), and which
        tables are compared, as plain types; None where it could not be read.

    Examples
    --------
    >>> print(Verification((Check("files", True, "4, all of the size and hash that the manifest says"),)))
    holds: files: 4, all of the size and hash that the manifest says
    """

    checks: tuple[Check, ...]
    promise: Mapping[str, Any] | None = None

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return all(check.holds is not False for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        listed = [{"check": c.name, "holds": c.holds, "found": c.found} for c in self.checks]
        return {"holds": self.holds, "promise": self.promise, "checks": listed}

    def __str__(self) -> str:
        return "\n".join(map(str, self.checks))


def verify(
    folder: str | os.PathLike[str],
    *,
    key: str | os.PathLike[str] | None = None,
    ledger: Mapping[str, Any] | None = None,
) -> Verification:
    """Check everything in a saved release that a third party can check.

    Parameters
    ----------
    folder : path
        Of the release.
    key : path, optional
        The holder's public key, PEM: then the release has to be signed by it.
    ledger : mapping, optional
        The public part of the holder's ledger, as `qrelease ledger show --json` prints it: then an entry has to name
        this release.

    Returns
    -------
    Verification
        What holds, what does not, and what could not be checked.

    Raises
    ------
    InvalidInput
        For a folder without a manifest, hashes that cannot be read, and a file that is no key; and without pyarrow for
        one with Parquet tables.
    TooLarge, OutOfMemory
        For a release that cannot be read on this machine although its hashes hold.

    Examples
    --------
    >>> import tempfile
    >>> import qrelease as qr
    >>> table = qr.data.adult(["sex", "income"])
    >>> with qr.Ledger.open(None, qr.PureDP(1.0)) as ledger, tempfile.TemporaryDirectory() as folder:
    ...     workload = qr.Workload.marginals(table.domain, 2)
    ...     qr.Curator(table, ledger).release(qr.Laplace(), workload, qr.PureDP(1.0)).save(f"{folder}/out")
    ...     qr.verify(f"{folder}/out").holds
    True
    """
    with (
        elapsed("checking the files") as at,
        np.errstate(all="ignore"),
    ):  # numbers of a forger may be as large as can be
        return _verified(Path(folder), key, ledger, at)


def _verified(
    place: Path, key: str | os.PathLike[str] | None, ledger: Mapping[str, Any] | None, at: Callable[[str], None]
) -> Verification:
    """The checks; `at` is told of those that take a while."""
    if not (place / MANIFEST).is_file():
        what = f"is a file: give the folder {place.parent}" if place.is_file() else f"has no {MANIFEST}"
        raise InvalidInput(f"{place} is no folder of a release: it {what}")
    if any((place / f"{table}.parquet").is_file() for table in ("answers", "synthetic", NUMBERS_FILE)):
        check_format("parquet")  # for what cannot be read here is no forgery
    public = None if key is None else checksums.public_key(Path(key))
    named = checksums.read_hashes(place)
    checks = [*_files(place, named)]
    if public is not None:
        good = checksums.signed_by(place, public)
        checks.append(Check("signature", good, f"{checksums.SUMS} is {'' if good else 'not '}signed by this key"))
    elif (place / checksums.SIGNATURE).is_file():
        checks.append(Check("signature", None, "it is signed; give the holder's public key to check by whom"))
    else:
        checks.append(Check("signature", None, "it is not signed"))
    at("reading the release")
    try:
        release = read(place, checked=False)
    except BudgetExceeded as error:
        return Verification((*checks, Check("cost", False, str(error))))
    except InvalidInput as error:
        return Verification((*checks, Check("manifest", False, str(error))))
    except QReleaseError as error:  # a universe that is too large, or the memory: which may be another's elsewhere
        if all(check.holds is not False for check in checks):
            raise
        return Verification((*checks, Check("manifest", False, str(error))))
    content = decode((place / MANIFEST).read_text(encoding="utf-8"))
    checks += [_id(content, release), *_said(content, release)]
    count = len(release.spends)
    comes = f"{count:,} part{'s come' if count != 1 else ' comes'} to at most {release.cost.rounded()}"
    checks.append(Check("cost", True, f"{comes}, of {promise.unit_in_words(release)}"))
    said = promise.to_json(release)
    at("checking the noise")
    separate = _separate(release)
    noise = _noise(release)
    checks += [_mechanism(release, str(content["synopsis"].get("type"))), noise, _total(release)]
    checks += [] if separate is None else [separate]
    if separate is not None and not release.measurements:  # what would follow from them, there is not
        return Verification(tuple(checks), said)
    if release.measured_sums is not None:
        at("checking the numbers")
        checks.append(_readable("numbers", lambda: _numbers(release, place)))
    at("checking the answers")
    checks.append(_readable("answers", lambda: _answers(release, place, named)))
    at("checking the synthetic records")
    checks += [_records(release, place), _readable("noise source", lambda: _noise_source(release, place, noise))]
    at("checking the page")
    checks += [_readable("page", lambda: _page(release, place))] if (place / REPORT).is_file() else []
    checks += [_readable("schema", lambda: _schema(release, place))] if (place / SCHEMA).is_file() else []
    if ledger is None:
        checks.append(Check("ledger", None, "no ledger was given, so whether the holder paid for this is not known"))
    else:
        at("checking the ledger")
        checks += _ledger(release, named, ledger)
    return Verification(tuple(checks), said)


def _files(folder: Path, named: Mapping[str, str] | None) -> Iterator[Check]:
    content = (folder / MANIFEST).read_bytes()
    if named is None:
        earlier = b'"id": ' not in content[:4096]
        why = "a release of an earlier version has no hashes" if earlier else f"{checksums.SUMS} is missing"
        yield Check("files", None if earlier else False, why)
        return
    found = checksums.differences(folder, named)
    if MANIFEST not in named:
        found.append(f"{checksums.SUMS} does not name {MANIFEST}")
    yield Check("files", not found, "; ".join(found) or f"all {len(named)} are as {checksums.SUMS} says")
    others = sorted({file.name for file in folder.iterdir()} - {*named, checksums.SUMS, checksums.SIGNATURE})
    if others:
        yield Check("files", None, f"{', '.join(others)} did not come with the release")


def _id(content: Mapping[str, Any], release: Release) -> Check:
    if not release.id:
        return Check("id", None, "a release of an earlier version has none")
    made = "" if release.date is None else f", made on {release.date}"
    good = has_its_id(content, release)
    return Check(
        "id", good, f"{release.id}{made}" if good else "the manifest says something else than its id stands for"
    )


def _said(content: Mapping[str, Any], release: Release) -> Iterator[Check]:
    """Whether the manifest says anything that was not read: nobody checks that, and people may believe it."""
    read_all = {**manifest_of(release, ""), "id": release.id, "date": release.date}
    unit = read_all.get("unit")
    if content.get("unit") != unit:
        yield Check("manifest", False, "its field unit is not what follows from its domain and its cost")
    more = [p for p in _unread(content, read_all, "") if p not in ("synopsis", "arrays", "unit")]
    if more:
        yield Check("manifest", None, f"what it says in the field {more[0]!r} means nothing to this version")


def _unread(said: Any, known: Any, at: str) -> Iterator[str]:
    """The names of fields that are said and not known, with those that they are in."""
    if isinstance(said, Mapping) and isinstance(known, Mapping):
        for name, value in said.items():
            path = f"{at}.{name}" if at else name
            if name in known:
                yield from _unread(value, known[name], path)
            elif not (at.startswith("measurements") and name == "values"):
                yield path
    elif isinstance(said, list) and isinstance(known, list) and len(said) == len(known):
        for one, other in zip(said, known, strict=True):
            yield from _unread(one, other, at)


def _mechanism(release: Release, synopsis: str) -> Check:
    """Whether what was made is what a mechanism of that name makes."""
    name = (
        str(release.parameters.get("chosen", release.mechanism)) if release.mechanism == "auto" else release.mechanism
    )
    if name not in _MADE:
        return Check("mechanism", None, f"{name!r} is none that this version knows")
    kinds, needed, laws = _MADE[name]
    wrong = [f"it makes no synopsis of type {synopsis!r}"] if kinds and synopsis not in kinds else []
    if release.mechanism != "auto":
        missing = [p for p in needed if p not in release.parameters]
        wrong += [f"it has a parameter {p!r}" for p in missing]
        wrong += [f"it has no parameter {p!r}" for p in release.parameters if not needed and p not in _ALWAYS]
    drawn = sorted({m.noise.law for m in release.measurements})
    wrong += [f"it draws no noise of the {law} law" for law in drawn if laws and law not in laws]
    return Check("mechanism", not wrong, f"{name}: {wrong[0]}" if wrong else f"the release is one that {name} makes")


def _noise(release: Release) -> Check:
    """Whether each measurement has the noise that a part of the cost buys, under the neighbours that are named."""
    foreign = foreign_spends(release)
    try:
        with_sums, apart = _by_payer(release)
    except InvalidInput as error:
        return Check("noise", False, str(error))
    overdrawn = _overdrawn(release, with_sums)
    if overdrawn is not None:
        return Check("noise", False, overdrawn)
    unpaid = unpaid_measurements(release, apart) if apart else []
    if not unpaid:
        count = len(release.measurements)
        drawn = f"{count:,} measurement{'s have' if count != 1 else ' has'} the noise that the cost buys"
        return Check("noise", True, f"{drawn}, under {release.neighbours.value}")
    if foreign:
        what = foreign[0].what
        return Check("noise", None, f"{len(unpaid):,} measurements may be paid for by {what!r}, which is unknown")
    noise = unpaid[0].noise
    columns = release.domain.named(unpaid[0].group.axes)
    found = f"no part of the cost buys {noise.law} noise of scale {noise.scale:.6g} on {columns}"
    return Check("noise", False, f"{found} under {release.neighbours.value}")


def _by_payer(release: Release) -> tuple[Sequence[Measurement], Sequence[Measurement]]:
    """The counts that were measured with the sums, for one part of the cost, and the others; `InvalidInput`."""
    if release.mechanism != "sums":
        return (), release.measurements
    if release.parameters.get("mechanism") is None:
        return release.measurements, ()
    which = release.parameters.get(COUNTED_WITH_SUMS, [])
    places = range(len(release.measurements))
    if not isinstance(which, list) or not all(type(i) is int and i in places for i in which):
        raise InvalidInput(f"{COUNTED_WITH_SUMS} must be a list of numbers of measurements, got {which!r}")
    chosen = set(which)
    both: tuple[list[Measurement], list[Measurement]] = [], []
    for i, measured in enumerate(release.measurements):
        both[i not in chosen].append(measured)
    return both


def _overdrawn(release: Release, counts: Sequence[Measurement]) -> str | None:
    """What is wrong with the noise of the tables of sums, and of counts that were measured with them, if anything is.

    Each has the share of the privacy that its noise says; what one record can use of them is at most all of it.
    """
    wrong = _chosen_wrongly(release)
    if wrong is not None or (release.measured_sums is None and not counts):
        return wrong
    costs = [s.cost for s in release.spends if s.what.startswith(SUM)]
    if len(costs) != 1:
        return f"sums were measured, and {len(costs)} parts of the cost buy them"
    drawn = (
        []
        if release.measured_sums is None
        else list(zip(release.measured_sums.parts, release.measured_sums.measured, strict=True))
    )
    drawn += [(PlannedTable(Measure(), m.group, 1), m) for m in counts]
    again = [m for _, m in drawn if m.repeats != 1]
    if again:
        columns = release.domain.named(again[0].group.axes)
        return f"a table of sums is drawn once, and that on {columns} is said to be the mean of {again[0].repeats:,}"
    try:
        parts = [bought(part, m.noise, costs[0], release.unit.relation) for part, m in drawn]
    except InvalidInput as error:
        return str(error)
    used = privacy_used(release.domain, parts)
    if used > 1 + SAME:
        return f"{len(parts)} tables of sums have the noise of {float(used):.4g} times what their part of the cost buys"
    return None


def _chosen_wrongly(release: Release) -> str | None:
    """What of the choices of quantiles does not follow from what was paid for them, if anything does not."""
    paid = [s for s in release.spends if s.what.startswith(CHOOSE)]
    sums = release.measured_sums
    said: Any = release.parameters.get("chosen_quantiles")
    if sums is None or not sums.chosen:
        if said is not None:
            return "no quantile was chosen, and the parameters say that some were"
        return f"no quantile was chosen, and {len(paid)} parts of the cost buy choices" if paid else None
    try:
        cost, listed = cost_from_json(said["cost"]), [str(text) for text in said["questions"]]
    except (KeyError, TypeError, InvalidInput):
        return "quantiles were chosen, and the parameters do not say of which questions and for which cost"
    if not isinstance(cost, PureDP | ZCDP):
        return f"no choice of a quantile is bought by {cost}"
    # The parameters have the words that were asked in, the choices what these mean.
    asked = {text: str(NumericQuestion.parse(release.domain, text)) for text in sums.questions}
    if [asked.get(text) for text in listed] != [str(choices.question) for choices in sums.chosen]:
        chosen = "; ".join(str(choices.question) for choices in sums.chosen)
        return f"quantiles were chosen of {chosen}, and the parameters say of {'; '.join(listed)}"
    weights = said.get("weights", [1] * len(listed))  # equal, before they were told
    if not isinstance(weights, list) or len(weights) != len(listed) or not all(isinstance(w, int) for w in weights):
        return f"{len(listed)} questions' quantiles were chosen, and the weights of their shares are no such list"
    return contradiction(sums.chosen, cost, weights, paid, release.unit.relation)


def _total(release: Release) -> Check:
    """Whether the number of records is near what was measured of it, all together and by each measurement."""
    asked = Workload(release.domain, (RECORDS,))
    try:
        noisy, widths = (float(part[0]) for part in release.measured_bars(asked))
    except QReleaseError:
        noisy, widths = math.nan, math.nan
    total = release.synopsis.total
    if math.isnan(widths):
        return Check("total", None, f"the number of records, {total:,.0f}, was not measured")
    good = abs(total - max(noisy, 0.0)) <= _MAX_TOTAL_OFF * widths + 1
    measured = f"{noisy:,.1f} ± {widths:,.1f} were measured"
    if good:
        for m in release.measurements:
            one, half = (float(part[0]) for part in measured_answers(asked, [m]))
            if abs(total - max(one, 0.0)) > _MAX_TOTAL_OFF * half + 1:  # never where it does not count the records
                on = " * ".join(release.domain.names[a] for a in m.group.axes)
                good, measured = False, f"{one:,.1f} ± {half:,.1f} were measured{f' on {on}' if on else ''}"
                break
    return Check("total", good, f"it stands for {total:,.1f} records, and {measured}")


def _separate(release: Release) -> Check | None:
    """Whether separate answers are those that their measurements give; None where the answers come of a model."""
    if not isinstance(release.synopsis, Answers) or release.mechanism not in ("laplace", "gaussian"):
        return None
    if [m.group for m in release.measurements] != list(release.workload.groups):
        return Check("measurements", False, "they are not one of each group of queries")
    public = release.synopsis.total if release.unit.public_records else None
    same = processed(release.workload, release.measurements, public)
    good = np.allclose(release.synopsis.answer(release.workload), same.answer(release.workload), rtol=_CLOSE, atol=1e-6)
    good = good and math.isclose(release.synopsis.total, same.total, rel_tol=_CLOSE)
    return Check("measurements", bool(good), f"the answers are {'' if good else 'not '}what the measurements give")


def _answers(release: Release, folder: Path, named: Mapping[str, str] | None) -> Check:
    """Whether the file of answers has the answers that the manifest gives."""
    file = next((f for f in (folder / "answers.csv", folder / "answers.parquet") if f.is_file()), None)
    if file is None:
        few = named is None and len(release.workload) <= MAX_ANSWERS
        why = "there is no file of answers" + (", and mostly there is one" if few else "; the manifest gives each")
        return Check("answers", None, why)
    close = 1e-6 * max(1.0, release.synopsis.total)
    wanted = answer_rows(release)
    if file.suffix == ".parquet":
        from pyarrow import parquet

        table = parquet.read_table(file)
        found = iter([table.column_names, *map(list, zip(*(c.to_pylist() for c in table.columns), strict=True))])
        return _compared(file, found, wanted, close, earlier=not release.id)
    with file.open(encoding="utf-8", newline="") as lines:
        return _compared(file, csv.reader(lines), wanted, close, earlier=not release.id)


def _readable(name: str, look: Callable[[], Check]) -> Check:
    """What is found in a table; it does not hold where that cannot be read, for a forger writes what he likes."""
    try:
        return look()
    except (OSError, ValueError, csv.Error) as error:  # among them those of UTF-8 and of Parquet
        return Check(name, False, f"a file of the folder cannot be read: {type(error).__name__}")


def _numbers(release: Release, folder: Path) -> Check:
    """Whether the answers to questions about numbers are what the measured tables give."""
    file = next((f for f in (folder / f"{NUMBERS_FILE}.{kind}" for kind in get_args(Format)) if f.is_file()), None)
    if file is None:
        return Check("numbers", None, "there is no file of them; the manifest gives each")
    if file.suffix == ".parquet":
        return _typed_numbers(release, file)
    texts = (0, 1, len(COLUMNS) - 1)
    rows = 0
    with file.open(encoding="utf-8", newline="") as lines:
        found = csv.reader(lines)
        if next(found, None) != [*COLUMNS, *([INSECURE_MARK] if release.insecure else [])]:
            return Check("numbers", False, f"{file.name}: its columns are not those that the manifest gives")
        for rows, (one, other) in enumerate(zip_longest(found, number_rows(release), fillvalue=()), 1):
            size = min(len(one), len(other))
            alike = size == len(COLUMNS) and all(
                one[i] == other[i] if i in texts else _near(one[i], other[i]) for i in range(size)
            )
            if not alike:
                return Check("numbers", False, f"{file.name}, line {rows + 1}: it is not what the manifest gives")
    return Check("numbers", True, f"{file.name}: its {rows:,} lines are those that the manifest gives")


def _typed_numbers(release: Release, file: Path) -> Check:
    """The same of a Parquet file, by column."""
    from pyarrow import parquet

    found, wanted = parquet.read_table(file), as_arrow(number_columns(release))
    for name in wanted.column_names:
        one, other = ([] if name not in t.column_names else t[name].to_pylist() for t in (found, wanted))
        alike = len(one) == len(other) and all(
            _near(a, b) if isinstance(a, float) and isinstance(b, float) else a == b
            for a, b in zip(one, other, strict=True)
        )
        if not alike:
            return Check("numbers", False, f"{file.name}, column {name}: it is not what the manifest gives")
    return Check("numbers", True, f"{file.name}: its {len(found):,} lines are those that the manifest gives")


def _near(one: str | float, other: str | float) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=_BAR_CLOSE, abs_tol=_CLOSE)
    except ValueError:
        return False


def _compared(
    file: Path, found: Iterator[Sequence[object]], wanted: Iterator[Sequence[object]], close: float, *, earlier: bool
) -> Check:
    """Line by line; of an earlier version, which named its queries otherwise, the numbers that all versions write."""
    here, there = ([str(name) for name in next(rows, ())] for rows in (found, wanted))
    if here != there and not earlier:
        return Check("answers", False, f"{file.name}: its columns are not those that the manifest gives")
    names = [n for n in there if n in (NUMBERS[:3] if earlier else here)]
    places = [(name, here.index(name), there.index(name)) for name in names]
    rows = 0
    for rows, (one, other) in enumerate(zip_longest(found, wanted, fillvalue=()), 1):
        if len(one) != len(here) or len(other) != len(there):
            return Check("answers", False, f"{file.name}: it has not as many lines as the manifest gives")
        for name, i, j in places:
            ours, theirs = one[i], other[j]
            if not _same(name, ours, theirs, close):
                said = f"the manifest gives {theirs!s} and not {ours!s}"
                return Check("answers", False, f"{file.name}, line {rows + 1}, {name}: {said}")
    return Check("answers", True, f"{file.name}: its {rows:,} lines are those that the manifest gives")


def _same(name: str, one: object, other: object, close: float) -> bool:
    """Whether two fields are the same; numbers but for their last digits."""
    if str("" if one is None else one) == str("" if other is None else other):
        return True
    if name not in NUMBERS:
        return False
    try:
        return math.isclose(
            float(str(one)), float(str(other)), rel_tol=_BAR_CLOSE if name.endswith("_95") else _CLOSE, abs_tol=close
        )
    except ValueError:
        return False


def _records(release: Release, folder: Path) -> Check:
    """Whether the synthetic table is one that the synopsis may have given."""
    file = next((f for f in (folder / "synthetic.csv", folder / "synthetic.parquet") if f.is_file()), None)
    if file is None:
        return Check("synthetic records", None, "there is no table of them")
    try:
        table = Table.read(file, release.domain.of_rows)
    except QReleaseError as error:
        return Check("synthetic records", False, f"they are none of this universe: {error}")
    if _weighted(file):
        return Check("synthetic records", None, f"{len(table):,} weighted rows of this universe; the weights are free")
    n, total = len(table), release.synopsis.total
    if not n or not total > 0:
        return Check("synthetic records", None, f"there are {n}")
    for axis, (name, shares) in enumerate(zip(release.domain.names, _shares(release), strict=True)):
        expected = np.clip(shares, 0.0, 1.0)
        counts = np.bincount(table.columns[axis], minlength=len(expected))
        far = np.abs(counts - n * expected) - _MAX_COUNT_OFF * np.sqrt(n * expected * (1 - expected)) - _MAX_COUNT_OFF
        if (far > 0).any():
            label = told_apart(release.domain.attributes[axis])[int(far.argmax())]
            return Check("synthetic records", False, f"{name} = {label} is far from what the manifest gives")
    elsewhere = _elsewhere_in_bins(release, table)
    if elsewhere is not None:
        said = f"the values of {elsewhere} lie elsewhere in their bins than the manifest gives, by their mean"
        return Check("synthetic records", False, said)
    return Check("synthetic records", True, f"the columns of {n:,} records are distributed as the manifest gives")


def _elsewhere_in_bins(release: Release, table: Table) -> str | None:
    """The first column whose values have another mean than the bins of the records give it; None where there is none.

    Values lie in bins as the column says or, where sums were measured, so that these hold; before there was the second,
    it was the first for all.
    """
    domain, tilted = table.domain, {bins.axis: bins for bins in release.tilted_bins}
    for axis, (attribute, points) in enumerate(zip(domain, table.points or [None] * len(domain), strict=True)):
        if points is None or attribute.grid is None:
            continue
        ways = [TiltedBins(domain, axis, (0, attribute.grid.size - 1), (), ())]
        if axis in tilted:
            ways.append(tilted[axis])
        valued = table.columns[axis] < attribute.values
        if not any(_has_mean(bins, table, points, valued) for bins in ways):
            return attribute.name
    return None


def _has_mean(bins: TiltedBins, table: Table, points: npt.NDArray[Any], valued: npt.NDArray[np.bool_]) -> bool:
    """Whether the mean of records' values is what is said of them, but for their scatter."""
    grid = table.domain.attributes[bins.axis].grid
    assert grid is not None
    means, variances = bins.moments(table.columns)
    values = grid.values(np.clip(points[valued].astype(np.int64), *bins.clip))
    off = abs(float((values - means[valued]).sum()))
    reach = _MAX_COUNT_OFF * math.sqrt(float(variances[valued].sum())) + float(grid.step) * math.sqrt(len(values))
    return off <= reach + 1e-9 * float(np.abs(values).sum())


def _shares(release: Release) -> Iterator[Floats]:
    """What share of synthetic records should be in each cell of each column: by what they are drawn from."""
    synopsis = release.synopsis
    if isinstance(synopsis, Weighted):  # whose answers follow the measurements where its records miss them
        for codes, size in zip(synopsis.codes, release.domain.shape, strict=True):
            yield np.bincount(codes, synopsis.weights, size).astype(np.float64)
        return
    source = synopsis.histogram if isinstance(synopsis, Tabulated) else synopsis
    for name in release.domain.names:
        yield source.answer(Workload.marginals(release.domain, [[name]])) / source.total


def _weighted(file: Path) -> bool:
    return WEIGHT in header(file)


def _noise_source(release: Release, folder: Path, noise: Check) -> Check:
    """Whether the noise is said to be secret, and the tables say the same; nothing of noise that nothing paid for."""
    named = (folder / f"{table}.{kind}" for table in ("synthetic", "answers") for kind in get_args(Format))
    tables = [file for file in named if file.is_file()]
    marked = [file.name for file in tables if INSECURE_MARK in header(file)[-1:]]
    if release.insecure:
        return Check("noise source", False, "INSECURE: the noise did not come from the system's entropy")
    if marked and INSECURE_MARK not in release.domain.names:
        return Check("noise source", False, f"{marked[0]} is marked as insecure, and the manifest is not")
    if noise.holds is False:  # which the package did not draw
        said = "the system's entropy, by the manifest's word; not of noise that no part of the cost buys"
        return Check("noise source", None, said)
    return Check("noise source", True, "the system's entropy, by the manifest's word; nobody can check it afterwards")


def _page(release: Release, folder: Path) -> Check:
    """Whether the page for people is the one that is drawn of this release. Another version may draw it otherwise."""
    found = (folder / REPORT).read_text(encoding="utf-8")
    if found == html(release):
        return Check("page", True, f"{REPORT} is the one that is drawn of this manifest")
    return Check(
        "page", None, f"{REPORT} is not the one that this version draws of this manifest, which is what counts"
    )


def _schema(release: Release, folder: Path) -> Check:
    """Whether the completed schema is the one that is written of this release, as `_page` of the page."""
    if (folder / SCHEMA).read_text(encoding="utf-8") == schema_text(release):
        return Check("schema", True, f"{SCHEMA} is that of this manifest")
    return Check(
        "schema", None, f"{SCHEMA} is not the one that this version writes of this manifest, which is what counts"
    )


def _ledger(release: Release, named: Mapping[str, str] | None, ledger: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the holder's ledger names this release."""
    try:
        # Totals, sessions and releases of earlier versions have no id in the ledger: none of them names this one.
        entries = [e for e in ledger["entries"] if release.id and (e.get("release") or {}).get("release") == release.id]
        dataset, relation = ledger["dataset"], ledger["neighbours"]
        spent_of, overdrawn = _sums(ledger)
    except (KeyError, TypeError, AttributeError, ValueError, InvalidInput):
        raise InvalidInput("the ledger is none that `qrelease ledger show --json` prints") from None
    if not entries:
        yield Check("ledger", False, "no entry of the ledger names this release")
        return
    entry = entries[0]
    wrong = []
    if (dataset, relation) != (release.dataset, release.neighbours.value):
        wrong.append(f"it is the ledger of {dataset!r} under {relation}")
    person = release.domain.person
    unit = {"of": "record"} if person is None else {"of": "person", "column": person.column}
    if ledger.get("unit", unit) != unit:
        wrong.append(f"it is of another unit: {ledger['unit']}")
    kept = entry["release"].get("at_most", release.unit.at_most)
    if kept != release.unit.at_most:
        wrong.append(f"by the ledger at most {kept} records of each person were kept")
    if entry.get("cost") != release.cost.to_json():
        wrong.append(f"{entry.get('cost')} was charged")
    if str(entry.get("label", "")).partition(":")[0] != release.mechanism:
        wrong.append(f"it was charged for {entry.get('label')!r}")
    if entry["release"].get("date") != release.date:
        wrong.append(f"it was made on {entry['release'].get('date')}")
    paid = {e.get("number"): e.get("cost") for e in ledger["entries"] if learned_names(str(e.get("label", "")))}
    wrong += [
        f"its schema was learned for {part.cost}, and entry {part.entry} does not say so"
        for part in release.learned
        if paid.get(part.entry) != part.cost.to_json()
    ]
    files = entry["release"].get("files")
    if files is not None and files != named:
        wrong.append("the ledger names other files")
    wrong += overdrawn
    held = f"charged at {entry.get('time')}; {'its files too' if files else 'by its id alone'}; {spent_of}"
    yield Check("ledger", not wrong, "; ".join(wrong) or held)


def _sums(ledger: Mapping[str, Any]) -> tuple[str, list[str]]:
    """What was spent of what is promised in all, in words, and what of it cannot be.

    Sessions spend beside the charges, and charges in rho under a total in epsilon have no sum by themselves: so the
    charges that are in the terms of the total come to at most what was spent. What was spent is told to six digits.
    """
    total = cost_from_json(ledger.get("promised", ledger["total"]))
    spent = amount_from_json(ledger["spent"])
    most, gone = total.to_json(), {} if spent is None else spent.to_json()
    charges = [cost_from_json(e["cost"]).to_json() for e in ledger["entries"] if e["kind"] == "charge"]
    told = (
        f"in all {'nothing' if spent is None else spent.rounded()} was spent of the {total.rounded()} that is promised"
    )
    wrong = [
        f"its charges come to more {name} than the {gone.get(name, 0.0):g} that it says was spent"
        for name in most
        if float(sum(Fraction(c.get(name, 0.0)) for c in charges)) > gone.get(name, 0.0) * (1 + _ROUNDED)
    ]
    if any(value > most.get(name, 0.0) * (1 + _ROUNDED) for name, value in gone.items()):
        wrong.append(f"{told}, which is more")
    return told, wrong
