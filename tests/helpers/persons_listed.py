"""All tables of three persons with up to three records each, and the strongest evidence that neighbours give.

A mechanism's output depends on the kept records by their counts, so each pair of counts that neighbours come to is
enumerated once.
"""

from itertools import combinations_with_replacement, product

import numpy as np

from qrelease.data.table import Table
from qrelease.evaluation.audit import compare, enumerated
from qrelease.privacy import Neighbours

RECORDS = [own for k in range(4) for own in combinations_with_replacement((0, 1), k)]  # what a person may have: 10
TABLES = list(product(RECORDS, repeat=3))
KEYS = [bytes([k]) * 16 for k in range(3)]


def table_of(domain, owned):
    says = [cell for own in owned for cell in own]
    who = [f"p{person}" for person, own in enumerate(owned) for _ in own]
    return Table.of_persons(domain, [np.array(says, np.uint8)], who)


def counted(domain, bounded, sets=((0,),)):
    """The counts that each table comes to, by what its persons have; those of several sets one after another."""
    return {
        owned: tuple(np.concatenate(bounded(table_of(domain, owned)).counts(list(sets))).tolist()) for owned in TABLES
    }


def neighbours_of(owned, relation):
    """Without one person; or with another in the place of one, who may have nothing."""
    for person, own in enumerate(owned):
        for other in [()] if relation is Neighbours.ADD_REMOVE else RECORDS:
            if other != own:
                yield (*owned[:person], other, *owned[person + 1 :])


def pairs_of(counts, relation, same=False):
    """Counts that neighbouring tables come to, each unordered pair once.

    same  neighbours have as many persons, each with a record at least
    """
    owned = [a for a in TABLES if not same or all(a)]
    found = {
        tuple(sorted((counts[a], counts[b]))) for a in owned for b in neighbours_of(a, relation) if not same or all(b)
    }
    return sorted(pair for pair in found if pair[0] != pair[1])


def worst_of(run, pairs, claim):
    """The strongest evidence against a claim, over pairs of counts."""
    laws = {}

    def law(counts):
        if counts not in laws:
            laws[counts] = enumerated(run, counts, least=1e-10)
        return laws[counts]

    return max((compare(law(a), law(b), claim) for a, b in pairs), key=lambda audit: audit.bound)
