"""A domain with columns of every kind, for conditions on them."""

from qrelease.data.domain import Attribute, Domain

DOMAIN = Domain(
    (
        Attribute("age", "number", edges=(0, 20, 30, 40, 41), integer=True, missing=("?",)),
        Attribute("income", "category", categories=("<=50K", ">50K", "it's")),
        Attribute("school", "category", categories=("none", "high", "college", "phd"), ordered=True),
        Attribute("share", "number", edges=(0, 0.25, 0.5, 1)),
        Attribute("day", "date", edges=(18262, 18293, 18322)),
        Attribute("getting in/out", "coded", codes=4, ordered=True, missing=("", "9")),
        Attribute("hours", "number", edges=(0, 20, 40, 100), integer=True, outside="clip"),
        Attribute("in", "category", categories=("a", "b", "c"), missing=("?",)),
    )
)
