"""Which categories of a column are steps of a scale that is often asked by, for a draft: a person confirms it.

The alphabet puts *agree* before *strongly disagree*, and Friday before Monday. `SCALES` has the common scales of
questionnaires, weekdays and months, in English and German; bands of numbers (`under 18`, `18-24`, `65+`) are ordered by
what they begin with. A column is of a scale only if all its categories are, each at a step of its own; answers such as
*don't know* stand apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

SCALES: Final = (
    # Agreement.
    "strongly disagree|completely disagree|totally disagree|fully disagree < disagree|mostly disagree"
    " < somewhat disagree|slightly disagree|tend to disagree|rather disagree"
    " < neither agree nor disagree|neither nor|neutral|undecided|unsure"
    " < somewhat agree|slightly agree|tend to agree|rather agree < agree|mostly agree"
    " < strongly agree|completely agree|totally agree|fully agree",
    "stimme überhaupt nicht zu|stimme gar nicht zu|lehne völlig ab|lehne voll und ganz ab < stimme nicht zu|lehne ab"
    " < stimme eher nicht zu|lehne eher ab < teils teils|weder noch|neutral|unentschieden|stimme teilweise zu"
    " < stimme eher zu < stimme zu < stimme voll zu|stimme voll und ganz zu|stimme völlig zu|stimme vollkommen zu",
    "trifft überhaupt nicht zu|trifft gar nicht zu < trifft nicht zu|trifft kaum zu < trifft eher nicht zu"
    " < teils teils|weder noch|neutral|trifft teilweise zu < trifft eher zu < trifft zu"
    " < trifft voll zu|trifft voll und ganz zu|trifft völlig zu|trifft genau zu",
    # Quality.
    "terrible|awful < very bad|very poor < bad|poor < rather bad|rather poor|below average"
    " < fair|average|okay|ok|acceptable|moderate|neutral|neither good nor bad < rather good|above average < good"
    " < very good < excellent|outstanding",
    "sehr schlecht < schlecht < eher schlecht < mittel|mittelmäßig|durchschnittlich|neutral|teils teils|weder noch"
    "|weder gut noch schlecht|befriedigend < eher gut < gut < sehr gut < ausgezeichnet|hervorragend|exzellent",
    "ungenügend < mangelhaft < ausreichend < befriedigend < gut < sehr gut",
    # Satisfaction.
    "very dissatisfied|very unsatisfied|completely dissatisfied < dissatisfied|unsatisfied"
    " < somewhat dissatisfied|slightly dissatisfied|rather dissatisfied"
    " < neither satisfied nor dissatisfied|neither nor|neutral"
    " < somewhat satisfied|slightly satisfied|rather satisfied < satisfied < very satisfied|completely satisfied",
    "sehr unzufrieden|völlig unzufrieden < unzufrieden < eher unzufrieden < teils teils|weder noch|neutral"
    " < eher zufrieden < zufrieden < sehr zufrieden|völlig zufrieden",
    # Frequency.
    "never < almost never|hardly ever|very rarely < rarely|seldom < occasionally|sometimes < often|frequently"
    " < very often|usually|mostly|most of the time < almost always|nearly always < always",
    "nie|niemals < fast nie|sehr selten < selten < gelegentlich|manchmal|ab und zu < oft|häufig"
    " < sehr oft|sehr häufig|meistens < fast immer < immer",
    "never < less than once a year < once a year|yearly|annually < quarterly < monthly|once a month"
    " < weekly|once a week < daily|every day < hourly",
    "nie|niemals < seltener < jährlich < vierteljährlich < monatlich < wöchentlich < täglich < stündlich",
    # Amount, size, likelihood, importance, ease, change.
    "none|no|zero < very low < low < rather low < medium|moderate|middle|average|normal < rather high < high"
    " < very high",
    "kein|keine|keiner < sehr niedrig|sehr gering < niedrig|gering < eher niedrig|eher gering"
    " < mittel|mäßig|durchschnittlich|normal < eher hoch < hoch < sehr hoch",
    "very small|tiny < small < medium|middle|average < large|big < very large|very big|huge",
    "sehr klein < klein < mittel|mittelgroß < groß < sehr groß",
    "not at all < a little|slightly|very little < somewhat|moderately < quite a bit|quite < a lot|very much|very"
    " < extremely|completely",
    "überhaupt nicht|gar nicht < wenig|ein wenig|kaum < mittelmäßig|teils teils|teilweise < ziemlich < sehr|stark"
    " < äußerst|völlig",
    "very unlikely|extremely unlikely < unlikely < somewhat unlikely|rather unlikely"
    " < neutral|neither likely nor unlikely < somewhat likely|rather likely < likely < very likely|extremely likely",
    "sehr unwahrscheinlich < unwahrscheinlich < eher unwahrscheinlich < neutral|teils teils < eher wahrscheinlich"
    " < wahrscheinlich < sehr wahrscheinlich",
    "not at all important < not important|unimportant < slightly important|of little importance|not very important"
    " < neutral|moderately important|somewhat important|fairly important < important < very important"
    " < extremely important",
    "überhaupt nicht wichtig|völlig unwichtig < sehr unwichtig < unwichtig|nicht wichtig"
    " < eher unwichtig|weniger wichtig < neutral|teils teils < eher wichtig < wichtig < sehr wichtig < äußerst wichtig",
    "very difficult|very hard < difficult|hard < somewhat difficult|rather difficult"
    " < neutral|neither easy nor difficult < somewhat easy|rather easy < easy < very easy",
    "sehr schwierig|sehr schwer < schwierig|schwer < eher schwierig|eher schwer < neutral|teils teils < eher leicht"
    "|eher einfach < leicht|einfach < sehr leicht|sehr einfach",
    "much worse < worse < somewhat worse|slightly worse < about the same|the same|same|unchanged|no change"
    " < somewhat better|slightly better < better < much better",
    "viel schlechter < schlechter < etwas schlechter < gleich|unverändert|gleich geblieben < etwas besser < besser"
    " < viel besser",
    # Weekdays and months.
    "monday|mon < tuesday|tue|tues < wednesday|wed < thursday|thu|thur|thurs < friday|fri < saturday|sat < sunday|sun",
    "montag|mo < dienstag|di < mittwoch|mi < donnerstag|do < freitag|fr < samstag|sonnabend|sa < sonntag|so",
    "january|jan < february|feb < march|mar < april|apr < may < june|jun < july|jul < august|aug"
    " < september|sep|sept < october|oct < november|nov < december|dec",
    "januar|jänner|jan < februar|feber|feb < märz|mrz|mär < april|apr < mai < juni|jun < juli|jul < august|aug"
    " < september|sep|sept < oktober|okt < november|nov < dezember|dez",
)
"""Steps from the least to the most, by <, each with its spellings, by |: two spellings of a step are not told apart, so
that a column that has both is of no scale."""

_UNANSWERED: Final = frozenset(
    {
        *("don't know", "dont know", "do not know", "not sure", "no answer", "no opinion", "not applicable", "refused"),
        *("prefer not to say", "prefer not to answer", "can't say", "cannot say", "n a", "unknown"),
        *("weiß nicht", "weiss nicht", "keine angabe", "keine antwort", "keine meinung", "nicht zutreffend", "k a"),
        *("entfällt", "unbekannt"),
    }
)
_THOUSANDS: Final = re.compile(r"[.,' ](?=\d{3}(?!\d))")
_MAX_TEXT: Final = 60  # characters of a category
_LEAST_STEPS: Final = 2
_LEAST_DAYS: Final = 4  # weekdays and months, which are short words that mean something else, too
_DAYS: Final = 4  # the last scales

_SEPARATORS: Final = re.compile(r"[\s_\-–/,.;:()]+")
_DIGITS: Final = r"\d[\d.,' ]*?"
_WORDS: Final = r"\s*(?:[a-zäöü€$£%]+\.?)?"
_BAND: Final = re.compile(
    r"(?P<below>(?:under|below|less than|up to|unter|bis|weniger als|<=?|≤)\s*)?"
    rf"[€$£]?\s*(?P<low>{_DIGITS}){_WORDS}"
    rf"(?:\s*(?:-|–|to|bis|\.\.)\s*(?:(?:under|below|unter)\s+)?[€$£]?\s*(?P<high>{_DIGITS}){_WORDS})?"
    r"(?P<above>\s*\+|\s*(?:and|or|und|oder) (?:over|older|above|more|mehr|älter|darüber))?",
    re.IGNORECASE,
)
"""A band of numbers: from one to another, below one, or from one on."""


@final
@dataclass(frozen=True)
class ScaleFound:
    """The categories of a column as a scale has them.

    ordered  from the least to the most
    apart    answers that are on no scale, such as *don't know*
    """

    ordered: tuple[str, ...]
    apart: tuple[str, ...]


def scale_of(categories: Collection[str]) -> ScaleFound | None:
    """The order of categories that are all of one common scale, or bands of numbers; None for any others.

    Parameters
    ----------
    categories
        The texts of a column.

    Examples
    --------
    >>> scale_of(["agree", "Strongly disagree", "neutral", "don't know"])
    ScaleFound(ordered=('Strongly disagree', 'neutral', 'agree'), apart=("don't know",))
    >>> scale_of(["18-24", "under 18", "100+", "25-99"]).ordered
    ('under 18', '18-24', '25-99', '100+')
    >>> scale_of(["agree", "perhaps"])
    """
    apart = sorted(filter(unanswered, categories))
    others = [text for text in categories if text not in apart]
    for number, steps in enumerate(_STEPS):
        places = [steps.get(_plain(text)) for text in others]
        least = _LEAST_DAYS if number >= len(_STEPS) - _DAYS else _LEAST_STEPS
        if None not in places and len(set(places)) == len(places) >= least:
            by_place = {steps[_plain(text)]: text for text in others}
            return ScaleFound(tuple(by_place[place] for place in sorted(by_place)), tuple(apart))
    bands = _bands(others)
    return None if bands is None else ScaleFound(bands, tuple(apart))


def unanswered(text: str) -> bool:
    """Whether a text says that there is no answer, as *don't know* and *k. A.* do.

    Examples
    --------
    >>> [unanswered(text) for text in ("Don’t know", "k.A.", "keine", "7")]
    [True, True, False, False]
    """
    return len(text) <= _MAX_TEXT and _plain(text) in _UNANSWERED_PLAIN


def _plain(text: str) -> str:
    return _SEPARATORS.sub(" ", text.casefold().replace("’", "'")).strip()


_STEPS: Final = tuple(
    {_plain(text): place for place, step in enumerate(scale.split(" < ")) for text in step.split("|")}
    for scale in SCALES
)
_UNANSWERED_PLAIN: Final = frozenset(map(_plain, _UNANSWERED))


def _bands(categories: Collection[str]) -> tuple[str, ...] | None:
    """Bands of numbers in their order, where all texts are numbers or bands that do not overlap; None for others."""
    found: list[tuple[float, float, str]] = []
    named = 0
    for text in categories:
        band = _BAND.fullmatch(text.strip()) if len(text) <= _MAX_TEXT else None
        if band is None:
            return None
        low = _value(band["low"])
        high = math.inf if band["above"] else low if band["high"] is None else _value(band["high"])
        if band["below"]:
            low = -math.inf
        if not low <= high:  # or one is no number
            return None
        named += bool(band["below"] or band["high"] or band["above"])
        found.append((low, high, text))
    found.sort()
    apart = all(a[0] < b[0] and a[1] <= b[0] for a, b in pairwise(found))
    return tuple(text for *_, text in found) if apart and named and len(found) >= _LEAST_STEPS else None


def _value(text: str) -> float:
    """A number in any way of writing, marks of thousands left out; NaN for none."""
    try:
        return float(_THOUSANDS.sub("", text.strip()).replace(",", "."))
    except ValueError:
        return math.nan
