"""Attacks on published answers and tables: what they recover, beside what may be known without them.

Not private: every attack is compared with the truth, for the data holder's eyes.

    publishers      ways to answer questions about subsets of people: exact, rounded, hidden, swapped, noisy, released
    reconstruction  the secret bits of all people, from sums over subsets
    census          the records of a block, from its cross-tables
    differencing    one person's bit from two questions; averages of repeated ones
    floating        a true answer from the low-order bits of floating-point noise
    games           the advantage of an attack, with bounds, beside what privacy allows
    scores          by which a record is told to be in, from marginals, models and synthetic records
    membership      the game of telling whether somebody's record is in, with the bound that privacy sets
    inference       a secret bit from all other columns, beside what the population alone tells
"""
