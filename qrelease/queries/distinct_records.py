"""The sensitivity to a person whose records differ in some columns, as a share of that for equal records.

Where a person has at most m records, answers A x to linear queries move by ‖Σ_r A e_r‖² <= m² a, if a is the squared
norm of what one record moves. Where any two of her records differ in the columns D (`distinct` in a schema, which holds
of the records that are kept), and all of D are among the columns of the queries, it is less:

- **All cells of a marginal.** Her records lie in different cells: m, in place of m².
- **Residuals of a set S.** Columns of the frame have products a·Π_{i∈T} (-1/(nᵢ-1)) for two records that differ in the
  columns T of S (`Residuals.sensitivity`). T has one of D. If |T| is odd that is negative, else at most a·κ,

      κ = max { 1/((nᵢ-1)(nⱼ-1)) : i ∈ D, j ∈ S, j ≠ i },    0 where S is one column.

  So ‖Σ_r F e_r‖² <= m a + m (m-1) κ a, a share of (1 + (m-1) κ)/m of m² a.

*Why the noise may be less, in whatever currency.* Mechanisms are given what may be spent on *one record* of m
(`privacy.unit`), and Gaussian noise is calibrated to √(Σ_g a_g s_g), where s_g is the share of group g, instead of to
√(Σ_g a_g). Take tables D₀ and D_m that differ by a person, and D_j without j of her records. Let the mechanism M_j
get, for each Gaussian draw, the answers v₀ + (j/m)(v_m - v₀), where v₀ and v_m are those of D₀ and D_m; and D_j for all
other draws. Then M₀ and M_m are the mechanism on the two tables. From M_j to M_{j+1} a Gaussian draw's answers move by
‖v_m - v₀‖/m <= √(Σ_g m² a_g s_g)/m, which is what its noise is for, and all other draws by one record. So each step
costs what one record may, by the same composition, and m steps what a person may. Where a person is replaced there are
2m steps, and ‖v_2m - v₀‖ <= √(Σ_g 4 m² a_g s_g), as each of the two persons moves by half of that at most.

The answers of M_j need not be whole numbers. Rounded normals do not ask for that: they are rounded after the noise.
Discrete Gaussian noise does, and is charged in ρ, where no steps are needed: v_m - v₀ is whole, and costs at most m² of
what one record's answers may, as m records do in all other draws. Where that ρ came of an (ε, δ), m² of it is no more
than what the whole (ε, δ) gives (compared on a grid in the tests).

Laplace noise goes by L1, which is m in any case, and gains nothing. (Other queries count as if nothing were known.)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from qrelease.queries.families import Cells, Queries, Residuals

if TYPE_CHECKING:
    from qrelease.data.domain import Domain


def share(domain: Domain, axes: Sequence[int], queries: Queries) -> Fraction:
    """s, of m² times what one record moves, squared: how far a person moves the queries of a group at most.

    Examples
    --------
    >>> from qrelease.data.domain import Domain
    >>> from qrelease.data.person import Person
    >>> person = Person("who", 4, distinct=("month",))
    >>> domain = Domain(Domain.coded({"month": 12, "ward": 5}).attributes, person=person)
    >>> share(domain, (0, 1), Cells(60)), share(domain, (1,), Cells(5)), share(domain, (0, 1), Residuals((12, 5)))
    (Fraction(1, 4), Fraction(1, 1), Fraction(47, 176))
    """
    most = domain.at_most
    if most is None or not domain.distinct or not set(domain.distinct) <= set(axes):
        return Fraction(1)
    if isinstance(queries, Cells):
        return Fraction(1, most)
    if isinstance(queries, Residuals):
        return (1 + (most - 1) * _largest_product(domain, axes)) / most
    return Fraction(1)


def _largest_product(domain: Domain, axes: Sequence[int]) -> Fraction:
    """κ, the largest product 1/((nᵢ - 1)(nⱼ - 1)) of a distinct column and another one."""
    pairs = ((i, j) for i in domain.distinct for j in axes if i != j)
    products = (Fraction(1, (domain.shape[i] - 1) * (domain.shape[j] - 1)) for i, j in pairs)
    return max(products, default=Fraction(0))
