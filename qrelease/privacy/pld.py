"""Numerical composition by privacy loss distributions, through the library dp-accounting (extra `pld`).

The distributions are rounded to the pessimistic side (Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022),
but their convolutions are floating-point Fourier transforms, which err by some 1e-15 in δ. So 1e-13 of
every δ is kept for that, and δ below 1e-12 is refused; `zcdp_epsilon` and `gaussian_delta` have no such
limit.
"""

from dataclasses import dataclass
from typing import Any, Self

from qrelease.errors import InvalidInput
from qrelease.privacy.costs import ApproxDP, PureDP, check_cost, count, positive, positive_probability, real

_LEAST_DELTA, _ROUNDING = 1e-12, 1e-13


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The privacy loss distribution of mechanisms fixed in advance; `InvalidInput` without the extra `pld`.

    `a + b` and `a * k` compose. Sensitivities are those of one number under the neighbouring relation in
    use; for the discrete noises it is a whole number, and a vector counts coordinate by coordinate.
    """

    _distribution: Any

    @classmethod
    def gaussian(cls, sensitivity: float, sigma: float) -> Self:
        """Continuous Gaussian noise; for a vector, `sensitivity` in L2."""
        sensitivity, sigma = positive("sensitivity", sensitivity), positive("sigma", sigma)
        return cls(_library().from_gaussian_mechanism(sigma, sensitivity))

    @classmethod
    def discrete_gaussian(cls, sensitivity: int, sigma: float) -> Self:
        """Discrete Gaussian noise, P(y) ∝ exp(−y²/(2σ²)) on the integers."""
        sensitivity, sigma = count("sensitivity", sensitivity), positive("sigma", sigma)
        return cls(_library().from_discrete_gaussian_mechanism(sigma, sensitivity, use_connect_dots=True))

    @classmethod
    def laplace(cls, sensitivity: float, scale: float) -> Self:
        """Continuous Laplace noise."""
        sensitivity, scale = positive("sensitivity", sensitivity), positive("scale", scale)
        return cls(_library().from_laplace_mechanism(scale, sensitivity))

    @classmethod
    def discrete_laplace(cls, sensitivity: int, scale: float) -> Self:
        """Discrete Laplace noise, P(y) ∝ exp(−|y|/scale) on the integers."""
        sensitivity, rate = count("sensitivity", sensitivity), 1 / positive("scale", scale)
        return cls(_library().from_discrete_laplace_mechanism(rate, sensitivity, use_connect_dots=True))

    @classmethod
    def of(cls, cost: PureDP | ApproxDP) -> Self:
        """Any mechanism of that cost: the worst of them."""
        check_cost(cost, PureDP, ApproxDP)
        library = _library()
        from dp_accounting.pld.common import DifferentialPrivacyParameters

        return cls(library.from_privacy_parameters(DifferentialPrivacyParameters(**cost.to_json())))

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        return PrivacyLoss(self._distribution.compose(other._distribution))

    def __mul__(self, k: int) -> "PrivacyLoss":
        return PrivacyLoss(self._distribution.self_compose(count("k", k)))

    def epsilon(self, delta: float) -> float:
        """The ε of the whole at 1e-12 ≤ δ < 1."""
        if positive_probability("delta", delta) < _LEAST_DELTA:
            raise InvalidInput(f"delta must be at least {_LEAST_DELTA} in numerical composition, got {delta}")
        return float(self._distribution.get_epsilon_for_delta(delta - _ROUNDING))

    def delta(self, epsilon: float) -> float:
        """The δ of the whole at ε ≥ 0, never below 1e-12."""
        if real("epsilon", epsilon) < 0:
            raise InvalidInput(f"epsilon must not be negative, got {epsilon}")
        return min(1.0, max(float(self._distribution.get_delta_for_epsilon(epsilon)) + _ROUNDING, _LEAST_DELTA))


def _library() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        raise InvalidInput("numerical composition needs dp-accounting: pip install 'qrelease[pld]'") from None
    return privacy_loss_distribution
