"""Where a warning is said to come from."""

from qrelease._util import callers


def test_the_level_is_that_of_the_first_caller_outside_of_the_package():
    def module(name, code):
        inside = {"__name__": name, "callers": callers}
        exec(code, inside)
        return inside

    inner = module("qrelease.inner", "def warn():\n    return callers.level()\n")
    outer = module("qrelease.outer", "def call(warn):\n    return warn()\n")
    alike = module("qrelease_of_another", "def call(warn):\n    return warn()\n")
    assert inner["warn"]() == 2  # the caller of the function that warns
    assert outer["call"](inner["warn"]) == 3
    assert alike["call"](inner["warn"]) == 2
