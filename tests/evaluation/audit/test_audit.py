"""The auditor: laws listed and compared, formulas, bounds that hold, any kind of transcript, replays."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import broken
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit import (
    Audit,
    Distribution,
    audit,
    audit_gaussian,
    audit_laplace,
    audit_sensitivity,
    compare,
    delta_between,
    enumerated,
    find_mechanism,
    gaussian_distribution,
    laplace_distribution,
    read_input,
    vectorised,
)
from qrelease.evaluation.audit.features import Reading, lowest_bit
from qrelease.evaluation.audit.verdict import bounds, clopper_pearson
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_laplace
from qrelease.privacy import ZCDP, ApproxDP, PureDP

ONE = PureDP(1.0)


def sampled(mechanism, first, second, claim, samples, seed=1):
    return audit(vectorised(mechanism), first, second, claim, samples=samples, entropy=Entropy.insecure(seed))


def laplace_count(answer, entropy, n, scale=1):
    return answer + discrete_laplace(Fraction(scale), n, entropy)


def coin(chance):
    return Distribution({1: chance, 0: 1 - chance})


# --- exact methods -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1, 5), 1.0, Fraction(22, 7), 100])
def test_discrete_laplace_spends_exactly_its_epsilon(scale):
    law = laplace_distribution(scale)
    for sensitivity in (1, 3):
        epsilon = float(sensitivity / Fraction(scale))
        moved = law.map(lambda y, s=sensitivity: y + s)
        found = compare(law, moved, PureDP(epsilon))
        assert found.epsilon == pytest.approx(epsilon)
        assert not found.convicted
        assert compare(law, moved, PureDP(epsilon * 0.999)).convicted
        low, high = delta_between(law, moved, epsilon)
        assert low == 0.0
        assert high <= 1e-11


def test_masses_are_right_however_much_of_a_law_is_left_out():
    for law in (laplace_distribution, gaussian_distribution):
        whole, part = law(4), law(4, missing=0.3)
        assert len(part.masses) < len(whole.masses)
        assert all(part.masses[y] == pytest.approx(whole.masses[y], rel=1e-12) for y in part.masses)
        assert not compare(part, whole, PureDP(1e-9)).convicted
        low, high = delta_between(part, whole, 0.0)
        assert low == 0.0
        assert high <= 0.31


def test_what_underflows_is_no_zero():
    # e^-1000 is below all floats, and yet this is 1000-DP.
    for scale in (Fraction(1, 1000), Fraction(1, 10**400)):
        law = laplace_distribution(scale)
        assert not compare(law, law.map(lambda y: y + 1), PureDP(1000.0)).convicted
    law = gaussian_distribution(Fraction(1, 10**4))
    assert not compare(law, law.map(lambda y: y + 1), ApproxDP(5300.0, 1e-9)).convicted
    assert gaussian_distribution(Fraction(1, 10**400)).masses == {0: 1.0}
    assert not audit_laplace(1000.0, 1.0, PureDP(1000.0)).convicted
    assert not audit_laplace(1e308, 5e-324, PureDP(1000.0)).convicted
    assert not audit_gaussian(60.0, 1.0, ApproxDP(2172.0, 1e-9)).convicted
    assert audit_laplace(700.0, 1.0, PureDP(699.0)).convicted
    assert audit_gaussian(1000.0, 1.0, ApproxDP(700.0, 0.5)).convicted


def test_an_enumeration_is_the_convolution_and_keeps_account_of_what_it_leaves_out():
    noise = laplace_distribution(Fraction(1, 2))

    def both(data, choices):
        return data + choices.draw(noise) + choices.draw(noise)

    found = enumerated(both, 5, least=1e-8)
    rates = math.exp(-2)
    # (1 - q)²/(1 + q)² Σ_a q^(|a| + |b - a|) by hand.
    expected = {y: math.tanh(1) ** 2 * rates**y * (y + (1 + rates**2) / (1 - rates**2)) for y in range(6)}
    for y, mass in expected.items():
        assert found.masses[5 + y] == pytest.approx(mass, abs=found.missing)
        assert found.masses[5 - y] == pytest.approx(mass, abs=found.missing)
    assert 1e-9 < found.missing < 1e-5
    assert math.fsum(found.masses.values()) + found.missing == pytest.approx(1, abs=1e-12)


def test_an_enumeration_follows_choices_that_depend_on_earlier_ones():
    def program(data, choices):
        if choices.draw(coin(0.25)):
            return "stop"
        return choices.draw(Distribution({"left": data, "right": 1 - data}))

    assert enumerated(program, 0.5).masses == {"stop": 0.25, "left": 0.375, "right": 0.375}
    assert enumerated(program, 0.0).masses == {"stop": 0.25, "right": 0.75}
    assert compare(enumerated(program, 0.5), enumerated(program, 0.0), ONE).event == "the output 'left'"


def test_outcomes_that_are_not_a_number_are_the_same_on_both_inputs():
    def program(data, choices):
        return tuple(np.array([np.nan if choices.draw(coin(0.5)) else 1.0, 2.0]).tolist())

    first, second = enumerated(program, 0), enumerated(program, 1)
    assert sorted(first.masses.values()) == [0.5, 0.5]
    for law in (second, second.map(lambda outcome: (outcome[0] * 1.0, outcome[1]))):
        assert compare(first, law, ONE).epsilon == 0.0
        assert delta_between(first, law, 0.0)[1] < 1e-11


def test_missing_mass_is_counted_against_a_conviction():
    sure, hidden = Distribution({"a": 0.5, "b": 0.5}), Distribution({"b": 0.9}, 0.1)
    found = compare(sure, hidden, ONE)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.1))
    assert found.favours == "first"
    assert found.epsilon == pytest.approx(math.log(5))
    low, high = delta_between(sure, hidden, 1.0)
    assert (low, high) == (pytest.approx(0.5 - math.e * 0.1), pytest.approx(0.5))
    assert low <= 0.5 - math.e * 0.1 < 0.5 <= high
    with pytest.raises(InvalidInput, match="epsilon must be from 0 to 700, got -1"):
        delta_between(sure, hidden, -1)


def test_laws_are_checked():
    with pytest.raises(InvalidInput, match=r"sum to 1, got 0\.5 with 0.25 missing"):
        Distribution({"a": 0.5}, 0.25)
    with pytest.raises(InvalidInput, match="must not be negative"):
        Distribution({"a": 1.5, "b": -0.5})
    with pytest.raises(InvalidInput, match="scale must be positive, got 0"):
        laplace_distribution(0)
    with pytest.raises(InvalidInput, match="missing must be in"):
        gaussian_distribution(1, missing=0.0)
    for text in ("x", None):
        with pytest.raises(InvalidInput, match="probabilities must be numbers"):
            Distribution({"a": text})
    for wide in (10**8, Fraction(10**400, 3)):
        for law in (laplace_distribution, gaussian_distribution):
            with pytest.raises(TooLarge, match="too large to be listed"):
                law(wide**2)
    for least, message in {0.0: "in", math.nan: "finite", True: "a number", 1e-301: "at least 1e-300"}.items():
        with pytest.raises(InvalidInput, match=f"least must be {message}.*, got"):
            enumerated(lambda data, choices: data, 0, least=least)
        with pytest.raises(InvalidInput, match=f"missing must be {message}.*, got"):
            laplace_distribution(1, missing=least)


@pytest.mark.parametrize("claim", [1.0, None, math.nan, True, "epsilon=1"])
def test_a_claim_must_be_a_cost_and_nothing_is_run_for_another(claim):
    def never(data, entropy):
        raise AssertionError

    law = coin(0.5)
    for judge in (
        lambda: audit(never, 0, 1, claim),
        lambda: compare(law, law, claim),
        lambda: audit_gaussian(1.0, 1.0, claim),
        lambda: audit_laplace(1.0, 1.0, claim),
    ):
        with pytest.raises(InvalidInput, match="the cost must be PureDP or ApproxDP or ZCDP, got"):
            judge()


def test_continuous_noise_is_judged_by_its_formula():
    assert audit_laplace(1.0, 0.5, PureDP(2.0)).epsilon == pytest.approx(2.0)
    assert not audit_laplace(1.0, 0.5, PureDP(2.0)).convicted
    assert audit_laplace(2.0, 1.0, PureDP(1.9)).convicted
    # δ(ε) = 1 - e^((ε - Δ/b)/2) [Balle & Wang 2018]: at ε = 1 and b = 1/2 it is 1 - e^(-1/2).
    assert not audit_laplace(1.0, 0.5, ApproxDP(1.0, -math.expm1(-0.5))).convicted
    assert audit_laplace(1.0, 0.5, ApproxDP(1.0, -math.expm1(-0.5) * 0.999)).convicted
    for epsilon, delta in ((0.1, 1e-9), (1.0, 1e-5), (8.0, 1e-3)):
        sigma = broken.right_sigma(epsilon, delta)
        found = audit_gaussian(3.0, 3 * sigma, ApproxDP(epsilon, delta))
        assert not found.convicted
        assert found.epsilon == pytest.approx(epsilon, rel=1e-6)
        assert audit_gaussian(3.0, 2.99 * sigma, ApproxDP(epsilon, delta)).convicted
    assert audit_gaussian(1.0, 2.0, ONE).convicted  # no Gaussian is pure
    assert audit_gaussian(1.0, 2.0, ZCDP(1 / 8)).rho == pytest.approx(1 / 8, rel=0.05)
    assert not audit_gaussian(1.0, 2.0, ZCDP(1 / 8)).convicted


# --- verdicts ----------------------------------------------------------------------------------------------------


def test_bounds_of_clopper_and_pearson_are_quantiles_of_the_beta_law_and_cover():
    counts = np.array([0, 1, 17, 999, 1000])
    low, high = clopper_pearson(counts, 1000, 0.005)
    assert low[1:] == pytest.approx(stats.beta.ppf(0.005, counts[1:], 1001 - counts[1:]))
    assert high[:-1] == pytest.approx(stats.beta.ppf(0.995, counts[:-1] + 1, 1000 - counts[:-1]))
    assert (low[0], high[-1]) == (0.0, 1.0)
    for chance in (0.001, 0.02, 0.5):
        every = np.arange(1001)
        mass = stats.binom.pmf(every, 1000, chance)
        below, above = clopper_pearson(every, 1000, 0.005)
        assert mass[below > chance].sum() <= 0.005
        assert mass[above < chance].sum() <= 0.005


def evidence(claim, low, high):
    return Audit(claim, "an event", "second", low, high, 0.99, 1000)


def test_evidence_is_read_in_the_currency_of_the_claim():
    assert evidence(ONE, 0.6, 0.1).epsilon == pytest.approx(math.log(6))
    assert evidence(ONE, 0.6, 0.1).delta == pytest.approx(0.6 - 0.1 * math.e)
    assert evidence(ApproxDP(1.0, 0.35), 0.6, 0.1).epsilon == pytest.approx(math.log(2.5))
    assert not evidence(ApproxDP(1.0, 0.35), 0.6, 0.1).convicted
    assert evidence(ApproxDP(1.0, 0.3), 0.6, 0.1).convicted
    assert evidence(ONE, 0.6, 0.0).epsilon == math.inf
    assert evidence(PureDP(1e4), 0.6, 0.0).delta == 0.6
    assert evidence(PureDP(1e4), 0.6, 1e-9).delta == 0.0
    assert evidence(PureDP(1e4), 0.6, 1e-305).delta == 0.0
    assert evidence(ApproxDP(1.0, 0.1), 0.05, 0.0).epsilon == 0.0
    assert evidence(ONE, 0.0, 0.0).bound == 0.0
    assert evidence(ONE, 0.2, 0.3).bound == 0.0
    assert evidence(ZCDP(1.0), 0.3, 0.0).bound == math.inf
    assert evidence(ZCDP(1.0), 1.0, 0.5).bound > 0
    # At α → 1 the divergence is that of Kullback and Leibler; larger orders can only add.
    kl = 0.6 * math.log(6) + 0.4 * math.log(0.4 / 0.9)
    assert evidence(ZCDP(1.0), 0.6, 0.1).bound >= kl * 0.98
    # ε-DP is ε²/2-zCDP: no pair of coins that is ε-close shows more.
    for epsilon in (0.1, 1.0, 3.0):
        p = math.exp(epsilon) / (math.exp(epsilon) + 1)
        assert evidence(ZCDP(1.0), p, 1 - p).bound <= epsilon**2 / 2
    many = bounds(ZCDP(1.0), np.array([0.6, 0.3]), np.array([0.1, 0.0]))
    assert many.tolist() == [evidence(ZCDP(1.0), 0.6, 0.1).bound, math.inf]


def test_a_verdict_reads_well():
    text = str(sampled(laplace_count, 0, 3, ONE, 10_000))
    first, second, third = text.splitlines()
    assert first.startswith("CONVICTED of claiming epsilon=1: epsilon is at least 2.")
    assert first.endswith("(confidence 0.99, 10,000 runs on each input)")
    assert second.startswith("  event: the output is at ")
    assert "input, at most 0." in third
    found = compare(coin(0.5), coin(0.5), ApproxDP(1.0, 1e-6))
    assert str(found).startswith(
        "acquitted of claiming epsilon=1, delta=1e-06: epsilon is at least 0 at delta=1e-06 (exact)"
    )
    assert compare(coin(0.5), coin(0.0), ONE).to_json()["bound"] == "inf"
    assert found.to_json()["claim"] == {"epsilon": 1.0, "delta": 1e-06}


# --- any mechanism -----------------------------------------------------------------------------------------------


def one(entropy):
    return int(discrete_laplace(Fraction(1), 1, entropy)[0])


@dataclass
class Noisy:
    """A transcript with fields."""

    label: str
    value: float


@pytest.mark.parametrize(
    "transcript",
    [
        lambda y: y,
        lambda y: (None, "a fixed word", y),
        lambda y: [y] * (3 + y % 2),
        lambda y: {"noisy": y},
        lambda y: Noisy("noisy", y),
        lambda y: ("below" if y < 0 else "above",),
        lambda y: np.array([[y, 2.5], [7, y * y]]),
        lambda y: np.array(y),
        lambda y: np.ma.masked_array([y, y], mask=[False, True]),
        lambda y: pl.DataFrame({"a": [y, 2], "b": ["x", None]}),
        lambda y: Decimal(y) / 7,
        lambda y: Fraction(y, 7),
        lambda y: y > 0,
    ],
    ids=lambda transcript: type(transcript(1)).__name__,
)
def test_any_kind_of_transcript_is_understood(transcript):
    def run(data, entropy):
        return transcript(data + one(entropy))

    found = audit(run, 0, 3, ONE, samples=4_000, entropy=Entropy.insecure(6))
    assert found.convicted
    assert "  event: " in str(found)
    assert not audit(run, 0, 1, ONE, samples=4_000, entropy=Entropy.insecure(6)).convicted


@pytest.mark.parametrize("transcript", [lambda y: object(), lambda y: {"a": [object()]}, lambda y: (y for _ in "a")])
def test_a_transcript_that_shows_its_address_only_is_refused(transcript):
    with pytest.raises(InvalidInput, match=r"must show what is in them, got a (object|generator) without repr"):
        audit(lambda data, entropy: transcript(data), 0, 1, ONE, samples=100)
    assert not audit(lambda data, entropy: "<a word at 0xff>", 0, 1, ONE, samples=100).convicted


def test_frames_of_many_runs_are_read_by_rows():
    def run(data, entropy, n):
        return pd.DataFrame({"a": data + discrete_laplace(Fraction(1), n, entropy), "b": 1})

    assert sampled(run, 0, 3, ONE, 4_000).convicted
    assert not sampled(run, 0, 1, ONE, 4_000).convicted


def test_events_are_told_in_words():
    def event(transcript, apart=3):
        def run(data, entropy):
            return transcript(data + one(entropy))

        return audit(run, 0, apart, ONE, samples=4_000, entropy=Entropy.insecure(6)).event

    assert event(lambda y: "below" if y < 2 else "above") in ("the output is 'below'", "the output is 'above'")
    assert event(lambda y: (5, None if y < 2 else "far")) in (
        "the number of missing values is at least 1",
        "the number of missing values is at most 0",
    )
    assert event(lambda y: y * y if y > 1 else 0).startswith("the output is ")
    assert event(lambda y: y // 2 % 2, apart=2) in ("the output is at least 1", "the output is at most 0")
    assert event(lambda y: (y, -y), apart=0).startswith("number ")


def test_an_audit_repeats_itself_under_one_seed_only():
    runs = [sampled(laplace_count, 0, 1, ONE, 5_000, seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert audit(vectorised(laplace_count), 0, 3, ONE, samples=5_000).convicted


def test_columns_are_numbers_lowest_bits_and_summaries():
    values = np.array([1.0, 0.75, -6.0, 2.0**-1074, 0.1, 0.0, np.inf, np.nan])
    assert lowest_bit(values)[:7].tolist() == [0, -2, 1, -1074, -55, -2000, -2000]
    assert math.isnan(lowest_bit(values)[7])
    rows = [(1, None, "x"), (2.5,), (math.inf, 3, "y")]
    reading = Reading.of(rows)
    columns = reading.columns(rows)
    assert columns.shape == (3, len(reading.names)) == (3, 3 + 1 + 5)
    assert columns[:, 3].tolist() == [3, 1, 3]
    assert np.isnan(columns[:, 1]).tolist() == [True, True, False]
    assert reading.columns([(1, 2, 3, 4, 5)]).shape == (1, 9)
    with pytest.raises(InvalidInput, match="must fit a float, got one of 1329 bits"):
        reading.columns([(10**400,)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 99}, "samples must be an integer of at least 100, got 99"),
        ({"samples": True}, "samples must be an integer of at least 100, got True"),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\), got 1.0"),
        ({"confidence": math.nan}, "confidence must be finite, got nan"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        audit(vectorised(laplace_count), 0, 1, ONE, **options)


def test_a_vectorised_mechanism_must_return_what_it_was_asked_for():
    with pytest.raises(InvalidInput, match="must return 25 transcripts, got 3"):
        audit(vectorised(lambda data, entropy, n: np.zeros(3)), 0, 1, ONE, samples=100)


def test_a_replay_needs_a_mechanism_that_draws_from_its_source_only_and_has_one_shape():
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidInput, match="must draw all its randomness from the entropy it is given"):
        audit_sensitivity(lambda data, entropy: rng.normal(), [(0, 1)], 1.0)
    with pytest.raises(InvalidInput, match=r"one shape to be compared, got \(1,\) and \(2,\)"):
        audit_sensitivity(lambda data, entropy: np.zeros(data), [(1, 2)], 1.0)


def test_replay_measures_in_both_norms():
    def noisy(data, entropy):
        return data + discrete_laplace(Fraction(10), 4, entropy)

    pair = np.zeros(4, int), np.array([3, 0, -4, 0])
    assert audit_sensitivity(noisy, [pair], 7).found == 7
    found = audit_sensitivity(noisy, [(pair[0], pair[0]), pair], 4.9, order=2)
    assert (found.found, found.pair, found.convicted) == (5, 1, True)


# --- the texts of a command line ---------------------------------------------------------------------------------


def test_a_mechanism_is_found_by_its_name_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "mechanisms_of_mine.py").write_text(
        "from qrelease.evaluation.audit import vectorised\n"
        "class Mine:\n"
        "    def leak(data, entropy):\n"
        "        return data\n"
        "leaks = vectorised(lambda data, entropy, n: [data] * n)\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere"])
    for name in ("mechanisms_of_mine:Mine.leak", "mechanisms_of_mine:leaks"):
        assert audit(find_mechanism(name), 0, 1, ONE, samples=200).convicted
    for name, message in {
        "mechanisms_of_mine": "named as module:function, got 'mechanisms_of_mine'",
        "no_such_module_here:f": "no_such_module_here cannot be imported: No module named",
        "mechanisms_of_mine:Mine.lean": "mechanisms_of_mine has no Mine.lean",
        "mechanisms_of_mine:number": "must be a function of data and entropy, got int",
    }.items():
        with pytest.raises(InvalidInput, match=message):
            find_mechanism(name)


def test_inputs_are_read_as_json():
    assert read_input("3") == 3
    assert read_input('{"age": [1]}') == {"age": [1]}
    assert read_input("[[1, 2], [3]]") == [[1, 2], [3]]
    assert read_input('["a", 1]') == ["a", 1]
    array = read_input("[0, 1.5]")
    assert isinstance(array, np.ndarray)
    assert array.tolist() == [0, 1.5]
    with pytest.raises(InvalidInput, match="an input must be JSON, got 'x'"):
        read_input("x")
