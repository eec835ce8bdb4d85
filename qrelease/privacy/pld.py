"""Numerical composition by privacy loss distributions, through the library dp-accounting (extra `pld`).

The distributions are rounded to the pessimistic side (Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022),
but their convolutions are floating-point Fourier transforms. Against exact Gaussian compositions these give
a δ too small by up to 1e-16 for each mechanism composed: 4e-12 for 100 000 of them. So 1e-15 for each, and
1e-13 for the rest, is kept of every δ, and a δ below twice that, or below 1e-12, is refused; `zcdp_epsilon`
and `gaussian_delta` have no such limit.
"""

from dataclasses import dataclass
from typing import Any, Self, TypeVar

from qrelease._util.validate import natural, positive, positive_probability, real
from qrelease.errors import InvalidInput
from qrelease.privacy.costs import ApproxDP, PureDP, check_cost

_MIN_DELTA, _ROUNDING, _ROUNDING_EACH = 1e-12, 1e-13, 1e-15
_MIN_RATIO, _LARGEST_RATIO = 1e-6, 10

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The privacy loss distribution of mechanisms fixed in advance; `InvalidInput` without the extra `pld`.

    `a + b` and `a * k` compose. Sensitivities are those of one number under the neighbouring relation in
    use; for the discrete noises it is a whole number, and a vector counts coordinate by coordinate. They are
    from 1e-6 to 10 times the scale of the noise, else `InvalidInput`.

    It is no cost: neither a ledger nor `Private.spend` takes it. What it comes to at some δ is one, as an `ApproxDP`.

    Examples
    --------
    Gaussian noise of σ = 10 on each of 50 counts that one record may all be in, beside what ρ says of the same:

    >>> loss = PrivacyLoss.gaussian(1, 10.0) * 50
    >>> print(ApproxDP(round(loss.epsilon(1e-6), 3), 1e-6))
    epsilon=3.308, delta=1e-06
    >>> from qrelease.privacy import gaussian_zcdp, zcdp_epsilon
    >>> round(zcdp_epsilon(50 * gaussian_zcdp(1, 10.0).rho, 1e-6), 3)
    3.542
    """

    _distribution: Any
    _mechanisms: int = 1

    @classmethod
    def gaussian(cls, sensitivity: float, sigma: float) -> Self:
        """Continuous Gaussian noise; for a vector, `sensitivity` in L2."""
        sensitivity, sigma = _apart(positive("sensitivity", sensitivity), "sigma", sigma)
        return cls(_library().from_gaussian_mechanism(sigma, sensitivity))

    @classmethod
    def discrete_gaussian(cls, sensitivity: int, sigma: float) -> Self:
        """Discrete Gaussian noise, P(y) ∝ exp(−y²/(2σ²)) on the integers."""
        sensitivity, sigma = _apart(natural("sensitivity", sensitivity), "sigma", sigma)
        return cls(_library().from_discrete_gaussian_mechanism(sigma, sensitivity, use_connect_dots=True))

    @classmethod
    def laplace(cls, sensitivity: float, scale: float) -> Self:
        """Continuous Laplace noise."""
        sensitivity, scale = _apart(positive("sensitivity", sensitivity), "scale", scale)
        return cls(_library().from_laplace_mechanism(scale, sensitivity))

    @classmethod
    def discrete_laplace(cls, sensitivity: int, scale: float) -> Self:
        """Discrete Laplace noise, P(y) ∝ exp(−|y|/scale) on the integers."""
        sensitivity, scale = _apart(natural("sensitivity", sensitivity), "scale", scale)
        return cls(_library().from_discrete_laplace_mechanism(1 / scale, sensitivity, use_connect_dots=True))

    @classmethod
    def of(cls, cost: PureDP | ApproxDP) -> Self:
        """Any mechanism of that cost: the worst of them."""
        check_cost(cost, PureDP, ApproxDP)
        library = _library()
        from dp_accounting.pld.common import DifferentialPrivacyParameters

        return cls(library.from_privacy_parameters(DifferentialPrivacyParameters(**cost.to_json())))

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        composed = self._distribution.compose(other._distribution)
        return PrivacyLoss(composed, self._mechanisms + other._mechanisms)

    def __mul__(self, k: int) -> "PrivacyLoss":
        return PrivacyLoss(self._distribution.self_compose(natural("k", k)), self._mechanisms * k)

    def epsilon(self, delta: float) -> float:
        """The ε of the whole at δ < 1; `InvalidInput` below 1e-12, and below 2e-15 for each mechanism composed."""
        if positive_probability("delta", delta) < self._least_delta:
            raise InvalidInput(f"delta must be at least {self._least_delta:.3g} in this composition, got {delta}")
        return float(self._distribution.get_epsilon_for_delta(delta - self._rounding))

    def delta(self, epsilon: float) -> float:
        """The δ of the whole at ε ≥ 0, never below what `epsilon` takes."""
        if real("epsilon", epsilon) < 0:
            raise InvalidInput(f"epsilon must not be negative, got {epsilon}")
        rounded_up = float(self._distribution.get_delta_for_epsilon(epsilon)) + self._rounding
        return min(1.0, max(rounded_up, self._least_delta))

    @property
    def _rounding(self) -> float:
        return _ROUNDING + _ROUNDING_EACH * self._mechanisms

    @property
    def _least_delta(self) -> float:
        return max(_MIN_DELTA, 2 * self._rounding)


def _apart(sensitivity: _Number, name: str, noise: float) -> tuple[_Number, float]:
    """Both, where the library's tables of losses can hold their ratio."""
    scale = positive(name, noise)
    if not _MIN_RATIO <= sensitivity / scale <= _LARGEST_RATIO:
        raise InvalidInput(
            f"sensitivity / {name} must be from {_MIN_RATIO} to {_LARGEST_RATIO}, got {sensitivity} / {scale}"
        )
    return sensitivity, scale


def _library() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        raise InvalidInput("numerical composition needs dp-accounting: pip install dp-accounting") from None
    return privacy_loss_distribution
