"""Which fields of what can be observed are noisy: the only ones that may tell neighbouring tables apart.

The list is of paths, each with a reason. A field that is on no entry has to be the same for neighbouring tables when
the noise is the same, so a new field is suspicious until somebody says here why it may differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from qrelease.privacy.costs import Neighbours

_BOTH_RELATIONS: Final = (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE)
_ADD_REMOVE: Final = (Neighbours.ADD_REMOVE,)
_COUNTING_MECHANISMS: Final = ("mwem", "maxent", "iterative", "smalldb", "auto", "numbers")
_MODELS: Final = ("maxent", "auto", "numbers")


@dataclass(frozen=True)
class Field:
    """Some fields that may differ between neighbouring tables.

    path        a pattern of paths, as `fnmatch` has them
    reason      which noise they hold, or what public thing that is not the table's they come from
    mechanisms  whose they are; empty for all
    neighbours  the relations under which they may differ: the number of records is public under replace-one
    appears     whether the field may also be there for one table and not for the other
    coarse      whether it has so few values that noise may leave it the same a few times in a row
    """

    path: str
    reason: str
    mechanisms: tuple[str, ...] = ()
    neighbours: tuple[Neighbours, ...] = _BOTH_RELATIONS
    appears: bool = False
    coarse: bool = False

    def allows(self, path: str, mechanism: str, neighbours: Neighbours) -> bool:
        """Whether a path is one of them."""
        mine = not self.mechanisms or mechanism in self.mechanisms
        return mine and neighbours in self.neighbours and fnmatchcase(path, self.path)


_MANIFEST: Final = (
    Field("measurements/*/values/*", "answers with noise"),
    Field("synopsis/total", "the number of records with noise", neighbours=_ADD_REMOVE),
    Field(
        "synopsis/values/*",
        "answers with noise, made consistent",
        ("laplace", "gaussian", "auto", "numbers", "score", "parent"),
    ),
    Field("synopsis/factors/*/logs/*", "fitted to answers with noise", ("mwem", "iterative")),
    Field("synopsis/histogram/total", "fitted to answers with noise", _MODELS, _ADD_REMOVE),
    Field("synopsis/histogram/factors/*/logs/*", "fitted to answers with noise", _MODELS),
    Field("synopsis/widths/*", "error bars of a model that is fitted to answers with noise", _MODELS),
    Field("synopsis/records/*", "fitted to answers with noise", ("records",), appears=True, coarse=True),
    Field("synopsis/weights/*", "fitted to answers with noise", ("records",), appears=True),
    Field("parameters/fitted rounds", "of the fit to answers with noise", ("records",), coarse=True),
    Field("synopsis/queries/*", "chosen with noise", ("iterative",), appears=True, coarse=True),
    Field("synopsis/coefficients/*", "of queries chosen with noise", ("iterative",), appears=True, coarse=True),
    Field("parameters/records", "the number of records with noise", _COUNTING_MECHANISMS, _ADD_REMOVE),
    Field("measurements/*/multiplier", "planned for a noisy number of records", ("maxent", "records"), _ADD_REMOVE),
    Field("measurements/*/noise/scale", "planned for a noisy number of records", ("maxent", "records"), _ADD_REMOVE),
    Field("parameters/error", "what the plan for a noisy number of records expects", ("maxent", "auto"), _ADD_REMOVE),
    Field("parameters/predicted_for", "the number of records with noise", ("auto",), _ADD_REMOVE, coarse=True),
    Field("parameters/predictions/*/error", "predicted for a noisy number of records", ("auto",), _ADD_REMOVE),
    Field("parameters/predictions/*/l1", "predicted for a noisy number of records", ("auto",), _ADD_REMOVE),
    Field("measurements/*", "chosen with noise, until that says so", ("mwem", "iterative"), appears=True, coarse=True),
    Field(
        "synopsis/factors/*",
        "of what was measured, chosen with noise",
        ("mwem", "iterative"),
        appears=True,
        coarse=True,
    ),
    Field("measurements/*", "planned for a noisy number of records", ("maxent",), _ADD_REMOVE, appears=True),
    Field("synopsis/measurements", "planned for a noisy number of records", ("maxent",), _ADD_REMOVE, appears=True),
    Field("synopsis/public", "planned for a noisy number of records", ("maxent",), _ADD_REMOVE, appears=True),
    Field("parameters/bound", "planned for a noisy number of records", ("maxent",), _ADD_REMOVE, appears=True),
    Field("spends/*", "planned for a noisy number of records", ("maxent",), _ADD_REMOVE, appears=True),
    Field("spends/*", "of rounds, until the noise says that it is enough", ("iterative",), appears=True),
    Field("synopsis/records/*", "a database chosen with noise", ("smalldb",), appears=True, coarse=True),
    Field("synopsis/weights/*", "its size, by a noisy number of records", ("smalldb",), _ADD_REMOVE, appears=True),
    Field("parameters/size", "planned for a noisy number of records", ("smalldb",), _ADD_REMOVE),
    Field("parameters/promise/error", "promised to a noisy number of records", ("smalldb",), _ADD_REMOVE),
    Field(
        "measurements/*",
        "selected with noise, round by round",
        ("records",),
        appears=True,
        coarse=True,
    ),
    Field("parameters/selected/*", "selected with noise", ("records",), appears=True, coarse=True),
    Field("spends/*", "of rounds, by what was measured with noise", ("records",), appears=True, coarse=True),
    Field("arrays", "the hash of numbers that are fitted to answers with noise", ("records",)),
    Field("numbers/tables/*/values/*", "sums with noise", ("numbers",)),
    Field("numbers/chosen/*/value/*", "chosen with noise", ("numbers",), coarse=True),
    Field("numbers/chosen/*/low/*", "chosen with noise", ("numbers",), coarse=True),
    Field("numbers/chosen/*/high/*", "chosen with noise", ("numbers",), coarse=True),
    Field("numbers/clip/*", "bounds learned with noise", ("numbers",), coarse=True),
    Field("numbers/tables/*/measure/high", "by bounds learned with noise", ("numbers",), coarse=True),
    Field("numbers/tables/*/noise/scale", "by bounds learned with noise", ("numbers",), coarse=True),
    Field("measurements/*/values/*", "as many as a schema learned with noise has", ("learned",), appears=True),
    Field("synopsis/values/*", "of a schema learned with noise", ("learned",), appears=True),
)

_BOTH: Final = tuple(
    replace(field, mechanisms=("both",)) for field in _MANIFEST if not field.mechanisms or "laplace" in field.mechanisms
)
"""Of either release of parents and children, by `laplace`."""

_LEARNED: Final = (
    Field("attribute/*/bins/*", "learned with noise", ("learn", "learned"), appears=True, coarse=True),
    Field("attribute/*/shape/*", "learned with noise", ("learn", "learned"), appears=True, coarse=True),
    Field("attribute/1/names", "whether a shape was learned, with noise", ("learn", "learned"), coarse=True),
    Field("attribute/*/categories/*", "learned with noise", ("learn", "learned"), appears=True, coarse=True),
)

_ESTIMATE: Final = (
    Field("value*", "the estimate, with noise", coarse=True),
    Field("interval*", "around the estimate", coarse=True),
    Field("measured/*/value*", "drawn with noise"),
    Field("choices/low", "a bound chosen with noise", coarse=True),
    Field("choices/high", "a bound chosen with noise", coarse=True),
    Field("choices/with_clipping/*", "by bounds and sums with noise", coarse=True),
    Field("choices/centre/*", "a sum with noise", coarse=True),
    Field("choices/radius*", "chosen with noise", coarse=True),
    Field("typical", "the error at what was measured with noise", coarse=True),
    Field("least_error", "for bounds and a number of records with noise", coarse=True),
    Field("promise", "for the number of records that was measured with noise", (), _ADD_REMOVE, coarse=True),
)

_SESSION_ESTIMATES: Final = tuple(
    replace(field, path=f"{at}/estimate/{field.path}", mechanisms=("online",))
    for at in ("session/*", "http/*v1 estimate/json")
    for field in _ESTIMATE
)
"""Of sessions, in Python and over HTTP."""

_SESSIONS: Final = (
    *_SESSION_ESTIMATES,
    Field("session/repr/0/numbers/*", "prices for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("session/*/error/0/numbers/*", "less prices for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("session/*/quote/error/0/numbers/*", "less prices for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("session/error/0/numbers/*", "a noisy number of records that is too small", ("online",), _ADD_REMOVE),
)

_HINT: Final = "told where noisy error bars are wider than a noisy number of records"

_HINTS: Final = tuple(
    Field(f"0 release/stdout/{path}", _HINT, mechanisms, appears=True, coarse=True)
    for line, mechanisms in (
        (3, ("laplace", "gaussian", "mwem", "maxent", "iterative", "smalldb", "numbers", "learned", "parent", "score")),
        (4, ("records", "auto", "matrix", "numbers")),
    )
    for path in (f"{line}", f"{line}/numbers/*", "length")
)
"""The last line of a release, after what is spent: of `records`, `auto` and `matrix` there is one more before it, and
of some questions about numbers one that says what synthetic records lack."""

_COMMANDS: Final = (
    *_HINTS,
    *(replace(field, path=f"learned.toml/{field.path}") for field in _LEARNED),
    *(replace(field, path=f"out.json/{field.path}", mechanisms=("estimate",)) for field in _ESTIMATE),
    *(replace(field, path=f"1 score/stdout/0/json/{field.path}", mechanisms=("score",)) for field in _ESTIMATE),
    Field("1 score/stdout/0/json/choices/worst*", "chosen with noise", ("score",), coarse=True),
    Field("1 score/stdout/0/json/measured/[46]/value", "chosen with noise", ("score",), coarse=True),
    # Each score is after the number of columns in its name, and before its bounds; then come the other figures.
    *(
        Field(f"{command} score/stderr/[01]/numbers/[1-9]*", "of synthetic records with noise", ("score",), coarse=True)
        for command in (1, 2)
    ),
    *(Field(f"2 score/stdout/{line}/numbers/[1-3]", "a figure with noise", ("score",)) for line in (2, 3)),
    *(
        Field(f"2 score/stdout/{line}", "chosen with noise, and spaces before noisy numbers", ("score",), coarse=True)
        for line in range(2, 11)
    ),
    *(
        Field(f"2 score/stdout/{line}/numbers/[0-2]", "a figure with noise", ("score",), coarse=True)
        for line in range(4, 11)
    ),
    Field("0 release/stdout/0/numbers/0", "queries over a schema learned with noise", ("learned",), coarse=True),
    Field("0 release/stdout/4/numbers/[0-2]", "noisy records of no learned category", ("learned",), coarse=True),
    Field("ledger/charges/2/1", "queries over a schema learned with noise", ("learned",), coarse=True),
    Field("0 release/stdout/1/numbers/[12]", "predicted for a noisy number of records", ("auto",), _ADD_REMOVE),
    Field("0 release/stdout/2/numbers/0", "how far records are from noisy answers that they fit", ("records",)),
)

_HTTP: Final = (
    Field("*/json/answers/*/value", "an answer with noise", ("online",)),
    Field("*/json/answers/*/error", "in proportion to the noisy number of records", ("online",), _ADD_REMOVE),
    Field("*/json/quotes/*/error", "for groups of a noisy number of records", ("online",), _ADD_REMOVE),
    Field("*/json/*/cost/*", "the price for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("*/json/*/takes/*", "the price for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("*/json/quotes/*/takes/*", "the price for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("*/json/*/spent/*", "prices for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("*/json/*/left/*", "the total, less prices for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("*v1 query/json/detail/0/numbers/*", "a price for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("*v1 batch/json/detail/0/numbers/*", "prices for a noisy number of records", ("online",), _ADD_REMOVE),
    Field(
        "*v1 estimate*/json/detail/0/numbers/*", "less prices for a noisy number of records", ("online",), _ADD_REMOVE
    ),
    Field("*most=*/json/detail/0/numbers/*", "the price for a noisy number of records", ("online",), _ADD_REMOVE),
    Field("*/json/rows/*", "drawn at random, from what is fitted to answers with noise", ("online",), coarse=True),
    Field("*/headers/content-length", "the length of the noisy numbers in it", ("online",)),
    Field("*/json/requests/*/time", "the clock", ("online",)),
)

NOISY_FIELDS: Final = (
    *(replace(field, path=f"release.json/{field.path}") for field in _MANIFEST),
    *(replace(field, path=f"release.json/domain/{field.path}") for field in _LEARNED),
    *(replace(field, path=f"{side}/release.json/{field.path}") for side in ("parents", "children") for field in _BOTH),
    *(replace(field, path=f"http/{field.path}") for field in _HTTP),
    *_COMMANDS,
    *_SESSIONS,
    Field("ledger/charges/*", "bought until the noisy count is precise", ("online",), _ADD_REMOVE, appears=True),
    Field("ledger/spent", "prices for a noisy number of records", ("online",), _ADD_REMOVE),
)
"""What may differ: in the folder of a release, in what other commands print and write, in the replies of a server."""


def allowed(path: str, mechanism: str, neighbours: Neighbours, *, alone: bool = False) -> Field | None:
    """The entry that says why a field may differ between neighbouring tables; None where there is none.

    alone   whether the field is there for one of the tables alone
    """
    found = (field for field in NOISY_FIELDS if field.allows(path, mechanism, neighbours))
    return next((field for field in found if field.appears or not alone), None)
