# mypy: disallow-untyped-decorators=False
"""Numba loops over weighted records, and the moves of a Gibbs sampler: arrays in, arrays out, as in `kernels`.

Records are codes (d, n), a row a column of the universe. Tables lie one after another in a flat vector; the j-th, over
the columns axes[firsts[j]:firsts[j + 1]] with the given steps, begins at begins[j].
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease.data.marginals.kernels import _exp, _jit

Array = npt.NDArray[Any]

_MIN_LOGARITHM = np.float32(-80)  # below that, e^x is 0: what has the logarithm -∞ must never be drawn
_BLOCK = 1 << 12  # records whose codes and positions stay in a core's first two caches


@_jit
def spread(
    codes: Array, weights: Array, axes: Array, steps: Array, firsts: Array, begins: Array, tables: Array
) -> None:
    """Add the weight (n,) of each record to its cell in every table."""
    where = np.empty(_BLOCK, np.int64)
    for first in range(0, codes.shape[1], _BLOCK):
        weight = weights[first : first + _BLOCK]
        for j in range(begins.size):
            _places(codes, first, weight.size, axes, steps, firsts[j], firsts[j + 1], begins[j], where)
            for i in range(weight.size):
                tables[where[i]] += weight[i]


@_jit
def gather(codes: Array, tables: Array, axes: Array, steps: Array, firsts: Array, begins: Array, sums: Array) -> None:
    """Add to each record's sum (n,) what every table says at its cell: the adjoint of `spread`."""
    where = np.empty(_BLOCK, np.int64)
    for first in range(0, codes.shape[1], _BLOCK):
        part = sums[first : first + _BLOCK]
        for j in range(begins.size):
            _places(codes, first, part.size, axes, steps, firsts[j], firsts[j + 1], begins[j], where)
            for i in range(part.size):
                part[i] += tables[where[i]]


@_jit
def _places(
    codes: Array, first: int, count: int, axes: Array, steps: Array, low: int, high: int, begin: int, where: Array
) -> None:
    """Write where the records from the first on lie in one table."""
    where[:count] = begin
    for q in range(low, high):
        column, step = codes[axes[q]], steps[q]
        for i in range(count):
            where[i] += np.int64(column[first + i]) * step


@_jit
def redraw(
    codes: Array,
    column: int,
    size: int,
    axes: Array,
    steps: Array,
    firsts: Array,
    begins: Array,
    tables: Array,
    begin: int,
    end: int,
    seed: Any,
) -> None:
    """Draw one column of the records begin..end-1 anew, each from its distribution given the record's other columns.

    Its weights are e^(the sum of the tables, float32), in which this column is the last axis, `size` long, and `axes`
    are the other ones. The draw of a record depends on the seed and the record's number alone. What has no weight is
    never drawn: a record that has no other choice keeps what it has.
    """
    record, logs = np.empty(codes.shape[0], np.int64), np.empty(size, np.float32)
    for r in range(begin, end):
        for a in range(codes.shape[0]):
            record[a] = codes[a, r]
        logs[:] = 0
        _add_rows(record, axes, steps, firsts, begins, tables, logs)
        k = _draw(logs, _uniform(seed, r))
        if k >= 0:
            codes[column, r] = k


@_jit
def redraw_two(
    codes: Array,
    first: int,
    second: int,
    first_size: int,
    second_size: int,
    alone: Any,
    other: Any,
    together: Any,
    begin: int,
    end: int,
    seed: Any,
) -> None:
    """Draw two columns of the records begin..end-1 anew, together, given each record's other columns.

    The three kinds of tables hold the first column alone, the second alone, and both: each kind is axes, steps, firsts,
    begins and tables as `redraw` takes them, with the columns drawn last.
    """
    size = first_size * second_size
    record, logs = np.empty(codes.shape[0], np.int64), np.empty(size, np.float32)
    rows, columns = np.empty(first_size, np.float32), np.empty(second_size, np.float32)
    for r in range(begin, end):
        for a in range(codes.shape[0]):
            record[a] = codes[a, r]
        rows[:] = 0
        columns[:] = 0
        _add_rows(record, alone[0], alone[1], alone[2], alone[3], alone[4], rows)
        _add_rows(record, other[0], other[1], other[2], other[3], other[4], columns)
        for i in range(first_size):
            part = logs[i * second_size : (i + 1) * second_size]
            for k in range(second_size):
                part[k] = rows[i] + columns[k]
        _add_rows(record, together[0], together[1], together[2], together[3], together[4], logs)
        k = _draw(logs, _uniform(seed, r))
        if k >= 0:
            codes[first, r] = k // second_size
            codes[second, r] = k % second_size


@_jit
def _add_rows(
    record: Array, axes: Array, steps: Array, firsts: Array, begins: Array, tables: Array, logs: Array
) -> None:
    """Add to logs what each table says at a record's other columns."""
    for j in range(begins.size):
        at = begins[j]
        for q in range(firsts[j], firsts[j + 1]):
            at += record[axes[q]] * steps[q]
        row = tables[at : at + logs.size]
        for k in range(logs.size):
            logs[k] += row[k]


@_jit
def _draw(logs: Array, uniform: float) -> int:
    """An index drawn in proportion to e^logs, which is overwritten; -1 where all are -infinity."""
    most = logs[0]
    for k in range(logs.size):
        most = max(most, logs[k])
    if most == -np.inf:
        return -1
    total = np.float32(0)
    for k in range(logs.size):
        difference = logs[k] - most
        logs[k] = _exp(difference) if difference > _MIN_LOGARITHM else np.float32(0)
        total += logs[k]
    mark, k = np.float32(uniform) * total, 0
    while k < logs.size - 1:
        mark -= logs[k]
        if mark < 0:
            break
        k += 1
    while k > 0 and logs[k] == 0:  # the last ones: what rounding left of the mark is no part of them
        k -= 1
    return k


INNER = 3
"""Solutions of a table and of its columns, in turn, before the records are weighted by both."""


@_jit
def rake(
    codes: Array,
    weights: Array,
    total: float,
    axes: Array,
    steps: Array,
    firsts: Array,
    begins: Array,
    sizes: Array,
    mains: Array,
    classes: Array,
    class_begins: Array,
    target: Array,
    ridge: Array,
    theta: Array,
    unseen: Array,
    order: Array,
    gain: float,
    trust: float,
    longest: float,
    lowest: float,
    evenness: float,
) -> int:
    """Iterative proportional fitting with a ridge, of weighted records, in place: table by table, in the given order.

    The j-th table holds the cells begins[j]..begins[j + 1] - 1 of the flat vectors target, ridge, theta and unseen. A
    record is in the cell that its columns say; where class_begins[j] is not negative, `classes` from there on says
    which of the table's cells that is. Of each cell that holds a records, the change d of its theta solves

        a e^d + ridge (theta + d) = target.

    Where steps are whole, `trust` being 0, a table of several columns is solved in turn with the tables of these, which
    begin at `mains` (-1 for none) and have `sizes` cells: else cells that the ridge holds would keep the others from
    what is wanted of the columns, and the fit would zigzag between the two. Then theta is shifted so that the ridge
    pulls the table up as much as down: a constant says nothing of the records.

    weights   (n,) with sum 1, which `total` times is a number of records
    unseen    what a cell without records is taken to hold instead, which grows as theta does
    gain      the part of each change that is made, times n / (n + trust) where n records are in the cell
    longest   a change at most
    lowest    theta at least
    evenness  the effective number of records, over their number, at which it ends early

    Returns how many tables were fitted.
    """
    number = weights.size
    where, factors = np.empty(number, np.int32), np.empty(theta.size)
    held, own = np.empty(theta.size), np.empty(theta.size)
    for turn in range(order.size):
        j = order[turn]
        low, high, begin, end, mapped = firsts[j], firsts[j + 1], begins[j], begins[j + 1], class_begins[j]
        joint = trust == 0 and mapped < 0 and high - low > 1
        _locate(codes, axes, steps, low, high, begin, mapped, classes, where)
        held[begin:end] = 0
        for i in range(number):
            held[where[i]] += weights[i]
        for c in range(begin, end):
            held[c] *= total
            own[c] = 0
        for q in range(low, high):
            if mains[q] >= 0:
                own[mains[q] : mains[q] + sizes[q]] = 0
        for _ in range(INNER if joint else 1):
            for c in range(begin, end):
                inside = max(held[c], unseen[c]) * np.exp(own[c])
                if joint:
                    inside *= np.exp(_of_columns(own, c - begin, steps, low, high, mains, sizes))
                own[c] += _balanced(inside, ridge[c], target[c] - ridge[c] * (theta[c] + own[c]))
                if joint:  # what is not made of a change its columns are not to make up for
                    own[c] = min(max(own[c], -longest, lowest - theta[c]), longest)
            if joint:
                _change_columns(held, own, begin, end, steps, low, high, mains, sizes, target, ridge, theta)
        if joint:
            _move_columns(own, low, high, mains, sizes, gain, longest, theta)
        whole = 0.0
        for c in range(begin, end):
            trusted = held[c] / total * number + 0.5
            change = min(max(gain * own[c] * trusted / (trusted + trust), -longest, lowest - theta[c]), longest)
            theta[c] += change
            if held[c] < unseen[c]:
                unseen[c] *= np.exp(change)
            if joint:
                change += _of_columns(own, c - begin, steps, low, high, mains, sizes)
            factors[c] = np.exp(change)
            whole += held[c] * factors[c]
        for c in range(begin, end):
            factors[c] *= total / whole
        _centre(theta, ridge, begin, end)
        for i in range(number):
            weights[i] *= factors[where[i]]
        if evenness > 0:
            squares = 0.0
            for i in range(number):
                squares += weights[i] * weights[i]
            if evenness * number * squares > 1:
                return turn + 1
    return order.size


@_jit
def _locate(
    codes: Array,
    axes: Array,
    steps: Array,
    low: int,
    high: int,
    begin: int,
    mapped: int,
    classes: Array,
    where: Array,
) -> None:
    """Write in which cell of one table each record is; `mapped` is where its classes begin, or negative."""
    where[:] = begin if mapped < 0 else mapped
    for q in range(low, high):
        column, step = codes[axes[q]], np.int32(steps[q])
        for i in range(where.size):
            where[i] += np.int32(column[i]) * step
    if mapped >= 0:
        for i in range(where.size):
            where[i] = begin + classes[where[i]]


@_jit
def _of_columns(own: Array, cell: int, steps: Array, low: int, high: int, mains: Array, sizes: Array) -> float:
    """What the changes of a table's columns add in one of its cells."""
    added = 0.0
    for q in range(low, high):
        if mains[q] >= 0:
            added += own[mains[q] + cell // steps[q] % sizes[q]]
    return added


@_jit
def _change_columns(
    held: Array,
    own: Array,
    begin: int,
    end: int,
    steps: Array,
    low: int,
    high: int,
    mains: Array,
    sizes: Array,
    target: Array,
    ridge: Array,
    theta: Array,
) -> None:
    """Solve the tables of a table's columns, one after another, given the changes of its cells."""
    for q in range(low, high):
        if mains[q] >= 0:
            sums = np.zeros(sizes[q])
            for c in range(begin, end):
                if held[c] > 0:
                    change = own[c] + _of_columns(own, c - begin, steps, low, high, mains, sizes)
                    sums[(c - begin) // steps[q] % sizes[q]] += held[c] * np.exp(change)
            for v in range(sizes[q]):
                m = mains[q] + v
                if sums[v] > 0:
                    own[m] += _balanced(sums[v], ridge[m], target[m] - ridge[m] * (theta[m] + own[m]))


@_jit
def _move_columns(
    own: Array, low: int, high: int, mains: Array, sizes: Array, gain: float, longest: float, theta: Array
) -> None:
    """Make the changes of the tables of a table's columns."""
    for q in range(low, high):
        if mains[q] >= 0:
            for m in range(mains[q], mains[q] + sizes[q]):
                own[m] = min(max(gain * own[m], -longest), longest)
                theta[m] += own[m]


@_jit
def _centre(theta: Array, ridge: Array, begin: int, end: int) -> None:
    """Shift a table so that the ridge pulls it up as much as down."""
    pulled, stiffness = 0.0, 0.0
    for c in range(begin, end):
        pulled += ridge[c] * theta[c]
        stiffness += ridge[c]
    for c in range(begin, end):
        theta[c] -= pulled / stiffness


@_jit
def _balanced(held: float, ridge: float, wanted: float) -> float:
    """The d where held e^d + ridge d = wanted, by Newton's method from above, where the function is convex."""
    d = min(np.log(wanted / held), (wanted - held) / ridge) if wanted > held else (wanted - held) / (held + ridge)
    for _ in range(8):
        grown = held * np.exp(d)
        step = (grown + ridge * d - wanted) / (grown + ridge)
        d -= step
        if abs(step) < 1e-3:
            break
    return d


@_jit
def _uniform(seed: Any, number: int) -> float:
    """The number-th of a seed's sequence, in [0, 1): SplitMix64 (Steele, Lea & Flood 2014)."""
    z = np.uint64(seed) + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@_jit
def strength(
    values: Array, expected: Array, noise: float, typical: float, zeros: bool, zero: Array, known_share: float
) -> tuple[float, float]:
    """How strong the interactions on a marginal are, and which of its cells are empty, by expectation maximisation.

    A cell's measured number of records is taken to be normal: with probability 1 - π around what was expected of it,
    e, of variance noise + e + ω e², and with π around none, of variance noise. ω by the method of moments, weighted,
    with the typical ω for a prior. π is the share of empty cells among those of which it can be told, where e is some
    times the noise, less one cell: for among all marginals a few cells are far off by chance, each in another marginal.
    If it is known, it is `known_share`, else that is negative.

    Writes each cell's probability of being empty to `zero`, if zeros are looked for, and returns ω and π.
    """
    omega, share = typical, 0.3 if known_share < 0 else known_share
    zero[:] = 0
    for _ in range(_EM_ROUNDS):
        found, weight = 0.0, 1e-30
        empty, told = 0.0, 0.0
        for c in range(values.size):
            e = expected[c]
            variance = noise + e + omega * e * e
            off = values[c] - e
            if zeros:
                likelier = 0.5 * (values[c] ** 2 / noise - off * off / variance - np.log(variance / noise))
                zero[c] = share / (share + (1 - share) * np.exp(min(max(likelier, -50.0), 50.0)))
                if values[c] > _EMPTY_DEVIATIONS * np.sqrt(noise):
                    zero[c] = 0
                clear = e * e / (e * e + _CLEAR_DEVIATIONS**2 * noise)
                empty += clear * zero[c]
                told += clear
            known = (1 - zero[c]) * (e / variance) ** 2
            found += known * (off * off - noise - e)
            weight += known * e * e
        if known_share < 0:
            share = max(empty - _CHANCE_ZEROS, 0.0) / (told + _CHANCE_ZEROS)
        precision, believed = weight / 2, 1 / (4 * typical * typical)
        moment = max(found / weight, 0.0)
        omega = max((moment * precision + typical * believed) / (precision + believed), typical / 20)
    return omega, share


_EM_ROUNDS = 40
_EMPTY_DEVIATIONS = 2.5  # standard deviations of noise above which no cell is taken to be empty
_CLEAR_DEVIATIONS = 3.0  # standard deviations of noise, of records expected, that half tell whether a cell is empty
_CHANCE_ZEROS = 1.0  # cells of a marginal that may seem empty by chance


@_jit
def exchange(
    codes: Array, rows: Array, offered: Array, axes: Array, steps: Array, firsts: Array, begins: Array, errors: Array
) -> None:
    """Let each row, in turn, become the record that it is offered, in place, if marginals are nearer then.

    rows, offered  (rows,) indices of records (d, n)
    errors         (cells,) of all tables, how many rows too many are in each cell
    """
    here, there = np.empty(begins.size, np.int64), np.empty(begins.size, np.int64)
    for r in range(rows.size):
        old, new = rows[r], offered[r]
        gain = 0.0  # half of what the squares grow by
        for j in range(begins.size):
            x = y = begins[j]
            for q in range(firsts[j], firsts[j + 1]):
                x += np.int64(codes[axes[q], old]) * steps[q]
                y += np.int64(codes[axes[q], new]) * steps[q]
            here[j], there[j] = x, y
            if x != y:
                gain += errors[y] - errors[x] + 1.0
        if gain < 0:
            rows[r] = new
            for j in range(begins.size):
                errors[here[j]] -= 1.0
                errors[there[j]] += 1.0
