"""What the package raises for a caller's mistake: one line that says what, got and allowed."""


class QReleaseError(Exception):
    """Base of every error that the caller can mend; the command line prints it as one line and exits with 2."""

    @property
    def public(self) -> str:
        """Its text, as far as everybody may read it."""
        return str(self)


class InvalidInput(QReleaseError, ValueError):  # noqa: N818  the name reads as the message does
    """An argument, a schema, a file or a value is not what it must be."""


class TooLarge(QReleaseError):  # noqa: N818
    """The work would not fit (memory, cells, nodes); raised before anything is allocated or charged.

    public  its text without what only the data holder may know, such as how much memory a private table leaves free
    """

    def __init__(self, text: str, public: str | None = None) -> None:
        super().__init__(text)
        self._public = text if public is None else public

    @property
    def public(self) -> str:
        """Its text, as far as everybody may read it."""
        return self._public


class BudgetExceeded(QReleaseError):  # noqa: N818
    """The privacy budget does not cover the request; the message names total, spent and requested."""


class LedgerError(QReleaseError):
    """The ledger file is missing, foreign, corrupt, or belongs to another dataset or neighbouring relation."""


class StreamHalted(QReleaseError):  # noqa: N818
    """A stream of queries was asked after its last positive answer, or in a process that did not open it."""
