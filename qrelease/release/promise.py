"""What a release promises, in words: for the page, and as sentences for whoever has to answer for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from qrelease.mechanisms.predictions import explained
from qrelease.privacy.conversions import epsilon_told, guessing_chance, zcdp_epsilon
from qrelease.privacy.costs import WEAK_DELTA, WEAK_EPSILON, ZCDP, ApproxDP, Cost, Neighbours, PureDP
from qrelease.release.schema_cost import DELTA, cost_with_schema, learned_columns

if TYPE_CHECKING:
    from qrelease.release.release import Release


def in_words(release: Release) -> str:
    """The guarantee in two sentences (Dwork & Roth 2014, Def. 2.4; the odds), and what else has to be known of it."""
    one, all_others = unit_names(release)
    otherwise, doubt = otherwise_and_doubt(release)
    cost = cost_with_schema(release)
    if release.unit.at_most is not None:
        kept = f" Of each person {at_most(release)} records were kept, and all numbers are of "
        kept += "persons: each counts once." if release.unit.counts_once else "those that were kept, not of all."
    else:
        kept = ""
    insecure = (
        "Nothing is promised, as the noise came from an insecure seed. Of a secure release this would hold. "
        if release.insecure
        else ""
    )
    return (
        f"{insecure}Take any one {one}, and anything that somebody might conclude from this release: {otherwise}, the"
        f" probability that they conclude it would have been the same within a factor of {closeness(cost)},"
        f" whatever they know, whatever they compute, now and later. Somebody who knows {all_others}, and holds it for"
        f" a toss-up {doubt}, will be right about it with probability at most {odds(cost)} once they have seen"
        f" this release.{kept} {schema_in_words(release)} Other releases from the same records cost more: the ledger of"
        f" {release.dataset!r} adds them up, and its total is what is promised in all."
    )


def weakness(release: Release) -> list[str]:
    """That so large an ε or δ promises hardly anything, a sentence each; nothing of other costs."""
    cost = cost_with_schema(release)
    told, epsilon = [], epsilon_told(cost)
    if epsilon > WEAK_EPSILON:
        told.append(f"epsilon {epsilon:.6g} is above {WEAK_EPSILON:g}, and promises next to nothing to anybody")
    if isinstance(cost, ApproxDP) and cost.delta > WEAK_DELTA:
        told.append(
            f"delta {cost.delta:.6g} is above {WEAK_DELTA:g}: the promise may fail with this probability, which should"
            " be far below 1 / (number of people)"
        )
    return told


def ended_early(release: Release) -> list[str]:
    """That iterative construction ended long before its last round, and what it used of the cost; nothing of others.

    All that it says follows from the manifest: its measurements, `parameters` and `spends`.
    """
    most = release.parameters.get("rounds")
    if release.mechanism != "iterative" or not isinstance(most, int):
        return []
    counts, drawn = 1 if release.neighbours is Neighbours.ADD_REMOVE else 0, [_amount(s.cost) for s in release.spends]
    made = sum(m.repeats for m in release.measurements) - counts
    if not 0 < made < most:
        return []
    counting, rounds = sum(drawn[:counts]), sum(drawn[counts:])
    used = 100 * (counting + rounds) / (counting + rounds / made * most)
    is_unbounded = release.parameters.get("promise", {}).get("error") is None
    return [
        f"it ended after {made:,} of at most {most:,} rounds, because the model's answer was near the noisy one. It"
        f" used {used:.2g} % of its cost, all of which was charged{is_unbounded * ', and no bound on its error holds'}."
        f" The cost is divided among all {most:,} rounds, so each draw has much noise: a larger alpha divides it among"
        " fewer, and mwem uses all of it"
    ]


def _amount(cost: Cost) -> float:
    """The ρ of a draw, or its ε."""
    return cost.rho if isinstance(cost, ZCDP) else cost.epsilon


def unit_in_words(release: Release) -> str:
    """Who is protected, and which tables are compared, in a few words."""
    one, _ = unit_names(release)
    differ = "more or less" if release.neighbours is Neighbours.ADD_REMOVE else "replaced by another"
    kept = ""
    if is_person(release):
        made = release.unit.at_most is None
        kept = ", of whose records one was made" if made else f", of whom {at_most(release)} records were kept"
        kept += ", and who counts once" * release.unit.counts_once
    return f"one {one} {differ}{kept} ({release.neighbours.value})"


def made_by(release: Release) -> str:
    """The mechanism; and the one that answered the workload of counts, where numbers were measured beside it."""
    counts = release.parameters.get("counts_by")
    if counts is None:
        return release.mechanism
    chosen = release.parameters.get("chosen")
    return f"{release.mechanism}, counts by {counts}{f': {chosen}' if counts == 'auto' else ''}"


def chosen(release: Release, *, briefly: bool = True) -> list[str]:
    """What `Auto` took, and how far off it predicted the answers, in lines; nothing of a mechanism that was named.

    briefly  the line of the chosen one alone
    """
    if "predictions" not in release.parameters:
        return []
    of_counts = "counts: " if "counts_by" in release.parameters else ""
    return f"{of_counts}{explained(release.parameters, briefly=briefly)}".splitlines()


def to_json(release: Release) -> dict[str, Any]:
    """What a release costs, of whom, and which tables are compared, as plain types; m where some records were kept."""
    m = release.unit.at_most
    return {
        "cost": cost_with_schema(release).to_json(),
        "unit": {
            "of": unit_names(release)[0],
            **({} if m is None else {"at_most": m, "counts_once": release.unit.counts_once}),
        },
        "neighbours": release.neighbours.value,
    }


def schema_in_words(release: Release) -> str:
    """Whether the schema is counted: what of it was learned from the same records, as far as the release knows."""
    columns = ", ".join(learned_columns(release))
    if not columns:
        return (
            "That is of a schema from public knowledge: where bins or categories were learned from the same records,"
            " that was a charge of the same ledger, which comes on top."
        )
    said = f"The bins and categories of {columns} were learned from the same records"
    if not release.learned:
        return f"{said}, and that is counted here: one charge paid for both."
    costs = " and ".join(part.cost.rounded() for part in release.learned)
    return f"{said}, for {costs}, and that is counted here, beside the {release.cost.rounded()} of the release."


def is_person(release: Release) -> bool:
    """Whether the unit is a person."""
    return release.workload.domain.person is not None


def at_most(release: Release) -> str:
    """How many records of a person are in the release."""
    return "one, made of all of them" if release.unit.at_most is None else f"at most {release.unit.at_most:,}"


def unit_names(release: Release) -> tuple[str, str]:
    """What the unit is called, and all the others of it."""
    return ("person", "all records of the others") if is_person(release) else ("record", "every other record")


def otherwise_and_doubt(release: Release) -> tuple[str, str]:
    """What could have been otherwise of the unit, and what somebody may therefore be in doubt of."""
    one, _ = unit_names(release)
    if release.neighbours is Neighbours.ADD_REMOVE:
        return f"had that {one} not been in the table", "whether that one is there at all"
    return f"had that {one} said anything else", "which of two things that one says"


def odds(cost: Cost) -> str:
    """The best chance of who guesses, as a percentage, rounded up."""
    return f"{math.ceil(guessing_chance(cost) * 1000) / 10:.1f} %"


def closeness(cost: Cost) -> str:
    """Within which factor probabilities are the same."""
    match cost:
        case PureDP(epsilon) | ApproxDP(epsilon, 0.0):
            return factor(epsilon)
        case ApproxDP(epsilon, delta):
            return f"{factor(epsilon)}, give or take δ = {delta:g}"
        case ZCDP(rho):
            known = f"this is zero-concentrated privacy with ρ = {rho:g}"
            return f"{factor(zcdp_epsilon(rho, DELTA))}, give or take {DELTA:g} ({known})"


def factor(epsilon: float) -> str:
    """e^ε, rounded up."""
    if epsilon > 13:
        return f"10^{math.ceil(epsilon / math.log(10))}"
    digits = 2 if epsilon < 4 else 0
    return f"{math.ceil(math.exp(epsilon) * 10**digits) / 10**digits:,.{digits}f}"
