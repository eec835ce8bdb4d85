"""Hypothesis strategies for schemas: every kind of attribute, with labels that are hard to quote."""

from hypothesis import strategies as st

from qrelease.data.domain import Attribute, Domain

_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=6).filter(
    lambda t: t == t.strip()
)
_MARKS = st.lists(st.sampled_from(["", "?", "NA", "it's", "-"]), unique=True, max_size=2).map(tuple)


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    missing = draw(_MARKS)
    outside = draw(st.sampled_from(["error", "missing"])) if missing else "error"
    match draw(st.sampled_from(["coded", "category", "number", "integer", "date"])):
        case "coded":
            codes, ordered = draw(st.integers(1, 9)), draw(st.booleans())
            return Attribute(name, "coded", codes=codes, missing=missing, outside=outside, ordered=ordered)
        case "category":
            labels = draw(st.lists(_TEXT.filter(lambda t: t not in missing), unique=True, min_size=1, max_size=6))
            ordered = draw(st.booleans())
            return Attribute(name, "category", categories=labels, missing=missing, outside=outside, ordered=ordered)
        case "number":
            edge = st.floats(-1e6, 1e6, allow_subnormal=False)
            edges = sorted(draw(st.lists(edge, unique=True, min_size=2, max_size=6)))
            return Attribute(name, "number", edges=edges, missing=missing, outside=outside)
        case kind:
            days = sorted(draw(st.lists(st.integers(-20_000, 20_000), unique=True, min_size=2, max_size=6)))
            integer = kind == "integer"
            kind = "number" if integer else "date"
            return Attribute(name, kind, edges=days, missing=missing, outside=outside, integer=integer)


@st.composite
def domains(draw: st.DrawFn, most: int = 4) -> Domain:
    names = draw(st.lists(_TEXT, unique=True, min_size=1, max_size=most))
    return Domain(tuple(draw(attributes(name)) for name in names))
