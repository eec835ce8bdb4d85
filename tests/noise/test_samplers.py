"""The samplers: tables that enclose the true law, kernels that agree with exact arithmetic, draws of the stated law."""

import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import reference
from scipy import stats

from qrelease.errors import InvalidInput
from qrelease.noise import exact_cdfs
from qrelease.noise.distributions import MAX_SCALE, MAX_VARIANCE
from qrelease.noise.entropy import Entropy
from qrelease.noise.exact_reals import exp_negative, invert, uniform_below
from qrelease.noise.kernels import GAP
from qrelease.noise.samplers import (
    discrete_gaussian,
    discrete_laplace,
    draw,
    gaussian_sampler,
    geometric,
    laplace_sampler,
    rounded_gaussian,
    rounded_sampler,
)

SCALES = [Fraction(1, 5), Fraction(1), Fraction(22, 7), Fraction(100), Fraction(12345, 2), Fraction(10**6)]
SAMPLERS = {
    "laplace": discrete_laplace,
    "geometric": geometric,
    "gaussian": lambda scale, size, entropy: discrete_gaussian(scale**2, size, entropy),
    "rounded": lambda scale, size, entropy: rounded_gaussian(scale**2, size, entropy),
}
PREPARED = {
    "laplace": partial(laplace_sampler, signed=True),
    "geometric": partial(laplace_sampler, signed=False),
    "gaussian": lambda scale: gaussian_sampler(scale**2),
    "rounded": lambda scale: rounded_sampler(scale**2),
}


@dataclass
class Script:
    """A source that plays given words and counts those taken."""

    stock: list[int] = field(default_factory=list)
    taken: int = 0
    insecure_seed: int | None = 0

    def words(self, n: int) -> np.ndarray:
        self.taken += n
        played, self.stock = self.stock[:n], self.stock[n:]
        assert len(played) == n, "the script has run out"
        return np.array(played, dtype=np.uint64)


class Counting:
    """A source that counts the words taken."""

    def __init__(self, seed: int) -> None:
        self.entropy, self.taken = Entropy.insecure(seed), 0

    def words(self, n: int) -> np.ndarray:
        self.taken += n
        return self.entropy.words(n)


# --- the stated laws ---------------------------------------------------------------------------------------------


def survival(name: str, scale: float, at: np.ndarray) -> np.ndarray:
    """P(Y >= at), in floating point, for integers `at`."""
    if name == "geometric":
        return np.where(at <= 0, 1.0, np.exp(-at / scale))
    if name == "laplace":
        upper = np.exp(-np.abs(at) / scale) / (1 + np.exp(-1 / scale))
        return np.where(at > 0, upper, 1 - upper * np.where(at > 0, 1, np.exp(-1 / scale)))
    if name == "rounded" or scale > 50:  # Poisson summation: the discrete Gaussian differs by e^(-2π²σ²)
        return stats.norm.sf((at - 0.5) / scale)
    grid = np.arange(-2000, 2001)
    mass = np.exp(-(grid**2) / (2 * scale**2))
    return np.append(mass[::-1].cumsum()[::-1], 0)[np.clip(at + 2000, 0, 4001)] / mass.sum()


@dataclass(frozen=True)
class Cells:
    """How many of some draws fall between neighbouring cuts, which are integers."""

    cuts: np.ndarray
    observed: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray, bins: int = 60) -> "Cells":
        """About `bins` cells of the same probability, single integers where the law is coarse.

        Sorted draws are cut in no time, where each one by itself would be looked up among the cuts.
        """
        cuts = np.unique(np.quantile(draws[:100_000], np.linspace(0, 1, bins)).astype(np.int64))
        cuts = np.unique(np.concatenate([cuts, cuts + 1]))
        below = np.searchsorted(np.sort(draws), cuts, side="left")
        return cls(cuts, np.diff(below, prepend=0, append=draws.size))


def p_value(cells: Cells, name: str, scale: float) -> float:
    """Chi-square of the cells against the law."""
    above = survival(name, scale, cells.cuts)
    observed = cells.observed
    expected = observed.sum() * -np.diff(np.concatenate([[1.0], above, [0.0]]))
    # Cells too rare for the approximation are merged, into the rarest of the others if they still are too rare.
    order = np.argsort(expected)
    rare = max(1, int(np.searchsorted(expected[order].cumsum(), 8, side="right")) + 1)
    groups = np.maximum(np.arange(expected.size) - rare + 1, 0)
    observed, expected = (np.bincount(groups, weights=counts[order]) for counts in (observed, expected))
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(statistic, expected.size - 1))


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_have_the_law_and_a_scale_off_by_three_per_cent_would_show(name, scale):
    # A Gaussian of σ = 0.2 leaves zero once in 135 000 draws: it takes more of them to see anything.
    size = 20_000_000 if name in ("gaussian", "rounded") and scale < 1 else 1_000_000
    cells = Cells.of(SAMPLERS[name](scale, size, Entropy.insecure(11)))
    assert p_value(cells, name, float(scale)) > 1e-3
    assert p_value(cells, name, float(scale) * 1.03) < 1e-6
    assert p_value(cells, name, float(scale) / 1.03) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("scale", [Fraction(k, 7) ** 3 for k in (6, 9, 13, 29, 31, 36, 57, 140, 999)], ids=str)
@pytest.mark.parametrize("name", SAMPLERS)
def test_many_draws_have_the_law_and_a_scale_off_by_half_a_per_cent_would_show(name, scale):
    cells = Cells.of(SAMPLERS[name](scale, 10_000_000, Entropy.insecure(12)), bins=300)
    assert p_value(cells, name, float(scale)) > 1e-3
    assert p_value(cells, name, float(scale) * 1.005) < 1e-6


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(57, 2)], ids=str)
@pytest.mark.parametrize("name", ["laplace", "geometric", "gaussian"])
def test_draws_agree_with_the_reference_sampler(name, scale):
    bits = reference.Bits(Entropy.insecure(14))
    oracle = {
        "laplace": lambda: reference.discrete_laplace(scale, bits),
        "geometric": lambda: reference.geometric(scale, bits),
        "gaussian": lambda: reference.discrete_gaussian(scale**2, bits),
    }[name]
    slow = np.array([oracle() for _ in range(8_000)])
    assert p_value(Cells.of(slow, bins=20), name, float(scale)) > 1e-3
    assert two_sample(SAMPLERS[name](scale, 200_000, Entropy.insecure(15)), slow) > 1e-3
    assert two_sample(SAMPLERS[name](scale * Fraction(13, 10), 200_000, Entropy.insecure(15)), slow) < 1e-6


def two_sample(many: np.ndarray, few: np.ndarray) -> float:
    cuts = np.unique(np.quantile(many, np.linspace(0.02, 0.98, 20)).astype(np.int64))
    table = [np.bincount(np.searchsorted(cuts, d, side="right"), minlength=cuts.size + 1) for d in (many, few)]
    return float(stats.chi2_contingency(np.array(table)[:, np.add(*table) > 0]).pvalue)


# --- why they are exact ------------------------------------------------------------------------------------------


TABLE_SCALES = [Fraction(1, 100), Fraction(1, 10), Fraction(1, 3), 1, 2, 3, 7, 15, 30, 31, 32, 62, 63, 90, 126, 127]
TABLE_SCALES = [Fraction(s) for s in (*TABLE_SCALES, 128, 254, 255, 10**4, 10**12 + 7, 2**40)]


@pytest.mark.parametrize("scale", TABLE_SCALES, ids=str)
@pytest.mark.parametrize("name", PREPARED)
def test_tables_enclose_the_law_and_leave_its_tail_open(name, scale):
    sampler = PREPARED[name](scale)
    table, true = [int(t) for t in sampler.table], sampler.law(64)
    assert table[0] == 0
    assert table == sorted(table)
    assert len(table) <= 1024
    for t, (lo, hi) in zip(table[1:], true, strict=False):
        assert t <= lo
        assert hi <= t + int(GAP)
    # Whatever lies in or beyond the last cell is undecided.
    assert table[-1] + int(GAP) >= 2**64 - 1


@pytest.mark.parametrize("scale", TABLE_SCALES, ids=str)
@pytest.mark.parametrize("name", PREPARED)
def test_kernels_agree_with_exact_arithmetic_bit_for_bit(name, scale):
    sampler = PREPARED[name](scale)
    words = Entropy.insecure(16).words(400 * sampler.width).reshape(-1, sampler.width)
    out = np.empty(400, dtype=np.int64)
    row, filled = sampler.rows(words, 0, out, 0)
    assert row == 400
    exact = [sampler.resolve(row, Script()) for row in words.tolist()]
    assert [y for y in exact if y is not None] == out[:filled].tolist()


@pytest.mark.parametrize("scale", [Fraction(2, 3), Fraction(9), Fraction(500)], ids=str)
@pytest.mark.parametrize("name", PREPARED)
def test_a_word_at_a_threshold_is_undecided_and_the_next_bits_decide(name, scale):
    sampler = PREPARED[name](scale)
    v = next(v for v, (lo, _) in enumerate(sampler.law(64)) if lo > 2**63)
    edge = sampler.law(128)[v][0]
    first, second = divmod(edge, 2**64)
    rest = [1 << 63, 0][: sampler.width - 1]
    out = np.empty(1, dtype=np.int64)
    for step in (-1000, 0, 1, int(GAP) // 4):
        row = np.array([[first + step, *rest]], dtype=np.uint64)
        assert sampler.rows(row, 0, out, 0) == (0, 0)
    values = []
    for more in (second - 1, second + 2):
        script = Script([more])
        values.append(invert(sampler.law, first, 64, script))
        assert script.taken == 1
    assert values == [v, v + 1]


@pytest.mark.parametrize("scale", [Fraction(s) for s in (33, 128, 129, 1000, 10**6 + 1, 2**40)], ids=str)
@pytest.mark.parametrize("name", PREPARED)
def test_the_kernels_bracket_the_true_chance_of_acceptance(name, scale):
    sampler = PREPARED[name](scale)
    if not sampler.layer:
        return
    law, rng, h = sampler.law(64), np.random.default_rng(22), Fraction(2) ** sampler.layer
    for _ in range(60):
        k = int(rng.integers(1, len(sampler.table) // 3))
        key = (law[k - 1][1] + law[k][0]) // 2
        u = 2**63 + int(rng.integers(2**63))
        low = h * Fraction(u, 2**64) if name == "rounded" else u >> (64 - sampler.layer)
        powers = (h * k + low, h * k) if name in ("laplace", "geometric") else ((h * k + low) ** 2, (h * k) ** 2)
        gamma = 1 / scale if name in ("laplace", "geometric") else 1 / (2 * scale**2)
        chance = exp_negative(gamma * (powers[0] - powers[1]), 63)[0]
        out = np.empty(1, dtype=np.int64)
        reached = [
            sampler.rows(np.array([[key, u, 2 * (chance + step)]], dtype=np.uint64), 0, out, 0)
            for step in (-(2**26), -1, 0, 1, 2**26)
        ]
        assert reached == [(1, 1), (0, 0), (0, 0), (0, 0), (1, 0)]


def test_an_undecided_comparison_draws_as_many_bits_as_it_takes():
    law = partial(exact_cdfs.coin, Fraction(1, 3))
    lo = law(640)[0][0]
    words = [(lo >> 64 * i) % 2**64 for i in reversed(range(10))]
    assert invert(law, words[0], 64, Script([*words[1:-1], words[-1] + 5])) == 1
    assert invert(law, words[0], 64, Script([*words[1:-1], words[-1] - 5])) == 0


def test_the_rounded_gaussian_refines_offset_and_coin_together():
    sampler = rounded_sampler(Fraction(100**2))
    k, u = 40, 3 << 62
    exponent = sampler.gamma * u * ((k << 65) + u) / (1 << 128)
    coin = exp_negative(exponent, 63)[0]
    key = (sampler.law(64)[k - 1][1] + sampler.law(64)[k][0]) // 2
    row = [key, u, coin << 1]
    assert sampler.rows(np.array([row], dtype=np.uint64), 0, np.empty(1, dtype=np.int64), 0) == (0, 0)
    assert sampler.resolve(row, Script([0, 0])) == 41
    assert sampler.resolve(row, Script([0, 2**64 - 1])) is None


def test_an_undecided_row_in_a_batch_is_resolved_and_the_batch_goes_on():
    sampler = laplace_sampler(Fraction(9), signed=True)
    words = Entropy.insecure(17).words(2 * 50).tolist()
    words[20:22] = [2**64 - 1, 1]
    words[40:42] = [sampler.law(64)[6][0], 0]
    # The first is far out in the tail; the second is at C_7 and goes above it.
    drawn = draw(sampler, 50, Script([*words, 5, 2**64 - 1]))
    assert drawn[10] < -9 * 44
    assert drawn[20] == 7
    script = Script([5, 2**64 - 1])
    assert drawn.tolist() == [sampler.resolve(words[i : i + 2], script) for i in range(0, 100, 2)]


def test_exact_arithmetic_alone_has_the_law():
    for name, scale in [("laplace", Fraction(40)), ("gaussian", Fraction(200)), ("rounded", Fraction(3))]:
        sampler, entropy = PREPARED[name](scale), Entropy.insecure(18)
        rows = entropy.words(12_000 * sampler.width).reshape(-1, sampler.width).tolist()
        draws = np.array([y for row in rows if (y := sampler.resolve(row, entropy)) is not None])
        cells = Cells.of(draws)
        assert p_value(cells, name, float(scale)) > 1e-3
        assert p_value(cells, name, float(scale) * 1.3) < 1e-6


class Huge:
    """A sampler that decides nothing and yields integers beyond int64."""

    width = 1

    def rows(self, words, row, out, filled):
        return row, filled

    def resolve(self, words, source):
        return 3 - (1 << 70) if words[0] % 2 else None if words[0] % 4 else 5


def test_draws_beyond_int64_are_kept_whole_and_reduced_modulo_2_to_the_64(monkeypatch):
    words = [1, 4, 2, 8, 3]
    drawn = draw(Huge(), 4, Script(words[:4] + words[4:]))
    assert drawn.tolist() == [3 - (1 << 70), 5, 5, 3 - (1 << 70)]
    monkeypatch.setattr("qrelease.noise.samplers.laplace_sampler", lambda scale, signed: Huge())
    assert discrete_laplace(1, 4, Script(words)).tolist() == [3, 5, 5, 3]


def test_uniform_integers_below_a_bound():
    entropy = Entropy.insecure(19)
    drawn = [uniform_below(6, word, entropy) for word in entropy.words(60_000).tolist()]
    counts = np.bincount(drawn, minlength=6)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert stats.chisquare(counts + np.array([700, -700, 0, 0, 0, 0])).pvalue < 1e-6
    assert uniform_below(3, 2**64 // 3, Script([2**64 // 3, 0])) == 0
    assert uniform_below(3, 2**64 // 3, Script([2**64 - 1])) == 1
    assert uniform_below(1, 2**64 - 1, Script()) == 0


# --- what leaks not, and what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(20), Fraction(5000)], ids=str)
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_words_consumed_do_not_tell_the_magnitude(name, scale):
    source = Counting(20)
    used, magnitude = np.empty(4000), np.empty(4000)
    for i in range(4000):
        before = source.taken
        magnitude[i] = np.abs(SAMPLERS[name](scale, 100, source)).mean()
        used[i] = source.taken - before
    if used.std():
        assert abs(np.corrcoef(used, magnitude)[0, 1]) <= 0.05
    # A sampler that takes one word more for every unit would be seen.
    assert np.corrcoef(used + 100 * magnitude, magnitude)[0, 1] > 0.5


BAD = {
    "positive": [0, -1, -0.5, Fraction(-1, 3), np.float64(-2), np.int64(0)],
    "finite": [math.nan, math.inf, -math.inf, np.float32("nan")],
    "number": [True, np.True_, "1", None, 1j, [1], np.array(1.0), Decimal(1)],
}


@pytest.mark.parametrize(("word", "value"), [(word, v) for word, values in BAD.items() for v in values], ids=repr)
@pytest.mark.parametrize("sampler", [discrete_laplace, geometric, discrete_gaussian, rounded_gaussian])
def test_a_bad_scale_is_one_clear_error_and_nothing_is_drawn(sampler, word, value):
    with pytest.raises(InvalidInput, match=f"(scale|variance) must be .*{word}.*, got") as error:
        sampler(value, 5, Script())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [-1, True, 1.0, "3", None, np.float64(2), np.True_])
@pytest.mark.parametrize("sampler", SAMPLERS.values())
def test_a_bad_size_is_refused(sampler, size):
    with pytest.raises(InvalidInput, match="size must be an integer of at least 0, got"):
        sampler(Fraction(3), size, Script())


def test_parameters_out_of_range_are_refused():
    for call, message in [
        (lambda: discrete_laplace(MAX_SCALE + 1, 1, Script()), r"scale must be at most 2\^50"),
        (lambda: geometric(2.0**51, 1, Script()), r"scale must be at most 2\^50"),
        (lambda: discrete_gaussian(MAX_VARIANCE * 2, 1, Script()), r"variance must be at most 2\^80"),
        (lambda: rounded_gaussian(Fraction(1, 2**81), 1, Script()), r"variance must be at least 2\^-80"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            call()


@pytest.mark.parametrize("sampler", SAMPLERS.values())
def test_honest_numbers_of_every_kind_are_taken(sampler):
    for three in (3, 3.0, Fraction(3), np.int32(3), np.float64(3), np.float32(3)):
        np.testing.assert_array_equal(
            sampler(three, np.int64(50), Entropy.insecure(1)), sampler(Fraction(3), 50, Entropy.insecure(1))
        )
    assert sampler(3, 0, Script()).shape == (0,)


def test_the_extremes_of_the_range():
    entropy = Entropy.insecure(21)
    for tiny in (Fraction(1, 10**400), 5e-324, Fraction(1, 300)):
        assert not discrete_laplace(tiny, 1000, entropy).any()
        assert not discrete_gaussian(tiny, 1000, entropy).any()
    wide = discrete_laplace(MAX_SCALE, 100_000, entropy).astype(float)
    assert np.abs(wide).mean() == pytest.approx(2.0**50, rel=0.02)
    for sampler in (discrete_gaussian, rounded_gaussian):
        assert sampler(MAX_VARIANCE, 100_000, entropy).astype(float).std() == pytest.approx(2.0**40, rel=0.01)
    assert not rounded_gaussian(Fraction(1, 2**80), 1000, entropy).any()
    odd = Fraction(3**300 + 1, 3**299)
    assert np.abs(discrete_laplace(odd, 100_000, entropy)).mean() == pytest.approx(2.95, rel=0.03)
