"""Objects that are handed over with a part of them changed, where a test needs one that fails or counts."""


class Instead:
    """An object, of which some things are others: a part that fails, is slow, or counts what is asked of it."""

    def __init__(self, instead_of, **others):
        self._instead_of = instead_of
        self.__dict__.update(others)

    def __getattr__(self, name):
        return getattr(self._instead_of, name)
