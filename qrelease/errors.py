"""What the package raises for a caller's mistake: one line that says what, got and allowed."""


class QReleaseError(Exception):
    """Base of every error that the caller can mend; the command line prints it as one line and exits with 2."""


class InvalidInput(QReleaseError, ValueError):  # noqa: N818  the name reads as the message does
    """An argument, a schema, a file or a value is not what it must be."""


class TooLarge(QReleaseError):  # noqa: N818
    """The work would never fit (memory, cells, nodes); raised before anything is allocated or charged.

    It follows from public sizes and from the limits of the machine alone, so it may decide what is in a release.
    """


class OutOfMemory(QReleaseError, MemoryError):  # noqa: N818
    """The work does not fit in the memory that is free now: for the data holder's eyes alone.

    A private table takes memory, record for record. So this is no `TooLarge`, which may decide what is in a release.
    Nothing but the end of the work may come of it.
    """


class BudgetExceeded(QReleaseError):  # noqa: N818
    """The privacy budget does not cover the request; the message names total, spent and requested."""


class LedgerError(QReleaseError):
    """The ledger file is missing, foreign, corrupt, or belongs to another dataset or neighbouring relation."""


class StreamHalted(QReleaseError):  # noqa: N818
    """A stream of queries was asked after its last positive answer, or in a process that did not open it."""


class RowsChangedWarning(UserWarning):
    """A ledger is charged for other records than before, under the same name: rightly, if they were brought up to date.

    It is for the data holder's eyes: it tells that something changed.
    """
