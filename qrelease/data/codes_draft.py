"""Which columns seem to hold codes, as of municipalities or diagnoses, though they are spelled as numbers."""

from __future__ import annotations

import re
from typing import Final

MAX_CODES: Final = 1000
"""Different codes of a known kind that a draft lists, at most: there are public lists of them to compare with."""

MAX_OTHER_CODES: Final = 100
"""The same where the name says that they are codes, and not of what."""

_KNOWN: Final = re.compile(
    r"zip|zips|zipcodes?|plz|postleitzahl(en)?|postcodes?|postal|insee|ags|bfs|fips|lau\d?|nuts\d?|lsoa|msoa|nace|noga|naics|sbi"
    r"|isic|isco|icd\d*|icpc\d?|atc|drg|iso"
    r"|(municipality|municipalities|commune|comune|municipio|gemeente|gemeinde|kommune|kommun|kanton|canton|kreis|landkreis"
    r"|bezirk|bundesland|wijk|buurt|provincie|province|district|county|counties|region|regio|country|countries|land|state"
    r"|nationality|occupation|beruf|beroep|diagnosis|diagnose|branche|sector)"
    r"(codes?|nr|nummer|number|kz|kennziffer|schluessel|schlüssel|id)?",
)
_CODES: Final = re.compile(r"(?!(de|en)codes?$)\w*codes?")
_OTHERWISE: Final = frozenset(
    {
        *("count", "counts", "population", "size", "area", "share", "rate", "mean", "distance", "tax", "anzahl"),
        *("einwohner", "person", "patient", "client", "customer", "user", "member", "employee", "student", "pupil"),
        *("household", "access", "pin", "secret"),
    }
)
"""Words beside which the others name an amount, or whose number it is."""

_WORD: Final = re.compile(r"[^\W\d_]+\d*|\d+")
_CAMEL: Final = re.compile(r"(?<=[a-zäöüß])(?=[A-ZÄÖÜ])")


def codes_named(name: str) -> int:
    """How many codes a draft lists of a column whose name says that it holds codes; 0 for any other name.

    Examples
    --------
    >>> codes_named("GemeindeNr"), codes_named("product_code"), codes_named("income"), codes_named("zip population")
    (1000, 100, 0, 0)
    """
    words = {word.lower() for text in (name, _CAMEL.sub(" ", name)) for word in _WORD.findall(text)}
    if words & _OTHERWISE:
        return 0
    if any(_KNOWN.fullmatch(word) for word in words):
        return MAX_CODES
    return MAX_OTHER_CODES if any(_CODES.fullmatch(word) for word in words) else 0


def digits_of_codes(low: float, high: float) -> int:
    """How many digits whole numbers have, where all have the same and at least four, as codes do; else 0.

    Years have four, too, and are numbers.

    Examples
    --------
    >>> digits_of_codes(1001, 1420), digits_of_codes(1950, 2024), digits_of_codes(18, 99)
    (4, 0, 0)
    """
    if low < 1000 or (low >= 1800 and high <= 2200):
        return 0
    digits = len(f"{low:.0f}")
    return digits if len(f"{high:.0f}") == digits else 0
